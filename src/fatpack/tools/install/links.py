"""Links by which other programs call a stand-in: a file of its name, which is the command ``fatpack``.

On POSIX a symbolic link. The interpreter starts once, as for ``fatpack tool NAME`` (a script of the shell would start a
shell before it), spaces and long paths need no care, and a command that is installed anew or upgraded is found where it
was. The link leads to the path by which ``fatpack`` was called and not to where that leads in turn: pipx, uv and
Homebrew keep such a path and change its target.

On Windows a copy of the launcher that packaging tools make for ``fatpack``, an ``.exe``. It calls
:func:`fatpack.main.main` under whatever name it has, and clang and nvcc start it as any program, which a ``.cmd`` file
is not.
"""

from __future__ import annotations

import errno
import os
import sys

from fatpack.errors import UsageError
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools import TOOLS, find_stand_in, name_hint
from fatpack.tools.failures import is_command, program_stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self


# Changes in a folder that are all made, or all taken back: when one fails, and when the user stops it half-way.
#
# Going back takes no space: what is needed for it is made before the step, beside the file, and a rename does the rest.


class FolderTransaction:
    """Changes that last if the ``with`` block ends well::

        with Changes("placed") as changes:
            changes.make_folder(folder)
            changes.make(path, lambda to: os.symlink(target, to))

    Else they are taken back, newest first, and the error says so: ``OSError``, UsageError for a file that came
    meanwhile, ``KeyboardInterrupt``. A message names files that cannot be restored.
    """

    def __init__(self, done: str) -> None:
        """Take the word for what is done, as messages have it: ``placed``."""
        self._done = done
        self._back: list[tuple[Callable[[], None], str]] = []
        self._spare: list[str] = []

    def make_folder(self, folder: str) -> None:
        """Make a folder and its missing parents."""
        missing = []
        while folder and not os.path.lexists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder.rstrip(os.sep))
        for each in reversed(missing):
            try:
                os.mkdir(each)
            except FileExistsError:
                if not os.path.isdir(each):
                    raise
                continue  # another run made it meanwhile, and may need it
            self._back.append((_then(os.rmdir, each), each))

    def make(self, path: str, write: Callable[[str], None]) -> None:
        """Make a file that is not there. ``write`` raises ``FileExistsError`` if it is there meanwhile."""
        write(path)
        self._back.append((_then(os.unlink, path), path))

    def replace(self, path: str, write: Callable[[str], None], keep: Callable[[str], None]) -> None:
        """Put another file in the place of one, in one step; ``keep`` makes a copy of the old one."""
        new, old = _beside(path, "new"), _beside(path, "old")
        for name, how in ((new, write), (old, keep)):
            how(name)
            self._spare.append(name)
        os.replace(new, path)
        self._back.append((_then(os.replace, old, path), path))

    def remove(self, path: str) -> None:
        """Take a file away. It stays under another name until all else is done."""
        aside = _beside(path, "old")
        os.rename(path, aside)
        self._spare.append(aside)
        self._back.append((_then(os.rename, aside, path), path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._back.clear()
        try:
            left = self._end()
        except KeyboardInterrupt:  # which comes once: the next signal ends the process
            left = self._end()
            if kind is None:
                raise
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"stopped; {self._outcome(left)}") from error
        if isinstance(error, FileExistsError):
            name = error.filename2 or error.filename
            raise UsageError(f"{name}: came meanwhile, and is not fatpack; {self._outcome(left)}") from error
        if isinstance(error, OSError):
            text = f"{error.strerror}; {self._outcome(left)}"
            raise type(error)(error.errno, text, error.filename2 or error.filename) from error
        if left:
            raise OSError(None, f"could not be removed: {', '.join(map(printable, left))}")

    def _end(self) -> list[str]:
        """Undo the changes that must be undone, and remove the backups; return those for which that failed."""
        left: list[str] = []
        while self._back:
            step, path = self._back[-1]
            if not _did(step):
                left.append(path)
            self._back.pop()
        while self._spare:
            if not _did(_then(os.unlink, self._spare[-1])) and not left:
                left.append(self._spare[-1])
            self._spare.pop()
        return left

    def _outcome(self, left: list[str]) -> str:
        if not left:
            return f"nothing was {self._done}"
        return f"this could not be taken back: {', '.join(left)}"


def _then(call: Callable[..., None], *words: str) -> Callable[[], None]:
    return lambda: call(*words)


def _did(step: Callable[[], None]) -> bool:
    """Do a step, and return whether it is done; it may have been done before."""
    try:
        step()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _beside(path: str, what: str) -> str:
    return f"{path}.{os.getpid()}.{what}.fatpack"


#: files that are named in one message
_LISTED = 4

_IS_WINDOWS = os.name == "nt"


class PlacedStandIn(Record):
    """A file of a stand-in's name: where it is, and what was done: ``made``, ``changed``, ``kept`` or ``removed``."""

    path: str
    done: str


def fatpack_program(called: str | None = None) -> str:
    """Return the absolute path of the command ``fatpack``: as it was called, else as it was installed.

    Raises UsageError if there is none.
    """
    import sysconfig

    called = sys.argv[0] if called is None else called
    name = "fatpack.exe" if _IS_WINDOWS else "fatpack"
    ways = [os.path.abspath(called)] if called else []
    if _IS_WINDOWS and ways and not ways[0].lower().endswith(".exe"):
        ways = [f"{ways[0]}.exe"]  # launchers take it off
    ways = [way for way in ways if os.path.basename(way).lower() == name]
    ways += [os.path.join(sysconfig.get_path("scripts"), name)]
    for way in ways:
        if os.path.isfile(way):
            return way
    raise UsageError(
        f"there is no command {name} to link to: {ways[-1]} is not there",
        hint="install fatpack with pip, pipx or uv, and call that",
    )


def place_stand_ins(folder: str, names: Iterable[str], target: str) -> list[PlacedStandIn]:
    """Place stand-ins in a folder, which is made if need be; without names all that there are.

    All is checked before anything is changed, and what fails or is stopped then leaves everything as it was. Raises
    UsageError for an unknown name, for files that were not placed by this, and for what is no folder; ``OSError``.
    """
    _check(folder, names)
    paths = [_path(folder, name) for name in _known(names)]
    others = [path for path in paths if os.path.lexists(path) and not _is_placed(path)]
    if others:
        raise UsageError(
            f"{_listed(others)}: {_is(others)} there, and {_is(others)} not fatpack; nothing was placed",
            hint=f"choose another folder, or move {'it' if len(others) == 1 else 'them'} away",
        )
    _check_permission(folder, "placed")
    plan = [PlacedStandIn(path, _what_to_do(path, target)) for path in paths]
    with FolderTransaction("placed") as changes:
        changes.make_folder(folder)
        for at, each in enumerate(plan):
            if each.done == "made":
                try:
                    changes.make(each.path, lambda to: _make(to, target))
                except FileExistsError:
                    if not _is_same(each.path, target):
                        raise
                    plan[at] = each.replace(done="kept")  # another run made it meanwhile
            elif each.done == "changed":
                changes.replace(each.path, lambda to: _make(to, target), _copier(each.path))
    return plan


def remove_stand_ins(folder: str, names: Iterable[str]) -> list[PlacedStandIn]:
    """Remove the named stand-ins from a folder, or all without names. Other files stay.

    All of them go, or none. Raises UsageError if some that are named are not there, or are not ours; ``OSError``.
    """
    names = list(names)
    _check(folder, names)
    if names:
        paths = [_path(folder, name) for name in _known(names)]
        for others, what in (
            ([path for path in paths if not os.path.lexists(path)], "not there"),
            ([path for path in paths if not _is_placed(path)], "not placed by fatpack"),
        ):
            if others:
                raise UsageError(f"{_listed(others)}: {what}; nothing was removed")
    else:
        paths = [_path(folder, name) for name in list_placed(folder)]
    if paths:
        _check_permission(folder, "removed")
    with FolderTransaction("removed") as changes:
        for path in paths:
            changes.remove(path)
    return [PlacedStandIn(path, "removed") for path in paths]


def list_placed(folder: str) -> list[str]:
    """Return the names of the stand-ins that were placed in a folder, sorted; none where there is no such folder."""
    there = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    names = [program_stem(name) for name in there if find_stand_in(program_stem(name))]
    return [name for name in names if _is_placed(_path(folder, name))]


def _is_placed(path: str) -> bool:
    """Return whether this module placed a stand-in at a path. On POSIX a file that calls fatpack is a user's script."""
    return is_command(path) and (_IS_WINDOWS or os.path.islink(path))


def _check(folder: str, names: Iterable[str]) -> None:
    """Raise UsageError for what cannot be a folder; an empty name is a variable that was not set."""
    if not folder:
        raise UsageError("the name of the folder is empty", hint="for this folder give .")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is no folder", hint="give a folder for the stand-ins")
    if not os.path.lexists(folder) and (folder.startswith("-") or find_stand_in(folder)):
        words = " ".join((*([folder] if find_stand_in(folder) else ()), *names))
        raise UsageError(
            f"{folder} is in the place of the folder",
            hint=f"fatpack tool --install stand-ins {words}".rstrip() + f"; a folder of that name is ./{folder}",
        )


def _check_permission(folder: str, done: str) -> None:
    """Raise ``OSError`` if nothing can be made in a folder, or in the one that it would be made in."""
    at = os.path.abspath(folder)
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if not os.path.isdir(at):
        raise NotADirectoryError(errno.ENOTDIR, f"{os.strerror(errno.ENOTDIR)}; nothing was {done}", at)
    if not os.access(at, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)}; nothing was {done}", at)


