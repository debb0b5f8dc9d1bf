"""Profiles: the names of the kernels that a recorded run launched, as profilers write them.

===============  =======================================================================================================
``nsys``         ``nsys export --type sqlite``: CUPTI_ACTIVITY_KIND_KERNEL, whose names are numbers of StringIds
``rocpd``        rocprofv3's database: kernel symbols, of which those count that a dispatch names
``torch``        Chrome trace of torch.profiler, also with gzip: events of the category ``kernel``
``rocprof``      rocprofv3: the column Kernel_Name of ``*_kernel_trace.csv``, or its JSON
``negativa``     Negativa-ML's ``trace.json``: ``detected_kernels``
``text``         a name or a pattern (``*``, ``?``) on each line; ``#`` begins a comment
===============  =======================================================================================================

The kind of a profile is detected from its content. A profile may be hostile: reads are bounded, and databases are
opened read-only, without views, virtual tables and functions of the schema, and within a budget of steps.

Sources: tables of Nsight Systems, "Exporter SQLite schema" of its user guide; rocprofv3's output formats in
rocprofiler-sdk; Kineto's ``output_json.cpp``; negativa-ai/negativa-ml, ``detector``.
"""

from __future__ import annotations

from contextlib import closing, contextmanager

from fatpack import magic_numbers
from fatpack.errors import FormatError, LimitExceeded, UsageError, cli_or_api, pluralize
from fatpack.io.open import open_source
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from fatpack.io.source import View

#: kinds of profiles, as users name them
KINDS = ("nsys", "rocpd", "torch", "rocprof", "negativa", "text")

#: LIMIT: bytes of a profile that is a text, inflated. A trace of an hour has some hundred megabytes.
_TEXT = 1 << 29

#: LIMIT: kernels of one profile, and bytes of a name. Programs launch some ten thousand different kernels; names of
#: nested templates have some thousand bytes.
_NAMES, _NAME = 1 << 18, 1 << 16

#: LIMIT: patterns of one profile: each is compared with all kernels of a file.
_PATTERNS = 1000

#: LIMIT: steps of SQLite's machine for one profile, in units of 10,000: some minutes
_STEPS = 1_000_000

#: LIMIT: bytes of a value in a database
_VALUE = 1 << 24

_GZIP = b"\x1f\x8b"

#: bytes at the start of a profile from which its kind is recognised
_HEAD = 1 << 16

#: characters that patterns have
_WILDCARDS = "*?"


