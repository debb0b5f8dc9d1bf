"""A run fails where a test changes what no test may change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: A run of pytest without this project's settings: its arguments are the folder to keep and a file of tests.
RUN = """\
import sys
from pathlib import Path
import pytest
from tests.kept import Kept
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", sys.argv[2]], [Kept(Path(sys.argv[1]))]))
"""


@pytest.mark.parametrize(
    ("act", "named"),
    [
        ("(folder / 'sub' / 'made').write_bytes(b'')", "sub/made"),
        ("(folder / 'a').write_bytes(b'other')", "a"),
        ("(folder / 'a').unlink()", "a"),
        ("(folder / 'a').read_bytes()", ""),
    ],
)
def test_a_run_that_changes_a_file_fails_and_names_it(act: str, named: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "sub").mkdir(parents=True)
    (kept / "a").write_text("a")
    test = tmp_path / "test_it.py"
    test.write_text(f"from pathlib import Path\n\ndef test_it():\n    folder = Path({str(kept)!r})\n    {act}\n")
    command = [sys.executable, "-c", RUN, str(kept), str(test)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if named else 0)
    assert (f"{kept / named}: changed, made or removed" in done.stdout) == bool(named)
