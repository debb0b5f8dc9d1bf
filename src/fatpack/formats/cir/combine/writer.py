"""Writer: an unchanged container is written as stored, any other is combined anew."""

from __future__ import annotations

from fatpack.errors import Unsupported, UsageError
from fatpack.formats.cir import bundle_id
from fatpack.formats.cir.bytecode.sections import is_bytecode
from fatpack.formats.cir.combine.combination import Combination, InputModule
from fatpack.formats.cir.files.split import is_as_read
from fatpack.formats.cir.modules.attributes import find_containers
from fatpack.formats.cir.modules.model import (
    BytecodeContainer,
    BytecodeModuleRecord,
    OffloadModule,
    TextContainer,
    TextModuleRecord,
)
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.strings import syntax_error
from fatpack.formats.cir.vocabulary import CONTAINER, CURRENT, FORMS, PROTOTYPE, PROTOTYPE_MAP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.formats.cir.text.header import TextAttribute
    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.writer_options import CirOptions

_TO_TEXT = "convert it to text first: cir-opt in.cirbc -o in.cir"


def write_container(container: Container, options: CirOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a container.

    The form is that of the options, else ``attrs["form"]``, one of ``vocabulary.FORMS``; ``attribute`` by default. The
    ID of an image is ``attrs["id"]``, else that of its target. Raises UsageError if the images cannot make a container,
    FormatError for modules that are not valid text, Unsupported for bytecode.
    """
    record = container.record
    if isinstance(record, (TextContainer, BytecodeContainer)) and options is None and _is_unchanged(container, record):
        yield record.stored
        return
    yield from combine_container(container, options).pieces()


def combine_container(
    container: Container, options: CirOptions | None = None, *, rename_records: bool = True
) -> Combination:
    """Return the combination that :func:`write_container` writes for a changed or new container, with a report of
    renames.

    With ``rename_records`` false, records with differing definitions are refused instead of renamed.
    """
    form = (options and options.form) or container.attrs.get("form", CURRENT)
    if form == "offload-module":
        raise UsageError(
            "AMD's representation, offload-module, is not written",
            hint="its device modules are operations of the host module and share its types; they cannot stand alone",
        )
    if form not in FORMS:
        raise UsageError(f"CIR containers are not written in the form {form!r}", hint=f"choose from {', '.join(FORMS)}")
    parts = _parts(container.images)
    record = container.record
    if isinstance(record, TextContainer) and record.outline is parts[0].outline and record.container is not None:
        parts[0].around = tuple(_around(record.outline, record.container))
    return Combination(parts, form, rename_records=rename_records)


def _around(outline: FileOutline, container: TextModule) -> Iterator[TextAttribute]:
    """Yield the attributes of a container, and of a module around it, except the markers."""
    seen = {CONTAINER, PROTOTYPE, PROTOTYPE_MAP}
    outer = [module for module in outline.modules if any(inner is container for inner in module.modules)]
    for module in (container, *outer):
        for attr in module.attrs:
            if attr.name not in seen:
                seen.add(attr.name)
                yield attr


def _is_unchanged(container: Container, record: TextContainer | BytecodeContainer) -> bool:
    return container.images == record.images and dict(container.attrs) == dict(record.attrs)


def _parts(images: Sequence[Image]) -> list[InputModule]:
    """Return the modules to combine, the host first. Raises UsageError if they do not make a container."""
    for image in images:
        _refuse_bytecode(image)
    ids = [_id(image) for image in images]
    hosts = [image for image, spelling in zip(images, ids, strict=True) if _is_host(image, spelling)]
    if len(hosts) != 1:
        count = f"{len(hosts)} host modules" if hosts else "no host module"
        raise UsageError(f"{count} for a CIR container", hint="it holds exactly one, with a bundle ID such as host-…")
    if len(images) == 1:
        raise UsageError("no device module for a CIR container", hint="it holds at least one")
    seen: set[str] = set()
    for spelling in ids:
        if spelling is not None and spelling in seen:
            raise UsageError(f"two modules have the bundle ID {spelling!r}", hint="splitting could not separate them")
        seen.add(spelling or "")
    used = {"host"}
    parts: list[InputModule] = []
    for image, spelling in zip(images, ids, strict=True):
        outline, module = _text_of(image)
        if image is hosts[0]:
            parts.insert(0, InputModule(outline, module, "host", spelling))
            continue
        name = bundle_id.module_name(spelling if spelling is not None else _old_name(module, len(parts)), used)
        used.add(name)
        parts.append(InputModule(outline, module, name, spelling))
    return parts


def _old_name(module: TextModule | None, number: int) -> str:
    """Return the base of the name of a module without a bundle ID: its present name, else its number."""
    name = module.name.decode("utf-8", "surrogateescape") if module and module.name else ""
    return name.removeprefix("device_") or str(number)


def _is_host(image: Image, spelling: str | None) -> bool:
    if spelling is not None:
        return bundle_id.parse_bundle_id(spelling).kind == "host"
    return image.target.offload == "host"


def _id(image: Image) -> str | None:
    """Return the bundle ID to store; None for a module that was read without one.

    Raises UsageError for one that cir-offload-merge would refuse, unless it was read from a file.
    """
    given = image.attrs.get("id")
    if isinstance(image.record, TextModuleRecord):
        if given is None:
            return image.target.spelling or None
        if given == image.target.spelling:
            return given
    spelling = given if given is not None else bundle_id.id_for(image.target)
    wrong = bundle_id.refusal_reason(spelling)
    if wrong:
        raise UsageError(f"bundle ID {spelling!r}: {wrong}", hint="such as cuda-nvptx64-nvidia-cuda--sm_80")
    return spelling


def _refuse_bytecode(image: Image) -> None:
    if isinstance(image.record, BytecodeModuleRecord) or (not is_as_read(image) and is_bytecode(image.data)):
        raise Unsupported("MLIR bytecode cannot be combined", hint=_TO_TEXT, chain=image.span.source)


def _text_of(image: Image) -> tuple[FileOutline, TextModule | None]:
    """Return the file and the module of an image; the module is None if the file is only an implicit module."""
    record = image.record
    if isinstance(record, TextModuleRecord) and is_as_read(image):
        return record.outline, record.module
    if isinstance(record, OffloadModule):
        raise Unsupported("AMD's offload.module representation cannot be combined")
    view = image.data
    outline = Outliner(view).outline()
    if outline.damage:
        raise outline.damage
    found = find_containers(outline)
    if found:
        raise syntax_error(view, found[0][0].start, "a container where a module was expected", hint="split it first")
    if len(outline.modules) == 1 and not outline.others and not outline.modules[0].is_op:
        return outline, outline.modules[0]
    return outline, None
