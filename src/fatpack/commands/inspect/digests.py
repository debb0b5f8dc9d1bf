"""``inspect --digest``, and the library function ``digest``: the canonical digest of the device code of files.

``docs/design/digest.md`` defines it. A file that was not read completely has no digest.
"""

from __future__ import annotations

from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import FINDINGS, MALFORMED, error_message, exit_code, worst_exit_code
from fatpack.inputs.files import Filter, SkipCounts
from fatpack.inputs.map_files import map_paths
from fatpack.library.arguments import as_paths, as_patterns, check_bools, make_budget
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.result import Result, to_plain_data
from fatpack.tabular.columns import ImageRow, RowOptions
from fatpack.tabular.read_many import read_file_rows
from fatpack.tabular.skipped import CompletenessCheck, Skipped, make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.inputs.files import InputFile
    from fatpack.inputs.map_files import Opener
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow

#: The versions of :meth:`DigestResult.to_dict`, and of the predicate in :func:`in_toto_statement`.
SCHEMA = "fatpack.digests/1"
PREDICATE = "urn:x-fatpack:device-code-digests:1"
_STATEMENT = "https://in-toto.io/Statement/v1"


class ImageDigest(Record):
    """The canonical digest of an image, its place (``position``, ``member``), and what it is (``label``, ``form``)."""

    position: str
    member: str
    label: str
    form: str
    digest: str


class FileDigest(Record):
    """The canonical digest of the device code of a file, and those of its images in stored order.

    ``digest`` is None where the file could not be read, or not completely: ``problem`` says why. ``sha256`` is that of
    the bytes of the file, if it was asked for.
    """

    path: str
    digest: str | None = None
    images: tuple[ImageDigest, ...] = ()
    sha256: str | None = None
    problem: str = ""
    exit_code: int = 0


class DigestResult(Result):
    """The canonical digests of the files with device code, and the files that could not be read.

    ``unlooked`` counts the inputs that were skipped, ``unmatched`` are the patterns that no file has.
    """

    files: tuple[FileDigest, ...]
    unlooked: Skipped = Skipped()
    unmatched: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """That of the worst file; 1 if a pattern matches nothing, and if there is no device code at all."""
        is_short = bool(self.unmatched) or not self.files
        return worst_exit_code((FINDINGS if is_short else 0, *(item.exit_code for item in self.files)))

    @property
    def verdict(self) -> str:
        """``known``, ``empty`` without device code, or ``unreadable`` where a file has no digest."""
        unread = any(item.digest is None for item in self.files)
        return "unreadable" if unread else "known" if self.files else "empty"

    def lines(self) -> Sequence[str]:
        """Return the digest and the path of each file, as ``sha256sum`` writes them; or why there is none."""
        return [
            f"{item.digest}  {item.path}" if item.digest else f"{item.path}: {item.problem}" for item in self.files
        ] or ["no device code found"]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data: what ``fatpack inspect --digest --json`` prints."""
        return {"schema": SCHEMA, **to_plain_data(self), "verdict": self.verdict, "exit_code": self.exit_code}


def digest(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    exclude: Sequence[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> DigestResult:
    """Return the canonical digest of the device code of each file, which builds of one source have in common.

    Times, paths, names of temporary files, order, compression and the format of containers do not count;
    ``docs/design/digest.md`` says what does. ``paths``, ``exclude``, ``deep`` and ``max_inflated`` are those of
    :func:`fatpack.files`. Files without device code are left out.

    Nothing is raised for a file: one that could not be read completely has no digest, and the reason in ``problem``.
    """
    names, left_out = as_paths("paths", paths), as_patterns(exclude)
    check_bools(deep=deep)
    return read_digests(names, Filter(left_out, deep), budget=make_budget(max_inflated))


def read_digests(
    paths: Sequence[str],
    rules: Filter,
    *,
    budget: Budget | None = None,
    opener: Opener | None = None,
    whole_files: bool = False,
) -> DigestResult:
    """Return the digests of files; with ``whole_files`` also the SHA-256 of their bytes. Raises UsageError alone."""
    counts, unmatched = SkipCounts(), list[str]()
    reader = _DigestReader(RowOptions(identity=True, deep=rules.deep), whole_files)
    found: list[FileDigest] = []
    for path in paths:
        try:
            made = map_paths([path], reader, rules, counts, unmatched, budget=budget, opener=opener, shares_inside=True)
            for item in made:
                if item is not None:
                    found.append(item)
        except UsageError:
            raise
        except (FatpackError, OSError) as error:
            found.append(FileDigest(path, problem=error_message(error), exit_code=exit_code(error)))
    return DigestResult(tuple(found), make_skipped(counts), tuple(unmatched))


class _DigestReader(Record):
    """Makes the digest of a file; None for a file without device code."""

    options: RowOptions
    whole_files: bool

    def __call__(self, leaf: InputFile) -> FileDigest | None:
        found = digest_of_rows(leaf.path, read_file_rows(leaf, self.options))
        if found is None or found.digest is None:
            return found
        return found.replace(sha256=self._sha256(leaf))

    def _sha256(self, leaf: InputFile) -> str | None:
        from fatpack.io.source import sha256_of_pieces

        return sha256_of_pieces([leaf.view]).hex() if self.whole_files and leaf.view is not None else None


def digest_of_rows(path: str, rows: Iterable[AnyRow]) -> FileDigest | None:
    """Return the digest of a file from its rows, which were read with ``identity``; None without device code."""
    from fatpack.images.identity import digest_of_images

    images: list[ImageDigest] = []
    problem, code, end = "", 0, CompletenessCheck()
    for row in rows:
        missed = end.missed(row)
        if missed is not None:
            problem = problem or row.error or missed.problem
            code = worst_exit_code((code, missed.exit_code))
        elif isinstance(row, ImageRow) and _is_device_code(row):
            where, form = row.position or row.member or "", row.form or ""
            if row.digest is None:
                problem = problem or f"image {where or 'alone'} was not read ({form or 'unknown form'})"
                code = worst_exit_code((code, MALFORMED))
            else:
                images.append(ImageDigest(row.position or "", row.member or "", row.label or "", form, row.digest))
    if problem:
        return FileDigest(path, None, tuple(images), None, problem, code)
    if not images:
        return None
    return FileDigest(path, digest_of_images(item.digest for item in images), tuple(images))


def _is_device_code(row: ImageRow) -> bool:
    """Return whether a row is an image that counts: not the host's, not empty, no container of other images."""
    return row.row == "image" and not row.containers and row.size != 0 and row.offload != "host"


