"""Images: identify the bytes of one device binary, the target they state, and their kernels.

Containers store a target for each image; this package reads the images themselves, so that wrong labels are noticed.
:func:`identify_image` reads a few hundred bytes and never fails on their content; :func:`kernels` reads whole symbol
tables or texts and raises if they are damaged; :func:`facts` reads everything that tables and notes state about each
kernel. One family of modules per form:

===============================================  ====================================================================
``cubin``, ``cubin_kernels``, ``cubin_digest``   ELF for NVIDIA GPUs: target and names; properties; digests of kernels
``amdgpu``, ``amdgpu_metadata``,                 ELF for AMD GPUs, called code objects: target and names; metadata
``amdgpu_kernels``                               notes; properties and digests of kernels
``ptx``, ``ptx_kernels``, ``text``               PTX; other text: CIR, LLVM IR, assembly, bundles
``bitcode``                                      LLVM bitcode, raw or in a wrapper
``spirv``                                        SPIR-V modules in either byte order
``tile_ir``                                      bytecode of CUDA Tile IR
``other``                                        objects for host processors; packages for Intel's FPGAs
``kernel``                                       properties of kernels for all vendors, and the parts of digests
``identity``, ``build_traces``                   the canonical digest of an image; what a build leaves beside the code
``peek``                                         identification of a compressed image from its first bytes
``container_mismatch``, ``sidecar``              contradictions with the container, and with a compiler's metadata file
===============================================  ====================================================================

Modules for properties and digests are imported only by :func:`facts` and :func:`code_digests`. This package knows no
formats of containers: an image that is a container itself is named by its magic, and the format's reader decides.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.images.identification import EMPTY, EXTENSIONS, NOT_INFLATED, UNKNOWN, ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, Protocol, TypeVar

    from fatpack.images.cache import ImageCache
    from fatpack.images.kernel import KernelInfo, KernelNeeds
    from fatpack.io.source import View

    T = TypeVar("T")

    class KernelNameReader(Protocol):
        """A module that names the kernels of images of one form."""

        def kernels(self, view: View) -> tuple[str, ...]: ...

    class FactsReader(Protocol):
        """A module that reads the properties of those kernels."""

        def facts(self, view: View) -> KernelInfo: ...


__all__ = [
    "EMPTY",
    "EXTENSIONS",
    "NOT_INFLATED",
    "UNKNOWN",
    "ImageInfo",
    "code_digests",
    "facts",
    "function_digests",
    "identify_image",
    "kernel_facts",
    "kernels",
]

#: Bytes that identification starts with: an ELF64 header, and more than any magic.
HEAD_SIZE = 64

#: first bytes → the result, for forms that do not state a target
_MAGICS = (
    (
        magic_numbers.OFFLOAD_BINARY,
        ImageInfo("offload-binary", detail="LLVM offload binary", container="llvm-offload-binary"),
    ),
    (magic_numbers.SYCLBIN, ImageInfo("syclbin", detail="SYCLBIN", container="syclbin")),
    (
        magic_numbers.BUNDLE,
        ImageInfo("bundle", detail="clang offload bundle", container="clang-offload-bundle"),
    ),
    (
        magic_numbers.COMPRESSED_BUNDLE,
        ImageInfo("bundle", detail="compressed clang offload bundle", container="clang-offload-bundle"),
    ),
    (
        magic_numbers.FATBIN,
        ImageInfo("fatbin", triple="nvptx64-nvidia-cuda", detail="CUDA fat binary", container="cuda-fatbin"),
    ),
    (magic_numbers.LTO_IR, ImageInfo("ltoir", triple="nvptx64-nvidia-cuda", detail="NVIDIA LTO-IR")),
    (magic_numbers.ARCHIVE, ImageInfo("archive", detail="archive")),
    (magic_numbers.THIN_ARCHIVE, ImageInfo("archive", detail="thin archive")),
    (magic_numbers.ZSTD, ImageInfo("", detail="a zstd frame")),
)
#: first four bytes → module that identifies such images
_IDENTIFIERS = {
    magic_numbers.BITCODE: "fatpack.images.bitcode",
    magic_numbers.WRAPPED_BITCODE: "fatpack.images.bitcode",
    magic_numbers.SPIRV: "fatpack.images.spirv",
    magic_numbers.BIG_SPIRV: "fatpack.images.spirv",
    magic_numbers.TILE_IR[:4]: "fatpack.images.tile_ir",
}

#: first four bytes → rows of _MAGICS that start with them
_BY_START: dict[bytes, list[tuple[bytes, ImageInfo]]] = {}
for _row in _MAGICS:
    _BY_START.setdefault(_row[0][:4], []).append(_row)


#: the caches in effect, innermost last (:class:`fatpack.images.cache.CacheInEffect`)
caches: list[ImageCache] = []


def recall(what: str, question: str, view: View, read: Callable[[], T]) -> T:
    """Return what ``read`` returns for an image, which the cache in effect may have from before."""
    return caches[-1].recall(what, question, view, read) if caches else read()


def identify_image(view: View) -> ImageInfo:
    """Return form, target and size of an image, from bounded reads of its headers.

    Never fails on the bytes themselves, however damaged; raises only errors of reading them (a compressed stream that
    does not inflate, a file that was truncated meanwhile).
    """
    return recall("info", "", view, lambda: _identify(view)) if caches else _identify(view)


def _identify(view: View) -> ImageInfo:
    head = view.head(0, HEAD_SIZE)
    magic = head[:4]
    if magic == magic_numbers.ELF:
        return _identify_elf(view, head)
    if not head:
        return EMPTY
    if magic in _IDENTIFIERS:
        identified: ImageInfo = _module(_IDENTIFIERS, magic).identify(view, head)
        return identified
    for start, identified in _BY_START.get(magic, ()):
        if head.startswith(start):
            return identified
    # Names from a module, not modules from the package: a library has thousands of texts, and the latter is slow.
    from fatpack.images.text import identify_text

    if head[0] in _TEXT_STARTS:
        return identify_text(view, head)
    from fatpack.images.other import identify_host_object

    return identify_host_object(view, head) or identify_text(view, head)


#: first bytes of texts for devices, with which no object for a host processor begins
_TEXT_STARTS = b"./\n"

#: e_machine of the processors that run host programs: i386, POWER, s390x, Arm, x86-64, AArch64, RISC-V, LoongArch
_HOST_MACHINES = (3, 20, 21, 22, 40, 62, 183, 243, 258)


def is_device_elf(view: View) -> bool:
    """Return whether an ELF file is a device image, not a file for a host's processor.

    For host files this reads only two bytes of the header, because it is called for every object of a build.
    """
    head = view.head(0, 20)
    order: Literal["little", "big"] = "big" if head[5:6] == b"\2" else "little"
    if int.from_bytes(head[18:20], order) in _HOST_MACHINES:
        return False
    return identify_image(view).form not in ("", "object")


def _identify_elf(view: View, head: bytes) -> ImageInfo:
    from fatpack.binary.elf.layout import AMDGPU, CUDA
    from fatpack.binary.elf.quick_header import read_quick_header

    elf = read_quick_header(view, head)
    if elf is None:
        # Not even the machine is reliable; a size of 64 shows the caller that bytes are missing.
        return ImageInfo("object", size=None if len(head) == 64 else 64, detail="ELF with an unreadable header")
    if elf.machine == CUDA:
        from fatpack.images.cubin import identify_elf

        return identify_elf(elf)
    if elf.machine == AMDGPU:
        from fatpack.images.amdgpu import identify_elf

        return identify_elf(elf)
    from fatpack.images import other

    identified = other.identify_host_elf(elf)
    return identified if identified.triple else other.identify_fpga_package(elf, identified)


#: form → module that names the kernels of such images
_KERNELS = {
    "cubin": "fatpack.images.cubin",
    "ptx": "fatpack.images.ptx",
    "code-object": "fatpack.images.amdgpu",
    "spirv": "fatpack.images.spirv",
    "tileir": "fatpack.images.tile_ir",
}

#: forms whose kernels can be listed, so that an empty list means that there are none
WITH_KERNELS = frozenset((*_KERNELS, "cir", "air"))

#: form → module that reads properties of kernels, and the producers of the image
_FACTS = {
    "cubin": "fatpack.images.cubin_kernels",
    "ptx": "fatpack.images.ptx_kernels",
    "code-object": "fatpack.images.amdgpu_kernels",
    "spirv": "fatpack.images.spirv",
    "tileir": "fatpack.images.tile_ir",
}

#: form → module that makes digests of the code of kernels
_CODES = {
    "cubin": "fatpack.images.cubin_digest",
    "ptx": "fatpack.images.ptx_kernels",
    "code-object": "fatpack.images.amdgpu_kernels",
}

#: forms besides cubins that state the size of a kernel's code
_WITH_SIZES = ("code-object",)

#: imported modules: importing one again takes as long as reading a small image
_MODULES: dict[str, Any] = {}


def kernels(view: View, form: str) -> tuple[str, ...]:
    """Return the stored (mangled) names of an image's kernels, in stored order; () for forms without a list of them.

    Reads symbol tables and texts in bounded pieces. Raises FormatError if they are damaged, LimitExceeded if they are
    too large for the file.
    """
    reader: KernelNameReader | None = _module(_KERNELS, form)
    return recall("names", form, view, lambda: reader.kernels(view)) if reader else ()


def facts(view: View, form: str) -> KernelInfo:
    """Return the kernels of an image with their properties, and the tools that made the image.

    The names are those of :func:`kernels`, in the same order. Reads the tables and notes of the whole image. Raises
    FormatError if they are damaged, LimitExceeded if they are too large for the file.
    """
    reader: FactsReader | None = _module(_FACTS, form)
    if reader:
        return recall("facts", form, view, lambda: reader.facts(view))
    from fatpack.images.kernel import KernelInfo, KernelNeeds

    return KernelInfo(tuple(map(KernelNeeds, kernels(view, form))))


def code_sizes(view: View, form: str) -> dict[str, int | None]:
    """Return the size of each kernel's code in bytes, by name; None if the image does not state it.

    The names are those of :func:`kernels`. Reads only what is needed, and raises the errors of :func:`facts`.
    """
    if form == "cubin":
        from fatpack.images import cubin

        return recall("sizes", form, view, lambda: cubin.code_sizes(view))
    if form in _WITH_SIZES:
        return {kernel.name: kernel.size for kernel in facts(view, form).kernels}
    return dict.fromkeys(kernels(view, form))


def code_digests(view: View, form: str, kernels: Sequence[KernelNeeds]) -> tuple[dict[str, str], str | None]:
    """Return the SHA-256 of each kernel's behaviour, by name, and that of the image's variables, in hexadecimal.

    ``kernels`` are those of :func:`facts`. :mod:`fatpack.images.kernel` defines what the digests cover; the result is
    ({}, None) for forms without a definition. Reads all code. Raises FormatError if tables are damaged, LimitExceeded
    if they are too large for the file.
    """
    reader = _module(_CODES, form)
    if reader is None:
        return {}, None
    from fatpack.images.kernel import digest_with_needs

    def read() -> tuple[dict[str, str], str | None]:
        made: dict[str, bytes]
        made, data = reader.codes(view)
        return {
            kernel.name: digest_with_needs(made[kernel.name], kernel) for kernel in kernels if kernel.name in made
        }, data.hex()

    return recall("codes", form, view, read)


def check_codes(view: View, form: str) -> None:
    """Read all that :func:`code_digests` reads after :func:`facts`. Raises its errors; for cubins no digest is made."""
    reader = _module(_CODES, form)
    if reader is not None:
        getattr(reader, "check", reader.codes)(view)


def has_codes(form: str) -> bool:
    """Return whether the code of kernels of a form has digests."""
    return form in _CODES


def function_digests(view: View, form: str) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the digest of each function by name, and what else of an image counts; ({}, []) for forms without one.

    Reads all code. Raises the errors of :func:`code_digests`.
    """
    reader = _module(_CODES, form)
    return recall("functions", form, view, lambda: reader.functions(view)) if reader else ({}, [])


def content_digest(view: View) -> str:
    """Return the SHA-256 of an image's bytes in hexadecimal. Reads all of them."""
    from fatpack.io.source import sha256_of_pieces

    return recall("sha256", "", view, lambda: sha256_of_pieces([view]).hex())


def kernel_facts(view: View, form: str) -> tuple[KernelNeeds, ...]:
    """Return the kernels of an image with their properties; see :func:`facts`."""
    return facts(view, form).kernels


def _module(table: Mapping[Any, str], key: str | bytes) -> Any:
    """Return the imported module of a table for a form or magic; None if it has none."""
    name = table.get(key)
    if name is None:
        return None
    if name not in _MODULES:
        _MODULES[name] = __import__(name, fromlist=["*"])
    return _MODULES[name]
