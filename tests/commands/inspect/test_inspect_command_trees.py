"""``fatpack inspect`` of folders and patterns."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.command_line import trees
from fatpack.concurrency import processes
from fatpack.concurrency.progress import read_state
from fatpack.text.schemas import schema_text

Fatpack = Callable[..., Ran]


@pytest.fixture
def tree(folder: Path) -> Path:
    """``t`` with an object, an image, a damaged object and files without device code."""
    for name, source in (
        ("t/lib/fat.o", FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"),
        ("t/lib/deep/single.o", FIXTURES / "cuda_fatbin" / "hosts" / "single.o"),
        ("t/a.cubin", FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"),
        ("t/host.o", FIXTURES / "demo" / "host.o"),
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, name)
    Path("t/data").write_bytes(b"no code")
    Path("t/lib/source.py").write_bytes(b"import this")
    Path("t/link").symlink_to("lib")
    return folder


CODE = ["t/a.cubin", "t/lib/fat.o", "t/lib/deep/single.o"]


@pytest.mark.parametrize(
    ("options", "files", "said"),
    [
        (["--arch", "sm99"], "none", "no image matches --arch sm99; did you mean sm_99?"),
        (["--image", "0.99"], "none", "no image matches --image 0.99"),
        (["--arch", "gfx90a"], "1", ""),
    ],
)
def test_a_filter_does_not_take_device_code_from_files(
    options: list[str], files: str, said: str, tree: Path, fatpack: Fatpack
) -> None:
    ran = fatpack("inspect", *options, "t")
    summary = ran.out.splitlines()[-1]
    assert summary.startswith(f"t: 5 files, {files} with images that match {' '.join(options)}")
    assert "device code" not in ran.out
    assert ran.err == (f"fatpack: {said}\n" if said else "")
    counts = json.loads(fatpack("inspect", "--json", *options, "t").out)["trees"][0]
    assert (counts["with_device_code"], counts["files"]) == (int(files != "none"), 5)


def test_a_folder_shows_what_each_of_its_files_shows(tree: Path, fatpack: Fatpack) -> None:
    for options in ([], ["-v"], ["--kernels"], ["--inflate", "-v"]):
        ran = fatpack("inspect", *options, "t")
        *lines, summary = ran.out.splitlines(keepends=True)
        assert "".join(lines) == "".join(fatpack("inspect", *options, path).out for path in CODE)
        assert (ran.code, ran.err) == (0, "")
    assert summary == (
        "t: 5 files, 3 with device code (5 images in 43.9 kB of files); 1 skipped by name, 1 link not followed; "
        "--deep searches everything\n"
    )


def test_json_has_the_same_records_and_the_counts(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "--json", "t", "pkg.bin", "t/lib/*.o")
    document = json.loads(ran.out)
    jsonschema.validate(document, json.loads(schema_text("inspect")))
    alone = json.loads(fatpack("inspect", "--json", *CODE, "pkg.bin", "t/lib/fat.o").out)
    assert document["files"] == alone["files"]
    assert [(item["path"], item["kind"], item["files"]) for item in document["trees"]] == [
        ("t", "folder", 5),
        ("t/lib/*.o", "pattern", 1),
    ]
    empty = json.loads(fatpack("inspect", "--json", "t/lib", "--exclude=*.o").out)
    assert empty["files"] == []
    assert empty["trees"][0]["excluded"] == 1 + 1


def test_damage_in_one_file_hides_none_and_is_the_exit_code(tree: Path, fatpack: Fatpack) -> None:
    whole = fatpack("inspect", "t").out
    Path("t/cut.o").write_bytes(Path("host.o").read_bytes()[:400])
    ran = fatpack("inspect", "t")
    assert ran.code == 3
    assert fatpack("inspect", "t/cut.o").out in ran.out
    assert all(line in ran.out for line in whole.splitlines()[:-1])
    if os.geteuid():
        os.chmod("t/a.cubin", 0)
        ran = fatpack("inspect", "t")
        assert (ran.code, ran.err) == (5, "fatpack: error: t/a.cubin: Permission denied\n")
        assert "1 file could not be read" in ran.out


def test_workers_change_nothing(tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("t/cut.o").write_bytes(Path("host.o").read_bytes()[:400])
    arguments = [["t"], ["-v", "--kernels", "t"], ["--json", "t"], ["--one-program", "t"], ["--json", "--kernels", "t"]]
    alone = [fatpack("inspect", *given) for given in arguments]
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(processes, "core_count", lambda: 4)
    assert [fatpack("inspect", *given) for given in arguments] == alone


def test_a_pattern_that_matches_nothing_is_a_warning(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "t/*.dll", "t/*.cubin")
    assert (ran.code, ran.err) == (1, "fatpack: warning: no file matches t/*.dll\n")
    assert ran.out.endswith("2 arguments: 1 file, 1 with device code (1 image in 7.58 kB of files)\n")


def test_a_pattern_that_matches_folders_alone_is_reported_what_means_their_files(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "t/lib/d*")
    hint = "t/lib/d*/** means the files in the folders that it matches"
    assert (ran.code, ran.err) == (1, f"fatpack: warning: no file matches t/lib/d*; {hint}\n")
    assert "single.o" in fatpack("inspect", hint.partition(" ")[0]).out


@pytest.mark.parametrize("options", [[], ["--json"], ["--by=arch"], ["--rows=csv"], ["-v"]])
def test_what_is_excluded_in_vain_is_reported(
    options: list[str], tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open("t/p.tar", "w") as package:
        package.add("t/lib/fat.o", "in/fat.o")
    exclude = ["--exclude=single.o", "--exclude=in/*.o", "--exclude=x*"]
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(processes, "core_count", lambda: 4)
    ran = fatpack("inspect", *options, *exclude, "t", "t/p.tar")
    assert ran.code == 0
    notes = [line for line in ran.err.splitlines() if "--exclude" in line]
    assert notes == [f"fatpack: note: {exclude[-1].replace('=', ' ')} matched nothing"]
    assert fatpack("extract", "t", "-q", "--dry-run", *exclude).err == ""
    assert f"{exclude[-1].replace('=', ' ')} matched nothing" in fatpack("extract", "t", "--dry-run", *exclude).err


def test_kernels_are_counted_as_kernels(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "--rows=jsonl", "--rows-of=kernels", "t")
    count = sum('"row":"kernel"' in line.replace(" ", "") for line in ran.out.splitlines())
    assert f" with kernels ({count} kernels in " in ran.err
    assert fatpack(
        "inspect", "--rows=csv", "--rows-of=kernels", "t", "--exclude=*.o", "--exclude=*.cubin"
    ).err.startswith("t: 1 file, none with kernels; ")


def test_the_total_of_sums_and_the_summary_count_alike(tree: Path, fatpack: Fatpack) -> None:
    shutil.copy(FIXTURES / "elf" / "clang-22-hip.o", "t/hip.o")
    ran = fatpack("inspect", "--by=arch", "--json", "t")
    assert f"({json.loads(ran.out)['total']['images']} images in " in ran.err
    assert "host" in fatpack("inspect", "t/hip.o").out


def test_no_table_follows_errors_alone(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "--by=arch", "t/none.so")
    assert (ran.code, ran.out) == (5, "")
    assert "total" in fatpack("inspect", "--by=arch", "t/data").out
    assert "total" in fatpack("inspect", "--by=arch", "t/none.so", "t/data").out


def test_deep_passes_nothing_by(tree: Path, fatpack: Fatpack) -> None:
    shutil.copy("t/a.cubin", "t/lib/image.txt")
    assert "image.txt" not in fatpack("inspect", "t").out
    ran = fatpack("inspect", "--deep", "t")
    assert "t/lib/image.txt: cubin sm_80" in ran.out
    assert (
        ran.out.splitlines()[-1] == "t: 7 files, 4 with device code (6 images in 51.5 kB of files); 1 link not followed"
    )


def test_one_program_compares_files_of_a_folder(tree: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "--one-program", "t/lib")
    assert ran.code == 1
    assert "warning FP1420" in ran.out


@pytest.mark.parametrize("by", [["arch"], ["kernel"], ["file", "arch"]])
def test_sums_over_a_folder_are_those_over_its_files(tree: Path, fatpack: Fatpack, by: list[str]) -> None:
    options = [f"--by={key}" for key in by]
    for json_option in ([], ["--json"]):
        ran = fatpack("inspect", *options, *json_option, "t")
        assert ran.out == fatpack("inspect", *options, *json_option, *CODE).out
        assert (ran.code, ran.err) == (
            0,
            "t: 5 files, 3 with device code (5 images in 43.9 kB of files); 1 skipped by name, 1 link not followed; "
            "--deep searches everything\n",
        )
    Path("t/cut.o").write_bytes(Path("host.o").read_bytes()[:400])
    assert fatpack("inspect", "--by=arch", "t").code == 3
    assert "t/cut.o: error FP1001" in fatpack("inspect", "--by=arch", "t").err


@pytest.mark.parametrize("options", [[], ["--rows-of=kernels"], ["--digests", "--kernels"]])
def test_rows_of_a_folder_are_those_of_its_files(tree: Path, fatpack: Fatpack, options: list[str]) -> None:
    def rows(*names: str, word: str) -> list[dict[str, object]]:
        ran = fatpack("inspect", "--rows=jsonl", *options, *names)
        assert ran.code == 0
        return [row for row in map(json.loads, ran.out.splitlines()) if (row["row"] == "file") is (word == "file")]

    assert rows("t", word="") == rows(*CODE, word="")
    assert [row["path"] for row in rows("t", word="file")] == ["t/a.cubin", "t/data", "t/host.o", *CODE[1:]]
    csv = fatpack("inspect", "--rows=csv", "t", "-o", "out.csv")
    assert csv.err.startswith("t: 5 files, 3 with device code")
    assert len(Path("out.csv").read_text().splitlines()) == 1 + 5 + 5


def test_progress_is_shown_on_a_terminal_alone_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fatpack.command_line.messages.time.monotonic", lambda: now[0])
    for is_terminal in (False, True):
        shown = io.StringIO()
        monkeypatch.setattr(shown, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr("sys.stderr", shown)
        meter = trees.FilesProgress()
        for number in range(5):
            meter(has_code=number % 2 == 0)
            now[0] += 0.6
        meter.finish()
        states = ((3, 2, 1), (4, 2, 1), (5, 3, 2))
        counted = [f"{files} files, {code} with device code, {time} s\x1b[K" for files, code, time in states]
        assert shown.getvalue() == ("".join(f"\r{words}" for words in counted) + "\r\x1b[K" if is_terminal else "")


def test_rows_of_a_damaged_file_in_a_folder_are_those_of_the_file(tree: Path, fatpack: Fatpack) -> None:
    library = FIXTURES / "cuda_fatbin" / "hosts" / "librel.so"
    Path("g").mkdir()
    Path("g/librel.so").write_bytes(library.read_bytes()[:25956])
    alone = fatpack("inspect", "--rows", "csv", "g/librel.so")
    ran = fatpack("inspect", "--rows", "csv", "g")
    assert (ran.out, ran.code) == (alone.out, 3)
    assert ran.out.count("\nimage,") == 7


@pytest.mark.parametrize("options", [[], ["--by=arch"], ["--kernels"]])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_file_that_is_counted_is_read(
    options: list[str], is_shared: bool, tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_shared:
        monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", 0)
        monkeypatch.setattr(processes, "_LEAST_TOGETHER", 0)
    states = []

    def count(meter: trees.FilesProgress, has_code: bool) -> None:
        state = read_state()
        assert state is not None
        states.append(state)

    monkeypatch.setattr(trees.FilesProgress, "__call__", count)
    fatpack("inspect", *options, "t")
    assert len(states) == 5
    assert [state.done for state in states] == sorted({state.done for state in states})
    assert states[-1].done == states[-1].known == sum(os.path.getsize(path) for path in (*CODE, "t/host.o", "t/data"))
