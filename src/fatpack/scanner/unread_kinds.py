"""The kinds of files that fatpack knows and does not read, and which of them are known to carry device code.

This table is the only one: findings about such files (:mod:`fatpack.scanner.unsupported_files`), the counts in the last
line of commands (:mod:`fatpack.inputs.files`) and ``check --allow-unread`` come from it.

How we know: the ``magic`` database of file(1) 5.45 for disk images and packages; tar's is POSIX (ustar); ``axlf`` in
xclbin.h of AMD's XRT; Torch-TensorRT's serialization, which tests for ``ftrt``; ``program::to_value`` of AMD's
MIGraphX, whose maps have ``migraphx_version`` among their first keys.
"""

from __future__ import annotations

from fatpack import formats, images, limits, magic_numbers
from fatpack.record import Record
from fatpack.scanner.context import detect_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: what files of a kind have: device code; any files, so perhaps device code; none that is known
DEVICE_CODE, ANY_FILES, NONE_KNOWN = "device code", "files", ""


class UnreadKind(Record):
    """A kind of files that are not read: its name for options and JSON, and the words for one file and for several.

    ``carries``: what such files have, ``DEVICE_CODE``, ``ANY_FILES`` or ``NONE_KNOWN``. ``remedy`` is advice.
    """

    name: str
    one: str
    many: str
    carries: str = NONE_KNOWN
    remedy: str = ""

    @property
    def fails(self) -> bool:
        """True if ``check`` fails where such a file was not read."""
        return self.carries != NONE_KNOWN


#: first bytes of compressed files → their kind
COMPRESSED = {
    magic_numbers.ZIP: UnreadKind("zip", "a zip archive, as wheels are", "zip archives", ANY_FILES, "unzip it"),
    magic_numbers.ZSTD: UnreadKind(
        "zstd", "compressed with zstd", "files compressed with zstd", ANY_FILES, "zstd -d unpacks it"
    ),
    magic_numbers.GZIP: UnreadKind(
        "gzip", "compressed with gzip", "files compressed with gzip", ANY_FILES, "gzip -d unpacks it"
    ),
    magic_numbers.XZ: UnreadKind("xz", "compressed with xz", "files compressed with xz", ANY_FILES, "xz -d unpacks it"),
    magic_numbers.BZIP2: UnreadKind(
        "bzip2", "compressed with bzip2", "files compressed with bzip2", ANY_FILES, "bzip2 -d unpacks it"
    ),
    magic_numbers.LZ4: UnreadKind(
        "lz4", "compressed with lz4", "files compressed with lz4", ANY_FILES, "lz4 -d unpacks it"
    ),
    magic_numbers.SEVEN_ZIP: UnreadKind("7z", "a 7z archive", "7z archives", ANY_FILES, "7z x unpacks it"),
    magic_numbers.RPM: UnreadKind(
        "rpm", "an RPM package", "RPM packages", ANY_FILES, "rpm2cpio and cpio -id unpack it"
    ),
    magic_numbers.SQUASHFS: UnreadKind(
        "squashfs", "a SquashFS image", "SquashFS images", ANY_FILES, "unsquashfs unpacks it"
    ),
}

TAR = UnreadKind("tar", "a tar archive", "tar archives", ANY_FILES, "tar -xf unpacks it")
_DISK = "mount its file systems"

_UNIVERSAL_METAL = UnreadKind(
    "metal-universal",
    "a universal Metal file with native code",
    "universal Metal files with native code",
    DEVICE_CODE,
)

#: offset of a magic number, the magic number, the kind
_OTHERS = (
    (magic_numbers.TAR_AT, magic_numbers.TAR, TAR),
    (0, magic_numbers.CPIO, UnreadKind("cpio", "a cpio archive", "cpio archives", ANY_FILES, "cpio -id unpacks it")),
    (0, magic_numbers.WASM, UnreadKind("wasm", "a WebAssembly module", "WebAssembly modules", ANY_FILES)),
    (0, magic_numbers.GOFF, UnreadKind("goff", "a GOFF object", "GOFF objects", ANY_FILES)),
    (0, magic_numbers.DXIL, UnreadKind("directx", "a DXContainer", "DXContainers", DEVICE_CODE)),
    (
        0,
        magic_numbers.TENSORRT,
        UnreadKind("tensorrt", "a TensorRT engine", "TensorRT engines", DEVICE_CODE),
    ),
    (
        0,
        magic_numbers.XCLBIN,
        UnreadKind("xclbin", "an xclbin of AMD's FPGAs and NPUs", "xclbins of AMD's FPGAs and NPUs", DEVICE_CODE),
    ),
    (
        0x8001,
        b"CD001",
        UnreadKind(
            "iso9660",
            "an ISO 9660 disk image",
            "ISO 9660 disk images",
            ANY_FILES,
            "mount it, or bsdtar -xf unpacks it",
        ),
    ),
    (0x200, b"EFI PART", UnreadKind("gpt", "a disk image with a GPT", "disk images with a GPT", ANY_FILES, _DISK)),
    (0, b"QFI\xfb", UnreadKind("qcow2", "a qcow2 disk image", "qcow2 disk images", ANY_FILES, _DISK)),
    (0, b"KDMV", UnreadKind("vmdk", "a VMDK disk image", "VMDK disk images", ANY_FILES, _DISK)),
    (0, b"vhdxfile", UnreadKind("vhdx", "a VHDX disk image", "VHDX disk images", ANY_FILES, _DISK)),
)

