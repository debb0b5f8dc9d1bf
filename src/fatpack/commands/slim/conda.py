"""Slim a conda package: its libraries, and the paths.json, build string and file name that follow from them."""

from __future__ import annotations

import re

from fatpack.commands.slim.outcome import HEAD_SIZE, PackageLibrary, may_hold_device_code, try_to_slim
from fatpack.distributions.conda_packages import (
    INDEX,
    SUFFIXES,
    CondaContents,
    check_paths,
    read_document,
    update_paths,
)
from fatpack.errors import FatpackError, UsageError, cli_or_api
from fatpack.io.source import PiecesSource
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from fatpack.commands.slim.outcome import Slimming
    from fatpack.distributions.conda_packages import JsonDocument, TarEdit, WrittenConda
    from fatpack.io.source import Piece, View

#: what the build string of a package may be (CEP 26)
_BUILD = re.compile(r"[A-Za-z0-9_.+]+")


class SlimmedConda(Record):
    """A conda package with slimmed libraries, to be written under ``name``; one that stays has its old name and bytes.

    ``libraries`` are the files that were looked at; their sizes in the package are unknown, as they are compressed
    together. ``notes`` are what a user should know.
    """

    name: str
    pieces: Sequence[Piece]
    libraries: tuple[PackageLibrary, ...]
    notes: tuple[str, ...] = ()
    written: WrittenConda | None = None

    @property
    def is_changed(self) -> bool:
        """True if a library is changed, and so the package."""
        return self.written is not None

    def verify(self, after: View) -> None:
        """Raise HostError unless a file is this package, by other readers of zip and tar archives."""
        if self.written is not None:
            self.written.verify(after)


def slim_conda(view: View, file_name: str, slimming: Slimming, build_tag: str, stack: ExitStack) -> SlimmedConda:
    """Return a package in which ``slimming`` was applied to every file that may hold device code.

    ``file_name`` is its own, without folder; ``build_tag`` comes in front of its build string if it changes. What was
    inflated of it stays until ``stack`` closes it, when the result is written. Raises
    UsageError without one, FormatError where a changed library is another than ``paths.json`` says, HostError and
    Unsupported for packages that cannot be written, and what ``slimming`` raises.
    """
    contents = CondaContents(view, file_name, stack)
    files, info = contents.edits()
    libraries = tuple(_slim_files(files, slimming))
    if not files.is_changed:
        return SlimmedConda(file_name, [view], libraries)
    index = read_document(info, INDEX)
    name = rename_conda(index, file_name, build_tag)
    digests = check_paths(files.tar, info, list(files.digests))
    info.put(INDEX, [index.written()])
    notes = update_paths(files, info, digests)
    written = contents.written(name, files, info)
    return SlimmedConda(name, written.pieces, libraries, notes, written)


def rename_conda(index: JsonDocument, file_name: str, build_tag: str) -> str:
    """Return the new file name, and put the build string into the index. Raises UsageError."""
    stem, suffix = next((file_name.removesuffix(end), end) for end in (*SUFFIXES, "") if file_name.endswith(end))
    facts = [index.values.get(key) for key in ("name", "version", "build")]
    if not suffix or "-".join(map(str, facts)) != stem:
        expected = "-".join(map(str, facts))
        hint = f"give it its first name again: {expected}.conda or {expected}.tar.bz2"
        raise UsageError(f"{file_name} is not the name of this package", hint=hint)
    if not build_tag:
        option = cli_or_api("--build-tag slim", "build_tag='slim'")
        raise UsageError(
            f"{file_name} changes, so the new file needs another name",
            hint=f"{option} puts a word in front of its build string",
        )
    if _BUILD.fullmatch(build_tag) is None:
        text = f"build tag {build_tag!r}: a build string has letters, digits, _, . and +"
        raise UsageError(text, hint="for example sm90")
    index.values["build"] = f"{build_tag}_{facts[2]}"
    return f"{facts[0]}-{facts[1]}-{index.values['build']}{suffix}"


def _slim_files(files: TarEdit, slimming: Slimming) -> Iterator[PackageLibrary]:
    """Apply ``slimming`` to every file that may hold device code; yield what was looked at."""
    for name, file in files.files.items():
        if name.startswith("info/") or not file.size:
            continue
        view = files.tar.content(file).view()
        if not may_hold_device_code(name, view.head(0, HEAD_SIZE)):
            continue
        outcome = try_to_slim(slimming, view)
        if isinstance(outcome, FatpackError):
            yield PackageLibrary(name, file.size, file.size, None, None, None, outcome)
            continue
        if outcome.is_changed:
            outcome.verify(view, PiecesSource(outcome.pieces, name).view())
            files.put(name, outcome.pieces)
        yield PackageLibrary(name, file.size, files.sizes.get(name, file.size), None, None, outcome)
