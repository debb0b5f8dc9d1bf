"""``inspect --runtime`` of folders, patterns, packages and members: each file as if it was named itself."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main
from fatpack.text.schemas import schema_text

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    pytest.importorskip("capstone")
    folder = tmp_path / "tree"
    folder.mkdir()
    for name in ("single.o", "libtwo.so", "clang_win.obj"):
        shutil.copy(HOSTS / name, folder)
    (folder / "read.me").write_text("nothing\n" * 100)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as package:
        for path in sorted(folder.iterdir()):
            package.write(path, path.name)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(["inspect", "--runtime", *arguments])
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err


def test_each_file_of_a_tree_is_shown_as_alone_and_the_worst_decides(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone: dict[str, list[str]] = {}
    for name in ("clang_win.obj", "libtwo.so", "single.o"):
        code, alone[name], _ = printed(capsys, str(tree / "tree" / name))
        assert code == (1 if name == "clang_win.obj" else 0)
    for given in (tree / "tree", tree / "x.zip", tree / "tree" / "*"):
        code, lines, _ = printed(capsys, str(given))
        assert code == 1
        for name, own in alone.items():
            assert set(own[1:]) <= set(lines), (given, name)
        assert " 3 with units (3 units" in lines[-1]
    code, lines, _ = printed(capsys, str(tree / "tree"), "--exclude", "*.obj")
    assert code == 0
    assert " 2 with units" in lines[-1]


def test_what_cannot_be_read_decides_too(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = printed(capsys, str(tree / "tree"), str(tree / "none"))
    assert code == 5
    assert "No such file" in error


def test_json_has_all_files_errors_and_trees(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["inspect", "--runtime", "--json", str(tree / "x.zip"), str(tree / "none"), str(HOSTS / "dlink.o")]) == 5
    )
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("runtime")))
    assert [len(file["units"]) for file in document["files"]] == [1, 1, 1, 0, 1]
    assert document["files"][3]["error"]["exit_code"] == 5
    (counts,) = document["trees"]
    assert (counts["files"], counts["with_device_code"], counts["images"]) == (4, 3, 3)


def test_a_file_in_a_package_can_be_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = printed(capsys, f"{tree}/x.zip!libtwo.so")
    assert code == 0
    assert "  registered: 5 kernels, 2 variables, by nvcc calls" in lines
