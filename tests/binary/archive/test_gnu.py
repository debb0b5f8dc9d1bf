"""Archives made of files: names, tables and padding, by the documentation."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.builders.archive import GNU, header, member
from tests.builders.device_elf import device_elf
from tests.laws.rooms import FIXTURES

from fatpack.binary import CodeSection, archive
from fatpack.binary.archive import writer
from fatpack.errors import FatpackError, HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces


def built(*members: tuple[bytes, bytes]) -> bytes:
    return join_pieces(archive.build_archive([(name, BytesSource(data, "x").view()) for name, data in members]))


def elf(*names: bytes) -> bytes:
    return device_elf(224, symbols=[(name, 0x12, 0, 1) for name in names])


def symbol_table(*numbers: int, names: bytes, code: str = "I", field: bytes = b"/") -> bytes:
    content = struct.pack(f">{len(numbers)}{code}", *numbers) + names
    content += bytes(len(content) % 2)
    return header(field, len(content)).replace(b"644", b"0  ") + content


def test_an_archive_of_nothing_is_its_magic() -> None:
    assert built() == GNU


def test_files_without_symbols_need_no_table() -> None:
    assert built((b"a.txt", b"odd"), (b"b.txt", b"even")) == GNU + member(b"a.txt/", b"odd") + member(
        b"b.txt/", b"even"
    )


def test_symbols_lead_to_the_headers_of_their_members() -> None:
    one, two = elf(b"f", b"g"), elf(b"h")
    first = 8 + 60 + 4 * 4 + 6
    expected = symbol_table(3, first, first, first + 60 + len(one) + len(one) % 2, names=b"f\0g\0h\0")
    assert built((b"1.o", one), (b"2.o", two)) == GNU + expected + member(b"1.o/", one) + member(b"2.o/", two)


def test_objects_that_define_nothing_get_an_empty_table() -> None:
    data = device_elf(224)
    assert built((b"1.o", data)) == GNU + symbol_table(0, names=bytes(3)) + member(b"1.o/", data)


def test_names_that_do_not_fit_their_field_are_stored_once_after_the_symbols() -> None:
    long, path = b"n" * 16, b"a/b"
    names = long + b"/\n" + path + b"/\n"
    table = b"%-48s%-10d`\n" % (b"//", len(names) + 1) + names + b"\n"
    parts = [member(field, b"12") for field in (b"n" * 15 + b"/", b"/0", b"/18", b"/0")]
    assert built(*((name, b"12") for name in (b"n" * 15, long, path, long))) == GNU + table + b"".join(parts)


def test_names_may_repeat_and_hold_anything_except_what_ends_them() -> None:
    names = [b"a.o", b"a.o", b"with space", b"\xff\xfe", b"x.o/", b"__.SYMDEF", b"/", b"//"]
    view = BytesSource(built(*((name, b"1") for name in names))).view()
    assert [site.member for site in archive.locate(view) if isinstance(site, CodeSection)] == [
        name.decode("utf-8", "backslashreplace") for name in names
    ]


@pytest.mark.parametrize("name", [b"", b"a\nb", b"a\0b"])
def test_names_that_no_archive_can_hold_are_refused(name: bytes) -> None:
    with pytest.raises(UsageError, match="name"):
        built((name, b"1"))


def test_far_members_need_a_table_of_64_bit_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    data = elf(b"f")
    first = 8 + 60 + 4 + 4 + 2
    monkeypatch.setattr(writer, "LARGEST_OFFSET", first + 1)
    assert built((b"1.o", data)) == GNU + symbol_table(1, first, names=b"f\0") + member(b"1.o/", data)
    monkeypatch.setattr(writer, "LARGEST_OFFSET", first)
    expected = symbol_table(1, first + 8, names=b"f\0", code="Q", field=b"/SYM64/")
    assert built((b"1.o", data)) == GNU + expected + member(b"1.o/", data)


class _Endless(BytesSource):
    """Claims to be large, and fails if anything except its head is read."""

    def __init__(self, size: int) -> None:
        super().__init__(bytes(64))
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        assert offset + size <= 64
        return b"text" * 16

    def pieces(self, offset: int, size: int):  # type: ignore[no-untyped-def]
        raise AssertionError("the content was read")


def test_contents_are_passed_on_and_not_read() -> None:
    view = _Endless(5 << 30).view()
    pieces = archive.build_archive([(b"large", view), (b"large", view), (b"1.o", BytesSource(elf(b"f")).view())])
    assert sum(piece is view for piece in pieces) == 2
    assert join_pieces(pieces[:1]).startswith(GNU)
    assert join_pieces([piece for piece in pieces if not isinstance(piece, View)]).count(b"/SYM64/") == 1


def test_a_member_too_large_for_ten_digits_is_refused() -> None:
    with pytest.raises(HostError, match="10000000000 bytes"):
        archive.build_archive([(b"large", _Endless(10**10).view())])


def test_rewriting_keeps_a_built_archive_sound() -> None:
    view = BytesSource(built((b"1.o", elf(b"f")), (b"2.o", elf(b"g", b"h")), (b"3.txt", b"text"))).view()
    after = BytesSource(join_pieces(archive.rewrite(view, {0: [elf(b"f"), bytes(101)]}))).view()
    archive.verify(view, after)
    assert join_pieces(archive.rewrite(after, {0: [elf(b"f")]})) == view.tobytes()


@pytest.mark.parametrize(
    "path",
    [
        FIXTURES / "demo" / "host.o",
        FIXTURES / "coff" / "clang-22-x86_64.obj",
        FIXTURES / "pe" / "lld-22-x86_64.dll",
        FIXTURES / "bitcode" / "clang-22.bc",
        FIXTURES / "bitcode" / "clang-22-wrapped.bc",
        FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin",
    ],
    ids=lambda path: path.name,
)
def test_damaged_members_give_an_archive_or_a_fatpack_error(path: Path) -> None:
    data = path.read_bytes()
    step = max(len(data) // 150, 1)
    for at in [*range(min(len(data), 200)), *range(200, len(data), step), *range(len(data) - 100, len(data))]:
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            try:
                result = BytesSource(built((b"m", damaged))).view()
            except FatpackError:
                continue
            (site,) = archive.locate(result)
            assert isinstance(site, CodeSection)
            assert site.data.tobytes() == damaged
