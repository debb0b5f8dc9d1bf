"""The lexer, the grammar and the writers, compared with mlir-opt 22 for the dialects that it knows.

mlir-opt knows no ClangIR: operations in its own syntax and the rules of containers cannot be tested here.
"""

from __future__ import annotations

import re

import pytest
from tests.builders.cir import HOST, SM_80, Builder, combined, parsed, splits
from tests.reference import run, tool

from fatpack.errors import FormatError
from fatpack.formats import cir
from fatpack.formats.cir.files.identifiers import AliasTable, find_needs
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.strings import escape_string, unescape
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import join_pieces

IDS = (HOST, SM_80, "hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-")


def opt(data: bytes, *options: str, tmp_path: object) -> tuple[int, bytes, bytes]:
    path = tmp_path / "in.mlir"  # type: ignore[operator]
    path.write_bytes(data)
    done = run("mlir-opt", "--allow-unregistered-dialect", *options, path, check=False)
    return done.returncode, done.stdout, done.stderr


def printed(data: bytes, tmp_path: object) -> str:
    """Return MLIR's output for a module in generic form with all locations, without the parts that combining
    changes."""
    code, out, errors = opt(data, "--mlir-print-op-generic", "--mlir-print-debuginfo", tmp_path=tmp_path)
    assert code == 0, errors.decode()
    text = out.decode("latin-1")
    at = text.index('"builtin.module"()')
    named = r'"builtin\.module"\(\) <\{sym_name = "(?:[^"\\]|\\.)*"\}> '
    text = text[:at] + re.sub(rf"\A{named}", '"builtin.module"() ', text[at:])
    text = re.sub(r'cir\.offload\.(kind = #cir\.offload<\w+>|bundle_id = "[^"]*")(, )?', "", text)
    return text.replace(", }", "}").replace(" {} :", " :")


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(15))
def test_random_modules_mean_the_same_after_combining_and_splitting(seed: int, tmp_path: object) -> None:
    files = [Builder(1000 * seed + number).file().encode("latin-1") for number in range(2 + seed % 2)]
    made = combined(*zip(files, IDS, strict=False))
    code, _, errors = opt(made, tmp_path=tmp_path)
    assert code == 0, errors.decode()
    for number, (file, part) in enumerate(zip(files, splits(made), strict=True)):
        renamed = cir.combine_container(parsed(made).replace(attrs={"form": "op"})).report[number].resources
        assert not renamed
        expected, found = printed(file, tmp_path), printed(part, tmp_path)
        assert re.sub(r"blob(\d)_\d", r"blob\1", found) == expected


#: Files, and whether MLIR accepts them. Each tests one rule of its lexer or grammar.
GRAMMAR = {
    "module {\n}": True,
    "builtin.module {\n}": True,
    "module @a.b$c attributes {a.b, c.d = unit} {\n}": True,
    'module @"x }" attributes {"a.b c" = 1 : i32, sym_visibility = "private"} {\n}': True,
    'module attributes {sym_name = "x"} {\n}': True,
    "module attributes {a.b = 1 : i32,} {\n}": False,
    "module attributes {a.b, a.b} {\n}": False,
    "module attributes {a.b = } {\n}": False,
    "module {": False,
    "module {\n}}": False,
    "module {\n} a.cu:1:2": False,
    "module {\n} [unknown]": False,
    "module {\n} loc(unknown)": True,
    "": True,
    "// only a comment": True,
    '"a.b"() : () -> ()\n"c.d"() : () -> ()': True,
    "#a = 1 : i32 #b = [#a] module attributes {x.y = #b} {\n}": True,
    "#a = 1 : i32\n#a = 1 : i32\nmodule {\n}": False,
    "#a.b = 1 : i32\nmodule {\n}": False,
    "module attributes {x.y = #undefined} {\n}": False,
    "#a = [#b]\n#b = 1 : i32\nmodule attributes {x.y = #a} {\n}": False,
    "module {\n} loc(#l)\n#l = loc(unknown)": True,
    "module {\n} loc(#l)": False,
    "module {\n} loc(fused[#l])\n#l = loc(unknown)": False,
    "!1 = i32\n#1 = !1\nmodule attributes {x.y = #1} {\n}": True,
    "!1a = i32\nmodule {\n}": False,
    "#f = (i32) -> i64\n#m = affine_map<(d0) -> (d0)>\nmodule attributes {x.y = #f, x.z = #m} {\n}": True,
    "#s = affine_set<(d0) : (d0 >= 5)>\nmodule attributes {x.y = #s} {\n}": True,
    "#cir = 1 : i32\nmodule attributes {x.y = #cir, x.z = #cir<a>} {\n}": True,
    '#x = #u.v<"}{ \\" >", [1, {k = "->"}], (a -> b)>\nmodule attributes {x.y = #x} {\n}': True,
    "#x = #u.v</build//x.fatbin>\nmodule attributes {x.y = #x} {\n}": True,
    "#x = #u.v<a\n  // b\n>\nmodule attributes {x.y = #x} {\n}": True,
    "#x = #u.v<(a]>\nmodule attributes {x.y = #x} {\n}": False,
    '"a.b"() {x = "a\\22b\\\\\\n\\t\\""} : () -> ()': True,
    '"a.b"() {x = "a\\qb"} : () -> ()': False,
    '"a.b"() {x = "a\nb"} : () -> ()': False,
    '"a.b"() {x = "a\vb"} : () -> ()': False,
    '"a.b"() {x = "a': False,
    '"a.b"() {x = "a\rb\x80"} : () -> ()': True,
    '"a.b"() : () -> () // }\r"c.d"() : () -> ()': True,
    '%0:2 = "a.b"() : () -> (i1, i1)\n"c.d"(%0#1) : (i1) -> ()': True,
    "{-# dialect_resources: {builtin: {}} #-}\nmodule {\n}": True,
    '{-# external_resources: {t: {"a #-}": "#-}"}} #-}\nmodule {\n}': True,
    "{-# dialect_resources: {\nmodule {\n}": False,
    "\xef\xbb\xbfmodule {\n}": False,
    "module {\n  module @a {\n  }\n  module {\n  }\n}": True,
    '"builtin.module"() ({\n^bb0:\n}) {a.b} : () -> ()': True,
    '"builtin.module"() <{sym_name = "x"}> ({\n^bb0:\n}) : () -> ()': True,
    '"builtin.module"() ({\n^bb0:\n}) {a.b : () -> ()': False,
    '"builtin.module"() ({\n^bb0:\n}) {a.b}': False,
}

