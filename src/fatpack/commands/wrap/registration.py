"""Registrations: images and how a runtime gets them, as records. No bytes of objects, no names of sections."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from fatpack.io.source import Piece

    Registration: TypeAlias = "FatbinRegistration | OpenmpDescriptor | SyclBinary | SyclDescriptor"

#: The kinds of offload entries (and of offload binaries), by the word that ``--kind`` takes.
KINDS = {"openmp": 1, "cuda": 2, "hip": 4, "sycl": 8}

#: The host where none is named: the same on every machine, so that the same arguments give the same bytes.
DEFAULT_HOST = "x86_64-unknown-linux-gnu"

#: kind of output → the extension of an output without a name.
EMITS = {"obj": "o", "llvm-ir": "ll"}

#: The versions of LLVM whose way of registering is written, and the one that is by default. Up to 20 offload entries
#: have another layout, in other sections: what is written for 19 is for all of these.
VERSIONS, DEFAULT_VERSION = (19, 22, 23), 22


class EntryLayout(Record):
    """The offload entries that compilers of an era write: the name of their section, and where their fields are.

    ``fields`` also has their size (``pitch``) and, where all kinds share a section, the ``kind`` that is meant.
    """

    section: str
    fields: Mapping[str, int]

    @property
    def pitch(self) -> int:
        """The bytes of an entry."""
        return self.fields["pitch"]

    @property
    def start(self) -> str:
        """The symbol that ELF linkers define at the first byte of all entries."""
        return f"__start_{self.section}"

    @property
    def stop(self) -> str:
        """The symbol that ELF linkers define at the end of all entries."""
        return f"__stop_{self.section}"


#: The entries of LLVM 21 and later: ``address`` and so on are offsets (``llvm/Frontend/Offloading/Utility.h``).
_FIELDS = {"flags": 12, "address": 16, "name": 24, "size": 32, "data": 40, "auxiliary": 48, "pitch": 56}

#: Those of LLVM 20 and before, in a section for each kind. They have no place for the address of a managed variable.
_OLD_FIELDS = {"address": 0, "name": 8, "size": 16, "flags": 24, "data": 28, "pitch": 32}
_OLD_SECTIONS = {"openmp": "omp", "cuda": "cuda", "hip": "hip"}

#: The first LLVM with the newer entries.
_NEW_ENTRIES = 21


def entry_layout(kind: str, llvm: int) -> EntryLayout:
    """Return the entries that an LLVM of a version writes for a kind."""
    if llvm < _NEW_ENTRIES:
        return EntryLayout(f"{_OLD_SECTIONS[kind]}_offloading_entries", _OLD_FIELDS)
    return EntryLayout("llvm_offload_entries", {"kind": KINDS[kind], **_FIELDS})


class UniqueNames:
    """Names of globals as LLVM makes them: one that is taken gets a number, which counts all of a module."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._count = 0

    def __call__(self, name: str) -> str:
        """Return the name, with a number after it if it is taken."""
        fresh = name
        if name in self._taken:
            self._count += 1
            fresh = f"{name}.{self._count}"
        self._taken.add(fresh)
        return fresh


class RegisteredContent(Record):
    """Bytes that a program carries, and where in them the images lie: begin and end of each."""

    pieces: tuple[Piece, ...]
    images: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self.pieces))


class FatbinRegistration(Record):
    """CUDA and HIP: one fat binary or bundle, registered through a wrapper, and the entries of its ``runtime``."""

    runtime: str
    content: RegisteredContent
    entries: EntryLayout


class OpenmpDescriptor(Record):
    """OpenMP: all images of some contents in one descriptor, each with all entries of the program.

    ``is_relocatable`` tells that they are for a link with ``-r``, after which another link follows.
    """

    contents: tuple[RegisteredContent, ...]
    entries: EntryLayout
    is_relocatable: bool = False


class SyclBinary(Record):
    """SYCL since LLVM 23: one offload binary with all images, which the runtime reads."""

    content: RegisteredContent


class SyclImage(Record):
    """An image as LLVM 22 describes it to the SYCL runtime: its triple, kind, bytes, and the kernels in it by name."""

    triple: str
    image_kind: int
    content: RegisteredContent
    kernels: tuple[str, ...]


class SyclDescriptor(Record):
    """SYCL up to LLVM 22: a descriptor with a record for each image."""

    images: tuple[SyclImage, ...]
