"""The benchmarks' own arithmetic, and the commands that they start. Nothing here depends on time."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from tools.bench import building, bundle_library, checking, growth, inputs, project, recording
from tools.bench.__main__ import SUBJECTS, main, print_table
from tools.bench.measure import MB, BenchError, Figure, Sample, against, command, fatpack, measure, peer

import fatpack as library
from fatpack import formats, images


@pytest.mark.parametrize(
    ("value", "limit", "is_floor", "verdict"),
    [
        (1.3, 1.3, False, "PASS"),
        (1.31, 1.3, False, "over"),
        (3.0, 3, True, "PASS"),
        (2.9, 3, True, "under"),
        (99.0, None, False, "-"),
    ],
)
def test_a_verdict_follows_from_value_and_target(
    value: float, limit: float | None, is_floor: bool, verdict: str
) -> None:
    assert Figure("x", value, "s", limit, is_floor=is_floor).verdict == verdict


def test_being_faster_than_a_peer_is_its_time_over_that_of_fatpack() -> None:
    figure = against("x", Sample(0.5, 0.5, MB), Sample(2.0, 1.0, 3 * MB), "peer", at_least=4)
    assert (figure.value, figure.verdict) == (4.0, "PASS")
    assert (figure.peer, figure.times_ours) == ("peer", 4.0)
    assert figure.facts == "peer 2000.0 ms (cpu 1000), 3 MB"


def test_a_missing_peer_is_reported_and_has_no_verdict() -> None:
    figure = against("x", Sample(0.5, 0.5, MB), None, "peer", at_least=4)
    assert (figure.verdict, figure.facts) == ("-", "peer is not installed")


def test_a_multiple_of_a_peer_is_our_time_over_its() -> None:
    assert Figure("x", 2.0, "x cp", None, peer="cp").times_ours == 0.5


def test_samples_keep_the_best_times_and_the_largest_peak() -> None:
    assert Sample(1.0, 0.9, 5).merged(Sample(2.0, 0.8, 7)) == Sample(1.0, 0.8, 7)


def test_peaks_are_those_of_the_command_and_not_of_this_process() -> None:
    ballast = bytearray(b"x" * (200 * MB))
    program = "size = 80_000_000; block = b'x' * size"
    samples = measure(
        {"true": command("true"), "large": command(sys.executable, "-I", "-c", program)},
        1,
    )
    assert len(ballast) == 200 * MB
    assert samples["true"].peak < 40 * MB
    assert 80 * MB < samples["large"].peak < 150 * MB


def test_outputs_are_removed_before_every_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    measure({"mkdir": command("mkdir", made, outputs=[made])}, 2)
    assert made.is_dir()


def test_a_command_that_fails_stops_the_measurement() -> None:
    with pytest.raises(BenchError, match="failed: boom"):
        measure({"bad": command(sys.executable, "-c", "import sys; sys.exit('boom')")}, 1)


def test_findings_are_no_failure_of_a_command_that_may_have_them() -> None:
    samples = measure({"findings": command(sys.executable, "-c", "import sys; sys.exit(1)", codes=(0, 1))}, 1)
    assert samples["findings"].seconds > 0


def test_the_console_script_is_measured() -> None:
    assert Path(fatpack("--version").words[0]).name == "fatpack"


def test_fillers_have_the_size_the_head_and_no_magic(tmp_path: Path) -> None:
    path = inputs.filler(tmp_path / "filler", 3_000_001, head=b"head")
    data = path.read_bytes()
    assert len(data) == 3_000_001
    assert data.startswith(b"head")
    assert not any(magic in data for magic in formats.MAGICS)
    assert inputs.filler(tmp_path / "again", 3_000_001, head=b"head").read_bytes() == data


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_has_its_module(name: str) -> None:
    assert callable(import_module(SUBJECTS[name]).run)


def test_tables_are_aligned_and_keep_what_was_measured_before_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def figures() -> object:
        yield Figure("short", 1.0, "x", 2, "facts")
        raise BenchError("gcc is not installed")

    assert print_table(figures()) is None  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].index("target") == lines[1].index("<= 2")
    assert lines[-1] == "not measured: gcc is not installed"


FIGURES = (Figure("a", 1.5, "x cp", 2, "made of", peer="cp"), Figure("b", 3.25, "x", 1, is_floor=True, peer="tool"))


def test_recorded_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    runs = {"pack": recording.Run("2026-01-31", "2 cores", FIGURES), "cir": recording.Run("2026-02-01", "1 core", ())}
    path = tmp_path / "new" / "figures.json"
    assert recording.read(path) == {}
    recording.write(runs, path)
    assert recording.read(path) == runs


def test_points_of_growth_are_recorded_too(tmp_path: Path) -> None:
    points = (("fatpack", ((10, 0.5, MB), (100, 5.0, 2 * MB))), ("peer", ((10, 0.0, MB), (100, 1.0, MB))))
    runs = {"growth": recording.Run("2026-01-31", "2 cores", (Figure("a: b", 1.0, "x", 1.15, points=points),))}
    recording.write(runs, tmp_path / "figures.json")
    assert recording.read(tmp_path / "figures.json") == runs


@pytest.mark.parametrize("make", ["folder", "wheel", "containers", "images", "archive"])
def test_files_of_growth_have_as_many_images_as_they_claim(tmp_path: Path, make: str) -> None:
    path = getattr(growth, f"_{make}")(tmp_path, 30)
    rows = list(library.rows(path))
    assert sum(row.row == "image" for row in rows) == 30
    assert not any(row.error or row.exit_code for row in rows)
    for name in growth.OPERATIONS:
        measure({name: growth.OPERATIONS[name](path)}, 1)


def test_what_was_not_measured_is_recorded_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    recording.write({"pack": recording.Run("", "", (Figure("a", math.nan, "x", None, "no peer"),))}, path)
    assert json.loads(path.read_text())["pack"]["figures"][0]["value"] is None
    (figure,) = recording.read(path)["pack"].figures
    assert math.isnan(figure.value)
    assert figure.facts == "no peer"


def test_a_record_replaces_only_what_was_measured_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def figures(name: str, _: Path) -> Iterator[Figure]:
        yield Figure(f"new {name}", 1.0, "s", None)
        if name == "cir":
            raise BenchError("no tool")

    path = tmp_path / "figures.json"
    old = {name: recording.Run("2020-01-01", "old", FIGURES) for name in ("pack", "embed", "cir")}
    recording.write(old, path)
    monkeypatch.setattr(recording, "FIGURES", path)
    monkeypatch.setattr("tools.bench.__main__.figures", figures)
    monkeypatch.setattr("tools.bench.__main__.SPACE", 0)
    assert main(["pack", "--scratch", str(tmp_path)]) == 0
    assert recording.read(path) == old
    assert main(["cir", "start_up", "pack", "--record", "--scratch", str(tmp_path)]) == 1
    runs = recording.read(path)
    assert list(runs) == ["start_up", "pack", "embed", "cir"]
    assert (runs["embed"], runs["cir"]) == (old["embed"], old["cir"])
    assert [figure.what for name in ("start_up", "pack") for figure in runs[name].figures] == [
        "new start_up",
        "new pack",
    ]
    assert runs["pack"].date > "2026"
    assert "cores" in runs["pack"].machine
    assert "not measured: no tool" in capsys.readouterr().out


def test_an_unknown_subject_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "unknown subject nothing" in capsys.readouterr().err


@pytest.mark.parametrize("is_compressed", [False, True])
def test_libraries_of_bundles_are_what_they_claim(tmp_path: Path, is_compressed: bool) -> None:
    for name in ("clang", "as", "ld"):
        if peer(name) is None:
            pytest.skip(f"{name} is not installed")
    path = bundle_library.make(tmp_path, bundle_library.Kind(10, ("gfx90a", "gfx1100"), 90_000, 3, is_compressed))
    with library.open(path) as file:
        assert file.findings == ()
        assert [item.container.version for item in file.containers] == [3 * is_compressed] * 10
        found = list(file.images())
        assert [item.form for item in found] == ["empty", "code-object", "code-object"] * 10
        assert {item.size for item in found} == {0, 90_000}
        assert {len(images.kernels(item.data, item.form)) for item in found} == {0, 3}  # type: ignore[arg-type]
        assert file.verify() == ()
    assert {item.name for item in tmp_path.iterdir()} == {"library.so", "library.s", "kernels.hip", "kernels.hsaco"}


def test_libraries_of_registered_containers_are_slimmed(tmp_path: Path) -> None:
    for name in ("as", "ld"):
        if peer(name) is None:
            pytest.skip(f"{name} is not installed")
    path = inputs.registered_library(tmp_path, 3, 4, 100_000)
    with library.open(path) as file:
        assert file.findings == ()
        assert len(list(file.images())) == 12
    slimmed = library.slim(path, tmp_path / "slim.so", devices="sm_90")
    assert slimmed.mode == "shrink"
    assert slimmed.after < slimmed.before / 2
    assert {item.name for item in tmp_path.iterdir()} == {"libregistered.so", "slim.so"}


def test_the_wheel_to_check_has_what_is_required_of_it(tmp_path: Path) -> None:
    for name in ("as", "ld"):
        if peer(name) is None:
            pytest.skip(f"{name} is not installed")
    wheel = checking.made(tmp_path, 2, 3, 20_000)
    checked = library.check(wheel, require=checking.REQUIRED, per="library")
    assert checked
    assert [item.units for item in checked.libraries] == [3, 3]
    assert [item.name for item in tmp_path.iterdir()] == [wheel.name]


@pytest.mark.parametrize("name", building.CLIENTS)
def test_builds_call_stand_ins_only_where_these_are_placed(tmp_path: Path, name: str) -> None:
    client = building.CLIENTS[name]
    if peer(client.name) is None:
        pytest.skip(f"{client.name} is not installed")
    source = project.tiny(tmp_path / f"tiny.{client.suffix}")
    made = []
    for which in ("theirs", "counted"):
        place = building.place(tmp_path / which, client, which)
        measure({which: building.build(client, place, source)}, 0)
        made.append((place / "tiny.o").stat().st_size)
        assert (place / "calls").exists() is (which == "counted")
    assert made[0] == made[1]
    (spent,) = building.calls(tmp_path / "counted")
    assert 0 < spent < 10


def test_units_of_a_project_are_all_different(tmp_path: Path) -> None:
    made = project.units(tmp_path, 12, "cu")
    lines = [line for path in made for line in path.read_text().splitlines()[1:]]
    assert len(set(lines)) == len(lines) == 12 * 28
