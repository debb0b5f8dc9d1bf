"""Words that outputs of a policy share: one line for each violation, and the outcome as text."""

from __future__ import annotations

from fatpack.commands.check.headline import check_headline
from fatpack.errors import pluralize
from fatpack.inputs.files import SEPARATOR
from fatpack.printable import printable
from fatpack.text.style import ellipsize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.model import CheckResult, MissingKernels, Violation


#: the words for a unit of images that lie in files of their own
_LOOSE = "loose images"

#: kernels of a unit that are named without -v, if they take no more than as many characters
_NAMED = 3
_LONGEST = 48


def kernel_words(names: tuple[str, ...] | None, *, verbose: int = 0) -> str:
    """Return the kernels of a unit in words, few of them unless ``verbose``; "" where there are none."""
    if names is None:
        return "kernels not read: the library is large; --kernels reads them"
    if not names:
        return ""
    if not verbose and sum(map(len, names[:_NAMED])) > _LONGEST:
        name = ellipsize(names[0], _LONGEST)
        return f"kernel {name}" if len(names) == 1 else f"{len(names)} kernels, as {name}"
    shown = names if verbose else names[:_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{'kernel' if len(names) == 1 else 'kernels'} {', '.join(shown)}{more}"


# A policy's outcome as text: the first line says what matters, then a library in a line, and below it its units.

#: beginnings of advice that differs between files only in the name of the file
_ALIKE = ("run fatpack inspect ", "fatpack slim ")

#: units of a library that are shown without -v
_SHOWN = 3


def render_check(checked: CheckResult, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines; ``verbose`` shows every unit and every kernel, and the libraries that keep to the policy."""
    yield check_headline(checked)
    package = ""
    for item in checked.violations:
        around, mark, inside = item.path.partition(SEPARATOR)
        if mark and around != package:
            yield printable(f"  {around}")
        package = around if mark else ""
        margin = "    " if mark else "  "
        yield from violation_lines(item, verbose=verbose, place=inside or around, margin=margin, hints=False)
    hints = _few(list(dict.fromkeys(item.hint for item in checked.violations if item.hint)), verbose)
    yield from (printable(f"  {'what to do:' if not at else '           '} {hint}") for at, hint in enumerate(hints))
    if verbose:
        broken = {item.path for item in checked.violations if item.is_broken}
        for library in checked.libraries:
            if library.path not in broken:
                units = pluralize(library.units, "unit")
                outcome = "ok" if library.is_asked else "not checked"
                what = library.words or f"{units} for {', '.join(library.archs)}"
                yield printable(f"  {outcome}: {library.path}: {what}")
    if checked.violations and any(item.is_broken for item in checked.violations):
        yield printable(f"  rules: {'; '.join(checked.rules) or 'every file can be read'}")
        if checked.files:
            yield f"  {pluralize(checked.files, 'file')} read, {len(checked.libraries)} with device code"
    if checked.unlooked:
        yield f"  {checked.unlooked.sentence()}"
    if checked.config:
        yield printable(f"  policy of {checked.config}")


def _few(hints: list[str], verbose: int) -> list[str]:
    """Return what to do; of what is the same for many files the first, unless ``verbose``."""
    for start in () if verbose else _ALIKE:
        alike = [hint for hint in hints if hint.startswith(start)]
        if len(alike) > _SHOWN:
            more, left_out = f"{alike[0]}, and so for {pluralize(len(alike) - 1, 'other file')}", set(alike[1:])
            hints = [more if hint == alike[0] else hint for hint in hints if hint not in left_out]
    return hints


def violation_lines(
    item: Violation, *, verbose: int = 0, place: str | None = None, margin: str = "  ", hints: bool = True
) -> Iterator[str]:
    """Yield the lines about one violation, the first of which is about all of it; ``place`` is printed unchanged."""
    name = item.path if place is None else place
    place = f"{name}: " if name else ""
    hint = f"; {item.hint}" if item.hint and hints else ""
    yield printable(f"{margin}{item.severity} {item.code}: {place}{item.message}{hint}")
    groups: dict[tuple[tuple[str, ...], str, tuple[str, ...] | None], list[MissingKernels]] = {}
    for hole in item.holes:
        groups.setdefault((hole.has, hole.reason, hole.kernels if item.code == "FP3309" or verbose else ()), []).append(
            hole
        )
    shown = list(groups.values()) if verbose else list(groups.values())[:_SHOWN]
    are_read = any(hole.kernels is not None for holes in shown for hole in holes)
    for holes in shown:
        yield printable(f"{margin}  {_units(holes, verbose, is_named=are_read)}")
    hidden = sum(len(holes) for holes in list(groups.values())[len(shown) :])
    if hidden:
        yield f"{margin}  and {pluralize(hidden, 'unit')} more; -v shows them"
    if shown and not are_read:
        yield f"{margin}  {kernel_words(None)}"


def _units(holes: list[MissingKernels], verbose: int, *, is_named: bool) -> str:
    first = holes[0]
    place = f"container {first.position}" if first.position else first.member or _LOOSE
    if first.section:
        place += f" ({first.section})"
    if len(holes) > 1:
        place = f"{len(holes)} units, first {place}"
    rule = f" [{first.rule}]" if first.rule else ""
    names: dict[str, None] | None = {}
    for hole in holes:
        names = None if names is None or hole.kernels is None else names | dict.fromkeys(hole.kernels)
    kernels = kernel_words(None if names is None else tuple(names), verbose=verbose)
    verb = "have" if len(holes) == 1 and place == _LOOSE else "has"
    words = f"{place} {verb} {', '.join(first.has)}; {first.reason}{rule}"
    return f"{words}: {kernels}" if kernels and is_named else words
