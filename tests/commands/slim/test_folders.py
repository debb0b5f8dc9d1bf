"""Folders with slimmed libraries: everything else is copied as it is, and RECORDs of installed wheels follow."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES

from fatpack import proof
from fatpack.commands.slim import folders
from fatpack.commands.slim.folders import FolderJob
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.outcome import PackageLibrary
from fatpack.commands.slim.result import SlimmedFile, plan_with_digests
from fatpack.errors import FatpackError, HostError, UsageError
from fatpack.io.source import View
from fatpack.main import main
from fatpack.record import Record
from fatpack.targets.local_devices import parse_devices as devices_named

LIBRARY = b"\x7fELF" + b"code" * 9 + bytes(3000)
FILES = {
    "demo/liba.so": LIBRARY,
    "demo/libb.so": b"\x7fELF plain",
    "demo/a.py": b"value = 1\n",
    "demo/deep/c.so": LIBRARY,
}


class Shorter(Record):
    """Replaces a slimmed library in these tests."""

    pieces: list[bytes]
    is_changed: bool

    def verify(self, before: View, after: View) -> None:
        assert before.tobytes().rstrip(b"\0") == after.tobytes()


def shorter(view: View) -> Shorter:
    """Take the zeros at the end of a file away."""
    data = view.tobytes()
    return Shorter([data[:2], data[2:].rstrip(b"\0")], data.endswith(b"\0"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "site-packages"
    for name, data in build.files_of(FILES).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
        os.utime(path / name, (1_600_000_000, 1_600_000_000))
    (path / "demo" / "liba.so").chmod(0o755)
    (path / "demo" / "link.so").symlink_to("liba.so")
    (path / "out").symlink_to("/nowhere")
    (path / "empty").mkdir()
    return path


def slim(
    path: Path,
    output: Path | None,
    *,
    in_place: bool = False,
    slimming: Callable[[View], Shorter | SlimmedFile] = shorter,
    **more: bool,
) -> tuple[list[PackageLibrary], list[str]]:
    notes: list[str] = []
    work = FolderJob(str(path), None if output is None else str(output), in_place, **more)
    return list(work.slim(slimming, notes)), notes


def check_slimmed(path: Path) -> None:
    new = LIBRARY.rstrip(b"\0")
    expected = {name: new if data is LIBRARY else data for name, data in FILES.items()}
    assert {name: (path / name).read_bytes() for name in FILES} == expected
    with (path / "demo-1.5.dist-info" / "RECORD").open() as file:
        rows = list(csv.reader(file))
    for name, stated, size in rows[:-1]:
        data = (path / name).read_bytes()
        assert (stated, int(size)) == (build.digest(data), len(data))
    assert stat.S_IMODE((path / "demo" / "liba.so").stat().st_mode) == 0o755


def test_a_copy_has_everything(folder: Path, tmp_path: Path) -> None:
    before = {path: path.lstat().st_mtime for path in folder.rglob("*")}
    libraries, notes = slim(folder, tmp_path / "new")
    check_slimmed(tmp_path / "new")
    assert [(item.name, item.is_changed, item.after) for item in libraries] == [
        ("demo/liba.so", True, 40),
        ("demo/libb.so", False, 10),
        ("demo/deep/c.so", True, 40),
    ]
    assert notes == []
    assert (tmp_path / "new" / "demo" / "link.so").readlink() == Path("liba.so")
    assert (tmp_path / "new" / "out").readlink() == Path("/nowhere")
    assert list((tmp_path / "new" / "empty").iterdir()) == []
    assert (tmp_path / "new" / "demo" / "a.py").stat().st_mtime == 1_600_000_000
    assert {path: path.lstat().st_mtime for path in folder.rglob("*")} == before


def test_in_place_changes_libraries_and_record_alone(folder: Path) -> None:
    slim(folder, None, in_place=True)
    check_slimmed(folder)
    assert (folder / "demo" / "libb.so").stat().st_mtime == 1_600_000_000


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    libraries, _ = slim(folder, None)
    assert [item.after for item in libraries] == [40, 10, 40]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_library_that_cannot_be_slimmed_is_copied_and_reported(folder: Path, tmp_path: Path) -> None:
    def some(view: View) -> Shorter:
        if len(view) > 1000:
            raise HostError("it is signed")
        return shorter(view)

    libraries, _ = slim(folder, tmp_path / "new", slimming=some)
    assert [str(item.error) for item in libraries if item.error] == ["it is signed"] * 2
    assert (tmp_path / "new" / "demo" / "liba.so").read_bytes() == LIBRARY


class Refused(FatpackError):
    """An error that concerns all files."""


def test_what_is_refused_for_all_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    def none(view: View) -> Shorter:
        if "deep" in view.chain[0]:
            raise Refused("it would serve nothing")
        return shorter(view)

    with pytest.raises(Refused):
        slim(folder, tmp_path / "new", slimming=none)
    assert not (tmp_path / "new").exists()
    with pytest.raises(Refused):
        slim(folder, None, in_place=True, slimming=none)
    assert (folder / "demo" / "liba.so").read_bytes() == LIBRARY


@pytest.mark.parametrize("output", ["site-packages", "site-packages/new", "."])
def test_outputs_in_the_folder_and_around_it_are_refused(folder: Path, tmp_path: Path, output: str) -> None:
    with pytest.raises(UsageError, match="one contains the other"):
        slim(folder, tmp_path / output)


def test_an_output_with_files_is_refused_without_force(folder: Path, tmp_path: Path) -> None:
    slim(folder, tmp_path / "new")
    with pytest.raises(UsageError, match="is not empty"):
        slim(folder, tmp_path / "new")
    slim(folder, tmp_path / "new", force=True)
    check_slimmed(tmp_path / "new")


def test_files_with_several_names_are_not_changed_in_place_unless_asked(folder: Path) -> None:
    os.link(folder / "demo" / "liba.so", folder / "demo" / "second.so")
    libraries, _ = slim(folder, None, in_place=True)
    errors = {item.name: item.error for item in libraries}
    for name in ("demo/liba.so", "demo/second.so"):
        assert "2 names (hard links)" in str(errors.pop(name))
    assert set(errors.values()) == {None}
    assert (folder / "demo" / "liba.so").read_bytes() == LIBRARY
    assert (folder / "demo" / "deep" / "c.so").read_bytes() == LIBRARY.rstrip(b"\0")
    slim(folder, None, in_place=True, break_links=True)
    check_slimmed(folder)


def test_a_record_that_is_none_is_reported_and_stays(folder: Path) -> None:
    record = folder / "demo-1.5.dist-info" / "RECORD"
    record.write_bytes(b"a,b\n")
    _, notes = slim(folder, None, in_place=True)
    assert len(notes) == 1
    assert "RECORD was not updated" in notes[0]
    assert record.read_bytes() == b"a,b\n"


def test_a_digest_by_another_hash_is_reported(folder: Path) -> None:
    record = folder / "demo-1.5.dist-info" / "RECORD"
    old = record.read_text()
    record.write_text(old.replace(build.digest(LIBRARY), build.digest(LIBRARY, "sha512")))
    _, notes = slim(folder, None, in_place=True)
    assert [note.partition(",")[0] for note in notes] == [
        f"demo-1.5.dist-info/RECORD names {name} by sha512" for name in ("demo/liba.so", "demo/deep/c.so")
    ]


def test_pipes_are_reported(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    _, notes = slim(folder, tmp_path / "new")
    assert notes == ["pipes, sockets and devices are not copied: 1"]


def test_copies_lend_no_rights(folder: Path, tmp_path: Path) -> None:
    for path in (folder / "demo" / "liba.so", folder / "demo" / "libb.so"):
        path.chmod(0o6755)
    slim(folder, tmp_path / "new")
    for path in (tmp_path / "new" / "demo").glob("lib?.so"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    slim(folder, None, in_place=True)
    assert stat.S_IMODE((folder / "demo" / "liba.so").stat().st_mode) == 0o6755


class Wrong(Shorter):
    """A result that is none."""

    def verify(self, before: View, after: View) -> None:
        raise HostError("it is another program")


def test_a_result_that_is_none_leaves_the_old_file(folder: Path) -> None:
    libraries, _ = slim(folder, None, in_place=True, slimming=lambda _: Wrong([b"short"], True))
    assert {str(item.error) for item in libraries} == {"it is another program"}
    assert (folder / "demo" / "liba.so").read_bytes() == LIBRARY


def test_folders_of_a_copy_get_permissions_and_times(folder: Path, tmp_path: Path) -> None:
    """The inner folder may not be written to in the end, and nobody else may enter it while it is filled."""
    new = tmp_path / "new"
    modes: list[int] = []

    def look(view: View) -> Shorter:
        if (new / "demo").is_dir():
            modes.append(stat.S_IMODE((new / "demo").stat().st_mode))
        return shorter(view)

    for name, mode in (("demo/deep", 0o555), ("demo", 0o750), ("empty", 0o700), ("", 0o711)):
        os.utime(folder / name, (1_500_000_000, 1_500_000_000))
        (folder / name).chmod(mode)
    os.utime(folder / "out", (1_400_000_000, 1_400_000_000), follow_symlinks=False)
    slim(folder, new, slimming=look)
    assert set(modes) == {0o700}
    for name, mode in (("demo/deep", 0o555), ("demo", 0o750), ("empty", 0o700), ("", 0o711)):
        status = (new / name).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (mode, 1_500_000_000)
    assert (new / "out").lstat().st_mtime == 1_400_000_000


def test_of_a_folder_without_files_to_slim_no_copy_is_made(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.txt").write_text("text")
    assert main(["slim", str(tmp_path / "old"), "--for", "sm_90", "-d", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


def test_a_copy_that_could_not_be_finished_is_called_incomplete(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "empty").symlink_to(tmp_path)
    words = ["slim", str(folder), "--for", "sm_90", "-d", str(copy)]
    assert main(words) == 2
    assert "incomplete" not in capsys.readouterr().err
    assert main([*words, "--force"]) == 2
    assert f"{copy} is an incomplete copy: remove it, and slim again" in capsys.readouterr().err


def test_in_place_an_interrupted_run_says_that_records_may_not_follow(folder: Path) -> None:
    calls: list[View] = []

    def interrupted(view: View) -> Shorter | SlimmedFile:
        calls.append(view)
        if len(calls) > 5:  # three libraries are tried first, and two are changed
            raise KeyboardInterrupt
        return shorter(view)

    notes: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        list(FolderJob(str(folder), None, True).slim(interrupted, notes))
    assert ["and RECORDs may not follow" in note for note in notes] == [True]


def test_links_take_the_place_of_what_is_there_and_lead_nowhere_else(folder: Path, tmp_path: Path) -> None:
    new, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (new / "demo").mkdir(parents=True)
    (new / "out").write_bytes(b"an older file")
    (new / "demo" / "link.so").symlink_to("older.so")
    slim(folder, new, force=True)
    assert (os.readlink(new / "out"), os.readlink(new / "demo" / "link.so")) == ("/nowhere", "liba.so")
    (new / "empty").rmdir()
    (new / "empty").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link, but a folder must be there"):
        slim(folder, new, force=True)
    (new / "empty").unlink()
    (new / "out").unlink()
    (new / "out").mkdir()
    with pytest.raises(UsageError, match="is a folder, but a link must be there"):
        slim(folder, new, force=True)
    assert list(elsewhere.iterdir()) == []


def test_a_record_that_is_too_large_stays_and_is_reported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = folder / "demo-1.5.dist-info" / "RECORD"
    old = record.read_bytes()
    monkeypatch.setattr(folders, "_TEXT", len(old) - 1)
    _, notes = slim(folder, tmp_path / "new")
    assert (tmp_path / "new" / "demo-1.5.dist-info" / "RECORD").read_bytes() == old
    assert notes == ["demo-1.5.dist-info/RECORD was not updated and is out of date: it has more than 0 MiB"]


def test_what_is_not_proved_does_not_take_the_place_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
    (tmp_path / "lib").mkdir()
    path = tmp_path / "lib" / "libtwo.so"
    options = SlimOptions(devices=devices_named(["sm_90"]))
    for is_wrong in (True, False):
        path.write_bytes(library)
        if is_wrong:
            verdict = proof.prove(view_of(library), view_of(library[:48] + b"\1" + library[49:]))
            assert not verdict.is_proved
            monkeypatch.setattr(proof, "prove", lambda _before, _after, verdict=verdict: verdict)
        found, _ = slim(tmp_path / "lib", None, in_place=True, slimming=lambda view: plan_with_digests(view, options))
        assert (path.read_bytes() == library) is is_wrong
        assert [type(item.error) for item in found] == ([HostError] if is_wrong else [type(None)])
        monkeypatch.undo()


def test_files_that_are_images_themselves_are_said_to_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of rocBLAS has hundreds: nothing is taken out of one, and none is left out."""
    folder = tmp_path / "library"
    folder.mkdir()
    image = FIXTURES / "cuobjdump" / "samples" / "k1.cuda13.0.sm_75.cubin"
    (folder / "a.cubin").write_bytes(image.read_bytes())
    assert main(["slim", str(folder / "a.cubin"), "--for", "sm_120", "--dry-run"]) == 0
    assert "a.cubin: unchanged: it is a cubin for sm_" in capsys.readouterr().out
    (folder / "b.cubin").write_bytes(image.read_bytes())
    assert main(["slim", str(folder), "--for", "sm_120", "--dry-run"]) == 0
    assert "2 files are device images themselves (" in capsys.readouterr().out
