"""Package metadata checked against device code: declared architectures without code, and undeclared code."""

from __future__ import annotations

import csv
import fnmatch
import io
import os
import re
from functools import partial

from fatpack.commands.check.model import Violation
from fatpack.commands.check.policy import Requirement
from fatpack.commands.check.rule_context import meets_requirement, reopen, supports_later_devices
from fatpack.errors import FatpackError, TargetError, pluralize
from fatpack.exit_codes import error_message
from fatpack.findings import CODES
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.io.open import open_source
from fatpack.model import Finding, arch_name
from fatpack.record import Record
from fatpack.targets.devices import parse_device
from fatpack.targets.nvidia import first_cuda_for_ptx, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, TypeAlias

    from fatpack.commands.check.rule_context import FileImageSets, ImageSetRows
    from fatpack.io.source import Source
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow

    DeclarationReader: TypeAlias = "Callable[[bytes], MetadataDeclaration]"


# The content of a declaration in any of its formats, and bounded reading of its files.

#: LIMIT: bytes of a file that declares; the largest METADATA of known wheels, with its description, have 200 kB.
MAX_DECLARATION_SIZE = 4 << 20

#: LIMIT: claims of one declaration
MAX_CLAIMS = 1000

#: LIMIT: characters of a value, which messages repeat
_LONGEST = 64


class UnreadableDeclaration(Exception):
    """A declaration that cannot be read, and why, in words."""


class MetadataClaim(Record):
    """One thing that is declared.

    ``kind`` is ``image`` (something serves the device ``arch``), ``ptx`` (so does PTX for it, and for later ones),
    ``lowest`` (that device is the lowest that is served), ``cuda`` (``version`` of CUDA whose driver is enough).
    ``text`` is what the file says.
    """

    kind: str
    vendor: str
    arch: str
    text: str
    version: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The architecture that the claim names, ``compute_90`` for PTX."""
        return arch_name(self.arch, self.kind)


class MetadataDeclaration(Record):
    """The architectures that one file declares in one way, its ``source``.

    ``lists`` are the vendors of whose images all are listed: what is there besides is not declared. Without claims
    the file declares nothing.
    """

    source: str
    claims: tuple[MetadataClaim, ...]
    lists: tuple[str, ...] = ()


def unique_claims(claims: Iterator[MetadataClaim]) -> tuple[MetadataClaim, ...]:
    """Return claims, each once. Raises UnreadableDeclaration for too many."""
    found: dict[MetadataClaim, None] = {}
    for claim in claims:
        found[claim] = None
        if len(found) > MAX_CLAIMS:
            raise UnreadableDeclaration(f"it makes more than {MAX_CLAIMS} claims")
    return tuple(found)


def truncate(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the object that JSON is. Raises UnreadableDeclaration."""
    import json

    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableDeclaration(f"it is no JSON: {truncate(text)}") from None
    return require_object(value, "it")


def require_object(value: object, what: str) -> dict[str, Any]:
    """Return a value that must be an object. Raises UnreadableDeclaration."""
    if not isinstance(value, dict):
        raise UnreadableDeclaration(f"{what} is no object")
    return value


def require_strings(value: object, what: str) -> list[str]:
    """Return a value that must be a list of texts. Raises UnreadableDeclaration."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableDeclaration(f"{what} is no list of texts")
    return value


def header_fields(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the fields before the first empty line, names in lower case: RFC 822, as METADATA and control have it.

    Raises UnreadableDeclaration for bytes that are no UTF-8, and for lines that are no field.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise UnreadableDeclaration("it is no UTF-8") from None
    name, values = "", list[str]()
    for line in lines:
        if not line.strip():
            break
        if line[0] in " \t":
            if not name:
                raise UnreadableDeclaration("its first line belongs to no field")
            values.append(line.strip())
            continue
        if name:
            yield name, " ".join(values)
        name, colon, value = line.partition(":")
        if not colon:
            raise UnreadableDeclaration(f"{truncate(line)!r} is no field")
        name, values = name.strip().lower(), [value.strip()]
    if name:
        yield name, " ".join(values)


def parse_declared_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers of ``12`` or ``12.4``; None for what is neither."""
    parts = text.split(".")
    if len(text) > 12 or len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return tuple(int(part) for part in parts)


