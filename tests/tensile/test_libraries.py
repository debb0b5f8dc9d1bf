"""Libraries of Tensile: what their tables name, against the files that are there, in check, doctor and report."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.amd_stores import FALLBACK, TABLE, hsaco, leaf, messagepack, parent, tensile_library

import fatpack
from fatpack.commands.report.request import write_report
from fatpack.errors import BadValue, LimitExceeded
from fatpack.tensile import tables
from fatpack.tensile.tables import read_placeholders
from fatpack.testing.helpers import make_view

T, F = TABLE.format(arch="gfx942"), FALLBACK.format(arch="gfx942")


def library(tmp_path: Path, change: Callable[[Path], object] = lambda folder: None) -> Path:
    """Return a folder with a sound library of rocBLAS after a change."""
    change(tensile_library(tmp_path / "rocblas" / "library"))
    return tmp_path


def violations(path: Path, device: str = "gfx942") -> list[str]:
    """Return the codes of what breaks a policy that requires a device."""
    return [item.code for item in fatpack.check(path, require=device).violations if item.is_broken]


def reported(path: Path) -> list[str]:
    return [item.code for item in write_report(path, io.BytesIO(), kind="markdown").findings]


def test_a_sound_library_is_one_unit_that_serves_its_target(tmp_path: Path) -> None:
    made = fatpack.check(library(tmp_path), require="gfx942")
    assert (made.verdict, made.violations) == ("passed", ())
    (one,) = made.libraries
    assert Path(one.path) == tmp_path / "rocblas" / "library"
    assert (one.units, one.words) == (1, "rocBLAS library: gfx942 (2 tables, 3 code files)")
    assert fatpack.doctor(tmp_path).verdict == "healthy"
    assert reported(tmp_path) == []


CASES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no code": ("FP3402", lambda folder: (folder / f"{T}.co").unlink()),
    "no code of a fallback": ("FP3402", lambda folder: (folder / f"{F}.hsaco").unlink()),
    "no table": ("FP3401", lambda folder: (folder / f"{T}.dat").unlink()),
    "no helper": ("FP3403", lambda folder: (folder / "Kernels.so-000-gfx942.hsaco").unlink()),
    "wrong target": ("FP3404", lambda folder: (folder / f"{T}.co").write_bytes(hsaco("gfx1100"))),
    "no device code": ("FP3404", lambda folder: (folder / f"{T}.co").write_bytes(b"nothing of the kind")),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_or_mislabelled_is_found_by_all_three_commands(tmp_path: Path, name: str) -> None:
    code, change = CASES[name]
    path = library(tmp_path, change)
    assert violations(path) == [code]
    assert code in [item.code for item in fatpack.doctor(path).findings]
    assert code in reported(path)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("pack", ["zip", "tar.gz"])
def test_the_same_is_found_in_packages(tmp_path: Path, name: str, pack: str) -> None:
    code, change = CASES[name]
    folder = library(tmp_path / "in", change)
    path = tmp_path / f"x.{pack}"
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    if pack == "zip":
        with zipfile.ZipFile(path, "w") as made:
            for file in files:
                made.write(file, file.relative_to(folder))
    else:
        with tarfile.open(path, "w:gz") as archive:
            for file in files:
                archive.add(file, str(file.relative_to(folder)))
    assert violations(path) == [code]
    assert code in [item.code for item in fatpack.doctor(path).findings]


def test_what_is_wrong_for_one_target_leaves_the_others_served(tmp_path: Path) -> None:
    path = library(tmp_path, lambda folder: tensile_library(folder, "gfx1100", code=b"no code"))
    assert (violations(path), violations(path, "gfx1100")) == ([], ["FP3404"])


def test_a_target_without_a_parent_table_is_not_served(tmp_path: Path) -> None:
    path = library(
        tmp_path, lambda folder: (folder / f"{T.replace('gfx942', 'gfx1100')}.co").write_bytes(hsaco("gfx1100"))
    )
    assert violations(path, "gfx1100") == ["FP3303"]
    assert "FP3406" in [item.code for item in fatpack.doctor(path).findings]
    assert violations(path) == []


def test_tables_without_any_code_are_no_library_that_serves(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        for file in (*folder.glob("*.co"), *folder.glob("*.hsaco")):
            file.unlink()

    (tmp_path / "other.hsaco").write_bytes(hsaco("gfx942"))
    assert violations(library(tmp_path, change)) == ["FP3402", "FP3403"]


@pytest.mark.parametrize("variant", ["-xnack-", "-xnack+"])
def test_code_for_a_state_of_xnack_is_code(tmp_path: Path, variant: str) -> None:
    def change(folder: Path) -> None:
        (folder / f"{T}.co").rename(folder / f"{T}{variant}.co")
        (folder / "Kernels.so-000-gfx942.hsaco").rename(folder / f"Kernels.so-000-gfx942{variant}.hsaco")

    assert violations(library(tmp_path, change)) == []
    assert [item.code for item in fatpack.doctor(tmp_path).findings] == []


def test_fallbacks_of_merged_architectures_have_the_target_after_the_name(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        stem = F.removesuffix("_gfx942")
        (folder / "TensileLibrary_lazy_gfx942.dat").write_bytes(parent((T, stem)))
        (folder / f"{F}.dat").rename(folder / f"{stem}.dat")

    assert violations(library(tmp_path, change)) == []


def test_a_library_without_lazy_loading_loads_all_code_of_its_target(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "TensileLibrary_gfx942.dat").write_bytes(leaf())
    (folder / "TensileLibrary_gfx942.co").write_bytes(hsaco("gfx942"))
    assert violations(tmp_path) == []
    (folder / "TensileLibrary_gfx942.co").unlink()
    (tmp_path / "other.hsaco").write_bytes(hsaco("gfx942"))
    assert violations(tmp_path) == ["FP3402"]


def test_only_the_folder_of_a_target_is_read(tmp_path: Path) -> None:
    root = tensile_library(tmp_path / "hipblaslt" / "library")
    tensile_library(root / "gfx942")
    made = fatpack.check(tmp_path, require="gfx942")
    assert [(item.code, item.severity) for item in made.violations] == [("FP3407", "note")]
    (root / "gfx942" / f"{T}.co").unlink()
    assert "FP3402" in violations(tmp_path)


def test_targets_in_folders_of_their_own_are_one_library(tmp_path: Path) -> None:
    for arch in ("gfx942", "gfx1100"):
        tensile_library(tmp_path / "hipblaslt" / "library" / arch, arch)
    made = fatpack.check(tmp_path, require="gfx942,gfx1100")
    assert (made.verdict, [item.units for item in made.libraries]) == ("passed", [1])


def test_files_that_no_table_names_are_a_note(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "TensileLibrary_Type_ZZ_gfx942.co").write_bytes(hsaco("gfx942"))

    made = fatpack.check(library(tmp_path, change), require="gfx942")
    assert [(item.code, item.severity) for item in made.violations] == [("FP3405", "note")]
    assert made.verdict == "passed"


def test_tables_in_yaml_are_said_not_to_be_read(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        for file in folder.glob("*.dat"):
            file.rename(file.with_suffix(".yaml"))

    path = library(tmp_path, change)
    made = fatpack.check(path, require="gfx942")
    assert [(item.code, "TensileLibrary_lazy_gfx942.yaml" in item.message) for item in made.violations] == [
        ("FP3409", True)
    ]
    assert "libraries of Tensile" in [item.what for item in fatpack.doctor(path).not_verified]


def test_a_mapping_that_other_targets_have_is_missed(tmp_path: Path) -> None:
    folder = tmp_path / "hipblaslt" / "library"
    for arch in ("gfx942", "gfx1100"):
        tensile_library(folder, arch)
    (folder / "TensileLiteLibrary_lazy_gfx1100_Mapping.dat").write_bytes(messagepack({"0": "x"}))
    assert (violations(tmp_path), violations(tmp_path, "gfx1100")) == (["FP3410"], [])


def test_damage_of_a_parent_fails_closed(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        path = folder / "TensileLibrary_lazy_gfx942.dat"
        path.write_bytes(path.read_bytes()[:-20])

    path = library(tmp_path, change)
    assert violations(path) == ["FP3408"]
    assert fatpack.check(path, require="gfx942").exit_code == 3


# The reader of parents.


def test_names_are_read_from_plain_and_from_compressed_tables() -> None:
    table = parent((T, F, T))
    assert read_placeholders(make_view(table)) == (T, F)
    assert read_placeholders(make_view(zlib.compress(table))) == (T, F)
    assert read_placeholders(make_view(leaf())) == ()


def test_the_value_may_come_before_the_type() -> None:
    tree = {"rows": [{"value": "P", "inner": [[{"x": {}}]], "type": "Placeholder"}, {"type": "Other", "value": "Q"}]}
    assert read_placeholders(make_view(messagepack({"library": tree, "solutions": []}))) == ("P",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (parent((T,)) + b"\0", "1 byte after the map"),
        (zlib.compress(parent((T,))) + b"\0", "bytes follow the zlib stream"),
        (zlib.compress(parent((T,)))[:-3], "cut short"),
        (b"x\x9cjunk that is no stream", "damaged"),
        (b"\x81\xa7library" + b"\x91" * 300 + b"\0", "more than 200 levels"),
    ],
)
def test_damage_is_named(data: bytes, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        read_placeholders(make_view(data))


def test_a_stream_that_inflates_to_too_much_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="too large"):
        read_placeholders(make_view(zlib.compress(bytes(65 << 20))))


def merged(size: int = 0) -> bytes:
    """Return the table of a library with one parent for several targets: solutions, and no leaf that names a table."""
    return messagepack({"solutions": [{"name": "Cijk" * size}], "library": {"type": "Single", "index": 0}})


def test_a_large_table_that_names_none_is_searched_for_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_SIZE", 100)
    assert read_placeholders(make_view(merged(60))) == ()
    for data in (parent(["P" * 200]), b"no table" * 50):
        with pytest.raises(LimitExceeded):
            read_placeholders(make_view(data))


def test_one_parent_for_several_targets_serves_those_with_code(tmp_path: Path) -> None:
    for arch in ("gfx942", "gfx1100"):
        (tmp_path / f"TensileLibrary_{arch}.co").write_bytes(hsaco(arch))
        (tmp_path / f"Kernels.so-000-{arch}.hsaco").write_bytes(hsaco(arch))
    (tmp_path / "TensileLibrary.dat").write_bytes(merged())
    for device, code in (("gfx942", 0), ("gfx1100", 0), ("gfx1201", 1)):
        assert fatpack.check(tmp_path, require=device).exit_code == code
        (answer,) = fatpack.explain(tmp_path, device).devices
        assert answer.fails == code
    assert "has no code for gfx1201" in answer.units[0].reason
