"""AKS2 archives: what is listed, each error with its offset and field, each finding."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.builders.amd_stores import KEY, aks2, hsaco

import fatpack
from fatpack.errors import BadValue, FormatError
from fatpack.formats import aks2 as room
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces, make_view

A, B = hsaco("gfx942"), hsaco("gfx1100")
GOOD = aks2([(KEY, A), (KEY.replace(b"32", b"64"), b"")])


def codes(container: Container) -> list[str]:
    return [item.code for item in container.findings]


def test_entries_without_code_are_counted_and_are_no_images() -> None:
    found = room.parse(make_view(GOOD))
    (image,) = found.images
    assert (image.target.arch, image.target.triple, image.form) == ("gfx942", "amdgcn-amd-amdhsa", "code-object")
    assert dict(image.attrs) == {"key": KEY.decode(), "shared_memory": "4096", "threads": "256"}
    assert image.data.tobytes() == A
    assert (found.findings, found.span.size) == ((), len(GOOD))
    facts = {"entry_count": 2, "without_code": 1, "total_size": 4322, "directory_size": 170}
    assert dict(room.describe(found)) == facts


def test_a_truncated_stream_is_damage_though_the_runtime_takes_it() -> None:
    found = room.parse(make_view(GOOD[:-40]))
    assert codes(found) == ["FP1901", "FP1903"]
    assert "4258 bytes came out of 4322" in found.findings[0].message
    assert found.images == ()


def test_images_before_the_damage_are_listed() -> None:
    data = aks2([(b"x", A), (b"y", B)])
    found = room.parse(make_view(data[:-60]))
    assert [image.target.arch for image in found.images] == ["gfx942"]
    assert found.images[0].data.tobytes() == A


@pytest.mark.parametrize("total", [10, 5000])
def test_a_wrong_total_is_damage(total: int) -> None:
    found = room.parse(make_view(aks2([(KEY, A)], total=total)))
    assert codes(found) == ["FP1902"]
    assert [image.data.tobytes() for image in found.images] == [A]


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (aks2([(KEY, A)], count=2), "entry_count", 8),
        (aks2([(KEY, A)], count=0), "directory_size", 12),
        (aks2([(KEY, A)], directory_size=7), "entry_count", 8),
        (aks2([(KEY, A)], directory_size=90_000), "directory_size", 12),
        (aks2([(KEY, A)], directory_size=30), "directory_size", 12),
        (aks2([(b"a\0b", A)]), "directory_size", 12),
        (GOOD[:30], "stream", 16),
        (GOOD[:16] + b"no stream at all", "stream", 16),
    ],
)
def test_a_damaged_directory_is_an_error_at_its_field(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(BadValue) as caught:
        room.parse(make_view(data))
    assert (caught.value.field, caught.value.offset) == (field, offset)


@pytest.mark.parametrize("size", [0, 3, 15])
def test_a_cut_header_is_an_error(size: int) -> None:
    with pytest.raises(FormatError):
        room.parse(make_view(GOOD[:size]))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (aks2([(b"x", A), (b"x", B)]), "FP1904"),
        (aks2([(b"x", A), (b"y", B)], offsets=[0, 8]), "FP1905"),
        (aks2([(b"x", A)], offsets=[8], rest=bytes(8)), "FP1906"),
        (aks2([(b"x", A)], rest=b"more"), "FP1906"),
        (aks2([(b"x", A)], offsets=[9999]), "FP1903"),
    ],
)
def test_contradictions_are_findings(data: bytes, code: str) -> None:
    assert code in codes(room.parse(make_view(data)))


@pytest.mark.parametrize(
    ("folder", "arch", "is_wrong"),
    [
        ("amd-gfx942", "gfx942", False),
        ("amd-gfx942", "gfx1100", True),
        ("amd-gfx11xx", "gfx1100", False),
        ("amd-gfx110x", "gfx1100", False),
        ("amd-gfx120x", "gfx1100", True),
        ("other", "gfx1100", False),
    ],
)
def test_images_outside_of_the_family_that_a_folder_names_are_found(
    tmp_path: Path, folder: str, arch: str, is_wrong: bool
) -> None:
    path = tmp_path / folder / "flash" / "x.aks2"
    path.parent.mkdir(parents=True)
    path.write_bytes(aks2([(KEY, hsaco(arch))]))
    assert ("FP1907" in [item.code for item in fatpack.doctor(path).findings]) == is_wrong


def test_the_target_in_the_name_of_a_file_is_compared_too(tmp_path: Path) -> None:
    path = tmp_path / "FONLY__a___gfx942.aks2"
    path.write_bytes(aks2([(KEY, B)]))
    assert [item.code for item in fatpack.doctor(path).findings] == ["FP1907"]


def test_a_rewrite_leaves_out_an_image_and_keeps_entries_without_code() -> None:
    found = room.parse(make_view(aks2([(b"none", b""), (b"x", A), (b"y", B), (b"z", b"")])))
    again = room.parse(make_view(join_pieces(room.write(found.replace(images=found.images[1:])))))
    assert [image.data.tobytes() for image in again.images] == [B]
    assert (dict(room.describe(again))["entry_count"], again.findings) == (3, ())


def test_archives_in_a_zip_are_checked_and_extracted(tmp_path: Path) -> None:
    path = tmp_path / "flat.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("amd-gfx942/FONLY__a___gfx942.aks2", GOOD)
        made.writestr("__signature__", b"sig")
    assert fatpack.check(path, require="gfx942").verdict == "passed"
    assert fatpack.check(path, require="gfx1100").verdict == "failed"
    fatpack.extract(path, tmp_path / "out")
    (image,) = [file for file in (tmp_path / "out").rglob("*") if file.suffix == ".hsaco"]
    assert (image.read_bytes(), "gfx942" in image.name, "Sig" in image.name) == (A, True, False)


@pytest.mark.parametrize(
    ("names", "method", "refused"),
    [
        (["a/x___gfx942.aks2", "__signature__"], zipfile.ZIP_DEFLATED, True),
        (["a/x___gfx942.aks2"], zipfile.ZIP_LZMA, True),
        (["a/x___gfx942.aks2", "__signature__"], zipfile.ZIP_STORED, False),
        (["a/x___gfx942.aks2", "a/__init__.py"], zipfile.ZIP_DEFLATED, False),  # a wheel, which pip unpacks
        (["__signature__"], zipfile.ZIP_DEFLATED, False),
    ],
)
def test_a_zip_whose_members_are_compressed_is_refused_by_the_runtime(
    names: list[str], method: int, refused: bool, tmp_path: Path
) -> None:
    path = tmp_path / "flat.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        for name in names:
            made.writestr(name, GOOD if name.endswith(".aks2") else b"some bytes" * 20)
    codes = [code for row in fatpack.rows(path) if row.row == "file" for code in row.findings]
    assert codes == ["FP1908"] * refused


def test_damage_fails_a_check(tmp_path: Path) -> None:
    path = tmp_path / "short.aks2"
    path.write_bytes(GOOD[:-40])
    assert fatpack.check(path, require="gfx942").exit_code == 3
