"""Atomic output: a file appears under its name only when it is complete.

Pieces are written to an unnamed file in the same folder if the system supports that, else to a temporary file next to
the target. The result is verified if the caller can verify it, and a link or a rename puts it in place. A failure or a
signal removes the temporary file and changes nothing else. At no time can the new file be opened by a user who could
not open the file that it replaces.
"""

from __future__ import annotations

import errno
import os
import stat

from fatpack.concurrency import signals, system
from fatpack.errors import UsageError, cli_or_api
from fatpack.io.file import FileSource
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


#: Prefix and suffix of the names of temporary files; a random part is between them.
TEMPORARY = (".fatpack.", ".part")

#: Permission bits that a copy takes from its original: all except setuid and setgid, as with cp(1)
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
    """Write a file atomically; return its size in bytes.

    ``force``: replace an existing ``path``, which is refused otherwise. A replaced file is synced to disk first,
    because it may be the only copy. ``inputs``: views whose files must not be overwritten in any case; an edit in place
    passes none, and is safe because the rename happens after everything was read. ``mode``: permission bits (default:
    those of the replaced file, else 0666 without the umask). ``like``: the metadata of another file. ``verify`` gets
    the complete file before it is renamed, and may raise. ``is_checked``: the caller found nothing at ``path``; a file
    that appeared since is still refused, but only after everything was written. ``budget``: charged for the bytes
    (default: that of the inputs). Raises UsageError, ``FileExistsError``, ``OSError``, and the errors of ``verify``.
    """
    path = os.fspath(path)
    inputs = list(inputs)
    budget = budget or (inputs[0].source.budget if inputs else output_budget())
    old = None if is_checked and not force else check_target(path, force, inputs)
    if old is not None and not stat.S_ISREG(old.st_mode):
        # A device or a pipe (/dev/null, /dev/stdout) cannot be replaced by a rename.
        return _write_special(path, pieces, progress, budget)
    new = _NewFile(pieces, mode, like, verify, progress, budget)
    if not force:
        check_size(pieces, budget, path)
        fd = create_unnamed(path, 0o666 if mode is None else mode)
        if fd is not None:
            return _write_unnamed(fd, path, new)
    path, staged, size = _stage(path, new, old, sync=old is not None)
    try:
        if force:
            _rename(staged, path)
        else:
            _publish(staged, path)
    except BaseException:
        _remove(staged)
        raise
    return size


class NewFolder:
    """A folder that is made, "" for the current one, and removed if what follows fails or is stopped and it is empty.

    So are the folders around it that were made with it. What was there before stays.
    """

    def __init__(self, path: str) -> None:
        self._path, self._made = path, list[str]()

    def __enter__(self) -> None:
        around = self._path.rstrip(os.sep)
        while around and not os.path.lexists(around):
            self._made.append(around)
            around = os.path.dirname(around)
        os.makedirs(self._path or os.curdir, exist_ok=True)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for folder in self._made if kind is not None else ():
            try:
                os.rmdir(folder)
            except OSError:  # it is not empty, or was removed
                return


class OutputBatch:
    """Several output files that are published together or not at all::

        with OutputBatch() as batch:
            batch.add("a.o", pieces)
            batch.add("b.o", more)
            batch.publish()

    If the block ends without ``publish``, old files are unchanged and no new ones exist. Replaced files keep their
    permissions, and are not synced: such outputs can be made again from the inputs.
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
        """Stage a file next to its target. "-" is standard output; it, devices and pipes are written by ``publish``."""
        old = None if path == "-" else check_target(path, True, ())
        if path == "-" or (old is not None and not stat.S_ISREG(old.st_mode)):
            self._special.append((path, list(pieces)))
            return
        path, staged, _ = _stage(path, _NewFile(pieces, mode, budget=output_budget()), old)
        self._staged.append((path, staged))

    def publish(self) -> None:
        """Rename all files to their targets; of two with the same name the later one remains."""
        for path, pieces in self._special:
            if path == "-":
                write_pieces(1, pieces)
            else:
                _write_special(path, pieces, None)
        while self._staged:
            path, staged = self._staged[0]
            _rename(staged, path)
            del self._staged[0]


class _NewFile(Record):
    """A file to be written: its bytes and metadata, and what checks, reports and counts the writing."""

    pieces: Iterable[Piece]
    mode: int | None = None
    like: FileMetadata | None = None
    verify: Callable[[View], None] | None = None
    progress: Progress | None = None
    budget: Budget = UNCOUNTED

    def fill(self, fd: int, path: str) -> int:
        """Write and verify the file for ``path``, and set its metadata; return its size."""
        size = write_pieces(fd, self.pieces, self.progress, budget=self.budget)
        if self.verify is not None:
            self.verify(FileSource(fd, path, owned=False).view())
        if self.like is not None:
            apply_metadata(fd, self.like, path)
        elif self.mode is not None and hasattr(os, "fchmod"):
            os.fchmod(fd, self.mode)
        return size


def _stage(path: str, new: _NewFile, old: os.stat_result | None, *, sync: bool = False) -> tuple[str, str, int]:
    """Write a complete temporary file next to ``path``; return its target, its own path, and its size."""
    check_size(new.pieces, new.budget, path)
    if old is not None:
        path = os.path.realpath(path)  # a symbolic link remains; its target is replaced
        new = new if new.mode is not None else new.replace(mode=stat.S_IMODE(old.st_mode))
    # No permissions while it is written: the file that it replaces may be secret.
    staged, fd = _create_beside(path, 0 if old is not None else 0o666 if new.mode is None else new.mode)
    try:
        try:
            size = new.fill(fd, path)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        _remove(staged)
        raise _named(error, path) from error
    except BaseException:
        # Also on Ctrl-C: no incomplete file may remain.
        _remove(staged)
        raise
    return path, staged, size


def _named(error: OSError, path: str) -> OSError:
    """Return the error with the path of its file: the system's error for a full disk names none."""
    return error if error.filename is not None else type(error)(error.errno, error.strerror, path)


