"""Wheels of vendors: no command warns of them, and each way to name their files gives the same images.

``vendor_wheels.txt`` names the wheels: distribution, version, images. Each is taken from the folder that
``FATPACK_WHEELS`` names, or downloaded with pip, and removed after its test. One that cannot be had is skipped, so the
summary of the run counts it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests import reference

import fatpack
from fatpack.main import main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.tabular.columns import Row

LIST = Path(__file__).with_name("vendor_wheels.txt")
WHEELS = [tuple(line.split()) for line in LIST.read_text(encoding="utf-8").splitlines() if line[:1].isalpha()]

#: what pip takes for the platform of these wheels; it does not take the older names for the newer ones
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 26, 24, 17, 12, 5)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]
OPTIONS = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--python-version=3.12"]
OPTIONS += ["--retries=1", "--timeout=15"]

#: wheels whose download took too long: after two, no other is tried
SLOW: list[str] = []

#: Text that no search looks into, alone or in a package.
_TEXTS = (".py", ".pyi", ".h", ".hpp", ".cuh", ".txt", ".md")


def fetched(name: str, version: str, folder: Path) -> Path:
    """Return the path of a wheel; skip the test if it cannot be had."""
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    for path in sorted(Path(os.environ.get("FATPACK_WHEELS", "nowhere")).glob(pattern)):
        return path
    if len(SLOW) > 1:
        pytest.skip(f"{name}=={version}: no package comes in time, after {' and '.join(SLOW)}")
    options = [*OPTIONS, *(f"--platform={platform}" for platform in PLATFORMS), f"--dest={folder}"]
    try:
        command = [sys.executable, "-m", "pip", "download", *options, f"{name}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        SLOW.append(name)
        pytest.skip(f"{name}=={version} took too long to download")
    if done.returncode:
        pytest.skip(f"{name}=={version} is not to be had: {done.stderr.strip().splitlines()[-1:]}")
    (path,) = folder.glob("*.whl")
    return path


def severe(value: Any) -> list[tuple[str, str]]:
    """Return the code and message of every finding in a document that is no note."""
    if isinstance(value, list):
        return [item for each in value for item in severe(each)]
    if not isinstance(value, dict):
        return []
    own = [(value["code"], value["message"])] if value.get("severity") in ("warning", "error") else []
    return own + [item for each in value.values() for item in severe(each)]


def images(rows: Iterable[Row], start: str) -> list[tuple[Any, ...]]:
    """Return where each image is and what it is; the paths are those after ``start``."""
    return sorted(
        (row.path.removeprefix(start), row.position, row.container_format, row.offset, row.triple, row.arch, row.form)
        for row in rows
        if row.row == "image"
    )


def test_the_list_has_sixty_wheels() -> None:
    assert len({name for name, *_ in WHEELS}) == len(WHEELS) >= 60
    assert sum(int(count) > 0 for _, _, count in WHEELS) >= 40


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version", "count"), WHEELS, ids=[name for name, *_ in WHEELS])
def test_a_wheel_is_judged_without_a_warning_and_read_alike_in_every_way(
    name: str, version: str, count: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel = fetched(name, version, tmp_path)
    folder, table = tmp_path / "unpacked", tmp_path / "table"
    try:
        main(["doctor", str(wheel), "--json"])
        document = json.loads(capfd.readouterr().out)
        assert severe(document) == []
        assert document["exit_code"] == (0 if int(count) else 1)  # 1: no device code found
        packed = images(fatpack.rows(wheel), f"{wheel}!")
        assert len(packed) == int(count)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        assert images(fatpack.rows(folder), f"{folder}/") == packed
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in _TEXTS]
        alone = [row for path in files for row in fatpack.rows(path)]
        assert images(alone, f"{folder}/") == packed
        reference.package("pyarrow")
        assert main(["survey", str(wheel), "-o", str(table), "-q"]) == 0
        parquet = importlib.import_module("pyarrow.parquet")
        columns = parquet.read_table(table, columns=["row"]).column("row").to_pylist()
        assert columns.count("image") == len(packed)
    finally:
        for path in (*tmp_path.rglob("*.whl"), *(path for path in folder.rglob("*") if path.is_file())):
            path.unlink()
