"""What ``fatpack inspect FILE...`` does, without click: the command people type most answers fastest."""

from __future__ import annotations

import gc
import sys

from fatpack.errors import FatpackError
from fatpack.io.source import open_source
from fatpack.report.inspect_text import render
from fatpack.report.inspection import SCHEMA, failure, inspection
from fatpack.report.problems import FINDINGS, FINE, MALFORMED, exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


def show(files: Sequence[str], *, as_json: bool = False, verbose: int = 0) -> int:
    """Print what is in the files and return the exit code: 1 for warnings, 3 for damage, 5 for unreadable files."""
    code = FINE
    records = []
    for path in files:
        record, problem = _inspect(path)
        code = max(code, problem)
        if as_json:
            records.append(record)
        elif record.get("error"):
            sys.stdout.flush()
            sys.stderr.write(f"fatpack: error: {record['error']['message']}\n")
        else:
            write_lines(render(record, verbose=verbose))
    if as_json:
        import json

        write_lines([json.dumps({"schema": SCHEMA, "files": records}, indent=1)])
    return code


def _inspect(path: str) -> tuple[dict[str, Any], int]:
    """Return the record of one file and the exit code it stands for."""
    try:
        with open_source(path) as source:
            # Records form no cycles: the collector would walk thousands of them again and again, and free nothing.
            gc.disable()
            try:
                record = inspection(source.view())
            finally:
                gc.enable()
    except (FatpackError, OSError) as error:
        return failure(path, error), exit_code(error)
    severities = {item["severity"] for item in record["findings"]}
    return record, MALFORMED if "error" in severities else FINDINGS if "warning" in severities else FINE


def write_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout; characters its encoding lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        try:
            sys.stdout.write(f"{line}\n")
        except UnicodeEncodeError:
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
