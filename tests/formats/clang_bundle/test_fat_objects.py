"""Fat objects of DPC++: sizes and symbols recorded beside images, and several models in one file."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.builders import archive as build_archive
from tests.builders import coff as build_coff
from tests.builders import elf as build
from tests.builders.sycl import spirv

from fatpack import limits
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle import fat_object
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

DEVICE, HOST = "sycl-spir64-unknown-unknown-sycldevice", "host-x86_64-unknown-linux-gnu"
IMAGE, SIZE = "__CLANG_OFFLOAD_BUNDLE__", "__CLANG_OFFLOAD_BUNDLE_SIZE__"


def read(data: bytes) -> tuple[list[FoundContainer], list[Finding]]:
    items = list(scan(BytesSource(data, "x.o").view()))
    return [item for item in items if isinstance(item, FoundContainer)], [
        item for item in items if isinstance(item, Finding)
    ]


def merged(contents: Sequence[bytes], sizes: Sequence[int] | bytes, *, order: str = "little", flags: int = 0) -> bytes:
    """Return the partial link of fat objects of 2019 with these images."""
    elf = build.Elf(order=order, machine=62 if order == "little" else 22)
    mark = "<" if order == "little" else ">"
    stored = sizes if isinstance(sizes, bytes) else struct.pack(f"{mark}{len(sizes)}Q", *sizes)
    elf.add(IMAGE + DEVICE, b"".join(contents), flags=flags)
    elf.add(SIZE + DEVICE, stored, flags=flags)
    elf.add(IMAGE + HOST, bytes(len(contents)), flags=flags)
    elf.add(SIZE + HOST, struct.pack(f"{mark}{len(contents)}Q", *[1] * len(contents)), flags=flags)
    return elf.build()


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("flags", [0, build.ALLOC, build.ALLOC | build.WRITE])
def test_recorded_sizes_take_merged_images_apart(order: str, flags: int) -> None:
    contents = [b"11\n", b"222\n", b"3333\n"]
    found, findings = read(merged(contents, [3, 4, 5], order=order, flags=flags))
    assert findings == []
    (container,) = found
    assert [image.data.tobytes() for image in container.images] == [*contents, bytes(3)]
    assert [image.target.triple for image in container.images[:3]] == ["spir64-unknown-unknown-sycldevice"] * 3
    assert fat_object.is_host_marker(container.images[3].as_stored)


@pytest.mark.parametrize("sizes", [[3, 4, 4], [3, 4, 6], [12, 1 << 63, 1 << 63], b"\3\0\0\0", [(1 << 64) - 1, 13]])
def test_sizes_that_do_not_add_up_leave_one_image(sizes: Sequence[int] | bytes) -> None:
    found, findings = read(merged([b"11\n", b"222\n", b"3333\n"], sizes))
    assert [item.code for item in findings] == ["FP1316"]
    assert [len(image.data) for image in found[0].images] == [12, 3]


def test_the_images_of_an_object_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a section for which there is no room left are one image, as if they could not be told apart."""
    image = build.Elf().build()
    elf = build.Elf()
    for id, size in ((DEVICE, 3), ("hip-amdgcn-amd-amdhsa--gfx90a", 2)):
        elf.add(IMAGE + id, image * size, flags=build.EXCLUDE)
    elf.add(IMAGE + HOST, bytes(3), flags=build.EXCLUDE)
    data = elf.build()
    whole = len(image)
    for most, sizes in ((6, [whole] * 5 + [3]), (4, [whole] * 3 + [2 * whole] + [3])):
        monkeypatch.setattr(limits, "IMAGES", most)
        found, findings = read(data)
        assert [len(image.data) for image in found[0].images] == sizes
        assert [item.code for item in findings] == ([] if most == 6 else ["FP1314"])
        assert all("more than 4; listed" in item.text for item in findings)


def test_an_object_of_that_time_that_was_not_merged_is_one_of_them() -> None:
    found, findings = read(merged([b"image"], [5]))
    assert findings == []
    assert [len(image.data) for image in found[0].images] == [5, 1]


def with_symbols(symbols: bytes) -> bytes:
    elf = build.Elf()
    elf.add(IMAGE + DEVICE, spirv(), flags=build.EXCLUDE)
    elf.add(IMAGE + HOST, b"\0", flags=build.EXCLUDE)
    elf.add(".tgtsym", symbols)
    return elf.build()


def test_symbols_of_a_fat_object_are_facts_of_its_container() -> None:
    found, _ = read(with_symbols(f"{DEVICE}._Z1fv\0{DEVICE}.a.b\0".encode()))
    assert clang_bundle.describe(found[0].container)["symbols"] == {DEVICE: ["_Z1fv", "a.b"]}
    found, _ = read(with_symbols(b""))
    assert "symbols" not in clang_bundle.describe(found[0].container)


