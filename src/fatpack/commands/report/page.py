"""The HTML page of an overview: its head with the numbers, then one section for each question."""

from __future__ import annotations

import os
from itertools import starmap

from fatpack.commands.report.model import is_compiled_later
from fatpack.commands.report.pictures import (
    CELL_MEANINGS,
    FAMILIES,
    PICTURE_STYLE,
    base_name,
    colour_style,
    common_directory,
    coverage_row_name,
    coverage_rows,
    draw_byte_grid,
    family_with_colour,
    format_count,
    format_runs_on,
    format_sizes,
    shorten_name,
)
from fatpack.commands.report.treemap import draw_treemap
from fatpack.commands.report.worth import worth_tables
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element, escape_markup, join_markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.report.byte_regions import ByteRegion, FileRegions
    from fatpack.commands.report.model import (
        CoveragePattern,
        Duplicate,
        FileOverview,
        FindingCount,
        ImageLine,
        KernelCoverage,
        ReportResult,
    )
    from fatpack.commands.report.worth import WorthTable


# Parts of the page: a section, a table, a chip in the colour of an architecture, a bar.


def page_section(name: str, title: str, lead: str, *content: str) -> Markup:
    """Return a section: ``name`` is where links lead, ``lead`` a sentence below the title."""
    words = [element("h2", title)]
    if lead:
        words.append(element("p", lead, class_="lead"))
    return element("section", *words, *content, id=name)


def arch_chip(label: str, family: str) -> Markup:
    """Return the name of an architecture with its colour."""
    return element("span", element("i", class_=f"dot f-{family_with_colour(family)}"), label, class_="chip")


def name_element(text: str, most: int = 160) -> Markup:
    """Return a name from a file: in the font of code, cut in its middle if it is very long, whatever way it is read."""
    if len(text) <= most:
        return element("bdi", text, class_="name")
    return element("bdi", shorten_name(text, most), class_="name", title=shorten_name(text))


def size_cell(size: int | None) -> Markup:
    """Return a cell with a size, and the number by which it is sorted."""
    if size is None:
        return element("td", "–", class_="n soft", data_v=-1)
    return element("td", format_size(size), class_="n", data_v=size)


def count_cell(count: int | None) -> Markup:
    """Return a cell with a number."""
    if count is None:
        return element("td", "–", class_="n soft", data_v=-1)
    return element("td", f"{count:,}", class_="n", data_v=count)


def table_element(name: str, heads: Sequence[tuple[str, bool]], rows: Iterable[str], *, finds: str = "") -> Markup:
    """Return a table; ``heads`` are the words above each column, and whether it is of numbers.

    With ``finds``, what a filter looks for in words, a script puts a filter above it, and lets columns be sorted.
    """
    cells = [element("th", words, scope="col", class_="n" if is_number else None) for words, is_number in heads]
    head = element("thead", element("tr", *cells))
    body = element("tbody", Markup("\n".join(rows)))
    made = element("div", element("table", head, body, id=name, class_="sorted" if finds else None), class_="scroll")
    if not finds:
        return made
    box = element("input", type="search", data_for=name, placeholder=finds, aria_label=finds)
    count = element("output", data_of=name)
    return join_markup((element("p", box, " ", count, class_="filter", hidden=True), made))


# The bytes of one file: a picture, and a table of its regions.

#: Characters of a value or a meaning that are shown.
_MAX_VALUE_LENGTH = 160


def byte_map_section(map: FileRegions | None) -> Markup | None:
    """Return the section; None without a file to show."""
    if map is None:
        return None
    picture = draw_byte_grid(map)
    if picture is None:
        return None
    lead = f"{base_name(map.path)}, {format_size(map.size)}: "
    if map.level == "fields":
        lead += f"each of its {format_count(map.labels, 'field')}. "
    else:
        lead += (
            f"{format_count(map.labels, 'field')} in {len(map.regions):,} rows. "
            "fatpack inspect --bytes lists every field. "
        )
    heads = [("offset", True), ("bytes", True), ("name", False), ("value", False), ("meaning", False)]
    rows = [_region_row(region) for region in map.regions]
    made = table_element("t-bytes", heads, rows, finds="Filter fields")
    listed = element("details", element("summary", f"{format_count(len(map.regions), 'row')}"), made, class_="regions")
    return page_section("map", "Byte map", lead, element("div", picture, class_="grid"), listed)


