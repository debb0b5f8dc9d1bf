"""Libraries of Tensile among the files of a walk: what is missing, what nothing names, what has a wrong name.

A library is a folder, with a folder for each target in it or without: rocBLAS opens ``<folder>/<target>/`` if that
exists, else the folder itself. Of a target it reads the first parent that is there: ``TensileLibrary_lazy_<target>``,
``TensileLibrary_<target>``, ``TensileLibrary``. For each table P that the parent names:

===================  =============================================================================
table                ``P.dat``, ``P.dat.zlib``
code                 one of ``P.co``, ``P.hsaco``, ``P_<target>.hsaco``
variants             the same with ``-xnack-`` or ``-xnack+`` before the extension
lazy loading         ``Kernels.so-000-<target>.hsaco``, or a variant of it
===================  =============================================================================
"""

from __future__ import annotations

import os
from posixpath import basename

from fatpack.errors import FatpackError, LimitExceeded, pluralize
from fatpack.exit_codes import error_message
from fatpack.findings import finding
from fatpack.inputs.files import MemberPath
from fatpack.inputs.reopen import map_package_files, reopen
from fatpack.io.source import Span, VirtualName
from fatpack.record import Record
from fatpack.tensile import tables
from fatpack.tensile.tables import CODE, EXTENSIONS, YAML, arch_of_code, parse_parent_name, stem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.inputs.files import InputFile
    from fatpack.limits import Budget
    from fatpack.model import Finding

    #: name of a file → processors of the images in it; None if it was not read
    _Files: TypeAlias = dict[str, set[str] | None]

#: beginnings of the names of tables and of the code that they name, and of helper kernels
_TABLES = ("TensileLibrary", "TensileLiteLibrary")
_HELPERS = "Kernels.so-"

#: states of xnack in the names of code files
_VARIANTS = ("", "-xnack-", "-xnack+")

#: part of a path → the library whose files are there
_TITLES = {"rocblas": "rocBLAS", "hipblaslt": "hipBLASLt", "hipsparselt": "hipSPARSELt"}

#: names that a finding lists
_NAMED = 3


class TargetTables(Record):
    """A library for one target: its parent ("" if there is none), and counts of its tables and code files.

    ``findings`` say what is wrong with it; those of severity ``note`` leave it usable.
    """

    arch: str
    parent: str
    tables: int
    code_files: int
    findings: tuple[Finding, ...] = ()

    @property
    def is_sound(self) -> bool:
        """True if there is a parent, and nothing that it names is missing."""
        return bool(self.parent) and all(item.severity == "note" for item in self.findings)


class TensileLibrary(Record):
    """A library: its folder, its name in words, and what it has for each target. ``is_read``: its tables were read."""

    path: str
    title: str
    targets: tuple[TargetTables, ...]
    findings: tuple[Finding, ...] = ()
    is_read: bool = True

    def target(self, arch: str) -> TargetTables | None:
        """Return what it has for a target, None if that is nothing."""
        return next((item for item in self.targets if item.arch == arch), None)

    def support(self, arch: str) -> tuple[bool, str]:
        """Return whether the library has tables for a processor, and that in words.

        The library aborts on a device without them, or fails for want of code. What is wrong with the files of a
        processor is in its findings.
        """
        target = self.target(arch)
        if target is not None and target.parent:
            return True, f"{self.title} has tables for {arch}"
        if any((parent := parse_parent_name(item.parent)) and not parent.arch for item in self.targets):
            return False, f"{self.title} has no code for {arch}"  # one parent is for several targets
        return False, f"{self.title} has no parent table for {arch}, and aborts"

    @property
    def words(self) -> str:
        """The library in words: ``rocBLAS library: gfx942 (184 tables, 184 code files)``."""
        parts = (
            f"{item.arch} ({pluralize(item.tables, 'table')}, {pluralize(item.code_files, 'code file')})"
            for item in self.targets
        )
        return f"{self.title} library: {', '.join(parts) or 'no target'}"

    @property
    def every_finding(self) -> tuple[Finding, ...]:
        """All findings, those of the targets first."""
        return (*(item for target in self.targets for item in target.findings), *self.findings)


def split_path(path: str) -> tuple[str, str]:
    """Return the folder of a file, with the separator at its end, and its name; a package is the folder of members."""
    last = path.names[-1] if isinstance(path, MemberPath) else path.replace(os.sep, "/")
    name = basename(last)
    return str(path)[: len(path) - len(name)], name


