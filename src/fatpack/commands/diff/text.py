"""Text of ``fatpack diff``: a line with the result, and a table for each library that differs."""

from __future__ import annotations

from collections import Counter

from fatpack.commands.diff.model import CodeSizes
from fatpack.errors import pluralize
from fatpack.model import arch_name
from fatpack.printable import format_size, printable
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.diff.model import ArchDiff, DiffResult, KernelDiff, LibraryDiff, TraceDiff

#: names in the first line, and kernels of an architecture without ``-v``
_NAMED, _KERNELS = 4, 5

#: share of the added or of the removed bytes, in percent, from which the first line says where most of them
#: are, or all; and what one such share may differ from all that files grew by, so that it explains it
_MOST, _ALL, _NEAR = 80, 95, 20

#: fields of kernels → their words
_WORDS = {
    "registers": "registers",
    "sgprs": "scalar registers",
    "agprs": "accumulation registers",
    "vgpr_spills": "spilled registers",
    "sgpr_spills": "spilled scalar registers",
    "shared": "shared memory",
    "local": "local memory",
    "params": "parameters",
    "max_threads": "threads",
    "code_size": "code",
}
#: characters of a name that a table shows
_WIDEST = 48
_TENDING = ("registers", "sgprs", "vgpr_spills", "sgpr_spills", "local", "shared")
_IN_BYTES = frozenset(("shared", "local", "params", "code_size"))

#: the trace of a build whose values are digests
_DEBUG = "debug information"

#: forms that need no mention beside their architecture
_USUAL = ("cubin", "code-object")


