"""Stand-ins for other tools: ``fatpack tool NAME ARGS…`` takes their options, prints their messages, exits as they do.

``fatpack tool --as=VERSION NAME ARGS…`` follows that version of the original (:mod:`fatpack.cli.tools.versions`).
Nothing here imports click. Where a stand-in differs from its original, ``docs/tools.md`` says so.
"""

from __future__ import annotations

import os
import sys

from fatpack.cli.tools import versions
from fatpack.errors import UsageError
from fatpack.io.limits import advising_stand_ins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: name on the command line → module
TOOLS = {
    "clang-offload-bundler": "clang_offload_bundler",
    "cir-offload-merge": "cir_offload_merge",
    "llvm-offload-binary": "llvm_offload_binary",
    "clang-offload-packager": "llvm_offload_binary",
    "cuobjdump": "cuobjdump",
    "fatbinary": "fatbinary",
}


_USAGE = """\
Usage: fatpack tool [--as=VERSION] NAME ARGS...

Behave as another tool, or as one version of it. NAME is one of
"""


def run(arguments: Sequence[str]) -> int:
    """Run the stand-in that the first argument names with the rest; return its exit code."""
    given, arguments = _version(arguments)
    if not arguments or arguments[0] in ("--help", "-h"):
        sys.stdout.write(_USAGE)
        sys.stdout.writelines(_rows())
        return 0
    name = arguments[0].rpartition("/")[2]
    if name not in TOOLS:
        raise UsageError(f"no stand-in for {arguments[0]!r}", hint=_hint(name))
    version = versions.chosen(name, given, os.environ)
    # importlib would take longer to load than any module here.
    main = __import__(f"fatpack.cli.tools.{TOOLS[name]}", fromlist=["main"]).main
    rest = list(arguments[1:])
    with advising_stand_ins():
        return int(main(arguments[0], rest, version) if version else main(arguments[0], rest))


def _hint(name: str) -> str:
    """Return what was meant by a name that no tool has, or all that there are."""
    from difflib import get_close_matches

    near = get_close_matches(name, TOOLS, n=1)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(TOOLS)}"


def _version(arguments: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return what ``--as`` in front of the name gives, None without it, and the arguments behind it."""
    first = arguments[0] if arguments else ""
    if first.startswith("--as="):
        return first[len("--as=") :], arguments[1:]
    if first != "--as":
        return None, arguments
    if len(arguments) < 2:
        raise UsageError("--as needs a version", hint="as in fatpack tool --as=23 llvm-offload-binary")
    return arguments[1], arguments[2:]


def _rows() -> Iterator[str]:
    for name in TOOLS:
        followed = versions.FOLLOWED.get(name)
        if followed is None:
            yield f"  {name}\n"
        else:
            yield f"  {name:<22}  {followed.project} {', '.join(followed.known)} (or {followed.variable})\n"
