"""JSON text made in pieces is what ``json`` makes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack.commands.inspect.record import make_file_record
from fatpack.io.open import open_source
from fatpack.io.source import VirtualName
from fatpack.text.json import PreparedJson, document_pieces, json_pieces, prepared_container

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draws load modules: on a busy machine that is slow
@given(VALUES, st.integers(0, 9))
def test_the_text_is_that_of_json(value: object, depth: int) -> None:
    assert "".join(json_pieces(value, depth=depth)) == json.dumps(value, indent=1)


def test_a_record_comes_in_pieces() -> None:
    with open_source(FIXTURES / "offload_binary" / "llvm-22-four.bin") as source:
        record = make_file_record(source.view())
    pieces = list(json_pieces({"schema": "", "files": [record]}))
    assert "".join(pieces) == json.dumps({"schema": "", "files": [record]}, indent=1)
    assert max(map(len, pieces)) < len("".join(pieces)) / 2


def test_a_string_of_another_type_is_a_string() -> None:
    assert "".join(json_pieces([VirtualName("inflated")])) == '[\n "inflated"\n]'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON for set"):
        list(json_pieces({"a": [{1}]}))


def test_a_document_is_written_item_by_item() -> None:
    items = [{"path": "a", "containers": [{"images": [1, 2]}]}, {"path": "b", "containers": []}]
    pieces, taken = [], []

    def made() -> Iterator[object]:
        for item in items:
            taken.append(len(pieces))
            yield item

    for piece in document_pieces({"schema": "s/1"}, "files", made()):
        pieces.append(piece)
    assert "".join(pieces) == json.dumps({"schema": "s/1", "files": items}, indent=1) + "\n"
    assert taken[1] > 3, "the first is written before the second is asked for"


def test_a_container_written_before_has_the_text_of_its_place() -> None:
    container = {"format": "f", "images": [{"index": 0}], "attrs": {}}
    plain, written = ([{"path": "p", "containers": [item]}] for item in (container, prepared_container(container)))
    assert isinstance(written[0]["containers"][0], PreparedJson)
    texts = ["".join(document_pieces({"schema": "s"}, "files", files)) for files in (plain, written)]
    assert texts[0] == texts[1]
