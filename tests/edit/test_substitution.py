"""One image exchanged: what its container stores of it stays, all other images do, and the result is checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.binary import archive
from fatpack.edit.replace_images import ImageSubstitution, image_as_file, replace_image
from fatpack.edit.selection import all_items, scan_tree
from fatpack.errors import FatpackError, FormatError, HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, FoundImage
from fatpack.selectors.address import Location
from fatpack.selectors.no_match import NothingSelected
from fatpack.selectors.select import Selector, with_positions
from fatpack.testing.helpers import join_pieces

CUBIN = (FIXTURES / "cuda" / "cubin" / "tiny.cuda11.8.sm_80.cubin").read_bytes()

#: Files whose containers are written, of every format and in every host that is edited.
HOSTS = [
    "cuda_fatbin/v130_size.fatbin",
    "cuda_fatbin/recorded/v130_none.fatbin",
    "cuda_fatbin/v135_concat_tiny.fatbin",
    "cuda_fatbin/hosts/single.o",
    "clang_bundle/llvm-22-hip.bundle",
    "clang_bundle/llvm-22-v3-zstd.bundle",
    "clang_bundle/fatpack-v1-zlib.bundle",
    "clang_bundle/llvm-22-text-zstd.bundle",
    "clang_bundle/text/llvm-22.s",
    "offload_binary/llvm-22-four.bin",
    "offload_binary/fatpack-v2.bin",
    "offload_binary/fatpack-v3-zlib.bin",
    "kpack/needs.plain.kpack",
    "kpack/needs.zstd.kpack",
    "elf/clang-22-hip.o",
    "elf/clang-22-openmp-gfx90a.o",
    "elf/clang-22-hip-rdc-bundler.o",
    "coff/clang-22-x86_64.obj",
    "cir/samples/container_attr_2026.cir",
]


def view(data: bytes, name: str = "input") -> View:
    return BytesSource(data, name).view()


def fixture(path: str) -> View:
    return view((FIXTURES / path).read_bytes(), Path(path).name)


def library(*names: str) -> View:
    members = [(f"m{number}.o".encode(), fixture(name)) for number, name in enumerate(names)]
    return view(join_pieces(archive.build_archive(members)), "libx.a")


def images(whole: View) -> list[tuple[str, FoundContainer, FoundImage]]:
    return [row for row in with_positions(all_items(scan_tree(whole))) if "/" not in row[0]]


def digests(whole: View) -> list[tuple[str, str, dict[str, str], str]]:
    """Return target, form, keys and digest of every image."""
    return [
        (
            image.target.canonical,
            image.as_stored.form,
            dict(image.attrs),
            digest(image_as_file(found, image).tobytes(), found.format),
        )
        for _, found, image in images(whole)
    ]


def digest(data: bytes, format: str) -> str:
    """Return the digest of an image; in a fat binary without the zeros after it, which fill its entry."""
    return hashlib.sha256(data.rstrip(b"\0") if format == "cuda-fatbin" else data).hexdigest()


def place_of(position: str) -> Selector:
    container, index = position.split(".")
    return Selector(container=int(container), index=int(index))


def is_host(image: FoundImage) -> bool:
    return image.target.offload == "host"


def edited(
    whole: View, content: bytes, selector: Selector, *, accept_mismatch: bool = False
) -> tuple[View, ImageSubstitution]:
    plan = replace_image(whole, view(content, "new"), selector, accept_mismatch=accept_mismatch)
    after = view(join_pieces(plan.pieces), "after")
    plan.check_in(Location(whole, ""))(whole, after)
    return after, plan


def everywhere() -> Iterator[View]:
    yield from map(fixture, HOSTS)
    yield library("elf/clang-22-hip.o", "demo/host.o", "cuda_fatbin/hosts/single.o", "cuda_fatbin/v130_size.fatbin")


@pytest.mark.parametrize("whole", list(everywhere()), ids=lambda whole: whole.chain[0])
def test_an_image_that_is_replaced_by_itself_leaves_every_byte(whole: View) -> None:
    before = whole.tobytes()
    for position, found, image in images(whole):
        if found.container.is_fat_object and is_host(image):
            continue
        after, plan = edited(whole, image_as_file(found, image).tobytes(), place_of(position), accept_mismatch=True)
        assert after.tobytes() == before
        assert plan.changed[0].endswith("→ the same")


# The modules of a CIR container are written again: a test below replaces one.
@pytest.mark.parametrize(
    "whole", [whole for whole in everywhere() if ".cir" not in whole.chain[0]], ids=lambda whole: whole.chain[0]
)
def test_other_bytes_change_no_other_image_and_the_old_ones_bring_the_file_back(whole: View) -> None:
    before = digests(whole)
    for number, (position, found, image) in enumerate(images(whole)):
        old = image_as_file(found, image).tobytes()
        if is_host(image) or not old:
            continue
        new = _other(old, image)
        after, _ = edited(whole, new, place_of(position), accept_mismatch=True)
        now = digests(after)
        assert now[:number] + now[number + 1 :] == before[:number] + before[number + 1 :]
        assert now[number][:3] == before[number][:3]
        assert now[number][3] == digest(new, found.format) != before[number][3]
        (_, stored, new_image) = images(after)[number]
        assert new_image.compression == image.compression
        assert stored.container.attrs == found.container.attrs
        again, _ = edited(after, old, place_of(position), accept_mismatch=True)
        assert digests(again) == before


def _other(old: bytes, image: FoundImage) -> bytes:
    """Return other bytes for an image, of another size where its container takes any: a cubin has one of its own."""
    if image.form == "ptx":
        return old.rstrip(b"\0") + b"// more\n"
    if image.form == "cubin":
        return old[:15] + b"\1" + old[16:]  # EI_PAD, which nobody reads
    return old + bytes(8) + b"\1" * 8


def test_what_an_image_does_not_say_of_its_target_is_refused_with_both_targets() -> None:
    whole = fixture("cuda_fatbin/hosts/single.o")
    with pytest.raises(UsageError, match=r"0\.\d cuda .*sm_90 cubin: the new image does not fit: stored for sm_90"):
        replace_image(whole, view(CUBIN, "x.cubin"), Selector(arch="sm_90", form="cubin"))


def test_several_matches_are_listed_and_one_is_asked_for() -> None:
    whole = library("elf/clang-22-hip.o", "elf/clang-22-hip.o")
    new = image_as_file(*images(whole)[2][1:])
    with pytest.raises(UsageError, match=r"2 images match.*m0\.o: 0\.2 hip.*m1\.o: 1\.2 hip.*every=True"):
        replace_image(whole, new, Selector(arch="gfx90a"))
    assert len(replace_image(whole, new, Selector(arch="gfx90a"), every=True).changed) == 2


def test_nothing_that_matches_says_what_is_there() -> None:
    with pytest.raises(NothingSelected, match="no image to replace that matches --arch=gfx1; architectures present"):
        replace_image(fixture("elf/clang-22-hip.o"), view(CUBIN), Selector(arch="gfx1"))


def test_the_hosts_image_of_a_fat_object_is_the_object() -> None:
    with pytest.raises(HostError, match=r"is the object itself; extract the device images"):
        replace_image(fixture("elf/clang-22-hip-rdc-bundler.o"), view(CUBIN), Selector(offload="host"))


@pytest.mark.parametrize("cut", [70, 1000])
def test_an_image_that_is_cut_short_is_refused(cut: int) -> None:
    whole = fixture("elf/clang-22-hip.o")
    data = image_as_file(*images(whole)[2][1:]).tobytes()
    with pytest.raises(FatpackError, match=r"cut short|gfx90a code-object") as caught:
        replace_image(whole, view(data[:cut], "x.hsaco"), Selector(arch="gfx90a"))
    assert "accept_damage=True" in caught.value.hint


def test_another_form_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the image there is code-object, the new one is bytes of an unknown form"):
        replace_image(fixture("elf/clang-22-hip.o"), view(b"text", "x"), Selector(arch="gfx90a"))


def test_damage_in_the_file_refuses_the_edit() -> None:
    data = bytearray((FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes())
    with pytest.raises(FormatError, match="nothing was replaced"):
        replace_image(view(bytes(data[:-100]), "x.fatbin"), view(CUBIN), Selector(arch="sm_80", form="cubin"))


def test_a_module_of_a_cir_container_is_replaced_and_the_others_stay() -> None:
    whole = fixture("cir/samples/container_attr_2026.cir")
    rows = images(whole)
    position, found, image = next(row for row in rows if not is_host(row[2]))
    new = image_as_file(found, image).tobytes().replace(b"module", b"module ", 1)
    after, _ = edited(whole, new, place_of(position))
    now = images(after)
    assert [row[2].target for row in now] == [row[2].target for row in rows]
    assert [row[2].kernel_names for row in now] == [row[2].kernel_names for row in rows]


def test_a_result_that_lost_the_member_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = library("elf/clang-22-hip.o", "elf/clang-22-openmp-gfx90a.o")
    inner = next(site for site in archive.locate(whole) if not isinstance(site, Finding))
    plan = replace_image(inner.data, image_as_file(*images(inner.data)[0][1:]), Selector(index=0))
    monkeypatch.setattr("fatpack.edit.replace_images.verify_edited", lambda *_, **__: None)
    place = Location(whole, "", archives=((whole, 7),))
    with pytest.raises(HostError, match="it has no member 7"):
        plan.check_in(place)(whole, whole)
