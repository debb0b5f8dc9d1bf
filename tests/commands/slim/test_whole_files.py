"""Files of AMD's kernel stores go as a whole from folders and wheels, and with Tensile's code go its tables."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.builders import amd_stores as stores
from tests.builders import conda
from tests.builders import wheels as build
from tests.builders.amd_stores import hsaco

import fatpack
from fatpack.main import main

SITE = "lib/python3.11/site-packages"
ROCBLAS = "torch/lib/rocblas/library"
KEPT, GONE = "gfx942", "gfx1100"


def archive(arch: str) -> bytes:
    return stores.aks2([(stores.KEY, hsaco(arch)), (b"did not compile", b"")])


def tensile(folder: str, arch: str, tmp_path: Path, code: bytes | None = None) -> dict[str, bytes]:
    made = stores.tensile_library(tmp_path / "made" / arch, arch, code=code)
    return {f"{folder}/{path.name}": path.read_bytes() for path in sorted(made.iterdir())}


def torch(tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a package with stores of each kind for two targets."""
    found = {"torch/__init__.py": b"value = 1\n", "torch/lib/notes.dat": b"no table of Tensile"}
    for arch, family, cache in ((KEPT, "gfx942", "gfx942130.kdb"), (GONE, "gfx11xx", "gfx1100_48.kdb")):
        found |= tensile(ROCBLAS, arch, tmp_path)
        for kernel in ("attn_fwd", "bwd"):
            name = f"torch/lib/aotriton.images/amd-{family}/flash/{kernel}/FONLY__a___{family}.aks2"
            found[name] = archive(arch)
        found[f"torch/share/miopen/db/{cache}"] = stores.kdb([stores.row("a.o", f"-mcpu={arch}", hsaco(arch))])
        name = f"torch/lib/rocfft_kernel_cache_{arch}.db"
        found[name] = stores.rocfft([("a", arch, hsaco(arch))])
    return found


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def for_kept(files: Mapping[str, bytes]) -> set[str]:
    return {name for name in files if GONE not in name and "gfx11xx" not in name}


def slim(*words: object) -> int:
    return main(["slim", *map(str, words)])


@pytest.mark.parametrize("rule", [("--for", KEPT), ("--drop", GONE), ("--keep", "gfx9*")])
def test_a_copy_of_a_folder_leaves_out_what_no_device_opens(
    rule: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = torch(tmp_path)
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, *rule, "-d", copy) == 0
    assert names_in(copy) == for_kept(files)
    assert all((copy / name).read_bytes() == files[name] for name in names_in(copy))
    assert names_in(folder) == set(files)
    told = capsys.readouterr().out
    assert "left out: 7 files for gfx1100" in told
    assert "left out: 3 tables of Tensile without code" in told
    assert slim("--verify", folder, copy) == 0
    assert main(["check", str(copy), "--require", KEPT]) == 0


def test_an_installed_wheel_in_a_folder_loses_files_in_place_and_their_lines_of_record(tmp_path: Path) -> None:
    files = build.files_of(torch(tmp_path))
    folder = written(tmp_path / SITE, files)
    written(tmp_path / "before", files)
    assert slim(folder, "--for", KEPT, "--in-place") == 0
    assert names_in(folder) == for_kept(files)
    record = (folder / "demo-1.5.dist-info/RECORD").read_text()
    assert GONE not in record and "gfx11xx" not in record
    assert len(record.splitlines()) == len(for_kept(files))
    assert slim("--verify", tmp_path / "before", folder) == 0


