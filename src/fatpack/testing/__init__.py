"""The laws of all formats and hosts, for authors of plug-ins: ``fatpack.testing`` with pytest.

::

    from fatpack.testing import FormatLaws

    class TestMyContainer(FormatLaws):
        name = "my-container"
        models = st.builds(…)
        fixtures = tuple(Path("tests/fixtures").glob("*.myc"))

The tests of fatpack's own modules call the same laws. They need pytest, hypothesis and construct:
the extra ``testing``.
"""

from __future__ import annotations

from fatpack.testing.cases import FormatLaws, HostLaws
from fatpack.testing.helpers import join_pieces, make_image, make_view

__all__ = ["FormatLaws", "HostLaws", "join_pieces", "make_image", "make_view"]
