"""Reader of kernel caches: the one table with kernels, by its columns; other tables, views and indexes are not read."""

from __future__ import annotations

import os
import re

from fatpack import limits
from fatpack.codecs import inflation_limit_error
from fatpack.errors import FormatError, LimitExceeded, pluralize
from fatpack.formats.diagnostics import FindingCollector
from fatpack.formats.kernel_cache.layout import CACHE_FORMAT, MAGIC, CacheFile, CacheRow, cache_errors
from fatpack.formats.kernel_cache.sqlite import Database
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import View, VirtualName
from fatpack.model import Container, Image, Target
from fatpack.targets.amdgpu_flags import PROCESSORS, target_in_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.kernel_cache.sqlite import Row

#: table with kernels → the store, and its columns
TABLES = {
    "kern_db": (
        "MIOpen",
        ("id", "kernel_name", "kernel_args", "kernel_blob", "kernel_hash", "uncompressed_size"),
    ),
    "cache_v1": ("rocFFT", ("kernel_name", "arch", "hip_version", "generator_sum", "code", "timestamp")),
}

#: LIMIT: rows of the schema; MIOpen's has two or three
_SCHEMA = 1000

_PROCESSOR = re.compile(r"-mcpu=(gfx[0-9a-z-]+(?::[a-z]+[-+])*)")
_HEAD = 64
_TRIPLE = "amdgcn-amd-amdhsa"


def detect(view: View, at: int = 0) -> bool:
    """Return whether a file seems to be a cache of kernels: a database whose first page names such a table."""
    head = view.head(at, 100)
    if at or len(head) < 100 or not head.startswith(MAGIC):
        return False
    size = int.from_bytes(head[16:18], "big")
    page = view.head(0, 1 << 16 if size == 1 else size)
    return any(name.encode() in page or name.encode("utf-16-le") in page for name in TABLES)


def extent(view: View, at: int = 0) -> int | None:
    """Return the size of the file: a database takes all of it."""
    return len(view) if not at and view.head(0, len(MAGIC)) == MAGIC else None


def parse(view: View, at: int = 0) -> Container:
    """Return a cache with an image for each kernel.

    Raises BadMagic, Truncated and BadValue for damage, Unsupported for a database without such a table.
    """
    head = view.head(at, len(MAGIC))
    if at or head != MAGIC:
        raise cache_errors.magic(view, at, "not a database of SQLite", MAGIC.hex(" "))
    database, faults = Database(view), FindingCollector()
    name, root = _table(database)
    _check_size(database, faults)
    store, _ = TABLES[name]
    images: list[Image] = []
    rows = database.rows(root)
    while True:
        try:
            row = next(rows, None)
            if row is None:
                break
            if len(images) >= limits.IMAGES:
                problem = f"more than {pluralize(limits.IMAGES, 'kernel')}"
                raise cache_errors.limit(view, 0, name, problem, f"at most {limits.IMAGES}", limits.advice("IMAGES"))
            make = _miopen if store == "MIOpen" else _rocfft
            images.append(make(database, row))
        except FormatError as error:
            faults.add_error("FP2802", error, view.span())
            if isinstance(error, LimitExceeded):
                break
    stated = stated_device(view.chain[0] if view.chain else "")
    _check(view, images, stated, faults)
    attrs = {"store": store}
    if stated[1]:
        attrs["compute_units"] = str(stated[1])
    found = tuple(images)
    record = CacheFile(view, found)
    return Container(CACHE_FORMAT, 1, found, view.span(), attrs, (), tuple(faults.findings), record)


def _check_size(database: Database, faults: FindingCollector) -> None:
    """Report a file that ends before the last of its pages, by the number in its header."""
    view = database.view
    # The number counts only if the version after it was written with the last change (1.3.7).
    is_valid = view.read(24, 4) == view.read(92, 4)
    size = int.from_bytes(view.read(28, 4), "big") * database.page_size
    if is_valid and size > len(view):
        problem = f"the file has {len(view)} bytes, and its pages take {size}"
        faults.add_error("FP2802", cache_errors.value(view, 28, "page_count", problem), view.span())


def _table(database: Database) -> tuple[str, int]:
    """Return the name of the table with kernels, and its root page."""
    for count, row in enumerate(database.rows(1)):
        if count >= _SCHEMA:
            break
        if len(row.columns) < 5:
            continue
        kind, name, _, root, statement = row.columns[:5]
        title = database.text(name)
        if database.text(kind) == "table" and title in TABLES and isinstance(root, int):
            text = database.text(statement)
            found = tuple(_columns(text))
            if found != TABLES[title][1] or "WITHOUT ROWID" in text.upper():
                what = f"the table {title} with the columns {', '.join(found)[:200]}"
                raise cache_errors.unsupported(database.view, 0, what, f"fatpack reads {', '.join(TABLES[title][1])}")
            return title, root
    hint = f"caches of kernels have a table {' or '.join(TABLES)}"
    raise cache_errors.unsupported(database.view, 0, "a database without kernels", hint)


def _columns(statement: str) -> Iterator[str]:
    """Yield the names of the columns in a statement that makes a table."""
    depth, word = 0, ""
    inside = statement.partition("(")[2].rpartition(")")[0]
    for character in f"{inside},":
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            first = word.split(maxsplit=1)[0].strip('"`[]') if word.split() else ""
            if first.upper() not in ("", "PRIMARY", "UNIQUE", "CONSTRAINT", "FOREIGN", "CHECK"):
                yield first
            word = ""
        else:
            word += character


def _blob(database: Database, row: Row, column: int) -> View:
    value = row.columns[column] if column < len(row.columns) else None
    if value is None or isinstance(value, int):
        raise cache_errors.value(row.cell, 0, "row", f"row {row.number} has no blob")
    return value


