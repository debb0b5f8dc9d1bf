"""Records of an overview. Every number of bytes is either stored (in the file) or inflated, and says which."""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE
from fatpack.model import arch_name
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.tabular.arch_costs import ArchCost


#: The version of the record as plain data.
SCHEMA = "fatpack.report/1"


class ByteCounts(Record):
    """A number of images (or kernels), and their bytes.

    ``stored`` are bytes of the file, None where a container is compressed as a whole; ``inflated`` those after it.
    """

    count: int = 0
    stored: int | None = 0
    inflated: int = 0


class KernelGroup(Record):
    """Kernels whose names begin alike, or what is no kernel's, in the images of one architecture.

    ``name`` is what the kernels' names begin with, ``kind`` is ``kernels``, ``rest`` (tables, constants, debug
    information), ``whole`` (images of a form that does not show the size of kernels), or ``others`` (parts that are
    not listed one by one). Stored bytes are the image's, divided as its inflated bytes are.
    """

    name: str
    kind: str
    bytes: ByteCounts


class ArchBytes(Record):
    """The images of a file for one architecture in one form, and the parts their bytes are divided into.

    ``label`` is the architecture: ``sm_90``, ``compute_90`` for PTX, with the form of other code that is not machine
    code: ``gfx90a bitcode``.
    """

    label: str
    family: str
    bytes: ByteCounts
    parts: tuple[KernelGroup, ...] = ()


class FileOverview(Record):
    """A file: what carries its device code, how much there is, and what is wrong with it.

    ``shared`` are those of its stored bytes that are bundles compressed as a whole: no image has a part for itself.
    """

    path: str
    host: str
    size: int | None
    bytes: ByteCounts
    kernels: int
    archs: tuple[ArchBytes, ...]
    findings: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0
    not_searched: int = 0
    shared: int = 0


class CoveragePattern(Record):
    """Kernels of a library that are there for the same architectures.

    ``cells`` say for each column ``own``, ``served`` (an image for another architecture runs there), ``ptx`` (text is
    compiled when it is loaded), ``link`` (relocatable: it counts only through the device link), ``none``, or ``blank``:
    the column is of text itself, and no device lacks it.
    """

    cells: tuple[str, ...]
    count: int
    names: tuple[str, ...]

    @property
    def holes(self) -> int:
        """The columns for which these kernels have nothing."""
        return self.cells.count("none")

    @property
    def links(self) -> int:
        """The columns for which these kernels are relocatable, and nothing else."""
        return self.cells.count("link")


class RunsOn(Record):
    """The known devices of one vendor that run the kernels of a library, by the rules of the runtimes.

    On those in ``ready`` every kernel runs; on those in ``compiled`` too, and some are compiled when they are loaded.
    On those in ``partly`` some kernels run and some do not; of those in ``unknown`` no rule is certain.
    ``is_every`` says that no known device of the vendor is left out. Kernels are those of the vendor's images.
    """

    vendor: str
    ready: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    is_every: bool = False


class KernelCoverage(Record):
    """The kernels of a library against the architectures that it has, most frequent pattern first.

    ``with_holes`` lack at least one architecture, ``relocatable`` have for one only what a device link can use: both
    count all compared kernels, also unlisted ones. ``is_whole`` says that all kernels were compared.
    ``runs_on`` are the devices, of each vendor apart.
    """

    path: str
    columns: tuple[str, ...]
    families: tuple[str, ...]
    patterns: tuple[CoveragePattern, ...]
    kernels: int
    not_listed: int = 0
    with_holes: int = 0
    relocatable: int = 0
    is_whole: bool = True
    runs_on: tuple[RunsOn, ...] = ()


class Duplicate(Record):
    """An image, or the code of a kernel, that is there several times.

    ``cost`` are the bytes of all but one of them: stored for images (inflated where that is not known: then
    ``is_stored`` is false), of machine code for kernels. ``labels`` are the architectures they are for, ``places`` the
    first few, ``files`` how many files they are in.
    """

    kind: str
    digest: str
    name: str
    labels: tuple[str, ...]
    count: int
    files: int
    size: int
    cost: int
    places: tuple[str, ...]
    is_stored: bool = True


