"""Which files of packages declare something: found by where they lie, opened, and read with bounds.

==============================  ==========================================================
wheel (zip)                     ``*.dist-info/METADATA``, ``*.dist-info/variant.json``
conda, both of its formats      ``info/index.json``
Debian                          ``control`` of ``control.tar``
==============================  ==========================================================

What lies unpacked in folders is found by :mod:`fatpack.commands.check.folders`.
"""

from __future__ import annotations

import os

from fatpack.commands.check import classifiers, conda, debian, extras, variant
from fatpack.commands.check.declared import MAX_DECLARATION_SIZE, MetadataDeclaration, UnreadableDeclaration
from fatpack.commands.check.reopening import reopen
from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from fatpack.budget import Budget
    from fatpack.io.source import Source
    from fatpack.tabular.columns import AnyRow

    DeclarationReader = Callable[[bytes], MetadataDeclaration]

#: how folders end in which wheels say what they are
INFO = ".dist-info"

#: files there → what reads them
WHEEL: dict[str, tuple[DeclarationReader, ...]] = {
    "METADATA": (extras.extras_declaration, classifiers.classifier_declaration),
    "variant.json": (variant.variant_declaration,),
}

#: the file in which packages of conda say what they are, and what reads it
CONDA: tuple[str, tuple[DeclarationReader, ...]] = ("info/index.json", (conda.conda_declaration,))

#: packages in others that hold only what is installed
_FILES = {"data.tar": ".deb", "pkg-": ".conda"}


class DeclaringFile(Record):
    """A file that declares: its path, the package that it is about, what it declares, and in which distributions code
    of that package may lie besides. ``problem`` is why it cannot be read. ``files`` are those of a package that lies
    unpacked among others; without them it is about all that is in the package.
    """

    path: str
    package: str
    declarations: tuple[MetadataDeclaration, ...] = ()
    needs: tuple[str, ...] = ()
    problem: str = ""
    files: frozenset[str] = frozenset()


def declaring_files_in_package(row: AnyRow, budget: Budget) -> Iterator[DeclaringFile]:
    """Yield the files of a package that declare something, by the row of the package. Raises nothing for a file."""
    from fatpack.packages import get_package

    names = row.path.names if isinstance(row.path, MemberPath) else (row.path,)
    about = _about(row.host or "", names)
    if about is None:
        return
    try:
        with reopen(row.path, budget) as source:
            for item in get_package(row.host or "").members(source.view()):
                readers = () if isinstance(item, Finding) else _readers(row.host or "", names, item.name)
                if readers and not isinstance(item, Finding):
                    yield read_declaring_file(f"{row.path}{SEPARATOR}{item.name}", about, item.open, readers)
                    if row.host == "tar":
                        return
    except (FatpackError, OSError) as error:
        yield DeclaringFile(row.path, about, problem=error_message(error))


def _about(host: str, names: tuple[str, ...]) -> str | None:
    """Return the path of the package that what is declared in one is about; None for one that declares nothing."""
    name, around = os.path.basename(names[-1]), names[-2] if len(names) > 1 else ""
    if host not in ("zip", "tar") or any(
        name.startswith(start) and around.endswith(end) for start, end in _FILES.items() if around
    ):
        return None
    is_part = bool(around) and host == "tar" and name.startswith(("control.tar", "info-"))
    return SEPARATOR.join(names[:-1] if is_part else names)


def _readers(host: str, names: tuple[str, ...], name: str) -> tuple[DeclarationReader, ...]:
    folder, _, file = name.rpartition("/")
    if host == "zip":
        return WHEEL.get(file, ()) if folder.endswith(INFO) and "/" not in folder else ()
    if name == "control" and len(names) > 1 and os.path.basename(names[-1]).startswith("control.tar"):
        return (debian.debian_declaration,)
    return CONDA[1] if name == CONDA[0] else ()


def read_declaring_file(
    path: str, about: str, opening: Callable[[], AbstractContextManager[Source]], readers: tuple[DeclarationReader, ...]
) -> DeclaringFile:
    """Return what a file declares, or why it cannot be read; nothing is raised for it."""
    try:
        with opening() as source:
            data = source.beginning(MAX_DECLARATION_SIZE + 1)
            if len(data) > MAX_DECLARATION_SIZE:
                raise UnreadableDeclaration(f"it has more than {MAX_DECLARATION_SIZE} bytes")
        found = tuple(made for reader in readers if (made := reader(data)).claims)
        needs = extras.required_distributions(data) if extras.extras_declaration in readers else ()
    except UnreadableDeclaration as error:
        return DeclaringFile(path, about, problem=str(error))
    except (FatpackError, OSError) as error:
        return DeclaringFile(path, about, problem=error_message(error))
    return DeclaringFile(path, about, found, needs)
