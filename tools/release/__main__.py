"""Walk the release checklist: ``python -m tools.release [--dry-run] [--all]``.

Every step prints its result. With ``--dry-run`` nothing is changed, and the changes are listed. Without it, and only if
every check passed, the changelog gets its date, ``surface.txt`` the surface, and both become a commit with a tag. A
person uploads the result: the last lines have the commands. ``--all`` runs ``.ci/run`` too, which takes half an hour.

``python -m tools.release surface`` lists the changes of the public surface since the last release, and ``surface
--record`` records it, which is right for an unreleased version.
"""

from __future__ import annotations

import argparse
import sys

from tools.release import steps, surface

import fatpack


def main(arguments: list[str]) -> int:
    """Run the checklist, or one part of it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Walk the release checklist.")
    parser.add_argument("part", nargs="?", choices=("surface",), help="only the changes of the public surface")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, list the changes")
    parser.add_argument("--all", action="store_true", help="run .ci/run too")
    parser.add_argument("--record", action="store_true", help="with surface: record it")
    given = parser.parse_args(arguments)
    if given.part == "surface":
        return _surface(is_recorded=given.record)
    failed = 0
    for step in steps.checks(everything=given.all):
        try:
            said = step.run()
        except steps.StepFailed as failure:
            failed += 1
            print(f"failed   {step.name}: {failure}")
        else:
            print(f"fine     {step.name}: {said}")
    if not given.all:
        print("not run  .ci/run: tests, sweeps, fuzzing, lint, demo; --all runs it")
    for change in steps.changes():
        if given.dry_run or failed:
            print(f"not done {change.name}: {change.would}")
        else:
            print(f"done     {change.name}: {change.run()}")
    if failed:
        print(f"\n{failed} step{'' if failed == 1 else 's'} failed: nothing is released.")
    return 1 if failed else 0


def _surface(*, is_recorded: bool) -> int:
    if is_recorded:
        surface.record()
        return 0
    version, before = surface.recorded()
    now = surface.lines()
    for mark, changed in (("-", set(before) - set(now)), ("+", set(now) - set(before))):
        for line in sorted(changed):
            print(mark, line)
    lost, asked = surface.broken(before, now)
    if (lost or asked) and not surface.may_break(version, fatpack.__version__):
        print(f"\n{len(lost) + len(asked)} promises of {version} are broken: {steps.ADVICE}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
