"""Proof that a conda package is another one with less device code: every file compared, every changed library proved.

Both are read by Python's ``zipfile``, ``tarfile`` and ``json``. What may differ beside linked libraries are the build
string in ``info/index.json``, of which the archives in a ``.conda`` have their names, and what ``info/paths.json`` says
of the libraries and of the links to them.

How we know: conda/ceps, CEP 26 for build strings, 34 for what describes a package, 35 for ``.conda``.
"""

from __future__ import annotations

import struct
import tempfile
import zipfile
import zlib
from hashlib import sha256
from itertools import zip_longest

from fatpack import limits, magic_numbers
from fatpack.errors import BadValue, LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.seekable import ViewFile
from fatpack.proof.ledger import DifferenceLog, compare_views
from fatpack.proof.packages import metadata, tars, zip_structure
from fatpack.proof.packages.verdict import PackageProofResult, compare_libraries, proved_file
from fatpack.proof.packages.wheels import copy_member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from fatpack.io.source import View
    from fatpack.proof.packages.metadata import PackageFiles
    from fatpack.proof.packages.verdict import ProvedLibrary

#: LIMIT: bytes of a file that describes the package, each read whole
_TEXT = 64 << 20

#: what has to be as it was of every file of the outer archive
_SAME = ("date_time", "comment", "create_system", "internal_attr", "external_attr")

COMPARED = (
    "the order, names, owners, times, permissions and links of all files",
    "the content of every file, byte for byte, but for changed libraries and the two files that describe the package",
    "every changed library, as its own proof says",
    "info/index.json but for the build string, which may get a word and _ in front",
    "info/paths.json: digests and sizes of changed libraries and of links to them, and nothing else of it",
)
NOT_COMPARED = (
    "how the archives are compressed",
    "the package's file name: compare it with info/index.json",
)


def prove_conda(before: View, after: View) -> PackageProofResult:
    """Return whether ``after`` is the conda package ``before`` with less device code, and nothing else.

    Inflates all of both, in windows; libraries go to unnamed temporary files. Raises FormatError for what is no conda
    package or damaged, and what proofs of libraries raise.
    """
    work = _CondaComparison(DifferenceLog())
    if before.head(0, 4).startswith(magic_numbers.BZIP2):
        work.compare(before, after)
    else:
        _compare_zips(work, before, after)
    build = metadata.compare_descriptions(work.texts, work.contents, work.ledger, after.chain)
    if build is not None:
        for names, stem in zip(work.stems, build, strict=True):
            for name in names:
                work.ledger.same("name of an archive", stem, name)
    return PackageProofResult(
        "conda",
        proved_file(before),
        proved_file(after),
        not work.ledger.count,
        tuple(work.ledger.differences),
        work.ledger.count,
        work.same_count,
        tuple(work.libraries),
        tuple(work.described),
        COMPARED,
        NOT_COMPARED,
    )


def _compare_zips(work: _CondaComparison, before: View, after: View) -> None:
    """Compare two ``.conda`` files. Raises BadValue for one that is none."""
    try:
        with zipfile.ZipFile(ViewFile(before)) as old, zipfile.ZipFile(ViewFile(after)) as new:
            for was, now in zip_longest(old.infolist(), new.infolist()):
                if was is None or now is None:
                    name = (was or now).filename
                    found = "none" if now is None else name
                    work.ledger.differ("number of files", expected="none" if was is None else name, found=found)
                    return
                for field in _SAME:
                    work.ledger.same(f"{now.filename}: {field}", getattr(was, field), getattr(now, field))
                kinds = [_kind(info.filename) for info in (was, now)]
                if kinds[0] != kinds[1] or not (kinds[0] or was.filename == now.filename):
                    work.ledger.differ("name of a file", expected=was.filename, found=now.filename)
                    return
                with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
                    copy_member(old, was, first)
                    copy_member(new, now, second)
                    with open_source(first, name=was.filename) as one, open_source(second, name=now.filename) as other:
                        one.budget, other.budget = before.source.budget, after.source.budget
                        if not kinds[0]:
                            compare_views(f"{now.filename}: content", one.view(), other.view(), work.ledger)
                            continue
                        for names, info in zip(work.stems, (was, now), strict=True):
                            names.append(info.filename.removeprefix(kinds[0]).removesuffix(_ENDING))
                        work.compare(one.view(), other.view())
            zip_structure.compare_zip_structure(old, new, before, after, work.ledger)
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error) as error:  # zipfile's, all of them
        raise BadValue(str(error), format="conda", field="archive", chain=after.chain) from error


