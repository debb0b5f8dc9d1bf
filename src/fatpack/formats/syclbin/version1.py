"""Reader of version 1. Every count, offset and size is checked before it is used.

DPC++ checks that reads stay inside the tables. Beyond that, an abstract module may name images of others here, and
images may belong to no module; both are reported, and every image is listed once.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import FormatError, Unsupported, format_hex
from fatpack.formats.syclbin.layout import (
    ABSTRACT,
    HEADER,
    IR,
    IR_MODULE,
    MAGIC,
    NATIVE,
    NATIVE_IMAGE,
    AbstractModule,
    SyclbinContents,
    SyclbinEntry,
    SyclbinHeader,
    padded_size,
    syclbin_errors,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.diagnostics import FindingCollector
    from fatpack.io.source import View
    from fatpack.layout import Layout

VERSION = 1


class Version1Tables:
    """The tables of a file by its header: positions in ``body``, which is the whole file."""

    def __init__(self, view: View, at: int) -> None:
        """Read the header. Raises BadMagic, Unsupported, Truncated, BadValue and LimitExceeded."""
        head = view.head(at, HEADER.size)
        if not head or not MAGIC.startswith(head[:4]):
            raise syclbin_errors.magic(view, at, "not a SYCLBIN file of version 1", MAGIC.hex(" "))
        if len(head) >= 8 and (version := int.from_bytes(head[4:8], "little")) != VERSION:
            raise syclbin_errors.unsupported(
                view, at, f"version {version}", "fatpack reads 1, and 2 in an offload binary"
            )
        if len(head) < HEADER.size:
            raise syclbin_errors.cut(view, at, "header", HEADER.size)
        fields = HEADER.named(view, at)
        left = len(view) - at
        counts = [fields[name] for name in ("abstract_count", "ir_count", "native_count")]
        sizes = (ABSTRACT.size, IR_MODULE.size, NATIVE_IMAGE.size)
        for name, count in zip(("abstract_count", "ir_count", "native_count"), counts, strict=True):
            if count > limits.IMAGES:
                place, most = at + HEADER.field_offset(name), f"at most {limits.IMAGES}"
                raise syclbin_errors.limit(view, place, name, f"{count} headers", most, limits.advice("IMAGES"))
        #: starts of the arrays of headers
        self.abstract = HEADER.size
        self.ir = self.abstract + counts[0] * sizes[0]
        self.native = self.ir + counts[1] * sizes[1]
        #: start and end of the metadata table
        self.metadata = self.native + counts[2] * sizes[2]
        self.metadata_end = self.metadata + fields["metadata_size"]
        #: start and end of the table of images
        self.binary = padded_size(self.metadata_end)
        self.binary_end = self.binary + fields["binary_size"]
        reached = {"native_count": self.metadata, "metadata_size": self.binary, "binary_size": self.binary_end}
        for name, end in reached.items():
            if end > left:
                problem = f"with it the file reaches to {format_hex(end)}, past the end"
                place, most = at + HEADER.field_offset(name), f"at most {format_hex(left)}"
                raise syclbin_errors.value(view, place, name, problem, most, "the file looks cut short")
        padded = padded_size(self.binary_end)
        self.is_padded = padded <= left and view.is_zero(at + self.binary_end, padded - self.binary_end)
        self.counts = counts
        self.fields = fields
        self.body = view.slice(at, padded if self.is_padded else self.binary_end)

    def range(self, start: int, end: int, offset: int, size: int) -> View | None:
        """Return a part of a table, None if it is not inside."""
        return self.body.slice(start + offset, size) if offset + size <= end - start else None

    def rows(self, layout: Layout, start: int, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield place and values of each header of an array."""
        rows = layout.struct.iter_unpack(self.body.read(start, count * layout.size))
        for number, values in enumerate(rows):
            yield start + number * layout.size, values


def extent_version1(view: View, at: int) -> int | None:
    """Return how many bytes the file at ``at`` takes, None if its tables contradict each other."""
    try:
        header, _, _ = read_version1(view, at)
    except (FormatError, Unsupported):
        return None
    return len(header.body)


