"""The stand-in for DPC++'s clang-offload-extract: no binary was to be had, its source says what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.sycl import Stored, packed, program, spirv, windows_program
from tests.laws.rooms import FIXTURES

from fatpack.main import main

NAME = "clang-offload-extract"
IMAGES = [spirv(20, 1), packed(spirv(9000, 2)), spirv(33, 3)]
STORED = [Stored(data) for data in IMAGES]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.out").write_bytes(program(STORED))


def _written(stem: str = "target.bin") -> list[bytes]:
    return [Path(f"{stem}.{number}").read_bytes() for number in range(len(list(Path().glob(f"{stem}.*"))))]


@pytest.mark.parametrize(
    ("arguments", "stem"),
    [
        ([], "target.bin"),
        (["a.out"], "target.bin"),
        (["--stem=x"], "x"),
        (["-stem", "x", "a.out"], "x"),
        (["--output=x", "a.out"], "x"),
    ],
)
def test_images_are_written_in_the_order_of_the_table(
    arguments: list[str], stem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", NAME, *arguments]) == 0
    assert _written(stem) == IMAGES
    said = [f'Saving target image to "{stem}.{number}"' for number in range(3)]
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("data", [program(STORED, is_relocated=True), windows_program(STORED)], ids=["relocated", "pe"])
def test_pointers_are_followed_wherever_a_linker_left_them(data: bytes) -> None:
    """The original reads what is in place: of relocated tables nothing, and it says nothing."""
    Path("a.out").write_bytes(data)
    assert main(["tool", NAME]) == 0
    assert _written() == IMAGES


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "The file was not recognized as a valid object file"),
        (b"no object", "The file was not recognized as a valid object file"),
        (program(STORED, bits=32), "only 64-bit ELF or COFF inputs are supported"),
        (program(STORED, order="big"), "only 64-bit ELF or COFF inputs are supported"),
        ((FIXTURES / "macho" / "llvm-22-offload-i386.o").read_bytes(), "only 64-bit ELF or COFF inputs are supported"),
        (program(STORED, rows=[(0x7000000, 5)]), "row 3 points to 0x7000000, where the file has no bytes"),
        (program([Stored(IMAGES[0], 1 << 20)]), "bytes, and 80 are left in its section"),
    ],
    ids=["empty", "text", "narrow", "big-endian", "mach-o", "nowhere", "too long"],
)
def test_what_cannot_be_extracted_is_reported(content: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.out").write_bytes(content)
    assert main(["tool", NAME]) == 1
    streams = capsys.readouterr()
    assert streams.err.startswith("error     ") and said in streams.err
    assert streams.err.endswith("\n          Input File: 'a.out'\n")
    assert not list(Path().glob("target.bin.*"))


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "missing"]) == 1
    assert capsys.readouterr().err == "error     No such file or directory\n          Input File: 'missing'\n"


def test_an_output_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "--stem=nowhere/x"]) == 1
    expected = "error     'nowhere/x.0': No such file or directory\n"
    assert capsys.readouterr().err == expected + "          Specify a different Output File ('--stem' option)\n"


def test_a_program_without_a_table_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The original writes nothing, and says nothing."""
    assert main(["tool", NAME, str(FIXTURES / "elf" / "clang-22-hip.o")]) == 0
    assert "has no .tgtimg: no image was written" in capsys.readouterr().err


def test_the_command_line_is_read_as_llvm_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "a", "b"]) == 1
    assert "Too many positional arguments specified!" in capsys.readouterr().err
    assert main(["tool", NAME, "--help"]) == 0
    assert "--stem=<string>" in capsys.readouterr().out
