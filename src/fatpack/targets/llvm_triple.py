"""Triples as LLVM 22 reads, normalises and compares them: the rules for the IDs that its bundler stores.

Source: ``Triple::normalize``, the parsers of its four parts and ``Triple::isCompatibleWith`` in
llvm/lib/TargetParser/Triple.cpp, LLVM 22.1. Compared with clang-offload-bundler 22 on thousands of random triples (this
format's reference tests).
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# The words of bundle IDs that LLVM 22 knows: data for the rules of triples and for the processors it keeps.
#
# Facts: llvm/lib/TargetParser/Triple.cpp and clang/include/clang/Basic/OffloadArch.h of LLVM 22.1; every word was tried
# with clang-offload-bundler 22.

#: Offload kinds that clang-offload-bundler 22 accepts; DPC++ adds sycl and fpga, old files have hcc.
KINDS_LLVM22 = ("host", "openmp", "hip", "hipv4")

#: kind of a bundle ID → our word for the programming model; ``host`` is the host's code
OFFLOADS = {
    "host": "host",
    "hip": "hip",
    "hipv4": "hip",
    "hcc": "hip",
    "openmp": "openmp",
    "cuda": "cuda",
    "sycl": "sycl",
    "fpga": "sycl",
}

#: Groups of words for one architecture and sub-architecture. Words in no group have no synonyms.
ARCHITECTURE_GROUPS = tuple(
    tuple(group.split())
    for group in (
        "i386 i486 i586 i686 i786 i886 i986",
        "x86_64 amd64 x86_64h",
        "powerpc ppc ppc32",
        "powerpcle ppcle ppc32le",
        "powerpc64 ppu ppc64",
        "powerpc64le ppc64le",
        "aarch64 arm64 aarch64v8 arm64v8",
        "aarch64_32 arm64_32",
        "arm thumb armv2 armv3 armv4",
        "armeb thumbeb",
        "armv5 armv5t",
        "armv5te armv5e armv5tej xscale",
        "armv6 armv6j",
        "armv6k armv6kz armv6z",
        "armv6m thumbv6m",
        "armv7 armv7a armv7l armv7r thumbv7 thumbv7a",
        "armv7m thumbv7m",
        "armv7em thumbv7em",
        "armebv7 armv7eb thumbebv7 thumbv7eb",
        "armv8 armv8a armv8l",
        "armv8m.main thumbv8m.main",
        "armv9 armv9a",
        "mips mipseb mipsallegrex",
        "mipsel mipsallegrexel",
        "mipsisa32r6 mipsr6",
        "mipsisa32r6el mipsr6el",
        "mips64 mips64eb mipsn32",
        "mips64el mipsn32el",
        "mipsisa64r6 mips64r6 mipsn32r6",
        "mipsisa64r6el mips64r6el mipsn32r6el",
        "s390x systemz",
        "sparcv9 sparc64",
        "bpf bpfel bpf_le",
        "bpfeb bpf_be",
    )
)

#: Architecture words without synonyms. Not known to LLVM 22: x86, amdgpu, spir64_gen, spir64_x86_64, spir64_fpga.
ARCHITECTURES = frozenset(word for group in ARCHITECTURE_GROUPS for word in group) | frozenset(
    """
    powerpcspe xscaleeb aarch64_be aarch64_lfi arc arm64e arm64ec avr m68k msp430 r600 amdgcn riscv32 riscv64
    riscv32be riscv64be hexagon sparc sparcel tce tcele xcore nvptx nvptx64 amdil amdil64 hsail hsail64 spir spir64
    spirv spirv1.5 spirv1.6 spirv32 spirv32v1.0 spirv32v1.1 spirv32v1.2 spirv32v1.3 spirv32v1.4 spirv32v1.5
    spirv32v1.6 spirv64 spirv64v1.0 spirv64v1.1 spirv64v1.2 spirv64v1.3 spirv64v1.4 spirv64v1.5 spirv64v1.6 lanai
    renderscript32 renderscript64 shave ve wasm32 wasm64 csky loongarch32 loongarch64 dxil dxilv1.0 dxilv1.1 dxilv1.2
    dxilv1.3 dxilv1.4 dxilv1.5 dxilv1.6 dxilv1.7 dxilv1.8 dxilv1.9 xtensa armv4t armv6-m armv6t2 armv7s armv7k armv7ve
    armv8r armv8m.base armv8.1m.main armv8.1a armv8.2a armv8.3a armv8.4a armv8.5a armv8.6a armv8.7a armv8.8a armv8.9a
    armv9.1a armv9.2a armv9.3a armv9.4a armv9.5a armv9.6a armv9.7a
    """.split()
)

VENDORS = frozenset("apple pc scei sie fsl ibm img mti nvidia csr amd mesa suse oe intel meta".split())

#: Operating systems by prefix, in LLVM's order.
SYSTEMS = tuple(
    """
    darwin dragonfly freebsd fuchsia ios kfreebsd linux lv2 macos managarm netbsd openbsd solaris uefi win32 windows
    zos haiku rtems aix cuda nvcl amdhsa ps4 ps5 elfiamcu tvos watchos bridgeos driverkit xros visionos mesa3d amdpal
    hermit hurd wasi emscripten shadermodel liteos serenity vulkan cheriotrtos
    """.split()
)

#: Two words for one operating system.
SYSTEM_ALIASES = {"win32": "windows", "visionos": "xros"}

#: Operating systems of Apple, whose objects are Mach-O by default.
DARWINS = frozenset("darwin macos ios tvos watchos bridgeos driverkit xros".split())

#: Environments by prefix, in LLVM's order: a longer word comes before its own prefix.
ENVIRONMENTS = tuple(
    """
    eabihf eabi gnuabin32 gnuabi64 gnueabihft64 gnueabihf gnueabit64 gnueabi gnuf32 gnuf64 gnusf gnux32 gnu_ilp32
    code16 gnut64 gnu android muslabin32 muslabi64 musleabihf musleabi muslf32 muslsf muslx32 muslwali musl msvc
    itanium cygnus coreclr simulator macabi pixel vertex geometry hull domain compute library raygeneration
    intersection anyhit closesthit miss callable mesh amplification rootsignature opencl ohos pauthtest llvm mlibc
    mtia
    """.split()
)

#: Object formats by suffix of the environment, in LLVM's order: xcoff ends in coff.
OBJECT_FORMATS = tuple("xcoff coff elf goff macho wasm spirv".split())

NVIDIA_PROCESSORS = frozenset(
    """
    sm_20 sm_21 sm_30 sm_32 sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_88
    sm_89 sm_90 sm_90a sm_100 sm_100a sm_101 sm_101a sm_103 sm_103a sm_110 sm_110a sm_120 sm_120a sm_121 sm_121a
    """.split()
)

AMD_PROCESSORS = frozenset(
    """
    gfx600 gfx601 gfx602 gfx700 gfx701 gfx702 gfx703 gfx704 gfx705 gfx801 gfx802 gfx803 gfx805 gfx810 gfx900 gfx902
    gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx942 gfx950 gfx1010 gfx1011 gfx1012 gfx1013 gfx1030 gfx1031 gfx1032
    gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201
    gfx1250 gfx1251 gfx9-generic gfx9-4-generic gfx10-1-generic gfx10-3-generic gfx11-generic gfx12-generic
    """.split()
)

#: Processors that LLVM 22 knows; it drops every other target-id.
PROCESSORS_LLVM22 = NVIDIA_PROCESSORS | AMD_PROCESSORS | {"amdgcnspirv", "generic", "graniterapids", "bmg_g21"}

#: feature → AMD processors whose target-id may fix it
FEATURES = {
    "xnack": frozenset(
        """
        gfx801 gfx810 gfx900 gfx902 gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx942 gfx950 gfx1010 gfx1011 gfx1012
        gfx1013 gfx9-generic gfx9-4-generic gfx10-1-generic
        """.split()
    ),
    "sramecc": frozenset("gfx906 gfx908 gfx90a gfx942 gfx950 gfx9-4-generic".split()),
}

#: Processors that have sramecc in target-ids since LLVM 23.
SRAMECC_ADDED_BY_LLVM23 = frozenset({"gfx1250", "gfx1251"})


_SAME_ARCHITECTURE = {word: group[0] for group in ARCHITECTURE_GROUPS for word in group}

#: Architectures whose objects are COFF or Mach-O if the operating system says so; all others are ELF by default.
_BY_SYSTEM = frozenset(
    _SAME_ARCHITECTURE.get(word, word)
    for word in ("aarch64", "arm64e", "arm64ec", "aarch64_32", "arm", "i386", "x86_64", "powerpc", "powerpc64")
)


def is_architecture(word: str) -> bool:
    """Return whether LLVM 22 knows an architecture word; its bundler refuses targets with any other."""
    # LIMIT: LLVM's parser of ARM names accepts more spellings than are listed; no offload target has ever used one.
    return word in ARCHITECTURES or word.startswith("kalimba")


def parse_system(word: str) -> str:
    """Return the operating system that a word names, "" for none: ``darwin23`` is darwin, win32 is windows."""
    found = next((name for name in SYSTEMS if word.startswith(name)), "")
    return SYSTEM_ALIASES.get(found, found)


def parse_environment(word: str) -> str:
    """Return the environment that a word names, "" for none: ``android21`` is android."""
    return next((name for name in ENVIRONMENTS if word.startswith(name)), "")


def parse_object_format(word: str) -> str:
    """Return the object format that the end of an environment names, "" for none."""
    return next((name for name in OBJECT_FORMATS if word.endswith(name)), "")


def _is_mingw(word: str) -> bool:
    return word.startswith("mingw")


def _is_cygwin(word: str) -> bool:
    return word.startswith(("cygwin", "msys"))


#: position in a triple → whether a word is valid there
_FIXED: dict[int, Callable[[str], bool]] = {
    1: lambda word: word in VENDORS,
    2: lambda word: bool(parse_system(word)),
    3: lambda word: bool(parse_environment(word)),
}

#: position in a triple → whether a word found elsewhere may be moved there
_MOVABLE: dict[int, Callable[[str], bool]] = {
    1: _FIXED[1],
    2: lambda word: bool(parse_system(word)) or _is_mingw(word) or _is_cygwin(word),
    3: lambda word: bool(parse_environment(word) or parse_object_format(word)),
}


def normalize_triple(triple: str, count: int = 4) -> str:
    """Return the triple in LLVM 22's normal form, of exactly ``count`` parts (3 or 4)."""
    parts = triple.split("-")
    # Position 0 of a bundle ID never changes: the bundler refuses architectures that it does not know.
    fixed = [True, *(len(parts) > at and _FIXED[at](parts[at]) for at in range(1, 4))]
    is_mingw, is_cygwin = (len(parts) > 2 and is_word(parts[2]) for is_word in (_is_mingw, _is_cygwin))
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
    """Remove the part from its place and insert it further left; the next empty part absorbs the shift."""
    moved, parts[at] = parts[at], ""
    for position in range(place, len(parts)):
        if position < len(fixed) and fixed[position]:
            continue
        moved, parts[position] = parts[position], moved
        if not moved:
            break


