"""Strings, comments, brackets and definitions, each special case by itself; all of them at the borders of the
window."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import pytest
from tests.builders.cir import Builder

from fatpack import limits
from fatpack.errors import FormatError
from fatpack.formats.cir.files import identifiers
from fatpack.formats.cir.files.identifiers import AliasTable, find_needs
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text import lexer, region
from fatpack.formats.cir.text.definitions import definition_at, read_definitions, run_end
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import escape_string, long_string_end, unescape, unescape_view
from fatpack.io.source import BytesSource, View

pytestmark = pytest.mark.usefixtures("both_ways")


def view_of(data: bytes) -> View:
    return BytesSource(data, "x.cir").view()


def text_of(data: bytes) -> Lexer:
    return Lexer(view_of(data))


@pytest.mark.parametrize(
    "literal",
    [
        rb'""',
        rb'"a"',
        rb'"\""',
        rb'"\\"',
        rb'"\\\""',
        rb'"\00\ff\n\t"',
        b'"\r\x00\x80\xff"',
        rb'"a\22}{//\5C"',
        b'"' + rb"\\" * 4000 + b'"',
    ],
)
def test_a_string_ends_at_its_own_quote(literal: bytes) -> None:
    assert text_of(literal + b'"').string_end(0) == len(literal)
    assert long_string_end(view_of(literal + b'"'), 0) == len(literal)


@pytest.mark.parametrize("size", range(9))
def test_an_escape_may_lie_across_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNK", 8)
    literal = b'"' + b"x" * size + rb"\\\22\"\n" * 5 + b'"'
    assert long_string_end(view_of(literal + b"rest"), 0) == len(literal)


@pytest.mark.parametrize("size", range(9))
def test_a_long_literal_means_the_same_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNK", 8)
    literal = b"x" * size + rb"\\\22\"\n\\\5C\t" * 5
    assert unescape_view(view_of(literal)) == b"x" * size + b'\\""\n\\\\\t' * 5


@pytest.mark.parametrize(
    ("literal", "column", "what"),
    [
        (b'"abc', 5, "not closed"),
        (b'"ab\nc"', 4, "not closed"),
        (b'"a\vb"', 3, "not closed"),
        (b'"a\fb"', 3, "not closed"),
        (rb'"a\q"', 3, "unknown escape"),
        (rb'"\\\q"', 4, "unknown escape"),
        (rb'"\4g"', 2, "unknown escape"),
        (rb'"\22\x"', 5, "unknown escape"),
    ],
)
def test_a_bad_string_is_refused_with_its_place(literal: bytes, column: int, what: str) -> None:
    with pytest.raises(FormatError, match=what) as caught:
        text_of(b"// first line\n" + literal).string_end(14)
    assert caught.value.field == f"line 2, column {column}"
    assert caught.value.offset == 13 + column


@pytest.mark.parametrize("data", [b"", b"plain", b'a"b\\c', bytes(range(256)), b"\\5C", b"\n\t\r"])
def test_literals_mean_what_they_were_made_from(data: bytes) -> None:
    literal = escape_string(data)
    assert unescape(literal[1:-1]) == data
    assert text_of(literal).string_end(0) == len(literal)


def test_the_printer_escapes_all_except_printable_characters() -> None:
    assert escape_string(b'a b"\\\n\x7f~ !#') == rb'"a b\22\\\0A\7F~ !#"'


@pytest.mark.parametrize(
    "value",
    [
        b"<>",
        b"<a -> b>",
        b"<(d0) : (d0 <= 5)>",
        b"<(d0) : (d0 >= 5)>",
        b'<"}{ \\" // >", [1, {k = "->"}], (a -> b)>',
        b"</build//x.fatbin>",
        b"(a, b -> c)",
        b"{a = #x<(b)>, c = [1 < 2]}",
        b"[#cir.x<a//b>]",
    ],
)
def test_a_bracket_is_closed_by_its_own(value: bytes) -> None:
    data = b"#cir.demo" + value + b" >)]}"
    assert text_of(data).balanced_end(9) == 9 + len(value)


def test_a_comment_between_brackets_is_skipped_outside_of_dialect_bodies() -> None:
    data = b"{a = 1, // } not yet\n b = [2 // ]\n]} rest"
    assert text_of(data).balanced_end(0) == data.index(b" rest")


@pytest.mark.parametrize(
    ("data", "place"), [(b"(a]", "column 3"), (b"<[>}", "column 4"), (b"{(}", "column 3"), (b"[a", "column 3")]
)
def test_brackets_that_do_not_match_are_refused_with_their_place(data: bytes, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        text_of(data).balanced_end(0)
    assert place in caught.value.field
    assert caught.value.expected


@pytest.mark.parametrize(
    "line",
    [
        b'#a = loc("x // y":1:2)',
        b"#1 = #0",
        b"!s32i = !cir.int<s, 32>",
        b"!f = (i32, !cir.ptr<!s32i>) -> (i1)",
        b"#m = affine_map<(d0, d1) -> (d0 + d1)>",
        b"#s = affine_set<(d0) : (d0 >= 5)>",
        b"#d = dense<[1, 2]> : tensor<2xi32>",
        b"#i = -1 : i64",
        b"#f = 1.5e+3 : f32",
        b'#t = "a }" : !cir.array<!u8i x 3>',
        b'#y = @a::@"b }"::@c',
        b"#u = unit",
        b"#b = true",
        b'#x = {a = 1 : i32, "b c" = [#1, "]"]}',
        b"#q = distinct[0]<#1>",
        b'#l = loc(fused<"meta">[#a, #b])',
        b"!v = vector<4x!s32i>",
        b"#cir = #cir<x>",
        b"#v = #cir.int<7> : !s32i",
        b"!void = !cir.void",
        b"#z = array<i64: 1, 2>",
        b"#multi =\n  #cir.x<a\n  b>\n  : i32",
    ],
)
def test_a_definition_ends_where_its_value_does(line: bytes) -> None:
    definition = definition_at(text_of(line + b" #next = unit"), 0)
    assert definition.end == len(line)
    assert definition.name == line.split()[0]
    following = line + b" // comment }\n#next = unit\nmodule {\n}\n"
    found = list(read_definitions(text_of(following), 0, following.index(b"module")))
    assert [following[item.start : item.end] for item in found] == [line, b"#next = unit"]
    assert run_end(text_of(following), 0) in (following.index(b"\nmodule"), following.index(b"module"))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"#a.b = 1", "dot"),
        (b"#a 1", "'='"),
        (b"#a = )", "value"),
        (b"#a = loc(", "not closed"),
        (b"#a = #cir.x<", "not closed"),
        (b"#a = @1", "symbol"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_place(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what) as caught:
        definition_at(text_of(data), 0)
    assert caught.value.field.startswith("line 1, column ")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (b"use %0#1, #1", [b"#1"]),
        (b"%x.y#12 %-z#3", []),
        (b"#cir<host> #cir.x #cir", [b"#cir"]),
        (b"!cir.ptr<!s32i> !t <x>", [b"!s32i", b"!t"]),
        (b'"#a" // #b\n#c', [b"#c"]),
        (b"vector<4x!elt>", [b"!elt"]),
        (b"#cir.x<a//#y>\n", [b"#y"]),
        (b"loc(#loc1)#loc2", [b"#loc1", b"#loc2"]),
    ],
)
def test_aliases_are_distinguished_from_what_looks_like_them(code: bytes, found: list[bytes]) -> None:
    view = view_of(code)
    assert [
        name for what, _, _, name, _ in identifiers.find_uses(view, 0, len(view)) if what == identifiers.ALIAS
    ] == found
    assert _needs(code + b"\n", sorted(set(found))) == (sorted(set(found)), {}, [])


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [
        (b'!cir.struct<"N" {data !s32i}>', b"struct", b'"N"'),
        (b'!cir.record<struct "N" packed padded {!s32i}>', b"struct", b'"N"'),
        (b'!cir.struct<union "N" {!s32i}>', b"union", b'"N"'),
        (b'!cir.union<"a\\22b" incomplete>', b"union", b'"a\\22b"'),
        (b'!cir.class<"operator->">', b"class", b'"operator->"'),
        (b'!cir.record<"N" {}>', b"record", b'"N"'),
    ],
)
def test_a_record_is_named_by_its_first_string(code: bytes, kind: bytes, name: bytes) -> None:
    view = view_of(code)
    found = [
        (item[4], item[3])
        for item in identifiers.find_uses(view, 0, len(view))
        if item[0] in (identifiers.RECORD_BODY, identifiers.RECORD_NAME)
    ]
    assert found == [(kind, name)]


def test_a_record_without_a_name_is_not_named_by_a_string_in_it() -> None:
    view = view_of(b'!cir.struct<{!cir.struct<"Inner" {}>, "no name"}>')
    assert [item[3] for item in identifiers.find_uses(view, 0, len(view))] == [b'"Inner"']


#: Names of aliases, all of them defined, in every order with what may hide them, divide them or look like them.
NAMES = (b"#a", b"#b", b"!a", b"#1", b"#2", b"!3", b"#cir", b"#loc1")
WORDS = [*NAMES, b'"#a"', b'"\\22 #b"', b'"', b"// #a", b"%x#1", b"%x.y", b"-#2", b"#cir.x<", b"#cir<", b"!d.t<[", b"<"]
WORDS += [
    b">",
    b"]>",
    b"/",
    b"//",
    b'!cir.struct<"N" {',
    b"!cir.record<",
    b'union "M"',
    b"dense_resource<key>",
    b"x",
    b".",
]
BETWEEN = (b"", b" ", b" ", b"\n", b"\r\n")


def _needs(code: bytes, names: Sequence[bytes] = NAMES) -> tuple[object, ...]:
    """Return what a module uses that is the text ``code``: aliases of ``names``, records by position, resources."""
    definitions = b"".join(name + b" = 1\n" for name in names)
    outline = SimpleNamespace(text=view_of(definitions + code), definitions=[(0, len(definitions))])
    start, end = len(definitions), len(definitions) + len(code)
    found = find_needs(AliasTable(outline), [(start, end)])  # type: ignore[arg-type]
    records = {name: at - start for name, at in found.records.items()}
    return sorted(names[number] for number in found.aliases), records, sorted(found.resources)


@pytest.mark.parametrize("seed", range(40))
def test_lines_that_are_read_at_once_use_what_they_use_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    for count in range(1, 60):
        pieces = [random.choice(WORDS) + random.choice(BETWEEN) for _ in range(count)]
        code = b"".join(pieces)
        found = []
        for reads_lines in (True, False):
            with monkeypatch.context() as patch:
                if not reads_lines:
                    patch.setattr(identifiers._NeedsCollector, "_add_names", lambda *_: False)
                try:
                    found.append(repr(_needs(code)))
                except FormatError as error:
                    found.append(error.describe())
        assert found[0] == found[1], code


def _outline(data: bytes) -> tuple[object, ...]:
    outline = Outliner(view_of(data)).outline()
    assert outline.damage is None, outline.damage
    module = outline.modules[0]
    found = find_needs(AliasTable(outline), [(module.start, module.end)])
    facts = (module.start, module.end, module.name, module.body, module.location, dict(module.contents.op_counts))
    return (*facts, list(found.aliases), sorted(found.records), outline.definitions, outline.metadata, outline.others)


@pytest.mark.parametrize("seed", range(6))
def test_the_size_of_the_window_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is read through a window that moves; no result may depend on its position."""
    one = Builder(seed).file()
    start = one.index("{", one.index("module"))
    filler = "".join(f'\n  "demo.op"() {{a = "}}{{ \\22 {i}", b = [{i}]}} : () -> ()  // {{ {i}' for i in range(700))
    body_at = one.rindex("\n}") if "\n}" in one else start
    data = (one[:body_at] + filler + one[body_at:]).encode("latin-1")
    expected = _outline(data)
    for extra in (0, 1, 37, 1000):
        with monkeypatch.context() as patch:
            patch.setattr(lexer, "WINDOW", 3 * lexer.MARGIN + extra)
            assert _outline(data) == expected
    assert region.MARGIN == lexer.MARGIN
