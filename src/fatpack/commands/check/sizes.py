"""What was named is no larger than ``--max-size``, and grew by no more than ``--max-growth``."""

from __future__ import annotations

from fatpack.commands.check import limits
from fatpack.commands.check.given import make_violation
from fatpack.commands.check.model import CheckedPath
from fatpack.exit_codes import INPUT_OUTPUT
from fatpack.printable import format_size_exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check.given import RuleContext
    from fatpack.commands.check.model import Violation


def measure_paths(given: RuleContext) -> tuple[CheckedPath, ...]:
    """Return what was named with its size, and with how much it grew if it is one."""
    made = []
    for name in given.names:
        size, _ = limits.measure_total(name)
        if size is None:
            size = next((item.last.file_size for item in given.found if item.last.path == name), None)
        made.append(CheckedPath(name, size))
    return tuple(made)


def size_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield what is too large, or of unknown size."""
    policy = given.policy
    if policy.max_size is None and not policy.max_growth:
        return
    sizes = measure_paths(given)
    for item in sizes:
        if policy.max_size is not None and item.size is not None and item.size > policy.max_size:
            more, most = format_size_exactly(item.size - policy.max_size), format_size_exactly(policy.max_size)
            text = f"{format_size_exactly(item.size)}, {more} over the limit of {most}"
            hint = f"fatpack report {item.path} shows where the bytes are"
            yield make_violation("FP3307", item.path, "size", text, hint)
        elif item.size is None and not any(each.last.error for each in given.of(item.path)):
            yield make_violation("FP3301", item.path, "size", "its size is not known", unread=INPUT_OUTPUT)
    if policy.max_growth:
        yield from _grown(given, sizes)


def _grown(given: RuleContext, sizes: Sequence[CheckedPath]) -> Iterator[Violation]:
    percent, most = limits.parse_growth(given.policy.max_growth)
    old, problem = limits.measure_total(given.policy.against)
    new = sum(item.size or 0 for item in sizes)
    if old is None or problem:
        text = f"it cannot be measured: {problem}"
        yield make_violation("FP3301", given.policy.against, "growth", text, unread=INPUT_OUTPUT)
        return
    allowed = most if most is not None else int(old * (percent or 0.0) / 100)
    if new - old > allowed:
        share = f", {100 * (new - old) / old:.1f} %" if old else ""
        more = f"{format_size_exactly(new - old)} more than {given.policy.against}{share}"
        text = f"{format_size_exactly(new)}, {more}; {given.policy.max_growth} is allowed"
        yield make_violation("FP3308", sizes[0].path if len(sizes) == 1 else "", "growth", text)
