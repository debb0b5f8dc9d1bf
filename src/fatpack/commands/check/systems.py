"""Metal libraries against the systems that a policy requires, and against the system that a wheel's name promises.

A requirement is ``macos14``, ``macos14.2`` or ``ios17``: every Metal library for that system must load on that version.
A library of Metal needs the version that its header states, and each function the one that first loads its language
(``system`` of rows): the two are separate facts, and the later decides.
"""

from __future__ import annotations

import re

from fatpack.commands.check.model import Violation
from fatpack.errors import pluralize
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.rule_context import RuleContext

#: names of Apple's systems in requirements, as rows spell them
_SYSTEMS = {"macos": "macOS", "ios": "iOS", "tvos": "tvOS", "watchos": "watchOS", "visionos": "visionOS"}

_SYSTEM = re.compile(rf"({'|'.join(_SYSTEMS)})[ _-]?([0-9]{{1,3}})(?:[._]([0-9]{{1,3}}))?")

#: the platform of a wheel, and the oldest system that it is for (PyPA, "Platform compatibility tags")
_TAG = re.compile(r"(macosx|ios)_([0-9]{1,3})_([0-9]{1,3})_")


class System(Record):
    """A system and its version that Metal libraries must load on."""

    name: str
    version: tuple[int, int]

    @property
    def words(self) -> str:
        """The system as messages call it: ``macOS 14``, ``macOS 14.2``."""
        major, minor = self.version
        return f"{self.name} {major}.{minor}" if minor else f"{self.name} {major}"


def parse_system(text: str) -> System | None:
    """Return the system that a requirement names, None for any other requirement."""
    found = _SYSTEM.fullmatch(text.strip().lower())
    return System(_SYSTEMS[found[1]], (int(found[2]), int(found[3] or 0))) if found else None


def _promised(path: str) -> System | None:
    """Return the oldest system on which installers take a wheel, by its name; None for any other file."""
    from fatpack.packages.wheel_names import split_wheel_name

    name = split_wheel_name(path)
    found = _TAG.findall(name.tags) if name is not None else []
    if not found:
        return None
    system, major, minor = min(found, key=lambda item: (int(item[1]), int(item[2])))
    return System("macOS" if system == "macosx" else "iOS", (int(major), int(minor)))


def _needs(context: RuleContext, prefix: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the Metal libraries at a path: their paths, and the systems that functions need with their numbers."""
    for item in context.of(prefix):
        found: dict[str, int] = {}
        for unit in item.units:
            for row in unit.images:
                if row.system:
                    found[row.system] = found.get(row.system, 0) + 1
        if found:
            yield item.last.path, found


def _version(system: str) -> tuple[int, int] | None:
    """Return the version in the name of a system, None if it has none."""
    major, _, minor = system.rpartition(" ")[2].partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _later(found: dict[str, int], system: System) -> dict[str, int]:
    """Return the systems of one name that are later than a version, with the number of functions."""
    named = {text: count for text, count in found.items() if text.rpartition(" ")[0] == system.name}
    return {text: count for text, count in named.items() if (_version(text) or (0, 0)) > system.version}


def system_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield the Metal libraries that do not load on required systems, or where the name of a wheel promises it."""
    for name in context.names:
        libraries = list(_needs(context, name))
        for system in context.policy.systems:
            own = [(path, found) for path, found in libraries if any(_is_of(text, system) for text in found)]
            if libraries and not own:
                others = ", ".join(sorted({text for _, found in libraries for text in found}))
                text = f"no Metal library is for {system.name}, only for {others}"
                yield Violation("FP3342", "error", name, system.words, text, f"compile one for {system.name}")
            for path, found in own:
                later = _later(found, system)
                if later:
                    yield Violation("FP3342", "error", path, system.words, _words(later, system), _HINT)
        promised = _promised(name)
        if promised is None:
            continue
        for path, found in libraries:
            later = _later(found, promised)
            if later:
                text = f"the wheel's name promises {promised.words}: {_words(later, promised)}"
                yield Violation("FP3343", "error", path, promised.words, text, _HINT)


_HINT = "link with that minimum system, and compile with an earlier -std=metal"


def _is_of(text: str, system: System) -> bool:
    """Return whether a function is for a system, of any version."""
    return text == system.name or (text.rpartition(" ")[0] == system.name and _version(text) is not None)


def _words(later: dict[str, int], system: System) -> str:
    counts = ", ".join(
        f"{pluralize(count, 'function')} {'needs' if count == 1 else 'need'} {text}"
        for text, count in sorted(later.items())
    )
    return f"does not load on {system.words}: {counts}"
