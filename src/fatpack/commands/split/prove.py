"""The proof of a split from its files alone: each package against the fat one, and all together for every device."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing

from fatpack import limits
from fatpack.commands.split.kinds import open_package
from fatpack.commands.split.labels import drivers_for
from fatpack.commands.split.model import ChangedDevice, LostDevice, SplitVerdict, VariantVerdict
from fatpack.commands.split.run import find_changes, find_losses
from fatpack.commands.split.serving import ServingJudge
from fatpack.concurrency.processes import map_in_processes
from fatpack.errors import FatpackError, UsageError, format_hex
from fatpack.io.open import open_source
from fatpack.library.arguments import as_path, as_paths, make_budget
from fatpack.proof import packages as proof
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.commands.split.plan import WrittenPackages
    from fatpack.commands.split.serving import LibraryCode
    from fatpack.io.source import View
    from fatpack.limits import Budget


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

    Each package must be the fat one with less device code, and the index file must say what they say. The fat package
    must be beside them, byte for byte, and no other package of its release. For every device of the table, with every
    driver that finds it, what an installer takes must run there as the fat package does; ``changed`` are devices that
    take another image for it than before.
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
    changed: list[ChangedDevice] = []
    questions = 0
    own_names = {os.path.basename(path) for path in fat}
    shares_release: list[Callable[[str], bool]] = []
    for path in fat:
        with ExitStack() as stack:
            package = open_package(stack.enter_context(open_source(path, budget=budget)).view(), path, stack)
            codes = [library.code for library in package.libraries]
            written = package.find_written(folder)
            names = tuple(code.name for code in codes)
            pairs = [_Pair(path, variant, label, names) for label, variant in written.files]
            if not pairs:
                raise UsageError(f"{folder} has no variant of {package.name}", hint=f"fatpack split {path} -d {folder}")
            for _, variant in written.files:
                if not os.path.isfile(variant):  # a pipe would be waited for
                    raise UsageError(f"{variant} is no regular file", hint="remove it, and split again")
            problems += (problem for problem in written.problems if problem not in problems)
            problems += _copy_problems(package.view, path, os.path.join(folder, package.name))
            own_names.update(os.path.basename(variant) for _, variant in written.files)
            shares_release.append(package.shares_release)
            found: dict[str, list[LibraryCode]] = {}
            described: dict[str, bytes] = {}

            def work(pair: _Pair, written: WrittenPackages = written) -> _Proof:
                return _prove(pair, written, budget)

            with closing(map_in_processes(pairs, work, lambda pair: os.path.getsize(pair.variant), least=0)) as shared:
                for pair, made in shared:
                    one = work(pair) if made is None else made.value
                    verdicts.append(one.verdict)
                    found[pair.label], described[pair.label] = one.codes, one.described
            labels = written.labels(codes, described)
            complete = {label: own for label, own in found.items() if len(own) == len(codes)}
            lost += find_losses(codes, complete, labels, judge)
            changed += find_changes(codes, complete, labels, judge)
            questions += sum(len(drivers_for(device)) for device in labels.devices)
    for name in sorted(set(os.listdir(folder)) - own_names):
        if any(shares(name) for shares in shares_release):
            problems.append(
                f"{os.path.join(folder, name)} is of the same release, and of none of the fat packages given: "
                "installers may take it; remove it, or name its fat package, too"
            )
    return SplitVerdict(tuple(fat), folder, tuple(verdicts), tuple(lost), tuple(problems), questions, tuple(changed))


def _copy_problems(fat: View, path: str, copy: str) -> Iterator[str]:
    """Yield why the package that installers without labels take from a folder is not the fat one, byte for byte."""
    if not os.path.isfile(copy):
        found = "is no regular file" if os.path.lexists(copy) else "is missing"
        yield f"{copy} {found}: installers without labels take it"
        return
    if os.path.samefile(copy, path):
        return
    with open_source(copy) as source:
        other = source.view()
        end = min(len(fat), len(other))
        for at in range(0, end, limits.CHUNK):
            size = min(limits.CHUNK, end - at)
            one, two = fat.read(at, size), other.read(at, size)
            if one != two:
                first = at + next(number for number in range(size) if one[number] != two[number])
                yield f"{copy} is not {path} at {format_hex(first)}, and installers without labels take it"
                return
        if len(fat) != len(other):
            yield f"{copy} is not {path}, and installers without labels take it: {len(other)} bytes, not {len(fat)}"


class _Proof(Record):
    """The proof of one package, its libraries, and how it describes itself."""

    verdict: VariantVerdict
    codes: list[LibraryCode]
    described: bytes


def _prove(pair: _Pair, written: WrittenPackages, budget: Budget | None) -> _Proof:
    """Return the proof of one package, and what devices get of its libraries."""
    problems: list[str] = []
    codes: list[LibraryCode] = []
    described = b""
    with open_source(pair.fat, budget=budget) as before, open_source(pair.variant, budget=budget) as after:
        try:
            verdict = proof.prove_package(before.view(), after.view())
            for item in verdict.differences:
                at = f" at {format_hex(item.offset)}" if item.offset is not None else ""
                at = f" at address {format_hex(item.address)}" if item.address is not None else at
                found = f"expected {item.expected or 'nothing'}, found {item.found or 'nothing'}"
                problems.append(f"{item.what}{at}: {found}")
            codes, described = written.read(after.view(), pair.label, pair.names, problems)
        except FatpackError as error:
            field, found = (getattr(error, name, "") for name in ("field", "found"))
            where = f": {field}" if field else ""
            problems.append(f"{error.problem}{where}" + (f", found {found}" if field and found else ""))
    return _Proof(VariantVerdict(pair.label, pair.variant, not problems, tuple(problems)), codes, described)
