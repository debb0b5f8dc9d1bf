"""``fatpack normalize``: two builds become one file, and nothing but free fields changes."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.builders.fatbin import PTX, entry, fatbin
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.normalize.fields import NAME, TIME
from fatpack.commands.normalize.request import plan_normalize
from fatpack.errors import FormatError, HostError, UsageError
from fatpack.io.source import BytesSource

Command = Callable[..., Ran]

SOURCE = """
__device__ int counter;
extern "C" __global__ void add(int *p) { p[threadIdx.x] += atomicAdd(&counter, 1); }
void start(int *p) { add<<<1, 32>>>(p); }
"""

#: what is built → options of nvcc, the kinds of fields that differ between builds, and the exit code
WAYS = {
    "k.o": (["-c"], {NAME}, 0),
    "lines.o": (["-c", "-lineinfo"], {NAME}, 0),
    "relocatable.o": (["-dc"], {NAME}, 0),
    "debug.cubin": (["-cubin", "-G"], {NAME}, 0),
    "whole.o": (["-c", "-G", "-no-compress"], {NAME}, 0),
    "packed.o": (["-c", "-G"], {NAME}, 1),
}


def built(folder: Path, name: str, options: list[str], time: int) -> Path:
    """Return what nvcc makes of the source in a folder, with a time for the source."""
    folder.mkdir(exist_ok=True)
    source = folder / "k.cu"
    source.write_text(SOURCE)
    os.utime(source, (time, time))
    command = [reference.tool("nvcc"), "-arch=sm_80", *options, "k.cu", "-o", name]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / name).rename(folder.parent / f"{time}-{name}")


def normal(data: bytes) -> tuple[fatpack.NormalizeResult, bytes]:
    """Return the result and the bytes of a normalized file."""
    output = io.BytesIO()
    return fatpack.normalize(data, output), output.getvalue()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", WAYS)
def test_two_builds_of_nvcc_become_one_file(tmp_path: Path, name: str) -> None:
    options, kinds, code = WAYS[name]
    one, other = (built(tmp_path / "a", name, options, time).read_bytes() for time in (1_600_000_000, 1_700_000_000))
    assert one != other
    (first, made), (second, again) = normal(one), normal(other)
    assert (first.exit_code, second.exit_code) == (code, code)
    assert kinds <= {field.kind for field in first.fields}
    assert (made == again) == (code == 0)
    assert first.digest == second.digest and len(made) == len(one)
    changed = {at for at, pair in enumerate(zip(one, made, strict=True)) if pair[0] != pair[1]}
    assert changed <= {field.offset + at for field in first.fields for at in range(len(field.before))}
    assert any("compressed image" in text for text in first.left) == (code == 1)


PTX_TEXT = (
    b'.version 8.0\n.target sm_80\n.address_size 64\n.file 1 "k.cu", 1700000000, 100\n'
    b".visible .entry k()\n{\n.loc 1 2 3\nret;\n}\n"
)


def test_times_in_ptx_become_zeros(fatpack: Command, folder: Path) -> None:
    data = fatbin(entry(PTX_TEXT + b"\0", PTX, sm=80))
    (folder / "k.fatbin").write_bytes(data)
    done = fatpack("normalize", "k.fatbin", "--dry-run")
    at = data.index(b"1700000000")
    assert done.out.split()[0] == f"{at:#x}" and (done.code, TIME in done.out) == (0, True)
    assert fatpack("normalize", "k.fatbin", "-o", "new.fatbin").code == 0
    assert (folder / "new.fatbin").read_bytes() == data.replace(b"1700000000", b"0000000000")
    assert fatpack("normalize", "new.fatbin", "--dry-run").err == "0 free fields in new.fatbin\n"
    assert fatpack("normalize", "k.fatbin").code == 2
    assert fatpack("normalize", "k.fatbin", "-o", "new.fatbin").code == 2
    assert (folder / "k.fatbin").read_bytes() == data
    assert fatpack("normalize", "k.fatbin", "--in-place", "-q").code == 0
    assert (folder / "k.fatbin").read_bytes() == (folder / "new.fatbin").read_bytes()


def test_members_of_archives_are_normalized(tmp_path: Path) -> None:
    from fatpack.binary.archive import build_archive

    name = b"tmpxft_00005dd4_00000000-6_k.cudafe1.cpp"
    (tmp_path / "k.s").write_text(f'.file "{name.decode()}"\n.text\n.globl f\nf: ret\n')
    subprocess.run([reference.tool("clang"), "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True)
    made = (tmp_path / "k.o").read_bytes()
    pieces = build_archive([(b"a.o", BytesSource(made).view()), (b"b.o", BytesSource(made).view())])
    data = b"".join(bytes(piece) for piece in pieces)
    result, after = normal(data)
    assert after == data.replace(b"tmpxft_00005dd4", b"tmpxft_00000000") != data
    assert [field.where for field in result.fields] == ["a.o, .strtab", "b.o, .strtab"]
    assert result.verdict == "normalized" and result.digest is None


def test_a_name_that_a_symbol_has_too_stays(tmp_path: Path) -> None:
    name = "tmpxft_00005dd4_00000000-6_k.cpp"
    (tmp_path / "k.s").write_text(f'.file "{name}"\n.text\n"{name}": ret\n.globl "{name}"\n')
    subprocess.run([reference.tool("clang"), "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True)
    result, after = normal((tmp_path / "k.o").read_bytes())
    assert result.fields == () and after == (tmp_path / "k.o").read_bytes()


def test_a_name_in_loaded_bytes_stays(tmp_path: Path) -> None:
    words = '.section .note.nv.tkinfo,"a",@progbits\n.asciz "tmpxft_00005dd4_00000000-6_k.cpp"\n'
    (tmp_path / "k.s").write_text(words)
    subprocess.run([reference.tool("clang"), "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True)
    assert normal((tmp_path / "k.o").read_bytes())[0].fields == ()
    (tmp_path / "k.s").write_text(words.replace('"a"', '""'))
    subprocess.run([reference.tool("clang"), "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True)
    assert len(normal((tmp_path / "k.o").read_bytes())[0].fields) == 1


def test_the_proof_refuses_any_other_change() -> None:
    data = fatbin(entry(PTX_TEXT + b"\0", PTX, sm=80))
    before = BytesSource(data).view()
    plan = plan_normalize(before)
    good = data.replace(b"1700000000", b"0000000000")
    plan.check(before, BytesSource(good).view())
    for bad in (good.replace(b"ret;", b"rot;"), data, good + b"\0", good.replace(b"k.cu", b"l.cu")):
        with pytest.raises(HostError):
            plan.check(before, BytesSource(bad).view())


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    data = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
    with pytest.raises(FormatError, match="without all of it nothing is proved"):
        normal(data[: len(data) - 200])
    from tests.builders import wheels

    with pytest.raises(UsageError, match="this is a package"):
        normal(wheels.wheel({"demo/libx.so": data}))
    assert not list(tmp_path.iterdir())


def test_a_file_without_free_fields_is_copied() -> None:
    data = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
    result, after = normal(data)
    assert (result.verdict, result.fields, after == data) == ("unchanged", (), True)
    assert result.to_dict()["schema"] == "fatpack.normalize/1"
