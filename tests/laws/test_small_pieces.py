"""The law of pieces: what commands say and write does not depend on how many bytes of a file are read at once.

The pieces of a file share one buffer (:meth:`fatpack.io.source.Source.pieces`), so code that keeps one past the next
reads other bytes. With real sizes that shows in files of more than a megabyte only.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws.rooms import format_fixtures, host_fixtures

from fatpack import limits
from fatpack.exit_codes import FINE, USAGE
from fatpack.main import main

PATHS = sorted({path for _, path in [*format_fixtures(), *host_fixtures()] if 2000 < path.stat().st_size < 300_000})

#: Commands, and how many of the paths each takes without a complaint, at least; a file that one refuses is refused with
#: the same words. ``other`` is the file's first image with a changed byte.
LINES = {
    "inspect --json --kernels {file}": len(PATHS) - 6,
    "inspect --digest {file}": len(PATHS) - 1,
    "doctor --json {file}": 25,
    "extract {file} -d images": len(PATHS) - 1,
    "convert {file} --format offload-binary --lossy -o new": len(PATHS) - 1,
    "replace {file} {other} --container 0 --index 0 --force -o new": 15,
    "remove {file} --container 0 --index 0 --allow-empty -o new": 15,
    "normalize {file} -o new": len(PATHS) - 1,
    "normalize {file} --dry-run": len(PATHS) - 1,
    "slim {file} --for sm_80 --allow-empty -o new": 10,
}

#: The file whose compression is read and never written: its images cannot be replaced, which is a mistake of the user.
ONLY_READ = "hand_lz4frame_flag4000.fatbin"


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Return where another image for each path is; an image that NVIDIA's tools obfuscated has none."""
    folder = tmp_path_factory.mktemp("others")
    places = {path: folder / str(number) for number, path in enumerate(PATHS)}
    for path, place in places.items():
        if main(["extract", str(path), "--container", "0", "--index", "0", "-o", str(place)]) == FINE:
            data = place.read_bytes() or b"\n"
            place.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return places


def result(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str, dict[str, bytes]]:
    """Return exit code, output, messages and the files that a command wrote into an empty folder."""
    code = main(line.split())
    said = capsys.readouterr()
    made = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in made:
        (folder / name).unlink()
    return code, said.out, said.err, made


@pytest.mark.parametrize("line", LINES)
def test_pieces_of_any_size_give_the_same(
    line: str,
    others: dict[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = {path: line.format(file=path.resolve(), other=others[path]) for path in PATHS}
    monkeypatch.chdir(tmp_path)
    whole = {path: result(words[path], tmp_path, capsys) for path in PATHS}
    monkeypatch.setattr(limits, "CHUNK", 101)
    for path, wanted in whole.items():
        assert result(words[path], tmp_path, capsys) == wanted, path
    assert {path.name for path, (code, *_) in whole.items() if code == USAGE} <= {ONLY_READ}
    assert sum(code == FINE for code, *_ in whole.values()) >= LINES[line]
    if " -o new" in line:
        assert all(list(made) == ["new"] for code, _, _, made in whole.values() if code == FINE)
