"""The walk of docs/how-to/read-from-anywhere.md, against real servers on this machine."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.http_server import Server, serving
from tests.builders.s3_server import storing
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-from-anywhere.md"
LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    with serving() as running:
        running.put("/libx.so", LIBRARY.read_bytes())
        running.put("/libx.a", (FIXTURES / "archive" / "llvm-22-gnu.a").read_bytes())
        yield running


def test_the_commands_run(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copy(LIBRARY, tmp_path / "libx.so")
    (block,) = blocks("console")
    lines = [shlex.split(line)[2:] for line in block.splitlines()]
    assert [line[0] for line in lines] == ["inspect", "inspect", "extract", "convert", "inspect"]
    with pytest.MonkeyPatch.context() as settings, storing(settings) as store:
        s3 = store.put("libx.so", LIBRARY.read_bytes())
        places = {"https://example.com": server.base, "s3://bucket/libx.so": s3, "file:///srv": tmp_path.as_uri()}
        for line in lines:
            for shown, real in places.items():
                line = [word.replace(shown, real) for word in line]  # noqa: PLW2901
            assert main(line) == 0, line
            out, err = capfd.readouterr()
            assert out + err
    assert sorted(file.suffix for file in Path("images").iterdir()) == [".cubin", ".ptx"]
    assert Path("x.bundle").exists()


def test_the_examples_print_what_the_page_says(server: Server) -> None:
    with zipfile.ZipFile("x.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(LIBRARY, "pkg/libx.so")
    names: dict[str, object] = {}
    examples = list(zip(blocks("python"), blocks("text"), strict=True))
    assert len(examples) == 2
    for program, expected in examples:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(program.replace("https://example.com", server.base), names)
        assert output.getvalue().replace(server.base, "https://example.com") == expected
