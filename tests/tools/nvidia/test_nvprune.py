"""The stand-in for nvprune where it is on its own: what the original refuses, crashes on, or prunes too much of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.builders import archive
from tests.builders.elf import ALLOC, Elf
from tests.builders.fatbin import LTOIR, PTX, TILE_IR, cubin, entry, fatbin, ptx
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import __version__
from fatpack.commands.slim.keep_for_device import arch_label
from fatpack.io.open import open_source
from fatpack.scanner import FoundContainer, scan
from fatpack.tools.nvidia.nvprune import OPTIONS

Fatpack = Callable[..., Ran]

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"

NONE_LEFT = "nvprune warning : No device code that matched architecture, so stripped out all device code\n"


@pytest.fixture
def prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Fatpack:
    """Run the stand-in in an empty folder, with the output ``out``."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: fatpack("tool", "nvprune", *arguments, "-o", "out")


def code(*names: str) -> bytes:
    """Return a fat binary: a cubin for each ``sm_NN``, PTX for each ``compute_NN``, LTO-IR for each ``lto_NN``."""
    entries = []
    for name in names:
        kind, _, number = name.partition("_")
        sm, flags = int(number.rstrip("af")), {"a": 0x100011, "f": 0x200011}.get(number[-1], 0x11)
        image = cubin(sm) if kind == "sm" else ptx(target=f"sm_{number}") if kind == "compute" else b"IR" * 32
        entries.append(entry(image, {"sm": 2, "compute": PTX, "lto": LTOIR, "tile": TILE_IR}[kind], sm=sm, flags=flags))
    return fatbin(*entries)


def host(**sections: bytes) -> bytes:
    elf = Elf()
    elf.add(".text", b"\xc3")
    for name, data in sections.items():
        elf.add({"executable": ".nv_fatbin", "relocatable": "__nv_relfatbin"}[name], data, flags=ALLOC, align=8)
    return elf.build()


def left(path: str | Path = "out") -> list[list[str]]:
    """Return what is in each fat binary of a file."""
    with open_source(path) as source:
        found = [item for item in scan(source.view()) if isinstance(item, FoundContainer)]
        return [[arch_label(image) for image in item.images] for item in found]


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--help"], ["-h", "-V"]])
def test_the_help_names_every_option(prune: Fatpack, arguments: list[str]) -> None:
    ran = prune(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("\nUsage  : nvprune [options] <object>\n")
    assert [option.name for option in OPTIONS if option.help and f"\n--{option.name} " not in ran.out] == []


def test_the_version_says_what_this_is(prune: Fatpack) -> None:
    assert prune("-V") == (0, f"nvprune: fatpack {__version__}, standing in for nvprune of CUDA 12.4\n", "")


@pytest.mark.parametrize("name", ["libtwo.so", "libtwo.stripped.so", "clang_win.dll"])
def test_linked_libraries_are_pruned(prune: Fatpack, name: str) -> None:
    before = left(HOSTS / name)
    stays = before[0][0]
    ran = prune(HOSTS / name, f"-arch={stays}")
    assert ran.code == 0
    assert left() == [[each for each in images if each == stays] for images in before]
    assert Path("out").stat().st_size <= (HOSTS / name).stat().st_size


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o644])
def test_what_can_be_run_stays_so(prune: Fatpack, mode: int) -> None:
    shutil.copy(HOSTS / "libtwo.so", "program")
    Path("program").chmod(mode)
    assert prune("program", "-arch=sm_90").code == 0
    assert bool(Path("out").stat().st_mode & 0o100) is (mode != 0o644)


def test_what_became_of_the_bytes_of_a_library_is_reported(prune: Fatpack) -> None:
    ran = prune(HOSTS / "librel.so", "-arch=sm_90")
    assert ran.code == 0
    assert ran.err.startswith("nvprune info    : file size unchanged, the freed bytes were zeroed")


def test_objects_of_windows_are_pruned(prune: Fatpack) -> None:
    before = left(HOSTS / "clang_win.obj")
    stays = before[0][-1]
    assert prune(HOSTS / "clang_win.obj", f"-arch={stays}") == (0, "", "")
    assert left() == [[stays]] != before


def test_files_of_fat_binaries_and_those_in_archives_are_pruned(prune: Fatpack) -> None:
    Path("a.fatbin").write_bytes(code("sm_80", "sm_90"))
    assert prune("a.fatbin", "-arch=sm_80") == (0, "", "")
    assert left() == [["sm_80"]]
    members = [archive.member(b"a.o/", host(executable=code("sm_80", "sm_90"))), archive.member(b"t/", b"text")]
    Path("a.a").write_bytes(archive.GNU + b"".join(members))
    assert prune("a.a", "-arch=sm_80", "-v") == (0, "", "prune a.a:a.o\nprune a.a:t\n")
    assert left() == [["sm_80"]]


@pytest.mark.parametrize(("more", "stays"), [([], ["sm_80"]), (["-no-relocatable-elf"], [])])
def test_both_sections_of_an_object_are_pruned(prune: Fatpack, more: list[str], stays: list[str]) -> None:
    both = code("sm_75", "sm_80")
    Path("a.o").write_bytes(host(relocatable=both, executable=both))
    assert prune("a.o", "-arch=sm_80", *more) == (0, "", "")
    assert left() == [stays, ["sm_80"]]


