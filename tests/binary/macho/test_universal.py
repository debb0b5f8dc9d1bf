"""Universal files: slices are members named by their architecture; damage is reported with its position."""

from __future__ import annotations

import pytest
from tests.builders import archive
from tests.builders.macho import ARM64, I386, POWERPC, X86_64, Section, build, universal

from fatpack.binary import CodeSection, detect_host
from fatpack.binary.macho.universal import detect, locate
from fatpack.errors import HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.address import Address, Location, find_location
from fatpack.testing.cases import assert_host_labels_cover_every_byte_once

FATBIN = b"\x50\xed\x55\xba\x01\0\x10\0" + bytes(8)
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8)
each_width = pytest.mark.parametrize("bits", [32, 64])


def an_object(content: bytes, name: bytes = b"__hip_fatbin") -> bytes:
    return build([Section(b"__HIP", name, content)])


def view(data: bytes) -> View:
    return BytesSource(data, "x").view()


def sites(data: bytes) -> list[CodeSection]:
    return [item for item in locate(view(data)) if isinstance(item, CodeSection)]


def findings(data: bytes) -> list[Finding]:
    return [item for item in locate(view(data)) if isinstance(item, Finding)]


@each_width
def test_each_slice_is_a_member_of_its_architecture(bits: int) -> None:
    made = [(X86_64, 0x80000003, b"one"), (ARM64, 0x80000002, b"other"), (POWERPC, 0, b"third"), (0x63, 7, b"last")]
    data = universal(made, bits=bits)
    found = sites(data)
    assert [(site.member, site.index, site.data.tobytes()) for site in found] == [
        ("x86_64", 0, b"one"),
        ("arm64e", 1, b"other"),
        ("ppc", 2, b"third"),
        ("cpu_0x63_0x7", 3, b"last"),
    ]
    assert [site.content for site in found] == ["member"] * 4
    assert found[1].data.chain == ("x(arm64e)",)
    assert findings(data) == []
    assert_host_labels_cover_every_byte_once("universal", data)


@each_width
def test_containers_are_listed_with_the_slice_and_the_member_in_it(bits: int) -> None:
    library = archive.GNU + archive.member(b"a.o/", an_object(BUNDLE))
    data = universal([(X86_64, 3, an_object(BUNDLE)), (ARM64, 0, library)], bits=bits)
    found = [item for item in scan(view(data)) if isinstance(item, FoundContainer)]
    assert [(item.host, item.member, item.section, item.member_numbers) for item in found] == [
        ("macho", "x86_64", "__HIP,__hip_fatbin", (0,)),
        ("macho", "arm64(a.o)", "__HIP,__hip_fatbin", (1, 0)),
    ]
    assert [data[item.view.start : item.view.end] for item in found] == [BUNDLE, BUNDLE]


def test_addresses_lead_into_slices_and_the_archives_there() -> None:
    inner = an_object(BUNDLE)
    data = universal([(X86_64, 3, b"one"), (ARM64, 0, archive.GNU + archive.member(b"a.o/", inner))])
    assert find_location(view(data), Address("x", "x86_64")).view.tobytes() == b"one"
    place = find_location(view(data), Address("x", "arm64(a.o)"))
    assert place.view.tobytes().startswith(inner)
    with pytest.raises(UsageError, match=r"x has no member ppc; present are x86_64, arm64"):
        find_location(view(data), Address("x", "ppc"))
    with pytest.raises(HostError, match="universal Mach-O files are not edited"):
        place.around([b"new"])
    assert Location(view(data), "x").around([b"new"]) == [b"new"]


def test_slices_of_one_name_are_distinguished_by_their_number() -> None:
    data = universal([(ARM64, 0, b"one"), (ARM64, 1, b"two")])
    with pytest.raises(UsageError, match="2 members of the name arm64"):
        find_location(view(data), Address("x", "arm64"))
    assert find_location(view(data), Address("x", "arm64:2")).view.tobytes() == b"two"


def test_a_slice_that_no_room_reads_is_searched() -> None:
    data = universal([(ARM64, 0, b"rubbish " + BUNDLE), (I386, 0, b"")])
    assert [site.member for site in sites(data)] == ["arm64"]
    assert [item.member for item in scan(view(data)) if isinstance(item, FoundContainer)] == []
    whole = b"rubbish " + b"\x10\xff\x10\xad"
    assert list(scan(view(universal([(ARM64, 0, whole)])))) == []


@pytest.mark.parametrize(("count", "is_one"), [(0, True), (1, True), (44, True), (45, False), (52, False), (65, False)])
def test_classes_of_java_are_none(count: int, is_one: bool) -> None:
    data = b"\xca\xfe\xba\xbe" + count.to_bytes(4, "big") + bytes(99)
    assert detect(view(data)) == is_one
    assert detect_host(view(data)) == ("universal" if is_one else None)
    assert detect(view(b"\xca\xfe\xba\xbf" + data[4:]))
    assert not detect(view(data[:7]))


@each_width
def test_a_table_that_is_cut_gives_the_slices_before(bits: int) -> None:
    data = universal([(X86_64, 3, b"one")], bits=bits, count=40)
    row = 20 if bits == 32 else 32
    assert [site.member for site in sites(data)][:1] == ["x86_64"]
    (last,) = [item for item in findings(data) if item.code == "FP2512"]
    assert last.message.startswith("table of slices: needs")
    assert last.span.start == 8 + row * ((len(data) - 8) // row)
    assert_host_labels_cover_every_byte_once("universal", data)


def test_a_universal_file_without_slices_is_damaged() -> None:
    (item,) = findings(universal([]))
    assert (item.code, item.span.start, item.field) == ("FP2512", 4, "nfat_arch")
    assert_host_labels_cover_every_byte_once("universal", universal([]))


def test_a_cut_slice_is_listed_as_far_as_it_goes() -> None:
    data = universal([(X86_64, 3, b"first"), (ARM64, 0, b"second")])
    cut = data[:-3]
    assert [site.data.tobytes() for site in sites(cut)] == [b"first", b"sec"]
    (item,) = findings(cut)
    assert (item.code, item.message) == (
        "FP2511",
        f"slice 1 (arm64) ends at {len(data):#x}, the file at {len(cut):#x}",
    )
    assert_host_labels_cover_every_byte_once("universal", cut)
    gone = data[: 8 + 2 * 20]
    assert [item.code for item in findings(gone)] == ["FP2511", "FP2511"]
    assert sites(gone) == []


def test_a_slice_over_another_or_over_the_table_is_not_read() -> None:
    data = bytearray(universal([(X86_64, 3, bytes(32)), (ARM64, 0, bytes(32)), (POWERPC, 0, bytes(32))]))
    first = int.from_bytes(data[16:20], "big")
    data[36:40] = (first + 8).to_bytes(4, "big")
    data[56:60] = (4).to_bytes(4, "big")
    assert [site.member for site in sites(bytes(data))] == ["x86_64"]
    assert [(item.code, item.message) for item in findings(bytes(data))] == [
        ("FP2513", "slice 1 (arm64) overlaps slice 0: not read"),
        ("FP2513", "slice 2 (ppc) overlaps the table: not read"),
    ]
    assert_host_labels_cover_every_byte_once("universal", bytes(data))


def test_more_slices_than_are_read_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.binary.macho.universal._MOST", 2)
    data = universal([(X86_64, 3, b"1"), (ARM64, 0, b"2"), (I386, 0, b"3")])
    assert [site.member for site in sites(data)] == ["x86_64", "arm64"]
    (item,) = findings(data)
    assert (item.code, item.severity, item.field) == ("FP1005", "error", "nfat_arch")
