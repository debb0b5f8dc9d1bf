"""GCC's own offloading: objects, programs and libraries, from fixtures and from GCC itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders.gcc_offload import BOTH, GCN, NVPTX, build_program
from tests.laws.rooms import FIXTURES
from tests.reference import tool

from fatpack.formats import get_format
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan


def found(path: Path) -> tuple[list[tuple[str, str, list[str]]], dict[str, str]]:
    """Return form, architecture and kernels of each image, and the messages of findings by their codes."""
    images, messages = [], {}
    with open_source(str(path)) as source:
        for item in scan(source.view()):
            if isinstance(item, Finding):
                messages[item.code] = item.message
            elif isinstance(item, FoundContainer):
                images += [(image.form, image.label, list(image.kernel_names)) for image in item.images]
    return images, messages


def test_an_object_has_bytecode_without_a_target() -> None:
    images, messages = found(FIXTURES / "gcc" / "o.acc.o")
    assert images == []
    assert list(messages) == ["FP2701"]
    assert "OpenACC, 2 kernels (main._omp_fn.0, main._omp_fn.1), 1 variable" in messages["FP2701"]


def test_a_program_for_nvptx_has_its_text() -> None:
    images, messages = found(FIXTURES / "gcc" / "p.acc.nv")
    assert images == [("ptx", "compute_30", ["main$_omp_fn$0", "main$_omp_fn$1"])]
    assert list(messages) == ["FP2703"]


def test_a_program_for_gcn_has_its_code_object() -> None:
    images, messages = found(FIXTURES / "gcc" / "p.acc.amd")
    assert [(form, arch, len(names)) for form, arch, names in images] == [("code-object", "gfx803", 4)]
    assert "2 target regions and 1 variable" in messages["FP2703"]


def test_regions_without_an_image_run_on_the_host() -> None:
    images, messages = found(FIXTURES / "gcc" / "p.dis")
    assert images == []
    assert list(messages) == ["FP2702"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gcc")


@pytest.mark.parametrize("options", [(), ("-no-pie",), ("-fPIC", "-shared")])
def test_gcc_links_both_accelerators(folder: Path, options: tuple[str, ...]) -> None:
    made = build_program(folder, "both", *BOTH, *options)
    for is_stripped in (False, True):
        if is_stripped:
            subprocess.run([tool("strip"), str(made)], check=True)
        images, messages = found(made)
        assert [form for form, _, _ in images].count("code-object") == 1
        texts = [image for image in images if image[0] == "ptx"]
        assert len(texts) == 24
        assert texts[0] == ("ptx", "compute_30", ["scale$_omp_fn$0", "main$_omp_fn$0"])
        assert "2 target regions and 2 variables" in messages["FP2703"]


def test_gcc_names_the_processor(folder: Path) -> None:
    made = build_program(folder, "gfx906", *GCN, "-foffload-options=amdgcn-amdhsa=-march=gfx906")
    assert [arch for form, arch, _ in found(made)[0] if form == "code-object"] == ["gfx906:xnack-"]


def test_gccs_objects_are_alike_for_all_accelerators(folder: Path) -> None:
    for option in (*GCN, NVPTX[0], "-foffload=disable"):
        images, messages = found(build_program(folder, "o.o", option, "-c"))
        assert images == []
        assert "LTO 12.0), OpenMP, 2 kernels (main._omp_fn.0, scale._omp_fn.0), 2 variables" in messages["FP2701"]
    slim = build_program(folder, "slim.o", "-flto", "-fno-fat-lto-objects", "-c")
    names = "main._omp_fn.0, scale._omp_fn.0, scale._omp_fn.1"
    assert f"at most 3 kernels ({names})" in found(slim)[1]["FP2701"]


def test_a_link_without_the_plugin_is_said(folder: Path) -> None:
    item = build_program(folder, "plain.o", "-c")
    made = item.parent / "noplugin"
    words = [tool("gcc-12"), "-fopenmp", "-fno-use-linker-plugin", str(item), "-o", str(made)]
    subprocess.run(words, check=False, capture_output=True)  # its LTO wrapper fails, and leaves the program
    assert list(found(made)[1]) == ["FP2702"]


def test_a_program_without_regions_is_silent(folder: Path) -> None:
    plain = folder / "plain.c"
    plain.write_text("int main(void) {\n#pragma omp parallel\n { }\n return 0; }\n")
    made = folder / "plain"
    subprocess.run([tool("gcc-12"), "-fopenmp", str(plain), "-o", str(made)], check=True)
    assert found(made) == ([], {})
    item = folder / "parallel.o"
    subprocess.run([tool("gcc-12"), "-fopenmp", "-c", str(plain), "-o", str(item)], check=True)
    assert found(item) == ([], {})


def test_an_archive_has_the_bytecode_of_its_members(folder: Path) -> None:
    item = build_program(folder, "member.o", "-c")
    library = folder / "libmember.a"
    subprocess.run([tool("ar"), "rcs", str(library), str(item)], check=True)
    images, messages = found(library)
    assert (images, list(messages)) == ([], ["FP2701"])
    stripped = folder / "stripped.o"
    subprocess.run([tool("strip"), "--strip-unneeded", "-o", str(stripped), str(item)], check=True)
    assert "OpenMP, 2 kernels" in found(stripped)[1]["FP2701"]


@pytest.mark.parametrize(("options", "device"), [(GCN, "gcn"), (NVPTX, "nvptx")])
def test_openacc_states_dimensions(folder: Path, options: tuple[str, ...], device: str) -> None:
    made = build_program(folder, f"acc.{device}", *options, model="-fopenacc")
    with open_source(str(made)) as source:
        (container,) = [item for item in scan(source.view()) if isinstance(item, FoundContainer)]
    kernels: list[dict[str, object]] = get_format("gcc-offload").describe(container.container)["kernels"]  # type: ignore[assignment]
    vector = 32 if device == "nvptx" else 1
    assert [row["dims"] for row in kernels[-2:]] == [[0, 1, vector], [4, 1, vector]]
    assert container.attrs["model"] == "OpenACC"


@pytest.mark.parametrize("option", ["-static", "-no-pie"])
def test_other_kinds_of_programs_have_one_code_object(folder: Path, option: str) -> None:
    made = build_program(folder, f"kind{option}", *GCN, option)
    subprocess.run([tool("strip"), str(made)], check=True)
    images, messages = found(made)
    assert [(form, arch) for form, arch, _ in images] == [("code-object", "gfx803")]
    assert set(messages) == {"FP2703", "FP2706"}


def test_a_stripped_static_program_that_registers_nothing(folder: Path) -> None:
    """No name is left in it; that it has regions and no image is seen all the same."""
    made = build_program(folder, "static-disabled", "-foffload=disable", "-static")
    subprocess.run([tool("strip"), str(made)], check=True)
    images, messages = found(made)
    assert (images, list(messages)) == ([], ["FP2702"])
