"""Text of ``doctor``: the verdict, counts of verified items, findings, known bugs, unverified items."""

from __future__ import annotations

from fatpack.commands.doctor.model import CHECKS, SCHEMA, UNJUDGED, UNLINKED, VERIFIED
from fatpack.printable import format_size, printable
from fatpack.text.findings import finding_lines, finding_record
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.doctor.model import DoctorResult
    from fatpack.model import Finding

__all__ = ["SCHEMA", "check_list_lines", "render_diagnosis"]

_NOTHING = "nothing verified: no file was read"

#: files with findings whose findings are shown without ``-v``
_FILES = 20

#: linked files and objects from this part of their limit on are listed
_NEAR = 0.25


def render_diagnosis(found: DoctorResult, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a diagnosis; ``verbose`` shows all findings, and rows of which nothing was met."""
    yield _verdict(found)
    yield from _verified(found, verbose)
    yield from _findings(found, verbose)
    yield from _known(found)
    yield from _reaches(found, verbose)
    yield from _not_verified(found)


def check_list_lines() -> Iterator[str]:
    """Yield the lines of ``--list``: every row of the table, its reference, and its findings."""
    for check in CHECKS:
        codes = ", ".join(code if len(code) > 4 else f"{code}xx" for code in check.codes)
        yield f"{check.what}: {check.says}"
        yield f"  {check.how}"
        yield f"  findings: {codes}"


def _verdict(found: DoctorResult) -> str:
    """Return the first line: a verdict about what was judged, and what was not."""
    words = _judged(found)
    if found.verdict == "not judged" or not found.unjudged:
        return words
    rows = [each for each in found.not_verified if each.what == UNJUDGED]
    if len(rows) > 1:
        return f"{words}; not judged: {UNJUDGED} of {_many(sum(each.files for each in rows), 'file')}"
    return printable(f"{words}; not judged: {found.unjudged_words}")


def _judged(found: DoctorResult) -> str:
    files, states = found.files, [each.state for each in found.affected]
    of = f"{found.images:,} of " if found.images != found.images_found else ""
    images = f"{of}{_many(found.images_found, 'image')}"
    read = f"{images}, {format_size(found.inflated)} inflated and parsed"
    if found.verdict == "healthy":
        return f"healthy: {_many(files, 'file')}, {read}"
    if found.verdict == "not judged":
        rows = [each for each in found.not_verified if each.what == UNJUDGED]
        where = "" if files == 1 or not rows else f", in {rows[0].path}"
        return printable(f"not judged: {found.unjudged_words}{where}: {_many(files, 'file')}, {read}")
    if found.verdict == "empty":
        if any(each.what == UNLINKED for each in found.not_verified):
            return f"no device code for any target yet: {_many(files, 'file')} read"
        others = f", {images} for the host or for no known device" if found.images_found else ""
        return f"no device code found: {_many(files, 'file')} read{others}" if files else _NOTHING
    if files == 1 and len(states) == 1:
        return f"{found.verdict}: 1 file, {read}"
    parts = [
        f"{count:,} {'has' if count == 1 else 'have'} {words}" if word != "unread" else f"{count:,} cannot be read"
        for word, words in (("damaged", "damage"), ("suspect", "warnings"), ("unread", ""))
        if (count := states.count(word))
    ]
    packages = found.packages
    total = f"{files + packages:,} files and packages" if packages else _many(files, "file")
    of = f"of {total} " if files + packages > 1 else ""
    first, *rest = parts or ["something is wrong with it"]
    number, _, words = first.partition(" ")
    return f"{found.verdict}: {number} {of}{words}{''.join(f', {part}' for part in rest)}; {read}"


def _verified(found: DoctorResult, verbose: int) -> Iterator[str]:
    met = [row for row in found.verified if row.checked or row.wrong]
    rows = [["verified", "checked", "wrong", ""]]
    rows += ([row.what, f"{row.checked:,}", f"{row.wrong:,}" if row.wrong else "-", VERIFIED[row.what]] for row in met)
    if met:
        yield from align_columns(rows, right=(1, 2), indent="  ")
    others = [row.what for row in found.verified if row not in met]
    if others and verbose:
        yield f"  found none of these: {', '.join(others)}"


def _findings(found: DoctorResult, verbose: int) -> Iterator[str]:
    groups: dict[str, list[Finding]] = {}
    for item in found.findings:
        if verbose or item.severity != "note":
            groups.setdefault(str(item.span.source[0]) if item.span.source else "", []).append(item)
    unread = [each for each in found.affected if each.error]
    notes = sum(item.count for item in found.findings if item.severity == "note")
    if groups or unread:
        yield "findings"
    for each in unread:
        yield printable(f"  cannot be read: {each.error}")
    shown = list(groups) if verbose or len(groups) <= _FILES + 1 else list(groups)[:_FILES]
    for path in shown:
        yield printable(f"  {path}" if path else "  (no file)")
        yield from finding_lines(list(map(finding_record, groups[path])), "    ", path=path, verbose=verbose)
    if len(shown) < len(groups):
        yield f"  and {_many(len(groups) - len(shown), 'file')} more; -v shows them"
    for code, count in found.more:
        yield f"  {code}: {count:,} more"
    if notes and not verbose:
        yield f"  {_many(notes, 'note')}, which {'is' if notes == 1 else 'are'} no damage; -v shows them"


def _known(found: DoctorResult) -> Iterator[str]:
    if found.known_bugs:
        yield "known bugs that may be the cause" if _is_wrong(found) else "known bugs"
    for bug in found.known_bugs:
        where = ", ".join(bug.paths[:2]) + (f" and {bug.count - 2:,} more" if bug.count > 2 else "")
        kind = "" if bug.side == "producer" else "; the file is right, the reader is not"
        yield printable(f"  {bug.name}: {bug.producer} ({bug.versions}){kind}")
        yield printable(f"    {bug.what}")
        yield printable(f"    seen by {', '.join(bug.evidence)} in {where}")
        yield printable(f"    {bug.advice}")
        yield printable(f"    sources: {', '.join(bug.sources)}")


def _is_wrong(found: DoctorResult) -> bool:
    return any(bug.side == "producer" for bug in found.known_bugs) and found.verdict != "healthy"


def _reaches(found: DoctorResult, verbose: int) -> Iterator[str]:
    rows = []
    for each in found.reaches:
        part = each.span / each.limit
        if part < _NEAR and not verbose:
            continue
        kind = "farthest reference" if each.is_linked else "loaded sections"
        words = f"{part:.0%} of what 32-bit relocations reach ({format_size(each.limit)})"
        largest = ", ".join(f"{arch} {format_size(size)}" for arch, size in list(each.archs)[:3])
        rows.append(
            [
                printable(each.path),
                f"{kind} {format_size(each.span)}",
                f"device code {format_size(each.device)}",
                words + (f"; most: {largest}" if largest else ""),
            ]
        )
    if rows:
        yield "distances"
        yield from align_columns(rows, indent="  ")


def _not_verified(found: DoctorResult) -> Iterator[str]:
    if not found.not_verified:
        return
    yield "not verified"
    rows = []
    for each in found.not_verified:
        is_told = each.files < 2 or (each.files == each.count and each.what.startswith("files"))
        files = "" if is_told else f" in {_many(each.files, 'file')}"
        count = format_size(each.count) if each.what.startswith("bytes") else f"{each.count:,}"
        what = each.what.removeprefix("bytes ")
        if each.count == 1 and what.startswith(("images ", "files ")):
            what = what.replace("s ", " ", 1)
        rows.append([count, printable(f"{what}{files}: {each.why}")])
    yield from align_columns(rows, right=(0,), indent="  ")
    if found.verdict == "not judged":
        yield "what to do: fatpack check --verify --registered --strict FILE fails where something was not judged"


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
