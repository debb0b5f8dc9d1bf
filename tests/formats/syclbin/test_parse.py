"""Facts and refusals of the readers of both versions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.spirv import KERNEL, module
from tests.builders.syclbin import GEN, SPIR64, Image, Module, entries, of_runtime, sets, state, v1, v2
from tests.laws.rooms import FIXTURES

from fatpack import formats, limits
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated, Unsupported
from fatpack.formats import syclbin
from fatpack.formats.syclbin.layout import ABSTRACT, HEADER, IR_MODULE
from fatpack.main import main
from fatpack.model import Container, Finding, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import make_view

SPIRV = module([(KERNEL, "scale")])
PROPERTIES = sets({"SYCL/kernel names": {"scale": 1}, "SYCL/device requirements": {"aspects": b"\1\0\0\0"}})
MODULES = [
    Module([Image(SPIRV), Image(b"native", GEN, "bmg-g21"), Image(b"other", GEN, "pvc")], PROPERTIES),
    Module([Image(SPIRV[:-4], "spir-unknown-unknown")]),
]


def parsed(data: bytes) -> Container:
    return syclbin.parse(make_view(data))


def messages(container: Container) -> list[str]:
    return [f"{finding.code} {finding.message}" for finding in container.findings]


BUILDERS: dict[str, Callable[[list[Module]], bytes]] = {
    "v1": v1,
    "v1 of the runtime": lambda modules: v1(modules, order="runtime"),
    "v2": lambda modules: v2(entries(modules)),
    "v2 of before": lambda modules: v2(entries(modules), kind=6, offload=4),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_facts_of_a_file(name: str) -> None:
    data = BUILDERS[name](MODULES)
    container = parsed(data)
    assert (container.version, container.attrs) == (int(name[1]), {"state": "executable"})
    assert [image.target for image in container.images] == [
        Target(SPIR64, "", "sycl"),
        Target(GEN, "bmg-g21", "sycl"),
        Target(GEN, "pvc", "sycl"),
        Target("spir-unknown-unknown", "", "sycl"),
    ]
    assert [image.data.tobytes() for image in container.images] == [SPIRV, b"native", b"other", SPIRV[:-4]]
    assert [image.form for image in container.images] == ["spirv", "", "", "spirv"]
    assert [image.attrs["am_index"] for image in container.images] == ["0", "0", "0", "1"]
    assert [image.attrs["role"] for image in container.images] == ["ir", "native", "native", "ir"]
    described = syclbin.describe(container)
    assert described["properties"] == {"SYCLBIN/global metadata": {"state": 2}}
    assert described["modules"] == [
        {
            "am_index": 0,
            "properties": {
                "SYCL/kernel names": {"scale": 1},
                "SYCL/device requirements": {"aspects": {"hex": "01000000"}},
            },
        },
        {"am_index": 1, "properties": {}},
    ]
    assert [item for item in messages(container) if "FP1201" not in item] == []
    assert all(image.data.source is container.images[0].data.source for image in container.images), "views, no copies"


@pytest.mark.parametrize("name", BUILDERS)
def test_images_are_recognised_and_their_kernels_named(name: str) -> None:
    data = BUILDERS[name](MODULES)
    (found,) = (item for item in scan(make_view(data)) if isinstance(item, FoundContainer))
    assert found.format == "syclbin"
    assert [image.info.form for image in found.images] == ["spirv", "", "", "spirv"]
    assert [image.kernel_names for image in found.images] == [("scale",), (), (), ("scale",)]


@pytest.mark.parametrize("kind", ["wrapped", "runtime"])
def test_version_1_lies_in_an_offload_binary(kind: str) -> None:
    inner = v1(MODULES)
    data = of_runtime(inner) if kind == "runtime" else v2([({}, inner)])
    found, *rest = scan(make_view(data))
    assert isinstance(found, FoundContainer)
    assert found.format == "llvm-offload-binary"
    (image,) = found.images
    assert (image.form, image.target.offload) == ("syclbin", "sycl")
    (inside,) = image.containers
    assert (inside.format, inside.version, len(inside.images)) == ("syclbin", 1, 4)
    assert inside.span.start == data.index(b"IBYS")
    codes = [item.code for item in rest if isinstance(item, Finding)]
    assert codes == (["FP1201"] if kind == "runtime" else []), "5 for SYCL is what the runtime writes"


def test_an_offload_binary_without_roles_is_one() -> None:
    rows = [({"triple": SPIR64}, SPIRV)]
    assert not syclbin.detect(make_view(v2(rows)))
    assert formats.format_at(make_view(v2(rows))) == "llvm-offload-binary"
    assert formats.format_at(make_view(v2(entries(MODULES), kind=1))) == "llvm-offload-binary"
    assert formats.format_at(make_view(v2(entries(MODULES)))) == "syclbin"
    assert formats.format_at(make_view(v1(MODULES))) == "syclbin"
    assert formats.format_at(make_view(v2(entries(MODULES), kind=6))) == "syclbin"
    module = [({"role": "ir", "am_index": "0"}, SPIRV)]
    assert formats.format_at(make_view(v2(module, kind=6))) == "llvm-offload-binary", "SPIR-V with strings of its own"


def test_property_sets_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.syclbin").write_bytes(v2(entries(MODULES[:1])))
    assert main(["inspect", "-v", str(tmp_path / "x.syclbin")]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "[SYCLBIN/global metadata] state = 2" in lines
    assert "module 0 [SYCL/kernel names] scale = 1" in lines
    assert "module 0 [SYCL/device requirements] aspects = 0x01000000" in lines


# ---- version 1


def test_another_beginning_is_no_file_of_version_1() -> None:
    with pytest.raises(BadMagic, match="not a SYCLBIN file"):
        parsed(b"")
    with pytest.raises(Truncated):
        parsed(b"IB")
    with pytest.raises(BadMagic, match="not an offload binary"):
        parsed(b"SYBI" + bytes(60))


@pytest.mark.parametrize("version", [0, 2, 1 << 31])
def test_a_version_that_is_not_known_is_named(version: int) -> None:
    with pytest.raises(Unsupported, match=f"syclbin at 0x0: version {version}"):
        parsed(b"IBYS" + struct.pack("<I", version) + bytes(60))


def test_a_header_that_is_cut() -> None:
    with pytest.raises(Truncated) as raised:
        parsed(v1(MODULES)[:40])
    assert (raised.value.offset, raised.value.field) == (0, "header")


def changed(data: bytes, name: str, value: int) -> bytes:
    at = HEADER.field_offset(name)
    size = 4 if at < 24 else 8
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


@pytest.mark.parametrize("name", ["metadata_size", "binary_size", "global_offset", "global_size"])
def test_a_size_that_is_too_large_is_named_with_its_field(name: str) -> None:
    for value in (1 << 20, (1 << 64) - 1):
        with pytest.raises(BadValue) as raised:
            parsed(changed(v1(MODULES), name, value))
        field = "global_offset" if name.startswith("global") else name
        assert (raised.value.field, raised.value.offset) == (field, HEADER.field_offset(field))
        assert raised.value.format == "syclbin"


@pytest.mark.parametrize("name", ["abstract_count", "ir_count", "native_count"])
def test_a_count_that_is_too_large_is_named(name: str) -> None:
    with pytest.raises(BadValue, match="past the end") as raised:
        parsed(changed(v1(MODULES), name, 99_999))
    assert raised.value.field == "native_count", "the arrays follow each other: only their end is past the file"
    with pytest.raises(LimitExceeded) as refused:
        parsed(changed(v1(MODULES), name, (1 << 32) - 1))
    assert (refused.value.field, refused.value.offset) == (name, HEADER.field_offset(name))


def test_a_metadata_table_that_reaches_into_the_images_is_damaged() -> None:
    data = v1([Module([Image(bytes(200))])])
    (size,) = struct.unpack_from("<Q", data, HEADER.field_offset("metadata_size"))
    longer = changed(changed(data, "metadata_size", size + 64), "binary_size", 100)
    with pytest.raises(BadValue, match="belong to nothing, and are no property sets"):
        parsed(longer)
    assert syclbin.extent(make_view(longer)) is None


def test_an_abstract_module_whose_metadata_is_outside_ends_the_reading() -> None:
    data = bytearray(v1(MODULES))
    data[HEADER.size : HEADER.size + 8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(BadValue) as raised:
        parsed(bytes(data))
    assert raised.value.offset == HEADER.size
    assert raised.value.field == "metadata of abstract_module[0]"


@pytest.mark.parametrize("field", ["metadata_offset", "metadata_size", "offset", "size"])
def test_an_image_that_is_outside_is_left_out_and_named(field: str) -> None:
    data = bytearray(v1(MODULES))
    at = HEADER.size + 2 * ABSTRACT.size
    start = at + IR_MODULE.field_offset(field)
    data[start : start + 8] = (1 << 40).to_bytes(8, "little")
    container = parsed(bytes(data))
    assert [image.attrs["role"] for image in container.images] == ["native", "native", "ir"]
    errors = [item for item in container.findings if item.severity == "error"]
    assert [(item.code, item.span.start) for item in errors] == [("FP1801", at)]


def test_images_of_several_modules_and_of_none_are_listed_once() -> None:
    data = bytearray(v1([Module([Image(SPIRV)]), Module([Image(SPIRV + b"more")]), Module([Image(SPIRV + b"mmore")])]))
    second, third = HEADER.size + ABSTRACT.size, HEADER.size + 2 * ABSTRACT.size
    first_ir = ABSTRACT.field_offset("first_ir")
    data[second + first_ir] = 0  # the contents of the first
    data[third + first_ir - 4] = 0  # none
    container = parsed(bytes(data))
    assert [image.attrs.get("am_index") for image in container.images] == ["0", None, None]
    codes = [item for item in messages(container) if item.startswith("FP1803")]
    assert "abstract_module[1] names the images ir[0] to ir[0], and others name them too" in codes[0]
    assert "ir[1] belongs to no abstract module" in codes[1]
    assert b"".join(bytes(piece) if isinstance(piece, bytes) else piece.tobytes() for piece in syclbin.write(container))


def test_a_module_that_names_more_images_than_there_are() -> None:
    data = bytearray(v1([Module([Image(SPIRV)])]))
    at = HEADER.size + ABSTRACT.field_offset("ir_count")
    data[at : at + 4] = b"\xff" * 4
    container = parsed(bytes(data))
    assert [image.attrs["am_index"] for image in container.images] == ["0"]
    assert "names the images ir[0] to ir[4294967294], and there are 1" in messages(container)[0]


def test_bytes_that_belong_to_nothing_are_named() -> None:
    data = v1([Module([Image(SPIRV)])])
    longer = changed(data, "binary_size", len(SPIRV) + 16) + b"sixteen bytes..."
    container = parsed(longer)
    assert [(item.code, item.span.start) for item in container.findings] == [("FP1804", len(data))]
    assert container.unknown[0].size == 16


def test_a_state_that_there_is_not() -> None:
    assert parsed(v1([], 7)).attrs == {"state": "7"}
    assert "FP1803 state 7, where DPC++ knows 0 (input)" in messages(parsed(v1([], 7)))[0]
    container = parsed(v1([]).replace(b"state=", b"stage="))
    assert container.attrs == {}
    assert "states no state" in messages(container)[0]


def test_lines_that_are_no_properties_are_findings_at_their_place() -> None:
    data = v1([Module([], b"[set]\nwrong\n")])
    (item,) = parsed(data).findings
    assert (item.code, item.severity, item.span.start) == ("FP1802", "warning", data.index(b"wrong"))
    assert item.message == "metadata of abstract module 0: not of the form name=type|value"


def test_texts_that_share_their_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules whose texts overlap would make reading quadratic."""
    count = 300
    text = b"[set]\n" + b"a=1|1\n" * 400
    data = bytearray(v1([Module([], text if number == 0 else b"") for number in range(count)]))
    (first,) = struct.unpack_from("<Q", data, HEADER.size)
    for number in range(count):
        place = first + number, len(text) - number
        struct.pack_into("<QQ", data, HEADER.size + number * ABSTRACT.size, *place)
    monkeypatch.setattr(limits, "STRING_FLOOR", 1 << 10)
    with pytest.raises(LimitExceeded, match="share their bytes"):
        parsed(bytes(data))


