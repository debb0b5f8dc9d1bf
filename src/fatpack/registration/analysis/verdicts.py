"""Verdicts about ELF programs from names and entries alone, without reading code."""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.registration.analysis import functions, wrappers
from fatpack.registration.analysis.elf import count_entry_kinds
from fatpack.registration.analysis.findings import CERTAIN, TITLES, name_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.memory import HostMemory
    from fatpack.model import Finding

_LINK = "likely step: the link, which clang-linker-wrapper did not do; link with clang --offload-link"


def program_findings(file: HostMemory) -> Iterator[Finding]:
    """Yield what is certain from the names that a program imports and defines."""
    names = {symbol.name for symbol in file.symbols}
    undefined = {symbol.name for symbol in file.symbols if not symbol.is_defined}
    kinds = count_entry_kinds(file)
    records = {each.model for each in wrappers.find_wrappers(file)}
    for model in functions.MODELS:
        title = TITLES[model]
        register = next(name for name, its in functions.REGISTER_BINARY.items() if its == model)
        pop = next(name for name, its in functions.POP.items() if its == model)
        if register in names:
            continue
        has_names = any(functions.function_model(name) == model for name in names)
        if kinds.get(model) and has_names:
            text = f"{pluralize(kinds[model], 'offload entry')} of {title}, and nothing registers them"
            text += f": {register} is not called ({CERTAIN})"
            yield finding("FP3049", file.view.span(), text, _LINK)
        elif pop in undefined and model not in records:
            stubs = [symbol.name for symbol in file.symbols if functions.STUB in symbol.name]
            what = f"{pluralize(len(stubs), 'kernel')} ({name_list(stubs)})" if stubs else "kernels of its own"
            text = f"{title} code launches {what}, and nothing here registers them"
            text += f": no wrapper, {register} is not called, no offload entry ({CERTAIN})"
            hint = "likely step: the compilation of the host code, where the device code was not handed to it"
            yield finding("FP3041", file.view.span(), text, hint)
    if functions.REGISTER_OPENMP not in names and any(name.startswith("__tgt_") for name in names):
        if kinds.get("openmp"):
            text = f"{pluralize(kinds['openmp'], 'offload entry')} of OpenMP, and nothing registers them"
            text += f": {functions.REGISTER_OPENMP} is not called ({CERTAIN})"
            yield finding("FP3049", file.view.span(), text, _LINK)
        elif functions.TARGET_KERNEL in undefined:
            text = f"OpenMP regions are launched, and there is no offload entry for any ({CERTAIN})"
            yield finding("FP3050", file.view.span(), text, _LINK)
    absent = sorted(name for name in undefined if name.startswith(functions.HIP_IMAGE))
    if absent:
        text = f"{name_list(absent)}: HIP code that no file of the link had ({CERTAIN})"
        hint = "likely step: the link of the device code; link with clang and -fgpu-rdc, as the objects were compiled"
        yield finding("FP3051", file.view.span(), text, hint)