def _region_row(region: ByteRegion) -> Markup:
    value = region.value if len(region.value) <= _MAX_VALUE_LENGTH else f"{region.value[:_MAX_VALUE_LENGTH]}…"
    doc = region.doc if len(region.doc) <= _MAX_VALUE_LENGTH else f"{region.doc[:_MAX_VALUE_LENGTH]}…"
    arch = [" ", arch_chip(region.arch, region.family)] if region.arch else []
    return element(
        "tr",
        element("td", f"{region.start:#x}", class_="n name", data_v=region.start),
        size_cell(region.size),
        element("td", name_element(region.name, 100), *arch),
        element("td", value),
        element("td", doc, class_="soft"),
    )


# The treemap, by stored and by inflated bytes: two pictures, of which a reader chooses one without any script.


def treemap_section(overview: ReportResult) -> Markup | None:
    """Return the section of the treemap."""
    pictures = {
        "stored": draw_treemap(overview, is_stored=True),
        "inflated": draw_treemap(overview, is_stored=False),
    }
    drawn = {kind: picture for kind, picture in pictures.items() if picture is not None}
    if not drawn:
        return None
    unknown = sum(1 for file in overview.files if file.bytes.stored is None)
    shared = sum(1 for file in overview.files if file.shared)
    first = "inflated" if unknown and "inflated" in drawn else next(iter(drawn))
    choices = []
    for kind in drawn:
        button = element("input", type="radio", name="by", id=f"by-{kind}", checked=kind == first, class_="by")
        choices += [button, element("label", kind, for_=f"by-{kind}")]
    boxes = [element("div", picture, class_=f"map map-{kind}") for kind, picture in drawn.items()]
    lead = (
        "Library, architecture, then kernels whose names begin alike: areas are bytes. A kernel's part of the stored "
        "bytes is estimated: images are compressed whole, and its part of the inflated image is taken for it."
    )
    if unknown and "stored" in drawn:
        lead += (
            f" The stored bytes of {format_count(unknown, 'library')} are not "
            "known, which are in the picture of inflated "
            "bytes only."
        )
    if shared and "stored" in drawn:
        lead += (
            f" {format_count(shared, 'library')} {'has' if shared == 1 else 'have'} "
            "bundles that are compressed as one: such a "
            "library's stored bytes are divided as its inflated ones are."
        )
    box = element("div", *choices, *boxes, class_="switch")
    return page_section("bytes", "Where the bytes are", lead, join_markup((box,)))


# Duplicate images and kernels, and the bytes that they cost.

#: Duplicates that are shown at once, the dearest; the others are folded. Places that are named of each.
_FIRST, _PLACES = 10, 3

_HEADS = (
    ("what", False),
    ("for", False),
    ("copies", True),
    ("files", True),
    ("bytes of one", True),
    ("cost of the others", True),
    ("image in", False),
)


def duplicates_section(overview: ReportResult) -> Markup | None:
    """Return the section of duplicates: the largest ones first, or a sentence that there are none."""
    if not overview.image_count:
        return None
    compared = "the same image, and the same code of kernels" if overview.compares_code else "the same image"
    has_images = any(item.kind == "image" for item in overview.duplicates)
    if not overview.duplicates:
        return page_section("duplicates", "Duplicates", f"Compared by digest: {compared}. Nothing is there twice.")
    lead = f"Compared by digest: {compared}. {format_count(overview.duplicate_count, 'duplicate')}"
    lead += (
        f"; those of images cost {format_size(overview.duplicate_cost)}. "
        if has_images
        else "; no image is there twice. "
    )
    if len(overview.duplicates) < overview.duplicate_count:
        lead += f"The {len(overview.duplicates):,} dearest are listed. "
    if any(item.kind == "kernel" for item in overview.duplicates):
        lead += "Code of one kernel may be the same for several architectures, each of which needs its own. "
    folder = common_directory(file.path for file in overview.files)
    first = table_element("t-twice", _HEADS, (_duplicate_row(item, folder) for item in overview.duplicates[:_FIRST]))
    rest = overview.duplicates[_FIRST:]
    if not rest:
        return page_section("duplicates", "Duplicates", lead, first)
    more = table_element(
        "t-twice-more", _HEADS, (_duplicate_row(item, folder) for item in rest), finds="Filter duplicates"
    )
    summary = element("summary", f"{len(rest):,} more")
    return page_section("duplicates", "Duplicates", lead, first, element("details", summary, more, class_="more"))


