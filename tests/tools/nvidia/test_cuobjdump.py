"""The stand-in for cuobjdump where it is on its own: what it refuses, and what the original cannot do."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.builders import archive
from tests.builders.elf import ALLOC, Elf
from tests.builders.fatbin import PTX, entry, fatbin, ptx
from tests.conftest import Ran
from tests.formats.cuda_fatbin.test_parse import DAMAGED, GROUPS
from tests.laws.rooms import FIXTURES

from fatpack import __version__
from fatpack.tools.nvidia.cuobjdump import listing
from fatpack.tools.nvidia.cuobjdump.options import OPTIONS

Fatpack = Callable[..., Ran]

CUBIN = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin").read_bytes()
OTHER = (FIXTURES / "cuda" / "cubin" / "tiny.cuda11.8.sm_80.cubin").read_bytes()
TEXT = ptx()

#: an entry behind the damaged one of a file
LAST = entry(CUBIN, identifier=b"last.cu")


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Fatpack:
    """Run the stand-in in an empty folder; its path in messages becomes ``@``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ran:
        ran = fatpack("tool", "cuobjdump", *arguments)
        return Ran(ran.code, *(stream.replace(str(tmp_path), "@") for stream in ran[1:]))

    return run


def write(name: str, *entries: bytes) -> str:
    Path(name).write_bytes(fatbin(*entries))
    return name


