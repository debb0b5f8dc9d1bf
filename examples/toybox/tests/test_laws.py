"""Toybox and toychest hold the laws of fatpack's own rooms."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from fatpack.io.source import Span
from fatpack.model import Container, Target
from fatpack.testing import FormatLaws, HostLaws, make_image

FIXTURES = Path(__file__).parent / "fixtures"

IMAGES = st.builds(
    lambda arch, data: make_image(data, target=Target(arch=arch), form=""),
    st.text("abcdefgxs_0123456789", max_size=12),
    st.binary(max_size=100),
)


class TestToybox(FormatLaws):
    name = "toybox"
    models = st.lists(IMAGES, max_size=4).map(lambda images: Container("toybox", 1, tuple(images), Span(0, 0)))
    fixtures = (FIXTURES / "two.toybox",)


class TestToychest(HostLaws):
    name = "toychest"
    fixtures = (FIXTURES / "one.toychest",)
