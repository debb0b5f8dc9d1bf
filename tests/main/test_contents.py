"""Completions from the content of the typed file: quick, and without text that could harm a shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.command_line.param_types import values_in_files
from fatpack.main.click_app import click_group
from fatpack.main.completion import Zsh

CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"
CUBINS = FIXTURES / "cuda" / "cubin"


def offered(*words: str) -> list[str]:
    return [item.value for item in Zsh(click_group, {}, "fatpack", "").get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--arch", ["gfx90a:xnack+", "sm_70", "sm_80"]),
        ("--offload", ["cuda", "hip", "openmp", "sycl"]),
    ],
)
def test_what_the_file_holds_is_offered(option: str, words: list[str]) -> None:
    assert values_in_files(option[2:], [str(CONTAINER)]) == words
    assert offered("extract", str(CONTAINER), option, "") == words
    assert offered("extract", str(CONTAINER), f"{option}=") == [f"{option}={word}" for word in words]
    assert offered("extract", str(CONTAINER), option, f"{words[0]},") == [f"{words[0]},{word}" for word in words]
    assert offered("extract", str(CONTAINER), option, f"!{words[0][:3]}")[0] == f"!{words[0]}"


@pytest.mark.parametrize("command", ["extract", "convert", "remove", "slim"])
def test_commands_that_choose_images_offer_what_is_there(command: str) -> None:
    option = "--keep" if command == "slim" else "--arch"
    words = offered(command, str(CONTAINER), option, "")
    assert words == values_in_files("arch", [str(CONTAINER)])


@pytest.mark.parametrize(("command", "option"), [("explain", "--device"), ("check", "--require"), ("slim", "--for")])
def test_devices_are_offered_whatever_the_file_holds(command: str, option: str) -> None:
    words = offered(command, str(CONTAINER), option, "")
    whole = values_in_files("arch", [str(CONTAINER)])
    assert whole is not None
    assert words[: len(whole)] == whole, "those of the file come first"
    assert "sm_121" in words
    assert len(words) == len(set(words))


def test_an_image_that_is_a_file_says_itself_what_it_is_for() -> None:
    cubin = str(CUBINS / "k1.cuda13.0.sm_90.cubin")
    assert offered("check", cubin, "--require", "")[0] == "sm_90"
    assert offered("explain", cubin, "--device", "sm_90", "--kernel", "")[-1].endswith("add_one")
    assert values_in_files("id", [cubin]) is None


def test_kernels_and_bundle_ids_of_the_file_are_offered() -> None:
    fatbin = str(FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin")  # with what is compressed
    names = sorted({name for image in fatpack.open(fatbin).images() for name in image.kernel_names})
    assert names
    assert offered("extract", fatbin, "--kernel", "") == names
    assert offered("explain", fatbin, "--device", "sm_80", "--kernel", names[0][:3])[0] == names[0]
    ids = offered("extract", str(CONTAINER), "--id", "")
    assert {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "cuda-nvptx64-nvidia-cuda--sm_70"} < set(ids)


def test_stand_ins_offer_what_their_files_hold() -> None:
    fatbin = str(FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin")
    assert offered("tool", "cuobjdump", fatbin, "-arch", "sm_") == ["sm_80", "sm_90"]
    assert offered("tool", "nvprune", "-o", "x", fatbin, "--arch=sm_") == ["--arch=sm_80", "--arch=sm_90"]
    names = sorted({name for image in fatpack.open(fatbin).images() for name in image.kernel_names})
    assert offered("tool", "cuobjdump", "-res-usage", fatbin, "-fun", "") == names
    ids = offered("tool", "clang-offload-bundler", "--type=o", f"-input={CONTAINER}", "-targets=hip")
    assert ids == ["-targets=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"]


@pytest.mark.parametrize(
    "path", ["no-such-file", "damaged", ".", "pipe", "https://127.0.0.1:9/x", "text", "a(b)", "~x/y"]
)
def test_what_cannot_be_told_is_left_to_the_vocabulary(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "damaged").write_bytes(CONTAINER.read_bytes()[:20])
    (tmp_path / "text").write_text("hello")
    assert "sm_90a" in offered("extract", path, "--arch", "sm_9")
    assert capfd.readouterr() == ("", "")


def test_listing_stops_when_nobody_waits_longer() -> None:
    assert values_in_files("arch", [str(CONTAINER)], patience=-1) is None


def test_a_name_with_the_shells_own_characters_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = tmp_path / "evil.bin"
    evil.write_bytes(CONTAINER.read_bytes().replace(b"sm_70", b"$(x)`"))
    assert "$(x)`" in {image.target.arch for image in fatpack.open(evil).images()}
    assert values_in_files("arch", [str(evil)]) == ["gfx90a:xnack+", "sm_80"]
    assert values_in_files("arch", [str(CONTAINER)]) == ["gfx90a:xnack+", "sm_70", "sm_80"]
