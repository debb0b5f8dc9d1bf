"""Policies of ``slim``: the table ``[tool.fatpack.slim]`` of a TOML file, and plans, which are policies with results.

::

    [tool.fatpack.slim]
    devices = ["sm_86", "sm_90"]
    keep-ptx = "newest"

    [tool.fatpack.slim.libraries."libcublasLt.so*"]
    keep = ["sm_80"]

    [tool.fatpack.slim.libraries."*/libnccl.so*"]
    stays = true

A plan is a JSON document, ``fatpack.slim-plan/1``: the policy under ``options``, size and SHA-256 of the ``files`` that
were named, and of each of the ``libraries`` with device code what stays and goes. It applies to files with these
digests alone, and to any number of them.
"""

from __future__ import annotations

import json
import os

from fatpack import __version__
from fatpack.commands.slim.options import LibraryException, SlimOptions
from fatpack.commands.slim.outcome import count_by_arch
from fatpack.errors import FatpackError, UsageError, cli_or_api
from fatpack.inputs.project_file import find_table, read_table
from fatpack.io.atomic_write import write_file
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.distributions.installed import FileDigests
    from fatpack.io.source import View

#: setting → its type: a list of texts, a text, a switch or a number
KEYS = {
    "devices": list,
    "keep": list,
    "drop": list,
    "keep-ptx": str,
    "allow-empty": bool,
    "mode": str,
    "drop-signature": bool,
    "lossless": bool,
    "drop-dead": bool,
    "driver": str,
    "recompress": str,
    "level": int,
    "strict": bool,
}

#: settings of an exception; ``stays`` leaves the library as it is
EXCEPTION_KEYS = {key: KEYS[key] for key in tuple(KEYS)[:7]} | {"stays": bool}

#: settings that say what stays and goes: one of them on the command line replaces all of them
RULES = ("devices", "keep", "drop", "keep-ptx", "lossless", "drop-dead", "driver", "recompress", "level")

_KINDS = {list: "a text or a list of texts", str: "a text", bool: "true or false", int: "a whole number"}

PLAN = "fatpack.slim-plan/1"

#: LIMIT: bytes of a plan, which is read whole. 10,000 libraries take 5 MB.
_LARGEST = 256 << 20


class SlimPolicy(Record):
    """The settings of a file by the names of :data:`KEYS`, and those of exceptions by patterns of libraries.

    ``path`` is the file.
    """

    path: str
    values: Mapping[str, Any]
    libraries: Mapping[str, Mapping[str, Any]]


def find_policy(config: str | None, *, reads: bool) -> SlimPolicy | None:
    """Return the policy of a file, or of the nearest pyproject.toml if it ``reads`` one; None where there is none.

    Raises UsageError for a wrong table, and ``OSError`` for a file that cannot be read.
    """
    if config is not None:
        if not reads:
            words = cli_or_api("--config and --no-config", "config and no policy")
            raise UsageError(f"{words} contradict each other", hint="leave one of them out")
        return parse_policy(read_table(config, "slim"), config)
    found = find_table("slim") if reads else None
    return None if found is None else parse_policy(found[1], found[0])


def parse_policy(table: Mapping[str, Any], path: str) -> SlimPolicy:
    """Return the policy of a table. Raises UsageError for a setting that is unknown or of another kind."""
    values = dict(table)
    libraries = values.pop("libraries", {})
    if not isinstance(libraries, dict) or not all(isinstance(one, dict) for one in libraries.values()):
        raise UsageError(f"{path}: libraries is no table of tables", hint='write [tool.fatpack.slim.libraries."lib*"]')
    own = {
        pattern: _values(one, EXCEPTION_KEYS, f"{path}: libraries.{pattern!r}") for pattern, one in libraries.items()
    }
    return SlimPolicy(path, _values(values, {**KEYS}, path, "libraries"), own)