# Classifiers of wheels: ``Environment :: GPU :: NVIDIA CUDA :: 12 :: 12.4``.
#
# Source: trove-classifiers. The last part is a version; ``NVIDIA CUDA`` alone means any version.

_CUDA = "Environment :: GPU :: NVIDIA CUDA"


def classifier_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by classifiers: the highest version that it names. Raises UnreadableDeclaration."""
    claims = unique_claims(_classifier_claims(data))
    return MetadataDeclaration("Classifier", (max(claims, key=lambda claim: claim.version[:1]),) if claims else ())


def _classifier_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        if name != "classifier" or not value.startswith(_CUDA):
            continue
        last = value.rpartition("::")[2].strip()
        numbers = () if value == _CUDA else parse_declared_version(last)
        if numbers is None:
            raise UnreadableDeclaration(f"{truncate(value)!r} has no version")
        # Minor versions of one CUDA are compatible with each other, so that only the first number tells.
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {last}" if numbers else "CUDA", numbers[:1])


# ``info/index.json`` of a conda package: the lowest compute capability that it needs, as ``__cuda_arch >=8.0``.
#
# Source: CEP 46 (the virtual package has the lowest compute capability of the machine's devices); the match
# specifications are those of CEP 29, of which lists of bounds are read.

_PACKAGE = "__cuda_arch"
_BOUND = re.compile(r"(>=|<=|<|==|=|)\s{0,9}([0-9]{1,3})\.([0-9])(?:\.\*|\*)?(?:a0|\.0a0)?")


def conda_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    return MetadataDeclaration(_PACKAGE, unique_claims(_conda_claims(parse_json_object(data))))


def _conda_claims(index: dict[str, Any]) -> Iterator[MetadataClaim]:
    for key in ("depends", "constrains"):
        for text in require_strings(index.get(key, []), key):
            if re.match(rf"{_PACKAGE}(?![\w-])", text):
                yield from _lowest(text)


def _lowest(text: str) -> Iterator[MetadataClaim]:
    words = text[len(_PACKAGE) :].strip()
    found = [_BOUND.fullmatch(part.strip()) for part in words.split(",")]
    bounds = [item for item in found if item is not None]
    lower = [(int(item[2]), int(item[3])) for item in bounds if not item[1].startswith("<")]
    if len(bounds) < len(found) or not lower:
        raise UnreadableDeclaration(f"{truncate(text)!r} has no lowest compute capability that can be read")
    major, minor = max(lower)
    yield MetadataClaim("lowest", "nvidia", f"sm_{major}{minor}", truncate(text))


# The control file of a Debian package: ``X-ROCm-GPU-Architecture: gfx900 gfx90a gfx1030``.
#
# Source: Debian's ROCm team (pkg-rocm-tools, rocm-target-arch(1), which also reads the field).

DEBIAN_FIELD = "X-ROCm-GPU-Architecture"


def debian_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    return MetadataDeclaration(DEBIAN_FIELD, unique_claims(_debian_claims(data)), ("amd",))


def _debian_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        for word in value.replace(",", " ").split() if name == DEBIAN_FIELD.lower() else ():
            if not word.startswith("gfx"):
                raise UnreadableDeclaration(f"{DEBIAN_FIELD} has {truncate(word)!r}, which is no architecture")
            yield MetadataClaim("image", "amd", word, truncate(word))


# Extras of wheels whose device code lies in kpack archives of other wheels, one for each architecture.
#
# ::
#
#     Provides-Extra: device-gfx942
#     Requires-Dist: amd-torch-device-gfx942 == 2.10.0; extra == "device-gfx942"
#
# Source: TheRock (ROCm), which splits wheels so; older drafts of it have ``gfx942`` alone. The other wheels are
# looked for among the packages that are checked: nothing is fetched.

_EXTRA = re.compile(r"(?:device-)?(gfx[0-9a-f]{2,6})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MARKER = re.compile(r"""extra\s{0,9}==\s{0,9}["']([^"']{1,64})["']""")


def extras_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by extras. Raises UnreadableDeclaration."""
    return MetadataDeclaration("Provides-Extra", unique_claims(_extras_claims(data)), ("amd",))


def _extras_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        found = _EXTRA.fullmatch(value) if name == "provides-extra" else None
        if found is not None:
            yield MetadataClaim("image", "amd", found[1], truncate(value))


