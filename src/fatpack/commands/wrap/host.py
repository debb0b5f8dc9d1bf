"""The host that images are registered on: what its triple means for objects."""

from __future__ import annotations

from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record
from fatpack.targets.triple import split_triple

#: what a triple calls a processor → what the listings of its code are called
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}

#: how the system of a triple begins, with or without a version → the kind of its objects; all others have ELF
_FILES = {
    "darwin": "mach-o",
    "macos": "mach-o",
    "ios": "mach-o",
    "tvos": "mach-o",
    "watchos": "mach-o",
    "windows": "coff",
    "win32": "coff",
    "mingw": "coff",
    "uefi": "coff",
    "aix": "xcoff",
    "zos": "goff",
}

#: Architectures with pointers of 64 bits whose names do not say so.
_WIDE = ("s390x", "systemz", "sparcv9")


class WrapHost(Record):
    """A host: its triple, its processor as listings have it ("" for others), the kind of its objects, and who links.

    ``is_wide`` tells that its pointers have 64 bits.
    ``file`` is elf, coff, mach-o, or a kind for which LLVM registers nothing: wasm, xcoff, goff. ``is_gnu`` tells that
    COFF objects are for MinGW, where tables of constructors are called ``.ctors``.
    """

    triple: str
    processor: str
    file: str
    is_gnu: bool
    is_wide: bool

    @property
    def has_objects(self) -> bool:
        """Whether objects can be made for it, which takes code for its processor."""
        return (self.file, self.processor) in (("elf", "x86_64"), ("elf", "aarch64"), ("coff", "x86_64"))

    @property
    def calling(self) -> str:
        """The name of the listings for its processor and its way of calling functions."""
        return f"{self.processor}-windows" if self.file == "coff" else self.processor


def parse_host(triple: str) -> WrapHost:
    """Return what a triple says of a host. Raises UsageError for what no host's triple can be."""
    parts = split_triple(triple)
    if not parts.architecture or not all(character.isalnum() or character in "-_." for character in triple):
        hint = "write one such as x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu or x86_64-pc-windows-msvc"
        raise UsageError(f"{triple!r} is no triple of a host", hint=hint)
    if "apple" in parts.vendor:
        file = "mach-o"
    elif parts.architecture.startswith("wasm"):
        file = "wasm"
    else:
        # A vendor may be missing: aarch64-linux-gnu, x86_64-windows-msvc.
        names = (parts.vendor, parts.system)
        file = next((file for start, file in _FILES.items() for name in names if name.startswith(start)), "elf")
    is_gnu = file == "coff" and (triple.endswith("gnu") or "mingw" in triple)
    # Pointers of 32 bits on a processor of 64: other records, and other relocations.
    is_narrow = triple.endswith(("x32", "ilp32"))
    processor = "" if is_narrow else _PROCESSORS.get(parts.architecture, "")
    is_wide = not is_narrow and ("64" in parts.architecture or parts.architecture in _WIDE)
    return WrapHost(triple, processor, file, is_gnu, is_wide)


def refuse_without_bounds(host: WrapHost, llvm: int) -> None:
    """Raise UsageError for a host on which no LLVM, or none of a version, tells where offload entries begin and end."""
    if host.file not in ("elf", "coff", "mach-o"):
        problem = f"no LLVM registers images on {host.triple}: its linkers make no bounds of the offload entries"
        raise UsageError(problem, hint="choose a host with ELF, COFF or Mach-O objects")
    if host.file == "mach-o" and llvm < 23:
        hint = f"add {cli_or_api('--as=23', 'llvm=23')}"
        raise UsageError(f"LLVM {llvm} has no bounds of the offload entries for Mach-O, which LLVM 23 has", hint=hint)


def refuse_unknown(host: WrapHost) -> None:
    """Raise UsageError for a host for which no object can be made."""
    if not host.has_objects:
        problem = f"no object can be made for {host.triple}: there is code for ELF x86-64 and AArch64, and COFF x86-64"
        emit = cli_or_api("--emit=llvm-ir", "emit='llvm-ir'")
        raise UsageError(problem, hint=f"{emit} writes LLVM IR, and llc or clang makes an object of it")
