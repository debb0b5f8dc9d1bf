"""Whether a host module registers its GPU binary, as far as the module itself shows it.

ClangIR makes the code that registers a fat binary while it lowers the host module, and only if the module knows the
binary: ``cir.cu.binary_handle`` (a path, older), ``cir.cu.device_binary`` (the bytes), or, lowered, the global
``@__cuda_fatbin_str`` (``@__hip_fatbin_str``) that the constructor ``@__cuda_module_ctor`` (``@__hip_module_ctor``)
hands over. Without it the compilation succeeds, and the program launches nothing.
"""

from __future__ import annotations

from fatpack.formats.cir.device_binary import ATTRIBUTE
from fatpack.formats.cir.faults import place
from fatpack.formats.cir.symbols import symbols
from fatpack.formats.cir.verify import Breach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.stored import Module, Outline

_HANDLE = b"cir.cu.binary_handle"
_MODELS = ("cuda", "hip")
_HINT = "the program would launch nothing: compile the host once more with -foffload-include-binary"


def lost(module: Module) -> Iterator[Breach]:
    """Yield what is wrong with the registration of a host module that was lowered, or that has a GPU binary."""
    held = {symbol for symbol, _, _ in module.contents.binaries}
    if not held and not module.contents.may_register:
        return
    defined = set(symbols(module))
    for model in _MODELS:
        binary, constructor, table = (f"__{model}_{name}" for name in ("fatbin_str", "module_ctor", "register_globals"))
        if binary in held and constructor not in defined:
            text = f"the GPU binary in @{binary} is not registered: there is no @{constructor}"
            yield Breach("FP1513", module.start, text, _HINT)
        elif constructor in defined and binary not in held and not _knows(module):
            yield Breach(
                "FP1513", module.start, f"@{constructor} has nothing to register: there is no @{binary}", _HINT
            )
        elif constructor in defined and module.contents.stubs and table not in defined:
            text = f"@{constructor} registers no kernels: there is no @{table}, and {_stubs(module)}"
            yield Breach("FP1513", module.start, text, _HINT)


def pending(outline: Outline) -> Iterator[Breach]:
    """Yield a note for every module of a file, no container, that launches kernels and knows no GPU binary.

    That is how every host module is before the step that brings the binary in, and wrong after it.
    """
    for module in outline.modules:
        yield from (breach.replace(text=f"{place(outline.text, breach.at)}: {breach.text}") for breach in lost(module))
        contents = module.contents
        if contents.stubs and not contents.binaries and not _knows(module):
            if contents.may_register:
                continue  # which lost() has looked at
            text = f"{place(outline.text, module.start)}: {_stubs(module)}, and the module knows no GPU binary"
            hint = "right before -foffload-include-binary brings it in, and wrong after"
            yield Breach("FP1514", module.start, text, hint)


def _knows(module: Module) -> bool:
    return any(module.attr(name) is not None for name in (_HANDLE, ATTRIBUTE))


def _stubs(module: Module) -> str:
    count = len(module.contents.stubs)
    return "one stub launches a kernel" if count == 1 else f"{count} stubs launch kernels"
