"""Comparison of programs of GCC's offloading: other accelerators, other GCCs, the same program."""

from __future__ import annotations

import json

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main

GCC = FIXTURES / "gcc"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("p.acc.amd", "p.acc.amd", [("gfx803", 0, 0, 0)]),
        ("p.acc.amd", "gcc14.acc.amd", [("gfx803", 1, 0, 0), ("gfx900:xnack-", 0, 1, 0)]),
        ("p.acc.nv", "gcc14.acc.nv", [("sm_30", 0, 0, 1)]),
        ("p.acc.nv", "p.acc.amd", [("gfx803", 0, 1, 0), ("sm_30", 1, 0, 0)]),
    ],
)
def test_programs_are_compared_by_their_images(
    old: str, new: str, expected: list[tuple[str, int, int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["diff", "--json", str(GCC / old), str(GCC / new)])
    libraries = json.loads(capsys.readouterr().out)["libraries"]
    archs = [arch for library in libraries for arch in library["archs"]]
    assert [(arch["arch"], arch["lost"], arch["added"], arch["changed"]) for arch in archs] == expected
    assert code == (old != new)
