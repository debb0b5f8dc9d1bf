"""Kernel caches of ROCm's libraries: MIOpen's databases (``.kdb``, ``.ukdb``) and rocFFT's ``rocfft_kernel_cache.db``.

::

    MIOpen   CREATE TABLE kern_db (id, kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size)
    rocFFT   CREATE TABLE cache_v1 (kernel_name, arch, hip_version, generator_sum, code, timestamp)

Both are databases of SQLite. MIOpen's blob is bzip2 of a code object, or the object itself if uncompressed_size is 0;
kernel_hash is the MD5 of the object. Its name is a source file or a hash, not that of a kernel. rocFFT's code is raw,
and only of use to a library with the same HIP version and generator.

A library compiles what its cache lacks, so a cache never decides if a device is served.

How we know: ROCm/MIOpen ``kern_db.hpp``, ``binary_cache.cpp``, ``handle.hpp``; ROCm/rocFFT ``rtc_cache.cpp``; SQLite's
"Database File Format". No file of AMD's was at hand.
"""

from __future__ import annotations

from fatpack.errors import UsageError, format_hex
from fatpack.findings import finding
from fatpack.formats.diagnostics import not_parsed_error
from fatpack.formats.kernel_cache.layout import CACHE_FORMAT, HEADER, CacheFile, CacheRow
from fatpack.formats.kernel_cache.reader import TABLES, detect, extent, parse
from fatpack.layout import FormatInfo
from fatpack.model import Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Finding

__all__ = [
    "DOC",
    "LAYOUTS",
    "describe",
    "detect",
    "extent",
    "is_hashed",
    "is_unchecked",
    "labels",
    "parse",
    "verify",
    "write",
]

DOC = FormatInfo(
    name=CACHE_FORMAT,
    title="kernel cache of MIOpen or rocFFT",
    description=(
        "A database of SQLite in which MIOpen (`gfx942130.kdb`, `.ukdb`) or rocFFT (`rocfft_kernel_cache.db`) keeps "
        "compiled kernels. Names of MIOpen's files state a processor and its number of compute units: up to 64 in "
        "decimal digits after `_`, more in hexadecimal ones without it. A library compiles what is not in its cache, "
        "so a cache never decides if a device is served, and `check` says so."
    ),
    references=(
        "ROCm/MIOpen src/include/miopen/kern_db.hpp, src/binary_cache.cpp and src/include/miopen/handle.hpp",
        "ROCm/rocFFT library/src/rtc_cache.cpp",
        "SQLite, Database File Format",
    ),
    reads="the tables kern_db and cache_v1, with the columns that the libraries make",
    writes="the same tables; a file whose kernels did not change keeps its bytes",
    limitations=(
        "Only the table with kernels is read, from the pages of the file: no SQL of it is run. A write-ahead log "
        "beside the file is not read, and said.",
        "Kernels whose row states their target are listed by that; `check` and `doctor` compare it with the code.",
        "Fields inside pages have no labels of their own.",
        "Other databases of SQLite are not read.",
    ),
)

LAYOUTS = (HEADER,)

#: statements that make the tables, as the libraries do
_STATEMENTS = {
    "MIOpen": (
        "CREATE TABLE kern_db (id INTEGER PRIMARY KEY ASC, kernel_name TEXT NOT NULL, kernel_args TEXT NOT NULL, "
        "kernel_blob BLOB NOT NULL, kernel_hash TEXT NOT NULL, uncompressed_size INT NOT NULL)",
        "INSERT INTO kern_db (kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size) "
        "VALUES (?, ?, ?, ?, ?)",
    ),
    "rocFFT": (
        "CREATE TABLE cache_v1 (kernel_name TEXT NOT NULL, arch TEXT NOT NULL, hip_version INTEGER NOT NULL, "
        "generator_sum BLOB NOT NULL, code BLOB NOT NULL, timestamp INTEGER NOT NULL, "
        "PRIMARY KEY (kernel_name, arch, hip_version, generator_sum))",
        "INSERT INTO cache_v1 VALUES (?, ?, ?, ?, ?, 0)",
    ),
}