def _write_unnamed(fd: int, path: str, new: _NewFile) -> int:
    """Write an unnamed file and link it to ``path``; a failure leaves nothing."""
    try:
        size = new.fill(fd, path)
        if not give_name(fd, path):
            # It cannot be linked after all: copy it by the portable way.
            content = [FileSource(fd, path, owned=False).view()]
            _, staged, _ = _stage(path, _NewFile(content, stat.S_IMODE(os.fstat(fd).st_mode), new.like), None)
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
    """Return the status of a file that may be replaced, None if there is none. Raises if it must not be replaced."""
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


def refuse_special_file(path: str) -> None:
    """Raise UsageError for a link, or what is no regular file: a name from an input must not lead out of a folder."""
    hint = cli_or_api("remove it, or give another directory with -d", "remove it, or give another directory")
    if os.path.islink(path):
        raise UsageError(f"{path} is a symbolic link, and its target would be overwritten", hint=hint)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is no regular file", hint=hint)


def refuse_inputs(path: str, inputs: Iterable[View]) -> None:
    """Raise UsageError if a path is the file of one of these views."""
    try:
        old = os.stat(path)
    except OSError:
        return  # a file that does not exist is not an input
    if any(_same_file(view, old) for view in inputs):
        raise UsageError(f"{path} is an input of this command", hint="choose another output")


def _publish(staged: str, path: str) -> None:
    """Move the file to its target unless another process created one: a hard link fails then, a rename would not."""
    try:
        os.link(staged, path)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, path) from None
    except OSError:
        _rename(staged, path)  # a file system without hard links
    else:
        _remove(staged)


def _create_beside(path: str, mode: int) -> tuple[str, int]:
    """Create a new file in the directory of ``path``; return its name and a descriptor open for reading and writing."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    temporary = os.path.join(os.path.dirname(path), os.urandom(8).hex().join(TEMPORARY))
    # Recorded before it exists: a signal may arrive right after it is created. The random name is unique.
    signals.unfinished_files.add(temporary)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | system.PLAIN
        return temporary, os.open(temporary, flags, mode | system.NEEDED_MODE)
    except OSError as error:
        signals.unfinished_files.discard(temporary)
        # The error names the requested path: the temporary name would confuse.
        raise type(error)(error.errno, error.strerror, path) from None


def _remove(temporary: str) -> None:
    """Remove a temporary file if it still exists."""
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        pass
    signals.unfinished_files.discard(temporary)


def _rename(temporary: str, path: str) -> None:
    """Rename a temporary file to its target, replacing it."""
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
    """Return the permission bits of the file of a view; None if it is not a file."""
    fd = view.source.fileno()
    return None if fd is None else stat.S_IMODE(os.fstat(fd).st_mode)


# Writing many files in several threads, in bounded memory. Images of fat binaries are compressed separately, so writing
# them is mostly decompression, which releases the interpreter lock. Stored images are copied from file to file.

#: LIMIT: bytes that are inflated at a time for all files together. A larger file is written alone.
WINDOW = 128 << 20

#: With fewer bytes to inflate, threads cost more than they save.
_LEAST = 4 << 20

#: LIMIT: the window bounds inflated bytes, but the C library keeps up to 40 MB for each thread that had large results
#: (glibc; not with ``MALLOC_ARENA_MAX=2`` in the environment).
_MOST_THREADS = 16


class NewFile(Record):
    """A file to be written: its path, and its bytes in pieces."""

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
    """Write files with :func:`write_file`; iterating yields their sizes in order.

    Writing starts at once. An error is raised at the position of its file; the files after it are written if the caller
    continues to iterate. Used as a context manager, leaving it waits for the files that are being written.
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
    """Return the number of bytes of memory that writing a file takes."""
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return max((view.source.read_once_size(view.start, len(view)) for view in views), default=0)


