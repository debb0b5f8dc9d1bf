"""``slim --verify`` of two folders: each rule rejects a forgery, and what slimming makes is accepted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.builders import wheels as build
from tests.laws.rooms import FIXTURES

from fatpack.main import main
from fatpack.text.schemas import schema_text

SITE = "lib/python3.11/site-packages"
LIBRARY = FIXTURES / "cuda_fatbin/hosts/libtwo.so"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return an environment and the same one slimmed."""
    before, after = tmp_path / "before", tmp_path / "after"
    for name, data in build.files_of({"demo/__init__.py": b"", "demo/libtwo.so": LIBRARY.read_bytes()}).items():
        (before / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (before / SITE / name).write_bytes(data)
    (before / "lib64").symlink_to("lib")
    shutil.copytree(before, after, symlinks=True)
    assert main(["slim", "--environment", str(after), "--for", "sm_90", "--quiet"]) == 0
    return before, after


def verify(*words: object) -> int:
    return main(["slim", "--verify", *map(str, words)])


def test_a_slimmed_environment_is_proved(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*folders, "--certificate", tmp_path / "c.json") == 0
    assert "1 library proved" in capsys.readouterr().out
    document = json.loads((tmp_path / "c.json").read_text())
    jsonschema.validate(document, json.loads(schema_text("package-certificate")))
    assert (document["kind"], document["proved"], len(document["libraries"])) == ("folder", True, 1)
    assert document["described"] == [f"{SITE}/demo-1.5.dist-info/RECORD"]


def test_a_slimmed_copy_of_a_folder_is_proved(folders: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert main(["slim", str(folders[0]), "--for", "sm_90", "-d", str(copy), "--quiet"]) == 0
    assert verify(folders[0], copy) == 0


def test_the_same_folder_is_told_at_once(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folders[0], folders[0]) == 0
    assert "byte for byte" in capsys.readouterr().out


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0x1190] ^= 1  # in its code
    path.write_bytes(data)


def _relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda path: (path / SITE / "demo/new.py").write_text(""), "expected nothing, found file"),
        (lambda path: (path / SITE / "demo/__init__.py").unlink(), "found nothing"),
        (lambda path: (path / SITE / "demo/__init__.py").write_text("1"), "only linked programs are proved"),
        (lambda path: (path / SITE / "demo/__init__.py").chmod(0o777), "found file 777"),
        (lambda path: (path / SITE / "demo").chmod(0o700), "found folder 700"),
        (lambda path: _relink(path / "lib64"), "found link to elsewhere"),
        (lambda path: _damage(path / SITE / "demo/libtwo.so"), "1 difference"),
        (
            lambda path: shutil.copy(
                path.with_name("before") / SITE / "demo-1.5.dist-info/RECORD", path / SITE / "demo-1.5.dist-info"
            ),
            "expected the new digest, found the old one",
        ),
    ],
)
def test_a_forgery_is_rejected(
    forge: Callable[[Path], object],
    words: str,
    folders: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    forge(folders[1])
    assert verify(*folders) == 1
    assert words in capsys.readouterr().out


def test_a_folder_and_a_file_are_not_compared(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folders[0], LIBRARY) == 4
    assert "is no folder as the other one is; give two folders" in capsys.readouterr().err


def test_a_wheel_and_the_folder_of_its_result_are_told_apart_by_the_file_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel, out = tmp_path / "x-1-py3-none-any.whl", tmp_path / "slim"
    out.mkdir()
    others = ("a-1-py3-none-any.whl", "x-1.txt", "y-1-py3-none-any.whl")
    for path in (wheel, out / "x-1-1sm90-py3-none-any.whl", *(out / name for name in others)):
        path.write_bytes(b"PK")
    assert verify(wheel, out) == 4
    assert capsys.readouterr().err.rstrip().endswith(f"give the file in it: {out / 'x-1-1sm90-py3-none-any.whl'}")
