"""The stand-in for DPC++'s clang-offload-wrapper, of which no binary was to be had.

Expected is what its source says (``clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp`` of intel/llvm at
02bb9ec032e1), and what its own test expects of the structure (``clang/test/Driver/clang-offload-wrapper.c`` at
09c32095f881: two kinds in one module, ``-emit-reg-funcs=0``, ``-desc-name``, ``-entries``, unbundling the object).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run

import fatpack
from fatpack.main import main

NAME = "clang-offload-wrapper"
HOST = "-host=x86_64-pc-linux-gnu"
RUNTIME = Path(__file__).with_name("dpcpp_runtime.c")
SPIRV = FIXTURES / "kernels" / "add_one.llvm22.spv"

#: Sets with a number, with none, and with bytes: 8 of them are 64 bits, and one bit takes a byte.
PROPERTIES = "[Numbers]\nanswer=1|42\nmost=1|4294967295\n[None]\n[Bytes]\narray=2|IAAAAAAAAAQA\nbit=2|BAAAAAAAAAQA\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in (1, 2, 3):
        (tmp_path / f"{number}.tgt").write_text(f"Content of device file{number}\n")
    (tmp_path / "mf.txt").write_text("manifest\n")
    (tmp_path / "a.sym").write_text("entryA\n\nentryB\r\n")
    (tmp_path / "a.prop").write_text(PROPERTIES)
    (tmp_path / "a.table").write_text("[Code|Symbols|Properties]\n1.tgt|a.sym|a.prop\n2.tgt||\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrapped(*arguments: str) -> str:
    assert main(["tool", NAME, *arguments, "-o", "out.bc"]) == 0
    return Path("out.bc").read_text()


def values(text: str) -> dict[str, str]:
    """Return the globals of a module by name."""
    return dict(re.findall(r"^@([^ ]+) = (.*)$", text, re.M))


TWO_KINDS = (
    *("-kind=sycl", "-target=tg1", "-compile-opts=-g", "-link-opts=-cl-denorms-are-zero", "-format", "spirv", "1.tgt"),
    *("-target=tg2", "-compile-opts=", "-link-opts=", "-format", "native", "2.tgt"),
    *("-kind=openmp", "-target=tg2", "-format=native", "3.tgt", "mf.txt"),
)


def test_two_kinds_are_laid_out_as_the_original_lays_them_out(folder: Path) -> None:
    text = wrapped(HOST, *TWO_KINDS)
    found = values(text)
    assert 'target triple = "x86_64-pc-linux-gnu"' in text
    assert "%__tgt_bin_desc = type { i32, ptr, ptr, ptr }" in text
    assert "%__tgt_bin_desc.1 = type { i16, i16, ptr, ptr, ptr }" in text
    assert found["__dummy.omp_offloading.entry"].endswith('zeroinitializer, section "omp_offloading_entries"')
    assert found[".openmp_offloading.0.data"] == (
        'internal unnamed_addr constant [24 x i8] c"Content of device file3\\0A", '
        'section "__CLANG_OFFLOAD_BUNDLE__openmp-tg2"'
    )
    assert found[".sycl_offloading.1.info"] == (
        "internal local_unnamed_addr constant [2 x i64] [i64 ptrtoint (ptr @.sycl_offloading.1.data to i64), i64 24], "
        'section ".tgtimg", align 16'
    )
    images = found[".sycl_offloading.device_images"]
    assert [images.count(head) for head in ("i16 2, i8 4, i8 2", "i16 2, i8 4, i8 1", "ptr null")] == [1, 1, 12]
    assert found[".sycl_offloading.descriptor"].endswith(
        "{ i16 1, i16 2, ptr @.sycl_offloading.device_images, ptr null, ptr null }"
    )
    order = [f"@.{kind}_offloading.descriptor = " for kind in ("openmp", "sycl")]
    assert text.index(order[0]) < text.index(order[1]), "kinds in the order of the original's table"
    for when, verb in (("ctors", "reg"), ("dtors", "unreg")):
        runs = re.findall(r"i32 1, ptr @([\w.]+)", found[f"llvm.global_{when}"])
        assert runs == [f"openmp.descriptor_{verb}", f"sycl.descriptor_{verb}"]


def test_without_functions_nothing_runs_and_the_descriptor_has_the_name_it_is_given(folder: Path) -> None:
    text = wrapped("-kind", "sycl", HOST, "-emit-reg-funcs=0", "-desc-name=lalala", "1.tgt")
    assert "@.sycl_offloading.lalala = constant %__tgt_bin_desc {" in text
    assert not re.search(r"llvm\.global_|\.tgtimg|llvm\.used|define", text)


def test_entries_are_names_alone(folder: Path) -> None:
    found = values(wrapped(HOST, "-kind=sycl", "-entries=a.sym", "1.tgt"))
    assert found["__sycl_offload_entry_name.1"] == 'internal unnamed_addr constant [7 x i8] c"entryB\\00"'
    record = "%__tgt_offload_entry {{ ptr null, ptr @__sycl_offload_entry_name{}, i64 0, i32 0, i32 0 }}"
    assert f"[{record.format('')}, {record.format('.1')}]" in found["__sycl_offload_entries_arr"]


def test_options_hold_for_what_follows_until_they_are_given_again(folder: Path) -> None:
    text = wrapped(
        "-kind=sycl", "-target=a", "1.tgt", "-o", "x", HOST, "mf.txt", "-target=b", "2.tgt", "-kind=hip", "3.tgt"
    )
    found = values(text)
    assert ".sycl_offloading.0.manifest" in found, "-o and -host stand between files, and part no images"
    assert 'section "__CLANG_OFFLOAD_BUNDLE__sycl-b"' in found[".sycl_offloading.1.data"]
    assert 'section "__CLANG_OFFLOAD_BUNDLE__hip-b"' in found[".hip_offloading.0.data"]


def test_verbose_tells_what_was_added(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrapped("-v", "-kind=sycl", "-target=t", "-compile-opts=-g", "1.tgt", "mf.txt")
    host, *lines = capsys.readouterr().err.splitlines()
    assert host.startswith("warning: -host option is omitted, using host triple '")
    assert lines[:9] == [
        "adding image: offload kind=sycl",
        "{",
        "  file     = 1.tgt",
        "  manifest = mf.txt",
        "  format   = none",
        "  target   = t",
        "  compile options  = -g",
        "  link options     = -",
        "}",
    ]
    assert lines[-2:] == [f"  global added: .sycl_offloading.{name}" for name in ("device_images", "descriptor")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-kind=unknown", HOST, "1.tgt"], "offload model not set"),
        ([HOST, "1.tgt", "-kind=sycl"], "offload model not set"),
        (["-kind=sycl", HOST, "1.tgt", "2.tgt", "3.tgt"], "too many inputs for a single binary image"),
        (["-kind=sycl", HOST, "-batch", "a.table", "2.tgt"], "batch job table file must be the only input file"),
        (["-kind=sycl", HOST, "-batch", "gone"], "'can't read gone': No such file or directory"),
        (["-kind=sycl", "-host=nothing", "1.tgt"], "'nothing': unsupported target triple"),
        (["-kind=sycl", HOST, "gone", "mf.txt"], "'gone': No such file or directory"),
        (["-kind=sycl", HOST, "gone", "gone too"], "'gone too': No such file or directory"),
        (["-kind=openmp", HOST, "-properties=gone", "1.tgt"], "'gone': No such file or directory"),
        (["-kind=sycl", HOST, "-properties=1.tgt", "1.tgt"], "not of the form name=type|value"),
        (["-kind=sycl", HOST, "-properties=empty", "1.tgt"], "invalid property set registry"),
        (["-kind=sycl", HOST, "-native-cpu", "1.tgt"], "-native-cpu is not offered"),
        (["-kind=sycl", HOST, "-sym-prop-bc-files=x", "1.tgt"], "-sym-prop-bc-files is not offered"),
        (["-kind=sycl", "-host=arm64-apple-darwin", "1.tgt"], "DPC++ registers no images on arm64-apple-darwin"),
        (["-kind=sycl", "-host=i686-pc-linux-gnu", "1.tgt"], "a host with pointers of 64 bits"),
        (["-kind=x", "1.tgt"], "Cannot find option named 'x'!"),
        (["-kind=sycl", HOST], "Must specify at least 1 positional argument"),
    ],
)
def test_what_is_wrong_is_reported_and_nothing_is_written(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").touch()
    assert main(["tool", NAME, *arguments, "-o", "out.bc"]) == 1
    assert said in capsys.readouterr().err
    assert not Path("out.bc").exists()


def test_the_output_is_looked_at_before_the_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output, problem in (("no/out", "No such file or directory"), (".", "Is a directory")):
        assert main(["tool", NAME, "-kind=sycl", HOST, "gone", "-o", output]) == 1
        assert capsys.readouterr().err == f"{NAME}: error: '{output}': {problem}\n"


def test_the_version_decides_where_no_kind_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "--as=dpcpp", NAME, "--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"--batch +- All input files.*,\n {28}other command-line", shown)
    assert main(["tool", "--as=dpcpp", NAME, "-o", "x", "1.tgt"]) == 1
    assert capsys.readouterr().err == f"{NAME}: for the --kind option: must be specified at least once!\n"
    assert main(["tool", "--as=15", NAME, "-kind=sycl", "-o", "x", "1.tgt"]) == 1
    assert "Unknown command line argument '-kind=sycl'" in capsys.readouterr().err


@pytest.mark.reference
@pytest.mark.parametrize(
    "triple", ["x86_64-pc-linux-gnu", "aarch64-linux-gnu", "s390x-linux-gnu", "x86_64-pc-windows-msvc"]
)
def test_llvm_verifies_and_compiles_it(triple: str, folder: Path) -> None:
    wrapped(f"-host={triple}", "-properties=a.prop", "-entries=a.sym", *TWO_KINDS, "-kind=host", "1.tgt")
    run("opt", "-passes=verify", "out.bc", "-disable-output")
    run("clang", "-c", "-Wno-override-module", f"--target={triple}", "out.bc", "-o", "out.o")


@pytest.mark.reference
def test_a_program_hands_all_of_it_to_its_runtimes(folder: Path) -> None:
    lines = ["-kind=openmp", "3.tgt", "-kind=sycl", "-target=TARGET", "-format=native", "-compile-opts=-g -O"]
    wrapped(HOST, "-entries=a.sym", "-properties=a.prop", *lines, "1.tgt", "mf.txt")
    assert linked("out.bc") == [
        "tgt: 1",
        "bytes Content of device file3",
        "",
        "entries 1",
        "sycl version 1: 1",
        "image version 2 kind 4 format 1",
        "target TARGET compile -g -O link ",
        "manifest manifest",
        "",
        "bytes Content of device file1",
        "",
        "entry entryA (nil) 0",
        "entry entryB (nil) 0",
        "[Numbers]",
        "answer=1|42",
        "most=1|-1",  # printed as int
        "[None]",
        "[Bytes]",
        "array=2|9 08 00 00 00 00 00 00 00 01",
        "bit=2|9 01 00 00 00 00 00 00 00 01",
        "sycl gone: 1",
        "tgt gone: 1",
    ]


@pytest.mark.reference
def test_a_table_of_images_is_wrapped_and_found_again_in_the_program(folder: Path) -> None:
    (folder / "1.tgt").write_bytes(SPIRV.read_bytes())
    wrapped(HOST, "-kind=sycl", "-target=spir64", "-format=spirv", "-batch", "a.table")
    shown = linked("out.bc")
    assert shown.count("image version 2 kind 4 format 2") == 2 and "answer=1|42" in shown
    for name in ("out.o", "program"):
        (container,) = fatpack.open(name).containers
        assert [bytes(image.data) for image in container.images] == [SPIRV.read_bytes(), b"Content of device file2\n"]
        assert {image.target.triple for image in container.images} == {"spir64"}
        assert [kernel.name for kernel in container.images[0].kernels] == ["add_one"]
    assert main(["tool", "clang-offload-extract", "--output=image", "program"]) == 0
    assert Path("image.0").read_bytes() == SPIRV.read_bytes()


@pytest.mark.reference
def test_the_bundler_takes_the_image_out_of_the_object(folder: Path) -> None:
    wrapped(HOST, "-kind=openmp", "-target=spir64-unknown-linux-gnu", "1.tgt")
    run("clang", "-c", "-Wno-override-module", "out.bc", "-o", "out.o")
    options = ["-type=o", "-input=out.o", "-targets=openmp-spir64-unknown-linux-gnu", "-unbundle"]
    run("clang-offload-bundler", *options, "-output=back")
    assert main(["tool", "clang-offload-bundler", *options, "-output=ours"]) == 0
    assert Path("back").read_bytes() == Path("ours").read_bytes() == Path("1.tgt").read_bytes()


def linked(wrapper: str) -> list[str]:
    """Compile a wrapper, link it with a runtime, and return what the program prints."""
    run("clang", "-c", "-Wno-override-module", wrapper, "-o", "out.o")
    run("clang", str(RUNTIME), "out.o", "-o", "program")
    return subprocess.run(["./program"], capture_output=True, text=True, check=True).stdout.splitlines()
