"""Progress of a survey: a database beside the parts, which decides their content.

A part is in the folder when the database names it: parts of a run that was killed before are removed. While one survey
writes to a folder, no other does. Memory does not grow with the number of files.
"""

from __future__ import annotations

import errno
import os
import sqlite3

from fatpack.commands.survey.worker import SurveyTask, is_part
from fatpack.errors import FormatError, UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from fatpack.commands.survey.worker import TaskResult
    from fatpack.inputs.walk import TreeFile

#: The database; tools that read folders of Parquet pass over names with this first character.
DATABASE_NAME = "_survey.sqlite"

#: Paths are bytes: names of files may be no UTF-8.
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS file (
    path BLOB PRIMARY KEY, identity TEXT, part TEXT, count INTEGER, exit_code INTEGER, has_error INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_of_part ON file (part);
DROP TABLE IF EXISTS plan;
CREATE TABLE plan (
    number INTEGER PRIMARY KEY, path BLOB UNIQUE, size INTEGER, identity TEXT, problem TEXT, given TEXT, others INTEGER
);
"""

#: So many tasks are read from the plan at a time.
_AT_ONCE = 1000


class PlanTotals(Record):
    """The number of files in the plan, the number of files still to read, and their bytes.

    ``same`` are URLs that were passed over: they differ from others only in what is not shown of them.
    """

    files: int
    waiting: int
    size: int
    same: int


class SurveyManifest:
    """The database of a folder, open for one survey; a context manager."""

    def __init__(self, folder: str, options: str) -> None:
        """Open the database of a folder, which is made if it is not there.

        Raises UsageError for a folder with other files, one that was made with other options, and one that is in use.
        """
        self._folder = folder
        path = os.path.join(folder, DATABASE_NAME)
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise UsageError(f"{folder} is no folder", hint="name one that is new, or one of a survey")
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(path) and any(not name.startswith(".fatpack.") for name in os.listdir(folder)):
            raise UsageError(f"{folder} has other files", hint="name a folder that is new, or one of a survey")
        self._path = path
        try:
            self._base = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._base.execute("PRAGMA secure_delete = ON")
            self._base.execute("BEGIN EXCLUSIVE")
            self._base.execute("COMMIT")
            self._base.executescript(_TABLES)
        except sqlite3.Error as error:
            raise self._failed(error) from error
        try:
            self._check(options)
            self._remove_strays()
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._base.execute("DROP TABLE IF EXISTS plan")  # URLs in it may hold keys
        except sqlite3.Error:
            pass  # the disk is full, or the error is on its way already
        self._base.close()

    def _failed(self, error: sqlite3.Error) -> UsageError | FormatError | OSError:
        text = str(error)
        if "locked" in text:
            return UsageError(f"{self._folder} is in use by another survey", hint="wait for it, or name another folder")
        if "full" in text:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        if "unable to open" in text or "readonly" in text or "disk I/O" in text:
            return OSError(errno.EIO, text, self._path)
        hint = "remove the folder, and survey again"
        return FormatError(f"the list of what is done cannot be read ({text})", hint=hint, chain=(self._path,))

    def _all(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        try:
            return self._base.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _check(self, options: str) -> None:
        (row,) = self._all("SELECT value FROM meta WHERE name = 'options'") or [None]
        if row is None:
            self._all("INSERT INTO meta VALUES ('options', ?)", (options,))
        elif row[0] != options:
            raise UsageError(
                f"{self._folder} was made with other options: {row[0]}", hint="give these, or name another folder"
            )

    def _remove_strays(self) -> None:
        """Remove parts that no run finished, and parts that were rewritten under another name."""
        known = {name for (name,) in self._all("SELECT name FROM part")}
        for name in os.listdir(self._folder):
            if is_part(name) and name not in known:
                os.unlink(os.path.join(self._folder, name))

    def plan(self, places: Iterable[TreeFile]) -> PlanTotals:
        """Take note of all files that there are; one that is named twice is one."""
        rows = (
            (os.fsencode(place.path), place.size, place.identity, place.problem, place.name_given) for place in places
        )
        self._all("BEGIN")
        try:
            self._base.executemany(
                "INSERT INTO plan (path, size, identity, problem, given, others) VALUES (?, ?, ?, ?, ?, 0) "
                "ON CONFLICT (path) DO UPDATE SET others = others + (given != excluded.given)",
                rows,
            )
        except sqlite3.Error as error:
            raise self._failed(error) from error
        self._all("COMMIT")
        ((files, same),) = self._all("SELECT count(*), total(others) FROM plan")
        ((waiting, size),) = self._all(f"SELECT count(*), total(plan.size) {_WAITING}")
        return PlanTotals(files, waiting, int(size), int(same))

    def tasks(self) -> Iterator[tuple[SurveyTask, str]]:
        """Yield the tasks of unfinished files, each with the reason why the file cannot be read, "" if it can."""
        after = 0
        while rows := self._all(f"{_COLUMNS} {_WAITING} AND number > ? ORDER BY number LIMIT {_AT_ONCE}", (after,)):
            for number, path, identity, known, problem, given in rows:
                after = number
                yield SurveyTask(number, os.fsdecode(path), identity, known or "", given), problem

    def stale(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the parts that have rows of some files, by name, with those files."""
        found: dict[str, list[str]] = {}
        for path in paths:
            for (part,) in self._all("SELECT part FROM file WHERE path = ?", (os.fsencode(path),)):
                found.setdefault(part, []).append(path)
        return found

    def commit(self, part: str, results: Iterable[TaskResult], renamed: Mapping[str, str]) -> None:
        """Take note of a new part and of the files in it, and of parts that have new names, all or nothing."""
        self._all("BEGIN")
        try:
            for old, new in renamed.items():
                self._all("INSERT OR REPLACE INTO part VALUES (?)", (new,))
                self._all("UPDATE file SET part = ? WHERE part = ?", (new, old))
                self._all("DELETE FROM part WHERE name = ?", (old,))
            self._all("INSERT OR REPLACE INTO part VALUES (?)", (part,))
            for item in results:
                values = (os.fsencode(item.path), item.identity, part, item.count, item.exit_code, item.has_error)
                self._all("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", values)
        except BaseException:
            self._base.rollback()
            raise
        self._all("COMMIT")

    def sums(self) -> tuple[int, int, int]:
        """Return the number of finished files of the plan, of their rows, and of files with an error."""
        ((files, count, errors),) = self._all(f"SELECT count(*), total(count), total(has_error) {_DONE}")
        return files, int(count), int(errors)

    def codes(self, *, has_error: bool = False) -> dict[int, int]:
        """Return the number of finished files for each exit code, of files with or without an error."""
        return dict(
            self._all(f"SELECT exit_code, count(*) {_DONE} WHERE has_error = ? GROUP BY exit_code", (has_error,))
        )


#: Files of the plan that are done.
_DONE = "FROM plan JOIN file USING (path)"

#: Files that were never read, are not what they were, could not be read, or whose state only a worker sees.
_WAITING = (
    "FROM plan LEFT JOIN file USING (path) "
    "WHERE (file.path IS NULL OR file.has_error OR plan.identity = '' OR plan.identity != file.identity)"
)
_COLUMNS = (
    "SELECT number, plan.path, plan.identity, CASE WHEN file.has_error THEN '' ELSE file.identity END, "
    "plan.problem, plan.given"
)
