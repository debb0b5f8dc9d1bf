"""Libraries with bundles as ROCm ships them: real code objects with many kernels, padded with bytes like machine code.

The sizes are those of librocsparse 5.3 (111 bundles for 7 processors in 1.3 GB, 113 kernels with long names in each
code object), and of the known library with the most bundles (845). The padding compresses 13 : 1, about as device
code for several processors does, and zstd takes as long to decompress it.
"""

from __future__ import annotations

import random
import subprocess
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.measure import need

from fatpack.edit.write_containers import write_all
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle.layout import CompressedBundle
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import Piece, View

ARCHS = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100")
HOST = "host-x86_64-unknown-linux-gnu-"

#: Every kernel is an instance of one template, and takes its name from long types as those of rocSPARSE do.
_SOURCE = """
#define global __attribute__((global))
template <int N> struct a_type_with_a_name_as_long_as_real_ones_are {{ int value[N]; }};
template <typename First, typename Second, int N>
global void a_kernel_of_a_sparse_matrix_times_a_dense_one(First *in, Second *out, int *table, long size) {{
  for (long at = N; at < size; at += N)
    out->value[at % (N + 1)] += in->value[at % (N + 1)] * table[at * N] + N;
}}
{instances}
"""
_INSTANCE = """
template global void a_kernel_of_a_sparse_matrix_times_a_dense_one<
  a_type_with_a_name_as_long_as_real_ones_are<{n} + 1>, a_type_with_a_name_as_long_as_real_ones_are<{n} + 1>, {n}>(
  a_type_with_a_name_as_long_as_real_ones_are<{n} + 1> *, a_type_with_a_name_as_long_as_real_ones_are<{n} + 1> *,
  int *, long);
"""


def code_objects(folder: Path, kernel_count: int, archs: Sequence[str] = ARCHS) -> dict[str, bytes]:
    """Compile a source with this number of kernels for some processors; return architecture → code object."""
    source, made = folder / "kernels.hip", folder / "kernels.hsaco"
    instances = "".join(_INSTANCE.format(n=number + 2) for number in range(kernel_count))
    source.write_text(_SOURCE.format(instances=instances))
    found = {}
    for arch in archs:
        options = ["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", f"--offload-arch={arch}", "-O1"]
        command = [need("clang"), *options, "-nogpulib", "-nogpuinc", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
        found[arch] = made.read_bytes()
    return found


class Padding:
    """Pseudo-random bytes like machine code: slices of real code, each with 16 bytes of its own.

    The shorter the slices, the less the bytes compress.
    """

    def __init__(self, code: bytes, seed: int = 0, size: int = 240) -> None:
        self._step = size + 16
        self._random = random.Random(seed)
        # No magic of a container: a listing steps over the images, but peer tools search them.
        code = code.replace(b"CCOB", b"ccob").replace(b"__CLANG", b"__clang")
        self._slices = [code[at : at + size] for at in range(0, len(code) - size, size)]

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        count = size // self._step + 1
        own = self._random.randbytes(16 * count).translate(bytes(range(0x40)) * 4)
        picked = self._random.choices(self._slices, k=count)
        return b"".join(part for n in range(count) for part in (picked[n], own[16 * n : 16 * n + 16]))[:size]


def images(folder: Path, objects: Mapping[str, bytes], size: int, seed: int) -> dict[str, View]:
    """Write one code object per processor, padded to ``size``, to a file; return architecture → its bytes."""
    path = folder / f"images{seed}.bin"
    padding = Padding(b"".join(objects.values()), seed)
    places = {}
    with path.open("wb") as file:
        for arch, content in objects.items():
            places[arch] = file.tell()
            file.write(content)
            file.write(padding.take(size - len(content)))
    view = open_source(path).view()
    return {arch: view.slice(at, size) for arch, at in places.items()}


def bundle(parts: Mapping[str, View], *, is_compressed: bool = False) -> Container:
    """Return a bundle of an empty host image and one image per processor, laid out as clang's driver does."""
    files = {HOST: next(iter(parts.values())).slice(0, 0)}
    files |= {f"hipv4-amdgcn-amd-amdhsa--{arch}": view for arch, view in parts.items()}
    made = tuple(
        Image(Target(spelling=spelling), "", view, len(view), len(view), view.span(), attrs={"id": spelling})
        for spelling, view in files.items()
    )
    attrs = {"align": "4096", **({"compression": "zstd"} if is_compressed else {})}
    return Container("clang-offload-bundle", 3 if is_compressed else 0, made, Span(0, 0), attrs=attrs)


def library(path: Path, bundles: Iterator[Container]) -> Path:
    """Link a shared library whose .hip_fatbin holds bundles, each at a page of its own; the images' files go."""
    content = path.with_suffix(".bin")
    write_file(content, _paged(bundles), force=True)
    source, made = path.with_suffix(".s"), path.with_suffix(".o")
    source.write_text(
        f'.section .hip_fatbin,"a",@progbits\n.balign 4096\n.incbin "{content}"\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )
    subprocess.run([need("as"), source, "-o", made], check=True)
    content.unlink()
    subprocess.run([need("ld"), "-shared", made, "-o", path], check=True)
    made.unlink()
    return path


def _paged(bundles: Iterator[Container]) -> Iterator[Piece]:
    # A few at a time: what is compressed is in memory until it is written, and the images are on disk.
    while some := list(islice(bundles, 8)):
        for pieces in write_all(some):
            yield from pieces
            yield bytes(-sum(map(len, pieces)) % 4096)
        for source in {image.data.source for one in some for image in one.images}:
            source.close()
            Path(source.name).unlink()


def stream(path: Path, compressed: Path) -> Path:
    """Write the zstd stream of a compressed bundle to a file of its own, for the zstd tool."""
    with open_source(compressed) as source:
        container = clang_bundle.parse(source.view())
        assert isinstance(container.record, CompressedBundle)
        write_file(path, [container.record.stream], force=True)
    return path
