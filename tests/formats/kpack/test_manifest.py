"""Manifests of kpack archives: contents and damage."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from fatpack.errors import BadValue, LimitExceeded, Truncated
from fatpack.formats.kpack import manifest
from fatpack.testing.helpers import make_view

FILES = {
    "gfx900": {"file": "a.kpack", "size": 903, "kernel_count": 2},
    "gfx906": {"file": "b.kpack", "size": 1 << 33, "kernel_count": 1},
}


def packed(**changes: Any) -> bytes:
    values = {"format_version": 1, "component_name": "blas_lib", "prefix": "lib", "kpack_files": FILES} | changes
    data: bytes = msgpack.packb(values)
    return data


def test_the_facts_of_a_manifest() -> None:
    data = packed()
    read = manifest.parse_manifest(make_view(data))
    assert (read.component, read.prefix, read.version) == ("blas_lib", "lib", 1)
    assert [(item.arch, item.file, item.size, item.kernel_count) for item in read.files] == [
        ("gfx900", "a.kpack", 903, 2),
        ("gfx906", "b.kpack", 1 << 33, 1),
    ]
    assert [data[item.span.start : item.span.start + 7] for item in read.files] == [b"\xa6gfx900", b"\xa6gfx906"]
    assert read.findings == ()
    assert (read.span.start, read.span.end) == (0, len(data))


@pytest.mark.parametrize("data", [packed(), packed(**{f"k{number}": 1 for number in range(20)})])
def test_a_manifest_is_known_by_its_key(data: bytes) -> None:
    assert manifest.detect_manifest(make_view(data))


@pytest.mark.parametrize(
    "data", [b"", b"\x84", msgpack.packb(["kpack_files"]), msgpack.packb({"files": 1}), b"KPAK" + packed()]
)
def test_other_bytes_are_no_manifest(data: bytes) -> None:
    assert not manifest.detect_manifest(make_view(data))


def test_an_entry_without_a_file_leaves_the_others() -> None:
    data = packed(kpack_files={"gfx900": {"size": 1}, "gfx906": FILES["gfx906"], "gfx90a": 5})
    read = manifest.parse_manifest(make_view(data))
    assert [item.arch for item in read.files] == ["gfx906"]
    assert [item.code for item in read.findings] == ["FP1607", "FP1607"]
    assert [data[item.span.start - 7 : item.span.start] for item in read.findings] == [b"\xa6gfx900", b"\xa6gfx90a"]


def test_the_first_of_two_entries_counts() -> None:
    first, second = (msgpack.packb({"file": name}) for name in ("a", "b"))
    data = b"\x81" + msgpack.packb("kpack_files") + b"\x82" + msgpack.packb("gfx900") + first
    read = manifest.parse_manifest(make_view(data + msgpack.packb("gfx900") + second))
    assert [(item.file, item.size, item.kernel_count) for item in read.files] == [("a", None, None)]
    assert [item.code for item in read.findings] == ["FP1606"]


def test_another_version_and_bytes_after_the_end_are_reported() -> None:
    data = packed(format_version=7)
    read = manifest.parse_manifest(make_view(data + b"\0\0"))
    assert [item.code for item in read.findings] == ["FP1606", "FP1606"]
    assert [item.span.start for item in read.findings] == [data.index(b"\x07"), len(data)]


def test_a_cut_manifest_is_refused_where_it_ends() -> None:
    with pytest.raises(Truncated) as caught:
        manifest.parse_manifest(make_view(packed()[:-1]))
    assert caught.value.field == "manifest"


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(BadValue, match="expected map"):
        manifest.parse_manifest(make_view(packed(kpack_files=[1])))


def test_a_manifest_that_is_too_long_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="at most 1048576"):
        manifest.parse_manifest(make_view(packed(more=bytes(1 << 20))))


def test_no_more_architectures_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.formats.kpack.manifest._MOST_FILES", 1)
    read = manifest.parse_manifest(make_view(packed()))
    assert [item.arch for item in read.files] == ["gfx900"]
    assert [item.code for item in read.findings] == ["FP1005"]
