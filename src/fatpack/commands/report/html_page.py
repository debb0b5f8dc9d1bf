"""The page: its sections in their order, with style and script inside, and a policy that allows nothing else."""

from __future__ import annotations

import os

from fatpack.commands.report.byte_map import byte_map_section
from fatpack.commands.report.bytes_by_kernel import treemap_section
from fatpack.commands.report.colours import FAMILIES, PICTURE_STYLE, colour_style
from fatpack.commands.report.duplicates import duplicates_section
from fatpack.commands.report.files import files_section
from fatpack.commands.report.findings import findings_section
from fatpack.commands.report.images import images_section
from fatpack.commands.report.page import arch_bar, page_head, page_title
from fatpack.commands.report.sections_coverage import coverage_section
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.report.byte_regions import FileRegions
    from fatpack.commands.report.model import ReportResult


def render_page(overview: ReportResult, paths: Sequence[str], map: FileRegions | None, version: str) -> Iterator[str]:
    """Yield the page as text, in pieces. ``paths`` are what was named, ``map`` the bytes of one file."""
    sheet, script = f"{colour_style(FAMILIES)}{PICTURE_STYLE}{_asset('page.css')}", _asset("page.js")
    yield "<!DOCTYPE html>\n"
    yield f'<html lang="en">\n<head>\n{_meta(sheet, script, page_title(paths))}\n</head>\n<body>\n'
    made = [
        treemap_section(overview),
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
    """Return what stands in the head. The policy names the digests of this style and this script, and nothing else."""
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
