"""Generated pages: pictures of layouts, and the parts that people wrote, which are kept."""

from __future__ import annotations

from tools.docs.diagrams import boxes
from tools.docs.markdown import kept

from fatpack.layout import Field, Layout


def _layout(*fields: tuple[str, str]) -> Layout:
    return Layout("test", "record", [Field(name, kind, "") for name, kind in fields])


def test_a_picture_has_a_row_for_eight_bytes_and_a_box_for_a_field() -> None:
    assert boxes(_layout(("magic", "u32"), ("kind", "u16"), ("flags", "u16"), ("size", "u32"))) == [
        "          0       1       2       3       4       5       6       7",
        "      +-------------------------------+---------------+---------------+",
        "0x0000|             magic             |     kind      |     flags     |",
        "      +-------------------------------+---------------+---------------+",
        "0x0008|             size              |",
        "      +-------------------------------+",
    ]


def test_a_field_of_several_rows_is_open_between_them() -> None:
    assert boxes(_layout(("first", "u32"), ("name", "bytes[8]"), ("long", "bytes[52]")))[1:] == [
        "      +-------------------------------+-------------------------------+",
        "0x0000|             first             |             name              |",
        "      +-------------------------------+-------------------------------+",
        "0x0008|                               |             long              |",
        "      +-------------------------------+                               +",
        "      |                              ...                              |",
        "      +                                                               +",
        "0x0038|                                                               |",
        "      +---------------------------------------------------------------+",
    ]


def test_a_name_that_is_too_long_for_its_box_is_cut() -> None:
    assert (
        boxes(
            _layout(
                ("checksum", "u8"),
            )
        )[2]
        == "0x0000|checks…|"
    )


def test_what_people_wrote_stays_with_its_marks() -> None:
    part = "<!-- by hand: `make docs` keeps this part -->\nwords\n<!-- end of what is by hand -->\n"
    assert kept(f"before\n{part}after\n") == part
    assert kept(part.partition("words")[0]) == kept("nothing") == ""
