"""JSON of one meaning: documents that readers understand differently are refused."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: characters of a key in a message
_SHOWN = 100


class InvalidJson(ValueError):
    """The document is no JSON, or has a key twice in one object; the message says where."""


def parse_strict_json(data: bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a document in UTF-8 without a byte order mark.

    ``parse_float`` makes the value of a number with a fraction or an exponent. Raises InvalidJson for anything else,
    and for a key twice in one object: some readers take the first value, others the last.
    """
    import json

    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=parse_float
        )
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson("it is no JSON: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"it is no JSON: see line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise InvalidJson(f"it is no JSON: byte {error.start:#x} is no UTF-8") from None
    except ValueError:
        raise InvalidJson("it is no JSON: a number in it is too long") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            shown = key if len(key) <= _SHOWN else f"{key[:_SHOWN]}…"
            raise InvalidJson(f"it is no JSON of one meaning: the key {shown!r} is there twice")
        found[key] = value
    return found


def _refuse_constant(text: str) -> object:
    raise InvalidJson(f"it is no JSON: {text} is no number")
