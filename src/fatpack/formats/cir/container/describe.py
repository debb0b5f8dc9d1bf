"""What reports say about a container beyond the common model, as plain data."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.modules.stored import BytecodeModule, Nested, OffloadModule, Stored
from fatpack.formats.cir.modules.symbols import symbols
from fatpack.formats.cir.text.strings import escaped
from fatpack.formats.cir.words import DEVICE_BINARY, TRIPLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.formats.cir.bytecode.functions import Functions
    from fatpack.formats.cir.modules.stored import Module
    from fatpack.model import Container, Image

#: Attributes of modules that tell how they were made.
_SHOWN = (
    TRIPLE,
    b"cir.lang",
    b"cir.opt_info",
    b"cir.lowering_lang_options",
    b"cir.fp_contract_mode",
    b"cir.sdk_version",
    b"cir.cu.binary_handle",
)
#: LIMIT: bytes of one of them that are shown.
_LONGEST = 1000


def facts(container: Container) -> Mapping[str, object]:
    """Return the facts of a container."""
    launched: list[str] = []
    read: dict[int, Functions] = {}
    for number, image in enumerate(container.images):
        record = image.record
        if isinstance(record, Nested):
            launched += (stub.kernel for stub in record.module.contents.stubs)
        elif isinstance(record, BytecodeModule):
            from fatpack.formats.cir.bytecode.functions import functions

            read[number] = functions(record.file, record.node)
            launched += (kernel for _, kernel in read[number].launches)
    modules = [_module(image, launched, read.get(number)) for number, image in enumerate(container.images)]
    found: dict[str, object] = {"modules": modules}
    if isinstance(container.record, Stored):
        found["definition_runs"] = len(container.record.outline.definitions)
    return found


def _module(image: Image, launched: Sequence[str], read: Functions | None) -> dict[str, object]:
    record = image.record
    if isinstance(record, OffloadModule):
        return {"name": record.symbol, "role": "device", "target": record.target}
    if isinstance(record, BytecodeModule):
        assert read is not None
        return _bytecode_module(record, launched, read)
    assert isinstance(record, Nested)
    module, contents = record.module, record.module.contents
    return {
        "name": _name(module.name),
        "role": record.role,
        "attributes": _attributes(module),
        "op_counts": dict(contents.op_counts),
        "kernels": _kernels(record, launched),
        "stubs": [{"symbol": stub.symbol, "kernel": stub.kernel} for stub in contents.stubs],
    }


def _bytecode_module(record: BytecodeModule, launched: Sequence[str], read: Functions) -> dict[str, object]:
    kernels: list[str] | None = None
    if read.has_all:
        defined = set(read.symbols) if record.role != "host" else set()
        kernels = list(dict.fromkeys((*read.kernels, *(name for name in launched if name in defined))))
    return {
        "name": _name(record.name),
        "role": record.role,
        "attributes": _bytecode_attributes(record),
        "op_counts": dict(record.op_counts),
        # Where functions are registered operations only their dialect could tell: that is None and not "no kernels".
        "kernels": kernels,
        "stubs": [{"symbol": symbol, "kernel": kernel} for symbol, kernel in read.launches],
    }


def _name(name: bytes | None) -> str | None:
    return None if name is None else name.decode("utf-8", "backslashreplace")


def _kernels(record: Nested, launched: Sequence[str]) -> list[str]:
    """Return the kernels of a module: those with a kernel's calling convention, and those that a stub launches.

    Files of 2025 and hand-written ones do not always give the calling convention.
    """
    kernels = list(record.module.contents.kernels)
    known = set(kernels)
    missing = [name for name in launched if name not in known]
    if record.role != "host" and missing:
        defined = set(symbols(record.module))
        kernels += dict.fromkeys(name for name in missing if name in defined)
    return kernels


def _attributes(module: Module) -> dict[str, str]:
    shown = {}
    for attr in module.attrs:
        if attr.value is None:
            continue
        size = attr.value[1] - attr.value[0]
        if attr.name in _SHOWN:
            shown[attr.name.decode()] = _shown(module.text.read(attr.value[0], min(size, _LONGEST + 1)))
        elif attr.name == DEVICE_BINARY:
            shown[attr.name.decode()] = f"{size} bytes of text"
    return shown


def _bytecode_attributes(record: BytecodeModule) -> dict[str, str]:
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
            shown[key.decode()] = _shown(escaped(record.file.view.read(span[0], min(span[1], _LONGEST + 1))))
        elif text is not None:  # else it is in an encoding of its dialect
            shown[key.decode()] = _shown(text)
    return shown


def _shown(value: bytes) -> str:
    text = value[:_LONGEST].decode("utf-8", "backslashreplace")
    return text if len(value) <= _LONGEST else f"{text}…"