def test_a_wheel_loses_files_and_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = torch(tmp_path)
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(build.wheel(files))
    certificate = tmp_path / "certificate.json"
    assert slim(wheel, "--for", KEPT, "-d", tmp_path / "out", "--certificate", certificate, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(item["mode"] == "remove" for item in document["files"]) == 10
    slimmed = tmp_path / "out/demo-1.5-1gfx942-py3-none-any.whl"
    with zipfile.ZipFile(slimmed) as made:
        assert made.testzip() is None
        assert {name for name in made.namelist() if ".dist-info/" not in name} == for_kept(files)
        assert len(made.read("demo-1.5.dist-info/RECORD").splitlines()) == len(made.namelist())
    proved = json.loads(certificate.read_text())
    assert proved["proved"] and len(proved["removed"]) == 10
    assert {item["kind"] for item in proved["removed"]} == {
        "AKS2 archive", "code of Tensile", "table of Tensile", "kernel cache",
    }  # fmt: skip
    assert main(["check", str(slimmed), "--require", KEPT]) == 0


def test_the_library_slims_a_wheel_as_the_command_does(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(build.wheel(torch(tmp_path)))
    assert slim(wheel, "--for", KEPT, "-d", tmp_path / "out") == 0
    made = fatpack.slim(wheel, tmp_path / "other", devices=KEPT)
    assert Path(made.path).read_bytes() == (tmp_path / "out" / Path(made.path).name).read_bytes()
    assert (made.kept, made.dropped) == ({KEPT: 7}, {GONE: 7})


def test_a_library_with_a_folder_for_each_target_loses_all_of_one(tmp_path: Path) -> None:
    files = {**tensile(f"lib/{KEPT}", KEPT, tmp_path), **tensile(f"lib/{GONE}", GONE, tmp_path)}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    assert names_in(copy) == for_kept(files)
    assert slim("--verify", folder, copy) == 0


def test_a_store_that_has_nothing_for_a_device_stays_and_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: data for name, data in torch(tmp_path).items() if "kernel_cache" not in name and "kdb" not in name}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, "--for", "gfx1201", "-d", copy) == 1
    assert names_in(copy) == set(files)
    told = capsys.readouterr().out
    assert "it is for gfx1100, and nothing beside it is for gfx1201" in told
    assert "--allow-empty leaves such files out" in told
    assert slim(folder, "--for", "gfx1201", "--allow-empty", "-d", tmp_path / "empty") == 1
    assert names_in(tmp_path / "empty") == {"torch/__init__.py", "torch/lib/notes.dat"}


@pytest.mark.parametrize("rule", [("--for", KEPT), ("--lossless",)])
def test_a_store_without_images_stays_and_the_others_are_slimmed(
    rule: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = {"db/gfx1100_36.kdb": stores.kdb([]), "a/amd-gfx11xx/none___gfx11xx.aks2": stores.aks2([(b"none", b"")])}
    files = {**empty, **torch(tmp_path)}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, *rule, "-d", copy) == 0
    assert names_in(copy) == (for_kept(files) | set(empty) if rule[0] == "--for" else set(files))
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(build.wheel(files))
    assert slim(wheel, *rule, "-d", tmp_path / "out") == 0
    capsys.readouterr()
    assert slim(folder / "db/gfx1100_36.kdb", *rule, "-o", tmp_path / "one.kdb") == 0
    assert "unchanged: it holds no device code" in capsys.readouterr().out
    assert (tmp_path / "one.kdb").read_bytes() == empty["db/gfx1100_36.kdb"]


def test_files_whose_images_state_no_target_are_counted_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"a/amd-gfx942/k.aks2": archive(KEPT), "a/amd-gfx942/l.aks2": stores.aks2([(b"l", b"no code object")])}
    slim(written(tmp_path / "tree", files), "--for", KEPT, "-d", tmp_path / "copy")
    assert "2 files of kernel stores stay" in (told := capsys.readouterr().out)
    assert f"{KEPT} in 1 file, no target in 1 file" in told


def test_a_wheel_with_a_cache_that_is_cut_has_no_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = stores.kdb([stores.row(f"{arch}.o", f"-mcpu={arch}", hsaco(arch)) for arch in (KEPT, GONE)])
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(build.wheel({"demo/gfx942130.kdb": cache}))
    assert slim(wheel, "--for", KEPT, "-d", tmp_path / "out", "--certificate", tmp_path / "c.json") == 4
    told = capsys.readouterr().err
    assert "demo/gfx942130.kdb loses a part of its images, and only linked programs and libraries are proved" in told
    assert "report this" not in told
    assert not (tmp_path / "out").exists()
    assert slim(wheel, "--for", KEPT, "-d", tmp_path / "out") == 0


