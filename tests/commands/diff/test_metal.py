"""Comparison of Metal libraries by the names of their functions, and libraries inside of programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.builders import macho, metal

from fatpack.main import main

ONE, TWO = metal.KERNELS
THREE: metal.Function = ("new", 2, metal.VERSIONS)


def changes(capsys: pytest.CaptureFixture[str], old: Path, new: Path) -> tuple[int, list[tuple[str, str]]]:
    code = main(["diff", "--json", str(old), str(new)])
    libraries = json.loads(capsys.readouterr().out)["libraries"]
    found = [
        (item["kind"], item["name"]) for one in libraries for arch in one["archs"] for item in arch["kernels"] or ()
    ]
    return code, found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((ONE, TWO), (ONE, TWO), []),
        ((ONE, TWO), (ONE,), [("lost", "mul_f32")]),
        ((ONE,), (ONE, TWO), [("added", "mul_f32")]),
        # The bitcode of the second function is the same: only the list says that it has another name.
        ((ONE, TWO), (ONE, THREE), [("lost", "mul_f32"), ("added", "new")]),
        ((ONE, TWO), (TWO, ONE), [("changed", "add_f32"), ("changed", "mul_f32")]),
        ((ONE, ONE), (ONE,), [("lost", "add_f32")]),
    ],
)
def test_functions_are_compared_by_name_and_bitcode(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    old: tuple[metal.Function, ...],
    new: tuple[metal.Function, ...],
    expected: list[tuple[str, str]],
) -> None:
    for name, functions in (("old", old), ("new", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.metallib").write_bytes(metal.library(functions))
    code, found = changes(capsys, tmp_path / "old" / "x.metallib", tmp_path / "new" / "x.metallib")
    assert (code, sorted(found)) == (bool(expected), sorted(expected))


def test_the_order_of_functions_is_no_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = metal.library()
    start = data.index(b"NAME") - 4
    size = int.from_bytes(data[start : start + 4], "little")
    groups = data[start + size : start + 2 * size] + data[start : start + size]
    (tmp_path / "old.metallib").write_bytes(data)
    (tmp_path / "new.metallib").write_bytes(metal.library(group=groups))
    assert changes(capsys, tmp_path / "old.metallib", tmp_path / "new.metallib") == (0, [])


@pytest.mark.parametrize(("name", "before"), [(b"__metallib", 0), (b"__const", 32), (b"__data", 8)])
def test_a_library_in_a_section_of_a_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: bytes, before: int
) -> None:
    library = metal.library()
    sections = [macho.Section(b"__TEXT", b"__text", bytes(64)), macho.Section(b"__TEXT", name, bytes(before) + library)]
    program = tmp_path / "program"
    program.write_bytes(macho.build(sections))
    assert main(["inspect", "--json", str(program)]) == 0
    (container,) = json.loads(capsys.readouterr().out)["files"][0]["containers"]
    assert (container["format"], len(container["images"])) == ("metal-library", 2)
    assert main(["check", "--require", "macos14", str(program)]) == 0
    assert main(["extract", "-d", str(tmp_path / "out"), str(program)]) == 0
    assert len(list((tmp_path / "out").glob("*.air"))) == 2
    capsys.readouterr()
    bare = tmp_path / "bare.metallib"
    bare.write_bytes(library)
    assert main(["diff", str(bare), str(program)]) == 0
    program.write_bytes(macho.build([*sections[:1], sections[1]._replace(data=bytes(before) + metal.library((ONE,)))]))
    assert main(["diff", str(bare), str(program)]) == 1
    assert "kernels: 1 lost\n    lost  mul_f32\n" in capsys.readouterr().out


def test_a_wrong_hash_inside_of_a_program_has_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    library = bytearray(metal.library())
    library[-1] ^= 1
    program = tmp_path / "program"
    program.write_bytes(macho.build([macho.Section(b"__TEXT", b"__metallib", bytes(library))]))
    at = program.read_bytes().rindex(metal.BITCODE)
    for command in ("inspect --verify", "doctor"):
        assert main([*command.split(), str(program)]) == 3
        assert f"error FP2602 at {at:#x}: HASH of mul_f32" in capsys.readouterr().out
    assert main(["check", "--verify", str(program)]) == 3
    assert "HASH of mul_f32" in capsys.readouterr().out
