"""Triples as LLVM 22 reads, normalises and compares them: the rules behind the IDs that its bundler stores.

Source: ``Triple::normalize``, the parsers of its four parts and ``Triple::isCompatibleWith`` in
llvm/lib/TargetParser/Triple.cpp, LLVM 22.1. The words are data in
:mod:`~fatpack.formats.clang_bundle.llvm_words`. Compared with clang-offload-bundler 22 on thousands of random
triples (the reference tests of this room).
"""

from __future__ import annotations

from fatpack.formats.clang_bundle import llvm_words
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SAME_ARCHITECTURE = {word: group[0] for group in llvm_words.ARCHITECTURE_GROUPS for word in group}

#: Architectures whose objects are COFF or Mach-O where the operating system says so; all others are ELF by default.
_BY_SYSTEM = frozenset(
    _SAME_ARCHITECTURE.get(word, word)
    for word in ("aarch64", "arm64e", "arm64ec", "aarch64_32", "arm", "i386", "x86_64", "powerpc", "powerpc64")
)


def is_architecture(word: str) -> bool:
    """Return whether LLVM 22 knows an architecture word; its bundler refuses targets with another one."""
    # LIMIT: LLVM's parser of ARM names takes more spellings than are listed; no offload target has ever used one.
    return word in llvm_words.ARCHITECTURES or word.startswith("kalimba")


def parse_system(word: str) -> str:
    """Return the operating system that a word names, "" for none: ``darwin23`` is darwin, win32 is windows."""
    found = next((name for name in llvm_words.SYSTEMS if word.startswith(name)), "")
    return llvm_words.SYSTEM_ALIASES.get(found, found)


def parse_environment(word: str) -> str:
    """Return the environment that a word names, "" for none: ``android21`` is android."""
    return next((name for name in llvm_words.ENVIRONMENTS if word.startswith(name)), "")


def parse_object_format(word: str) -> str:
    """Return the object format that the end of an environment names, "" for none."""
    return next((name for name in llvm_words.OBJECT_FORMATS if word.endswith(name)), "")


def _is_mingw(word: str) -> bool:
    return word.startswith("mingw")


def _is_cygwin(word: str) -> bool:
    return word.startswith(("cygwin", "msys"))


#: position in a triple → whether a word may stand there by itself
_FIXED: tuple[Callable[[str], bool], ...] = (
    is_architecture,
    lambda word: word in llvm_words.VENDORS,
    lambda word: bool(parse_system(word)),
    lambda word: bool(parse_environment(word)),
)

#: position in a triple → whether a word found elsewhere may be moved there
_MOVABLE: tuple[Callable[[str], bool], ...] = (
    _FIXED[0],
    _FIXED[1],
    lambda word: bool(parse_system(word)) or _is_mingw(word) or _is_cygwin(word),
    lambda word: bool(parse_environment(word) or parse_object_format(word)),
)


def normalize_triple(triple: str, count: int = 4) -> str:
    """Return the triple in LLVM 22's normal form, of exactly ``count`` parts (3 or 4)."""
    parts = triple.split("-")
    # Position 0 always stays in a bundle ID: the bundler refuses architectures that it does not know.
    fixed = [True, *(len(parts) > at and _FIXED[at](parts[at]) for at in range(1, 4))]
    is_mingw = len(parts) > 2 and not fixed[2] and _is_mingw(parts[2])
    is_cygwin = len(parts) > 2 and not fixed[2] and _is_cygwin(parts[2])
    for place in range(1, 4):
        if fixed[place]:
            continue
        for at, word in enumerate(parts):
            if (at < len(fixed) and fixed[at]) or not _MOVABLE[place](word):
                continue
            if place == 2:
                is_mingw, is_cygwin = _is_mingw(word), _is_cygwin(word)
            if at > place:
                _move_left(parts, fixed, at, place)
            elif at < place:
                _move_right(parts, fixed, at, place)
            fixed[place] = True
            break
    if fixed[0] and fixed[3] and not fixed[1] and not fixed[2] and parts[1] == "none" and not parts[2]:
        parts[1], parts[2] = parts[2], parts[1]
    parts = [part or "unknown" for part in parts]
    _special_cases(parts, is_mingw, is_cygwin)
    return "-".join([*parts, *["unknown"] * count][:count])


