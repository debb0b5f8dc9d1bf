"""``embed``, ``replace`` and ``remove`` as users type them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

Fatpack = Callable[..., Ran]
A = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
B = "--image=file=b.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"


@pytest.fixture(autouse=True)
def fat(folder: Path, fatpack: Fatpack) -> Path:
    assert fatpack("pack", A, B, "-o", "both.bin", "-q").code == 0
    assert fatpack("embed", "host.o", "both.bin", "-o", "fat.o", "-q").code == 0
    return folder / "fat.o"


def archs(fatpack: Fatpack, path: str) -> list[str]:
    return [word for word in fatpack("inspect", path).out.split() if word.startswith("sm_")]


def test_embed_equals_pack_with_host(folder: Path, fatpack: Fatpack, fat: Path) -> None:
    assert fatpack("pack", A, B, "--host=host.o", "-o", "packed.o", "-q").code == 0
    assert (folder / "packed.o").read_bytes() == fat.read_bytes()
    assert archs(fatpack, "fat.o") == ["sm_80", "sm_90"]


def test_remove_takes_all_or_some(fatpack: Fatpack, folder: Path) -> None:
    assert fatpack("remove", "fat.o", "-o", "none.o").code == 0
    assert archs(fatpack, "none.o") == []
    assert fatpack("remove", "fat.o", "--arch=sm_80", "-o", "slim.o").code == 0
    assert archs(fatpack, "slim.o") == ["sm_90"]
    assert (folder / "slim.o").stat().st_size < (folder / "fat.o").stat().st_size


def test_remove_of_nothing_exits_1_and_writes_nothing(fatpack: Fatpack, folder: Path) -> None:
    ran = fatpack("remove", "fat.o", "--arch=gfx90a", "-o", "x.o")
    assert (ran.code, (folder / "x.o").exists()) == (1, False)


def test_a_dry_run_only_talks(fatpack: Fatpack, folder: Path) -> None:
    before = sorted(os.listdir(folder))
    ran = fatpack("remove", "fat.o", "--dry-run")
    assert ran.code == 0
    assert "would remove 0.0 cuda nvptx64-nvidia-cuda sm_80 cubin" in ran.err
    assert sorted(os.listdir(folder)) == before


def test_replace_exchanges_the_content(fatpack: Fatpack) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    assert fatpack("replace", "fat.o", "one.bin", "-o", "x.o").code == 0
    assert archs(fatpack, "x.o") == ["sm_80"]


def test_replace_needs_a_section(fatpack: Fatpack) -> None:
    ran = fatpack("replace", "host.o", "both.bin", "-o", "x.o")
    assert ran.code == 4
    assert "0 sections of device code, exactly one is needed" in ran.err


def test_in_place_keeps_mode_and_needs_to_be_asked_for(fatpack: Fatpack, fat: Path) -> None:
    fat.chmod(0o751)
    before = fat.read_bytes()
    ran = fatpack("remove", "fat.o")
    assert (ran.code, fat.read_bytes()) == (2, before)
    assert "say where to write" in ran.err
    assert fatpack("remove", "fat.o", "--arch=sm_80", "--in-place").code == 0
    assert archs(fatpack, "fat.o") == ["sm_90"]
    assert stat.S_IMODE(fat.stat().st_mode) == 0o751


def test_the_host_is_never_overwritten_by_o(fatpack: Fatpack, fat: Path) -> None:
    before = fat.read_bytes()
    assert fatpack("remove", "fat.o", "-o", "fat.o").code == 2
    assert fat.read_bytes() == before


def test_embedding_something_else_warns(fatpack: Fatpack) -> None:
    ran = fatpack("embed", "host.o", "k.ptx", "-o", "x.o")
    assert ran.code == 0
    assert "k.ptx is no LLVM offload binary; LLVM tools will not read it" in ran.err


def test_a_damaged_container_refuses_a_partial_removal(fatpack: Fatpack, folder: Path, fat: Path) -> None:
    data = bytearray(fat.read_bytes())
    at = data.find(b"\x10\xff\x10\xad")
    data[at + 0x40 : at + 0x48] = b"\xff" * 8
    (folder / "bad.o").write_bytes(data)
    ran = fatpack("remove", "bad.o", "--arch=sm_90", "-o", "x.o")
    assert ran.code == 3
    assert "nothing was removed" in ran.err
    assert not (folder / "x.o").exists()
