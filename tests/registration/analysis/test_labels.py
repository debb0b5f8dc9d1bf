"""``--at`` and ``--bytes`` of what registers device code: every field once, with what its pointer leads to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.registration.analysis.test_described import SYCL22, TARGETS, compiled, wrapped

from fatpack.commands.inspect.bytes import describe_offset, file_labels
from fatpack.io.open import open_source
from fatpack.registration.analysis import labels

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"


def named(path: Path) -> dict[str, str]:
    """Return name → value of the labels of registration, after a check that all bytes have one label."""
    with open_source(str(path)) as source:
        view = source.view()
        found = list(file_labels(view))
        reached = 0
        for label in found:
            assert label.span.start == reached, label
            reached = label.span.end
        assert reached == len(view)
    parts = ("/record[", "/entry[", "/descriptor[", "/constructor[")
    return {
        label.name.partition("/")[2]: label.value
        for label in found
        if any(part in label.name for part in parts) and "container[" not in label.name
    }


def test_records_of_an_object() -> None:
    found = named(HOSTS / "single.o")
    assert found == {
        "record[0].magic": "0x466243b1",
        "record[0].version": "1",
        "record[0].container": "fatbinData, offset 0xa88",
        "record[0].prelinked": "0",
        "constructor[0].function": "_ZL24__sti____cudaRegisterAllv, offset 0x96f",
    }


def test_records_of_a_library() -> None:
    found = named(HOSTS / "libtwo.so")
    assert found["record[1].container"] == "0x6cd8: offset 0x6cd8"
    assert found["constructor[1].function"].endswith("_ZL24__sti____cudaRegisterAllv, offset 0x2116")


def test_entries_say_the_device_name() -> None:
    found = named(FIXTURES / "elf" / "clang-22-openmp-gfx90a.o")
    assert found["entry[0].kind"] == "1"
    assert found["entry[0].name"].startswith('"__omp_offloading_')


def test_one_byte_is_reported_with_its_record() -> None:
    with open_source(str(HOSTS / "single.o")) as source:
        lines = list(describe_offset(source.view(), 0x46F1))
    assert lines[0].endswith(".nvFatBinSegment/record[0].container, byte 1 of 8")
    assert "fatbinData, offset 0xa88" in lines[2]


@pytest.mark.reference
@pytest.mark.parametrize("target", TARGETS)
def test_descriptors_and_images(tmp_path: Path, target: str) -> None:
    openmp = named(compiled(tmp_path, wrapped(tmp_path, "22", "openmp", target), target, "openmp"))
    assert openmp["descriptor[0].image_count"] == "1"
    assert openmp["descriptor[0].entries_begin"] == "__start_llvm_offload_entries"
    assert "offset 0x" in openmp["descriptor[0].image[0].image_begin"]
    sycl = named(compiled(tmp_path, SYCL22.replace("TRIPLE", target), target, "sycl"))
    assert sycl["descriptor[0].image_count"] == "2"
    assert sycl["descriptor[0].image[1].target"].startswith('"spir64-a"')
    assert sycl["descriptor[0].image[1].version"] == "3"


@pytest.mark.parametrize(
    ("word", "sizes"), [(8, (24, 56, 32, 32, 32, 32, 96, 80)), (4, (16, 44, 20, 16, 16, 16, 48, 40))]
)
def test_records_have_the_sizes_of_their_hosts(word: int, sizes: tuple[int, ...]) -> None:
    made = (labels.wrapper_layout, labels.new_entry_layout, labels.old_entry_layout)
    made += (labels.openmp_descriptor_layout, labels.openmp_image_layout, labels.sycl_descriptor_layout)
    images = (labels.sycl_image_layout(word, 2), labels.sycl_image_layout(word, 3))
    assert tuple(each(word).size for each in made) + tuple(each.size for each in images) == sizes
