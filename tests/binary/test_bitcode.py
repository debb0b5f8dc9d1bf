"""Symbols of bitcode in archives: from LLVM's table, and from the modules if there is none."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.builders.bitcode import ALIAS, ARRAY, BLOB, FUNCTION_RECORD, GLOBAL, MODULE, SECTION_NAME, VERSION, Stream

from fatpack import limits
from fatpack.binary.symbols import archive_symbols
from fatpack.errors import LimitExceeded
from fatpack.io.source import BytesSource

DATA_LAYOUT, IFUNC, STRTAB, SYMTAB = 3, 15, 23, 25
UNDEFINED, OMITTED, GLOBAL_FLAG, SPECIFIC = 1 << 3, 1 << 9, 1 << 10, 1 << 11
#: Linkages as stored
EXTERNAL, APPENDING, INTERNAL, LINKONCE, EXTERN_WEAK, COMMON, PRIVATE, AVAILABLE, WEAK = 0, 2, 3, 18, 7, 8, 9, 12, 16


def listed(data: bytes) -> list[bytes] | None:
    found = archive_symbols(BytesSource(data, "x.bc").view())
    return None if found is None else list(found)


def blob(stream: Stream, block: int, data: bytes) -> None:
    stream.enter(block, 3)
    stream.define(1, (BLOB, 0))
    stream.fixed(4, 3)
    stream.vbr(len(data), 6)
    stream.align()
    for byte in data:
        stream.fixed(byte, 8)
    stream.align()
    stream.leave()


class Names:
    """Builds a string table."""

    def __init__(self) -> None:
        self.text = b""

    def place(self, name: bytes) -> tuple[int, int]:
        self.text += name
        return len(self.text) - len(name), len(name)


def table(rows: Sequence[tuple[bytes, int]], *, version: int = 4, modules: int = 1, count: int | None = None) -> bytes:
    """Return a file with an empty module and a table of symbols (name, flags)."""
    names, stored = Names(), b""
    for name, flags in rows:
        stored += struct.pack("<6I", *names.place(name), 0, 0, 0xFFFFFFFF, flags)
    size = 19 * 4
    header = struct.pack("<I8xII8xII", version, size, modules, size, len(rows) if count is None else count)
    stream = Stream()
    stream.enter(MODULE, 3)
    stream.record(VERSION, [2])
    stream.leave()
    blob(stream, SYMTAB, header.ljust(size, b"\0") + stored)
    blob(stream, STRTAB, names.text)
    return stream.bytes()


def test_the_table_of_llvm_says_what_counts() -> None:
    rows = [
        (b"f", GLOBAL_FLAG),
        (b"undefined", GLOBAL_FLAG | UNDEFINED),
        (b"llvm.used", GLOBAL_FLAG | SPECIFIC),
        (b"local", 0),
        (b"inline", GLOBAL_FLAG | OMITTED),
        (b"f", GLOBAL_FLAG),
    ]
    assert listed(table(rows)) == [b"f", b"inline", b"f"]


@pytest.mark.parametrize("changes", [{"version": 0}, {"version": 5}, {"modules": 2}])
def test_a_table_that_is_not_known_is_not_used(changes: dict[str, int]) -> None:
    assert listed(table([(b"f", GLOBAL_FLAG)], **changes)) == []  # type: ignore[arg-type]


def test_a_table_that_is_cut_makes_bitcode_a_file_without_symbols() -> None:
    assert listed(table([(b"f", GLOBAL_FLAG)], count=2)) is None


def test_many_symbols_with_one_long_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRING_FLOOR", 1)
    rows = [(b"n" * 1000, GLOBAL_FLAG), *[(b"", GLOBAL_FLAG)] * 50]
    data = bytearray(table(rows))
    at = data.index(struct.pack("<6I", 1000, 0, 0, 0, 0xFFFFFFFF, GLOBAL_FLAG))
    for row in range(50):
        struct.pack_into("<II", data, at + 24 * row, 0, 1000)
    with pytest.raises(LimitExceeded):
        listed(bytes(data))


def module(
    records: Sequence[tuple[int, bytes, Sequence[int]]],
    *,
    layout: bytes = b"e-m:e-i64:64",
    version: int = 2,
    sections: Sequence[bytes] = (),
    stream: Stream | None = None,
) -> Stream:
    """Add a module with records (code, name, values after the name) and its names, and no table of symbols."""
    out, names = stream or Stream(), Names()
    out.enter(MODULE, 3)
    out.record(VERSION, [version])
    out.define(SECTION_NAME, (ARRAY, 0), (1, 8))
    out.record(DATA_LAYOUT, list(layout))
    for section in sections:
        out.fixed(4, 3)
        out.vbr(len(section), 6)
        for byte in section:
            out.fixed(byte, 8)
    for code, name, values in records:
        out.record(code, [*names.place(name), *values])
    out.enter(11, 4)
    out.leave()
    out.leave()
    blob(out, STRTAB, names.text)
    return out


def variable(linkage: int, *, initialiser: int = 1, section: int = 0) -> tuple[int, ...]:
    return (0, 3, initialiser, linkage, 4, section, 0, 0)


def function(linkage: int, *, is_declaration: int = 0) -> tuple[int, ...]:
    return (0, 0, is_declaration, linkage, 0, 0)


def test_modules_list_functions_then_variables_aliases_and_ifuncs() -> None:
    records = [
        (GLOBAL, b"v", variable(EXTERNAL)),
        (FUNCTION_RECORD, b"f", function(EXTERNAL)),
        (IFUNC, b"i", (0, 0, 0, EXTERNAL)),
        (ALIAS, b"a", (0, 0, 0, WEAK)),
        (FUNCTION_RECORD, b"g", function(LINKONCE)),
    ]
    assert listed(module(records).bytes()) == [b"f", b"g", b"v", b"a", b"i"]


def test_what_is_no_definition_for_others_is_left_out() -> None:
    records = [
        *((GLOBAL, b"v%d" % linkage, variable(linkage)) for linkage in range(20)),
        (GLOBAL, b"declared", variable(EXTERNAL, initialiser=0)),
        (GLOBAL, b"declared weak", variable(EXTERN_WEAK, initialiser=0)),
        (FUNCTION_RECORD, b"prototype", function(EXTERNAL, is_declaration=1)),
        (FUNCTION_RECORD, b"available", function(AVAILABLE)),
        (FUNCTION_RECORD, b"internal", function(INTERNAL)),
        (GLOBAL, b"llvm.used", variable(APPENDING)),
        (GLOBAL, b"metadata", variable(EXTERNAL, section=2)),
        (GLOBAL, b"placed", variable(EXTERNAL, section=1)),
        (GLOBAL, b"nowhere", variable(EXTERNAL, section=9)),
    ]
    expected = [b"v%d" % linkage for linkage in range(20) if linkage not in (INTERNAL, PRIVATE, 13, 14, AVAILABLE)]
    found = listed(module(records, sections=[b".foo", b"llvm.metadata"]).bytes())
    assert found == [*expected, b"placed", b"nowhere"]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (b"e-m:e-i64:64", [b"plain", b"as it is", b"?cxx", b"__unnamed_1", b"__unnamed_2"]),
        (b"e", [b"plain", b"as it is", b"?cxx", b"__unnamed_1", b"__unnamed_2"]),
        (b"e-m:o", [b"_plain", b"as it is", b"_?cxx", b"___unnamed_1", b"___unnamed_2"]),
        (b"e-m:x", [b"_plain", b"as it is", b"?cxx", b"___unnamed_1", b"___unnamed_2"]),
        (b"e-m:w", [b"plain", b"as it is", b"?cxx", b"__unnamed_1", b"__unnamed_2"]),
    ],
)
def test_names_are_spelled_as_in_an_object(layout: bytes, expected: list[bytes]) -> None:
    names = (b"plain", b"\1as it is", b"?cxx", b"", b"")
    assert listed(module([(GLOBAL, name, variable(COMMON)) for name in names], layout=layout).bytes()) == expected


def test_several_modules_have_names_of_their_own() -> None:
    stream = module([(GLOBAL, b"one", variable(EXTERNAL))])
    module([(FUNCTION_RECORD, b"two", function(EXTERNAL))], stream=stream)
    assert listed(stream.bytes()) == [b"one", b"two"]


def test_old_modules_list_nothing() -> None:
    assert listed(module([(GLOBAL, b"v", variable(EXTERNAL))], version=1).bytes()) == []


def test_wrapped_bitcode_is_read() -> None:
    data = table([(b"f", GLOBAL_FLAG)])
    wrapped = struct.pack("<5I", 0x0B17C0DE, 0, 24, len(data), 7) + bytes(4) + data + bytes(16)
    assert listed(wrapped) == [b"f"]
    for size in (4, 16, 24, len(wrapped) - 20):
        assert listed(wrapped[:size]) is None


@pytest.mark.parametrize(
    ("tail", "is_read"), [(b"", True), (bytes(4), True), (bytes(8), True), (bytes(12), False), (b"\0", False)]
)
def test_bytes_after_the_stream(tail: bytes, is_read: bool) -> None:
    assert listed(table([(b"f", GLOBAL_FLAG)]) + tail) == ([b"f"] if is_read else None)


def test_a_stream_without_blocks_is_an_object_without_symbols() -> None:
    assert listed(b"BC\xc0\xde") == listed(b"BC\xc0\xde" + bytes(4)) == []


def test_every_cut_and_every_damaged_byte_give_symbols_or_none() -> None:
    for data in (table([(b"f", GLOBAL_FLAG), (b"g", GLOBAL_FLAG)]), module([(GLOBAL, b"v", variable(0))]).bytes()):
        for at in range(len(data)):
            listed(data[:at])
            for value in (0, data[at] ^ 1, 0xFF):
                listed(data[:at] + bytes([value]) + data[at + 1 :])
