"""A run on a device leaves a row in the page; one without a device, or of a part, leaves the page alone."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from tests.gpu.conftest import PAGE
from tests.gpu.last_run import BEGIN, END, HEAD, with_row

ROWS = "| A, 9.0 | 1 | 2026-01-01 | 1 | 0 | 0 |\n| B, 8.0 | 1 | 2026-01-01 | 2 | 0 | 0 |\n"
OLD = f"# Page\n\n{BEGIN}{HEAD}{ROWS}{END}\n\nMore.\n"

#: A run of pytest without this project's settings: its arguments are the page, the device and a file of tests.
RUN = """\
import sys
from pathlib import Path
import pytest
from tests.gpu.last_run import LastRun
run = LastRun(Path(sys.argv[1]))
run.device = sys.argv[2] or None
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", sys.argv[3]], [run]))
"""

TESTS = """\
import pytest
def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert False
def test_skips(): pytest.skip("no")
"""


def test_the_row_of_a_device_is_replaced_and_that_of_a_new_one_is_added() -> None:
    assert with_row(OLD, "| A, 9.0 | 2 | 2026-02-02 | 3 | 0 | 0 |") == OLD.replace(
        "| A, 9.0 | 1 | 2026-01-01 | 1 | 0 | 0 |\n", ""
    ).replace(END, f"| A, 9.0 | 2 | 2026-02-02 | 3 | 0 | 0 |\n{END}")
    added = "| C, 7.5 | 2 | 2026-02-02 | 3 | 0 | 0 |"
    assert with_row(OLD, added) == OLD.replace(END, f"{added}\n{END}")


def test_a_page_without_a_place_for_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no <!-- runs on a device"):
        with_row(OLD.replace(BEGIN, ""), "| A | 1 | 1 | 1 | 1 | 1 |")


@pytest.mark.parametrize("device", ["A, 9.0 | 580.1, CUDA 13.0", ""])
def test_a_run_writes_what_it_counted_if_it_had_a_device(tmp_path: Path, device: str) -> None:
    page, tests = tmp_path / "page.md", tmp_path / "test_it.py"
    page.write_text(OLD)
    tests.write_text(TESTS)
    command = [sys.executable, "-c", RUN, str(page), device, str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    row = f"| {device} | {date.today()} | 2 | 1 | 1 |"
    assert page.read_text() == (with_row(OLD, row) if device else OLD)


def test_the_page_of_tests_has_the_table() -> None:
    assert f"{BEGIN}{HEAD}| " in PAGE.read_text()


@pytest.mark.parametrize("arguments", [["tests/gpu"], ["tests/gpu", "-k", "driver"], ["tests/gpu/test_driver.py"]])
def test_a_run_that_finds_no_device_leaves_the_page_alone(arguments: list[str]) -> None:
    before = PAGE.read_bytes()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-x", "-p", "no:cacheprovider", *arguments]
    environment = dict(os.environ, FATPACK_REQUIRE_GPU="1", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(command, capture_output=True, text=True, cwd=PAGE.parents[1], env=environment)
    assert "no CUDA device" in done.stdout, done.stdout + done.stderr
    assert PAGE.read_bytes() == before
