"""Removal of images from containers that are files of their own, and the check of the result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.binary import archive
from fatpack.commands.slim.remove import ImageRemoval, remove_images
from fatpack.edit.editor import verify_edited
from fatpack.errors import HostError, Unsupported, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.select import Selector
from fatpack.testing.helpers import join_pieces

HIP = (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes()
FOUR = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
CIR = FIXTURES / "cir" / "samples" / "container_attr_2026.cir"


def view(data: bytes, name: str = "input") -> View:
    return BytesSource(data, name).view()


def containers(whole: View) -> Iterator[FoundContainer]:
    yield from (item for item in scan(whole) if isinstance(item, FoundContainer))


def contents(whole: View) -> list[tuple[str, bytes]]:
    return [
        (image.target.arch, image.data.tobytes()) for found in containers(whole) for image in found.container.images
    ]


def edited(whole: View, selector: Selector, *, allow_empty: bool = False) -> tuple[View, ImageRemoval]:
    removal = remove_images(whole, selector, allow_empty=allow_empty)
    after = view(join_pieces(removal.pieces))
    verify_edited(whole, after)
    return after, removal


@pytest.mark.parametrize(
    "path",
    [
        "clang_bundle/llvm-22-hip.bundle",
        "clang_bundle/llvm-22-v3-zstd.bundle",
        "clang_bundle/fatpack-v1-zlib.bundle",
        "clang_bundle/llvm-22-text-zstd.bundle",
        "clang_bundle/text/llvm-22.s",
        "offload_binary/llvm-22-four.bin",
        "offload_binary/fatpack-v2.bin",
        "offload_binary/fatpack-v3-zlib.bin",
        "cuda_fatbin/v130_size.fatbin",
        "cuda_fatbin/v135_concat_tiny.fatbin",
    ],
)
def test_every_image_except_the_last_can_go(path: str) -> None:
    whole = view((FIXTURES / path).read_bytes(), path)
    places = [(number, index) for number, found in enumerate(containers(whole)) for index in range(len(found.images))]
    for at, (number, index) in enumerate(places):
        after, removal = edited(whole, Selector(container=number, index=index))
        assert len(removal.removed) == 1
        left = contents(whole)
        del left[at]
        assert contents(after) == left
        assert not [item for item in scan(after) if isinstance(item, Finding) and item.code == "FP1003"]
    with pytest.raises(UsageError, match="nothing would be left of the container; select fewer, or leave an empty"):
        remove_images(whole, Selector())


def test_what_stays_of_a_fat_binary_keeps_its_stored_bytes() -> None:
    whole = view((FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes())
    after, _ = edited(whole, Selector(form="ptx"))
    (found,) = containers(after)
    kept = next(containers(whole)).container.images[0].span
    stored = found.container.images[0].span
    assert after.tobytes()[stored.start : stored.end] == whole.tobytes()[kept.start : kept.end]


def test_bundles_that_follow_each_other_stay_aligned() -> None:
    padded = HIP + bytes(4096 - len(HIP))
    whole = view(padded + padded + HIP + bytes(100))
    starts = [found.view.start for found in containers(edited(whole, Selector(arch="gfx906:*"))[0])]
    assert starts == [0, 4096, 8192]
    after, _ = edited(whole, Selector(container=0))
    assert after.tobytes() == padded + HIP + bytes(100)
    after, _ = edited(whole, Selector(container=2))
    assert after.tobytes() == padded + HIP


def test_bytes_that_belong_to_nothing_stay() -> None:
    whole = view(FOUR + b"rubbish!" + FOUR + b"more")
    after, _ = edited(whole, Selector(arch="sm_70"))
    assert after.tobytes().count(b"rubbish!") == 1
    assert after.tobytes().endswith(b"more")
    assert [arch for arch, _ in contents(after)] == ["sm_80", "gfx90a:xnack+", ""] * 2


def test_a_cir_container_loses_device_modules_only() -> None:
    whole = view(CIR.read_bytes(), "m.cir")
    after, _ = edited(whole, Selector(arch="sm_80"))
    assert [arch for arch, _ in contents(after)] == ["", "sm_90"]
    with pytest.raises(UsageError, match=r"m\.cir: the remaining images cannot be written: no host module"):
        remove_images(whole, Selector(offload="host"))
    with pytest.raises(UsageError, match=r"m\.cir: the remaining images cannot be written: no device module"):
        remove_images(whole, Selector(offload="cuda"))


def test_bytecode_is_refused() -> None:
    whole = view((FIXTURES / "cir" / "samples" / "container_op_v6.mlirbc").read_bytes(), "m.mlirbc")
    with pytest.raises(Unsupported, match=r"m\.mlirbc: the remaining images cannot be written"):
        remove_images(whole, Selector(index=2))


def test_members_of_archives_that_are_containers_are_edited() -> None:
    whole = view(join_pieces(archive.build_archive([(b"a.bc", view(HIP)), (b"b.bc", view(FOUR))])), "lib.a")
    after, removal = edited(whole, Selector(arch="gfx90*"))
    assert [text.split(": ")[0] for text in removal.removed] == ["a.bc", "a.bc", "b.bc"]
    assert [arch for arch, _ in contents(after)] == ["", "sm_70", "sm_80", ""]
    with pytest.raises(UsageError, match=r"lib\.a\(b\.bc\): all images are selected"):
        remove_images(whole, Selector(container=None, offload=("cuda", "openmp", "hip", "sycl")))


@pytest.mark.parametrize(
    "path",
    [
        "clang_bundle/llvm-22-hip.bundle",
        "clang_bundle/llvm-22-v3-zstd.bundle",
        "clang_bundle/fatpack-v1-zlib.bundle",
        "offload_binary/fatpack-v2.bin",
        "offload_binary/fatpack-v3-zlib.bin",
        "cuda_fatbin/v130_size.fatbin",
    ],
)
def test_an_empty_container_stays_on_request(path: str) -> None:
    whole = view((FIXTURES / path).read_bytes(), path)
    after, _ = edited(whole, Selector(), allow_empty=True)
    (before, *_), (left,) = containers(whole), containers(after)
    assert (left.container.format, left.container.version) == (before.container.format, before.container.version)
    assert left.container.images == ()
    assert not [item for item in scan(after) if isinstance(item, Finding)]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("offload_binary/llvm-22-four.bin", "an offload binary of version 1 holds one image"),
        ("clang_bundle/text/llvm-22.s", "cannot be without images"),
        ("cir/samples/container_attr_2026.cir", "no host module for a CIR container"),
    ],
)
def test_what_cannot_be_empty_says_so(path: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"the remaining images cannot be written: .*{problem}.*select fewer images"):
        remove_images(view((FIXTURES / path).read_bytes(), path), Selector(), allow_empty=True)


def test_members_may_become_empty_containers() -> None:
    fatbin = (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes()
    whole = view(join_pieces(archive.build_archive([(b"a.hipfb", view(HIP)), (b"b.fatbin", view(fatbin))])), "lib.a")
    after, _ = edited(whole, Selector(offload=("hip", "host")), allow_empty=True)
    assert [(found.member, len(found.images)) for found in containers(after)] == [("a.hipfb", 0), ("b.fatbin", 2)]


def test_an_empty_file_is_no_sound_edit_of_a_container() -> None:
    for rest in (b"", bytes(64)):
        with pytest.raises(HostError, match="no container is left"):
            verify_edited(view(HIP), view(rest))


def test_a_host_that_stays_alone_is_reported() -> None:
    _, removal = edited(view(HIP), Selector(arch="gfx*"))
    assert removal.notes == (
        "container 0 has no device code left, only the image for its host (host-x86_64-unknown-linux-gnu-)",
    )
    assert edited(view(HIP), Selector(arch="gfx90a"))[1].notes == ()
    assert edited(view(FOUR), Selector(arch="gfx90a"))[1].notes == ()


def test_a_file_without_any_container_is_refused() -> None:
    with pytest.raises(HostError, match="no container, no object file and no archive"):
        remove_images(view(b"text"), Selector())


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        (b"070701" + bytes(506), "a cpio archive"),
        (b"header of a format that nobody knows", "a file of an unknown format"),
    ],
    ids=["cpio", "unknown"],
)
def test_a_container_inside_a_file_that_is_none_stays(before: bytes, kind: str) -> None:
    """The bytes around it may depend on its size: without it, a cpio archive would be damaged."""
    data = before + HIP
    assert len(list(containers(view(data)))) == 1
    with pytest.raises(
        HostError, match=f"this is {kind}; the .* at 0x.* in it is not edited; .*the view of one of File.containers"
    ):
        remove_images(view(data), Selector(index=1))


def test_verify_refuses_another_image_and_damage() -> None:
    before = view(HIP)
    verify_edited(before, before)
    other = bytearray(HIP)
    other[-1] ^= 1
    with pytest.raises(HostError, match=r"the image hipv4-.*gfx90a differs from the one in the container before"):
        verify_edited(before, view(bytes(other)))
    with pytest.raises(HostError, match="cannot be read"):
        verify_edited(before, view(HIP[:-5]))
