"""The laws of every format room (docs/design/architecture.md)."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from itertools import cycle, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws.damage import HUGE, places, some, starts
from tests.laws.rooms import FORMATS, cases, fixtures, format_fixtures, joined, successive_fixtures, view_of, walk

from fatpack import formats
from fatpack.errors import FormatError, Unsupported
from fatpack.model import Finding, Label
from fatpack.scanner import Found, scan

ROOMS = sorted(formats.ROOMS)
FIXTURE_IDS = [f"{name}-{path.name}" for name, path in format_fixtures()]
each_room = pytest.mark.parametrize("name", ROOMS)
SUCCESSIVE_IDS = [f"{name}-{path.name}" for name, path in successive_fixtures()]
each_fixture = pytest.mark.parametrize(("name", "path"), format_fixtures(), ids=FIXTURE_IDS)
each_successive = pytest.mark.parametrize(("name", "path"), successive_fixtures(), ids=SUCCESSIVE_IDS)
#: Bits that are inverted: a number becomes odd or even, negative, or another altogether.
CHANGES = (0x01, 0x80, 0xFF)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def test_every_room_has_cases() -> None:
    missing, gone = sorted(set(ROOMS) - FORMATS.keys()), sorted(FORMATS.keys() - set(ROOMS))
    assert not missing, f"tests/laws/rooms.py: give FORMATS an entry for {missing}; the laws need models and fixtures"
    assert not gone, f"tests/laws/rooms.py: FORMATS has an entry for {gone}, which is no format in formats.ROOMS"


def test_every_room_has_fixtures() -> None:
    for name in FORMATS:
        folder = cases(name).fixtures
        assert folder.is_dir(), f"{name}: put small real files into {folder}"
        assert fixtures(folder), f"{name}: {folder} holds no file that the laws could read"


@each_room
def test_the_door_is_complete(name: str) -> None:
    room = formats.room(name)
    for part in ("DOC", "LAYOUTS", "detect", "extent", "parse", "write", "labels", "describe"):
        assert hasattr(room, part), f"{room.__name__} lacks {part}; formats/__init__.py lists what a door must have"


@each_room
def test_the_card_is_honest_and_the_page_exists(name: str) -> None:
    doc = formats.room(name).DOC
    assert doc.name == name, f"DOC.name is {doc.name!r}, and formats.ROOMS calls this room {name!r}"
    assert doc.limitations, f"DOC of {name} states no limitation: say what it does not do"
    assert doc.references, f"DOC of {name} cites nothing: say where its facts are written"
    page = Path(__file__).parents[2] / "docs" / "formats" / f"{name}.md"
    assert page.exists(), f"{page.name} is missing: run make docs"
    stale = [limitation for limitation in doc.limitations if limitation not in page.read_text(encoding="utf-8")]
    assert not stale, f"docs/formats/{page.name} lacks {stale}: run make docs"


@each_room
@relaxed
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    room = formats.room(name)
    model = data.draw(cases(name).models)
    stored = joined(room.write(model, data.draw(cases(name).options)))
    found = walk(name, stored)
    assert found, "detect must recognise what write has written"
    again, lost = found[0], "parse must give back what write was given"
    assert again.version == model.version, f"{lost}: the version"
    assert [image.data.tobytes() for image in again.images] == [image.data.tobytes() for image in model.images], lost
    assert [image.target for image in again.images] == [image.target for image in model.images], lost
    assert [dict(image.attrs) for image in again.images] == [dict(image.attrs) for image in model.images], lost
    assert joined(room.write(again)) == stored, "writing what was read must give the same bytes"
    wrong = [finding for finding in again.findings if finding.code not in cases(name).findings]
    assert wrong == [], "parse must find nothing wrong with what write has written"


@each_fixture
def test_a_canonical_file_is_rewritten_to_the_same_bytes(name: str, path: Path) -> None:
    room = formats.room(name)
    containers = walk(name, path.read_bytes())
    assert containers, f"detect of {name} does not recognise {path.name}, which is a fixture of this room"
    again = b"".join(joined(room.write(container)) for container in containers)
    assert again == path.read_bytes(), (
        f"write must give {path.name} as its producer wrote it; the first difference is at "
        f"{_first_difference(again, path.read_bytes())}. Keep what distinguishes the two in the model."
    )


def _first_difference(one: bytes, other: bytes) -> str:
    at = next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), -1)
    return hex(at if at >= 0 else min(len(one), len(other)))


@each_room
@relaxed
@given(data=st.data())
def test_labels_cover_every_byte_once(name: str, data: st.DataObject) -> None:
    room = formats.room(name)
    view = view_of(_drawn(name, data))
    container = room.parse(view)
    reached = 0
    for label in room.labels(view, container):
        assert label.span.start == reached, f"the label {label} must start at {reached:#x}: every byte has one label"
        assert label.span.end > reached, f"the label {label} is empty"
        reached = label.span.end
    assert reached == container.span.end, "labels must reach to the end of the container"


@each_fixture
def test_bytes_that_belong_to_nothing_are_never_dropped_in_silence(name: str, path: Path) -> None:
    """What lies in padding is kept when the container is written again, or reported."""
    room, data = formats.room(name), path.read_bytes()
    for container in walk(name, data):
        whole = view_of(data)
        for label in list(room.labels(whole, container)):
            if label.kind != "padding":
                continue
            filled = data[: label.span.start] + b"\xaa" + data[label.span.start + 1 :]
            try:
                again = room.parse(view_of(filled), container.span.start)
            except FormatError:
                continue
            findings = [item for item in scan(view_of(filled)) if isinstance(item, Finding)]
            assert again.unknown or again.findings or findings or joined(room.write(again)) == filled, (
                f"a byte was put into the padding {label}: parse must keep it for write, or give a finding"
            )


@each_room
@relaxed
@given(data=st.data())
def test_any_damage_gives_a_result_or_a_format_error(name: str, data: st.DataObject) -> None:
    stored = bytearray(_drawn(name, data))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    _parse_or_refuse(name, bytes(stored))


def _drawn(name: str, data: st.DataObject) -> bytes:
    """Return a drawn container, written with drawn options."""
    return joined(formats.room(name).write(data.draw(cases(name).models), data.draw(cases(name).options)))


def _parse_or_refuse(name: str, data: bytes) -> None:
    """Parse, label and describe; anything but a result or a precise error fails the test."""
    room, view = formats.room(name), view_of(data)
    try:
        container = room.parse(view)
    except FormatError as error:
        assert error.offset is not None, f"an error must say where: {error!r} has no offset"
        assert error.format == name, f"an error must say in which format: {error!r} says {error.format!r}"
        assert error.chain[0] == "test", f"an error must name the source first: {error!r} names {error.chain}"
        return
    except Unsupported:
        return
    labelled = sum(label.span.size for label in room.labels(view, container))
    assert labelled == container.span.size, f"labels cover {labelled} bytes of {container.span.size}"
    room.describe(container)
    for image in container.images:
        try:
            data = image.data.tobytes()
        except (FormatError, Unsupported) as error:  # an image that is inflated when it is read
            assert error.chain[0] == "test", f"an error must name the source first: {error!r} names {error.chain}"
        else:
            assert len(data) == image.size, f"an image says it has {image.size} bytes and gives {len(data)}"


def _labels(name: str, data: bytes) -> list[Label]:
    room, view = formats.room(name), view_of(data)
    return [label for container in walk(name, data) for label in room.labels(view, container)]


def _use(name: str, data: bytes) -> list[Found | Finding]:
    """Parse and scan; return what the scan found."""
    _parse_or_refuse(name, data)
    return list(scan(view_of(data)))


def _cut(name: str, data: bytes, size: int) -> None:
    items = _use(name, data[:size])
    assert items or size < 24 or not formats.sniff(data[:size]), (
        f"cut after {size} bytes, the file still starts like {name}: the scan must give a container or a finding"
    )


@each_fixture
def test_truncations_give_a_result_or_a_format_error(name: str, path: Path) -> None:
    data = path.read_bytes()
    for size in some(places(_labels(name, data), 200), 60, path.name):
        _cut(name, data, size)


@each_fixture
def test_flipped_bytes_give_a_result_or_a_format_error(name: str, path: Path) -> None:
    data = path.read_bytes()
    for at, change in zip(some(places(_labels(name, data), 100), 100, path.name), cycle(CHANGES), strict=False):
        _use(name, _flipped(data, at, change))


def _flipped(data: bytes, at: int, change: int) -> bytes:
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


@each_fixture
@pytest.mark.slow
def test_every_byte_may_be_damaged_or_be_the_last(name: str, path: Path) -> None:
    data = path.read_bytes()
    for at in range(len(data)):
        _cut(name, data, at)
        for change in CHANGES:
            _use(name, _flipped(data, at, change))


def _memory_with_huge_numbers(name: str, data: bytes, cases: Iterable[tuple[int, int]]) -> None:
    """Put numbers at places; nothing may be allocated for them."""
    _parse_or_refuse(name, data)  # imports and caches are not the file's fault
    tracemalloc.start()
    try:
        for start, value in cases:
            _parse_or_refuse(name, data[:start] + value.to_bytes(8, "little") + data[start + 8 :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    most = (8 << 20) + 64 * len(data)
    assert peak < most, (
        f"a number in the file made parse allocate {peak} bytes, at most {most} are allowed: "
        f"compare each size with the bytes that are there before anything is read or allocated"
    )


@each_fixture
def test_memory_is_bounded_by_the_bytes_present(name: str, path: Path) -> None:
    data = path.read_bytes()
    _memory_with_huge_numbers(
        name, data, zip(some(starts(_labels(name, data), len(data), 30), 24, path.name), cycle(HUGE))
    )


@each_fixture
@pytest.mark.slow
def test_memory_is_bounded_whatever_number_is_huge(name: str, path: Path) -> None:
    data = path.read_bytes()
    _memory_with_huge_numbers(name, data, product(range(0, len(data) - 7, 4), HUGE))


@each_successive
def test_an_intact_container_behind_a_damaged_one_is_found(name: str, path: Path) -> None:
    good = path.read_bytes()
    room = formats.room(name)
    first = walk(name, good)[0].span.size
    magic = next(magic for magic in formats.MAGICS if good.startswith(magic))
    for at in range(len(magic), min(first, 200)):
        damaged = bytearray(good)
        damaged[at] ^= 0xFF
        items = list(scan(view_of(bytes(damaged) + good)))
        spans = [item.view.span() for item in items if isinstance(item, Found)]
        assert any(span.start == len(good) for span in spans), (
            f"with the byte at {at:#x} of the first container inverted, the intact one behind it at {len(good):#x} is "
            f"not found: `extent` must not claim bytes beyond a header that is damaged, and its magic must be in MAGICS"
        )
    extent = room.extent(view_of(good))
    assert extent == first, f"extent gives {extent} bytes for an intact container of {first}"


@each_successive
def test_several_containers_with_rubbish_between_are_all_found(name: str, path: Path) -> None:
    good = path.read_bytes()
    number = len([item for item in scan(view_of(good)) if isinstance(item, Found)])
    items = list(scan(view_of(good + b"rubbish!" + good + bytes(64) + good)))
    found = len([item for item in items if isinstance(item, Found)])
    assert found == 3 * number, f"three times {number} containers with other bytes between them: the scan finds {found}"
    codes = [item.code for item in items if isinstance(item, Finding) and item.severity != "note"]
    # LLVM refuses zeros between offload binaries, and reads all other containers behind them.
    expected = ["FP1002", "FP1007"] if name == "llvm-offload-binary" else ["FP1002"]
    assert codes == expected, f"the bytes between are {expected}; the scan gives {codes}"


@each_room
def test_output_does_not_depend_on_the_run(name: str) -> None:
    """The same input gives the same bytes under another hash seed and in another folder."""
    outputs = {_written(name)}
    root = Path(__file__).parents[2]
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fatpack import formats\n"
        "from fatpack.io.source import View\nfrom fatpack.io.sources.memory import BytesSource\n"
        "room = formats.room(sys.argv[1])\n"
        "for path in sys.argv[2:]:\n"
        "    view, at = BytesSource(Path(path).read_bytes(), 'test').view(), 0\n"
        "    while at < len(view) and room.detect(view, at):\n"
        "        container = room.parse(view, at)\n"
        "        at += container.span.size\n"
        "        for piece in room.write(container):\n"
        "            sys.stdout.buffer.write(piece.tobytes() if isinstance(piece, View) else piece)\n"
    )
    paths = [str(path) for path in fixtures(cases(name).fixtures)]
    for seed in ("1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root / "src")}
        done = subprocess.run(
            [sys.executable, "-c", program, name, *paths], env=environment, capture_output=True, check=True, cwd="/"
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1, (
        "write gives other bytes with another hash seed or in another folder: sort what comes out of a set, and use "
        "neither time, path nor id()"
    )
    assert outputs.pop(), "the fixtures of this room hold no container"


def _written(name: str) -> bytes:
    """Return all fixtures of a room, read and written again."""
    room = formats.room(name)
    read = (walk(name, path.read_bytes()) for path in fixtures(cases(name).fixtures))
    return b"".join(joined(room.write(container)) for containers in read for container in containers)


@each_room
def test_layouts_agree_with_construct(name: str) -> None:
    """The struct reader and the construct oracle come from one table; they must read the same."""
    for layout in formats.room(name).LAYOUTS:
        record = bytes(range(1, layout.size + 1))
        values = layout.read(view_of(record), 0)
        parsed = layout.construct().parse(record)
        mine = {field.name: value for field, value in zip(layout.fields, values, strict=True)}
        theirs = {field.name: parsed[field.name] for field in layout.fields}
        assert theirs == mine, f"layout {layout.name}: construct reads other values than Layout.read"
        assert layout.construct().build(parsed) == layout.pack(*values) == record, f"layout {layout.name}: packing"
