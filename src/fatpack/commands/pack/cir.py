"""Packing CIR offload containers: a host module and device modules, with their bundle IDs → one MLIR file."""

from __future__ import annotations

from fatpack.commands.pack.formats import PackedContainers, id_from, image_with_id, refuse_keys
from fatpack.errors import UsageError
from fatpack.formats import cir
from fatpack.formats.cir.bundle_id import KINDS, id_for, parse_bundle_id, refusal_reason
from fatpack.formats.cir.vocabulary import CIR_FORMAT
from fatpack.io.source import Span
from fatpack.model import Container, Image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.combine.combination import Combination
    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View
    from fatpack.writer_options import CirOptions


def image_from(option: ImageOption, _name: str, data: View) -> Image:
    """Return the module that one file of ``--image=file=F,id=ID`` or ``file=F,kind=K,triple=T[,arch=A]`` makes.

    The ID is stored as it is given; where an option names no target, it is the one that the file itself carries, as
    those do that a container was split into. Raises UsageError for a target that no container can name.
    """
    spelling = None if {"id", "kind", "triple", "arch"} & option.facts.keys() else cir.only_bundle_id(data)
    if spelling is None:
        spelling = id_from(option, "a CIR container", KINDS, id_for)
    else:
        refuse_keys(option, option.facts, "a CIR container", "an ID for each image and nothing else")
    return image_with_id(spelling, parse_bundle_id(spelling).target, data, form="cir")


def pack(stored: Sequence[Image], options: CirOptions) -> PackedContainers:
    """Return the container of the modules, host first, devices in their order.

    Raises UsageError where the modules make no container, or are for CUDA and for HIP; FormatError for one that is no
    valid text, Unsupported for bytecode; all of that before the first byte is written.
    """
    if options.ids is not None:
        stored = _renamed(stored, options.ids)
    models = {image.target.offload for image in stored}
    if {"cuda", "hip"} <= models:
        raise UsageError(
            "device modules for CUDA and for HIP in one container",
            hint="one compilation is for one of them, and a host registers the code of one; make a container for each",
        )
    combination = cir.combine_container(Container(CIR_FORMAT, 0, tuple(stored), Span(0, 0)), options)
    return PackedContainers(tuple(combination.pieces()), combination.findings, notes=tuple(report_lines(combination)))


def _renamed(stored: Sequence[Image], ids: Sequence[str]) -> list[Image]:
    if len(ids) != len(stored):
        raise UsageError(f"{len(ids)} bundle IDs for {len(stored)} modules", hint="name one for each, in their order")
    for spelling in ids:
        wrong = refusal_reason(spelling)
        if wrong:
            raise UsageError(f"bundle ID {spelling!r}: {wrong}", hint="such as cuda-nvptx64-nvidia-cuda--sm_80")
    return [
        image.replace(target=parse_bundle_id(spelling).target, attrs={**image.attrs, "id": spelling})
        for image, spelling in zip(stored, ids, strict=True)
    ]


def report_lines(combination: Combination) -> Iterator[str]:
    """Yield what was renamed in which module, one line each; nothing where all names stay."""
    for part in combination.report:
        for rename in part.records:
            yield f"{part.name}: {rename.kind} {rename.old!r} becomes {rename.new!r}: {rename.reason}"
        for kind, renames in (("alias", part.aliases), ("resource", part.resources)):
            yield from (f"{part.name}: {kind} {old} becomes {new}" for old, new in renames.items())
