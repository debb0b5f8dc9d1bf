"""``fatpack slim``: files in, smaller files out, and what is said about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from tests.builders.archive import GNU, member
from tests.builders.fatbin import of_words
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.main import main
from fatpack.text.schemas import schema_text

#: an object of nvcc with fat binaries
OBJECT = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"


def archs(path: Path) -> list[str]:
    with library.open(path) as file:
        return [f"{image.form} {image.target.arch}" for found in file.containers for image in found.images]


@pytest.fixture
def fatbin(tmp_path: Path) -> Path:
    path = tmp_path / "x.fatbin"
    path.write_bytes(of_words("80 86 90 p80 p90"))
    return path


def test_a_container_keeps_what_a_device_takes(fatbin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fatbin.with_name("y.fatbin")
    assert main(["slim", str(fatbin), "--for", "sm_86", "-o", str(out)]) == 0
    assert archs(out) == ["cubin sm_86", "ptx sm_90"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["file", "before", "after", "saved", "kept", "dropped"]
    assert printed[1].endswith("compute_90 sm_86  compute_80 sm_80 sm_90")


def test_slimming_again_changes_nothing(fatbin: Path) -> None:
    once, twice = fatbin.with_name("1"), fatbin.with_name("2")
    assert main(["slim", str(fatbin), "--for", "sm_86", "-o", str(once), "-q"]) == 0
    assert main(["slim", str(once), "--for", "sm_86", "-o", str(twice), "-q"]) == 0
    assert once.read_bytes() == twice.read_bytes()


def test_in_place_and_into_a_folder(fatbin: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.fatbin"
    other.write_bytes(of_words("80 86"))
    assert main(["slim", str(fatbin), str(other), "--drop", "sm_80", "-d", str(tmp_path / "out"), "-q"]) == 0
    assert archs(tmp_path / "out" / "other.fatbin") == ["cubin sm_86"]
    assert "cubin sm_80" in archs(fatbin)
    assert main(["slim", str(fatbin), str(other), "--drop", "sm_80", "--in-place", "-q"]) == 0
    assert "cubin sm_80" not in archs(fatbin)


def test_of_a_folder_everything_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "site" / "lib"
    home.mkdir(parents=True)
    (home / "a.fatbin").write_bytes(of_words("80 90"))
    (home / "b.fatbin").write_bytes(of_words("90"))
    (home / "c.bin").write_bytes(b"no device code")
    out = tmp_path / "out"
    assert main(["slim", str(tmp_path / "site"), "--for", "sm_90", "-d", str(out)]) == 0
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == ["a.fatbin", "b.fatbin", "c.bin"]
    assert archs(out / "lib" / "a.fatbin") == ["cubin sm_90"]
    printed = capsys.readouterr().out
    assert "b.fatbin: unchanged: nothing to remove" in printed
    assert "1 file of 2 slimmed" in printed


def test_an_object_and_an_archive_of_it(tmp_path: Path) -> None:
    out, lib = tmp_path / "x.o", tmp_path / "x.a"
    lib.write_bytes(GNU + member(b"x.o/", OBJECT.read_bytes()))
    assert archs(OBJECT) == ["cubin sm_80", "cubin sm_90", "ptx sm_90"]
    assert main(["slim", str(OBJECT), "--for", "sm_80", "-o", str(out), "-q"]) == 0
    assert archs(out) == ["cubin sm_80", "ptx sm_90"]
    assert main(["slim", str(lib), "--for", "sm_80", "--drop-ptx", "-o", str(tmp_path / "y.a"), "-q"]) == 0
    assert archs(tmp_path / "y.a") == ["cubin sm_80"]


def test_json_follows_its_schema(fatbin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = fatbin.with_name("other")
    other.write_bytes(of_words("70"))
    options = ["--for", "RTX 3090", "--dry-run", "--json", "--deflated"]
    assert main(["slim", str(fatbin), str(other), *options]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    assert document["devices"][0]["arch"] == "sm_86"
    first, second = document["files"]
    assert first["kept_by_arch"] == {"compute_90": 1, "sm_86": 1}
    assert first["after"] < first["before"]
    assert second["refused"][0]["container"] == 0
    assert document["totals"]["changed"] == 1
    assert main(["slim", "--schema"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no rule says which images to remove"),
        (["--drop", "sm_80"], "say where to write"),
        (["--for", "sm_80,", "--dry-run"], "unknown"),
        (["--drop", "sm_80,", "--dry-run"], "a pattern is empty"),
        (["--for", "RTX 5099", "--dry-run"], "did you mean RTX 5090"),
        (["--drop-ptx", "--keep-ptx=all", "--dry-run"], "exclude each other"),
        (["--drop", "sm_80", "-o", "x", "-d", "y"], "exclude each other"),
        (["--drop", "sm_80", "--level=3", "--dry-run"], "--level goes with --recompress"),
        (["--drop", "sm_80", "--build-tag=1", "-o", "x"], "and none is given"),
        (["--drop", "sm_80", "--local-version=a", "-o", "x"], "and none is given"),
        (["--drop", "sm_80", "--sbom=s", "-o", "x"], "and none is given"),
        (["--drop", "sm_80", "--certificate=c", "--dry-run"], "--dry-run writes none"),
    ],
)
def test_options_that_say_too_little_or_too_much(
    fatbin: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slim", str(fatbin), *options]) == 2
    assert said in capsys.readouterr().err


def test_files_that_would_be_written_over_each_other_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / folder / "lib.fatbin" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(of_words("80 90"))
    options = ["--drop", "sm_80", "-d", str(tmp_path / "out"), "--force"]
    assert main(["slim", *map(str, files), *options]) == 2
    assert "would both be lib.fatbin" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_library_of_a_folder_that_would_lose_all_stays_and_the_others_are_slimmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, in_place: bool
) -> None:
    folder, out = tmp_path / "lib", tmp_path / "out"
    folder.mkdir()
    for name, words in (("one.fatbin", "80 90"), ("two.fatbin", "80"), ("x.fatbin", "75 80")):
        (folder / name).write_bytes(of_words(words))
    command = ["slim", str(folder), "--drop", "sm_80", *(["--in-place"] if in_place else ["-d", str(out)])]
    before = sorted(path.read_bytes() for path in folder.iterdir())
    assert main([*command, "--strict"]) == 1
    assert not out.exists()
    assert sorted(path.read_bytes() for path in folder.iterdir()) == before
    assert "two.fatbin: 1 container would have no device code left" in capsys.readouterr().err
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "two.fatbin: stays as it is (208 B): 1 container would have no device code left, and has sm_80" in shown
    assert "2 files of 3 slimmed" in shown
    made = {path.name: archs(path) for path in (folder if in_place else out).iterdir()}
    assert made == {"one.fatbin": ["cubin sm_90"], "two.fatbin": ["cubin sm_80"], "x.fatbin": ["cubin sm_75"]}


def test_sizes_in_a_wheel_are_not_reported_of_folders(fatbin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(fatbin.parent), "--drop", "sm_80", "--deflated", "--dry-run"]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_refusal_names_kernels_and_writes_nothing(fatbin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fatbin.with_name("y")
    assert main(["slim", str(fatbin), "--drop", "*", "-o", str(out)]) == 1
    assert not out.exists()
    assert "kernels: k80" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "code"), [("metallib/render.metallib", 4), ("offload_binary/llvm-22-one.bin", 2)])
def test_a_refusal_offers_to_empty_only_what_can_be_written_empty(
    name: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["slim", str(FIXTURES / name), "--drop", "*", "-o", str(tmp_path / "out")]
    assert main(line) == 1
    assert "--allow-empty" not in capsys.readouterr().err
    assert main([*line, "--allow-empty"]) == code
    assert "cannot be written" in capsys.readouterr().err


def test_what_a_refusal_advises_is_enough_for_every_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four containers with one image each: one architecture would keep code in one of them."""
    line = ["slim", str(FIXTURES / "offload_binary/llvm-22-four.bin"), "-o", str(tmp_path / "out")]
    assert main([*line, "--drop", "*"]) == 1
    advised = re.search(r"--keep (\S+) keeps code in 4 containers", capsys.readouterr().err)
    assert advised is not None
    assert main([*line, "--keep", advised[1]]) == 0


