"""Wheelhouses: the wheels of a folder that a lock names, slimmed into another folder with an index and a new lock.

Nothing is downloaded: pip and uv did that. pip and uv install from the result in three ways: ``--find-links DIR``,
``--index-url file:///…/DIR/simple`` (PEP 503, with hashes), and a server for ``DIR``, which may answer with
``index.json`` (PEP 691). Locks are ``requirements.txt`` of pip and uv, ``pylock.toml`` (PEP 751) and ``uv.lock``.
"""

from __future__ import annotations

import html
import json
import os
import re
from urllib.parse import quote, unquote, urlsplit

from fatpack.commands.slim.wheels import WheelContents
from fatpack.distributions import wheel_metadata
from fatpack.errors import UsageError
from fatpack.inputs.project_file import parse_toml
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import sha256_of_pieces
from fatpack.packages.wheel_names import split_wheel_name
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

#: LIMIT: bytes of a lock, which is read whole
_LARGEST = 64 << 20

#: the folder of the index, and the new lock, in a wheelhouse
INDEX, LOCK = "simple", "requirements.txt"


class Distribution(Record):
    """A wheel or an sdist in a folder: ``project`` is its name as indexes compare it, ``version`` as it is spelled."""

    path: str
    project: str
    version: str

    @property
    def name(self) -> str:
        """The file name."""
        return os.path.basename(self.path)

    @property
    def is_wheel(self) -> bool:
        """True for a wheel."""
        return self.path.endswith(".whl")


def parse_distribution(path: str) -> Distribution | None:
    """Return what a file is by its name; None for one that is neither a wheel nor an sdist."""
    utils = wheel_metadata.load_packaging("utils")
    name = os.path.basename(path)
    try:
        if name.endswith(".whl"):
            parts = split_wheel_name(name)
            if parts is None:
                return None
            project, version, _, _ = utils.parse_wheel_filename(parts.replace(label="").file_name)
        elif name.endswith((".tar.gz", ".zip")):
            project, version = utils.parse_sdist_filename(name)
        else:
            return None
    except (utils.InvalidWheelFilename, utils.InvalidSdistFilename):
        return None
    return Distribution(path, str(project), str(version))


def list_distributions(folder: str) -> list[Distribution]:
    """Return the wheels and sdists of a folder, by their names."""
    paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    return [found for path in paths if os.path.isfile(path) and (found := parse_distribution(path)) is not None]


# Locks: the requirements in a file, and the files of a folder that they mean.


class LockedRequirement(Record):
    """A requirement: ``project`` with ``extras`` and the versions of ``specifier``, a PEP 440 one, ``marker`` or "".

    ``hashes`` are the SHA-256 digests that its files may have, none for any. ``where`` is its place in a lock.
    """

    project: str
    extras: str
    specifier: str
    marker: str
    hashes: frozenset[str]
    where: str

    def takes(self, file: Distribution) -> bool:
        """Return whether a file is of the project and version."""
        specifiers = wheel_metadata.load_packaging("specifiers")
        version = wheel_metadata.load_packaging("version").Version(file.version)
        return file.project == self.project and specifiers.SpecifierSet(self.specifier).contains(version, True)

    @property
    def is_needed(self) -> bool:
        """True if the marker holds on this machine."""
        markers = wheel_metadata.load_packaging("markers")
        return not self.marker or bool(markers.Marker(self.marker).evaluate({"extra": ""}))


def read_lock(path: str) -> list[LockedRequirement]:
    """Return the requirements of a lock. Raises UsageError for a line that is none, and ``OSError``."""
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UsageError(f"{path} is no lock: it has more than {_LARGEST} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no lock: it is not UTF-8 ({error.reason})") from None
    if path.endswith((".toml", ".lock")) and re.search(r"(?m)^\[\[packages?\]\]", text):
        return list(_toml(path, text))
    return list(_requirements(path, text))