#: Faults that MLIR refuses and we do not detect, since no other part of a file depends on them.
UNNOTICED = ("!1a = i32\nmodule {\n}", "module {\n} loc(fused[#l])\n#l = loc(unknown)")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("text", GRAMMAR)
def test_files_are_taken_and_refused_as_mlir_does(text: str, tmp_path: object) -> None:
    data = text.encode("latin-1")
    code, _, _ = opt(data, tmp_path=tmp_path)
    assert (code == 0) is GRAMMAR[text]
    try:
        outline = Outliner(BytesSource(data, "x").view()).outline()
        if outline.damage:
            raise outline.damage
        spans = [(module.start, module.end) for module in outline.modules]
        find_needs(AliasTable(outline), sorted([*spans, *outline.others]))
    except FormatError:
        assert not GRAMMAR[text]
    else:
        assert GRAMMAR[text] or text in UNNOTICED


def test_strings_are_escaped_and_read_as_mlir_does(tmp_path: object) -> None:
    data = bytes(range(256)) + b'\\"%s\x00\x7f' * 3
    code, out, errors = opt(b"module attributes {a.b = %s} {\n}" % escape_string(data), tmp_path=tmp_path)
    assert code == 0, errors
    literal = out[out.index(b'"') : out.rindex(b'"') + 1]
    assert literal == escape_string(data)
    assert unescape(literal[1:-1]) == data


def test_two_minimal_modules_give_what_mlir_prints(tmp_path: object) -> None:
    host = 'module @old_host attributes {cir.triple = "x86_64-unknown-linux-gnu"} {\n}\n'
    device = 'module @old_device attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n}\n'
    made = combined((host, HOST), (device, SM_80))
    assert opt(made, tmp_path=tmp_path)[1] == made


@pytest.mark.sweep(3)
@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("seed", range(2))
def test_bytecode_of_any_version_lists_and_splits_as_its_text_does(version: int, seed: int, tmp_path: object) -> None:
    files = [Builder(5000 + 1000 * seed + number).file().encode("latin-1") for number in range(3)]
    made = combined(*zip(files, IDS, strict=False))
    out = tmp_path / "made.mlirbc"  # type: ignore[operator]
    code, _, errors = opt(
        made, "--emit-bytecode", f"--emit-bytecode-version={version}", "-o", str(out), tmp_path=tmp_path
    )
    assert code == 0, errors
    text, bytecode = parsed(made), parsed(out.read_bytes())
    assert bytecode.version == version
    assert not bytecode.findings
    assert [image.target for image in bytecode.images] == [image.target for image in text.images]
    counts = [module["op_counts"] for module in cir.describe(text)["modules"]]  # type: ignore[attr-defined]
    assert [module["op_counts"] for module in cir.describe(bytecode)["modules"]] == counts  # type: ignore[attr-defined]
    assert join_pieces(cir.write(bytecode)) == out.read_bytes()
    for file, part in zip(files, splits(out.read_bytes()), strict=True):
        if version >= 5:  # older versions have no place for the properties of unknown operations
            assert re.sub(r"blob(\d)_\d", r"blob\1", printed(part, tmp_path)) == printed(file, tmp_path)
        else:
            assert opt(part, tmp_path=tmp_path)[0] == 0


