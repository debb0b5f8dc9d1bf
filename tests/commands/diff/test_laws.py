"""A file does not differ from itself, both directions say the same, and slimming only loses."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.diff.model import ArchDiff, DiffResult, LibraryDiff
from fatpack.commands.diff.release import Release
from fatpack.commands.diff.run import compare_releases

FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.is_file() and not path.name.endswith((".inspect.json", ".toml", ".md", ".sh", ".txt", ".py"))
)

#: (what OLD has, what NEW has) below one name: files of several formats and hosts
PAIRS = [
    ("cuda/cubin/k1.cuda13.0.sm_80.cubin", "cuda/cubin/k1.cuda13.0.sm_90.cubin"),
    ("offload_binary/llvm-22-four.bin", "cuda/cubin/k1.cuda13.0.sm_90.cubin"),
    ("kernels/needs.v5.gfx1100.hsaco", "kernels/needs.v6.gfx90a.hsaco"),
    ("cuda_fatbin/recorded/v130_none.fatbin", ""),
    ("", "kernels/needs.cuda13.0.sm_75.cubin"),
    ("kernels/needs.v5.gfx1100.hsaco", "kernels/needs.v5.gfx1100.hsaco"),
]


@pytest.mark.sweep(12)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_nothing_differs_from_itself(path: Path) -> None:
    found = compare_releases(Release(path), Release(path), kernels=True)
    assert not found.differs
    assert found.kinds == ()
    assert all(library.is_same for library in found.libraries)


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    for number, pair in enumerate(PAIRS):
        for side, name in zip(("old", "new"), pair, strict=True):
            folder = tmp_path / side / "lib"
            folder.mkdir(parents=True, exist_ok=True)
            if name:
                shutil.copy(FIXTURES / name, folder / f"lib{number}x.so")
    return tmp_path / "old", tmp_path / "new"


def mirrored(found: DiffResult) -> DiffResult:
    """Return what the other direction has to say."""
    libraries = tuple(
        LibraryDiff(
            {"lost": "added", "added": "lost"}.get(item.kind, item.kind),  # type: ignore[arg-type]
            item.old_name or item.name,
            item.new_path,
            item.old_path,
            item.new_file,
            item.old_file,
            item.new_packed,
            item.old_packed,
            tuple(map(_mirrored, item.archs)),
            item.moved,
            item.name if item.new_path else None,
        )
        for item in found.libraries
    )
    return found.replace(old=found.new, new=found.old, libraries=libraries)


def _mirrored(arch: ArchDiff) -> ArchDiff:
    words = {"lost": "added", "added": "lost", "changed": "changed"}
    kernels = (
        None
        if arch.kernels is None
        else tuple(
            item.replace(kind=words[item.kind], needs=tuple((name, new, old) for name, old, new in item.needs))
            for item in arch.kernels
        )
    )
    return arch.replace(
        old_images=arch.new_images,
        new_images=arch.old_images,
        lost=arch.added,
        added=arch.lost,
        old=arch.new,
        new=arch.old,
        kernels=kernels,
    )


@pytest.mark.parametrize("kernels", [False, True])
def test_both_directions_say_the_same(releases: tuple[Path, Path], kernels: bool) -> None:
    old, new = releases
    there, back = fatpack.diff(old, new, kernels=kernels), fatpack.diff(new, old, kernels=kernels)
    assert mirrored(there) == back
    assert [item.kind for item in there.libraries] == ["both", "both", "both", "lost", "added", "both"]
    assert there.kinds[:2] == ("lost", "added")


def test_slimming_loses_and_changes_nothing(tmp_path: Path) -> None:
    path = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
    archs = sorted({image.target.arch for found in fatpack.scan(path) for image in found.images})
    fatpack.slim(path, tmp_path / "x.fatbin", drop=archs[:1])
    found = fatpack.diff(path, tmp_path / "x.fatbin", kernels=True)
    assert found.kinds == ("lost",)
    (library,) = found.libraries
    assert {arch.arch for arch in library.archs if not arch.is_same} == set(archs[:1])
    assert found.growth < 0


def test_a_wheel_is_what_it_unpacks_to(releases: tuple[Path, Path], tmp_path: Path) -> None:
    folder = releases[0]
    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*.so")):
            archive.write(path, path.relative_to(folder))
    found = fatpack.diff(wheel, folder, kernels=True)
    assert found.kinds == ()
    assert len(found.libraries) == len(list(folder.rglob("*.so")))
    with zipfile.ZipFile(wheel) as archive:
        assert {item.name: item.old_packed for item in found.libraries} == {
            item.filename: item.compress_size for item in archive.infolist()
        }
