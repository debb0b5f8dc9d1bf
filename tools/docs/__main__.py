"""Generate parts of ``docs/`` from code and data: ``python -m tools.docs [--check]``.

Format pages, the command reference, finding codes and targets are written from layouts, descriptions, click and the
data files; tables and pictures of benchmarks from recorded figures. ``--check`` writes nothing and exits 1 if a page
differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs import pages

ROOT = Path(__file__).parents[2] / "docs"


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in pages.render_all().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'stale' if check else 'wrote'} {(ROOT / name).resolve().relative_to(ROOT.parent)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