def required_distributions(data: bytes) -> tuple[str, ...]:
    """Return the distributions that METADATA requires for architectures of AMD. Raises UnreadableDeclaration."""
    found = dict[str, None]()
    for name, value in header_fields(data):
        if name != "requires-dist":
            continue
        marker = value.partition(";")[2]
        is_for_device = any(map(_EXTRA.fullmatch, _MARKER.findall(marker))) or "gfx_arch" in marker
        required = _NAME.match(value)
        if is_for_device and required is not None:
            found[normalize_name(required[0])] = None
    return tuple(found)


def normalize_name(name: str) -> str:
    """Return the name of a distribution as names are compared (PyPA, "Names and normalization")."""
    return re.sub("[-_.]+", "-", name).lower()


# ``variant.json`` of a wheel: what its variant is for.
#
# ::
#
#     {"variants": {"cu128": {"nvidia": {"sm_arch": ["90_real", "120_virtual"], "cuda_version_lower_bound": ["12.8"]}}}}
#
# Architectures are those of CMake: ``90_real`` is code for it, ``90_virtual`` PTX, ``90`` both. AMD's are target IDs.
#
# Source: PEP 825 (draft of 2026) and PEP 817 for the file; the properties are those of nvidia-variant-provider and
# of ROCm's provider (TheRock, rocm-bootstrap): ``amd :: gfx_arch :: gfx942``.

_SOURCE = "variant.json"