def _integer(row: Row, column: int) -> int:
    value = row.columns[column] if column < len(row.columns) else None
    if not isinstance(value, int) or value < 0:
        raise cache_errors.value(row.cell, 0, "row", f"row {row.number} has no number in column {column}")
    return value


def _miopen(database: Database, row: Row) -> Image:
    blob, size = _blob(database, row, 3), _integer(row, 5)
    texts = [database.text(row.columns[column]) for column in (1, 2, 4)]
    data = _inflated(blob, size) if size else blob
    match = _PROCESSOR.search(texts[1])
    if match:
        arch, triple = match[1], _TRIPLE
    else:
        arch, triple = target_in_header(data.source.beginning(_HEAD) if size else data.head(0, _HEAD))
    attrs = {"name": texts[0], "options": texts[1], "md5": texts[2]}
    form = "code-object" if triple else ""
    return Image(
        Target(triple, arch, "hip"),
        form,
        data,
        len(data),
        len(blob),
        row.cell.span(),
        "bzip2" if size else None,
        attrs,
        CacheRow(row.number, blob, texts[2]),
    )


def _rocfft(database: Database, row: Row) -> Image:
    code = _blob(database, row, 4)
    attrs = {
        "name": database.text(row.columns[0]),
        "hip_version": str(_integer(row, 2)),
        "generator": _blob(database, row, 3).head(0, 64).hex(),
    }
    target = Target(_TRIPLE, database.text(row.columns[1]), "hip")
    record = CacheRow(row.number, code)
    return Image(target, "code-object", code, len(code), len(code), row.cell.span(), None, attrs, record)


def _inflated(blob: View, size: int) -> View:
    name = VirtualName("inflated bzip2")
    source = InflatedSource(
        size,
        PicklableCall(_whole, blob, size),
        name,
        present=min(len(blob), blob.source.present),
        origin=blob.source,
        stream=PicklableCall(_pieces, blob, size),
        start=PicklableCall(_start, blob),
    )
    return View(source, 0, size, (*blob.chain, name))


def _whole(blob: View, size: int) -> bytes:
    return b"".join(_pieces(blob, size))


def _start(blob: View, size: int) -> bytes:
    made = b""
    for piece in _pieces(blob, size, is_start=True):
        made += piece
        if len(made) >= size:
            break
    return made[:size]


def _pieces(blob: View, size: int, *, is_start: bool = False) -> Iterator[bytes]:
    """Yield the content of a bzip2 stream, at most ``size`` bytes. Raises BadValue for damage and for more."""
    import bz2

    stream, made = bz2.BZ2Decompressor(), 0
    try:
        for part in blob.pieces():
            data = bytes(part)
            while not stream.eof:
                out = stream.decompress(data, limits.CHUNK)
                data = b""
                made += len(out)
                if made > size and not is_start:
                    raise cache_errors.value(blob, 0, "kernel_blob", f"it inflates to more than {size} bytes")
                if not blob.source.charge(blob.start, made):
                    raise inflation_limit_error(blob, None, format=CACHE_FORMAT)
                if out:
                    yield out
                if stream.needs_input:
                    break
    except (OSError, EOFError):
        raise cache_errors.value(blob, 0, "kernel_blob", "the bzip2 stream is damaged") from None
    if not stream.eof and not is_start:
        raise cache_errors.value(blob, 0, "kernel_blob", "the bzip2 stream is cut short")
    if made < size and not is_start:
        raise cache_errors.value(blob, 0, "kernel_blob", f"it inflates to {made} bytes, and the row says {size}")


def stated_device(path: str) -> tuple[str, int]:
    """Return the processor and the number of compute units in the name of a file, "" and 0 for what it does not say.

    MIOpen appends up to 64 units in decimal digits after ``_``, and more in hexadecimal ones without it: gfx942130.kdb
    is for 304. rocFFT's names have the processor alone.
    """
    name = re.split(r"[/\\!]", path)[-1]
    match = re.fullmatch(r"rocfft_kernel_cache_(gfx[0-9a-f]+)\.db", name)
    if match:
        return match[1], 0
    stem = name.removesuffix(".kdb").removesuffix(".ukdb")
    if stem == name:
        return "", 0
    for processor in sorted(set(PROCESSORS.values()), key=len, reverse=True):
        rest = stem.removeprefix(processor)
        if rest == stem:
            continue
        rest = re.sub(r"^(_nosramecc|_sramecc)?(_xnack)?", "", rest)
        if not rest:
            return processor, 0
        if re.fullmatch(r"_[0-9]{1,2}", rest):
            return processor, int(rest[1:])
        if re.fullmatch(r"[0-9a-f]{2,3}", rest) and int(rest, 16) > 64:
            return processor, int(rest, 16)
    return "", 0


def _check(view: View, images: Sequence[Image], stated: tuple[str, int], faults: FindingCollector) -> None:
    wrong = dict.fromkeys(
        image.target.processor
        for image in images
        if stated[0] and image.target.arch and image.target.processor != stated[0]
    )
    if wrong:
        text = f"the name of the file says {stated[0]}, and kernels are for {', '.join(wrong)}"
        faults.add_warning("FP2803", view.span(), text, "the library finds it by the name: get the right file")
    versions = dict.fromkeys(image.attrs["hip_version"] for image in images if "hip_version" in image.attrs)
    if len(versions) > 1:
        text = f"kernels of {pluralize(len(versions), 'version')} of HIP ({', '.join(versions)}): one is of use"
        faults.add_warning("FP2805", view.span(), text)
    path = view.source.path
    if path and os.path.exists(f"{path}-wal"):
        text = f"{os.path.basename(path)}-wal was not read: it may have more kernels"
        faults.add_warning("FP2806", view.span(), text)
