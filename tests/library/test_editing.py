"""``embed`` and ``replace`` from Python: a damaged container goes into no host."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack

HOST = FIXTURES / "demo" / "host.o"
CUBINS = FIXTURES / "cuda" / "cubin"
FOUR = FIXTURES / "offload_binary" / "llvm-22-four.bin"


def test_a_damaged_container_is_refused_unless_it_is_accepted(tmp_path: Path) -> None:
    cut, fat, output = tmp_path / "cut.bin", tmp_path / "fat.o", tmp_path / "x.o"
    cut.write_bytes(FOUR.read_bytes()[:-100])
    fatpack.embed(HOST, FOUR, fat)
    for edit, host in ((fatpack.embed, HOST), (fatpack.replace, fat)):
        text = "nothing was written; accept_damage=True embeds it unchanged"
        with pytest.raises(fatpack.FormatError, match=text) as refused:
            edit(host, cut, output)
        assert refused.value.chain == (str(cut),)
        assert not output.exists()
        edit(host, cut, output, accept_damage=True)
        output.unlink()


def test_each_argument_accepts_one_thing(tmp_path: Path) -> None:
    cut, fat, output = tmp_path / "cut.bin", tmp_path / "fat.o", tmp_path / "x.o"
    cut.write_bytes(FOUR.read_bytes()[:-100])
    fatpack.embed(HOST, FOUR, fat)
    output.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        fatpack.embed(HOST, cut, output, accept_damage=True)
    with pytest.raises(fatpack.FormatError):
        fatpack.embed(HOST, cut, output, overwrite=True)
    assert output.read_bytes() == b"old"
    fatpack.embed(HOST, cut, output, overwrite=True, accept_damage=True)
    with pytest.raises(fatpack.UsageError, match=r"100 bytes .*max_output=|more than the 100 bytes"):
        fatpack.embed(HOST, FOUR, output, overwrite=True, max_output=100)


def test_an_image_for_another_target_is_a_mismatch_and_no_damage(tmp_path: Path) -> None:
    cubin = (CUBINS / "k1.cuda13.0.sm_90.cubin").read_bytes()
    image = fatpack.ImageFile(CUBINS / "k1.cuda13.0.sm_80.cubin", "nvptx64-nvidia-cuda", "sm_80", "cuda")
    fatpack.pack([image], tmp_path / "one.bin")
    output = tmp_path / "new.bin"
    for accepted in ({}, {"overwrite": True}, {"accept_damage": True}):
        with pytest.raises(fatpack.UsageError, match="accept_mismatch=True puts it there"):
            fatpack.replace(tmp_path / "one.bin", cubin, output, selector=fatpack.Selector(), **accepted)  # type: ignore[arg-type]
    fatpack.replace(tmp_path / "one.bin", cubin, output, selector=fatpack.Selector(), accept_mismatch=True)
    with fatpack.open(output) as file:
        assert file.images()[0].read() == cubin


@pytest.mark.parametrize(
    "function",
    [fatpack.embed, fatpack.replace, fatpack.remove, fatpack.slim, fatpack.pack, fatpack.convert, fatpack.wrap,
     fatpack.extract, fatpack.link_inputs, fatpack.map_images, fatpack.write_report, fatpack.normalize],
)  # fmt: skip
def test_no_function_has_an_argument_that_forces(function: Callable[..., object]) -> None:
    parameters = inspect.signature(function).parameters
    assert "overwrite" in parameters
    assert not {"force", "unreadable", "unmatched", "on_file", "data"} & parameters.keys()
