"""Output: files that appear whole or not at all.

A file appears under its name only when it is complete: pieces go to a file without a name in the same folder, where
the system has such (:mod:`fatpack.io.atomic_write`), else to a temporary file beside it; the result is verified if the
caller can, and a link or a rename puts it in place. A failure, a signal too, removes the temporary file and leaves
everything else as it was. At no moment can anybody open it who could not open the file it replaces.
"""

from __future__ import annotations

import errno
import os
import stat

from fatpack.concurrency import signals, system
from fatpack.errors import UsageError
from fatpack.io.file import FileSource
from fatpack.io.inflated import InflatedSource
from fatpack.io.source import View
from fatpack.io.write import check_size, write_pieces
from fatpack.limits import UNCOUNTED, output_budget
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fatpack.concurrency.threads import ThreadTasks
    from fatpack.io.source import Piece
    from fatpack.io.write import Progress
    from fatpack.limits import Budget


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

        fd = create_unnamed(path, 0o666 if mode is None else mode)
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

    try:
        size = _fill(fd, path, pieces, mode, like, verify, progress, budget)
        if not give_name(fd, path):
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


# Many files at once: written on all cores, with as much memory as a few of them need.
#
# Images of fat binaries are compressed each on its own, so writing them is mostly inflating, which lets other threads
# run. What lies in a file as it is goes from file to file, whatever its size.

#: LIMIT: bytes that are inflated at a time for all files together. A file that needs more is written alone.
WINDOW = 128 << 20

#: Below this many bytes to inflate threads cost more than they save.
_LEAST = 4 << 20

#: LIMIT: what is inflated at a time is bounded by the window, but the C library keeps up to 40 MB for each thread that
#: had large results (glibc; with ``MALLOC_ARENA_MAX=2`` in the environment it does not).
_MOST_THREADS = 16


class NewFile(Record):
    """A file that is to be written: where, and its bytes in pieces."""

    path: str
    pieces: tuple[Piece, ...]


def write_files(
    files: Sequence[NewFile],
    *,
    force: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
    threads: int | None = None,
    is_checked: bool = False,
) -> ThreadTasks[int]:
    """Write files, each as :func:`~fatpack.io.atomic_write.write_file` does; iterating yields their sizes in order.

    Writing starts at once. An error is raised in the place of its file; those behind it are written all the same, for
    as long as somebody iterates. Use as a context: leaving it waits for the files that are being written.
    """
    from fatpack.concurrency.threads import ThreadTasks, thread_count

    def task(file: NewFile, progress: Progress | None, room: _MemoryShare | None) -> Callable[[], int]:
        views = [piece for piece in file.pieces if isinstance(piece, View)]

        def write() -> int:
            return write_file(
                file.path, file.pieces, force=force, inputs=[*inputs, *views], progress=progress, is_checked=is_checked
            )

        def write_with_room() -> int:
            assert room is not None
            with room:
                return write()

        return write if room is None else write_with_room

    count = thread_count(_MOST_THREADS) if threads is None else threads
    needs = list(map(_needs, files))
    if count < 2 or sum(needs) < _LEAST:
        return ThreadTasks([task(file, progress, None) for file in files], threads=1)
    window, alone = _MemoryWindow(WINDOW), _MemoryWindow(0)

    def room(file: NewFile, size: int) -> _MemoryShare:
        return _MemoryShare(window, size) if _is_concurrent(file) else _MemoryShare(alone, 1)

    meter = None if progress is None else _Meter(progress)
    tasks = [task(file, meter, room(file, size)) for file, size in zip(files, needs, strict=True)]
    return ThreadTasks(tasks, threads=count)


def _needs(file: NewFile) -> int:
    """Return how many bytes of memory writing a file takes."""
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return max((view.source.once_size(view.start, len(view)) for view in views), default=0)


def _is_concurrent(file: NewFile) -> bool:
    """Return whether a file can be written while others are.

    Parts of what is inflated as a whole cannot: they are best written one after the other, while it is kept.
    """
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return all(view.source.is_concurrent and not _is_part(view) for view in views)


def _is_part(view: View) -> bool:
    return isinstance(view.source, InflatedSource) and len(view) != view.source.size


class _Meter:
    """Passes on to one caller's function what several threads report: one call at a time, and no lock is held."""

    def __init__(self, progress: Progress) -> None:
        from threading import Lock

        self._progress = progress
        self._lock = Lock()
        self._waiting = 0
        self._is_calling = False

    def __call__(self, size: int) -> None:
        """Report bytes, and those of other threads that come meanwhile; or leave them to the thread that reports."""
        with self._lock:
            self._waiting += size
            if self._is_calling:
                return
            self._is_calling = True
        while size := self._next():
            try:
                self._progress(size)
            except BaseException:
                self._is_calling = False
                raise

    def _next(self) -> int:
        with self._lock:
            size, self._waiting = self._waiting, 0
            self._is_calling = size > 0
            return size


