"""WebAssembly modules: custom sections of device code, damage with its place."""

from __future__ import annotations

import pytest
from tests.builders.macho import custom, leb, wasm
from tests.laws.rooms import FIXTURES

from fatpack.hosts import Site, detected, divided_sections
from fatpack.hosts import wasm as room
from fatpack.io.source import View
from fatpack.io.sources.memory import BytesSource
from fatpack.model import Finding
from fatpack.scanner import Found, scan
from fatpack.testing.hosts import labels_cover_every_byte_once

CONTAINER = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()
TYPE, CODE, DATA = (1, b"\x01\x60\0\0"), (10, b"\x01\x02\0\x0b"), (11, b"\0")


def view(data: bytes) -> View:
    return BytesSource(data, "x.wasm").view()


def sites(data: bytes) -> list[tuple[str | None, int | None, bytes]]:
    found = [site for site in room.locate(view(data)) if isinstance(site, Site)]
    return [(site.section, site.index, site.data.tobytes()) for site in found]


def only_finding(data: bytes) -> tuple[str, int, str]:
    (item,) = [item for item in room.locate(view(data)) if isinstance(item, Finding)]
    return item.code, item.span.start, item.message


def test_custom_sections_of_device_code_are_found() -> None:
    names = (b".llvm.offloading", b".llvm.offloading.relocatable", b".llvm.offload", b"producers")
    data = wasm([TYPE, *(custom(name, CONTAINER) for name in names), CODE])
    assert detected(view(data)) == "wasm"
    assert sites(data) == [(".llvm.offloading", 1, CONTAINER), (".llvm.offloading.relocatable", 2, CONTAINER)]
    labels_cover_every_byte_once("wasm", data)
    assert sites(wasm([custom(b".llvm.offloading", b"")])) == []


def test_data_and_sections_of_unknown_names_are_searched() -> None:
    data = wasm([CODE, (11, b"12345678" + CONTAINER), custom(b"mine", CONTAINER), custom(b"producers", CONTAINER)])
    found = [item for item in scan(view(data)) if isinstance(item, Found)]
    assert [(item.host, item.section, item.index) for item in found] == [("wasm", "data", 1), ("wasm", "mine", 2)]
    assert divided_sections("wasm", view(data)).open == {"code": (1, 4)}


@pytest.mark.parametrize("start", [b"\0asm\x0d\0\1\0", b"\0asm\2\0\0\0", b"\0asm\1\0\0", b"\0asm"])
def test_other_versions_and_components_are_no_modules(start: bytes) -> None:
    assert not room.detect(view(start))
    (item,) = scan(view(start + bytes(60)[: 60 if len(start) == 8 else 0]))
    assert isinstance(item, Finding)
    assert item.message == "WebAssembly that is no module of version 1: not read, only searched for containers"


def test_a_section_past_the_end_gives_those_before() -> None:
    data = wasm([TYPE, custom(b".llvm.offloading", CONTAINER), CODE])
    assert [name for name, *_ in sites(data[:-1])] == [".llvm.offloading"]
    assert only_finding(data[:-1]) == ("FP2601", len(data) - 4, "section 2: needs 4 bytes, 3 left")
    labels_cover_every_byte_once("wasm", data[:-1])


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"\xff\xff\xff\xff\xff", "section 0: size: a wrong number (expected a LEB128 number of 32 bits"),
        (b"\xff\xff\xff\xff\x1f", "section 0: size: a wrong number (expected a LEB128 number of 32 bits"),
        (b"\xff\xff\xff\xff\x0f", "section 0: needs 4294967295 bytes"),
        (b"\x80", "section 0: size: needs 2 bytes, 1 left"),
        (b"", "section 0: size: needs 1 bytes, 0 left"),
    ],
)
def test_a_wrong_size_ends_the_chain(stored: bytes, message: str) -> None:
    data = wasm([]) + b"\x0b" + stored
    code, start, text = only_finding(data)
    assert (code, text.startswith(message)) == ("FP2601", True), text
    assert start in (9, 14)
    labels_cover_every_byte_once("wasm", data)


def test_a_name_longer_than_its_section_ends_nothing() -> None:
    data = wasm([(0, leb(200) + b".llvm.offloading"), custom(b".llvm.offloading", CONTAINER)])
    assert sites(data) == [(".llvm.offloading", 1, CONTAINER)]
    code, start, message = only_finding(data)
    assert (code, start) == ("FP2601", 10)
    assert message == "section 0: size of the name: a wrong number (expected at most 16, found 200)"
    labels_cover_every_byte_once("wasm", data)


def test_more_sections_than_are_read_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.hosts.wasm.read._MOST_SECTIONS", 2)
    code, start, _ = only_finding(wasm([TYPE, CODE, DATA]))
    assert (code, start) == ("FP1005", 8 + 6 + 6)


def test_sections_without_content_have_labels_too() -> None:
    labels_cover_every_byte_once("wasm", wasm([(1, b""), (200, b"new"), custom(b"", b"")]))


def test_many_sections_without_a_name_end_the_reading() -> None:
    """Two bytes each: 20 kB of zeros would be 10,000 errors, each with a place and a sentence."""
    items = [item for item in room.locate(view(wasm([]) + bytes(20_000))) if isinstance(item, Finding)]
    assert [item.code for item in items] == [*["FP2601"] * 100, "FP1005"]
    assert "more than 100 sections without a name" in items[-1].message