def test_a_text_may_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROPERTY_SETS", 40)
    with pytest.raises(LimitExceeded, match="PROPERTY_SETS"):
        parsed(v1(MODULES))


# ---- version 2


def of_rows(change: Callable[[list[tuple[dict[str, str], bytes]]], object]) -> Container:
    rows = entries(MODULES)
    change(rows)
    return parsed(v2(rows))


def strings(number: int, **values: str) -> Callable[[list[tuple[dict[str, str], bytes]]], object]:
    return lambda rows: rows[number][0].update(values)


REFUSED = {
    "role": (strings(3, role="strange"), "entry[3] has role 'strange'"),
    "am_index": (strings(2, am_index="-1"), "entry[2] has am_index '-1'"),
    "no am_index": (lambda rows: rows[2][0].pop("am_index"), "entry[2] has am_index ''"),
    "am_index past the entries": (strings(2, am_index="7"), "entry[2] has am_index '7'"),
    "no global metadata": (lambda rows: rows.pop(0), "no entry has the role global_metadata"),
    "global metadata twice": (lambda rows: rows.append(rows[0]), "entry[7] is global metadata, which another"),
    "metadata twice": (lambda rows: rows.append(rows[1]), "entry[7] is metadata of abstract module 0"),
    "no metadata": (lambda rows: rows.pop(5), "no entry has the role am_metadata for am_index 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_dpcpp_refuses_is_named_and_the_images_are_listed(name: str) -> None:
    change, message = REFUSED[name]
    container = of_rows(change)
    assert any(f"FP1803 {message}" in item for item in messages(container)), messages(container)
    assert len(container.images) == 4


def test_metadata_that_is_longer_than_its_image_is_named() -> None:
    for content, problem in ((b"short", "no size of its metadata"), (b"\xff" * 20, "18446744073709551615 bytes")):
        rows = entries(MODULES)
        rows[2] = (rows[2][0], content)
        data = v2(rows)
        container = parsed(data)
        (error,) = (item for item in container.findings if item.severity == "error")
        assert (error.code, error.span.start) == ("FP1801", data.index(content))
        assert problem in error.message
        assert len(container.images) == 3


def test_strings_that_contradict_the_metadata_are_named() -> None:
    container = of_rows(strings(3, arch="lnl", triple="nvptx64-nvidia-cuda"))
    assert container.images[1].target == Target(GEN, "bmg-g21", "sycl"), "DPC++ reads the metadata"
    assert [item[:6] for item in messages(container)] == ["FP1805", "FP1805"]
    assert "arch is 'bmg-g21' in the metadata, which DPC++ reads, and 'lnl' in the entry" in messages(container)[1]


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(Unsupported, match="sycl_format_version '3'"):
        of_rows(strings(0, sycl_format_version="3"))


def test_further_strings_are_attributes() -> None:
    assert of_rows(strings(2, more="x")).images[0].attrs["more"] == "x"


def test_damage_of_the_offload_binary_is_named_as_that_of_the_file() -> None:
    data = v2(entries(MODULES))
    with pytest.raises(FormatError) as raised:
        parsed(data[:-8])
    assert (raised.value.format, raised.value.field) == ("syclbin", "size")


def test_the_order_of_entries_says_nothing() -> None:
    rows = entries(MODULES)
    container = parsed(v2([rows[6], rows[2], rows[0], rows[5], rows[1], rows[3], rows[4]]))
    assert messages(container) == []
    assert [image.attrs["am_index"] for image in container.images] == ["1", "0", "0", "0"]


def test_the_fixtures_say_the_same() -> None:
    one, two = (parsed((FIXTURES / "syclbin" / f"dpcpp-v{number}.syclbin").read_bytes()) for number in (1, 2))
    assert [image.data.tobytes() for image in one.images] == [image.data.tobytes() for image in two.images]
    assert [image.target for image in one.images] == [image.target for image in two.images]
    assert syclbin.describe(one) == syclbin.describe(two)


def test_global_metadata_alone_is_a_file() -> None:
    for data in (v1([], 1), v2(entries([], 1))):
        container = parsed(data)
        assert (container.attrs, container.images, container.findings) == ({"state": "object"}, (), ())
    assert state(1) == b"[SYCLBIN/global metadata]\nstate=1|1\n"
