"""Tile IR: modules as cuda-tile writes them, the names that tileirdisasm shows, and every field that can lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import tile_ir
from tests.builders.tile_ir import (
    FUNCTIONS,
    HINT,
    HINTS,
    KERNEL,
    PRODUCER,
    STRINGS,
    function,
    functions,
    module,
    strings,
)
from tests.laws.rooms import FIXTURES
from tests.reference import run

from fatpack import images
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated
from fatpack.images.kernel import KernelInfo, KernelNeeds
from fatpack.images.tile_ir import extent
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer, scan

FILES = sorted((FIXTURES / "tile_ir").glob("*.tileirbc"))
NAMES = {
    "add": tuple(f"add_Kt1_A1f32_1l0_A1f32_1l0_A1f32_1l0_I{size}" for size in (16, 32)),
    "twice": tuple(f"twice_Kt1_A1f32_1l0_I{size}" for size in (16, 32)),
}


def view_of(data: bytes) -> View:
    return BytesSource(data, "test").view()


def names_of(data: bytes) -> tuple[str, ...]:
    return images.kernels(view_of(data), "tileir")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_cuda_tile_wrote(path: Path) -> None:
    data = path.read_bytes()
    kernel, _, version = path.name.removesuffix(".tileirbc").partition(".v")
    recognised = images.identify_image(view_of(data))
    assert (recognised.form, recognised.triple, recognised.size) == ("tileir", "nvptx64-nvidia-cuda", len(data))
    assert recognised.detail == f"CUDA Tile IR bytecode {version}"
    assert names_of(data) == NAMES[kernel]
    assert images.facts(view_of(data), "tileir") == KernelInfo(tuple(map(KernelNeeds, NAMES[kernel])))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tileirdisasm_shows_the_same_entries(path: Path) -> None:
    shown = run("tileirdisasm", path).stdout.decode()
    assert names_of(path.read_bytes()) == tuple(re.findall(r"^entry @(\w+)\(", shown, re.MULTILINE))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tileirdisasm_refuses_what_is_cut_where_we_do(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    for size in (12, 40, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:size])
        assert run("tileirdisasm", tmp_path / "cut", check=False).returncode
        assert extent(view_of(data[:size])) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_law_any_damage_gives_names_or_a_precise_error(path: Path) -> None:
    data = path.read_bytes()
    for at in range(len(data)):
        for value in (data[at] ^ 0xFF, data[at] ^ 1, 0x80):
            broken = view_of(data[:at] + bytes((value,)) + data[at + 1 :])
            images.identify_image(broken)
            try:
                images.facts(broken, "tileir")
            except FormatError as error:
                assert error.format == "tile-ir" and error.offset is not None and error.chain == ("test",)
    for size in range(len(data)):
        with pytest.raises((BadMagic, Truncated)):
            images.facts(view_of(data[:size]), "tileir")


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda name: name.isascii()), unique=True, max_size=5))
def test_law_kernels_are_named_in_the_order_of_functions(names: list[bytes]) -> None:
    data = tile_ir.kernels(names)
    assert names_of(data) == tuple(name.decode() for name in names)
    assert extent(view_of(data)) == extent(view_of(data + b"rest")) == len(data)


def test_hints_are_passed_over_and_functions_of_the_device_left_out() -> None:
    rows = functions(
        function(1, KERNEL | HINTS, attributes=HINT),
        function(2, 0),
        # without the flag of a kernel there are no hints, whatever the other says
        function(2, HINTS),
        function(3),
    )
    table = strings(b"sm_100", b"one", b"device", b"three")
    assert names_of(module((STRINGS, table), (FUNCTIONS, rows))) == ("one", "three")


@pytest.mark.parametrize(
    "attribute",
    [
        b"\x01\x03\x02",
        b"\x03\x01",
        b"\x04\x85\x01",
        b"\x05\x00",
        b"\x06\x02\x03\x00\x05\x01",
        b"\x08\x10\x03\x01\x02",
        b"\x08\x10\x00",
        b"\x0a\x00",
        b"\x0c\x01\x05",
        HINT,
    ],
)
def test_every_kind_of_attribute_that_hints_may_have(attribute: bytes) -> None:
    rows = functions(function(0, KERNEL | HINTS, attributes=b"\x0b\x01\x00" + attribute), function(1))
    assert names_of(module((FUNCTIONS, rows), (STRINGS, strings(b"a", b"b")))) == ("a", "b")


def test_version_13_5_has_hints_and_attributes_of_arguments_always() -> None:
    rows = functions(
        function(0, KERNEL, attributes=b"\x0b\x00" + b"\x06\x00"),
        function(1, 0, attributes=b"\x06\x00"),
        function(2, KERNEL, attributes=HINT + b"\x06\x01\x0a\x00"),
    )
    data = module((FUNCTIONS, rows), (STRINGS, strings(b"a", b"b", b"c")), version=(13, 5))
    assert names_of(data) == ("a", "c")


def test_the_producer_is_what_made_it() -> None:
    data = module((PRODUCER, b"\x01"), (STRINGS, strings(b"k", b"cutile 1.0")), tag=1)
    assert images.facts(view_of(data), "tileir") == KernelInfo((), ("cutile 1.0",))
    assert images.identify_image(view_of(data)).detail == "CUDA Tile IR bytecode 13.3, preview"


ROWS = functions(function(0))
TABLE = strings(b"k")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (module((FUNCTIONS, ROWS), (STRINGS, TABLE), (FUNCTIONS, ROWS)), "a second section of functions"),
        (module((9, b"")), "kind 0x89 is unknown"),
        (module(end=b"\x80"), "kind 0x80 is unknown"),
        (module(end=b"\x81\x00\x03"), "alignment 3 is not a power of two"),
        (module(end=b"\x81\x00\x00"), "alignment 0 is not a power of two"),
        (module(end=b"\x01" + b"\xff" * 10), "a number does not end"),
        (module(end=b"\x01" + b"\xff" * 9 + b"\x02"), "a number of more than 64 bits"),
        (module((STRINGS, b"\xff\xff\x03")), "there is no room for 65535 rows"),
        (module((FUNCTIONS, functions(count=1 << 40)), (STRINGS, TABLE)), "there is no room for 1099511627776 rows"),
        (module((FUNCTIONS, functions(function(1))), (STRINGS, TABLE)), "number 1 is requested, but there are 1"),
        (module((FUNCTIONS, ROWS)), "number 0 is requested, but there are 0"),
        (module((FUNCTIONS, ROWS), (STRINGS, b"\x01\xcb\xcb\xcb\x09\0\0\0k")), "string 0 lies outside"),
        (
            module((FUNCTIONS, functions(function(0, KERNEL | HINTS, attributes=b"\x02\x08"))), (STRINGS, TABLE)),
            "a hint has an attribute of unknown kind 2",
        ),
        (
            module((FUNCTIONS, functions(function(0, KERNEL | HINTS, attributes=b"\x06\x01" * 40))), (STRINGS, TABLE)),
            "attributes are inside each other 16 times",
        ),
    ],
)
def test_what_lies_is_named(data: bytes, text: str) -> None:
    with pytest.raises(BadValue, match=re.escape(text)) as caught:
        names_of(data)
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "data",
    [
        module(end=b""),
        module(end=b"\x01\x05abc"),
        module(end=b"\x81\x01\xc0\x00"),
        module((FUNCTIONS, functions(function(0)[:-1])), (STRINGS, TABLE)),
        module((FUNCTIONS, b""), (STRINGS, TABLE)),
        module((FUNCTIONS, ROWS), (STRINGS, b"")),
        module((PRODUCER, b""), (STRINGS, TABLE)),
    ],
)
def test_what_is_cut_short_is_named(data: bytes) -> None:
    with pytest.raises((Truncated, BadValue)):
        images.facts(view_of(data), "tileir")


def test_names_that_share_one_long_string_are_bounded() -> None:
    long = b"k" * 5000
    count = 4000
    table = (
        tile_ir.varint(count)
        + b"\xcb" * 2
        + b"".join((0 if number % 2 else len(long)).to_bytes(4, "little") for number in reversed(range(count)))
    )
    rows = functions(*(function(number, body=b"") for number in range(0, count, 2)))
    data = module((FUNCTIONS, rows), (STRINGS, table + long))
    with pytest.raises(LimitExceeded):
        names_of(data)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_law_a_deep_search_finds_it_in_data_and_not_in_itself(path: Path) -> None:
    data = path.read_bytes()
    assert not [item for item in scan(view_of(data), deep=True) if isinstance(item, FoundContainer)]
    (item,) = scan(view_of(b"text" * 5 + data + b"rest"), deep=True)
    assert isinstance(item, FoundContainer)
    assert item.images[0].data.tobytes() == data
    assert item.images[0].kernel_names == names_of(data)
