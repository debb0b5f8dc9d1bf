"""Compressed content that does not have its stored hash is told of, and never written anew with a right one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.builders import conda, fatbin
from tests.conftest import Ran

Fatpack = Callable[..., Ran]
ID = "hip-amdgcn-amd-amdhsa--gfx90a"


@pytest.fixture(params=[3_000, 300_000], ids=["small", "large"])
def damaged(request: pytest.FixtureRequest, folder: Path, fatpack: Fatpack) -> Path:
    """A compressed bundle, alone and in an object, whose stored hash is another one."""
    (folder / "image").write_bytes(bytes(range(250)) * (request.param // 250))
    (folder / "other").write_bytes(b"other")
    images = [f"--image=file=image,id={ID}", "--image=file=other,id=hip-amdgcn-amd-amdhsa--gfx1030"]
    assert fatpack("pack", "--format=bundle", "--compress", *images, "-o", "good").code == 0
    data = bytearray((folder / "good").read_bytes())
    data[24] ^= 0xFF
    (folder / "bad").write_bytes(data)
    assert fatpack("embed", "host.o", "bad", "-o", "bad.o", "--force").code == 0
    return folder


def test_extracting_says_so_and_still_writes(damaged: Path, fatpack: Fatpack) -> None:
    for selected in ((), ("--arch=gfx90a",)):
        ran = fatpack("extract", "bad", *selected, "-d", f"out{len(selected)}")
        assert (ran.code, ran.err.count("error FP1304")) == (3, 1)
        assert len(list((damaged / f"out{len(selected)}").iterdir())) == 2 - len(selected)


def test_converting_is_refused_unless_requested(damaged: Path, fatpack: Fatpack) -> None:
    ran = fatpack("convert", "bad", "--format=bundle", "--compress", "-o", "x")
    assert (ran.code, "FP1304" in ran.err) == (3, True)
    assert not (damaged / "x").exists()
    assert fatpack("convert", "bad", "--format=bundle", "-o", "x", "--lossy").code == 0


def test_removing_is_refused(damaged: Path, fatpack: Fatpack) -> None:
    ran = fatpack("remove", "bad.o", "--arch=gfx1030", "-o", "x.o")
    assert (ran.code, "the hash is" in ran.err) == (3, True)
    assert not (damaged / "x.o").exists()


CONDA = "p-1.0-h0.conda"


@pytest.mark.parametrize(
    "words",
    [
        ("extract", CONDA, "-d", "out"),
        ("inspect", "--rows", "jsonl", "--digests", CONDA),
        ("check", "--verify", CONDA),
        ("doctor", CONDA),
        ("slim", CONDA, "--for", "sm_90", "--build-tag", "sm90", "-d", "out"),
    ],
    ids=lambda words: words[0],
)
def test_a_changed_bit_in_an_archive_that_a_zip_stores(words: tuple[str, ...], folder: Path, fatpack: Fatpack) -> None:
    """Zstandard of a conda package has no checksum: the CRC-32 of the zip archive around it is the only one."""
    draw = random.Random(5)
    code = bytes(draw.choices(range(20), k=9000))
    images = [fatbin.entry(fatbin.cubin(sm, code=code[sm:]), sm=sm) for sm in (80, 90)]
    data = conda.package({"lib/a.fatbin": fatbin.fatbin(*images)}, "p", "1.0", "h0")
    (folder / CONDA).write_bytes(data)
    assert fatpack(*words).code == 0
    whole = {path.name: path.read_bytes() for path in folder.glob("out/**/*.cubin")}
    with ZipFile(folder / CONDA) as archive:
        info = next(info for info in archive.infolist() if info.filename.startswith("pkg-"))
    start = info.header_offset + 30 + len(info.filename)
    for _ in range(25):
        bad = bytearray(data)
        bad[start + draw.randrange(info.compress_size)] ^= 1 << draw.randrange(8)
        (folder / CONDA).write_bytes(bad)
        shutil.rmtree(folder / "out", ignore_errors=True)
        assert fatpack(*words).code == 3
        for path in folder.glob("out/**/*.cubin"):
            assert path.read_bytes() == whole[path.name]


def test_doctor_and_extract_agree_on_an_alias_that_is_not_defined(folder: Path, fatpack: Fatpack) -> None:
    ids = {"host": "host-x86_64-unknown-linux-gnu", "device": "cuda-nvptx64-nvidia-cuda--sm_80"}
    uses = {"host": "", "device": "cir.global external @a = #cir.zero : !gone"}
    modules = [
        f'module @{kind} attributes {{cir.offload.bundle_id = "{stored}", '
        f"cir.offload.kind = #cir.offload<{kind}>}} {{\n{uses[kind]}\n}}\n"
        for kind, stored in ids.items()
    ]
    text = f"module attributes {{cir.offload.container}} {{\n{''.join(modules)}}}\n"
    (folder / "k.mlir").write_text(text)
    doctor, extract = fatpack("doctor", "k.mlir"), fatpack("extract", "k.mlir", "-d", "out")
    assert (doctor.code, extract.code) == (3, 3)
    assert "alias !gone is used but not defined" in doctor.out
    (folder / "k.mlir").write_text("!gone = i32\n" + text)
    assert (fatpack("doctor", "k.mlir").code, fatpack("extract", "k.mlir", "-d", "good").code) == (0, 0)


def test_a_changed_bit_is_not_converted(folder: Path, fatpack: Fatpack) -> None:
    draw = random.Random(5)
    code = bytes(draw.choices(range(20), k=9000))
    data = conda.package({"lib/a.fatbin": fatbin.fatbin(fatbin.entry(fatbin.cubin(80, code=code)))}, "p", "1.0", "h0")
    (folder / CONDA).write_bytes(data)
    words = ("convert", f"{CONDA}!pkg-p-1.0-h0.tar.zst!lib/a.fatbin", "--format=fatbin", "-o", "x.fatbin", "--force")
    assert fatpack(*words).code == 0
    whole = (folder / "x.fatbin").read_bytes()
    start = data.index(b"pkg-p-1.0") + len("pkg-p-1.0-h0.tar.zst")
    for at in range(start + 200, start + 3200, 300):
        bad = bytearray(data)
        bad[at] ^= 4
        (folder / CONDA).write_bytes(bad)
        ran = fatpack(*words)
        assert ran.code == 3 or (folder / "x.fatbin").read_bytes() == whole
