"""Folders with slimmed libraries: a copy of everything, or each library in its place; the RECORDs of wheels follow.

Links are copied as links and never followed. A file with several names is copied under each. Folders of a copy are
closed to others while they are filled, and get permissions and times of the old ones then.
"""

from __future__ import annotations

import os
from contextlib import suppress

from fatpack.commands.slim.outcome import (
    PackageLibrary,
    SlimOutcome,
    file_may_hold_device_code,
    goes_whole,
    try_to_slim,
    without_pieces,
)
from fatpack.commands.slim.result import prove_left_out, prove_slimmed
from fatpack.commands.slim.whole_files import is_table, is_table_name
from fatpack.distributions import wheel_metadata
from fatpack.edit.editor import write_in_place
from fatpack.errors import BadValue, FatpackError, FormatError, HostError, UsageError, cli_or_api, pluralize
from fatpack.io.atomic_write import MODE_OF_COPIES, write_file
from fatpack.io.open import open_source
from fatpack.io.source import PiecesSource, View, sha256_of_pieces
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.slim.outcome import SlimmedMember, Slimming
    from fatpack.commands.slim.store_files import StoreFiles
    from fatpack.commands.slim.used import UseRequest
    from fatpack.io.source import Piece

#: LIMIT: bytes of a RECORD, which is read whole
_TEXT = 64 << 20


