"""An overview as Markdown, for a pull request: tables, and names from files so that nothing in them is obeyed."""

from __future__ import annotations

from fatpack.commands.report.model import is_compiled_later, kernel_namespace
from fatpack.commands.report.pictures import base_name, common_directory, format_count, format_runs_on
from fatpack.commands.report.worth import worth_tables
from fatpack.printable import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.report.model import FileOverview, KernelCoverage, ReportResult
    from fatpack.commands.report.worth import WorthTable

#: LIMIT: rows of each table: a comment on GitHub may have 65,536 characters.
_MOST_ROWS = 24

#: LIMIT: characters of the text; a remark says if more were left out. A comment may have 65,536.
_MOST_CHARACTERS = 60_000

#: LIMIT: libraries of which kernels with holes are listed, and rows of the table of duplicates.
_MOST_LIBRARIES, _MOST_DUPLICATES = 4, 8

#: Characters for the cells of the coverage table.
_CELLS = {"own": "●", "served": "○", "ptx": "◌", "link": "↻", "none": "✗", "blank": ""}

#: Characters that mean something in Markdown as GitHub reads it, also mentions and links; a backslash takes it away.
_SPECIAL = frozenset("\\`*_[]|~$!")

#: Characters of HTML, which Markdown may hold; and characters that begin a mention, an issue or a link.
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "@&#8203;", "#": "#&#8203;"}

#: Characters of a name that are shown, and of a list of architectures.
_LONGEST, _LISTED = 120, 600


def escape_markdown(text: str, most: int = _LONGEST) -> str:
    """Return a text from a file as Markdown that shows it: on one line, and without a meaning of its own.

    GitHub looks for mentions and numbers of issues when all is HTML already: what begins them is followed by a space
    without width.
    """
    shown = _shown(text, most)
    shown = shown.replace("://", ":\u200b//").replace("www.", "www\u200b.")
    return "".join(_ENTITIES.get(char, f"\\{char}" if char in _SPECIAL else char) for char in shown)


def markdown_code(text: str) -> str:
    """Return a name from a file as code, in which GitHub sees neither mentions nor links; also for tables.

    Between backticks it can be read as it is; where it has a backtick or a bar itself, all its signs are entities.
    """
    shown = _shown(text).strip()
    if not shown:
        return "–"
    if "`" not in shown and "|" not in shown and "\\" not in shown:
        return f"`{shown}`"
    signs = (char if char.isalnum() or not char.isascii() else f"&#{ord(char)};" for char in shown)
    return f"<code>{''.join(signs)}</code>"


def _shown(text: str, most: int = _LONGEST) -> str:
    return printable(text if len(text) <= most else f"{text[:most]}…")


def render_markdown(overview: ReportResult, paths: Sequence[str]) -> str:
    """Return the text: totals, what was not read, libraries, holes, findings; architectures and duplicates folded."""
    text, left = [], _MOST_CHARACTERS
    for part in _parts(overview, paths):
        left -= len(part)
        if left < 0:
            text.append("*More is in the page: `fatpack report PATH… -o report.html`.*\n")
            break
        text.append(part)
    return "\n".join(text)


