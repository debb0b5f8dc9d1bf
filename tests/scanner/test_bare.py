"""Device images alone in a host: found whole, with their section and offset, and nothing else taken for one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import archive, elf, fatbin, spirv
from tests.builders.device_elf import device_elf
from tests.laws.rooms import FIXTURES, host_fixtures
from tests.reference import run

from fatpack.images.spirv import extent
from fatpack.io.source import BytesSource
from fatpack.main import main
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, bare_images, scan

CUBIN = (FIXTURES / "triton" / "sm_90" / "sum_kernel.cubin").read_bytes()
CODE_OBJECT = (FIXTURES / "triton" / "gfx942" / "sum_kernel.hsaco").read_bytes()
SPIRV = (FIXTURES / "kernels" / "add_one.llvm22.spv").read_bytes()
BIG_SPIRV = struct.pack(f">{len(SPIRV) // 4}I", *struct.unpack(f"<{len(SPIRV) // 4}I", SPIRV))

#: everything that is a device image by itself, as its compiler wrote it
IMAGES = sorted(
    path
    for folder in ("cuda/cubin", "kernels", "triton/sm_90", "triton/gfx942", "triton/gfx1100")
    for path in (FIXTURES / folder).iterdir()
    if path.suffix in (".cubin", ".hsaco", ".spv") or path.name.startswith(("exact", "needs.v"))
)
WHOLE = [path.read_bytes() for path in IMAGES]


def found(data: bytes, *, deep: bool = True) -> list[FoundContainer]:
    return [item for item in scan(BytesSource(data).view(), deep=deep) if isinstance(item, FoundContainer)]


def placed(data: bytes) -> list[tuple[int, bytes]]:
    """Return the offset and the bytes of all bare images of a file."""
    return [
        (item.span.start, item.images[0].data.tobytes()) for item in found(data) if item.format == bare_images.FORMAT
    ]


def host(*sections: tuple[str, bytes]) -> bytes:
    made = elf.Elf()
    made.sections += [elf.Section(".text", b"code" * 9), *(elf.Section(name, data) for name, data in sections)]
    return made.build()


def test_images_are_listed_with_section_offset_target_and_kernels() -> None:
    data = host((".rodata", b"text" + CUBIN + bytes(3) + SPIRV), (".data", CODE_OBJECT))
    items = found(data)
    assert [item.span for item in found(data, deep=False)] == [item.span for item in items]
    assert [(item.format, item.host, item.section, item.span.start) for item in items] == [
        ("bare-image", "elf", ".rodata", data.index(CUBIN)),
        ("bare-image", "elf", ".rodata", data.index(SPIRV)),
        ("bare-image", "elf", ".data", data.index(CODE_OBJECT)),
    ]
    images = [item.images[0] for item in items]
    assert [image.data.tobytes() for image in images] == [CUBIN, SPIRV, CODE_OBJECT]
    assert [(image.form, image.target.arch, image.kernel_names) for image in images] == [
        ("cubin", "sm_90a", ("sum_kernel",)),
        ("spirv", "", ("add_one",)),
        ("code-object", "gfx942", ("sum_kernel",)),
    ]


@given(
    st.lists(
        st.tuples(st.binary(max_size=9).map(lambda data: data.replace(b"\x7f", b"")), st.sampled_from(WHOLE)),
        max_size=4,
    ),
    st.sampled_from([b"", bytes(8), b"\xff" * 8, b"rest"]),
)
def test_law_an_image_is_found_where_it_was_put_and_as_it_was(parts: list[tuple[bytes, bytes]], rest: bytes) -> None:
    content = b"".join(padding + image for padding, image in parts) + rest
    data = host((".rodata", b"." + content))
    at, expected = data.index(b"." + content) + 1 if parts else 0, []
    for padding, image in parts:
        expected.append((at + len(padding), image))
        at += len(padding) + len(image)
    assert placed(data) == expected


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_law_the_image_of_a_file_is_not_found_in_itself(path: Path) -> None:
    data = path.read_bytes()
    assert placed(data) == []
    assert placed(data + bytes(100)) == []


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"x"])
def test_law_of_an_image_that_is_cut_nothing_is_left(path: Path, filler: bytes) -> None:
    data = path.read_bytes()
    end = int.from_bytes(data[40:48], "little") if data.startswith(b"\x7fELF") else len(data) - 4
    for size in (20, 63, 64, 65, 200, end // 2, end):
        assert placed(b"." + data[:size] + filler * 2 * len(data)) == []


@pytest.mark.parametrize(("name", "path"), host_fixtures(), ids=lambda value: getattr(value, "name", value))
def test_law_a_host_inside_a_host_is_no_image(name: str, path: Path) -> None:
    inner = path.read_bytes()
    wanted = [data for _, data in placed(b"." + inner)]
    assert [data for _, data in placed(host((".data", inner)))] == wanted
    assert all(data[18:20] in (b"\xbe\0", b"\xe0\0") for data in wanted if data.startswith(b"\x7fELF"))


def test_images_that_follow_each_other_in_a_file_are_all_listed() -> None:
    assert placed(CUBIN + CODE_OBJECT) == [(0, CUBIN), (len(CUBIN), CODE_OBJECT)]
    assert placed(SPIRV + SPIRV) == [(0, SPIRV), (len(SPIRV), SPIRV)]
    assert placed(BIG_SPIRV + SPIRV) == [(0, BIG_SPIRV), (len(SPIRV), SPIRV)]


def test_images_of_containers_are_not_listed_again() -> None:
    inner = fatbin.fatbin(fatbin.entry(CUBIN, sm=90))
    for section in (".nv_fatbin", ".rodata"):
        data = host((section, inner), (".data", b"...." + CODE_OBJECT))
        assert [item.format for item in found(data)] == ["cuda-fatbin", "bare-image"]


def test_in_members_of_archives_they_are_found_too() -> None:
    data = b"!<arch>\n" + archive.member(b"a.o/", host((".rodata", CUBIN)))
    (item,) = found(data)
    assert (item.member, item.section, item.images[0].data.tobytes()) == ("a.o", ".rodata", CUBIN)


TEMPLATE = device_elf(190, has_sections=False)


@pytest.mark.parametrize(
    "content",
    [
        TEMPLATE,
        TEMPLATE + bytes(4096),
        device_elf(62, sections=[(1, b"host")]),
        device_elf(190, file_type=4, sections=[(1, b"core")]),
        b"\x7fELF",
        b"\x03\x02\x23\x07" + bytes(60),
        # no function, no memory model, IDs out of bounds, an instruction that never ends
        spirv.module([(6, "k")]),
        SPIRV[:20] + SPIRV[-4:] * 20,
        SPIRV[:12] + b"\xff" * 4 + SPIRV[16:],
        SPIRV[:20] + b"\x11\0\xff\xff" + SPIRV[24:],
    ],
)
def test_what_only_starts_like_an_image_is_none(content: bytes) -> None:
    assert placed(host((".rodata", b"...." + content))) == []


@pytest.mark.parametrize(
    "rest", [b"", bytes(16), b"\xff" * 16, b"text", SPIRV, struct.pack("<5I", 5 << 16 | 54, 1, 2, 0, 3)]
)
def test_a_module_ends_with_its_last_function(rest: bytes) -> None:
    size, _ = extent(BytesSource(SPIRV + rest).view())
    assert size == (0 if rest[:4] == b"\x36\0\x05\0" else len(SPIRV))


def test_what_is_not_semantic_may_follow_the_functions() -> None:
    info = struct.pack("<6I", 6 << 16 | 12, 1, 2, 3, 4, 5)
    line = struct.pack("<I", 1 << 16 | 317)
    assert extent(BytesSource(SPIRV + info + line + b"text").view())[0] == len(SPIRV + info)
    too_large = struct.pack("<6I", 6 << 16 | 12, 1, 1 << 30, 3, 4, 5)
    assert extent(BytesSource(SPIRV + too_large).view())[0] == len(SPIRV)


def test_a_module_longer_than_a_block_is_walked_to_its_end() -> None:
    nops = struct.pack("<I", 1 << 16) * 400_000
    long = SPIRV[:-4] + nops + SPIRV[-4:]
    assert extent(BytesSource(long + b"text").view())[0] == len(long)


def test_headers_that_share_one_large_table_end_the_search() -> None:
    """Each claims a table of most of the file: reading them all would be quadratic."""
    header = device_elf(190, sections=[(1, b"code")])[:64]
    count = 3000
    table = len(header) * count
    header = header[:40] + struct.pack("<Q", table) + header[48:60] + struct.pack("<H", 0xFF00) + header[62:]
    row = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, 1 << 40, 0, 0, 0, 0)
    items = list(scan(BytesSource(b"." + header * count + row * 0xFF00).view(), deep=True))
    assert [item.code for item in items if isinstance(item, Finding)] == ["FP1005"]
    assert not [item for item in items if isinstance(item, FoundContainer)]


def test_too_many_false_beginnings_end_the_search() -> None:
    def codes(data: bytes) -> list[str]:
        items = scan(BytesSource(b"." + data).view(), deep=True)
        return [item.code for item in items if isinstance(item, Finding)]

    assert codes(TEMPLATE * 10_001) == ["FP1005"]
    assert codes(TEMPLATE * 10_000) == []
    # The files of a host cost no more than a look at each header.
    assert codes(device_elf(62, sections=[(1, b"host")]) * 10_001) == []


def test_they_are_extracted_counted_and_addressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(host((".rodata", b"text" + CUBIN), (".data", CODE_OBJECT)))
    assert main(["extract", "--deep", str(path), "-d", str(tmp_path / "out"), "-q"]) == 0
    written = [Path(line) for line in capsys.readouterr().out.split()]
    assert [item.read_bytes() for item in written] == [CUBIN, CODE_OBJECT]
    assert [item.suffix for item in written] == [".cubin", ".hsaco"]
    assert main(["extract", "--deep", "--containers", str(path), "-d", str(tmp_path / "whole"), "-q"]) == 0
    assert sorted(item.suffix for item in (tmp_path / "whole").iterdir()) == [".cubin", ".hsaco"]
    capsys.readouterr()
    assert main(["inspect", "--deep", "--by", "arch", str(path)]) == 0
    assert [line.split()[-2:] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        ["sm_90a", "cubin"],
        ["gfx942", "code-object"],
    ]
    assert main(["inspect", "--deep", "-v", str(path)]) == 0
    address = next(line.split()[-1] for line in capsys.readouterr().out.splitlines() if "#offset=" in line)
    assert main(["inspect", address]) == 0
    assert ": cubin sm_90a" in capsys.readouterr().out


def test_what_a_compiler_puts_into_the_data_of_a_program_is_found(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(CUBIN)
    (tmp_path / "a.s").write_text('.section .rodata\n.byte 1\nimage: .incbin "image"\n.asciz "behind"\n')
    run("clang", "-c", "a.s", "-o", "a.o", cwd=tmp_path)
    assert [data for _, data in placed((tmp_path / "a.o").read_bytes())] == [CUBIN]