def _is_concurrent(file: NewFile) -> bool:
    """Return whether a file can be written while others are.

    Parts of one compressed stream cannot: they are written one after the other while the inflated bytes are kept.
    """
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return all(view.source.is_concurrent and not _is_part(view) for view in views)


def _is_part(view: View) -> bool:
    return view.source.is_inflated and len(view) != view.source.size


class _Meter:
    """Serializes the progress reports of several threads into calls of one function, without holding a lock."""

    def __init__(self, progress: Progress) -> None:
        from threading import Lock

        self._progress = progress
        self._lock = Lock()
        self._waiting = 0
        self._is_calling = False

    def __call__(self, size: int) -> None:
        """Report bytes, including those of other threads that arrive meanwhile; or leave them to a reporting thread."""
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
    """A number of bytes that threads share: a request waits until it fits, a larger one until nothing is in use."""

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
    """A number of bytes of a window, as a context manager."""

    def __init__(self, window: _MemoryWindow, size: int) -> None:
        self._window = window
        self._size = size

    def __enter__(self) -> None:
        self._window.take(self._size)

    def __exit__(self, *_: object) -> None:
        self._window.give(self._size)


# File metadata. A file that is edited in place is a new file under the old name, and gets the metadata before the name;
# until then only the process that created it can open it.

#: Access list beyond the permission bits (acl(5)); new files inherit one from some folders.
_ACCESS_LIST = "system.posix_acl_access"

#: Hashes and signatures of content, which the kernel computes again if they are in use (ima, evm).
_OF_CONTENT = {"security.ima", "security.evm"}

#: Errors of systems and file systems without extended attributes
_NONE = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class FileMetadata(Record):
    """Owner, group, permission bits, and extended attributes by name, among them access list and SELinux label."""

    owner: int
    group: int
    mode: int
    attributes: dict[str, bytes]


def read_file_metadata(file: str | int) -> FileMetadata:
    """Return the metadata of a file, given by path or descriptor."""
    status = os.stat(file)
    return FileMetadata(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), _attributes(file))


def apply_metadata(fd: int, metadata: FileMetadata, path: str) -> None:
    """Set the metadata of an open file. Raises PermissionError, which names what cannot be set, for ``path``.

    Access widens last: access list and permission bits are set after owner and label.
    """
    has = read_file_metadata(fd)
    if has.owner != metadata.owner:
        _keep(f"its owner ({metadata.owner})", path, os.chown, fd, metadata.owner, -1)
    if has.group != metadata.group:
        _keep(f"its group ({metadata.group})", path, os.chown, fd, -1, metadata.group)
    if _ACCESS_LIST in has.attributes and _ACCESS_LIST not in metadata.attributes:
        _keep("its permissions without an access list", path, os.removexattr, fd, _ACCESS_LIST)
    for name in sorted(metadata.attributes, key=lambda name: name == _ACCESS_LIST):
        value = metadata.attributes[name]
        if has.attributes.get(name) != value:
            _keep(f"its attribute {name}", path, os.setxattr, fd, name, value)
    if not hasattr(os, "fchmod"):
        return  # Windows has only a read-only bit, and read-only files are not replaced
    # Also if the mode is equal: chown and writing clear setuid and setgid.
    os.chmod(fd, metadata.mode)


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


# Unnamed files. Linux creates them in a folder (``O_TMPFILE``, open(2)) and links them when they are complete
# (``linkat`` of the entry in ``/proc``). That changes the folder once, and even a killed run leaves nothing. File
# systems without it (NFS, FAT, older overlayfs) refuse; then a temporary name is needed.

_TMPFILE = getattr(os, "O_TMPFILE", 0)

#: whether such files can be created and linked; false after the first failure
_works = bool(_TMPFILE)


def create_unnamed(path: str, mode: int) -> int | None:
    """Return a descriptor of a new unnamed file in the folder of ``path``; None if the system has no such files.

    Errors of the folder are left to the portable way, which reports them.
    """
    if not _works or not path:
        return None
    try:
        return os.open(os.path.dirname(path) or os.curdir, os.O_RDWR | _TMPFILE | system.PLAIN, mode)
    except OSError:
        return None


def give_name(fd: int, path: str) -> bool:
    """Link an unnamed file to ``path``; return whether it worked. Raises FileExistsError if the path exists."""
    global _works  # noqa: PLW0603  (depends on /proc, so one failure holds for the process)
    try:
        # os.link follows the symbolic link only if it gets a directory descriptor; the path is absolute.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, path) from None
    except (OSError, NotImplementedError):
        _works = False
        return False
    return True
