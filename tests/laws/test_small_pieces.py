"""The law of pieces: what commands say and write does not depend on how many bytes of a file are read at once.

The pieces of a file share one buffer (:meth:`fatpack.io.source.Source.pieces`), so code that keeps one past the next
reads other bytes. With real sizes that shows in files of more than a megabyte only.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_lines import parsed
from tests.laws.rooms import format_fixtures, host_fixtures

from fatpack import limits
from fatpack.main import main

PATHS = sorted({path for _, path in [*format_fixtures(), *host_fixtures()] if 2000 < path.stat().st_size < 300_000})

IMAGE = "tests/fixtures/cuobjdump/samples/k1.cuda13.0.sm_75.cubin"

#: commands; a file that one refuses is refused with the same words
LINES = (
    "inspect --json --kernels {file}",
    "inspect --digest {file}",
    "doctor --json {file}",
    "extract {file} -d images",
    "convert {file} --format offload-binary -o new",
    "replace {file} {image} --container 0 --index 0 -o new",
    "remove {file} --container 0 --index 0 -o new",
    "normalize {file} --dry-run",
    "slim {file} --for sm_90 -o new",
)


def result(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str, dict[str, bytes]]:
    """Return exit code, output, messages and the files that a command wrote into an empty folder."""
    code = main(line.split())
    said = capsys.readouterr()
    made = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in made:
        (folder / name).unlink()
    return code, said.out, said.err, made


@pytest.mark.parametrize("line", LINES)
def test_every_line_can_be_typed(line: str) -> None:
    name, *words = line.format(file=PATHS[0], image=IMAGE).split()
    parsed(name, words)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_pieces_of_any_size_give_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.format(file=path.resolve(), image=Path(IMAGE).resolve()) for line in LINES]
    monkeypatch.chdir(tmp_path)
    whole = [result(line, tmp_path, capsys) for line in lines]
    monkeypatch.setattr(limits, "CHUNK", 101)
    for line, wanted in zip(lines, whole, strict=True):
        assert result(line, tmp_path, capsys) == wanted, line
