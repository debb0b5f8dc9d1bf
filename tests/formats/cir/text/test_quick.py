"""One expression finds the same as the grammar step by step, and no text is read twice."""

from __future__ import annotations

import random

import pytest
from tests.builders.cir import HOST, SM_80, combined, parsed

from fatpack.errors import FormatError
from fatpack.formats import cir
from fatpack.formats.cir.modules import outline
from fatpack.formats.cir.text import header
from fatpack.formats.cir.text.definitions import definition_at, read_definitions, run_end
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.io.source import BytesSource

pytestmark = pytest.mark.usefixtures("both_ways")

VALUES = [
    "i32",
    "vector<4xi32>",
    "tensor<2x?xf32, #t>",
    "!other",
    "!llvm.ptr<1>",
    "!x.y<a -> b>",
    "#x.y<[1, 2], (i8) -> i8>",
    "#other",
    "true",
    "unit",
    '"text"',
    '"text" : !x.y<i8>',
    "4 : i32",
    "-4.5e-3 : f32",
    "0xFF : index",
    "dense<0> : tensor<2xi8>",
    "affine_map<(d0) -> (d0 + 1)>",
    "[1, 2]",
    "[{a = 1}, #x.y<z>]",
    "{a = 1, b}",
    "() -> ()",
    "(i8, !other) -> (i8)",
    "@a::@b",
    'loc("a.cu":1:2)',
    "loc(fused[#l, #m])",
    "distinct[0]<4 : i8>",
    "memref<2x2xf32, strided<[2, 1]>>",
]


def text_of(data: str) -> Lexer:
    return Lexer(BytesSource(data.encode(), "in.mlir").view())


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "behind", ["\n#z = 1\n", "  \r\n\n!z = i8\n", "\n", " #z = 1\n", "\n// : i8\nmodule {\n}\n", ""]
)
def test_a_definition_ends_where_the_grammar_ends_it(value: str, behind: str) -> None:
    sigil = (
        "#" if value[0] in '#"[{@-0123456789' or value.startswith(("true", "unit", "loc", "dense", "affine")) else "!"
    )
    text = f"{sigil}a = {value}{behind}"
    exact = definition_at(text_of(text), 0)
    end = run_end(text_of(text), 0)
    assert next(read_definitions(text_of(text), 0, end)) == exact
    assert text[exact.value : exact.end] == value


HEADERS = [
    " {",
    " @a {",
    " @a attributes {} {",
    " @a attributes {b.c} {",
    ' @a attributes {b.c = "d", "e.f", g.h = #i.j<k>} {',
    " attributes {b.c = #alias, d.e = !x.y<[z]>} {",
    ' attributes {cir.offload.container, b.c = "}{"} {',
    " attributes {cir.gpu.bundle = #x.y} {",
    '@"a b" attributes { b.c = 1 : i32 } {',
    ' attributes {sym_name = "x", b.c} {',
    " attributes {b.c = unit} {",
    r' attributes {b.c = "\22"} {',
]


@pytest.mark.parametrize("written", HEADERS)
def test_a_header_is_the_same_by_one_expression(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = header.read_custom_header(text_of(written + "\n}"), 0)
    monkeypatch.setattr(header, "_plain_header", lambda *_: None)
    exact = header.read_custom_header(text_of(written + "\n}"), 0)
    assert quick.replace(attrs=tuple(attr.replace(literal=None) for attr in quick.attrs)) == exact
    for attr in quick.attrs:
        if attr.literal is not None and attr.value is not None:
            assert attr.literal == written[slice(*attr.value)].encode()


@pytest.mark.parametrize("written", [" attributes {b.c, b.c} {", ' attributes {b.c, "b.c"} {'])
def test_a_key_that_is_given_twice_is_refused(written: str) -> None:
    with pytest.raises(FormatError, match="given twice"):
        header.read_custom_header(text_of(written), 0)


def test_a_word_is_found_whatever_was_asked_before() -> None:
    pick = random.Random(5)
    window = bytes(pick.choice(b"ab") for _ in range(400))
    text = text_of("")
    for _ in range(2000):
        start, size, word = pick.randrange(400), pick.randrange(60), bytes(pick.choice(b"ab") for _ in range(6))
        assert text.has_bytes(word, window, start, start + size) == (window.find(word, start, start + size) >= 0)


def test_aliases_of_all_modules_are_looked_up_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    made = combined(("module {\n}\n", HOST), *(("module {\n}\n", SM_80 + str(n)) for n in range(30))).decode()
    text = "#role = #other\n#other = #cir.offload<device>\n" + made.replace("= #cir.offload<device>", "= #role")
    calls = []
    monkeypatch.setattr(outline, "read_definitions", lambda *given: calls.append(given) or read_definitions(*given))
    container = parsed(text.encode())
    assert [module["role"] for module in cir.describe(container)["modules"]] == ["host", *["device"] * 30]  # type: ignore[attr-defined]
    assert len(calls) == 1
