"""Package metadata checked against device code: declared architectures without code, and undeclared code."""

from __future__ import annotations

import csv
import fnmatch
import io
import os
from functools import partial

from fatpack.commands.check.admitted_devices import compare_admitted, compare_loaded, is_for_others
from fatpack.commands.check.declarations import (
    KERNEL_METADATA,
    MAX_DECLARATION_SIZE,
    VARIANT,
    MetadataDeclaration,
    UnreadableDeclaration,
    classifier_declaration,
    conda_declaration,
    conda_identity,
    debian_declaration,
    extras_declaration,
    kernel_declaration,
    kernel_digests,
    required_distributions,
    variant_declaration,
)
from fatpack.commands.check.model import Violation
from fatpack.commands.check.policy import Requirement
from fatpack.commands.check.rule_context import meets_requirement, supports_later_devices
from fatpack.errors import FatpackError, TargetError, pluralize
from fatpack.exit_codes import error_message
from fatpack.findings import CODES
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.inputs.reopen import reopen
from fatpack.io.open import open_source
from fatpack.io.source import sha256_of_pieces
from fatpack.model import Finding
from fatpack.packages.wheel_names import normalize_project
from fatpack.record import Record
from fatpack.targets.devices import parse_device
from fatpack.targets.installers.variant_providers import nvidia_features
from fatpack.targets.nvidia import cuda_versions, first_cuda_for_ptx, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from fatpack.commands.check.declarations import DeclarationReader, MetadataClaim
    from fatpack.io.source import Source
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.file_image_sets import FileImageSets, ImageSetRows


# Files of packages that declare architectures: found by their paths, opened, and read with bounds.
#
# ==============================  ==========================================================
# wheel (zip)                     ``*.dist-info/METADATA``, ``*.dist-info/variant.json``
# conda, both of its formats      ``info/index.json``
# Debian                          ``control`` of ``control.tar``
# kernel of Hugging Face          ``metadata.json`` beside its libraries, in folders alone
# ==============================  ==========================================================
#
# Packages that are unpacked in folders: see "Declarations in folders" below.

