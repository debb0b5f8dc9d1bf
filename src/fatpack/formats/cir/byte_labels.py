"""What reports say about a container beyond the common model, as plain data."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.modules.alone import plain_modules
from fatpack.formats.cir.modules.facts import module_target
from fatpack.formats.cir.modules.kernels import bytecode_kernels, module_kernels
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.formats.cir.modules.model import TextModule
    from fatpack.io.source import View
    from fatpack.model import Container

#: Attributes of modules that tell how they were made.
_SHOWN = (
    TRIPLE,
    b"cir.lang",
    b"cir.opt_info",
    LANGUAGE_OPTIONS,
    b"cir.fp_contract_mode",
    b"cir.sdk_version",
    b"cir.cu.binary_handle",
)
#: LIMIT: bytes of one of them that are shown.
_LONGEST = 1000


def describe_container(container: Container) -> Mapping[str, object]:
    """Return the facts of a container. Raises UsageError for one that was not read from a file."""
    if not isinstance(container.record, (TextContainer, BytecodeContainer)):
        raise not_parsed_error("container")
    found: dict[str, object] = {"modules": [_module(image.record) for image in container.images]}
    if isinstance(container.record, TextContainer):
        found["definition_runs"] = len(container.record.outline.definitions)
    return found


def describe_modules(view: View) -> Mapping[str, object]:
    """Return the facts of the modules at file level, each with its bundle ID and its target."""
    modules = []
    for record, stated in plain_modules(view):
        target = module_target(stated)
        claims = {"id": stated.id, "offload": target.offload, "triple": target.triple, "arch": target.arch}
        modules.append({**_module(record), **claims})
    return {"modules": modules}


def read_kernel_names(view: View, record: object) -> tuple[str, ...]:
    """Return the kernels of an image, whose ``record`` it is if it was read from a container, else those of a file."""
    if isinstance(record, OffloadModule):
        return record.kernels
    if isinstance(record, (TextModuleRecord, BytecodeModuleRecord)):
        return module_kernels(record) or ()
    return tuple(name for module, _ in plain_modules(view) for name in module_kernels(module) or ())


def _module(record: object) -> dict[str, object]:
    if isinstance(record, TextModuleRecord):
        return _text_module(record)
    if isinstance(record, BytecodeModuleRecord):
        return _bytecode_module(record)
    if isinstance(record, OffloadModule):
        return {"name": record.symbol, "role": "device", "target": record.target, "kernels": list(record.kernels)}
    raise not_parsed_error("module")


def _text_module(record: TextModuleRecord) -> dict[str, object]:
    contents = record.module.contents
    return {
        "name": _name(record.module.name),
        "role": record.role,
        "attributes": _attributes(record.module),
        "op_counts": dict(contents.op_counts),
        "kernels": list(module_kernels(record) or ()),
        "stubs": [{"symbol": stub.symbol, "kernel": stub.kernel} for stub in contents.stubs],
    }


def _bytecode_module(record: BytecodeModuleRecord) -> dict[str, object]:
    from fatpack.formats.cir.bytecode.functions import read_functions

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
            continue  # damage; what the container depends on was read before
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
