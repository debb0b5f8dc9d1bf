"""``check`` accepts exactly the devices for which ``explain`` says "runs", for every file.

Where ``explain`` says unknown, ``check`` fails. Images that CIR holds are in units of ``check`` alone: no runtime sees
them. Of SYCL images ``check`` takes all of a file together.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import fatbin, offered
from tests.laws.rooms import FIXTURES
from tests.laws.test_explain_and_slim import FILES

import fatpack
from fatpack.commands.check.rule_context import supports
from fatpack.commands.explain.run import ExplainQuery, explain_rows
from fatpack.tabular.columns import ImageRow
from fatpack.tabular.file_image_sets import group_into_image_sets
from fatpack.targets.local_devices import parse_devices
from fatpack.targets.selection.runtime_settings import RuntimeSettings

DEVICES = parse_devices(("sm_75", "sm_87", "sm_90", "sm_103", "gfx90a", "gfx90a:xnack-", "gfx1031", "gfx1100", "pvc"))


def disagreements(rows: list[ImageRow]) -> tuple[list[str], int]:
    """Return where ``check`` and ``explain`` part, and how many answers were compared."""
    found = group_into_image_sets(
        [row for row in rows if row.row == "image" and row.container_format != "cir-offload-container"]
    )
    explained = explain_rows(rows, ["x"], ExplainQuery(DEVICES, RuntimeSettings()))
    wrong, compared = [], 0
    for device, said in zip(DEVICES, explained.devices, strict=True):
        own = [unit for unit in found if unit.vendor == device.vendor]
        answers = [supports(unit.offered, device).serves for unit in own]
        compared += len(own)
        checked = bool(answers) and all(answers)
        runs = said.runs > 0 and not said.fails and not said.unknown
        if checked != runs:
            text = f"check {answers}, explain {[(unit.outcome, unit.rule, unit.reason) for unit in said.units]}"
            wrong.append(f"{device.arch}: {text}")
    return wrong, compared


def rows_of(data: bytes | Path) -> list[ImageRow]:
    return list(fatpack.rows(data))


def test_of_every_fixture_they_say_the_same() -> None:
    found, compared = [], 0
    for path in FILES:
        wrong, count = disagreements(rows_of(path.read_bytes()))
        found += [f"{path.relative_to(FIXTURES)}: {text}" for text in wrong]
        compared += count
    assert not found
    assert compared > 200


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cuda", "80 86 p86 90 p90"),
        ("cuda", "80 87 p80"),
        ("cuda", "100 100a 100f 103 p100f p100"),
        ("cuda", "L80 L90"),
        ("cuda", "L90 80 p75 zstd"),
        ("hip", "gfx90a:xnack- gfx90a:xnack+ gfx1030 gfx10-3-generic amdgcnspirv"),
        ("hip", "gfx90a:xnack- gfx1100 ccob1"),
        ("hip", "gfx11-generic gfx1100 ccob3"),
        ("openmp", "gfx90a gfx90a:xnack+ gfx1031 gfx1100"),
        ("openmp", "75 80 90"),
        ("sycl", "spir64_gen:pvc spir64_gen:acm_g10 spir64"),
        ("sycl", "spir64_x86_64"),
        ("sycl", "nvptx64:sm_80"),
        ("kpack", "gfx90a gfx90a:xnack- gfx1100"),
    ],
)
def test_of_packed_containers_they_say_the_same(kind: str, words: str) -> None:
    wrong, compared = disagreements(rows_of(getattr(offered, kind)(words)))
    assert not wrong
    assert compared


def test_of_relocatable_ptx_they_say_the_same() -> None:
    text = fatbin.entry(fatbin.ptx(".visible .entry k() { ret; }", "8.0", "sm_80"), fatbin.RELOCATABLE_PTX, options=b"")
    wrong, compared = disagreements(rows_of(fatbin.fatbin(text)))
    assert not wrong
    assert compared
