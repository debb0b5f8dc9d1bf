"""JSON text of records: the same as ``json.dumps(value, indent=1)``, in half the time and in pieces.

``json`` has its fast encoder only without an indent, and joins all that it makes: the record of a library has millions
of values.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


class PreparedJson(Record):
    """The JSON text of a value, with the line breaks of its place; of a container, also the number of its images."""

    text: str
    images: int = 0


def json_pieces(value: object, *, depth: int = 5, indent: str = "\n") -> Iterator[str]:
    """Yield the text of dicts, lists, strings, numbers, booleans and None, in pieces.

    ``depth`` levels are taken apart: by default, down to each container of each file of an inspection. Raises TypeError
    for anything else.
    """
    inner = f"{indent} "
    if not depth or not value or not isinstance(value, (dict, list, tuple)):
        yield json_text(value, indent)
        return
    before = inner
    if isinstance(value, dict):
        yield "{"
        for key, item in value.items():
            yield f"{before}{quoted(key)}: "
            yield from json_pieces(item, depth=depth - 1, indent=inner)
            before = f",{inner}"
        yield f"{indent}}}"
        return
    yield "["
    for item in value:
        yield before
        yield from json_pieces(item, depth=depth - 1, indent=inner)
        before = f",{inner}"
    yield f"{indent}]"


def document_pieces(
    head: dict[str, str],
    key: str,
    items: Iterable[object],
    *,
    written: Callable[[], object] = bool,
    tail: Callable[[], dict[str, object]] = dict,
) -> Iterator[str]:
    """Yield the text of a document: its head, and under a key items that are made while it is written.

    ``written`` is called after each, before the next is computed. ``tail`` gives the text after all of them.
    """
    yield "{" + "".join(f"\n {quoted(name)}: {json_text(value)}," for name, value in head.items())
    before, end = f"\n {quoted(key)}: [", "[]"
    for item in items:
        yield f"{before}\n  "
        yield from json_pieces(item, depth=3, indent="\n  ")
        before, end = ",", "\n ]"
        written()
    yield end if end != "[]" else f"\n {quoted(key)}: []"
    yield "".join(f",\n {quoted(name)}: {json_text(value, chr(10) + ' ')}" for name, value in tail().items())
    yield "\n}\n"


def prepared_container(record: Mapping[str, Any]) -> PreparedJson:
    """Return the record of a container as its text in such a document: in the list of a file."""
    return PreparedJson(json_text(record, "\n    "), len(record["images"]))


def json_text(value: object, indent: str = "\n") -> str:
    """Return the text of a value; ``indent`` is the line break and the blanks in front of it."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    inner = f"{indent} "
    between = f",{inner}"
    if isinstance(value, dict):
        rows = between.join([f"{quoted(key)}: {json_text(item, inner)}" for key, item in value.items()])
        return f"{{{inner}{rows}{indent}}}" if value else "{}"
    if isinstance(value, (list, tuple)):
        rows = between.join([json_text(item, inner) for item in value])
        return f"[{inner}{rows}{indent}]" if value else "[]"
    if isinstance(value, PreparedJson):
        return value.text
    raise TypeError(f"no JSON for {type(value).__name__}")
