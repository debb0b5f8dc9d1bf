"""The JSON files of a conda package: what is changed in them, in the form that they have."""

from __future__ import annotations

import json

from fatpack.errors import BadValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: LIMIT: bytes of a document, which is read whole. The paths of 100,000 files take 30 MB.
MAX_DOCUMENT_SIZE = 256 << 20

#: forms in which packers write JSON: conda-build, rattler-build, Python's default, as short as can be
_FORMS: tuple[dict[str, Any], ...] = (
    {"indent": 2},
    {"indent": 4},
    {"indent": 2, "separators": (",", ": ")},
    {},
    {"separators": (",", ":")},
)


class JsonDocument:
    """A JSON object of a package, ``title`` is its path. Raises BadValue for what is none."""

    def __init__(self, data: bytes, title: str, chain: Sequence[str]) -> None:
        self._data = data
        self._title = title
        self._chain = chain
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.wrong("content", "JSON", str(error)) from error
        if not isinstance(found, dict):
            raise self.wrong("content", "a JSON object", type(found).__name__)
        self.values: dict[str, Any] = found
        self._form = next((form for form in self._forms() if self._written(form) == data), self._forms()[0])

    def wrong(self, field: str, expected: str, found: str) -> BadValue:
        """Return the error about a field."""
        return BadValue(
            "the package describes itself wrongly",
            format="conda",
            field=f"{self._title}: {field}",
            expected=expected,
            found=found,
            hint="get the package again, or build it again",
            chain=self._chain,
        )

    def written(self) -> bytes:
        """Return the document with its values as they are now, in the form that it had if that is a known one."""
        return self._written(self._form)

    def _forms(self) -> list[dict[str, Any]]:
        return [{**form, "ensure_ascii": ascii} for form in _FORMS for ascii in (True, False)]

    def _written(self, form: Mapping[str, Any]) -> bytes:
        end = self._data[len(self._data.rstrip()) :]
        return json.dumps(self.values, **form).encode("utf-8", "surrogatepass") + end


def parse_paths_json(document: JsonDocument) -> dict[str, dict[str, Any]]:
    """Return the entries of ``paths.json`` by path. Raises BadValue."""
    paths = document.values.get("paths")
    if not isinstance(paths, list) or not all(isinstance(entry, dict) and "_path" in entry for entry in paths):
        raise document.wrong("paths", "a list of objects with _path", type(paths).__name__)
    return {str(entry["_path"]): entry for entry in paths}
