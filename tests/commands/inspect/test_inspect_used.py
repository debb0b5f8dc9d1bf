"""``inspect --used``: which containers hold kernels of a profile, and that it agrees with ``slim --used``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main
from fatpack.text.schemas import schema_text

#: container 0: add_one and two instances of scale; container 1: stat_k and lb
LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin"


def profile(folder: Path, *names: str) -> str:
    path = folder / "used.txt"
    path.write_text("\n".join(names))
    return str(path)


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    main(["inspect", *words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, json.loads(schema_text("used")))
    return found


def test_the_table_shows_used_and_unused_containers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(LIBRARY), "--used", profile(tmp_path, "add_one", "of_another_library")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{LIBRARY}: 1 of 2 containers used, 15.2 kB of 18.2 kB (83 %), 1 of 5 kernels"
    assert [line.split() for line in lines[2:4]] == [
        ["0", "3", "15.2", "kB", "3", "1", "add_one"],
        ["1", "3", "2.97", "kB", "2", "0"],
    ]
    assert lines[4] == "2 kernel names: 1 mangled, 1 unmatched"
    assert lines[5].endswith(": of_another_library")


@pytest.mark.parametrize("name", ["add_one", "stat_k", "lb(int*)", "*scale*", "_Z5scaleIfEvPT_S0_i"])
def test_slim_by_the_same_profile_keeps_the_containers_shown_as_used(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = profile(tmp_path, name)
    (file,) = document(capsys, str(LIBRARY), "--used", names)["files"]
    main(["slim", str(LIBRARY), "--used", names, "--widen", "none", "--dry-run", "--json"])
    use = json.loads(capsys.readouterr().out)["files"][0]["use"]
    kept = [one["container"] for one in use["containers"] if one["reason"] == "name"]
    assert kept == [part["container"] for part in file["parts"] if part["used"]]
    assert use["kernel_count"] == file["kernels"]


def test_json_sums_what_its_parts_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = document(capsys, str(LIBRARY), "--used", profile(tmp_path, "stat_k", "no_such"))
    (file,) = shown["files"]
    assert (file["containers"], file["used_containers"], file["used_kernels"]) == (2, 1, 1)
    assert file["stored_size"] == sum(part["stored_size"] for part in file["parts"])
    assert file["used_stored_size"] == file["parts"][1]["stored_size"]
    assert shown["unmatched"] == ["no_such"]
    assert shown["matched"]["demangled"] == 1
    assert shown["profiles"][0]["names"] == 2


def test_of_a_folder_every_file_counts_and_the_sum_ends_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "libs"
    folder.mkdir()
    for name in ("one.so", "two.so"):
        shutil.copy(LIBRARY, folder / name)
    assert main(["inspect", str(folder), "--used", profile(tmp_path, "add_one")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "2 files: 2 of 4 containers used, 30.5 kB of 36.4 kB (83 %), 2 of 10 kernels"


def test_an_image_by_itself_is_a_part_without_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = document(capsys, str(CUBIN), "--used", profile(tmp_path, "add_one"))
    (file,) = shown["files"]
    assert [(part["container"], part["used"]) for part in file["parts"]] == [(None, ["add_one"])]
    assert file["stored_size"] == CUBIN.stat().st_size


def test_a_profile_of_another_program_is_told_by_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = profile(tmp_path, "no_such_kernel")
    assert main(["inspect", str(LIBRARY), "--used", names]) == 1
    assert capsys.readouterr().err == f"fatpack: no name in {names} is a kernel of the input\n"


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = profile(tmp_path, "add_one")
    assert main(["inspect", str(tmp_path / "missing.so"), str(LIBRARY), "--used", names]) == 5
    said = capsys.readouterr()
    assert "missing.so: No such file" in said.err
    assert "1 of 2 containers used" in said.out
    assert main(["inspect", str(LIBRARY), "--used", str(tmp_path / "missing.txt")]) == 5
    damaged = tmp_path / "cut.so"
    damaged.write_bytes(LIBRARY.read_bytes()[:-20000])
    assert main(["inspect", str(damaged), "--used", names]) == 3
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["--kernels", "--runtime", "--rows=csv", "--by=arch", "--arch=sm_90", "-v"])
def test_options_that_would_be_ignored_are_refused(other: str, tmp_path: Path) -> None:
    assert main(["inspect", str(LIBRARY), "--used", profile(tmp_path, "add_one"), other]) == 2


def test_a_file_without_device_code_has_nothing_that_was_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host.txt").write_text("plain")
    assert main(["inspect", str(tmp_path / "host.txt"), "--used", profile(tmp_path, "add_one")]) == 1
    assert capsys.readouterr().err.endswith("fatpack: no device code found\n")
