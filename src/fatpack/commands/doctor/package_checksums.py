"""Wheels and other zip archives: every file read against its CRC-32, and compared with digest and size in RECORD.

A CRC-32 is compared where the file is read: :mod:`fatpack.packages.zip.content`.

How we know: binary distribution format (packaging.python.org, 2025): RECORD is CSV with path, ``algorithm=digest`` in
URL-safe base64 without padding, and size; RECORD itself and signatures of it have neither.
"""

from __future__ import annotations

import os

from fatpack import limits
from fatpack.errors import FatpackError, FormatError, pluralize
from fatpack.exit_codes import error_message
from fatpack.findings import code_for_error, finding
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.limits import Budget
from fatpack.model import Finding
from fatpack.packages.checksums import StatedFile, compute_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.commands.doctor.model import DoctorNotes
    from fatpack.io.source import Source


RECORD = ".dist-info/RECORD"

#: LIMIT: bytes of a RECORD that is read; that of torch has 2 MB.
MAX_RECORD_SIZE = 64 << 20

#: signatures, of which RECORD says nothing, beside itself
_WITHOUT = (RECORD, ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")

_HASHES = ("sha256", "sha384", "sha512")


def read_member(source: Source) -> StatedFile:
    """Read all of a file in a package, which checks it. Raises FormatError for one with another checksum."""
    source.check()
    if source.is_sparse:  # A few bytes can state holes of any size, whose zeros nothing compares with a digest.
        return StatedFile("", "", source.size)
    return StatedFile("sha256", compute_digest(source, "sha256"), source.size)


def check_zip(
    path: str,
    size: int,
    contents: Mapping[str, StatedFile | Finding],
    record: bytes | None,
    notes: DoctorNotes,
    budget: Budget,
) -> None:
    """Note what is wrong with the files of a zip archive.

    ``contents`` are the files that were read, or why they could not be, ``record`` is RECORD if it is a wheel. The
    others are read here, if the archive is a file of its own; what they inflate to is drawn from the budget.
    """
    notes.count("checksums", sum(isinstance(item, StatedFile) for item in contents.values()))
    rows = {} if record is None else _rows(path, size, record, notes)
    known: dict[str, StatedFile | Finding] = dict(contents)
    algorithms = {name: stated.partition("=")[0] for name, (stated, _) in rows.items()}
    others = {name for name, algorithm in algorithms.items() if algorithm not in ("", "sha256")}
    if os.path.isfile(path):
        for name, item in _read(path, set(known) - others, algorithms, budget):
            known[name] = item
            if isinstance(item, Finding):
                notes.add(item)
            elif name not in contents:
                notes.count("checksums")
    elif set(rows) - set(known):
        left = len(set(rows) - set(known))
        notes.skip("files of wheels", "names that say source code or text, in a package that is no file here", left)
    if record is not None:
        _compare(path, size, rows, known, notes, is_whole=os.path.isfile(path))


def _read(
    path: str, known: set[str], algorithms: Mapping[str, str], budget: Budget
) -> Iterator[tuple[str, StatedFile | Finding]]:
    """Yield the content of all files in an archive that are not known yet, or why one cannot be read."""
    from fatpack.packages import get_package

    with open_source(path, budget=budget) as archive:
        for member in get_package("zip").members(archive.view()):
            if isinstance(member, Finding) or member.name in known:
                continue
            algorithm = algorithms.get(member.name, "")
            try:
                with member.open() as source:
                    source.budget = archive.budget
                    source.check()
                    chosen = algorithm if algorithm in _HASHES else "sha256"
                    yield member.name, StatedFile(chosen, compute_digest(source, chosen), source.size)
            except FatpackError as error:
                span = Span(0, 0, (path, member.name))
                yield (
                    member.name,
                    finding(code_for_error("FP1710", error), span, f"{member.name}: {error.problem}", error.hint),
                )


def _rows(path: str, size: int, record: bytes, notes: DoctorNotes) -> dict[str, tuple[str, str]]:
    """Return path → stated digest and size of RECORD's lines."""
    import csv
    import io

    rows: dict[str, tuple[str, str]] = {}
    try:
        for row in csv.reader(io.StringIO(record.decode("utf-8", "surrogateescape"), newline="")):
            if len(row) >= 3 and row[0] in rows:
                notes.add(_wrong("FP3604", path, size, f"RECORD lists {row[0]} twice"))
            elif len(row) >= 3:
                rows[row[0]] = row[1], row[2]
            elif row:
                notes.add(_wrong("FP3604", path, size, f"a line of RECORD has {pluralize(len(row), 'field')}, not 3"))
    except csv.Error as error:
        notes.add(_wrong("FP3604", path, size, f"RECORD cannot be read as CSV: {error}"))
    return rows


def _compare(
    path: str,
    size: int,
    rows: Mapping[str, tuple[str, str]],
    known: Mapping[str, StatedFile | Finding],
    notes: DoctorNotes,
    *,
    is_whole: bool,
) -> None:
    from base64 import urlsafe_b64encode

    for name, (stated, stated_size) in rows.items():
        found = known.get(name)
        if found is None and is_whole:
            notes.add(_wrong("FP3604", path, size, f"RECORD lists {name}, which is not in the wheel"))
        if not isinstance(found, StatedFile):
            continue
        algorithm, _, text = stated.partition("=")
        if algorithm not in _HASHES:
            if not name.endswith(_WITHOUT):
                notes.skip("files of wheels", f"RECORD has no digest of them, or one of {algorithm or 'no kind'}")
            continue
        if algorithm != found.algorithm:
            notes.skip(
                "files of wheels", f"RECORD has a digest of {algorithm} of them, in a package that is no file here"
            )
            continue
        notes.count("records")
        if urlsafe_b64encode(bytes.fromhex(found.digest)).rstrip(b"=").decode() != text.rstrip("="):
            notes.add(_wrong("FP3603", path, size, f"{name} has another {algorithm} than RECORD says"))
        elif stated_size and stated_size != str(found.size):
            text = f"{name} has {pluralize(found.size or 0, 'byte')}, and RECORD says {stated_size}"
            notes.add(_wrong("FP3603", path, size, text))
    for name in known:
        if name not in rows and not name.endswith(_WITHOUT):
            notes.add(_wrong("FP3604", path, size, f"{name} is in the wheel, and RECORD does not list it"))


def is_record(name: str) -> bool:
    """Return whether a file of this name in a wheel is its RECORD; those of packages in it lie deeper."""
    return name.endswith(RECORD) and name.count("/") == 1


def check_records(path: str, size: int, count: int, notes: DoctorNotes) -> None:
    """Note that a wheel has no RECORD that its files can be compared with, though it has ``count`` of them."""
    why = {0: "the wheel has no RECORD", 1: f"RECORD is over {MAX_RECORD_SIZE >> 20} MiB"}.get(
        count, f"{count} RECORD files"
    )
    notes.add(_wrong("FP3604", path, size, f"{why}: no file of it is compared with one"))
    notes.skip("files of wheels", why)


def _wrong(code: str, path: str, size: int, text: str) -> Finding:
    hint = "get the wheel again, or have it repacked: wheel unpack, wheel pack"
    return finding(code, Span(0, size, (path,)), text, hint)


def read_record(source: Source) -> bytes | None:
    """Return all of a file that is RECORD, None for one that is far too large to be one."""
    return source.read(0, source.size) if source.size <= min(MAX_RECORD_SIZE, limits.INFLATED) else None


# Comparing Debian, RPM and conda packages with their own checksums of files. The module of each kind reads these.


def verify_package(path: str, kind: str, notes: DoctorNotes, budget: Budget) -> bool:
    """Note what is wrong with the files of a package that is a local file; return whether it states anything of them.

    It is read once more, all of it: names that are passed over, and files without device code, are compared too. What
    that inflates is not drawn from the budget a second time.
    """
    if not os.path.isfile(path):
        return False
    from fatpack.packages.checksums import checksum_verifier

    try:
        with open_source(path, budget=Budget(budget.inflated, budget.output)) as source:
            view = source.view()
            compare = checksum_verifier(kind, view)
            if compare is None:
                return False
            for item in compare(view):
                if isinstance(item, Finding):
                    notes.add(item)
                elif item.why:
                    notes.skip("files of packages", item.why, item.count)
                else:
                    notes.count("records", item.count)
    except FatpackError as error:
        told = error.describe() if isinstance(error, FormatError) else error.problem
        text = f"its checksums of files cannot be compared: {told}"
        notes.add(finding(code_for_error("FP3604", error), Span(0, 0, (path,)), text, error.hint))
    except OSError as error:
        notes.skip("files of packages", error_message(error))
    return True
