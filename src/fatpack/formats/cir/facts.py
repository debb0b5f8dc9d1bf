"""What reports say about a container beyond the common model, as plain data."""

from __future__ import annotations

from fatpack.formats.cir.device_binary import ATTRIBUTE
from fatpack.formats.cir.stored import BytecodeModule, Nested, OffloadModule, Stored
from fatpack.formats.cir.symbols import symbols
from fatpack.formats.cir.words import TRIPLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.formats.cir.stored import Module
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
    records = [image.record for image in container.images if isinstance(image.record, Nested)]
    launched = [stub.kernel for record in records for stub in record.module.contents.stubs]
    found: dict[str, object] = {"modules": [_module(image, launched) for image in container.images]}
    if isinstance(container.record, Stored):
        found["definition_runs"] = len(container.record.outline.definitions)
    return found


def _module(image: Image, launched: Sequence[str]) -> dict[str, object]:
    record = image.record
    if isinstance(record, OffloadModule):
        return {"name": record.symbol, "role": "device", "target": record.target}
    if isinstance(record, BytecodeModule):
        name = None if record.name is None else record.name.decode("utf-8", "backslashreplace")
        # Which functions are kernels only the dialect could tell, so that is None and not "no kernels".
        return {"name": name, "role": record.role, "op_counts": dict(record.op_counts), "kernels": None, "stubs": []}
    assert isinstance(record, Nested)
    module, contents = record.module, record.module.contents
    return {
        "name": None if module.name is None else module.name.decode("utf-8", "backslashreplace"),
        "role": record.role,
        "attributes": _attributes(module),
        "op_counts": dict(contents.op_counts),
        "kernels": _kernels(record, launched),
        "stubs": [{"symbol": stub.symbol, "kernel": stub.kernel} for stub in contents.stubs],
    }


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
            text = module.text.read(attr.value[0], min(size, _LONGEST)).decode("utf-8", "backslashreplace")
            shown[attr.name.decode()] = text if size <= _LONGEST else f"{text}…"
        elif attr.name == ATTRIBUTE:
            shown[attr.name.decode()] = f"{size} bytes of text"
    return shown
