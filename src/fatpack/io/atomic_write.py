"""Output: files that appear whole or not at all.

A file appears under its name only when it is complete: pieces go to a file without a name in the same folder, where
the system has such (:mod:`fatpack.io.unnamed`), else to a temporary file beside it; the result is verified if the
caller can, and a link or a rename puts it in place. A failure, a signal too, removes the temporary file and leaves
everything else as it was. At no moment can anybody open it who could not open the file it replaces.
"""

from __future__ import annotations

import errno
import os
import stat

from fatpack.budget import UNCOUNTED, output_budget
from fatpack.concurrency import signals, system
from fatpack.errors import UsageError
from fatpack.io.file import FileSource
from fatpack.io.write import check_size, write_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fatpack.budget import Budget
    from fatpack.io.identity import FileMetadata
    from fatpack.io.source import Piece, View
    from fatpack.io.write import Progress

#: What temporary files are called: the first, something that no other run has, and the second.
TEMPORARY = (".fatpack.", ".part")

#: Permission bits that a copy has of its original, all but those that lend rights (setuid, setgid), as of cp(1)
MODE_OF_COPIES = 0o1777


def write_file(
    path: str | os.PathLike[str],
    pieces: Iterable[Piece],
    *,
    force: bool = False,
    mode: int | None = None,
    like: FileMetadata | None = None,
    inputs: Iterable[View] = (),
    verify: Callable[[View], None] | None = None,
    progress: Progress | None = None,
    is_checked: bool = False,
    budget: Budget | None = None,
) -> int:
    """Write a file whole or not at all; return its size in bytes.

    An existing ``path`` is refused unless ``force``. ``inputs`` are views whose files must not be overwritten in any
    case; an edit in place passes none, and is safe because the rename happens after everything was read. ``mode``
    are the permission bits (default: those of the file replaced, else 0666 less the umask), ``like`` all that a file is
    beside its bytes. ``verify`` sees the complete file before it gets its name and may raise. A replaced file is synced
    to disk first, since it may be somebody's only copy. ``is_checked`` says that the caller found nothing at ``path``:
    what is there meanwhile is refused all the same, but not before everything was written. What is written is drawn
    from a ``budget``, by default that of the inputs. Raises UsageError, ``FileExistsError``, ``OSError``, and what
    ``verify`` raises.
    """
    path = os.fspath(path)
    inputs = list(inputs)
    budget = budget or (inputs[0].source.budget if inputs else output_budget())
    old = None if is_checked and not force else check_target(path, force, inputs)
    if old is not None and not stat.S_ISREG(old.st_mode):
        # A device or a pipe (/dev/null, /dev/stdout): there is nothing to rename over.
        return _write_special(path, pieces, progress, budget)
    if not force:
        check_size(pieces, budget, path)
        from fatpack.io import unnamed

        fd = unnamed.create_unnamed(path, 0o666 if mode is None else mode)
        if fd is not None:
            return _write_unnamed(fd, path, pieces, mode, like, verify, progress, budget)
    path, staged, size = _stage(path, pieces, old, mode, like, verify, progress, sync=old is not None, budget=budget)
    try:
        if force:
            _rename(staged, path)
        else:
            _publish(staged, path)
    except BaseException:
        _remove(staged)
        raise
    return size


class OutputBatch:
    """Files that get their names together or not at all, for a command with several outputs::

        with Batch() as batch:
            batch.add("a.o", pieces)
            batch.add("b.o", more)
            batch.publish()

    Whatever ends the block without ``publish`` leaves all old files as they were and no new ones. Existing files are
    replaced, keep their permissions, and are not synced: such outputs can be made again from the inputs.
    """

    def __init__(self) -> None:
        self._staged: list[tuple[str, str]] = []
        self._special: list[tuple[str, list[Piece]]] = []

    def __enter__(self) -> OutputBatch:
        return self

    def __exit__(self, *_: object) -> None:
        for _path, staged in self._staged:
            _remove(staged)
        self._staged.clear()

    def add(self, path: str, pieces: Iterable[Piece], *, mode: int | None = None) -> None:
        """Write a file beside its place. "-" is standard output; it, devices and pipes are written when publishing."""
        old = None if path == "-" else check_target(path, True, ())
        if path == "-" or (old is not None and not stat.S_ISREG(old.st_mode)):
            self._special.append((path, list(pieces)))
            return
        path, staged, _ = _stage(path, pieces, old, mode)
        self._staged.append((path, staged))

    def publish(self) -> None:
        """Give all files their names; of two with one name the later stays."""
        for path, pieces in self._special:
            if path == "-":
                write_pieces(1, pieces)
            else:
                _write_special(path, pieces, None)
        while self._staged:
            path, staged = self._staged[0]
            _rename(staged, path)
            del self._staged[0]


