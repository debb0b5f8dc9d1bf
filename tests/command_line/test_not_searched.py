"""Remarks of `inspect` about bytes that it did not search, and files that it does not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import elf
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.scanner import compiler_text

Fatpack = Callable[..., Ran]

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
LINE = "  not searched for containers: .rodata, .text (36 B); --deep searches them\n"


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "lib.so"
    path.write_bytes(elf.with_contents(nv_fatbin=FATBIN, text=b"code", rodata=bytes(32)))
    return path


def test_the_sections_that_were_left_are_named_on_request(file: Path, fatpack: Fatpack) -> None:
    assert "not searched" not in fatpack("inspect", str(file)).out
    assert LINE in fatpack("inspect", "-v", str(file)).out
    assert "not searched" not in fatpack("inspect", "-v", "--deep", str(file)).out
    (record,) = json.loads(fatpack("inspect", "--json", str(file)).out)["files"]
    assert record["not_searched"] == [
        {"section": ".rodata", "count": 1, "size": 32},
        {"section": ".text", "count": 1, "size": 4},
    ]
    assert record["found_outside"] is False


def test_they_are_named_in_any_case_where_containers_lie_outside_the_usual_sections(
    folder: Path, fatpack: Fatpack
) -> None:
    (folder / "lib.so").write_bytes(elf.with_contents(cask_resource=FATBIN, text=b"code", rodata=bytes(32)))
    ran = fatpack("inspect", "lib.so")
    assert ran.code == 0
    assert LINE in ran.out


def test_a_file_without_device_code_was_searched_to_its_last_byte(folder: Path, fatpack: Fatpack) -> None:
    (folder / "plain.so").write_bytes(elf.with_contents(text=b"code", rodata=bytes(32)))
    ran = fatpack("inspect", "-v", "plain.so")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["  no device code found"])
    (record,) = json.loads(fatpack("inspect", "--json", "plain.so").out)["files"]
    assert "not_searched" not in record


def test_what_is_not_read_is_no_success(folder: Path, fatpack: Fatpack) -> None:
    (folder / "layer.tar").write_bytes(bytes(257) + b"ustar\x0000" + bytes(256))
    ran = fatpack("inspect", "layer.tar")
    assert ran.code == 3
    assert "no device code found" not in ran.out
    assert "error FP1701 at 0x0: a tar archive, whose first header does not add up to its checksum" in ran.out
    (folder / "layer.cpio").write_bytes(b"070701" + bytes(256))
    ran = fatpack("inspect", "layer.cpio")
    assert ran.code == 4
    assert "FP1006 at 0x0: a cpio archive: not read, only searched for containers; cpio -id unpacks it" in ran.out


def test_containers_beyond_a_limit_are_an_error(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONTAINERS", 2)
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=FATBIN * 3))
    ran = fatpack("inspect", "many.o")
    assert ran.code == 3
    assert "error FP1005" in ran.out


def test_thousands_of_findings_hide_no_container(folder: Path, fatpack: Fatpack) -> None:
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=(FATBIN + b"rubbish!") * 2500))
    (record,) = json.loads(fatpack("inspect", "--json", "many.o").out)["files"]
    assert len(record["containers"]) == 2500
    listed = [item for item in record["findings"] if item["code"] == "FP1002"]
    assert len(listed) + sum(item["count"] for item in record["unlisted_findings"]) == 2500
    assert {item["section"] for item in listed} == {".nv_fatbin"}
    assert "FP1002, 2500 times, first at" in fatpack("inspect", "many.o").out


def test_images_that_a_limit_leaves_out_are_one_error_of_extract(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONTAINERS", 2)
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=FATBIN * 3))
    ran = fatpack("extract", "many.o", "-d", "out")
    assert ran.code == 3
    assert ran.err.count("FP1005") == 1
    assert len(list((folder / "out").iterdir())) == 4


#: name → how text begins in which a compiler wrote a fat binary, an offload binary or a bundle
TEXTS = {
    "k.ll": b'; ModuleID = "k.c"\n@0 = private constant [9 x i8] c"P\\EDU\\BA\\01\\00", section ".nv_fatbin"\n',
    "o.ll": b'; ModuleID = "k.c"\n@0 = private constant [9 x i8] c"\\10\\FF\\10\\AD\\01", section ".llvm.offloading"\n',
    "k.s": b'\t.section\t.nv_fatbin,"a"\n.L0:\n\t.asciz\t"P\\355U\\272\\001\\000"\n',
    "h.s": b'\t.section\t.hip_fatbin,"a"\n.L0:\n\t.asciz\t"__CLANG_OFFLOAD_BUNDLE__\\002"\n',
    "k.fatbin.c": b'asm(\n".section .nv_fatbin, \\"a\\"\\n"\n".quad 0x00100001ba55ed50,0x0000000000000da8\\n"\n);\n',
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("padding", [0, 3_000_000])
def test_text_with_device_code_that_is_not_decoded_is_named(
    name: str, padding: int, folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_text, "MAX_TEXT", 8)
    start, end = TEXTS[name].split(b"\n", 1)
    comment = b"; " if name.endswith(".ll") else b"// " if name.endswith(".c") else b"# "
    (folder / name).write_bytes(start + b"\n" + (comment + b"x" * 77 + b"\n") * (padding // 80) + end)
    for command in (["inspect", name], ["doctor", name]):
        ran = fatpack(*command)
        assert "FP1006" in ran.out
        assert "not read" in ran.out
    (folder / "tree").mkdir()
    (folder / name).rename(folder / "tree" / name)
    assert "FP1006" in fatpack("inspect", "tree").out


def test_text_without_device_code_is_not(folder: Path, fatpack: Fatpack) -> None:
    texts = {
        "k.ll": b'; ModuleID = "k.c"\n@__hip_fatbin = external constant i8, section ".hip_fatbin"\n@0 = c"text\\00"\n',
        "k.s": b'\t.section\t.rodata,"a"\n.L0:\n\t.asciz\t"nv_fatbin"\n\t.quad 0x10\n',
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
        assert "FP1006" not in fatpack("inspect", name).out


def test_mlir_in_parts_is_named(folder: Path, fatpack: Fatpack) -> None:
    sample = (FIXTURES / "cir" / "samples" / "container_attr_2026.cir").read_text("utf-8")
    (folder / "k.mlir").write_text(f"module @first {{\n}}\n// -----\n{sample}")
    ran = fatpack("inspect", "k.mlir")
    assert "FP1006 at 0x12: a line // -----" in ran.out
    (folder / "k.mlir").write_text(sample)
    assert "FP1006" not in fatpack("inspect", "k.mlir").out


@pytest.mark.parametrize("command", [("inspect",), ("doctor",), ("check", "--require", "sm_80")], ids=lambda it: it[0])
def test_a_container_in_a_later_part_is_not_read_and_no_damage(
    folder: Path, fatpack: Fatpack, command: tuple[str, ...]
) -> None:
    sample = (FIXTURES / "cir" / "samples" / "container_attr_2026.cir").read_text("utf-8")
    (folder / "k.mlir").write_text(f"{sample}\n// -----\n{sample}")
    ran = fatpack(*command, "k.mlir")
    assert (ran.code, "FP1508" in ran.out) == (4, False)
    assert "a line // -----" in ran.out
    (folder / "k.mlir").write_text(f"{sample}\n{sample}")
    ran = fatpack(*command, "k.mlir")
    assert (ran.code, "FP1508" in ran.out) == (3, True)
