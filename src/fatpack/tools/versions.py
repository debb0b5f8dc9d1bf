"""The version of the original that a stand-in follows: ``fatpack tool --as=23 NAME``, or an environment variable.

``--as`` beats the variable, and the variable beats the default. The variable is for a stand-in in the place of the
original, whose caller gives only the original's options.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolVersions(Record):
    """The versions of one project that its stand-ins can follow, the default first.

    With ``has_mixture``, a stand-in without a given version follows the first, and a later one where the first does not
    know an option.
    """

    project: str
    variable: str
    known: tuple[str, ...]
    has_mixture: bool = False


#: The default is 22 until 23 is what distributions ship.
LLVM = ToolVersions("LLVM", "FATPACK_LLVM", ("22", "23"))

CUDA = ToolVersions("CUDA", "FATPACK_CUDA", ("13.0", "13.5"), has_mixture=True)

#: Two tools of one name. Without being told, a command line with -kind is one of DPC++'s, which has to have it.
OFFLOAD_WRAPPER = ToolVersions("clang-offload-wrapper", "FATPACK_OFFLOAD_WRAPPER", ("15", "dpcpp"), has_mixture=True)

#: name of a stand-in → the versions that it can follow; all other stand-ins follow one version only
FOLLOWED = {
    "clang-offload-bundler": LLVM,
    "llvm-offload-binary": LLVM,
    "clang-offload-packager": LLVM,
    "llvm-offload-wrapper": LLVM,
    "llvm-objdump": LLVM,
    "clang-linker-wrapper": LLVM,
    "llvm-readobj": LLVM,
    "clang-offload-wrapper": OFFLOAD_WRAPPER,
    "fatbinary": CUDA,
}


def version_text(tool: str, project: str) -> str:
    """Return what ``--version`` of a stand-in says: our version, and which of a project's tools it stands in for."""
    from fatpack import __version__

    return f"fatpack {__version__}, standing in for {tool} of {project}"


def choose_version(tool: str, given: str | None, environment: Mapping[str, str]) -> str:
    """Return the version that a stand-in follows; ``given`` is what ``--as`` says.

    "" means a stand-in that follows one version only, or one that mixes versions unless one is given.

    Raises UsageError for a version that it cannot follow.
    """
    versions = FOLLOWED.get(tool)
    if versions is None:
        if given is not None:
            raise UsageError(f"--as means nothing for {tool}", hint=f"it is for {', '.join(FOLLOWED)}")
        return ""
    version = environment.get(versions.variable, "") if given is None else given
    if given is None and not version:
        return "" if versions.has_mixture else versions.known[0]
    if version not in versions.known:
        source = versions.variable if given is None else "--as"
        raise UsageError(
            f"{source}={version}: {tool} follows no such version of {versions.project}",
            hint=f"choose from {', '.join(versions.known)}",
        )
    return version
