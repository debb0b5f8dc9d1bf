"""``fatpack extract`` of folders and patterns: folders are kept, names are harmless, nothing is half done."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.commands.extract import trees
from fatpack.io.source import View

Fatpack = Callable[..., Ran]

FAT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"
SINGLE = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"


def digests(folder: str) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
    }


@pytest.fixture
def tree(folder: Path) -> Path:
    for name, source in (("t/lib/fat.o", FAT), ("t/lib/deep/single.o", SINGLE), ("t/host.o", folder / "host.o")):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, name)
    return folder


def test_every_file_is_extracted_into_the_folders_around_it(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "t", "-d", "out")
    assert ran.code == 0
    assert ran.err.startswith("4 images extracted; t: 3 files, 2 with device code (4 images in 36.3 kB of files)")
    expected = {}
    for path in ("lib/fat.o", "lib/deep/single.o"):
        one = fatpack("extract", f"t/{path}", "-d", f"one/{os.path.dirname(path)}")
        assert one.out.replace("one/", "out/", 1).splitlines()[0] in ran.out
    expected = digests("one")
    assert digests("out") == expected
    assert len(expected) == 4


def test_selectors_containers_and_dry_runs_work_as_for_one_file(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "t", "-d", "out", "--arch=sm_90", "--dry-run", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "out/lib/deep/single-nvptx64-nvidia-cuda-sm_90.1.cubin",
        "out/lib/deep/single-nvptx64-nvidia-cuda-compute_90.2.ptx",
    ]
    assert not Path("out").exists()
    assert fatpack("extract", "t", "-d", "out", "--arch=sm_90").code == 0
    assert sorted(digests("out")) == sorted(line.removeprefix("out/") for line in ran.out.splitlines())
    assert fatpack("extract", "t", "-d", "whole", "--containers").code == 0
    assert sorted(digests("whole")) == ["lib/deep/single.0.fatbin", "lib/fat.0.offload"]
    ran = fatpack("extract", "t", "-d", "none", "--arch=sm_10")
    assert ran.code == 1
    present = "architectures present: gfx90a, sm_80, sm_90, compute_90"
    assert f"fatpack: t: no images that match --arch=sm_10; {present}\n" in ran.err
    ran = fatpack("extract", "t", "-d", "none", "--form=cubn")
    assert "fatpack: t: no images that match --form=cubn; forms present: bitcode, cubin, ptx\n" in ran.err
    ran = fatpack("extract", "t", "-d", "none", "--arch=compute_90", "--form=cubin")
    present = "forms present with --arch=compute_90: ptx"
    assert f"match --arch=compute_90 --form=cubin; {present}\n" in ran.err
    ran = fatpack("extract", "t", "-d", "none", "--kernel=none")
    assert "fatpack: t: no images that match --kernel=none\n" in ran.err
    assert fatpack("extract", "t", "-d", "none", "--arch=sm_10", "--allow-missing").code == 0
    assert not Path("none").exists()


def test_nothing_is_written_if_anything_is_there(tree: Path, fatpack: Fatpack) -> None:
    Path("out/lib/deep").mkdir(parents=True)
    Path("out/lib/deep/single-nvptx64-nvidia-cuda-compute_90.2.ptx").write_text("mine")
    ran = fatpack("extract", "t", "-d", "out")
    assert (ran.code, ran.out) == (2, "")
    assert "compute_90.2.ptx exists" in ran.err
    assert len(digests("out")) == 1
    assert fatpack("extract", "t", "-d", "out", "--force").code == 0
    assert len(digests("out")) == 4


def test_nothing_is_written_through_a_link(tree: Path, fatpack: Fatpack) -> None:
    Path("elsewhere").mkdir()
    Path("out").mkdir()
    Path("out/lib").symlink_to("../elsewhere")
    for force in ([], ["--force"]):
        ran = fatpack("extract", "t", "-d", "out", *force)
        assert (ran.code, ran.out) == (2, "")
        assert "out/lib is a link" in ran.err
    assert not list(Path("elsewhere").iterdir())


def test_nothing_is_written_through_a_link_of_an_images_name(tree: Path, fatpack: Fatpack) -> None:
    assert fatpack("extract", "t", "-d", "out").code == 0
    Path("mine").write_text("mine")
    image = Path("out/lib/deep/single-nvptx64-nvidia-cuda-compute_90.2.ptx")
    image.unlink()
    image.symlink_to(Path("mine").absolute())
    ran = fatpack("extract", "t", "-d", "out", "--force")
    assert (ran.code, ran.out) == (2, "")
    assert f"{image} is a link" in ran.err
    assert Path("mine").read_text() == "mine"


def test_folders_in_a_package_may_be_deeper_than_any_path(folder: Path, fatpack: Fatpack) -> None:
    with zipfile.ZipFile("deep.zip", "w") as package:
        package.writestr("p/" * 30_000 + "single.o", SINGLE.read_bytes())
        package.writestr(("q" * 100 + "/") * 100 + "single.o", SINGLE.read_bytes())
    ran = fatpack("extract", "deep.zip", "-d", "out", "--form=ptx")
    assert ran.code == 0
    names = sorted(digests("out"))
    assert [name.rpartition("/")[2] for name in names] == ["single-nvptx64-nvidia-cuda-compute_90.2.ptx"] * 2
    assert [name.count("/") for name in names] == [256, 25]


def test_files_with_images_of_the_same_names_get_folders_of_their_own(tree: Path, fatpack: Fatpack) -> None:
    shutil.copy(SINGLE, "t/lib/deep/single.so")
    shutil.copy(SINGLE, "t/lib/deep/a b.o")
    shutil.copy(SINGLE, "t/lib/deep/a_b.o")
    assert fatpack("extract", "t", "-d", "out", "--form=ptx").code == 0
    assert sorted(digests("out")) == [
        "lib/deep/a_b-nvptx64-nvidia-cuda-compute_90.2.ptx",
        "lib/deep/a_b.o/a_b-nvptx64-nvidia-cuda-compute_90.2.ptx",
        "lib/deep/single-nvptx64-nvidia-cuda-compute_90.2.ptx",
        "lib/deep/single.so/single-nvptx64-nvidia-cuda-compute_90.2.ptx",
    ]


def test_one_output_takes_one_file(tree: Path, fatpack: Fatpack) -> None:
    for options in (["-o", "x"], ["-o", "x", "--archive"]):
        ran = fatpack("extract", "t", *options)
        assert (ran.code, "-o names one file, and t has many" in ran.err) == (2, True)


def test_what_is_damaged_is_reported_and_all_else_is_written(tree: Path, fatpack: Fatpack) -> None:
    Path("t/lib/cut.o").write_bytes(FAT.read_bytes()[:500])
    ran = fatpack("extract", "t", "-d", "out")
    assert ran.code == 3
    assert "t/lib/cut.o" in ran.err
    assert len(digests("out")) == 4


def test_convert_says_that_it_takes_one_file(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("convert", "t", "--format=bundle")
    assert (ran.code, "t means many files, and convert makes one container of one" in ran.err) == (2, True)


@pytest.mark.parametrize("passes", [{1}, {2}, {1, 2}])
def test_a_file_that_cannot_be_read_in_one_pass_keeps_no_other_from_its_place(
    tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, passes: set[int]
) -> None:
    assert fatpack("extract", "t", "-d", "whole").code == 0
    seen = 0

    def failing(view: View, **options: bool) -> object:
        nonlocal seen
        if view.chain[0] == "t/lib/deep/single.o":
            seen += 1
            if seen in passes:
                raise OSError(errno.EIO, "Input/output error")
        return scan(view, **options)

    scan = trees.scan_with_standalone_images
    monkeypatch.setattr(trees, "scan_with_standalone_images", failing)
    ran = fatpack("extract", "t", "-d", "out")
    assert ran.code == 5
    assert ran.err.count("fatpack: error: t/lib/deep/single.o: ") == 1
    assert "1 image extracted; t: 2 files, 1 with device code" in ran.err
    assert digests("out") == {name: data for name, data in digests("whole").items() if "single" not in name}


def test_files_that_come_and_go_between_the_passes_move_no_images(
    tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(work: trees._Extraction) -> None:
        plan(work)
        shutil.copy(SINGLE, "t/a.o")
        Path("t/lib/fat.o").unlink()

    plan = trees._Extraction.plan
    monkeypatch.setattr(trees._Extraction, "plan", planned)
    ran = fatpack("extract", "t", "-d", "out")
    assert ran.code == 5
    assert "fatpack: error: t/a.o: the file changed, or could not be read" in ran.err
    assert sorted(digests("out")) == [
        "lib/deep/single-nvptx64-nvidia-cuda-compute_90.2.ptx",
        "lib/deep/single-nvptx64-nvidia-cuda-sm_80.0.cubin",
        "lib/deep/single-nvptx64-nvidia-cuda-sm_90.1.cubin",
    ]


@pytest.mark.parametrize("trial", [(), ("--dry-run",)])
def test_images_that_cannot_be_read_are_not_counted_as_extracted(
    folder: Path, fatpack: Fatpack, trial: tuple[str, ...]
) -> None:
    obfuscated = FIXTURES / "cuda_fatbin/v130_ltoir.fatbin"
    Path("t").mkdir()
    shutil.copy(obfuscated, "t/a.fatbin")
    shutil.copy(SINGLE, "t/single.o")
    ran = fatpack("extract", "t", "-d", "out", *trial)
    assert ran.code != 0
    paths = ran.out.splitlines()
    verb = "would be extracted" if trial else "extracted"
    assert f"{len(paths)} images {verb}, 1 not: LTO-IR that cannot be read; --form cubin,ptx leaves it out; " in ran.err
    assert trial or len(digests("out")) == len(paths)
    assert fatpack("extract", "t", "-d", "again", "--form", "cubin,ptx", *trial).code == 0
