"""Code sections: the numbers by which edits address them."""

from __future__ import annotations

import pytest

from fatpack import binary
from fatpack.errors import HostError
from fatpack.io.source import BytesSource


def test_a_place_without_a_number_cannot_be_edited_by_it() -> None:
    data = BytesSource(b"code", "host").view()
    assert binary.CodeSection(data, index=3).number == 3
    with pytest.raises(HostError, match="no number in a table of the host") as caught:
        _ = binary.CodeSection(data).number
    assert caught.value.chain == ("host",)
