"""Tables of Tensile: their names, and the tables that a parent names.

A table is a MessagePack map of ``solutions`` and ``library``; hipBLASLt may store it as one zlib stream
(``.dat.zlib``). In a parent for lazy loading ``solutions`` is empty, and leaves of the tree in ``library`` are maps
``{"type": "Placeholder", "value": P}``: P is the name of another table without its extension. Nodes of other types are
walked without knowing them.
"""

from __future__ import annotations

import re

from fatpack.codecs import inflation_limit_error
from fatpack.codecs.messagepack import MessagePackReader
from fatpack.errors import BadValue, LimitExceeded, pluralize
from fatpack.io.source import BytesSource, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: name of the format in errors
FORMAT = "tensile-table"

#: LIMIT: bytes of a table that are read, after inflating. Parents for lazy loading have some hundred kilobytes; one
#: with the solutions of all targets (rocBLAS 2.47 of Debian 13) has 117 MB, and no leaf that names another table.
_SIZE = 64 << 20

#: the type of a leaf that names another table, as any table that has one spells it
_LEAF = b"Placeholder"

#: LIMIT: levels of a table. The trees of libraries have about ten.
_DEPTH = 200

#: LIMIT: names in a parent; real ones have some hundred
_NAMES = 100_000

#: ends of the names of tables; those in YAML are not read
EXTENSIONS = (".dat", ".dat.zlib")
YAML = ".yaml"

#: a plain target at the end of a name, before its extension
_ARCH = r"gfx[0-9a-f]+"

#: parents: for lazy loading, for one target, for several; and hipBLASLt's map of numbers to tables
_PARENT = re.compile(rf"Tensile(?:Lite)?Library(_lazy)?(?:_({_ARCH}))?(_Mapping)?")

#: the target in the name of a code file, with the state of xnack after it
_CODE_ARCH = re.compile(rf"[-_]({_ARCH})(?:-xnack[-+])?\Z")

#: ends of the names of code files
CODE = (".co", ".hsaco")


class ParentName(Record):
    """Facts in the name of a parent: its target ("" for several), if it is for lazy loading, or is a mapping."""

    arch: str
    is_lazy: bool
    is_mapping: bool


def stem_of(name: str, ends: tuple[str, ...]) -> str | None:
    """Return a name without the one of these ends that it has, None if it has none."""
    return next((name[: -len(end)] for end in sorted(ends, key=len, reverse=True) if name.endswith(end)), None)


def parse_parent_name(name: str) -> ParentName | None:
    """Return what the file name of a parent says, None for the name of any other file."""
    stem = stem_of(name, (*EXTENSIONS, YAML))
    match = _PARENT.fullmatch(stem) if stem is not None else None
    return ParentName(match[2] or "", bool(match[1]), bool(match[3])) if match else None


def arch_of_code(name: str) -> str:
    """Return the target in the name of a code file, "" if it has none."""
    match = _CODE_ARCH.search(stem_of(name, CODE) or "")
    return match[1] if match else ""


def read_placeholders(view: View) -> tuple[str, ...]:
    """Return the names of the tables that a parent names, each once, in stored order; none for a table of solutions.

    Raises FormatError for a table that is damaged, LimitExceeded for one that is too large. A large table that is not
    compressed and names none is searched for that alone.
    """
    if len(view) > _SIZE and _is_map(view) and view.find(_LEAF) < 0:
        return ()
    table = _inflated(view) if view.head(0, 1) == b"\x78" else view
    if len(table) > _SIZE:
        raise _too_large(view)
    reader = MessagePackReader(table, "table", FORMAT)
    names: dict[str, None] = {}
    for key in reader.map_of_strings():
        if key != b"library":
            reader.skip()
            continue
        for found in reader.strings_of_maps(frozenset((b"type", b"value")), _DEPTH):
            if found.get(b"type") == b"Placeholder" and b"value" in found:
                names[found[b"value"].decode("utf-8", "backslashreplace")] = None
                if len(names) > _NAMES:
                    raise LimitExceeded(
                        f"it names more than {pluralize(_NAMES, 'table')}", format=FORMAT, field="library", offset=0
                    )
    if reader.at < len(table):
        raise BadValue(
            f"{pluralize(len(table) - reader.at, 'byte')} after the map belong to nothing",
            format=FORMAT,
            offset=table.offset(reader.at),
            field="table",
            chain=table.chain,
        )
    return tuple(names)


def begins_as_table(view: View) -> bool:
    """Return whether a file begins as a table: a map of MessagePack, or a zlib stream. YAML has no beginning."""
    return view.head(0, 1) == b"\x78" or _is_map(view)


def _is_map(view: View) -> bool:
    """Return whether a table begins as a map of MessagePack."""
    head = view.head(0, 1)
    return bool(head) and (head[0] >> 4 == 8 or head[0] in (0xDE, 0xDF))


def _too_large(view: View) -> LimitExceeded:
    return LimitExceeded(
        "it is too large", format=FORMAT, field="table", offset=0, expected=f"at most {_SIZE} bytes", chain=view.chain
    )


def _inflated(view: View) -> View:
    """Return the content of a zlib stream. Raises BadValue for damage, and for bytes after it, as hipBLASLt does."""
    import zlib

    stream, made = zlib.decompressobj(), bytearray()
    problem = ""
    try:
        for piece in view.pieces():
            made += stream.decompress(bytes(piece), _SIZE + 1 - len(made))
            if len(made) > _SIZE or stream.unconsumed_tail:
                raise _too_large(view)
            if not view.source.charge(view.start, len(made)):
                raise inflation_limit_error(view, None, format=FORMAT)
            if stream.unused_data:
                problem = "bytes follow the zlib stream: the library refuses the table"
                break
    except zlib.error:
        problem = "the zlib stream is damaged"
    if not problem and not stream.eof:
        problem = "the zlib stream is cut short"
    if problem:
        raise BadValue(problem, format=FORMAT, offset=view.offset(0), field="table", chain=view.chain)
    source = BytesSource(made, present=len(view))
    return source.view().replace(chain=(*view.chain, VirtualName("inflated zlib")))
