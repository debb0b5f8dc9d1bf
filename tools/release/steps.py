"""The steps of a release: checks, which change nothing, and changes, which need all checks to pass."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tools.release import surface

import fatpack

ROOT = Path(__file__).parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"

ADVICE = (
    "keep what was promised, with a warning if it goes (docs/stability.md), or raise the version; "
    "for an unreleased version: python -m tools.release surface --record"
)


class StepFailed(Exception):
    """A check that did not pass; the message is its result."""


class Check(NamedTuple):
    """A check by name: running it returns its result, or raises StepFailed."""

    name: str
    run: Callable[[], str]


class Change(NamedTuple):
    """A change by name, its description, and its function."""

    name: str
    would: str
    run: Callable[[], str]


def checks(*, everything: bool) -> Iterator[Check]:
    """Yield the checks in their order, the fast ones first."""
    yield Check("version", version)
    yield Check("changelog", changelog)
    yield Check("public surface", public_surface)
    yield Check("working tree", working_tree)
    yield Check("lint", lambda: _quiet("make", "lint"))
    yield Check("build", build)
    if everything:
        yield Check("all tests", lambda: _quiet(".ci/run"))


def changes() -> Iterator[Change]:
    """Yield the changes in their order."""
    now = fatpack.__version__
    yield Change("changelog", f"## {now} gets today's date", date_changelog)
    yield Change("public surface", f"tools/release/surface.txt becomes that of {now}", _record)
    yield Change("commit and tag", f"Release {now}, v{now}", commit)


def version() -> str:
    """Return the version, which has no tag yet."""
    now = fatpack.__version__
    if not re.fullmatch(r"\d+\.\d+\.\d+", now):
        raise StepFailed(f"{now} is no version to release; expected three numbers")
    if _output("git", "tag", "--list", f"v{now}"):
        raise StepFailed(f"v{now} is a tag already; raise __version__ in src/fatpack/__init__.py")
    return now


def changelog() -> str:
    """Return the number of changes in the section of this version; it is the first and has no date yet."""
    sections = re.findall(r"(?m)^## (.*)\n((?:(?!## ).*\n)*)", CHANGELOG.read_text(encoding="utf-8"))
    title, text = sections[0] if sections else ("", "")
    expected = f"{fatpack.__version__} (unreleased)"
    if title != expected:
        raise StepFailed(f"the first section of CHANGELOG.md is {title!r}, expected {expected!r}")
    entries = len(re.findall(r"(?m)^\* ", text))
    if not entries:
        raise StepFailed("this version's section of CHANGELOG.md is empty")
    return f"{entries} changes"


def public_surface() -> str:
    """Return the changes to the promises of the last release."""
    before_version, before = surface.recorded()
    now = surface.lines()
    broken = surface.broken(before, now)
    count = len(broken.lost) + len(broken.asked)
    if count and not surface.may_break(before_version, fatpack.__version__):
        first = (*broken.lost, *broken.asked)[0]
        raise StepFailed(f"{count} promises of {before_version} are broken, such as {first!r}: {ADVICE}")
    return f"{len(now)} promises, {count} of {before_version} broken, {len(set(now) - set(before))} new"


def working_tree() -> str:
    """Return the branch, which has no uncommitted changes."""
    if changed := _output("git", "status", "--porcelain"):
        raise StepFailed(f"{len(changed.splitlines())} files are not committed")
    return _output("git", "rev-parse", "--abbrev-ref", "HEAD")


def build() -> str:
    """Return the digests of wheel and sdist, which are equal in two builds, after the wheel was installed and ran."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = _built(folder / "1"), _built(folder / "2")
        if first != second:
            raise StepFailed(f"two builds differ: {first} and {second}")
        files = sorted((folder / "1").iterdir())
        _quiet(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
        wheel = next(file for file in files if file.suffix == ".whl")
        _quiet(sys.executable, "-m", "check_wheel_contents", str(wheel))
        _quiet(sys.executable, "-m", "venv", str(folder / "venv"))
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        _quiet(str(scripts / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel))
        said = _output(str(scripts / "fatpack"), "--version")
        if fatpack.__version__ not in said:
            raise StepFailed(f"the installed command says {said!r}, expected {fatpack.__version__}")
    return ", ".join(f"{file} {digest[:12]}" for file, digest in first.items())


def _built(folder: Path) -> dict[str, str]:
    """Build wheel and sdist into a folder; return their SHA-256 by name."""
    _quiet(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def date_changelog() -> str:
    """Write today's date (UTC) after the version."""
    now, today = fatpack.__version__, datetime.now(UTC).date().isoformat()
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(text.replace(f"## {now} (unreleased)", f"## {now} ({today})", 1), encoding="utf-8")
    return today


def _record() -> str:
    surface.record()
    return str(surface.RECORDED.relative_to(ROOT))


def commit() -> str:
    """Commit and tag the files that the release wrote; return how to publish it."""
    now = fatpack.__version__
    _quiet("git", "commit", "-qm", f"Release {now}", "CHANGELOG.md", str(surface.RECORDED.relative_to(ROOT)))
    _quiet("git", "tag", "-a", f"v{now}", "-m", f"fatpack {now}")
    return f"v{now}; publish it with: git push --follow-tags; python -m build; twine upload dist/*"


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise StepFailed(f"{' '.join(command)} exited with {done.returncode}: {last[-1] if last else 'no message'}")
    return done.stdout.strip()


def _quiet(*command: str) -> str:
    _output(*command)
    return "passed"
