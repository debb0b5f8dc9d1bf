"""Metadata beside an image in a package: read as it is read beside the unpacked image."""

from __future__ import annotations

import errno
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.inputs.files import PackageSidecars
from fatpack.io.open import open_source
from fatpack.io.source import View
from fatpack.main import main
from fatpack.packages import PackageMember
from fatpack.packages import zip as zip_room

CACHE = FIXTURES / "triton"


def pt2(path: Path, capability: str, *, compression: int = zipfile.ZIP_STORED, damaged: bool = False) -> Path:
    """Write a package as AOTInductor does: images, host code and metadata of a model in one folder, all stored."""
    metadata = {"AOTI_DEVICE_KEY": "cuda", "AOTI_PLATFORM": "linux", "AOTI_COMPUTE_CAPABILITY": capability}
    content = json.dumps(metadata)
    with zipfile.ZipFile(path, "w", compression) as package:
        root = path.stem
        package.writestr(f"{root}/archive_format", "pt2")
        package.writestr(f"{root}/version", "0")
        folder = f"{root}/data/aotinductor/model"
        package.write(CACHE / "sm_90" / "sum_kernel.cubin", f"{folder}/c7d.cubin")
        package.writestr(f"{folder}/c0a.wrapper.cpp", "// host code")
        package.writestr(f"{folder}/c0a.wrapper_metadata.json", content)
        package.writestr(f"{root}/extra/other_metadata.json", "{}")
    if damaged:
        data = path.read_bytes()
        path.write_bytes(data.replace(content.encode(), content.replace('{"', '"{', 1).encode()))
    return path


def listed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["inspect", *map(str, arguments)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_package_of_inductor_is_compared_with_what_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compression: int
) -> None:
    code, text = listed(capsys, pt2(tmp_path / "right.pt2", "90", compression=compression))
    assert code == 0
    assert "  c0a.wrapper_metadata.json (AOTInductor): sm_90\n" in text
    code, text = listed(capsys, pt2(tmp_path / "wrong.pt2", "80", compression=compression))
    assert code == 1
    assert "c0a.wrapper_metadata.json says sm_80, and the image is a cubin for sm_90a" in text


def test_law_what_is_unpacked_is_listed_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = pt2(tmp_path / "model.pt2", "80")
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)
    _, packed = listed(capsys, package)
    code, unpacked = listed(capsys, tmp_path / "model")
    assert code == 1
    first = packed.replace(f"{package}!model/", "").splitlines()[:4]
    second = unpacked.replace(f"{tmp_path / 'model'}/", "").splitlines()[:4]
    assert first == second
    assert "FP1111" in "".join(first)


def test_an_address_into_a_package_has_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = pt2(tmp_path / "model.pt2", "80")
    code, text = listed(capsys, f"{package}!model/data/aotinductor/model/c7d.cubin")
    assert (code, "FP1111" in text) == (1, True)


def test_a_cache_in_a_zip_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cache.zip"
    with zipfile.ZipFile(path, "w") as package:
        package.write(CACHE / "sm_90" / "sum_kernel.cubin", "sum_kernel.cubin")
        package.write(CACHE / "gfx942" / "sum_kernel.json", "sum_kernel.json")
        package.write(CACHE / "sm_90" / "sum_kernel.json", "other/sum_kernel.json")
    code, text = listed(capsys, path)
    assert code == 1
    assert "sum_kernel.json says gfx942, and the image is a cubin for sm_90a" in text


def test_damaged_metadata_is_a_finding_and_the_image_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = listed(capsys, pt2(tmp_path / "model.pt2", "90", damaged=True))
    assert code == 1
    assert "FP1114" in text
    assert "cubin sm_90a" in text


def test_in_an_archive_that_is_read_forwards_nothing_is_beside_an_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cache.tar.gz"
    with tarfile.open(path, "w:gz") as package:
        for name in ("sm_90/sum_kernel.cubin", "gfx942/sum_kernel.json"):
            package.add(CACHE / name, Path(name).name)
    code, text = listed(capsys, path)
    assert (code, "sum_kernel.json" in text, "cubin sm_90a" in text) == (0, False, True)


def test_an_error_on_the_way_is_no_answer_for_the_next_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("a/k.json", "{}")
        package.writestr("b/k.json", "{}")

    def cut(view: View) -> Iterator[object]:
        yield next(item for item in members(view) if isinstance(item, PackageMember))
        raise OSError(errno.EIO, "Input/output error")

    members = zip_room.members
    with open_source(path) as source:
        together = PackageSidecars(source.view(), "zip")
        monkeypatch.setattr(zip_room, "members", cut)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                together.of("b")
        monkeypatch.undo()
        assert list(together.of("b")) == ["k.json"]
