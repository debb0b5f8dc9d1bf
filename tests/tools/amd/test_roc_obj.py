"""The stand-ins for AMD's scripts where they are on their own: what the originals lose, and what they cannot read."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import __version__
from fatpack.tools.amd import code_objects

Fatpack = Callable[..., Ran]

OBJECT = FIXTURES / "elf" / "clang-22-hip.o"
BUNDLES = FIXTURES / "clang_bundle"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Fatpack:
    monkeypatch.chdir(tmp_path)
    shutil.copy(OBJECT, "a.o")
    return lambda *arguments: fatpack("tool", *arguments)


@pytest.mark.parametrize("name", ["roc-obj-ls", "roc-obj-extract"])
def test_the_help_and_the_version_say_what_this_is(tool: Fatpack, name: str) -> None:
    assert tool(name, "--version") == (0, f"{name}: fatpack {__version__}, standing in for {name} of ROCm 5 to 7\n", "")
    for word in ("-h", "--help", "-vh"):
        ran = tool(name, word)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"Usage: {name} [")


@pytest.mark.parametrize("name", ["a#b.o", "a,b.o", "a?b.o", "a&b.o", "a%20b.o", "ü ü.o", "-.o"])
def test_what_is_listed_of_a_file_of_any_name_can_be_extracted(tool: Fatpack, name: str) -> None:
    shutil.copy(OBJECT, name)
    listed = tool("roc-obj-ls", "--", name)
    assert (listed.code, listed.err) == (0, "")
    uris = [line.split()[-1] for line in listed.out.splitlines()]
    assert tool("roc-obj-extract", *uris) == (0, "", "")
    assert sorted(path.name for path in Path().glob("*.co")) == sorted(
        f"{name}-offset{at}-size{size}.co" for at, size in ((8192, 3832), (12288, 4624))
    )


def test_a_bundle_that_is_a_file_is_listed(tool: Fatpack) -> None:
    ran = tool("roc-obj-ls", BUNDLES / "llvm-22-hip.bundle")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) >= 2


def test_compressed_bundles_are_reported(tool: Fatpack) -> None:
    ran = tool("roc-obj-ls", BUNDLES / "llvm-22-v3-zstd.bundle", "a.o")
    assert ran.code == 1
    assert "the bundle at 0x0 is compressed" in ran.err
    assert len(ran.out.splitlines()) == 3


def test_damage_is_reported(tool: Fatpack) -> None:
    data = bytearray(OBJECT.read_bytes())
    data[0x1000 + 24] = 0xFF  # the number of entries
    Path("a.o").write_bytes(data)
    ran = tool("roc-obj-ls", "a.o")
    assert ran.code == 1
    assert " at 0x" in ran.err


def test_an_offset_is_for_one_uri_only(tool: Fatpack) -> None:
    assert tool("roc-obj-extract", "file://a.o#offset=4&size=2", "file://a.o#size=3") == (0, "", "")
    assert Path("a.o-offset0-size3.co").read_bytes() == b"\x7fEL"


@pytest.mark.parametrize(("spelled", "at"), [("0x1", 1), ("010", 8), ("0X1f", 31)])
def test_numbers_are_read_as_the_help_says(tool: Fatpack, spelled: str, at: int) -> None:
    assert tool("roc-obj-extract", f"file://a.o#offset={spelled}&size=0x4").code == 0
    assert Path(f"a.o-offset{spelled}-size0x4.co").read_bytes() == OBJECT.read_bytes()[at : at + 4]


@pytest.mark.parametrize(
    "text", ["memory://1#offset=1&size=1", "file://a.o#offset=x", "file://a.o#size=-1", "file://."]
)
def test_what_cannot_be_read_is_reported_and_counted(tool: Fatpack, text: str) -> None:
    ran = tool("roc-obj-extract", text, text, "file://a.o#size=3")
    assert (ran.code, ran.out, ran.err.count("Error: ")) == (2, "", 2)
    assert Path("a.o-offset0-size3.co").stat().st_size == 3


def test_uris_come_from_standard_input(tool: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    given = b"file://a.o#size=3\nfile://\xff.o#size=4\nfile://a.o#size=4\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert tool("roc-obj-extract") == (1, "", "Error: can't find file: \\udcff.o\n")
    assert sorted(path.stat().st_size for path in Path().glob("*.co")) == [3, 4]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert tool("roc-obj-extract").code == 1


@pytest.mark.parametrize("path", ["a b", "100%", "%zz", "é#?&,", "\udcff"])
def test_paths_come_back_from_uris(path: str) -> None:
    assert code_objects.decode_path(code_objects.encode_path(path)) == path
    assert code_objects.parse_uri(f"file://{code_objects.encode_path(path)}#offset=1&size=2") == code_objects.UriRange(
        "file", code_objects.encode_path(path), "1", "2"
    )
