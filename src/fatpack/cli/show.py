"""What ``fatpack inspect FILE...`` does, without click: the command people type most answers fastest."""

from __future__ import annotations

import gc
import sys

from fatpack.errors import FatpackError
from fatpack.io.sources.opening import located, open_source
from fatpack.report.inspect_text import render
from fatpack.report.inspection import SCHEMA, InspectOptions, failure, inspection, listing
from fatpack.report.problems import FINDINGS, FINE, code_of, exit_code, worst
from fatpack.report.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.io.source import Source, View

#: What a listing reads if no option asks for more.
TABLES = InspectOptions(inflate=False)


def show(
    files: Sequence[str],
    options: InspectOptions = TABLES,
    *,
    as_json: bool = False,
    verbose: int = 0,
    one_program: bool = False,
) -> int:
    """Print what is in the files and return the exit code: 1 for warnings, 3 for damage, 4 for what this
    version cannot read, 5 for unreadable files.

    What is read follows from ``options`` alone, and so does the exit code; by default the images of large compressed
    containers are taken from their tables. ``one_program`` compares the files too.
    """
    code = FINE
    is_brief = not (as_json or verbose or one_program or options.kernels)
    keep = None
    if options.kernels:
        from fatpack.report.json_text import container_written
        from fatpack.report.kernel_text import with_tables

        # The facts about a hundred thousand kernels take far more memory than the text that is made of them.
        keep = with_tables if not as_json else None if one_program else container_written

    def records() -> Iterator[dict[str, Any]]:
        """Yield the record of each file, which is read when it is asked for."""
        nonlocal code
        for path in files:
            record, problem = _inspect(path, options, is_brief=is_brief, keep=keep)
            code = worst((code, problem))
            yield record

    found: Iterable[dict[str, Any]] = records()
    if one_program:
        from fatpack.report.several.program import add_differences

        found = all_of_them = list(found)
        code = worst((code, FINDINGS if add_differences(all_of_them) else FINE))
    if as_json:
        from fatpack.report.json_text import document_pieces

        sys.stdout.writelines(document_pieces({"schema": SCHEMA}, "files", found, written=_flush))
    else:
        for record in found:
            _write(record, verbose)
    return code


def _flush() -> None:
    """Give out what was written so far: readers need not wait for the next file."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # it is still there, and said when the command ends


def _write_json(value: object) -> None:
    from fatpack.report.json_text import json_pieces

    sys.stdout.writelines(json_pieces(value))
    sys.stdout.write("\n")


def _write(record: dict[str, Any], verbose: int) -> None:
    if record.get("error"):
        sys.stdout.flush()
        sys.stderr.write(f"fatpack: error: {record['error']['message']}\n")
        return
    gc.disable()  # as for making it
    try:
        write_lines(render(record, verbose=verbose), sys.stdout)
    finally:
        gc.enable()


def show_sums(files: Sequence[str], by: Sequence[str], *, as_json: bool = False, deep: bool = False) -> int:
    """Print what the device code of the files adds up to, and return the exit code as :func:`show` does.

    The findings behind the exit code go to stderr, and what was not searched: sums that lack a part do not look like
    it. Containers state how large their images are and for what: only the sums by kernel take inflating.
    """
    from fatpack.report.finding_text import finding_lines
    from fatpack.report.inspect_text import not_searched
    from fatpack.report.several.sums import sums, table
    from fatpack.report.text import printable

    needs_kernels = "kernel" in by
    options = InspectOptions(deep=deep, code_sizes=needs_kernels, tables_only=not needs_kernels)
    code, records = FINE, []
    for path in files:
        record, problem = _inspect(path, options)
        code = worst((code, problem))
        if record.get("error"):
            sys.stderr.write(f"fatpack: error: {record['error']['message']}\n")
            continue
        records.append(record)
        serious = [item for item in record["findings"] if item["severity"] != "note"]
        unlisted = [item for item in record.get("unlisted_findings", ()) if item["severity"] != "note"]
        lines = list(finding_lines(serious, unlisted=unlisted))
        if record.get("found_outside"):
            lines += not_searched(record)
        sys.stderr.writelines(f"{printable(path)}: {line}\n" for line in lines)
    result = sums(records, by)
    if as_json:
        _write_json(result)
    else:
        write_lines(table(result), sys.stdout)
    return code


def _inspect(
    path: str,
    options: InspectOptions,
    *,
    is_brief: bool = False,
    keep: Callable[[dict[str, Any]], Any] | None = None,
) -> tuple[dict[str, Any], int]:
    """Return the record of one file and the exit code it stands for.

    ``is_brief``: what its short text shows; ``keep`` makes of the record of a container what is kept of it.
    """
    try:
        path = located(path)
        source, view = opened(path)
        with source:
            # Records form no cycles: the collector would walk thousands of them again and again, and free nothing.
            gc.disable()
            try:
                record = listing(view, options) if is_brief else inspection(view, options, keep=keep)
            finally:
                gc.enable()
    except (FatpackError, OSError) as error:
        return failure(path, error), exit_code(error)
    found = (*record["findings"], *record.get("unlisted_findings", ()))
    return record, code_of((item["severity"], item["code"]) for item in found)


def opened(path: str) -> tuple[Source, View]:
    """Open what an argument names, and return it with its bytes.

    That is a file, a URL, a member of an archive (libx.a(m.o)), or an address as reports print it
    (F#offset=0x10&size=0x20).
    """
    path = located(path)
    given = getattr(path, "given", path)
    if not given.endswith(")") and "offset=" not in given:
        source = open_source(path)
        return source, source.view()
    from fatpack.ops.choose.address import open_place

    source, place = open_place(path, ranges=True)
    return source, place.view
