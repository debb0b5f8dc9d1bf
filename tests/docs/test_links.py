"""Links out of the documents: CI has no network, so each is well-formed and stands in a list that people go through."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]

#: Every address that a page sends readers to. Whoever adds one has opened it; before a release all of them are opened.
LINKS = {
    "https://filesystem-spec.readthedocs.io/en/latest/features.html#configuration",
    "https://gabi.xinuos.com",
    "https://pypi.org/project/atheris/",
    "https://semver.org",
}

#: Hosts of examples: RFC 2606 keeps the first, OWNER stands for whoever publishes a copy, … is any. A server that a
#: page starts is on the reader's own machine.
_EXAMPLES = re.compile(r"https?://(example\.com|127\.0\.0\.1:|github\.com/OWNER/|…)")


def _addresses(text: str) -> set[str]:
    """Return the addresses in a text, without the punctuation behind them."""
    return {address.rstrip(".,;:") for address in re.findall(r"\bhttps?://[^\s)>\"'`|\]]+", text)}


def test_links_out_of_the_pages_are_the_listed_ones() -> None:
    found = {address for page in PAGES for address in _addresses(page.read_text(encoding="utf-8"))}
    assert {address for address in found if not _EXAMPLES.match(address)} == LINKS


def test_listed_links_are_well_formed() -> None:
    for link in LINKS:
        parts = urlsplit(link)
        assert parts.scheme == "https"
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc)
        assert parts.geturl() == link


def test_addresses_end_before_punctuation() -> None:
    assert _addresses("see <https://a.org/b>, (https://c.org/d). https://e.org,") == {
        "https://a.org/b",
        "https://c.org/d",
        "https://e.org",
    }
