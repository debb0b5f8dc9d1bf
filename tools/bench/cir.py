"""Inspecting CIR files in several shapes, against one pass of Python's ``re`` over the same bytes.

The expression of that pass finds what any reader of MLIR has to see: strings, comments, file metadata, braces. Files
have 100 MB in the shape that ClangIR prints, and half of that in the others, each of which is one thing repeated.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import MB, Figure, command, fatpack, measure, milliseconds

from fatpack import ImageFile, pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 2
SIZE, LESS = 100 * MB, 50 * MB
MOST = 3.0

#: aliases that the bodies use, each of which has to be defined
_ALIASES = "!s8i = !cir.int<s, 8>\n!u8i = !cir.int<u, 8>\n!s32i = !cir.int<s, 32>\n!t = !cir.array<!s8i x 4>\n"
_LOCATIONS = "".join(f'#loc{number} = loc("a.cu":{number}:1)\n' for number in range(30))

_HEAD = (
    "module attributes {cir.offload.container} {\n"
    '  module @host attributes {cir.offload.bundle_id = "host-x86_64-unknown-linux-gnu", '
    "cir.offload.kind = #cir.offload<host>} {\n  }\n"
    '  module @device attributes {cir.offload.bundle_id = "cuda-nvptx64-nvidia-cuda--sm_80", '
    "cir.offload.kind = #cir.offload<device>%s} {\n"
)
_TAIL = "  }\n}\n"

_PRINTED = """    cir.func dso_local @_Z5saxpyi(%arg0: !s32i {llvm.noundef} loc(fused[#loc3, #loc4])) {
      %0 = cir.alloca !s32i, !cir.ptr<!s32i>, ["n", init] {alignment = 4 : i64} loc(#loc27)
      cir.store %arg0, %0 : !s32i, !cir.ptr<!s32i> loc(#loc8)
      %4 = cir.const #cir.int<0> : !s32i loc(#loc9)
      %5 = cir.load align(4) %0 : !cir.ptr<!s32i>, !s32i loc(#loc10)
      %6 = cir.cmp(lt, %4, %5) : !s32i, !cir.bool loc(#loc10)
      cir.if %6 {
        %7 = cir.binop(add, %4, %5) nsw : !s32i loc(#loc11)
        cir.store %7, %0 : !s32i, !cir.ptr<!s32i> loc(#loc11)
      } loc(#loc12)
      cir.br ^bb1 loc(#loc13)
    ^bb1:  // pred: ^bb0
      cir.return loc(#loc14)
    } loc(#loc15)
"""
_GENERIC = """    "cir.func"() <{function_type = () -> (), sym_name = "k"}> ({
      %0 = "cir.const"() <{value = #cir.int<0> : !s32i}> : () -> !s32i
      %1:2 = "cir.pair"(%0) : (!s32i) -> (!s32i, !s32i)
      "cir.store"(%1#1, %0) <{alignment = 4 : i64}> : (!s32i, !s32i) -> ()
      "cir.return"() : () -> ()
    }) {linkage = 0 : i32} : () -> ()
"""

PRINTED = "functions as ClangIR prints them"
BINARY = "a GPU binary as a string"

#: shape → what is repeated in the device module
BODIES = {
    PRINTED: _PRINTED,
    "the generic form": _GENERIC,
    "one word a line": "    cir.return\n",
    "empty functions": "    cir.func @f() {\n    }\n",
    "kernels": "    cir.func @f() cc(ptx_kernel) {\n    }\n",
    "globals with strings": '    cir.global @s = #cir.const_array<"\\0A%d\\00" : !cir.array<!s8i x 4>> : !t\n',
    "braces in attributes": "    cir.x {a = {b = {c = 1}}} {d}\n",
    "lines of comment": "    // a comment } of one line\n",
    "a comment behind every line": "    cir.use %a : !x<a> // a comment }\n",
}
#: shape → what is repeated before the container
DEFINITIONS = {
    "locations": '#loc%d = loc("/usr/include/c++/13/bits/stl_vector.h":1234:56)\n',
    "records": '!rec_%d = !cir.struct<"S%d" {!s32i, !cir.ptr<!s8i>, !cir.array<!u8i x 4>}>\n',
}

# The repeat is possessive: without that, a string of 50 MB takes gigabytes, and ten times as long.
_PASS = r"""
import re, sys
data = open(sys.argv[1], "rb").read()
for found in re.finditer(rb'"(?:[^"\\\n]|\\.)*+"|//[^\r\n]*|\{-#|#-\}|[{}]', data):
    pass
"""


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    for name in (*BODIES, *DEFINITIONS, BINARY):
        path, size = scratch / "made.cir", SIZE if name == PRINTED else LESS
        make(path, name, size)
        samples = measure(
            {"re": command(sys.executable, "-c", _PASS, path), "ours": fatpack("inspect", path, codes=(0, 1))}, ROUNDS
        )
        ours, once = samples["ours"], samples["re"]
        facts = f"{milliseconds(ours)}, re {milliseconds(once)}"
        what, ratio = f"inspect {size // MB} MB: {name}", ours.processor / once.processor
        yield Figure(what, ratio, "x one pass of re", MOST, facts, peer="one pass of re")
        yield Figure(f"{what}: peak", ours.peak / path.stat().st_size, "x the file", 2)
        path.unlink()


def make(path: Path, name: str, size: int) -> None:
    """Write a container of that shape and at least that size."""
    with path.open("w") as file:
        if name in DEFINITIONS:
            line = DEFINITIONS[name]
            for number in range(size // len(line)):
                file.write(line.replace("%d", str(number)))
            file.write(_HEAD % "" + _TAIL)
        elif name in BODIES:
            file.write(_ALIASES + _LOCATIONS + _HEAD % "")
            body = BODIES[name]
            block = body * max(1, MB // len(body))
            for _ in range(-(-size // len(block))):
                file.write(block)
            file.write(_TAIL)
        else:
            data = _fatbin(path.parent, size // 3)
            file.write(_HEAD.partition("%s")[0] + ', cir.cu.device_binary = "')
            for at in range(0, len(data), MB):
                file.write("\\" + data[at : at + MB].hex("\\").upper())
            file.write(f'" : !cir.array<!u8i x {len(data)}>}} {{\n{_TAIL}')


def _fatbin(folder: Path, size: int) -> bytes:
    """Return a fat binary with one cubin of that size."""
    ((image, arch),) = inputs.images(folder, 1, size)
    made = folder / "made.fatbin"
    file = ImageFile(image, triple="nvptx64-nvidia-cuda", arch=arch, offload="cuda")
    pack([file], made, format="fatbin", overwrite=True)
    data = made.read_bytes()
    image.unlink()
    made.unlink()
    return data
