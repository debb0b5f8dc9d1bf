"""The programs of docs/how-to/use-the-library.md print what the page says, wheels that are cut short included."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.builders import wheels as build
from tests.laws.rooms import FIXTURES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-the-library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"


def _wheel(name: str, files: dict[str, bytes]) -> bytes:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    packed = {f"{name}/__init__.py": b"", **files}
    return build.packed(build.files_of(packed, info=f"{name}-1.0.dist-info", metadata=metadata))


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with the wheels of the page."""
    whole = _wheel("kernels", {"kernels/libtwo.so": LIBRARY.read_bytes()})
    folder = tmp_path / "dist"
    folder.mkdir()
    for name, data in (("kernels", whole), ("plain", _wheel("plain", {})), ("cut", whole[: len(whole) // 2])):
        (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(data)
    return tmp_path


def test_the_programs_print_what_the_page_says(dist: Path) -> None:
    parts = [(language, text) for language, text in BLOCKS if language in ("python", "text")]
    program = "\n".join(text for language, text in parts if language == "python")
    expected = "".join(text for language, text in parts if language == "text")
    done = subprocess.run([sys.executable, "-c", program], cwd=dist, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (expected, "")


def test_the_entry_of_a_host_is_no_architecture(tmp_path: Path) -> None:
    """Bundles of HIP have an entry for the host, whose architecture is empty."""
    (tmp_path / "hip.whl").write_bytes(_wheel("hip", {"hip/a.o": (FIXTURES / "elf" / "clang-22-hip.o").read_bytes()}))
    (program,) = (text for language, text in BLOCKS if language == "python" and "def archs_of" in text)
    names: dict[str, Any] = {}
    exec(program.partition("for name in")[0], names)
    assert names["archs_of"](str(tmp_path / "hip.whl")) == ({"hip/a.o": ["gfx1100", "gfx90a"]}, [])


def test_the_dependence_can_be_read() -> None:
    (settings,) = (text for language, text in BLOCKS if language == "toml")
    assert tomllib.loads(settings)["project"]["dependencies"][0].startswith("fatpack @ git+https://")
