"""The text of ``split``: labels with their devices and sizes, and what each device gets today and then."""

from __future__ import annotations

from fatpack.commands.split.model import losses_in_words
from fatpack.errors import pluralize
from fatpack.printable import format_size, printable
from fatpack.targets.installers.variant_documents import SCHEMAS
from fatpack.targets.installers.variant_providers import NULL_LABEL
from fatpack.text.style import PLAIN, table_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.split.model import (
        DeviceFacts,
        LabelFacts,
        PackageFacts,
        ReleaseFacts,
        SplitResult,
        SplitVerdict,
    )
    from fatpack.text.style import Style

_NO_LABEL = "the package without label"
_OWN_LABEL = "the label of its name"

#: devices that a row names
_SHOWN = 8


def render_split(result: SplitResult, style: Style = PLAIN) -> Iterator[str]:
    """Yield for each package a table of its labels and one of devices, then what to know about the labels."""
    for release in result.releases:
        for package in release.packages:
            yield printable(
                f"{package.path}: {format_size(package.size)}, {format_size(package.installed)} of libraries"
            )
            yield from table_lines(list(_label_rows(package, release)), style, right=(2, 3), names=(1,), role=_role)
            yield ""
            yield from table_lines(list(_device_rows(package, release)), style, right=(), names=(0,), role=_role)
            older = {one.otherwise or _NO_LABEL for one in package.devices if one.driver}
            if older:
                yield f"  with an older driver than that a device gets {', '.join(sorted(older))}"
            yield from (printable(f"  {note}") for note in package.notes)
            yield from _empty_libraries(package)
        yield from _remarks(release)


def _role(row: int, _: int) -> str:
    return "" if row else "heading"


def _label_rows(package: PackageFacts, release: ReleaseFacts) -> Iterator[list[str]]:
    known = {label.label: label for label in release.labels}
    yield ["label", "devices", "package", "installed", "properties"]
    for one in package.variants:
        label = known.get(one.label)
        devices = ", ".join(label.devices) if label is not None else f"all others: {one.rule}"
        sizes = [format_size(one.size), format_size(one.installed)]
        yield [one.label, printable(devices), *sizes, "-" if label is None else _properties(label)]


def _properties(label: LabelFacts) -> str:
    if "conda" in label.properties:
        return ", ".join(label.properties["conda"]["depends"])
    return " ".join(
        f"{feature}={'|'.join(values)}"
        for features in label.properties.values()
        for feature, values in features.items()
    )


def _device_rows(package: PackageFacts, release: ReleaseFacts) -> Iterator[list[str]]:
    """Yield a row for devices that get the same, in the order of the first of each.

    A row that leaves names out (``5.0, 5.2, …, 7.5``) has neighbours alone.
    """
    yield ["device", "today", "then", "driver", "download"]
    rows: list[list[DeviceFacts]] = []
    for one in package.devices:
        like = next((row for row in reversed(rows) if _alike(row[0]) == _alike(one)), None)
        if like is not None and (like is rows[-1] or len(like) < _SHOWN):
            like.append(one)
        else:
            rows.append([one])
    yield from (_device_row(row, package) for row in rows)


def _alike(one: DeviceFacts) -> tuple[str, ...]:
    return one.vendor, one.today, _label_of(one), one.then, one.driver, one.otherwise


def _label_of(one: DeviceFacts) -> str:
    """Return the label of a device in words: a release for AMD has two dozen, each with the name of its only device."""
    return _OWN_LABEL if one.label == one.device else one.label or _NO_LABEL


def _device_row(together: Sequence[DeviceFacts], package: PackageFacts) -> list[str]:
    first = together[0]
    names = [one.device for one in together]
    shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]]
    driver = f"CUDA {first.driver}" if first.driver else "any"
    label = _label_of(first)
    downloads = sorted({one.download for one in together})
    least, most = format_size(downloads[0]), format_size(downloads[-1])
    sizes = f"{format_size(package.size)} → {least}" + (f" to {most}" if most != least else "")
    if first.vendor == "amd" and first.label not in ("", NULL_LABEL):
        # uv has no provider for AMD, and other installers have one: the text names both.
        others = {one.label: one.size for one in package.variants}
        without = NULL_LABEL if NULL_LABEL in others else _NO_LABEL
        label += f" (uv: {without})"
        sizes += f" (uv: {format_size(others.get(NULL_LABEL, package.size))})"
    return [", ".join(shown), first.today, f"{label}: {first.then}", driver, sizes]


def _empty_libraries(package: PackageFacts) -> Iterator[str]:
    """Yield which libraries have no code for a label: they are empty in its package, and served nothing before."""
    alike: dict[str, list[str]] = {}
    for one in package.variants:
        empty = [library.name.rpartition("/")[2] for library in one.libraries if library.dropped and not library.kept]
        if empty:
            names = ", ".join(empty[:3]) + (f" and {len(empty) - 3} more" if len(empty) > 3 else "")
            words = f"{pluralize(len(empty), 'library')} without code for it left empty: {names}"
            alike.setdefault(words, []).append(one.label)
    yield from (printable(f"  {', '.join(labels)}: {words}") for words, labels in alike.items())
    for one in package.variants:
        stays = {note: library.name for library in one.libraries for note in library.notes if "stays as it is" in note}
        yield from (printable(f"  {one.label}: {name} {note}") for note, name in stays.items())


def _remarks(release: ReleaseFacts) -> Iterator[str]:
    for label in release.labels:
        yield from (printable(f"{label.label}: {note}") for note in label.notes)
    yield from (printable(f"{one.name} is no label: {one.reason}") for one in release.refused)
    if any(label.properties.keys() & {"amd"} for label in release.labels):
        yield f"uv has no provider for AMD: there these devices get {NULL_LABEL}"
    if release.kind == "conda":
        yield "of several GPUs in one machine solvers look at the oldest alone: the others may find no code"
        yield "the fat package stays in the channel: it has the lower build number, and all other machines get it"
        return
    numbers = [label for label in release.labels if "nvidia" in label.properties]
    if len(numbers) > 1:
        yield "of several GPUs in one machine installers look at the newest alone: the others may find no code"
    yield f"metadata of variants: schema {release.schema_version}, a draft"
    if not SCHEMAS[release.schema_version].has_providers:
        yield f"schema {release.schema_version} names no providers: uv takes {NULL_LABEL} for every device"


#: problems of a package that are shown
_PROBLEMS = 5


def render_verdict(verdict: SplitVerdict, style: Style = PLAIN) -> Iterator[str]:
    """Yield a table of the packages that were proved, or why not, and the sum of all."""
    rows = [["label", "package", "proof"]]
    for one in verdict.variants:
        name = one.path.rpartition("/")[2]
        words = "the fat one with less device code" if one.is_proved else pluralize(len(one.problems), "problem")
        rows.append([one.label, printable(name), words])
    yield from table_lines(rows, style, names=(1,), role=_role)
    for one in verdict.variants:
        yield from (printable(f"{one.path}: {problem}") for problem in one.problems[:_PROBLEMS])
    yield from map(printable, verdict.problems)
    yield from map(printable, losses_in_words(verdict.lost)[:_PROBLEMS])
    changes = losses_in_words(verdict.changed)
    yield from (printable(f"another image runs: {words}") for words in changes[:_PROBLEMS])
    if len(changes) > _PROBLEMS:
        yield f"and {len(changes) - _PROBLEMS} more with another image: --json lists all"
    yield printable(verdict.lines()[0])
