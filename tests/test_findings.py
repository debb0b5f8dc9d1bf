"""Finding codes are stable, complete and documented."""

from __future__ import annotations

import re
from pathlib import Path

from fatpack.findings import CODES

SOURCE = Path(__file__).parents[1] / "src" / "fatpack"


def test_every_code_in_the_source_is_in_the_table_and_every_one_in_the_table_is_used() -> None:
    used = set()
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "findings.py":
            used |= set(re.findall(r'"(FP\d{4})"', path.read_text()))
    new, gone = sorted(used - CODES.keys()), sorted(CODES.keys() - used)
    assert not new, f"{new}: give them a severity and a sentence in src/fatpack/findings.py"
    assert not gone, f"{gone} are in src/fatpack/findings.py, and no module gives such a finding"


def test_every_code_has_a_severity_and_a_sentence() -> None:
    for code, (severity, meaning) in CODES.items():
        assert severity in ("error", "warning", "note"), f"{code}: the severity is error, warning or note"
        assert meaning.endswith("."), f"{code}: its meaning is a sentence, with a full stop"