def read_version1(view: View, at: int) -> tuple[SyclbinHeader, list[SyclbinEntry], SyclbinContents]:
    """Return the contents of the file at ``at``, its images in the order of their modules.

    An unreadable image is reported and omitted. Raises the same errors as :class:`Version1Tables`.
    """
    tables = Version1Tables(view, at)
    body, contents = tables.body, SyclbinContents(tables.body)
    metadata = tables.metadata, tables.metadata_end
    global_metadata = tables.range(*metadata, tables.fields["global_offset"], tables.fields["global_size"])
    if global_metadata is None:
        raise _outside(body, HEADER.field_offset("global_offset"), "global_offset", metadata)
    modules: list[AbstractModule] = []
    irs: list[tuple[int, int, int]] = []
    natives: list[tuple[int, int, int]] = []
    for number, (place, row) in enumerate(tables.rows(ABSTRACT, tables.abstract, tables.counts[0])):
        text = tables.range(*metadata, row[0], row[1])
        if text is None:
            raise _outside(body, place, f"metadata of abstract_module[{number}]", metadata)
        modules.append(AbstractModule(number, text))
        irs.append((row[3], row[2], number))
        natives.append((row[5], row[4], number))
    entries = []
    arrays = ((IR, IR_MODULE, tables.ir, irs), (NATIVE, NATIVE_IMAGE, tables.native, natives))
    for (role, layout, start, ranges), count in zip(arrays, tables.counts[1:], strict=True):
        owners = _owners(role, ranges, count, body, contents.faults)
        for number, (place, row) in enumerate(tables.rows(layout, start, count)):
            entry = _entry(tables, role, owners[number], place, row)
            if entry is None:
                error = syclbin_errors.value(
                    body, place, f"{role}[{number}]", "its metadata or its bytes are outside of the file"
                )
                contents.faults.add_error("FP1801", error, body.span(place, layout.size))
                continue
            if entry.module is None:
                problem = f"{role}[{number}] belongs to no abstract module, and DPC++ does not see it"
                contents.faults.add_warning("FP1803", body.span(place, layout.size), problem)
            entries.append(entry)
    last = len(modules)
    entries.sort(key=lambda entry: last if entry.module is None else entry.module)
    _check_metadata(tables, [global_metadata, *(module.metadata for module in modules)], entries)
    header = SyclbinHeader(
        body,
        global_metadata,
        contents.state(global_metadata),
        tuple(modules),
        tables.is_padded,
        padding=tables.fields["padding"],
    )
    return header, entries, contents


def _outside(body: View, at: int, field: str, table: tuple[int, int]) -> FormatError:
    room = f"inside {format_hex(table[1] - table[0])} bytes"
    return syclbin_errors.value(body, at, field, "it is outside of the metadata table", room)


def _entry(
    tables: Version1Tables, role: str, module: int | None, place: int, row: tuple[int, ...]
) -> SyclbinEntry | None:
    metadata = tables.range(tables.metadata, tables.metadata_end, row[0], row[1])
    data = tables.range(tables.binary, tables.binary_end, row[2], row[3])
    return None if metadata is None or data is None else SyclbinEntry(role, module, metadata, data, place)


def _owners(
    role: str, ranges: Sequence[tuple[int, int, int]], count: int, body: View, faults: FindingCollector
) -> list[int | None]:
    """Return the module of each image; if several modules name it, the one whose range starts first."""
    owners: list[int | None] = [None] * count
    reached = 0
    for first, number, module in sorted(row for row in ranges if row[1]):
        end = first + number
        if end > count or first < reached:
            have = f"there are {count}" if end > count else "others name them too"
            text = f"abstract_module[{module}] names the images {role}[{first}] to {role}[{end - 1}], and {have}"
            faults.add_warning("FP1803", body.span(HEADER.size + module * ABSTRACT.size, ABSTRACT.size), text)
        for image in range(max(first, reached), min(end, count)):
            owners[image] = module
        reached = max(reached, end)
    return owners


def _check_metadata(tables: Version1Tables, texts: Sequence[View], entries: Sequence[SyclbinEntry]) -> None:
    """Raise BadValue if bytes at the end of the metadata table belong to no text and are not text themselves.

    Then its size, or a count, is wrong, and everything after it would be read from the wrong place.
    """
    used = max(text.end for text in (*texts, *(entry.metadata for entry in entries))) - tables.body.start
    rest = tables.body.slice(used, tables.metadata_end - used)
    if len(rest) and rest.find(b"\0") >= 0:
        at, left = HEADER.field_offset("metadata_size"), len(rest)
        problem = f"the last {left} bytes of the metadata table belong to nothing, and are no property sets"
        raise syclbin_errors.value(tables.body, at, "metadata_size", problem)


def undescribed_bytes(header: SyclbinHeader, entries: Sequence[SyclbinEntry]) -> list[View]:
    """Return the bytes of a file that are neither zeros nor described by it."""
    body = header.body
    tables = Version1Tables(body, 0)
    parts = [(tables.metadata, tables.metadata), (len(body), len(body))]
    views = [module.metadata for module in header.modules]
    views += [view for entry in entries for view in (entry.metadata, entry.data)]
    views += [header.global_metadata] if header.global_metadata is not None else []
    parts += [(view.start - body.start, view.end - body.start) for view in views if len(view)]
    gaps, reached = [], tables.metadata
    for start, end in sorted(parts):
        if start > reached and not body.is_zero(reached, start - reached):
            gaps.append(body.slice(reached, start - reached))
        reached = max(reached, end)
    return gaps
