"""Options for writing containers, a record for each format, and types for the words that library functions accept.

All options have defaults, which are those of the tool that owns the format. Library functions and writers take these
records; the command line derives from them which option belongs to which format.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# Types for type checkers and for ``help``. ``tests/library/test_literals.py`` compares each with the table that decides
# at run time. They are annotations only: importing ``typing`` takes as long as running a whole command without click.

Format: TypeAlias = Literal["offload-binary", "bundle", "cir", "fatbin", "kpack", "syclbin"]
"""A format that ``pack`` and ``convert`` write: the value of ``--format``."""

Form: TypeAlias = Literal[
    "cubin",
    "ptx",
    "code-object",
    "object",
    "bitcode",
    "spirv",
    "fatbin",
    "bundle",
    "offload-binary",
    "syclbin",
    "cir",
    "ltoir",
    "tileir",
    "llvm-ir",
    "assembly",
    "preprocessed",
    "archive",
    "aocx",
    "aocr",
    "empty",
    "",
]
"""The kind of an image's bytes; "" if unknown."""

Compression: TypeAlias = Literal["zlib", "zstd"]
"""Compression of an offload binary of version 3, a bundle or (only zstd) a kpack archive."""

Offload: TypeAlias = Literal["none", "openmp", "cuda", "hip", "sycl", "host"]
"""The programming model of an image; ``host`` is for bundles and CIR containers."""

BundleType: TypeAlias = Literal["bc", "o", "a", "gch", "ast", "i", "ii", "cui", "hipi", "d", "s", "ll"]
"""The type of the files in a bundle, as clang-offload-bundler calls it."""

CirForm: TypeAlias = Literal["attribute", "nested", "op", "op-string", "prototype"]
"""The notation of the container in a CIR file."""

SyclbinState: TypeAlias = Literal["input", "object", "executable"]
"""The state of the kernel bundle in a SYCLBIN file, as in ``sycl::bundle_state``."""

Producer: TypeAlias = Literal["12.8", "13.0", "13.5"]
"""A version of CUDA whose compression fatpack reproduces."""

CompressMode: TypeAlias = Literal["default", "speed", "balance", "size", "none"]
"""Compression by fatbinary: the values of ``--compress-mode``."""

Runtime: TypeAlias = Literal["openmp", "cuda", "hip", "sycl"]
"""The runtime with which ``wrap`` registers images: the value of ``--kind``."""

Emit: TypeAlias = Literal["obj", "llvm-ir"]
"""The output of ``wrap``: the value of ``--emit``."""

KeepPtx: TypeAlias = Literal["none", "newest", "all"]
"""PTX that ``slim`` keeps besides the images that devices load: the value of ``--keep-ptx``."""

SlimMode: TypeAlias = Literal["auto", "shrink", "zero"]
"""The way in which ``slim`` removes bytes from linked files: the value of ``--mode``."""

Recompression: TypeAlias = Literal["zstd", "lz4", "zlib", "none"]
"""Compression of images by ``slim``: the value of ``--recompress``."""


class Options(Record):
    """The base class of the options of all formats."""


class OffloadBinaryOptions(Options):
    """Options of offload binaries: version 1 has one file per image, 2 and 3 have one for all images.

    Only version 3 can be compressed, with ``level`` (default: zstd 5, zlib 6).
    """

    version: int = 1
    compression: Compression | None = None
    level: int | None = None


class BundleOptions(Options):
    """Options of a bundle of files of one ``type``, as in clang-offload-bundler.

    Text types give text bundles; ``o`` with a host object a fat object; ``a`` combines archives into one; all others
    are binary, with images aligned to ``align`` bytes. ``version`` is that of a compressed bundle (default 3; 2 for
    readers of LLVM 19), ``level`` the compression level (default: zstd 3, zlib 6).
    """

    type: BundleType = "bc"
    align: int = 1
    compression: Compression | None = None
    version: int | None = None
    level: int | None = None


class KpackOptions(Options):
    """Options of a kpack archive: code objects are stored, or compressed as zstd frames with ``level`` (default: 3).

    ``group`` is the name of the build slice and ``family`` that of the architectures, as in ROCm's packages.
    """

    compression: Compression | None = None
    level: int | None = None
    group: str | None = None
    family: str | None = None


class SyclbinOptions(Options):
    """Options of a SYCLBIN file: version 2, or version 1 in an offload binary for older DPC++.

    ``state`` is that of the kernel bundle: input, object or executable (default).
    """

    version: int = 2
    state: SyclbinState | None = None


class CirOptions(Options):
    """Options of a CIR container: the ``form`` of its annotations (default ``attribute``), and bundle IDs of modules.

    ``ids`` are in the order of the modules, and replace their own.
    """

    form: CirForm | None = None
    ids: Sequence[str] | None = None


class FatbinOptions(Options):
    """Options of a CUDA fat binary; the defaults are those of fatbinary 13.0, except that PTX is stored uncompressed.

    ``producer``: the version of CUDA whose compression is reproduced. ``compress_all``: compress cubins too.
    ``concat``: compress several images as one (13.5). ``minify_ptx``: remove comments and blanks from PTX.
    ``include_ptx``: all, none, newest, oldest, or architectures such as ``sm_80,sm_90``.
    """

    producer: Producer | None = None
    compress_mode: CompressMode | None = None
    compress_all: bool = False
    concat: bool = False
    minify_ptx: bool = False
    include_ptx: str | None = None

    @property
    def wants_recompression(self) -> bool:
        """Whether the options determine how images are stored, so that entries of fat binaries are stored anew."""
        return self.replace(include_ptx=None) != FatbinOptions()
