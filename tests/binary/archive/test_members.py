"""Reading archives: every spelling of a name, every table, every kind of damage."""

from __future__ import annotations

import pytest
from tests.builders.archive import GNU, THIN, bsd_member, bsd_symbols, gnu_symbols, header, member, microsoft_symbols

from fatpack import limits
from fatpack.binary import CodeSection, archive
from fatpack.errors import FatpackError, Truncated
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding


def view(data: bytes) -> View:
    return BytesSource(data, "libx.a").view()


def listing(data: bytes) -> list[tuple[str | None, bytes]]:
    return [(site.member, site.data.tobytes()) for site in archive.locate(view(data)) if isinstance(site, CodeSection)]


def codes(data: bytes) -> list[str]:
    found = []
    for item in archive.locate(view(data)):
        found += [item.code] if isinstance(item, Finding) else [each.code for each in item.findings]
    return found


def assert_labels_tile(data: bytes) -> None:
    at = 0
    for label in archive.labels(view(data)):
        assert label.span.start == at
        assert label.span.end > at
        at = label.span.end
    assert at == len(data)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(b"!<arch>\n", True), (b"!<thin>\n", True), (b"<bigaf>\n", True), (b"!<arch>", False), (b"", False)],
)
def test_an_archive_is_known_by_its_first_eight_bytes(start: bytes, expected: bool) -> None:
    assert archive.detect(view(start)) is expected


def test_a_short_gnu_name_loses_exactly_one_slash() -> None:
    assert listing(GNU + member(b"a.o/", b"12") + member(b"dir//", b"3")) == [("a.o", b"12"), ("dir/", b"3")]


def test_a_short_name_without_slash_may_hold_blanks() -> None:
    assert listing(GNU + member(b"a b.o", b"12")) == [("a b.o", b"12")]


def test_gnu_long_names_end_with_slash_and_newline() -> None:
    names = member(b"//", b"a_very_long_name.o/\nother_long_name.o/\n")
    assert listing(GNU + names + member(b"/0", b"1") + member(b"/20", b"2")) == [
        ("a_very_long_name.o", b"1"),
        ("other_long_name.o", b"2"),
    ]


def test_microsoft_long_names_end_with_a_nul() -> None:
    names = member(b"//", b"dir\\a_very_long_name.obj\0b.obj\0")
    assert listing(GNU + names + member(b"/0", b"1") + member(b"/25", b"2")) == [
        ("dir\\a_very_long_name.obj", b"1"),
        ("b.obj", b"2"),
    ]


def test_bsd_names_lie_before_the_data_and_may_hold_blanks_and_slashes() -> None:
    data = GNU + bsd_member(b"a name/", b"123", padding=4) + bsd_member(b"b", b"")
    assert listing(data) == [("a name/", b"123"), ("b", b"")]
    assert_labels_tile(data)


def test_names_that_are_not_utf8_are_shown_escaped() -> None:
    assert listing(GNU + member(b"\xff.o/", b"1")) == [("\\xff.o", b"1")]


def test_duplicate_names_are_both_listed_under_their_numbers() -> None:
    sites = list(archive.locate(view(GNU + member(b"a.o/", b"1") + member(b"a.o/", b"2"))))
    assert [(site.member, site.index) for site in sites if isinstance(site, CodeSection)] == [("a.o", 0), ("a.o", 1)]


@pytest.mark.parametrize(
    "tables",
    [
        gnu_symbols([8]),
        gnu_symbols([8], ">Q", b"/SYM64/"),
        gnu_symbols([8]) + microsoft_symbols([8], [1]),
        bsd_symbols([8]),
        bsd_symbols([8], "<Q", b"__.SYMDEF_64"),
        bsd_symbols([8], name=b"__.SYMDEF SORTED"),
        member(b"//", b"name/\n"),
        member(b"/<ECSYMBOLS>/", b"1234"),
        member(b"/<XFGHASHMAP>/", b"1234"),
        bsd_member(b"__.SYMDEF SORTED", b"\0\0\0\0\0\0\0\0", padding=4),
    ],
)
def test_tables_are_no_members(tables: bytes) -> None:
    data = GNU + tables + member(b"a.o/", b"1")
    assert listing(data) == [("a.o", b"1")]
    assert_labels_tile(data)


def test_a_file_named_like_a_bsd_table_is_a_member_where_the_table_cannot_be() -> None:
    assert listing(GNU + member(b"a.o", b"1") + member(b"__.SYMDEF", b"2")) == [("a.o", b"1"), ("__.SYMDEF", b"2")]


def test_messages_name_the_archive_and_the_member() -> None:
    (site,) = archive.locate(view(GNU + member(b"a.o/", b"123")))
    assert isinstance(site, CodeSection)
    assert site.data.chain == ("libx.a(a.o)",)
    assert site.content == "member"
    with pytest.raises(Truncated, match=r"libx\.a\(a\.o\)"):
        site.data.read(0, 4)


def test_a_nested_archive_is_a_member_whose_members_name_both() -> None:
    inner = GNU + member(b"b.o/", b"12")
    (site,) = archive.locate(view(GNU + member(b"in.a/", inner)))
    assert isinstance(site, CodeSection)
    (nested,) = archive.locate(site.data)
    assert isinstance(nested, CodeSection)
    assert nested.data.chain == ("libx.a(in.a)(b.o)",)
    assert nested.data.offset(0) == 8 + 60 + 8 + 60


def test_offsets_count_from_the_first_byte_of_the_outermost_file() -> None:
    data = GNU + member(b"a.o/", b"12")
    (site,) = archive.locate(View(BytesSource(b"skip" + data), 4, 4 + len(data)))
    assert isinstance(site, CodeSection)
    assert site.data.offset(0) == 4 + 8 + 60


