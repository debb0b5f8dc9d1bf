"""``fatpack replace HOST NEW --arch …``: one image exchanged, as the owning tools read the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

import fatpack
from fatpack.main import main

HIP = str(FIXTURES / "elf" / "clang-22-hip.o")
CUDA = str(FIXTURES / "cuda_fatbin" / "hosts" / "single.o")
CUBIN = str(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin")
TARGET = "hipv4-amdgcn-amd-amdhsa--gfx90a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def archs(path: str) -> list[tuple[str, int]]:
    with fatpack.open(path) as file:
        return [(image.target.arch, image.size) for image in file.images()]


def gfx90a(folder: Path) -> bytes:
    """Return another code object for gfx90a, which goes into ``new.hsaco``."""
    with fatpack.open(HIP) as file:
        (image,) = file.images(arch="gfx90a")
        data = bytearray(image.data.tobytes())
    data[15] = 1  # EI_PAD
    (folder / "new.hsaco").write_bytes(data)
    return bytes(data)


def test_the_new_image_comes_out_of_the_object_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = gfx90a(folder)
    assert main(["replace", HIP, "new.hsaco", "--arch", "gfx90a", "-o", "new.o"]) == 0
    assert "replaced 0.2 hip amdgcn-amd-amdhsa gfx90a code-object: " in capsys.readouterr().err
    assert archs("new.o") == archs(HIP)
    run(tool("llvm-objcopy"), "--dump-section=.hip_fatbin=x.hipfb", "new.o")
    bundler = [tool("clang-offload-bundler"), "-type=bc", "-unbundle", "-input=x.hipfb"]
    run(*bundler, f"-targets={TARGET}", "-output=x.hsaco")
    assert Path("x.hsaco").read_bytes() == new
    run(tool("llvm-readelf"), "-a", "new.o")


def test_a_cubin_is_replaced_and_cuobjdump_lists_it(folder: Path) -> None:
    assert main(["replace", CUDA, CUBIN, "--arch=sm_90", "--form=cubin", "-qo", "new.o"]) == 0
    listed = run(tool("cuobjdump"), "-lelf", "-lptx", "new.o").stdout.decode()
    assert [line.split(".")[-2] for line in listed.splitlines() if ".cubin" in line] == ["sm_80", "sm_90"]
    run(tool("cuobjdump"), "-xelf", "all", "new.o")
    extracted = next(folder.glob("*sm_90.cubin")).read_bytes()
    assert extracted == Path(CUBIN).read_bytes()


def test_llvm_offload_binary_reads_the_image_of_a_container(folder: Path) -> None:
    four = FIXTURES / "offload_binary" / "llvm-22-four.bin"
    Path("four.bin").write_bytes(four.read_bytes())
    Path("new").write_bytes(b"other bytes, and more of them")
    with fatpack.open(str(four)) as file:
        arch = next(image.target.arch for image in file.images() if image.target.arch)
    assert main(["replace", "four.bin", "new", "--arch", arch, "--in-place", "--force", "-q"]) == 0
    run(tool("llvm-offload-binary"), "four.bin", f"--image=file=out,arch={arch}")
    assert Path("out").read_bytes() == b"other bytes, and more of them"


def test_every_member_of_an_archive_is_selected_with_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = gfx90a(folder)
    for name in ("a.o", "b.o"):
        Path(name).write_bytes(Path(HIP).read_bytes())
    run(tool("llvm-ar"), "rcs", "libx.a", "a.o", "b.o")
    words = ["replace", "libx.a", "new.hsaco", "--arch=gfx90a", "-o", "new.a"]
    assert main(words) == 2
    assert "2 images match, and one is replaced: a.o: 0.2 hip" in capsys.readouterr().err
    assert not Path("new.a").exists()
    assert main([*words, "--all"]) == 0
    with fatpack.open("new.a") as file:
        assert [image.data.tobytes() for image in file.images(arch="gfx90a")] == [new, new]
    assert main(["replace", "libx.a(b.o)", "new.hsaco", "--arch=gfx90a", "-o", "one.a"]) == 0
    with fatpack.open("one.a") as file:
        assert [image.data.tobytes() == new for image in file.images(arch="gfx90a")] == [False, True]


def test_a_dry_run_writes_nothing_and_says_what_would_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gfx90a(folder)
    assert main(["replace", HIP, "new.hsaco", "--arch=gfx90a", "--dry-run"]) == 0
    err = capsys.readouterr().err
    assert "would replace 0.2 hip" in err
    assert "1 image; " in err
    assert sorted(path.name for path in folder.iterdir()) == ["new.hsaco"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--arch=sm_80"], 1, "no image to replace that matches --arch=sm_80; architectures present: (no arch), gfx"),
        (["--arch=gfx1100"], 2, "the new image does not fit: stored for gfx1100, but the image is a code object"),
        (["--arch=gfx90a", "--section=.hip_fatbin"], 2, "--section and a selector exclude each other"),
        (["--dry-run"], 2, "--dry-run goes with selectors"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    gfx90a(folder)
    assert main(["replace", HIP, "new.hsaco", *words, "-o", "new.o"]) == code
    assert told in capsys.readouterr().err
    assert not Path("new.o").exists()


def test_the_library_replaces_one_image(folder: Path) -> None:
    new = gfx90a(folder)
    fatpack.replace(HIP, "new.hsaco", "new.o", selector=fatpack.Selector(arch="gfx90a"))
    with fatpack.open("new.o") as file:
        (image,) = file.images(arch="gfx90a")
        assert image.data.tobytes() == new
    with pytest.raises(fatpack.UsageError, match="every=True goes with a selector"):
        fatpack.replace(HIP, "new.hsaco", "x.o", every=True)
    with pytest.raises(fatpack.UsageError, match="section and a selector exclude each other"):
        fatpack.replace(HIP, "new.hsaco", "x.o", section=".hip_fatbin", selector=fatpack.Selector())
