"""Checksums in packages: files compared with their stated digests and sizes; missing and unlisted files."""

from __future__ import annotations

from fatpack.errors import FatpackError, FormatError, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.io.source import Span
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fatpack.io.source import Source, View
    from fatpack.packages import PackageMember

    ChecksumVerifier = Callable[[View], Iterator["ChecksumResult | Finding"]]


# One module per kind of package reads its statements.
#
# ::
#
#     package ──► statements: name → digest, size ──┐
#        └──────► every file, once, forwards ───────┴──► Compared and findings


class ChecksumResult(Record):
    """The number of files or parts of a package whose digest and size were compared with stated ones.

    ``what`` is the source of the statements: ``md5sums``. ``why`` is the reason if nothing could be compared.
    """

    what: str
    count: int
    why: str = ""


#: JSON name of the package → modules for the checksums of such packages, each with ``has_checksums`` and ``verify``
CHECKSUM_MODULES: dict[str, tuple[str, ...]] = {
    "deb": ("fatpack.packages.checksums.deb",),
    "rpm": ("fatpack.packages.checksums.rpm",),
    "zip": ("fatpack.packages.checksums.conda",),
    "tar": ("fatpack.packages.checksums.conda",),
}


def checksum_verifier(kind: str, view: View) -> ChecksumVerifier | None:
    """Return the function that verifies a package's checksums, None for one without known checksums.

    Cheap; the returned function reads and inflates the whole package. It raises the errors of opening a file in it,
    FormatError and Unsupported, for parts that every comparison needs.
    """
    for name in CHECKSUM_MODULES.get(kind, ()):
        module = __import__(name, fromlist=["verify"])
        try:
            if module.has_checksums(view):
                found: ChecksumVerifier = module.verify
                return found
        except (FatpackError, OSError):
            return None  # reported when the package is read
    return None


#: LIMIT: bytes of a list of files. A list of 100,000 files has 30 MB.
MAX_LIST_SIZE = 256 << 20

#: Names of the algorithms of stated digests.
ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")

#: LIMIT: names shown in the findings for missing and for unlisted files.
_SHOWN = 5


class StatedFile(Record):
    """The stated digest of a file in hexadecimal, its algorithm of ``hashlib``, and the size, if one is stated."""

    algorithm: str
    digest: str
    size: int | None = None


def compute_digest(source: Source, algorithm: str) -> str:
    """Return the digest of all bytes of a source, in hexadecimal."""
    import hashlib

    made = hashlib.new(algorithm, usedforsecurity=False)
    for piece in source.read_once(0, source.size):
        made.update(piece)
    return made.hexdigest()


def read_file_list(member: PackageMember) -> bytes:
    """Return all bytes of a list of files. Raises FormatError for one that is too large, and for a damaged one."""
    from fatpack.errors import LimitExceeded

    with member.open() as source:
        if source.size > MAX_LIST_SIZE:
            raise LimitExceeded(
                f"{member.name} has {pluralize(source.size, 'byte')}",
                field=member.name,
                expected=f"at most {MAX_LIST_SIZE}",
            )
        source.check()
        return source.read(0, source.size)


def measure_file(
    item: PackageMember, algorithm: str, record_name: str, view: View
) -> StatedFile | ChecksumResult | Finding:
    """Return the digest and size of a file, or a finding for damage."""
    try:
        with item.open() as source:
            return StatedFile(algorithm, compute_digest(source, algorithm), source.size)
    except FormatError as error:
        return finding(code_for_error("FP1710", error), _span(view, item.name), error.describe(), error.hint)
    except FatpackError as error:
        return ChecksumResult(record_name, 1, error.problem)


def compare_files(
    items: Iterable[PackageMember | Finding],
    stated: Mapping[str, StatedFile],
    record_name: str,
    view: View,
    *,
    unlisted: bool = True,
) -> Iterator[ChecksumResult | Finding]:
    """Compare files with the statements of ``record_name``: yield findings, and the counts.

    ``unlisted``: also report files that are not listed. Findings in ``items`` are ignored: reading the package reports
    them.
    """
    count, silent, missing, strangers = 0, 0, dict.fromkeys(stated), list[str]()
    stranger_count = 0
    for item in items:
        if isinstance(item, Finding):
            continue
        statement = stated.get(item.name)
        missing.pop(item.name, None)
        if statement is None:
            stranger_count += 1
            strangers += [item.name] if len(strangers) < _SHOWN else []
        elif statement.algorithm not in ALGORITHMS or not statement.digest:
            silent += 1
        else:
            found = measure_file(item, statement.algorithm, record_name, view)
            if isinstance(found, StatedFile):
                count += 1
                yield from _difference(item.name, statement, found, record_name, view)
            else:
                yield found
    if count:
        yield ChecksumResult(record_name, count)
    if silent:
        yield ChecksumResult(
            record_name, silent, f"{record_name} has no digest of them, or one of a kind that is not known here"
        )
    if stranger_count and not unlisted:
        yield ChecksumResult(record_name, stranger_count, f"{record_name} does not list them, and need not")
    yield from _missing_file_findings(list(missing), strangers, stranger_count if unlisted else 0, record_name, view)


def compare_measured(
    found: Mapping[str, StatedFile], stated: Mapping[str, StatedFile], record_name: str, view: View
) -> Iterator[ChecksumResult | Finding]:
    """Compare files measured before their list was read, like :func:`compare_files`; unlisted files are reported."""
    both = [name for name in stated if name in found]
    for name in both:
        yield from _difference(name, stated[name], found[name], record_name, view)
    if both:
        yield ChecksumResult(record_name, len(both))
    strangers = [name for name in found if name not in stated]
    yield from _missing_file_findings(
        [name for name in stated if name not in found], strangers[:_SHOWN], len(strangers), record_name, view
    )


def _difference(name: str, statement: StatedFile, found: StatedFile, record_name: str, view: View) -> Iterator[Finding]:
    if statement.digest.lower() != found.digest:
        text = f"{name} has another {statement.algorithm} than {record_name} says"
        yield checksum_finding("FP3603", view, text, name, expected=statement.digest, found=found.digest)
    elif statement.size is not None and statement.size != found.size:
        text = f"{name} has {pluralize(found.size or 0, 'byte')}, and {record_name} says {statement.size}"
        yield checksum_finding("FP3603", view, text, name)


def _missing_file_findings(
    missing: list[str], strangers: list[str], count: int, record_name: str, view: View
) -> Iterator[Finding]:
    for name in missing[:_SHOWN]:
        yield checksum_finding("FP3604", view, f"{record_name} lists {name}, which is not in the package", name)
    if len(missing) > _SHOWN:
        yield checksum_finding(
            "FP3604", view, f"{record_name} lists {len(missing) - _SHOWN:,} files more that are not in the package", ""
        )
    for name in strangers if count else ():
        yield checksum_finding("FP3604", view, f"{name} is in the package, and {record_name} does not list it", name)
    if count > len(strangers):
        text = f"{count - len(strangers):,} files more are in the package, and {record_name} does not list them"
        yield checksum_finding("FP3604", view, text, "")


def checksum_finding(code: str, view: View, text: str, name: str, *, expected: str = "", found: str = "") -> Finding:
    """Return a finding about a file of a package, or about its statement."""
    message = f"{text} (expected {expected}, found {found})" if expected else text
    return finding(code, _span(view, name), message, "get the package again")


def _span(view: View, name: str) -> Span:
    return Span(view.start, view.end, (*view.chain, name) if name else view.chain)
