"""``fatpack map``: real compilers on images of objects, archives and containers, and hostile commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run, tool

import fatpack
from fatpack.main import main

CUDA = str(FIXTURES / "cuda_fatbin" / "hosts" / "single.o")
FATBIN = str(FIXTURES / "cuda_fatbin" / "v130_size.fatbin")
HIP = str(FIXTURES / "elf" / "clang-22-hip.o")
PLAIN = str(FIXTURES / "demo" / "host.o")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder to be in; temporary files go into one of their own, which has to be empty at the end."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture(autouse=True)
def _nothing_is_left(folder: Path) -> object:
    yield
    assert os.listdir(folder.parent / "tmp") == []


def python(text: str) -> list[str]:
    """Return a program that has ``given`` and ``made``, the names of its files."""
    return ["--", sys.executable, "-c", f"import os, sys; given, made = sys.argv[1:]; {text}", "{in}", "{out}"]


COPY = python("open(made, 'wb').write(open(given, 'rb').read())")


def archs(path: str) -> list[tuple[str, str]]:
    with fatpack.open(path) as file:
        return [(image.target.arch, image.form) for image in file.images()]


def test_ptx_becomes_a_cubin_beside_it_that_cuobjdump_lists_and_the_linker_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--", tool("ptxas"), "-arch=sm_120", "{in}", "-o", "{out}"]
    assert main(["map", CUDA, "--form=ptx", "--add", "-o", "new.o", *command]) == 0
    err = capsys.readouterr().err
    assert "0.2 cuda nvptx64-nvidia-cuda compute_90 ptx: a cubin for sm_120, " in err
    assert "ran ptxas for 1 image\n" in err
    assert archs("new.o") == [*archs(CUDA), ("sm_120", "cubin")]
    listed = run(tool("cuobjdump"), "-lelf", "-lptx", "new.o").stdout.decode()
    assert [line.split(".")[-2] for line in listed.splitlines() if ".cubin" in line] == ["sm_80", "sm_90", "sm_120"]
    assert "sm_90.ptx" in listed
    run(tool("cuobjdump"), "-xelf", "sm_120", "new.o")
    (cubin,) = folder.glob("*.cubin")
    run(tool("nvdisasm"), cubin)
    run(tool("ld.lld"), "-r", "new.o", "-o", "linked.o")
    assert archs("linked.o") == archs("new.o")


def test_the_cubin_takes_the_place_of_the_ptx_in_every_member_of_an_archive(folder: Path) -> None:
    for name in ("a.o", "b.o"):
        Path(name).write_bytes(Path(CUDA).read_bytes())
    Path("plain.o").write_bytes(Path(PLAIN).read_bytes())
    run(tool("llvm-ar"), "rcs", "libx.a", "a.o", "plain.o", "b.o")
    command = ["--", tool("ptxas"), "-arch={arch}", "{in}", "-o", "{out}"]
    assert main(["map", "libx.a", "--form=ptx", "--replace", "--in-place", "-q", "-j2", *command]) == 2
    assert main(["map", "libx.a", "--form=ptx", "--replace", "--in-place", "-q", "--force", "-j2", *command]) == 0
    assert archs("libx.a") == [("sm_80", "cubin"), ("sm_90", "cubin"), ("sm_90", "cubin")] * 2
    assert run(tool("llvm-ar"), "t", "libx.a").stdout.split() == [b"a.o", b"plain.o", b"b.o"]


def bitcode(folder: Path, arch: str) -> str:
    """Return the path of a module for AMD GPUs, made by clang and packed as an offload binary."""
    (folder / "k.c").write_text("__attribute__((amdgpu_kernel)) void add(int *p) { *p += 1; }\n")
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-O1", "-c", "-emit-llvm"]
    run(
        tool("clang-22") if Path("/usr/lib/llvm-22/bin/clang-22").exists() else tool("clang"),
        *flags,
        "k.c",
        "-o",
        "k.bc",
    )
    options = f"--image=file=k.bc,triple=amdgcn-amd-amdhsa,arch={arch},kind=openmp"
    assert main(["pack", options, "-qo", "k.offload"]) == 0
    return "k.offload"


def test_bitcode_becomes_a_code_object_by_llc_and_lld_and_llvm_reads_it(folder: Path) -> None:
    packed = bitcode(folder, "gfx90a")
    assert (
        main(
            [
                "pack",
                "--image=file=k.bc,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp",
                f"--host={PLAIN}",
                "-qo",
                "fat.o",
            ]
        )
        == 0
    )
    (folder / "link").write_text(
        f'#!/bin/sh\n"{tool("opt")}" -O2 "$1" | "{tool("llc")}" -mcpu="$3" -filetype=obj -o "$2.o" - && '
        f'"{tool("ld.lld")}" -shared "$2.o" -o "$2"\n'
    )
    command = ["--", "/bin/sh", "./link", "{in}", "{out}", "{processor}"]
    for host in (packed, "fat.o"):
        assert main(["map", host, "--form=bitcode", "--replace", "-qfo", "new", *command]) == 0
        assert archs("new") == [("gfx90a", "code-object")]
    assert main(["map", packed, "--add", "-qo", "both", *command]) == 0
    assert archs("both") == [("gfx90a", "bitcode"), ("gfx90a", "code-object")]
    run(tool("llvm-offload-binary"), "new", "--image=file=x.o,arch=gfx90a")
    headers = run(tool("llvm-readelf"), "-h", "x.o").stdout.decode()
    assert "gfx90a" in headers
    assert "_Z3add" in headers or b"add" in run(tool("llvm-readelf"), "--dyn-syms", "x.o").stdout


def test_a_bundle_gets_an_image_for_another_processor_and_the_bundler_finds_it(folder: Path) -> None:
    compiler, linker = tool("llc"), tool("ld.lld")
    Path("link").write_text(
        f'"{compiler}" -mcpu=gfx942 -filetype=obj -o "$2.o" "$1" && "{linker}" -shared "$2.o" -o "$2"\n'
    )
    bitcode(folder, "gfx942")
    host, device = "--image=file=/dev/null,id=host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--"
    assert main(["pack", "--format=bundle", host, f"--image=file=k.bc,id={device}gfx90a", "-qo", "k.hipfb"]) == 0
    command = ["--", "/bin/sh", "./link", "{in}", "{out}"]
    assert main(["map", "k.hipfb", "--add", "-qo", "new.hipfb", *command]) == 0
    listed = run(tool("clang-offload-bundler"), "-type=bc", "-list", "-input=new.hipfb").stdout.decode().split()
    assert sorted(listed) == sorted(["host-x86_64-unknown-linux-gnu-", f"{device}gfx90a", f"{device}gfx942"])
    target = [f"-targets={device}gfx942", "-output=x.hsaco"]
    run(tool("clang-offload-bundler"), "-type=bc", "-unbundle", "-input=new.hipfb", *target)
    assert "gfx942" in run(tool("llvm-readelf"), "-h", "x.hsaco").stdout.decode()


#: A host or container of each kind that is written.
WRITTEN = [
    *(CUDA, FATBIN, HIP),
    str(FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"),
    str(FIXTURES / "coff" / "clang-22-x86_64.obj"),
    str(FIXTURES / "kpack" / "needs.zstd.kpack"),
    str(FIXTURES / "offload_binary" / "fatpack-v2.bin"),
]


@pytest.mark.parametrize("host", WRITTEN, ids=os.path.basename)
def test_a_command_that_copies_gives_the_same_file(folder: Path, host: str) -> None:
    assert main(["map", host, "--replace", "-o", "new", "-qf", *COPY]) == 0
    assert Path("new").read_bytes() == Path(host).read_bytes()


def test_results_are_kept_as_files_with_names_of_ours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", CUDA, "-d", "out", *COPY]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert main(["extract", CUDA, "-d", "extracted", "-q"]) == 0
    names = sorted(os.listdir("extracted"))
    assert sorted(os.listdir("out")) == names
    assert sorted(line.split()[0] for line in printed) == [f"out/{name}" for name in names]
    for name in names:
        assert Path("out", name).read_bytes() == Path("extracted", name).read_bytes()
    assert main(["map", CUDA, "-d", "out", *COPY]) == 2
    assert "exist" in capsys.readouterr().err


def test_a_command_may_only_look_and_what_it_says_is_the_result(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = [
        sys.executable,
        "-c",
        "import os, sys; print(os.path.getsize(sys.argv[1]), sys.argv[2])",
        "{in}",
        "{arch}",
    ]
    assert main(["map", CUDA, "-j", "3", "--", *program]) == 0
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.startswith("  ")] == [
        "  6880 sm_80",
        "  7784 sm_90",
        "  1743 sm_90",
    ]
    assert "ran python" in err
    library = str(FIXTURES / "elf" / "lld-22-sycl.so")
    assert main(["map", library, "-q", "--", sys.executable, "-c", "", "{in}"]) == 0


def test_a_failing_command_names_its_image_keeps_what_it_said_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "print('no luck with', given[-4:]); sys.exit(7 if given.endswith('ptx') else 0)"
    for where in (["--replace", "-o", "new.o"], ["-d", "out"]):
        assert main(["map", CUDA, *where, *python(f"open(made, 'w').write('x'); {text}")]) == 5
        err = capsys.readouterr().err
        assert "0.2 cuda nvptx64-nvidia-cuda compute_90 ptx:\n  no luck with .ptx\n" in err
        assert err.rstrip().endswith("ended with exit code 7; nothing was written")
        assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pass", "ended well, but it wrote no file with the name {out}"),
        ("open(made, 'w').close()", "ended well, but the file that it wrote, {out}, is empty"),
        ("os.mkdir(made)", "ended well, but what has the name {out} is a folder, and no file"),
        ("os.symlink('/etc/passwd', made)", "ended well, but what has the name {out} is a link, and no file"),
        ("os.mkfifo(made)", "ended well, but what has the name {out} is a pipe, and no file"),
        ("print('x' * 10**7); sys.exit(1)", "ended with exit code 1"),
    ],
)
def test_what_is_no_output_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    assert main(["map", CUDA, "--index=0", "--replace", "-o", "new.o", *python(text)]) == 5
    err = capsys.readouterr().err
    assert told in err
    assert len(err) < 100_000
    assert os.listdir(folder) == []


def test_a_huge_output_is_refused_by_its_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = python("open(made, 'wb').truncate(1 << 40)")
    assert main(["map", CUDA, "--index=0", "--replace", "-o", "new.o", *command]) == 2
    assert "1099511627776 bytes would be written, more than" in capsys.readouterr().err
    small = ["map", CUDA, "--index=0", "-d", "out", "--max-output=1K"]
    assert main([*small, *COPY]) == 2
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--add", "--replace", "-o", "x", *COPY], "--add, --replace and -d exclude each other"),
        (["--add", *COPY], "say where to write"),
        (["-o", "x", *COPY], "-o and --in-place go with --add or --replace"),
        (["--set-arch=sm_90", "-d", "x", *COPY], "--set-arch and --set-triple go with --add or --replace"),
        (["--add", "-o", "x"], "there is no command"),
        (["--add", "cc", "{in}", "-o", "{out}"], "write -- before it"),
        (COPY, "what the command writes to {out} goes nowhere"),
        (["--replace", "-o", "x", "--", "cc", "{in}"], "no argument of the command has {out}"),
        (["--replace", "-o", CUDA, "-f", *COPY], "single.o"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["map", CUDA, *words]) == 2
    assert told in capsys.readouterr().err
    assert os.listdir(folder) == []


def test_a_command_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", CUDA, "-d", "out", "--", "no-such-program", "{in}", "{out}"]) == 5
    assert "no-such-program: No such file or directory" in capsys.readouterr().err


def test_what_nobody_knows_needs_a_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = str(FIXTURES / "offload_binary" / "fatpack-v2.bin")
    command = python("open(made, 'w').write('text of nobody')")
    words = ["map", four, "--index=0", "--container=0", "--add", "-o", "new"]
    assert main([*words, *command]) == 2
    assert "nobody knows what the new image is" in capsys.readouterr().err
    assert main([*words, "--set-arch=pvc", "--set-triple=spir64_gen-unknown-unknown", *command]) == 0
    with fatpack.open("new") as file:
        (image,) = file.images(arch="pvc")
        assert image.data.tobytes() == b"text of nobody"
        assert image.target.triple == "spir64_gen-unknown-unknown"


def test_two_images_of_one_target_in_a_container_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", CUDA, "--add", "-o", "new.o", "--form=ptx", *COPY]) == 2
    assert "there would be 2 images for nvptx64-nvidia-cuda-sm_90 in one container" in capsys.readouterr().err


def test_images_for_a_host_are_passed_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", HIP, "-d", "out", *COPY]) == 0
    assert "ran python" in capsys.readouterr().err
    assert len(os.listdir("out")) == 2
    assert main(["map", HIP, "--form=empty", "-d", "out", *COPY]) == 1
    assert "all images that match are for a host" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_signal_ends_the_programs_and_leaves_nothing(folder: Path, name: str, jobs: str) -> None:
    text = "open('pid%d' % os.getpid(), 'w').close(); import time; time.sleep(60)"
    words = ["map", CUDA, "-j", jobs, "--replace", "-o", "new.o", *python(text)]
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from fatpack.main import main; sys.exit(main(sys.argv[1:]))", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),  # noqa: PLW1509
    )
    while len(os.listdir(folder)) < int(jobs):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=30)
    assert process.returncode == 128 + getattr(signal, name)
    for entry in folder.glob("pid*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(entry.name[3:]), 0)
        entry.unlink()
    assert os.listdir(folder) == []


def test_the_library_maps_by_a_command_and_by_a_function(folder: Path) -> None:
    program = COPY[1:]
    assert fatpack.map_images(CUDA, program, "same.o") == len(Path(CUDA).read_bytes())
    assert Path("same.o").read_bytes() == Path(CUDA).read_bytes()
    seen = []

    def changed(image: fatpack.Image) -> fatpack.ImageFile | bytes | None:
        seen.append(image.target.arch)
        if image.form == "ptx":
            return fatpack.ImageFile(image.data.tobytes().replace(b"sm_90", b"sm_89"), arch="sm_89")
        return None

    fatpack.map_images(CUDA, changed, "new.o", put="add")
    assert seen == ["sm_80", "sm_90", "sm_90"]
    assert archs("new.o") == [*archs(CUDA), ("sm_89", "ptx")]
    with pytest.raises(fatpack.CommandFailed, match="ended with exit code 1"):
        fatpack.map_images(CUDA, [sys.executable, "-c", "raise SystemExit(1)", "{in}", "{out}"], "x.o")
    with pytest.raises(fatpack.UsageError, match="put 'other'; choose from replace and add"):
        fatpack.map_images(CUDA, program, "x.o", put="other")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="command is a program and its arguments in a list"):
        fatpack.map_images(CUDA, "cp {in} {out}", "x.o")


def test_a_fat_object_gets_a_section_for_another_processor(folder: Path) -> None:
    fat = str(FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o")
    bitcode(folder, "gfx942")
    command = ["--", sys.executable, "-c", "import shutil, sys; shutil.copy('k.bc', sys.argv[2])", "{in}", "{out}"]
    before = run(tool("clang-offload-bundler"), "-type=o", "-list", f"-input={fat}").stdout.decode().split()
    device = next(name for name in before if name.startswith("hip"))
    target = device.rpartition("-")[0] + "-gfx942"
    assert main(["map", fat, f"--id={device}", "--add", "--set-arch=gfx942", "-o", "new.o", "-q", *command]) == 0
    listed = run(tool("clang-offload-bundler"), "-type=o", "-list", "-input=new.o").stdout.decode().split()
    assert sorted(listed) == sorted([*before, target])
    for name in (target, *before):
        wanted = [f"-targets={name}", "-output=x"]
        run(tool("clang-offload-bundler"), "-type=o", "-unbundle", "-input=new.o", *wanted)
        if name == target:
            assert Path("x").read_bytes() == Path("k.bc").read_bytes()
        elif not name.startswith("host"):
            run(tool("clang-offload-bundler"), "-type=o", "-unbundle", f"-input={fat}", f"-targets={name}", "-output=y")
            assert Path("x").read_bytes() == Path("y").read_bytes()
    assert main(["map", "new.o", f"--id={target}", "--replace", "-o", "same.o", "-q", *COPY]) == 0
    assert Path("same.o").read_bytes() == Path("new.o").read_bytes()


def test_spirv_is_assembled_by_one_tool_put_in_and_taken_by_the_other(
    folder: Path,
) -> None:
    lines = [
        *(f"OpCapability {name}" for name in ("Kernel", "Addresses", "Linkage")),
        "OpMemoryModel Physical64 OpenCL",
    ]
    Path("k.spvasm").write_text("\n".join(lines) + "\n")
    image = "--image=file=k.spvasm,triple=spir64-unknown-unknown,kind=sycl"
    assert main(["pack", image, "-qo", "k.offload", "--container-version=2"]) == 0
    command = ["--", tool("spirv-as"), "--target-env", "spv1.2", "{in}", "-o", "{out}"]
    assert main(["map", "k.offload", "--replace", "-o", "new.offload", *command]) == 0
    assert archs("new.offload") == [("", "spirv")]
    assert main(["map", "new.offload", "--form=spirv", "--", tool("spirv-val"), "{in}"]) == 0
    assert main(["map", "new.offload", "--form=spirv", "-d", "out", "--", "cp", "{in}", "{out}"]) == 0
    (path,) = Path("out").iterdir()
    assert path.suffix == ".spv"
    reader = llvm_tool("llvm-offload-binary", "23")
    run(reader, "new.offload", "--image=file=x.spv,triple=spir64-unknown-unknown")
    assert Path("x.spv").read_bytes() == path.read_bytes()


def test_all_that_a_command_says_is_shown_with_its_tabs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "print('\\t.target\\tsm_80'); print('\\x1b[31mred'); [print('\\tline', n, sep='\\t') for n in range(20_000)]"
    assert main(["map", CUDA, "--form=cubin", "--arch=sm_80", "--", sys.executable, "-c", text, "{in}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("cubin:")
    assert lines[1:3] == ["  \t.target\tsm_80", "  \\x1b[31mred"]
    assert lines[3:] == [f"  \tline\t{number}" for number in range(20_000)]


def test_a_command_that_says_more_than_may_be_written_is_ended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "while True: print('x' * 10_000)"
    command = ["--max-output=1M", "--arch=sm_80", "--form=cubin", "--", sys.executable, "-c", text, "{in}"]
    assert main(["map", CUDA, *command]) == 2
    assert "more than the 1048576 bytes that may be" in capsys.readouterr().err


def test_a_disassembly_that_is_kept_is_not_called_ptx(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "open(made, 'w').write('\\t.target\\tsm_80\\n\\n\\t.elftype\\t@\"ET_EXEC\"\\n')"
    assert main(["map", CUDA, "--form=cubin", "--arch=sm_80", "-d", "sass", *python(text)]) == 0
    assert "assembly for sm_80" in capsys.readouterr().out
    (path,) = Path("sass").iterdir()
    assert path.suffix == ".s"
    main(["inspect", str(path)])
    assert "PTX" not in capsys.readouterr().out.replace(path.name, "")
