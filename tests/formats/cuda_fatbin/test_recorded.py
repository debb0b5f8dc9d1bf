"""Real files of CUDA 11.2 to 13.5, entry by entry, compared with the records of an independent reader."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import fatpack
from fatpack.errors import Unsupported
from fatpack.formats.cuda_fatbin import CudaEntry, CudaGroup, Fatbin, describe, labels, parse
from fatpack.model import Container, Image
from fatpack.scanner import FoundContainer
from fatpack.testing.helpers import make_view

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cuda_fatbin"
EXPECTED: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((FIXTURES / "expected.json").read_text())
FATBINS = sorted(name for name in EXPECTED if name.endswith(".fatbin"))
HOSTS = sorted(set(EXPECTED) - set(FATBINS))

#: the recorded word → ours
_FORMS = {"elf": "cubin", "ptx": "ptx", "nvvm": "ltoir", "relocatable-ptx": "ptx", "tile-ir": "tileir"}
_BITS = {0x1000: "zlib", 0x2000: "lz4", 0x4000: "lz4-frame", 0x8000: "zstd"}


def _rows(fatbin: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return every entry that has an image, with its group."""
    rows: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    for entry in fatbin["entries"]:
        rows += [(member, entry) for member in entry["members"]] if entry["kind"] == "concat" else [(entry, None)]
    return rows


def _check(container: Container, expected: dict[str, Any]) -> None:
    assert container.span.size == expected["size"] + expected["header_size"]
    assert [finding for finding in container.findings if finding.severity != "note"] == []
    rows = _rows(expected)
    assert len(container.images) == len(rows)
    for image, (entry, group) in zip(container.images, rows, strict=True):
        _check_entry(image, entry, group)


def _check_entry(image: Image, expected: dict[str, Any], group: dict[str, Any] | None) -> None:
    entry = image.record
    assert isinstance(entry, CudaEntry)
    head = entry.head
    names = {
        "sm": "arch",
        "compressed_size": "compressed_size",
        "kind": "kind_value",
        "code_major": "major",
        "code_minor": "minor",
        "identifier_size": "name_len",
        "identifier_offset": "name_offset",
        "key": "obfuscation_key",
        "options_offset": "options_offset",
        "padded_size": "padded_size",
        "inflated_size": "uncompressed_size",
        "version": "version",
        "place": "payload_offset" if group else "header_size",
    }
    assert {ours: getattr(head, ours) for ours in names} == {ours: expected[name] for ours, name in names.items()}
    assert head.flags == int(expected["flags"], 16)
    assert image.form == _FORMS[expected["kind"]]
    assert image.target.arch == f"sm_{expected['arch']}{expected['suffix']}"
    assert image.attrs.get("identifier", "") == expected["identifier"]
    assert image.attrs.get("options", "") == expected.get("options", "")
    assert entry.area.compat.hex() == expected.get("compat", "")
    flags = int((group or expected)["flags"], 16)
    assert image.compression == next((method for bit, method in _BITS.items() if flags & bit), None)
    if group is None:
        stored = entry.stored.slice(head.place, expected["compressed_size"] or expected["padded_size"]).tobytes()
        assert hashlib.sha256(stored).hexdigest() == expected["stored_sha256"]
    if "decoded_sha256" in expected:
        data = image.data.tobytes()
        assert (len(data), image.size) == (expected["decoded_size"],) * 2
        assert hashlib.sha256(data).hexdigest() == expected["decoded_sha256"]
    else:
        assert image.attrs["obfuscated"] == "yes"
        assert image.size == expected["uncompressed_size"]
        with pytest.raises(Unsupported, match="obfuscated"):
            image.data.tobytes()


@pytest.mark.parametrize("name", FATBINS)
def test_every_field_and_image_of_a_fat_binary_is_as_recorded(name: str) -> None:
    view = make_view((FIXTURES / name).read_bytes(), name)
    for expected in EXPECTED[name]["raw"]:
        container = parse(view, expected["offset"])
        _check(container, expected)
        assert len(describe(container)["entries"]) == len(container.images)  # type: ignore[arg-type]
        assert [label for label in labels(view, container) if label.kind == "unknown"] == []


@pytest.mark.parametrize("name", HOSTS)
def test_every_fat_binary_of_a_program_is_found_and_as_recorded(name: str) -> None:
    with fatpack.open(FIXTURES / name) as file:
        found = [item for item in file.containers if item.container.format == "cuda-fatbin"]
        assert {item.section for item in found} == set(EXPECTED[name])
        for section, expected in EXPECTED[name].items():
            here = [item for item in found if item.section == section]
            for item, fatbin in zip(here, expected, strict=True):
                assert item.view.start - here[0].view.start == fatbin["offset"]
                _check(item.container, fatbin)
        assert [finding for finding in file.findings if finding.severity != "note"] == []


def test_two_fat_binaries_of_one_file_are_two_containers() -> None:
    with fatpack.open(FIXTURES / "recorded" / "two_fatbins.fatbin") as file:
        assert [len(found.container.images) for found in file.containers] == [3, 3]
        assert file.findings == ()


def test_a_group_comes_before_its_members_and_shares_one_inflation() -> None:
    container = parse(make_view((FIXTURES / "v135_concat_tiny.fatbin").read_bytes()))
    record = container.record
    assert isinstance(record, Fatbin)
    assert [type(part) for part in record.parts] == [CudaGroup, CudaEntry, CudaEntry, CudaGroup, CudaEntry, CudaEntry]
    assert [image.form for image in container.images] == ["ptx", "ptx", "cubin", "cubin"]
    sources = {id(image.data.source) for image in container.images}  # type: ignore[attr-defined]
    assert len(sources) == 2
    assert {image.stored_size for image in container.images} == {None}
    assert [facts["group"] for facts in describe(container)["entries"]] == [0, 0, 1, 1]  # type: ignore[index, attr-defined]


def test_listing_inflates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("inflated")

    monkeypatch.setattr("fatpack.formats.cuda_fatbin.entry.decompress", fail)
    for name in ("v130_all.fatbin", "v130_speed.fatbin", "v130_family.fatbin"):
        with fatpack.open(FIXTURES / "recorded" / name) as file:
            (found,) = file.containers
            assert isinstance(found, FoundContainer)
            assert [image.form for image in found.images] == [image.form for image in found.container.images]
            assert file.findings == ()
