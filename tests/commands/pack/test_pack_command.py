"""``fatpack pack`` as users type it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.formats.cuda_fatbin.writer import DEFAULT_PRODUCER

Fatpack = Callable[..., Ran]
A = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80"
B = "--image=file=b.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"


def test_the_users_own_example_works_letter_for_letter(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "wrote a.offload: 1 image, 7.73 kB\n"
    assert (folder / "a.offload").read_bytes()[:4] == b"\x10\xff\x10\xad"


def test_the_default_name_is_documented_in_the_help(fatpack: Fatpack) -> None:
    text = fatpack("pack", "--help").out
    assert "STEM.offload" in text
    assert "STEM.offload.o" in text


def test_an_existing_output_is_refused_until_forced(folder: Path, fatpack: Fatpack) -> None:
    (folder / "x").write_bytes(b"mine")
    ran = fatpack("pack", A, "-o", "x")
    assert ran.code == 2
    assert ran.err == "fatpack: error: x: File exists; give another name, or --force to overwrite it\n"
    assert (folder / "x").read_bytes() == b"mine"
    assert fatpack("pack", A, "-o", "x", "--force").code == 0


def test_an_input_is_never_the_output(folder: Path, fatpack: Fatpack) -> None:
    before = (folder / "a.cubin").read_bytes()
    ran = fatpack("pack", A, "-o", "a.cubin")
    assert ran.code == 2
    assert "is an input of this command" in ran.err
    assert (folder / "a.cubin").read_bytes() == before


def test_stdout_gets_the_container_and_nothing_else(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    from fatpack.main import main

    assert main(["pack", A, "-o", "x", "-q"]) == 0
    capfdbinary.readouterr()
    assert main(["pack", A, "-o", "-"]) == 0
    streams = capfdbinary.readouterr()
    assert streams.out == (folder / "x").read_bytes()
    assert streams.err == b""


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_every_version_is_packed_and_read_back(folder: Path, fatpack: Fatpack, version: str) -> None:
    assert fatpack("pack", A, B, "--container-version", version, "-o", "x").code == 0
    text = fatpack("inspect", "x").out
    assert f"llvm-offload-binary v{version}" in text
    assert "sm_80  cubin" in text
    assert "sm_90  cubin" in text


@pytest.mark.parametrize("how", [["--compress"], ["--compress", "--compression=zlib", "--compression-level=9"]])
def test_version_3_is_compressed(folder: Path, fatpack: Fatpack, how: list[str]) -> None:
    assert fatpack("pack", A, B, "--container-version=3", *how, "-o", "x").code == 0
    assert (folder / "x").stat().st_size < 8000
    assert fatpack("extract", "x", "-d", "out", "-q").code == 0
    assert sorted(path.read_bytes() for path in (folder / "out").iterdir()) == sorted(
        (folder / name).read_bytes() for name in ("a.cubin", "b.cubin")
    )


def test_a_host_gets_the_container_and_keeps_the_rest(folder: Path, fatpack: Fatpack) -> None:
    before = (folder / "host.o").read_bytes()
    ran = fatpack("pack", f"{A},kind=cuda", B, "--host=host.o")
    assert (ran.code, ran.err) == (0, f"wrote host.offload.o: 2 images, {_words(folder / 'host.offload.o')}\n")
    assert (folder / "host.o").read_bytes() == before
    assert fatpack("extract", "host.offload.o", "-d", "out", "-q").code == 0
    assert (folder / "out" / "host.offload-nvptx64-nvidia-cuda-sm_80.0.cubin").read_bytes() == (
        folder / "a.cubin"
    ).read_bytes()


def test_an_image_without_a_kind_in_a_host_is_reported(folder: Path, fatpack: Fatpack) -> None:
    """clang-linker-wrapper 22 links such images, and registers none of them."""
    note = "fatpack: note: clang-linker-wrapper puts no image without a kind into programs; add kind=cuda, "
    assert note in fatpack("pack", A, B, "--host=host.o", "-o", "x.o").err
    assert note not in fatpack("pack", A, "-o", "x").err


def _words(path: Path) -> str:
    from fatpack.printable import format_size

    return format_size(path.stat().st_size)


def test_a_wrong_arch_is_a_warning_not_an_error(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", A.replace("sm_80", "sm_90"), "-o", "x")
    assert ran.code == 1
    assert "warning FP1102: a.cubin: " in ran.err


def test_an_unknown_kind_is_named(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", A + ",kind=CUDA", "-o", "x")
    assert ran.code == 1
    assert "kind=CUDA is no offload kind, stored as none; choose from openmp, cuda, hip, sycl" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pack"], 2, "there is nothing to pack; name images with --image=file=PATH,triple=TRIPLE"),
        (["pack", "--image=triple=t"], 2, "--image=triple=t has no file"),
        (["pack", "--image=file=none.cubin"], 5, "none.cubin: No such file or directory"),
        (["pack", "--image=file=."], 5, ".: Is a directory"),
        (["pack", A, "-o", "nowhere/x"], 5, "nowhere/x: No such file or directory"),
        (["pack", A, "-o", "."], 5, ".: Is a directory"),
        (["pack", A, "--container-version=4"], 2, "'4' is no whole number from 1 to 3"),
        (["pack", A, "--compress"], 2, "only container version 3 can be compressed"),
        (["pack", A, "--compression=zlib"], 2, "need --compress"),
        (["pack", A, "--host=pkg.bin"], 4, "this is no object file"),
        (["pack", A, "--host=none.o"], 5, "none.o: No such file or directory"),
        (["pak"], 2, "no command 'pak'; did you mean pack?"),
        (["@none"], 5, "none: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_one_line_and_leaves_nothing(
    folder: Path, fatpack: Fatpack, arguments: list[str], code: int, message: str
) -> None:
    before = sorted(os.listdir(folder))
    ran = fatpack(*arguments)
    assert ran.code == code
    assert message in ran.err
    assert ran.err.startswith("fatpack: error: ")
    assert ran.out == ""
    assert sorted(os.listdir(folder)) == before


def test_a_response_file_holds_arguments(folder: Path, fatpack: Fatpack) -> None:
    (folder / "args").write_text(f'"{A}"\n-o "with blank"\n')
    assert fatpack("pack", "@args").code == 0
    assert (folder / "with blank").exists()


def test_a_full_disk_is_an_input_output_error(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", A, "-o", "/dev/full", "--force")
    assert ran.code == 5
    assert "No space left on device" in ran.err


@pytest.mark.parametrize(
    ("option", "doubt"),
    [
        ("file=a.cubin,triple=nvptx64-nvidia-cuda,arch=SM_80", "arch=SM_80 is unknown; did you mean sm_80"),
        (
            "file=a.cubin,tripel=nvptx64-nvidia-cuda,triple=t",
            "tripel= is stored as a key of its own; did you mean triple=?",
        ),
        (
            "file=a.cubin,triple=amdgcn-amd-amdhsa,arch=sm_80",
            "warning: arch=sm_80 is of NVIDIA, and triple=amdgcn-amd-amdhsa is not\n",
        ),
        (
            "file=a.cubin,triple=nvptx64-nvida-cuda,arch=sm_80,kind=cuda",
            "triple=nvptx64-nvida-cuda is unknown; did you mean nvptx64-nvidia-cuda?",
        ),
        ("file=a.cubin,triple=nvptx46-nvidia-cuda,arch=sm_80", "did you mean nvptx64-nvidia-cuda?"),
        ("file=a.cubin,triple=amdgcn-amd-amdhas,arch=gfx90a", "did you mean amdgcn-amd-amdhsa?"),
        ("file=a.cubin,triple=spir46_gen,arch=pvc", "did you mean spir64_gen?"),
        ("file=a.cubin,triple=t,arhc=sm_80", "arhc= is stored as a key of its own; did you mean arch=?"),
        (
            "file=a.cubin,id=hip-amdgcn-amd-amdhsa--gfx90a",
            "id= is stored as a key of its own, which no tool reads; did you mean triple=, arch= and kind=?",
        ),
        ("file=text", "has no triple; tools will not know which device it is for"),
        (
            "file=text,triple=nvptx64-nvidia-cuda,kind=cuda",
            "has no arch; tools will not know which device it is for",
        ),
        (
            "file=a.cubin,triple=nvptx64-nvidia-cuda,kind=cuda,arch=sm_80,sm_90",
            "sm_90 has no =, and is stored as a key without a value; give each architecture an --image= of its own",
        ),
    ],
)
def test_slips_are_pointed_out(folder: Path, fatpack: Fatpack, option: str, doubt: str) -> None:
    (folder / "text").write_text("no image")
    ran = fatpack("pack", f"--image={option}", "-o", "x")
    assert ran.code == 1
    assert doubt in ran.err
    assert (folder / "x").exists()
    assert fatpack("pack", f"--image={option}", "-q", "--dry-run").code == 1


@pytest.mark.parametrize(
    ("output", "options", "magic"),
    [
        ("y.fatbin", (), b"\x50\xed\x55\xba"),
        ("k.bundle", (), b"__CLANG_OFFLOAD_BUNDLE__"),
        ("k.bundle", ("--format=offload-binary",), b"\x10\xff\x10\xad"),
        ("k.bin", (), b"\x10\xff\x10\xad"),
    ],
)
def test_the_format_is_that_of_the_suffix(
    folder: Path, fatpack: Fatpack, output: str, options: tuple[str, ...], magic: bytes
) -> None:
    assert fatpack("pack", f"{A},kind={'elf' if output == 'y.fatbin' else 'openmp'}", "-o", output, *options).code == 0
    assert Path(output).read_bytes().startswith(magic)


@pytest.mark.parametrize(
    "triple",
    [
        "nvptx64-nvidia-cuda--",
        "amdgpu9.0a-amd-amdhsa",
        "amdgcn-amd-amdpal",
        "amdgcn-mesa-mesa3d",
        "spirv64v1.6-unknown-unknown",
        "x86_64-redhat-linux-gnu",
        "x86_64-linux-gnu",
        "fpga_aocx-intel-unknown",
        "native_cpu",
        "spirv64-intel",
    ],
)
def test_triples_that_compilers_write_are_no_slips(folder: Path, fatpack: Fatpack, triple: str) -> None:
    ran = fatpack("pack", f"--image=file=a.cubin,triple={triple},arch=gfx90a", "-o", "x")
    assert f"triple={triple} is unknown" not in ran.err


@pytest.mark.parametrize("format", ["offload-binary", "bundle"])
@pytest.mark.parametrize(
    ("file", "stated", "added"),
    [
        ("a.cubin", "", "triple=nvptx64-nvidia-cuda,arch=sm_80"),
        ("a.cubin", ",triple=nvptx64-nvidia-cuda", "arch=sm_80"),
        ("k.ptx", ",arch=sm_90", "triple=nvptx64-nvidia-cuda"),
    ],
)
def test_a_triple_and_an_arch_that_the_image_states_are_added(
    folder: Path, fatpack: Fatpack, format: str, file: str, stated: str, added: str
) -> None:
    given = f"file={file},kind=openmp{stated}"
    ran = fatpack("pack", f"--image={given}", f"--format={format}", "-o", "x")
    assert f"fatpack: note: --image={given}: added {added}, which the image states\n" in ran.err
    fatpack("pack", f"--image={given},{added}", f"--format={format}", "-o", "whole")
    assert (folder / "x").read_bytes() == (folder / "whole").read_bytes()


@pytest.mark.parametrize("keys", ["triple=amdgcn-amd-amdhsa", "triple=,arch="])
def test_nothing_is_added_that_contradicts_the_option(folder: Path, fatpack: Fatpack, keys: str) -> None:
    ran = fatpack("pack", f"--image=file=a.cubin,{keys}", "-o", "x")
    assert "added" not in ran.err


def test_what_is_packed_needs_its_option(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--image", "a.cubin", "-o", "x")
    assert ran.code == 2
    assert "--image=a.cubin has no file=; write --image=file=a.cubin, with ,triple=TRIPLE," in ran.err
    ran = fatpack("pack", "a.cubin")
    assert (ran.code, "Try 'fatpack pack --help', or as in: fatpack pack --image file=k.cubin" in ran.err) == (2, True)


def test_a_bundle_id_that_is_none_is_pointed_out(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=bundle", "--image=file=a.cubin,id=foo", "-o", "x")
    assert ran.code == 1
    assert "id=foo is no bundle ID, and no tool will take that image" in ran.err
    ran = fatpack("pack", "--format=bundle", "--image=file=a.cubin,id=hip-amdgcn-amd-amdhsa--gfx90a", "-o", "y")
    assert (ran.code, "bundle ID" in ran.err) == (1, False)


@pytest.mark.parametrize("arch", ["sm_80", "sm_999", "generic", ""])
def test_future_and_generic_names_are_no_slips(folder: Path, fatpack: Fatpack, arch: str) -> None:
    ran = fatpack("pack", f"--image=file=k.ptx,triple=nvptx64-nvidia-cuda,arch={arch}", "-o", "x")
    assert "unknown" not in ran.err


def test_help_names_the_producer_that_is_followed_without_an_option(fatpack: Fatpack) -> None:
    assert f"of this CUDA version. Default: {DEFAULT_PRODUCER}." in " ".join(fatpack("help", "formats").out.split())


def test_a_triple_that_a_cir_module_states_is_added(folder: Path, fatpack: Fatpack) -> None:
    samples = FIXTURES / "cir" / "samples"
    host = f"--image=file={samples / 'host_2026.cir'},kind=host"
    device = f"--image=file={samples / 'device_sm80_2026.cir'},kind=cuda,arch=sm_80"
    ran = fatpack("pack", "--format=cir", host, device, "-o", "short.cir")
    assert f"fatpack: note: {device}: added triple=nvptx64-nvidia-cuda, which the image states\n" in ran.err
    whole = [f"{host},triple=x86_64-unknown-linux-gnu", f"{device},triple=nvptx64-nvidia-cuda"]
    fatpack("pack", "--format=cir", *whole, "-o", "whole.cir")
    assert (folder / "short.cir").read_bytes() == (folder / "whole.cir").read_bytes()
