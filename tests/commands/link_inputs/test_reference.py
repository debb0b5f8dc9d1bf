"""The groups of clang-linker-wrapper 22 and 23, over generated link lines."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.builders import link_lines
from tests.reference import llvm_tool, run

import fatpack
from fatpack.commands.link_inputs.input_files import LinkInputFiles
from fatpack.commands.link_inputs.link_line import parse_link_line
from fatpack.commands.link_inputs.plan import plan_link

#: what the device link of a target is called by its driver: triple, architecture, and the files that it links
Link = tuple[str, str, list[tuple[str, bytes]]]

_COMMAND = re.compile(
    r' "[^"]*clang(?:-\d+)?" --no-default-config -o .*? --target=(\S+)(?: -m(?:cpu|arch)=(\S+))? (.*)'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all objects, with bitcode, COFF objects and libraries of clang's and the linker's own."""
    path = tmp_path_factory.mktemp("link")
    link_lines.make_folder(path)
    (path / "x.c").write_text("int x;\n")
    for name, triple, options in (
        ("b", link_lines.X86, ["-emit-llvm"]),
        ("w", "x86_64-pc-windows-msvc", []),
        ("h", "s390x-unknown-linux-gnu", []),
    ):
        fatpack.pack(link_lines.images("q" if name == "b" else "n"), path / f"{name}.offload")
        embed = ["-Xclang", f"-fembed-offload-object={path / name}.offload"]
        run("clang", f"--target={triple}", "-c", path / "x.c", *options, *embed, "-o", path / f"{name}.o")
    (path / "start.s").write_text(".globl _start\n_start: ret\n")
    run("clang", "-c", path / "start.s", "-o", path / "start.o")
    run("ld.lld", "-static", path / "start.o", "-o", path / "program")
    run("ld.lld", "-shared", path / "start.o", "-o", path / "lib" / "libshared.so")
    for linked in (path / "program", path / "lib" / "libshared.so"):
        added = [f"--add-section=.llvm.offloading={path}/a.bin", "--set-section-type=.llvm.offloading=0x6fff4c0b"]
        run("llvm-objcopy", *added, linked)
    run("llvm-ar", "rcs", "--thin", "libthin.a", "p.o", "v.o", cwd=path)
    run("llvm-ar", "rcs", path / "lib" / "libmixed.a", path / "b.o", path / "w.o", path / "n.bin")
    run("llvm-ar", "rcs", path / "lib" / "libnested.a", path / "lib" / "libone.a", path / "s.o")
    return path


EXTRA = [
    "b.o",
    "w.o",
    "h.o",
    "lib/libshared.so",
    "libthin.a",
    "lib/libmixed.a",
    "-lshared",
    "-lmixed",
    "-lnested",
    "program",
]


def upstream(folder: Path, version: str, words: Sequence[str]) -> list[Link]:
    """Return the device links of clang-linker-wrapper: their targets, and names and bytes of the files of each."""
    command = [
        llvm_tool("clang-linker-wrapper", version),
        *("--dry-run", "--save-temps", "--linker-path=/bin/true", f"--host-triple={link_lines.X86}", "-o", "out"),
        *words,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode and "no-default-config" not in done.stderr:
        # Without images the tool has nothing to link, and says so by linking the host alone.
        pytest.fail(f"{' '.join(words)}: {done.stderr}")
    links = []
    for triple, arch, rest in _COMMAND.findall(done.stderr):
        files = [word for word in rest.split() if word.endswith(".o") and not word.startswith("-") and "-" in word]
        links.append((triple, arch, [(name, (folder / name).read_bytes()) for name in files]))
    return links


def ours(folder: Path, version: str, words: Sequence[str]) -> list[Link]:
    """Return the same of ours; files are named as clang-linker-wrapper would name them."""
    line = parse_link_line((), words)
    links = []
    with LinkInputFiles(line) as opened:
        made = plan_link(line, opened, version)
        for each in made.groups:
            files = []
            for device in each.devices:
                target = device.image.target
                stem = Path(device.member or made.inputs[device.input].path).stem
                files.append((f"{stem}-{target.triple}-{target.arch}.o", device.image.data.read(0, device.image.size)))
            arch = "" if each.target.arch == "generic" else each.target.arch
            links.append((each.target.triple, arch, files))
    return links


def _agree(folder: Path, version: str, seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    chance = random.Random(seed)
    linked = 0
    for _ in range(count):
        # QUIRK(clang-linker-wrapper 22): it keeps no copy of what --should-extract says, and forgets it now and then.
        words = link_lines.random_line(chance, EXTRA, asks=version != "22")
        expected = upstream(folder, version, words)
        assert ours(folder, version, words) == expected, words
        linked += len(expected)
    assert linked > count, f"{count} lines made {linked} device links: the comparison says nothing"


@pytest.mark.parametrize("version", ["22", "23"])
def test_a_few_lines_give_the_groups_of_clang_linker_wrapper(
    folder: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _agree(folder, version, 1, 12, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_lines_give_the_groups_of_clang_linker_wrapper(
    folder: Path, version: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _agree(folder, version, seed, 100, monkeypatch)
