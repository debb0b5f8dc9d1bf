"""Packages on servers: their directories are read first, and no byte of files that are skipped by name."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.builders.http_server import Served, Server, serving
from tests.conftest import Ran, fatpack, folder
from tests.laws.rooms import FIXTURES

import fatpack as library

__all__ = ["fatpack", "folder"]  # fixtures

Fatpack = Callable[..., Ran]

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

SINGLE = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()

#: LIMIT: requests and bytes for a wheel without device libraries.
MOST = 64 << 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def sparse(path: Path, size: int) -> None:
    """Write a wheel of about a size without a library in it: sources, tables and a large file of weights as text."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        for number in range(60):
            wheel.writestr(f"pkg/module_{number}.py", "import this\n" * 300)
        with wheel.open(zipfile.ZipInfo("pkg/table.json"), "w", force_zip64=True) as table:
            for _ in range(size >> 20):
                table.write(bytes(1 << 20))
        wheel.writestr("pkg-1.0.dist-info/RECORD.txt", "pkg\n" * 100)


@pytest.mark.parametrize("size", [44 << 20, pytest.param(440 << 20, marks=pytest.mark.slow)])
def test_a_large_wheel_without_libraries_costs_little(
    server: Server, folder: Path, fatpack: Fatpack, size: int
) -> None:
    sparse(folder / "x.whl", size)
    with (folder / "x.whl").open("rb") as file:

        def read(at: int, count: int) -> bytes:
            file.seek(at)
            return file.read(count)

        url = server.serve("/x.whl", Served((folder / "x.whl").stat().st_size, read))
        server.requests.clear()
        server.sent = 0
        ran = fatpack("inspect", url, "--by=arch")
    assert ran.code == 0
    assert f"{url}: 0 files, none with device code; 62 skipped by name" in ran.err
    assert 0 < server.sent <= MOST


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_is_shown_of_a_package_on_a_server_is_what_is_shown_of_it_here(
    server: Server, folder: Path, fatpack: Fatpack, method: int
) -> None:
    files = {"a.py": b"", "lib/single.o": SINGLE, "lib/x.bin": bytes(100_000), "cut.o": SINGLE[:500]}
    data = build.zipped(files, method)
    Path("x.whl").write_bytes(data)
    url = server.put("/y.whl", data)
    for options in ([], ["-v"], ["--json"], ["--by=arch"], ["--rows=jsonl"], ["--by=kernel", "--json"]):
        ran, expected = fatpack("inspect", *options, url), fatpack("inspect", *options, "x.whl")
        assert ran.out.replace(url, "x.whl") == expected.out
        assert (ran.code, ran.err.replace(url, "x.whl")) == (expected.code, expected.err)
    assert fatpack("extract", url, "-d", "far").code == fatpack("extract", "x.whl", "-d", "near").code == 3
    far, near = ({path.name: path.read_bytes() for path in Path(at).rglob("*.*")} for at in ("far/lib", "near/lib"))
    assert far == near != {}
    for address in ("lib/single.o", "lib/single.o#offset=0xad8&size=0x1ae0"):
        assert fatpack("extract", f"{url}!{address}", "-fo", "one", "--arch=sm_80").code in (0, 2)
        ran, expected = fatpack("inspect", f"{url}!{address}"), fatpack("inspect", f"x.whl!{address}")
        assert ran.out.replace(url, "x.whl") == expected.out
    printed = [line.strip() for line in fatpack("inspect", "-v", url).out.splitlines() if "#offset=0x" in line]
    assert fatpack("extract", printed[0], "-fo", "got").code == 0
    assert Path("got").read_bytes() == library.open(SINGLE).images()[0].data.tobytes()


def test_secrets_of_a_url_are_not_printed(server: Server, folder: Path, fatpack: Fatpack) -> None:
    data = build.zipped({"lib/single.o": SINGLE})
    url = server.put("/z.whl", data)
    secret = f"{url}?key=secret"
    for arguments in (["inspect", "-v", secret], ["inspect", f"{secret}!lib/single.o"], ["inspect", f"{secret}!none"]):
        ran = fatpack(*arguments)
        assert "secret" not in ran.out + ran.err
        assert "z.whl" in ran.out + ran.err
