"""The verdicts of ``inspect --runtime``, ``check --registered`` and ``doctor`` on the registrations of a file."""

from __future__ import annotations

from pathlib import Path

import fatpack
from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source


def inspected(path: Path) -> tuple[str, set[str]]:
    """Return the verdict of ``inspect --runtime``, and the codes of warnings and errors about registration."""
    with open_source(str(path)) as source:
        record = registration_record(source.view())
    found = {item["code"] for item in record["findings"] if item["severity"] != "note"}
    return record["verdict"], {code for code in found if code.startswith("FP30")}


def verdicts(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Return what each of the three says, in the words of ``inspect --runtime``."""
    word, codes = inspected(path)
    made = fatpack.check(path, registered=True)
    broken = {item.code for item in made.violations if item.is_broken and item.code.startswith("FP30")}
    unjudged = any(item.code == "FP3310" for item in made.violations)
    diagnosis = fatpack.doctor(path)
    ill = {item.code for item in diagnosis.findings if item.code.startswith("FP30") and item.severity != "note"}
    sound = "nothing registers" if word == "nothing registers" else "agrees"
    if word == "nothing registers":
        unjudged = False  # of a file of images alone the policy says that nothing was checked
    return {
        "inspect": (word, codes),
        "check": ("findings" if broken else "not judged" if unjudged else sound, broken),
        "doctor": ("findings" if ill else "not judged" if diagnosis.unjudged else sound, ill),
    }
