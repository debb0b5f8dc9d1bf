"""Writing: copied entries stay as stored, new ones follow the options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.builders.fatbin import ELF, PTX, cubin, entry, fatbin, group, member, padded, ptx

from fatpack.errors import FormatError, Unsupported, UsageError
from fatpack.formats.cuda_fatbin import CudaEntry, parse, write
from fatpack.formats.cuda_fatbin.new_entry import minify_ptx, ptx_version
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import FatbinOptions

RECORDED = Path(__file__).parents[2] / "fixtures" / "cuda_fatbin"
ENTRIES = entry(cubin(80)), entry(ptx() + b"\0", PTX, options=b"-O1", identifier=b"k.cu", code=(0, 9))


def target(arch: str = "sm_80", triple: str = "nvptx64-nvidia-cuda", offload: str = "cuda") -> Target:
    return Target(triple, arch, offload)


def new(data: bytes, form: str = "cubin", arch: str = "sm_80", **attrs: str) -> Image:
    return make_image(data, form=form, target=target(arch), attrs=attrs)


def written(images: Sequence[Image], **options: Any) -> bytes:
    chosen = FatbinOptions(**options) if options else None
    return join_pieces(write(Container("cuda-fatbin", 1, tuple(images), Span(0, 0)), chosen))


def read(data: bytes) -> Container:
    return parse(make_view(data))


def test_new_images_make_the_entries_that_the_builder_makes() -> None:
    images = [new(cubin(80)), new(ptx(), "ptx", identifier="k.cu", options="-O1")]
    assert written(images, compress_mode="none") == fatbin(*ENTRIES)


def test_all_that_was_recorded_is_copied_entry_by_entry_without_a_change() -> None:
    for path in sorted(RECORDED.rglob("*.fatbin")):
        if path.name == "two_fatbins.fatbin":
            continue
        data = path.read_bytes()
        images = read(data).images
        assert written(images) == data, path.name


def test_images_of_several_fat_binaries_keep_their_bytes_in_another() -> None:
    first = read((RECORDED / "v112_all_ident.fatbin").read_bytes()).images
    second = read((RECORDED / "v130_ltoir.fatbin").read_bytes()).images
    third = read((RECORDED / "hand_zlib_flag1000.fatbin").read_bytes()).images
    images = [first[1], second[0], third[0], first[0]]
    data = written(images)
    assert data[16:] == b"".join(item.record.stored.tobytes() for item in images)  # type: ignore[attr-defined]
    assert read(data).span.size == len(data)


def test_a_new_label_keeps_the_compressed_bytes() -> None:
    stored = zstandard.compress(cubin(90), 22)
    flags = 0x8011 | 0x4 | 0x100000 | 1 << 40
    (old,) = read(fatbin(entry(stored, sm=90, flags=flags, inflated=len(cubin(90)), identifier=b"old"))).images
    changed = old.replace(target=target("sm_90"), attrs={"identifier": "a longer name", "host": "windows"})
    (again,) = read(written([changed])).images
    record = again.record
    assert isinstance(record, CudaEntry)
    assert record.packed.tobytes() == stored
    assert record.head.flags == 0x8041 | 0x4 | 1 << 40
    assert (again.target, again.attrs) == (changed.target, changed.attrs)
    assert again.data.tobytes() == cubin(90)


def test_an_obfuscated_image_keeps_bytes_and_key_under_a_new_label() -> None:
    (old,) = read((RECORDED / "v130_ltoir.fatbin").read_bytes()).images
    changed = old.replace(attrs={**old.attrs, "identifier": "k.cu"})
    (again,) = read(written([changed], producer="13.0")).images
    assert isinstance(old.record, CudaEntry)
    assert isinstance(again.record, CudaEntry)
    assert again.record.packed.tobytes() == old.record.packed.tobytes()
    assert again.record.head.key == old.record.head.key != 0
    assert again.attrs["identifier"] == "k.cu"
    assert again.size == old.size


def test_recompressing_keeps_all_except_the_compression() -> None:
    data = (RECORDED / "v112_all_ident.fatbin").read_bytes()
    images = read(data).images
    again = read(written(images, compress_all=True)).images
    assert {item.compression for item in images} == {"lz4"}
    assert {item.compression for item in again} == {"zstd"}
    for before, after in zip(images, again, strict=True):
        assert (after.target, after.attrs, after.data.tobytes()) == (before.target, before.attrs, before.data.tobytes())
    assert {item.compression for item in read(written(again, compress_mode="none")).images} == {None}


def test_nuls_at_the_end_of_ptx_are_not_stored() -> None:
    text = ptx("// the end\n")
    assert written([new(text + b"\0\0", "ptx")]) == written([new(text, "ptx")])
    more = fatbin(entry(zstandard.compress(text + b"\0\0"), PTX, flags=0x8011, inflated=len(text) + 2, options=b""))
    (before,) = read(more).images
    (after,) = read(written([before], compress_mode="none")).images
    assert (before.data.tobytes(), after.data.tobytes()) == (text + b"\0", text)


def test_recompressing_copies_what_cannot_be_inflated() -> None:
    data = fatbin(entry(b"no frame", flags=0x8011, inflated=99), *ENTRIES)
    images = read(data).images
    again = read(written(images, producer="13.0"))
    assert [finding.code for finding in again.findings] == ["FP1403"]
    assert again.images[0].record.stored.tobytes() == entry(b"no frame", flags=0x8011, inflated=99)  # type: ignore[attr-defined]


def test_other_data_makes_a_new_entry() -> None:
    (old,) = read(fatbin(entry(cubin(80), flags=0x15, identifier=b"k"))).images
    (again,) = read(written([old.replace(data=make_view(cubin(80, code=b"12345678")))])).images
    assert isinstance(again.record, CudaEntry)
    assert again.record.head.flags == 0x11
    assert again.attrs == {"identifier": "k"}


def test_a_cubin_that_can_be_finalized_takes_its_compat_section_along() -> None:
    data = cubin(100, compat=b"compatible")
    (again,) = read(written([new(data, arch="sm_100f", identifier="k")])).images
    assert isinstance(again.record, CudaEntry)
    assert again.record.area.compat == b"compatible"
    assert again.record.head.flags == 0x1200011
    assert (again.record.head.code_major, again.record.head.code_minor) == (1, 8)


GROUP = group(
    zstandard.compress(padded(ptx() + b"\0") + cubin(80)),
    len(padded(ptx() + b"\0") + cubin(80)),
    [member(0, len(padded(ptx() + b"\0")), PTX), member(len(padded(ptx() + b"\0")), len(cubin(80)), ELF)],
)


def test_a_whole_group_is_copied_and_a_part_of_it_becomes_entries() -> None:
    data = fatbin(GROUP, ENTRIES[0])
    text, code, alone = read(data).images
    assert written([alone, text, code]) == fatbin(ENTRIES[0], GROUP)
    assert written([text, code, text, code]) == fatbin(GROUP, GROUP)
    for chosen in ([code], [code, text], [text, alone, code], [text, code.replace(attrs={"identifier": "k"})]):
        again = read(written(chosen)).images
        assert [item.data.tobytes() for item in again] == [item.data.tobytes() for item in chosen]
        assert [item.attrs for item in again] == [item.attrs for item in chosen]
        assert None not in [item.stored_size for item in again]


def test_what_is_left_of_a_group_stays_compressed() -> None:
    _, code = read(fatbin(GROUP)).images
    assert [item.compression for item in read(written([code])).images] == ["zstd"]
    assert [item.compression for item in read(written([code], producer="13.0")).images] == [None]


def test_members_of_a_damaged_group_are_copied_with_it_or_refused() -> None:
    damaged = group(b"no frame", 99, [member(0, 8, PTX), member(8, 8)])
    images = read(fatbin(damaged)).images
    assert written(images) == fatbin(damaged)
    with pytest.raises(FormatError):
        written(images[:1])


#: contents that cannot be written, and the errors
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "form": (lambda: written([new(b"x", "spirv")]), "form 'spirv'"),
    "no form": (lambda: written([new(b"x", "")]), "unknown form"),
    "no cubin": (lambda: written([new(b"x" * 100)]), "no cubin"),
    "another SM": (lambda: written([new(cubin(80), arch="sm_90")]), "a cubin for sm_80 as one for sm_90"),
    "another width": (lambda: written([new(cubin(80, bits=32))]), "32 bits as one of 64"),
    "no arch": (lambda: written([new(ptx(), "ptx", "")]), "architecture ''"),
    "another arch": (lambda: written([new(ptx(), "ptx", "gfx90a")]), "architecture 'gfx90a'"),
    "another variant": (lambda: written([new(ptx(), "ptx", "sm_90b")]), "architecture 'sm_90b'"),
    "triple": (lambda: written([make_image(ptx(), form="ptx", target=target(triple="amdgcn-amd-amdhsa"))]), "amdgcn"),
    "offload": (lambda: written([make_image(ptx(), form="ptx", target=target(offload="hip"))]), "offload model 'hip'"),
    "PTX without version": (lambda: written([new(b".target sm_80", "ptx")]), "states no version"),
    "PTX with NUL": (lambda: written([new(ptx("\0;"), "ptx")]), "NUL byte"),
    "LTO-IR": (lambda: written([new(b"x" * 20, "ltoir")]), "no LTO-IR"),
    "Tile IR": (lambda: written([new(b"\x7fTileIR\0", "tileir")]), "no Tile IR"),
    "options of a cubin": (lambda: written([new(cubin(80), options="-O1")]), "options '-O1' of an entry of kind elf"),
    "NUL in a name": (lambda: written([new(cubin(80), identifier="a\0b")]), "the identifier of an image contains"),
    "host": (lambda: written([new(cubin(80), host="plan9")]), "host 'plan9'"),
    "debug": (lambda: written([new(cubin(80), debug="perhaps")]), "debug 'perhaps'"),
    "kind": (lambda: written([new(b"x", "", kind="magic")]), "kind 'magic'"),
    "kind concat": (lambda: written([new(b"x", "", kind="concat")]), "kind 'concat'"),
    "kind too large": (lambda: written([new(b"x", "", kind="0x10000")]), "kind '0x10000'"),
    "obfuscated": (lambda: written([new(ptx(), "ptx", obfuscated="yes")]), "obfuscate"),
    "producer": (lambda: written([], producer="9.0"), "producer '9.0'"),
    "mode": (lambda: written([], compress_mode="best"), "compress_mode 'best'"),
    "groups of old": (lambda: written([], concat=True), "since CUDA 13.4"),
    "groups as they are": (
        lambda: written([], concat=True, producer="13.5", compress_mode="none"),
        "a group is always compressed",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_entry_cannot_say_is_refused(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(UsageError) as raised:
        make()
    assert message in str(raised.value)


def test_another_version_is_not_written() -> None:
    with pytest.raises(Unsupported, match="version 2"):
        join_pieces(write(Container("cuda-fatbin", 2, (), Span(0, 0))))


def test_kinds_without_a_form_are_written_by_word_or_number() -> None:
    images = [new(b"12345678", "", "", kind="index"), new(b"12345678", "", kind="0x200")]
    again = read(written(images)).images
    assert [item.attrs["kind"] for item in again] == ["index", "0x200"]
    assert [item.target.arch for item in again] == ["", "sm_80"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (b".version 9.0", (9, 0)),
        (b"// .version 1.2\n.version 9.0", (1, 2)),
        (b".version\t\n 8.7;", (8, 7)),
        (b".version12.34", (12, 3)),
    ],
)
def test_the_version_of_ptx_is_the_second_word(text: bytes, version: tuple[int, int]) -> None:
    assert ptx_version(text) == version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a // gone\nb", b"a \nb"),
        (b"a /* gone\n */ b", b"a  b"),
        (b"a /*/ b", b"a  b"),
        (b"a /* never closed", b"a "),
        (b"\n  a\t\t b \n\tc", b"\na\tb \nc"),
        (b"  a", b" a"),
        (b'"  // a\n  "  b', b'"  // a\n  " b'),
        (b'"a \\"  b"  c', b'"a \\"  b" c'),
        (b'\\"  a', b'\\" a'),
        (b'a "  never closed', b'a "  never closed'),
        (b"a\r// b\r  c", b"a\r\rc"),
    ],
)
def test_comments_and_blanks_are_taken_out_of_ptx(text: bytes, expected: bytes) -> None:
    assert minify_ptx(text) == expected
