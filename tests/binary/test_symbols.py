"""Files without symbols in archives, and files whose symbols are not supported."""

from __future__ import annotations

import pytest

from fatpack.binary.symbols import archive_symbols
from fatpack.errors import Unsupported
from fatpack.io.source import BytesSource


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ELF",
        b".version 8.0",
        b"\x03\x02\x23\x07" + bytes(60),
        b"\x07\x23\x02\x03" + bytes(60),
        b"!<arch>\n",
        b"\x10\xff\x10\xad" + bytes(60),
        b"__CLANG_OFFLOAD_BUNDLE__" + bytes(60),
        b"CCOB" + bytes(60),
        b"\x50\xed\x55\xba" + bytes(60),
        b"\xed\x43\x4e\x7f" + bytes(60),
    ],
    ids=repr,
)
def test_files_that_are_no_objects_have_no_symbols(data: bytes) -> None:
    assert archive_symbols(BytesSource(data).view()) is None


def test_a_container_of_directx_counts_as_an_object() -> None:
    found = archive_symbols(BytesSource(b"DXBC" + bytes(60)).view())
    assert found is not None
    assert not list(found)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\xcf\xfa\xed\xfe" + bytes(28), "Mach-O"),
        (b"\xfe\xed\xfa\xce" + bytes(28), "Mach-O"),
        (b"\0asm\1\0\0\0", "WebAssembly"),
        (b"\x01\xdf" + bytes(18), "XCOFF"),
        (b"\x03\xf0\0" + bytes(77), "GOFF"),
    ],
)
def test_formats_that_are_not_read_are_refused(data: bytes, name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        archive_symbols(BytesSource(data, "x").view())
