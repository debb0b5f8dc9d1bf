"""The words of bundle IDs, as LLVM 22 knows them: data for the triple rules and for the processors it keeps.

Facts: llvm/lib/TargetParser/Triple.cpp and clang/include/clang/Basic/OffloadArch.h of LLVM 22.1; every word was tried
with clang-offload-bundler 22 (section 2.3 and 2.4 of the notes on bundles).
"""

from __future__ import annotations

#: Offload kinds that clang-offload-bundler 22 takes; DPC++ adds sycl and fpga, old files carry hcc.
KINDS_LLVM22 = ("host", "openmp", "hip", "hipv4")

#: kind of a bundle ID → our word for the programming model; ``host`` is the code beside the device code
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

#: Groups of architecture words that are one architecture with one sub-architecture; a word beside them stands alone.
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

#: Architecture words that stand alone. Not known to LLVM 22: x86, amdgpu, spir64_gen, spir64_x86_64, spir64_fpga.
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

#: Environments by prefix, in LLVM's order: a longer word stands before its own prefix.
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

#: Processors that LLVM 22 knows; it drops every other target-id (trap T3 of the notes).
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
