"""COFF objects of real compilers, and our edits of them as read by LLVM's tools and lief."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.builders.coff import Section, Symbol, build
from tests.reference import run, tool

from fatpack.binary import CodeSection, coff
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource, View

if TYPE_CHECKING:
    from fatpack.io.source import Piece

pytestmark = pytest.mark.reference

SOURCE = """
int counter;
static int hidden;
int twice(int x) { hidden += x; return 2 * x + counter; }
int *where(void) { return &hidden; }
"""

TARGETS = [
    "x86_64-pc-windows-msvc",
    "i686-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
    "x86_64-w64-mingw32",
    "i686-w64-mingw32",
    "x86_64-unknown-uefi",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("coff")
    (path / "source.c").write_text(SOURCE)
    for number, arch in enumerate(("sm_80", "gfx90a", "sm_90")):
        (path / f"image{number}").write_bytes(f"image for {arch} ".encode() * (number + 1))
        run(
            "llvm-offload-binary",
            "-o",
            path / f"container{number}",
            f"--image=file={path / f'image{number}'},triple=nvptx64-nvidia-cuda,arch={arch},kind=cuda",
        )
    return path


def container(folder: Path, number: int) -> bytes:
    return (folder / f"container{number}").read_bytes()


def compiled(folder: Path, target: str, *, container: int | None = None, options: tuple[str, ...] = ()) -> Path:
    """Return an object; with a container, clang embeds it itself."""
    path = folder / "source.obj"
    embedding = () if container is None else ("-Xclang", f"-fembed-offload-object={folder / f'container{container}'}")
    # Without that option the object holds the time of day.
    command = ("clang", f"--target={target}", "-c", "-O1", "-mno-incremental-linker-compatible", *options)
    run(*command, "source.c", "-o", path, *embedding, cwd=folder)
    return path


def linked(path: Path) -> bytes:
    image = path.with_suffix(".dll")
    run("lld-link", "/dll", "/noentry", "/Brepro", "/opt:noref", f"/out:{image}", path, cwd=path.parent)
    return image.read_bytes()


def edited(path: Path, pieces: Iterable[Piece], host: View) -> Path:
    """Write an edit like commands do: verified before it gets its name."""
    output = path.with_name("edited.obj")
    write_file(output, pieces, force=True, inputs=[host], verify=lambda after: coff.verify(host, after))
    return output


def sites(path: Path) -> list[CodeSection]:
    with open_source(path) as source:
        return [
            site.replace(data=BytesSource(site.data.tobytes()).view())
            for site in coff.locate(source.view())
            if isinstance(site, CodeSection)
        ]


def assert_accepted(path: Path, expected: list[bytes]) -> None:
    """LLVM's tools read the object, list the containers, and extract the images we expect."""
    run("llvm-readobj", "--all", path)
    listed = run("llvm-objdump", "--offloading", path).stdout
    assert listed.count(b"OFFLOADING IMAGE") == len(expected)
    extracted = path.parent / "extracted"
    for number, image in enumerate(expected):
        arch = image.split()[2].decode()
        run("llvm-offload-binary", path, f"--image=file={extracted}{number},arch={arch}")
        assert (path.parent / f"extracted{number}").read_bytes() == image


def image(folder: Path, number: int) -> bytes:
    return (folder / f"image{number}").read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_what_clang_embedded_is_found(folder: Path, target: str) -> None:
    (site,) = sites(compiled(folder, target, container=0))
    assert site.section == ".llvm.offloading"
    assert site.data.tobytes() == container(folder, 0)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [(), ("-g", "-ffunction-sections", "-fdata-sections")], ids=["plain", "debug"])
def test_embedding_keeps_the_program_and_llvm_finds_the_image(
    folder: Path, target: str, options: tuple[str, ...]
) -> None:
    path = compiled(folder, target, options=options)
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 0)]), host)
    assert_accepted(result, [image(folder, 0)])
    assert linked(result) == linked(path)


@pytest.mark.parametrize("target", TARGETS)
def test_a_second_container_is_found_beside_clangs_own(folder: Path, target: str) -> None:
    path = compiled(folder, target, container=0)
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 1), container(folder, 2)]), host)
    assert_accepted(result, [image(folder, number) for number in range(3)])
    assert linked(result) == linked(path)


@pytest.mark.parametrize("target", TARGETS)
def test_replacing_what_clang_embedded(folder: Path, target: str) -> None:
    path = compiled(folder, target, container=2)
    (site,) = sites(path)
    assert site.index is not None
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.replace(host, site.index, [container(folder, 1)]), host)
    assert_accepted(result, [image(folder, 1)])
    assert linked(result) == linked(compiled(folder, target))
    # A compiler that embeds the other container writes the same object.
    assert result.read_bytes() == compiled(folder, target, container=1).read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_removing_gives_the_program_of_an_object_that_never_had_device_code(folder: Path, target: str) -> None:
    path = compiled(folder, target, container=0)
    (site,) = sites(path)
    assert site.index is not None
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.remove(host, [site.index]), host)
    assert sites(result) == []
    run("llvm-readobj", "--all", result)
    assert run("llvm-objdump", "--offloading", result).stdout.count(b"OFFLOADING IMAGE") == 0
    assert linked(result) == linked(compiled(folder, target))


