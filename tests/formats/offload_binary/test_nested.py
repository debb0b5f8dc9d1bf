"""Offload binaries inside images of offload binaries, used by OpenMP for Intel's GPUs since LLVM 23."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.builders.spirv import KERNEL, module
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run

from fatpack.formats import offload_binary
from fatpack.io.source import Span
from fatpack.main import main
from fatpack.model import Container, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_image, make_view

#: The outer binary that clang-linker-wrapper 23 wraps for liboffload.
WRAPPED = FIXTURES / "offload_binary" / "llvm-23-nested.bin"


def packed(*parts: tuple[bytes, str, str, dict[str, str]]) -> bytes:
    """Return an offload binary of version 2 of parts: bytes, form, triple, keys."""
    images = [
        make_image(data, form=form, target=Target(triple, "", "openmp"), attrs=keys)
        for data, form, triple, keys in parts
    ]
    return join_pieces(offload_binary.write(Container("llvm-offload-binary", 2, tuple(images), Span(0, 0))))


def nested() -> bytes:
    """Return SPIR-V for Intel's GPUs in a binary in a binary, and plain SPIR-V after it."""
    keys = {"version": "1.0", "format": "spirv"}
    inner = packed((module([(KERNEL, "one"), (KERNEL, "two")]), "spirv", "spirv64-intel", keys))
    return packed((inner, "object", "spirv64-intel", {}), (module([(KERNEL, "three")]), "spirv", "spirv64", {}))


def leaves(found: FoundContainer) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return triple, form and kernels of the images that contain no others, with the keys of the entry."""
    rows = []
    for item in found.images:
        inside = list(item.containers)
        for other in inside:
            rows += leaves(other)
        if not inside:
            rows.append((item.target.triple, item.form, ",".join(item.attrs), item.kernel_names))
    return rows


def test_what_clang_wraps_is_entered() -> None:
    (found,) = scan(make_view(WRAPPED.read_bytes()))
    assert isinstance(found, FoundContainer)
    (outer,) = found.images
    assert (outer.as_stored.form, outer.form, outer.target.triple) == ("object", "offload-binary", "spirv64-intel")
    ((triple, form, keys, kernels),) = leaves(found)
    assert (triple, form, keys) == ("spirv64-intel", "spirv", "version")
    assert len(kernels) == 1
    assert kernels[0].startswith("__omp_offloading_")


def test_leaves_keep_their_keys_and_kernels() -> None:
    (found,) = scan(make_view(nested()))
    assert isinstance(found, FoundContainer)
    assert leaves(found) == [
        ("spirv64-intel", "spirv", "version,format", ("one", "two")),
        ("spirv64", "spirv", "", ("three",)),
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.bin").write_bytes(nested())
    return tmp_path


def test_sums_count_leaves_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--by", "arch", "--json", "x.bin"]) == 0
    record = json.loads(capsys.readouterr().out)
    sizes = [len(module(entries)) for entries in ([(KERNEL, "three")], [(KERNEL, "one"), (KERNEL, "two")])]
    assert [(row["arch"], row["form"], row["images"], row["size"]) for row in record["rows"]] == [
        ("spirv64-intel", "spirv", 1, sizes[1]),
        ("spirv64", "spirv", 1, sizes[0]),
    ]
    assert record["total"] == {"images": 2, "stored_size": sum(sizes), "size": sum(sizes)}


def test_llvms_tool_extracts_the_same_leaves(folder: Path) -> None:
    """llvm-offload-binary 23 enters nested binaries if it extracts everything."""
    assert main(["extract", "x.bin", "-d", "mine"]) == 0
    mine = {path.read_bytes() for path in (folder / "mine").glob("*.spv")}
    theirs = folder / "theirs"
    theirs.mkdir()
    run(llvm_tool("llvm-offload-binary", "23"), "../x.bin", cwd=theirs)
    assert mine == {path.read_bytes() for path in theirs.iterdir()}
    assert len(mine) == 2


def test_llvms_tool_lists_the_same_leaf(tmp_path: Path) -> None:
    done = subprocess.run(
        [llvm_tool("llvm-objdump", "23"), "--offloading", WRAPPED], capture_output=True, check=True, text=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["OFFLOADING", "IMAGE", "[0.0]:"] in rows
    assert rows[-1] == ["image", "size", str(_size_of_leaf()), "bytes"]


def _size_of_leaf() -> int:
    (found,) = scan(make_view(WRAPPED.read_bytes()))
    assert isinstance(found, FoundContainer)
    inside = found.images[0].containers[0]
    return inside.images[0].size