@pytest.mark.parametrize(
    ("codes", "stays"),
    [
        ("[sm_75,sm_86]", ["sm_75", "sm_80", "sm_86", "compute_70", "compute_86"]),
        ("[sm_86,sm_75]", ["sm_75", "sm_80", "sm_86", "compute_70", "compute_86"]),
        ("sm_90", ["sm_90", "sm_90a", "compute_70", "compute_86", "compute_90a"]),
        ("[sm_103,compute_86]", ["sm_100f", "compute_70", "compute_86"]),
    ],
)
def test_what_runs_on_any_of_the_architectures_stays_with_ipc(prune: Fatpack, codes: str, stays: list[str]) -> None:
    names = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100f", "compute_70", "compute_86", "compute_90a")
    Path("a.o").write_bytes(host(executable=code(*names)))
    assert prune("a.o", "-gencode", f"code={codes}", "-ipc").code == 0
    assert left() == [stays]


@pytest.mark.parametrize(
    ("arch", "stays"),
    [("sm_80", ["sm_80"]), ("lto_80", ["lto_80"]), ("sm_100", ["sm_100"]), ("sm_100f", ["sm_100f"])],
)
def test_code_that_the_original_does_not_know_stays_by_its_name(prune: Fatpack, arch: str, stays: list[str]) -> None:
    Path("a.o").write_bytes(host(executable=code("sm_80", "lto_80", "tile_80", "sm_100", "sm_100f")))
    assert prune("a.o", f"-arch={arch}") == (0, "", "")
    assert left() == [stays]


@pytest.mark.parametrize("codes", [["-arch", "foo"], ["-arch=80"], ["-gencode", "code=[sm_80,sm-90]"]])
def test_a_slip_of_the_pen_strips_nothing(prune: Fatpack, codes: list[str]) -> None:
    Path("a.o").write_bytes(host(executable=code("sm_80")))
    name = codes[-1].rpartition("=")[2].rpartition(",")[2].rstrip("]")
    assert prune("a.o", *codes) == (1, "", f"nvprune fatal   : Unknown arch name '{name}'\n")
    assert not Path("out").exists()


def test_blanks_in_a_list_of_architectures_do_not_matter(prune: Fatpack) -> None:
    Path("a.o").write_bytes(host(executable=code("sm_75", "sm_80", "sm_90")))
    assert prune("a.o", "-gencode", "code=[ sm_75 , sm_80 ]") == (0, "", "")
    assert left() == [["sm_75", "sm_80"]]


def test_a_file_without_code_for_the_architecture_keeps_none(prune: Fatpack) -> None:
    Path("a.o").write_bytes(host(executable=code("sm_80")))
    assert prune("a.o", "-arch=sm_75") == (0, "", NONE_LEFT)
    assert left() == [[]]


@pytest.mark.parametrize("content", [b"", b"text\n" * 9, b"PK\5\6" + bytes(18)], ids=["empty", "text", "zip"])
def test_what_is_no_host_is_refused(prune: Fatpack, content: bytes) -> None:
    Path("a.x").write_bytes(content)
    assert prune("a.x", "-arch=sm_80") == (1, "", "nvprune fatal   : Unrecognized file 'a.x'\n")
    assert not Path("out").exists()


def test_damage_is_reported_and_changes_the_exit_code(prune: Fatpack) -> None:
    broken = bytearray(code("sm_80"))
    broken[16 + 4] = 0xFF  # the header's size of the entry
    Path("a.o").write_bytes(host(executable=code("sm_75", "sm_80") + bytes(broken)))
    ran = prune("a.o", "-arch=sm_80")
    assert ran.code == 1
    assert " at 0x" in ran.err


def test_a_folder_is_no_input_and_no_output(prune: Fatpack, fatpack: Fatpack) -> None:
    assert prune(".", "-arch=sm_80") == (1, "", "nvprune fatal   : Could not open input file '.'\n")
    Path("a.o").write_bytes(host(executable=code("sm_80")))
    ran = fatpack("tool", "nvprune", "a.o", "-arch=sm_80", "-o", os.curdir)
    assert ran == (1, "", "nvprune fatal   : Could not open output file '.'\n")


def test_a_file_is_pruned_in_its_place(prune: Fatpack, fatpack: Fatpack) -> None:
    Path("a.o").write_bytes(host(executable=code("sm_75", "sm_80")))
    assert fatpack("tool", "nvprune", "a.o", "-arch=sm_80", "-o", "a.o").code == 0
    assert left("a.o") == [["sm_80"]]


@pytest.mark.parametrize("name", ["-", "é.o", "a b.o"])
def test_odd_names_are_names_of_files(prune: Fatpack, fatpack: Fatpack, name: str) -> None:
    Path(name).write_bytes(host(executable=code("sm_75", "sm_80")))
    assert fatpack("tool", "nvprune", name, "-arch=sm_80", "-o", "-").code == 0
    assert left("./-") == [["sm_80"]]


def test_code_in_other_formats_and_places_stays(prune: Fatpack) -> None:
    names: Sequence[str] = ("sm_75", "sm_80")
    elf = Elf()
    elf.add(".other", code(*names), flags=ALLOC, align=8)
    Path("a.o").write_bytes(elf.build())
    assert prune("a.o", "-arch=sm_80") == (0, "", NONE_LEFT)
    assert Path("out").read_bytes() == Path("a.o").read_bytes()
    container = FIXTURES / "offload_binary" / "llvm-22-four.bin"
    assert prune(container, "-arch=sm_80") == (0, "", NONE_LEFT)
    assert Path("out").read_bytes() == container.read_bytes()