#: the trailer of a disk image of macOS: its magic, and its bytes
_DMG_MAGIC, _DMG_SIZE = b"koly", 512
_DMG = UnreadKind("dmg", "a disk image of macOS", "disk images of macOS", ANY_FILES, "mount it, or 7z x unpacks it")

#: ext2 to ext4: offset of the magic number in the superblock; the state follows it (clean, or with errors)
_EXT_AT, _EXT_MAGICS = 0x438, (b"\x53\xef\x01\0", b"\x53\xef\x02\0")
_EXT = UnreadKind("ext", "an image of an ext file system", "images of ext file systems", ANY_FILES, "mount it")

#: f_opthdr of XCOFF: the known sizes of the auxiliary header
_XCOFF_OPTIONAL = (0, 28, 72, 110, 120)
_XCOFF = UnreadKind("xcoff", "an XCOFF file of AIX", "XCOFF files of AIX", ANY_FILES)

#: A key at the beginning of a program of MIGraphX, a MessagePack map; programs for a GPU hold code objects.
_MIGRAPHX_KEY, _MIGRAPHX_WITHIN = b"\xb0migraphx_version", 256
_MIGRAPHX = UnreadKind("migraphx", "a program of MIGraphX", "programs of MIGraphX", DEVICE_CODE)

SQLITE = UnreadKind("sqlite", "a database of SQLite", "databases of SQLite")

LARGE = UnreadKind("large", "a large file of an unknown kind", "large files of unknown kinds")

#: first bytes of a MessagePack map of up to 15 pairs, or with their number in two bytes
_MAPS = (*range(0x80, 0x90), 0xDE)

_HEAD_SIZE = 512

#: all kinds by name, in the order of the alphabet: the values of ``--allow-unread``
KINDS = {
    kind.name: kind
    for kind in sorted(
        (
            *COMPRESSED.values(),
            *(kind for *_, kind in _OTHERS),
            _UNIVERSAL_METAL,
            _DMG,
            _EXT,
            _XCOFF,
            _MIGRAPHX,
            SQLITE,
            LARGE,
        ),
        key=lambda kind: kind.name,
    )
}


def unread_kind(view: View, *, is_deep: bool) -> UnreadKind | None:
    """Return the kind of a file that is not read, or of which nothing is; None for one that is read, or searched.

    Few of its first bytes are read, and its last bytes: what is inflated is kept up to a limit, beyond which they would
    be inflated once more; then a disk image of macOS is not told from other large files.
    ``is_deep``: files of any size are searched for containers. Raises FormatError and OSError if they cannot be read.
    """
    host = detect_host(view)
    if host == "universal":
        from fatpack.binary.macho.universal import has_unread_slices

        return _UNIVERSAL_METAL if has_unread_slices(view) else None
    if host != "raw" or formats.format_by_magic(view.head(0, 24)):
        return None
    kind = unread_format(view, reads_end=view.source.fileno() is not None or len(view) <= limits.INFLATED_KEPT)
    if kind is SQLITE and formats.find_text_format(view):
        return None
    if kind is None and not is_deep and len(view) > limits.SEARCHED:
        is_read = formats.find_text_format(view) or images.identify_image(view).form != images.UNKNOWN.form
        return None if is_read else LARGE
    return kind


def unread_format(view: View, *, reads_end: bool = True) -> UnreadKind | None:
    """Return the kind of a file in a format that is known and not read, by its bytes; None for any other file.

    One kind is known by the last bytes of a file, which are read only with ``reads_end``.
    """
    head = view.head(0, _HEAD_SIZE)
    starts = {magic_numbers.SQLITE: SQLITE, **COMPRESSED}
    kind = next((kind for magic, kind in starts.items() if head.startswith(magic)), None)
    if kind is not None:
        return kind
    for at, magic, kind in _OTHERS:
        if head.startswith(magic, at) if at < len(head) else view.head(at, len(magic)) == magic:
            return kind
    if view.head(_EXT_AT, len(_EXT_MAGICS[0])) in _EXT_MAGICS:
        return _EXT
    if reads_end and view.head(len(view) - _DMG_SIZE, len(_DMG_MAGIC)) == _DMG_MAGIC:
        return _DMG
    return _by_fields(head)


def _by_fields(head: bytes) -> UnreadKind | None:
    """Return the kind of a file whose magic number is too short to be one, or not at one place."""
    if head[:1] and head[0] in _MAPS and _MIGRAPHX_KEY in head[:_MIGRAPHX_WITHIN]:
        return _MIGRAPHX
    is_xcoff = head.startswith((magic_numbers.XCOFF_32, magic_numbers.XCOFF_64)) and len(head) >= 20
    return _XCOFF if is_xcoff and int.from_bytes(head[16:18], "big") in _XCOFF_OPTIONAL else None
