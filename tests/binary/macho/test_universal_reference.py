"""Universal files of llvm-lipo, also read by LIEF, llvm-lipo and llvm-objdump."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import package, run

from fatpack.binary import CodeSection
from fatpack.binary.macho import universal
from fatpack.io.open import open_source

pytestmark = pytest.mark.reference

TARGETS = {
    "arm64": "arm64-apple-macos13",
    "arm64e": "arm64e-apple-macos13",
    "x86_64": "x86_64-apple-macos13",
    "x86_64h": "x86_64h-apple-macos13",
    "i386": "i386-apple-macos10.6",
    "armv7": "armv7-apple-ios8",
    "armv7s": "armv7s-apple-ios8",
    "armv7k": "armv7k-apple-watchos2",
    "armv6m": "armv6m-apple-none-macho",
    "armv7m": "armv7m-apple-none-macho",
    "armv7em": "armv7em-apple-none-macho",
    "arm64_32": "arm64_32-apple-watchos5",
}
MADE = sorted(path for path in (FIXTURES / "universal").iterdir() if path.suffix != ".json")


def slices(path: Path) -> dict[str | None, tuple[int, bytes]]:
    with open_source(path) as source:
        found = [site for site in universal.locate(source.view()) if isinstance(site, CodeSection)]
        assert len({site.member for site in found}) == len(found)
        return {site.member: (site.data.start, site.data.tobytes()) for site in found}


def objdump(path: Path) -> dict[str, tuple[int, int]]:
    text = run("llvm-objdump", "--macho", "--universal-headers", path).stdout.decode()
    rows = re.findall(r"^architecture (\S+)$.*?offset (\d+)\n.*?size (\d+)$", text, re.MULTILINE | re.DOTALL)
    return {name: (int(offset), int(size)) for name, offset, size in rows}


@pytest.mark.parametrize("option", [[], ["-fat64"]], ids=["32", "64"])
def test_slices_are_those_that_lipo_put_together(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "x.c").write_text("int f(void) { return 1; }\n")
    for name, target in TARGETS.items():
        run("clang", f"--target={target}", "-c", tmp_path / "x.c", "-o", tmp_path / name)
    path = tmp_path / "x"
    run("llvm-lipo", "-create", *(tmp_path / name for name in TARGETS), *option, "-output", path)
    found = slices(path)
    assert {name: data for name, (_, data) in found.items()} == {
        name: (tmp_path / name).read_bytes() for name in TARGETS
    }
    assert {name: (start, len(data)) for name, (start, data) in found.items()} == objdump(path)
    archs = run("llvm-lipo", "-archs", path).stdout.decode().replace("thumb", "arm").split()  # LLVM's word for two
    assert archs == list(found)


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_slices_of_the_fixtures_are_those_that_others_read(path: Path, tmp_path: Path) -> None:
    for name, (_, data) in slices(path).items():
        run("llvm-lipo", "-thin", str(name), path, "-output", tmp_path / "thin")
        assert (tmp_path / "thin").read_bytes() == data


def test_lief_reads_the_same_slices() -> None:
    path = FIXTURES / "universal" / "llvm-22-two.o"
    fat = package("lief").MachO.parse(str(path))  # it owns the binaries
    found = [fat.at(number).fat_offset for number in range(fat.size)]
    assert found == [start for start, _ in slices(path).values()]
