"""Labels of an image in the place of another, in the words of each format."""

from __future__ import annotations

import pytest
from tests.laws.rooms import FIXTURES

from fatpack import formats
from fatpack.edit.replace_images import ReplacementMetadata, replacement_image
from fatpack.errors import UsageError
from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_view

NEW = make_view(b"new bytes", "new")


def first(path: str) -> tuple[Container, Image]:
    """Return a container of a fixture and its last image."""
    found = next(item for item in scan(make_view((FIXTURES / path).read_bytes())) if isinstance(item, FoundContainer))
    return found.container, found.container.images[-1]


def again(container: Container, images: tuple[Image, ...]) -> Container:
    """Return a container with these images as a reader sees it, once it was written."""
    room = formats.get_format(container.format)
    return room.parse(make_view(join_pieces(room.write(container.replace(images=images)))))


@pytest.mark.parametrize(
    "path",
    [
        "offload_binary/fatpack-v2.bin",
        "offload_binary/fatpack-v3-zlib.bin",
        "clang_bundle/llvm-22-hip.bundle",
        "clang_bundle/llvm-22-v3-zstd.bundle",
        "kpack/needs.plain.kpack",
        "kpack/needs.zstd.kpack",
    ],
)
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_new_arch_is_what_a_reader_finds_and_all_else_stays(path: str, is_beside: bool) -> None:
    container, old = first(path)
    new = replacement_image(old, container.format, NEW, ReplacementMetadata(arch="gfx1201"), is_beside=is_beside)
    kept = container.images if is_beside else container.images[:-1]
    read = again(container, (*kept, new))
    assert len(read.images) == len(kept) + 1
    image = read.images[-1]
    assert image.data.tobytes() == b"new bytes"
    assert (image.target.triple, image.target.arch, image.target.offload) == (
        old.target.triple,
        "gfx1201",
        old.target.offload,
    )
    assert image.form == old.form
    assert {**image.attrs, "id": ""} == {**old.attrs, "id": ""}
    assert [(one.target, one.data.tobytes()) for one in read.images[:-1]] == [
        (one.target, one.data.tobytes()) for one in kept
    ]


@pytest.mark.parametrize(
    ("spelling", "labels", "expected"),
    [
        ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", ReplacementMetadata(arch="gfx942"), "hip-amdgcn-amd-amdhsa--gfx942"),
        (
            "hipv4-amdgcn-amd-amdhsa--gfx90a",
            ReplacementMetadata(arch="gfx942:xnack-"),
            "hipv4-amdgcn-amd-amdhsa--gfx942:xnack-",
        ),
        ("hip-amdgcn-amd-amdhsa-gfx906", ReplacementMetadata(arch="gfx908"), "hip-amdgcn-amd-amdhsa-gfx908"),
        ("sycl-spir64-unknown-unknown-", ReplacementMetadata(arch="pvc"), "sycl-spir64-unknown-unknown-unknown-pvc"),
        (
            "sycl-spir64-unknown-unknown-",
            ReplacementMetadata("spir64_gen-unknown-unknown", "pvc"),
            "sycl-spir64_gen-unknown-unknown-unknown-pvc",
        ),
        (
            "hip-amdgcn-amd-amdhsa--gfx90a",
            ReplacementMetadata("amdgcn-amd-amdpal"),
            "hip-amdgcn-amd-amdpal-unknown-gfx90a",
        ),
    ],
)
def test_a_bundle_id_names_the_new_target_in_the_style_of_the_old(
    spelling: str, labels: ReplacementMetadata, expected: str
) -> None:
    old = Image(parse_bundle_id(spelling).target, "", NEW, 9, 9, NEW.span(), attrs={"id": spelling})
    new = replacement_image(old, "clang-offload-bundle", NEW, labels)
    assert new.attrs["id"] == expected
    assert new.target == parse_bundle_id(expected).target


def test_a_target_that_no_bundle_can_name_is_refused() -> None:
    old = Image(Target("x", "", "kind y (unknown)", "y-x"), "", NEW, 9, 9, NEW.span(), attrs={"id": "y-x"})
    with pytest.raises(UsageError, match="cannot name the programming model"):
        replacement_image(old, "clang-offload-bundle", NEW, ReplacementMetadata(arch="gfx90a"))


def test_an_entry_of_a_fat_binary_says_nothing_of_the_bytes_that_were_there() -> None:
    container, old = first("cuda_fatbin/hosts/single.o")
    assert (old.form, old.attrs.get("options")) != ("cubin", None)
    data = make_view((FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin").read_bytes())
    new = replacement_image(old, container.format, data, ReplacementMetadata(form="cubin"))
    image = again(container, (*container.images[:-1], new)).images[-1]
    assert (image.form, image.target.arch, image.data.tobytes()) == ("cubin", "sm_90", data.tobytes())
    assert not {"options", "kind"} & image.attrs.keys()


def test_an_offload_binary_states_the_new_kind_and_gets_keys_that_it_did_not_have() -> None:
    container, _ = first("offload_binary/fatpack-v2.bin")
    bare = container.images[0].replace(record=None, target=Target(offload="cuda"), form="ptx", attrs={"own": "key"})
    read = again(Container("llvm-offload-binary", 2, (bare,), Span(0, 0)), (bare,))
    new = replacement_image(
        read.images[0], read.format, NEW, ReplacementMetadata("nvptx64-nvidia-cuda", "sm_90", "cubin")
    )
    image = again(read, (new,)).images[0]
    assert (image.target.triple, image.target.arch, image.form) == ("nvptx64-nvidia-cuda", "sm_90", "cubin")
    assert image.attrs == {"own": "key"}