class FindingCount(Record):
    """A finding's code, with its severity, what it means, how often and in which files it is (the first few).

    ``messages`` are what it says, of each of these files the first one, with offset and place.
    """

    code: str
    severity: str
    meaning: str
    count: int
    files: tuple[str, ...]
    messages: tuple[str, ...]


class ImageLine(Record):
    """A line of the table of images; ``bundle`` are the stored bytes of a bundle that is compressed as a whole."""

    path: str
    position: str
    label: str
    family: str
    form: str
    container: str
    place: str
    offset: int | None
    stored: int | None
    inflated: int | None
    compression: str
    kernels: int | None
    registers: int | None
    findings: tuple[str, ...]
    bundle: int | None = None


class DeadBytes(Record):
    """Images of one architecture that can never run, and why: a key of ``fatpack.targets.selection.dead.REASONS``."""

    reason: str
    label: str
    images: int
    stored: int
    inflated: int


class HollowCount(Record):
    """A kernel that does nothing for ``label``: ``verdict`` says how sure that is, ``other`` where it does more."""

    path: str
    kernel: str
    label: str
    verdict: str
    other: str


class Worth(Record):
    """The worth of code: ``dead`` can never run, ``costs`` are those of each architecture, first of all files.

    ``hollow`` are the first kernels that do nothing on one architecture, ``certain`` and ``likely`` count all of them;
    ``not_compared`` are kernels beyond the limit. ``doubled`` are the bytes of images that other files have too, all
    copies but one: stored ones, inflated where that is not known.
    """

    dead: tuple[DeadBytes, ...] = ()
    costs: tuple[ArchCost, ...] = ()
    hollow: tuple[HollowCount, ...] = ()
    certain: int = 0
    likely: int = 0
    not_compared: int = 0
    doubled: int = 0


class ReportResult(Result):
    """All of it. ``image_count`` and ``kernel_count`` are of everything, also of what is not listed.

    ``notes`` are sentences about what was left out, ``problems`` about what was to be done and failed. ``exit_code``
    is what ``fatpack inspect`` exits with, or 1 where no device code was found.
    """

    files: tuple[FileOverview, ...]
    archs: tuple[ArchBytes, ...]
    coverage: tuple[KernelCoverage, ...]
    duplicates: tuple[Duplicate, ...]
    duplicate_count: int
    duplicate_cost: int
    findings: tuple[FindingCount, ...]
    images: tuple[ImageLine, ...]
    bytes: ByteCounts
    image_count: int
    kernel_count: int
    kernel_names: int
    files_read: int
    compares_code: bool
    notes: tuple[str, ...]
    exit_code: int
    problems: tuple[str, ...] = ()
    worth: Worth = Worth()

    @property
    def links(self) -> tuple[str, ...]:
        """The architectures for which kernels are relocatable, and nothing else."""
        found: dict[str, None] = {}
        for item in self.coverage:
            for row in item.patterns:
                found |= {name: None for name, cell in zip(item.columns, row.cells, strict=True) if cell == "link"}
        return tuple(found)

    @property
    def verdict(self) -> str:
        """``fine``, ``findings``, ``nothing`` (no device code), or ``damaged`` where something could not be read."""
        words = {FINE: "fine", FINDINGS: "findings" if self.image_count else "nothing"}
        return words.get(self.exit_code, "damaged")

    @property
    def arch_names(self) -> tuple[str, ...]:
        """The architectures of devices that images are for, each once whatever their forms."""
        names = (arch.label.partition(" ")[0] for arch in self.archs if arch.family != "host")
        return tuple(dict.fromkeys(names))

    @property
    def shared(self) -> int:
        """The stored bytes of bundles that are compressed as a whole, which their images share."""
        return sum(file.shared for file in self.files)

    def lines(self) -> Sequence[str]:
        """Return the verdict with counts, then what could not be read, and findings, the first few."""
        words = (
            pluralize(self.files_read, "file"),
            pluralize(self.image_count, "image"),
            pluralize(len(self.arch_names), "architecture"),
            pluralize(self.kernel_names, "kernel"),
        )
        wrong = [file.error for file in self.files if file.error is not None] + [*self.problems]
        wrong += [f"{item.severity} {item.code}: {item.meaning} ({item.count:,})" for item in self.findings]
        return (f"{self.verdict}: {', '.join(words)}", *wrong[:MAX_PROBLEM_LINES])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, with the schema's version."""
        return {"schema": SCHEMA, **to_plain_data(self)}


