"""What one command may inflate and write: an account that all its files share, and that is drawn on before it happens.

A file of a hundred kilobytes can inflate to terabytes, and so can a hundred files of one. No proportion tells them from
honest files; what counts is what a command makes of all it was given.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import

from fatpack import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

    from fatpack.errors import UsageError


class Budget:
    """What may be inflated and written in all, and how much of it was; threads may share it.

    ``inflated`` is the most bytes that are inflated (None: ``limits.INFLATED``), ``output`` the most that are written
    (None: ``limits.OUTPUT``, or ``limits.OUTPUT_RATIO`` times the files that were opened if that is more). Pickled, it
    becomes an account of its own.
    """

    __slots__ = ("_inflated", "_inputs", "_lock", "_read", "_written", "inflated", "output")

    def __init__(self, inflated: int | None = None, output: int | None = None) -> None:
        self.inflated = inflated
        self.output = output
        self._inflated = self._read = self._written = 0
        self._inputs: set[Hashable] = set()
        self._lock = allocate_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.inflated, self.output)

    @property
    def inflatable(self) -> int:
        """The most bytes that may be inflated in all."""
        return limits.INFLATED if self.inflated is None else self.inflated

    @property
    def drawn(self) -> int:
        """The bytes that were inflated so far."""
        return self._inflated

    @property
    def writable(self) -> int:
        """The most bytes that may be written in all, as far as files were opened by now."""
        if self.output is not None:
            return self.output
        return max(limits.OUTPUT, limits.OUTPUT_RATIO * self._read)

    def opened(self, file: Hashable, size: int) -> None:
        """Note a file of so many bytes that is read; the same one counts once."""
        with self._lock:
            if file not in self._inputs:
                self._inputs.add(file)
                self._read += size

    def is_inflatable(self, size: int) -> bool:
        """Return whether so many bytes more may be inflated."""
        return self._inflated + size <= self.inflatable

    def inflate(self, size: int) -> bool:
        """Draw bytes that are inflated; return whether that was possible: they are not drawn if it was not."""
        with self._lock:
            if not self.is_inflatable(size):
                return False
            self._inflated += size
            return True

    def check_output(self, size: int) -> None:
        """Raise UsageError if so many bytes more must not be written; called with all that is planned."""
        if self._written + size > self.writable:
            raise self._too_much(self._written + size)

    def _too_much(self, total: int) -> UsageError:
        from fatpack.errors import UsageError  # `fatpack --version` needs none

        if self.output is not None:
            what = f"more than the {self.output} bytes that may be"
        else:
            what = f"more than {limits.OUTPUT_RATIO} times the {self._read} bytes of the input"
        return UsageError(f"{total} bytes would be written, {what}", hint=limits.output_hint(total))

    def write(self, size: int) -> None:
        """Draw bytes that are written next. Raises as :meth:`check_output` does."""
        with self._lock:
            total = self._written + size
            is_allowed = total <= self.writable
            if is_allowed:
                self._written = total
        if not is_allowed:
            raise self._too_much(total)

    def give_back(self, size: int) -> None:
        """Note that bytes which were drawn were not written, or are gone again."""
        with self._lock:
            self._written -= size


class _UnlimitedBudget(Budget):
    """The budget of bytes that no command opened: each stream has a bound, and nothing adds up."""

    __slots__ = ()

    def inflate(self, size: int) -> bool:
        """Return whether so many bytes may be inflated at all."""
        return self.is_inflatable(size)

    def write(self, size: int) -> None:
        """Let everything be written: nothing says what it was made from."""


#: What sources have that nobody opened: the parts of a program that were put together by hand.
UNCOUNTED: Budget = _UnlimitedBudget()

#: What sources get that nobody gives a budget of their own: the innermost one that was entered.
_budgets: list[Budget] = []


class sources_with_budget:
    """Give a budget to all sources that are opened within the ``with`` statement; they keep it when it has ended.

    It holds in all threads, so it is for a command, which is alone in its process. Functions pass a budget on instead.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> Budget:
        _budgets.append(self._budget)
        return self._budget

    def __exit__(self, *_: object) -> None:
        _budgets.pop()


class raised_budget:
    """Let the command inflate and write so many bytes within the ``with`` statement; None changes nothing."""

    def __init__(self, *, inflated: int | None = None, output: int | None = None) -> None:
        self._wanted = {"inflated": inflated, "output": output}
        self._before: dict[str, int | None] = {}

    def __enter__(self) -> Budget:
        budget = current_budget()
        for name, value in self._wanted.items():
            if value is not None:
                self._before[name] = getattr(budget, name)
                setattr(budget, name, value)
        return budget

    def __exit__(self, *_: object) -> None:
        budget = current_budget()
        for name, value in self._before.items():
            setattr(budget, name, value)


def current_budget() -> Budget:
    """Return the budget that a source opened now gets: that of the command, or a new one."""
    return _budgets[-1] if _budgets else Budget()


def output_budget() -> Budget:
    """Return the budget of what is written now, where no input tells: that of the command, if there is one."""
    return _budgets[-1] if _budgets else UNCOUNTED
