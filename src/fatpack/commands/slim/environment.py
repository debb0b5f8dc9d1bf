"""Environments slimmed in place: virtual environments, conda prefixes and roots with dpkg, with a journal.

Only files that an installed package lists are changed: an installation restores them. Each is verified and proved,
written beside the old one and renamed, so other names of the old file (hard links of uv's and conda's caches) keep it.
The descriptions of packages follow when all libraries are done.

The journal is written before each change, so a run that was interrupted is finished by the next one: a library
has the digest from before, and is slimmed; or the one from after, and its description follows; or another one, as the
package was installed again, and the journal forgets it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import contextmanager, suppress

from fatpack.commands.slim.outcome import (
    PackageLibrary,
    count_by_arch,
    exit_code_for,
    file_may_hold_device_code,
    find_unsupported_devices,
    refuse_all,
    try_to_slim,
    without_pieces,
)
from fatpack.commands.slim.request import SlimResult, options_with_rules
from fatpack.commands.slim.result import plan_with_digests, prove_slimmed
from fatpack.distributions.installed import (
    FileChange,
    FileDigests,
    digests_of,
    owners_by_file,
    read_descriptions,
    reinstall_commands,
)
from fatpack.errors import BadValue, FatpackError, HostError, UsageError, cli_or_api, pluralize
from fatpack.io.atomic_write import read_file_metadata, write_file
from fatpack.io.open import open_source, read_regular_file
from fatpack.io.source import PiecesSource
from fatpack.library.arguments import as_path, as_strings, check_bools
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.slim.outcome import SlimmedMember, Slimming
    from fatpack.io.source import Piece, View
    from fatpack.literals import KeepPtx, SlimMode

#: the folder of the journal in an environment, and the journal in it
FOLDER, JOURNAL = ".fatpack-slim", "journal.json"

_SCHEMA = "fatpack.slim-journal/1"

#: LIMIT: bytes of a journal, which is read whole. 10,000 libraries take 8 MB.
_LARGEST = 64 << 20


# The journal: the files that were changed, with the digests of every state, and what restores them.


class JournalEntry(Record):
    """A file that was changed or is about to be: ``states`` are its digests, the first from before all changes.

    ``is_library`` is False for a description of a package. ``kept`` and ``dropped`` count images by architecture.
    """

    path: str
    is_library: bool
    states: tuple[FileDigests, ...]
    kept: Mapping[str, int]
    dropped: Mapping[str, int]

    def state(self, digest: str) -> int | None:
        """Return the number of the state with a SHA-256; None if the file never had it."""
        return next((number for number, state in enumerate(self.states) if state.sha256 == digest), None)


class Journal:
    """The journal of an environment: ``entries`` by the path of the file in it.

    ``backup`` is the folder of the originals, "" for none. ``is_complete`` says that descriptions are in step with the
    libraries; ``restore`` are the commands that install the packages again.
    """

    def __init__(self, environment: str) -> None:
        self.path = os.path.join(environment, FOLDER, JOURNAL)
        for place in (os.path.dirname(self.path), self.path):
            if os.path.islink(place):
                raise UsageError(f"{place} is a symbolic link: the journal would be elsewhere", hint="remove the link")
        self.backup = ""
        self.is_complete = True
        self.restore: Sequence[str] = ()
        self.entries: dict[str, JournalEntry] = {}
        if os.path.exists(self.path):
            self._read()

    def _read(self) -> None:
        data = read_regular_file(self.path, _LARGEST, "remove it: it is no journal")
        try:
            document: dict[str, Any] = json.loads(data)
            if document["schema"] != _SCHEMA:
                raise ValueError(f"schema {document['schema']!r}")
            self.backup = str(document["backup"] or "")
            if "\0" in self.backup:
                raise ValueError(f"backup {self.backup!r}")
            self.is_complete = bool(document["complete"])
            self.restore = [str(line) for line in document["restore"]]
            for item in document["files"]:
                states = tuple(_digests(state) for state in item["states"])
                parts = item["path"].split("/")
                if not states or os.path.isabs(item["path"]) or os.pardir in parts or "\0" in item["path"]:
                    raise ValueError(f"file {item['path']!r}")
                facts = dict(item["kept"]), dict(item["dropped"])
                self.entries[item["path"]] = JournalEntry(item["path"], item["kind"] == "library", states, *facts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise BadValue(
                "the journal is damaged",
                format="environment",
                field="content",
                expected=_SCHEMA,
                found=f"{type(error).__name__}: {error}",
                hint="install the packages again, and remove the journal",
                chain=(self.path,),
            ) from error

    def write(self, *, is_complete: bool) -> None:
        """Write the journal, whole or not at all."""
        self.is_complete = is_complete
        document = {
            "schema": _SCHEMA,
            "complete": is_complete,
            "backup": self.backup or None,
            "restore": list(self.restore),
            "files": [
                {
                    "path": entry.path,
                    "kind": "library" if entry.is_library else "description",
                    "states": [{"size": state.size, **state.hashes} for state in entry.states],
                    "kept": dict(entry.kept),
                    "dropped": dict(entry.dropped),
                }
                for _, entry in sorted(self.entries.items())
            ],
        }
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        write_file(self.path, [json.dumps(document, indent=2).encode(), b"\n"], force=True)

    def remove_unfinished_files(self) -> int:
        """Remove the temporary files of a run that was killed, and return how many there were.

        They are beside the files of the journal, in its folder or in that of the originals. While the environment is
        locked no other run owns them; a journal that is complete has none.
        """
        from fatpack.io.temporary import find_stale_temp_files

        if self.is_complete:
            return 0
        root = os.path.dirname(os.path.dirname(self.path))
        files = [os.path.join(root, name) for name in self.entries]
        folders = {os.path.dirname(file) for file in files if not _is_by_link(file)}
        folders |= {os.path.dirname(self.path), *filter(None, [self.backup])}
        found = [path for folder in folders for path, _ in find_stale_temp_files(folder, 0)]
        for path in found:
            with suppress(OSError):
                os.unlink(path)
        return len(found)

    def remove(self) -> None:
        """Remove the journal and its folder."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        with suppress(OSError):  # a folder with other files in it stays
            os.rmdir(os.path.dirname(self.path))


