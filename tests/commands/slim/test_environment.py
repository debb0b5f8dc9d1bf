"""``fatpack slim --environment``: installed packages in their place, their descriptions in step, and the way back."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.builders import wheels as build
from tests.builders.fatbin import of_words

import fatpack as library
from fatpack.commands.slim import environment
from fatpack.commands.slim.environment import EnvironmentJob
from fatpack.main import main

SITE = "lib/python3.11/site-packages"
BOTH, ONE = of_words("80 90"), of_words("90")
FILES = {"demo/__init__.py": b"", "demo/a.fatbin": BOTH, "demo/deep/b.fatbin": of_words("75 90"), "demo/c.so": ONE}
OUTSIDE = "../../../../outside.fatbin"
OTHER = build.METADATA.replace(b"Name: demo", b"Name: other")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Return an environment with a wheel in it, of which one file has another name in a cache."""
    path = tmp_path / "venv"
    files = build.files_of(FILES)
    record = "demo-1.5.dist-info/RECORD"
    files[record] = f"{OUTSIDE},{build.digest(BOTH)},{len(BOTH)}\n".encode() + files[record]
    for name, data in files.items():
        (path / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (path / SITE / name).write_bytes(data)
    (path / SITE / "not_listed.fatbin").write_bytes(BOTH)
    (path / "lib64").symlink_to("lib")
    (tmp_path / "outside.fatbin").write_bytes(BOTH)
    os.link(path / SITE / "demo/a.fatbin", tmp_path / "cache.fatbin")
    return path


def slim(path: Path, *more: str, device: str = "sm_90") -> int:
    return main(["slim", "--environment", str(path), "--for", device, "--quiet", *more])


def archs(path: Path) -> list[str]:
    with library.open(path) as file:
        return [image.target.arch for found in file.containers for image in found.images]


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def check_record(path: Path) -> None:
    """Compare the files of the environment with its RECORD, as installers would."""
    with (path / SITE / "demo-1.5.dist-info/RECORD").open(newline="") as lines:
        rows = [row for row in csv.reader(lines) if row[1] and row[0] != OUTSIDE]
    assert len(rows) == len(FILES) + 2
    for name, stated, size in rows:
        data = (path / SITE / name).read_bytes()
        assert base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() == stated[7:], name
        assert len(data) == int(size)


def journal(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / ".fatpack-slim/journal.json").read_text())
    return found


def test_libraries_and_record_change_together(venv: Path) -> None:
    assert slim(venv) == 0
    assert archs(venv / SITE / "demo/a.fatbin") == archs(venv / SITE / "demo/deep/b.fatbin") == ["sm_90"]
    check_record(venv)
    assert {item["path"]: item["kind"] for item in journal(venv)["files"]} == {
        f"{SITE}/demo/a.fatbin": "library",
        f"{SITE}/demo/deep/b.fatbin": "library",
        f"{SITE}/demo-1.5.dist-info/RECORD": "description",
    }
    assert journal(venv)["complete"] is True
    assert journal(venv)["files"][1]["dropped"] == {"sm_80": 1}


def test_what_no_package_lists_stays(venv: Path) -> None:
    assert slim(venv) == 0
    for path in (venv / SITE / "not_listed.fatbin", venv.parent / "outside.fatbin", venv.parent / "cache.fatbin"):
        assert path.read_bytes() == BOTH, path


