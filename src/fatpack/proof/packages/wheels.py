"""Proof that a wheel is another one with less device code: every file compared, every changed library proved.

Both are read with Python's ``zipfile`` and ``csv``. Besides linked libraries only three files that describe the wheel
may differ: the version in METADATA, the build tag in WHEEL, and RECORD, of which every line is checked. A variant wheel
(PEP 825) has one file more, ``variant.json``, whose only label ends the wheel's file name.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from itertools import zip_longest

from fatpack import limits
from fatpack.errors import BadValue, LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.ranges import ViewFile
from fatpack.proof.ledger import DifferenceLog
from fatpack.proof.packages import zip_structure
from fatpack.proof.packages.verdict import (
    PackageProofResult,
    compare_libraries,
    judge_left_out,
    judge_tables,
    proved_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from fatpack.io.source import View
    from fatpack.proof.packages.left_out import LeftOutFile
    from fatpack.proof.packages.verdict import ProvedLibrary


# The files that describe a wheel, read as a whole; lines end in a line feed and nowhere else.
#
# Source: binary distribution format (packaging.python.org, 2025): METADATA and WHEEL have headers as in mail, up
# to the first empty line; RECORD is CSV with path, ``algorithm=digest`` and size.

#: files that a message names
_NAMED = 3

#: LIMIT: bytes of a file that describes the wheel, each read whole
_TEXT = 64 << 20


def read_description(archive: zipfile.ZipFile, info: zipfile.ZipInfo, chain: Sequence[str]) -> str:
    """Return all of a file that describes the wheel. Raises LimitExceeded for one that is far too large."""
    if info.file_size > _TEXT:
        raise LimitExceeded(
            "a file that describes the wheel is far too large to be one",
            format="wheel",
            field=info.filename,
            expected=f"at most {_TEXT} bytes",
            found=str(info.file_size),
            hint="no tool writes such a file; get the wheel again",
            chain=chain,
        )
    with archive.open(info) as file:
        return file.read().decode("utf-8", "surrogateescape")


def metadata_version(metadata: str) -> str:
    """Return the version in METADATA, "" if it has none."""
    lines = _lines(metadata)
    number = _header(lines, "version")
    return "" if number is None else lines[number].partition(":")[2].strip()


def compare_metadata(what: str, before: str, after: str, ledger: DifferenceLog) -> None:
    """Record a difference unless METADATA is unchanged except for the value of its first version."""
    old, new = _lines(before), _lines(after)
    for lines in (old, new):
        number = _header(lines, "version")
        if number is not None:
            lines[number] = _without_value(lines[number])
    _compare(what, old, new, ledger)


def compare_wheel(what: str, before: str, after: str, ledger: DifferenceLog) -> None:
    """Record a difference unless WHEEL is unchanged except for the value of one build tag, or a new one."""
    old, new = _lines(before), _lines(after)
    was, now = _header(old, "build"), _header(new, "build")
    if now is not None and was is not None:
        old[was], new[now] = _without_value(old[was]), _without_value(new[now])
    elif now is not None:
        if _without_value(new[now]) == new[now]:
            ledger.differ(f"{what}: build tag", expected="a tag", found=ascii(new[now][:200]))
        is_ended = new.pop(now).endswith("\n")
        if not is_ended and now:  # it is the last line, and the line before had no end in the old file
            new[-1] = new[-1].removesuffix("\n").removesuffix("\r")
    _compare(what, old, new, ledger)


def record_rows(record: str, ledger: DifferenceLog) -> list[list[str]]:
    """Return the lines of RECORD as path, digest and size; any other line, and a second one for a path, is reported."""
    try:
        rows = [row for row in csv.reader(io.StringIO(record, newline=""), strict=True) if row]
    except csv.Error as error:
        ledger.differ("RECORD: lines", expected="path, digest and size", found=error)
        return []
    found: dict[str, list[str]] = {}
    for row in rows:
        if len(row) != 3:
            ledger.differ("RECORD: a line", expected="path, digest and size", found=",".join(row))
        elif row[0] in found:
            ledger.differ(f"RECORD: {row[0]}: lines", expected="one", found="several")
        else:
            found[row[0]] = row
    return list(found.values())


def _lines(whole: str) -> list[str]:
    """Return lines with their ends. ``str.splitlines`` would end them at form feeds and the like, too."""
    return list(io.StringIO(whole, newline="\n"))


def _header(lines: Sequence[str], name: str) -> int | None:
    """Return the number of the first header of a name, None if there is none."""
    for number, line in enumerate(lines):
        if not line.strip("\r\n"):
            return None  # the description follows
        if line.partition(":")[0].lower() == name and ":" in line:
            return number
    return None


#: versions and build tags; the readers of mail end lines at a carriage return, too, and at others
_VALUE = re.compile(r"[ \t]*[\w.!+-]+[ \t]*", re.ASCII)


def _without_value(line: str) -> str:
    if _VALUE.fullmatch(line.rstrip("\r\n").partition(":")[2]) is None:
        return line
    return line.partition(":")[0] + ":" + line[len(line.rstrip("\r\n")) :]


def _compare(what: str, old: Sequence[str], new: Sequence[str], ledger: DifferenceLog) -> None:
    if old == new:
        return
    for number in range(max(len(old), len(new))):
        was, now = (lines[number] if number < len(lines) else "" for lines in (old, new))
        if was != now:
            ledger.differ(f"{what}: lines that must not change", expected=ascii(was[:200]), found=ascii(now[:200]))
            return


#: properties of every file that must be unchanged
_SAME = ("date_time", "comment", "create_system", "internal_attr", "external_attr")

COMPARED = (
    "the order, names, times and permissions of all files, with folders renamed if the version is in their names",
    "the content of every file, byte for byte, except changed libraries and the three files that describe the wheel",
    "every changed library, by a proof of its own",
    "METADATA except its version, WHEEL except its build tag; nothing of both if variant.json was added",
    "every line of RECORD against the file that it names, by digest and size, and the files that it lists",
    "the bytes before, between and after the files: headers with their extra fields, the directory, comments",
    "variant.json, if it was added: its fields, and its label against the file name",
    "every missing file: that it held device code of AMD alone, or was a table of Tensile for a target without code",
)
NOT_COMPARED = (
    "the compression of files",
    "the wheel's file name: compare it with the version in METADATA and the build tag in WHEEL",
    "the properties in variant.json: if they are true of the code",
)


def prove_wheel(before: View, after: View) -> PackageProofResult:
    """Return whether ``after`` is the wheel ``before`` with less device code, and otherwise unchanged.

    Decompresses all of both, in windows; libraries that changed go to unnamed temporary files. Raises FormatError for a
    file that is no wheel or damaged, and the errors of proofs of libraries.
    """
    ledger = DifferenceLog()
    try:
        with zipfile.ZipFile(ViewFile(before)) as old, zipfile.ZipFile(ViewFile(after)) as new:
            work = _WheelComparison(old, new, before, after, ledger)
            work.compare()
            gone = {file.path for file in work.left_out}
            count = sum(info.filename not in gone for info in old.infolist())
            if count + work.is_variant == len(new.infolist()):
                zip_structure.compare_zip_structure(old, new, before, after, ledger, gone)
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error) as error:  # zipfile's, all of them
        raise BadValue(str(error), format="wheel", field="archive", chain=after.chain) from error
    return PackageProofResult(
        "wheel",
        proved_file(before),
        proved_file(after),
        not ledger.count,
        tuple(ledger.differences),
        ledger.count,
        work.same_count,
        tuple(work.libraries),
        tuple(work.described),
        COMPARED,
        NOT_COMPARED,
        left_out=tuple(work.left_out),
    )


def has_inner_archives(view: View) -> bool:
    """Return whether a zip archive is a ``.conda``, and no wheel. Raises BadValue for a damaged one.

    A ``.conda`` has metadata.json and two archives beside it, and no file that only wheels have: conda/ceps, CEP 35.
    """
    try:
        with zipfile.ZipFile(ViewFile(view)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error) as error:  # zipfile's, all of them
        raise BadValue(str(error), format="zip", field="archive", chain=view.chain) from error
    if any(".dist-info/" in name for name in names):
        return False
    top = [name for name in names if "/" not in name and name.endswith(".tar.zst")]
    return "metadata.json" in names and all(any(name.startswith(kind) for name in top) for kind in ("pkg-", "info-"))


class _WheelComparison:
    """Two wheels that are compared."""

    def __init__(
        self, old: zipfile.ZipFile, new: zipfile.ZipFile, before: View, after: View, ledger: DifferenceLog
    ) -> None:
        self._old, self._new = old, new
        self._chains = before.chain, after.chain
        self._ledger = ledger
        self._stems = _stem(old, before), _stem(new, after)
        name = f"{self._stems[1]}.dist-info/{VARIANT_FILE}"
        self._variant = name if _is_added(name, old, new) else ""
        self._lines = self._record(old, 0), self._record(new, 1)
        self._rows = {row[0]: row for row in self._lines[1]}
        self._names: dict[str, str] = {}
        self.same_count = 0
        self.libraries: list[ProvedLibrary] = []
        self.described: list[str] = []
        self.left_out: list[LeftOutFile] = []

    @property
    def is_variant(self) -> bool:
        """True if the new wheel says which devices it is for, and the old one does not."""
        return bool(self._variant)

    def compare(self) -> None:
        """Compare everything."""
        files = list(self._new.infolist())  # zipfile's own list
        if self._variant:
            self._compare_variant(files.pop())
            self._ledger.same("name of the .dist-info folder", *self._stems)
        for was, now in zip_longest(self._without_gone(files), files):
            if was is None or now is None:
                self._name_files(files)
                return
            if was.filename in self._names:
                self._ledger.differ(f"{now.filename}: entries", expected="one", found="several")
            self._names[was.filename] = now.filename
            self._ledger.same(f"{now.filename}: name as it is stored", *_hidden(was, now))
            if self._ledger.same("name of a file", self._renamed(was.filename), now.filename):
                for field in _SAME:
                    self._ledger.same(f"{now.filename}: {field}", getattr(was, field), getattr(now, field))
                self._content(was, now)
        self._compare_record()

    def _without_gone(self, files: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
        """Return the files of the old wheel that the new one has, and judge the others."""
        present = {info.filename for info in files}
        gone: list[zipfile.ZipInfo] = []
        staying: list[zipfile.ZipInfo] = []
        for info in self._old.infolist():
            is_left = info.is_dir() or self._renamed(info.filename) in present
            (staying if is_left or not self._judge(info) else gone).append(info)
        judge_tables([info.filename for info in gone], [info.filename for info in staying], self._ledger)
        return staying

    def _judge(self, info: zipfile.ZipInfo) -> bool:
        """Judge a file that is missing; return whether it is one of a kernel store."""
        with tempfile.TemporaryFile() as file:
            copy_member(self._old, info, file)
            with open_source(file, name=info.filename) as source:
                return judge_left_out(info.filename, source.view(), self._ledger, self.left_out)

    def _name_files(self, files: Sequence[zipfile.ZipInfo]) -> None:
        """Record which files are there in one wheel alone; a description that is not the last file is one of them."""
        old = Counter(self._renamed(info.filename) for info in self._old.infolist())
        new = Counter(info.filename for info in files)
        gone, added = (sorted((one - other).elements()) for one, other in ((old, new), (new, old)))
        description = f"{self._stems[1]}.dist-info/{VARIANT_FILE}"
        added = [name for name in added if name != description] or added
        expected, found = (", ".join(names[:_NAMED]) or "none" for names in (gone, added))
        self._ledger.differ("number of files: those in one wheel alone", expected=expected, found=found)

    def _renamed(self, name: str) -> str:
        folder, slash, rest = name.partition("/")
        old, new = self._stems
        if folder in (f"{old}.dist-info", f"{old}.data") and slash:
            return f"{new}{folder[len(old) :]}/{rest}"
        return name

    def _compare_variant(self, info: zipfile.ZipInfo) -> None:
        """Check what was added: its line of RECORD, its fields, and its label by the name of the wheel."""
        text = read_description(self._new, info, self._chains[1]).encode("utf-8", "surrogateescape")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        expected = [info.filename, f"sha256={digest}", str(len(text))]
        self._ledger.same(f"RECORD: {info.filename}", expected, self._rows.get(info.filename, "none"))
        # Its times and attributes are free in no wheel: they are those of RECORD.
        beside = self._new.getinfo(f"{self._stems[1]}.dist-info/RECORD")
        for field in _SAME:
            self._ledger.same(f"{info.filename}: {field}", getattr(beside, field), getattr(info, field))
        self.described.append(info.filename)
        wrong, label = read_variant_label(text)
        if wrong:
            self._ledger.differ(f"{info.filename}: {wrong[0]}", expected=wrong[1], found=wrong[2])
        name = (self._chains[1] or ("",))[-1].rpartition("/")[2]
        if label and name.endswith(".whl") and not name.endswith(f"-{label}.whl"):
            self._ledger.differ(f"{info.filename}: label", expected=f"the end of {name}", found=label)

    def _content(self, was: zipfile.ZipInfo, now: zipfile.ZipInfo) -> None:
        row = self._rows.get(now.filename)
        hash_name = row[1].partition("=")[0] if row is not None else ""
        found = hashlib.new(hash_name if hash_name in _HASHES else "sha256", usedforsecurity=False)
        is_same = was.file_size == now.file_size
        with self._old.open(was) as old, self._new.open(now) as new:
            while block := new.read(limits.CHUNK):
                found.update(block)
                is_same = is_same and old.read(len(block)) == block
            if is_same and old.read(1):
                is_same = False
        if row is not None and row[1]:
            text = base64.urlsafe_b64encode(found.digest()).rstrip(b"=").decode()
            self._ledger.same(f"RECORD: {now.filename}: digest", f"{found.name}={text}", row[1])
        if row is not None and row[2]:
            self._ledger.same(f"RECORD: {now.filename}: size", str(now.file_size), row[2])
        if is_same:
            self.same_count += 1
        elif not self._description(was, now):
            self._library(was, now)

    def _description(self, was: zipfile.ZipInfo, now: zipfile.ZipInfo) -> bool:
        """Compare a file that describes the wheel; return whether it is one."""
        info = f"{self._stems[1]}.dist-info/"
        name = now.filename.removeprefix(info)
        if not now.filename.startswith(info) or name not in ("METADATA", "WHEEL", "RECORD"):
            return False
        self.described.append(now.filename)
        if name == "RECORD":
            return True
        old = read_description(self._old, was, self._chains[0])
        new = read_description(self._new, now, self._chains[1])
        if self._variant:
            # Its name is that of the fat wheel with a label: neither the version nor the build tag changes.
            _compare(now.filename, _lines(old), _lines(new), self._ledger)
            return True
        if name == "WHEEL":
            compare_wheel(now.filename, old, new, self._ledger)
            return True
        compare_metadata(now.filename, old, new, self._ledger)
        stated = self._stems[1].rpartition("-")[2]
        self._ledger.same(f"{now.filename}: version", stated, metadata_version(new))
        return True

    def _library(self, was: zipfile.ZipInfo, now: zipfile.ZipInfo) -> None:
        with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
            for archive, info, file in ((self._old, was, first), (self._new, now, second)):
                copy_member(archive, info, file)
            with open_source(first, name=was.filename) as one, open_source(second, name=now.filename) as other:
                compare_libraries(now.filename, one.view(), other.view(), self._ledger, self.libraries)

    def _record(self, archive: zipfile.ZipFile, which: int) -> list[list[str]]:
        name = f"{self._stems[which]}.dist-info/RECORD"
        if name not in archive.namelist():
            self._ledger.differ("RECORD", expected="a file", found="none")
            return []
        text = read_description(archive, archive.getinfo(name), self._chains[which])
        return record_rows(text, self._ledger)

    def _compare_record(self) -> None:
        """Compare the files that both RECORDs list, and whether they have a digest and a size."""
        old, new = self._lines
        missing = {file.path for file in self.left_out}
        listed = [(self._renamed(path), bool(stated), bool(size)) for path, stated, size in old if path not in missing]
        found = [(path, bool(stated), bool(size)) for path, stated, size in new if path != self._variant]
        if listed != found:
            gone, added = (
                [row for row in one if row not in other] for one, other in ((listed, found), (found, listed))
            )
            self._ledger.differ("RECORD: files", expected=_row_words(gone), found=_row_words(added))
        present = {*self._names.values(), self._variant}
        for path, _, _ in new:
            if path not in present:
                self._ledger.differ(f"RECORD: {path}", expected="a file", found="none")


def _row_words(rows: Sequence[tuple[str, bool, bool]]) -> str:
    """Return lines of RECORD in words, by their paths and the fields that they have."""
    words = [
        " ".join((path, "with digest" if stated else "without digest", "and size" if size else "and without size"))
        for path, stated, size in rows[:_NAMED]
    ]
    return ", ".join(words) or "the same lines, in another order or number"


_HASHES = ("sha256", "sha384", "sha512")

#: the file of a variant wheel that says which devices it is for, its fields, and its words (PEP 825)
VARIANT_FILE = "variant.json"
_VARIANT_FIELDS = ("$schema", "default-priorities", "providers", "variants")
_LABEL = re.compile(r"[0-9a-z._]{1,16}")


def _is_added(name: str, old: zipfile.ZipFile, new: zipfile.ZipFile) -> bool:
    """Return whether a file is the last one of the new archive alone, which has one more."""
    names = new.namelist()
    return len(names) == len(old.namelist()) + 1 and names[-1] == name and names.count(name) == 1


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raises ValueError for a key that it has twice: readers take different ones."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def read_variant_label(data: bytes) -> tuple[tuple[str, str, str] | None, str]:
    """Return what is wrong with a ``variant.json`` (field, expected, found), or None, and its only label, or ""."""
    try:
        # Decoded first: of bytes alone json guesses the encoding, and installers read UTF-8 only.
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        return ("text", "JSON", str(error)), ""
    # The schema of PEP 825 has no providers.
    if not isinstance(document, dict) or {*document, "providers"} != set(_VARIANT_FIELDS):
        found = ", ".join(map(str, document)) if isinstance(document, dict) else type(document).__name__
        return ("fields", ", ".join(_VARIANT_FIELDS), found), ""
    variants = document["variants"]
    if not isinstance(variants, dict) or len(variants) != 1 or not all(map(_LABEL.fullmatch, variants)):
        found = ", ".join(variants) if isinstance(variants, dict) else type(variants).__name__
        return ("variants", "one label of [0-9a-z._], at most 16 characters", found or "none"), ""
    ((label, properties),) = variants.items()
    if not isinstance(properties, dict) or (label == "null") != (not properties):
        return ("properties", "none for null, and some for any other label", f"{label}: {str(properties)[:200]}"), label
    return None, label


def _hidden(was: zipfile.ZipInfo, now: zipfile.ZipInfo) -> tuple[str, str]:
    """Return the bytes of both names after a NUL, at which ``zipfile`` cuts them."""
    old, new = (info.orig_filename.partition("\0")[1:] for info in (was, now))
    return "".join(old), "".join(new)


def _stem(archive: zipfile.ZipFile, view: View) -> str:
    """Return the name of the wheel's ``.dist-info`` folder before that suffix. Raises BadValue."""
    folders = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
    found = sorted(folder for folder in folders if folder.endswith(".dist-info"))
    if len(found) != 1:
        raise BadValue(
            "this is no wheel",
            format="wheel",
            field="*.dist-info",
            expected="one folder",
            found=", ".join(found) or "none",
            chain=view.chain,
        )
    return found[0].removesuffix(".dist-info")


def copy_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, into: IO[bytes]) -> None:
    """Copy a file of an archive into another file, from its beginning."""
    with archive.open(info) as file:
        while block := file.read(limits.CHUNK):
            into.write(block)
    into.flush()