def _values(table: Mapping[str, Any], keys: Mapping[str, type], where: str, *others: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        kind = keys.get(name)
        if kind is None:
            raise UsageError(f"{where}: there is no setting {name!r}", hint=_nearest(name, [*keys, *others]))
        if kind is list:
            value = [value] if isinstance(value, str) else value  # noqa: PLW2901
        is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not is_right or (kind is list and not all(isinstance(item, str) for item in value)):
            raise UsageError(f"{where}: {name} is not {_KINDS[kind]}")
        values[name] = value
    return values


def _nearest(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.replace("_", "-").lower(), known, 1)
    return f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}"


def add_policy(
    given: Mapping[str, Any], policy: SlimPolicy, make: Callable[..., SlimOptions]
) -> tuple[dict[str, Any], tuple[LibraryException, ...]]:
    """Return the arguments of ``make``, which makes options, with a policy, and its exceptions.

    ``given`` are those of the command line: a rule among them replaces all rules of the policy, other settings add up.
    """
    rules = (*RULES, "used")
    has_rules = any(given.get(_argument(name)) for name in rules)
    taken = {
        name: value for name, value in policy.values.items() if name != "strict" and not (has_rules and name in RULES)
    }
    merged = {**given}
    for name, value in taken.items():
        argument = _argument(name)
        if not merged.get(argument) or (argument, merged[argument]) == ("mode", "auto"):
            merged[argument] = value
    exceptions = []
    for pattern, values in policy.libraries.items():
        if values.get("stays"):
            exceptions.append(LibraryException(pattern, SlimOptions()))
            continue
        own = {_argument(name): value for name, value in values.items() if name != "stays"}
        if merged.get("lossless") and any(_argument(name) in own for name in RULES):
            raise UsageError(
                f"{policy.path}: libraries.{pattern!r} removes images, and lossless keeps all",
                hint="leave one of them out",
            )
        exceptions.append(LibraryException(pattern, make(**{**merged, **own})))
    return merged, tuple(exceptions)


def policy_table(options: SlimOptions, merged: Mapping[str, Any], policy: SlimPolicy) -> dict[str, Any]:
    """Return the policy of a run as a table: devices by their architectures, and patterns one by one."""
    table = {name: merged[_argument(name)] for name in KEYS if merged.get(_argument(name))}
    if table.get("mode") == "auto":
        del table["mode"]
    if options.lossless:
        table.pop("recompress", None)
    lists = {"devices": [one.arch for one in options.devices], "keep": list(options.keep), "drop": list(options.drop)}
    table.update((name, value) for name, value in lists.items() if value)
    libraries = {}
    for one in options.exceptions:
        own = dict(policy.libraries[one.pattern])
        libraries[one.pattern] = own | ({"devices": [d.arch for d in one.options.devices]} if "devices" in own else {})
    return {**table, "libraries": libraries}


def _argument(name: str) -> str:
    return name.replace("-", "_")


# Plans: written from the results of a run, and applied to files with the same digests.


def _changes(made: SlimPlan | FatpackError) -> dict[str, Any]:
    """Return the plan's record of a library: its changes, or the reason why it stays."""
    if isinstance(made, FatpackError):
        return {"kept": {}, "dropped": {}, "error": made.problem}
    return {"kept": count_by_arch(made.kept), "dropped": count_by_arch(made.dropped), "error": None}


def _digests(view: View) -> FileDigests:
    """Return the digest and size of a file, which only plans need."""
    from fatpack.distributions.installed import digests_of

    return digests_of([view], ())


