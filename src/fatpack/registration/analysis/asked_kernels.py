"""Kernels that host code does more with than launch them: it may ask for their attributes, which no launch shows.

Host code names a kernel by its handle, the address that it was registered with. Code that launches it loads the handle
into the register of the first argument, at times by way of RAX, calls, and has lost it then. All other uses count as
questions: a handle in another register, more loads than launches in a function, and a handle in a table of data. So
does each use on a machine whose code is not compared so closely. The code that registers a kernel asks for nothing, nor
does its stub: the function at the handle, and what this calls.

Source: ``cudaFuncGetAttributes``, ``cudaFuncSetAttribute`` and ``cudaOccupancyMaxActiveBlocksPerMultiprocessor`` take
the handle as their second or first argument (``cuda_runtime_api.h`` of 13.0).
"""

from __future__ import annotations

from array import array
from collections import Counter

from fatpack.registration.analysis import references
from fatpack.registration.analysis.registers import LinkedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.registration.analysis.model import RegistrationEvidence

#: beginnings of the names of sections with data in which tables of handles may be; offload entries are none
_DATA = (".data", ".rodata", ".rdata", ".tdata", "__const")
_SLOTS = (".got",)

#: LIMIT: bytes of a section that is searched for words with handles
_SEARCHED = 1 << 26

#: x86-64: prefix of 64-bit registers; the second byte of instructions that load RDI, the first argument (System V), and
#: RAX, which is then moved there
_WIDE, _FIRST, _BY_WAY = 0x48, 0x3D, 0x05
_MOVED = b"\x48\x89\xc7"

#: MOV of a fixed address to EDI, and its prefix for R15
_FIRST_FIXED, _UPPER = 0xBF, 0x41

#: bytes of an instruction after its prefix, and of the next instruction
_LENGTH, _NEXT = 6, 3


def asked_kernels(evidence: RegistrationEvidence) -> frozenset[str]:
    """Return the names of the registered kernels of CUDA whose handle a program uses for more than launches."""
    program = evidence.memory
    names: dict[int, set[str]] = {}
    for each in evidence.registered:
        if each.is_kernel and each.name and each.handle and each.model == "cuda":
            names.setdefault(each.handle, set()).add(each.name)
    if not isinstance(program, LinkedProgram) or not names:
        return frozenset()
    registering = {each.caller for each in evidence.registered}
    launches = Counter((each.caller, each.handle) for each in evidence.launches)
    loads: Counter[tuple[int, int]] = Counter()
    kept: set[tuple[int, int]] = set()
    slots, asked = _words(program, names)
    for at, handle, is_first in (*_taken(program, names), *_loaded(program, slots)):
        start = program.start_of(at)
        if start != handle and start not in registering:
            loads[start, handle] += 1
            kept.update([] if is_first else [(start, handle)])
    kept |= {place for place, count in loads.items() if count > launches[place]}
    callers = _callers(program, {start for start, _ in kept})
    asked |= {handle for start, handle in kept if not _is_stub(callers, start, handle)}
    return frozenset().union(*(names[handle] for handle in asked))


#: how many functions lie between a handle and the one that launches: two, of a template that was not optimized
_BETWEEN = 2


def _callers(program: LinkedProgram, starts: set[int]) -> dict[int, set[int]]:
    """Return the functions that refer to some functions, to those in turn, and so on."""
    found: dict[int, set[int]] = {}
    for _ in range(_BETWEEN):
        wanted = starts - found.keys()
        found |= {start: set() for start in wanted}
        for at, start in references.find_code_references(program, wanted) if wanted else ():
            found[start].add(program.start_of(at))
        starts = set().union(*(found[start] for start in wanted))
    return found


def _is_stub(callers: dict[int, set[int]], start: int, handle: int) -> bool:
    """Return whether the function at a handle leads to a function that uses the handle: compilers made both then."""
    above = {start}
    for _ in range(_BETWEEN):
        above = set().union(*(callers.get(one, set()) for one in above))
        if handle in above:
            return True
    return False


def _words(program: LinkedProgram, handles: dict[int, set[str]]) -> tuple[dict[int, int], set[int]]:
    """Return the slots of the GOT with handles, by address, and the handles in other data."""
    slots: dict[int, int] = {}
    stored: set[int] = set()
    wanted = handles.keys()
    found = [(place, value) for place, value in program.pointers(program.sections[0]).items() if value in wanted]
    for section in program.sections:
        if section.is_code or len(section.data) > _SEARCHED or not section.name.startswith((*_DATA, *_SLOTS)):
            continue
        data = program.content(section)
        words = array("Q", data[: len(data) - len(data) % 8])
        found += [(section.address + 8 * at, word) for at, word in enumerate(words) if word in wanted]
    for place, value in found:
        around = program.section_at(place)
        name = around.name if around is not None else ""
        if name.startswith(_SLOTS):
            slots[place] = value
        elif name.startswith(_DATA):
            stored.add(value)
    return slots, stored


def _taken(program: LinkedProgram, handles: dict[int, set[str]]) -> Iterator[tuple[int, int, bool]]:
    """Yield where code makes a handle, the handle, and whether it does so for the first argument alone."""
    for at, handle in references.address_taken(program, handles):
        yield at, handle, _is_first(program, at)


def _loaded(program: LinkedProgram, slots: dict[int, int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the same for code that loads a handle from a slot."""
    for section in references.code_sections(program) if slots else ():
        content = program.content(section)
        for low in range(0, len(content), references.STEP):
            high = min(low + references.STEP, len(content))
            if program.machine != "x86-64":
                for slot, handle in slots.items():
                    found = references.pointer_loads(program, section, low, high, {slot})
                    yield from ((at, handle, False) for at in found)
                continue
            for at in references.pointer_loads(program, section, low, high, slots):
                place = at - section.address
                distance = int.from_bytes(content[place + 2 : place + _LENGTH], "little", signed=True)
                yield at, slots[at + _LENGTH + distance], _is_first(program, at)


def _is_first(program: LinkedProgram, at: int) -> bool:
    """Return whether the instruction with its opcode at an address gives a value to the first argument of a call."""
    section = program.section_at(at)
    if section is None or program.machine != "x86-64" or program.is_windows:
        return False
    place, content = at - section.address, program.content(section)
    code = content[max(place - 1, 0) : place + _LENGTH + _NEXT]
    if not place or len(code) <= _LENGTH:
        return False
    if code[1] == _FIRST_FIXED:
        return code[0] != _UPPER
    is_moved = code[2] == _BY_WAY and code[_LENGTH + 1 :] == _MOVED
    return code[0] == _WIDE and (code[2] == _FIRST or is_moved)
