"""Make the picture of a report that the documents show: ``python -m tools.screenshot FILE``.

FILE is the library or wheel of the picture; the one in ``docs/images`` shows PyTorch's ``libtorch_cuda.so``. It needs
Chromium and playwright (``pip install 'fatpack[dev]'``). The time that the browser takes to open the page is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import fatpack

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"

_TIMES = "(() => { const t = performance.timing; return t.loadEventEnd - t.navigationStart; })()"


def main() -> None:
    """Write the page, open it, and keep the part that a reader sees first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("-o", "--output", default=str(PICTURE))
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        fatpack.write_report([given.file], page)
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        scheme = "dark" if given.dark else "light"
        tab = browser.new_page(viewport={"width": 1180, "height": 1240}, color_scheme=scheme)
        tab.goto(page.as_uri())
        print(f"{page.stat().st_size} bytes, open after {tab.evaluate(_TIMES)} ms")
        # The path on this machine is private.
        tab.evaluate("document.querySelector('.paths').remove()")
        Path(given.output).parent.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=given.output)
        browser.close()


if __name__ == "__main__":
    main()