class PlanWriter:
    """Records the files and libraries of a run for a plan; ``table`` is the policy of the run."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._files: dict[str, dict[str, Any]] = {}
        self._libraries: dict[str, dict[str, Any]] = {}

    def take_file(self, view: View) -> None:
        """Record a named file."""
        found = _digests(view)
        name = os.path.basename(view.chain[0] if view.chain else view.source.name)
        self._files[found.sha256] = {"name": name, "size": found.size, "sha256": found.sha256}

    def choose(self, view: View, options: SlimOptions) -> SlimOptions:
        """Return the options for a library as they are."""
        return options

    def review(self, view: View, made: SlimPlan | FatpackError) -> None:
        """Record the changes of a library with device code, or why it stays."""
        if not isinstance(made, FatpackError) and not (made.kept or made.dropped):
            return
        found = _digests(view)
        after = found.size if isinstance(made, FatpackError) else sum(map(len, made.pieces))
        self._libraries[found.sha256] = {
            "name": "!".join(view.chain),
            "size": found.size,
            "sha256": found.sha256,
            "do": "slim",
            "after": after,
            **_changes(made),
        }

    def write(self, path: str, *, force: bool) -> None:
        """Write the plan."""
        document = {
            "schema": PLAN,
            "tool": {"name": "fatpack", "version": __version__},
            "options": dict(self._table),
            "files": sorted(self._files.values(), key=lambda item: (item["name"], item["sha256"])),
            "libraries": sorted(self._libraries.values(), key=lambda item: (item["name"], item["sha256"])),
        }
        write_file(path, [json.dumps(document, indent=2, ensure_ascii=False).encode(), b"\n"], force=force)


class PlanReader:
    """A plan that is applied: ``policy`` chooses images, and the plan has the expected result of each library.

    Raises UsageError for a file that is no plan, and ``OSError``.
    """

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        self._path = path
        try:
            if len(data) > _LARGEST:
                raise ValueError(f"more than {_LARGEST} bytes")
            document: dict[str, Any] = json.loads(data)
            if document["schema"] != PLAN:
                raise ValueError(f"schema {document['schema']!r}")
            table = document["options"]
            if not isinstance(table, dict):
                raise ValueError("options are no table")
            self._files = {str(item["sha256"]): str(item["name"]) for item in document["files"]}
            self._libraries: dict[str, dict[str, Any]] = {}
            for item in document["libraries"]:
                self._libraries[str(item["sha256"])] = {
                    "do": str(item["do"]),
                    "size": int(item["size"]),
                    **{key: item[key] for key in ("kept", "dropped", "error")},
                }
                if item["do"] not in ("slim", "stay"):
                    raise ValueError(f"do is {item['do']!r}; it is slim or stay")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            words = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise UsageError(
                f"{path} is no plan: {words}",
                hint="fatpack slim FILE --for DEVICE --dry-run --save-plan PLAN writes one",
            ) from None
        self.policy = parse_policy(table, path)
        self._staying = {item["size"] for item in self._libraries.values() if item["do"] == "stay"}

    def take_file(self, view: View) -> None:
        """Raise UsageError for a named file that is none of the plan."""
        digest = _digests(view).sha256
        if digest not in self._files:
            name = view.chain[0] if view.chain else view.source.name
            known = os.path.basename(name) in self._files.values()
            words = "changed since the plan was made" if known else "is not in the plan"
            raise UsageError(f"{name} {words}: {self._path} has no file with its SHA-256", hint=_AGAIN)

    def choose(self, view: View, options: SlimOptions) -> SlimOptions:
        """Return the options for a library: options that change nothing if the plan says that it stays."""
        if len(view) in self._staying:
            item = self._libraries.get(_digests(view).sha256)
            if item is not None and item["do"] == "stay":
                return SlimOptions()
        return options

    def review(self, view: View, made: SlimPlan | FatpackError) -> None:
        """Raise UsageError where a library with device code is none of the plan, or would become another one."""
        if not isinstance(made, FatpackError) and not (made.kept or made.dropped):
            return
        name = "!".join(view.chain)
        item = self._libraries.get(_digests(view).sha256)
        if item is None:
            raise UsageError(f"{name} is not in the plan, or changed since {self._path} was made", hint=_AGAIN)
        found = _changes(made)
        for key in ("error", "kept", "dropped") if item["do"] == "slim" else ():
            if found[key] != item[key]:
                raise UsageError(
                    f"{name}: {key} is {found[key] or 'nothing'}, and {self._path} says {item[key] or 'nothing'}",
                    hint=_AGAIN,
                )


_AGAIN = "make the plan again: fatpack slim FILE --dry-run --save-plan PLAN"
