"""Files registered as they are given, one container or image each, as LLVM's own wrappers do it.

Nothing is packed and nothing is refused for what it is: a file may be of a kind that nobody here knows. Where a runtime
certainly cannot load it, that is said. Offload binaries for OpenMP are looked into: each of their images is registered.
LLVM registers the first of a file, and none of the others.
"""

from __future__ import annotations

from fatpack import formats
from fatpack.commands.wrap.registration import (
    FatbinRegistration,
    OpenmpDescriptor,
    RegisteredContent,
    SyclBinary,
    entry_layout,
)
from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.wrap.registration import Registration
    from fatpack.io.source import View

#: kind → the format that its runtime takes. OpenMP's takes offload binaries and images of many kinds.
_TAKEN = {"cuda": "cuda-fatbin", "hip": "clang-offload-bundle", "sycl": "llvm-offload-binary"}


class PassThrough(Record):
    """What is registered, and in words what the runtime cannot load of it."""

    registration: Registration
    doubts: tuple[str, ...]


def pass_through(
    kind: str, files: Sequence[tuple[str, View]], *, llvm: int, is_relocatable: bool = False
) -> PassThrough:
    """Return what is registered of files; CUDA, HIP and SYCL take one. Bytes are not copied.

    Raises UsageError for several files where one is taken, FormatError for a damaged offload binary.
    """
    if kind == "openmp":
        contents: list[RegisteredContent] = []
        for name, view in files:
            if formats.format_at(view) == "llvm-offload-binary":
                # Builds that wrap plain images do not need what reads containers.
                from fatpack.commands.wrap.inputs import WrapInput, offload_binaries

                contents += offload_binaries(WrapInput(name, view), llvm)
            else:
                contents.append(_whole(view))
        return PassThrough(OpenmpDescriptor(tuple(contents), entry_layout(kind, llvm), is_relocatable), ())
    if len(files) != 1:
        raise UsageError(f"{kind} takes one file", hint="fatpack wrap makes one container of several images")
    ((name, view),) = files
    taken = _TAKEN[kind]
    doubts = () if formats.format_at(view) == taken else (f"{name} is no {taken}, which {kind}'s runtime takes",)
    if kind == "sycl":
        return PassThrough(SyclBinary(_whole(view)), doubts)
    return PassThrough(FatbinRegistration(kind, _whole(view), entry_layout(kind, llvm)), doubts)


def _whole(view: View) -> RegisteredContent:
    return RegisteredContent((view,), ((0, len(view)),))
