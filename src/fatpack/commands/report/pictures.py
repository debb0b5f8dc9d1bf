"""The coverage of kernels as a picture: a row for kernels that are there for the same architectures."""

from __future__ import annotations

from fatpack.commands.report.model import kernel_namespace
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.report.byte_regions import ByteRegion, FileRegions
    from fatpack.commands.report.model import ByteCounts, CoveragePattern, KernelCoverage, ReportResult, RunsOn


# Colours of pictures: one for each family of architectures, on light and on dark paper.
#
# The fills have one lightness and one chroma (OKLCH: 0.80 or 0.77 and 0.085 on light paper, 0.50 or 0.47 on dark); the
# hue tells the family: NVIDIA from olive over green and blue to violet, older to newer, AMD the warm ones.

#: family → its colour on light and on dark paper
FAMILIES = {
    "sm2": ("#cfbe7e", "#726222"),
    "sm3": ("#b7b979", "#5e5f1f"),
    "sm5": ("#aec98e", "#556c35"),
    "sm6": ("#91c394", "#39673d"),
    "sm7": ("#87d0b1", "#287258"),
    "sm8": ("#6dc5c6", "#00696a"),
    "sm9": ("#84c8eb", "#256b8b"),
    "sm10": ("#97b5eb", "#405a8b"),
    "sm11": ("#b8b6f3", "#5f5c92"),
    "sm12": ("#c5a5dd", "#694d7e"),
    "gfx7": ("#cabf7f", "#6f6424"),
    "gfx8": ("#cfaf75", "#725518"),
    "gfx9": ("#eeab96", "#8c513f"),
    "gfx10": ("#dca87c", "#7d4f23"),
    "gfx11": ("#efa8ab", "#8d4e53"),
    "gfx12": ("#de9ebc", "#7e4661"),
    "intel": ("#79ccdf", "#0c6f81"),
    "host": ("#d3d6db", "#3d434c"),
    "other": ("#c1c6cd", "#4b525c"),
}

#: what is drawn beside the families → its colour on light and on dark paper
_PAPER = {
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1b2027", "#e4e7eb"),
    "soft": ("#5d6673", "#9aa4b1"),
    "line": ("#e2e5e9", "#2b313a"),
    "field": ("#b9c4d2", "#56616f"),
    "gap": ("#eceef1", "#23282f"),
    "hole": ("#c8412f", "#f0806e"),
}


def family_with_colour(family: str) -> str:
    """Return a family that has a colour: the given one, or ``other``."""
    return family if family in FAMILIES else "other"


def colour_style(families: Iterable[str]) -> str:
    """Return the style sheet of the colours: variables for both kinds of paper, and a class ``f-…`` for each family."""
    used = sorted({family_with_colour(family) for family in families})
    names = {**{f"f-{family}": FAMILIES[family] for family in used}, **_PAPER}
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in names.items()) for side in (0, 1))
    classes = "".join(f".f-{family}{{--c:var(--f-{family})}}" for family in used)
    schemes = f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    paper = f"@media print{{:root{{color-scheme:light;{light}}}}}"
    return f"{schemes}{paper}{classes}"


#: The style of pictures, both in a page and in an SVG file.
PICTURE_STYLE = (
    "svg.pic{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;display:block}"
    ".pic text{fill:var(--ink);dominant-baseline:middle;pointer-events:none}"
    ".pic .soft{fill:var(--soft)}.pic .end{text-anchor:end}.pic .mid{text-anchor:middle}"
    ".pic .arch{fill:var(--c);fill-opacity:.38}.pic .lib{fill:var(--gap)}"
    ".pic .part{fill:var(--c);stroke:var(--paper);stroke-width:.6}.pic .rest{fill-opacity:.55}"
    ".pic .own{fill:var(--c)}.pic .served{fill:var(--c);fill-opacity:.3}"
    ".pic .ptx{fill:none;stroke:var(--c);stroke-width:1.5;stroke-dasharray:3 2}"
    ".pic .link{fill:none;stroke:var(--soft);stroke-width:1.5;stroke-dasharray:1 2}"
    ".pic .none{fill:none;stroke:var(--hole);stroke-width:1.5}.pic .blank{fill:var(--gap)}"
    ".pic .b-image{fill:var(--c)}.pic .b-field{fill:var(--field)}.pic .b-data{fill:var(--field);fill-opacity:.55}"
    ".pic .b-padding,.pic .b-unknown{fill:var(--gap)}"
    ".pic b,.pic .strong{font-weight:600}"
)