def _move_right(parts: list[str], fixed: Sequence[bool], at: int, place: int) -> None:
    """Insert empty parts before the part, shifting others right, until it is in its place."""
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
    """A triple as LLVM 22 parses it, with one word for synonyms; "" is unknown."""

    architecture: str
    vendor: str
    system: str
    environment: str
    object_format: str

    def is_compatible(self, other: LlvmTriple) -> bool:
        """Return whether code for one may be used for the other, by the rule of LLVM 22's
        ``Triple::isCompatibleWith``."""
        if (self.architecture, self.system) != (other.architecture, other.system):
            return False
        # QUIRK(LLVM): the vendor of MinGW differs between compilers (w64, pc), so it is ignored there.
        ignores_vendor = self.system == "windows" and self.environment == "gnu"
        if not ignores_vendor and self.vendor != other.vendor:
            return False
        is_same_environment = (self.environment, self.object_format) == (other.environment, other.object_format)
        return self.vendor == "apple" or is_same_environment


def parse_llvm_triple(triple: str) -> LlvmTriple:
    """Return a triple of up to four parts as LLVM 22 parses it."""
    architecture, vendor, name, env = [*triple.split("-", 3), "", "", ""][:4]
    architecture = _SAME_ARCHITECTURE.get(architecture, architecture)
    architecture = "kalimba" if architecture.startswith("kalimba") else architecture
    vendor = vendor if vendor in VENDORS else ""
    os_name = parse_system(name)
    return LlvmTriple(
        architecture,
        vendor,
        os_name,
        parse_environment(env),
        parse_object_format(env) or _default_format(architecture, os_name),
    )


#: (architecture, operating system) → the object format, for exceptions to the rules below and to ELF
_FORMATS = {("powerpc", "aix"): "xcoff", ("powerpc64", "aix"): "xcoff", ("s390x", "zos"): "goff"}


def _default_format(architecture: str, os_name: str) -> str:
    for family in ("wasm", "spirv"):
        if architecture.startswith(family):
            return family
    if architecture in _BY_SYSTEM or architecture.startswith(("armv", "thumbv")):
        if os_name in DARWINS:
            return "macho"
        if os_name in ("windows", "uefi") and not architecture.startswith("powerpc"):
            return "coff"
    return _FORMATS.get((architecture, os_name), "elf")
