"""The public surface keeps its promises, and the release checklist finds unfinished steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.release import __main__ as program
from tools.release import steps, surface

import fatpack


def test_no_promise_of_the_last_release_is_broken() -> None:
    version, before = surface.recorded()
    lost, asked = surface.broken(before, surface.lines())
    if surface.may_break(version, fatpack.__version__):
        return
    assert not lost, f"{steps.ADVICE}\nlost: {lost}"
    assert not asked, f"{steps.ADVICE}\nnewly asked: {asked}"


def test_the_surface_has_every_kind_of_promise() -> None:
    now = surface.lines()
    for line in (
        "library check: takes paths",
        "library ImageFile: requires file",
        "library scan",
        "command extract: --output",
        "command check: PATH...",
        "tool cuobjdump",
        "columns KernelRow: registers",
        "finding FP1001: error",
        "exit code malformed: 3",
        "schema inspect: .files always",
        "schema inspect: .files[].containers[].images[].arch",
    ):
        assert line in now, line


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (["library a", "library b"], ["library a"], (["library b"], [])),
        (["library a"], ["library a", "library b"], ([], [])),
        (["library a"], ["library a", "library a: requires x"], ([], ["library a: requires x"])),
        (["library a"], ["library a", "library b", "library b: requires x"], ([], [])),
        (["library a", "library a: requires x"], ["library a"], ([], [])),
        (["finding FP1: error"], ["finding FP1: note"], (["finding FP1: error"], [])),
    ],
)
def test_what_is_lost_and_what_is_newly_asked_breaks(
    before: list[str], now: list[str], expected: tuple[list[str], list[str]]
) -> None:
    assert surface.broken(before, now) == expected


@pytest.mark.parametrize(
    ("before", "now", "may"),
    [
        ("0.1.0", "0.1.1", False),
        ("0.1.0", "0.2.0", True),
        ("1.2.0", "1.3.0", False),
        ("1.2.0", "2.0.0", True),
        ("1.2.0", "1.2.0", False),
    ],
)
def test_a_version_says_whether_promises_may_break(before: str, now: str, may: bool) -> None:
    assert surface.may_break(before, now) is may


def test_a_changelog_without_this_version_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = tmp_path / "CHANGELOG.md"
    monkeypatch.setattr(steps, "CHANGELOG", changes)
    changes.write_text("# Changes\n\n## 0.0.1 (2020-01-01)\n\n* old\n")
    with pytest.raises(steps.StepFailed, match=r"is '0\.0\.1 \(2020-01-01\)', expected"):
        steps.changelog()
    changes.write_text(
        f"# Changes\n\n## {fatpack.__version__} (unreleased)\n\n### Part\n\n* new\n\n## 0.0.1\n\n* old\n"
    )
    assert steps.changelog() == "1 changes"
    steps.date_changelog()
    with pytest.raises(steps.StepFailed, match="expected"):
        steps.changelog()


def test_a_failed_check_releases_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> str:
        raise steps.StepFailed("not ready")

    done: list[str] = []
    monkeypatch.setattr(steps, "checks", lambda everything: [steps.Check("first", refuse)])
    monkeypatch.setattr(steps, "changes", lambda: [steps.Change("tag", "v1", lambda: done.append("tag") or "v1")])
    assert program.main([]) == 1
    assert "failed   first: not ready" in capsys.readouterr().out
    assert not done
    monkeypatch.setattr(steps, "checks", lambda everything: [steps.Check("first", lambda: "ready")])
    assert program.main(["--dry-run"]) == 0
    assert not done
    assert "not done tag: v1" in capsys.readouterr().out
    assert program.main([]) == 0
    assert done == ["tag"]
