"""Whether a host module registers its GPU binary, as far as the module itself shows it.

ClangIR makes the code that registers a fat binary while it lowers the host module, and only if the module knows the
binary: ``cir.cu.binary_handle`` (a path, older), ``cir.cu.device_binary`` (the bytes), or, lowered, the global
``@__cuda_fatbin_str`` (``@__hip_fatbin_str``) that the constructor ``@__cuda_module_ctor`` (``@__hip_module_ctor``)
hands over. Without it the compilation succeeds, and the program launches nothing.
"""

from __future__ import annotations

from fatpack.formats.cir.modules.symbols import list_functions
from fatpack.formats.cir.text.faults import line_and_column
from fatpack.formats.cir.verify import RuleBreach
from fatpack.formats.cir.vocabulary import DEVICE_BINARY
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.modules.model import FileOutline, TextModule

#: Attributes of a host module that name its GPU binary or hold it.
KNOWING = (b"cir.cu.binary_handle", DEVICE_BINARY)
_MODELS = ("cuda", "hip")
_HINT = "the program would launch nothing: compile the host once more with -foffload-include-binary"


class HostModuleFacts(Record):
    """What a host module shows: where it starts, the globals that hold a GPU binary, its functions with a body, how
    many stubs launch kernels, and whether an attribute names a GPU binary."""

    start: int
    held: frozenset[str]
    defined: frozenset[str]
    stub_count: int
    knows: bool


def unregistered_binary_findings(module: TextModule) -> Iterator[RuleBreach]:
    """Yield what is wrong with the registration of a host module that was lowered, or that has a GPU binary."""
    contents = module.contents
    held = frozenset(symbol for symbol, _, _ in contents.binaries)
    if held or contents.may_register:
        yield from check_registration(
            HostModuleFacts(module.start, held, frozenset(list_functions(module)), len(contents.stubs), _knows(module))
        )


def check_registration(host: HostModuleFacts) -> Iterator[RuleBreach]:
    """Yield what is wrong with the registration of a lowered host module."""
    for model in _MODELS:
        binary, constructor, table = (f"__{model}_{name}" for name in ("fatbin_str", "module_ctor", "register_globals"))
        text = ""
        if binary in host.held and constructor not in host.defined:
            text = f"the GPU binary in @{binary} is not registered: there is no @{constructor}"
        elif constructor in host.defined and binary not in host.held and not host.knows:
            text = f"@{constructor} has nothing to register: there is no @{binary}"
        elif constructor in host.defined and host.stub_count and table not in host.defined:
            text = f"@{constructor} registers no kernels: there is no @{table}, and {_stubs(host.stub_count)}"
        if text:
            yield RuleBreach("FP1513", host.start, text, _HINT)


def missing_binary_note(host: HostModuleFacts) -> Iterator[RuleBreach]:
    """Yield a note for a host module that launches kernels, and neither has nor registers nor knows a GPU binary."""
    is_lowered = any(f"__{model}_module_ctor" in host.defined for model in _MODELS)
    if host.stub_count and not host.held and not host.knows and not is_lowered:
        text = f"{_stubs(host.stub_count)}, and the module knows no GPU binary"
        yield RuleBreach(
            "FP1514", host.start, text, "right before -foffload-include-binary brings it in, and wrong after"
        )


def check_text_file(outline: FileOutline) -> Iterator[RuleBreach]:
    """Yield a note for every module of a file, no container, that launches kernels and knows no GPU binary.

    That is how every host module is before the step that brings the binary in, and wrong after it.
    """
    for module in outline.modules:
        yield from (
            breach.replace(text=f"{line_and_column(outline.text, breach.at)}: {breach.text}")
            for breach in unregistered_binary_findings(module)
        )
        contents = module.contents
        if contents.may_register:
            continue  # which unregistered() has looked at
        held = frozenset(symbol for symbol, _, _ in contents.binaries)
        for breach in missing_binary_note(
            HostModuleFacts(module.start, held, frozenset(), len(contents.stubs), _knows(module))
        ):
            yield breach.replace(text=f"{line_and_column(outline.text, module.start)}: {breach.text}")


def _knows(module: TextModule) -> bool:
    return any(module.attr(name) is not None for name in KNOWING)


def _stubs(count: int) -> str:
    return "one stub launches a kernel" if count == 1 else f"{count} stubs launch kernels"
