"""The configuration of Sphinx: the Markdown of the repository unchanged, and an order of pages only for the site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.site import contents

import fatpack

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "fatpack"
author = "The fatpack developers"
release = version = fatpack.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = contents.START
include_patterns = [f"{name}.md" for name in contents.TOP] + ["docs/**"]
#: Sphinx follows links in every folder that is not excluded.
exclude_patterns = [".*", "build", "dist", "site-out", "docs/benchmarks/*.json"]
#: Headings have the same anchors as on the forge, so that one link works in both places.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "fatpack"
html_static_path = ["static"]
html_css_files = ["site.css"]
#: No server is needed: pages and search work from a folder.
html_show_search_summary = False  # fetches pages, which browsers do not allow in a folder
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
pygments_style, pygments_dark_style = "friendly", "github-dark"
highlight_language = "none"

nitpicky = True
#: Options keep their two dashes, and quotes are as typed.
smartquotes = False


def _with_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the order of all pages to the text of the first; readers of plain files need no list."""
    if name == contents.START:
        source[0] += contents.trees(Path(app.srcdir))


def setup(app: Sphinx) -> None:
    """Register the order of pages with Sphinx."""
    app.connect("source-read", _with_contents)
