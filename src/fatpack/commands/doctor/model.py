"""Records of a diagnosis: counts of verified items, findings, known bugs, and items that could not be verified."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack import limits
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE, exit_code_for_findings, worst_exit_code
from fatpack.findings import FindingTally
from fatpack.io.source import is_in_file
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from fatpack.model import Finding
    from fatpack.tabular.hollow import KernelCode

SCHEMA = "fatpack.doctor/1"


class CheckDescription(Record):
    """One thing that is verified: a row of the table that every diagnosis has.

    ``says`` is what is so of all that was counted, ``how`` against what that is held, and ``codes`` are those of
    findings (or their first letters, where no other row names them whole) that count as wrong here.
    """

    what: str
    says: str
    how: str
    codes: tuple[str, ...]


#: All that is verified, in the order of the table; ``fatpack doctor --list`` prints it.
CHECKS = (
    CheckDescription(
        "files",
        "read to the end of what is in them",
        "each is searched for containers, as inspect does; a deep search takes all of it",
        ("FP10", "FP17", "FP20", "FP21", "FP22", "FP23", "FP24", "FP25"),
    ),
    CheckDescription(
        "containers",
        "parsed, field by field",
        "every field against the bytes that are there",
        ("FP1001", "FP12", "FP13", "FP14", "FP15", "FP16", "FP18", "FP19", "FP26", "FP27", "FP28"),
    ),
    CheckDescription(
        "images",
        "inflated, and their headers read",
        "to their last byte; headers must not point past their end",
        ("FP1104",),
    ),
    CheckDescription(
        "kernels",
        "read from symbol tables, notes and metadata, which agree",
        "these against each other",
        ("FP1106",),
    ),
    CheckDescription(
        "labels",
        "targets that containers state, against what the images say of themselves",
        "architecture, triple and kind in the container, against ELF flags, targets of PTX and metadata beside images",
        ("FP11", "FP1907", "FP2803"),
    ),
    CheckDescription(
        "hashes",
        "hashes that containers have, against their content",
        "of compressed bundles the first bytes of an MD5, of kernel caches an MD5, of Metal libraries SHA-256",
        ("FP1304", "FP2602", "FP2804"),
    ),
    CheckDescription(
        "byte maps",
        "hosts and containers in which every byte is described once",
        "the map of a file, from its first byte to its last",
        ("FP3602",),
    ),
    CheckDescription(
        "rewrites",
        "containers that were written again, to the same bytes",
        "what our writer makes of what our reader read",
        ("FP3601",),
    ),
    CheckDescription(
        "symbol tables",
        "names in the symbol tables of archives, against the members that they lead to",
        "offsets against headers; GNU's names against what the member defines",
        ("FP2107",),
    ),
    CheckDescription(
        "registrations",
        "objects and programs whose calls, records and images agree",
        "programs register the kernels that they launch, under names that images have",
        ("FP1513", "FP30"),
    ),
    CheckDescription(
        "launches",
        "kernels that host modules of CIR launch, found in the device modules",
        "names in the host module against functions in every device module",
        ("FP1512",),
    ),
    CheckDescription(
        "kpack lookups",
        "code objects that programs find in kpack archives, per device",
        "in folders: what programs look for, against the archives that are there",
        ("FP31",),
    ),
    CheckDescription(
        "tensile tables",
        "tables that parents of rocBLAS and hipBLASLt name, with the files of their code",
        "names in the parent table of each target, against the files beside it and the code in them",
        ("FP34",),
    ),
    CheckDescription(
        "checksums", "files in zip archives, against their CRC-32", "all files, whatever is in them", ("FP1710",)
    ),
    CheckDescription(
        "records",
        "files of packages, against digests and sizes that the packages state",
        "RECORD (wheels), info/paths.json (conda), md5sums (Debian), digests of files, header and payload (RPM)",
        ("FP3603", "FP3604"),
    ),
    CheckDescription(
        "variants",
        "wheels whose description of a variant installers accept",
        "variant.json against the file name, RECORD and the index file, as `fatpack check --metadata` does",
        ("FP3330", "FP3331", "FP3333"),
    ),
    CheckDescription(
        "GPUs",
        "installed packages with device code, on each GPU of the machine",
        "in environments (venv, conda): what drivers load, as `fatpack explain --environment` says it",
        ("FP3608",),
    ),
)

#: why nothing is vouched for where every image is of a compression that is not inflated
NO_IMAGE_READ = "this version inflates none of the images"

#: why nothing is vouched for where a limit ended the reading before the first image was read
_NO_IMAGE_ALLOWED = "a limit ended the reading before the first"

#: what is not verified where code could not be followed: then nothing says that a file is healthy
UNJUDGED = "registrations"

#: what is not verified of objects with bytecode of GCC
UNLINKED = "objects that are not linked"

#: what is verified → what that means
VERIFIED = {check.what: check.says for check in CHECKS}

#: start of a finding's code → the row in which it counts as wrong
_WRONG = {code: check.what for check in CHECKS for code in check.codes}


#: codes of what is not read because of a limit, which somebody can raise
_RAISABLE = ("FP1004", "FP1005")

#: codes of what is not read because of a limit, or by this version; the bytes may be right
_LIMITS = (*_RAISABLE, "FP1008")


class VerifiedCount(Record):
    """The number of verified items of one kind, and of findings that call one wrong. ``what`` is a key of VERIFIED."""

    what: str
    checked: int
    wrong: int


class NotVerified(Record):
    """Something that was not verified, and why; ``count`` is how much of it there is, in the unit that ``what`` names.

    ``path`` is the first file in which it was met, ``files`` how many there are.
    """

    what: str
    why: str
    count: int
    path: str
    files: int = 1


class KnownBug(Record):
    """A bug of a producer, or of a reader of its files, that explains findings.

    ``side`` is ``producer`` or ``reader``. ``evidence`` is what it was recognised by: codes of findings and facts.
    ``paths`` are the first files, ``count`` is how many there are.
    """

    name: str
    side: str
    producer: str
    versions: str
    what: str
    advice: str
    sources: tuple[str, ...]
    evidence: tuple[str, ...]
    paths: tuple[str, ...]
    count: int


# The table of known bugs, ``data/known.toml``: the findings of files, and facts, that are evidence of its lines.
#
# The facts that the table names, beside codes of findings, are those that formats call symptoms (``formats.symptoms``).


class BugMatch(Record):
    """A finding that is evidence: its code; its field and words of its message where these are given."""

    code: str
    field: str = ""
    words: str = ""

    def fits(self, item: Finding) -> bool:
        """Return whether a finding is such evidence."""
        return item.code == self.code and (not self.field or item.field == self.field) and self.words in item.message


class KnownBugRow(Record):
    """A line of ``data/known.toml``, which says what the fields mean."""

    name: str
    side: str
    producer: str
    versions: str
    what: str
    advice: str
    sources: tuple[str, ...]
    match: tuple[BugMatch, ...] = ()
    facts: tuple[str, ...] = ()

    def evidence(self, findings: Iterable[Finding], facts: Iterable[str]) -> tuple[str, ...]:
        """Return the codes of findings and the names of facts that show this bug, each once; empty if none does."""
        codes = (item.code for item in findings if any(match.fits(item) for match in self.match))
        return tuple(dict.fromkeys([*codes, *(name for name in facts if name in self.facts)]))


_loaded: list[tuple[KnownBugRow, ...]] = []


def known_bugs() -> tuple[KnownBugRow, ...]:
    """Return all lines of the table; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "known.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded.append(tuple(_bug(row) for row in data["bug"]))
    return _loaded[0]


