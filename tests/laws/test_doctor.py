"""The laws of ``doctor``: damage is found, healthy files are left alone, and it reports no less than a scan."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import jsonschema
import pytest
from tests.laws.rooms import FIXTURES, format_fixtures

import fatpack
from fatpack import formats
from fatpack.commands.doctor.check_file import examine_file
from fatpack.commands.doctor.model import VERIFIED
from fatpack.commands.doctor.text import render_diagnosis
from fatpack.model import Finding
from fatpack.scanner import scan
from fatpack.testing.helpers import damage_places, make_view
from fatpack.text.schemas import schema_text

#: Inputs that other commands were found to fail on: they have no code for a device.
HARMLESS = ("coff-symbols-end-early.obj", "odd-alignment.o", "no-strings-and-bytes-behind.bin")

#: Fixtures made by compilers. Others have a few letters instead of device code, which is damage.
HEALTHY = [
    *sorted((FIXTURES / "cuda_fatbin").glob("v1*_ident.fatbin")),
    FIXTURES / "cuda_fatbin" / "v130_size.fatbin",
    FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin",
    FIXTURES / "clang_bundle" / "llvm-22-empty-last.bundle",
    *sorted((FIXTURES / "elf").glob("*.o")),
    FIXTURES / "elf" / "lld-22-sycl.so",
    *sorted((FIXTURES / "kernels").glob("*.*o")),
    *sorted((FIXTURES / "kernels").glob("*.cubin")),
    *sorted((FIXTURES / "kpack").glob("*.kpack")),
    *sorted((FIXTURES / "macho").glob("clang-2*-cuda-*.o")),
    *sorted((FIXTURES / "tile_ir").glob("*.tileirbc")),
    FIXTURES / "cir" / "attribute.cir",
]


@pytest.mark.parametrize("path", sorted((FIXTURES / "fuzz").glob("*/*")), ids=lambda path: path.name)
def test_damaged_files_are_not_healthy(path: Path) -> None:
    found = fatpack.doctor(path)
    assert not found
    assert (found.verdict == "empty") is (path.name in HARMLESS), [item.text for item in found.findings]


#: Fixtures without evidence of registration: Mach-O files, whose code is not read, and a program without any.
UNJUDGED = (
    "lld-22-sycl.so",
    "clang-22-cuda-arm64.o",
    "clang-22-cuda-rdc-x86_64.o",
    "clang-22-openmp-gfx90a-aarch64.o",
    "clang-22-openmp-gfx90a.o",
)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
def test_healthy_files_are_healthy(path: Path) -> None:
    found = fatpack.doctor(path)
    verdict = "not judged" if path.name in UNJUDGED else "healthy"
    assert found.verdict == verdict, [item.text for item in found.findings]
    assert found.files == 1
    assert found.images or next(iter(render_diagnosis(found))).startswith(f"{verdict}: 1 file, 0 images")


@pytest.mark.parametrize(("name", "path"), format_fixtures(), ids=[path.name for _, path in format_fixtures()])
def test_doctor_says_at_least_what_a_scan_does(name: str, path: Path) -> None:
    """Every field of the headers is damaged, and here and there a byte of the rest."""
    data = path.read_bytes()
    view, room = make_view(data), formats.get_format(name)
    for at in damage_places(room.labels(view, room.parse(view)), 4)[:60]:
        broken = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        scanned = {item.code for item in scan(make_view(broken)) if isinstance(item, Finding)}
        notes = examine_file(make_view(broken)).notes
        assert scanned <= {item.code for item in notes.findings}, f"damaged at {at:#x}"
        assert {finding.severity for finding in notes.findings} >= {"error"} or not _is_damaged(broken), f"at {at:#x}"


def _is_damaged(data: bytes) -> bool:
    return any(isinstance(item, Finding) and item.severity == "error" for item in scan(make_view(data)))


def test_a_diagnosis_survives_a_round_through_json_and_pickle() -> None:
    found = fatpack.doctor([FIXTURES / "fuzz", FIXTURES / "elf", FIXTURES / "clang_bundle"])
    document = json.loads(found.to_json())
    jsonschema.validate(document, json.loads(schema_text("doctor")))
    assert document == found.to_dict()
    assert pickle.loads(pickle.dumps(found)) == found
    assert [row["what"] for row in document["verified"]] == list(VERIFIED)
    assert not found
    with pytest.raises(AttributeError):
        found.files = 0


def test_what_a_folder_says_is_what_its_files_say() -> None:
    folder = FIXTURES / "cuda_fatbin"
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".fatbin", ".so", ".o", ".obj", ".a"))
    together = fatpack.doctor(files)
    alone = [fatpack.doctor(path) for path in files]
    assert together.files == len(files)
    assert together.images == sum(found.images for found in alone)
    assert together.inflated == sum(found.inflated for found in alone)
    assert list(together.findings) == [item for found in alone for item in found.findings]
    assert together.exit_code == max(found.exit_code for found in alone)
