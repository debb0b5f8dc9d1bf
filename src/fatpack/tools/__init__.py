"""Stand-ins for other tools: ``fatpack tool NAME ARGS…`` takes their options, prints their messages, exits as they do.

``fatpack tool --as=VERSION NAME ARGS…`` follows that version of the original (:mod:`fatpack.tools.versions`).
Nothing here imports click. The pages below ``docs/tools`` list the differences from the originals.
"""

from __future__ import annotations

import os
import sys

from fatpack.errors import FatpackError, UsageError
from fatpack.limits import stand_in_advice
from fatpack.tools import versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: name on the command line → module
TOOLS = {
    "clang-offload-bundler": "llvm.clang_offload_bundler",
    "cir-offload-merge": "llvm.cir_offload_merge",
    "llvm-offload-binary": "llvm.llvm_offload_binary",
    "clang-offload-packager": "llvm.llvm_offload_binary",
    "llvm-offload-wrapper": "llvm.llvm_offload_wrapper",
    "clang-offload-wrapper": "llvm.clang_offload_wrapper",
    "clang-linker-wrapper": "llvm.clang_linker_wrapper",
    "clang-offload-extract": "llvm.clang_offload_extract",
    "llvm-readobj": "llvm.llvm_readobj",
    "llvm-objdump": "llvm.llvm_objdump",
    "clang-offload-deps": "intel.clang_offload_deps",
    "llvm-foreach": "intel.llvm_foreach",
    "file-table-tform": "intel.file_table_tform",
    "cuobjdump": "nvidia.cuobjdump",
    "fatbinary": "nvidia.fatbinary",
    "nvprune": "nvidia.nvprune",
    "roc-obj-ls": "amd.roc_obj_ls",
    "roc-obj-extract": "amd.roc_obj_extract",
    "roc-obj": "amd.roc_obj",
}


_USAGE = """\
Usage: fatpack tool [--as=VERSION] NAME ARGS...
       fatpack tool --install DIR [NAME]...
       fatpack tool --uninstall DIR [NAME]...
       fatpack tool --which [-v] [NAME]...

Run as a drop-in replacement for another tool. --as follows one version of it;
--install and --uninstall place and remove stand-ins, links under the names of
the tools; --which shows the programs that the names run. NAME is one of
"""


def run_stand_in(arguments: Sequence[str]) -> int:
    """Run the stand-in that the first argument names with the rest; return its exit code."""
    given, arguments = _version(arguments)
    if not arguments or arguments[0] in ("--help", "-h"):
        sys.stdout.write(_USAGE)
        sys.stdout.writelines(_rows())
        return 0
    tool = find_stand_in(arguments[0])
    if tool is None:
        raise UsageError(f"no stand-in for {arguments[0]!r}", hint=name_hint(arguments[0].rpartition("/")[2]))
    name, spelled = tool
    version = versions.choose_version(name, given or spelled, os.environ)
    # importlib would take longer to load than any module here.
    main = __import__(f"fatpack.tools.{TOOLS[name]}", fromlist=["main"]).main
    rest = list(arguments[1:])
    with stand_in_advice():
        try:
            code = int(main(arguments[0], rest, version) if version else main(arguments[0], rest))
            sys.stdout.flush()  # unwritten output fails here if the disk is full
        except BrokenPipeError:
            raise
        except (FatpackError, OSError, MemoryError) as error:
            from fatpack.tools.failures import print_failure

            return print_failure(name, TOOLS[name].partition(".")[0], arguments[0], error)
    return code


def find_stand_in(program: str) -> tuple[str, str | None] | None:
    """Return the stand-in that a program's name or path means, and the version in it, as in ``fatbinary-13.5``."""
    name = program.rpartition("/")[2]
    if name in TOOLS:
        return name, None
    stem, _, version = name.rpartition("-")
    followed = versions.FOLLOWED.get(stem)
    return (stem, version) if followed and version in followed.known else None


def name_hint(name: str) -> str:
    """Return the hint about a name that no stand-in has: the nearest name, or all names."""
    from difflib import get_close_matches

    stem, _, version = name.rpartition("-")
    if stem in TOOLS and version[:1].isdigit():
        followed = versions.FOLLOWED.get(stem)
        if followed is None:
            return f"{stem} follows one version of its original: leave -{version} out"
        names = " or ".join(f"{stem}-{each}" for each in followed.known)
        return f"{stem} follows {followed.project} {' and '.join(followed.known)}: {names}"
    near = get_close_matches(name, TOOLS, n=1)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(TOOLS)}"


def _version(arguments: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return what ``--as`` in front of the name gives, None without it, and the arguments after it."""
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
