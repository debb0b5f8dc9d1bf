"""Whether images are what their containers say: the first bytes of each were compared with what is stored about it."""

from __future__ import annotations

from fatpack.commands.check.model import Violation
from fatpack.errors import pluralize
from fatpack.findings import message_from_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.commands.check.rule_context import FileImageSets
    from fatpack.tabular.columns import ImageRow

#: findings that say that a label is wrong; the last is only a note elsewhere, where nothing is asked of the image
MISMATCH_CODES = ("FP1101", "FP1102", "FP1103", "FP1105")

#: the finding of images that nobody can compare with their labels
_OBFUSCATED = "FP1408"

#: what is said of an image that is nothing, or cannot be read: one sentence for all of a file
_UNKNOWN = "the bytes are nothing that is known"

_HINT = "the file was put together wrongly, or is damaged: build it again, or get it again"


def mismatch_violations(found: Iterable[FileImageSets]) -> Iterator[Violation]:
    """Yield what images of units are in place of what their labels say, a violation for all that are so alike."""
    for item in found:
        by_path: dict[str, list[ImageRow]] = {}
        for row in (row for unit in item.units for row in unit.images if _is_wrong(row)):
            by_path.setdefault(row.path, []).append(row)
        for path, rows in by_path.items():
            yield from _file_mismatches(path, rows)


def unverified_images(found: Iterable[FileImageSets]) -> Iterator[Violation]:
    """Yield a note for files with images whose labels are taken as they are: nobody can read the bytes behind them."""
    for item in found:
        if item.units and _OBFUSCATED in item.last.findings:
            text = "labels of images that NVIDIA's tools obfuscated are believed: their bytes cannot be compared"
            yield Violation(_OBFUSCATED, "note", item.last.path, "label", text, "")


def _is_wrong(row: ImageRow) -> bool:
    return any(code in row.findings for code in MISMATCH_CODES) or bool(row.size and not row.form)


def _file_mismatches(path: str, rows: list[ImageRow]) -> Iterator[Violation]:
    """Yield what is wrong in one file."""
    alike: dict[str, list[ImageRow]] = {}
    for row in rows:
        text = _mismatch_words(row)
        alike.setdefault(_UNKNOWN if text.endswith(_UNKNOWN) else text, []).append(row)
    for group in alike.values():
        text = _mismatch_words(group[0])
        place = f"image {group[0].position}" if group[0].position else "an image"
        more = f", and {pluralize(len(group) - 1, 'more image')} like it" if len(group) > 1 else ""
        yield Violation("FP3314", "error", path, "label", f"{place} is {text}{more}", _HINT)


def _mismatch_words(row: ImageRow) -> str:
    """Return what contradicts the label of an image: what the finding says, or without one what the row does."""
    for text in row.messages:
        if text.startswith(MISMATCH_CODES):
            return message_from_text(text)
    known = " or ".join(filter(None, (row.arch, row.stored_form, row.triple))) or "a device"
    if row.claimed:
        return f"stored for {known}, but the image is for {row.claimed}"
    if row.form and row.form != row.stored_form:
        return f"stored for {known}, but the bytes are {row.form}"
    return f"stored for {known}, but {_UNKNOWN}"
