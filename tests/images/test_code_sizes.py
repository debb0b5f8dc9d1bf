"""The sizes of kernels' code, read alone, against those that are read with all other facts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack import images, scan
from fatpack.errors import FormatError, Unsupported
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer

FOLDERS = ("cuda_fatbin", "kernels", "cuda", "clang_bundle")
FILES = sorted(path for folder in FOLDERS for path in (FIXTURES / folder).rglob("*") if path.is_file())


def views(path: Path) -> Iterator[View]:
    """Yield the file as an image, and the images of containers in it."""
    view = BytesSource(path.read_bytes(), path.name).view()
    yield view
    for item in scan(view.tobytes()):
        if isinstance(item, FoundContainer):
            for image in item.images:
                try:
                    yield BytesSource(image.data.tobytes(), path.name).view()
                except (FormatError, Unsupported):
                    pass


def test_sizes_alone_are_those_among_all_facts() -> None:
    seen: dict[str, int] = {}
    for view in chain.from_iterable(map(views, FILES)):
        form = images.identify_image(view).form
        try:
            facts = images.facts(view, form).kernels
        except FormatError:
            continue
        assert images.code_sizes(view, form) == {kernel.name: kernel.size for kernel in facts}, view.chain
        seen[form] = seen.get(form, 0) + len(facts)
    assert {"cubin", "ptx", "code-object"} <= {form for form, count in seen.items() if count}


def test_a_damaged_table_of_symbols_is_an_error() -> None:
    data = bytearray(next(path for path in FILES if path.suffix == ".cubin").read_bytes())
    data[0x28:0x30] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(FormatError, match=r"section table|header"):
        images.code_sizes(BytesSource(bytes(data)).view(), "cubin")