def test_a_link_into_a_cache_is_not_followed(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    installed = venv / SITE / "demo/a.fatbin"
    installed.unlink()
    installed.symlink_to(venv.parent / "cache.fatbin")
    assert main(["slim", "--environment", str(venv), "--for", "sm_90"]) == 0
    assert installed.is_symlink() and (venv.parent / "cache.fatbin").read_bytes() == BOTH
    assert "1 file of packages are links to files elsewhere" in capsys.readouterr().err


def test_undo_restores_every_byte(venv: Path) -> None:
    before = contents(venv)
    backup = venv.parent / "originals"
    assert slim(venv, "--backup", str(backup)) == 0
    assert slim(venv, "--drop-ptx") == 0
    assert contents(venv) != before
    assert main(["slim", "--environment", str(venv), "--undo"]) == 0
    assert contents(venv) == before


def test_undo_of_two_runs_returns_to_the_first_state(venv: Path) -> None:
    (venv / SITE / "demo/a.fatbin").write_bytes(of_words("80 86 90"))
    before = contents(venv)
    backup = venv.parent / "originals"
    assert slim(venv, "--backup", str(backup), device="sm_86,sm_90") == 0
    assert slim(venv) == 0
    states = next(item["states"] for item in journal(venv)["files"] if item["path"].endswith("a.fatbin"))
    assert len(states) == 3
    assert main(["slim", "--environment", str(venv), "--undo"]) == 0
    assert contents(venv) == before


def test_undo_without_backup_says_what_installs_the_packages(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(venv)
    assert slim(venv) == 0
    assert main(["slim", "--environment", str(venv), "--undo"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "python -m pip install --force-reinstall --no-deps demo==1.5\n"
    assert "a.fatbin stays slimmed: no backup was kept" in printed.err
    for name, data in before.items():
        (venv / name).write_bytes(data)
    assert main(["slim", "--environment", str(venv), "--undo"]) == 0
    assert contents(venv) == before


def test_undo_names_no_package_that_was_installed_again(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(venv)
    other = build.files_of({"other/d.fatbin": BOTH, "other/e.fatbin": BOTH}, info="other-1.5.dist-info", metadata=OTHER)
    for name, data in other.items():
        (venv / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (venv / SITE / name).write_bytes(data)
    assert slim(venv) == 0
    for name, data in before.items():
        (venv / name).write_bytes(data)
    (venv / SITE / "other/e.fatbin").unlink()
    capsys.readouterr()
    assert main(["slim", "--environment", str(venv), "--undo"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "python -m pip install --force-reinstall --no-deps other==1.5\n"
    assert "demo/a.fatbin has the bytes from before: it was installed again since" in printed.err
    assert "other/e.fatbin was removed since" in printed.err
    assert printed.err.count("stays slimmed") == 1 and "d.fatbin stays slimmed: no backup was kept" in printed.err
    (venv / SITE / "other/d.fatbin").write_bytes(of_words("75"))
    assert main(["slim", "--environment", str(venv), "--undo"]) == 0
    assert "other/d.fatbin was changed since, and stays" in capsys.readouterr().err


@pytest.mark.parametrize("is_there", [False, True])
def test_undo_prints_the_journal_s_commands_where_no_package_owns_a_library(
    venv: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    assert slim(venv) == 0
    (venv / SITE / "demo-1.5.dist-info/RECORD").unlink()
    if is_there:
        for name, data in build.files_of({"other/d.fatbin": BOTH}, info="other-1.5.dist-info", metadata=OTHER).items():
            (venv / SITE / name).parent.mkdir(parents=True, exist_ok=True)
            (venv / SITE / name).write_bytes(data)
    assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 1
    assert capsys.readouterr().out == "python -m pip install --force-reinstall --no-deps demo==1.5\n"


def test_a_damaged_original_is_not_restored(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backup = venv.parent / "originals"
    assert slim(venv, "--backup", str(backup)) == 0
    (backup / hashlib.sha256(BOTH).hexdigest()).unlink()
    (backup / hashlib.sha256(BOTH).hexdigest()).write_bytes(b"other")
    assert main(["slim", "--environment", str(venv), "--undo"]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert archs(venv / SITE / "demo/a.fatbin") == ["sm_90"]


def test_a_run_that_was_interrupted_is_finished_by_the_next(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: EnvironmentJob, notes: list[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(EnvironmentJob, "_describe", interrupted)
        list(EnvironmentJob(str(venv)).slim(environment_slimming(), []))
    assert journal(venv)["complete"] is False
    assert archs(venv / SITE / "demo/a.fatbin") == ["sm_90"]
    with pytest.raises(AssertionError):
        check_record(venv)
    assert slim(venv) == 0
    check_record(venv)
    assert journal(venv)["complete"] is True


def test_a_run_that_ended_before_a_write_keeps_no_entry_for_it(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(environment, "prove_slimmed", full)
        assert slim(venv) != 0
    assert archs(venv / SITE / "demo/a.fatbin") == ["sm_80", "sm_90"]
    check_record(venv)
    assert not any(item["kind"] == "library" for item in journal(venv)["files"])
    assert slim(venv) == 0
    check_record(venv)


def environment_slimming() -> Any:
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.result import plan_with_digests
    from fatpack.targets.local_devices import parse_devices

    options = SlimOptions(devices=parse_devices(["sm_90"]))
    return lambda view: plan_with_digests(view, options)


def test_a_dry_run_writes_nothing(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(venv)
    assert main(["slim", "--environment", str(venv), "--for", "sm_90", "--dry-run", "--json"]) == 0
    assert contents(venv) == before
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["changed"] == 2 and document["written"] is False


def test_strict_refuses_all_for_one(venv: Path) -> None:
    before = contents(venv)
    assert slim(venv, "--strict", device="sm_80") != 0
    assert contents(venv) == before
    assert slim(venv, device="sm_80") != 0
    assert archs(venv / SITE / "demo/a.fatbin") == ["sm_80"]
    assert (venv / SITE / "demo/c.so").read_bytes() == ONE


def test_conda_packages_follow(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib/libx.fatbin.1").write_bytes(BOTH)
    (prefix / "lib/libx.fatbin").symlink_to("libx.fatbin.1")
    (prefix / "lib/moved.fatbin").write_bytes(BOTH)
    (prefix / "pkgs").mkdir()
    (prefix / "pkgs/cached.fatbin").write_bytes(BOTH)
    digest = build.hexadecimal(BOTH)
    same = {"sha256": digest, "sha256_in_prefix": digest, "size_in_bytes": len(BOTH)}
    paths = [
        {"_path": "lib/libx.fatbin.1", "path_type": "hardlink", **same},
        {"_path": "lib/libx.fatbin", "path_type": "softlink", **same},
        {"_path": "lib/moved.fatbin", "path_type": "hardlink", **same, "sha256": "0" * 64},
        {"_path": "lib/plain.fatbin", "path_type": "hardlink", "sha256": digest},
    ]
    (prefix / "lib/plain.fatbin").write_bytes(BOTH)
    facts = {"name": "x", "version": "1", "build": "h0_0", "sha256": digest, "size": 9}
    document = {**facts, "paths_data": {"paths": paths, "paths_version": 1}}
    meta = prefix / "conda-meta/x-1-h0_0.json"
    meta.parent.mkdir()
    meta.write_text(json.dumps(document, indent=2))
    assert slim(prefix) == 0
    new = json.loads(meta.read_text())
    assert meta.read_text() == json.dumps(new, indent=2)
    assert {key: new[key] for key in facts} == facts
    after = build.hexadecimal((prefix / "lib/libx.fatbin.1").read_bytes())
    stated = {
        "sha256_in_prefix": after,
        "size_in_bytes": (prefix / "lib/libx.fatbin.1").stat().st_size,
    }
    assert archs(prefix / "lib/libx.fatbin.1") == ["sm_90"]
    assert new["paths_data"]["paths"] == [
        {**paths[0], **stated},
        {**paths[1], **stated},
        {**paths[2], **stated},
        {**paths[3], "sha256_in_prefix": after},
    ]
    assert (prefix / "pkgs/cached.fatbin").read_bytes() == BOTH
    assert journal(prefix)["restore"] == [
        f"conda install --prefix {prefix} --force-reinstall --no-deps x=1=h0_0",
    ]


def test_sums_of_debian_packages_follow(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/a.fatbin").write_bytes(BOTH)
    sums = tmp_path / "var/lib/dpkg/info/libdemo:amd64.md5sums"
    sums.parent.mkdir(parents=True)

    def text() -> str:
        found = hashlib.md5((tmp_path / "usr/lib/a.fatbin").read_bytes(), usedforsecurity=False).hexdigest()
        return f"{found}  usr/lib/a.fatbin\n{'0' * 32}  usr/lib/gone.fatbin\n"

    sums.write_text(text())
    assert slim(tmp_path) == 0
    assert archs(tmp_path / "usr/lib/a.fatbin") == ["sm_90"]
    assert sums.read_text() == text()
    assert journal(tmp_path)["restore"] == ["apt-get install --reinstall libdemo:amd64"]


def test_a_digest_that_was_wrong_stays_wrong(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = venv / SITE / "demo-1.5.dist-info/RECORD"
    wrong = record.read_text().replace(f"demo/a.fatbin,{build.digest(BOTH)}", f"demo/a.fatbin,{build.digest(b'x')}")
    record.write_text(wrong)
    assert main(["slim", "--environment", str(venv), "--for", "sm_90"]) == 0
    assert "1 digest of packages was of another file before" in capsys.readouterr().err
    assert f"demo/a.fatbin,{build.digest(b'x')},{len(BOTH)}" in record.read_text()


def test_the_library_does_the_same(venv: Path) -> None:
    before = contents(venv)
    trial = library.slim_environment(venv, devices="sm_90", dry_run=True)
    assert contents(venv) == before
    done = library.slim_environment(venv, devices="sm_90", backup=venv.parent / "originals")
    assert (dict(done.kept), dict(done.dropped)) == ({"sm_90": 3}, {"sm_75": 1, "sm_80": 1})
    assert (done.mode, done.exit_code, done.path) == ("edit", 0, str(venv / ".fatpack-slim/journal.json"))
    assert (trial.before, trial.after) == (done.before, done.after)
    assert done.after < done.before
    check_record(venv)
    assert main(["slim", "--environment", str(venv), "--undo"]) == 0
    assert contents(venv) == before
    refused = library.slim_environment(venv, devices="sm_80")
    assert refused.exit_code == 1 and any("c.so is not slimmed" in note for note in refused.notes)
    with pytest.raises(library.FatpackError, match="strict=True"):
        library.slim_environment(venv, devices="sm_75", strict=True)
    with pytest.raises(library.UsageError, match="is no environment"):
        library.slim_environment(venv.parent, devices="sm_75")


def test_other_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert slim(tmp_path) == 2
    assert "is no environment" in capsys.readouterr().err
    assert main(["slim", "--environment", str(tmp_path), "--undo"]) == 2
    assert "has no journal" in capsys.readouterr().err


def test_a_damaged_journal_is_refused(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (venv / ".fatpack-slim").mkdir()
    for text in ("", "[]", "{}", '{"schema": "fatpack.slim-journal/1", "backup": "", "complete": 1, "restore": 3}'):
        (venv / ".fatpack-slim/journal.json").write_text(text)
        assert slim(venv) == 3
        assert "the journal is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["x.so"], "--environment names all that is slimmed"),
        (["-d", "out"], "-d does nothing with --environment"),
        (["--build-tag", "1x"], "--build-tag does nothing"),
        (["--sbom", "x.json"], "--sbom does nothing"),
    ],
)
def test_options_that_do_nothing_are_errors(
    venv: Path, more: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slim(venv, *more) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--undo", "--environment x --undo --for sm_90", "a.so --for sm_90 --backup b"])
def test_undo_and_backup_go_with_an_environment(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", *words.split()]) == 2
    assert "--environment" in capsys.readouterr().err


def test_a_journal_leads_to_no_file_outside(venv: Path, tmp_path: Path) -> None:
    outside, backup = tmp_path / "outside", tmp_path / "backup"
    for folder in (outside, backup, venv / environment.FOLDER):
        folder.mkdir()
    (outside / "victim").write_bytes(b"victim")
    (venv / "link").symlink_to(outside)
    digests = [hashlib.sha256(data).hexdigest() for data in (b"forged", b"victim")]
    (backup / digests[0]).write_bytes(b"forged")
    states = [{"size": 6, "sha256": digest} for digest in digests]
    file = {"path": "link/victim", "kind": "library", "states": states, "kept": {}, "dropped": {}}
    document = {"schema": "fatpack.slim-journal/1", "complete": True, "backup": str(backup), "restore": []}
    (venv / environment.FOLDER / environment.JOURNAL).write_text(json.dumps({**document, "files": [file]}))
    main(["slim", "--environment", str(venv), "--undo", "-q"])
    assert (outside / "victim").read_bytes() == b"victim"


@pytest.mark.parametrize("change", [{"backup": "a\0b"}, {"files": [{"path": "a", "states": [{"size": 1e400}]}]}])
def test_a_journal_of_impossible_values_is_damaged(
    venv: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (venv / environment.FOLDER).mkdir()
    document = {"schema": "fatpack.slim-journal/1", "complete": True, "backup": "", "restore": [], "files": []}
    (venv / environment.FOLDER / environment.JOURNAL).write_text(json.dumps({**document, **change}))
    assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 3
    assert "the journal is damaged" in capsys.readouterr().err


def test_of_two_runs_one_is_refused(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(venv)
    with environment.only_run(str(venv)):
        assert slim(venv) == 4
        assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 4
    assert "another run of fatpack changes this environment" in capsys.readouterr().err
    assert contents(venv) == before
    assert slim(venv) == 0


def test_a_damaged_file_of_the_backup_is_written_anew(venv: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / hashlib.sha256(BOTH).hexdigest()).write_bytes(bytes(len(BOTH)))
    before = contents(venv)
    assert slim(venv, "--backup", str(backup)) == 0
    assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 0
    assert contents(venv) == before


def test_descriptions_stay_while_a_library_stays_slimmed(venv: Path) -> None:
    backup = venv.parent / "originals"
    assert slim(venv, "--backup", str(backup)) == 0
    record = venv / SITE / "demo-1.5.dist-info/RECORD"
    before = record.read_bytes()
    (backup / hashlib.sha256(BOTH).hexdigest()).unlink()
    assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 1
    assert record.read_bytes() == before
    assert archs(venv / SITE / "demo/deep/b.fatbin") == ["sm_75", "sm_90"]


def test_a_journal_in_a_link_is_refused(venv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (venv / environment.FOLDER).symlink_to(tmp_path / "elsewhere")
    before = contents(venv)
    assert slim(venv) == 2
    assert "is a symbolic link" in capsys.readouterr().err
    assert contents(venv) == before and not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize(
    "name",
    [
        f"{SITE}/demo-1.5.dist-info/RECORD",
        "conda-meta/x-1-h0_0.json",
        "var/lib/dpkg/info/libx.md5sums",
        f"{environment.FOLDER}/{environment.JOURNAL}",
    ],
)
def test_a_pipe_in_place_of_a_description_is_not_waited_for(
    name: str, venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (venv / name).parent.mkdir(parents=True, exist_ok=True)
    (venv / name).unlink(missing_ok=True)
    os.mkfifo(venv / name)
    before = contents(venv)
    assert slim(venv) == 2
    assert f"{name} is no regular file" in capsys.readouterr().err
    assert contents(venv) == before


def test_commands_of_a_journal_are_printed_without_control_characters(
    venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slim(venv) == 0
    path = venv / environment.FOLDER / environment.JOURNAL
    path.write_text(json.dumps({**journal(venv), "restore": ["pip\x1b[2J"]}))
    (venv / SITE / "demo-1.5.dist-info/RECORD").unlink()  # so that no package owns the libraries
    assert main(["slim", "--environment", str(venv), "--undo", "-q"]) == 1
    assert capsys.readouterr().out == "pip\\x1b[2J\n"


def test_undo_names_the_option_that_was_typed(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", "--environment", str(venv), "--undo", "--json"]) == 2
    assert "--json does nothing with --undo" in capsys.readouterr().err.replace("--as-json", "")


@pytest.mark.parametrize("way", ["slim", "undo"])
def test_files_that_a_killed_run_left_are_removed(venv: Path, way: str) -> None:
    before = contents(venv)
    backup = venv.parent / "originals"
    assert slim(venv, "--backup", str(backup)) == 0
    path = venv / ".fatpack-slim/journal.json"
    path.write_text(path.read_text().replace('"complete": true', '"complete": false'))
    left = [folder / ".fatpack.12.part" for folder in (venv / SITE / "demo", venv / ".fatpack-slim", backup)]
    for file in left:
        file.write_bytes(b"half")
    other = venv / SITE / "elsewhere/.fatpack.13.part"
    other.parent.mkdir()
    other.write_bytes(b"another program's")
    more = ["--undo"] if way == "undo" else ["--for", "sm_90", "--quiet"]
    assert main(["slim", "--environment", str(venv), *more]) == 0
    assert not [file for file in left if file.exists()]
    assert other.exists()
    if way == "undo":
        other.unlink()
        other.parent.rmdir()
        assert contents(venv) == before


def test_a_run_that_is_complete_removes_nothing(venv: Path) -> None:
    assert slim(venv) == 0
    left = venv / SITE / "demo/.fatpack.12.part"
    left.write_bytes(b"of a run that is at work")
    assert slim(venv) == 0
    assert left.exists()


def test_a_library_with_the_name_of_a_text_is_slimmed(tmp_path: Path) -> None:
    files = build.files_of({"demo/kernels.fatbin.txt": BOTH, "demo/notes.txt": b"\x50\xed only a text"})
    for name, data in files.items():
        (tmp_path / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / SITE / name).write_bytes(data)
    assert slim(tmp_path) == 0
    assert archs(tmp_path / SITE / "demo/kernels.fatbin.txt") == ["sm_90"]


def test_archives_without_device_code_are_no_files_that_were_not_read(
    venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = build.packed({"arr_0.npy": b"\x93NUMPY"})
    for name in ("demo/x.npz", "demo/y.jar"):
        (venv / SITE / name).write_bytes(data)
    with (venv / SITE / "demo-1.5.dist-info/RECORD").open("a") as lines:
        lines.write("".join(f"{name},{build.digest(data)},{len(data)}\n" for name in ("demo/x.npz", "demo/y.jar")))
    assert main(["slim", "--environment", str(venv), "--for", "sm_90"]) == 0
    printed = capsys.readouterr()
    assert "FP1006" not in printed.out + printed.err and ".npz" not in printed.out
