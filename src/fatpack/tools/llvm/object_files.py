"""The files that llvm-readobj and llvm-objdump read, and their names: objects, archive members, offload binaries.

Source: ``getFileFormatName`` and ``getArch`` of the object files of LLVM (``llvm/Object/ELFObjectFile.h``,
``llvm/lib/Object``), behaviour of LLVM 22 and 23.
"""

from __future__ import annotations

from fatpack import binary, magic_numbers
from fatpack.binary import MEMBER, RECORDS
from fatpack.binary.section_names import OFFLOADING
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.tools.llvm.cl_tool import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.scanner.results import FoundContainer


# The bundles in the sections of an object, whose entries both readers list: what HIP registers.

_MAGICS = (magic_numbers.BUNDLE, magic_numbers.COMPRESSED_BUNDLE)


def read_bundles(item: ObjectFile) -> Iterator[FoundContainer]:
    """Yield the bundles in sections that begin with one, in file order. Raises ToolError for damage."""
    what = f"'{item.shown}': while extracting offload FatBin bundles: "
    try:
        for site in binary.get_host(item.host).locate(item.view):
            if isinstance(site, Finding) or site.content in (MEMBER, RECORDS):
                continue
            if site.data.head(0, len(magic_numbers.BUNDLE)).startswith(_MAGICS):
                from fatpack.scanner import FoundContainer, scan

                for found in scan(site.data, checks_registration=False, identifies_images=False):
                    if isinstance(found, FoundContainer):
                        yield found
                    elif found.severity == "error":
                        raise ToolError(f"{what}{found.text} (at {found.span.start:#x})")
    except (FormatError, HostError, Unsupported) as error:
        raise ToolError(f"{what}{error}") from error


#: e_machine → what formats and triples call it; big-endian files have the names after the bar
_ELF = {
    2: ("sparc", "sparc"),
    3: ("i386", "i386"),
    8: ("mips", "mipsel|mips"),
    20: ("powerpcle|powerpc", "powerpcle|powerpc"),
    21: ("powerpcle|powerpc", "powerpc64le|powerpc64"),
    22: ("s390", "s390x"),
    40: ("littlearm|bigarm", "arm|armeb"),
    43: ("sparc", "sparcv9"),
    62: ("x86-64", "x86_64"),
    183: ("littleaarch64|bigaarch64", "aarch64|aarch64_be"),
    224: ("amdgpu", "amdgcn"),
    243: ("littleriscv|bigriscv", "riscv"),
    247: ("bpf", "bpfel|bpfeb"),
    258: ("loongarch", "loongarch"),
}

#: machine of COFF → format, architecture
_COFF = {
    0x14C: ("COFF-i386", "i386"),
    0x8664: ("COFF-x86-64", "x86_64"),
    0x1C4: ("COFF-ARM", "thumb"),
    0xAA64: ("COFF-ARM64", "aarch64"),
    0xA641: ("COFF-ARM64EC", "aarch64"),
}

#: CPU type of Mach-O → format, architecture
_MACH_O = {
    7: ("Mach-O 32-bit i386", "i386"),
    12: ("Mach-O arm", "arm"),
    18: ("Mach-O 32-bit ppc", "ppc"),
    0x1000007: ("Mach-O 64-bit x86-64", "x86_64"),
    0x100000C: ("Mach-O arm64", "aarch64"),
    0x200000C: ("Mach-O arm64 (ILP32)", "aarch64_32"),
}

_NOT_OBJECT = "The file was not recognized as a valid object file"


class ObjectFile(Record):
    """An object: its bytes, what it is called in messages, its own file name, and the words of LLVM for its kind.

    ``host`` is the room that reads it, "" for an offload binary.
    """

    view: View
    shown: str
    file: str
    host: str
    format: str = ""
    arch: str = ""
    bits: int = 64


def read_objects(view: View, name: str) -> Iterator[ObjectFile]:
    """Yield what a file holds: itself, or the members of an archive that are objects. Raises ToolError for others."""
    if view.head(0, 4) == magic_numbers.OFFLOAD_BINARY:
        yield ObjectFile(view, name, name, "")
        return
    host = binary.detect_host(view)
    if host == "archive":
        yield from _members(view, name)
        return
    found = _object(view, name, name)
    if found is None:
        raise ToolError(f"'{name}': {_NOT_OBJECT}")
    yield found


