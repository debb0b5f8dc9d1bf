"""The files that describe a wheel, as a proof reads them: whole, by lines that end in a line feed and nowhere else.

How we know: binary distribution format (packaging.python.org, 2025): METADATA and WHEEL have headers as in mail, up to
the first empty line; RECORD is CSV with path, ``algorithm=digest`` and size.
"""

from __future__ import annotations

import csv
import io

from fatpack.errors import LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from collections.abc import Sequence

    from fatpack.proof.ledger import DifferenceLog

#: LIMIT: bytes of a file that describes the wheel, each read whole
_TEXT = 64 << 20


def read_description(archive: zipfile.ZipFile, info: zipfile.ZipInfo, chain: Sequence[str]) -> str:
    """Return all of a file that describes the wheel. Raises LimitExceeded for one that is far too large."""
    if info.file_size > _TEXT:
        raise LimitExceeded(
            "a file that describes the wheel is far too large to be one",
            format="wheel",
            field=info.filename,
            expected=f"at most {_TEXT} bytes",
            found=str(info.file_size),
            hint="no tool writes such a file; get the wheel again",
            chain=chain,
        )
    with archive.open(info) as file:
        return file.read().decode("utf-8", "surrogateescape")


def metadata_version(metadata: str) -> str:
    """Return the version that METADATA says, "" if it says none."""
    lines = _lines(metadata)
    number = _header(lines, "version")
    return "" if number is None else lines[number].partition(":")[2].strip()


def compare_metadata(what: str, before: str, after: str, ledger: DifferenceLog) -> None:
    """Note a difference unless all of METADATA is as it was, but for the value of its first version."""
    old, new = _lines(before), _lines(after)
    for lines in (old, new):
        number = _header(lines, "version")
        if number is not None:
            lines[number] = _without_value(lines[number])
    _compare(what, old, new, ledger)


def compare_wheel(what: str, before: str, after: str, ledger: DifferenceLog) -> None:
    """Note a difference unless all of WHEEL is as it was, but for the value of one build tag, or one that is new."""
    old, new = _lines(before), _lines(after)
    was, now = _header(old, "build"), _header(new, "build")
    if now is not None and was is not None:
        old[was], new[now] = _without_value(old[was]), _without_value(new[now])
    elif now is not None:
        is_ended = new.pop(now).endswith("\n")
        if not is_ended and now:  # it is the last line, and what ended the line before was not there
            new[-1] = new[-1].removesuffix("\n").removesuffix("\r")
    _compare(what, old, new, ledger)


def record_rows(record: str, ledger: DifferenceLog) -> list[list[str]]:
    """Return the lines of RECORD as path, digest and size; what is no such line, or a second for a path, differs."""
    try:
        rows = [row for row in csv.reader(io.StringIO(record, newline=""), strict=True) if row]
    except csv.Error as error:
        ledger.differ("RECORD: lines", expected="path, digest and size", found=error)
        return []
    found: dict[str, list[str]] = {}
    for row in rows:
        if len(row) != 3:
            ledger.differ("RECORD: a line", expected="path, digest and size", found=",".join(row))
        elif row[0] in found:
            ledger.differ(f"RECORD: {row[0]}: lines", expected="one", found="several")
        else:
            found[row[0]] = row
    return list(found.values())


def _lines(whole: str) -> list[str]:
    """Return lines with their ends. ``str.splitlines`` would end them at form feeds and the like, too."""
    return list(io.StringIO(whole, newline="\n"))


def _header(lines: Sequence[str], name: str) -> int | None:
    """Return the number of the first header of a name, None if there is none."""
    for number, line in enumerate(lines):
        if not line.strip("\r\n"):
            return None  # what follows is the description
        if line.partition(":")[0].lower() == name and ":" in line:
            return number
    return None


def _without_value(line: str) -> str:
    return line.partition(":")[0] + ":" + line[len(line.rstrip("\r\n")) :]


def _compare(what: str, old: Sequence[str], new: Sequence[str], ledger: DifferenceLog) -> None:
    if old == new:
        return
    for number in range(max(len(old), len(new))):
        was, now = (lines[number] if number < len(lines) else "" for lines in (old, new))
        if was != now:
            ledger.differ(f"{what}: lines that must not change", expected=ascii(was[:200]), found=ascii(now[:200]))
            return