@pytest.mark.parametrize("arguments", [[], ["-lelf"], ["a", "b"], ["--help"], ["-h", "-V"]])
def test_the_help_names_every_option(dump: Fatpack, arguments: list[str]) -> None:
    ran = dump(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("\nUsage  : cuobjdump [options] <file>\n")
    assert [option.name for option in OPTIONS if f"\n--{option.name} " not in ran.out] == []


def test_the_version_says_what_this_is(dump: Fatpack) -> None:
    assert dump("-V") == (0, f"cuobjdump: fatpack {__version__}, standing in for cuobjdump of CUDA 13.5\n", "")


def test_sections_are_refused_with_what_shows_them(dump: Fatpack) -> None:
    write("a.fatbin", entry(CUBIN))
    message = "cuobjdump fatal   : Option 'dump-elf' is not offered by fatpack: use the toolkit's cuobjdump\n"
    assert dump("-elf", "a.fatbin") == (1, "", message)
    assert dump("--dump-elf", "-lelf", "a.fatbin").code == 0


def disassembler(folder: str, end: str = "") -> None:
    """Make a program in nvdisasm's place that prints its name and options."""
    Path(folder).mkdir()
    program = Path(folder) / "nvdisasm"
    program.write_text(f'#!/bin/sh\necho {folder}; shift; echo "$@"; {end}\n')
    program.chmod(0o755)


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Take away whatever nvdisasm the machine has."""
    monkeypatch.setenv("PATH", "nowhere")
    monkeypatch.delenv("NVDISASM_PATH", raising=False)
    return monkeypatch


HEADING = dedent(
    """
    Fatbin elf code:
    ================
    arch = sm_80
    code version = [1,8]
    host = linux
    compile_size = 64bit

    \tcode for sm_80
    """
)


@pytest.mark.skipif(os.name == "nt", reason="the programs are scripts")
def test_nvdisasm_is_looked_for_where_the_original_looks(dump: Fatpack, fatpack: Fatpack, lonely: Any) -> None:
    write("a.fatbin", entry(CUBIN))
    for folder in ("path", "beside", "named"):
        disassembler(folder)
    lonely.setenv("PATH", f"nowhere{os.pathsep}path{os.pathsep}{os.defpath}")
    assert dump("-sass", "a.fatbin") == (0, f"{HEADING}path\n-pb -hex -novliw\n", "")
    ran = fatpack("tool", "beside/cuobjdump", "-sass", "-sort", "a.fatbin")
    assert ran == (0, f"{HEADING}beside\n-pb -hex -novliw -sort\n", "")
    lonely.setenv("NVDISASM_PATH", "named")
    assert fatpack("tool", "beside/cuobjdump", "-sass", "a.fatbin").out == f"{HEADING}named\n-pb -hex -novliw\n"


def test_where_nvdisasm_is_not_the_message_says_where_to_get_it(dump: Fatpack, lonely: Any) -> None:
    write("a.fatbin", entry(CUBIN), entry(CUBIN))
    ran = dump("-sass", "a.fatbin")
    assert (ran.code, ran.out) == (1, HEADING)
    assert ran.err.startswith(
        "cuobjdump fatal   : Could not find executable file 'nvdisasm'; you can try adding path to "
    )
    assert "nvidia-cuda-nvdisasm of PyPI" in ran.err


@pytest.mark.skipif(os.name == "nt", reason="the program is a script")
@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -9 $$", 1)])
def test_where_nvdisasm_fails_all_ends(dump: Fatpack, lonely: Any, end: str, code: int) -> None:
    write("a.fatbin", entry(CUBIN), entry(CUBIN))
    disassembler("bin", end)
    lonely.setenv("PATH", f"bin{os.pathsep}{os.defpath}")
    ran = dump("-sass", "a.fatbin")
    assert (ran.code, ran.out.count("code for"), ran.err) == (code, 1, "")


@pytest.mark.parametrize("arch", ["sm_20", "sm_35", "sm_52a", "sm_999f"])
def test_architectures_that_the_original_does_not_know_can_be_asked_for(dump: Fatpack, arch: str) -> None:
    number = int(arch[3:].rstrip("af"))
    write("a.fatbin", entry(TEXT, PTX, sm=number, options=b""), entry(TEXT, PTX, sm=80, options=b""))
    assert dump("-lptx", "-arch", arch, "a.fatbin") == (0, f"PTX file    1: a.1.sm_{number}.ptx\n", "")


@pytest.mark.parametrize("arch", ["sm_", "sm_a", "sm_90af", "sm_9_0", "compute_90", "90", "", "sm_\u0663"])
def test_what_is_no_architecture_is_refused(dump: Fatpack, arch: str) -> None:
    message = f"cuobjdump fatal   : Value '{arch}' is not defined for option 'gpu-architecture'\n"
    assert dump("-arch", arch, "a.fatbin") == (1, "", message)


def test_text_without_options_is_listed(dump: Fatpack) -> None:
    write("a.fatbin", entry(TEXT, PTX), LAST)
    assert dump("-lptx", "-lelf", "a.fatbin").out == "PTX file    1: a.1.sm_80.ptx\nELF file    1: last.sm_80.cubin\n"
    assert dump("-xptx", "all", "a.fatbin").out.endswith("a.1.sm_80.ptx -arch=sm_80\n")


def test_images_with_one_name_are_all_written(dump: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_BATCH", 2)  # names of earlier files are remembered
    same = [entry(data, identifier=b"k.cu") for data in (CUBIN, OTHER, CUBIN)]
    write("a.fatbin", *same, entry(OTHER, identifier=b"k.2.cu"))
    names = ["k.sm_80.cubin", "k.2.sm_80.cubin", "k.3.sm_80.cubin", "k.2.2.sm_80.cubin"]
    lines = [f"Extracting ELF file    {number}: {name}\n" for number, name in enumerate(names, 1)]
    assert dump("-xelf", "all", "a.fatbin") == (0, "".join(lines), "")
    assert [Path(name).read_bytes() for name in names] == [CUBIN, OTHER, CUBIN, OTHER]
    assert len(list(Path().iterdir())) == 5


def test_functions_with_one_name_are_all_written(dump: Fatpack) -> None:
    write("a.fatbin", entry(CUBIN), entry(CUBIN))
    ran = dump("-xtext", "add_one", "a.fatbin")
    assert ran.out.splitlines()[1] == "Extracting SASS text section 6 : x-add_one.2.sm_80.elf.bin"
    assert Path("x-add_one.2.sm_80.elf.bin").read_bytes() == Path("x-add_one.sm_80.elf.bin").read_bytes()


@pytest.mark.parametrize(
    ("identifier", "name", "shown"),
    [
        (b"../../../up.cu", "up", "up"),
        (b"/etc/passwd", "passwd", "passwd"),
        (b"a\n\x1b[31m.cu", "a\n\x1b[31m", r"a\n\x1b[31m"),
        (b"a\tb.cu", "a\tb", r"a\tb"),
        (b"\xff.cu", "\udcff", r"\udcff"),
        (b"a\0/../b.cu", "a", "a"),
        ("é.cu".encode(), "é", "é"),
    ],
)
def test_no_identifier_leads_out_of_the_folder_or_drives_the_terminal(
    dump: Fatpack, identifier: bytes, name: str, shown: str
) -> None:
    write("a.fatbin", entry(CUBIN, identifier=identifier))
    assert dump("-xelf", "all", "a.fatbin") == (0, f"Extracting ELF file    1: {shown}.sm_80.cubin\n", "")
    assert sorted(path.name for path in Path().iterdir()) == sorted(["a.fatbin", f"{name}.sm_80.cubin"])


def test_an_older_file_is_replaced(dump: Fatpack) -> None:
    Path("k.sm_80.cubin").write_text("old")
    assert dump("-xelf", "all", write("a.fatbin", entry(CUBIN, identifier=b"k"))).code == 0
    assert Path("k.sm_80.cubin").read_bytes() == CUBIN


def test_the_first_file_that_cannot_be_written_ends_it(dump: Fatpack) -> None:
    Path("b.sm_80.cubin").mkdir()
    write("a.fatbin", *(entry(CUBIN, identifier=stem) for stem in (b"a", b"b", b"c")))
    ran = dump("-xelf", "all", "-xptx", "all", "a.fatbin")
    assert ran.out == "Extracting ELF file    1: a.sm_80.cubin\n"
    assert (ran.code, ran.err) == (1, "cuobjdump fatal   : File 'b.sm_80.cubin' could not be opened\n")


def test_the_input_is_never_overwritten(dump: Fatpack) -> None:
    write("k.sm_80.cubin", entry(CUBIN, identifier=b"k"))
    before = Path("k.sm_80.cubin").read_bytes()
    ran = dump("-xelf", "all", "k.sm_80.cubin")
    assert (ran.code, ran.err) == (1, "cuobjdump fatal   : File 'k.sm_80.cubin' could not be opened\n")
    assert Path("k.sm_80.cubin").read_bytes() == before


def test_archives_are_read_beyond_members_that_are_no_objects(dump: Fatpack) -> None:
    elf = Elf()
    elf.add(".nv_fatbin", fatbin(entry(CUBIN)), flags=ALLOC, align=8)
    members = [(b"notes.txt", b"text, text, text, text"), (b"k.cubin", OTHER), (b"k.fatbin", fatbin(LAST))]
    members.append((b"host.o", elf.build()))
    lines = ["", "member @/a.a:k.cubin:", "ELF file    1: a.1.sm_80.cubin", "", "member @/a.a:k.fatbin:"]
    lines += ["ELF file    2: last.sm_80.cubin", "", "member @/a.a:host.o:", "ELF file    3: a.3.sm_80.cubin", ""]
    gnu = b"".join(archive.member(name + b"/", data) for name, data in members)
    bsd = b"".join(archive.bsd_member(name, data) for name, data in members)
    for content in (gnu, bsd):
        Path("a.a").write_bytes(archive.GNU + content)
        assert dump("-lelf", "a.a") == (0, "\n".join(lines), "")


def test_a_path_with_blanks_gives_all_names_the_same_start(dump: Fatpack) -> None:
    Path("my dir").mkdir()
    write("my dir/x.fatbin", entry(CUBIN), entry(OTHER))
    out = dump("-lelf", "my dir/x.fatbin").out
    assert out == "ELF file    1: my-x.1.sm_80.cubin\nELF file    2: my-x.2.sm_80.cubin\n"


def test_a_pipe_is_read(dump: Fatpack) -> None:
    os.mkfifo("pipe")
    data = fatbin(entry(CUBIN))
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(data))
    writer.start()
    assert dump("-lelf", "pipe") == (0, "ELF file    1: pipe.1.sm_80.cubin\n", "")
    writer.join()


@pytest.mark.parametrize("name", [*DAMAGED, *GROUPS])
def test_damage_is_reported_and_the_rest_is_read(dump: Fatpack, name: str) -> None:
    damaged = (DAMAGED | GROUPS)[name][0]
    Path("a.fatbin").write_bytes(fatbin(damaged) + fatbin(LAST))
    for options in (["-lelf", "-lptx"], [], ["-ltext"], ["-res-usage", "-symbols", "-ptx"], ["-xelf", "last"]):
        ran = dump(*options, "a.fatbin")
        assert ran.code in (0, 1)
        assert ("fatal" in ran.err) == (ran.code == 1)
        assert "last" in ran.out, options


@pytest.mark.parametrize("size", [1, 15, 16, 17, 63, 79, 80, 81, 200, 1000, 5000, 7663])
def test_a_cut_file_is_reported(dump: Fatpack, size: int) -> None:
    whole = fatbin(entry(CUBIN, identifier=b"cut.cu"))
    Path("a.fatbin").write_bytes(whole[:size])
    for options in (["-lelf"], [], ["-res-usage"], ["-xelf", "all"]):
        ran = dump(*options, "a.fatbin")
        assert (ran.code, ran.err.splitlines()[-1]) == (1, "cuobjdump fatal   : Invalid fatbin header in '@/a.fatbin'")
    assert [path.name for path in Path().iterdir()] == ["a.fatbin"]


@pytest.mark.parametrize("size", [64, 1000, len(CUBIN) // 2, len(CUBIN) - 1])
def test_a_cut_cubin_is_reported(dump: Fatpack, size: int) -> None:
    Path("a.cubin").write_bytes(CUBIN[:size])
    for options in (["-lelf"], [], ["-res-usage"], ["-ltext"], ["-xelf", "all"]):
        ran = dump(*options, "a.cubin")
        assert (ran.code, ran.out) == (1, "")
        assert re.search(rf"a.cubin: its headers describe \d+ bytes, and {size} are there\n", ran.err)
        assert ran.err.splitlines()[-1] == "cuobjdump fatal   : Invalid ELF in '@/a.cubin'"
    assert [path.name for path in Path().iterdir()] == ["a.cubin"]


def test_bytes_after_the_last_fat_binary_are_reported(dump: Fatpack) -> None:
    for more, is_told in ((bytes(15), False), (bytes(16), True), (b"x" * 15, False), (b"x" * 16, True)):
        Path("a.fatbin").write_bytes(fatbin(LAST) + more)
        ran = dump("-lelf", "a.fatbin")
        assert (ran.code, ran.out) == (is_told, "ELF file    1: last.sm_80.cubin\n")
        assert ran.err.startswith("cuobjdump warning : 16 bytes at ") == is_told


@pytest.mark.parametrize("gap", [bytes(8), bytes(12), bytes(64), b"x", b"x" * 24], ids=repr)
def test_a_fat_binary_is_found_after_any_gap(dump: Fatpack, gap: bytes) -> None:
    Path("a.fatbin").write_bytes(fatbin(entry(CUBIN, identifier=b"first")) + gap + fatbin(LAST))
    assert dump("-lelf", "a.fatbin").out == "ELF file    1: first.sm_80.cubin\nELF file    2: last.sm_80.cubin\n"


def _rows(data: bytes, prefix: bytes) -> list[int]:
    """Return where the section headers lie whose names start so."""
    table, size, count, names = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HHH", data, 58))
    strings = struct.unpack_from("<Q", data, table + names * size + 24)[0]
    rows = range(table, table + count * size, size)
    return [row for row in rows if data.startswith(prefix, strings + struct.unpack_from("<I", data, row)[0])]


def test_code_that_overlaps_is_not_multiplied(dump: Fatpack) -> None:
    data = bytearray(CUBIN)
    for row in _rows(CUBIN, b".text."):
        struct.pack_into("<QQ", data, row + 24, 0, len(data))
    Path("a.cubin").write_bytes(data)
    ran = dump("-xtext", "all", "a.cubin")
    assert (ran.code, ran.out.count("\n")) == (1, 1)
    assert "overlaps that of other functions" in ran.err
    assert ran.err.endswith("cuobjdump fatal   : Invalid ELF in '@/a.cubin'\n")


@pytest.mark.parametrize("at", [40, 58, 60, 62], ids=["table", "row size", "rows", "names"])
@pytest.mark.parametrize("value", [0, 1, 0x7FFF, 0xFFFF])
def test_damaged_tables_of_a_cubin_are_reported(dump: Fatpack, at: int, value: int) -> None:
    data = bytearray(CUBIN)
    struct.pack_into("<H", data, at, value)
    write("a.fatbin", entry(bytes(data), identifier=b"first"), LAST)
    for options in (["-ltext"], ["-res-usage"], ["-symbols"], ["-lelf"]):
        ran = dump(*options, "a.fatbin")
        assert ran.code in (0, 1)
        assert ("fatal" in ran.err) == (ran.code == 1)
        assert "last" in ran.out


def test_an_entry_that_copies_something_else_is_believed_less_than_its_cubin(dump: Fatpack) -> None:
    accelerated = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90a.cubin").read_bytes()
    write("a.fatbin", entry(accelerated, sm=90, options=b"O3"))  # in the place where a copy of .nv.compat may be
    assert dump("-lelf", "a.fatbin") == (0, "ELF file    1: a.1.sm_90a.cubin\n", "")


def test_output_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "a.fatbin").write_bytes(fatbin(entry(CUBIN, identifier="é.cu".encode())))
    program = f"import sys; sys.path[:] = {sys.path!r}; from fatpack.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "tool", "cuobjdump", "-xelf", "all", "a.fatbin"]
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == "Extracting ELF file    1: é.sm_80.cubin\n".encode()
    assert (tmp_path / "é.sm_80.cubin").read_bytes() == CUBIN
