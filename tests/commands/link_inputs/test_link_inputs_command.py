"""``fatpack link-inputs``: groups, files, the manifest, and what stops it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import jsonschema
import pytest
from tests.builders import link_lines
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main
from fatpack.text.schemas import schema_text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects")
    link_lines.make_folder(path)
    return path


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder to be in, with all objects."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def _manifest(directory: str = "out") -> dict[str, object]:
    document = json.loads((Path(directory) / "link-inputs.json").read_text())
    jsonschema.validate(document, json.loads(schema_text("link-inputs")))
    return document  # type: ignore[no-any-return]


def _contents(directory: str = "out") -> list[tuple[str, list[str]]]:
    """Return the groups of a manifest: the arch of each, and the bytes of its files, which name object and target."""
    document = _manifest(directory)
    return [
        (group["arch"], [(Path(directory) / name).read_text() for name in group["files"]])
        for group in document["groups"]  # type: ignore[attr-defined]
    ]


def test_objects_and_what_archives_have_for_their_targets_are_linked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["link-inputs", "p.o", "-L", "lib", "-ltwo", "-ltwo", "-d", "out"]) == 0
    amd = "amdgcn-amd-amdhsa"
    twice = [f"q {amd} gfx90a:sramecc+:xnack+"] * 2
    assert _contents() == [("gfx90a:xnack+", [f"p {amd} gfx90a:xnack+", *twice])]
    done = capsys.readouterr()
    assert done.out.splitlines()[0] == f"{amd} gfx90a:xnack+  hip  3 images, 117 B"
    assert (
        "8 images in archives not linked, for targets that nothing else is for: nvptx64-nvidia-cuda sm_80" in done.out
    )
    assert "; --whole-archive in front of lib/libtwo.a takes all of its images\n" in done.out
    assert done.err == "wrote 3 images and out/link-inputs.json\n"


def test_every_image_becomes_one_file_whichever_number_of_groups_it_is_in(folder: Path) -> None:
    assert main(["link-inputs", "p.o", "m.o", "a.o", "-qd", "out"]) == 0
    assert [(arch, len(files)) for arch, files in _contents()] == [("gfx90a:xnack+", 2), ("gfx90a:xnack-", 2)]
    assert len(os.listdir("out")) == 4


def test_rules_of_both_versions(folder: Path) -> None:
    line = ["a.o", "p.o", "-q"]
    assert main(["link-inputs", *line, "-d", "new"]) == main(["link-inputs", *line, "-d", "old", "--llvm=22"]) == 0
    assert [arch for arch, _ in _contents("new")] == ["gfx90a:xnack+"]
    assert [arch for arch, _ in _contents("old")] == ["gfx90a", "gfx90a:xnack+"]


def test_names_of_members_and_targets_decide_no_path(folder: Path) -> None:
    image = fatpack.ImageFile(b"x", triple="../../t", arch="/a b\n", offload="hip")
    fatpack.pack([image], folder / "x.offload")
    assert main(["link-inputs", "x.offload", "-qd", "out"]) == 0
    assert sorted(os.listdir("out")) == ["link-inputs.json", "x-_.._t-_a_b_.0.bin"]


def test_damage_stops_it_and_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((folder / "a.bin").read_bytes())
    data[8] = 0xFF
    (folder / "cut.bin").write_bytes(data)
    assert main(["link-inputs", "p.o", "cut.bin", "-d", "out"]) == 3
    assert not (folder / "out").exists()
    done = capsys.readouterr()
    assert "cut.bin" in done.err
    assert "0x8" in done.err
    assert "nothing was written" in done.err
    with pytest.raises(fatpack.FormatError, match=r"cut\.bin"):
        fatpack.link_inputs(["p.o", "cut.bin"], "out")


def test_images_of_sycl_and_others_for_one_target_are_a_finding(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = [fatpack.ImageFile(b"x", triple="spirv64", arch="", offload=offload) for offload in ("sycl", "openmp")]
    fatpack.pack(pair, folder / "x.offload")
    assert main(["link-inputs", "x.offload"]) == 1
    assert "images of SYCL and of openmp for one target" in capsys.readouterr().err


def test_what_is_not_linked_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FIXTURES / "elf" / "clang-22-hip.o", "hip.o")
    assert main(["link-inputs", "hip.o", "plain.o", "-v", "--", "a.o", "-z", "none.o"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "hip.o: not linked: no offload binary is in it; device code in .hip_fatbin" in lines
    assert "plain.o: not linked: no offload binary is in it" in lines
    assert "none.o: not linked: there is no such file" in lines


def test_a_line_without_images_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link-inputs", "plain.o", "lib/libone.a"]) == 1
    assert "no device image is linked; --whole-archive in front of an archive" in capsys.readouterr().err
    assert main(["link-inputs", "plain.o"]) == 1
    assert capsys.readouterr().err == "fatpack: no device image is linked\n"
    assert main(["link-inputs", "lib/libone.a", "--should-extract", "gfx90a", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("link-inputs")))
    assert [group["arch"] for group in document["groups"]] == ["gfx90a"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no files to link"),
        (["a.o", "--frobnicate"], "No such option"),
        (["a.o", "-L"], "requires an argument"),
        (["a.o", "-lnothing"], "-lnothing: no libnothing.so"),
        (["a.o", "-d", ""], "the directory has no name"),
        (["--whole-archive=yes", "a.o"], "does not take a value"),
    ],
)
def test_wrong_words_are_usage(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["link-inputs", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_is_an_error_and_so_is_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link-inputs", "none.o"]) == 5
    assert main(["link-inputs", "lib"]) == 5
    assert "none.o: No such file" in capsys.readouterr().err


def test_what_exists_is_overwritten_only_by_force(folder: Path) -> None:
    assert main(["link-inputs", "a.o", "-qd", "out"]) == 0
    assert main(["link-inputs", "p.o", "-qd", "out"]) == 2
    assert [arch for arch, _ in _contents()] == ["gfx90a"]
    assert main(["link-inputs", "p.o", "-qfd", "out"]) == 0
    assert [arch for arch, _ in _contents()] == ["gfx90a:xnack+"]


def test_the_library_does_the_same(folder: Path) -> None:
    groups = fatpack.link_inputs([folder / "q.o", "--whole-archive", folder / "lib" / "libone.a"], folder / "out")
    assert [(group.target.arch, group.offloads, group.is_bitcode) for group in groups] == [
        ("gfx90a:sramecc+:xnack+", ("hip",), False),
        ("sm_80", ("cuda",), False),
    ]
    texts = [Path(path).read_text().split()[0] for path in groups[0].paths]
    assert texts == ["q", "p", "a"]
    with pytest.raises(fatpack.UsageError, match="no rules of LLVM 21"):
        fatpack.link_inputs(["q.o"], "new", llvm="21")
    with pytest.raises(fatpack.UsageError, match="by their symbols"):
        fatpack.link_inputs(["q.o"], "new", llvm="19", should_extract=["gfx90a"])
    with pytest.raises(TypeError, match="words are several texts"):
        fatpack.link_inputs("q.o", "new")