def _known(names: Iterable[str]) -> list[str]:
    """Return the names, or those of all stand-ins. Raises UsageError for one that is none."""
    names = list(dict.fromkeys(names)) or list(TOOLS)
    for name in names:
        if find_stand_in(name) is None or name != os.path.basename(name):
            raise UsageError(f"no stand-in for {name!r}", hint=name_hint(os.path.basename(name)))
    return names


def _is(paths: Sequence[str]) -> str:
    return "is" if len(paths) == 1 else "are"


def _listed(paths: Sequence[str]) -> str:
    """Return paths in one line: the first few, and how many more there are."""
    more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
    return f"{', '.join(paths[:_LISTED])}{more}"


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.exe" if _IS_WINDOWS else name)


def _what_to_do(path: str, target: str) -> str:
    """Return what has to be done so that a stand-in is in its place: ``made``, ``changed``, or ``kept`` for nothing."""
    if not os.path.lexists(path):
        return "made"
    return "kept" if _is_same(path, target) else "changed"


def _copier(path: str) -> Callable[[str], None]:
    """Return what makes a copy of a stand-in under another name."""
    if os.path.islink(path):
        target = os.readlink(path)
        return lambda to: os.symlink(target, to)
    return lambda to: _make(to, path)


def _make(path: str, target: str) -> None:
    """Make a link, or a copy, that was not there. Raises FileExistsError if it is there meanwhile."""
    if not _IS_WINDOWS:
        os.symlink(target, path)
        return
    from fatpack.io.atomic_write import write_file

    with open(target, "rb") as file:
        write_file(path, [file.read()])


def _is_same(path: str, target: str) -> bool:
    if os.path.islink(path):
        return os.readlink(path) == target
    if not _IS_WINDOWS:
        return False
    with open(path, "rb") as one, open(target, "rb") as other:
        return one.read() == other.read()