def test_a_damaged_file_stays_as_it_is_and_its_damage_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "cut.so", tmp_path / "out.so"
    cut.write_bytes((OBJECT.parent / "librel.so").read_bytes()[:4096])
    assert main(["slim", str(cut), "--for", "sm_86", "-o", str(out)]) == 3
    printed = capsys.readouterr()
    assert "unchanged: no device code in it can be read" in printed.out
    assert "error FP1001" in printed.err
    assert main(["slim", str(cut), "--for", "sm_86", "--dry-run", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    assert [one["code"] for one in document["files"][0]["findings"]] == ["FP1001"]
    assert main(["slim", str(tmp_path / "none"), "--for", "sm_86", "-o", str(out), "-f"]) == 5
    printed = capsys.readouterr()
    assert printed.out.endswith("none: not slimmed\n")
    assert "none: No such file or directory" in printed.err


def test_a_device_that_nothing_is_for_is_named_and_counts(fatbin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fatbin.with_name("y.fatbin")
    other = fatbin.with_name("other.fatbin")
    other.write_bytes(of_words("75"))
    assert main(["slim", str(fatbin), "--for", "RTX 3090,sm_75", "-o", str(out)]) == 1
    assert archs(out) == ["cubin sm_86", "ptx sm_90"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "RTX 3090 = sm_86"
    assert lines[-1] == (f"sm_75 has no code to run, and had none before: nothing in {fatbin} is for it")
    # Another file of the run serves it.
    assert main(["slim", str(fatbin), str(other), "--for", "sm_86,sm_75", "--dry-run"]) == 0
    assert "is for it" not in capsys.readouterr().out
    assert main(["slim", str(fatbin), "--for", "MI300X", "--dry-run", "-q"]) == 1
    assert "(gfx942) has no code to run, and had none before: no file has code for" in capsys.readouterr().err
    assert main(["slim", str(fatbin), "--for", "sm_86,sm_75,MI300X", "--dry-run", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    found = [(one["device"]["arch"], one["paths"]) for one in document["unserved"]]
    assert found == [("sm_75", [str(fatbin)]), ("gfx942", [])]


def test_a_device_that_nothing_is_known_to_be_for_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "a.fatbin", tmp_path / "b.fatbin"
    path.write_bytes(of_words("75 80 86"))
    assert main(["slim", str(path), "--for", "sm_87", "-o", str(out)]) == 1
    assert archs(out) == ["cubin sm_80", "cubin sm_86"]
    said = capsys.readouterr().out
    assert "drivers of CUDA 12 refuse cubins for sm_80, sm_86 on Tegra; for newer ones this is not known" in said
    assert f"sm_87 has no code to run, and had none before: nothing in {path} is for it" in said
    done = library.slim(path, tmp_path / "c.fatbin", devices="sm_87")
    assert (done.unserved, done.exit_code) == (("sm_87",), 1)
    assert done.to_dict()["kept"] == {"sm_80": 1, "sm_86": 1}
    assert library.slim(path, tmp_path / "d.fatbin", devices="sm_86").exit_code == 0


def test_a_refusal_names_the_device_once_and_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.fatbin"
    path.write_bytes(of_words("86") * 7)
    assert main(["slim", str(path), "--for", "RTX 5090", "--dry-run"]) == 1
    printed = capsys.readouterr()
    assert "nothing in the file runs on GeForce RTX 5090 (sm_120): 7 containers have sm_86: container 0" in printed.err
    assert "; and 4 more;" in printed.err
    assert printed.out == f"RTX 5090 = sm_120\n{path}: not slimmed\n"
    assert main(["slim", str(path), "--for", "RTX 5090", "--dry-run", "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)["files"][0]["refused"]
    assert [one["device"] for one in refused] == ["GeForce RTX 5090 (sm_120)"] * 7
    # A container emptied by --drop is one fault, although it both loses all device code and serves a device no more.
    assert main(["slim", str(path), "--for", "sm_86", "--drop", "sm_86", "--dry-run", "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)["files"][0]["refused"]
    assert [(one["container"], one["device"]) for one in refused] == [(number, "sm_86") for number in range(7)]


def test_a_copy_of_a_program_lends_no_rights(fatbin: Path) -> None:
    fatbin.chmod(0o4755)
    out = fatbin.with_name("y")
    assert main(["slim", str(fatbin), "--for", "sm_86", "-o", str(out), "-q"]) == 0
    assert out.stat().st_mode & 0o7777 == 0o755
    assert main(["slim", str(fatbin), "--for", "sm_86", "--in-place", "-q"]) == 0
    assert fatbin.stat().st_mode & 0o7777 == 0o4755
