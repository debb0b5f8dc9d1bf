"""Facts and refusals of the writer."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.errors import UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary import writer
from fatpack.formats.offload_binary.image_option import llvm_key_order
from fatpack.io.source import Span
from fatpack.model import Container, Target
from fatpack.testing.helpers import join_pieces, make_image, make_view

TRIPLE = "nvptx64-nvidia-cuda"
HELLO = make_image(b"hello", target=Target(TRIPLE, "sm_70", "cuda"))
WORLD = make_image(b"worldworld", target=Target(TRIPLE, "sm_80", "openmp"), form="cubin")


def write(version: int, *images: object, **attrs: str) -> bytes:
    return join_pieces(offload_binary.write(Container("", version, images, Span(0, 0), attrs=attrs)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "images", "size", "digest"),
    [
        (1, [HELLO], 152, "3ef8567a1753904eb128c08837cda30c89ab68a8df952f30f7f628d3c7d35b75"),
        (2, [HELLO, WORLD], 272, "115e422449c33b24f158694e43d1ea239cef09402be49e97526ebe2ea65131ec"),
        (3, [HELLO, WORLD], 280, "486b95336c5bc560e49c69cab4471637f25fb8f140a71d34720258698cd87c5b"),
    ],
)
def test_the_worked_examples_come_out_to_the_byte(version: int, images: list[object], size: int, digest: str) -> None:
    data = write(version, *images)
    assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)


def test_the_string_table_depends_only_on_the_set_of_strings() -> None:
    strings = [b"feature", b"+a,+b", b"arch", b"sm_70", b"zz", b"1", b"triple", b"nvptx64-nvidia-cuda", b"custom", b"2"]
    expected = b"\0zz\0custom\0arch\0feature\0triple\0+a,+b\0nvptx64-nvidia-cuda\x002\x001\0sm_70\0"
    assert writer.build_string_table(strings)[0] == expected == writer.build_string_table(reversed(strings))[0]


def test_a_tail_of_the_string_before_takes_no_space() -> None:
    table, offsets = writer.build_string_table([b"arch", b"a", b"march", b"", b"ch", b"x"])
    assert table == b"\0x\0march\0a\0"
    assert (offsets[b"arch"], offsets[b"ch"], offsets[b""]) == (4, 6, 0)


@given(st.sets(st.binary(max_size=6).map(lambda text: text.replace(b"\0", b"a"))))
def test_every_string_is_where_the_table_says(strings: set[bytes]) -> None:
    table, offsets = writer.build_string_table(strings)
    for text in strings:
        assert table[offsets[text] :].startswith(text + b"\0")


def test_clangs_keys_come_in_the_order_of_llvm_19_to_22() -> None:
    assert llvm_key_order([b"file", b"triple", b"arch", b"kind", b"feature"], 1)[:2] == [b"feature", b"arch"]


@pytest.mark.parametrize(
    ("version", "images", "attrs", "message"),
    [
        (1, [], {}, "holds one image, not 0"),
        (1, [HELLO, WORLD], {}, "use container version 2"),
        (4, [HELLO], {}, "choose from 1, 2 and 3"),
        (2, [HELLO], {"compression": "zlib"}, "use container version 3"),
        (1, [make_image(b"", attrs={"k": "a\0b"})], {}, "the value of 'k' contains a NUL"),
        (2, [make_image(b"", attrs={"k\0": "a"})], {}, "a key contains a NUL"),
        (1, [make_image(b"", target=Target(offload="kind 7 (unknown)"))], {}, "cannot say offload model"),
    ],
)
def test_what_a_version_cannot_hold_is_refused(
    version: int, images: list[object], attrs: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        write(version, *images, **attrs)


def test_versions_2_and_3_may_be_empty() -> None:
    assert len(write(2)) == 40
    assert len(write(3)) == 48


def test_nul_in_a_value_survives_in_version_2() -> None:
    data = write(2, make_image(b"", attrs={"symbols": "a\0b"}))
    assert dict(offload_binary.parse(make_view(data)).images[0].attrs) == {"symbols": "a\0b"}