class _MemoryWindow:
    """Room for so many bytes: who needs some waits for it, who needs more than all waits until nobody has any."""

    def __init__(self, size: int) -> None:
        from threading import Condition

        self._size = size
        self._used = 0
        self._changed = Condition()

    def take(self, size: int) -> None:
        with self._changed:
            while self._used and self._used + size > self._size:
                self._changed.wait()
            self._used += size

    def give(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class _MemoryShare:
    """Some of the room of a window, to be entered."""

    def __init__(self, window: _MemoryWindow, size: int) -> None:
        self._window = window
        self._size = size

    def __enter__(self) -> None:
        self._window.take(self._size)

    def __exit__(self, *_: object) -> None:
        self._window.give(self._size)


# What a file is beside its bytes: owner, group, permissions, access lists, security labels and other attributes.
#
# A file that is edited in place is a new file under the old name, and gets all of it before it gets the name. Until
# then nobody but its maker can open it, who has opened it already.

#: The access list beyond the permission bits (acl(5)); new files inherit one from some folders.
_ACCESS_LIST = "system.posix_acl_access"

#: Hashes and signatures of content, which the kernel itself computes anew where they are in use (ima, evm).
_OF_CONTENT = {"security.ima", "security.evm"}

#: What systems and file systems say that have no attributes
_NONE = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class FileMetadata(Record):
    """Owner, group, permission bits, and extended attributes by name: access list and SELinux label are two of them."""

    owner: int
    group: int
    mode: int
    attributes: dict[str, bytes]


def read_file_metadata(file: str | int) -> FileMetadata:
    """Return what a file is, by path or descriptor."""
    status = os.stat(file)
    return FileMetadata(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), _attributes(file))


def apply_metadata(fd: int, wanted: FileMetadata, path: str) -> None:
    """Make an open file what another one was. Raises PermissionError, with what cannot be kept, for ``path``.

    Who may open it widens last: access list and permission bits come after owner and label.
    """
    has = read_file_metadata(fd)
    if has.owner != wanted.owner:
        _keep(f"its owner ({wanted.owner})", path, os.chown, fd, wanted.owner, -1)
    if has.group != wanted.group:
        _keep(f"its group ({wanted.group})", path, os.chown, fd, -1, wanted.group)
    if _ACCESS_LIST in has.attributes and _ACCESS_LIST not in wanted.attributes:
        _keep("its permissions without an access list", path, os.removexattr, fd, _ACCESS_LIST)
    for name in sorted(wanted.attributes, key=lambda name: name == _ACCESS_LIST):
        value = wanted.attributes[name]
        if has.attributes.get(name) != value:
            _keep(f"its attribute {name}", path, os.setxattr, fd, name, value)
    if not hasattr(os, "fchmod"):
        return  # Windows: a file has one bit, which says that it is read-only, and such files are not replaced
    # Also where it seems right: a change of owner, and writing, take the bits away that lend rights (setuid).
    os.chmod(fd, wanted.mode)


def _keep(what: str, path: str, act: Callable[..., None], *arguments: object) -> None:
    try:
        act(*arguments)
    except OSError as error:
        problem = f"{what} cannot be kept: {error.strerror}; nothing was changed, write a copy with -o"
        raise PermissionError(errno.EPERM, problem, path) from error


def _attributes(file: str | int) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file) if name not in _OF_CONTENT}
    except OSError as error:
        if error.errno in _NONE:
            return {}
        raise


# Files without a name, where the system has them: what is left of one that is not finished is nothing.
#
# Linux makes such a file in a folder (``O_TMPFILE``, open(2)) and gives it a name when it is complete (``linkat`` of
# its entry in ``/proc``). That is one entry in the folder instead of two and a removal, and even a run that is killed
# leaves nothing behind. File systems without it (NFS, FAT, older overlays) refuse; then a temporary name is needed.

_TMPFILE = getattr(os, "O_TMPFILE", 0)

#: whether such files can be made and named here, until one could not
_works = bool(_TMPFILE)


def create_unnamed(path: str, mode: int) -> int | None:
    """Return a descriptor of a new file without a name in the folder of ``path``; None where there are none.

    Whatever is wrong with the folder is for the caller to find out in the way that every system has.
    """
    if not _works or not path:
        return None
    try:
        return os.open(os.path.dirname(path) or os.curdir, os.O_RDWR | _TMPFILE | system.PLAIN, mode)
    except OSError:
        return None


def give_name(fd: int, path: str) -> bool:
    """Give a file its name; return whether it could be done. Raises FileExistsError if somebody has the name."""
    global _works  # noqa: PLW0603  (what one file shows holds for the process: /proc is there or not)
    try:
        # Only with a descriptor of a folder the interpreter asks for links to be followed; the path is absolute.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, path) from None
    except (OSError, NotImplementedError):
        _works = False
        return False
    return True
