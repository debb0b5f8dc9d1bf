"""JSON text made in pieces is what ``json`` makes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack.io.source import Derived
from fatpack.io.sources.opening import open_source
from fatpack.report.inspection import inspection
from fatpack.report.json_text import json_pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.integers(0, 9))
def test_the_text_is_that_of_json(value: object, depth: int) -> None:
    assert "".join(json_pieces(value, depth=depth)) == json.dumps(value, indent=1)


def test_a_record_comes_in_pieces() -> None:
    with open_source(FIXTURES / "offload_binary" / "llvm-22-four.bin") as source:
        record = inspection(source.view())
    pieces = list(json_pieces({"schema": "", "files": [record]}))
    assert "".join(pieces) == json.dumps({"schema": "", "files": [record]}, indent=1)
    assert max(map(len, pieces)) < len("".join(pieces)) / 2


def test_a_string_of_another_type_is_a_string() -> None:
    assert "".join(json_pieces([Derived("inflated")])) == '[\n "inflated"\n]'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON for set"):
        list(json_pieces({"a": [{1}]}))
