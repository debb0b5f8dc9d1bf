"""A CUDA library as large as real ones: cubins of ptxas with long tables in them, in compressed fat binaries.

The sizes are those of libcublasLt of CUDA 12 (5,900 entries in 750 MB). The tables' content compresses 4 : 1 with LZ4,
as the cubins of such libraries do.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.bundle_inputs import Padding
from tools.bench.measure import need

from fatpack import formats
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.writer_options import FatbinOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fatpack.literals import CompressMode

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100")

_PTX = """
.version 8.8
.target {arch}
.address_size 64
.global .align 8 .b64 table[{count}] = {{{values}}};
.visible .entry a_kernel_that_looks_up(.param .u64 out) {{
  .reg .b64 %rd<5>;
  mov.u64 %rd1, table;
  ld.param.u64 %rd2, [out];
  ld.global.u64 %rd3, [%rd1+8];
  st.global.u64 [%rd2], %rd3;
  ret;
}}
"""

#: bytes of a slice of machine code in the tables before 16 bytes of their own
_SLICE = 88


def cubins(folder: Path, count: int, size: int) -> list[tuple[Path, str]]:
    """Assemble this number of cubins with a table of ``size`` bytes each; return their paths and architectures."""
    code = b"".join(path.read_bytes() for path in inputs.CUBINS)
    made = []
    for number in range(count):
        arch = ARCHS[number % len(ARCHS)]
        table = Padding(code, number, _SLICE).take(size)
        values = ",".join(str(int.from_bytes(table[at : at + 8], "little")) for at in range(0, size, 8))
        source, cubin = folder / f"table{number}.ptx", folder / f"table{number}.cubin"
        source.write_text(_PTX.format(arch=arch, count=size // 8, values=values))
        subprocess.run([need("ptxas"), f"-arch={arch}", source, "-o", cubin], check=True)
        source.unlink()
        made.append((cubin, arch))
    return made


def library(folder: Path, parts: Sequence[tuple[Path, str]], entries: int, count: int, mode: CompressMode) -> Path:
    """Link a library with ``count`` fat binaries of ``entries`` images each, which are taken from ``parts`` in turn.

    ``mode`` is the mode of compression (``size``, ``speed``). The fat binaries are equal: reading them takes as long
    as if they were not, and building them does not.
    """
    fatbin, source, made = folder / "one.fatbin", folder / "library.s", folder / "library.o"
    taken = [parts[number % len(parts)] for number in range(entries)]
    images = []
    for path, arch in taken:
        view = open_source(path, may_close=True).view()
        target = Target("nvptx64-nvidia-cuda", arch, "cuda")
        images.append(Image(target, "cubin", view, len(view), len(view), view.span()))
    options = FatbinOptions(compress_mode=mode, compress_all=True)
    container = Container("cuda-fatbin", 1, tuple(images), Span(0, 0))
    write_file(fatbin, formats.get_format("cuda-fatbin").write(container, options), force=True)
    source.write_text(
        f'.section .nv_fatbin,"a",@progbits\n.balign 8\n.rept {count}\n.incbin "{fatbin}"\n.balign 8\n.endr\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )
    subprocess.run([need("as"), source, "-o", made], check=True)
    fatbin.unlink()
    subprocess.run([need("ld"), "-shared", made, "-o", folder / "library.so"], check=True)
    made.unlink()
    return folder / "library.so"