def test_coff_objects_have_symbols_and_sizes_too() -> None:
    names = [IMAGE + DEVICE, SIZE + DEVICE, IMAGE + HOST, ".tgtsym"]
    contents = [b"onetwoo", struct.pack("<QQ", 3, 4), bytes(2), f"{DEVICE}.f\0".encode()]
    sections = [build_coff.Section(name.encode(), data) for name, data in zip(names, contents, strict=True)]
    found, findings = read(build_coff.build(sections))
    assert findings == []
    assert [image.data.tobytes() for image in found[0].images] == [b"one", b"twoo", bytes(2)]
    assert clang_bundle.describe(found[0].container)["symbols"] == {DEVICE: ["f"]}


@pytest.mark.parametrize(
    "id", ["sycl-fpga_aoco-intel-unknown-sycldevice", "fpga-fpga_dep", "sycl-fpga_aocx-intel-unknown"]
)
def test_targets_of_fpgas_are_listed(id: str) -> None:
    elf = build.Elf()
    elf.add(IMAGE + id, b"package", flags=build.EXCLUDE)
    elf.add(IMAGE + HOST, b"\0", flags=build.EXCLUDE)
    (container,), findings = read(elf.build())
    assert findings == []
    assert container.images[0].target.offload == "sycl"
    assert container.images[0].target.triple.startswith("fpga_")


def package(*names: str) -> bytes:
    """Return a package for FPGAs with these pieces of content."""
    elf = build.Elf(machine=0)
    for name in names:
        elf.add(name, b"content")
    return elf.build()


@pytest.mark.parametrize(
    ("target", "names", "form"),
    [
        ("fpga_aocx", (".acl.version", ".acl.board", ".acl.fpga.bin"), "aocx"),
        ("fpga_aocr", (".acl.version", ".acl.board"), "aocr"),
        ("fpga_aoco", (".acl.version",), "aocr"),
        ("fpga_aocx", (".text",), "object"),
    ],
)
def test_packages_for_fpgas_are_recognised_in_objects_and_archives(
    target: str, names: tuple[str, ...], form: str
) -> None:
    elf = build.Elf()
    elf.add(f"{IMAGE}sycl-{target}-intel-unknown", package(*names), flags=build.EXCLUDE)
    elf.add(IMAGE + HOST, b"\0", flags=build.EXCLUDE)
    for data in (elf.build(), b"!<arch>\n" + build_archive.member(b"a.o/", elf.build())):
        (container,), findings = read(data)
        assert findings == []
        assert container.images[0].form == form
        assert container.images[0].target.triple == f"{target}-intel-unknown"


def test_a_damaged_package_is_an_object() -> None:
    from fatpack.images import identify_image

    data = build.with_section(package(".acl.fpga.bin"), 1, name=1 << 30)
    assert identify_image(BytesSource(data).view()).form == "object"


def new_object() -> bytes:
    from fatpack.formats import offload_binary
    from fatpack.io.source import Span
    from fatpack.model import Container, Image, Target

    data = BytesSource(b"image").view()
    image = Image(Target("nvptx64-nvidia-cuda", "sm_80", "cuda"), "object", data, 5, 5, Span(0, 5))
    pieces = offload_binary.write(Container("llvm-offload-binary", 1, (image,), Span(0, 0)))
    elf = build.Elf()
    content = b"".join(piece if isinstance(piece, bytes) else piece.tobytes() for piece in pieces)  # type: ignore[union-attr]
    elf.add(".llvm.offloading", content, type=build.OFFLOADING, flags=build.EXCLUDE, align=8)
    return elf.build()


def test_an_archive_of_both_models_is_read_whole_and_reported_once() -> None:
    names = [b"old.o/", b"new.o/", b"more.o/"]
    contents = [with_symbols(b""), new_object(), with_symbols(b"")]
    data = b"!<arch>\n" + b"".join(build_archive.member(*pair) for pair in zip(names, contents, strict=True))
    found, findings = read(data)
    assert [item.container.attrs.get("flavour") for item in found] == ["object", None, "object"]
    (mixed,) = [item for item in findings if item.code == "FP3021"]
    assert mixed.severity == "warning"
    assert "clang-offload-bundler (old.o, more.o)" in mixed.message
    assert ".llvm.offloading (new.o)" in mixed.message


def test_one_model_in_many_members_is_nothing_to_tell() -> None:
    for content in (with_symbols(b""), new_object()):
        data = b"!<arch>\n" + build_archive.member(b"a.o/", content) + build_archive.member(b"b.o/", content)
        assert [item.code for item in read(data)[1] if item.code == "FP3021"] == []
