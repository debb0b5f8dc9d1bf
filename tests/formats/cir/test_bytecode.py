"""MLIR bytecode: primitives, damage with its offset, refusals. Valid files are compared with mlir-opt elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.cir import HOST, SM_80, container_of, image_of, parsed, splits

from fatpack.errors import FormatError, Unsupported
from fatpack.formats import cir
from fatpack.formats.cir.bytecode.sections import BytecodeFile, BytecodeStream, encode_varint
from fatpack.formats.cir.modules.model import BytecodeModuleRecord
from fatpack.formats.cir.verify import RuleBreach
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cir"
GOOD = (FIXTURES / "mlir-22-v6.mlirbc").read_bytes()


def view_of(data: bytes) -> View:
    return BytesSource(data, "x.mlirbc").view()


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_read_as_they_are_written(number: int) -> None:
    assert BytecodeStream(view_of(encode_varint(number)), "test").varint() == number
    assert len(encode_varint(number)) <= 9


@pytest.mark.parametrize(
    ("stored", "number"),
    [
        ("01", 0),
        ("05", 2),
        ("ff", 127),
        ("02 02", 128),
        ("fe ff", 16383),
        ("04 00 02", 16384),
        ("80 ff ff ff ff ff ff ff", 2**56 - 1),
        ("00 00 00 00 00 00 00 00 01", 2**56),
    ],
)
def test_the_first_zeros_of_a_number_say_how_long_it_is(stored: str, number: int) -> None:
    assert BytecodeStream(view_of(bytes.fromhex(stored)), "test").varint() == number
    assert encode_varint(number).hex(" ") == stored


@pytest.mark.parametrize("stored", ["", "02", "80 00", "00 00 00"])
def test_a_number_that_is_cut_short_is_refused(stored: str) -> None:
    with pytest.raises(FormatError, match="cut short"):
        BytecodeStream(view_of(bytes.fromhex(stored)), "test").varint()


def test_a_newer_version_is_listed_and_not_split() -> None:
    newer = GOOD[:4] + encode_varint(7) + GOOD[5:]
    container = parsed(newer)
    assert container.version == 7
    assert [finding.code for finding in container.findings] == ["FP1510"]
    assert [image.attrs["id"] for image in container.images] == [HOST, "hip-amdgcn-amd-amdhsa--gfx90a"]
    with pytest.raises(Unsupported, match=r"version 7 of MLIR22.1.8; 6 is the newest"):
        cir.split_image(container.images[0])


def test_names_and_roles_and_operations_are_those_of_the_text() -> None:
    text = parsed((FIXTURES / "attribute.cir").read_bytes())
    bytecode = parsed(GOOD)
    keys = ("name", "role", "attributes", "op_counts", "kernels", "stubs")
    told, wanted = (
        [{key: module[key] for key in keys} for module in cir.describe(found)["modules"]]  # type: ignore[attr-defined]
        for found in (bytecode, text)
    )
    assert told == wanted
    assert bytecode.attrs == {"form": "attribute", "flavour": "bytecode", "producer": "MLIR22.1.8"}


def test_a_split_module_has_the_tables_of_the_whole_file() -> None:
    """A documented cost in size and disclosure: the host's strings are in the device's file."""
    _, device = splits(GOOD)
    assert b"cir.demo" in device
    again = BytecodeFile(view_of(device))
    assert [section.id for section in again.sections] == [
        section.id for section in BytecodeFile(view_of(GOOD)).sections
    ]


def test_a_changed_container_of_bytecode_is_not_written() -> None:
    container = parsed(GOOD)
    with pytest.raises(Unsupported, match="cannot be combined"):
        join_pieces(cir.write(container.replace(images=container.images[::-1], attrs={"form": "attribute"})))
    with pytest.raises(Unsupported, match="cannot be combined"):
        cir.combine_container(container_of(container.images[0], image_of("module {\n}\n", SM_80)))


def test_bytecode_that_is_no_container_is_not_taken_for_one() -> None:
    plain = GOOD.replace(b"offload.container", b"offload.cantainer")
    assert not cir.detect(view_of(plain))
    with pytest.raises(FormatError, match="not an offload container"):
        parsed(plain)


def _section(number: int) -> tuple[int, int]:
    section = BytecodeFile(view_of(GOOD)).section(number)
    return section.start, section.data


@pytest.mark.parametrize(
    ("at", "change", "what"),
    [
        (0, b"ML\xee", "start|unexpected text"),
        (_section(0)[0], b"\x0f", "there is no section of strings|second section"),
        (_section(0)[0] + 1, b"\xfe\xff", "reaches to"),
        (_section(0)[1], b"\xff", "strings?"),
        (_section(1)[1], b"\xff", "dialects"),
        (_section(1)[1] + 1, b"\xff", "is used"),
        (_section(3)[1] + 3, b"\xff", "is used|attributes"),
        (_section(4)[1] + 1, b"\xff", "operation name 127"),
    ],
)
def test_damage_is_refused_with_its_offset(at: int, change: bytes, what: str) -> None:
    damaged = GOOD[:at] + change + GOOD[at + len(change) :]
    with pytest.raises(FormatError, match=what) as caught:
        parsed(damaged, strict=True)
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(damaged)
    assert caught.value.format == "cir-offload-container"


def test_damage_in_a_later_module_does_not_hide_the_first() -> None:
    _, device = parsed(GOOD).images
    at = device.span.start
    found = parsed(GOOD[:at] + b"\xff\xff" + GOOD[at + 2 :])
    assert [image.attrs["id"] for image in found.images] == [HOST]
    assert found.findings[0].code == "FP1501"
    assert "bytecode IR section" in found.findings[0].message
    assert found.findings[0].span.start >= at


def test_a_deep_nest_of_regions_needs_no_stack() -> None:
    """Regions in regions cost a few bytes each; no code may recurse over them."""
    file = BytecodeFile(view_of(GOOD))
    section = file.section(4)
    record = parsed(GOOD).images[0].record
    assert isinstance(record, BytecodeModuleRecord)
    depth = 20_000
    # name 0, regions, location 0, one region that is not isolated, one block, no values, one operation
    nest = bytes.fromhex("01 21 01 05 03 01 05") * depth + bytes.fromhex("01 01 01")
    head = bytes((section.id,)) + encode_varint(len(nest) + 1)
    data = GOOD[: section.start] + head + b"\x05" + nest + GOOD[section.end :]
    with pytest.raises(FormatError, match="not an offload container"):
        parsed(data)


def test_every_misplaced_attribute_is_listed_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    breaches = [RuleBreach("FP1502", 200, f"number {number}") for number in range(250)]
    monkeypatch.setattr("fatpack.formats.cir.verify._in", lambda *_: iter(breaches))
    monkeypatch.setattr("fatpack.limits.FINDINGS", 200)
    findings = cir.parse(view_of(GOOD)).findings
    assert sum(item.count for item in findings if item.code == "FP1502") == len(breaches)
    assert len(findings) == 201
