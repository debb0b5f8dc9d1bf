"""URLs are surveyed as files are; one request tells that a file is what it was, and nothing secret is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import reference
from tests.builders.http_server import Server, serving
from tests.commands.survey.conftest import SAMPLES, Read

from fatpack.main import main

SECRET = "?X-Amz-Signature=0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("fsspec", "aiohttp"):
        reference.package(name)
    with serving() as running:
        yield running


def test_a_url_is_read_again_only_when_it_changed(
    server: Server, tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (server.put(f"/{sample.name}", sample.read_bytes()) for sample in SAMPLES[:2])
    missing = f"{server.base}/missing.so"
    names = tmp_path / "list"
    names.write_text(f"{second}{SECRET}\n{missing}\nftp://somewhere/x.so\n")
    out = tmp_path / "out"
    command = ["survey", first + SECRET, "--from", str(names), "-o", str(out), "--format=jsonl", "--workers=1"]
    assert main(command) == 5
    files = {row["path"]: row["error"] for row in read(out) if row["row"] == "file"}
    assert files.keys() == {first, second, missing, "ftp://somewhere/x.so"}
    assert [path for path, error in files.items() if error is None] == [first, second]
    assert not any(b"0123456789" in path.read_bytes() for path in out.iterdir())
    assert "0123456789" not in capsys.readouterr().err

    server.requests.clear()
    server.files[f"/{SAMPLES[1].name}"].put(SAMPLES[2].read_bytes(), '"2"')
    assert main([*command[:-1], "--workers=2"]) == 5
    assert "4 files (1 of them before)" in capsys.readouterr().err
    assert sum(path.startswith(f"/{SAMPLES[0].name}") for path, _ in server.requests) == 1
    (row,) = [row for row in read(out) if row["path"] == second and row["row"] == "file"]
    assert row["file_size"] == SAMPLES[2].stat().st_size


def test_urls_that_look_the_same_are_reported(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.put("/x.so", SAMPLES[0].read_bytes())
    words = [f"{url}?id=1", f"{url}?id=2", "-o", str(tmp_path / "out"), "--format=jsonl", "--workers=1"]
    assert main(["survey", *words]) == 1
    assert "1 URL not read: they differ from others only in what is not shown" in capsys.readouterr().err
