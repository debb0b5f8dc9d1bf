"""How a container is made: a record of options for each format that is written.

All fields have defaults, which are what the tool that owns the format does. The library takes them, and so do the
writers of the formats; the command line derives from them which option is for which format.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.literals import BundleType, CirForm, Compression, CompressMode, Producer, SyclbinState


class Options(Record):
    """What the records of all formats have in common: nothing but that they are meant for one format each."""


class OffloadBinaryOptions(Options):
    """How offload binaries are made: version 1 is one for each image, 2 and 3 are one for all of them.

    Only version 3 can be compressed, with ``level`` (default: zstd 5, zlib 6).
    """

    version: int = 1
    compression: Compression | None = None
    level: int | None = None


class BundleOptions(Options):
    """How a bundle is made, of files of a ``type`` as clang-offload-bundler has them.

    Text types give text bundles; ``o`` with a host object a fat object; ``a`` takes archives and gives one; all others
    are binary, with images at multiples of ``align`` bytes. ``version`` is that of a compressed bundle (default 3; 2
    for readers of LLVM 19), ``level`` that of its compressor (default: zstd 3, zlib 6).
    """

    type: BundleType = "bc"
    align: int = 1
    compression: Compression | None = None
    version: int | None = None
    level: int | None = None


class KpackOptions(Options):
    """How a kpack archive is made: code objects as they are, or each a zstd frame of a ``level`` (default: 3).

    ``group`` is the name of the build slice and ``family`` that of the architectures, as ROCm's packages call them.
    """

    compression: Compression | None = None
    level: int | None = None
    group: str | None = None
    family: str | None = None


class SyclbinOptions(Options):
    """How a SYCLBIN file is made: of version 2, or of version 1 in an offload binary, as older DPC++ reads it.

    ``state`` is that of the kernel bundle: input, object or executable (default).
    """

    version: int = 2
    state: SyclbinState | None = None


class CirOptions(Options):
    """How a CIR container is made: the ``form`` of its marks (default ``attribute``), and bundle IDs for its modules.

    ``ids`` are in the order of the modules, and take the place of those that they have.
    """

    form: CirForm | None = None
    ids: Sequence[str] | None = None


class FatbinOptions(Options):
    """How a CUDA fat binary is made; the defaults are those of fatbinary 13.0, but for PTX, which stays as it is.

    ``producer`` is the version of CUDA whose way of compression is used. ``compress_all`` compresses cubins too,
    ``concat`` several images as one (13.5). ``minify_ptx`` takes comments and blanks out of PTX. ``include_ptx`` is
    all, none, newest, oldest, or architectures: ``sm_80,sm_90``.
    """

    producer: Producer | None = None
    compress_mode: CompressMode | None = None
    compress_all: bool = False
    concat: bool = False
    minify_ptx: bool = False
    include_ptx: str | None = None

    @property
    def wants_recompression(self) -> bool:
        """Whether they state how images are stored: then all are stored so, entries of other fat binaries too."""
        return self.replace(include_ptx=None) != FatbinOptions()
