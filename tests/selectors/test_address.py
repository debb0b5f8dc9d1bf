"""Addresses: their syntax, and their targets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.archive import GNU, THIN, header, member

from fatpack.errors import HostError, UsageError
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource, View
from fatpack.selectors.address import Address, Location, find_location, parse_address
from fatpack.testing.helpers import join_pieces


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("libx.a", "odd(1).a", "odd(1)", "x#offset=1", "real(x.o)"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("libx.a", Address("libx.a")),
        ("libx.a(x.o)", Address("libx.a", "x.o")),
        ("libx.a(in.a)(x.o)", Address("libx.a", "in.a)(x.o")),
        ("odd(1).a(x.o)", Address("odd(1).a", "x.o")),
        ("odd(1)(x.o)", Address("odd(1)", "x.o")),
        ("odd(1)", Address("odd(1)")),
        ("real(x.o)", Address("real(x.o)")),
        ("missing.a(x.o)", Address("missing.a(x.o)")),
        ("-(x.o)", Address("-", "x.o")),
        ("libx.a(#3)", Address("libx.a", "#3")),
        ("libx.a#offset=1", Address("libx.a#offset=1")),
    ],
)
def test_a_member_follows_what_exists(folder: Path, text: str, expected: Address) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("libx.a#offset=0x10&size=010", Address("libx.a", "", 16, 8)),
        ("libx.a?offset=16", Address("libx.a", "", 16, None)),
        ("libx.a(x.o)#offset=16&size=0", Address("libx.a", "x.o", 16, 0)),
        ("libx.a(#3)#offset=1", Address("libx.a", "#3", 1)),
        ("file://libx%2Ea(x.o)#offset=1", Address("libx.a", "x.o", 1)),
        ("a#b#offset=1", Address("a#b", "", 1)),
        ("x#offset=1", Address("x#offset=1")),
        ("libx.a(x.o)", Address("libx.a", "x.o")),
    ],
)
def test_an_offset_counts_from_the_start_of_the_file(folder: Path, text: str, expected: Address) -> None:
    assert parse_address(text, ranges=True) == expected


@pytest.mark.parametrize("text", ["libx.a()", "libx.a()#offset=1"])
def test_a_member_without_a_name_is_not_the_whole_file(folder: Path, text: str) -> None:
    with pytest.raises(UsageError, match="the member has no name"):
        parse_address(text, ranges=True)


@pytest.mark.parametrize("query", ["offset=", "offset=-1", "offset=1&size=x", "offset=1&offset=2", "offset=1&to=2"])
def test_an_offset_that_is_none_is_refused(folder: Path, query: str) -> None:
    with pytest.raises(UsageError, match="address"):
        parse_address(f"libx.a#{query}", ranges=True)


def found(data: bytes, members: str) -> Location:
    view = BytesSource(data, "libx.a").view()
    return find_location(view, Address("libx.a", members))


INNER = GNU + member(b"x.o/", b"in") + member(b"y.o/", b"iy")
NAMES = (b"x.o", b"two.o", b"two.o", b"two.o:1", b"#0", b"in.a", b"a(1).o", b"in.a)(x.o", b"in.a(z.o)")
OUTER = GNU + b"".join(
    member(name + b"/", INNER if name == b"in.a" else b"%02d" % number) for number, name in enumerate(NAMES)
)


@pytest.mark.parametrize(
    ("members", "content", "name", "numbers"),
    [
        ("x.o", b"00", "x.o", (0,)),
        ("two.o:2", b"02", "two.o", (2,)),
        ("two.o:1", b"03", "two.o:1", (3,)),
        ("#0", b"04", "#0", (4,)),
        ("#2", b"02", "two.o", (2,)),
        ("a(1).o", b"06", "a(1).o", (6,)),
        ("in.a)(x.o", b"07", "in.a)(x.o", (7,)),
        ("in.a)(y.o", b"iy", "y.o", (5, 1)),
        ("in.a(y.o)", b"iy", "y.o", (5, 1)),
        ("#5)(#0", b"in", "x.o", (5, 0)),
        ("in.a:1)(y.o:1", b"iy", "y.o", (5, 1)),
        ("in.a(z.o)", b"08", "in.a(z.o)", (8,)),
        ("", OUTER, "libx.a", ()),
    ],
)
def test_members_are_found_by_name_occurrence_and_number(
    members: str, content: bytes, name: str, numbers: tuple[int, ...]
) -> None:
    place = found(OUTER, members)
    assert (place.view.tobytes(), place.name) == (content, name)
    assert tuple(number for _, number in place.archives) == numbers


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("two.o", r"2 members of the name two.o; write \(two.o:1\) or \(#1\), 2 bytes; \(two.o:2\) or \(#2\), 2 bytes"),
        ("two.o:3", "2 of the name two.o"),
        ("two.o:0", "2 of the name two.o"),
        ("z.o", "has no member z.o; present are x.o, two.o, two.o, two.o:1, #0, … 4 more"),
        ("#9", "has no member #9"),
        ("#" + "9" * 5000, "has no member #9"),
        ("two.o:" + "9" * 5000, "2 of the name two.o"),
        ("#²", "has no member"),
        ("x.o:x", "has no member x.o:x"),
        ("in.a)(z.o", r"libx.a\(in.a\) has no member z.o; present are x.o, y.o"),
        ("x.o)(y.o", r"libx.a\(x.o\) is no archive"),
    ],
)
def test_what_is_not_there_is_reported_with_what_is(members: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        found(OUTER, members)


def test_a_damaged_archive_is_named_as_the_reason() -> None:
    data = GNU + member(b"x.o/", b"12") + b"damage" * 20
    assert found(data, "x.o").view.tobytes() == b"12"
    with pytest.raises(UsageError, match=r"present are x.o; .*damaged"):
        found(data, "y.o")
    with pytest.raises(UsageError, match="it has no members"):
        found(GNU, "y.o")


def test_what_changes_inside_is_carried_out_to_every_archive_around() -> None:
    place = found(OUTER, "in.a)(#0")
    inner = GNU + member(b"x.o/", b"longer") + member(b"y.o/", b"iy")
    assert join_pieces(place.around([b"lon", b"ger"])) == OUTER.replace(
        member(b"in.a/", INNER), member(b"in.a/", inner)
    )
    assert join_pieces(found(OUTER, "").around([b"as it is"])) == b"as it is"


def test_members_of_a_thin_archive_are_found_and_not_exchanged(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_bytes(b"12")
    names = member(b"//", b"x.o/\n")
    (tmp_path / "thin.a").write_bytes(THIN + names + header(b"/0", 2))
    with open_source(tmp_path / "thin.a") as source:
        place = find_location(source.view(), Address("thin.a", "x.o"))
        assert isinstance(place.view, View)
        assert place.view.tobytes() == b"12"
        with pytest.raises(HostError, match="thin archive"):
            place.around([b"34"])
