"""Every packed image is listed: images that are containers, magics, zeros, and halves of them.

A container's numbers locate its images. A reader must not doubt them because of the content of an image, nor take a
part of an image for the next container.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pytest
from tests.builders import cir, fatbin
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack import BundleOptions, FatbinOptions, OffloadBinaryOptions, Options, magic_numbers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # empty images, and images that are something else

IDS = [f"hip-amdgcn-amd-amdhsa--{arch}" for arch in ("gfx906", "gfx90a", "gfx942", "gfx1030")]

OPTIONS: dict[str, Options] = {
    **{f"offload-binary {version}": OffloadBinaryOptions(version=version) for version in (1, 2, 3)},
    "offload-binary zlib": OffloadBinaryOptions(version=3, compression="zlib"),
    **{f"bundle {align}": BundleOptions(align=align) for align in (1, 8, 64, 4096)},
    "bundle zstd": BundleOptions(compression="zstd"),
    "bundle zlib": BundleOptions(compression="zlib", version=2),
    "fatbin": FatbinOptions(),
    "fatbin compressed": FatbinOptions(compress_all=True),
}
#: A quick run takes one of so many contents for each way of packing, other ones for the next.
SHARE = 5
each_way = pytest.mark.parametrize("way", OPTIONS)


def packed(images: list[bytes], options: Options) -> bytes:
    sink = io.BytesIO()
    items = [
        library.ImageFile(data, name="x.o", triple="amdgcn-amd-amdhsa", arch=id.rpartition("-")[2], offload="hip")
        if not isinstance(options, FatbinOptions)
        else library.ImageFile(data, name="x", arch="sm_80", attrs={"kind": "elf"})
        for data, id in zip(images, IDS, strict=False)
    ]
    library.pack(items, sink, options=options)
    return sink.getvalue()


def contents() -> Iterator[bytes]:
    """Yield possible images: containers of every format, their prefixes, and their remainders."""
    inner = [
        packed([b"a" * 10, b"b" * 20], BundleOptions()),
        packed([b"a" * 10], BundleOptions(compression="zlib")),
        packed([b"a" * 10], OffloadBinaryOptions()),
        fatbin.fatbin(fatbin.entry(fatbin.cubin(80))),
    ]
    starts = (
        magic_numbers.BUNDLE,
        magic_numbers.COMPRESSED_BUNDLE,
        magic_numbers.OFFLOAD_BINARY,
        magic_numbers.FATBIN,
        magic_numbers.ELF,
    )
    for start in starts:
        yield from (start, start[: len(start) // 2], start + bytes(8), start + b"\1" + bytes(7), start * 2)
    for data in inner:
        yield from (data, data + data, data + bytes(64), bytes(16) + data)
        yield from (data[: len(data) * part // 8] for part in range(1, 8))
    yield from (b"", b"\0", bytes(64), bytes(5000), b"\n", b"q")


def listed(data: bytes) -> list[bytes]:
    with library.open(data) as file:
        errors = [item for item in file.findings if item.severity == "error"]
        assert not errors, f"what pack writes is not damaged: {errors}"
        return [image.data.tobytes() for found in file.containers for image in found.images]


def images_of(options: Options, *images: bytes) -> list[bytes]:
    """Return images that an option's format takes: a fat binary has cubins, in which the bytes are code."""
    return [fatbin.cubin(80, code=data) if isinstance(options, FatbinOptions) else data for data in images]


@each_way
def test_some_of_what_is_packed_is_listed(way: str) -> None:
    _are_listed(way, list(contents())[list(OPTIONS).index(way) % SHARE :: SHARE])


@each_way
@pytest.mark.slow
def test_what_is_packed_is_listed(way: str) -> None:
    _are_listed(way, contents())


def _are_listed(way: str, contents: Iterable[bytes]) -> None:
    for content in contents:
        for row in ([content], [content, b""], [b"", content, b"", b""], [b"q", content, content]):
            images = images_of(OPTIONS[way], *row)
            data = packed(images, OPTIONS[way])
            assert listed(data) == images
            # So it is after another container, and before one: as objects of a program are linked.
            assert listed(data + data) == images * 2


@each_way
def test_what_is_packed_into_an_object_is_listed(way: str) -> None:
    host = (FIXTURES / "demo" / "host.o").read_bytes()
    for content in [
        magic_numbers.BUNDLE,
        packed([b"a"], BundleOptions())[:-1],
        packed([b"a"], OffloadBinaryOptions())[:-1],
    ]:
        images, sink = images_of(OPTIONS[way], content, b"q", content), io.BytesIO()
        library.embed(host, packed(images, OPTIONS[way]), sink)
        assert listed(sink.getvalue()) == images


@pytest.mark.parametrize("form", ["attribute", "op-string"])
def test_modules_may_hold_anything_in_their_strings(form: str) -> None:
    other = cir.combined(("module {\n}\n", "host-x86_64-unknown-linux-gnu-"), ("module {\n}\n", IDS[0]))
    strings = [
        magic_numbers.BUNDLE,
        magic_numbers.OFFLOAD_BINARY,
        magic_numbers.FATBIN,
        other,
        other[: len(other) // 2],
        b"module {",
    ]
    for content in strings:
        escaped = "".join(f"\\{byte:02X}" for byte in content)
        plain = content.decode("latin-1").replace("\\", "\\\\").replace('"', "\\22").replace("\n", "\\0A")
        for spelling in (escaped, plain if plain.isprintable() else escaped):
            text = f'module {{\n  "cir.use"() {{a = "{spelling}"}} : () -> ()\n}}\n'
            data = cir.combined((text, "host-x86_64-unknown-linux-gnu-"), (text, IDS[0]), form=form)
            modules = listed(data)
            assert len(modules) == 2
            assert all(f'a = "{spelling}"'.encode("latin-1") in module for module in modules)
