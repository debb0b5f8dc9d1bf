"""The symbols of device code that DPC++'s bundler records."""

from __future__ import annotations

import pytest

from fatpack.errors import HostError
from fatpack.formats.clang_bundle import fat_object
from fatpack.formats.clang_bundle.fat_object import TargetSymbols
from fatpack.io.source import BytesSource, View


def view(data: bytes) -> View:
    return BytesSource(data).view()


def test_symbols_are_grouped_by_target_in_stored_order() -> None:
    data = b"sycl-spir64.b\0host-x.main\0sycl-spir64.a.part.0\0"
    assert fat_object.read_symbols(view(data)) == {"sycl-spir64": ["b", "a.part.0"], "host-x": ["main"]}


def test_known_targets_may_have_points_themselves() -> None:
    data = b"sycl-armv8m.main-none.f\0sycl-armv8m.f\0"
    found = fat_object.read_symbols(view(data), ("sycl-armv8m", "sycl-armv8m.main-none"))
    assert found == {"sycl-armv8m.main-none": ["f"], "sycl-armv8m": ["f"]}


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0"])
def test_padding_is_no_symbol(data: bytes) -> None:
    assert fat_object.read_symbols(view(data)) == {}


def test_strings_of_another_kind_are_kept_under_no_target() -> None:
    assert fat_object.read_symbols(view(b"no point\0sycl.\0bad\xff.x\0cut")) == {
        "": ["no point", "sycl.", "cut"],
        "bad\\xff": ["x"],
    }


def test_the_symbols_of_one_id_are_given_as_they_are_stored() -> None:
    data = view(b"a.b\0a.\xff.c\0a.d.e\0ab.x\0a.\0a.b\0a.cut")
    assert fat_object.symbols_for_id(data, "a") == [b"b", b"\xff.c", b"d.e", b"b", b"cut"]
    assert fat_object.symbols_for_id(data, "a.d") == [b"e"]


def test_a_section_out_of_all_proportion_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fat_object, "_LARGEST", 5)
    data = view(b"a.b\0c.d\0")
    assert fat_object.read_symbols(data) == {}
    (found,) = TargetSymbols((data,)).unread()
    assert (found.code, found.message) == ("FP1005", "8 bytes of symbols are not read: more than 5")
    with pytest.raises(HostError, match="take 8 bytes, and no more than 5 are edited"):
        fat_object.without_ids(data, ["a"])


def test_no_more_symbols_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.IMAGES", 2)
    data = view(b"a.b\0a.c\0a.d\0")
    assert fat_object.read_symbols(data) == {"a": ["b", "c"]}
    (found,) = TargetSymbols((data, view(b"a.b\0a.c\0"))).unread()
    assert (found.code, found.message) == ("FP1005", "3 symbols; only the first 2 are listed")
    assert "raise fatpack.limits.IMAGES" in found.hint


def test_sections_are_read_together() -> None:
    assert TargetSymbols((view(b"a.b\0"), view(b"a.c\0"))).by_target() == {"a": ["b", "c"]}
    assert TargetSymbols().by_target() == {}


def test_a_linked_section_has_the_symbols_of_longer_names() -> None:
    data = view(b"sycl-spir64-unknown-unknown.a\0sycl-spir64_gen-unknown-unknown.b\0sycl-spir64.c\0")
    symbols = TargetSymbols((data,), only="sycl-spir64")
    assert symbols.by_target() == {"sycl-spir64-unknown-unknown": ["a"], "sycl-spir64": ["c"]}