def _bug(row: dict[str, Any]) -> KnownBugRow:
    lists = {name: tuple(row.get(name, ())) for name in ("sources", "facts")}
    return KnownBugRow(**{**row, **lists, "match": tuple(BugMatch(**each) for each in row.get("match", ()))})


class RelocationReach(Record):
    """The distance across which relocations of 32 bits have to reach in a file with device code; sizes are bytes.

    ``span`` of a linked file is the longest way between code and what it refers to (all that is loaded but device code
    itself), 0 without either; of an object it is the size of all its sections that are loaded, since a linker lays them
    out. ``device`` is the size of the loaded sections of device code, ``limit`` how far the relocations reach on that
    processor. ``archs`` are the bytes stored for each architecture, most first.
    """

    path: str
    is_linked: bool
    span: int
    device: int
    limit: int
    archs: tuple[tuple[str, int], ...]


class FileReport(Record):
    """A file, and how it is: ``healthy``, ``suspect`` (warnings), ``damaged`` or ``unread``; ``error`` says why."""

    path: str
    size: int | None
    host: str
    state: str
    error: str | None = None


class DoctorResult(Result):
    """The result of a diagnosis.

    ``files`` and ``packages`` were looked into, of which ``affected`` have something wrong. ``images`` were verified,
    of ``images_found``, which a listing counts. ``inflated`` are bytes of images after decompression. ``more`` counts
    findings of a code that are not listed, because there are many of them.
    """

    files: int
    packages: int
    images: int
    images_found: int
    inflated: int
    affected: tuple[FileReport, ...]
    verified: tuple[VerifiedCount, ...]
    findings: tuple[Finding, ...]
    more: tuple[tuple[str, int], ...]
    known_bugs: tuple[KnownBug, ...]
    reaches: tuple[RelocationReach, ...]
    not_verified: tuple[NotVerified, ...]
    exit_code: int

    @property
    def verdict(self) -> str:
        """``healthy``, ``suspect`` (warnings alone), ``damaged``, ``unread`` where some file could not be read, or
        ``empty`` where no device code was found. ``not judged`` where nothing is wrong, and what some file registers
        could not be followed, or none of the images could be inflated.
        """
        if self.exit_code == FINE:
            return "not judged" if self.unjudged else "healthy"
        if not self.affected and not any(row.wrong for row in self.verified):
            return "empty"
        states = {each.state for each in self.affected}
        return "damaged" if "damaged" in states else "suspect" if self.exit_code == FINDINGS else "unread"

    @property
    def unjudged(self) -> str:
        """Why nothing is vouched for: what some file registers was not judged, or no image was read; "" otherwise.

        Of images in damaged files, findings say it.
        """
        found = next((each for each in self.not_verified if each.what == UNJUDGED), None)
        if found is not None:
            return found.why
        if self.images or not self.images_found:
            return ""
        # A limit comes first: of what it forbids, nobody knows yet if this version inflates it.
        advice = _limit_advice(self.findings)
        if advice:
            return f"{_NO_IMAGE_ALLOWED}; {advice}"
        return "" if any(each.state == "damaged" for each in self.affected) else NO_IMAGE_READ

    @property
    def unjudged_words(self) -> str:
        """The part of which nothing is said, and why; "" if there is none."""
        is_registered = any(each.what == UNJUDGED for each in self.not_verified)
        return f"{UNJUDGED if is_registered else 'images'}: {self.unjudged}" if self.unjudged else ""

    def lines(self) -> Sequence[str]:
        """Return the verdict with counts, then what is wrong with files, the first few."""
        of = f"{self.images:,} of " if self.images != self.images_found else ""
        counts = f"{pluralize(self.files, 'file')}, {of}{pluralize(self.images_found, 'image')}"
        found = [f"{item.severity} {item.code}: {item.message}" for item in self.findings if item.severity != "note"]
        wrong = [*(each.error for each in self.affected if each.error is not None), *found]
        more = (
            [f"{len(wrong) - MAX_PROBLEM_LINES} more in affected and findings"]
            if len(wrong) > MAX_PROBLEM_LINES
            else []
        )
        first = f"{self.verdict}: {self.unjudged_words}; " if self.verdict == "not judged" else f"{self.verdict}: "
        return (f"{first}{counts}", *wrong[:MAX_PROBLEM_LINES], *more)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data, schema ``fatpack.doctor/1``."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "files": self.files,
            "packages": self.packages,
            "images": self.images,
            "images_found": self.images_found,
            "inflated": self.inflated,
            "affected": [to_plain_data(each) for each in self.affected],
            "verified": [to_plain_data(each) for each in self.verified],
            "findings": [_finding(each) for each in self.findings],
            "unlisted_findings": [{"code": code, "count": count} for code, count in self.more],
            "known_bugs": [to_plain_data(each) for each in self.known_bugs],
            "reaches": [{**to_plain_data(each), "archs": dict(each.archs)} for each in self.reaches],
            "not_verified": [to_plain_data(each) for each in self.not_verified],
        }