def test_a_last_member_of_odd_size_may_lack_its_newline() -> None:
    data = GNU + member(b"a.o/", b"123")[:-1]
    assert listing(data) == [("a.o", b"123")]
    assert codes(data) == []
    assert_labels_tile(data)


def test_an_archive_without_members_is_empty_and_fine() -> None:
    assert list(archive.locate(view(GNU))) == []


@pytest.mark.parametrize(
    "tail",
    [
        header(b"b.o/", 100) + b"cut",
        header(b"b.o/", 1)[:-1],
        header(b"b.o/", 1)[:-2] + b"??x",
        header(b"b.o/", 1).replace(b"1         `", b"1_0       `") + b"x" * 10,
        header(b"b.o/", 1).replace(b"1         `", b"-1        `") + b"x" * 10,
        header(b"b.o/", 1).replace(b"1         `", b"          `") + b"x" * 10,
        header(b"#1/20", 10) + b"x" * 10,
        header(b"//", 99),
    ],
)
def test_damage_is_a_finding_after_the_intact_members(tail: bytes) -> None:
    data = GNU + member(b"a.o/", b"12") + tail
    items = list(archive.locate(view(data)))
    assert [type(item) for item in items] == [CodeSection, Finding]
    assert codes(data) == ["FP2101"]
    assert_labels_tile(data)


def test_the_finding_for_a_cut_member_names_it_and_its_place() -> None:
    *_, item = archive.locate(view(GNU + header(b"b.o/", 100) + b"cut"))
    assert isinstance(item, Finding)
    assert item.span.start == 8 + 60
    assert item.message == "member b.o/: needs 100 bytes, 3 left"
    assert item.hint == "the file looks cut short"


@pytest.mark.parametrize(
    "names", [b"", member(b"//", b"x/\n"), member(b"//", b"name without an end"), member(b"//", b"y" * 9000)]
)
def test_a_long_name_that_cannot_be_read_keeps_the_member(names: bytes) -> None:
    data = GNU + names + member(b"/3", b"1")
    assert listing(data) == [("/3", b"1")]
    assert codes(data) == ["FP2102"]


def test_long_names_of_many_members_cannot_multiply_one_long_string() -> None:
    names = member(b"//", b"y" * 100_000 + b"/\n")
    data = GNU + names + b"".join(member(b"/%d" % at, b"") for at in range(1000))
    assert sum(len(name or "") for name, _ in listing(data)) < 10_000


def test_headers_that_share_a_name_of_allowed_length_do_not_multiply_it() -> None:
    names = member(b"//", b"y" * 4000 + b"/\n")
    data = GNU + names + b"".join(member(b"/0", b"") for _ in range(2000))
    assert sum(len(name or "") for name, _ in listing(data)) <= limits.STRING_FLOOR
    assert codes(data) == ["FP2101"]
    assert_labels_tile(data)


def test_listing_reads_two_small_pieces_per_member_however_many_there_are() -> None:
    class Counting(BytesSource):
        reads = 0
        most = 0

        def read(self, offset: int, size: int) -> bytes:
            self.reads += 1
            self.most = max(self.most, size)
            return super().read(offset, size)

    for count in (250, 25_000):
        names = b"".join(b"an_object_file_%05d.o/\n" % number for number in range(count))
        members = b"".join(member(b"/%d" % (number * 24), b"12") for number in range(count))
        source = Counting(GNU + member(b"//", names) + members, "libx.a")
        sites = [site for site in archive.locate(source.view()) if isinstance(site, CodeSection)]
        assert [site.index for site in sites] == list(range(count))
        assert sites[-1].member == f"an_object_file_{count - 1:05d}.o"
        assert source.reads <= 2 * count + 10
        assert source.most <= 4096


def test_an_aix_archive_is_named_and_left_alone() -> None:
    data = b"<bigaf>\n" + bytes(120)
    assert codes(data) == ["FP1006"]
    assert_labels_tile(data)


SMALL = (
    GNU
    + gnu_symbols([8])
    + member(b"//", b"a_very_long_name.o/\n")
    + member(b"/0", b"123")
    + bsd_member(b"b", b"x")
    + member(b"c.o/", b"")
)


@pytest.mark.parametrize("data", [SMALL, THIN + SMALL[8:]], ids=["regular", "thin"])
def test_every_cut_gives_members_or_findings_and_labels(data: bytes) -> None:
    for size in range(8, len(data)):
        list(archive.locate(view(data[:size])))
        assert_labels_tile(data[:size])


@pytest.mark.parametrize("data", [SMALL, THIN + SMALL[8:]], ids=["regular", "thin"])
def test_every_flipped_byte_gives_members_or_findings_and_labels(data: bytes) -> None:
    for at in range(len(data)):
        for change in (0x01, 0x10, 0x80, 0xFF):
            damaged = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
            items = list(archive.locate(view(damaged))) if archive.detect(view(damaged)) else []
            assert all(isinstance(item, (CodeSection, Finding)) for item in items)
            assert_labels_tile(damaged)
            try:
                rewritten = archive.rewrite(view(damaged), {0: [b"new"]})
            except FatpackError:
                continue
            assert sum(map(len, rewritten)) > 8


def test_members_that_are_known_already_are_passed_over() -> None:
    data = GNU + b"".join(member(b"%d.o/" % number, b"x") for number in range(4))
    found = [site for site in archive.locate(view(data), {0, 2}) if isinstance(site, CodeSection)]
    assert [(site.member, site.index) for site in found] == [("1.o", 1), ("3.o", 3)]
