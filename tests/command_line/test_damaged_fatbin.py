"""Every fault of a fat binary is told for the entry that has it, and extracting that entry fails alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.builders.fatbin import PTX, cubin, entry, fatbin
from tests.conftest import Ran
from tests.formats.cuda_fatbin.test_parse import DAMAGED, GOOD, GROUPS, TEXT

Fatpack = Callable[..., Ran]

#: what only inflating shows: more or less than the header says, and a stream that is cut
_STREAM = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT + b"\0")
_LIES = {"more inside": (_STREAM, -1), "less inside": (_STREAM, 1), "a cut stream": (_STREAM[:-4], 0)}

#: faults that leave nothing to extract, or no more to say than a note or a warning
_FINE = {"zeros", "identifier outside", "identifier in the numbers", "identifier too long", "options outside"}


def _lie(packed: bytes, more: int) -> bytes:
    return entry(packed, PTX, flags=0x8011, inflated=len(TEXT) + 1 + more, options=b"")


CASES = {
    **{name: damaged for name, (damaged, _) in DAMAGED.items() if name not in _FINE},
    **{f"group: {name}": damaged for name, (damaged, _, _) in GROUPS.items()},
    **{name: _lie(*lie) for name, lie in _LIES.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_everything_else_is_listed_and_extracted(folder: Path, fatpack: Fatpack, name: str) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75), CASES[name], GOOD))
    listed = fatpack("inspect", "x", "--json")
    assert listed.code == 3
    (file,) = json.loads(listed.out)["files"]
    errors = [finding for finding in file["findings"] if finding["severity"] == "error"]
    assert errors
    assert {finding["code"] for finding in errors} <= {"FP1001", "FP1005", "FP1104", "FP1401", "FP1403", "FP1409"}
    images = [image for container in file["containers"] for image in container["images"]]
    assert (images[0]["arch"], images[-1]["arch"]) == ("sm_75", "sm_90")
    ran = fatpack("extract", "x", "-d", "out")
    assert ran.code == 3
    written = {path.name.split(".")[0]: path.read_bytes() for path in (folder / "out").iterdir()}
    assert written["x-nvptx64-nvidia-cuda-sm_75"] == cubin(75)
    assert written["x-nvptx64-nvidia-cuda-sm_90"] == cubin(90)
    assert b"" not in written.values()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("format", ["fatbin", "offload-binary"])
def test_damage_is_no_less_when_entries_are_copied_as_stored(
    folder: Path, fatpack: Fatpack, name: str, format: str
) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75), CASES[name], GOOD))
    ran = fatpack("convert", "x", f"--format={format}", "--lossy", "-o", "y")
    assert (ran.code, "error FP" in ran.err) == (3, True)
    assert {"sm_75", "sm_90"} <= set(fatpack("inspect", "y").out.split())


def test_an_entry_that_a_limit_refuses_hides_no_damage_of_others(folder: Path, fatpack: Fatpack) -> None:
    (folder / "x").write_bytes(fatbin(DAMAGED["bomb"][0], _lie(*_LIES["a cut stream"]), GOOD))
    for options in ([], ["--inflate"]):
        ran = fatpack("inspect", "x", *options)
        assert ran.code == 3
        assert [code for code in ("FP1005", "FP1104") if code in ran.out] == ["FP1005", "FP1104"]
    ran = fatpack("extract", "x", "-d", "out")
    assert ran.code == 3
    assert ran.err.count("inflated_size: 50 bytes claim") == ran.err.count("error FP1005") == 2


@pytest.mark.parametrize("into", [["-d", "out"], ["-o", "one"], ["-o", "-"]])
def test_a_compressed_image_cut_short_is_written_and_reported(folder: Path, fatpack: Fatpack, into: list[str]) -> None:
    cut = bytearray(cubin(75))
    cut[40:48] = (1 << 20).to_bytes(8, "little")  # e_shoff
    packed = zstandard.compress(bytes(cut))
    (folder / "x").write_bytes(fatbin(entry(packed, flags=0x8011, inflated=len(cut), sm=75)))
    assert fatpack("inspect", "x").code == 3
    ran = fatpack("extract", "x", *into)
    assert (ran.code, ran.err.count("error FP1104: x at 0x")) == (3, 1)


def test_an_image_cut_short_is_written_and_reported(folder: Path, fatpack: Fatpack) -> None:
    cut = bytearray(cubin(75))
    cut[40:48] = (1 << 20).to_bytes(8, "little")  # e_shoff
    (folder / "x").write_bytes(fatbin(entry(bytes(cut), sm=75), GOOD))
    ran = fatpack("extract", "x", "-d", "all")
    assert (ran.code, ran.err.count("error FP1104: x at 0x")) == (3, 1)
    assert cut in [path.read_bytes() for path in (folder / "all").iterdir()]
    assert fatpack("extract", "x", "-d", "good", "--arch=sm_90").code == 0
    assert fatpack("extract", "x", "--containers", "-d", "stored").code == 0


def test_another_version_is_read_and_not_written(folder: Path, fatpack: Fatpack) -> None:
    data = bytearray(fatbin(GOOD, entry(cubin(75), sm=75)))
    data[4:6] = b"\2\0"
    (folder / "x").write_bytes(data)
    assert fatpack("extract", "x", "-d", "out").code == 0
    ran = fatpack("remove", "x", "--arch=sm_75", "-o", "y")
    told = "x: the remaining images cannot be written: a fat binary of version 2" in ran.err
    assert (ran.code, told, (folder / "y").exists()) == (4, True, False)


def test_one_damaged_entry_is_named_and_its_neighbours_are_not_touched(folder: Path, fatpack: Fatpack) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75), CASES["more inside"], GOOD))
    for number, code in enumerate((0, 3, 0)):
        ran = fatpack("extract", "x", f"--index={number}", "-o", f"{number}.out")
        assert (ran.code, (folder / f"{number}.out").exists()) == (code, code == 0)
    assert "inflates to another size" in fatpack("extract", "x", "--index=1", "-o", "1.out").err


@pytest.mark.parametrize("selection", [["-d", "out"], ["--form=ptx", "-o", "one.ptx"], ["--archive", "-o", "all.a"]])
def test_a_dry_run_of_extract_promises_no_more_than_is_done(
    folder: Path, fatpack: Fatpack, selection: list[str]
) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75), CASES["a cut stream"]))
    tried = fatpack("extract", "x", "--dry-run", *selection)
    assert not (folder / "out").exists()
    done = fatpack("extract", "x", *selection)
    assert (tried.code, tried.out if "-d" in selection else "") == (done.code, done.out) == (3, done.out)
    assert "x at 0x1a0" in tried.err


def test_a_dry_run_of_extract_refuses_what_the_run_refuses(folder: Path, fatpack: Fatpack) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75)))
    (folder / "file").write_bytes(b"")
    assert fatpack("extract", "x", "-d", "out", "-q").code == 0
    for place in (["-d", "out"], ["-o", "file"], ["-d", "file"], ["-o", "x", "--force"]):
        tried, done = fatpack("extract", "x", "--dry-run", *place), fatpack("extract", "x", *place)
        assert tried == done
        assert done.code in (2, 5)
    assert fatpack("extract", "x", "--dry-run", "--force", "-d", "out").code == 0


def test_a_kept_image_that_is_damaged_is_named_in_the_input(folder: Path, fatpack: Fatpack) -> None:
    (folder / "x").write_bytes(fatbin(entry(cubin(75), sm=75), CASES["a cut stream"]))
    ran = fatpack("remove", "x", "--arch=sm_75", "-o", "slim")
    assert (ran.code, (folder / "slim").exists()) == (3, False)
    assert ran.err.startswith("fatpack: error: x: cuda-fatbin at 0x1a0: ")
