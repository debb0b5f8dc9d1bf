"""Trees of standalone images: their totals, in folders, in packages and one by one."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import msgpack
import pytest
from tests.builders import archive
from tests.laws.rooms import FIXTURES

from fatpack.main import main

FILES = {
    f"library/{path.parent.name}/{path.name}": path
    for folder in ("triton/sm_90", "triton/gfx942", "kernels", "tile_ir")
    for path in sorted((FIXTURES / folder).iterdir())
    if path.is_file() and path.suffix in (".cubin", ".hsaco", ".spv", ".tileirbc")
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder of images, of files beside them, and of one library with images as members."""
    root = tmp_path / "tree"
    for name, path in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / name)
    (root / "library" / "TensileLibrary_gfx942.dat").write_bytes(msgpack.packb({"solutions": [], "library": {}}))
    (root / "library" / "fatpack.json").write_text("{}")
    members = [(path.name.encode()[:15] + b"/", path.read_bytes()) for path in FILES.values()]
    (root / "all.a").write_bytes(b"!<arch>\n" + b"".join(archive.member(name, data) for name, data in members))
    return root


def sums(capsys: pytest.CaptureFixture[str], *names: object) -> dict[str, Any]:
    assert main(["inspect", "--by", "arch", "--json", *map(str, names)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {"rows": found["rows"], "total": found["total"]}


def test_law_a_tree_adds_up_to_its_files_however_it_is_packed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in tree.rglob("*") if path.suffix not in (".json", ".dat") and path.is_file()]
    expected = sums(capsys, *files)
    assert expected["total"]["images"] == 2 * len(FILES)
    assert expected["total"]["size"] == 2 * sum(path.stat().st_size for path in FILES.values())
    assert sums(capsys, tree) == expected
    with zipfile.ZipFile(tree.parent / "tree.zip", "w", zipfile.ZIP_DEFLATED) as package:
        for path in files:
            package.write(path, path.relative_to(tree))
    with tarfile.open(tree.parent / "tree.tar.gz", "w:gz") as package:
        package.add(tree, "tree")
    for name in ("tree.zip", "tree.tar.gz"):
        packed = sums(capsys, tree.parent / name)
        assert [(row["arch"], row["form"], row["images"], row["size"]) for row in packed["rows"]] == [
            (row["arch"], row["form"], row["images"], row["size"]) for row in expected["rows"]
        ]


def test_a_table_of_tensile_is_named_and_holds_no_device_code(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tree / "library" / "TensileLibrary_gfx942.dat"
    assert main(["inspect", str(path)]) == 0
    assert capsys.readouterr().out == (
        f"{path}: a table of Tensile, which names kernels of code objects beside it, 21 B\n  no device code found\n"
    )
    path.write_bytes(msgpack.packb({"solution": 1, "library": 2}))
    assert main(["inspect", str(path)]) == 0
    assert "Tensile" not in capsys.readouterr().out.partition(": ")[2]