# Parts of every picture: the drawing, labels that fit, and the SVG file.

#: The width of a character of the labels, of 11 pixels, in the widest of the fonts (DejaVu Sans).
_WIDTH = 6.8


def svg_element(width: float, height: float, title: str, *content: str) -> Markup:
    """Return a drawing with a title for readers that see no pictures; it is as wide as there is room."""
    return element(
        "svg",
        *content,
        class_="pic",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        xmlns="http://www.w3.org/2000/svg",
    )


def standalone_svg(picture: Markup, families: Iterable[str]) -> str:
    """Return a drawing as a file of its own: with its style, and an XML declaration."""
    head, _, rest = picture.partition(">")
    _, _, box = head.partition('viewBox="0 0 ')
    width, height = box.partition('"')[0].split()
    sheet = f"<style>{colour_style(families)}{PICTURE_STYLE}svg.pic{{background:var(--paper)}}</style>"
    text = f'{head} width="{width}" height="{height}">{sheet}{rest}'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def fit_text(text: str, width: float) -> str:
    """Return a label cut so that it fits into a width; nothing if there is no room for three characters."""
    room = int(width / _WIDTH)
    if room < 3:
        return ""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def text_element(text: str, x: float, y: float, class_: str | None = None) -> Markup:
    """Return a text at a place."""
    return element("text", text, x=x, y=y, class_=class_)


def rect_element(x: float, y: float, width: float, height: float, class_: str, radius: float | None = None) -> Markup:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, class_=class_, rx=radius)


# Numbers for people, as pictures and pages write them.


def format_count(number: int, noun: str) -> str:
    """Return ``1 image``, ``2,787 images``, ``3 libraries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def format_sizes(bytes: ByteCounts) -> str:
    """Return what a sum of bytes is, stored (where that is known) and inflated."""
    stored = "" if bytes.stored is None else f"{format_size(bytes.stored)} stored, "
    return f"{stored}{format_size(bytes.inflated)} inflated"


#: vendor → how it is written
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


def format_runs_on(item: KernelCoverage) -> str:
    """Return the devices that all kernels of a library run on, as one line."""
    return f"Runs on: {'; '.join(_of_vendor(answer) for answer in item.runs_on) or 'no known device'}"


def _of_vendor(answer: RunsOn) -> str:
    vendor = _VENDORS.get(answer.vendor, answer.vendor)
    if answer.is_every:
        return f"every known {vendor} device" + (", compiled when it is loaded" if answer.compiled else "")
    parts = [_listed(answer.ready)] if answer.ready else []
    if answer.compiled:
        parts.append(f"{_listed(answer.compiled)} (compiled when it is loaded)")
    if not parts:
        parts.append(f"no known {vendor} device with all kernels")
    if answer.partly:
        parts.append(f"with some of the kernels only: {_listed(answer.partly)}")
    if answer.unknown:
        parts.append(f"not certain: {_listed(answer.unknown)}")
    return "; ".join(parts)


def _listed(archs: Iterable[str]) -> str:
    return ", ".join(shorten_name(arch, 60) for arch in archs)


def common_directory(paths: Iterable[str]) -> str:
    """Return what all paths begin with, up to the last name: they are shown without it. Of one path, its folder."""
    shared: str | None = None
    for path in paths:
        at = max(path.rfind(mark) for mark in "/!\\") + 1
        folder = path[:at]
        shared = folder if shared is None else _common(shared, folder)
    return shared or ""


def _common(one: str, other: str) -> str:
    end = 0
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            break
        if left in "/!\\":
            end = at + 1
    return one[:end]


#: LIMIT: characters of a name that a title shows; a template's name may have thousands, a hostile one a million.
_LONGEST = 600


def shorten_name(text: str, most: int = _LONGEST) -> str:
    """Return a name without its middle if it is very long, with the number of its characters."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]}…{text[-most // 5 :]} ({len(text):,} characters)"


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path