def shown_folder(folder: str) -> str:
    """Return a folder as results name it: without the separator at its end."""
    return folder.rstrip("/!" + os.sep)


def library_folder(path: str) -> str | None:
    """Return the folder of the library that a file belongs to by its name, None if it is of no library."""
    folder, name = split_path(path)
    if name.startswith(_TABLES):
        is_part = name.endswith((*EXTENSIONS, *CODE, YAML))
    else:
        is_part = name.startswith(_HELPERS) and name.endswith(CODE)
    return _root(folder)[0] if is_part else None


def _root(folder: str) -> tuple[str, str]:
    """Return the folder of a library, and the target if the given folder is that of one target."""
    inner = folder[:-1].replace(os.sep, "/").rpartition("/")[2] if folder else ""
    if inner and arch_of_code(f"_{inner}.co") == inner:
        return folder[: -1 - len(inner)], inner
    return folder, ""


def target_of_file(path: str) -> str:
    """Return the target of a file of Tensile: that in its name, or that of its folder; "" if neither has one."""
    folder, name = split_path(path)
    if name.endswith(CODE):
        stated = arch_of_code(name)
    else:
        parent = parse_parent_name(name)
        stem = stem_of(name, (*EXTENSIONS, YAML)) or ""
        stated = parent.arch if parent is not None else arch_of_code(f"{stem}.co")
    root = library_folder(path)
    return stated or ("" if root is None else shown_folder(folder[len(root) :]))


class TensileFinder:
    """Takes the files of a walk by name, and returns the libraries among them.

    Tables are read when :meth:`libraries` is called: of folders one by one, of a package in one walk through it.
    ``is_filtered``: files of packages may be missing from the walk because they were excluded.
    """

    def __init__(self, budget: Budget, *, deep: bool = False, is_filtered: bool = False) -> None:
        self._budget, self._deep, self._is_filtered = budget, deep, is_filtered
        #: folder of a library → target, or "" for all → its files
        self._found: dict[str, dict[str, _Files]] = {}
        self._paths: dict[str, str] = {}
        #: libraries in packages
        self._packed: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._found)

    def take(self, path: str, archs: Iterable[str]) -> None:
        """Take note of a file, with the architectures of the images that were found in it."""
        if library_folder(path) is None:
            return
        folder, name = split_path(path)
        root, arch = _root(folder)
        files = self._found.setdefault(root, {}).setdefault(arch, {})
        read = files.get(name) or set()
        files[name] = read | {item.partition(":")[0] for item in archs if item}
        self._paths[folder + name] = path
        if isinstance(path, MemberPath):
            self._packed.add(root)

    def libraries(self) -> list[TensileLibrary]:
        """Return the libraries, in the order in which they were met."""
        for root, parts in self._found.items():
            for arch, files in parts.items():
                self._add_names(f"{root}{arch}{_separator(root) if arch else ''}", files)
        named = self._read_parents()
        return [
            _Library(root, parts, named).result()
            for root, parts in self._found.items()
            if not (self._is_filtered and root in self._packed)
        ]

    def _add_names(self, folder: str, files: _Files) -> None:
        """Add the names of files in a folder of the system that the walk left out."""
        try:
            names = os.listdir(folder) if os.path.isdir(folder) else []
        except OSError:
            return  # the walk reports folders that cannot be read
        for name in names:
            if library_folder(folder + name) is not None:
                files.setdefault(name, None)

    def _read_parents(self) -> dict[str, tuple[str, ...] | FatpackError | OSError]:
        """Return what each parent names, by its path, or the error that reading it raises."""
        wanted = [
            self._paths.get(path, path)
            for root, parts in self._found.items()
            for arch, files in parts.items()
            for name in files
            for path in (f"{root}{arch}{_separator(root) if arch else ''}{name}",)
            if _is_readable_parent(name)
        ]
        found: dict[str, tuple[str, ...] | FatpackError | OSError] = {}
        for path, made in map_package_files(wanted, _of_leaf, self._budget, deep=self._deep).items():
            found[str(path)] = made
        for path in wanted:
            if str(path) not in found:
                try:
                    with reopen(path, self._budget) as source:
                        found[str(path)] = tables.read_placeholders(source.view())
                except (FatpackError, OSError) as error:
                    found[str(path)] = error
        return found


def _names(parts: Mapping[str, _Files]) -> set[str]:
    return {name for files in parts.values() for name in files}


def _separator(root: str) -> str:
    return "/" if "/" in root else os.sep


