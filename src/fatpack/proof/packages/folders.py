"""Proof that a folder, a virtual environment or a root of a file system is another one with less device code.

Files are compared by path; changed libraries are proved, and rows of package databases (RECORD, ``conda-meta``, dpkg's
MD5 sums) have to follow them, as in layers of container images. Links are compared, and never followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import ExitStack

from fatpack.errors import Unsupported
from fatpack.io.open import open_source
from fatpack.proof.ledger import DifferenceLog, ProvedFile, file_digest
from fatpack.proof.packages.image_databases import HASHES, FileDigests, compare_database, is_database
from fatpack.proof.packages.verdict import (
    PackageProofResult,
    ProvedLibrary,
    compare_libraries,
    judge_left_out,
    judge_tables,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.proof.packages.left_out import LeftOutFile

#: the folder of the journal that slimming an environment writes; it says what was changed, and is no part of that
_JOURNAL = ".fatpack-slim"

#: LIMIT: bytes of a package database, which is read whole
_DATABASE = 256 << 20

COMPARED = (
    "the paths, kinds and permissions of all files, folders and links, and what links lead to",
    "the content of every file, byte for byte, except changed libraries and package databases",
    "every changed library, by a proof of its own",
    "every row of RECORD, conda-meta and dpkg's MD5 sums against the libraries that changed",
    "every missing file: that it held device code of AMD alone, or was a table of Tensile for a target without code",
)
NOT_COMPARED = ("owners, times and attributes of files", f"the journal in {_JOURNAL}")


def is_plain_folder(path: str) -> bool:
    """Return whether a path is a folder that is no container image."""
    return os.path.isdir(path) and not os.path.isfile(os.path.join(path, "oci-layout"))


def prove_folder(before: str, after: str) -> PackageProofResult:
    """Return whether the folder ``after`` is ``before`` with less device code, and otherwise unchanged.

    Reads all files of both. Raises Unsupported unless both are folders, ``OSError`` for what cannot be read, and the
    errors of proofs of libraries.
    """
    for path, other in ((before, after), (after, before)):
        if not is_plain_folder(path):
            hint = "give two folders, two wheels, two images or two libraries"
            raise Unsupported(f"{path} is no folder as the other one is", hint=_file_like(path, other) or hint)
    work = _FolderComparison(before, after)
    work.compare()
    ledger = work.ledger
    return PackageProofResult(
        "folder",
        work.proved_file(0),
        work.proved_file(1),
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


def _file_like(path: str, folder: str) -> str:
    """Return the advice to give the file in a folder that has the kind and name of another one; "" if none has."""
    if not os.path.isfile(path) or not os.path.isdir(folder):
        return ""
    name, suffix = os.path.basename(path).partition("-")[0], os.path.splitext(path)[1]
    found = sorted(each for each in os.listdir(folder) if each.endswith(suffix) and each.partition("-")[0] == name)
    return f"give the file in it: {os.path.join(folder, found[0])}" if suffix and found else ""


class _FolderComparison:
    """Two folders that are compared."""

    def __init__(self, before: str, after: str) -> None:
        self._paths = before, after
        self._sums = hashlib.sha256(), hashlib.sha256()
        self._sizes = [0, 0]
        self.ledger = DifferenceLog()
        self.same_count = 0
        self.libraries: list[ProvedLibrary] = []
        self.described: list[str] = []
        self.left_out: list[LeftOutFile] = []

    def compare(self) -> None:
        """Compare everything."""
        old, new = (dict(_walk(path)) for path in self._paths)
        changed: dict[tuple[str, bytes], FileDigests] = {}
        shown: dict[str, FileDigests] = {}
        databases = []
        for name in sorted(old.keys() | new.keys()):
            facts = old.get(name, ""), new.get(name, "")
            for each, fact in zip(self._sums, facts, strict=True):
                each.update(f"{name}\0{fact}\0".encode("utf-8", "surrogateescape"))
            is_gone = facts[0].startswith(_FILE) and not facts[1]
            if is_gone and self._judge(name):
                continue
            if facts[0] != facts[1]:
                self.ledger.differ(name, expected=facts[0] or "nothing", found=facts[1] or "nothing")
            elif facts[0].startswith(_FILE):
                was, now = self._compare_file(name)
                self.same_count += was == now
                if is_database(name):
                    databases.append(name)
                    self.described += [name] if was != now else []
                    continue
                if was != now:
                    shown[name] = was
                    base = name.rpartition("/")[2]
                    changed |= {(base, digest): now for digest in (was.sha256, was.md5, was.sha1)}
        gone = [file.path for file in self.left_out]
        judge_tables(gone, new, self.ledger)
        # One that stays is compared, too: a row about a library that changed has to follow it.
        for name in databases if changed or self.described or gone else ():
            self._compare_database(name, changed, shown)

    def _judge(self, name: str) -> bool:
        """Judge a file that is missing; return whether it is one of a kernel store."""
        with open_source(os.path.join(self._paths[0], name)) as source:
            self._sums[0].update(file_digest(source.view()).encode())
            self._sizes[0] += source.size
            return judge_left_out(name, source.view(), self.ledger, self.left_out)

    def _compare_file(self, name: str) -> tuple[FileDigests, FileDigests]:
        """Return the digests of a file before and after; prove it if they differ and it describes no package."""
        with ExitStack() as stack:
            paths = [os.path.join(path, name) for path in self._paths]
            before, after = (stack.enter_context(open_source(path)).view() for path in paths)
            was, now = _digests(before), _digests(after)
            for number, digests in enumerate((was, now)):
                self._sums[number].update(digests.sha256)
                self._sizes[number] += digests.size
            if was != now and not is_database(name):
                compare_libraries(name, before, after, self.ledger, self.libraries)
        return was, now

    def _compare_database(
        self, name: str, changed: dict[tuple[str, bytes], FileDigests], shown: dict[str, FileDigests]
    ) -> None:
        both = []
        for path in self._paths:
            file = os.path.join(path, name)
            if os.path.getsize(file) > _DATABASE:
                self.ledger.differ(f"{name}: size", expected=f"at most {_DATABASE} bytes", found="more")
                return
            with open(file, "rb") as stream:
                both.append(stream.read(_DATABASE))
        gone = {file.path for file in self.left_out}
        compare_database("folder", name, both[0], both[1], changed, shown, self.ledger, gone)

    def proved_file(self, number: int) -> ProvedFile:
        """Return name, size and digest of a folder: of the paths, kinds and contents of all that is in it."""
        return ProvedFile(self._paths[number], self._sizes[number], self._sums[number].hexdigest())


#: beginning of the facts about a file with bytes
_FILE = "file"


def _walk(path: str) -> Iterator[tuple[str, str]]:
    """Yield the path in a folder of all that is in it, and its kind, permissions and link; folders by their names."""
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders.sort()
        if folder == path and _JOURNAL in folders:
            folders.remove(_JOURNAL)
        for name in (*folders, *names):
            place = os.path.join(folder, name)
            status = os.lstat(place)
            mode = f"{stat.S_IMODE(status.st_mode):o}"
            if stat.S_ISLNK(status.st_mode):
                fact = f"link to {os.readlink(place)}"
            elif stat.S_ISDIR(status.st_mode):
                fact = f"folder {mode}"
            else:
                fact = f"{_FILE if stat.S_ISREG(status.st_mode) else 'device or pipe'} {mode}"
            yield os.path.relpath(place, path).replace(os.sep, "/"), fact


def _raise(error: OSError) -> None:
    raise error


def _digests(view: View) -> FileDigests:
    """Return the size and digests of a file."""
    sums = [hashlib.new(name, usedforsecurity=False) for name in HASHES]
    for piece in view.read_once():
        for one in sums:
            one.update(piece)
    sha256, md5, sha1 = (one.digest() for one in sums)
    return FileDigests(len(view), sha256, md5, sha1)
