"""What clang and wasm-ld of LLVM 22 write, read by llvm-readobj and llvm-objcopy too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run

from fatpack.hosts import Site, wasm
from fatpack.io.sources.opening import open_source

pytestmark = pytest.mark.reference

CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"
#: our name of a section → LLVM's
_SHORT = {"data-count": "datacount", "element": "elem"}
MADE = sorted(path for path in (FIXTURES / "wasm").iterdir() if path.suffix != ".json")


def assert_same(path: Path, folder: Path) -> None:
    """Compare names, places and contents of the sections with what LLVM reads."""
    text = run("llvm-readobj", "--sections", path).stdout.decode()
    expected = []
    for block in text.split("  Section {\n")[1:]:
        kind = re.search(r"Type: (\S+)", block)
        name = re.search(r"^    Name: (\S+)", block, re.MULTILINE)
        assert kind
        expected.append(name[1] if name else kind[1])
    with open_source(path) as source:
        rows = wasm.sections(source.view())
        assert [_SHORT.get(name, name).upper() for _, _, name, _ in rows] == [name.upper() for name in expected]
        for site in wasm.locate(source.view()):
            assert isinstance(site, Site)
            run("llvm-objcopy", f"--dump-section={site.section}={folder / 'dump'}", path, folder / "copy")
            assert (folder / "dump").read_bytes() == site.data.tobytes()


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_sections_of_the_fixtures_are_those_that_llvm_reads(path: Path, tmp_path: Path) -> None:
    assert_same(path, tmp_path)


@pytest.mark.parametrize("target", ["wasm32", "wasm64", "wasm32-wasip1"])
def test_compilers_put_offload_binaries_into_a_custom_section(tmp_path: Path, target: str) -> None:
    (tmp_path / "x.c").write_text("int counter = 1; int f(void) { return counter; }\n")
    embedded = ["-Xclang", f"-fembed-offload-object={CONTAINER}"]
    run("clang", f"--target={target}", "-g", "-c", tmp_path / "x.c", *embedded, "-o", tmp_path / "x.o")
    assert_same(tmp_path / "x.o", tmp_path)
    with open_source(tmp_path / "x.o") as source:
        (site,) = [item for item in wasm.locate(source.view()) if isinstance(item, Site)]
        assert site.data.tobytes() == CONTAINER.read_bytes()