def _is_readable_parent(name: str) -> bool:
    parent = parse_parent_name(name)
    return parent is not None and not parent.is_mapping and not name.endswith(YAML)


def _of_leaf(leaf: InputFile) -> tuple[str, ...] | FatpackError | OSError:
    if leaf.view is None:
        return leaf.error or OSError(0, "it cannot be read", leaf.path)
    try:
        return tables.read_placeholders(leaf.view)
    except (FatpackError, OSError) as error:
        return error


class _Library:
    """One library: its files by target, and what the parents among them name."""

    def __init__(
        self,
        root: str,
        parts: Mapping[str, _Files],
        named: Mapping[str, tuple[str, ...] | FatpackError | OSError],
    ) -> None:
        self._root, self._parts, self._named = root, parts, named
        self._findings: list[Finding] = []
        #: stems of tables that a parent names
        self._listed: set[str] = set()

    def result(self) -> TensileLibrary:
        """Return what the library has for each target, and what is wrong."""
        flat = self._parts.get("", {})
        archs = self._archs()
        targets = tuple(self._target(arch, self._parts.get(arch) or flat) for arch in archs)
        for arch in archs:
            if self._parts.get(arch) and any(arch_of_code(name) == arch for name in flat):
                text = f"the folder has code for {arch}, and so has {arch}/ in it, which is the only one that is read"
                self._add("FP3407", arch, text, f"remove the files for {arch} outside of {arch}/")
        self._unnamed()
        is_read = any(target.parent for target in targets)
        if not is_read:
            yaml = sorted(name for name in _names(self._parts) if name.endswith(YAML) and parse_parent_name(name))
            what = f"{yaml[0]} is in YAML" if yaml else "there is no parent in MessagePack"
            text = f"{what}: the files of the library were not compared with its tables"
            self._add("FP3409", "", text, "tables in MessagePack (.dat) are compared")
        title = next((word for part, word in _TITLES.items() if part in self._root.lower()), "Tensile")
        return TensileLibrary(shown_folder(self._root), title, targets, tuple(self._findings), is_read)

    def _add(self, code: str, name: str, text: str, hint: str = "") -> None:
        self._findings.append(self._finding(code, name, text, hint))

    def _finding(self, code: str, name: str, text: str, hint: str = "") -> Finding:
        return finding(code, Span(0, 0, (VirtualName(shown_folder(self._root)),)), text, hint, field=name)

    def _archs(self) -> list[str]:
        """Return the targets of parents and of code files, by their names."""
        found: dict[str, None] = dict.fromkeys(arch for arch in self._parts if arch)
        for name in sorted(_names(self._parts)):
            parent = parse_parent_name(name)
            arch = parent.arch if parent is not None else arch_of_code(name) if name.endswith(CODE) else ""
            found.update(dict.fromkeys([arch] if arch else []))
        return list(found)

    def _parent(self, arch: str, files: _Files) -> str:
        """Return the name of the parent that is read for a target, "" if there is none."""
        stems = (f"_lazy_{arch}", f"_{arch}", "")
        names = (f"{start}{stem}{end}" for stem in stems for start in _TABLES for end in EXTENSIONS)
        return next((name for name in names if name in files), "")

    def _target(self, arch: str, files: _Files) -> TargetTables:
        code = {name for name in files if name.endswith(CODE) and arch_of_code(name) in (arch, "")}
        own = {name for name in code if arch_of_code(name) == arch}
        parent = self._parent(arch, files)
        found = list(self._mislabelled(arch, files, own))
        if not parent:
            is_yaml = any(name.endswith(YAML) for name in files)
            if own and not is_yaml:
                text = f"{pluralize(len(own), 'code file')} for {arch}, and no parent table for it: none is ever loaded"
                found.append(self._finding("FP3406", arch, text, f"add TensileLibrary_lazy_{arch}.dat and its tables"))
            return TargetTables(arch, "", 0, len(own), tuple(found))
        folder = f"{self._root}{arch}{_separator(self._root)}" if files is self._parts.get(arch) else self._root
        named = self._named.get(folder + parent)
        if named is None or isinstance(named, (FatpackError, OSError)):
            problem = "it was not read" if named is None else error_message(named)
            text = f"{parent} cannot be read: {problem}"
            code_of = "FP1005" if isinstance(named, LimitExceeded) else "FP3408"
            found.append(self._finding(code_of, parent, text, "get the file again"))
            return TargetTables(arch, parent, 0, len(own), tuple(found))
        stated = parse_parent_name(parent)
        self._listed |= {*named, *(f"{name}_{arch}" for name in named)}
        is_lazy = stated is not None and stated.is_lazy and bool(named)
        found += self._missing(arch, files, parent, named) if named else self._unlisted(arch, parent, own)
        if is_lazy and not any(f"{_HELPERS}000-{arch}{variant}.hsaco" in files for variant in _VARIANTS):
            text = (
                f"no helper kernels for {arch}: there is no {_HELPERS}000-{arch}.hsaco, with which lazy loading begins"
            )
            found.append(self._finding("FP3403", arch, text, "install the library again"))
        found += self._unpaired(arch, parent, files)
        return TargetTables(arch, parent, len(named) or 1, len(code), tuple(found))

    def _missing(self, arch: str, files: _Files, parent: str, named: Sequence[str]) -> Iterator[Finding]:
        """Yield what a parent names and is not there: tables, and the code of tables."""
        without_table = [name for name in named if not any(name + end in files for end in (*EXTENSIONS, YAML))]
        gone = set(without_table)
        without_code = [name for name in named if name not in gone and not _has_code(name, arch, files)]
        if without_table:
            text = f"{parent} names {_listed(without_table, 'table')} that {_are(without_table)} not there"
            yield self._finding("FP3401", parent, text, "install the library again")
        if without_code:
            text = f"{parent} names {_listed(without_code, 'table')} without code: there is neither .co nor .hsaco"
            yield self._finding("FP3402", parent, text, "install the library again")

    def _unlisted(self, arch: str, parent: str, own: set[str]) -> Iterator[Finding]:
        """Yield that a library without lazy loading has no code at all for a target."""
        if not own:
            text = f"{parent} is loaded with all code files for {arch}, and there is none"
            yield self._finding("FP3402", parent, text, "install the library again")

    def _mislabelled(self, arch: str, files: _Files, own: set[str]) -> Iterator[Finding]:
        """Yield code files for a target by their names that have code for others, or none."""
        others: dict[str, list[str]] = {}
        for name in sorted(own):
            found = files[name]
            if found is not None and arch not in found:
                others.setdefault(" and ".join(sorted(found)), []).append(name)
        for real, names in others.items():
            has = f"{'have' if len(names) > 1 else 'has'} code for {real}" if real else "no device code is in"
            listed = _listed(names, "file")
            text = f"{listed} {has}, and the name says {arch}" if real else f"{has} {listed}, named for {arch}"
            hint = f"{arch} does not load it: get the library that is built for {arch}"
            yield self._finding("FP3404", names[0], text, hint)

    def _unpaired(self, arch: str, parent: str, files: _Files) -> Iterator[Finding]:
        """Yield that hipBLASLt has a parent without the mapping beside it, if other targets have both."""
        mappings = [name for name in _names(self._parts) if (said := parse_parent_name(name)) and said.is_mapping]
        own = any((said := parse_parent_name(name)) and said.is_mapping and said.arch == arch for name in files)
        if mappings and not own:
            text = f"{parent} has no mapping for {arch} beside it, as other targets have"
            yield self._finding("FP3410", parent, text, "install the library again")

    def _unnamed(self) -> None:
        """Note the tables and code files that no parent names."""
        if not self._listed:
            return
        names = [
            name
            for name in sorted(_names(self._parts))
            if name.startswith(_TABLES)
            and "Experimental" not in name
            and parse_parent_name(name) is None
            and (stem := stem_of(name, (*EXTENSIONS, *CODE))) is not None
            and not {stem, *(stem.removesuffix(variant) for variant in _VARIANTS if variant)} & self._listed
        ]
        if names:
            self._add("FP3405", names[0], f"no table names {_listed(names, 'file')}: nothing loads what is in them")


def _has_code(name: str, arch: str, files: _Files) -> bool:
    """Return whether a file with the code of a table is there."""
    stems = (name, f"{name}_{arch}")
    hsaco = (f"{stem}{variant}.hsaco" for stem in stems for variant in _VARIANTS)
    return any(f"{name}{variant}.co" in files for variant in _VARIANTS) or any(each in files for each in hsaco)


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"


def _listed(names: Sequence[str], noun: str) -> str:
    """Return names in words: the first few, and the number of all if there are more."""
    shown = ", ".join(names[:_NAMED])
    if len(names) == 1:
        return f"the {noun} {shown}"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{pluralize(len(names), noun)} ({shown}{more})"