class Profile(Record):
    """The distinct kernel ``names`` of a recorded run, as its profiler wrote them; ``digest`` is the file's SHA-256."""

    path: str
    kind: str
    digest: str
    names: tuple[str, ...]

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names that may be patterns: profilers write none, so that their ``*`` is a pointer."""
        if self.kind != "text":
            return ()
        return tuple(name for name in self.names if any(char in name for char in _WILDCARDS))

    def record(self) -> dict[str, Any]:
        """Return what documents say of a profile."""
        return {"path": self.path, "kind": self.kind, "sha256": self.digest, "names": len(self.names)}


def read_profiles(files: Iterable[str]) -> tuple[Profile, ...]:
    """Return the profiles of some files, each given as ``FILE`` or ``FILE:KIND``.

    Raises UsageError for a profile without kernels, FormatError for a damaged one, and ``OSError``.
    """
    return tuple(map(_read, files))


def _read(given: str) -> Profile:
    path, _, kind = given.rpartition(":")
    if not path or kind not in KINDS:
        path, kind = given, ""
    with open_source(path) as source:
        view = source.view()
        kind = kind or _kind(view)
        names = dict.fromkeys(_bounded(_READERS[kind](view, path), path))
        if not names:
            raise UsageError(
                f"{path} names no kernel (read as {kind})",
                hint=f"record a run that launches kernels, or name the kind: {path}:{'|'.join(KINDS)}",
            )
        if kind == "text":
            count = sum(any(char in name for char in _WILDCARDS) for name in names)
            if count > _PATTERNS:
                problem = f"{path} has {pluralize(count, 'pattern')}, and at most {_PATTERNS} are compared"
                raise UsageError(problem, hint="join patterns, or write names in full")
        return Profile(path, kind, _digest(view), tuple(names))


def _digest(view: View) -> str:
    from fatpack.io.source import sha256_of_pieces

    return sha256_of_pieces([view]).hex()


def _bounded(names: Iterable[str], path: str) -> Iterator[str]:
    """Yield names without what is no part of them. Raises LimitExceeded for too many, or too long ones."""
    count = 0
    for name in names:
        text = name.strip().removesuffix(".kd")
        if not text:
            continue
        count += 1
        if len(text) > _NAME or count > _NAMES:
            too_long = f"a name of {len(text)} characters, and at most {_NAME} are read"
            problem = too_long if len(text) > _NAME else f"more than {_NAMES} names"
            raise LimitExceeded(problem, field="kernel names", hint="give a list of the distinct names", chain=(path,))
        yield text


def _kind(view: View) -> str:
    """Return the kind of a profile by its content."""
    head = view.head(0, _HEAD)
    if head.startswith(magic_numbers.SQLITE):
        return "rocpd" if b"rocpd_" in head and b"CUPTI_ACTIVITY" not in head else "nsys"
    if head.startswith(_GZIP):
        head = _inflated_head(head)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        if b'"rocprofiler-sdk-tool"' in start:
            return "rocprof"
        is_negativa = any(word in start for word in (b'"detected_kernels"', b'"loaded_sos"'))
        return "negativa" if is_negativa and b'"traceEvents"' not in start else "torch"
    if start.startswith(b"["):
        return "torch"
    return "rocprof" if b"Kernel_Name" in start.partition(b"\n")[0] else "text"


def _inflated_head(head: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def _text(view: View, path: str) -> str:
    """Return a profile that is a text, inflated. Raises FormatError and LimitExceeded."""
    limit = f"it has more than {_TEXT >> 20} MiB, inflated"
    advice = "give a list of the kernels' names instead"
    if len(view) > _TEXT:
        raise LimitExceeded(limit, field="size", hint=advice, chain=(path,))
    data = view.tobytes()
    if data.startswith(_GZIP):
        import zlib

        machine = zlib.decompressobj(wbits=31)
        try:
            data = machine.decompress(data, _TEXT)
        except zlib.error as error:
            raise _damaged(path, f"gzip: {error}") from error
        if machine.unconsumed_tail:
            raise LimitExceeded(limit, field="size", hint=advice, chain=(path,))
        if not machine.eof:
            raise _damaged(path, "gzip: the stream is cut")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            "it is no profile that is known, and no text of names",
            offset=error.start,
            field="text",
            expected="UTF-8",
            found=f"byte {data[error.start]:#04x}",
            format="profile",
            hint="give what Nsight Systems, torch.profiler, rocprofv3 or Negativa-ML wrote, or one name a line",
            chain=(path,),
        ) from error


def _damaged(path: str, problem: str) -> FormatError:
    return FormatError(
        problem, format="profile", hint=f"export it again, or name its kind: {path}:{'|'.join(KINDS)}", chain=(path,)
    )


# Texts


def _names_of_text(view: View, path: str) -> Iterator[str]:
    for number, line in enumerate(_text(view, path).splitlines(), 1):
        name = line.strip()
        if name.startswith("re:"):
            hint = "write a pattern with * and ?, which is compared with the mangled and the demangled name"
            raise UsageError(f"{path}, line {number}: regular expressions are not read", hint=hint)
        if name and not name.startswith("#"):
            yield name


def _names_of_rocprof(view: View, path: str) -> Iterator[str]:
    text = _text(view, path)
    if text.lstrip()[:1] == "{":
        yield from _names_of_rocprof_json(text, path)
        return
    import csv

    rows = csv.reader(text.splitlines())
    try:
        column = next(rows, []).index("Kernel_Name")
        for row in rows:
            if len(row) > column:
                yield row[column]
    except ValueError:
        raise _damaged(path, "the first line has no column Kernel_Name") from None
    except csv.Error as error:
        raise _damaged(path, f"line {rows.line_num}: {error}") from error


@contextmanager
def _reading_json(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"JSON: {error}") from error


def _names_of_rocprof_json(text: str, path: str) -> Iterator[str]:
    """Yield the symbols that a dispatch names: the table of symbols has all that were loaded."""
    import json

    with _reading_json(path):
        document = json.loads(text)
    for process in _list_at(document, "rocprofiler-sdk-tool"):
        dispatched = {
            _at(record, "dispatch_info", "kernel_id")
            for record in _list_at(_at(process, "buffer_records"), "kernel_dispatch")
            if isinstance(_at(record, "dispatch_info", "kernel_id"), int)
        }
        for symbol in _list_at(process, "kernel_symbols"):
            number = _at(symbol, "kernel_id")
            name = _at(symbol, "kernel_name") or _at(symbol, "formatted_kernel_name")
            if isinstance(number, int) and number in dispatched and isinstance(name, str):
                yield name


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list_at(value: Any, key: str) -> list[Any]:
    found = _at(value, key)
    return found if isinstance(found, list) else []


def _names_of_negativa(view: View, path: str) -> Iterator[str]:
    import json

    with _reading_json(path):
        document = json.loads(_text(view, path))
    yield from (name for name in _list_at(document, "detected_kernels") if isinstance(name, str))


def _names_of_torch(view: View, path: str) -> Iterator[str]:
    """Yield the kernels of a trace event by event: as objects, all of them would take ten times the memory."""
    with _reading_json(path):
        for event in _trace_events(_text(view, path)):
            # Copies (``gpu_memcpy``), operators (``cpu_op``) and calls of the runtime are no kernels.
            if isinstance(event, dict) and event.get("cat") == "kernel" and isinstance(event.get("name"), str):
                yield event["name"]


def _trace_events(text: str) -> Iterator[Any]:
    """Yield the values of ``traceEvents``, or of a text that is a list. Raises ValueError for damage."""
    import json

    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0)
    if text[at : at + 1] == "[":
        yield from _elements(text, at, decode)
        return
    if text[at : at + 1] != "{":
        raise ValueError(f"no object at character {at}")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"no colon at character {at}")
        at = _skip(text, at + 1)
        if key == "traceEvents" and text[at : at + 1] == "[":
            yield from _elements(text, at, decode)
            return
        _, at = decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)


def _elements(text: str, at: int, decode: Callable[[str, int], tuple[Any, int]]) -> Iterator[Any]:
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value, at = decode(text, at)
        yield value
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise ValueError(f"no comma at character {at}")


def _skip(text: str, at: int) -> int:
    """Return the position of the next character that is no blank."""
    size = len(text)
    while at < size and text[at] in " \t\r\n":
        at += 1
    return at


# Databases


@contextmanager
def _database(view: View, path: str) -> Iterator[sqlite3.Connection]:
    """Open a copy of a database that nothing else can change. Raises FormatError for a damaged one."""
    import sqlite3
    import tempfile
    from urllib.parse import quote

    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return int(steps > _STEPS)

    with tempfile.NamedTemporaryFile(prefix="fatpack-profile-", suffix=".sqlite") as copy:
        for piece in view.pieces():
            copy.write(piece)
        copy.flush()
        uri = f"file:{quote(copy.name)}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE)
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA cell_size_check = ON")
                connection.text_factory = lambda value: value.decode("utf-8", "replace")
                connection.set_progress_handler(count, 10_000)
                yield connection
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
            problem = "too many steps" if steps > _STEPS else str(error)
            raise _damaged(path, f"SQLite: {problem}") from error


def _tables(database: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Return the columns of the plain tables of a database: views and virtual tables run code of the file."""
    rows = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' LIMIT 10000").fetchall()
    plain = [name for name, sql in rows if sql and not str(sql).lstrip().upper().startswith("CREATE VIRTUAL")]
    return {
        # table_info leaves generated columns out, whose expressions are code of the file, too
        name: tuple(str(row[1]) for row in database.execute(f"PRAGMA table_info({_quoted(name)})").fetchall())
        for name in map(str, plain)
    }


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


