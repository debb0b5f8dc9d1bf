"""Removal of images from objects: the facts about them are removed too, and refusals come with advice."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests import reference
from tests.builders import coff as build_coff
from tests.builders import elf as build
from tests.laws.rooms import FIXTURES

from fatpack import binary
from fatpack.commands.slim.remove import remove_images
from fatpack.edit.editor import verify_edited
from fatpack.edit.selection import rewrite, select_for_edit
from fatpack.errors import HostError
from fatpack.formats import clang_bundle
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.selectors.select import Selector
from fatpack.testing.helpers import join_pieces

GEN, CPU = "sycl-spir64_gen-unknown-unknown", "sycl-spir64_x86_64-unknown-unknown"
HOST = "host-x86_64-unknown-linux-gnu"
IMAGE, SIZE = "__CLANG_OFFLOAD_BUNDLE__", "__CLANG_OFFLOAD_BUNDLE_SIZE__"
SYMBOLS = "".join(f"{id}.{name}\0" for id in (GEN, CPU) for name in ("_Z1fv", "_Z1gv")).encode()


def sections(*, order: str = "little") -> dict[str, bytes]:
    """Return the sections of two objects of DPC++ that ``ld -r`` has merged, with all that is noted about them."""
    mark = "<" if order == "little" else ">"
    images = {GEN: [b"gen", b"second"], CPU: [b"cpu", b"other"], HOST: [b"\0", b"\0"]}
    found: dict[str, bytes] = {}
    for id, parts in images.items():
        found[IMAGE + id] = b"".join(parts)
        found[SIZE + id] = struct.pack(f"{mark}2Q", *map(len, parts))
    return found | {".tgtsym": SYMBOLS}


def elf_object(*, order: str = "little") -> View:
    elf = build.Elf(order=order, machine=62 if order == "little" else 22)
    for name, content in sections(order=order).items():
        elf.add(name, content)
    return BytesSource(elf.build(), "x.o").view()


def coff_object() -> View:
    flags = {".tgtsym": 0x00100040}
    parts = [
        build_coff.Section(name.encode(), content, flags=flags.get(name, build_coff.OFFLOADING))
        for name, content in sections().items()
    ]
    return BytesSource(build_coff.build(parts), "x.obj").view()


def without(whole: View, selector: Selector) -> tuple[dict[str, bytes], FoundContainer | None]:
    """Return the sections of device code that are left, by name, and the fat object, if it still is one."""
    after = BytesSource(join_pieces(remove_images(whole, selector).pieces), "after").view()
    verify_edited(whole, after)
    sites = [site for site in binary.get_host(detect_host(after)).locate(after) if not isinstance(site, Finding)]
    found = [item for item in scan(after) if isinstance(item, FoundContainer)]
    left = {site.section or "": site.data.tobytes() for site in sites if len(site.data)}
    return left, found[0] if found else None


@pytest.mark.parametrize("whole", [elf_object(), elf_object(order="big"), coff_object()])
def test_sizes_and_symbols_go_with_their_target(whole: View) -> None:
    left, found = without(whole, Selector(triple="spir64_gen-*"))
    assert sorted(left) == sorted([IMAGE + CPU, SIZE + CPU, IMAGE + HOST, SIZE + HOST, ".tgtsym"])
    assert left[".tgtsym"] == f"{CPU}._Z1fv\0{CPU}._Z1gv\0".encode()
    assert found is not None
    assert clang_bundle.describe(found.container)["symbols"] == {CPU: ["_Z1fv", "_Z1gv"]}
    assert [image.attrs["id"] for image in found.images] == [CPU, CPU, HOST]


@pytest.mark.parametrize("whole", [elf_object(), elf_object(order="big"), coff_object()])
def test_one_of_several_merged_images_takes_its_size_with_it(whole: View) -> None:
    left, found = without(whole, Selector(index=0))
    assert left[IMAGE + GEN] == b"second"
    assert len(left[SIZE + GEN]) == 8
    assert left[".tgtsym"] == SYMBOLS
    assert found is not None
    assert [image.data.tobytes() for image in found.images] == [b"second", b"cpu", b"other", bytes(2)]


def test_nothing_is_left_when_all_images_go() -> None:
    assert without(elf_object(), Selector()) == ({}, None)
    assert without(coff_object(), Selector()) == ({".tgtsym": b"\0"}, None)


def test_sizes_that_do_not_fit_stay_as_long_as_their_image() -> None:
    elf = build.Elf()
    elf.add(IMAGE + GEN, b"image")
    elf.add(SIZE + GEN, struct.pack("<3Q", 1, 2, 3))
    elf.add(IMAGE + HOST, b"\0")
    whole = BytesSource(elf.build(), "x.o").view()
    assert sorted(without(whole, Selector(offload="host"))[0]) == [SIZE + GEN, IMAGE + GEN]
    assert sorted(without(whole, Selector(offload="sycl"))[0]) == [IMAGE + HOST]


def test_containers_that_ld_merged_are_refused_with_advice(tmp_path: Path) -> None:
    fixture = FIXTURES / "elf" / "clang-22-hip.o"
    path = tmp_path / "merged.o"
    reference.run("ld", "-r", "-z", "muldefs", fixture, fixture, "-o", path)
    with pytest.raises(HostError, match=r"code refers to each of the 2 containers there: .* before ld -r merges them"):
        remove_images(BytesSource(path.read_bytes(), "merged.o").view(), Selector(arch="gfx90a"))


def test_a_container_that_code_refers_to_can_lose_all_except_its_host() -> None:
    whole = BytesSource((FIXTURES / "elf" / "clang-22-hip.o").read_bytes(), "h.o").view()
    with pytest.raises(HostError, match=r"Selector\(offload='hip'\) leaves the container and its host entry"):
        remove_images(whole, Selector())
    _, found = without(whole, Selector(offload="hip"))
    assert found is not None
    assert [image.target.offload for image in found.images] == ["host"]


def test_a_fat_binary_that_code_refers_to_must_keep_an_image() -> None:
    fatbin = (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes()
    elf = build.Elf()
    elf.add(".nv_fatbin", fatbin, flags=build.ALLOC, align=8)
    whole = BytesSource(elf.build(), "c.o").view()
    advice = (
        r"leave an image in it: select fewer, with Selector\(arch.*, or leave an empty container with allow_empty=True"
    )
    with pytest.raises(HostError, match=advice):
        remove_images(whole, Selector(arch="sm_80"))
    after = BytesSource(join_pieces(remove_images(whole, Selector(), allow_empty=True).pieces), "c.o").view()
    verify_edited(whole, after)
    (left,) = (item for item in scan(after) if isinstance(item, FoundContainer))
    assert (left.section, left.container.images) == (".nv_fatbin", ())
    assert without(whole, Selector(form="ptx"))[1] is not None


def written_anew(host: View, selector: Selector) -> None:
    """Write a host without the selected images as an object is written, whatever it is."""
    meant = select_for_edit(host, selector, "remove")
    rewrite(meant, {id(image): () for _, _, image in meant.images})


@pytest.mark.parametrize("selector", [Selector(), Selector(arch="sm_80"), Selector(form="ptx")])
def test_no_selection_makes_a_pe_image_editable_and_none_is_advised(selector: Selector) -> None:
    path = FIXTURES / "cuda_fatbin" / "hosts" / "clang_win.dll"
    whole = BytesSource(path.read_bytes(), "w.dll").view()
    with pytest.raises(HostError, match=r"PE images are not edited: .*; edit the objects \(.obj\) or libraries"):
        written_anew(whole, selector)


def test_a_linked_program_keeps_its_own_advice() -> None:
    elf = build.Elf(type=build.SHARED)
    elf.add(".nv_fatbin", (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes(), flags=build.ALLOC, addr=0x1000)
    with pytest.raises(HostError, match="edit the object and link again"):
        written_anew(BytesSource(elf.build(), "c.so").view(), Selector())


def test_what_only_a_record_leads_to_is_not_taken_out_and_says_so() -> None:
    fatbin = (FIXTURES / "cuda_fatbin" / "v130_ptx32.fatbin").read_bytes()
    elf = build.Elf()
    constants = elf.add(".rodata", bytes(8) + fatbin, flags=build.ALLOC, align=8)
    segment = elf.add(".nvFatBinSegment", struct.pack("<IIQQ", 0x466243B1, 1, 0, 0), flags=build.ALLOC | build.WRITE)
    elf.relocations(segment, (8, elf.symbol("", constants, info=build.SECTION_SYMBOL), 1, 8))
    view = BytesSource(elf.build(), "x.o").view()
    (found,) = scan(view)
    assert isinstance(found, FoundContainer)
    with pytest.raises(HostError, match=r"the cuda-fatbin at 0x48 in \.rodata is in the object's own data"):
        remove_images(view, Selector())
