"""Record ``inspect --json`` of every fixture beside it: ``python -m tools.golden [--check]``; review the diff.

The recorded file is named after the fixture, ``x.o`` → ``x.o.inspect.json``; paths in it are relative to the fixtures.
Every format and host has a folder of fixtures in ``tests/laws/rooms.py``: a new one is recorded without a change here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.laws.rooms import FIXTURES, FORMATS, HOSTS

from fatpack.commands.inspect.record import make_file_record
from fatpack.errors import option_names_in_messages
from fatpack.io.open import open_source
from fatpack.text.schemas import INSPECT as SCHEMA

#: Folders of recorded files, and patterns of other files: sources and expectations beside them.
FOLDERS = [*(cases.fixtures for cases in FORMATS.values()), *HOSTS.values(), FIXTURES / "demo"]
SOURCES = {".json", ".c", ".h", ".s", ".S", ".cu", ".hip", ".sh", ".md", ".toml", ".txt"}


def recorded() -> list[Path]:
    """Return the fixtures that have a golden description."""
    files = (path for folder in FOLDERS for path in sorted(folder.rglob("*")))
    return [path for path in files if path.is_file() and path.suffix not in SOURCES]


def golden(path: Path) -> str:
    """Return the content of the golden file of a fixture."""
    name = path.relative_to(FIXTURES).as_posix()
    with option_names_in_messages(), open_source(path, name=name) as source:
        record = make_file_record(source.view())
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