@pytest.mark.parametrize("place", ["environment", "conda"])
def test_where_no_file_is_left_out_the_stores_stay_and_that_is_no_error(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = torch(tmp_path)
    if place == "environment":
        folder = written(tmp_path / "venv" / SITE, build.files_of(files))
        assert slim("--environment", tmp_path / "venv", "--for", KEPT) == 0
        assert set(files) <= names_in(folder)
        assert all((folder / name).read_bytes() == data for name, data in files.items())
    else:
        package = tmp_path / "demo-1-0.conda"
        package.write_bytes(conda.package(files, "demo", "1", "0"))
        assert slim(package, "--for", KEPT, "-d", tmp_path / "out") == 0
        assert (tmp_path / "out" / package.name).read_bytes() == package.read_bytes()
    told = capsys.readouterr().out
    assert "14 files of kernel stores stay (84.5 kB)" in told
    assert "gfx942 in 7 files" in told and "gfx1100 in 7 files" in told
    assert "stays as it is" not in told and "--allow-empty" not in told


def test_a_cache_goes_even_if_it_is_the_only_one(tmp_path: Path) -> None:
    files = {"db/gfx1100_48.kdb": stores.kdb([stores.row("a.o", "", hsaco(GONE))]), "a.aks2": archive(KEPT)}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    assert names_in(copy) == {"a.aks2"}


def test_code_for_another_target_than_its_name_says_stays_with_its_tables(tmp_path: Path) -> None:
    files = {**tensile("lib", KEPT, tmp_path), **tensile("lib", GONE, tmp_path, code=hsaco(KEPT))}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    table = f"lib/{stores.TABLE.format(arch=GONE)}"
    assert names_in(copy) - for_kept(files) >= {f"{table}.co", f"{table}.dat"}
    assert all(not name.endswith(".hsaco") for name in names_in(copy) - for_kept(files))


def test_a_file_with_the_name_of_a_table_alone_stays(tmp_path: Path) -> None:
    files = {**tensile("lib", KEPT, tmp_path), **tensile("lib", GONE, tmp_path)}
    others = {f"lib/TensileLibrary_notes_{GONE}.dat": b"no table", f"lib/TensileLibrary_empty_{GONE}.dat": b""}
    folder, copy = written(tmp_path / "tree", files | others), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    assert names_in(copy) == for_kept(files) | set(others)
    assert slim("--verify", folder, copy) == 0
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(build.wheel(files | others))
    assert slim(wheel, "--for", KEPT, "-d", tmp_path / "out", "--certificate", tmp_path / "c.json") == 0
    with zipfile.ZipFile(tmp_path / "out/demo-1.5-1gfx942-py3-none-any.whl") as made:
        assert set(others) <= set(made.namelist())


def test_a_table_beside_no_code_of_its_target_stays(tmp_path: Path) -> None:
    files = {**tensile(f"lib/{KEPT}", KEPT, tmp_path), **tensile(f"lib/{GONE}", GONE, tmp_path)}
    table = f"lib/{stores.TABLE.format(arch=GONE)}.dat"
    folder, copy = written(tmp_path / "tree", {**files, table: stores.leaf()}), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    assert names_in(copy) == for_kept(files) | {table}
    assert slim("--verify", folder, copy) == 0


def test_a_parent_for_several_targets_keeps_the_tables(tmp_path: Path) -> None:
    files = {**tensile("lib", KEPT, tmp_path), **tensile("lib", GONE, tmp_path)}
    files["lib/TensileLibrary.dat"] = stores.parent([stores.TABLE.format(arch=GONE)])
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    assert slim(folder, "--for", KEPT, "-d", copy) == 0
    assert {name for name in files if name.endswith(".dat")} <= names_in(copy)
    assert f"lib/{stores.TABLE.format(arch=GONE)}.co" not in names_in(copy)


def test_a_file_to_which_a_link_leads_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"a/amd-gfx942/k___gfx942.aks2": archive(KEPT), "a/amd-gfx11xx/k___gfx11xx.aks2": archive(GONE)}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    (folder / "latest").symlink_to("a/amd-gfx11xx/k___gfx11xx.aks2")
    slim(folder, "--for", KEPT, "-d", copy)
    assert "a link leads to it" in capsys.readouterr().out
    assert (copy / "latest").read_bytes() == archive(GONE)


