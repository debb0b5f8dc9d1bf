"""Write rows as Parquet, with pyarrow (``fatpack[parquet]``)."""

from __future__ import annotations

from itertools import islice

from fatpack.errors import FormatError, Unsupported
from fatpack.tabular import SCHEMA
from fatpack.tabular.columns import list_columns
from fatpack.tabular.text import belongs_to_files, to_utf8

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise Unsupported(f"Parquet needs pyarrow ({error})", hint="pip install pyarrow") from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.tabular.columns import AnyRow, Row

#: Rows converted at a time: names may have thousands of bytes.
_AT_ONCE = 1024

#: A row group is written when it has so many rows or bytes.
_GROUP_ROWS, _GROUP_BYTES = 128 << 10, 32 << 20

#: The largest number of the column type; sizes in a damaged header can be larger.
_LARGEST = (1 << 63) - 1

_TYPES = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "tuple[str, ...]": pa.list_(pa.string())}


def arrow_schema(kind: type[Row]) -> Any:
    """Return the Arrow schema of a kind of rows; its metadata names the version of the columns."""
    fields = [pa.field(name, _TYPES[annotation], nullable=is_none) for name, annotation, is_none in list_columns(kind)]
    return pa.schema(fields, metadata={"fatpack.schema": SCHEMA})


def parquet_pieces(rows: Iterable[AnyRow], kind: type[Row]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file with these rows; one row group is in memory at a time."""
    return _file(_batches((row.values() for row in rows), kind), kind)


def parquet_from_values(values: Iterable[tuple[object, ...]], kind: type[Row]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file with rows of values in the order of the columns."""
    return _file(_batches(values, kind), kind)


def parquet_without(path: str, names: Collection[str], kind: type[Row]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file without the rows of some paths, and of files in these packages.

    Raises FormatError if it cannot be read.
    """
    cleaned = frozenset(map(to_utf8, names))

    def left() -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                paths = batch.column("path")
                dropped = [name for name in pc.unique(paths).to_pylist() if belongs_to_files(name, cleaned)]
                yield batch.filter(pc.invert(pc.is_in(paths, pa.array(dropped, pa.string()))))

    try:
        yield from _file(left(), kind)
    except pa.ArrowInvalid as error:
        raise FormatError("this is no part of a survey that can be read", format="parquet", chain=(path,)) from error


def _batches(values: Iterable[tuple[object, ...]], kind: type[Row]) -> Iterator[Any]:
    """Yield rows as Arrow record batches."""
    shape, source = arrow_schema(kind), iter(values)
    while some := list(islice(source, _AT_ONCE)):
        arrays = [_array(column, field.type) for column, field in zip(zip(*some, strict=True), shape, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _array(values: Sequence[Any], kind: Any) -> Any:
    if kind == pa.string():
        values = [value if value is None else to_utf8(value) for value in values]
    elif kind == _TYPES["tuple[str, ...]"]:
        values = [list(map(to_utf8, value)) for value in values]
    try:
        return pa.array(values, kind)
    except OverflowError:
        return pa.array([value if value is None else min(value, _LARGEST) for value in values], kind)


def _file(batches: Iterable[Any], kind: type[Row]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file as pyarrow writes them."""
    shape, out, group = arrow_schema(kind), _PieceBuffer(), []
    rows = size = 0
    with pq.ParquetWriter(pa.PythonFile(out, mode="w"), shape, compression="zstd") as writer:
        for batch in batches:
            group.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group, shape))
                group, rows, size = [], 0, 0
                yield out.take()
        if rows:
            writer.write_table(pa.Table.from_batches(group, shape))
    yield out.take()


class _PieceBuffer:
    """A file object for the writer: it buffers the written bytes until :meth:`take`."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        """Buffer bytes."""
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def flush(self) -> None:
        """Do nothing: the bytes stay in the buffer."""

    def close(self) -> None:
        """Do nothing: the buffer is read later."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data