#: LIMIT: bytes of kernels in a database that is written, which is made in memory
_MOST = 1 << 30


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the pieces of a database; a database whose kernels were not changed keeps its bytes.

    Raises UsageError for kernels without the columns of the store, and for more than 1 GiB.
    """
    record = container.record
    if isinstance(record, CacheFile) and _is_unchanged(container, record):
        yield record.stored
        return
    if sum(image.size for image in container.images) > _MOST:
        raise UsageError("a database of more than 1 GiB of kernels is not written")
    import sqlite3

    create, insert = _STATEMENTS[container.attrs.get("store", "MIOpen")]
    made = sqlite3.connect(":memory:")
    try:
        made.execute(create)
        made.executemany(insert, _rows(container))
        made.commit()
        yield made.serialize()
    except sqlite3.Error as error:
        raise UsageError(f"two kernels have the same key: {error}") from None
    finally:
        made.close()


def _is_unchanged(container: Container, record: CacheFile) -> bool:
    same = all(image is read for image, read in zip(container.images, record.images, strict=False))
    return same and len(container.images) == len(record.images)


def _rows(container: Container) -> Iterator[tuple[object, ...]]:
    """Yield the columns of each kernel."""
    for image in container.images:
        attrs, data = image.attrs, image.data.tobytes()
        try:
            if container.attrs.get("store") == "rocFFT":
                generator = bytes.fromhex(attrs["generator"])
                yield attrs["name"], image.target.arch, int(attrs["hip_version"]), generator, data
            else:
                blob, size = data, 0
                if image.compression == "bzip2":
                    import bz2

                    blob, size = bz2.compress(data), len(data)
                yield attrs["name"], attrs["options"], blob, attrs["md5"], size
        except KeyError as error:
            raise UsageError(f"a kernel of this cache has no {error.args[0]}") from None


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed database: its header, the rows with kernels, and the other pages."""
    _require_parsed(container)
    rows = [
        Label(image.span, f"row[{number}]", image.attrs.get("name", ""), "the row of a kernel on its page", "data")
        for number, image in enumerate(container.images)
    ]
    size = int.from_bytes(view.read(16, 2), "big")
    size = 1 << 16 if size == 1 else size
    pages: list[Label] = []
    body, taken = view.slice(0, container.span.size), sorted((label.span.start, label.span.end) for label in rows)
    reached = HEADER.size
    for start, end in (*((start - view.start, end - view.start) for start, end in taken), (len(body), len(body))):
        while reached < min(start, len(body)):
            stop = min(start, (reached // size + 1) * size)
            name = f"page[{reached // size + 1}]"
            words = f"{stop - reached} bytes at {format_hex(reached)}"
            pages.append(Label(body.span(reached, stop - reached), name, words, "tables, indexes and overflow", "data"))
            reached = stop
        reached = max(reached, end)
    return fill_gaps(body, (*HEADER.labels(body, 0, "header"), *rows, *pages))


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: the store and its table, and the compute units in the file's name."""
    _require_parsed(container)
    store = container.attrs.get("store", "")
    table = next((name for name, (title, _) in TABLES.items() if title == store), "")
    units = container.attrs.get("compute_units")
    return {"store": store, "table": table, "compute_units": None if units is None else int(units)}


def _require_parsed(container: Container) -> None:
    if not isinstance(container.record, CacheFile):
        raise not_parsed_error("container")


def is_hashed(container: Container) -> bool:
    """Return whether digests of the kernels are stored: in MIOpen's databases."""
    return container.attrs.get("store") == "MIOpen"


def is_unchecked(container: Container) -> bool:
    """Return whether digests are to be compared, which listing does not."""
    return is_hashed(container)


def verify(container: Container) -> list[Finding]:
    """Return the kernels whose MD5 is not the stored one; inflates all. Raises FormatError for damage."""
    import hashlib

    found = []
    for image in container.images:
        digest = hashlib.md5(usedforsecurity=False)
        for piece in image.data.read_once():
            digest.update(piece)
        stored = image.record.digest if isinstance(image.record, CacheRow) else ""
        if digest.hexdigest() != stored.lower():
            text = f"the MD5 of {image.attrs.get('name', '')} is {digest.hexdigest()}, and the row says {stored[:64]}"
            found.append(finding("FP2804", image.span, text, "MIOpen refuses it: possible database corruption"))
    return found
