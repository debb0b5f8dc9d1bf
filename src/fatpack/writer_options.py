"""Options for writing containers: a record for each format.

All options have defaults, which are those of the tool that owns the format. Library functions and writers take these
records; the command line derives from them which option belongs to which format.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.literals import BundleType, CirForm, Compression, CompressMode, Producer, SyclbinState


class Options(Record):
    """The base class of the options of all formats."""

    #: People make these: errors keep naming the fields (:class:`~fatpack.record.RecordType`).
    _generate_after = 1 << 62


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
        """True if the options determine the storage of images, so that entries of fat binaries are stored again."""
        return self.replace(include_ptx=None) != FatbinOptions()