def _duplicate_row(item: Duplicate, folder: str) -> Markup:
    where = [element("li", name_element(place.removeprefix(folder), 110)) for place in item.places[:_PLACES]]
    if item.count > len(where):
        where.append(element("li", f"and {item.count - len(where):,} more", class_="soft"))
    what = name_element(item.name, 90) if item.kind == "kernel" else element("span", item.name)
    digest = element("span", f"{item.kind} {item.digest[:12]}", class_="soft name")
    cost = format_size(item.cost) if item.is_stored else f"{format_size(item.cost)} inflated"
    return element(
        "tr",
        element("td", what, element("br"), digest),
        element("td", ", ".join(item.labels)),
        count_cell(item.count),
        count_cell(item.files),
        size_cell(item.size),
        element("td", cost, class_="n", data_v=item.cost),
        element("td", element("ul", *where, class_="where")),
    )


# The files, what carries their device code, and what of them could not be read.


def files_section(overview: ReportResult) -> Markup | None:
    """Return the table of files with device code or with something wrong; None if there is one, and it is fine."""
    shown = overview.files
    if len(shown) == 1 and not shown[0].error and not shown[0].not_searched:
        return None
    rest = overview.files_read - len(shown)
    lead = (
        f"{format_count(rest, 'file')} without device code {'is' if rest == 1 else 'are'} not listed."
        if rest > 0
        else ""
    )
    folder = common_directory(file.path for file in shown)
    heads = [("file", False), ("kind", False), ("bytes", True), ("of it device code", True), ("architectures", False)]
    heads += [("images", True), ("kernels", True), ("findings", False)]
    return page_section(
        "files",
        "Files",
        lead,
        table_element("t-files", heads, (_file_row(file, folder) for file in shown), finds="Filter files"),
    )


def _file_row(file: FileOverview, folder: str) -> Markup:
    wrong = [" ".join(file.findings)]
    if file.error is not None:
        wrong.append(file.error)
    return element(
        "tr",
        element("td", name_element(file.path.removeprefix(folder)), title=file.path if len(file.path) < 300 else None),
        element("td", file.host),
        size_cell(file.size),
        size_cell(file.bytes.stored),
        element("td", _bar(file)),
        count_cell(file.bytes.count),
        count_cell(file.kernels),
        element("td", " ".join(filter(None, wrong)), class_="wrong" if file.error else None),
    )


