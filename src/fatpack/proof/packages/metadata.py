"""The files that describe a conda package, as a proof reads them: JSON, by Python's ``json``."""

from __future__ import annotations

import json

from fatpack.errors import BadValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    from fatpack.proof.ledger import DifferenceLog

    #: the SHA-256 of a file in hexadecimal digits, and its size in bytes
    PackageFiles: TypeAlias = tuple[str, int]

INDEX, PATHS = "info/index.json", "info/paths.json"
DESCRIPTION_NAMES = (INDEX, PATHS)


def compare_descriptions(
    texts: Mapping[str, tuple[bytes, bytes]],
    contents: Mapping[str, tuple[PackageFiles, PackageFiles]],
    ledger: DifferenceLog,
    chain: Sequence[str],
) -> tuple[str, str] | None:
    """Note differences between both descriptions, given what both packages hold by name.

    Returns what the packages are called, as both indexes say; None if there is none. Raises BadValue for JSON that no
    tool of conda writes.
    """
    parsed = {name: [_parsed(text, name, chain) for text in both] for name, both in texts.items()}
    for name in DESCRIPTION_NAMES:
        if name not in parsed:
            ledger.differ(name, expected="a file", found="none")
    if PATHS in parsed:
        _compare_paths(parsed[PATHS], contents, ledger)
    if INDEX not in parsed:
        return None
    old, new = parsed[INDEX]
    builds = str(old.pop("build", "")), str(new.pop("build", ""))
    ledger.same(f"{INDEX}: all but the build string", old, new)
    if builds[0] != builds[1] and not builds[1].endswith(f"_{builds[0]}"):
        ledger.differ(f"{INDEX}: build", expected=f"{builds[0]}, or a word and _ in front of it", found=builds[1])
    stems = [
        f"{part.get('name')}-{part.get('version')}-{build}" for part, build in zip((old, new), builds, strict=True)
    ]
    return stems[0], stems[1]


def _parsed(text: bytes, name: str, chain: Sequence[str]) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("a name is there twice")
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise BadValue(
            "the package describes itself wrongly", format="conda", field=f"{name}: {error}", chain=chain
        ) from error
    if not isinstance(value, dict):
        raise BadValue(
            "the package describes itself wrongly", format="conda", field=name, expected="a JSON object", chain=chain
        )
    return value


def _compare_paths(
    both: Sequence[dict[str, Any]], contents: Mapping[str, tuple[PackageFiles, PackageFiles]], ledger: DifferenceLog
) -> None:
    old, new = both
    lists = [_entries(part) for part in both]
    ledger.same(f"{PATHS}: all but the paths", {**old, "paths": None}, {**new, "paths": None})
    if not ledger.same(f"{PATHS}: paths", *([entry.get("_path") for entry in part] for part in lists)):
        return
    changed = {name: pair for name, pair in contents.items() if pair[0] != pair[1]}
    #: what links to changed libraries may be listed with: QUIRK(conda-build, rattler-build)
    targets = dict(changed.values())
    for was, now in zip(*lists, strict=True):
        name = str(now.get("_path"))
        if name in changed:
            expected = changed[name]
        elif was == now:
            continue
        elif now.get("path_type") == "softlink" and _stated(was) in targets:
            expected = _stated(was), targets[_stated(was)]
        else:
            expected = _stated(was), _stated(was)
        for content, entry in zip(expected, (was, now), strict=True):
            ledger.same(f"{PATHS}: {name}", content, _stated(entry))
        for entry in (was, now):
            entry["sha256"] = entry["size_in_bytes"] = None
        ledger.same(f"{PATHS}: {name}: all but digest and size", was, now)


def _entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    paths = document.get("paths")
    return [entry for entry in paths if isinstance(entry, dict)] if isinstance(paths, list) else []


def _stated(entry: Mapping[str, Any]) -> PackageFiles:
    size = entry.get("size_in_bytes")
    return str(entry.get("sha256")), size if isinstance(size, int) else -1
