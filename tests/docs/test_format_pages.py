"""What people wrote on the pages of formats: the readers in C read real files, and every number is explained."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import tool
from tools.docs import dumps

import fatpack
from fatpack.formats.cuda_fatbin import layout

FORMATS = Path(__file__).parents[2] / "docs" / "formats"

#: The reader of the page opens no groups.
FATBINS = sorted(path for path in (FIXTURES / "cuda_fatbin").glob("*.fatbin") if "concat" not in path.name)
CIR = [FIXTURES / "cir" / "attribute.cir"]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program of each page, compiled."""
    folder = tmp_path_factory.mktemp("readers")
    for name in ("cuda-fatbin", "cir-offload-container", "rocm-kpack", "syclbin"):
        page = (FORMATS / f"{name}.md").read_text(encoding="utf-8")
        (program,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (folder / f"{name}.c").write_text(program)
        words = ["-std=c11", "-Wall", "-Werror", "-fsanitize=address,undefined", f"{folder / name}.c"]
        subprocess.run([tool("gcc"), *words, "-o", folder / name], check=True)
    return folder


def _printed(program: Path, path: Path) -> list[str]:
    return subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.splitlines()


def _refused(program: Path, path: Path) -> tuple[int, str]:
    """Return exit code and message of a reader that refuses a file."""
    done = subprocess.run([program, path], capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


@pytest.mark.reference
@pytest.mark.parametrize("path", FATBINS, ids=lambda path: path.name)
def test_the_reader_of_fat_binaries_finds_the_images(readers: Path, path: Path) -> None:
    found = [line.split() for line in _printed(readers / "cuda-fatbin", path)]
    with fatpack.open(path) as file:
        images = [(image.target.arch, f"{image.span.start:#x}", image.compression or "-") for image in file.images()]
    assert [(arch, at, method) for _, _, arch, _, at, method in found] == images


@pytest.mark.reference
@pytest.mark.parametrize("path", CIR, ids=lambda path: path.name)
def test_the_reader_of_cir_containers_finds_the_modules(readers: Path, path: Path) -> None:
    with fatpack.open(path) as file:
        expected = [f"module at {image.span.start:#x}, {image.span.size} bytes" for image in file.images()]
    assert expected
    assert _printed(readers / "cir-offload-container", path) == expected


@pytest.mark.reference
@pytest.mark.parametrize("path", sorted((FIXTURES / "kpack").glob("*.kpack")), ids=lambda path: path.name)
def test_the_reader_of_kpack_archives_finds_the_code_objects(readers: Path, path: Path) -> None:
    with fatpack.open(path) as file:
        expected = [
            f"{image.attrs['binary']} {image.target.arch} at {image.span.start:#x}, {image.stored_size} bytes"
            for image in file.images()
        ]
    assert expected
    assert _printed(readers / "rocm-kpack", path) == expected


@pytest.mark.reference
@pytest.mark.parametrize("compressed", [False, True], ids=["none", "zstd"])
def test_the_reader_of_kpack_archives_follows_strings_and_numbers_of_every_length(
    readers: Path, tmp_path: Path, compressed: bool
) -> None:
    images = [
        fatpack.ImageFile(b"x" * size, arch=f"gfx{size}", offload="hip", attrs={"binary": f"lib/{'x' * size}.so#0"})
        for size in (1, 40, 300, 70_000)
    ]
    path = tmp_path / "x.kpack"
    fatpack.pack(images, path, options=fatpack.KpackOptions("zstd" if compressed else None))
    found = [line.split() for line in _printed(readers / "rocm-kpack", path)]
    with fatpack.open(path) as file:
        stored = [(image.attrs["binary"], image.target.arch, f"{image.span.start:#x},") for image in file.images()]
    assert [(name, arch, at) for name, arch, _, at, _, _ in found] == stored


@pytest.mark.reference
def test_the_reader_of_kpack_archives_refuses_every_cut(readers: Path, tmp_path: Path) -> None:
    whole = (FIXTURES / "kpack" / "needs.zstd.kpack").read_bytes()
    broken = tmp_path / "broken.kpack"
    for size in (*range(0, 80, 7), *range(len(whole) - 250, len(whole), 11)):
        broken.write_bytes(whole[:size])
        code, message = _refused(readers / "rocm-kpack", broken)
        assert (code, message.startswith(("at 0x", "at 0:"))) == (3, True), size
    broken.write_bytes(whole.replace(b"zstd-per-kernel", b"zstd-per-kernal"))
    assert _refused(readers / "rocm-kpack", broken)[0] == 4


@pytest.mark.reference
@pytest.mark.parametrize("shape", ["v1", "v2", "wrapped"])
def test_the_reader_of_syclbin_finds_the_images_of_every_shape(readers: Path, tmp_path: Path, shape: str) -> None:
    path = FIXTURES / "syclbin" / f"dpcpp-{'v2' if shape == 'v2' else 'v1'}.syclbin"
    if shape == "wrapped":
        wrapped = tmp_path / "wrapped.bin"
        fatpack.pack([fatpack.ImageFile(path, offload="sycl", triple="spir64-unknown-unknown")], wrapped)
        path = wrapped
    with fatpack.open(path) as file:
        images = [image for image in file.images() if "role" in image.attrs]
        expected = [
            f"{image.attrs['role']} of module {image.attrs['am_index']} at {image.span.start:#x}, {image.size} bytes"
            for image in images
        ]
    assert len(expected) == 2
    assert _printed(readers / "syclbin", path) == expected


@pytest.mark.reference
def test_the_reader_of_syclbin_refuses_every_cut(readers: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.syclbin"
    for version in ("v1", "v2"):
        whole = (FIXTURES / "syclbin" / f"dpcpp-{version}.syclbin").read_bytes()
        for size in range(0, len(whole) - 4, 41):
            broken.write_bytes(whole[:size])
            assert _refused(readers / "syclbin", broken)[0] == 3, (version, size)


@pytest.mark.reference
def test_readers_say_what_they_do_not_read(readers: Path, tmp_path: Path) -> None:
    group = FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin"
    assert _refused(readers / "cuda-fatbin", group) == (
        4,
        "\n".join(f"at {at}: a group of entries, which is not opened here" for at in ("0x10", "0x288")),
    )
    bytecode = FIXTURES / "cir" / "mlir-22-v6.mlirbc"
    assert _refused(readers / "cir-offload-container", bytecode) == (4, "MLIR bytecode, which is not read here")
    generic = tmp_path / "generic.mlir"
    generic.write_text(
        '"builtin.module"() <{}> ({ "builtin.module"() ({ }) : () -> () }) {cir.offload.container} : () -> ()'
    )
    code, message = _refused(readers / "cir-offload-container", generic)
    assert (code, message) == (4, "no modules in the form that is read here")
    compressed = FIXTURES / "offload_binary" / "fatpack-v3-zstd.bin"
    assert _refused(readers / "syclbin", compressed) == (4, "at 0x20: compressed")


@pytest.mark.reference
def test_the_reader_of_fat_binaries_refuses_sizes_that_lead_outside(readers: Path, tmp_path: Path) -> None:
    original = FATBINS[-1].read_bytes()
    for at in (8, 16 + 4, 16 + 8):
        broken = tmp_path / f"{at}.fatbin"
        broken.write_bytes(original[:at] + b"\xff\xff\xff\x7f" + original[at + 4 :])
        assert subprocess.run([readers / "cuda-fatbin", broken], capture_output=True).returncode == 3


def test_every_kind_and_flag_of_a_fat_binary_is_explained() -> None:
    page = (FORMATS / "cuda-fatbin.md").read_text(encoding="utf-8")
    lacking = [f"{number:#x}" for number in (*layout.FLAGS, layout.FLAG_64_BIT) if f"| {number:#x} |" not in page]
    lacking += [f"{kind:#04x}" for kind in layout.KINDS if f"| {kind:#04x} |" not in page]
    assert not lacking


def test_the_smallest_cir_container_of_the_page_is_one(tmp_path: Path) -> None:
    page = (FORMATS / "cir-offload-container.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```text\n(module attributes.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "k.cir").write_text(text)
    with fatpack.open(tmp_path / "k.cir") as file:
        assert [image.target.offload for image in file.images()] == ["host", "cuda"]
        assert not file.findings


@pytest.mark.parametrize("name", dumps.SHOWN)
def test_a_dump_has_all_bytes_of_its_file_in_order(name: str) -> None:
    page = (FORMATS / f"{name}.md").read_text(encoding="utf-8")
    dumped = re.findall(
        r"^`fatpack inspect --bytes tests/fixtures/([^`]*)`[^`]*`\+8`[^`]*\n\n```text\n(.*?)^```$", page, re.M | re.S
    )
    assert [path for path, _ in dumped] == list(dumps.SHOWN[name])
    for path, rows in dumped:
        data, reached = (FIXTURES / path).read_bytes(), 0
        for at, shown, more in re.findall(r"^(0x[0-9a-f]+)  ((?:[0-9a-f]{2} ?){1,8})(?:\+(\d+))? ", rows, re.MULTILINE):
            assert int(at, 16) == reached
            assert data[reached : reached + len(bytes.fromhex(shown))] == bytes.fromhex(shown)
            reached += len(bytes.fromhex(shown)) + int(more or 0)
        assert reached == len(data)


@pytest.mark.parametrize("page", sorted(FORMATS.glob("*.md")), ids=lambda page: page.stem)
def test_the_sides_of_a_picture_stand_below_each_other(page: Path) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    pictures = [picture for block in blocks for picture in re.findall(r"(?:^[+|].*\n)+", block, re.MULTILINE)]
    assert pictures
    for picture in pictures:
        assert len({len(line) for line in picture.splitlines()}) == 1, picture
