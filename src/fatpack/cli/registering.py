"""What ``fatpack inspect --runtime`` does: what programs register and launch, with all that leads there."""

from __future__ import annotations

import sys

from fatpack.cli.show import opened
from fatpack.errors import FatpackError
from fatpack.report.problems import FINE, code_of, exit_code, message, worst
from fatpack.report.registration.records import SCHEMA, registration
from fatpack.report.registration.texts import render
from fatpack.report.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def show_registration(files: Sequence[str], *, as_json: bool) -> int:
    """Print what the files register and launch, and return the exit code as ``inspect`` does."""
    code = FINE
    records: list[dict[str, Any]] = []
    for path in files:
        try:
            source, view = opened(path)
            with source:
                record = registration(view)
        except BrokenPipeError:
            raise
        except (FatpackError, OSError) as error:
            sys.stdout.flush()
            sys.stderr.write(f"fatpack: error: {message(error)}\n")
            code = worst((code, exit_code(error)))
            continue
        code = worst((code, code_of((item["severity"], item["code"]) for item in record["findings"])))
        if as_json:
            records.append(record)
        else:
            write_lines(render(record), sys.stdout)
    if as_json:
        from fatpack.report.json_text import json_pieces

        sys.stdout.writelines(json_pieces({"schema": SCHEMA, "files": records}))
        sys.stdout.write("\n")
    return code