_KERNELS, _GRAPHS, _STRINGS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "StringIds"

#: columns of kernels, the best first
_COLUMNS = ("mangledName", "demangledName", "shortName")


def _names_of_nsys(view: View, path: str) -> Iterator[str]:
    with _database(view, path) as database:
        tables = _tables(database)
        if _GRAPHS in tables and database.execute(f"SELECT 1 FROM {_GRAPHS} LIMIT 1").fetchone():
            raise UsageError(
                f"{path} has CUDA graphs that were recorded as one piece, without their kernels",
                hint="record the run with nsys profile --cuda-graph-trace=node",
            )
        # Tables are made only if something was recorded.
        columns = [name for name in _COLUMNS if name in tables.get(_KERNELS, ())]
        if not columns or not {"id", "value"} <= set(tables.get(_STRINGS, ())):
            return
        rows = database.execute(f"SELECT DISTINCT {', '.join(columns)} FROM {_KERNELS}").fetchmany(_NAMES + 1)
        wanted = {value for row in rows for value in row if isinstance(value, int)}
        texts = {
            number: value
            for number, value in database.execute(f"SELECT id, value FROM {_STRINGS}")
            if number in wanted and isinstance(value, str)
        }
        for row in rows:
            named = (value if isinstance(value, str) else texts.get(value, "") for value in row if value is not None)
            yield next(filter(None, named), "")


_DISPATCHES, _SYMBOLS = "rocpd_kernel_dispatch", "rocpd_info_kernel_symbol"


def _names_of_rocpd(view: View, path: str) -> Iterator[str]:
    """Yield the symbols that a dispatch names: the table of symbols has all that were loaded."""
    with _database(view, path) as database:
        tables = _tables(database)
        for table in tables:
            # The tables of a run end in its UUID; the names without it are views.
            symbols = _SYMBOLS + table.removeprefix(_DISPATCHES)
            if not table.startswith(_DISPATCHES) or symbols not in tables or "kernel_id" not in tables[table]:
                continue
            column = next((name for name in ("kernel_name", "display_name") if name in tables[symbols]), None)
            if column is None or "id" not in tables[symbols]:
                continue
            query = f"SELECT DISTINCT kernel_id FROM {_quoted(table)}"
            wanted = {row[0] for row in database.execute(query).fetchmany(_NAMES + 1)}
            for number, name in database.execute(f"SELECT id, {column} FROM {_quoted(symbols)}"):
                if number in wanted and isinstance(name, str):
                    yield name


_READERS: dict[str, Callable[[View, str], Iterator[str]]] = {
    "nsys": _names_of_nsys,
    "rocpd": _names_of_rocpd,
    "torch": _names_of_torch,
    "rocprof": _names_of_rocprof,
    "negativa": _names_of_negativa,
    "text": _names_of_text,
}


def spelled_used(path: str) -> str:
    """Return the option that names a profile, as the caller spells it."""
    return cli_or_api(f"--used {path}", f"used={path!r}")