def _bar(file: FileOverview) -> Markup | str:
    is_stored = bool(file.bytes.stored) and all(arch.bytes.stored is not None for arch in file.archs)
    whole = sum((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0 for arch in file.archs)
    if not whole:
        return ""
    x, drawn = 0.0, []
    for arch in file.archs:
        width = 160 * ((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0) / whole
        rect = element("rect", x=x, y=0, width=max(0.0, width - 0.5), height=12, class_="own")
        title = element("title", f"{arch.label}\n{format_count(arch.bytes.count, 'image')}\n{format_sizes(arch.bytes)}")
        drawn.append(element("g", title, rect, class_=f"f-{arch.family}"))
        x += width
    words = ", ".join(arch.label for arch in file.archs)
    return element("svg", *drawn, viewBox="0 0 160 12", class_="pic small", role="img", aria_label=words)


# Code that can never run, costs of architectures, kernels that do nothing.


def worth_section(table: WorthTable) -> Markup:
    """Return the section of a table: its sentences, the command that acts on it, and all rows with a filter."""
    content = [element("ul", *(element("li", sentence) for sentence in table.advice))] if table.advice else []
    if table.command:
        content.append(element("p", element("code", table.command), " takes them out."))
    if table.rows:
        numbers = [head.startswith(">") for head in table.heads]
        heads = [(head.lstrip(">"), is_number) for head, is_number in zip(table.heads, numbers, strict=True)]
        rows = (_worth_row(cells, numbers) for cells in table.rows)
        content.append(table_element(f"t-{table.name}", heads, rows))
    return page_section(table.name, table.title, table.lead, *content)


def _worth_row(cells: Sequence[str], numbers: Sequence[bool]) -> Markup:
    first, *rest = cells
    made = [element("td", name_element(first, 90))]
    made += [element("td", cell, class_="n" if is_n else None) for cell, is_n in zip(rest, numbers[1:], strict=True)]
    return element("tr", *made)


# Findings, by code.


def findings_section(overview: ReportResult) -> Markup | None:
    """Return the section: findings by code, and files that could not be read."""
    unread = [file for file in overview.files if file.error is not None]
    if not overview.findings and not unread:
        return None
    rows = [_unread_row(file.path, file.error or "") for file in unread]
    rows += [_finding_row(item) for item in overview.findings]
    heads = [("code", False), ("severity", False), ("what it means", False), ("times", True), ("files", False)]
    lead = "fatpack inspect FILE says of each where it is, and what to do."
    return page_section("findings", "Findings", lead, table_element("t-findings", heads, rows))


def _finding_row(item: FindingCount) -> Markup:
    return element(
        "tr",
        element("td", item.code, class_="name"),
        element("td", item.severity, class_=f"severity {item.severity}"),
        element("td", item.meaning),
        count_cell(item.count),
        element("td", element("ul", *starmap(_said, zip(item.files, item.messages, strict=True)), class_="where")),
    )


def _said(path: str, message: str) -> Markup:
    return element("li", name_element(path), f": {message}" if message else "")


def _unread_row(path: str, error: str) -> Markup:
    words = element("td", "unread", class_="severity error")
    return element(
        "tr", element("td", "–"), words, element("td", error), count_cell(1), element("td", name_element(path))
    )


# The table of images.

_BUNDLE = "its bundle is compressed as one: these are the bytes of the bundle"


def images_section(overview: ReportResult) -> Markup | None:
    """Return the section: the largest images, in the order of the files."""
    if not overview.images:
        return None
    has_files = len({line.path for line in overview.images}) > 1
    heads = [("image", False), ("for", False), ("form", False), ("in", False), ("offset", True)]
    heads += [("stored", True), ("inflated", True), ("packed", False), ("kernels", True), ("registers", True)]
    if any(line.findings for line in overview.images):
        heads.append(("findings", False))
    if has_files:
        heads.insert(0, ("file", False))
    shown = f"{len(overview.images):,} of " if len(overview.images) < overview.image_count else ""
    lead = f"{shown}{format_count(overview.image_count, 'image')}. "
    if shown:
        lead += "The largest are shown; fatpack inspect --rows jsonl has all."
    has_findings = heads[-1][0] == "findings"
    rows = (_image_row(line, has_files=has_files, has_findings=has_findings) for line in overview.images)
    return page_section("images", "Images", lead, table_element("t-images", heads, rows, finds="Filter images"))


def _stored(line: ImageLine) -> Markup:
    """Return the stored bytes of an image, or that its bundle is compressed as one."""
    if line.stored is not None or line.bundle is None:
        return size_cell(line.stored)
    return element("td", f"in {format_size(line.bundle)}", class_="n soft", data_v=-1, title=_BUNDLE)


def _image_row(line: ImageLine, *, has_files: bool, has_findings: bool) -> Markup:
    number = 0
    for part in line.position.replace("/", ".").split("."):
        number = number * 100_000 + int(part or 0)
    offset = Markup('<td class="n soft" data-v="-1">–</td>')
    if line.offset is not None:
        offset = element("td", f"{line.offset:#x}", class_="n name", data_v=line.offset)
    cells = [
        element("td", line.position or "–", class_="name", data_v=number),
        element("td", arch_chip(line.label, line.family)),
        element("td", line.form),
        element("td", shorten_name(" ".join(filter(None, (line.container, line.place))), 120)),
        offset,
        _stored(line),
        size_cell(line.inflated),
        element("td", line.compression),
        count_cell(line.kernels),
        count_cell(line.registers),
    ]
    if has_findings:
        cells.append(element("td", " ".join(line.findings)))
    if has_files:
        cells.insert(
            0, element("td", name_element(base_name(line.path), 60), title=line.path if len(line.path) < 300 else None)
        )
    return element("tr", *cells)


#: LIMIT: files that could not be read and are named at the head of the page.
_MOST_UNREAD = 5


def page_title(paths: Sequence[str]) -> str:
    """Return what the page is of: the name of the path, or how many there are."""
    return base_name(paths[0]) if len(paths) == 1 else format_count(len(paths), "path")


def page_head(overview: ReportResult, paths: Sequence[str]) -> Markup:
    """Return the head of the page."""
    shown = [name_element(path) for path in paths[:6]]
    if len(paths) > 6:
        shown.append(element("span", f"and {len(paths) - 6:,} more"))
    lines = [
        element("p", "Device code report", class_="kicker"),
        element("h1", element("bdi", page_title(paths))),
        element("p", *_between(shown), class_="paths"),
        _unread_notice(overview),
        element("p", *page_summary(overview), class_="summary"),
        element("dl", *_figures(overview), class_="figures"),
    ]
    return element("header", *lines)


def _unread_notice(overview: ReportResult) -> Markup:
    """Return what was not read, before all else: the rest of the page is of what was."""
    unread = [file for file in overview.files if file.error is not None]
    if not unread and not overview.problems:
        return Markup("")
    lines = [element("li", file.error or "") for file in unread[:_MOST_UNREAD]]
    if len(unread) > len(lines):
        lines.append(element("li", f"and {len(unread) - len(lines):,} more: see the findings"))
    lines += [element("li", problem) for problem in overview.problems]
    words = (
        f"{format_count(len(unread), 'file')} could not be read, or not to the end." if unread else "Not all was done."
    )
    title = element("strong", words)
    return element("div", title, element("ul", *lines), class_="unread", role="alert")


def _between(items: Sequence[str]) -> list[str]:
    return [part for number, item in enumerate(items) for part in ([", ", item] if number else [item])]


def page_summary(overview: ReportResult) -> list[str]:
    """Return what matters as sentences: damage first, then holes, then what runs where."""
    said: list[str] = []
    errors = [item for item in overview.findings if item.severity == "error"]
    if errors:
        said.append(f"{format_count(sum(item.count for item in errors), 'place')} with damage: see the findings. ")
    holes = sum(item.with_holes for item in overview.coverage)
    if not overview.image_count:
        said.append("No device code was found.")
    elif holes:
        kernels = format_count(overview.kernel_names, "kernel")
        said.append(f"{holes:,} of {kernels} lack an architecture that others of their library have. ")
    links = sum(item.relocatable for item in overview.coverage)
    is_text = all(map(is_compiled_later, overview.links))
    if overview.kernel_names and not holes and is_text and all(item.is_whole for item in overview.coverage):
        said.append("Every kernel runs on every architecture that its library has machine code for. ")
    if links:
        said.append(
            f"{format_count(links, 'kernel')} for {', '.join(overview.links[:6])}: relocatable, so they count only "
            "through the device link, and no device gets them as they are. "
        )
    if len(overview.coverage) == 1:
        said.append(f"{format_runs_on(overview.coverage[0])}.")
    return said


def _figures(overview: ReportResult) -> list[Markup]:
    stored = overview.bytes.stored
    archs = len(overview.arch_names)
    figures = [
        (format_size(stored), "device code stored") if stored is not None else ("not known", "device code stored"),
        (format_size(overview.bytes.inflated), "inflated"),
        (f"{overview.image_count:,}", "images" if overview.image_count != 1 else "image"),
        (f"{archs:,}", "architectures" if archs != 1 else "architecture"),
        (f"{overview.kernel_names:,}", "kernels by name" if overview.kernel_names != 1 else "kernel by name"),
        (f"{sum(item.count for item in overview.findings):,}", "findings"),
    ]
    if overview.shared == stored and stored:
        figures[0] = format_size(stored), "device code stored, in bundles compressed as one"
    elif overview.shared:
        figures.insert(1, (format_size(overview.shared), "of it in bundles compressed as one"))
    return [element("div", element("dd", value), element("dt", words)) for value, words in figures]


def arch_bar(overview: ReportResult) -> Markup | None:
    """Return the bar of all architectures and its legend."""
    if not overview.archs:
        return None
    is_stored = bool(overview.bytes.stored) and all(arch.bytes.stored is not None for arch in overview.archs)
    whole = sum((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0 for arch in overview.archs) or 1
    bars, x, legend = [], 0.0, []
    for arch in overview.archs:
        size = (arch.bytes.stored if is_stored else arch.bytes.inflated) or 0
        width = 1000 * size / whole
        words = f"{arch.label}\n{format_count(arch.bytes.count, 'image')}\n{format_sizes(arch.bytes)}"
        rect = element("rect", x=x, y=0, width=max(0.0, width - 1), height=22, class_="own")
        bars.append(element("g", element("title", words), rect, class_=f"f-{arch.family}"))
        legend.append(
            element("li", arch_chip(arch.label, arch.family), " ", element("span", format_size(size), class_="soft"))
        )
        x += width
    bar = element(
        "svg",
        *bars,
        viewBox="0 0 1000 22",
        class_="pic bar",
        preserveAspectRatio="none",
        role="img",
        aria_label="Bytes by architecture",
    )
    kind = "stored" if is_stored else "inflated"
    legend.append(element("li", f"bytes {kind}", class_="soft"))
    return join_markup((element("div", bar, class_="barbox"), element("ul", *legend, class_="legend")))


# Kernels against architectures: which are there, which are served by another image, and where there is nothing.

#: LIMIT: libraries, and characters of kernel names, that a page shows: 1.2 MB of names open in no time.
_MOST_LIBRARIES, _MOST_CHARACTERS = 60, 1_200_000

#: Rows of so few kernels are written one by one.
_FEW = 3

#: Characters of a name of which many are listed.
_MAX_NAME_LENGTH = 300


class _ListedNames:
    """Names to list while there is room; rows with holes take it first."""

    def __init__(self, libraries: Sequence[KernelCoverage]) -> None:
        self._room = _MOST_CHARACTERS
        self.shown = 0
        # A pattern is known by its library and its cells: no two of a library have the same.
        self._of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        rows = [(item, row) for item in libraries for row in item.patterns]
        for item, row in sorted(rows, key=lambda pair: (not pair[1].holes, pair[1].count)):
            taken = []
            for whole in row.names:
                text = whole if len(whole) <= _MAX_NAME_LENGTH else f"{whole[:_MAX_NAME_LENGTH]}…"
                self._room -= len(text) + 1
                if self._room < 0:
                    break
                taken.append(text)
            self.shown += len(taken)
            self._of[item.path, row.cells] = taken

    def of(self, item: KernelCoverage, row: CoveragePattern) -> list[str]:
        return self._of[item.path, row.cells]


def coverage_section(overview: ReportResult) -> Markup | None:
    """Return the section; libraries with holes come first."""
    order = sorted(overview.coverage, key=lambda item: (-item.with_holes, -item.kernels, item.path))
    libraries = order[:_MOST_LIBRARIES]
    if not libraries:
        return None
    names = _ListedNames(libraries)
    legend = element("ul", *(_cell_legend(cell, words) for cell, words in CELL_MEANINGS.items()), class_="legend cells")
    filter_box = element(
        "p",
        element("input", type="search", data_names=True, placeholder="Find kernels", aria_label="Find kernels"),
        " ",
        element("output", data_of="names"),
        class_="filter",
        hidden=True,
    )
    lead = "Each row is the kernels of a library that exist for the same architectures. "
    if names.shown < overview.kernel_names:
        lead += (
            f"{names.shown:,} of {format_count(overview.kernel_names, 'kernel')} are listed by name, incomplete "
            "ones first; fatpack inspect --rows jsonl --rows-of kernels has all. "
        )
    drawn = [_library(item, names) for item in libraries]
    if len(order) > len(libraries):
        drawn.append(
            element("p", f"{format_count(len(order) - len(libraries), 'more library')} not shown.", class_="soft")
        )
    return page_section("coverage", "Coverage", lead, legend, filter_box, *drawn)


def _cell_legend(cell: str, words: str) -> Markup:
    return element("li", element("i", class_=f"cell {cell} f-other"), " ", words)


def _library(item: KernelCoverage, names: _ListedNames) -> Markup:
    heads = [element("th", "kernels", scope="col"), element("th", "", scope="col", class_="n")]
    for label, family in zip(item.columns, item.families, strict=True):
        heads.append(element("th", arch_chip(label, family), scope="col", class_="col"))
    rows = [line for row in coverage_rows(item) for line in _rows(row, item, names)]
    if item.not_listed:
        words = f"{format_count(item.not_listed, 'more kernel')} in further rows"
        rows.append(element("tr", element("td", words, colspan=2 + len(item.columns), class_="soft")))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="matrix")
    holes = f", {item.with_holes:,} with holes" if item.with_holes else ""
    words = element("span", f" {format_count(item.kernels, 'kernel')}{holes}", class_="soft")
    title = element(
        "h3", element("bdi", base_name(item.path)), words, title=item.path if len(item.path) < 300 else None
    )
    devices = element("p", format_runs_on(item), class_="runs")
    return element("div", title, devices, element("div", table, class_="scroll"), class_="library")


def _rows(row: CoveragePattern, item: KernelCoverage, names: _ListedNames) -> list[Markup]:
    cells = [
        element(
            "td",
            element(
                "i",
                class_=f"cell {cell} f-{family_with_colour(family)}",
                title=f"{label}: {CELL_MEANINGS.get(cell, 'text only')}",
            ),
            element("span", CELL_MEANINGS.get(cell, ""), class_="vh"),
        )
        for cell, family, label in zip(row.cells, item.families, item.columns, strict=True)
    ]
    class_ = "holes" if row.holes else None
    if row.count <= _FEW:
        return [
            element("tr", element("td", name_element(text), colspan=2), *cells, class_=class_) for text in row.names
        ]
    listed = names.of(item, row)
    more = f"\n… and {row.count - len(listed):,} more" if len(listed) < row.count else ""
    # One text, not an element for each name: a browser lays out 20,000 lines only when they are opened.
    lines = Markup("\n".join(map(escape_markup, listed))) if listed else Markup("")
    text = element("pre", join_markup((lines,)), data_count=row.count)
    summary = element("summary", coverage_row_name(row))
    inner = element("details", summary, text, element("p", more.strip(), class_="soft") if more else "")
    share = element("td", f"{100 * row.count / item.kernels:.1f} %", class_="n soft")
    return [element("tr", element("td", inner), share, *cells, class_=class_)]


# The page: its sections in their order, with style and script inside, and a policy that allows nothing else.


def render_page(overview: ReportResult, paths: Sequence[str], map: FileRegions | None, version: str) -> Iterator[str]:
    """Yield the page as text, in pieces. ``paths`` are what was named, ``map`` the bytes of one file."""
    sheet, script = f"{colour_style(FAMILIES)}{PICTURE_STYLE}{_asset('page.css')}", _asset("page.js")
    yield "<!DOCTYPE html>\n"
    yield f'<html lang="en">\n<head>\n{_meta(sheet, script, page_title(paths))}\n</head>\n<body>\n'
    worth = list(worth_tables(overview))
    made = [
        *(worth_section(table) for table in worth if table.name == "dead"),
        treemap_section(overview),
        *(worth_section(table) for table in worth if table.name != "dead"),
        coverage_section(overview),
        findings_section(overview),
        duplicates_section(overview),
        files_section(overview),
        byte_map_section(map),
        images_section(overview),
    ]
    sections = [section for section in made if section is not None]
    yield element(
        "main",
        page_head(overview, paths),
        arch_bar(overview) or "",
        _contents(sections),
        *sections,
        _foot(overview, version),
    )
    yield f"\n<script>{script}</script>\n</body>\n</html>\n"


def _asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _meta(sheet: str, script: str, title: str) -> Markup:
    """Return the head of the page. The policy allows this style and this script by their digests, and nothing else."""
    policy = f"default-src 'none'; style-src {_digest(sheet)}; script-src {_digest(script)}; "
    policy += "base-uri 'none'; form-action 'none'"
    lines = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content="fatpack"),
        element("title", f"{title} · device code"),
        Markup(f"<style>{sheet}</style>"),
    ]
    return Markup("\n".join(lines))


def _digest(text: str) -> str:
    """Return the digest of an inline style or script, as a policy has it (CSP Level 3, 2.3.1)."""
    from base64 import b64encode
    from hashlib import sha256

    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _contents(sections: Sequence[str]) -> Markup:
    """Return the links to the sections."""
    links = []
    for section in sections:
        name = section.partition('id="')[2].partition('"')[0]
        title = section.partition("<h2>")[2].partition("</h2>")[0]
        links.append(element("a", Markup(title), href=f"#{name}"))
    return element("nav", *links, aria_label="Sections")


def _foot(overview: ReportResult, version: str) -> Markup:
    notes = [element("li", note) for note in overview.notes]
    skipped = sum(file.not_searched for file in overview.files)
    if skipped:
        notes.append(element("li", f"{skipped:,} bytes of hosts were not searched; --deep searches them."))
    if overview.shared:
        words = "of bundles that are compressed as one: their images share them."
        notes.append(element("li", f"{format_size(overview.shared)} of the stored bytes are {words}"))
    notes.append(element("li", "kB, MB and GB are powers of 1000. Kernels of one name in a library count once."))
    made = element("p", f"Made by fatpack {version}. This page loads nothing and works without a network.")
    return element("footer", element("ul", *notes), made)
