"""The proof of a split from its files alone: each package against the fat one, and all together for every device."""

from __future__ import annotations

import os
from contextlib import ExitStack

from fatpack.commands.split.kinds import open_package
from fatpack.commands.split.labels import LabelMap, drivers_for, table_of_devices
from fatpack.commands.split.model import LostDevice, SplitVerdict, VariantVerdict
from fatpack.commands.split.run import find_losses
from fatpack.commands.split.serving import LibraryCode, ServingJudge, read_library
from fatpack.commands.split.variants import LARGEST, VARIANT_FILE, read_document, split_variant_name
from fatpack.concurrency.processes import map_in_processes
from fatpack.errors import FatpackError, UsageError
from fatpack.io.open import open_source
from fatpack.library.arguments import as_path, as_paths, make_budget
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.writer import read_zip_entries
from fatpack.proof import packages as proof
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.split.plan import SplitPackage
    from fatpack.commands.split.variants import VariantDocument
    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.targets.installers.variant_providers import Properties


class WrittenLabels(LabelMap):
    """The labels of files that were written: ``document`` has those of the index, by which installers choose.

    ``present`` are those for which there is a package.
    """

    document: VariantDocument | None = None
    present: tuple[str, ...] = ()

    @property
    def vendors(self) -> tuple[str, ...]:
        """The vendors by their priority in the index."""
        return tuple(self.document.priorities) if self.document is not None else ()

    @property
    def variants(self) -> dict[str, Properties]:
        """The properties of the labels for which there is a package."""
        known = self.document.variants if self.document is not None else {}
        return {label: known[label] for label in self.present if label in known}


class _Pair(Record):
    """A fat package and the package of a label: their paths, and the libraries of the fat one."""

    fat: str
    variant: str
    label: str
    names: tuple[str, ...]


def verify_split(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    directory: str | os.PathLike[str],
    *,
    max_inflated: int | None = None,
) -> SplitVerdict:
    """Return whether a folder has what :func:`fatpack.split` makes of fat packages, from the files alone.

    Each package must be the fat one with less device code, and the index file must say what they say. For every device
    of the table, with every driver that finds it, what an installer takes must run there as the fat package does.
    Raises UsageError for a folder without packages of these, and FormatError for a fat package that is damaged.
    """
    return prove_split(as_paths("paths", paths), as_path("directory", directory), budget=make_budget(max_inflated))


def prove_split(fat: Sequence[str], folder: str, *, budget: Budget | None = None) -> SplitVerdict:
    """Return the proof of what a folder has of some fat packages; ``budget`` counts inflated bytes."""
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is no folder", hint="fatpack split --verify FAT.whl DIR")
    judge = ServingJudge()
    verdicts: list[VariantVerdict] = []
    problems: list[str] = []
    lost: list[LostDevice] = []
    questions = 0
    documents: dict[str, VariantDocument | None] = {}
    for path in fat:
        with ExitStack() as stack:
            package = open_package(stack.enter_context(open_source(path, budget=budget)).view(), path, stack)
            codes = [library.code for library in package.libraries]
            pairs = [
                _Pair(path, os.path.join(folder, name), label, tuple(code.name for code in codes))
                for name, label in _variants_of(package, folder)
            ]
            if not pairs:
                raise UsageError(f"{folder} has no variant of {package.name}", hint=f"fatpack split {path} -d {folder}")
            if package.index not in documents:
                documents[package.index] = _read_index(os.path.join(folder, package.index), problems)
            document = documents[package.index]
            found: dict[str, list[LibraryCode]] = {}

            def work(
                pair: _Pair, document: VariantDocument | None = document
            ) -> tuple[VariantVerdict, list[LibraryCode]]:
                return _prove(pair, document, budget)

            for pair, made in map_in_processes(pairs, work, lambda pair: os.path.getsize(pair.variant), least=0):
                verdict, found[pair.label] = work(pair) if made is None else made.value
                verdicts.append(verdict)
            table = table_of_devices(codes)
            labels = WrittenLabels((), (), table, False, document, tuple(found))
            complete = {label: own for label, own in found.items() if len(own) == len(codes)}
            lost += find_losses(codes, complete, labels, judge)
            questions += sum(len(drivers_for(device)) for device in table)
    return SplitVerdict(tuple(fat), folder, tuple(verdicts), tuple(lost), tuple(problems), questions)


def _variants_of(package: SplitPackage, folder: str) -> list[tuple[str, str]]:
    """Return the names of the packages in a folder that are a fat one with a label, and the labels."""
    found = []
    for name in sorted(os.listdir(folder)):
        rest, label = split_variant_name(name)
        if label and rest == package.name:
            found.append((name, label))
    return found


def _read_index(path: str, problems: list[str]) -> VariantDocument | None:
    if not os.path.isfile(path):
        problems.append(f"{path} is missing: installers know no label without it")
        return None
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    try:
        return read_document(data, (path,))
    except FatpackError as error:
        problems.append(f"{path}: {error.problem}: {getattr(error, 'field', '')}")
        return None


def _prove(
    pair: _Pair, document: VariantDocument | None, budget: Budget | None
) -> tuple[VariantVerdict, list[LibraryCode]]:
    """Return the proof of one package, and what devices get of its libraries."""
    problems: list[str] = []
    codes: list[LibraryCode] = []
    with open_source(pair.fat, budget=budget) as before, open_source(pair.variant, budget=budget) as after:
        try:
            verdict = proof.prove_package(before.view(), after.view())
            for item in verdict.differences:
                problems.append(f"{item.what}: expected {item.expected or 'nothing'}, found {item.found or 'nothing'}")
            codes = _read(after.view(), pair, document, problems)
        except FatpackError as error:
            problems.append(error.problem)
    return VariantVerdict(pair.label, pair.variant, not problems, tuple(problems)), codes


def _read(view: View, pair: _Pair, document: VariantDocument | None, problems: list[str]) -> list[LibraryCode]:
    """Return the libraries of a package, and note where its metadata and the index differ."""
    codes = {}
    described = None
    for entry in read_zip_entries(view):
        is_description = entry.name.endswith(f".dist-info/{VARIANT_FILE}")
        if not is_description and entry.name not in pair.names:
            continue
        with open_content(view, entry) as source:
            if is_description and source.size <= LARGEST:
                described = read_document(source.read(0, source.size), (*view.chain, entry.name))
            elif not is_description:
                codes[entry.name] = read_library(source.view(), entry.name)
    if described is None:
        problems.append(f"{VARIANT_FILE} is missing")
    elif tuple(described.variants) != (pair.label,):
        problems.append(f"{VARIANT_FILE}: the label is {', '.join(described.variants)}, and the name has {pair.label}")
    elif document is not None:
        if document.variants.get(pair.label) != described.variants[pair.label]:
            problems.append(f"the index has other properties of {pair.label} than {VARIANT_FILE}")
        if document.shared != described.shared:
            problems.append(f"the index and {VARIANT_FILE} differ beside the label")
    return [codes[name] for name in pair.names if name in codes]