def digest_lines(result: DigestResult, *, verbose: int = 0) -> Iterator[str]:
    """Yield a line for each file with a digest, as ``sha256sum`` writes it; with ``verbose`` its images below it."""
    for item in result.files:
        if item.digest is None:
            continue
        yield printable(f"{item.digest}  {item.path}")
        for image in item.images if verbose else ():
            words = (image.position, image.member, image.label, image.form)
            yield printable(f"  {image.digest}  {'  '.join(filter(None, words))}")


def problem_messages(result: DigestResult, paths: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong, for stderr: files without a digest, patterns that no file has, no device code at all."""
    for item in result.files:
        if item.digest is None:
            words = item.problem if item.problem.startswith(item.path) else f"{item.path}: {item.problem}"
            yield printable(f"fatpack: error: {words}")
    for name in result.unmatched:
        yield printable(f"fatpack: warning: no file matches {name}")
    if not result.files and not result.unmatched:
        yield printable(f"fatpack: error: {', '.join(paths)}: no device code found")
    if not result.unlooked.is_asked:
        yield f"fatpack: note: {result.unlooked.sentence()}"


def in_toto_statement(result: DigestResult) -> dict[str, Any]:
    """Return the digests as a statement of in-toto 1.0, whose predicate ``docs/design/digest.md`` describes."""
    return {
        "_type": _STATEMENT,
        "subject": [{"name": item.path, "digest": {"sha256": item.sha256}} for item in result.files],
        "predicateType": PREDICATE,
        "predicate": {
            "files": [
                {"name": item.path, "digest": item.digest, "images": to_plain_data(item.images)}
                for item in result.files
            ]
        },
    }


def show_digests(
    files: Sequence[str], *, as_json: bool, in_toto: bool, deep: bool, exclude: tuple[str, ...], verbose: int
) -> int:
    """Print the digests of files, and return the exit code. A statement of in-toto is printed only if all were read."""
    import sys

    from fatpack.command_line.messages import print_stderr
    from fatpack.command_line.terminal import write_document
    from fatpack.selectors.address import open_argument
    from fatpack.text.style import write_lines

    result = read_digests(files, Filter(exclude, deep), opener=open_argument, whole_files=in_toto)
    if as_json:
        write_document(result.to_dict())
        return result.exit_code
    if not in_toto:
        write_lines(digest_lines(result, verbose=verbose), sys.stdout)
    elif not result.exit_code:
        write_document(in_toto_statement(result))
    sys.stdout.flush()
    for line in problem_messages(result, files):
        print_stderr(line)
    return result.exit_code
