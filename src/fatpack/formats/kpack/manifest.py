"""Manifests (``.kpm``): lists of the kpack archives in a folder, as MessagePack without a magic.

::

    {"format_version": 1, "component_name": "blas_lib", "prefix": "lib",
     "kpack_files": {"gfx1100": {"file": "blas_lib_gfx1100.kpack", "size": 903, "kernel_count": 2}, …}}

``file`` is a name in the manifest's folder, ``size`` the bytes of that archive, ``kernel_count`` the number of code
objects for the architecture. Until February 2026 programs named a manifest instead of archives; the runtime read one of
at most 1 MiB and used the first entry of an architecture. Now only tools write and read it. (rocm_kpack before 46b857b,
``artifact_splitter.py`` and ``loader.cpp``; ``runtime/tests`` keeps three of them.)
"""

from __future__ import annotations

from fatpack.codecs.messagepack import MessagePackReader
from fatpack.errors import FormatError
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector
from fatpack.formats.kpack.toc import decode_text
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Span, View
    from fatpack.model import Finding

FORMAT = "rocm-kpack-manifest"

manifest_errors = ErrorFactory(FORMAT)

#: LIMIT: bytes of a manifest that are read; the runtime had the same limit.
_SIZE = 1 << 20

#: LIMIT: architectures of one manifest. There are about a hundred; an entry of 8 bytes costs far more once it is read.
_MOST_FILES = 10_000

#: The key of the files must start within this many bytes.
_FRONT = 4096

_VERSION = 1

#: First bytes of a map, and the key that distinguishes a manifest from other maps, after its length.
_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_KEY = b"\xabkpack_files"


class ManifestFile(Record):
    """An architecture's entry: the archive, its bytes and number of code objects (None: not stated)."""

    arch: str
    file: str
    size: int | None
    kernel_count: int | None
    span: Span


class KpackManifest(Record):
    """A manifest: its component, where that is installed, and its archives by architecture."""

    component: str
    prefix: str
    version: int | None
    files: tuple[ManifestFile, ...]
    span: Span
    findings: tuple[Finding, ...] = ()


def detect_manifest(view: View) -> bool:
    """Return whether the bytes may be a manifest: a map with the key of its files near the start."""
    head = view.head(0, 1)
    return bool(head) and head[0] in _MAPS and _KEY in view.head(0, _FRONT)


def parse_manifest(view: View) -> KpackManifest:
    """Parse a manifest. Raises Truncated, BadValue, and LimitExceeded for one that is too long.

    A damaged entry is a finding, and the others are read.
    """
    if len(view) > _SIZE:
        raise manifest_errors.limit(view, 0, "manifest", f"it has {len(view)} bytes", f"at most {_SIZE}")
    faults = FindingCollector()
    reader = MessagePackReader(view, "manifest", FORMAT)
    texts = {b"component_name": "", b"prefix": ""}
    version: int | None = None
    files: dict[str, ManifestFile] = {}
    for key in reader.map_of_strings():
        if key in texts:
            texts[key] = decode_text(reader.string())
        elif key == b"format_version":
            at, version = reader.at, reader.integer()
            if version != _VERSION:
                text = f"format_version is {version}, {_VERSION} was expected"
                faults.add_warning("FP1606", view.span(at, reader.at - at), text)
        elif key == b"kpack_files":
            _read_files(view, reader, files, faults)
        else:
            reader.skip()
    if reader.at < len(view):
        rest = len(view) - reader.at
        faults.add_warning("FP1606", view.span(reader.at, rest), f"{rest} bytes after the map belong to nothing")
    span = view.span(0, reader.at)
    return KpackManifest(
        texts[b"component_name"], texts[b"prefix"], version, tuple(files.values()), span, tuple(faults.findings)
    )


def _read_files(
    view: View, reader: MessagePackReader, files: dict[str, ManifestFile], faults: FindingCollector
) -> None:
    """Add the files of the map at the reader's position; the runtime used the first entry of an architecture."""
    archs = reader.map_of_strings()
    while True:
        at = reader.at
        stored = next(archs, None)
        if stored is None:
            return
        start = reader.at
        reader.skip()
        end, reader.at = reader.at, start
        span = view.span(at, end - at)
        try:
            if len(files) >= _MOST_FILES:
                raise manifest_errors.limit(view, at, "kpack_files", "too many architectures", f"at most {_MOST_FILES}")
            item = _file(view, decode_text(stored), reader, start)
        except FormatError as error:
            faults.add_error("FP1607", error, span)
        else:
            item = item.replace(span=span)
            if item.arch in files:
                faults.add_warning("FP1606", span, f"{item.arch} occurs twice; the first counts")
            files.setdefault(item.arch, item)
        reader.at = end


def _file(view: View, arch: str, reader: MessagePackReader, at: int) -> ManifestFile:
    """Return the entry at the reader's position, which starts at ``at``."""
    name: str | None = None
    numbers: dict[bytes, int | None] = {b"size": None, b"kernel_count": None}
    for key in reader.map_of_strings():
        if key == b"file" and name is None:
            name = decode_text(reader.string())
        elif key in numbers:
            numbers[key] = reader.integer()
        else:
            reader.skip()
    if name is None:
        raise manifest_errors.value(view, at, f"entry of {arch}", "it names no file")
    return ManifestFile(arch, name, numbers[b"size"], numbers[b"kernel_count"], view.span(at, reader.at - at))
