"""GCC's own offloading: objects, programs and libraries, from fixtures and from GCC itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import tool

from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

_REGIONS = """
#pragma omp declare target
int counter = 7;
double table[4];
int helper(int x) { return x * counter; }
#pragma omp end declare target
void scale(float *a, int n, float f) {
#pragma omp target teams distribute parallel for map(tofrom: a[0:n])
  for (int i = 0; i < n; i++) a[i] *= f;
}
int main(int c, char **v) {
  int s = 0; float a[8] = {0};
#pragma omp target map(tofrom: s)
  { s += helper(c); }
  scale(a, 8, 2.f);
  return s > 99;
}
"""
_NVPTX = ("-foffload=nvptx-none", "-foffload-options=nvptx-none=-Wa,--no-verify")
_GCN = ("-foffload=amdgcn-amdhsa",)


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
    assert "OpenACC, 2 kernels, 1 variable" in messages["FP2701"]


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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gcc") / "two.c"
    file.write_text(_REGIONS)
    return file


def built(source: Path, name: str, *options: str) -> Path:
    made = source.parent / name
    subprocess.run([tool("gcc-12"), "-O2", *options, str(source), "-o", str(made)], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("options", [(), ("-no-pie",), ("-fPIC", "-shared")])
def test_gcc_links_both_accelerators(source: Path, options: tuple[str, ...]) -> None:
    made = built(source, "both", "-fopenmp", "-foffload=amdgcn-amdhsa,nvptx-none", _NVPTX[1], *options)
    for is_stripped in (False, True):
        if is_stripped:
            subprocess.run([tool("strip"), str(made)], check=True)
        images, messages = found(made)
        assert [form for form, _, _ in images].count("code-object") == 1
        texts = [image for image in images if image[0] == "ptx"]
        assert len(texts) == 24
        assert texts[0] == ("ptx", "compute_30", ["scale$_omp_fn$0", "main$_omp_fn$0"])
        assert "2 target regions and 2 variables" in messages["FP2703"]


def test_gcc_names_the_processor(source: Path) -> None:
    made = built(source, "gfx906", "-fopenmp", *_GCN, "-foffload-options=amdgcn-amdhsa=-march=gfx906")
    assert [arch for form, arch, _ in found(made)[0] if form == "code-object"] == ["gfx906:xnack-"]


def test_gccs_objects_are_alike_for_all_accelerators(source: Path) -> None:
    for option in (*_GCN, _NVPTX[0], "-foffload=disable"):
        images, messages = found(built(source, "o.o", "-fopenmp", option, "-c"))
        assert images == []
        assert "OpenMP, 2 kernels, 2 variables" in messages["FP2701"]
    slim = built(source, "slim.o", "-fopenmp", "-flto", "-fno-fat-lto-objects", "-c")
    assert "at most 3 kernels" in found(slim)[1]["FP2701"]


def test_a_link_without_the_plugin_is_said(source: Path) -> None:
    item = built(source, "plain.o", "-fopenmp", "-c")
    made = item.parent / "noplugin"
    words = [tool("gcc-12"), "-fopenmp", "-fno-use-linker-plugin", str(item), "-o", str(made)]
    subprocess.run(words, check=False, capture_output=True)  # its LTO wrapper fails, and leaves the program
    assert list(found(made)[1]) == ["FP2702"]


def test_a_program_without_regions_is_silent(source: Path) -> None:
    plain = source.parent / "plain.c"
    plain.write_text("int main(void) {\n#pragma omp parallel\n { }\n return 0; }\n")
    assert found(built(plain, "plain", "-fopenmp")) == ([], {})