_ENDING = ".tar.zst"


def _kind(name: str) -> str:
    """Return how the name of an archive in a ``.conda`` begins, "" for that of another file."""
    return next((kind for kind in ("pkg-", "info-") if name.startswith(kind) and name.endswith(_ENDING)), "")


class _CondaComparison:
    """Two packages that are compared: ``texts`` are both versions of the files that describe them."""

    def __init__(self, ledger: DifferenceLog) -> None:
        self.ledger = ledger
        self.texts: dict[str, tuple[bytes, bytes]] = {}
        self.contents: dict[str, tuple[PackageFiles, PackageFiles]] = {}
        self.stems: tuple[list[str], list[str]] = ([], [])
        self._seen: set[str] = set()
        self.same_count = 0
        self.libraries: list[ProvedLibrary] = []
        self.described: list[str] = []

    def compare(self, before: View, after: View) -> None:
        """Compare two tar archives."""
        for was, now in zip_longest(tars.read_tar_entries(before), tars.read_tar_entries(after)):
            if was is None or now is None:
                name = (was or now).info.name
                found = "none" if now is None else name
                self.ledger.differ("number of files", expected="none" if was is None else name, found=found)
                return
            if not self.ledger.same("name of a file", was.info.name, now.info.name):
                return
            for field in tars.SAME:
                self.ledger.same(f"{now.info.name}: {field}", getattr(was.info, field), getattr(now.info, field))
            if now.info.name in self._seen:
                self.ledger.differ(f"{now.info.name}: entries", expected="one", found="several")
                continue
            self._seen.add(now.info.name)
            if was.content is not None and now.content is not None:
                self._content(now.info.name, was.content, now.content)

    def _content(self, name: str, old: tars.MemberContent, new: tars.MemberContent) -> None:
        if name in metadata.DESCRIPTION_NAMES:
            texts = _text(name, old), _text(name, new)
            self.texts[name] = texts
            if texts[0] == texts[1]:
                self.same_count += 1
            else:
                self.described.append(name)
            return
        with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
            was, now = _kept(old, first), _kept(new, second)
            self.contents[name] = was, now
            if was == now:
                self.same_count += 1
                return
            with open_source(first, name=name) as one, open_source(second, name=name) as other:
                compare_libraries(name, one.view(), other.view(), self.ledger, self.libraries)


def _text(name: str, file: tars.MemberContent) -> bytes:
    data = file.read(_TEXT + 1)
    if len(data) > _TEXT:
        raise LimitExceeded(
            "a file that describes the package is far too large to be one",
            format="conda",
            field=name,
            expected=f"at most {_TEXT} bytes",
            hint="no tool writes such a file; get the package again",
        )
    return data


def _kept(file: tars.MemberContent, into: IO[bytes]) -> PackageFiles:
    """Return digest and size of a file; write it down if it may be a library that was changed."""
    digest, size = sha256(), 0
    is_library = False
    while block := file.read(limits.CHUNK):
        is_library = is_library or (not size and block.startswith((magic_numbers.ELF, magic_numbers.DOS)))
        digest.update(block)
        size += len(block)
        if is_library:
            into.write(block)
    into.flush()
    return digest.hexdigest(), size
