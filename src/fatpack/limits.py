"""Limits on work and memory for hostile files, and the budget of a command.

Each limit is a constant with its reason, so that an error can name it and a caller can raise it: a user with
``--limit`` (``LIMITS`` of :mod:`fatpack.command_line.shared_options` names those), a program by setting the constant.
The number of bytes that a command may inflate and write in total is a :class:`Budget` that its files share.

These have no ``--limit``: ``INFLATED_KEPT``, ``INFLATED_AT_ONCE`` and ``FINDINGS``, which refuse nothing; ``SEARCHED``
(``--deep`` searches on) and ``SERVER_SECONDS`` (``--timeout``); ``OUTPUT_RATIO`` and ``STRING_FLOOR``, beside which
``output`` and ``string-ratio`` hold where these allow more.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import

from fatpack.errors import LimitExceeded, cli_or_api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from fatpack.errors import UsageError
    from fatpack.io.source import View


#: One entry for each running stand-in: these have only their originals' options, and take limits from the environment.
_stand_ins: list[None] = []


class stand_in_advice:
    """Within the ``with`` statement, advice is for users of a stand-in, which has no option for limits."""

    def __enter__(self) -> None:
        _stand_ins.append(None)

    def __exit__(self, *_: object) -> None:
        _stand_ins.pop()


def _environment(*settings: str) -> str:
    return f"if you trust the file, set FATPACK_LIMITS='{' '.join(settings)}' in the environment"


def advice(*names: str) -> str:
    """Return what to type if a trusted file exceeds limits, which are constants of this module."""
    if _stand_ins:
        return _environment(*(f"{name.lower().replace('_', '-')}=N" for name in names))
    constants = " and ".join(f"fatpack.limits.{name}" for name in names)
    both = cli_or_api(
        "use " + " ".join(f"--limit {name.lower().replace('_', '-')}=N" for name in names), f"raise {constants}"
    )
    return f"if you trust the file, {both}"


#: LIMIT: total number of bytes that one command inflates. Bytes that are inflated again count once, small streams
#: (INFLATED_AT_ONCE) do not count. No ratio separates device code from a bomb: a table of zeros in a three-line kernel
#: shrinks to a thousandth. Other limits bound memory (INFLATED_KEPT) and output (OUTPUT).
INFLATED = 64 << 30

#: LIMIT: bytes that one command writes, or OUTPUT_RATIO times the size of its inputs if that is more. The ratio of real
#: device code is below 20 : 1, and less than OUTPUT does no harm.
OUTPUT = 1 << 30
OUTPUT_RATIO = 100

#: LIMIT: inflated bytes kept per file; the least recently inflated are dropped, and inflated again when they are
#: needed. A library may contain hundreds of compressed bundles of tens of MB each. Of a larger image, a window of this
#: size is kept.
INFLATED_KEPT = 32 << 20

#: LIMIT: up to this size a compressed bundle is inflated and checked when it is read. Larger ones are inflated only as
#: far as they are read, so listing a library costs a few kilobytes of each.
INFLATED_AT_ONCE = 64 << 10

#: LIMIT: window of decompressors for packages: the default limit of zstd, and twice what ``xz -9`` needs. A file of a
#: few bytes can request 4 GiB.
WINDOW = 128 << 20

#: LIMIT: nesting depth of containers inside images inside containers. Real files reach 3 (an archive is a host, not a
#: level); a self-similar file could recurse as long as it has bytes.
NESTING = 8

#: LIMIT: containers per file, and images per container. The largest library known has 22,346 fatbins; a container of 40
#: bytes takes a few kilobytes in memory, and 10 MB could contain 250,000 of them.
CONTAINERS = 100_000
IMAGES = 100_000

#: LIMIT: a file of unknown type in which nothing was found is searched completely up to this size, which takes half a
#: second. Larger ones are weights and disk images; a deep search reads them.
SEARCHED = 256 << 20

#: LIMIT: findings of one code that are listed, per file and per image; the others are counted. A gigabyte of damaged
#: magics would otherwise give a finding every 8 bytes. No number of findings ends a scan.
FINDINGS = 1000

#: LIMIT: decoded string bytes per byte of container. String entries may overlap: n entries that point into one long
#: string would make n copies of it. Real string tables decode to less than twice the size of their container.
STRING_RATIO = 4

#: LIMIT: smallest allowance for decoded strings, so that tiny containers with long shared strings can be read.
STRING_FLOOR = 1 << 20

#: Bytes that bulk loops process at a time: large enough for disk speed, small enough for the CPU cache.
CHUNK = 1 << 20

#: LIMIT: bytes from ``.entry`` to the kernel's body. A kernel may have some thousand parameters with long names.
PTX_HEADER = 4 << 20

#: LIMIT: bytes from ``.entry`` to the end of the name. Mangled names reach some thousand bytes.
PTX_NAME = 64 << 10

#: LIMIT: kernels, or functions, per image that are described. The largest images of public libraries have some
#: thousand; a table row of 24 bytes takes twenty times that in memory.
KERNELS = 100_000

#: LIMIT: the largest string table that is read. The largest known device ELFs have a few MB of names.
STRING_TABLE = 64 << 20

#: LIMIT: bytes of a bundle ID. The longest known has about 100; a damaged length must not swallow the images.
BUNDLE_ID = 4096

#: LIMIT: entries per bundle. HIP bundles have up to 100; each takes 24 bytes in the file and 1000 in memory.
BUNDLE_ENTRIES = 1 << 16

#: LIMIT: bytes of the table of contents of a kpack archive. A row takes about 60, so this allows 4 million.
KPACK_TOC = 256 << 20

#: LIMIT: bytes of the property sets per module or image of a SYCLBIN file. A kernel takes some hundred.
PROPERTY_SETS = 64 << 20

#: LIMIT: attributes per module. ClangIR writes about twenty; each takes some hundred bytes in memory.
ATTRIBUTES = 10_000

#: LIMIT: sections per file. The largest known objects (kernels linked with ``ld -r`` from one section per function)
#: have some hundred thousand; the editors keep one tuple per section in memory.
SECTIONS = 1 << 20

#: LIMIT: sections per image. A kernel has about six; a row of 64 bytes takes some hundred in memory.
IMAGE_SECTIONS = 1 << 18

#: LIMIT: bytes that are read of one section. Tables of attributes and notes have a few MB at most.
IMAGE_SECTION_SIZE = 64 << 20

#: LIMIT: bytes that a new layout of a file may add as padding and for uninitialised data: this number, or several times
#: the old file. A file of a few hundred bytes can request any number; llvm-objcopy then runs out of memory or writes
#: gigabytes.
FILLER = 256 << 20

#: LIMIT: average number of sections that contain a byte of a file. Compilers write 1; a hostile object could put all
#: bytes into each of thousands of sections.
COPIES = 4


def inflated_hint(size: int | None = None) -> str:
    """Return what to type to raise the limit on inflating; ``size`` is the number of bytes needed, if known."""
    value = f"={size}" if size else "=SIZE"
    if _stand_ins:
        return _environment(f"inflated{value}")
    return f"if you trust the file, use {cli_or_api(f'--max-inflated{value}', f'max_inflated{value}')}"


def output_hint(size: int) -> str:
    """Return what to type to raise the limit on writing; ``size`` is the known number of bytes needed."""
    if _stand_ins:
        return _environment(f"output={size}")
    return f"if you trust the file, use {cli_or_api(f'--force or --max-output={size}', f'max_output={size}')}"


#: LIMIT: seconds that a command waits for servers, all requests together. A listing of a wheel takes a few.
SERVER_SECONDS = 600


# The budget of a command, which its files share and which is charged before bytes are inflated or written. A file of a
# hundred kilobytes can inflate to terabytes, and so can a hundred files of one; no ratio separates them from real
# files.


class Budget:
    """Limits on the total number of bytes that are inflated and written, and their use; threads may share a budget.

    ``inflated``: limit on inflated bytes (None: ``limits.INFLATED``). ``output``: limit on written bytes (None:
    ``limits.OUTPUT``, or ``limits.OUTPUT_RATIO`` times the size of all inputs if that is more). ``seconds``: limit on
    the time in which servers are waited for (None: ``limits.SERVER_SECONDS``). A pickled budget becomes an independent
    one.
    """

    __slots__ = (
        "_inflated",
        "_inputs",
        "_lock",
        "_read",
        "_waited",
        "_written",
        "has_refused",
        "inflated",
        "output",
        "seconds",
    )

    def __init__(self, inflated: int | None = None, output: int | None = None, seconds: int | None = None) -> None:
        self.inflated = inflated
        #: whether bytes were not inflated because of the limit
        self.has_refused = False
        self.seconds = seconds
        self._waited = 0.0
        self.output = output
        self._inflated = self._read = self._written = 0
        self._inputs: set[Hashable] = set()
        self._lock = allocate_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.inflated, self.output, self.seconds)

    @property
    def inflatable(self) -> int:
        """The limit on inflated bytes."""
        return INFLATED if self.inflated is None else self.inflated

    @property
    def drawn(self) -> int:
        """The number of bytes inflated so far."""
        return self._inflated

    @property
    def writable(self) -> int:
        """The limit on written bytes, with the inputs opened so far."""
        if self.output is not None:
            return self.output
        return max(OUTPUT, OUTPUT_RATIO * self._read)

    def opened(self, file: Hashable, size: int) -> None:
        """Count an input of ``size`` bytes; the same file counts once."""
        with self._lock:
            if file not in self._inputs:
                self._inputs.add(file)
                self._read += size

    def is_inflatable(self, size: int) -> bool:
        """Return whether ``size`` more bytes may be inflated."""
        is_allowed = self._inflated + size <= self.inflatable
        self.has_refused = self.has_refused or not is_allowed
        return is_allowed

    def inflate(self, size: int) -> bool:
        """Charge ``size`` inflated bytes; return whether the limit allows them. If not, nothing is charged."""
        with self._lock:
            if not self.is_inflatable(size):
                return False
            self._inflated += size
            return True

    @property
    def waitable(self) -> int:
        """The limit on the seconds in which servers are waited for."""
        return SERVER_SECONDS if self.seconds is None else self.seconds

    @property
    def seconds_left(self) -> float:
        """The seconds that are left to wait for servers, 0 if there are none."""
        return max(0.0, self.waitable - self._waited)

    def wait(self, seconds: float) -> None:
        """Charge the time in which a server was waited for; of requests at the same time each counts."""
        with self._lock:
            self._waited += seconds

    def check_output(self, size: int) -> None:
        """Raise UsageError if ``size`` more bytes must not be written; called with all planned output."""
        if self._written + size > self.writable:
            raise self._too_much(self._written + size)

    def _too_much(self, total: int) -> UsageError:
        from fatpack.errors import UsageError  # `fatpack --version` needs no errors

        if self.output is not None:
            what = f"more than the {self.output} bytes that may be"
        else:
            what = f"more than {OUTPUT_RATIO} times the {self._read} bytes of the input"
        return UsageError(f"{total} bytes would be written, {what}", hint=output_hint(total))

    def write(self, size: int) -> None:
        """Charge ``size`` bytes before they are written. Raises the errors of :meth:`check_output`."""
        with self._lock:
            total = self._written + size
            is_allowed = total <= self.writable
            if is_allowed:
                self._written = total
        if not is_allowed:
            raise self._too_much(total)

    def give_back(self, size: int) -> None:
        """Revert a charge for bytes that were not written or were removed."""
        with self._lock:
            self._written -= size


class _UnlimitedBudget(Budget):
    """A budget for sources outside any command: each stream has a limit, and nothing is added up."""

    __slots__ = ()

    def inflate(self, size: int) -> bool:
        """Return whether ``size`` bytes may be inflated at once."""
        return self.is_inflatable(size)

    def write(self, size: int) -> None:
        """Allow any output: there are no inputs to compare it with."""


#: Budget of sources that were not opened by :func:`fatpack.io.open.open_source`, such as pieces in memory.
UNCOUNTED: Budget = _UnlimitedBudget()

#: Budgets entered with :class:`sources_with_budget`; sources without a budget of their own get the innermost one.
_budgets: list[Budget] = []


class sources_with_budget:
    """Give a budget to all sources that are opened within the ``with`` statement; they keep it afterwards.

    It holds in all threads, so it is for a command, which is alone in its process. Library functions pass budgets as
    arguments.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> Budget:
        _budgets.append(self._budget)
        return self._budget

    def __exit__(self, *_: object) -> None:
        _budgets.pop()


class raised_budget:
    """Change the limits of the command's budget within the ``with`` statement; None changes nothing."""

    def __init__(self, *, inflated: int | None = None, output: int | None = None, seconds: int | None = None) -> None:
        self._wanted = {"inflated": inflated, "output": output, "seconds": seconds}
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
    """Return the budget for a source that is opened now: that of the command, or a new one."""
    return _budgets[-1] if _budgets else Budget()


def output_budget() -> Budget:
    """Return the budget for output without inputs: that of the command, if there is one."""
    return _budgets[-1] if _budgets else UNCOUNTED


def current_limits() -> tuple[tuple[str, int], ...]:
    """Return the constants of this module with their current numbers."""
    return tuple((name, value) for name, value in globals().items() if name.isupper() and isinstance(value, int))


# Names of symbols, which may share bytes


def limit_name_size(view: View, names: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the names of a file's symbols. Raises LimitExceeded if they are much longer than the file.

    Symbols may share one long name; without this limit n symbols would give n copies of it.
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