def test_the_tables_of_code_to_which_a_link_leads_stay(tmp_path: Path) -> None:
    files = {**tensile("lib", KEPT, tmp_path), **tensile("lib", GONE, tmp_path)}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    (folder / "latest.co").symlink_to(f"lib/{stores.TABLE.format(arch=GONE)}.co")
    slim(folder, "--for", KEPT, "-d", copy)
    assert {name for name in files if name.endswith(".dat")} <= names_in(copy)
    assert f"lib/Kernels.so-000-{GONE}.hsaco" not in names_in(copy)
    assert slim("--verify", folder, copy) == 0


@pytest.mark.parametrize("is_pure", [True, False])
def test_a_zip_of_archives_goes_as_a_whole_and_any_other_zip_stays(is_pure: bool, tmp_path: Path) -> None:
    files = {}
    for arch in (KEPT, GONE):
        into = io.BytesIO()
        with zipfile.ZipFile(into, "w") as made:
            made.writestr(f"k___{arch}.aks2", archive(arch))
            made.writestr("__signature__" if is_pure else "notes.txt", b"x")
        files[f"images/amd-{arch}.zip"] = into.getvalue()
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    slim(folder, "--for", KEPT, "-d", copy)
    assert names_in(copy) == ({f"images/amd-{KEPT}.zip"} if is_pure else set(files))
    assert slim("--verify", folder, copy) == 0


@pytest.mark.parametrize("damage", ["cut", "name"])
def test_a_file_with_a_finding_stays(damage: str, tmp_path: Path) -> None:
    bad = archive(GONE)[:-20] if damage == "cut" else archive(GONE)
    name = "a/amd-gfx90a/k___gfx90a.aks2" if damage == "name" else "a/amd-gfx11xx/k___gfx11xx.aks2"
    files = {"a/amd-gfx942/k___gfx942.aks2": archive(KEPT), name: bad}
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    slim(folder, "--for", KEPT, "-d", copy)
    assert names_in(copy) == set(files)


def test_a_device_of_another_vendor_takes_no_file_away(tmp_path: Path) -> None:
    files = torch(tmp_path)
    folder, copy = written(tmp_path / "tree", files), tmp_path / "copy"
    slim(folder, "--for", "sm_90", "-d", copy)
    assert names_in(copy) == set(files)


def test_a_file_that_is_named_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k___gfx11xx.aks2"
    path.write_bytes(archive(GONE))
    assert slim(path, "--for", KEPT, "-o", tmp_path / "out") == 1
    assert not (tmp_path / "out").exists()


def test_in_place_a_file_that_is_not_proved_stays_and_the_others_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"{stores.KERN_DB}; CREATE TABLE config (name TEXT);"
    columns = "kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
    insert = f"INSERT INTO kern_db ({columns}) VALUES (?, ?, ?, ?, ?)"
    rows = [stores.row("a.o", "", hsaco(GONE))]
    files = {
        "db/gfx1100_36.kdb": stores.database(script, insert, rows),
        "db/gfx1100_48.kdb": stores.kdb(rows),
        "a/amd-gfx942/k___gfx942.aks2": archive(KEPT),
        "a/amd-gfx11xx/k___gfx11xx.aks2": archive(GONE),
    }
    folder = written(tmp_path / "tree", files)
    assert slim(folder, "--for", KEPT, "--in-place") != 0
    assert names_in(folder) == {"db/gfx1100_36.kdb", "a/amd-gfx942/k___gfx942.aks2"}
    assert "is not proved to be a file of a kernel store: it has the tables" in capsys.readouterr().out