REGISTERED = """module attributes {cir.offload.container} {
  module @host attributes {cir.offload.bundle_id = "%s", cir.offload.kind = #cir.offload<host>} {
    func.func @f(%%a: i32, %%b: index) -> i32 {
      %%c = arith.addi %%a, %%a : i32
      %%d = scf.if %%cond -> i32 { scf.yield %%c : i32 } else { scf.yield %%a : i32 }
      func.return %%d : i32
    }
  }
  module @d attributes {cir.offload.bundle_id = "%s", cir.offload.kind = #cir.offload<device>} {
    llvm.func @k(%%p: !llvm.ptr, %%n: i64) {
      llvm.br ^bb1(%%n : i64)
    ^bb1(%%i: i64):
      %%one = llvm.mlir.constant(1 : i64) : i64
      %%next = llvm.sub %%i, %%one : i64
      %%more = llvm.icmp "ne" %%next, %%one : i64
      llvm.cond_br %%more, ^bb1(%%next : i64), ^bb2
    ^bb2:
      llvm.return
    }
    gpu.module @g {
      gpu.func @k() kernel {
        gpu.return
      }
    }
  }
}
"""


@pytest.mark.parametrize("version", range(7))
def test_bytecode_of_registered_dialects_is_split(version: int, tmp_path: object) -> None:
    """Properties, successors, block arguments, use lists: they are kept without being decoded."""
    source = (REGISTERED % (HOST, SM_80)).replace("(%a: i32, %b: index)", "(%a: i32, %b: index, %cond: i1)").encode()
    out = tmp_path / "made.mlirbc"  # type: ignore[operator]
    code, _, errors = opt(
        source, "--emit-bytecode", f"--emit-bytecode-version={version}", "-o", str(out), tmp_path=tmp_path
    )
    assert code == 0, errors
    container = parsed(out.read_bytes(), strict=True)
    host, device = cir.describe(container)["modules"]  # type: ignore[misc, attr-defined]
    assert host["op_counts"] == {"arith.addi": 1, "func.func": 1, "func.return": 1, "scf.if": 1, "scf.yield": 2}
    assert device["op_counts"]["llvm.cond_br"] == 1
    assert device["op_counts"]["gpu.return"] == 1
    for part, text in zip(splits(out.read_bytes()), splits(source), strict=True):
        code, found, errors = opt(part, tmp_path=tmp_path)
        assert code == 0, errors
        assert found == opt(text, tmp_path=tmp_path)[1]


def test_resources_in_bytecode_stay_aligned(tmp_path: object) -> None:
    aligns = (4, 16)  # mlir-opt's memory for files has no larger alignment
    blob = "".join(f"{number:02X}" for number in range(64))
    lines = ",\n".join(f'      b{align}: "0x{align.to_bytes(4, "little").hex()}{blob}"' for align in aligns)
    attrs = ", ".join(f"demo.b{align} = dense_resource<b{align}> : tensor<16xi32>" for align in aligns)
    metadata = f"{{-#\n  dialect_resources: {{\n    builtin: {{\n{lines}\n    }}\n  }}\n#-}}\n"
    host = f"module attributes {{{attrs}}} {{\n}} loc(unknown)\n{metadata}"
    made = combined((host, HOST), ("module {\n}\n", SM_80))
    out = tmp_path / "made.mlirbc"  # type: ignore[operator]
    assert opt(made, "--emit-bytecode", "-o", str(out), tmp_path=tmp_path)[0] == 0
    host_part, device_part = splits(out.read_bytes())
    assert printed(host_part, tmp_path) == printed(splits(made)[0], tmp_path)
    assert b"dense_resource" not in printed(device_part, tmp_path).encode()


def test_mlir_opt_is_the_version_that_the_documents_name() -> None:
    assert b"22." in run("mlir-opt", "--version").stdout, tool("mlir-opt")


MISPLACED = """module attributes {cir.offload.container} {
  module @host attributes {cir.offload.bundle_id = "%s", cir.offload.kind = #cir.offload<host>} {
    "cir.x"() {cir.offload.kind = #cir.offload<host>} : () -> ()
  }
  module @d attributes {cir.offload.bundle_id = "%s", cir.offload.kind = #cir.offload<device>} {
    func.func @f() attributes {cir.offload.container} { return }
    module attributes {cir.offload.kind = #cir.offload<host>} {
    }
  }
}
"""


@pytest.mark.parametrize("version", [0, 4, 6])
def test_attributes_on_what_is_no_module_are_reported_in_text_and_bytecode(version: int, tmp_path: object) -> None:
    text = (MISPLACED % (HOST, SM_80)).encode()
    out = tmp_path / "made.mlirbc"  # type: ignore[operator]
    options = ("--emit-bytecode", f"--emit-bytecode-version={version}", "-o", str(out))
    assert opt(text, *options, tmp_path=tmp_path)[0] == 0
    sentences = [
        f"expects 'cir.offload.{word}' attribute to be attached to 'builtin.module'" for word in ("kind", "container")
    ]
    assert [item.message.partition(": ")[2] for item in parsed(text).findings] == sentences
    bytecode = parsed(out.read_bytes())
    assert [item.message for item in bytecode.findings] == sentences
    places = [image.span for image in bytecode.images]
    assert all(place.start < item.span.start < place.end for place, item in zip(places, bytecode.findings, strict=True))
    with pytest.raises(FormatError, match="to be attached to"):
        parsed(out.read_bytes(), strict=True)
