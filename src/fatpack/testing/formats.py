"""The laws of formats, one function each. A broken law fails an assertion with advice.

``name`` is the JSON name of a format, whose module :func:`fatpack.formats.get_format` returns; ``data`` a file of
containers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path

import fatpack
from fatpack import formats
from fatpack.errors import FormatError, Unsupported
from fatpack.model import Container, Finding, Label
from fatpack.scanner import FoundContainer, scan
from fatpack.testing import helpers
from fatpack.testing.helpers import HUGE, join_pieces, make_view
from fatpack.writer_options import Options

#: Bits that are inverted: a number becomes odd or even, negative, or its complement.
CHANGES = (0x01, 0x80, 0xFF)

PARTS = ("DOC", "LAYOUTS", "detect", "extent", "parse", "write", "labels", "describe")


def read_all_containers(name: str, data: bytes) -> list[Container]:
    """Return all containers of a file with nothing else."""
    room, view, at, found = formats.get_format(name), make_view(data), 0, []
    while at < len(view) and room.detect(view, at):
        found.append(room.parse(view, at))
        at += found[-1].span.size
    return found


def read_all_labels(name: str, data: bytes) -> list[Label]:
    """Return the labels of all containers of a file with nothing else."""
    room, view = formats.get_format(name), make_view(data)
    return [label for container in read_all_containers(name, data) for label in room.labels(view, container)]


def assert_interface_complete(name: str) -> None:
    """Check that a module has every part of the interface."""
    room = formats.get_format(name)
    for part in PARTS:
        assert hasattr(room, part), f"the module of {name} lacks {part}; formats/__init__.py lists the interface"


def assert_info_complete(name: str) -> None:
    """Check that a module's DOC has its name, limitations and references."""
    doc = formats.get_format(name).DOC
    assert doc.name == name, f"DOC.name is {doc.name!r}, and the module is called {name!r}"
    assert doc.limitations, f"DOC of {name} has no limitation: state what the module does not do"
    assert doc.references, f"DOC of {name} has no reference: cite the sources of its facts"


def assert_roundtrip(name: str, model: Container, options: Options | None = None, known: Iterable[str] = ()) -> None:
    """Check that parse returns the model that was written, and that writing this gives the same bytes.

    ``known`` are the codes of findings that written containers may have.
    """
    room = formats.get_format(name)
    stored = join_pieces(room.write(model, options))
    found = read_all_containers(name, stored)
    assert found, "detect must recognise the output of write"
    again, lost = found[0], "parse must return the model that was written"
    assert again.version == model.version, f"{lost}: the version"
    assert [image.data.tobytes() for image in again.images] == [image.data.tobytes() for image in model.images], lost
    assert [image.target for image in again.images] == [image.target for image in model.images], lost
    assert [dict(image.attrs) for image in again.images] == [dict(image.attrs) for image in model.images], lost
    assert join_pieces(room.write(again)) == stored, "writing a parsed container must give the same bytes"
    wrong = [finding for finding in again.findings if finding.code not in known]
    assert wrong == [], "parse must find no problem in the output of write"


def assert_canonical_rewrite(name: str, data: bytes, file: str = "the file") -> None:
    """Check that a file of its producer is rewritten to the same bytes."""
    room = formats.get_format(name)
    containers = read_all_containers(name, data)
    assert containers, f"detect of {name} does not recognise {file}, which is a fixture of this module"
    again = b"".join(join_pieces(room.write(container)) for container in containers)
    assert again == data, (
        f"write must give {file} as its producer wrote it; the first difference is at "
        f"{_first_difference(again, data)}. Keep what distinguishes the two in the model."
    )


def _first_difference(one: bytes, other: bytes) -> str:
    at = next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), -1)
    return hex(at if at >= 0 else min(len(one), len(other)))


def assert_labels_cover_every_byte_once(name: str, data: bytes) -> None:
    """Check that the labels of the first container follow each other from its first byte to its last."""
    room, view = formats.get_format(name), make_view(data)
    container = room.parse(view)
    reached = 0
    for label in room.labels(view, container):
        assert label.span.start == reached, f"the label {label} must start at {reached:#x}: every byte has one label"
        assert label.span.end > reached, f"the label {label} is empty"
        reached = label.span.end
    assert reached == container.span.end, "labels must reach to the end of the container"


def assert_stray_bytes_kept(name: str, data: bytes) -> None:
    """Check that bytes in padding are kept when the container is written again, or reported."""
    room = formats.get_format(name)
    for container in read_all_containers(name, data):
        whole = make_view(data)
        for label in list(room.labels(whole, container)):
            if label.kind != "padding":
                continue
            filled = data[: label.span.start] + b"\xaa" + data[label.span.start + 1 :]
            try:
                again = room.parse(make_view(filled), container.span.start)
            except FormatError:
                continue
            findings = [item for item in scan(make_view(filled)) if isinstance(item, Finding)]
            assert again.unknown or again.findings or findings or join_pieces(room.write(again)) == filled, (
                f"a byte was put into the padding {label}: parse must keep it for write, or give a finding"
            )


