"""The errors that formats share, and their refusals of containers that were not read."""

from __future__ import annotations

import pytest

from fatpack import formats
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated, Unsupported, UsageError
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.io.source import Span
from fatpack.model import Container, Image
from fatpack.testing.helpers import make_image, make_view

ERRORS = ErrorFactory("some-format")


def test_every_error_says_format_place_and_file() -> None:
    view = make_view(b"0123456789").slice(4, 6)
    errors = [
        ERRORS.value(view, 1, "field", "is wrong", "right", "mend it"),
        ERRORS.limit(view, 1, "field", "is wrong", "right", "mend it"),
        ERRORS.cut(view, 1, "field", 9),
        ERRORS.magic(view, 1, "is wrong", "right"),
    ]
    assert [type(error) for error in errors] == [BadValue, LimitExceeded, Truncated, BadMagic]
    for error in errors:
        assert (error.format, error.offset, error.chain) == ("some-format", 5, view.chain)
    assert str(errors[0]) == "test: some-format at 0x5: field: is wrong (expected right); mend it"
    assert (errors[2].needed, errors[2].left) == (9, 5)  # type: ignore[attr-defined]
    assert errors[3].found == "35 36 37 38"
    unknown = ERRORS.unsupported(view, 1, "version 9", "known is 1")
    assert isinstance(unknown, Unsupported)
    assert str(unknown) == "test: some-format at 0x5: version 9; known is 1"


@pytest.mark.parametrize("images", [(), (make_image(b"x"),)], ids=["empty", "one image"])
@pytest.mark.parametrize("name", formats.MODULES)
def test_a_container_built_by_hand_has_no_labels_and_no_description(name: str, images: tuple[Image, ...]) -> None:
    door = formats.get_format(name)
    container = Container(name, 1, images, Span(0, 0))
    with pytest.raises(UsageError, match="was not read from bytes"):
        list(door.labels(make_view(b""), container))
    with pytest.raises(UsageError, match="was not read from bytes"):
        door.describe(container)