@pytest.mark.parametrize(("target", "emulation"), [("x86_64", "i386pep"), ("i686", "i386pe")])
def test_gnu_ld_makes_the_same_program_too(folder: Path, target: str, emulation: str) -> None:
    def linked_by_gnu(path: Path) -> bytes:
        image = folder / "gnu.dll"  # the image holds its own name
        options = ("-m", emulation, "--shared", "-e", "0", "--no-insert-timestamp")
        run("ld", *options, "-o", image, path, cwd=folder)
        return image.read_bytes()

    plain = linked_by_gnu(compiled(folder, f"{target}-w64-mingw32"))
    path = compiled(folder, f"{target}-w64-mingw32", container=0)
    (site,) = sites(path)
    assert site.index is not None
    with open_source(path) as source:
        host = source.view()
        assert linked_by_gnu(edited(path, coff.remove(host, [site.index]), host)) == plain
    path = compiled(folder, f"{target}-w64-mingw32")
    with open_source(path) as source:
        host = source.view()
        assert linked_by_gnu(edited(path, coff.embed(host, [container(folder, 0)]), host)) == plain


def test_a_big_object_with_70000_sections(folder: Path) -> None:
    text = "".join(f'.section .s{number},"dr"\n.long {number}\n' for number in range(70_000))
    path = folder / "big.obj"
    command = [tool("llvm-mc"), "-filetype=obj", "--triple=x86_64-pc-windows-msvc", "-o", str(path)]
    subprocess.run(command, input=(text + ".globl f\nf:\n.long .s7\n").encode(), check=True)
    assert path.read_bytes().startswith(b"\0\0\xff\xff\2\0")
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 0)]), host)
    (site,) = sites(result)
    assert site.data.tobytes() == container(folder, 0)
    assert_accepted(result, [image(folder, 0)])
    assert linked(result) == linked(path)


def test_more_relocations_than_16_bits_count(folder: Path) -> None:
    text = ".globl g\ng:\n" + ".quad g\n" * 70_000
    path = folder / "relocations.obj"
    command = [tool("llvm-mc"), "-filetype=obj", "--triple=x86_64-pc-windows-msvc", "-o", str(path)]
    subprocess.run(command, input=text.encode(), check=True)
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 0)]), host)
    assert_accepted(result, [image(folder, 0)])
    assert linked(result) == linked(path)


@pytest.mark.parametrize(
    "data",
    [
        build([Section(b".data", b"12345678")], None),
        build([Section(b".data", b"12345678")], [Symbol(b"f", 1)], room=64),
        build([Section(b".data", b"12345678")], [Symbol(b"f", 1)], strings=b"x" * 10_000_000 + b"\0"),
    ],
    ids=["no-symbols", "room", "base64-name"],
)
def test_unusual_objects(folder: Path, data: bytes) -> None:
    path = folder / "unusual.obj"
    path.write_bytes(data)
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 0)]), host)
    assert_accepted(result, [image(folder, 0)])
    assert linked(result) == linked(path)


def test_what_llvm_objcopy_adds_is_found_and_can_be_edited(folder: Path) -> None:
    path = compiled(folder, "x86_64-pc-windows-msvc")
    added = folder / "added.obj"
    run("llvm-objcopy", f"--add-section=.llvm.offloading={folder / 'container0'}", path, added)
    (site,) = sites(added)
    assert site.data.tobytes() == container(folder, 0)
    assert site.index is not None
    with open_source(added) as source:
        host = source.view()
        result = edited(added, coff.replace(host, site.index, [container(folder, 2)]), host)
    assert_accepted(result, [image(folder, 2)])


def test_the_bundlers_sections_are_found_and_can_be_removed(folder: Path) -> None:
    path = compiled(folder, "x86_64-pc-windows-msvc")
    bundled = folder / "bundled.obj"
    targets = "host-x86_64-pc-windows-msvc,hip-amdgcn-amd-amdhsa--gfx90a"
    inputs = (f"-input={path}", f"-input={folder / 'image1'}")
    run("clang-offload-bundler", "-type=o", f"-targets={targets}", *inputs, f"-output={bundled}")
    prefix = "__CLANG_OFFLOAD_BUNDLE__"
    found = {site.section: site.data.tobytes() for site in sites(bundled)}
    assert found[f"{prefix}hip-amdgcn-amd-amdhsa--gfx90a"] == image(folder, 1)
    assert len(found) == 2
    with open_source(bundled) as source:
        host = source.view()
        numbers = [site.index for site in coff.locate(host) if isinstance(site, CodeSection) and site.index is not None]
        result = edited(bundled, coff.remove(host, numbers), host)
    assert sites(result) == []
    assert linked(result) == linked(path)


@pytest.mark.parametrize("target", TARGETS[:3])
def test_lief_reads_the_same_sections_before_and_after_the_new_one(folder: Path, target: str) -> None:
    import lief

    def content(path: Path) -> tuple[list[tuple[str, bytes, int]], list[str]]:
        # lief's sections die with their binary, so it is kept here.
        binary = lief.COFF.parse(str(path))
        sections = [
            # lief takes the contents of uninitialised sections from the start of the file.
            (section.name, bytes(section.content) if section.pointerto_raw_data else b"", section.numberof_relocations)
            for section in binary.sections
        ]
        return sections, [symbol.name for symbol in binary.symbols]

    path = compiled(folder, target)
    with open_source(path) as source:
        host = source.view()
        result = edited(path, coff.embed(host, [container(folder, 0)]), host)
    before, symbols = content(path)
    after, symbols_after = content(result)
    assert after[: len(before)] == before
    assert after[len(before)][1:] == (container(folder, 0), 0)
    assert symbols_after == symbols
