"""A survey has the rows of every file once, whatever is killed, changed or given twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import reference
from tests.builders import packages as build
from tests.commands.survey.conftest import SAMPLES, Read, expected

import fatpack
from fatpack.commands.survey.worker import rewrite_part
from fatpack.main import main
from fatpack.tabular.columns import ImageRow


def _survey(*arguments: str | Path) -> int:
    return main(["survey", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _pyarrow() -> None:
    reference.package("pyarrow")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("of", ["images", "kernels"])
def test_a_survey_has_the_rows_of_every_file(format: str, of: str, many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    assert _survey(many, "-o", out, f"--format={format}", f"--rows-of={of}", "--workers=2", "--part-files=50") == 3
    assert read(out) == expected(many, of)
    parts = [name for name in os.listdir(out) if name.startswith("part-")]
    assert sorted(os.listdir(out)) == sorted(["_survey.sqlite", *parts])
    assert len(parts) == 3


def test_what_is_done_is_not_done_again_and_what_changed_is(
    many: Path, tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert _survey(many, "-o", out, "--workers=2", "--part-files=50") == 3
    before = {name: (out / name).stat().st_mtime_ns for name in os.listdir(out) if name.startswith("part-")}
    capsys.readouterr()
    assert _survey(many, "-o", out, "--workers=2") == 3
    assert "122 files (122 of them before)" in capsys.readouterr().err
    assert {name: (out / name).stat().st_mtime_ns for name in os.listdir(out) if name.startswith("part-")} == before
    shutil.copy(SAMPLES[3], many / "0" / "0.bin")
    os.utime(many / "0" / "0.bin", (1, 1))
    (many / "new.bin").write_bytes(SAMPLES[1].read_bytes())
    (many / "cut.fatbin").write_bytes(SAMPLES[0].read_bytes())
    assert _survey(many, "-o", out, "--workers=1") == 1
    assert "123 files (120 of them before)" in capsys.readouterr().err
    assert read(out) == expected(many)


def test_a_survey_that_is_killed_goes_on_where_it_was(many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    program = "import sys; from fatpack.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "survey", str(many), "-o", str(out), "--workers=1", "--part-files=5"]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None:
        if out.exists() and sum(name.startswith("part-") for name in os.listdir(out)) >= 2:
            break
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert len(read(out)) < len(expected(many))
    stray = out / f"part-{'0' * 32}.parquet"
    stray.write_bytes(b"")
    (out / "part-of-somebody-else").write_bytes(b"")
    assert _survey(many, "-o", out, "--workers=2") == 3
    assert read(out) == expected(many)
    assert not stray.exists()
    assert (out / "part-of-somebody-else").exists()


def test_a_survey_that_is_stopped_keeps_what_it_read(many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from fatpack.commands.survey.engines import LocalEngine
results = LocalEngine.results
def stopped(self, tasks):
    for number, result in enumerate(results(self, tasks)):
        if number == 40:
            os.kill(os.getpid(), signal.SIGINT)
        yield result
LocalEngine.results = stopped
import fatpack
from fatpack.main import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""
    (tmp_path / "stopped.py").write_text(program)
    command = [sys.executable, str(tmp_path / "stopped.py"), "survey", str(many), "-o", str(out), "--workers=1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 130
    expected_words = f"fatpack: stopped; {out} has what was read (40 of 122 files), and the same command goes on\n"
    assert run.stderr == expected_words
    kept = {row["path"] for row in read(out)}
    assert len(kept) == 40
    assert _survey(many, "-o", out, "--workers=1") == 3
    assert read(out) == expected(many)


def test_a_signal_while_the_last_rows_are_written_loses_none(many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    program = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whoever runs the tests may ignore it
from fatpack.commands.survey import run
write_part = run.write_part
def signalled(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    write_part(*arguments)
run.write_part = signalled
from fatpack.main import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""
    (tmp_path / "signalled.py").write_text(program)
    command = [sys.executable, str(tmp_path / "signalled.py"), "survey", str(many), "-o", str(out), "--workers=1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 143
    assert run.stderr.startswith(f"fatpack: stopped; {out} has what was read")
    assert read(out) == expected(many)


def test_the_end_says_why_it_is_no_success(
    many: Path, tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert _survey(many, "-o", out, "--workers=1") == 3
    codes = [row["exit_code"] for row in read(out) if row["row"] == "file"]
    words = "1 file with warnings, 1 file with damage; see the columns exit_code and findings\n"
    assert f"fatpack: warning: {words}" in capsys.readouterr().err
    assert (codes.count(1), codes.count(3)) == (1, 1)


def test_a_bad_file_is_a_row_with_its_error(tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    os.symlink("/", folder / "out-of-here")
    shutil.copy(SAMPLES[0], folder / "good.fatbin")
    missing = tmp_path / "missing"
    out = tmp_path / "out"
    assert _survey(missing, tmp_path / "pipe", folder, "-o", out, "--workers=1") == 5
    printed = capsys.readouterr().err
    errors = {row["path"]: row["error"] for row in read(out) if row["error"]}
    assert errors == {
        str(missing): f"{missing}: No such file or directory",
        str(tmp_path / "pipe"): f"{tmp_path / 'pipe'}: this is no file: pipes and devices are not surveyed",
    }
    for words in ("2 files could not be read", "1 link in folders not followed", "1 pipe, socket or device in folders"):
        assert words in printed
    shutil.copy(SAMPLES[1], missing)
    assert _survey(missing, folder, "-o", out, "--workers=1") == 0
    assert {row["path"] for row in read(out) if row["error"]} == {str(tmp_path / "pipe")}


def test_sources_are_files_folders_patterns_and_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.so", "a/b/y.so", "a/b/z.o", "c/[1].so", "d e/f.so"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES[0], name)
    Path("list").write_text("d e/f.so\n\n# a comment\na/b/*.o\n")

    def found(*arguments: str) -> list[str]:
        shutil.rmtree("out", ignore_errors=True)
        _survey(*arguments, "-o", "out", "--workers=1", "--format=jsonl")
        return sorted(os.path.relpath(row["path"]) for row in read(Path("out")) if row["row"] == "file")

    assert found("a", "a/x.so") == ["a/b/y.so", "a/b/z.o", "a/x.so"]
    assert found("a/*.so") == ["a/x.so"]
    assert found("a/**/*.so") == ["a/b/y.so", "a/x.so"]
    assert found("**/*.o", "c/[1].so") == ["a/b/z.o", "c/[1].so"]
    assert found("--from", "list") == ["a/b/z.o", "d e/f.so"]
    assert found(".") == ["a/b/y.so", "a/b/z.o", "a/x.so", "c/[1].so", "d e/f.so", "list"]
    capsys.readouterr()
    assert _survey("a", "a/*.dll", "-o", "out2", "--workers=1", "--format=jsonl") == 1
    assert "no file matches a/*.dll" in capsys.readouterr().err


def test_other_options_and_other_folders_are_refused(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert _survey(many / "0", "-o", out, "--workers=1", "--format=jsonl") == 0
    assert _survey(many / "0", "-o", out, "--workers=1", "--format=jsonl", "--digests") == 2
    assert "was made with other options: fatpack.rows/1 --rows-of images --format jsonl" in capsys.readouterr().err
    assert _survey(many / "0", "-o", many) == 2
    assert "has other files" in capsys.readouterr().err
    assert _survey(many / "0", "-o", many / "0" / "0.bin") == 2
    assert "is no folder" in capsys.readouterr().err
    for arguments, words in (
        ((), "no output is given; name the folder with -o"),
        (("-o", out), "no source given"),
        ((many, "-o", out, "--engine=dask"), "the engine dask needs an address"),
        ((many, "-o", out, "--address=x"), "the engine local has no address"),
        ((many, "-o", out, "--engine=ray", "--address=auto", "--workers=2"), "the workers of its cluster"),
    ):
        assert _survey(*arguments) == 2
        assert words in capsys.readouterr().err


def test_a_folder_is_for_one_survey_at_a_time_and_damage_to_its_list_is_reported(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fatpack.commands.survey.manifest import DATABASE_NAME, SurveyManifest

    out = tmp_path / "out"
    with SurveyManifest(str(out), "x"):
        assert _survey(many, "-o", out) == 2
    assert "is in use by another survey" in capsys.readouterr().err
    (out / DATABASE_NAME).write_bytes(b"no database at all" * 100)
    assert _survey(many, "-o", out) == 3
    assert "the list of what is done cannot be read" in capsys.readouterr().err


def test_names_that_are_no_utf8_are_surveyed(tmp_path: Path, read: Read) -> None:
    folder = os.fsencode(tmp_path / "folder")
    os.mkdir(folder)
    shutil.copy(os.fsencode(SAMPLES[0]), os.path.join(folder, b"\xff.so"))
    for format in ("parquet", "jsonl"):
        out = tmp_path / format
        assert _survey(tmp_path / "folder", "-o", out, "--workers=1", f"--format={format}") == 0
        os.utime(os.path.join(folder, b"\xff.so"), (1, 1))
        assert _survey(tmp_path / "folder", "-o", out, "--workers=1", f"--format={format}") == 0
        assert {row["path"] for row in read(out)} == {f"{tmp_path}/folder/\\xff.so"}
        assert sum(row["row"] == "file" for row in read(out)) == 1


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_names_that_are_one_in_rows_do_not_lose_rows_of_each_other(format: str, tmp_path: Path, read: Read) -> None:
    folder = os.fsencode(tmp_path / "folder")
    os.mkdir(folder)
    names = [os.path.join(folder, name) for name in (b"\xff.so", b"\\xff.so")]
    for name in names:
        shutil.copy(os.fsencode(SAMPLES[0]), name)
    for name in (*names, names[0]):
        assert _survey(tmp_path / "folder", "-o", tmp_path / "out", "--workers=1", f"--format={format}") == 0
        assert sum(row["row"] == "file" for row in read(tmp_path / "out")) == 2
        os.utime(name, (len(name), 1))


def test_a_part_is_rewritten_by_a_process_that_loaded_nothing_else(many: Path, tmp_path: Path, read: Read) -> None:
    program = "import sys; from fatpack.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "survey", str(many), "-o", str(tmp_path / "out"), "--workers=1"]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (3, False)
        os.utime(many / "0" / "0.bin", (1, 1))
    assert read(tmp_path / "out") == expected(many)


def test_limits_hold_in_the_workers(tmp_path: Path, read: Read) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(SAMPLES[0], folder / "a.fatbin")
    assert _survey(folder, "-o", tmp_path / "out", "--workers=1", "--limit=images=1", "--format=jsonl") == 3
    assert any(
        "FP1005" in row["findings"] or "FP1402" in row["findings"] or row["exit_code"] == 3
        for row in read(tmp_path / "out")
    )


def test_names_and_patterns_leave_files_in_folders_out(
    tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    for name in ("a.bin", "b.txt", "c.bin"):
        shutil.copy(SAMPLES[0], libs / name)
    assert _survey(libs, libs / "b.txt", "-o", tmp_path / "named", "--exclude=c.*") == 0
    assert {row["path"] for row in read(tmp_path / "named")} == {str(libs / "a.bin"), str(libs / "b.txt")}
    told = capsys.readouterr().err
    assert "1 file in folders skipped by name" in told
    assert "excluded in folders: 1" in told
    assert _survey(libs, "-o", tmp_path / "all", "--thorough") == 0
    assert "surveyed 3 files" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_package_has_the_rows_of_its_files_once(format: str, tmp_path: Path, read: Read) -> None:
    libs, out = tmp_path / "libs", tmp_path / "out"
    libs.mkdir()
    files = {"a.bin": SAMPLES[0].read_bytes(), "b/c.bin": SAMPLES[1].read_bytes(), "d.py": b""}
    for path in (libs / "x.whl", libs / "y.whl"):
        path.write_bytes(build.zipped(files))
    for changed in (False, True):
        if changed:
            (libs / "x.whl").write_bytes(build.zipped({**files, "e.bin": files["a.bin"]}))
        assert _survey(libs, "-o", out, f"--format={format}", "--workers=1") == 0
        rows = read(out)
        expected = [row.to_dict() for name in ("x.whl", "y.whl") for row in fatpack.rows(libs / name)]
        assert sorted(row["path"] for row in rows) == sorted(row["path"] for row in expected)
        stored = [row["stored_size"] for row in rows if row["row"] == "image"]
        assert sorted(stored) == sorted(row["stored_size"] for row in expected if row["row"] == "image")


PAGE = "<!DOCTYPE html>\n<html><body><a href='x.whl'>x.whl</a></body></html>"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("index.html", PAGE, "is an HTML page"),
        ("simple", f"<!-- an index -->\n{PAGE}", "is an HTML page"),
        (
            "wheels.txt",
            "# wheels\nhttps://example.invalid/a.whl\nhttps://example.invalid/b.whl\n",
            "is a list of files",
        ),
        ("list", "here.fatbin\n", "is a list of files"),
        ("list", "here.fatbin\ngone-1.0-py3-none-any.whl\n", "is a list of files"),
    ],
)
def test_a_page_or_a_list_is_no_source(
    name: str,
    text: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLES[0], "here.fatbin")
    Path(name).write_text(text)
    assert _survey("here.fatbin", name, "-o", "out", "--workers=1") == 2
    said = capsys.readouterr().err
    assert f"{name} {problem}" in said
    assert "--from" in said
    assert not Path("out").exists()
    Path(name).write_text("notes about wheels\n")
    assert _survey("here.fatbin", name, "-o", "out", "--workers=1", "--format=jsonl") == 0


def test_an_output_with_the_name_of_a_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "dl.csv"
    assert main(["survey", str(tmp_path), "-o", str(output)]) == 2
    said = capsys.readouterr().err
    assert "is the name of a table, and survey writes a folder of tables" in said
    assert f"--rows csv -o {output}" in said
    assert not output.exists()


def test_without_pyarrow_the_other_format_is_named(tmp_path: Path) -> None:
    program = "import sys\nsys.modules['pyarrow'] = None\nfrom fatpack.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "survey"]
    output = tmp_path / "tables"
    done = subprocess.run([*command, str(tmp_path), "-o", str(output)], capture_output=True, text=True)
    assert done.returncode == 4
    assert "pip install pyarrow, or --format jsonl" in done.stderr
    assert not output.exists()
    help_text = subprocess.run([*command, "--help"], capture_output=True, text=True).stdout
    assert "fatpack[parquet]" in " ".join(help_text.split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_pipe_in_place_of_a_part_is_not_waited_for(format: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part")
    with pytest.raises(fatpack.FormatError, match="no regular file"):
        rewrite_part(str(tmp_path), "part", "new", ["x"], ImageRow, format)
    assert os.listdir(tmp_path) == ["part"]
