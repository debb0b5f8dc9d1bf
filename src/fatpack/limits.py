"""Bounds on work and memory that a hostile file could otherwise choose for us.

Each is a module constant with its reason, so that an error can name it and a caller can raise it: a user with
``--limit`` (:mod:`fatpack.command_line.options`), a program by setting the constant. What one command may inflate and
write in all is an account that its files share (:mod:`fatpack.limits`); the bounds of it stand here too.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import

from fatpack.errors import LimitExceeded, cli_or_api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from fatpack.errors import UsageError
    from fatpack.io.source import View


#: One for each stand-in that runs: they take the options of their originals alone, and limits from the environment.
_stand_ins: list[None] = []


class stand_in_advice:
    """Within the ``with`` statement, advice is for the user of a stand-in, which has no option for limits."""

    def __enter__(self) -> None:
        _stand_ins.append(None)

    def __exit__(self, *_: object) -> None:
        _stand_ins.pop()


def _environment(*settings: str) -> str:
    return f"if you trust the file, set FATPACK_LIMITS='{' '.join(settings)}' in the environment"


def advice(*names: str) -> str:
    """Return what to do where a file that is trusted exceeds limits, which are constants of this module."""
    if _stand_ins:
        return _environment(*(f"{name.lower().replace('_', '-')}=N" for name in names))
    constants = " and ".join(f"fatpack.limits.{name}" for name in names)
    both = cli_or_api(
        "use " + " ".join(f"--limit {name.lower().replace('_', '-')}=N" for name in names), f"raise {constants}"
    )
    return f"if you trust the file, {both}"


#: LIMIT: bytes that one command inflates in all. What is inflated again counts once, what is small (INFLATED_AT_ONCE)
#: not at all. No proportion tells device code from a bomb: a table of zeros in a three-line kernel shrinks to a
#: thousandth. Memory is bounded otherwise (INFLATED_KEPT), and what is written too (OUTPUT).
INFLATED = 64 << 30

#: LIMIT: bytes that one command writes, unless it was given more than a hundredth of that. Real device code stays below
#: 20 : 1, and less than this is no harm.
OUTPUT = 1 << 30
OUTPUT_RATIO = 100

#: LIMIT: inflated bytes kept per file for further reading; the least recently inflated are dropped and inflated again
#: when they are needed. A library may hold hundreds of compressed bundles that take tens of MB each. Of one image that
#: is larger a window of this size is kept.
INFLATED_KEPT = 32 << 20

#: LIMIT: up to this size a compressed bundle is inflated and checked as soon as it is read. Larger ones are inflated as
#: far as they are read, so that listing a library costs a few kilobytes of each.
INFLATED_AT_ONCE = 64 << 10

#: LIMIT: bytes that a decompressor of packages keeps of what it made, to look back on: what zstd itself takes without
#: being told, and twice what ``xz -9`` needs. A file of a few bytes can ask for 4 GiB.
WINDOW = 128 << 20

#: LIMIT: how deep containers may lie inside images inside containers. Real files reach 3 (an archive is a host, not
#: a level); a self-similar file could recurse for as long as it has bytes.
NESTING = 8

#: LIMIT: containers listed per file, and images per container. The largest library known to us has 22,346 fatbins; a
#: record of 40 bytes costs a few kilobytes once it is read, and 10 MB could hold 250,000 of them.
CONTAINERS = 100_000
IMAGES = 100_000

#: LIMIT: a file that no host reads, and in which nothing was found, is searched to its last byte up to this size: in
#: half a second. Larger ones are weights and pictures of disks; a deep search takes them.
SEARCHED = 256 << 20

#: LIMIT: findings of one code that are listed one by one, of a file and of what is inside each of its images; the
#: others are counted. A gigabyte of damaged magics would otherwise give a finding every 8 bytes. No number of them ends
#: a scan.
FINDINGS = 1000

#: LIMIT: decoded string bytes per byte of container. String entries may share and overlap: n entries pointing into
#: one long string would make n copies of it. Real string tables decode to less than twice their container.
STRING_RATIO = 4

#: LIMIT: the least allowance for decoded strings, so that tiny containers with long shared values still read.
STRING_FLOOR = 1 << 20

#: How many bytes bulk loops move at a time: large enough for disk speed, small enough to stay in the cache.
CHUNK = 1 << 20

#: LIMIT: bytes from ``.entry`` to its body. A kernel may have some thousand parameters with names of some hundreds.
PTX_HEADER = 4 << 20

#: LIMIT: bytes from ``.entry`` to the end of the name. Mangled names reach some thousands.
PTX_NAME = 64 << 10

#: LIMIT: kernels, or functions, of one image that are described. The largest images of public libraries have some
#: thousands; what takes 24 bytes in a table takes twenty times that when it is described.
KERNELS = 100_000

#: LIMIT: the largest string table that is read. The largest known device ELFs have a few MB of names.
STRING_TABLE = 64 << 20

#: LIMIT: bytes of one ID. The longest known to us has about 100; a damaged length must not swallow the images.
BUNDLE_ID = 4096

#: LIMIT: entries of one bundle. HIP bundles have up to 100; each costs a thousand bytes of memory for 24 in the file.
BUNDLE_ENTRIES = 1 << 16

#: LIMIT: bytes of the table of contents of one kpack archive. A row takes about 60; this is room for 4 million.
KPACK_TOC = 256 << 20

#: LIMIT: bytes of the property sets of one module or image of a SYCLBIN file. A kernel takes some hundred.
PROPERTY_SETS = 64 << 20

#: LIMIT: attributes of one module. ClangIR writes about twenty; each costs some hundred bytes of memory.
ATTRIBUTES = 10_000

#: LIMIT: sections of one file. The largest objects we know of (whole kernels linked with ``ld -r`` from one section
#: per function) have some hundred thousand; the editors hold one tuple per section in memory.
SECTIONS = 1 << 20

#: LIMIT: sections of an image. A kernel has about six; a row of 64 bytes takes some hundred once it is read.
IMAGE_SECTIONS = 1 << 18

#: LIMIT: the most bytes of one section that are read. Tables of attributes and notes have a few MB at most.
IMAGE_SECTION_SIZE = 64 << 20

#: LIMIT: bytes that laying a file out anew may make up, as padding and for uninitialised data: this many, or so many
#: times those of the old file. Hosts of a few hundred bytes can ask for any number; llvm-objcopy then runs out of
#: memory, or writes gigabytes.
FILLER = 256 << 20

#: LIMIT: how often the bytes of a file may be in sections. In objects of compilers they are in one; a hostile object
#: could put all of them into each of thousands.
COPIES = 4


def inflated_hint(size: int | None = None) -> str:
    """Return what to do about the limit on inflating; ``size`` is how much it would take, if that is known."""
    value = f"={size}" if size else "=SIZE"
    if _stand_ins:
        return _environment(f"inflated{value}")
    return f"if you trust the file, use {cli_or_api(f'--max-inflated{value}', f'max_inflated{value}')}"


def output_hint(size: int) -> str:
    """Return what to do about the limit on writing; ``size`` is how much it would take, as far as that is known."""
    if _stand_ins:
        return _environment(f"output={size}")
    return f"if you trust the file, use {cli_or_api(f'--force or --max-output={size}', 'force=True')}"


# What one command may inflate and write: an account that all its files share, and that is drawn on before it happens.
#
# A file of a hundred kilobytes can inflate to terabytes, and so can a hundred files of one. No proportion tells them
# from honest files; what counts is what a command makes of all it was given.


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
        return INFLATED if self.inflated is None else self.inflated

    @property
    def drawn(self) -> int:
        """The bytes that were inflated so far."""
        return self._inflated

    @property
    def writable(self) -> int:
        """The most bytes that may be written in all, as far as files were opened by now."""
        if self.output is not None:
            return self.output
        return max(OUTPUT, OUTPUT_RATIO * self._read)

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
            what = f"more than {OUTPUT_RATIO} times the {self._read} bytes of the input"
        return UsageError(f"{total} bytes would be written, {what}", hint=output_hint(total))

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


# Names in proportion to the file they come from.


def limit_name_size(view: View, names: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the names of a file's symbols. Raises LimitExceeded when they get far longer than the file.

    Symbols may share one long name; without this bound n symbols would give n copies of it.
    """
    budget = max(STRING_FLOOR, STRING_RATIO * len(view))
    for name in names:
        budget -= len(name)
        if budget < 0:
            raise LimitExceeded(
                "the names of the symbols are far longer than the file",
                offset=view.offset(0),
                field="symbol names",
                hint=advice("STRING_RATIO"),
                chain=view.chain,
            )
        yield name
