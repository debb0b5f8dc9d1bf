"""Text bundles, changed by editors, checkouts and compilers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack.errors import BadMagic, BadValue
from fatpack.formats import clang_bundle
from fatpack.io.source import Span
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces, make_image, make_view

TEXT = FIXTURES / "clang_bundle" / "text"
DEVICE, HOST = "hip-amdgcn-amd-amdhsa--gfx906", "host-x86_64-unknown-linux-gnu-"
NUMBERS = "".join(f"{number}\n" for number in range(1, 61)).encode()
LINE = b"no newline at the end"


def marker(word: str, name: str, comment: str = "//") -> bytes:
    return f"\n{comment} __CLANG_OFFLOAD_BUNDLE____{word}__ {name}\n".encode()


def entry(name: str, text: bytes, end: str | None = None) -> bytes:
    return marker("START", name) + text + marker("END", name if end is None else end)


def texts(data: bytes) -> dict[str, bytes]:
    return {item.attrs["id"]: item.data.tobytes() for item in clang_bundle.parse(make_view(data)).images}


def codes(data: bytes) -> list[str]:
    return [finding.code for finding in clang_bundle.parse(make_view(data)).findings]


def check(data: bytes) -> None:
    """Check that every byte is labelled once, and that an unchanged bundle is written as it was."""
    view = make_view(data)
    container = clang_bundle.parse(view)
    reached = 0
    for label in clang_bundle.labels(view, container):
        assert label.span.start == reached < label.span.end
        reached = label.span.end
    assert reached == len(data) == container.span.size
    assert join_pieces(clang_bundle.write(container)) == data


@pytest.mark.parametrize(("type", "comment"), [("i", "//"), ("s", "#"), ("ll", ";")])
def test_the_bundles_of_llvm_hold_what_was_put_in(type: str, comment: str) -> None:
    data = (TEXT / f"llvm-22.{type}").read_bytes()
    assert clang_bundle.detect(make_view(data))
    assert clang_bundle.extent(make_view(data)) == len(data)
    container = clang_bundle.parse(make_view(data), strict=True)
    assert container.attrs == {"flavour": "text", "comment": comment}
    assert (container.findings, container.unknown) == ((), ())
    assert texts(data) == {DEVICE: NUMBERS, HOST: LINE}
    assert join_pieces(clang_bundle.write(container.replace(record=None))) == data
    check(data)


@given(st.lists(st.binary(max_size=40).filter(lambda text: b"_END" not in text), max_size=4))
def test_any_text_comes_back(parts: list[bytes]) -> None:
    data = b"".join(entry(f"hip-{number}", text) for number, text in enumerate(parts))
    if parts:
        assert list(texts(data).values()) == parts
        check(data)


def test_without_a_newline_before_it_the_first_marker_counts_too() -> None:
    data = entry(DEVICE, b"x")[1:] + entry(HOST, b"y")
    assert clang_bundle.detect(make_view(data))
    assert texts(data) == {DEVICE: b"x", HOST: b"y"}
    check(data)


def test_a_licence_before_and_a_comment_after_the_module_are_kept() -> None:
    data = b"// licence\n" * 50 + entry(DEVICE, b"x") + b"// between" + entry(HOST, b"y") + b"// done\n"
    assert clang_bundle.detect(make_view(data))
    assert texts(data) == {DEVICE: b"x", HOST: b"y"}
    assert codes(data) == ["FP1308"] * 3
    check(data)


def test_a_marker_far_into_a_file_is_not_looked_for() -> None:
    data = b"x" * 4096 + entry(DEVICE, b"x")
    assert not clang_bundle.detect(make_view(data))
    with pytest.raises(BadMagic):
        clang_bundle.parse(make_view(data))


def test_markers_of_another_comment_token_are_text() -> None:
    data = entry(DEVICE, marker("START", HOST, "#") + marker("END", HOST, ";"))
    assert list(texts(data)) == [DEVICE]
    assert codes(data) == []


@pytest.mark.parametrize("end", [b"", b"\n", b"\n// __CLANG_OFFLOAD_BUNDLE____END", b"\n//"])
def test_a_missing_end_gives_the_text_up_to_the_end_of_the_file(end: bytes) -> None:
    data = entry(HOST, b"host") + marker("START", DEVICE) + b"device" + end
    assert texts(data) == {HOST: b"host", DEVICE: b"device" + end}
    assert codes(data) == ["FP1311"]
    with pytest.raises(BadValue, match="no END line before the end of the file"):
        clang_bundle.parse(make_view(data), strict=True)
    check(data)


def test_a_missing_end_does_not_cost_the_entries_behind() -> None:
    data = marker("START", HOST) + b"host" + entry(DEVICE, b"device")
    assert texts(data) == {HOST: b"host", DEVICE: b"device"}
    assert codes(data) == ["FP1311"]
    check(data)


def test_an_end_that_names_another_entry_still_ends_this_one() -> None:
    data = entry(DEVICE, b"device", "typo") + entry(HOST, b"host")
    assert texts(data) == {DEVICE: b"device", HOST: b"host"}
    assert codes(data) == ["FP1312"]
    check(data)


def test_a_bundle_in_a_bundle_comes_out_whole() -> None:
    inner = entry("hip-inner", b"x") + entry("host-inner", b"y")
    data = entry(DEVICE, inner) + entry(HOST, b"host")
    assert texts(data) == {DEVICE: inner, HOST: b"host"}
    assert codes(data) == ["FP1312"]
    check(data)


def test_windows_line_ends_are_seen_through_and_reported() -> None:
    data = (entry(DEVICE, b"one\ntwo") + entry(HOST, b"")).replace(b"\n", b"\r\n")
    assert texts(data) == {DEVICE: b"one\r\ntwo", HOST: b""}
    assert codes(data) == ["FP1313"]
    check(data)


def test_entries_of_one_id_are_kept_in_order_and_reported() -> None:
    data = entry(DEVICE, b"first", "x") + entry("hip-b", b"b") + entry(DEVICE, b"second", "x")
    container = clang_bundle.parse(make_view(data))
    assert [item.data.tobytes() for item in container.images] == [b"first", b"b", b"second"]
    assert codes(data) == ["FP1312", "FP1312", "FP1307"]


def test_an_orphaned_end_belongs_to_nothing() -> None:
    data = marker("END", DEVICE) + entry(HOST, b"host")
    assert texts(data) == {HOST: b"host"}
    assert codes(data) == ["FP1308"]
    check(data)


def test_marker_lines_in_a_row_may_share_their_newline() -> None:
    data = entry(DEVICE, b"x") + entry(HOST, b"y")[1:]
    assert texts(data) == {DEVICE: b"x", HOST: b"y"}
    check(data)


def test_very_many_markers_take_linear_time() -> None:
    data = marker("START", DEVICE) * 4000 + marker("END", HOST) * 4000
    assert len(clang_bundle.parse(make_view(data)).images) == 4000
    # A thousand of every code are listed, and one more represents the others.
    assert max(Counter(codes(data)).values()) == 1001


def test_more_entries_than_any_bundle_has_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.BUNDLE_ENTRIES", 3)
    data = b"".join(entry(f"hip-{number}", b"x") for number in range(5))
    assert list(texts(data)) == ["hip-0", "hip-1", "hip-2"]
    assert codes(data) == ["FP1005"]
    check(data)


@pytest.mark.parametrize("type", ["i", "s", "ll"])
def test_every_truncation_and_every_flipped_byte_gives_a_result_or_no_bundle(type: str) -> None:
    data = (TEXT / f"llvm-22.{type}").read_bytes()
    damaged = [data[:size] for size in range(len(data))]
    damaged += [data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(len(data))]
    for variant in damaged:
        if clang_bundle.detect(make_view(variant)):
            check(variant)


@pytest.mark.parametrize("spelling", ["a\nb", "a\r"])
def test_ids_with_line_ends_are_refused(spelling: str) -> None:
    from fatpack.errors import UsageError

    stored = make_image(b"", attrs={"id": spelling})
    model = Container("", 0, (stored,), Span(0, 0), attrs={"flavour": "text", "comment": "#"})
    with pytest.raises(UsageError, match="line end"):
        join_pieces(clang_bundle.write(model))