def _parts(overview: ReportResult, paths: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs and tables, what matters first."""
    of = markdown_code(base_name(paths[0])) if len(paths) == 1 else format_count(len(paths), "path")
    yield f"### Device code of {of}\n"
    unread = [file for file in overview.files if file.error is not None]
    if unread:
        lines = [f"- not read: {escape_markdown(file.error or '', _LISTED)}\n" for file in unread[:_MOST_ROWS]]
        if len(unread) > len(lines):
            lines.append(f"- … {len(unread) - len(lines):,} more\n")
        yield f"**{format_count(len(unread), 'file')} could not be read, or not to the end.**\n\n{''.join(lines)}"
    if not overview.image_count:
        yield "No device code was found.\n"
        yield from _findings(overview)
        return
    yield _totals(overview)
    tables = {table.name: table for table in worth_tables(overview)}
    yield _worth(tables.pop("dead"))
    yield _libraries(overview)
    yield from _devices(overview)
    yield from _holes(overview)
    yield from _findings(overview)
    archs = [
        [markdown_code(arch.label), f"{arch.bytes.count:,}", _size(arch.bytes.stored), format_size(arch.bytes.inflated)]
        for arch in overview.archs
    ]
    yield _folded("Bytes by architecture", _table("architecture,>images,>stored,>inflated", archs, len(archs)))
    for table in tables.values():
        yield _folded(table.title, _worth(table))
    yield from _duplicates(overview)
    if overview.notes:
        yield "".join(f"- {note}\n" for note in overview.notes)


def _table(heads: str, rows: Sequence[Sequence[str]], most: int = _MOST_ROWS) -> str:
    words = heads.split(",")
    lines = [f"| {' | '.join(word.lstrip('>') for word in words)} |"]
    lines.append(f"|{'|'.join('---:' if word.startswith('>') else '---' for word in words)}|")
    lines += [f"| {' | '.join(row)} |" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"| … {len(rows) - most:,} more |{' |' * (len(words) - 1)}")
    return "".join(f"{line}\n" for line in lines)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _worth(table: WorthTable) -> str:
    lines = [f"**{table.title}.** {escape_markdown(table.lead, _LISTED)}\n"]
    lines += [f"- {escape_markdown(sentence, _LISTED)}\n" for sentence in table.advice]
    if table.rows:
        rows = [
            [markdown_code(cells[0]), *(escape_markdown(cell, _LISTED) for cell in cells[1:])] for cells in table.rows
        ]
        lines.append(f"\n{_table(','.join(table.heads), rows)}")
    if table.command:
        lines.append(f"\n`{table.command}` takes them out.\n")
    return "".join(lines)


def _size(size: int | None) -> str:
    return "–" if size is None else format_size(size)


def _findings(overview: ReportResult) -> Iterator[str]:
    rows = [
        [
            escape_markdown(item.code),
            item.severity,
            f"{item.count:,}",
            escape_markdown(item.meaning),
            escape_markdown(item.messages[0]),
        ]
        for item in overview.findings
    ]
    if rows:
        yield f"#### Findings\n\n{_table('code,severity,>times,meaning,the first', rows)}"


def _totals(overview: ReportResult) -> str:
    stored = "" if overview.bytes.stored is None else f"{format_size(overview.bytes.stored)} stored, "
    findings = sum(item.count for item in overview.findings)
    return (
        f"**{stored}{format_size(overview.bytes.inflated)} inflated** in "
        f"{format_count(overview.image_count, 'image')} "
        "for "
        f"{format_count(len(overview.arch_names), 'architecture')}; "
        f"{format_count(overview.kernel_names, 'kernel')} by name, "
        f"{format_count(findings, 'finding')}.\n"
    )


def _libraries(overview: ReportResult) -> str:
    """Return the table that a reviewer compares with the one before: a line for each library."""
    folder = common_directory(file.path for file in overview.files)
    kernels = {item.path: (item.kernels, item.with_holes) for item in overview.coverage}
    files = sorted(overview.files, key=lambda file: (-(file.bytes.stored or file.bytes.inflated), file.path))
    rows = [_library(file, folder, *kernels.get(file.path, (0, 0))) for file in files]
    return _table("library,>bytes,>device code,>inflated,>kernels,>with holes,architectures", rows)


def _library(file: FileOverview, folder: str, kernels: int, holes: int) -> list[str]:
    archs = ", ".join(arch.label for arch in file.archs if arch.family != "host")
    return [
        markdown_code(file.path.removeprefix(folder)),
        _size(file.size),
        _size(file.bytes.stored),
        format_size(file.bytes.inflated),
        f"{kernels:,}",
        f"**{holes:,}**" if holes else "–",
        escape_markdown(archs, _LISTED) or "–",
    ]


def _devices(overview: ReportResult) -> Iterator[str]:
    """Yield where libraries run: one line for all that run on the same devices."""
    alike: dict[str, list[str]] = {}
    for item in overview.coverage:
        alike.setdefault(format_runs_on(item), []).append(markdown_code(base_name(item.path)))
    lines = []
    for words, names in alike.items():
        of = f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}: "
        said = escape_markdown(words, _LISTED).replace("Runs on", "**Runs on**", 1)
        lines.append(f"- {of if len(overview.coverage) > 1 else ''}{said}\n")
    if lines:
        more = f"- … {len(lines) - _MOST_ROWS:,} more\n" if len(lines) > _MOST_ROWS else ""
        yield "".join(lines[:_MOST_ROWS]) + more


def _holes(overview: ReportResult) -> Iterator[str]:
    """Yield the kernels that lack an architecture, or the sentence that none does."""
    if not overview.coverage:
        return
    lacking = [item for item in overview.coverage if item.with_holes]
    is_text = all(map(is_compiled_later, overview.links))
    if not lacking and is_text and all(item.is_whole for item in overview.coverage):
        yield "Every kernel runs on every architecture that its library has machine code for.\n"
    if overview.links:
        links = sum(item.relocatable for item in overview.coverage)
        names = ", ".join(map(markdown_code, overview.links[:6]))
        yield (
            f"{format_count(links, 'kernel')} for {names} for the device link alone: no device gets them as they are.\n"
        )
    if not lacking:
        return
    parts = ["#### Kernels with holes\n"]
    for item in sorted(lacking, key=lambda item: -item.with_holes)[:_MOST_LIBRARIES]:
        parts.append(
            f"{markdown_code(base_name(item.path))}: {item.with_holes:,} of {format_count(item.kernels, 'kernel')}\n"
        )
        parts.append(_table(",".join(("kernels", *map(_column, item.columns))), _patterns(item)))
    if len(lacking) > _MOST_LIBRARIES:
        parts.append(f"… {format_count(len(lacking) - _MOST_LIBRARIES, 'more library')}\n")
    words = {"own": "an image for it", "served": "another image runs there", "ptx": "compiled there"}
    words |= {"link": "relocatable", "none": "nothing"}
    parts.append(", ".join(f"{_CELLS[cell]} {text}" for cell, text in words.items()) + "\n")
    yield "\n".join(parts)


def _column(label: str) -> str:
    return escape_markdown(label).replace(",", "&#44;")


def _patterns(item: KernelCoverage) -> list[list[str]]:
    rows = sorted(item.patterns, key=lambda row: (not row.holes, not row.links, row.count))
    return [
        [
            markdown_code(kernel_namespace(row.names[0])) if row.count == 1 else format_count(row.count, "kernel"),
            *(_CELLS.get(cell, "") for cell in row.cells),
        ]
        for row in rows
    ]


def _duplicates(overview: ReportResult) -> Iterator[str]:
    if not overview.duplicates:
        return
    rows = [
        [
            item.kind,
            markdown_code(item.name),
            escape_markdown(", ".join(item.labels)),
            f"{item.count:,}",
            f"{item.files:,}",
            format_size(item.cost),
        ]
        for item in overview.duplicates[:_MOST_DUPLICATES]
    ]
    has_images = any(item.kind == "image" for item in overview.duplicates)
    cost = f"images cost {format_size(overview.duplicate_cost)}" if has_images else "no image is there twice"
    if overview.duplicate_count > len(rows):
        rows.append([f"… {overview.duplicate_count - len(rows):,} more", "", "", "", "", ""])
    title = f"{format_count(overview.duplicate_count, 'duplicate')}; {cost}"
    yield _folded(title, _table("what,name,for,>copies,>files,>cost of the others", rows))
