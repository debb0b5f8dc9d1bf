"""URLs on the command line: every command that reads takes them, and prints nothing of them that is secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.http_server import Server, serving
from tests.laws.rooms import FIXTURES

from fatpack.main import main

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

OBJECT = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"
ARCHIVE = FIXTURES / "archive" / "llvm-22-gnu.a"
SECRET = "?X-Amz-Signature=0123456789"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    with serving() as running:
        yield running


def same_as_a_file(server: Server, capfd: pytest.CaptureFixture[str], path: Path, *arguments: str) -> None:
    """Run a command on a file and on its URL; the outputs differ in nothing but the name."""
    url = server.put(f"/{path.name}", path.read_bytes())
    results = []
    for name, printed in ((str(path), str(path)), (url + SECRET, url)):
        code = main([argument.replace("FILE", name) for argument in arguments])
        out, err = capfd.readouterr()
        assert "0123456789" not in out + err
        results.append((code, out.replace(printed, "FILE"), err.replace(printed, "FILE")))
        results[-1] += ({file.name: file.read_bytes() for file in sorted(Path("out").glob("*"))},)  # type: ignore[assignment]
        for file in Path("out").glob("*"):
            file.unlink()
    assert results[0] == results[1]
    assert results[0][0] == int("warning" in results[0][2])


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "FILE"],
        ["inspect", "-v", "FILE"],
        ["inspect", "--kernels", "FILE"],
        ["inspect", "--json", "FILE"],
        ["inspect", "--by", "arch", "FILE"],
        ["inspect", "--bytes", "FILE"],
        ["inspect", "--rows", "jsonl", "FILE"],
        ["extract", "FILE", "-d", "out"],
        ["extract", "FILE", "-o", "out/x", "--container", "0", "--index", "0"],
        ["convert", "FILE", "--format=fatbin", "-o", "out/x"],
        ["remove", "FILE", "--arch=sm_90", "-o", "out/x"],
        ["pack", "--image=file=FILE,triple=t,arch=a,kind=cuda", "-o", "out/x"],
        ["pack", "--image=file=/dev/null,triple=t,arch=a,kind=cuda", "--host", "FILE", "-o", "out/x"],
    ],
    ids=" ".join,
)
def test_a_url_gives_what_the_file_gives(
    server: Server, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    Path("out").mkdir()
    same_as_a_file(server, capfd, OBJECT, *arguments)


@pytest.mark.parametrize("part", ["(first.o:1)", "(#1)", "#offset=0x44&size=0x400"])
def test_members_of_archives_and_bytes_after_a_url(
    server: Server, capfd: pytest.CaptureFixture[str], part: str
) -> None:
    url = server.put("/libx.a", ARCHIVE.read_bytes())
    printed = []
    for name in (str(ARCHIVE), url):
        code = main(["inspect", "-v", f"{name}{part}"])
        out, err = capfd.readouterr()
        printed.append((code, (out + err).replace(name, "FILE")))
    assert printed[0] == printed[1]
    assert main(["inspect", f"{url}{SECRET}{part}"]) == printed[0][0]
    assert "0123456789" not in "".join(capfd.readouterr())


def test_addresses_that_are_printed_can_be_typed(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    url = server.put("/a b%.o", OBJECT.read_bytes()).replace("a b%", "a%20b%25")
    assert main(["inspect", "-v", url]) == 0
    address = next(word for word in capfd.readouterr().out.split() if "#offset=" in word)
    assert address.startswith(url)
    assert main(["extract", address, "-o", "x"]) == 0
    start, size = (int(number, 16) for number in address.partition("#offset=")[2].split("&size="))
    assert Path("x").read_bytes() == OBJECT.read_bytes()[start : start + size]


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "-v"], ["extract"], ["convert"], ["remove", "-o", "y"]])
def test_what_fails_is_one_line_without_secrets(
    server: Server, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    host = server.base.removeprefix("http://")
    assert main([*command, f"http://me:pass0123456789@{host}/none.so{SECRET}"]) == 5
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"fatpack: error: {server.base}/none.so: the server answers 404 Not Found\n")
    url = server.put("/whole.so", bytes(100_000), "no ranges")
    assert main([*command, url]) == 4
    out, err = capfd.readouterr()
    assert err.count("\n") == 1
    assert "the server sends no ranges of bytes" in err
    assert "download the file, and give its path" in err


def test_urls_are_not_written_to(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    url = server.put("/x.o", OBJECT.read_bytes())
    assert main(["remove", url, "--in-place"]) == 2
    assert "--in-place needs a file" in capfd.readouterr().err
    for command in (["remove", str(OBJECT)], ["convert", str(OBJECT), "--format=fatbin"]):
        assert main([*command, "-o", f"s3://key:0123456789@b/x{SECRET}"]) == 2
        err = capfd.readouterr().err
        assert "URLs are read, and not written" in err
        assert "0123456789" not in err


def test_other_kinds_of_urls_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("inspect", "extract", "convert"):
        assert main([command, "gs://bucket/x?token=0123456789"]) == 2
        out, err = capfd.readouterr()
        assert "gs://bucket/x: no file, and gs:// is not read" in err
        assert "0123456789" not in out + err
    assert main(["inspect", "--json", "gs://bucket/x?token=0123456789"]) == 2
    assert "0123456789" not in capfd.readouterr().out
