"""The byte map: every byte has one label, in order, even if tables are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import elf as build

from fatpack.binary import elf
from fatpack.model import Label

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "elf").glob("*.o"))
KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]


def labelled(data: bytes) -> list[Label]:
    """Return the labels of a file after checking that they cover it once and in order."""
    labels = list(elf.labels(build.as_view(data)))
    at = 0
    for label in labels:
        assert label.span.start == at, label
        assert label.span.size > 0
        at = label.span.end
    assert at == len(data)
    return labels


@pytest.mark.parametrize(("bits", "order"), KINDS)
@pytest.mark.parametrize("tables_first", [False, True])
def test_every_byte_has_one_label(bits: int, order: str, tables_first: bool) -> None:
    data = build.device_object(bits=bits, order=order, tables_first=tables_first, segments=[(0, 60)]).build()
    labels = {label.name: label for label in labelled(data)}
    assert labels["header.machine"].value == "x86-64 (0x3e)"
    assert labels["program[0].file_size"].value == "60 (0x3c)"
    assert labels["section[2].type"].value == "llvm_offloading"
    assert labels["section[2].flags"].value == "E"
    assert labels["contents[2] .llvm.offloading"].kind == "data"
    assert labels["contents[2] .llvm.offloading"].span.size == 40
    assert "contents[5] .bss" not in labels


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_objects_of_clang_are_covered_without_unknown_bytes(path: Path) -> None:
    assert {label.kind for label in labelled(path.read_bytes())} == {"field", "data", "padding"}


def test_unreferenced_bytes_are_unknown_and_zeros_are_padding() -> None:
    data = build.device_object(rubbish=b"rubbish!", trailing=bytes(100)).build()
    labels = labelled(data)
    (unknown,) = [label for label in labels if label.kind == "unknown"]
    assert data[unknown.span.start : unknown.span.end].strip(b"\0") == b"rubbish!"
    assert (labels[-1].kind, labels[-1].span.size) == ("padding", 100)


def test_overlapping_sections_are_labelled_once() -> None:
    data = build.device_object().build()
    at = build.section_field(data, 2, "offset")
    data = build.with_section(data, 3, offset=at + 8, size=64)
    names = [(label.name, label.span.size) for label in labelled(data) if label.kind == "data"]
    assert ("contents[2] .llvm.offloading", 40) in names
    assert ("contents[3] .data", 32) in names


def test_tables_win_over_sections_that_claim_their_bytes() -> None:
    data = build.device_object().build()
    data = build.with_section(data, 2, offset=0, size=len(data))
    labels = labelled(data)
    assert labels[0].name == "header.ident"
    assert [label.name for label in labels if label.kind == "data"] == ["contents[2] .llvm.offloading"]
    assert labels[-1].name == "section[8].entry_size"


def test_tables_over_each_other_are_labelled_once() -> None:
    data = build.device_object(segments=[(0, 0)]).build()
    labelled(build.with_header(data, "phoff", build.header_field(data, "shoff") + 8))
    labelled(build.with_header(data, "phoff", 20))
    labelled(build.with_header(data, "phoff", len(data) - 8))
    labelled(build.with_header(data, "shoff", 0x10))


def test_sections_outside_the_file_are_cut() -> None:
    data = build.device_object().build()
    labels = labelled(build.with_section(data, 3, size=1 << 60))
    assert any(label.name == "contents[3] .data" for label in labels)
    labelled(build.with_section(data, 3, offset=1 << 60))


def test_names_that_cannot_be_read_are_left_out() -> None:
    labels = labelled(build.with_header(build.device_object().build(), "shstrndx", 0))
    assert any(label.name == "contents[2]" for label in labels)


def test_contents_are_not_read() -> None:
    class Counting(build.BytesSource):
        count = 0

        def read(self, offset: int, size: int) -> bytes:
            Counting.count += size
            return super().read(offset, size)

    assert (
        sum(label.span.size for label in elf.labels(Counting(build.device_object(b"D" * 10**6).build()).view())) > 10**6
    )
    assert Counting.count < 20_000