def _stage(
    path: str,
    pieces: Iterable[Piece],
    old: os.stat_result | None,
    mode: int | None,
    like: FileMetadata | None = None,
    verify: Callable[[View], None] | None = None,
    progress: Progress | None = None,
    *,
    sync: bool = False,
    budget: Budget | None = None,
) -> tuple[str, str, int]:
    """Write a complete temporary file beside ``path``; return where it shall go, its own path, and its size."""
    budget = budget or output_budget()
    check_size(pieces, budget, path)
    if old is not None:
        path = os.path.realpath(path)  # a symbolic link stays; the file it names is replaced
        mode = stat.S_IMODE(old.st_mode) if mode is None else mode
    # What replaces a file is for nobody while it is written: that file may be secret.
    staged, fd = _create_beside(path, 0 if old is not None else 0o666 if mode is None else mode)
    try:
        try:
            size = _fill(fd, path, pieces, mode, like, verify, progress, budget)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        _remove(staged)
        raise _named(error, path) from error
    except BaseException:
        # Also on Ctrl-C: no half-written file may stay behind.
        _remove(staged)
        raise
    return path, staged, size


def _fill(
    fd: int,
    path: str,
    pieces: Iterable[Piece],
    mode: int | None,
    like: FileMetadata | None,
    verify: Callable[[View], None] | None,
    progress: Progress | None,
    budget: Budget,
) -> int:
    """Write a new file that will be called ``path``, verify it, and give it all that it is beside its bytes."""
    size = write_pieces(fd, pieces, progress, budget=budget)
    if verify is not None:
        verify(FileSource(fd, path, owned=False).view())
    if like is not None:
        from fatpack.io.identity import apply_metadata

        apply_metadata(fd, like, path)
    elif mode is not None and hasattr(os, "fchmod"):
        os.fchmod(fd, mode)
    return size


def _named(error: OSError, path: str) -> OSError:
    """Return the error with the file that it is about: a full disk does not say which."""
    return error if error.filename is not None else type(error)(error.errno, error.strerror, path)


def _write_unnamed(
    fd: int,
    path: str,
    pieces: Iterable[Piece],
    mode: int | None,
    like: FileMetadata | None,
    verify: Callable[[View], None] | None,
    progress: Progress | None,
    budget: Budget,
) -> int:
    """Write a file that has no name, and name it ``path``; whatever ends this before leaves nothing."""
    from fatpack.io import unnamed

    try:
        size = _fill(fd, path, pieces, mode, like, verify, progress, budget)
        if not unnamed.give_name(fd, path):
            # It cannot be named after all: it goes the way that every system has.
            own = [FileSource(fd, path, owned=False).view()]
            _, staged, _ = _stage(path, own, None, stat.S_IMODE(os.fstat(fd).st_mode), like, budget=UNCOUNTED)
            try:
                _publish(staged, path)
            except BaseException:
                _remove(staged)
                raise
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(fd)
    return size


def check_target(path: str, force: bool, inputs: Iterable[View]) -> os.stat_result | None:
    """Return the status of a file that may be replaced, None if there is none; refuse what must not be touched."""
    if "\0" in path:
        raise UsageError("a path cannot contain a NUL character")
    try:
        old = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise UsageError(f"{path} is a link to nothing", hint="remove it, or give another name") from None
        return None
    if stat.S_ISDIR(old.st_mode):
        system.refuse_folder(path)
    refuse_inputs(path, inputs)
    if not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    return old


def refuse_inputs(path: str, inputs: Iterable[View]) -> None:
    """Raise UsageError if a path leads to the file of one of these views."""
    try:
        old = os.stat(path)
    except OSError:
        return  # nothing is there that could be an input
    if any(_same_file(view, old) for view in inputs):
        raise UsageError(f"{path} is an input of this command", hint="choose another output")


def _publish(staged: str, path: str) -> None:
    """Give the file its name unless somebody else took it meanwhile; hard links fail then, renames would not."""
    try:
        os.link(staged, path)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, path) from None
    except OSError:
        _rename(staged, path)  # a file system without hard links
    else:
        _remove(staged)


def _create_beside(path: str, mode: int) -> tuple[str, int]:
    """Create a new file in the directory of ``path``; return its name and a descriptor for reading and writing."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    temporary = os.path.join(os.path.dirname(path), os.urandom(8).hex().join(TEMPORARY))
    # Noted before it exists: a signal may come right after it does. The name is no other run's.
    signals.unfinished_files.add(temporary)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | system.PLAIN
        return temporary, os.open(temporary, flags, mode | system.NEEDED_MODE)
    except OSError as error:
        signals.unfinished_files.discard(temporary)
        # The user asked for `path`; the temporary name would only confuse.
        raise type(error)(error.errno, error.strerror, path) from None


def _remove(temporary: str) -> None:
    """Remove a temporary file, if it is still there."""
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        pass
    signals.unfinished_files.discard(temporary)


def _rename(temporary: str, path: str) -> None:
    """Give a temporary file its name; what had that name is replaced."""
    os.replace(temporary, path)
    signals.unfinished_files.discard(temporary)


def _write_special(path: str, pieces: Iterable[Piece], progress: Progress | None, budget: Budget | None = None) -> int:
    fd = os.open(path, os.O_WRONLY | system.PLAIN)
    try:
        return write_pieces(fd, pieces, progress, budget=budget)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from error
    finally:
        os.close(fd)


def _same_file(view: View, status: os.stat_result) -> bool:
    fd = view.source.fileno()
    return fd is not None and os.path.samestat(os.fstat(fd), status)


def file_mode(view: View) -> int | None:
    """Return the permission bits of the file behind a view; None if it is not a file."""
    fd = view.source.fileno()
    return None if fd is None else stat.S_IMODE(os.fstat(fd).st_mode)
