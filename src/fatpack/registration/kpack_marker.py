"""The marker in a HIP program whose device code was moved to kpack archives.

::

    record, in .hipFatBinSegment  0x00 magic 0x4b504948 ("HIPK" in a dump)   0x04 version 1   0x08 pointer
                                  0x10 co_index u32, the number of the program's code object   0x14 0
    target of the pointer         a MessagePack map: kernel_name "lib/libx.so",
                                  kpack_search_paths ["../.kpack/x_lib_@GFXARCH@.kpack"]

The map has a section of its own, ``.rocm_kpack_ref`` (``.kpackrf`` in PE images), to which all records of a program
point. An archive has the code object under the name ``lib/libx.so#0``: kernel_name, ``#``, co_index.

How we know: rocm_kpack at e348328, ``elf/kpack_transform.py``, ``coff/kpack_transform.py``, and ``loader.cpp`` of its
runtime, which reads at most 64 KiB, takes the first of two equal keys, and skips paths that are no strings. The
behaviour of the runtime on Windows is unknown: at that revision it cannot find the path of a program
(``path_resolution.cpp``). Programs of 32 bits would have the same record with 32-bit pointers; none is known.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.pointers import INSIDE, NULL, OUTSIDE
from fatpack.errors import BadValue, FormatError
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.codecs.messagepack import MessagePackReader
    from fatpack.io.source import Span, View
    from fatpack.registration.records import RecordSection, RegistrationRecord

#: "HIPK"; the record of a bundle has "HIPF"
_MAGIC = int.from_bytes(magic_numbers.KPACK_WRAPPER, "little")

#: LIMIT: bytes of a map that are read, the same number as the runtime reads.
_SIZE = 64 << 10

#: LIMIT: maps of one program that are read. Programs have one.
_MOST_MAPS = 64

FORMAT = "kpack-marker"

_HINT = "the runtime loads none of its device code: split the program again, from the one that still has its code"


class KpackReference(Record):
    """The map in a program: the name of its device code in archives, and their paths relative to the program.

    Both are as stored; bytes that are not UTF-8 are surrogates. ``span`` is the range of the map.
    """

    kernel_name: str
    search_paths: tuple[str, ...]
    span: Span


class KpackMarker(Record):
    """One code object that was moved: its number in the program, and the reference in its record (``span``)."""

    co_index: int
    reference: KpackReference
    span: Span

    @property
    def key(self) -> str:
        """The name of the code object in archives."""
        return f"{self.reference.kernel_name}#{self.co_index}"


def read_markers(view: View, segment: RecordSection) -> Iterator[KpackMarker | Finding]:
    """Yield the markers among the records of a section, and findings about them."""
    known: dict[int, KpackReference | None] = {}
    for record in segment.records:
        if record.magic != _MAGIC:
            continue
        pointer = record.pointer
        if pointer.kind != INSIDE:
            problem = _leads_nowhere(record)
            if problem:
                yield finding("FP3005", record.span, problem, _HINT)
            continue
        if pointer.position not in known:
            if len(known) >= _MOST_MAPS:
                text = f"records point to more than {_MOST_MAPS} descriptions of kpack archives; only these are read"
                yield finding("FP1005", record.span, text)
                return
            item = _reference(view.slice(pointer.position, pointer.room))
            known[pointer.position] = None if isinstance(item, Finding) else item
            if isinstance(item, Finding):
                yield item
        reference = known[pointer.position]
        if reference is not None:
            at = record.at + 8 + segment.reader.word
            index = int.from_bytes(segment.site.data.read(at, 4), segment.reader.order)
            yield KpackMarker(index, reference, record.span)


def _leads_nowhere(record: RegistrationRecord) -> str:
    """Return the problem with a pointer outside of the file's bytes, "" if it is unknown."""
    words = {
        NULL: "holds a null pointer",
        OUTSIDE: f"points to {record.pointer.address:#x}, where the file has no bytes",
    }
    problem = words.get(record.pointer.kind, "")
    return f"{record.title} {problem} instead of the description of its kpack archives" if problem else ""


def _reference(data: View) -> KpackReference | Finding:
    """Return the map at the start of a view, or a finding about it."""
    from fatpack.codecs.messagepack import MessagePackReader

    reader = MessagePackReader(data.slice(0, min(len(data), _SIZE)), "description of kpack archives", FORMAT)
    name: bytes | None = None
    paths: tuple[bytes, ...] | None = None
    try:
        for key in reader.map_of_strings():
            if key == b"kernel_name" and name is None:
                name = reader.string()
            elif key == b"kpack_search_paths" and paths is None:
                paths = tuple(_strings(reader))
            else:
                reader.skip()
        if name is None:
            raise _bad(data, "kernel_name", "the key is missing")
        if not paths:
            raise _bad(data, "kpack_search_paths", "the key is missing" if paths is None else "it has no path")
    except FormatError as error:
        span = data.span(0, min(len(data), reader.at + 1))
        if error.offset is not None:
            span = span.replace(start=error.offset, end=max(span.end, error.offset))
        return finding("FP3005", span, error.describe(), _HINT, field=error.field)
    return KpackReference(_text(name), tuple(map(_text, paths)), data.span(0, reader.at))


def _strings(reader: MessagePackReader) -> Iterator[bytes]:
    """Yield the strings of an array; other values are skipped."""
    for _ in reader.array():
        start = reader.at
        try:
            yield reader.string()
        except BadValue:
            reader.at = start
            reader.skip()


def _bad(data: View, field: str, problem: str) -> BadValue:
    return BadValue(problem, format=FORMAT, offset=data.offset(0), field=field, chain=data.chain)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")