def _members(view: View, name: str) -> Iterator[ObjectFile]:
    """Yield the members of an archive that are objects; LLVM passes over the others in silence, too."""
    try:
        for site in binary.get_host("archive").locate(view):
            if isinstance(site, Finding) or site.content != MEMBER:
                if isinstance(site, Finding) and site.severity in ("error", "warning"):
                    raise ToolError(f"'{name}': {site.text}")
                continue
            member = site.member or ""
            if site.data.head(0, 4) == magic_numbers.OFFLOAD_BINARY:
                yield ObjectFile(site.data, f"{name}({member})", member, "")
            else:
                found = _object(site.data, f"{name}({member})", member)
                if found is not None:
                    yield found
    except (FormatError, HostError, Unsupported) as error:
        raise ToolError(f"'{name}': {error}") from error


def _object(view: View, shown: str, file: str) -> ObjectFile | None:
    head = view.head(0, 64)
    if head.startswith(magic_numbers.ELF) and len(head) >= 52:
        order: str = "little" if head[5] == 1 else "big"
        machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        bits = 64 if head[4] == 2 else 32
        formats, archs = _ELF.get(machine, ("unknown", "unknown"))
        arch = _of(archs, order) + (str(bits) if archs in ("riscv", "loongarch") else "")
        if machine == 8 and bits == 64:
            arch = arch.replace("mips", "mips64", 1)
        return ObjectFile(view, shown, file, "elf", f"elf{bits}-{_of(formats, order)}", arch, bits)
    if head.startswith(magic_numbers.WASM + b"\1\0\0\0"):
        return ObjectFile(view, shown, file, "wasm", "WASM", "wasm32", 32)
    host = binary.detect_host(view)
    if host == "macho":
        cpu = int.from_bytes(
            head[4:8], "little" if head[:4] in (magic_numbers.MACH_O_32, magic_numbers.MACH_O_64) else "big"
        )
        format, arch = _MACH_O.get(cpu, ("Mach-O 32-bit unknown", "unknown"))
        return ObjectFile(view, shown, file, host, format, arch, 64 if cpu >> 24 & 1 else 32)
    if host in ("coff", "pe"):
        from fatpack.binary.coff.layout import read_machine

        machine = read_machine(view, host)
        format, arch = _COFF.get(machine, ("COFF-<unknown arch>", "unknown"))
        return ObjectFile(view, shown, file, host, format, arch, 32 if machine in (0x14C, 0x1C4) else 64)
    return None


def _of(names: str, order: str) -> str:
    little, _, big = names.partition("|")
    return little if order == "little" or not big else big


# The images of offload binaries in a file, as the readers of LLVM find them; their room is loaded with the first.

#: Hosts in which LLVM 22 and 23 find nothing, in whatever section.
_NOT_READ = ("macho", "universal")


def llvm_images(view: View, name: str, llvm: str) -> Iterator[tuple[Image, str]]:
    """Yield the images LLVM's extractor would find, in offload sections, in members, in a bare container, and the name
    of the file each lies in, which is ``name`` outside of archives.
    """
    if view.head(0, 4) == magic_numbers.OFFLOAD_BINARY:
        yield from _read(view, name, llvm)
        return
    host = binary.detect_host(view)
    if host is None or host in _NOT_READ:
        return
    for site in binary.get_host(host).locate(view):
        if isinstance(site, Finding) or site.content == binary.RECORDS:
            continue
        if site.content == binary.MEMBER:
            yield from llvm_images(site.data, site.member or name, llvm)
        elif (
            site.section is None
            or site.section.startswith(OFFLOADING)
            or site.data.head(0, 4) == magic_numbers.OFFLOAD_BINARY
        ):
            yield from _read(site.data, name, llvm)


def _read(view: View, name: str, llvm: str) -> Iterator[tuple[Image, str]]:
    from fatpack.formats.offload_binary.llvm_reader import read_all

    yield from ((image, name) for image in read_all(view, llvm))
