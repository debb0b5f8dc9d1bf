"""Objects that register images: what others read in them, and that nothing of them depends on the machine."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.laws.rooms import FIXTURES
from tests.reference import package, run

import fatpack
from fatpack.commands.wrap.inputs import WrapInput, plan_registration
from fatpack.commands.wrap.objects.contents import build_object
from fatpack.commands.wrap.registration import OpenmpDescriptor, RegisteredContent, UniqueNames, entry_layout
from fatpack.commands.wrap.run import parse_host

ELF_HOSTS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-freebsd14", "arm64-linux-gnu")
COFF_HOSTS = ("x86_64-pc-windows-msvc", "x86_64-w64-windows-gnu", "x86_64-w64-mingw32")
HOSTS = (*ELF_HOSTS, *COFF_HOSTS)

CODE_OBJECTS = sorted((FIXTURES / "kernels").glob("needs.*.hsaco"))
INPUTS: dict[str, list[Path]] = {
    "cuda": [FIXTURES / "cuda_fatbin" / "v130_size.fatbin"],
    "hip": CODE_OBJECTS,
    "openmp": CODE_OBJECTS,
    "sycl": [FIXTURES / "kernels" / "add_one.llvm22.spv"],
}
#: The other kinds have the same objects for LLVM 23, but for the version of offload binaries that are made.
EVERY = [*((kind, "22") for kind in INPUTS), ("sycl", "23")]
each_kind = pytest.mark.parametrize(("kind", "version"), EVERY)


def wrapped(kind: str, host: str, version: str = "22", **arguments: object) -> bytes:
    output = io.BytesIO()
    fatpack.wrap(INPUTS[kind], output, kind=kind, host_triple=host, llvm=int(version), **arguments)  # type: ignore[arg-type]
    return output.getvalue()


@pytest.mark.parametrize("host", HOSTS)
@each_kind
def test_every_image_is_read_back(kind: str, version: str, host: str) -> None:
    images = [path.read_bytes() for path in INPUTS[kind]]
    if kind == "cuda":
        with fatpack.open(INPUTS[kind][0]) as file:
            images = [image.data.tobytes() for image in file.images()]
    data = wrapped(kind, host, version)
    with fatpack.open(data) as file:
        assert [item for item in file.findings if item.severity == "error"] == []
        found = [image.data.tobytes() for image in file.images() if image.target.offload != "host"]
    if (kind, version) == ("sycl", "22"):
        # They stand there without a container: only the records of a linked program say where.
        assert all(image in data for image in images)
    else:
        assert found == images


@pytest.mark.parametrize("host", ELF_HOSTS)
@each_kind
def test_elf_objects_hold_what_linkers_ask_for(kind: str, version: str, host: str) -> None:
    elf = ELFFile(io.BytesIO(wrapped(kind, host, version)))
    sections = {section.name: section for section in elf.iter_sections()}
    assert elf["e_type"] == "ET_REL" and elf["e_flags"] == 0
    assert sections[".note.GNU-stack"]["sh_flags"] == 0
    for note in sections[".note.gnu.property"].iter_notes():
        assert [item["pr_data"] for item in note["n_desc"]] == [3]
    writable = {name for name, section in sections.items() if section["sh_flags"] & 1}
    executable = {name for name, section in sections.items() if section["sh_flags"] & 4}
    assert executable == {".text.startup"} and not writable & executable
    priority = "1" if kind == "sycl" else "101"
    assert sections[f".init_array.{priority}"]["sh_type"] == "SHT_INIT_ARRAY"
    assert (f".fini_array.{priority}" in sections) == (kind == "sycl")
    symbols = {symbol.name: symbol for symbol in sections[".symtab"].iter_symbols() if symbol.name}
    defined = {name for name, symbol in symbols.items() if symbol["st_shndx"] != "SHN_UNDEF"}
    assert all(symbols[name]["st_info"]["bind"] == "STB_LOCAL" for name in defined), "two wrappers would clash"
    if kind != "sycl":
        for name in ("__start_llvm_offload_entries", "__stop_llvm_offload_entries"):
            assert symbols[name]["st_other"]["visibility"] == "STV_HIDDEN"
    # Absolute addresses stand in data that is written when a program starts, never in code or read-only data.
    absolute = {"EM_X86_64": {1}, "EM_AARCH64": {257}}[elf["e_machine"]]
    for name, section in sections.items():
        if name.startswith(".rela"):
            types = {item["r_info_type"] for item in section.iter_relocations()}
            is_written = name.removeprefix(".rela") in writable or name == ".relallvm_offload_entries"
            assert types <= absolute if is_written else not types & absolute


@pytest.mark.sweep(4)
@pytest.mark.parametrize("host", HOSTS)
@each_kind
def test_readers_and_linters_find_nothing_wrong(kind: str, version: str, host: str, tmp_path: Path) -> None:
    target = tmp_path / "wrapper.o"
    target.write_bytes(wrapped(kind, host, version))
    # All of a COFF object, but for its HIP images: those it reads in ELF files alone, and warns.
    shown = (
        ["--file-headers", "--sections", "--symbols", "--relocations", "--unwind"] if host in COFF_HOSTS else ["--all"]
    )
    read = run("llvm-readobj", *shown, target)
    assert b"warning" not in read.stderr and b"error" not in read.stderr
    if host in COFF_HOSTS:
        lief = package("lief")
        coff = lief.COFF.parse(list(target.read_bytes()))
        assert {symbol.name for symbol in coff.symbols} >= {"atexit"} or kind == "sycl"
        return
    gnu = run("readelf", "-aW", target)
    assert gnu.stderr == b""
    lint = run("eu-elflint", "--gnu-ld", target, check=False).stdout.decode().splitlines()
    # The type of the section that LLVM's tools look for is LLVM's own; theirs are reported alike.
    assert [line for line in lint if "unsupported type 1879002123" not in line] in ([], ["No errors"])


@pytest.mark.parametrize("kind", INPUTS)
def test_the_same_input_gives_the_same_object(kind: str) -> None:
    for host in HOSTS:
        assert wrapped(kind, host) == wrapped(kind, host)


def test_sections_are_named_for_who_links() -> None:
    names = {host: {section.name for section in _parts(host).sections} for host in COFF_HOSTS}
    assert ".CRT$XCA00101" in names["x86_64-pc-windows-msvc"]
    for host in COFF_HOSTS[1:]:
        assert ".ctors.65434" in names[host]
    assert all({"llvm_offload_entries$OA", "llvm_offload_entries$OZ"} <= known for known in names.values())


def _parts(host: str) -> object:
    content = RegisteredContent((b"image",), ((0, 5),))
    return build_object(OpenmpDescriptor((content,), entry_layout("openmp", 22)), parse_host(host))


def test_a_relocatable_link_gets_another_section() -> None:
    for host, relocatable in itertools.product(HOSTS, (False, True)):
        data = wrapped("openmp", host, relocatable=relocatable)
        assert (b".llvm.offloading.relocatable\0" in data) == relocatable


def test_images_are_not_copied_before_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "some.fatbin"
    path.write_bytes(INPUTS["cuda"][0].read_bytes())
    from fatpack.commands.wrap.run import WrapRequest, wrap_files
    from fatpack.io.open import open_source

    with open_source(path) as source:
        view = source.view()
        for host in HOSTS:
            request = WrapRequest("cuda", [WrapInput("x", view)], host)
            assert any(piece is view for piece in wrap_files(request).packed.pieces)


def test_names_that_are_taken_get_numbers_that_count_the_module() -> None:
    fresh = UniqueNames()
    assert [fresh(name) for name in ("a", "b", "a", "b", "a", "c")] == ["a", "b", "a.1", "b.2", "a.3", "c"]


@pytest.mark.slow
def test_a_coff_section_has_more_relocations_than_its_header_counts(tmp_path: Path) -> None:
    images = [fatpack.ImageFile(b"i", triple="t", offload="sycl", name="i.o",
                                attrs={"symbols": "\n".join(f"k{number}" for number in range(66_000))})]  # fmt: skip
    packed, target = io.BytesIO(), tmp_path / "w.obj"
    fatpack.pack(images, packed)
    fatpack.wrap([packed.getvalue()], target, kind="sycl", host_triple="x86_64-pc-windows-msvc")
    assert b"IMAGE_SCN_LNK_NRELOC_OVFL" in run("llvm-readobj", "--sections", target).stdout
    shown = run("llvm-readobj", "--relocations", target).stdout
    assert shown.count(b"IMAGE_REL_AMD64_ADDR64 .offloading.entry_name") == 2 * 66_000


def test_an_offload_binary_of_several_images_is_one_content() -> None:
    output = io.BytesIO()
    images = [fatpack.ImageFile(data, triple="t", arch="a", offload="openmp", name="i.o") for data in (b"one", b"two")]
    fatpack.pack(images, output, options=fatpack.OffloadBinaryOptions(version=2))
    from fatpack.io.source import BytesSource

    data = output.getvalue()
    found = plan_registration("openmp", [WrapInput("x", BytesSource(data).view())], llvm=23)
    assert isinstance(found.registration, OpenmpDescriptor)
    (content,) = found.registration.contents
    assert [data[begin:end] for begin, end in content.images] == [b"one", b"two"]
    assert found.image_count == 2
