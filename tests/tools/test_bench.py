"""The benchmarks' own arithmetic, and that they start what they measure. Nothing here looks at a clock."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from tools.bench import bundle_library, inputs
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


def test_being_faster_than_a_peer_is_its_time_over_ours() -> None:
    figure = against("x", Sample(0.5, 0.5, MB), Sample(2.0, 1.0, 3 * MB), "peer", at_least=4)
    assert (figure.value, figure.verdict) == (4.0, "PASS")
    assert figure.facts == "peer 2000.0 ms (cpu 1000), 3 MB"


def test_a_missing_peer_is_told_and_has_no_verdict() -> None:
    figure = against("x", Sample(0.5, 0.5, MB), None, "peer", at_least=4)
    assert (figure.verdict, figure.facts) == ("-", "peer is not installed")


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

    print_table(figures())  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].index("target") == lines[1].index("<= 2")
    assert lines[-1] == "not measured: gcc is not installed"


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
