"""Facts, findings and refusals of the reader of Metal libraries."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from tests.builders import metal
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.errors import BadValue, FormatError, Truncated
from fatpack.formats import get_format, metallib
from fatpack.formats.metallib import content
from fatpack.main import main
from fatpack.model import Container
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import make_view


def parsed(data: bytes) -> Container:
    return metallib.parse(make_view(data))


def fixture(name: str) -> Container:
    return parsed((FIXTURES / "metallib" / f"{name}.metallib").read_bytes())


def codes(container: Container) -> list[str]:
    return [finding.code for finding in container.findings]


#: the specification's table: fixture → platform, minimum system, functions (name, type, AIR, Metal)
KNOWN = {
    "good": ("macOS", "14.0", [("add_f32", "kernel", "2.6", "3.1"), ("mul_f32", "kernel", "2.6", "3.1")]),
    "noext": ("macOS", "14.0", [("add_f32", "kernel", "2.6", "3.1"), ("mul_f32", "kernel", "2.6", "3.1")]),
    "empty": ("macOS", "14.0", []),
    "ios": ("iOS", "17.0", [("add_f32", "kernel", "2.6", "3.1"), ("mul_f32", "kernel", "2.6", "3.1")]),
    "render": (
        "macOS",
        "14.0",
        [("vs", "vertex", "2.6", "3.1"), ("fs", "fragment", "2.6", "3.1"), ("k", "kernel", "2.6", "3.1")],
    ),
    "msl32": ("macOS", "26.0", [("add_f32", "kernel", "2.6", "3.1"), ("tensor_f16", "kernel", "2.8", "4.0")]),
    "dylib": ("macOS", "14.0", [("helper", "unqualified", "2.6", "3.1")]),
    "old": ("macOS", None, [("add_f32", "kernel", "2.0", "2.0")]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_facts_of_each_library(name: str) -> None:
    container = fixture(name)
    platform, needs, functions = KNOWN[name]
    assert (container.attrs["platform"], container.attrs.get("needs")) == (platform, needs)
    keys = ("name", "type", "air", "metal")
    assert [tuple(image.attrs[key] for key in keys) for image in container.images] == functions
    assert codes(container) == []
    assert content.verify(container) == []
    assert content.is_unchecked(container) is bool(functions)


def test_the_uuid_is_in_the_order_of_the_file() -> None:
    assert fixture("good").attrs["uuid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert "uuid" not in fixture("noext").attrs


def test_a_dynamic_library_says_its_names() -> None:
    assert fixture("dylib").attrs["install_name"] == "@rpath/libhelp.metallib"
    made = parsed(metal.library(kind=2, install_name="@rpath/a"))
    assert (made.attrs["kind"], made.attrs["install_name"]) == ("dynamic library", "@rpath/a")
    assert metallib.describe(made)["linked"] == ["@rpath/other"]


def test_the_triple_of_the_bitcode_is_the_one_that_is_stated() -> None:
    from fatpack.images import identify_image

    for image in fixture("good").images:
        assert identify_image(image.data).triple == image.target.triple == "air64_v26-apple-macosx14.0.0"


def test_a_wrong_hash_is_found_by_verification_alone() -> None:
    container = parsed(metal.library(digest=bytes(32)))
    assert codes(container) == []
    found = content.verify(container)
    assert [item.code for item in found] == ["FP2602", "FP2602"]
    assert found[0].span.start == container.images[0].span.start


def test_bytes_that_are_no_bitcode_are_said() -> None:
    data = metal.library()
    whole = data.replace(metal.BITCODE[:4], b"\0\0\0\0")
    import hashlib

    for number in range(2):
        old, new = (
            hashlib.sha256(start + metal.BITCODE[4:] + struct.pack("<Q", number)).digest()
            for start in (metal.BITCODE[:4], bytes(4))
        )
        whole = whole.replace(old, new)
    assert [item.code for item in content.verify(parsed(whole))] == ["FP2607", "FP2607"]


@pytest.mark.parametrize("size", [12345, 40])
def test_a_size_that_is_not_there_is_refused(size: int) -> None:
    with pytest.raises(BadValue) as caught:
        parsed(metal.library(size=size))
    assert (caught.value.field, caught.value.offset) == ("size", 16)


def test_a_size_that_takes_in_the_next_library_is_refused() -> None:
    data = metal.library()
    with pytest.raises(BadValue, match=f"another library begins inside of it, at {len(data):#x}") as caught:
        parsed(metal.library(size=len(data) + 20) + data)
    assert (caught.value.field, caught.value.offset) == ("size", 16)
    assert parsed(metal.library(size=len(data) + 20) + bytes(20)).span.size == len(data) + 20


def test_a_cut_library_is_refused() -> None:
    with pytest.raises(BadValue) as caught:
        parsed(metal.library()[:-64])
    assert caught.value.field == "size"
    with pytest.raises(Truncated):
        parsed(metal.library()[:50])


@pytest.mark.parametrize(("at", "field"), [(24, "list"), (40, "public"), (56, "private"), (72, "bitcode")])
def test_a_part_outside_of_the_library_is_refused(at: int, field: str) -> None:
    data = bytearray(metal.library())
    data[at : at + 8] = struct.pack("<Q", len(data) - 1)
    with pytest.raises(FormatError) as caught:
        parsed(bytes(data))
    assert (caught.value.field, caught.value.offset) == (f"{field}_offset", at)


def test_more_functions_than_bytes_are_refused() -> None:
    data = bytearray(metal.library())
    data[88:92] = struct.pack("<I", 0xFFFFFFFF)
    with pytest.raises(BadValue) as caught:
        parsed(bytes(data))
    assert (caught.value.field, caught.value.offset) == ("count", 88)


def test_a_function_outside_of_the_bitcode_is_a_finding_and_the_others_are_listed() -> None:
    data = bytearray(metal.library())
    at = data.index(b"OFFT") + 6 + 16
    data[at : at + 8] = struct.pack("<Q", 1 << 63)
    container = parsed(bytes(data))
    assert codes(container) == ["FP2601"]
    assert container.findings[0].span.start == 92
    assert [image.attrs["name"] for image in container.images] == ["mul_f32"]


@pytest.mark.parametrize("tag", [b"NAME", b"MDSZ", b"OFFT", b"HASH"])
def test_a_function_needs_its_tags(tag: bytes) -> None:
    container = parsed(metal.library().replace(tag, b"XXXX"))
    assert codes(container) == ["FP2601", "FP2601"]
    assert tag.decode() in container.findings[0].message


def test_a_group_of_a_wrong_size_ends_the_list() -> None:
    data = bytearray(metal.library())
    data[92:96] = struct.pack("<I", 3)
    container = parsed(bytes(data))
    assert (codes(container), container.images) == (["FP2601"], ())


def test_two_functions_of_one_name_are_said() -> None:
    assert codes(parsed(metal.library((metal.KERNELS[0], metal.KERNELS[0])))) == ["FP2603"]


def test_damage_in_the_extension_leaves_the_functions() -> None:
    data = metal.library(extension=metal.tag(b"UUID", metal.UUID))
    at = data.index(b"UUID")
    container = parsed(data[: at + 4] + b"\xff\xff" + data[at + 6 :])
    assert codes(container) == ["FP2604"]
    assert len(container.images) == 2


def test_a_language_after_the_stamp_is_said() -> None:
    functions = (("old", 2, (2, 6, 3, 1)), ("new", 2, (2, 8, 4, 0)))
    container = parsed(metal.library(functions, needs=(15, 0)))
    assert codes(container) == ["FP2605"]
    assert "1 function in Metal 4.0, which macOS 26 is the first to load" in container.findings[0].message


def test_paths_of_the_build_are_said() -> None:
    private = metal.tag(b"DEPF", b"/Users/me/a.air\0") + b"ENDT"
    assert codes(parsed(metal.library(private=private))) == ["FP2606"]


def test_names_of_metals_classes_are_no_libraries() -> None:
    names = b"MTLBuffer\0MTLBinaryArchive\0" * 40
    assert not metallib.detect(make_view(names))
    assert list(scan(make_view(names))) == []


def test_a_library_in_data_is_found_and_a_wrong_header_is_not() -> None:
    found = [
        item for item in scan(make_view(bytes(64) + b"text" * 9 + metal.library())) if isinstance(item, FoundContainer)
    ]
    assert [item.format for item in found] == ["metal-library"]


def test_the_limit_of_functions_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 1)
    with pytest.raises(FormatError) as caught:
        parsed(metal.library())
    assert caught.value.field == "count"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main([*arguments])
    return code, capsys.readouterr().out


def test_inspect_shows_a_line_and_kernels_all(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(FIXTURES / "metallib" / "msl32.metallib")
    code, text = run(capsys, "inspect", path)
    assert code == 0
    assert "Metal library 1.2.7, macOS, needs macOS 26.0: 2 kernels" in text
    assert "Metal 3.1 (1), 4.0 (1)" in text
    assert "tensor_f16" not in text
    code, text = run(capsys, "inspect", "--kernels", path)
    assert (code, "tensor_f16" in text) == (0, True)
    code, text = run(capsys, "inspect", "--json", path)
    assert [image["kernels"] for image in json.loads(text)["files"][0]["containers"][0]["images"]] == [
        ["add_f32"],
        ["tensor_f16"],
    ]


def test_extract_gives_the_bitcode_as_it_is_stored(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = FIXTURES / "metallib" / "good.metallib"
    code, _ = run(capsys, "extract", str(path), "-d", str(tmp_path))
    assert code == 0
    made = sorted(tmp_path.glob("**/*.air"))
    assert [file.read_bytes() for file in made] == [image.data.tobytes() for image in fixture("good").images]


def test_doctor_verifies_the_hashes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "bad.metallib"
    file.write_bytes(metal.library(digest=bytes(32)))
    code, text = run(capsys, "doctor", str(file))
    assert (code, text.count("FP2602")) == (3, 2)
    code, text = run(capsys, "doctor", str(FIXTURES / "metallib" / "good.metallib"))
    assert (code, text.partition(":")[0]) == (0, "healthy")


def test_functions_are_not_replaced_or_removed() -> None:
    from fatpack.errors import Unsupported

    container = fixture("good")
    changed = container.replace(images=container.images[:1])
    with pytest.raises(Unsupported, match="cannot be replaced or removed"):
        list(get_format("metal-library").write(changed))