def render_diff(diff: DiffResult, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a comparison; ``verbose`` shows what is the same too, and all kernels."""
    yield printable(diff_headline(diff))
    for item in diff.unread:
        yield printable(f"not read: {item.path}: {item.problem}")
    for name, unlooked in ((diff.old, diff.old_unlooked), (diff.new, diff.new_unlooked)):
        if not unlooked.is_asked:
            yield printable(f"{name}: {unlooked.sentence()}")
    for library in diff.libraries:
        if verbose or not library.is_same:
            yield ""
            yield from _library(library, diff, verbose=verbose)
    same = sum(library.is_same for library in diff.libraries)
    if same and not verbose and same < len(diff.libraries):
        yield ""
        yield f"{pluralize(same, 'library')} with the same device code; -v lists {'it' if same == 1 else 'them'}"


def diff_headline(diff: DiffResult) -> str:
    """Return what matters in one line: what is not known first, then what was lost, what came, what changed, bytes."""
    parts = []
    if diff.unread:
        parts.append(f"could not be read: {_some([_last(item.path) for item in diff.unread], 'file')}")
    for kind, name in (("lost", diff.new), ("added", diff.old)):
        if diff.libraries and not diff.unread and all(library.kind == kind for library in diff.libraries):
            parts.append(f"no device code in {name}")
    for kind in ("lost", "added"):
        words = _gone(diff, kind)
        if words:
            parts.append(f"{kind}: {', '.join(words)}")
    parts += _changed(diff)
    grown = _growth(diff)
    if grown:
        parts.append(grown)
    images = sum(arch.new_images for library in diff.libraries for arch in library.archs)
    count = f"{pluralize(len(diff.libraries), 'library')}, {pluralize(images, 'image')}"
    if not diff.libraries:
        return "; ".join([*parts, "nothing was compared" if diff.unread else "no device code on either side"])
    if len(parts) == bool(diff.unread):
        parts.append(f"{'else ' if parts else ''}the same device code: {count}")
    return "; ".join(parts)


def _gone(diff: DiffResult, kind: str) -> list[str]:
    """Return words for what one side lacks: libraries, architectures, images, kernels."""
    words = []
    libraries = [library for library in diff.libraries if library.kind == kind]
    if libraries:
        words.append(_some([_last(library.name) for library in libraries], "library"))
    archs: dict[str, list[str]] = {}
    images: dict[str, int] = {}
    kernels = 0
    for library in diff.libraries:
        for arch in library.archs if library.kind == "both" else ():
            if getattr(arch, kind) and not (arch.new_images if kind == "lost" else arch.old_images):
                archs.setdefault(_title(arch), []).append(_last(library.name))
            elif getattr(arch, kind):
                images[_title(arch)] = images.get(_title(arch), 0) + getattr(arch, kind)
            kernels += sum(kernel.kind == kind for kernel in arch.kernels or ())
    by_place: dict[str, list[str]] = {}
    for name, places in archs.items():
        by_place.setdefault(places[0] if len(places) == 1 else pluralize(len(places), "library"), []).append(name)
    both = sum(library.kind == "both" for library in diff.libraries)
    for place, names in by_place.items():
        words.append(f"{_some(names, 'architecture')}{f' in {place}' if both > 1 else ''}")
    if images:
        of = _some(list(images), "architecture")
        words.append(f"{pluralize(sum(images.values()), 'image')} of {of}")
    if kernels:
        words.append(pluralize(kernels, "kernel"))
    return words


def _changed(diff: DiffResult) -> list[str]:
    archs = [arch for library in diff.libraries for arch in library.archs]
    words = []
    kernels = sum(kernel.kind == "changed" for arch in archs for kernel in arch.kernels or ())
    others = sum(arch.changed for arch in archs if not (diff.with_kernels and arch.kernels))
    if kernels:
        words.append(f"changed: {pluralize(kernels, 'kernel')} in {_places(diff, 'kernels')}")
    if others:
        words.append(f"changed: {pluralize(others, 'image')} in {_places(diff, 'changed')}")
    moved = [library for library in diff.libraries if library.moved]
    if moved:
        places = _last(moved[0].name) if len(moved) == 1 else pluralize(len(moved), "library")
        words.append(f"moved: the same images in other containers, or in another order, in {places}")
    for kind, text in (("rebuilt", "built anew, doing the same"), ("repacked", "packed anew, with the same contents")):
        count = sum(getattr(arch, kind) for arch in archs)
        if count:
            words.append(f"{pluralize(count, 'image')} {text}")
    return words


def _places(diff: DiffResult, field: str) -> str:
    """Return in which library something is, or in how many."""
    places = [library for library in diff.libraries if any(getattr(arch, field) for arch in library.archs)]
    return _last(places[0].name) if len(places) == 1 else pluralize(len(places), "library")


def _growth(diff: DiffResult) -> str:
    """Return by how much the files grew or shrank, and where most of it is; "" for not at all.

    That is one architecture, if most of the bytes are its that came (or went, where the files shrank). Where others
    went the other way, so that it came to more than all together, both are printed.
    """
    total = diff.growth
    if not total:
        return ""
    deltas: dict[str, int] = {}
    for library in diff.libraries:
        for arch in library.archs:
            deltas[_title(arch)] = deltas.get(_title(arch), 0) + arch.new.stored - arch.old.stored
    sign = 1 if total > 0 else -1
    name = max(deltas, key=lambda each: sign * deltas[each], default="")
    along = sum(delta for delta in deltas.values() if delta * sign > 0)
    where = ""
    if name and 100 * deltas[name] * sign >= _MOST * abs(along):
        others = sum(delta for delta in deltas.values() if delta * sign < 0)
        differs = 100 * abs(deltas[name] - total)
        if 100 * abs(others) > _NEAR * abs(total):
            where = f": {name} {_signed(deltas[name])}, others {_signed(others)}"
        elif differs <= _NEAR * abs(total):
            is_all = along == deltas[name] and differs <= (100 - _ALL) * abs(total)
            where = f", all {name}" if is_all and not others else f", most of it {name}"
    packed = diff.packed_growth
    return f"{_signed(total)}{where}{f' ({_signed(packed)} in the archive)' if packed else ''}"


def _library(library: LibraryDiff, diff: DiffResult, *, verbose: int) -> Iterator[str]:
    archs = library.archs if library.kind == "both" else tuple(map(_alone, library.archs))
    old = sum((arch.old for arch in archs), CodeSizes())
    new = sum((arch.new for arch in archs), CodeSizes())
    moved = f" (was {_before(library)})" if _is_renamed(library, diff) else ""
    state = {"lost": ": lost", "added": ": added", "both": ""}[library.kind]
    packed = ""
    if library.old_packed is not None or library.new_packed is not None:
        packed = f"; in the archive {_sizes(library.old_packed, library.new_packed)}"
    file = _sizes(library.old_file, library.new_file)
    yield printable(f"{library.name}{moved}{state}: file {file}{packed}")
    rows = [["", "images", "", "stored", "", "inflated", ""]]
    shown = [arch for arch in archs if verbose or library.kind != "both" or not arch.is_same]
    rows += map(_arch_row, shown)
    if len(shown) > 1 or len(shown) < len(archs):
        images = sum(arch.old_images for arch in archs), sum(arch.new_images for arch in archs)
        rows.append(["all", _numbers(*images), "", *_size_cells(old, new)])
    yield from align_columns(rows, right=(3, 4, 5, 6), indent="  ")
    for arch in shown:
        if arch.kernels or arch.variables:
            yield from _kernels(arch, verbose=verbose)
        if arch.traces:
            words = "; ".join(_trace(trace, verbose=verbose) for trace in arch.traces)
            yield printable(f"  {_title(arch)}: the same code but for: {words}")


def _trace(trace: TraceDiff, *, verbose: int) -> str:
    """Return words for what differs beside the same code: the first values, of debug information what it is."""
    if trace.what == _DEBUG:
        names = dict.fromkeys(text.split(" ")[0] for text in (*trace.old, *trace.new))
        return f"{trace.what} ({', '.join(list(names) if verbose else list(names)[:_NAMED])})"
    sides = [side if verbose else side[:1] for side in (trace.old, trace.new)]
    if not any(sides):
        return trace.what
    more = len(trace.old) + len(trace.new) - sum(map(len, sides))
    before, now = (", ".join(side) or "none" for side in sides)
    return f"{trace.what} {before} → {now}{f' and {more} more' if more else ''}"


def _alone(arch: ArchDiff) -> ArchDiff:
    """Return what a library that one side lacks has, as a table shows it: there is nothing to compare."""
    count, sizes = arch.old_images or arch.new_images, arch.old + arch.new
    return arch.replace(old_images=count, new_images=count, old=sizes, new=sizes, lost=0, added=0)


def _is_renamed(library: LibraryDiff, diff: DiffResult) -> bool:
    if library.kind != "both":
        return False
    if library.old_path == diff.old or library.new_path == diff.new:  # files that were named
        return _last(diff.old) != _last(diff.new) and _last(library.old_path or "") != _last(library.new_path or "")
    return library.old_name is not None and library.old_name != library.name


def _before(library: LibraryDiff) -> str:
    """Return what a library was called: its name, or its path where only that is new."""
    old = library.old_name or ""
    return old if _last(old) == _last(library.name) else _last(old)


def _arch_row(arch: ArchDiff) -> list[str]:
    kinds = [kind for kind in ("lost", "added", "changed", "repacked", "rebuilt") if getattr(arch, kind)]
    what = ", ".join(f"{getattr(arch, kind)} {kind}" for kind in kinds)
    return [_title(arch), _numbers(arch.old_images, arch.new_images), what, *_size_cells(arch.old, arch.new)]


def _size_cells(old: CodeSizes, new: CodeSizes) -> list[str]:
    cells = []
    for before, now in ((old.stored, new.stored), (old.size, new.size)):
        if not before and not now:  # compressed with others
            cells += ["", ""]
            continue
        cells += [format_size(now), _signed(now - before) if now != before else ""]
    return cells


def _kernels(arch: ArchDiff, *, verbose: int) -> Iterator[str]:
    kernels = arch.kernels or ()
    counts = Counter(item.kind for item in kernels)
    words = [f"{counts[kind]} {kind}" for kind in ("lost", "added", "changed") if counts[kind]]
    kinds = [f"kernels: {', '.join(words)}"] if words else []
    kinds += _tendencies(kernels)
    kinds += ["variables, version or ABI changed"] if arch.variables else []
    yield printable(f"  {_title(arch)}: {'; '.join(kinds)}")
    ordered = sorted(kernels, key=_worth)
    times = Counter((item.kind, _named(item, verbose=verbose), _needs_words(item)) for item in ordered)
    rows = [
        [kind, printable(name), " ".join(filter(None, (needs, f"({count} times)" if count > 1 else "")))]
        for (kind, name, needs), count in times.items()
    ]
    shown = rows if verbose else rows[:_KERNELS]
    yield from align_columns(shown, indent="    ")
    if len(shown) < len(rows):
        yield f"    and {len(rows) - len(shown)} more; -v lists them"


def _worth(kernel: KernelDiff) -> tuple[int, int]:
    """Return what sorts kernels by what matters: lost, added, changed in what they need, in their code alone."""
    needs = {field for field, _, _ in kernel.needs}
    return ("lost", "added", "changed").index(kernel.kind), 0 if needs & set(_TENDING) else 1 if needs else 2


def _tendencies(kernels: Iterable[KernelDiff]) -> list[str]:
    """Return the number of kernels in which each resource that matters to speed rose and fell."""
    rose: Counter[str] = Counter()
    fell: Counter[str] = Counter()
    for kernel in kernels:
        for field, old, new in kernel.needs:
            if old is not None and new is not None and field in _TENDING:
                (rose if new > old else fell)[field] += 1
    words = []
    for field in _TENDING:
        moves = [f"{way} {count[field]}" for way, count in (("up in", rose), ("down in", fell)) if count[field]]
        if moves:
            words.append(f"{_WORDS[field]} {', '.join(moves)}")
    return words


def _named(kernel: KernelDiff, *, verbose: int) -> str:
    name = kernel.demangled or kernel.name
    return name if verbose or len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"


def _needs_words(kernel: KernelDiff) -> str:
    words = []
    for field, old, new in kernel.needs:
        before, now = (
            "?" if value is None else format_size(value) if field in _IN_BYTES else str(value) for value in (old, new)
        )
        if before == now:  # sizes that differ by less than is shown
            before, now = f"{old} B", f"{new} B"
        words.append(f"{_WORDS[field]} {before} → {now}")
    return ", ".join(words)


def _title(arch: ArchDiff) -> str:
    name = arch_name(arch.arch, arch.form) or arch.offload or "no architecture"
    return name if arch.form in _USUAL or name != (arch.arch or name) else f"{name} {arch.form}".strip()


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _numbers(old: int, new: int) -> str:
    return str(new) if old == new else f"{old} → {new}"


def _sizes(old: int | None, new: int | None) -> str:
    if old is None or new is None or old == new:
        return format_size(next((value for value in (new, old) if value is not None), 0))
    before, now = format_size(old), format_size(new)
    return f"{before} → {now}" if before != now else now


def _signed(delta: int) -> str:
    return f"{'+' if delta > 0 else '-'}{format_size(abs(delta))}"


def _some(names: Sequence[str], noun: str) -> str:
    unique: Iterable[str] = dict.fromkeys(names)
    listed = list(unique)
    return ", ".join(listed) if len(listed) <= _NAMED else pluralize(len(names), noun)