def _limit_advice(findings: Iterable[Finding]) -> str:
    """Return what to type to raise the limit that a finding is about; "" without any.

    One image of several asks for its own size, and the limit is for all together: then no number is named.
    """
    found = [item for item in findings if item.code in _RAISABLE and item.hint]
    hints = {item.hint for item in found}
    if len(found) > 1 and any(hint.startswith(limits.inflated_hint().removesuffix("SIZE")) for hint in hints):
        return limits.inflated_hint()
    return found[0].hint if found else ""


def _finding(item: Finding) -> dict[str, Any]:
    return {
        "code": item.code,
        "severity": item.severity,
        "offset": item.span.start if is_in_file(item.span.source) else None,
        "message": item.message,
        "hint": item.hint,
        "where": [str(name) for name in item.span.source],
        "section": item.section,
        "field": item.field,
        "count": item.count,
    }


class DoctorNotes:
    """Counts, findings and facts noted while a file is examined. They can be sent from one process to another.

    ``counts`` are by the keys of :data:`VERIFIED`, ``skipped`` by what was not verified and why, ``facts`` by what is
    known of known bugs. ``archs`` are the bytes stored for each architecture, ``sections`` names and numbers of those
    with containers. ``images`` are all images that were met, as a listing counts them, ``device_images`` those of them
    for devices, and not for the host. LIMIT: of each code so many findings
    are kept as ``limits.FINDINGS`` says.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.wrong: dict[str, int] = {}
        self.findings: dict[Finding, None] = {}
        self.severities: set[str] = set()
        self.exit_code = FINE
        self.skipped: dict[tuple[str, str], int] = {}
        self.facts: dict[str, int] = {}
        self.archs: dict[str, int] = {}
        #: kernels of all images, by which hollow ones are found in the end
        self.codes: list[KernelCode] = []
        self.sections: set[tuple[str | None, int]] = set()
        self.inflated = self.images = self.device_images = 0
        self._tally = FindingTally(limits.FINDINGS)

    def count(self, what: str, number: int = 1) -> None:
        """Note that so many of a kind were verified."""
        self.counts[what] = self.counts.get(what, 0) + number

    def skip(self, what: str, why: str, number: int = 1) -> None:
        """Note that so many of a kind were not verified, and why."""
        self.skipped[what, why] = self.skipped.get((what, why), 0) + number

    def fact(self, name: str) -> None:
        """Note something by which a known bug is recognised."""
        self.facts[name] = self.facts.get(name, 0) + 1

    def add(self, item: Finding) -> None:
        """Keep a finding, or count it; one that was noted is not noted again."""
        if item in self.findings:
            return
        self.severities.add("limit" if item.code in _LIMITS else item.severity)
        self.exit_code = worst_exit_code((self.exit_code, exit_code_for_findings([(item.severity, item.code)])))
        if item.severity != "note":
            row = next((_WRONG[start] for start in (item.code, item.code[:4]) if start in _WRONG), "")
            self.wrong[row] = self.wrong.get(row, 0) + item.count
        if self._tally.keeps(item):
            self.findings[item] = None

    def drop(self, told: Finding) -> None:
        """Take out findings that say what another one tells, before these notes are joined with others."""
        self.findings = {item: None for item in self.findings if not item.message.endswith(told.message)}

    def extend(self, items: Iterable[Finding]) -> None:
        """Keep several findings."""
        for item in items:
            self.add(item)

    def more(self) -> list[Finding]:
        """Return one finding for each code of which some were counted."""
        return self._tally.rest()

    def join(self, other: DoctorNotes) -> None:
        """Add the notes of another object."""
        self.extend(other.findings)
        self.extend(other.more())
        _add(self.counts, other.counts)
        _add(self.skipped, other.skipped)
        _add(self.facts, other.facts)
        _add(self.archs, other.archs)
        self.codes += other.codes
        self.sections |= other.sections
        self.inflated += other.inflated
        self.images += other.images
        self.device_images += other.device_images

    @property
    def state(self) -> str:
        """The verdict on a file: ``healthy``, ``suspect``, ``damaged``, or ``unread`` if a limit ended the reading."""
        if "error" in self.severities:
            return "damaged"
        if "limit" in self.severities:
            return "unread"
        return "suspect" if "warning" in self.severities else "healthy"


def _add(counts: dict[Any, int], more: Mapping[Any, int]) -> None:
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number