#: how conda packages end
CONDA_SUFFIXES = (".conda", ".tar.bz2")

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
    unpacked among others; without them it is about all that is in the package. ``identity`` are name, version and build
    that a conda package states, joined as in its file name.
    """

    path: str
    package: str
    declarations: tuple[MetadataDeclaration, ...] = ()
    needs: tuple[str, ...] = ()
    problem: str = ""
    files: frozenset[str] = frozenset()
    identity: str = ""


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
        identity = conda_identity(data) if conda_declaration in readers else ""
    except UnreadableDeclaration as error:
        return DeclaringFile(path, about, problem=str(error))
    except (FatpackError, OSError) as error:
        return DeclaringFile(path, about, problem=error_message(error))
    return DeclaringFile(path, about, found, needs, identity=identity)


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
        kernel = os.path.join(folder, KERNEL_METADATA)
        if os.path.isfile(kernel):
            place = read_declaring_file(
                kernel, folder, partial(open_source, kernel, budget=budget), (kernel_declaration,)
            )
            if place.declarations or place.problem:
                yield place


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


def metadata_violations(
    found: Sequence[FileImageSets],
    names: Sequence[str],
    budget: Budget,
    described: Iterable[str] = (),
    judged: Collection[str] = (),
) -> Iterator[Violation]:
    """Yield where declarations and contents of packages differ, and what nothing declares, named or in a package.

    A note names each declaration, and the file that it is in. ``described`` are packages that need none of their own,
    ``judged`` those whose drivers are held against each device by :mod:`fatpack.commands.check.variants`.
    """
    met = [
        place for item in found if item.last.error is None for place in declaring_files_in_package(item.last, budget)
    ]
    met += declaring_files_in_folders(names, (item.last.path for item in found), budget)
    inside = {place.package: _inside(place, found) for place in met}
    scopes: dict[str, None] = dict.fromkeys(described)
    for place in met:
        if place.problem:
            yield _violation("FP3301", place.path, "metadata", f"its declaration cannot be read: {place.problem}")
            scopes |= dict.fromkeys(inside[place.package])
    yield from _names_of_conda(met)
    needs: dict[str, tuple[str, ...]] = {}
    for place in met:
        needs[place.package] = (*needs.get(place.package, ()), *place.needs)
    for place in met:
        packages = (place.package, *_wheels(met, needs[place.package])) if place.declarations else ()
        own = [path for package in packages for path in inside[package]]
        scopes |= dict.fromkeys(own)
        units = [unit for item in found if _is_in(item.last.path, own) for unit in item.units]
        for each in place.declarations:
            is_judged = place.package in judged and each.source == VARIANT
            yield from _compared(place, each, units, is_judged=is_judged)
    yield from _undeclared(found, names, tuple(scopes))
    for place in met:
        if os.path.basename(place.path) == KERNEL_METADATA and not place.problem:
            yield from _kernel_digests(place, [item.last.path for item in found if item.units], budget)
    for place in met:
        for each in place.declarations:
            claims = list(dict.fromkeys(claim.text for claim in each.claims))
            rest = f" and {len(claims) - _NAMED} more" if len(claims) > _NAMED else ""
            text = f"{each.source} declares {', '.join(claims[:_NAMED])}{rest}"
            yield _violation("FP3319", place.path, "metadata", text)


def _violation(code: str, path: str, subject: str, text: str, hint: str = "") -> Violation:
    return Violation(code, CODES[code][0], path, subject, text, hint)


def _names_of_conda(met: Sequence[DeclaringFile]) -> Iterator[Violation]:
    """Yield the conda packages whose file name is another than they state: solvers read what the package states."""
    for place in met:
        name = os.path.basename(place.package)
        end = next((end for end in CONDA_SUFFIXES if name.endswith(end)), "")
        if place.identity and end and name != place.identity + end:
            text = f"{CONDA[0]} states {place.identity}, and the file name is {name}"
            hint = f"rename it to {place.identity}{end}, or get it again"
            yield _violation("FP3338", place.package, "file name", text, hint)


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
    return [path for path in paths if normalize_project(os.path.basename(path).partition("-")[0]) in needs]


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
        what = f"no metadata declares the architectures of the device code in {pluralize(count, 'file')}"
        yield _violation("FP3313", path, "metadata", what, _HINT)


def _is_named(path: str, name: str, names: Sequence[str]) -> bool:
    """Return whether a file is the one at a path, or in it; with a single path, every file is."""
    inside = f"{name}{SEPARATOR}", f"{name.rstrip(os.sep)}{os.sep}"
    is_in = path == name or path.startswith(inside)
    return len(names) == 1 or is_in or fnmatch.fnmatchcase(path.partition(SEPARATOR)[0], name)


def _compared(
    place: DeclaringFile, declared: MetadataDeclaration, units: Sequence[ImageSetRows], *, is_judged: bool
) -> Iterator[Violation]:
    own = [unit for unit in units if unit.vendor == "nvidia"]
    for claim in (claim for claim in declared.claims if not (is_judged and claim.kind == "cuda")):
        said = f"{declared.source} declares {claim.text}"
        why = _lack(claim, [unit for unit in units if unit.vendor == claim.vendor])
        if why:
            hint = f"build for {claim.arch}, or remove it from the metadata" if claim.arch else ""
            yield _violation("FP3311", place.package, claim.name or claim.text, f"{said}: {why}", hint)
        elif declared.admitted is not None:
            yield from compare_admitted(place.package, said, declared.admitted, own, declared.driver)
    if declared.loaded and own:
        yield from compare_loaded(place.package, declared.loaded, own)
    has = dict.fromkeys(arch for unit in units if unit.vendor in declared.lists for arch in unit.archs)
    listed = {claim.name for claim in declared.claims}
    more = [arch for arch in has if arch not in listed and arch.partition(":")[0] not in listed]
    if declared.source == VARIANT:
        more = [arch for arch in more if not _is_listed(arch, {claim.text for claim in declared.claims})]
    if declared.admitted is not None:
        archs = dict.fromkeys(arch for unit in own for arch in unit.archs)
        more += [arch for arch in archs if is_for_others(arch, declared.admitted)]
    if more:
        rest = f" and {len(more) - _NAMED} more" if len(more) > _NAMED else ""
        text = f"has {', '.join(more[:_NAMED])}{rest}, which {declared.source} does not declare"
        yield _violation("FP3312", place.package, "metadata", text)


def _kernel_digests(place: DeclaringFile, paths: Iterable[str], budget: Budget) -> Iterator[Violation]:
    """Yield the libraries of a kernel's folder whose digest is not the one that its metadata states."""
    own = {os.path.relpath(path, place.package).replace(os.sep, "/"): path for path in map(outermost_path, paths)}
    try:
        with open_source(place.path, budget=budget) as source:
            stated = kernel_digests(source.beginning(MAX_DECLARATION_SIZE))
        for name in (name for name in own if name in stated):
            with open_source(own[name], budget=budget) as source:
                digest = sha256_of_pieces([source.view()]).hex()
            if digest != stated[name]:
                text = f"{name} has the SHA-256 {digest}, and {KERNEL_METADATA} states {stated[name]}"
                yield _violation("FP3603", own[name], "digest", text, "get the kernel again")
    except UnreadableDeclaration as error:
        yield _violation("FP3301", place.path, "digest", f"its digests cannot be read: {error}")
    except (FatpackError, OSError) as error:
        yield _violation("FP3301", place.path, "digest", error_message(error))


def _is_listed(name: str, values: Collection[str]) -> bool:
    """Return whether a variant is taken for the device of a cubin: ``80_real`` is, for that of ``sm_86``."""
    arch = parse_nvidia(name)
    if arch is None or arch.is_virtual or arch.suffix:
        return False
    return not set(nvidia_features([(arch.major, arch.minor)], cuda_versions()[-1]).get("sm_arch", ())).isdisjoint(
        values
    )


def _lack(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return why units do not bear out what is declared of them; "" if they do."""
    if not units:
        return "it has no device code for such devices"
    if claim.kind == "devices":
        return ""  # each of them is held against the units by compare_admitted
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
