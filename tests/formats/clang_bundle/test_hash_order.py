"""The order of LLVM's map, compared with the tool in test_reference.py."""

from __future__ import annotations

from fatpack.formats.clang_bundle.text_reader import llvm_order, positions_in_llvm_order


def test_duplicates_are_listed_once_where_the_last_one_is() -> None:
    assert sorted(positions_in_llvm_order([b"a", b"b", b"a"])) == [1, 2]


def test_the_map_grows_and_keeps_every_key() -> None:
    keys = [b"key%d" % number for number in range(1000)]
    order = llvm_order(keys)
    assert sorted(order) == sorted(keys)
    assert order != keys
    assert llvm_order([]) == []
