"""The table of contents of a kpack archive: one MessagePack map, of which only the requested values are decoded.

Keys as rocm_kpack's ``kpack.py`` writes them; the runtime (``toc_parser.cpp``) uses the first of two equal keys and
ignores unknown ones.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.codecs.messagepack import MessagePackReader
from fatpack.errors import BadValue, Truncated, pluralize
from fatpack.formats.kpack.layout import KPACK_FORMAT, SCHEMES, kpack_errors
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.errors import LimitExceeded
    from fatpack.io.source import View

#: The known keys of the map, in the order in which they are written.
KEYS = (
    b"format_version",
    b"group_name",
    b"gfx_arch_family",
    b"gfx_arches",
    b"toc",
    b"compression_scheme",
    b"blobs",
    b"zstd_offset",
    b"zstd_size",
)


#: Bytes of a table that are read first, and the factor by which this grows if it is longer.
_FIRST, _STEP = 4096, 8


class TocRow(Record):
    """A row of ``toc``: the code object of one ``binary`` for one ``arch``; ``size`` is None if it is not stated.

    ``at`` and ``end`` are the span of architecture and entry in the table.
    """

    binary: str
    arch: str
    ordinal: int
    type: str
    size: int | None
    further: tuple[tuple[bytes, bytes], ...]
    at: int
    end: int


class KpackToc:
    """The map, with the place of every value; values are decoded on demand."""

    def __init__(self, view: View) -> None:
        """Find the values of the map at the start of a view. Raises Truncated, BadValue, LimitExceeded."""
        self.view = view
        room = _FIRST
        while True:
            reader = MessagePackReader(
                view.slice(0, min(room, len(view), limits.KPACK_TOC)), "table of contents", KPACK_FORMAT
            )
            try:
                self._find(reader)
                break
            except Truncated as error:
                # A file may have many magics, each with a table that claims many bytes: no more is read than the file
                # has.
                reached = reader.at if error.offset is None else error.offset - view.offset(0)
                room = max(_STEP * room, reached + error.needed)
                if len(reader.view) == len(view) or reached + error.needed > len(view):
                    raise kpack_errors.cut(view, reached, "table of contents", error.needed) from error
                if len(reader.view) == limits.KPACK_TOC:
                    raise self._too_long() from error
        self._reader = reader
        #: bytes of the map
        self.size = reader.at

    def _find(self, reader: MessagePackReader) -> None:
        self._places: dict[bytes, int] = {}
        #: the start of each pair of the map, with its key, in stored order
        self.pairs: list[tuple[int, bytes]] = []
        self.further: list[tuple[bytes, bytes]] = []
        self.repeated: dict[str, None] = {}
        keys = reader.map_of_strings()
        while True:
            at = reader.at
            key = next(keys, None)
            if key is None:
                return
            self.pairs.append((at, key))
            if key in self._places:
                self.repeated[decode_text(key)] = None
                reader.skip()
                continue
            self._places[key] = reader.at
            if key in KEYS:
                reader.skip()
            else:
                self.further.append((key, reader.stored()))

    def _too_long(self) -> LimitExceeded:
        most = f"at most {limits.KPACK_TOC} bytes"
        return kpack_errors.limit(self.view, 0, "table of contents", "it is too long", most, limits.advice("KPACK_TOC"))

    def place(self, key: bytes) -> int | None:
        """Return the position of a key's value in the table, None if there is none."""
        return self._places.get(key)

    def text(self, key: bytes) -> str:
        """Return the text of a key, "" if there is none."""
        return decode_text(self._reader.string()) if self._go(key) else ""

    def number(self, key: bytes) -> int | None:
        """Return the number of a key, None if there is none. Raises BadValue for a negative one."""
        return self._number(decode_text(key)) if self._go(key) else None

    def texts(self, key: bytes) -> tuple[str, ...]:
        """Return the texts in the array of a key."""
        if not self._go(key):
            return ()
        return tuple(decode_text(self._reader.string()) for _ in self._reader.array())

    def scheme(self) -> bytes:
        """Return the compression scheme. Raises Unsupported for an unknown one."""
        if not self._go(b"compression_scheme"):
            return b"none"  # rocm_kpack's default
        at = self._reader.at
        name = self._reader.string()
        if name not in SCHEMES:
            known = " and ".join(decode_text(scheme) for scheme in SCHEMES)
            raise kpack_errors.unsupported(
                self.view, at, f"compression scheme {decode_text(name)!r}", f"fatpack reads {known}"
            )
        return name

    def blobs(self) -> Iterator[tuple[int, int]]:
        """Yield offset and size of each blob, as stored; none if there is no such array.

        Raises LimitExceeded if there are too many.
        """
        if not self._go(b"blobs"):
            return
        for number in self._reader.array():
            if number >= limits.IMAGES:
                raise too_many_code_objects(self.view, self._reader.at, "blobs")
            offset = size = 0
            for key in self._reader.map_of_strings():
                if key == b"offset":
                    offset = self._number(f"offset of blob {number}")
                elif key == b"size":
                    size = self._number(f"size of blob {number}")
                else:
                    self._reader.skip()
            yield offset, size

    def kernels(self) -> Iterator[TocRow | BadValue]:
        """Yield the code objects in stored order, and for a damaged entry its error.

        Raises LimitExceeded if there are too many.
        """
        if not self._go(b"toc"):
            return
        count = 0
        for binary in self._reader.map_of_strings():
            arches = self._reader.map_of_strings()
            while True:
                at = self._reader.at
                arch = next(arches, None)
                if arch is None:
                    break
                count += 1
                if count > limits.IMAGES:
                    raise too_many_code_objects(self.view, at, "toc")
                yield self._kernel(decode_text(binary), decode_text(arch), at)

    def _kernel(self, binary: str, arch: str, at: int) -> TocRow | BadValue:
        """Return the entry at the reader's position, and move after it, even if it is damaged."""
        reader = self._reader
        start = reader.at
        reader.skip()
        end, reader.at = reader.at, start
        try:
            return self._entry(binary, arch, at)
        except BadValue as error:
            return error
        finally:
            reader.at = end

    def _entry(self, binary: str, arch: str, at: int) -> TocRow:
        reader, where = self._reader, f"entry of {binary} for {arch}"
        ordinal, size, kind = None, None, ""
        further = []
        for key in reader.map_of_strings():
            if key == b"ordinal":
                ordinal = self._number(f"ordinal of the {where}")
            elif key == b"original_size":
                size = self._number(f"original_size of the {where}")
            elif key == b"type":
                kind = decode_text(reader.string())
            else:
                further.append((key, reader.stored()))
        # The runtime uses the first blob if no ordinal is stated.
        return TocRow(binary, arch, ordinal or 0, kind, size, tuple(further), at, reader.at)

    def _go(self, key: bytes) -> bool:
        place = self._places.get(key)
        if place is None:
            return False
        self._reader.at = place
        return True

    def _number(self, what: str) -> int:
        at = self._reader.at
        value = self._reader.integer()
        if value < 0:
            raise self.bad(at, what, str(value), "0 or more")
        return value

    def bad(self, at: int, field: str, problem: str, expected: str = "") -> BadValue:
        """Return the error for a value of the table, at its place there."""
        return kpack_errors.value(self.view, at, field, problem, expected)


def too_many_code_objects(view: View, at: int, field: str) -> LimitExceeded:
    """Return the error for more code objects than an archive may have, by the field that lists them."""
    problem = f"more than {pluralize(limits.IMAGES, 'code object')}"
    return kpack_errors.limit(view, at, field, problem, f"at most {limits.IMAGES}", limits.advice("IMAGES"))


def decode_text(text: bytes) -> str:
    """Return a string of the table; bytes that are not UTF-8 are written again unchanged."""
    return text.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the stored bytes of a string."""
    return text.encode("utf-8", "surrogateescape")
