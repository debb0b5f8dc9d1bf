"""A survey reads a number of bytes that depends on the tables of a file, not on its size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builders import elf

import fatpack
from fatpack import limits
from fatpack.commands.survey.worker import SurveyTask, TaskOptions, run_task
from fatpack.tabular.columns import RowOptions

OPTIONS = TaskOptions(RowOptions(), "jsonl")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads of files."""
    sizes: list[int] = []
    pread = os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    return sizes


def _library(path: Path, size: int) -> None:
    """Write a library with ten images of a size."""
    images = path.with_suffix(".bin")
    image = path.with_suffix(".image")
    image.write_bytes(b"\x7fELF" + b"\1" * size)
    files = [fatpack.ImageFile(image, arch=f"sm_{number}", triple="nvptx64-nvidia-cuda") for number in range(70, 80)]
    fatpack.pack(files, images, format="offload-binary", overwrite=True)
    made = elf.Elf()
    made.add(".llvm.offloading", images.read_bytes())
    made.add(".text", b"\1" * size)
    path.write_bytes(made.build())


def test_larger_images_cost_no_more(tmp_path: Path, counted: list[int]) -> None:
    costs = []
    for size in (100_000, 1_000_000):
        _library(tmp_path / "x.so", size)
        counted.clear()
        result = run_task(SurveyTask(0, str(tmp_path / "x.so")), OPTIONS)
        assert result.count == 10
        costs.append((len(counted), sum(counted)))
    (few, some), (as_few, more) = costs
    assert few == as_few
    assert some < more + 16384 < 500_000
    assert more < some + 16384


def test_a_library_without_data_and_a_large_file_without_device_code_cost_their_heads(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEARCHED", 4_000_000)
    made = elf.Elf(type=3)
    made.add(".text", b"\1" * 5_000_000)
    for data in (b"\1" * 5_000_000, made.build()):
        path = tmp_path / "x"
        path.write_bytes(data)
        counted.clear()
        run_task(SurveyTask(0, str(path)), OPTIONS)
        assert sum(counted) <= 64 << 10