# Names of kernels and architectures in an overview: kernels with the same name are one group.

#: Letters in front of a nested name that belong to no identifier: const, volatile, restrict, references to this.
_QUALIFIERS = "rVKRO"

#: Prefix of the name of an anonymous namespace (Itanium C++ ABI: clang and GCC; NVIDIA adds a hash).
_ANONYMOUS = "_GLOBAL__N_"

#: Forms that are machine code for the architecture they name, or that say nothing else.
_NATIVE = ("cubin", "code-object", "elf", "hsaco", "native", "")


#: LIMIT: characters of what an architecture is called; beyond, several count as one.
_LONGEST = 80


def kernel_namespace(name: str) -> str:
    """Return the qualified name that a mangled kernel name begins with, without its template's arguments.

    ``_ZN2at6native3addIfEEvPT_`` gives ``at::native::add``. A name that is mangled in no way we know, or that begins
    with a substitution, is returned as it is. (Itanium C++ ABI, 5.1.2: <encoding>, <nested-name>, <source-name>.)
    """
    if not name.startswith("_Z"):
        return name
    at = 3 if name.startswith("_ZL") else 2
    is_nested = name[at : at + 1] == "N"
    if is_nested:
        at += 1
        while name[at : at + 1] in _QUALIFIERS and at < len(name):
            at += 1
    words: list[str] = []
    if name.startswith("St", at):
        words.append("std")
        at += 2
    while True:
        at += is_nested and name[at : at + 1] == "L"  # of internal linkage, as clang writes it: not in the grammar
        end = at
        while name[end : end + 1].isdecimal() and name[end].isascii() and end - at < 6:
            end += 1
        if end == at:
            break
        length = int(name[at:end])
        word = name[end : end + length]
        if not length or len(word) < length:
            break
        if not word.startswith(_ANONYMOUS):
            words.append(word)
        at = end + length
        if not is_nested:
            break
    return "::".join(words) or name


def is_compiled_later(label: str) -> bool:
    """Return whether a label is that of PTX, or of other code that is compiled for a device later."""
    return " " in label or label.startswith("compute_")


def arch_label(arch: str | None, form: str | None, triple: str | None, offload: str | None) -> str:
    """Return the label of an architecture: ``sm_90``, ``compute_90`` for PTX, ``gfx90a:xnack+``, ``host``."""
    if offload == "host":
        return "host"
    what = form or ""
    if not arch:
        first = (triple or "").partition("-")[0]
        words = " ".join(filter(None, (first if first != what else "", what))) or "unknown"
    else:
        name = arch_name(arch, what)
        words = name if what in _NATIVE or name != arch else f"{name} {what}"
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def arch_family(arch: str | None, form: str | None, triple: str | None, offload: str | None) -> str:
    """Return the family of architectures that a picture has one colour for: ``sm9``, ``gfx11``, ``intel``, ``other``.

    NVIDIA's are those of one major compute capability, AMD's those of one generation.
    """
    arch = arch or ""
    if offload == "host":
        return "host"
    for prefix in ("sm_", "compute_", "lto_"):
        if arch.startswith(prefix):
            digits = _digits(arch[len(prefix) :])
            return f"sm{digits[:-1]}" if 1 < len(digits) < 5 else "other"
    if arch.startswith("gfx"):
        digits = arch[3:].partition(":")[0].partition("-")[0]
        if len(digits) < 3:  # a generic processor: gfx9-generic, gfx9-4-generic, gfx11-generic
            return f"gfx{digits}" if digits.isdecimal() else "other"
        return f"gfx{digits[:-2]}"
    words = f"{triple or ''} {form or ''}"
    if "spir" in words or "intel" in words or arch.startswith(("intel", "pvc", "bmg", "dg2", "xe")):
        return "intel"
    return "other"


def _digits(text: str) -> str:
    end = 0
    while end < len(text) and text[end] in "0123456789":
        end += 1
    return text[:end]
