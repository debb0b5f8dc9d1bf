"""Stand-ins for other tools: ``fatpack tool NAME ARGS…`` takes their options, prints their messages, exits as they do.

Nothing here imports click. Where a stand-in differs from its original, ``docs/tools.md`` says so.
"""

from __future__ import annotations

import sys

from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: name on the command line → module
TOOLS = {
    "clang-offload-bundler": "clang_offload_bundler",
    "cir-offload-merge": "cir_offload_merge",
    "llvm-offload-binary": "llvm_offload_binary",
    "clang-offload-packager": "llvm_offload_binary",
    "cuobjdump": "cuobjdump",
    "fatbinary": "fatbinary",
}


def run(arguments: Sequence[str]) -> int:
    """Run the stand-in that the first argument names with the rest; return its exit code."""
    if not arguments or arguments[0] in ("--help", "-h"):
        sys.stdout.write("Usage: fatpack tool NAME ARGS...\n\nBehave as another tool. NAME is one of\n")
        sys.stdout.writelines(f"  {name}\n" for name in TOOLS)
        return 0
    name = arguments[0].rpartition("/")[2]
    if name not in TOOLS:
        raise UsageError(f"no stand-in for {arguments[0]!r}", hint=f"known are {', '.join(TOOLS)}")
    # importlib would take longer to load than any module here.
    module = __import__(f"fatpack.cli.tools.{TOOLS[name]}", fromlist=["main"])
    return int(module.main(arguments[0], list(arguments[1:])))
