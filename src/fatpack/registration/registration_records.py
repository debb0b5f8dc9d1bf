"""The records by which CUDA and HIP code registers the container that a unit of code carries.

::

    0x00  magic u32   0x04  version u32   0x08  pointer to the container   0x10  pointer, whose meaning the version says

They follow each other in a section, one per translation unit (clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1, for both
models; nvcc's ``fatbinary_section.h``). On 32-bit hosts pointers take 4 bytes.
"""

from __future__ import annotations

from fatpack.binary.open import HOSTS, open_pointers
from fatpack.binary.pointers import INSIDE, NULL, OUTSIDE, UNDEFINED, UNKNOWN
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fatpack.binary import CodeSection
    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import Span, View
    from fatpack.model import Finding

#: LIMIT: records that are read. The library with most bundles that is known to us has 845.
_MOST = 1 << 16

#: LIMIT: sections of records of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64

#: containers that a finding names by their offsets
_MOST_NAMED = 4


class RegistrationRecord(Record):
    """A record and what its pointer leads to.

    ``at`` is its position in the section, ``span`` where it lies, ``title`` what findings call it.
    """

    at: int
    span: Span
    title: str
    magic: int
    version: int
    pointer: Pointer


class RecordModel(Record):
    """What the records of a model have: CUDA's and HIP's differ in this alone.

    ``names`` are what their sections are called, ``versions`` the versions by magic (none where any will do; the first
    magic is the usual one), ``container`` what they lead to, in words. The others are codes of findings: the record is
    ``wrong``, it ``leads`` to no container, a container is ``unregistered``.
    """

    names: Collection[str]
    versions: Mapping[int, Collection[int]]
    container: str
    containers: str
    wrong: str
    leads: str
    unregistered: str


class RecordSection(Record):
    """A section of records: where it is, the reader of its host's pointers, and the records in it."""

    site: CodeSection
    reader: PointerReader
    records: Sequence[RegistrationRecord]


def find_record_sections(
    view: View, host: str, tables: Sequence[CodeSection], model: RecordModel
) -> Iterator[RecordSection | Finding]:
    """Yield the sections of a model's records in a host, and what is wrong with them.

    What follows a ``$`` in a name only sorts the sections of COFF objects.
    """
    found = [site for site in tables if (site.section or "").partition("$")[0] in model.names]
    if not found or host not in HOSTS:  # in bitcode nothing points
        return
    if len(found) > _MOST_TABLES:
        text = f"{len(found)} sections of records; only the first {_MOST_TABLES} are read"
        yield finding("FP1005", found[_MOST_TABLES].data.span(), text)
    try:
        reader = open_pointers(view, host)
    except FormatError as error:
        yield finding(model.wrong, view.span(), error.describe(), error.hint)
        return
    for site in found[:_MOST_TABLES]:
        records, problems = _read(site, reader, model)
        yield from problems
        yield RecordSection(site, reader, records)


def _read(
    site: CodeSection, reader: PointerReader, model: RecordModel
) -> tuple[list[RegistrationRecord], list[Finding]]:
    """Return the records of a section that have one of the magics, in order, and what is wrong with the others."""
    data, step = site.data, 8 + 2 * reader.word
    count, rest = divmod(len(data), step)
    heads: list[tuple[int, int, int]] = []
    problems: list[Finding] = []
    if count > _MOST:
        problems.append(finding("FP1005", data.span(), f"{count} records; only the first {_MOST} are read"))
        count, rest = _MOST, 0
    expected = next(iter(model.versions))
    for at in range(0, count * step, step):
        head = data.read(at, step)
        magic, version = (int.from_bytes(head[place : place + 4], reader.order) for place in (0, 4))
        name = _title(site, at, step)
        if magic not in model.versions:
            # Linkers for Windows pad between the sections of objects.
            if any(head):
                text = f"{name} has magic {magic:#010x}, {expected:#010x} was expected"
                problems.append(finding(model.wrong, data.span(at, step), text))
            continue
        versions = model.versions[magic]
        if versions and version not in versions:
            expected_versions = " or ".join(map(str, versions))
            text = f"{name} is of version {version}, {expected_versions} was expected"
            problems.append(finding(model.wrong, data.span(at, step), text))
        heads.append((at, magic, version))
    if rest and any(data.head(count * step, rest)):
        text = f"{rest} bytes of {site.section} are no whole record"
        problems.append(finding(model.wrong, data.span(count * step, rest), text))
    pointers = reader.pointers(site, [at + 8 for at, _, _ in heads])
    records = [
        RegistrationRecord(at, data.span(at, step), _title(site, at, step), magic, version, pointer)
        for (at, magic, version), pointer in zip(heads, pointers, strict=True)
    ]
    return records, problems


def _title(site: CodeSection, at: int, step: int) -> str:
    return f"record {at // step} of {site.section}"


class ContainerRegistrations:
    """Which containers of a host its records register.

    ``starts`` are the absolute offsets at which containers were found; ``starts_container`` says whether one may start
    at a position of the view where none was found.
    """

    def __init__(
        self, view: View, model: RecordModel, starts: Collection[int], starts_container: Callable[[int], bool]
    ) -> None:
        self._view = view
        self._model = model
        self._starts = starts
        self._starts_container = starts_container
        #: positions outside ``starts`` to which records lead → how, and from which record
        self.elsewhere: dict[int, tuple[Pointer, Span, str]] = {}
        #: absolute offsets of the containers that no record leads to
        self.unregistered = set(starts)
        self._registered = self._unresolved = 0

    def follow(self, pointer: Pointer, span: Span, title: str) -> Iterator[Finding]:
        """Take note of where a pointer leads, and yield what is wrong with it."""
        model = self._model
        self._registered += pointer.kind != UNDEFINED
        self._unresolved += pointer.kind == UNKNOWN
        if pointer.kind == NULL:
            yield finding(model.leads, span, f"{title} holds a null pointer")
        elif pointer.kind == OUTSIDE:
            yield finding(model.leads, span, f"{title} points to {pointer.address:#x}, where the file has no bytes")
        elif pointer.kind == INSIDE:
            start = self._view.start + pointer.position
            if start in self._starts:
                self.unregistered.discard(start)
            elif self._starts_container(pointer.position):
                self.elsewhere.setdefault(pointer.position, (pointer, span, title))
            else:
                yield finding(model.leads, span, f"{title} points to {start:#x}, where no {model.container} starts")

    def missing(self, site: CodeSection, unregistered: Collection[int]) -> Iterator[Finding]:
        """Yield the finding that containers are not registered, if that is sure; ``site`` has records."""
        model, count = self._model, len(self._starts)
        if not unregistered or (self._unresolved and self._registered >= count):
            return
        where = ", ".join(f"{start:#x}" for start in sorted(unregistered)[:_MOST_NAMED])
        more = f" and {len(unregistered) - _MOST_NAMED} more" if len(unregistered) > _MOST_NAMED else ""
        verb = "is" if len(unregistered) == 1 else "are"
        text = f"{len(unregistered)} of {count} {model.containers} {verb} not registered"
        text = f"{text}: no record points to {where}{more}"
        if self._unresolved:
            text = f"{count} {model.containers} are here, and records register {self._registered}"
        yield finding(model.unregistered, site.data.span(), text, _UNREGISTERED_HINT)


#: What it means that a container is in a program and no record leads to it.
_UNREGISTERED_HINT = "the runtime does not load it, so its kernels cannot be launched; compile and link again"