def assert_damage_handled(name: str, data: bytes) -> None:
    """Parse, label and describe; any exception except a precise error breaks the law."""
    room, view = formats.get_format(name), make_view(data)
    try:
        container = room.parse(view)
    except FormatError as error:
        assert error.offset is not None, f"an error must have an offset: {error!r} has none"
        assert error.format == name, f"an error must name the format: {error!r} says {error.format!r}"
        assert error.chain[0] == "test", f"an error must name the source first: {error!r} names {error.chain}"
        assert not error.__cause__ or "plug-in" not in error.problem, f"the module itself failed: {error}"
        return
    except Unsupported:
        return
    labelled = sum(label.span.size for label in room.labels(view, container))
    assert labelled == container.span.size, f"labels cover {labelled} bytes of {container.span.size}"
    room.describe(container)
    for image in container.images:
        try:
            data = image.data.tobytes()
        except (FormatError, Unsupported) as error:  # an image that is decompressed when it is read
            assert error.chain[0] == "test", f"an error must name the source first: {error!r} names {error.chain}"
        else:
            assert len(data) == image.size, f"an image says it has {image.size} bytes and gives {len(data)}"


def scan_damaged(name: str, data: bytes) -> list[FoundContainer | Finding]:
    """Check the law of damage, and return the results of a scan, which must not fail either."""
    assert_damage_handled(name, data)
    return list(scan(make_view(data)))


def assert_truncation_reported(name: str, data: bytes, size: int) -> None:
    """Check the law of damage for the first ``size`` bytes, and that a scan of them is not silent."""
    items = scan_damaged(name, data[:size])
    assert items or size < 24 or not formats.format_by_magic(data[:size]), (
        f"cut after {size} bytes, the file still starts like {name}: the scan must give a container or a finding"
    )


def flip_bits(data: bytes, at: int, change: int) -> bytes:
    """Return the bytes with some bits of one of them inverted."""
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


def assert_memory_bounded(name: str, data: bytes, cases: Iterable[tuple[int, int]]) -> None:
    """Check that no memory is allocated for a number: ``cases`` are positions, and the numbers to put there."""
    helpers.assert_memory_within(data, cases, lambda damaged: assert_damage_handled(name, damaged), "parse")


def huge_number_cases(places: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Return cases for :func:`assert_memory_bounded`: a huge number for each place, in turn."""
    return zip(places, cycle(HUGE))


def assert_intact_container_found(name: str, data: bytes) -> None:
    """Check that damage to a container does not hide the one after it."""
    first = read_all_containers(name, data)[0].span.size
    magic = next(magic for magic in formats.MAGICS if data.startswith(magic))
    for at in range(len(magic), min(first, 200)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        items = list(scan(make_view(bytes(damaged) + data)))
        spans = [item.view.span() for item in items if isinstance(item, FoundContainer)]
        assert any(span.start == len(data) for span in spans), (
            f"with the byte at {at:#x} of the first container inverted, the intact one after it at {len(data):#x} is "
            f"not found: `extent` must not claim bytes beyond a damaged header, and its magic must be in MAGICS"
        )
    extent = formats.get_format(name).extent(make_view(data))
    assert extent == first, f"extent gives {extent} bytes for an intact container of {first}"


def assert_containers_between_rubbish_found(name: str, data: bytes, expected: Sequence[str] = ("FP1002",)) -> None:
    """Check that containers after other bytes and after zeros are found; ``expected`` are the codes for these bytes."""
    number = len([item for item in scan(make_view(data)) if isinstance(item, FoundContainer)])
    items = list(scan(make_view(data + b"rubbish!" + data + bytes(64) + data)))
    found = len([item for item in items if isinstance(item, FoundContainer)])
    assert found == 3 * number, f"three times {number} containers with other bytes between them: the scan finds {found}"
    codes = [item.code for item in items if isinstance(item, Finding) and item.severity != "note"]
    assert codes == list(expected), f"the bytes between are {list(expected)}; the scan gives {codes}"


_PROGRAM = """
import sys
from pathlib import Path
from fatpack import formats
from fatpack.testing.formats import read_all_containers
from fatpack.testing.helpers import join_pieces

formats.add_plugins()
for path in sys.argv[2:]:
    for container in read_all_containers(sys.argv[1], Path(path).read_bytes()):
        sys.stdout.buffer.write(join_pieces(formats.get_format(sys.argv[1]).write(container)))
"""


def assert_output_reproducible(name: str, files: Sequence[Path]) -> None:
    """Check that the same input gives the same bytes under another hash seed and in another folder."""
    room = formats.get_format(name)
    outputs = {
        b"".join(
            join_pieces(room.write(each)) for path in files for each in read_all_containers(name, path.read_bytes())
        )
    }
    paths = [str(path.resolve()) for path in files]
    search = os.pathsep.join([str(Path(fatpack.__file__).parents[1]), *sys.path])
    for seed in ("1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": search}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, name, *paths], env=environment, capture_output=True, check=True, cwd="/"
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1, (
        "write gives other bytes with another hash seed or in another folder: sort the items of sets, and use "
        "neither time, path nor id()"
    )
    assert outputs.pop(), "the fixtures of this module have no container"


def assert_layouts_agree_with_construct(name: str) -> None:
    """Check that the struct reader and construct's, which come from one table, read the same."""
    for layout in formats.get_format(name).LAYOUTS:
        record = bytes(range(1, layout.size + 1))
        values = layout.read(make_view(record), 0)
        parsed = layout.construct().parse(record)
        mine = {field.name: value for field, value in zip(layout.fields, values, strict=True)}
        theirs = {field.name: parsed[field.name] for field in layout.fields}
        assert theirs == mine, f"layout {layout.name}: construct reads other values than Layout.read"
        assert layout.construct().build(parsed) == layout.pack(*values) == record, f"layout {layout.name}: packing"
