"""Facts about a container for reports, and a label for each of its bytes."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.modules.attributes import bytecode_kernels, module_kernels, module_target, plain_modules
from fatpack.formats.cir.modules.model import (
    BytecodeContainer,
    BytecodeModuleRecord,
    OffloadModule,
    TextContainer,
    TextModuleRecord,
)
from fatpack.formats.cir.text.strings import escape_string
from fatpack.formats.cir.vocabulary import DEVICE_BINARY, LANGUAGE_OPTIONS, TRIPLE
from fatpack.formats.diagnostics import not_parsed_error
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.modules.model import TextModule
    from fatpack.formats.described import ModuleFacts, StoredFacts
    from fatpack.io.source import View
    from fatpack.model import Container, Image


#: Attributes that record how a module was compiled.
_SHOWN = (
    TRIPLE,
    b"cir.lang",
    b"cir.opt_info",
    LANGUAGE_OPTIONS,
    b"cir.fp_contract_mode",
    b"cir.sdk_version",
    b"cir.cu.binary_handle",
)
#: LIMIT: bytes of such an attribute that are shown.
_LONGEST = 1000


def describe_container(container: Container) -> StoredFacts:
    """Return the facts of a container. Raises UsageError for one that was not read from a file."""
    if not isinstance(container.record, (TextContainer, BytecodeContainer)):
        raise not_parsed_error("container")
    found: StoredFacts = {"modules": [_module(image.record) for image in container.images]}
    if isinstance(container.record, TextContainer):
        found["definition_runs"] = len(container.record.outline.definitions)
    return found


def describe_modules(view: View) -> StoredFacts:
    """Return the facts of the modules at file level, each with its bundle ID and its target."""
    modules: list[ModuleFacts] = []
    for record, stated in plain_modules(view):
        target = module_target(stated)
        module = _module(record)
        module |= {"id": stated.id, "offload": target.offload, "triple": target.triple, "arch": target.arch}
        modules.append(module)
    return {"modules": modules}


def read_kernel_names(view: View, record: object) -> tuple[str, ...]:
    """Return the kernels of an image with a ``record`` from a container, or of a file without one."""
    if isinstance(record, OffloadModule):
        return record.kernels
    if isinstance(record, (TextModuleRecord, BytecodeModuleRecord)):
        return module_kernels(record) or ()
    return tuple(name for module, _ in plain_modules(view) for name in module_kernels(module) or ())


def _module(record: object) -> ModuleFacts:
    if isinstance(record, TextModuleRecord):
        return _text_module(record)
    if isinstance(record, BytecodeModuleRecord):
        return _bytecode_module(record)
    if isinstance(record, OffloadModule):
        return {"name": record.symbol, "role": "device", "target": record.target, "kernels": list(record.kernels)}
    raise not_parsed_error("module")


def _text_module(record: TextModuleRecord) -> ModuleFacts:
    contents = record.module.contents
    return {
        "name": _name(record.module.name),
        "role": record.role,
        "attributes": _attributes(record.module),
        "op_counts": dict(contents.op_counts),
        "kernels": list(module_kernels(record) or ()),
        "stubs": [{"symbol": stub.symbol, "kernel": stub.kernel} for stub in contents.stubs],
    }


def _bytecode_module(record: BytecodeModuleRecord) -> ModuleFacts:
    from fatpack.formats.cir.bytecode.operations import read_functions

    read = read_functions(record.file, record.node)
    named = bytecode_kernels(record, read)
    return {
        "name": _name(record.name),
        "role": record.role,
        "attributes": _bytecode_attributes(record),
        "op_counts": dict(record.op_counts),
        "kernels": None if named is None else list(named),
        "stubs": [{"symbol": symbol, "kernel": kernel} for symbol, kernel in read.launches],
    }


def _name(name: bytes | None) -> str | None:
    return None if name is None else name.decode("utf-8", "backslashreplace")


def _attributes(module: TextModule) -> dict[str, str]:
    shown = {}
    for attr in module.attrs:
        if attr.value is None:
            continue
        size = attr.value[1] - attr.value[0]
        if attr.name in _SHOWN:
            value = attr.literal or module.text.read(attr.value[0], min(size, _LONGEST + 1))
            shown[attr.name.decode()] = _shown(value)
        elif attr.name == DEVICE_BINARY:
            shown[attr.name.decode()] = f"{size} bytes of text"
    return shown


def _bytecode_attributes(record: BytecodeModuleRecord) -> dict[str, str]:
    shown = {}
    for key, number in record.node.attrs(record.file).items():
        if key not in _SHOWN and key != DEVICE_BINARY:
            continue
        try:
            attr = record.file.attribute(number)
            text, span = attr.text(), attr.string_span()
        except FormatError:
            continue  # damage; everything that the container depends on was read before
        if span and key == DEVICE_BINARY:
            shown[key.decode()] = f"{span[1]} bytes"
        elif span:
            shown[key.decode()] = _shown(escape_string(record.file.view.read(span[0], min(span[1], _LONGEST + 1))))
        elif text is not None:  # else it is in an encoding of its dialect
            shown[key.decode()] = _shown(text)
    return shown


def _shown(value: bytes) -> str:
    text = value[:_LONGEST].decode("utf-8", "backslashreplace")
    return text if len(value) <= _LONGEST else f"{text}…"


# Byte labels.

_ALIASES = "aliases: names for types, attributes and locations, which modules share"
_METADATA = "file metadata: resources that modules use by key"
_TEXT = "the container itself, blanks and comments"


def label_container(container: Container) -> Iterator[Label]:
    """Return the labels of a container. Raises UsageError for one that was not read from a file."""
    record = container.record
    if isinstance(record, TextContainer):
        return _text_labels(record)
    if isinstance(record, BytecodeContainer):
        return _bytecode_labels(record, container.images)
    raise not_parsed_error("container")


def _text_labels(record: TextContainer) -> Iterator[Label]:
    """Yield the labels of a text."""
    outline = record.outline
    parts = [(start, end, "aliases", _ALIASES, "field") for start, end in outline.definitions]
    parts += [(start, end, "metadata", _METADATA, "field") for start, end in outline.metadata]
    for number, image in enumerate(record.images):
        start = image.span.start - outline.text.start
        if isinstance(image.record, TextModuleRecord):
            body = image.record.module.body[0]
            header = "the header of a module: its name and attributes"
            parts.append((start, body, f"module[{number}].header", header, "field"))
            start = body
        parts.append((start, image.span.end - outline.text.start, f"image[{number}]", "a module", "data"))
    yield from _filled(outline.text, parts, "text", _TEXT)


def _bytecode_labels(record: BytecodeContainer, images: Sequence[Image]) -> Iterator[Label]:
    """Yield the labels of bytecode: its header, its sections, and the modules in the IR section."""
    view, file = record.stored, record.file
    parts = [(0, file.header.end, "header", "magic, version and producer", "field")]
    modules = sorted(image.span.start - view.start for image in images if image.size)
    ends = {image.span.start - view.start: image.span.end - view.start for image in images}
    for section in file.sections:
        if section.data > section.start:
            parts.append((section.start, section.data, "section", f"header of the section of {section.name}", "field"))
        parts.append((section.data, section.end, section.name.replace(" ", "_"), f"section of {section.name}", "data"))
    inside = []
    for number, start in enumerate(modules):
        inside.append((start, ends[start], f"image[{number}]", "a module", "data"))
    yield from _filled(view, [*_without(parts, inside), *inside], "ir", "operations around the modules")


def _without(
    parts: Sequence[tuple[int, int, str, str, str]], inside: Sequence[tuple[int, int, str, str, str]]
) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield the parts, less the ranges of ``inside``."""
    for start, end, name, doc, kind in parts:
        at = start
        for first, last, *_ in inside:
            if start <= first and last <= end:
                if first > at:
                    yield at, first, name, doc, kind
                at = last
        if end > at:
            yield at, end, name, doc, kind


def _filled(view: View, parts: Sequence[tuple[int, int, str, str, str]], name: str, doc: str) -> Iterator[Label]:
    """Yield labels for the parts in order, and for the gaps between them; a part that overlaps another is cut."""
    at = 0
    for first, end, part, meaning, kind in sorted(parts):
        start = max(first, at)
        if end <= start:
            continue
        if start > at:
            yield Label(view.span(at, start - at), name, f"{start - at} bytes", doc)
        yield Label(view.span(start, end - start), part, f"{end - start} bytes", meaning, kind)
        at = end
    if at < len(view):
        yield Label(view.span(at), name, f"{len(view) - at} bytes", doc)
