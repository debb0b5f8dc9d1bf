"""Record ``inspect --json`` of every fixture beside it: ``python -m tools.golden [--check]``; review the diff.

The recorded file is named after the fixture, ``x.o`` → ``x.o.inspect.json``; paths in it are relative to the fixtures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fatpack.io.sources.opening import open_source
from fatpack.report.inspection import SCHEMA, inspection

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"

#: Folders whose files are recorded; sources and hostile inputs are not.
FOLDERS = ("offload_binary", "clang_bundle", "cir", "elf", "archive", "coff", "pe", "bitcode", "cuda_fatbin", "demo")
SOURCES = {".json", ".c", ".h", ".s", ".S", ".cu", ".hip", ".sh", ".md", ".toml", ".txt"}


def recorded() -> list[Path]:
    """Return the fixtures that have a golden description."""
    files = (path for folder in FOLDERS for path in sorted((FIXTURES / folder).rglob("*")))
    return [path for path in files if path.is_file() and path.suffix not in SOURCES]


def golden(path: Path) -> str:
    """Return what the golden file of a fixture must hold."""
    name = path.relative_to(FIXTURES).as_posix()
    with open_source(path, name=name) as source:
        record: dict[str, Any] = inspection(source.view())
    return json.dumps({"schema": SCHEMA, "files": [record]}, indent=1) + "\n"


def main() -> int:
    check, stale = "--check" in sys.argv[1:], []
    for path in recorded():
        target, text = path.with_name(path.name + ".inspect.json"), golden(path)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        stale.append(target)
        if not check:
            target.write_text(text, encoding="utf-8")
        print(f"{'stale' if check else 'wrote'} {target.relative_to(FIXTURES)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