# The bytes of a file as a grid, left to right and top to bottom: each cell as many bytes as it takes.

_COLUMNS, _MAX_GRID_ROWS = 128, 40
_GRID_STEP, _EDGE, _TOP = 8.0, 84.0, 3.0


def draw_byte_grid(map: FileRegions) -> Markup | None:
    """Return the picture; None for a file without bytes. A cell has the colour of what most of its bytes are."""
    if not map.size:
        return None
    cell = -(-map.size // (_COLUMNS * _MAX_GRID_ROWS))
    if cell > 16:  # whole numbers that people can add
        cell = 1 << (cell - 1).bit_length()
    base = map.cells[0].start if map.cells else 0
    count = -(-map.size // cell)
    rows = -(-count // _COLUMNS)
    drawn: list[Markup] = []
    for region, runs in _runs(map.cells, base, cell, count):
        path = "".join(_path(first, last) for first, last in runs)
        class_ = f"b-image f-{family_with_colour(region.family)}" if region.family else f"b-{region.kind}"
        drawn.append(element("g", element("title", _title(region)), element("path", d=path), class_=class_))
    every = max(1, rows // 10)
    for row in range(0, rows, every):
        at = base + row * _COLUMNS * cell
        drawn.append(text_element(f"{at:#x}", _EDGE - 8, _TOP + row * _GRID_STEP + _GRID_STEP / 2, "soft end"))
    title = f"The bytes of a file: each cell is {format_size(cell)}"
    return svg_element(_EDGE + _COLUMNS * _GRID_STEP, rows * _GRID_STEP + 2 * _TOP, title, *drawn)


def _title(region: ByteRegion) -> str:
    first = f"{region.start:#x} · {region.size:,} {'byte' if region.size == 1 else 'bytes'}"
    return "\n".join(
        filter(
            None, (shorten_name(region.name), shorten_name(region.value), region.arch, shorten_name(region.doc), first)
        )
    )


def _runs(
    regions: Sequence[ByteRegion], base: int, cell: int, count: int
) -> Iterator[tuple[ByteRegion, list[tuple[int, int]]]]:
    """Yield each region that has most of a cell, with its cells: one run, since regions follow each other."""
    owner: ByteRegion | None = None
    first = number = 0
    for at in range(count):
        start, end = base + at * cell, base + (at + 1) * cell
        while number + 1 < len(regions) and regions[number].start + regions[number].size <= start:
            number += 1
        best, most, look = regions[number], 0, number
        while look < len(regions) and regions[look].start < end:
            region = regions[look]
            share = min(end, region.start + region.size) - max(start, region.start)
            if share > most:
                best, most = region, share
            look += 1
        if best is not owner:
            if owner is not None:
                yield owner, [(first, at)]
            owner, first = best, at
    if owner is not None:
        yield owner, [(first, count)]


def _path(first: int, end: int) -> str:
    """Return the outline of cells from one to before another, row by row, with a gap between the cells of a row."""
    parts: list[str] = []
    while first < end:
        row, column = divmod(first, _COLUMNS)
        last = min(end, (row + 1) * _COLUMNS)
        width = (last - first) * _GRID_STEP - 0.6
        parts.append(
            f"M{_EDGE + column * _GRID_STEP:g} {_TOP + row * _GRID_STEP:g}h{width:g}v{_GRID_STEP - 0.8:g}h{-width:g}z"
        )
        first = last
    return "".join(parts)


#: The meaning of each kind of cell, in the order of the legend.
CELL_MEANINGS = {
    "own": "an image for it",
    "served": "an image for another architecture runs there",
    "ptx": "PTX or SPIR-V is compiled there",
    "link": "relocatable: counts only through the device link",
    "none": "nothing runs there",
}

#: LIMIT: rows of one library, and libraries, that a picture shows.
_MAX_COVERAGE_ROWS, _MOST_LIBRARIES = 24, 12

_NAME, _COLUMN_STEP, _CELL, _LINE = 380.0, 58.0, 13.0, 19.0


def draw_coverage(overview: ReportResult) -> Markup | None:
    """Return the picture of the libraries with most holes, and of their most frequent rows; None without kernels."""
    libraries = sorted(
        overview.coverage, key=lambda item: (-item.with_holes, -item.relocatable, -item.kernels, item.path)
    )[:_MOST_LIBRARIES]
    if not libraries:
        return None
    width = _NAME + _COLUMN_STEP * max(len(item.columns) for item in libraries) + 10
    y, drawn = 14.0, []
    for item in libraries:
        part, y = _library(item, y, width)
        drawn.append(part)
        y += 14
    drawn.append(_legend(y))
    return svg_element(max(width, 700), y + 16, "Coverage: kernels by the architectures they are there for", *drawn)


def coverage_rows(item: KernelCoverage) -> list[CoveragePattern]:
    """Return the rows of a library in the order of reading: the most frequent one, then rows with holes."""
    first, *rest = item.patterns
    return [first, *sorted(rest, key=lambda row: (not row.holes, -row.count, row.cells))]


def coverage_row_name(row: CoveragePattern) -> str:
    """Return what a row is called: the kernel that it is of, or how many there are."""
    return kernel_namespace(row.names[0]) if row.count == 1 else format_count(row.count, "kernel")


def _library(item: KernelCoverage, y: float, width: float) -> tuple[Markup, float]:
    name = base_name(item.path)
    drawn = [text_element(fit_text(name, _NAME - 10), 4, y, "strong")]
    for number, column in enumerate(item.columns):
        drawn.append(
            text_element(fit_text(column, _COLUMN_STEP), _NAME + _COLUMN_STEP * number + _CELL / 2, y, "soft mid")
        )
    rows = coverage_rows(item)
    for row in rows[:_MAX_COVERAGE_ROWS]:
        y += _LINE
        text = coverage_row_name(row)
        drawn.append(
            element(
                "g",
                element("title", "\n".join(map(shorten_name, row.names[:5]))),
                text_element(fit_text(text, _NAME - 20), 14, y),
            )
        )
        for number, (cell, family) in enumerate(zip(row.cells, item.families, strict=True)):
            place = rect_element(_NAME + _COLUMN_STEP * number, y - _CELL / 2, _CELL, _CELL, cell, 2.5)
            words = element("title", f"{item.columns[number]}: {CELL_MEANINGS.get(cell, 'text only')}")
            drawn.append(element("g", words, place, class_=f"f-{family_with_colour(family)}"))
    hidden = sum(row.count for row in rows[_MAX_COVERAGE_ROWS:]) + item.not_listed
    if hidden:
        y += _LINE
        drawn.append(text_element(f"{format_count(hidden, 'more kernel')} in other rows", 14, y, "soft"))
    return element("g", *drawn), y + _LINE


def _legend(y: float) -> Markup:
    drawn, x = [], 4.0
    for cell, words in CELL_MEANINGS.items():
        drawn.append(element("g", rect_element(x, y - _CELL / 2, _CELL, _CELL, cell, 2.5), class_="f-other"))
        drawn.append(text_element(words, x + _CELL + 6, y, "soft"))
        x += _CELL + 24 + 5.6 * len(words)
    return element("g", *drawn)
