"""Bounds on work and memory that a hostile file could otherwise choose for us.

Each is a module constant with its reason, so that an error can name it and a caller can raise it: a user with
``--limit`` (:mod:`fatpack.cli.limiting`), a program by setting the constant. What a caller allows one file, because it
is trusted, is a :class:`Budget`: every source has one, and what is inflated from it shares it.
"""

from __future__ import annotations

from fatpack.errors import in_both
from fatpack.record import Record

#: One for each stand-in that runs: they take the options of their originals alone, and limits from the environment.
_stand_ins: list[None] = []


class advising_stand_ins:
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
    constants = " and ".join(f"fatpack.io.limits.{name}" for name in names)
    both = in_both(" ".join(f"--limit {name.lower().replace('_', '-')}=N" for name in names), f"set {constants}")
    return f"if you trust the file, use {both}"


#: LIMIT: the most bytes one compressed container or image may inflate to. The largest device image known to us is
#: a few hundred MB; a 32 KiB zstd frame can claim 1 GiB and more.
INFLATED_SIZE = 4 << 30

#: LIMIT: the largest inflated : stored ratio. Real device code stays below 20 : 1; zlib can reach 1032 : 1 and zstd
#: 30000 : 1. Small results (see INFLATED_FLOOR) are exempt. For something compressed inside something compressed
#: the bytes present in the file count, so that nesting does not multiply the ratio.
INFLATED_RATIO = 256

#: LIMIT: below this size a result is never refused for its ratio: it cannot hurt.
INFLATED_FLOOR = 4 << 20

#: LIMIT: inflated bytes kept per file for further reading; the least recently inflated are dropped and inflated again
#: when they are needed. A library may hold hundreds of compressed bundles that take tens of MB each.
INFLATED_KEPT = 32 << 20

#: LIMIT: up to this size a compressed bundle is inflated and checked as soon as it is read. Larger ones are inflated as
#: far as they are read, so that listing a library costs a few kilobytes of each.
INFLATED_AT_ONCE = 64 << 10

#: LIMIT: how deep containers may lie inside images inside containers. Real files reach 3 (an archive is a host, not
#: a level); a self-similar file could recurse for as long as it has bytes.
NESTING = 8

#: LIMIT: containers listed per file, and images per container. The largest library known to us has 22,346 fatbins; a
#: record of 40 bytes costs a few kilobytes once it is read, and 10 MB could hold 250,000 of them.
CONTAINERS = 100_000
IMAGES = 100_000

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


class Budget(Record):
    """What the files that a caller opens may ask for; None leaves it to the limits above.

    ``inflated`` is the most bytes that one compressed container or image may inflate to, in whatever proportion.
    """

    inflated: int | None = None


#: What sources get that nobody gives a budget of their own: the innermost one that was entered.
_budgets: list[Budget] = [Budget()]


class opened_with:
    """Give a budget to all sources that are opened within the ``with`` statement; they keep it when it has ended.

    It holds in all threads, so it is for a command, which is alone in its process. Functions pass a budget on instead.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        _budgets.append(self._budget)

    def __exit__(self, *_: object) -> None:
        _budgets.pop()


def budget_now() -> Budget:
    """Return the budget that a source opened now gets."""
    return _budgets[-1]


def inflated_hint(size: int | None = None) -> str:
    """Return what to do about a limit on inflating; ``size`` is how much it would take, if that is known."""
    if _stand_ins:
        # No stream is refused for its ratio then, and the size is what stays of the limit.
        return _environment(f"inflated-ratio={1 << 30}", *([f"inflated-size={size}"] if size else []))
    value = f"={size}" if size else ""
    return f"if you trust the file, use {in_both(f'--max-inflated{value}', f'max_inflated{value}')}"
