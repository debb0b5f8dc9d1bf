"""The fast parser of a container gives the same as the general one, for intact and damaged containers.

Formats read files as their producers write them by their numbers alone, and make records on request. Both ways
are taken of every fixture, with each byte of its headers changed in turn: they must agree on every field and finding.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.effort import some

from fatpack import formats
from fatpack.errors import FormatError, Unsupported
from fatpack.formats.clang_bundle import fast_path as bundle
from fatpack.formats.cuda_fatbin import fast_path as fatbin
from fatpack.formats.offload_binary import fast_path as offload_binary
from fatpack.io.source import BytesSource, View
from fatpack.record import Record, is_pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FIXTURES = Path(__file__).parents[1] / "fixtures"

#: format → what reads it the quick way
QUICK = {"cuda-fatbin": fatbin, "clang-offload-bundle": bundle, "llvm-offload-binary": offload_binary}

#: Bytes that are changed: headers and tables of small containers. Fixtures and containers in them that are looked at.
FLIPPED, MOST, LARGEST = 320, 12, 60_000


def samples(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield a label and the bytes of containers of a format in the fixtures, of each file the first."""
    magics = [magic for magic, format in formats.MAGICS.items() if format == name]
    for path in sorted(FIXTURES.rglob("*")):
        if not path.is_file() or path.stat().st_size > LARGEST or path.suffix == ".json":
            continue
        data = path.read_bytes()
        at = min((place for magic in magics if (place := data.find(magic)) >= 0), default=-1)
        size = formats.get_format(name).extent(BytesSource(data).view(), at) if at >= 0 else None
        if size:
            yield path.name, data[at : at + size]


def plain(value: Any) -> Any:
    """Return a value as data that can be compared: of a view, which bytes it means."""
    if isinstance(value, View):
        return ("view", value.start, value.end, value.chain, value.source.size, value.source.is_at_hand)
    if isinstance(value, Record):
        return (type(value).__name__, *(plain(getattr(value, field)) for field in type(value)._fields))
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if hasattr(value, "items") else value


def told(name: str, data: bytes) -> Any:
    """Return what parsing tells: the container, or the error."""
    view = BytesSource(data, "x").view()
    try:
        return plain(formats.get_format(name).parse(view, 0))
    except (FormatError, Unsupported) as error:
        return str(error)


@pytest.mark.parametrize("name", QUICK)
def test_both_ways_tell_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick: ModuleType = QUICK[name]
    taken = 0
    cases = []
    for label, data in samples(name):
        cases += [(label, data), (f"{label} twice", data + data)]
        if taken < MOST and quick.read_fast(BytesSource(data).view(), 0) is not None:
            taken += 1
            for place in some(range(min(FLIPPED, len(data)))):
                cases += [(f"{label}: {place:#x} ^ {mask}", changed(data, place, mask)) for mask in (0x01, 0x80)]
            cases += [(f"{label} cut at {end:#x}", data[:end]) for end in range(0, min(FLIPPED, len(data)), 3)]
    assert taken > 1, "of hardly any fixture"
    quickly = [told(name, data) for _, data in cases]
    with monkeypatch.context() as patch:
        patch.setattr(quick, "read_fast", lambda view, at: None)
        for (label, data), expected in zip(cases, quickly, strict=True):
            assert expected == told(name, data), label


def changed(data: bytes, place: int, mask: int) -> bytes:
    """Return bytes with some bits of one of them changed."""
    return data[:place] + bytes((data[place] ^ mask,)) + data[place + 1 :]


def test_what_is_made_late_is_made_once_and_equals_what_is_given() -> None:
    views = ((label, BytesSource(data).view()) for label, data in samples("cuda-fatbin"))
    label, container = next((label, found) for label, view in views if (found := fatbin.read_fast(view, 0)) is not None)
    image = container.images[0]
    assert is_pending(image), label
    assert image.size
    assert is_pending(image)
    assert image.data is image.record.data  # type: ignore[attr-defined]
    assert not is_pending(image)
    assert image == image.replace()
    with pytest.raises(AttributeError, match="'Image' object has no attribute 'bytes'"):
        _ = image.bytes  # type: ignore[attr-defined]