def _toml(path: str, text: str) -> Iterator[LockedRequirement]:
    """Yield the packages of a ``pylock.toml`` or ``uv.lock``; the project itself and folders have no files there."""
    data = parse_toml(text.encode(), path)
    for package in data.get("packages") or data.get("package") or ():
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        if not files or "version" not in package:
            continue
        hashes = set()
        for file in files:
            stated = file.get("hashes", {}).get("sha256") or str(file.get("hash", "")).removeprefix("sha256:")
            hashes.update([stated] if stated else [])
        where = f"{path}: {package['name']}"
        line = f"{package['name']}=={package['version']}"
        yield _parsed(f"{line} ; {package['marker']}" if package.get("marker") else line, hashes, where)


def _requirements(path: str, text: str) -> Iterator[LockedRequirement]:
    number, start, line = 0, 1, ""
    for part in [*text.splitlines(), ""]:
        number += 1
        part = re.sub(r"(^|\s)#.*$", "", part)  # noqa: PLW2901
        if part.endswith("\\"):
            line += part[:-1] + " "
            continue
        line, where, start, whole = "", f"{path}:{start}", number + 1, (line + part).strip()
        if not whole:
            continue
        if whole.startswith("-"):
            if whole.split()[0].partition("=")[0] in ("-r", "--requirement", "-e", "--editable"):
                raise UsageError(f"{where}: {whole} is not followed", hint="name that file with -r, too")
            continue  # an index, a constraint, an option: for those who download
        hashes = set(re.findall(r"--hash[= ]sha256:([0-9a-f]+)", whole))
        yield _parsed(re.split(r"\s--", whole)[0].strip(), hashes, where)


def _parsed(text: str, hashes: Iterable[str], where: str) -> LockedRequirement:
    requirements = wheel_metadata.load_packaging("requirements")
    try:
        found = requirements.Requirement(text)
    except requirements.InvalidRequirement as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{where}: {text[:80]!r} is no requirement: {first}", hint="write NAME==VERSION") from None
    specifier = str(found.specifier)
    if found.url:
        file = parse_distribution(unquote(urlsplit(found.url).path))
        specifier = f"=={file.version}" if file is not None else specifier
    utils = wheel_metadata.load_packaging("utils")
    extras = f"[{','.join(sorted(found.extras))}]" if found.extras else ""
    marker = str(found.marker) if found.marker else ""
    return LockedRequirement(utils.canonicalize_name(found.name), extras, specifier, marker, frozenset(hashes), where)


def choose_distributions(
    folder: str, requirements: Sequence[LockedRequirement] | None
) -> list[tuple[Distribution, LockedRequirement | None]]:
    """Return the files of a folder that requirements mean, each with the first that does; without a lock all of them.

    Raises UsageError for a requirement without file, and for a file with another digest than the lock says.
    """
    files = list_distributions(folder)
    if requirements is None:
        if not files:
            raise UsageError(f"{folder} has no wheels", hint=f"pip download torch -d {folder}")
        return [(file, None) for file in files]
    chosen: dict[str, tuple[Distribution, LockedRequirement | None]] = {}
    digests: dict[str, str] = {}
    for one in requirements:
        candidates = [file for file in files if one.takes(file)]
        found = []
        for file in candidates:
            if one.hashes and file.path not in digests:
                with open_source(file.path) as source:
                    digests[file.path] = sha256_of_pieces([source.view()]).hex()
            if not one.hashes or digests[file.path] in one.hashes:
                found.append(file)
        if not found and candidates:
            raise UsageError(
                f"{one.where}: {candidates[0].path} has another SHA-256 than the lock says",
                hint="remove the file, and download it again",
            )
        if not found and one.is_needed:
            lock = one.where.rpartition(":")[0]
            raise UsageError(
                f"{one.where}: {folder} has no file of {one.project}{one.specifier}",
                hint=f"pip download --no-deps -r {lock} -d {folder}",
            )
        for file in found:
            chosen.setdefault(file.path, (file, one))
    return list(chosen.values())


