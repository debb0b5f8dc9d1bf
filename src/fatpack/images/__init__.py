"""Images: what the bytes of one device binary are, which target they claim, and which kernels they hold.

A container says what its images are made for; this room asks the images themselves, so that a wrong label is
noticed. :func:`recognise` reads a few hundred bytes and never fails on what they hold; :func:`kernels` reads whole
symbol tables or texts and raises when they are damaged; :func:`facts` reads all that the tables and notes say of each
kernel. One module per family:

================  ===================================================================================
``cubin``         ELF for NVIDIA GPUs
``amdgpu``        ELF for AMD GPUs, called code objects
``machine``       objects for host processors: other ELF, COFF and PE, Mach-O
``text``, ``ptx``  PTX, CIR and bundles that are text
``bitcode``       LLVM bitcode, raw or in a wrapper
``spirv``         SPIR-V modules in either byte order
``tile_ir``       bytecode of CUDA Tile IR
``fpga``          packages for Intel's FPGAs
``kernel``        what a kernel needs of a device, for all vendors; read by ``cubin_kernel``,
                  ``amdgpu_kernel`` and ``ptx_kernel``, which nothing loads but :func:`facts`
``code``          digests of what kernels do, put together from what ``cubin_code``, ``amdgpu_code`` and
                  ``ptx_digest`` read of the forms
``heads``         what the first bytes of a compressed image say of it
``agreement``     whether an image's own claims contradict what a container stored about it
``sidecar``       what a compiler wrote beside an image, and whether the image contradicts it
================  ===================================================================================

Images know no formats: an image that is a container itself is named by its magic, and its format has the last word.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.images.identification import EMPTY, EXTENSIONS, NOT_INFLATED, UNKNOWN, ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal, Protocol

    from fatpack.images.kernel import KernelInfo, KernelNeeds
    from fatpack.io.source import View

    class KernelNameReader(Protocol):
        """A module that names the kernels of one form of images."""

        def kernels(self, view: View) -> tuple[str, ...]: ...

    class FactsReader(Protocol):
        """A module that reads what those kernels need."""

        def facts(self, view: View) -> KernelInfo: ...


__all__ = [
    "EMPTY",
    "EXTENSIONS",
    "NOT_INFLATED",
    "UNKNOWN",
    "ImageInfo",
    "code_digests",
    "facts",
    "identify_image",
    "kernel_facts",
    "kernels",
]

#: What the decision is made from: an ELF64 header, and more than any magic needs.
HEAD_SIZE = 64

#: first bytes → all that they say; forms that claim a target have modules of their own
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
#: first four bytes → module that recognises what starts so
_RECOGNISERS = {
    magic_numbers.BITCODE: "fatpack.images.bitcode",
    magic_numbers.WRAPPED_BITCODE: "fatpack.images.bitcode",
    magic_numbers.SPIRV: "fatpack.images.spirv",
    magic_numbers.BIG_SPIRV: "fatpack.images.spirv",
    magic_numbers.TILE_IR[:4]: "fatpack.images.tile_ir",
}

#: the first four bytes, which all of them have → those that start so
_BY_START: dict[bytes, list[tuple[bytes, ImageInfo]]] = {}
for _row in _MAGICS:
    _BY_START.setdefault(_row[0][:4], []).append(_row)


def identify_image(view: View) -> ImageInfo:
    """Return what the bytes of an image are, from bounded reads of its headers.

    Never fails on the bytes themselves, however damaged; only what reading them raises (a compressed stream that
    does not inflate, a file that shrank) comes through.
    """
    head = view.head(0, HEAD_SIZE)
    magic = head[:4]
    if magic == magic_numbers.ELF:
        return _identify_elf(view, head)
    if not head:
        return EMPTY
    if magic in _RECOGNISERS:
        recognised: ImageInfo = _module(_RECOGNISERS, magic).identify(view, head)
        return recognised
    for start, recognised in _BY_START.get(magic, ()):
        if head.startswith(start):
            return recognised
    from fatpack.images import other, text

    return other.identify_host_object(view, head) or text.identify_text(view)


#: e_machine of the processors that run host programs: i386, POWER, s390x, Arm, x86-64, AArch64, RISC-V, LoongArch
_HOST_MACHINES = (3, 20, 21, 22, 40, 62, 183, 243, 258)


def is_device_elf(view: View) -> bool:
    """Return whether an ELF file is a device image, not a file for a host's processor.

    The answer for host files takes two bytes of the header: every object of a build is asked.
    """
    head = view.head(0, 20)
    order: Literal["little", "big"] = "big" if head[5:6] == b"\2" else "little"
    if int.from_bytes(head[18:20], order) in _HOST_MACHINES:
        return False
    return identify_image(view).form not in ("", "object")


def _identify_elf(view: View, head: bytes) -> ImageInfo:
    from fatpack.binary.elf.quick_header import AMDGPU, CUDA, read_quick_header

    elf = read_quick_header(view, head)
    if elf is None:
        # Not even the machine can be trusted; the size shows the caller that bytes are missing.
        return ImageInfo("object", size=None if len(head) == 64 else 64, detail="ELF with an unreadable header")
    if elf.machine == CUDA:
        from fatpack.images.cubin import identify_elf

        return identify_elf(elf)
    if elf.machine == AMDGPU:
        from fatpack.images.amdgpu import identify_elf

        return identify_elf(elf)
    from fatpack.images import other

    claimed = other.identify_host_elf(elf)
    if claimed.triple:
        return claimed
    from fatpack.images import other

    return other.identify_fpga_package(elf, claimed)


#: form → module that names the kernels of such an image
_KERNELS = {
    "cubin": "fatpack.images.cubin",
    "ptx": "fatpack.images.ptx",
    "code-object": "fatpack.images.amdgpu",
    "spirv": "fatpack.images.spirv",
    "tileir": "fatpack.images.tile_ir",
}

#: forms whose images show their kernels, so that none means that there is none
WITH_KERNELS = frozenset((*_KERNELS, "cir"))

#: form → module that reads what the kernels need, and what made the image
_FACTS = {
    "cubin": "fatpack.images.cubin_kernels",
    "ptx": "fatpack.images.ptx_kernels",
    "code-object": "fatpack.images.amdgpu_kernels",
    "tileir": "fatpack.images.tile_ir",
}

#: form → module that makes digests of the code of its kernels
_CODES = {
    "cubin": "fatpack.images.cubin_digest",
    "ptx": "fatpack.images.ptx_kernels",
    "code-object": "fatpack.images.amdgpu_kernels",
}

#: forms beside cubins that say how large the code of a kernel is
_WITH_SIZES = ("code-object",)

#: modules that were imported: asking for one again takes as long as reading a small image
_MODULES: dict[str, Any] = {}


def kernels(view: View, form: str) -> tuple[str, ...]:
    """Return the names of the kernels in an image of that form, in stored order; () for forms that show none.

    Names are as stored (mangled). Reads symbol tables and texts in bounded pieces. Raises FormatError when they are
    damaged, LimitExceeded when they are out of proportion.
    """
    reader: KernelNameReader | None = _module(_KERNELS, form)
    return reader.kernels(view) if reader else ()


def facts(view: View, form: str) -> KernelInfo:
    """Return what an image of that form says of itself: its kernels with what they need, and what made it.

    The names are those of :func:`kernels`, in the same order. Reads the tables and notes of the whole image. Raises
    FormatError when they are damaged, LimitExceeded when they are out of proportion.
    """
    reader: FactsReader | None = _module(_FACTS, form)
    if reader:
        return reader.facts(view)
    from fatpack.images.kernel import KernelInfo, KernelNeeds

    return KernelInfo(tuple(map(KernelNeeds, kernels(view, form))))


def code_sizes(view: View, form: str) -> dict[str, int | None]:
    """Return the bytes of code of each kernel in an image of that form, by its name; None where nothing states them.

    The names are those of :func:`kernels`. Reads no more than that takes, and raises as :func:`facts` does.
    """
    if form == "cubin":
        from fatpack.images import cubin

        return cubin.code_sizes(view)
    if form in _WITH_SIZES:
        return {kernel.name: kernel.size for kernel in facts(view, form).kernels}
    return dict.fromkeys(kernels(view, form))


def code_digests(view: View, form: str, kernels: Sequence[KernelNeeds]) -> tuple[dict[str, str], str | None]:
    """Return the SHA-256 of what each of the kernels of an image does, by its name, and that of the image's variables.

    ``kernels`` are those of :func:`facts`, digests are in hexadecimal. :mod:`fatpack.images.kernel` says what is
    covered; ({}, None) for forms of which that is not known. Reads all code. Raises FormatError when tables are
    damaged, LimitExceeded when they are out of proportion.
    """
    reader = _module(_CODES, form)
    if reader is None:
        return {}, None
    from fatpack.images.kernel import digest_with_needs

    made: dict[str, bytes]
    made, data = reader.codes(view)
    return {
        kernel.name: digest_with_needs(made[kernel.name], kernel) for kernel in kernels if kernel.name in made
    }, data.hex()


def kernel_facts(view: View, form: str) -> tuple[KernelNeeds, ...]:
    """Return the kernels of an image of that form with what they need; see :func:`facts`."""
    return facts(view, form).kernels


def _module(table: Mapping[Any, str], key: str | bytes) -> Any:
    """Return the module that a table names for a form or magic, imported; None for one it does not have."""
    name = table.get(key)
    if name is None:
        return None
    if name not in _MODULES:
        _MODULES[name] = __import__(name, fromlist=["*"])
    return _MODULES[name]
