"""What declares something in folders: wheels and conda packages that lie there unpacked, or as they are installed.

::

    demo/lib.so              one of the files of RECORD, which is what the declaration is about
    demo-1.dist-info/        METADATA, variant.json, RECORD
    info/index.json          of conda; the declaration is about all that lies beside info/

How we know: PyPA, "Recording installed projects" and "Binary distribution format"; conda's documentation of packages.
Only folders are looked into that files were found below: no name that a file states is opened.
"""

from __future__ import annotations

import csv
import io
import os
from functools import partial

from fatpack.commands.check.declared import MAX_DECLARATION_SIZE, UnreadableDeclaration
from fatpack.commands.check.places import CONDA, INFO, WHEEL, DeclaringFile, read_declaring_file
from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message
from fatpack.inputs.files import MemberPath
from fatpack.io.open import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.budget import Budget

_RECORD = "RECORD"


def outermost_path(path: str) -> str:
    """Return the file itself of a path, which may lead into packages."""
    return path.names[0] if isinstance(path, MemberPath) else path


def declaring_files_in_folders(names: Sequence[str], paths: Iterable[str], budget: Budget) -> Iterator[DeclaringFile]:
    """Yield the files that declare something in named folders, and in those below that have some of the paths in them.

    Raises nothing for a file or a folder.
    """
    for folder in _folders([name for name in names if os.path.isdir(name)], paths):
        try:
            entries = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(INFO))
        except OSError as error:
            yield DeclaringFile(folder, folder, problem=error_message(error))
            continue
        for name in entries:
            yield from _wheel(folder, os.path.join(folder, name), budget)
        index = os.path.join(folder, *CONDA[0].split("/"))
        if os.path.isfile(index):
            yield read_declaring_file(index, folder, partial(open_source, index, budget=budget), CONDA[1])


def _folders(named: Sequence[str], paths: Iterable[str]) -> Iterable[str]:
    """Return the named folders, and all between them and the paths."""
    found = dict.fromkeys(named)
    for path in map(outermost_path, paths):
        between: list[str] = []
        at = os.path.dirname(path)
        while at and at not in found and at != os.path.dirname(at):
            between.append(at)
            at = os.path.dirname(at)
        if any(f"{at}{os.sep}".startswith(f"{name.rstrip(os.sep)}{os.sep}") for name in named):
            found |= dict.fromkeys(between)
    return found


def _wheel(folder: str, info: str, budget: Budget) -> Iterator[DeclaringFile]:
    """Yield what an unpacked wheel declares; where that is something, RECORD says which files it is about."""
    paths = {path: readers for name, readers in WHEEL.items() if os.path.isfile(path := os.path.join(info, name))}
    made = [read_declaring_file(path, info, partial(open_source, path, budget=budget), paths[path]) for path in paths]
    record, files = os.path.join(info, _RECORD), frozenset[str]()
    try:
        if any(each.declarations for each in made):
            files = _recorded(folder, record, budget)
    except UnreadableDeclaration as error:
        made.append(DeclaringFile(record, info, problem=str(error)))
    except (FatpackError, OSError) as error:
        made.append(DeclaringFile(record, info, problem=error_message(error)))
    for each in made:
        yield each.replace(files=files)


def _recorded(folder: str, path: str, budget: Budget) -> frozenset[str]:
    """Return the files of an unpacked wheel. Raises Unreadable, FatpackError, ``OSError``."""
    with open_source(path, budget=budget) as source:
        data = source.beginning(MAX_DECLARATION_SIZE + 1)
    if len(data) > MAX_DECLARATION_SIZE:
        raise UnreadableDeclaration(f"it has more than {MAX_DECLARATION_SIZE} bytes")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline="")))
    except csv.Error as error:
        raise UnreadableDeclaration(f"it is no table of files: {error}") from error
    return frozenset(os.path.normpath(os.path.join(folder, row[0])) for row in rows if row)