class FolderJob(Record):
    """The slimming of a folder: a copy goes to ``output``, or with None each library is changed ``in_place``, or none.

    Each library that changed is verified before it gets its name; one that is changed in place is proved, too.
    ``break_links`` lets files with several names be
    changed in place, ``force`` writes over files of the output. ``use`` names kernels, of which one must be here.
    ``stores`` decides which files of kernel stores go as a whole; None if none may.
    """

    path: str
    output: str | None
    in_place: bool
    break_links: bool = False
    force: bool = False
    use: UseRequest | None = None
    stores: StoreFiles | None = None

    def slim(self, slimming: Slimming, notes: list[str]) -> Iterator[PackageLibrary]:
        """Slim every library; yield each when it is done. ``notes`` gets what a user should know.

        In place, a library that cannot be changed stays, with its error, and the others are changed all the same.

        Raises UsageError for an output that is in the way, ``OSError``, and what ``slimming`` raises for all files.
        """
        self._check_output()
        if self.output is not None or self.in_place:
            self._refuse(slimming)
        made = None if self.output is None else _Folders(self.path, self.output)
        changed: dict[str, tuple[bytes, int] | None] = {}
        is_complete = False
        try:
            yield from self._slim(slimming, made, changed, notes)
            is_complete = True
        finally:
            if made is not None and not is_complete:
                notes.append(f"{self.output} is an incomplete copy: remove it, and slim again")
            elif self.in_place and changed and not is_complete:
                count = pluralize(len(changed), "file")
                notes.append(f"{count} changed, and RECORDs may not follow: install the packages that are there again")

    def _slim(
        self,
        slimming: Slimming,
        made: _Folders | None,
        changed: dict[str, tuple[bytes, int] | None],
        notes: list[str],
    ) -> Iterator[PackageLibrary]:
        records: list[str] = []
        links: list[str] = []
        for name in _walk(self.path, made, notes, links):
            if name.endswith(".dist-info/RECORD"):
                records.append(name)
            elif self.stores is not None and self._is_table(name):
                size = os.path.getsize(os.path.join(self.path, name))
                self.stores.take_table(PackageLibrary(name, size, size, None, None, None))
            else:
                library = self._file(name, slimming, changed)
                if library is not None and not (self.stores is not None and self.stores.take(library)):
                    yield library
        if self.stores is not None:
            yield from self._whole_files(self.stores, links, changed)
        for name in records:
            try:
                self._record(name, changed, notes)
            except (UsageError, OSError) as error:
                if not self.in_place:
                    raise
                yield PackageLibrary(name, 0, 0, None, None, None, error)
        if made is not None:
            made.finish()

    def _is_table(self, name: str) -> bool:
        if not is_table_name(name):
            return False
        with open_source(os.path.join(self.path, name)) as source:
            return is_table(name, source.view())

    def _refuse(self, slimming: Slimming) -> None:
        """Raise what slimming a file raises for all of them, and UsageError for a folder without files to slim.

        Nothing is written before.
        """
        outcomes = []
        for name in _walk(self.path, None, [], []):
            path = os.path.join(self.path, name)
            if file_may_hold_device_code(name, path):
                with open_source(path) as source:
                    plan = getattr(try_to_slim(slimming, source.view()), "plan", None)
                    outcomes.append(SlimOutcome(name, source.size, 0, "", plan))
        if not outcomes:
            raise UsageError(f"{self.path} has no file that may hold device code")
        if self.use is not None:
            from fatpack.commands.slim.used import refuse_unused

            refuse_unused(outcomes, self.use)

    def _whole_files(
        self, stores: StoreFiles, links: Sequence[str], changed: dict[str, tuple[bytes, int] | None]
    ) -> Iterator[PackageLibrary]:
        """Leave out, or remove in place, the files of kernel stores that go; copy the others. Yield what has code."""
        linked = {os.path.realpath(os.path.join(self.path, link)) for link in links}
        for library, goes in stores.decide():
            path = os.path.join(self.path, library.name)
            if not goes or os.path.realpath(path) in linked:
                self._copy(library.name)
                if goes:
                    stores.keep(library.name)
                    error = HostError("a link leads to it", hint="remove the link first, if nothing needs it")
                    yield library.replace(slimmed=None, error=error)
                elif not is_table_name(library.name):
                    yield library
                continue
            if self.in_place:
                try:
                    with open_source(path) as source:
                        prove_left_out(library.name, source.view())
                    os.unlink(path)
                except (FormatError, HostError, OSError) as error:
                    # Other files were changed before it: this one stays, and is reported with them.
                    stores.keep(library.name)
                    yield library.replace(slimmed=None, error=error)
                    continue
            changed[library.name] = None
            yield library.replace(after=0)

    def _check_output(self) -> None:
        if self.output is None:
            return
        source, target = os.path.realpath(self.path), os.path.realpath(self.output)
        if os.path.commonpath([source, target]) in (source, target):
            raise UsageError(f"{self.output} and {self.path}: one contains the other", hint="choose another output")
        if not self.force and os.path.isdir(self.output) and os.listdir(self.output):
            hint = f"choose another output, or {cli_or_api('--force', 'overwrite=True')} to write over it"
            raise UsageError(f"{self.output} is not empty", hint=hint)

    def _file(
        self, name: str, slimming: Slimming, changed: dict[str, tuple[bytes, int] | None]
    ) -> PackageLibrary | None:
        path = os.path.join(self.path, name)
        if not file_may_hold_device_code(name, path):
            self._copy(name)
            return None
        with open_source(path) as source:
            view = source.view()
            outcome = try_to_slim(slimming, view)
            if isinstance(outcome, FatpackError) or not outcome.is_changed:
                self._copy(name)
                error = outcome if isinstance(outcome, FatpackError) else None
                slimmed = None if isinstance(outcome, FatpackError) else outcome
                return PackageLibrary(name, len(view), len(view), None, None, slimmed, error)
            if goes_whole(outcome):
                return PackageLibrary(name, len(view), len(view), None, None, outcome)
            digest = sha256_of_pieces(outcome.pieces)
            try:
                size = self._write(name, view, outcome)
            except (UsageError, HostError, OSError) as error:
                if not self.in_place:
                    raise
                # Other files were changed before it: this one stays, and is reported with them.
                return PackageLibrary(name, len(view), len(view), None, None, None, error)
            changed[name] = digest, size
            return PackageLibrary(name, len(view), size, None, None, without_pieces(outcome))

    def _write(self, name: str, view: View, slimmed: SlimmedMember) -> int:
        path = os.path.join(self.path, name)

        def verify(after: View) -> None:
            slimmed.verify(view, after)

        if self.output is not None:
            mode = os.stat(path).st_mode & MODE_OF_COPIES
            target = self._target(name)
            return write_file(target, list(slimmed.pieces), force=self.force, mode=mode, inputs=[view], verify=verify)
        if self.in_place:

            def proved(before: View, after: View) -> None:
                slimmed.verify(before, after)
                prove_slimmed(before, after)

            return write_in_place(view, slimmed.pieces, path, break_links=self.break_links, check=proved).size
        after = PiecesSource(slimmed.pieces, path)
        verify(after.view())
        return after.size

    def _target(self, name: str) -> str:
        assert self.output is not None
        return os.path.join(self.output, name)

    def _copy(self, name: str, pieces: Sequence[Piece] | None = None) -> None:
        """Copy a file with its permissions and times, if there is an output."""
        if self.output is None:
            return
        path, target = os.path.join(self.path, name), self._target(name)
        status = os.stat(path)
        with open_source(path) as source:
            view = source.view()
            content = [view] if pieces is None else pieces
            write_file(target, content, force=self.force, mode=status.st_mode & MODE_OF_COPIES, inputs=[view])
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _record(self, name: str, changed: dict[str, tuple[bytes, int] | None], notes: list[str]) -> None:
        """Bring the RECORD of an installed wheel in step with its files."""
        base = os.path.dirname(os.path.dirname(name))
        path = os.path.join(self.path, name)
        own = {os.path.relpath(file, base or os.curdir): facts for file, facts in changed.items()}
        with open_source(path) as source:
            if source.size > _TEXT:
                if any(not file.startswith(os.pardir + os.sep) for file in own):
                    notes.append(f"{name} was not updated and is out of date: it has more than {_TEXT >> 20} MiB")
                self._copy(name)
                return
            data = source.read(0, source.size)
            try:
                lines = wheel_metadata.parse_record(data, (path,))
            except BadValue as error:
                notes.append(f"{name} was not updated: {error.describe()}")
                lines = []
            hashed = {line.path: line.hash_name for line in lines}
            for file, facts in own.items():
                if facts is not None and hashed.get(file) not in ("sha256", "", None):
                    notes.append(f"{name} names {file} by {hashed[file]}, which is out of date now")
            gone = {file for file, facts in own.items() if facts is None}
            known = {file: facts for file, facts in own.items() if facts is not None and hashed.get(file) == "sha256"}
            staying = [line for line in lines if line.path not in gone]
            new = wheel_metadata.rewrite_record(staying, known, {}) if known or len(staying) < len(lines) else data
            if new == data:
                self._copy(name)
            elif self.output is not None:
                self._copy(name, [new])
            elif self.in_place:
                write_in_place(source.view(), [new], path, break_links=self.break_links, check=lambda _old, _new: None)


