"""Images or a container → an object that registers them when it is linked: ``wrap``."""

from __future__ import annotations

from fatpack.commands.pack.packed import PackedContainers
from fatpack.commands.pack.request import ImageFile, option_for
from fatpack.commands.wrap.inputs import WrapInput
from fatpack.commands.wrap.run import DEFAULT_HOST, DEFAULT_VERSION
from fatpack.library.arguments import check_type, make_budget, open_input
from fatpack.library.output import write_packed

__all__ = ["wrap"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.budget import Budget
    from fatpack.io.open import Input
    from fatpack.io.source import Source
    from fatpack.library.output import Output
    from fatpack.literals import Emit, Runtime


def wrap(
    images: Sequence[Input | ImageFile],
    output: Output,
    *,
    kind: Runtime,
    host_triple: str = DEFAULT_HOST,
    emit: Emit = "obj",
    llvm: int = DEFAULT_VERSION,
    relocatable: bool = False,
    force: bool = False,
) -> int:
    """Write an object that registers images when it is linked, made without a compiler; return its size in bytes.

    ``images`` are files of images, or the container that the runtime of that ``kind`` takes: a CUDA fat binary, a HIP
    bundle, offload binaries for OpenMP and SYCL. An :class:`ImageFile` states what an image is for, where its bytes do
    not say it. ``host_triple`` is the host that is linked for: ELF x86-64 or AArch64, COFF x86-64, or with ``emit`` of
    ``llvm-ir`` any. ``llvm`` is the version that the other objects are of: 19 (for all up to 20, which have other
    offload entries), 22, or 23, whose SYCL runtime is another.
    ``relocatable`` is for a link with ``-r``, behind which another one follows (OpenMP).

    ``output`` is a path, refused if it exists unless ``force``, or a binary file open for writing. What looks like a
    mistake is a Python warning. Raises UsageError, FormatError and ``OSError``.
    """
    from warnings import warn

    from fatpack.commands.wrap.run import wrap_files

    if isinstance(images, (str, bytes, ImageFile)) or not hasattr(images, "__iter__"):
        raise TypeError(f"images must be several files in a list, got {type(images).__name__}")
    check_type("host_triple", host_triple, str, "a text")
    check_type("llvm", llvm, int, "19, 22 or 23")
    budget = make_budget(force=force)
    opened: list[Source] = []
    try:
        given = [_given(number, item, opened, budget) for number, item in enumerate(images)]
        wrapped = wrap_files(kind, given, host_triple=host_triple, emit=emit, llvm=llvm, is_relocatable=relocatable)
        for item in wrapped.findings:
            if item.severity != "note":
                warn(item.text, stacklevel=2)
        inputs = [item.view for item in given]
        return write_packed(output, PackedContainers(wrapped.pieces), force=force, inputs=inputs, budget=budget)
    finally:
        for source in opened:
            source.close()


def _given(number: int, item: Input | ImageFile, opened: list[Source], budget: Budget) -> WrapInput:
    """Return a file that is to be registered, opened."""
    argument = f"images[{number}]"
    if isinstance(item, ImageFile):
        source = open_input(argument, item.file, name=item.name, resting=True, budget=budget)
        opened.append(source)
        stated = option_for(item, source, "" if item.offload == "none" else item.offload)
        return WrapInput(source.name or argument, source.view(), stated)
    source = open_input(argument, item, resting=True, budget=budget)
    opened.append(source)
    return WrapInput(source.name or argument, source.view())
