"""The output equals that of rocm_kpack, byte for byte."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.kpack import Code, archive

from fatpack.errors import Unsupported, UsageError
from fatpack.formats import kpack
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import KpackOptions

_CODE = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        st.sampled_from(["gfx900", "gfx90a:xnack-", "gfx1100"]),
        st.binary(max_size=300),
    ),
    max_size=20,
    unique_by=lambda item: item[:2],
)


def images_of(code: list[Code]) -> list[Image]:
    target = Target("amdgcn-amd-amdhsa", "", "hip")
    return [
        make_image(data, target=target.replace(arch=arch), form="", attrs={"binary": binary, "type": "hsaco"})
        for binary, arch, data in code
    ]


def written(code: list[Code], options: KpackOptions, **attrs: str) -> bytes:
    container = Container("rocm-kpack", 1, tuple(images_of(code)), Span(0, 0), attrs=attrs)
    return join_pieces(kpack.write(container, options))


@given(_CODE, st.sampled_from([None, "zstd"]))
def test_the_bytes_are_those_of_msgpack_and_zstandard(code: list[Code], compression: str | None) -> None:
    ours = written(code, KpackOptions(compression), group="test", family="gfx900X")
    assert ours == archive(code, scheme="zstd-per-kernel" if compression else "none")


#: (binary, architecture, text, filling, size) of the code objects in rocm_kpack's test archives
_NOOP = [
    ("lib/libtest.so#0", "gfx900", b"KERNEL1_GFX900_DATA", b"\0", 119),
    ("lib/libtest.so#0", "gfx906", b"KERNEL2_GFX906_DATA", b"\0", 219),
    ("bin/testapp#0", "gfx900", b"KERNEL3_APP_GFX900", b"\xff", 168),
]


def test_the_test_archive_of_rocm_kpack_is_made_to_the_byte() -> None:
    """``runtime/tests/test_assets/test_noop.kpack`` of ROCm/rocm-kpack, revision e348328, by its digest."""
    code = [(binary, arch, text.ljust(size, filling)) for binary, arch, text, filling, size in _NOOP]
    ours = written(code, KpackOptions(), group="test", family="gfx900X")
    assert hashlib.sha256(ours).hexdigest() == "cf69e89680656e7cd41f8e9df4c73ffffbff9f4237074f6a562d8ec88f172181"


def test_images_that_are_taken_out_take_their_architecture_with_them() -> None:
    code = [("a#0", "gfx900", b"1"), ("a#0", "gfx906", b"2")]
    container = kpack.parse(make_view(archive(code, archs=["gfx900", "gfx906", "gfx1100"])))
    less = container.replace(images=container.images[:1])
    again = kpack.parse(make_view(join_pieces(kpack.write(less))))
    assert kpack.describe(again)["archs"] == ["gfx900", "gfx1100"]


def test_what_this_version_does_not_know_comes_back() -> None:
    data = archive([("a#0", "gfx900", b"1")], future={"deep": [1, 2]}, note="x")
    assert join_pieces(kpack.write(kpack.parse(make_view(data)))) == data


def test_shared_bytes_are_shared_again() -> None:
    row = {"type": "hsaco", "ordinal": 0, "original_size": 1}
    data = archive([("a#0", "gfx900", b"1")], toc={"a#0": {"gfx900": row}, "b#0": {"gfx900": row}})
    container = kpack.parse(make_view(data))
    assert len(container.images) == 2
    assert join_pieces(kpack.write(container)) == data


def test_overlapping_bytes_are_not_written_one_by_one() -> None:
    code = [(f"a#{number}", "gfx900", b"x") for number in range(40)]
    data = archive([("z#0", "gfx900", bytes(5000)), *code])
    blobs = [{"offset": 64, "size": 5000}] * 41
    overlapping = archive([("z#0", "gfx900", bytes(5000)), *code], blobs=blobs)
    assert len(overlapping) < len(data) + 500
    with pytest.raises(Unsupported, match="share their bytes"):
        join_pieces(kpack.write(kpack.parse(make_view(overlapping))))


@pytest.mark.parametrize(
    ("code", "words"),
    [([("a#0", "gfx900", b"1"), ("a#0", "gfx900", b"2")], "two images for gfx900 of a#0")],
)
def test_what_no_archive_can_hold_is_refused(code: list[Code], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        written(code, KpackOptions())


def test_an_image_needs_a_binary_and_a_known_compression() -> None:
    nameless = make_image(b"1", target=Target("", "gfx900", "hip"))
    with pytest.raises(UsageError, match="belongs to a binary"):
        join_pieces(kpack.write(Container("rocm-kpack", 1, (nameless,), Span(0, 0))))
    with pytest.raises(UsageError, match="compression 'zlib'"):
        written([], KpackOptions("zlib"))