# The index and the lock of a wheelhouse.


class IndexedFile(Record):
    """A file of an index: its SHA-256 in hexadecimal, size in bytes, and the versions of Python that it is for."""

    file: Distribution
    sha256: str
    size: int
    requires_python: str


def write_index(folder: str) -> list[IndexedFile]:
    """Write the index of all wheels and sdists in a folder into ``simple``; return them."""
    files = [_indexed(file) for file in list_distributions(folder)]
    projects = sorted({one.file.project for one in files})
    root = os.path.join(folder, INDEX)
    links = "".join(f'    <a href="{project}/">{project}</a><br>\n' for project in projects)
    _write(root, "index.html", _page("Simple index", links))
    _write_json(root, {"meta": {"api-version": "1.1"}, "projects": [{"name": project} for project in projects]})
    for project in projects:
        own = [one for one in files if one.file.project == project]
        _write(os.path.join(root, project), "index.html", _page(f"Links for {project}", "".join(map(_link, own))))
        _write_json(
            os.path.join(root, project),
            {
                "meta": {"api-version": "1.1"},
                "name": project,
                "versions": list(dict.fromkeys(one.file.version for one in own)),
                "files": [
                    {
                        "filename": one.file.name,
                        "url": f"../../{quote(one.file.name)}",
                        "hashes": {"sha256": one.sha256},
                        "size": one.size,
                        **({"requires-python": one.requires_python} if one.requires_python else {}),
                    }
                    for one in own
                ],
            },
        )
    return files


def _indexed(file: Distribution) -> IndexedFile:
    requires = ""
    with open_source(file.path) as source:
        view = source.view()
        if file.is_wheel:
            metadata = WheelContents(view, wheel_metadata.parse_wheel_name(file.name)).text("METADATA")
            requires = wheel_metadata.header_value(metadata, "Requires-Python")
        return IndexedFile(file, sha256_of_pieces([view]).hex(), len(view), requires)


def _page(title: str, links: str) -> str:
    meta = '    <meta name="pypi:repository-version" content="1.0">\n'
    head = f'  <head>\n    <meta charset="utf-8">\n{meta}    <title>{html.escape(title)}</title>\n  </head>\n'
    return f"<!DOCTYPE html>\n<html>\n{head}  <body>\n{links}  </body>\n</html>\n"


def _link(one: IndexedFile) -> str:
    requires = f' data-requires-python="{html.escape(one.requires_python)}"' if one.requires_python else ""
    name = html.escape(one.file.name)
    return f'    <a href="../../{quote(one.file.name)}#sha256={one.sha256}"{requires}>{name}</a><br>\n'


def _write(folder: str, name: str, text: str) -> None:
    os.makedirs(folder, exist_ok=True)
    write_file(os.path.join(folder, name), [text.encode()], force=True)


def _write_json(folder: str, document: Mapping[str, Any]) -> None:
    _write(folder, "index.json", json.dumps(document, indent=2) + "\n")


def write_lock(
    folder: str, names: Mapping[str, LockedRequirement], files: Sequence[IndexedFile], *, force: bool
) -> str:
    """Write ``requirements.txt`` with the new versions and digests of files, by their names; return its path."""
    lines: dict[tuple[str, str, str, str], list[str]] = {}
    for one in files:
        requirement = names.get(one.file.name)
        if requirement is not None:
            key = requirement.project, requirement.extras, one.file.version, requirement.marker
            lines.setdefault(key, []).append(one.sha256)
    text = "# The wheels beside this file, slimmed by fatpack, with their digests\n"
    for (project, extras, version, marker), digests in sorted(lines.items()):
        line = f"{project}{extras}=={version}" + (f" ; {marker}" if marker else "")
        text += " \\\n    ".join([line, *(f"--hash=sha256:{digest}" for digest in sorted(digests))]) + "\n"
    path = os.path.join(folder, LOCK)
    write_file(path, [text.encode()], force=force)
    return path