def _move_left(parts: list[str], fixed: Sequence[bool], at: int, place: int) -> None:
    """Take the part out of its place and push it in further left; the next empty part takes up the push."""
    moved, parts[at] = parts[at], ""
    for position in range(place, len(parts)):
        if position < len(fixed) and fixed[position]:
            continue
        moved, parts[position] = parts[position], moved
        if not moved:
            break


def _move_right(parts: list[str], fixed: Sequence[bool], at: int, place: int) -> None:
    """Insert empty parts before the part, each pushing to the right, until it has reached its place."""
    while at < place:
        moved = ""
        position = at
        while position < len(parts):
            if not (position < len(fixed) and fixed[position]):
                moved, parts[position] = parts[position], moved
                if not moved:
                    break
            position += 1
        if moved:
            parts.append(moved)
        at += 1
        while at < len(fixed) and fixed[at]:
            at += 1


def _special_cases(parts: list[str], is_mingw: bool, is_cygwin: bool) -> None:
    """Rewrite environments and the names of Windows in place."""
    word = parts[3] if len(parts) > 3 else ""
    named = parse_environment(word)
    if word.startswith("androideabi"):
        parts[3] = word = f"android{word[len('androideabi') :]}"
    if len(parts) > 3 and parts[1] == "suse" and named == "gnueabi":
        parts[3] = "gnueabihf"
    form = parse_object_format(word)
    is_windows = len(parts) > 2 and parse_system(parts[2]) == "windows"
    if is_windows:
        parts[2:] = ["windows", word if named else form if form and form != "coff" else "msvc"]
    elif is_mingw or is_cygwin:
        parts[2:] = ["windows", "gnu" if is_mingw else "cygnus"]


class LlvmTriple(Record):
    """A triple as LLVM 22 understands it: equal words are one thing to it; "" is unknown."""

    architecture: str
    vendor: str
    system: str
    environment: str
    object_format: str

    def is_compatible(self, other: LlvmTriple) -> bool:
        """Return whether code for one may be used for the other, as ``Triple::isCompatibleWith`` of LLVM 22 says."""
        if (self.architecture, self.system) != (other.architecture, other.system):
            return False
        # QUIRK(LLVM): the vendor of MinGW differs between compilers (w64, pc), so it does not count there.
        ignores_vendor = self.system == "windows" and self.environment == "gnu"
        if not ignores_vendor and self.vendor != other.vendor:
            return False
        is_same_environment = (self.environment, self.object_format) == (other.environment, other.object_format)
        return self.vendor == "apple" or is_same_environment


def parse_llvm_triple(triple: str) -> LlvmTriple:
    """Return what LLVM 22 understands of a triple of up to four parts."""
    architecture, vendor, name, env = [*triple.split("-", 3), "", "", ""][:4]
    architecture = _SAME_ARCHITECTURE.get(architecture, architecture)
    architecture = "kalimba" if architecture.startswith("kalimba") else architecture
    vendor = vendor if vendor in llvm_words.VENDORS else ""
    os_name = parse_system(name)
    return LlvmTriple(
        architecture,
        vendor,
        os_name,
        parse_environment(env),
        parse_object_format(env) or _default_format(architecture, os_name),
    )


#: (architecture, operating system) → the object format where neither the rules below nor ELF hold
_FORMATS = {("powerpc", "aix"): "xcoff", ("powerpc64", "aix"): "xcoff", ("s390x", "zos"): "goff"}


def _default_format(architecture: str, os_name: str) -> str:
    for family in ("wasm", "spirv"):
        if architecture.startswith(family):
            return family
    if architecture in _BY_SYSTEM or architecture.startswith(("armv", "thumbv")):
        if os_name in llvm_words.DARWINS:
            return "macho"
        if os_name in ("windows", "uefi") and not architecture.startswith("powerpc"):
            return "coff"
    return _FORMATS.get((architecture, os_name), "elf")
