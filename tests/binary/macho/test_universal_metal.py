"""Universal files of Metal: libraries are read in both byte orders, other slices are named."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from tests.builders import macho, metal
from tests.builders.metal import AIR64, APPLE_GPU, universal_metal

from fatpack.binary import detect_host
from fatpack.main import main
from fatpack.testing.cases import assert_host_labels_cover_every_byte_once
from fatpack.testing.helpers import make_view

ORDERS = pytest.mark.parametrize("order", [">", "<"])
NATIVE = macho.build([macho.Section(b"__TEXT", b"__compute", bytes(64))], machine=APPLE_GPU)


def listed(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, dict[str, object]]:
    code = main(["inspect", "--json", str(path)])
    return code, json.loads(capsys.readouterr().out)["files"][0]


@ORDERS
def test_libraries_are_listed_by_slice(order: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.metallib"
    path.write_bytes(universal_metal([(AIR64, 0, metal.library())], order))
    code, found = listed(capsys, path)
    assert (code, found["host"], found["findings"]) == (0, "universal", [])
    assert main(["inspect", "--kernels", str(path)]) == 0
    out = capsys.readouterr().out
    assert "air64 at 0x1000: metal-library, 2 images" in out
    assert "kernel mul_f32" in out
    assert main(["extract", "-d", str(tmp_path / "out"), str(path)]) == 0
    assert len(list((tmp_path / "out").glob("*.air"))) == 2
    bare = tmp_path / "bare.metallib"
    bare.write_bytes(metal.library())
    assert main(["diff", str(bare), str(path)]) == 0
    assert main(["doctor", str(path)]) == 0
    assert_host_labels_cover_every_byte_once("universal", path.read_bytes())


@ORDERS
@pytest.mark.parametrize("content", [NATIVE, metal.BITCODE, b"?"], ids=["native", "bitcode", "other"])
def test_other_slices_are_named(order: str, content: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.metallib"
    path.write_bytes(universal_metal([(AIR64, 0, metal.library()), (APPLE_GPU, 0x222, content)], order))
    assert main(["inspect", str(path)]) == 4
    out = capsys.readouterr().out
    assert (
        f"FP1006 at 0x2000 (applegpu_0x222): slice 1 (applegpu_0x222) of a universal Metal file, {len(content)} b"
        in out
    )
    assert "metal-library, 2 images" in out
    assert main(["doctor", str(path)]) == 4
    assert main(["check", "--require", "macos14", str(path)]) == 4
    assert_host_labels_cover_every_byte_once("universal", path.read_bytes())


@ORDERS
@pytest.mark.parametrize(("size", "code"), [(1 << 31, "FP2511"), (None, "FP2512")])
def test_damage_of_the_table_is_said(
    order: str, size: int | None, code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = bytearray(universal_metal([(AIR64, 0, metal.library())], order))
    if size is None:
        data[4:8] = struct.pack(f"{order}I", 1 << 20)
    else:
        data[20:24] = struct.pack(f"{order}I", size)
    path = tmp_path / "x.metallib"
    path.write_bytes(data)
    assert main(["inspect", str(path)]) == 3
    assert code in capsys.readouterr().out
    assert_host_labels_cover_every_byte_once("universal", bytes(data))


def test_entries_of_32_bytes_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A reader of such entries exists: read with 20 bytes each, the second has no place in the file."""
    entry = struct.pack(">2I2Q2I", AIR64, 0, 4096, 16, 12, 0)
    path = tmp_path / "x.metallib"
    path.write_bytes((struct.pack(">2I", 0xCBFEBABE, 2) + entry * 2).ljust(8192, b"\0"))
    assert main(["inspect", str(path)]) != 0
    assert "FP25" in capsys.readouterr().out


def test_a_short_file_is_no_host() -> None:
    assert detect_host(make_view(universal_metal([])[:7])) is None
