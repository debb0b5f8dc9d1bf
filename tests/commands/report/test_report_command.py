"""``fatpack report`` writes a page, a picture or a text, and its exit code is that of what was read."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.builders.policy_files import container
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.packages.zip.content import CheckedPieces

Command = Callable[..., Ran]

FATBIN = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"


def test_a_page_is_one_file(fatpack: Command, folder: Path) -> None:
    done = fatpack("report", FATBIN, "a.cubin", "-o", "report.html")
    assert done.code == 0
    assert done.err.startswith("reported 2 files, 3 images: report.html (")
    page = (folder / "report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "v130_none.fatbin" in page and "a.cubin" in page


def test_an_output_that_exists_is_kept_unless_forced(fatpack: Command, folder: Path) -> None:
    (folder / "report.html").write_text("mine")
    assert fatpack("report", "a.cubin", "-o", "report.html").code == 2
    assert (folder / "report.html").read_text() == "mine"
    assert fatpack("report", "a.cubin", "-o", "report.html", "-f").code == 0
    assert fatpack("report", "a.cubin", "-o", "a.cubin", "-f").code == 2


@pytest.mark.parametrize("picture", ["treemap", "coverage", "costs", "bytes"])
def test_a_picture_goes_to_stdout(fatpack: Command, folder: Path, picture: str) -> None:
    done = fatpack("report", FATBIN, "--svg", picture, "-o", "-")
    assert (done.code, done.err) == (0, "")
    assert ET.fromstring(done.out.encode()).tag == "{http://www.w3.org/2000/svg}svg"


def test_markdown_goes_to_stdout(fatpack: Command, folder: Path) -> None:
    done = fatpack("report", FATBIN, "--markdown")
    assert done.code == 0
    assert done.out.startswith("### Device code of `v130_none.fatbin`\n")
    assert "| `sm_80` |" in done.out


def test_the_ending_of_the_output_says_what_it_is(fatpack: Command, folder: Path) -> None:
    assert fatpack("report", "a.cubin", "-o", "report.md").code == 0
    assert (folder / "report.md").read_text("utf-8").startswith("### Device code of `a.cubin`\n")
    done = fatpack("report", "a.cubin", "-o", "bytes.SVG")
    assert (done.code, (folder / "bytes.SVG").exists()) == (2, False)
    assert "say which: --svg treemap, coverage, costs or bytes" in done.err
    done = fatpack("report", FATBIN, "-o", "x.pdf")
    assert done.code == 2 and not (folder / "x.pdf").exists()
    assert "x.pdf is no name of a page: a report is HTML or Markdown; name it .html or .md" in done.err


def test_what_cannot_be_read_is_in_the_page_and_the_exit_code(fatpack: Command, folder: Path) -> None:
    (folder / "cut.fatbin").write_bytes(FATBIN.read_bytes()[:300])
    done = fatpack("report", "cut.fatbin", "gone.so", "-o", "report.html")
    assert done.code == 5
    assert "gone.so" in done.err
    page = (folder / "report.html").read_text("utf-8")
    assert "gone.so" in page and "FP1" in page
    assert fatpack("report", "cut.fatbin", "-o", "-").code == 3


def test_without_device_code_it_says_so(fatpack: Command, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "words.txt").write_text("nothing in here")
    for path in ("empty", "words.txt"):
        done = fatpack("report", path, "--markdown")
        assert done.code == 1
        assert "no device code was found" in done.err
        assert "No device code was found." in done.out


def test_a_file_that_cannot_be_read_a_second_time_is_reported(
    fatpack: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error", "a.cubin")

    monkeypatch.setattr("fatpack.commands.report.byte_regions.file_regions", fails)
    done = fatpack("report", "a.cubin", "-o", "-")
    assert done.code == 5
    assert "There is no byte map: a.cubin: Input/output error" in done.out
    assert "There is no byte map" in done.err


def test_the_largest_file_of_a_package_is_inflated_once(
    fatpack: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its byte map is made of the bytes that were inflated for its rows, if these are in a temporary file."""
    with zipfile.ZipFile("files.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write("a.cubin", "small.cubin")
        archive.write(FATBIN, "large.fatbin")
    plain = fatpack("report", "files.zip", "-o", "-")
    assert plain.code == 0 and "There is no byte map" not in plain.out
    inflated: list[str] = []
    pieces = CheckedPieces.__call__

    def counted(checked: CheckedPieces) -> Iterator[bytes]:
        inflated.append(checked._name)
        return pieces(checked)

    monkeypatch.setattr(CheckedPieces, "__call__", counted)
    monkeypatch.setattr("fatpack.packages.members.MAX_IN_MEMORY", 100)
    assert fatpack("report", "files.zip", "-o", "-").out == plain.out
    assert sorted(inflated) == ["files.zip!large.fatbin", "files.zip!small.cubin"]


def test_usage(fatpack: Command, folder: Path) -> None:
    assert fatpack("report", "a.cubin").code == 2
    assert fatpack("report", "-o", "x.html").code == 2
    assert fatpack("report", "a.cubin", "--svg=treemap", "--markdown", "-o", "x").code == 2
    assert fatpack("report", "host.o", "--svg=treemap", "-o", "x.svg").code == 2
    done = fatpack("report", "*.nothing", "a.cubin", "-o", "x.html")
    assert (done.code, "no file matches *.nothing" in done.err) == (1, True)
    assert sorted(path.name for path in folder.glob("x*")) == ["x.html"]


def test_kernels_have_the_names_that_people_write(fatpack: Command, folder: Path) -> None:
    (folder / "x.fatbin").write_bytes(container("80 90", ["_Z5scaleIfEvPT_S0_i", "plain"]))
    for output in ("--markdown", "--svg=coverage"):
        done = fatpack("report", "x.fatbin", output, "--demangle", "-o", "-")
        assert (done.code, done.err) == (0, "")
    fatpack("report", "x.fatbin", "-o", "raw.html")
    fatpack("report", "x.fatbin", "--demangle", "-o", "named.html")
    raw, named = ((folder / f"{name}.html").read_text("utf-8") for name in ("raw", "named"))
    assert "_Z5scaleIfEvPT_S0_i" in raw
    assert "_Z5scaleIfEvPT_S0_i" not in named
    assert "void scale&lt;float&gt;(float*, float, int)" in named and "plain" in named


def test_without_a_demangler_nothing_is_read(fatpack: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cxxfilt", None)
    monkeypatch.setenv("PATH", "")
    done = fatpack("report", "a.cubin", "-o", "x.html", "--demangle")
    assert (done.code, "nothing here demangles names" in done.err) == (4, True)
    assert not (folder / "x.html").exists()
