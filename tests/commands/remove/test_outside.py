"""Edits of containers outside the sections for device code: refused, and numbered as in the scan."""

from __future__ import annotations

import pytest
from tests.builders import archive, elf, sycl
from tests.laws.rooms import FIXTURES

from fatpack.commands.slim.remove import remove_images
from fatpack.edit.embed import embed_container, replace_container
from fatpack.errors import HostError
from fatpack.io.source import BytesSource
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.select import Selector

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
OFFLOAD = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
CPIO_WITH_CODE = b"070701" + bytes(506) + FATBIN
CPIO = b"070701" + b"0" * 104


@pytest.mark.parametrize(
    "data",
    [elf.with_contents(mine=FATBIN), elf.with_contents(rodata=FATBIN), elf.with_contents(text=b"code") + FATBIN],
    ids=["mine", "rodata", "end"],
)
def test_what_lies_in_data_of_the_object_is_listed_and_not_removed(data: bytes) -> None:
    view = BytesSource(data, "x.o").view()
    assert [item.format for item in scan(view) if isinstance(item, FoundContainer)] == ["cuda-fatbin"]
    with pytest.raises(HostError, match="is in the object's own data, which is not edited"):
        remove_images(view, Selector())


def test_images_of_an_archive_are_counted_as_a_scan_counts_them() -> None:
    members = [
        archive.member(b"a.o/", elf.with_contents(rodata=FATBIN)),
        archive.member(b"b.o/", elf.with_contents(nv_fatbin=FATBIN)),
    ]
    view = BytesSource(b"!<arch>\n" + b"".join(members), "libx.a").view()
    assert [item.member for item in scan(view) if isinstance(item, FoundContainer)] == ["b.o"]
    removed = remove_images(view, Selector()).removed
    assert {line.partition(":")[0] for line in removed} == {"b.o"}
    alone = BytesSource(b"!<arch>\n" + members[0], "libx.a").view()
    with pytest.raises(HostError, match="is in the object's own data"):
        remove_images(alone, Selector())


@pytest.mark.parametrize(("data", "kind"), [(CPIO_WITH_CODE, "a cpio archive"), (CPIO, "a cpio archive")])
def test_files_that_no_room_reads_are_named_when_they_should_be_edited(data: bytes, kind: str) -> None:
    view = BytesSource(data, "x").view()
    with pytest.raises(HostError, match=f"this is {kind}"):
        remove_images(view, Selector())
    with pytest.raises(HostError, match=f"this is {kind}, which this version does not edit"):
        embed_container(view, [OFFLOAD])


def test_replacing_images_without_a_container_says_what_is_there() -> None:
    made = elf.Elf()
    made.add("__CLANG_OFFLOAD_BUNDLE__sycl-spir64", sycl.spirv(30))
    made.add("__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu", b"\0")
    host, content = (BytesSource(data, "x.o").view() for data in (made.build(), OFFLOAD))
    with pytest.raises(HostError, match="holds one image, of the form spirv, the new content is llvm-offload-binary"):
        replace_container(host, content, section="__CLANG_OFFLOAD_BUNDLE__sycl-spir64")
    program = BytesSource(sycl.program([sycl.Stored(sycl.spirv(30))]), "app").view()
    with pytest.raises(HostError, match="is loaded at run time"):
        replace_container(program, content)
