"""Bounds on work and memory that a hostile file could otherwise choose for us.

Each is a module constant with its reason, so that an error can name it and a caller can raise it: a user with
``--limit`` (:mod:`fatpack.command_line.limiting`), a program by setting the constant. What one command may inflate and
write in all is an account that its files share (:mod:`fatpack.budget`); the bounds of it stand here too.
"""

from __future__ import annotations

from fatpack.errors import cli_or_api

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