def _digests(state: Mapping[str, Any]) -> FileDigests:
    found = FileDigests(int(state["size"]), {str(key): str(value) for key, value in state.items() if key != "size"})
    if len(found.sha256) != 64 or not found.sha256.isalnum():
        raise ValueError(f"sha256 {found.sha256!r}")
    return found


@contextmanager
def only_run(environment: str) -> Iterator[bool]:
    """Keep other runs away from an environment: each would write a journal without the changes of the other.

    Yields True if they are kept away: Windows has no such locks, nor have some file systems. Raises HostError where
    another one is at work.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    folder = os.open(environment, os.O_RDONLY)
    is_locked = True
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HostError(
                "another run of fatpack changes this environment", hint="wait for its end", chain=(environment,)
            ) from error
        except OSError:
            is_locked = False  # file systems without locks
        yield is_locked
    finally:
        os.close(folder)


# The libraries of an environment, and the descriptions of their packages.


class EnvironmentJob:
    """The slimming of an environment in place; nothing is written with ``is_trial``.

    ``backup`` is the folder that the originals go to, named by their SHA-256; "" for none. ``is_checked_first`` plans
    every library before one is changed: for a slimming that refuses all for one.
    """

    def __init__(self, path: str, *, backup: str = "", is_trial: bool = False, is_checked_first: bool = False) -> None:
        self._root = os.path.realpath(path)
        self._descriptions = read_descriptions(self._root)
        self.journal = Journal(self._root)
        self._is_trial, self._is_checked_first = is_trial, is_checked_first
        self._changes: dict[str, FileChange] = {}
        self._claims: dict[str, set[str]] = {}
        for one in self._descriptions:
            for place, names in one.files.items():
                self._claims.setdefault(place, set()).update(names)
        self._owners = owners_by_file(self._descriptions)
        self._backup = os.path.realpath(backup) if backup else ""

    def _choose_backup(self) -> None:
        folder = self._backup
        if folder and self.journal.backup not in ("", folder):
            raise UsageError(
                f"the originals of {self._root} are in {self.journal.backup}",
                hint=cli_or_api(f"--backup {self.journal.backup}", f"backup={self.journal.backup!r}"),
            )
        if folder and not self.journal.backup and any(entry.is_library for entry in self.journal.entries.values()):
            raise UsageError(
                f"{self._root} was slimmed without a backup, and its originals are gone",
                hint="install the packages again first: " + "; ".join(self.journal.restore),
            )
        self.journal.backup = folder or self.journal.backup

    def slim(self, slimming: Slimming, notes: list[str]) -> Iterator[PackageLibrary]:
        """Slim every library that a package lists; yield each when it is done. ``notes`` gets what a user should know.

        A library that cannot be changed stays, with its error, and the others are changed all the same.
        """
        if self._is_trial:
            yield from self._slim(slimming, notes)
            return
        with only_run(self._root) as is_locked:
            self.journal = Journal(self._root)  # another run may have ended since
            if is_locked:
                count = self.journal.remove_unfinished_files()
                if count:
                    notes.append(f"{pluralize(count, 'unfinished file')} of a run that was killed: removed")
            yield from self._slim(slimming, notes)

    def _slim(self, slimming: Slimming, notes: list[str]) -> Iterator[PackageLibrary]:
        self._resume()
        self._choose_backup()
        libraries = list(self._libraries(notes))
        if self._is_checked_first and not self._is_trial:
            for path in libraries:
                with open_source(path) as source:
                    try_to_slim(slimming, source.view())
        for path in libraries:
            yield self._library(path, slimming)
        if self._is_trial:
            return
        if self._changes or not self.journal.is_complete:
            self._describe(notes)

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._root).replace(os.sep, "/")

    def _libraries(self, notes: list[str]) -> Iterator[str]:
        """Yield the paths of listed files that are in the environment, in order; links are never followed."""
        shared = 0
        for path in sorted(self._claims):
            if os.path.commonpath([path, self._root]) != self._root or not os.path.lexists(path):
                continue
            if os.path.islink(path):
                target = os.path.realpath(path)
                shared += os.path.isfile(target) and os.path.commonpath([target, self._root]) != self._root
            elif os.path.isfile(path) and file_may_hold_device_code(self._name(path), path):
                yield path
        if shared:
            links = pluralize(shared, "file")
            notes.append(f"{links} of packages are links to files elsewhere (uv --link-mode symlink): they stay")

    def _resume(self) -> None:
        """Take the changes of earlier runs from the journal, and forget files that were installed again."""
        for name, entry in list(self.journal.entries.items()):
            path = os.path.join(self._root, name)
            if not os.path.isfile(path) or _is_by_link(path):
                del self.journal.entries[name]
                continue
            number = None
            if os.path.getsize(path) in {state.size for state in entry.states}:
                with open_source(path) as source:
                    number = entry.state(digests_of([source.view()], ()).sha256)
            if not number:
                del self.journal.entries[name]  # as it was before, or installed again
                continue
            # States after this one were planned, and the run ended before the file got there.
            self.journal.entries[name] = entry.replace(states=entry.states[: number + 1])
            if entry.is_library:
                self._changes[path] = FileChange(entry.states[number], entry.states[:number])

    def _library(self, path: str, slimming: Slimming) -> PackageLibrary:
        name = self._name(path)
        with open_source(path) as source:
            view = source.view()
            size = len(view)
            outcome = try_to_slim(slimming, view)
            if isinstance(outcome, FatpackError):
                return PackageLibrary(name, size, size, None, None, None, outcome)
            if not outcome.is_changed:
                return PackageLibrary(name, size, size, None, None, outcome)
            after = PiecesSource(outcome.pieces, path)
            if self._is_trial:
                outcome.verify(view, after.view())
                return PackageLibrary(name, size, after.size, None, None, outcome)
            hash_names = self._claims[path]
            before, new = digests_of([view], hash_names), digests_of(outcome.pieces, hash_names)
            try:
                self._write(path, view, outcome.pieces, self._entry(name, before, new, outcome), outcome)
            except (UsageError, HostError, OSError) as error:
                return PackageLibrary(name, size, size, None, None, None, error)
            self._changes[path] = FileChange(new, self.journal.entries[name].states[:-1])
            return PackageLibrary(name, size, after.size, None, None, without_pieces(outcome))

    def _entry(self, name: str, before: FileDigests, new: FileDigests, made: SlimmedMember | None) -> JournalEntry:
        old = self.journal.entries.get(name)
        states = (before,) if old is None else old.states
        plan = getattr(made, "plan", None)
        kept, dropped = (count_by_arch(plan.kept), count_by_arch(plan.dropped)) if plan is not None else ({}, {})
        return JournalEntry(name, made is not None, (*states, new), kept, dropped)

    def _write(
        self, path: str, view: View, pieces: Sequence[Piece], entry: JournalEntry, made: SlimmedMember | None
    ) -> None:
        """Write a file, after the journal and the backup; a failure leaves the journal as it was."""
        old = dict(self.journal.entries)
        self.journal.entries[entry.path] = entry
        owners = [self._owners.get(os.path.join(self._root, name)) for name in self.journal.entries]
        self.journal.restore = reinstall_commands(self._root, filter(None, owners))
        self.journal.write(is_complete=False)
        try:
            self._exchange(path, view, pieces, entry, made)
        except (FatpackError, OSError):
            self.journal.entries = old
            raise

    def _exchange(
        self, path: str, view: View, pieces: Sequence[Piece], entry: JournalEntry, made: SlimmedMember | None
    ) -> None:
        if self.journal.backup and len(entry.states) == 2:
            _keep(path, view, self.journal.backup, entry.states[0])

        def proved(after: View) -> None:
            if made is not None:
                made.verify(view, after)
                prove_slimmed(view, after)
            view.source.release_name()

        write_file(path, list(pieces), force=True, like=read_file_metadata(path), verify=proved)

    def _describe(self, notes: list[str]) -> None:
        """Bring the descriptions of packages in step with the files, and finish the journal."""
        for one in self._descriptions:
            if one.files.keys().isdisjoint(self._changes) and one.installer != "conda":
                continue
            new = one.rewritten(self._changes)
            if new is None:
                continue
            with open_source(one.path) as source:
                view = source.view()
                entry = self._entry(self._name(one.path), digests_of([view], ()), digests_of([new], ()), None)
                self._write(one.path, view, [new], entry, None)
        stale = sum(one.wrong for one in self._descriptions)
        if stale:
            notes.append(f"{pluralize(stale, 'digest')} of packages was of another file before, and stays as it is")
        self.journal.write(is_complete=True)


def _keep(path: str, view: View, backup: str, digests: FileDigests) -> None:
    """Keep an original: as another name of the same file where that is possible, else as a copy."""
    os.makedirs(backup, exist_ok=True)
    target = os.path.join(backup, digests.sha256)
    if os.path.isfile(target) and os.path.getsize(target) == digests.size:
        with open_source(target) as source:
            if digests_of([source.view()], ()).sha256 == digests.sha256:
                return
    try:
        os.link(path, target)
    except OSError:
        write_file(target, [view], force=True)


# The library's function: the same work, and its results as numbers.


def slim_environment(
    path: str | os.PathLike[str],
    *,
    devices: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    keep_ptx: KeepPtx | None = None,
    allow_empty: bool = False,
    lossless: bool = False,
    drop_dead: bool = False,
    driver: str | float | None = None,
    mode: SlimMode = "auto",
    config: str | os.PathLike[str] | None = None,
    plan: str | os.PathLike[str] | None = None,
    strict: bool = False,
    backup: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
) -> SlimResult:
    """Slim the installed packages of an environment in their place, with a journal, and say what stayed and went.

    ``path`` is a virtual environment, a conda prefix, or the root of a file system with dpkg. Libraries are proved
    before they take the place of the old ones; other hard links keep those. RECORD and the digests of conda and dpkg
    follow. ``backup`` is a folder for the originals, which ``fatpack slim --environment PATH --undo`` restores; the
    journal has the commands that install the packages again. ``dry_run`` writes nothing. The other arguments are those
    of :func:`slim`. Of the result ``before`` and ``after`` are the sizes of all files with device code, and ``path`` is
    that of the journal.

    Raises UsageError for a folder that is no environment, and what :func:`slim` raises for arguments. A library that
    cannot be slimmed stays and is in ``notes``; with ``strict`` no library is changed then.
    """
    check_bools(allow_empty=allow_empty, lossless=lossless, drop_dead=drop_dead, strict=strict, dry_run=dry_run)
    given = {
        "devices": as_strings("devices", devices),
        "keep": as_strings("keep", keep),
        "drop": as_strings("drop", drop),
        "keep_ptx": keep_ptx,
        "allow_empty": allow_empty,
        "lossless": lossless,
        "drop_dead": drop_dead,
        "driver": "" if driver is None else str(driver),
        "mode": mode,
    }
    options, is_strict = options_with_rules(given, config, plan)
    options = options.for_many_files("keep")
    slimming: Slimming = lambda part: plan_with_digests(part, options)  # noqa: E731
    refuses = strict or is_strict
    job = EnvironmentJob(
        as_path("path", path),
        backup="" if backup is None else as_path("backup", backup),
        is_trial=dry_run,
        is_checked_first=refuses or plan is not None,
    )
    notes: list[str] = []
    outcomes = [library.outcome for library in job.slim(refuse_all(slimming) if refuses else slimming, notes)]
    notes += (
        f"{item.path} is not slimmed: {getattr(item.error, 'problem', item.error)}" for item in outcomes if item.error
    )
    outcomes = [item for item in outcomes if item.error is not None or item.has_device_code]
    kept: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for item in outcomes:
        if item.plan is not None:
            kept.update(count_by_arch(item.plan.kept))
            dropped.update(count_by_arch(item.plan.dropped))
    before, after = sum(item.before for item in outcomes), sum(item.after for item in outcomes)
    is_changed = any(item.plan is not None and item.plan.is_changed for item in outcomes)
    unserved = tuple(one.device.words for one in find_unsupported_devices(outcomes, options.devices))
    return SlimResult(
        before,
        after,
        "edit" if is_changed else "",
        dict(kept),
        dict(dropped),
        tuple(notes),
        job.journal.path,
        unserved,
        exit_code=exit_code_for(outcomes, options),
    )


# The way back: originals of a backup, or the commands that install them again.


class Undo(Record):
    """The outcome of an undo: the ``restored`` files, those ``left`` slimmed with the reason, and ``commands``.

    ``unslimmed`` are libraries that the undo found without the changes of the journal, with what became of them.
    """

    restored: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    unslimmed: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]


def undo_environment(path: str) -> Undo:
    """Restore the files of an environment from the backup, descriptions of packages with them, and remove the journal.

    A file that was changed since stays. Without a backup nothing is restored, and ``commands`` do that for the packages
    of which a library is still slimmed. Raises UsageError for an environment without journal, BadValue for a damaged
    one, and ``OSError``.
    """
    root = os.path.realpath(path)
    with only_run(root) as is_locked:
        return _undo(path, root, is_locked=is_locked)


def _undo(path: str, root: str, *, is_locked: bool) -> Undo:
    journal = Journal(root)
    if not journal.entries:
        raise UsageError(f"{path} has no journal: nothing in it is slimmed", hint=f"it would be {journal.path}")
    if is_locked:
        journal.remove_unfinished_files()
    is_complete = journal.is_complete
    if journal.backup:
        journal.write(is_complete=False)  # so that the next run removes what this one leaves if it is killed
    restored: list[str] = []
    left: list[tuple[str, str]] = []
    unslimmed: list[tuple[str, str]] = []
    # Libraries first: while one of them stays slimmed, the descriptions have to describe it.
    for name, entry in sorted(journal.entries.items(), key=lambda item: (not item[1].is_library, item[0])):
        if left and not entry.is_library:
            break
        file = os.path.join(root, name)
        state = _state_of(file, entry)
        if not state:
            if entry.is_library:
                unslimmed.append((name, _fate(file, state)))
            continue
        problem = _restore(file, entry, journal.backup)
        if not problem:
            restored.append(name)
        elif entry.is_library:
            left.append((name, problem))
    if not left:
        journal.remove()
    elif journal.backup:
        journal.write(is_complete=is_complete)
    commands = _commands(root, journal, [name for name, _ in left])
    return Undo(tuple(restored), tuple(left), tuple(unslimmed), tuple(commands))


def _fate(file: str, state: int | None) -> str:
    """Return what became of a library that is not slimmed any more."""
    if state == 0:
        return "has the bytes from before: it was installed again since"
    return "was changed since, and stays" if os.path.lexists(file) else "was removed since"


def _commands(root: str, journal: Journal, libraries: Sequence[str]) -> Sequence[str]:
    """Return the commands that install the packages of libraries again: those of the journal where one has no owner."""
    if not libraries:
        return ()
    try:
        owners = owners_by_file(read_descriptions(root))
    except (UsageError, BadValue):
        return journal.restore  # the descriptions are gone, or damaged
    found = [owners.get(os.path.join(root, name)) for name in libraries]
    return journal.restore if None in found else reinstall_commands(root, filter(None, found))


def _is_by_link(file: str) -> bool:
    """Return whether a path in an environment leads through a link, as no path of a journal that fatpack wrote does."""
    return os.path.realpath(file) != os.path.normpath(file)


def _state_of(file: str, entry: JournalEntry) -> int | None:
    if _is_by_link(file) or not os.path.isfile(file):
        return None
    if os.path.getsize(file) not in {state.size for state in entry.states}:
        return None
    with open_source(file) as source:
        return entry.state(digests_of([source.view()], ()).sha256)


def _restore(file: str, entry: JournalEntry, backup: str) -> str:
    """Restore a file; return what stands in the way, "" for nothing."""
    if not backup:
        return "no backup was kept"
    original = os.path.join(backup, entry.states[0].sha256)
    if not os.path.isfile(original):
        return f"{original} is missing"
    with open_source(original) as source:
        view = source.view()
        if digests_of([view], ()).sha256 != entry.states[0].sha256:
            return f"{original} is damaged"
        write_file(file, [view], force=True, like=read_file_metadata(file))
    return ""
