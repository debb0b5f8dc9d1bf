"""A policy's outcome as JUnit XML, as CI systems read it: a test for each library, and for each path that was named.

Structure: the schema of the Jenkins xUnit plug-in (``junit-10.xsd``): ``testsuites``, ``testsuite``, ``testcase`` with
``failure`` for what breaks the policy and ``error`` for what could not be read.
"""

from __future__ import annotations

from fatpack.commands.check.text import vendor_words
from fatpack.commands.check.texts import violation_lines
from fatpack.words_printable import escape_html

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.model import CheckResult, Violation


def junit_lines(checked: CheckResult) -> Iterator[str]:
    """Yield the lines of the document."""
    by_path: dict[str, list[Violation]] = {
        path: [] for path in (*(each.path for each in checked.paths), *(each.path for each in checked.libraries))
    }
    for item in checked.violations:
        if item.is_broken:
            by_path.setdefault(item.path or "all that was named", []).append(item)
    failures = sum(bool(items) and not _has_error(items) for items in by_path.values())
    errors = sum(map(_has_error, by_path.values()))
    passed_over = {item.path: vendor_words(item) for item in checked.libraries if not item.is_asked}
    skipped = sum(path in passed_over and not items for path, items in by_path.items())
    counts = f'tests="{len(by_path)}" failures="{failures}" errors="{errors}"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="fatpack check" {counts} time="0">'
    yield f'  <testsuite name="fatpack check" {counts} skipped="{skipped}" time="0">'
    for path, items in by_path.items():
        opening = f'    <testcase classname="fatpack.check" name="{_text(path)}" time="0"'
        if not items and path in passed_over:
            yield f'{opening}><skipped message="not asked: it is for {_text(passed_over[path])}"/></testcase>'
            continue
        if not items:
            yield f"{opening}/>"
            continue
        yield f"{opening}>"
        # One element for a test: the schema allows more, and most readers show the first.
        of_kind = [item for item in items if item.is_unread] or items
        head = "; ".join(item.message for item in of_kind)
        name = "error" if _has_error(items) else "failure"
        yield f'      <{name} type="{of_kind[0].code}" message="{_text(head)}">'
        for item in items:
            yield from (_text(line) for line in violation_lines(item))
        yield f"      </{name}>"
        yield "    </testcase>"
    if checked.unlooked:
        yield f"    <system-out>{_text(checked.unlooked.sentence())}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _has_error(items: list[Violation]) -> bool:
    return any(item.is_unread for item in items)


def _text(text: str) -> str:
    """Return text for XML: no control characters, and none that XML means something by."""
    return escape_html(text).encode("utf-8", "backslashreplace").decode()
