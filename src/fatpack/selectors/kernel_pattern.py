"""A user's regular expression over kernel names, which cannot run for ever.

Some expressions take time that doubles with every character of a name, ``(a+)+$`` for one. Engines that cannot do that
(RE2) know another language, and would be one more thing to install; so it is Python's, with a budget of processor time.
The interpreter looks for signals while it matches, and the timer's handler ends it.
"""

from __future__ import annotations

import re
import signal

from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: LIMIT: seconds of processor time for the names of one image. A hundred thousand names take a tenth of one.
BUDGET = 5.0


class KernelPattern:
    """A regular expression that one of an image's kernel names must contain. Raises UsageError for what is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._expression = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"kernel pattern {text!r} is no regular expression: {error}") from error

    def finds(self, names: Iterable[str]) -> bool:
        """Return whether a name contains the expression. Raises UsageError when that takes more than the budget.

        There is no budget outside the main thread, where no handler can be set, and where the timer is in use already.
        """
        if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGVTALRM) != signal.SIG_DFL:
            return self._search(names)
        try:
            signal.signal(signal.SIGVTALRM, _expire)
        except ValueError:  # not the main thread
            return self._search(names)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, BUDGET)
            try:
                return self._search(names)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _BudgetExpired:
            raise UsageError(
                f"kernel pattern {self._text!r} takes more than {BUDGET:g} s for the kernels of one image",
                hint="repeats inside repeats, as in (a+)+, take time without end: write it without them",
            ) from None
        finally:
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _search(self, names: Iterable[str]) -> bool:
        return any(self._expression.search(name) for name in names)


class _BudgetExpired(Exception):
    """The budget is used up."""


def _expire(*_: object) -> None:
    raise _BudgetExpired
