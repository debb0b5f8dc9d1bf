"""Bitcode of clang, and the device code that LLVM's own tool extracts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.reference import run, tool

from fatpack.binary import CodeSection, bitcode
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import TracedMemory

pytestmark = pytest.mark.reference

SOURCE = """
int counter;
static const char *names[] = {"one", "two"};
static const int table[300] = {1, -1, 1 << 30};
const char *name(int i) { return names[table[i] & 1]; }
int twice(int x) { return 2 * x + counter; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bitcode")
    (path / "source.c").write_text(SOURCE)
    for number, size in enumerate((1, 300, 5000)):
        (path / f"image{number}").write_bytes(bytes(range(256)) * size)
        image = f"--image=file={path / f'image{number}'},triple=nvptx64-nvidia-cuda,arch=sm_{80 + number},kind=cuda"
        run("llvm-offload-binary", "-o", path / f"container{number}", image)
    return path


def compiled(folder: Path, *options: str, containers: tuple[int, ...] = (0, 1, 2)) -> Path:
    path = folder / "host.bc"
    command = [tool("clang"), "-c", "-O1", *options, "source.c", "-o", str(path)]
    for number in containers:
        command += ["-Xclang", f"-fembed-offload-object={folder / f'container{number}'}"]
    subprocess.run(command, check=True, cwd=folder)
    return path


def found(path: Path) -> list[bytes]:
    with open_source(path) as source:
        items = list(bitcode.locate(source.view()))
        assert all(isinstance(item, CodeSection) for item in items)
        return [item.data.tobytes() for item in items if isinstance(item, CodeSection)]


def extracted(path: Path, number: int) -> bytes:
    """Return the image that LLVM's tool extracts for the architecture of a container."""
    out = path.with_name("extracted")
    out.unlink(missing_ok=True)
    run("llvm-offload-binary", path, f"--image=file={out},arch=sm_{80 + number}")
    return out.read_bytes()


OPTIONS = [
    ("-emit-llvm",),
    ("-flto",),
    ("-flto=thin",),
    ("-flto=thin", "-fsplit-lto-unit"),
    ("-emit-llvm", "-g"),
    ("-emit-llvm", "--target=x86_64-pc-windows-msvc"),
    ("-emit-llvm", "--target=i686-linux-gnu"),
    ("-emit-llvm", "--target=arm64-apple-macos"),
]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_what_clang_embedded_is_what_llvm_extracts(folder: Path, options: tuple[str, ...]) -> None:
    path = compiled(folder, *options)
    containers = [(folder / f"container{number}").read_bytes() for number in range(3)]
    assert found(path) == containers
    for number, container in enumerate(containers):
        image = extracted(path, number)
        assert image == (folder / f"image{number}").read_bytes()
        assert image in container


def test_bitcode_for_macos_is_wrapped(folder: Path) -> None:
    assert compiled(folder, "-emit-llvm", "--target=arm64-apple-macos").read_bytes().startswith(b"\xde\xc0\x17\x0b")


def test_one_container_embedded_twice_is_one_constant_and_listed_twice(folder: Path) -> None:
    path = compiled(folder, "-emit-llvm", containers=(1, 1))
    assert found(path) == [(folder / "container1").read_bytes()] * 2
    assert path.stat().st_size < 1.5 * (folder / "container1").stat().st_size


def test_linked_modules_keep_all_their_device_code(folder: Path) -> None:
    first = compiled(folder, "-emit-llvm", containers=(0, 2)).rename(folder / "first.bc")
    (folder / "source.c").write_text("int other;")
    second = compiled(folder, "-emit-llvm", containers=(1,)).rename(folder / "second.bc")
    (folder / "source.c").write_text(SOURCE)
    expected = {(folder / f"container{number}").read_bytes() for number in range(3)}
    run("llvm-link", first, second, "-o", folder / "linked.bc")
    assert set(found(folder / "linked.bc")) == expected
    run("llvm-cat", "-b", first, second, "-o", folder / "both.bc")
    assert set(found(folder / "both.bc")) == expected


def test_a_module_without_device_code_has_none(folder: Path) -> None:
    assert found(compiled(folder, "-emit-llvm", containers=())) == []


IR = r"""
@t = constant [1000 x i32] [{numbers}]
@zero = private constant [4 x i8] zeroinitializer, section ".llvm.offloading"
@char6 = constant [6 x i8] c"hello\00", section ".hip_fatbin"
@seven = constant [8 x i8] c"he llo!\00", section "__HIP,__hip_fatbin"
@eight = constant [6 x i8] c"h\E4llo\00", section ".nv_fatbin"
@bytes = constant [4 x i8] c"\10\FF\10\AD", section "__nv_relfatbin"
@external = external constant [6 x i8], section ".nv_fatbin"
define void @f() section ".hip_fatbin" {{ ret void }}
"""


def test_every_form_in_which_llvm_stores_bytes(folder: Path) -> None:
    path = folder / "forms.bc"
    text = IR.format(numbers=", ".join(f"i32 {number * 2147483 % 2147483647}" for number in range(1000)))
    subprocess.run([tool("llvm-as"), "-o", str(path)], input=text.encode(), check=True)
    with open_source(path) as source:
        items = list(bitcode.locate(source.view()))
        contents = [(item.section, item.data.tobytes()) for item in items if isinstance(item, CodeSection)]
    assert contents == [
        (".hip_fatbin", b"hello\0"),
        ("__HIP,__hip_fatbin", b"he llo!\0"),
        (".nv_fatbin", b"h\xe4llo\0"),
        ("__nv_relfatbin", b"\x10\xff\x10\xad"),
    ]
    assert len(items) == 5


def test_reading_needs_little_memory(folder: Path) -> None:
    """60 MB of device code: located without reading it, read in bounded pieces."""
    (folder / "large").write_bytes(b"\x10\xff\x10\xad" + bytes(range(1, 251)) * 240_000)
    path = compiled(folder, "-emit-llvm", "-Xclang", f"-fembed-offload-object={folder / 'large'}", containers=())
    with TracedMemory() as memory, open_source(path) as source:
        (site,) = bitcode.locate(source.view())
        assert isinstance(site, CodeSection)
        size = sum(map(len, site.data.pieces()))
        head = site.data.read(0, 100)
    assert size == (folder / "large").stat().st_size
    assert BytesSource(head).read(0, 4) == b"\x10\xff\x10\xad"
    assert memory.peak < 16 << 20