def variant_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises UnreadableDeclaration."""
    variants = require_object(parse_json_object(data).get("variants"), "variants")
    if len(variants) != 1:
        raise UnreadableDeclaration(f"it has {pluralize(len(variants), 'variant')}, and a wheel must be for one")
    spaces = require_object(next(iter(variants.values())), "the variant")
    found = {name: require_object(value, name) for name, value in spaces.items() if name in ("nvidia", "amd")}
    nvidia, amd = found.get("nvidia"), found.get("amd")
    claims = unique_claims(_variant_claims(nvidia or {}, amd or {}))
    lists = [vendor for vendor, key in (("nvidia", "sm_arch"), ("amd", "gfx_arch")) if key in found.get(vendor, {})]
    lists += [vendor for vendor in ("nvidia", "amd") if vendor not in found and found]
    return MetadataDeclaration(_SOURCE, claims, tuple(lists))


def _variant_claims(nvidia: dict[str, Any], amd: dict[str, Any]) -> Iterator[MetadataClaim]:
    for text in require_strings(nvidia.get("sm_arch", []), "nvidia :: sm_arch"):
        number, _, form = text.partition("_")
        arch = parse_nvidia(f"sm_{number}")
        if arch is None or form not in ("", "real", "virtual"):
            raise UnreadableDeclaration(f"nvidia :: sm_arch :: {truncate(text)} is no architecture")
        if form != "virtual":
            yield MetadataClaim("image", "nvidia", arch.name, text)
        if form != "real":
            yield MetadataClaim("ptx", "nvidia", arch.name, text)
    for text in require_strings(nvidia.get("cuda_version_lower_bound", []), "nvidia :: cuda_version_lower_bound"):
        numbers = parse_declared_version(text)
        if numbers is None:
            raise UnreadableDeclaration(f"nvidia :: cuda_version_lower_bound :: {truncate(text)} is no version")
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {text}", numbers)
    for text in require_strings(amd.get("gfx_arch", []), "amd :: gfx_arch"):
        if not text.startswith("gfx"):
            raise UnreadableDeclaration(f"amd :: gfx_arch :: {truncate(text)} is no architecture")
        yield MetadataClaim("image", "amd", text, truncate(text))


# Files of packages that declare architectures: found by their paths, opened, and read with bounds.
#
# ==============================  ==========================================================
# wheel (zip)                     ``*.dist-info/METADATA``, ``*.dist-info/variant.json``
# conda, both of its formats      ``info/index.json``
# Debian                          ``control`` of ``control.tar``
# ==============================  ==========================================================
#
# Packages that are unpacked in folders: see "Declarations in folders" below.

#: suffixes of the metadata folders of wheels
INFO = ".dist-info"

#: files there → what reads them
WHEEL: dict[str, tuple[DeclarationReader, ...]] = {
    "METADATA": (extras_declaration, classifier_declaration),
    "variant.json": (variant_declaration,),
}

#: the file in which packages of conda say what they are, and what reads it
CONDA: tuple[str, tuple[DeclarationReader, ...]] = ("info/index.json", (conda_declaration,))

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
        return (debian_declaration,)
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
        needs = required_distributions(data) if extras_declaration in readers else ()
    except UnreadableDeclaration as error:
        return DeclaringFile(path, about, problem=str(error))
    except (FatpackError, OSError) as error:
        return DeclaringFile(path, about, problem=error_message(error))
    return DeclaringFile(path, about, found, needs)


# Declarations in folders: unpacked or installed wheels and conda packages.
#
# ::
#
#     demo/lib.so              one of the files of RECORD, which is what the declaration is about
#     demo-1.dist-info/        METADATA, variant.json, RECORD
#     info/index.json          of conda; the declaration is about all that lies beside info/
#
# Source: PyPA, "Recording installed projects" and "Binary distribution format"; conda's documentation of packages.
# Only folders are looked into that files were found below: no name that a file states is opened.

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
    """Return the files of an unpacked wheel. Raises UnreadableDeclaration, FatpackError, ``OSError``."""
    with open_source(path, budget=budget) as source:
        data = source.beginning(MAX_DECLARATION_SIZE + 1)
    if len(data) > MAX_DECLARATION_SIZE:
        raise UnreadableDeclaration(f"it has more than {MAX_DECLARATION_SIZE} bytes")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline="")))
    except csv.Error as error:
        raise UnreadableDeclaration(f"it is no table of files: {error}") from error
    return frozenset(os.path.normpath(os.path.join(folder, row[0])) for row in rows if row)


#: architectures that a message names
_NAMED = 12

_NOTHING = "its metadata does not declare architectures"
_HINT = "declare it in variant.json or METADATA of a wheel, info/index.json of conda's, control of Debian's packages"


def metadata_violations(found: Sequence[FileImageSets], names: Sequence[str], budget: Budget) -> Iterator[Violation]:
    """Yield where declarations and contents of packages differ, and what nothing declares, named or in a package.

    A note names each declaration, and the file that it is in.
    """
    met = [
        place for item in found if item.last.error is None for place in declaring_files_in_package(item.last, budget)
    ]
    met += declaring_files_in_folders(names, (item.last.path for item in found), budget)
    inside = {place.package: _inside(place, found) for place in met}
    scopes: dict[str, None] = {}
    for place in met:
        if place.problem:
            yield _violation("FP3301", place.path, "metadata", f"its declaration cannot be read: {place.problem}")
            scopes |= dict.fromkeys(inside[place.package])
    needs: dict[str, tuple[str, ...]] = {}
    for place in met:
        needs[place.package] = (*needs.get(place.package, ()), *place.needs)
    for place in met:
        packages = (place.package, *_wheels(met, needs[place.package])) if place.declarations else ()
        own = [path for package in packages for path in inside[package]]
        scopes |= dict.fromkeys(own)
        units = [unit for item in found if _is_in(item.last.path, own) for unit in item.units]
        for each in place.declarations:
            yield from _compared(place, each, units)
    yield from _undeclared(found, names, tuple(scopes))
    for place in met:
        for each in place.declarations:
            claims = list(dict.fromkeys(claim.text for claim in each.claims))
            rest = f" and {len(claims) - _NAMED} more" if len(claims) > _NAMED else ""
            text = f"{each.source} declares {', '.join(claims[:_NAMED])}{rest}"
            yield _violation("FP3319", place.path, "metadata", text)


def _violation(code: str, path: str, subject: str, text: str, hint: str = "") -> Violation:
    return Violation(code, CODES[code][0], path, subject, text, hint)


def _inside(place: DeclaringFile, found: Sequence[FileImageSets]) -> tuple[str, ...]:
    """Return the paths that what a place declares is about: all that is one of them, or in one."""
    files = (
        item.last.path
        for item in found
        if place.files and os.path.normpath(outermost_path(item.last.path)) in place.files
    )
    return place.package, *files


def _is_in(path: str, scopes: Sequence[str]) -> bool:
    return any(
        path == scope or path.startswith((f"{scope}{SEPARATOR}", f"{scope.rstrip(os.sep)}{os.sep}")) for scope in scopes
    )


def _wheels(met: Sequence[DeclaringFile], needs: Sequence[str]) -> list[str]:
    """Return the wheels of some distributions, among the wheels that were read."""
    paths = dict.fromkeys(place.package for place in met)
    return [path for path in paths if normalize_name(os.path.basename(path).partition("-")[0]) in needs]


def _undeclared(found: Sequence[FileImageSets], names: Sequence[str], scopes: Sequence[str]) -> Iterator[Violation]:
    bare = [name for name in names if not any(_is_named(scope, name, names) for scope in scopes)]
    for name in bare:
        yield _violation("FP3313", name, "metadata", _NOTHING, _HINT)
    left: dict[str, int] = {}
    for item in found:
        path = item.last.path
        is_told = any(_is_named(path, name, names) for name in bare)
        if item.units and not is_told and not _is_in(path, scopes):
            outer = path.partition(SEPARATOR)[0]
            left[outer] = left.get(outer, 0) + 1
    for path, count in left.items():
        what = (
            f"no metadata declares architectures for {pluralize(count, 'file')} with device code "
            f"in it {'is' if count == 1 else 'are'} for"
        )
        yield _violation("FP3313", path, "metadata", what, _HINT)


def _is_named(path: str, name: str, names: Sequence[str]) -> bool:
    """Return whether a file is the one at a path, or in it; with a single path, every file is."""
    inside = f"{name}{SEPARATOR}", f"{name.rstrip(os.sep)}{os.sep}"
    is_in = path == name or path.startswith(inside)
    return len(names) == 1 or is_in or fnmatch.fnmatchcase(path.partition(SEPARATOR)[0], name)


def _compared(
    place: DeclaringFile, declared: MetadataDeclaration, units: Sequence[ImageSetRows]
) -> Iterator[Violation]:
    for claim in declared.claims:
        why = _lack(claim, [unit for unit in units if unit.vendor == claim.vendor])
        if why:
            text = f"{declared.source} declares {claim.text}: {why}"
            hint = f"build for {claim.arch}, or remove it from the metadata" if claim.arch else ""
            yield _violation("FP3311", place.package, claim.name or claim.text, text, hint)
    has = dict.fromkeys(arch for unit in units if unit.vendor in declared.lists for arch in unit.archs)
    listed = {claim.name for claim in declared.claims}
    lowest = max((_number(claim.arch) for claim in declared.claims if claim.kind == "lowest"), default=0)
    more = [arch for arch in has if arch not in listed and arch.partition(":")[0] not in listed]
    if lowest:
        archs = dict.fromkeys(arch for unit in units if unit.vendor == "nvidia" for arch in unit.archs)
        more += [arch for arch in archs if 0 < _number(arch) < lowest]
    if more:
        rest = f" and {len(more) - _NAMED} more" if len(more) > _NAMED else ""
        text = f"has {', '.join(more[:_NAMED])}{rest}, which {declared.source} does not declare"
        yield _violation("FP3312", place.package, "metadata", text)


def _number(arch: str) -> int:
    parsed = parse_nvidia(arch)
    return parsed.number if parsed is not None else 0


def _lack(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return why units do not bear out what is declared of them; "" if they do."""
    if not units:
        return "it has no device code for such devices"
    if claim.kind == "cuda":
        return _newer(claim, units)
    return "" if any(claim.name in unit.archs for unit in units) else _unserved(claim, units)


def _unserved(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return why no unit serves a device for which there is no image of its own; "" if one does."""
    exact = parse_nvidia(claim.arch)
    try:
        wanted = Requirement(parse_device(claim.arch))
    except TargetError:
        return "no image is for it"
    if exact is not None and exact.suffix:
        return "no image is for exactly that"
    if claim.kind == "ptx":
        later = any(supports_later_devices(unit, wanted.device) for unit in units)
        return "" if later else "it has no PTX that later devices compile"
    answers = [meets_requirement(unit, wanted) for unit in units]
    return "" if any(answer.serves for answer in answers) else f"{answers[0].reason} [{answers[0].rule}]"


def _newer(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return which PTX needs a newer CUDA than is declared, where its version is known (rule C8)."""
    for row in (row for unit in units for row in unit.images if claim.version and row.form == "ptx"):
        major, _, minor = (row.ptx_version or "").partition(".")
        cuda = first_cuda_for_ptx((int(major), int(minor))) if major.isdecimal() and minor.isdecimal() else None
        if cuda is not None and cuda[: len(claim.version)] > claim.version:
            return f"PTX {row.ptx_version} in it needs a driver of CUDA {cuda[0]}.{cuda[1]} [C8]"
    return ""
