"""Whether what a plug-in returned is what its door promises: records whose fields have values of their types.

Each function returns what is wrong, in words that name the field, and "" where nothing is. Fields that a record makes
when they are asked for are asked for here, so that what fails in them fails while the plug-in is guarded.
"""

from __future__ import annotations

from fatpack.findings import CODES
from fatpack.io.source import Span, View
from fatpack.model import Container, Finding, Image, Label, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Sizes and versions are below this: JSON readers of other languages have 64 bits.
_LARGEST = 1 << 63

#: What attributes are: a dictionary, or one that is read only. (``Mapping``, without the import of ``collections``.)
_MAPPINGS = (dict, type(type.__dict__))

#: How deep what ``describe`` returns may be nested.
_DEPTH = 16

_SEVERITIES = ("error", "warning", "note")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _LARGEST


def _is_span(value: object) -> bool:
    return isinstance(value, Span) and _is_number(value.start) and _is_number(value.end) and value.start <= value.end


def _are_texts(value: object) -> bool:
    return isinstance(value, _MAPPINGS) and all(isinstance(word, str) for pair in value.items() for word in pair)


def _are(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


#: field → whether a value may stand in it
_TARGET = dict.fromkeys(("triple", "arch", "offload", "spelling"), _is_text)
_FINDING = {
    "code": lambda value: value in CODES,
    "severity": lambda value: value in _SEVERITIES,
    "span": _is_span,
    **dict.fromkeys(("message", "hint", "field", "section"), _is_text),
    "count": _is_number,
}
_IMAGE = {
    "target": lambda value: isinstance(value, Target) and not _wrong(value, _TARGET),
    "form": _is_text,
    "size": _is_number,
    "stored_size": _or_none(_is_number),
    "compression": _or_none(_is_text),
    "span": _is_span,
    "data": lambda value: isinstance(value, View),
    "attrs": _are_texts,
}
_CONTAINER = {
    "version": _is_number,
    "span": _is_span,
    "images": _are(lambda value: isinstance(value, Image)),
    "attrs": _are_texts,
    "unknown": _are(_is_span),
    "findings": _are(lambda value: isinstance(value, Finding) and not _wrong(value, _FINDING)),
}
_LABEL = {"span": _is_span, **dict.fromkeys(("name", "value", "doc", "kind"), _is_text)}
_SITE = {
    "data": lambda value: isinstance(value, View),
    "section": _or_none(_is_text),
    "index": _or_none(_is_number),
    "member": _or_none(_is_text),
    "expects": _is_text,
    "findings": _CONTAINER["findings"],
}


def container_problem(value: object, format: str, view: View, start: int) -> str:
    """Return what is wrong with a container of a format that begins at ``start`` and lies in the view."""
    if not isinstance(value, Container):
        return "no Container"
    if field := _wrong(value, _CONTAINER):
        return f"its {field}"
    problems = {
        f"its format is not {format}": value.format != format,
        "its span": not start <= value.span.start < value.span.end <= view.end,
        "it has more images than bytes": len(value.images) > len(view),
    }
    if any(problems.values()):
        return next(problem for problem, is_there in problems.items() if is_there)
    faults = (_wrong_image(image, start, view.end) for image in value.images)
    return next((f"{fault} of image {number}" for number, fault in enumerate(faults) if fault), "")


def _wrong_image(image: Image, start: int, end: int) -> str:
    return _wrong(image, _IMAGE) or ("" if start <= image.span.start <= image.span.end <= end else "span")


def label_problem(value: object) -> str:
    """Return what is wrong with a label."""
    if not isinstance(value, Label):
        return "no Label"
    return _wrong(value, _LABEL)


def section_problem(value: object) -> str:
    """Return what is wrong with a place in a host: a ``fatpack.binary.CodeSection``, by its fields."""
    return _wrong(value, _SITE)


def description_problem(value: object, depth: int = _DEPTH) -> str:
    """Return what is wrong with what ``describe`` returns: plain data that JSON has."""
    if not isinstance(value, dict):
        return "no dictionary"
    return "" if _is_plain(value, depth) else "no plain data"


def _is_plain(value: object, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return value is None or isinstance(value, (str, int, float))


def _wrong(record: object, fields: Mapping[str, Callable[..., bool]]) -> str:
    """Return the first field of a record whose value is none for it, "" if all are."""
    return next((name for name, check in fields.items() if not check(getattr(record, name, record))), "")
