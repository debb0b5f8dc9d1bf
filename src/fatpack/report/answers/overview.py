"""An overview as Markdown, for a pull request: tables, and names from files so that nothing in them is obeyed."""

from __future__ import annotations

from fatpack.answers.overview.names import stem
from fatpack.printable import printable
from fatpack.report.pictures.words import base, many
from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.answers.overview.records import Coverage, Overview

#: LIMIT: rows of each table: a comment on GitHub may have 65,536 characters.
_MOST_ROWS = 24

#: What cells of the coverage are, as characters.
_CELLS = {"own": "●", "served": "○", "ptx": "◌", "link": "↻", "none": "✗", "blank": ""}

#: Characters that mean something in Markdown as GitHub reads it, also mentions and links; a backslash takes it away.
_SPECIAL = frozenset("\\`*_[]|~#$@:!")

#: Characters of HTML, which Markdown may hold.
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}

#: Characters of a name that are shown.
_LONGEST = 120


def escaped(text: str) -> str:
    """Return a text from a file as Markdown that shows it: on one line, and without a meaning of its own."""
    shown = printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
    return "".join(f"\\{char}" if char in _SPECIAL else _ENTITIES.get(char, char) for char in shown)


def markdown(overview: Overview, paths: Sequence[str]) -> str:
    """Return the text: totals, architectures, holes, findings and duplicates, each as far as there is room."""
    return "".join(f"{line}\n" for line in _lines(overview, paths))


def _table(heads: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    words = heads.split(",")
    yield f"| {' | '.join(word.lstrip('>') for word in words)} |"
    yield f"|{'|'.join('---:' if word.startswith('>') else '---' for word in words)}|"
    for row in rows[:_MOST_ROWS]:
        yield f"| {' | '.join(row)} |"
    if len(rows) > _MOST_ROWS:
        yield f"| … {len(rows) - _MOST_ROWS:,} more |{' |' * (len(words) - 1)}"
    yield ""


def _lines(overview: Overview, paths: Sequence[str]) -> Iterator[str]:
    of = escaped(base(paths[0])) if len(paths) == 1 else many(len(paths), "path")
    yield f"### Device code of {of}"
    yield ""
    stored = "" if overview.bytes.stored is None else f"{size_words(overview.bytes.stored)} stored, "
    yield (
        f"{many(overview.image_count, 'image')} for {many(len(overview.archs), 'architecture')}: "
        f"**{stored}{size_words(overview.bytes.inflated)} inflated**, {many(overview.kernel_names, 'kernel')} by name."
    )
    yield ""
    for file in [file for file in overview.files if file.error is not None][:_MOST_ROWS]:
        yield f"- not read: {escaped(file.error or '')}"
    if any(file.error is not None for file in overview.files):
        yield ""
    if overview.archs:
        yield from _table(
            "architecture,>images,>stored,>inflated",
            [
                [
                    escaped(arch.label),
                    f"{arch.bytes.count:,}",
                    "–" if arch.bytes.stored is None else size_words(arch.bytes.stored),
                    size_words(arch.bytes.inflated),
                ]
                for arch in overview.archs
            ],
        )
    if len(overview.files) > 1:
        files = sorted(overview.files, key=lambda file: -(file.bytes.stored or file.bytes.inflated))
        rows = [
            [
                escaped(base(file.path)),
                "–" if file.size is None else size_words(file.size),
                "–" if file.bytes.stored is None else size_words(file.bytes.stored),
                f"{file.kernels:,}",
                escaped(", ".join(arch.label for arch in file.archs)),
            ]
            for file in files
        ]
        yield from _table("file,>bytes,>of it device code,>kernels,architectures", rows)
    yield from _holes(overview)
    if overview.findings:
        yield "#### Findings"
        yield ""
        rows = [
            [escaped(item.code), item.severity, f"{item.count:,}", escaped(item.meaning)] for item in overview.findings
        ]
        yield from _table("code,severity,>times,meaning", rows)
    if overview.duplicates:
        yield f"#### Duplicates: {size_words(overview.duplicate_cost)} of images"
        yield ""
        copies = [
            [
                item.kind,
                escaped(item.name),
                escaped(item.label),
                f"{item.count:,}",
                f"{item.files:,}",
                size_words(item.cost),
            ]
            for item in overview.duplicates
        ]
        yield from _table("what,name,for,>copies,>files,>cost of the others", copies[:8])
    for note in overview.notes:
        yield f"- {note}"


def _holes(overview: Overview) -> Iterator[str]:
    lacking = [item for item in overview.coverage if item.with_holes or item.relocatable]
    if not lacking:
        if overview.coverage:
            yield "Every kernel runs on every architecture that its library is for."
            yield ""
        return
    links = sum(item.relocatable for item in lacking)
    if links:
        yield f"{many(links, 'kernel')} for the device link alone: relocatable code is not what a device gets."
        yield ""
    yield "#### Kernels with holes" if any(item.with_holes for item in lacking) else "#### Coverage"
    yield ""
    for item in sorted(lacking, key=lambda item: (-item.with_holes, -item.relocatable))[:4]:
        lacks = f"{item.with_holes:,} of " if item.with_holes else ""
        yield f"{escaped(base(item.path))}: {lacks}{many(item.kernels, 'kernel')}"
        yield ""
        yield from _table(",".join(("kernels", *map(_column, item.columns))), _patterns(item))
    words = {"own": "an image for it", "served": "another image runs there", "ptx": "compiled there"}
    words |= {"link": "relocatable", "none": "nothing"}
    yield ", ".join(f"{_CELLS[cell]} {text}" for cell, text in words.items())
    yield ""


def _column(label: str) -> str:
    return escaped(label).replace(",", "&#44;")


def _patterns(item: Coverage) -> list[list[str]]:
    rows = sorted(item.patterns, key=lambda row: (not row.holes, not row.links, row.count))
    return [
        [
            escaped(stem(row.names[0])) if row.count == 1 else many(row.count, "kernel"),
            *(_CELLS.get(cell, "") for cell in row.cells),
        ]
        for row in rows
    ]
