"""Build the site of the documents: ``python -m tools.site [FOLDER]``, by default into ``site-out/``.

A warning ends the build: a broken link, a page in no part of the site. The pages need no server.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.site import contents

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Build the site and return the exit code of Sphinx."""
    from sphinx.cmd.build import main as build

    out = Path(arguments[0] if arguments else "site-out")
    here = Path(__file__).parent
    if code := build(
        ["-q", "-W", "--keep-going", "-c", str(here), "-b", "html", "-d", f"{out}/.doctrees", str(ROOT), str(out)]
    ):
        return code
    (out / "index.html").write_text(
        f'<meta http-equiv="refresh" content="0; url={contents.START}.html">\n', encoding="utf-8"
    )
    print(f"{out / 'index.html'}: open it in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
