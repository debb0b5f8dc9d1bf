"""``slim --drop-dead`` (docs/dead-code.md) of a library that nvcc made: removed images, and the proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

pytestmark = pytest.mark.reference

SOURCE = """
__global__ void first(float *p) { p[threadIdx.x] *= 3; }
void launch(float *p) { first<<<1, 32>>>(p); }
"""

#: Hopper's plain code beside its own, and PTX that nothing compiles: 9.0, 10.0, 12.0 and later ones have better
CODES = (
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
    "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]",
    "-gencode=arch=compute_100,code=[sm_100,compute_100]",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dead")
    (folder / "one.cu").write_text(SOURCE)
    reference.run("nvcc", *CODES, "-Xcompiler=-fPIC", "-c", "one.cu", "-o", "one.o", cwd=folder)
    reference.run("g++", "-shared", "one.o", "-o", "libone.so", cwd=folder)
    return folder / "libone.so"


def test_rows_say_why(library: Path) -> None:
    found = {row.label: row.dead for row in fatpack.rows(library)}
    assert {label: why for label, why in found.items() if why} == {
        "sm_90": "beaten",
        "compute_90": "covered",
        "compute_90a": "covered",
    }


def test_what_goes_is_proved(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, proof = tmp_path / "libone.so", tmp_path / "proof.json"
    options = ["--lossless", "--drop-dead", "-o", str(result), "--certificate", str(proof), "--json"]
    assert main(["slim", str(library), *options]) == 0
    dropped = json.loads(capsys.readouterr().out)["files"][0]["dropped_by_arch"]
    assert dropped == {"sm_90": 1, "compute_90": 1, "compute_90a": 1}
    assert main(["slim", "--verify", str(library), str(result)]) == 0
    listed = reference.run("cuobjdump", "-lelf", result).stdout.decode()
    assert [f".{arch}." in listed for arch in ("sm_90", "sm_90a", "sm_100")] == [False, True, True]
    assert result.stat().st_size < library.stat().st_size
    for device in ("sm_90", "sm_100", "sm_103", "sm_120"):
        before, after = (fatpack.explain(path, device=device) for path in (library, result))
        assert (before.exit_code, after.exit_code) == (0, 0)


def test_the_library_and_the_command_do_the_same(library: Path, tmp_path: Path) -> None:
    made = fatpack.slim(library, tmp_path / "y.so", drop_dead=True)
    assert made.dropped == {"sm_90": 1, "compute_90": 1, "compute_90a": 1}
    assert main(["slim", str(library), "--drop-dead", "-o", str(tmp_path / "z.so")]) == 0
    assert (tmp_path / "y.so").read_bytes() == (tmp_path / "z.so").read_bytes()


def test_images_of_openmp_that_another_always_beats_are_zeroed(tmp_path: Path) -> None:
    images = []
    for arch in ("gfx942", "gfx942:xnack+", "gfx1100"):
        path = FIXTURES / "kernels" / f"attn_fwd.v6.{arch.partition(':')[0]}.hsaco"
        images.append(f"--image=file={path},triple=amdgcn-amd-amdhsa,arch={arch}")
    assert main(["wrap", "--kind", "openmp", *images, "-o", str(tmp_path / "w.o")]) == 0
    library, result = tmp_path / "libw.so", tmp_path / "slim.so"
    reference.run("gcc", "-shared", tmp_path / "w.o", "-o", library, "-Wl,--unresolved-symbols=ignore-all")
    found = {row.arch: row.dead for row in fatpack.rows(library) if row.row == "image"}
    assert found == {"gfx942": None, "gfx942:xnack+": "beaten", "gfx1100": None}
    made = fatpack.slim(library, result, drop_dead=True)
    assert made.dropped == {"gfx942:xnack+": 1}
    assert main(["slim", "--verify", str(library), str(result)]) == 0
    assert not any(row.dead for row in fatpack.rows(result))