class _Folders:
    """The folders and links of a copy."""

    def __init__(self, path: str, output: str) -> None:
        self._path, self._output = path, output
        self._made: list[str] = []

    def make(self, name: str) -> None:
        """Make a folder with access for its owner alone until it is finished. Raises UsageError for what is in the way.

        A folder for the output that is there already keeps its permissions.
        """
        target = os.path.join(self._output, name) if name else self._output
        if name and os.path.islink(target):
            raise UsageError(f"{target} is a link, but a folder must be there", hint="remove it")
        if not os.path.isdir(target):
            os.makedirs(os.path.dirname(target) or os.curdir, exist_ok=True)
            os.mkdir(target, 0o700)
        elif not name:
            return
        self._made.append(name)

    def link(self, name: str) -> None:
        """Make a link, in the place of a link or file that is there."""
        source, target = os.path.join(self._path, name), os.path.join(self._output, name)
        if os.path.isdir(target) and not os.path.islink(target):
            raise UsageError(f"{target} is a folder, but a link must be there", hint="remove it")
        with suppress(FileNotFoundError):
            os.unlink(target)
        os.symlink(os.readlink(source), target)
        status = os.lstat(source)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)

    def finish(self) -> None:
        """Give the folders the permissions and times of the old ones, the innermost first."""
        for name in reversed(self._made):
            status, target = os.stat(os.path.join(self._path, name)), os.path.join(self._output, name)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.chmod(target, status.st_mode & MODE_OF_COPIES)


def _walk(folder: str, made: _Folders | None, notes: list[str], links: list[str]) -> Iterator[str]:
    """Yield the names of all regular files below a folder, in order; folders and links are made in a copy.

    ``links`` gets the names of links.
    """
    pending = [""]
    special = 0
    while pending:
        inside = pending.pop()
        if made is not None:
            made.make(inside)
        folders = []
        with os.scandir(os.path.join(folder, inside)) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = os.path.join(inside, entry.name)
            if entry.is_symlink():
                links.append(name)
                if made is not None:
                    made.link(name)
            elif entry.is_dir():
                folders.append(name)
            elif entry.is_file():
                yield name
            else:
                special += 1
        pending += reversed(folders)
    if special:
        notes.append(f"pipes, sockets and devices are not copied: {special}")
