"""What can never run is taken by no device with any driver: for every fixture, by the rules that ``explain`` uses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders.fatbin import of_words
from tests.laws.test_explain_and_slim import FILES, taken
from tests.reference import tool

import fatpack
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.io.source import BytesSource
from fatpack.tabular.columns import ImageRow
from fatpack.tabular.image_sets import ImageSet, read_image_sets
from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import select_image
from fatpack.targets.vocabulary import load_vocabulary

DEVICES = [
    *(Device("nvidia", arch.name) for arch in nvidia_capabilities()),
    *(Device("amd", line.name) for line in load_vocabulary().amd.values() if line.kind == "processor"),
]
SETTINGS = [RuntimeSettings(driver=driver) for driver in (None, (11, 0), (12, 4), (13, 0))]

#: dead by these rules, although no fixture was made for it
PACKED = ["90 90a p80 p90", "80 86 87 90a 90", "72 p72 p75", "60 p60 p60 p80", "121 121a 121a p121"]


def images_of(data: bytes) -> list[ImageRow]:
    return [row for row in fatpack.rows(data) if isinstance(row, ImageRow) and row.row == "image"]


def choices(data: bytes) -> list[set[str]]:
    """Return what each device with each driver takes of each container."""
    found = []
    for unit in read_image_sets(images_of(data)):
        if isinstance(unit, ImageSet) and unit.place.container is not None:
            for device in DEVICES:
                if device.vendor == unit.vendor:
                    found += [taken(unit, select_image(unit.candidates, device, one)) for one in SETTINGS]
    return found


def check(data: bytes) -> int:
    """Hold what rows call dead against what devices take; return how many images are dead."""
    dead = {row.position for row in images_of(data) if row.dead}
    if dead:
        assert not any(dead & one for one in choices(data))
    return len(dead)


def test_no_device_takes_what_is_dead_in_a_fixture() -> None:
    numbers = {path.name: check(path.read_bytes()) for path in FILES if path.suffix not in (".py", ".sh")}
    assert sum(map(bool, numbers.values())) > 2, numbers


@pytest.mark.parametrize("words", PACKED)
def test_rows_and_slim_name_the_same(words: str) -> None:
    data = of_words(words)
    assert check(data)
    rows = images_of(data)
    plan = plan_slim(BytesSource(data, "x.fatbin").view(), SlimOptions(drop_dead=True))
    assert {row.position for row in plan.dropped} == {row.position for row in rows if row.dead}
    after = b"".join(bytes(piece) if isinstance(piece, bytes) else piece.tobytes() for piece in plan.pieces)
    assert [row.label for row in images_of(after)] == [row.label for row in rows if not row.dead]
    assert not any(row.dead for row in images_of(after))
    assert not plan_slim(BytesSource(after, "x.fatbin").view(), SlimOptions(drop_dead=True)).dropped


def test_images_of_other_choosers_are_not_judged(tmp_path: Path) -> None:
    data = of_words("90 90a p80 p90")
    for name, count in (("libcublas.so.13", 0), ("libother.so", 1)):
        (tmp_path / name).write_bytes(data)
        assert sum(bool(row.dead) for row in fatpack.rows(tmp_path / name) if isinstance(row, ImageRow)) == count


_LINKED = """
        .section .nvFatBinSegment, "aw"
        .balign 8
        .4byte 0x466243b1, 2
        .8byte linked, prelinked
        .section .nv_fatbin, "a"
        .balign 8
linked: .incbin "linked.fatbin"
        .section __nv_relfatbin, "a"
        .balign 8
input:  .incbin "input.fatbin"
        .section .data.rel.ro, "aw"
        .balign 8
prelinked:
        .8byte input, 0
        .section .note.GNU-stack, "", @progbits
"""


@pytest.mark.parametrize(("words", "dead"), [("90", set()), ("90a", {"sm_90"})])
def test_what_is_linked_when_a_program_starts_lives_or_dies_together(
    tmp_path: Path, words: str, dead: set[str]
) -> None:
    (tmp_path / "linked.fatbin").write_bytes(of_words("90 90a"))
    (tmp_path / "input.fatbin").write_bytes(of_words(words))
    (tmp_path / "x.s").write_text(_LINKED)
    command = [tool("clang"), "-shared", "-fPIC", "-nostdlib", "-fuse-ld=lld", "x.s", "-o", "libx.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    rows = images_of((tmp_path / "libx.so").read_bytes())
    plan = plan_slim(BytesSource((tmp_path / "libx.so").read_bytes(), "libx.so").view(), SlimOptions(drop_dead=True))
    named = {row.position for row in rows if row.dead}
    assert {row.label for row in rows if row.dead} == dead
    assert {row.position for row in plan.dropped} == named
