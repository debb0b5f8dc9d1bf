"""The evidence of an object: by its symbols and relocations alone."""

from __future__ import annotations

from fatpack.registration.analysis import entries, functions, wrappers
from fatpack.registration.analysis.model import BinaryCall, LaunchCall, RegisterCall, RegistrationEvidence
from fatpack.registration.analysis.objects import ObjectCalls, handle_and_name, launched_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.host_object import ObjectMemory
    from fatpack.io.source import View
    from fatpack.registration.analysis.objects import ObjectCall


def read_object(view: View, host: str) -> ObjectMemory:
    """Return an object laid out. Raises FormatError."""
    if host == "elf":
        from fatpack.binary.elf.object_memory import ElfObjectMemory

        return ElfObjectMemory(view)
    from fatpack.binary.coff.object_memory import CoffObjectMemory

    return CoffObjectMemory(view)


def object_evidence(file: ObjectMemory) -> RegistrationEvidence:
    """Return what an object shows."""
    calls = ObjectCalls(file)
    stubs = {each.address: each.name for each in file.symbols if each.is_function and functions.STUB in each.name}
    links = sorted({each.name for each in file.symbols if each.name.startswith(functions.LINKED_BINARY)})
    named = [each.address for each in file.symbols if each.is_defined and each.name.startswith(functions.LINKED_BINARY)]
    binaries: list[BinaryCall] = []
    registered: list[RegisterCall] = []
    launches: list[LaunchCall] = []
    called: dict[str, int] = {}
    nulls: list[int] = []
    unread = 0
    found = wrappers.find_wrappers(file)
    records = {each.at for each in found}
    for call in calls.all():
        name = call.name
        called[name] = called.get(name, 0) + 1
        model = functions.function_model(name)
        if name in functions.REGISTER_BINARY:
            binaries.append(BinaryCall(model, call.at, call.caller, _wrapper(file, call, records)))
        elif name in functions.REGISTER_FUNCTION or name in functions.REGISTER_VARIABLE:
            is_kernel = name in functions.REGISTER_FUNCTION
            handle, title = handle_and_name(file, call)
            unread += is_kernel and (handle is None or not title)
            registered.append(RegisterCall(model, call.at, call.caller, title, handle, is_kernel))
        elif name in functions.LAUNCH:
            handle = launched_handle(file, call, is_stub=call.caller in stubs)
            if handle is None and name in functions.LAUNCH_ADDRESS and calls.passes_null(call):
                nulls.append(call.at)
            elif handle is not None:
                launches.append(LaunchCall(model or "openmp", call.at, call.caller, handle))
    for each in file.symbols:  # referred to, but called in ways that are not read
        if each.name in functions.FUNCTION_NAMES and not each.is_defined and each.address in file.referred:
            called.setdefault(each.name, 0)
    constructors = tuple(file.constructors())
    reached = calls.reached([*(each.function for each in constructors), *named])
    return RegistrationEvidence(
        file,
        False,
        stubs,
        called,
        tuple(binaries),
        tuple(registered),
        tuple(launches),
        found,
        tuple(entries.find_entry_tables(file)),
        constructors,
        frozenset(reached) if file.arguments else None,
        tuple(links),
        unread,
        nulls=tuple(nulls),
    )


def _wrapper(file: ObjectMemory, call: ObjectCall, known: set[int]) -> int | None:
    """Return the wrapper that a call registers: by register, or the only address that could be one."""
    register = file.arguments[0] if file.arguments else None
    found = next((each.target for each in reversed(call.group) if each.register == register), None)
    if found is not None and file.section_at(found) is not None:
        return found
    inside = {each.target for each in call.group if file.section_at(each.target) is not None}
    wanted = inside & known or inside
    return wanted.pop() if len(wanted) == 1 else None
