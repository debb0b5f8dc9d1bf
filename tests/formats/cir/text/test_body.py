"""Operations in the bodies of modules, also at the borders of the window and in files without a line end."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, combined, parsed

from fatpack.formats import cir
from fatpack.formats.cir.text import lexer

KERNEL = '  cir.func @f%d(%%a: i1 {llvm.noundef}) cc(ptx_kernel) {\n    "cir.x"() {b = "}"} : () -> () // {\n  }\n'
STUB = '  cir.func @s%d() attributes {cu.kernel_name = #cir.cu.kernel_name<"k%d">} {\n    cir.call @x()\n  }\n'
PLAIN = "  cir.func @g%d() {\n    cir.if %%a {\n      cir.scope { cir.yield }\n    }\n  }\n"
DICTIONARY = '  cir.x {\n    a.b = 1 : i32,\n    "c.d" = [2,\n    3], e.f\n  }\n'


def module(body: str) -> dict[str, object]:
    made = combined((f"module {{\n{body}}}\n", HOST), ("module {\n}\n", SM_80))
    return cir.describe(parsed(made, strict=True))["modules"][0]  # type: ignore[index, no-any-return]


@pytest.mark.parametrize("extra", [0, 11, 500])
def test_functions_are_found_wherever_the_window_ends(extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "WINDOW", 3 * lexer.MARGIN + extra)
    count = 400
    body = "".join(KERNEL % n + STUB % (n, n) + PLAIN % n + DICTIONARY for n in range(count))
    found = module(body)
    assert found["kernels"] == [f"f{n}" for n in range(count)]
    assert found["stubs"] == [{"symbol": f"s{n}", "kernel": f"k{n}"} for n in range(count)]
    names = ("cir.call", "cir.func", "cir.if", "cir.scope", "cir.x", "cir.yield")
    assert found["op_counts"] == dict(zip(names, (count, 3 * count, count, count, 2 * count, count), strict=True))


@pytest.mark.parametrize("head", ["", "\n", "\r\n"])
def test_a_head_in_several_lines_is_still_that_of_a_stub(head: str) -> None:
    one = f'  cir.func @s(){head or " "}  attributes {{cu.kernel_name = #cir.cu.kernel_name<"k">}} {{\n  }}\n'
    assert module(PLAIN % 1 + one + PLAIN % 2)["stubs"] == [{"symbol": "s", "kernel": "k"}]


#: Heads of functions in several lines; launched kernels are marked with K.
HEADS = [
    "cir.func @s(\n  // the argument @no\n  %a: i32\n  )\n  // what it launches\n  attributes {K} {",
    "cir.func @s( // one\n  %a: i32) attributes { // note {\n  // and\n  K\n  } {",
    "cir.func @s(\n  !cir.ptr<i8>) attributes {\n  K} {",
    "cir.func // calls @no\n  // or @no\n\n  @s() attributes {K} {",
    'cir.func @s() // attributes {cu.kernel_name = #cir.cu.kernel_name<"no">}\n\n  attributes {K} {',
    "cir.func\n  no_inline\n  private\n  @s()\n  -> (i32)\n  attributes {K}\n  // so\n  {",
    "cir.func @s()\n  attributes\n  {\n  K }\n{",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head", HEADS)
def test_a_head_in_several_lines_and_with_comments_is_that_of_a_stub(head: str, end: str) -> None:
    launches = 'cu.kernel_name = #cir.cu.kernel_name<"k">'
    one = f"  {head.replace('K', launches)}\n  cir.return\n  }}\n"
    window = (PLAIN % 1 + one + PLAIN % 2).replace("\n", end)
    found = module(window)
    assert found["stubs"] == [{"symbol": "s", "kernel": "k"}]
    assert found["op_counts"] == {"cir.func": 3, "cir.if": 2, "cir.return": 1, "cir.scope": 2, "cir.yield": 2}


@pytest.mark.parametrize("extra", range(0, 97, 8))
def test_heads_in_several_lines_are_found_wherever_the_window_ends(extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "WINDOW", 3 * lexer.MARGIN + extra)
    one = "  cir.func @f%d(\n    // one\n    %%a: i32\n  )\n  // two\n  cc(ptx_kernel) {\n  }\n"
    assert module("".join(one % n for n in range(300)))["kernels"] == [f"f{n}" for n in range(300)]


@pytest.mark.parametrize("blank", [" ", "\n", "\t"])
def test_long_runs_of_blanks_are_passed_over(blank: str) -> None:
    assert module(f"  cir.x\n{blank * 700_000}\n  cir.x\n")["op_counts"] == {"cir.x": 2}


def test_operations_in_one_line_are_counted_in_generic_form() -> None:
    one = '%1 = "cir.x"(%0) {a = "y.z(", b = loc("f.g"(#l))} : () -> () '
    found = module('  "cir.y"() : () -> () ' + one.replace("#l", "unknown") * 9000 + "\n")
    assert found["op_counts"]["cir.y"] == 1  # type: ignore[index]
    assert found["op_counts"]["cir.x"] in range(8990, 9001)  # type: ignore[index]


def test_deep_nesting_ends_where_it_should() -> None:
    depth = 30_000
    found = module("  cir.x {\n" * depth + "  }\n" * depth + "  cir.y\n")
    assert found["op_counts"] == {"cir.x": depth, "cir.y": 1}


#: Lines with comments, or text that looks like one, with a brace that must not count as one of the region.
COMMENTED = [
    "cir.x : !t<a> // }",
    "cir.x // see std::vector<int }",
    "cir.x #cir.p</build//x.fatbin>",
    "cir.x #cir.p</build//x.fatbin> // }",
    'cir.x "a // }"',
    "cir.x #cir.p<a\n // {b}\n> // }",
    "cir.x affine_set<(d0) : (d0 >= 5)> // }",
    "// } #cir.p<",
    "cir.x / 2",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("extra", [0, 37])
def test_comments_are_distinguished_from_slashes_in_any_order(
    extra: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexer, "WINDOW", 3 * lexer.MARGIN + extra)
    lines = [*COMMENTED, *reversed(COMMENTED)] * 60
    found = module("".join(f"  {line}\n" for line in lines).replace("\n", end))
    assert found["op_counts"] == {"cir.x": 120 * sum(line.startswith("cir.x") for line in COMMENTED)}


#: Functions in all forms; kernels have a K in their names.
MANNERS = [
    "cir.func @K%d() cc(ptx_kernel) {\n  }",
    'cir.func dso_local @K%d(%%a: i1 {llvm.noundef}) cc(amdgpu_kernel) attributes {a, b = "{"} {\n  } loc(unknown)',
    "cir.func private @d%d(i1) cc(spir_kernel)",
    "cir.func private @d%d(i1 {}) cc(spir_kernel) attributes {}",
    "cir.func @K%d(i1 {}) cc(spir_kernel) attributes {} {}",
    'cir.func @"K%d"() cc(ptx_kernel) {\n  }',
    "cir.func @K%d(\n  ) cc(ptx_kernel) {\n  }",
    'cir.func @K%d() attributes {calling_conv = #cir.cc<ptx_kernel>} {\n  } loc("a(b"(unknown))\n  // and\n',
    'cir.func @f%d() attributes {a = "cc(ptx_kernel"} {\n    "cir.y"() {cc = "cc(ptx_kernel)"} : () -> ()\n  }',
    "cir.func @f%d() // cc(ptx_kernel)\n  {\n  } // cc(ptx_kernel)",
    "cir.global @kernel%d = 1 : i1",
    '"cir.func"() <{sym_name = "K%d"}> ({\n  ^bb0:\n  }) {calling_conv = 1 : ptx_kernel} : () -> ()',
    '"cir.func"() <{sym_name = "d%d"}> ({\n  }) {calling_conv = 1 : ptx_kernel} : () -> ()',
    '"cir.func"() <{sym_name = "f%d"}> ({\n  ^bb0:\n  }) {a} : () -> ()',
]


@pytest.mark.parametrize("first", range(len(MANNERS)))
def test_kernels_are_found_among_others_in_any_manner(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "WINDOW", 3 * lexer.MARGIN)
    ordered = [MANNERS[(first + number * step) % len(MANNERS)] for step in range(1, 11) for number in range(22)]
    body = "".join(f"  {one % number}\n" for number, one in enumerate(ordered))
    found = module(body)
    assert found["kernels"] == [f"K{number}" for number, one in enumerate(ordered) if "K%d" in one]


def test_a_function_in_generic_form_is_a_kernel_by_the_text_of_the_next_window() -> None:
    inside = '    "cir.x"() : () -> ()\n' * (lexer.WINDOW // 16)
    one = f'  "cir.func"() <{{sym_name = "f"}}> ({{\n{inside}  }}) {{calling_conv = 1 : ptx_kernel}} : () -> ()\n'
    assert module('  "cir.y"() : () -> ()\n' + one)["kernels"] == ["f"]
