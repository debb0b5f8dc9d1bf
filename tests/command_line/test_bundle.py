"""Bundles as users pack them, select from them by ID, and compare with clang-offload-bundler."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran

import fatpack as library
from fatpack.errors import UsageError

Fatpack = Callable[..., Ran]

HOST = "host-x86_64-unknown-linux-gnu"
GFX90A = "hipv4-amdgcn-amd-amdhsa--gfx90a"
GFX1030 = "hipv4-amdgcn-amd-amdhsa--gfx1030"


def image(file: str, id: str) -> str:
    return f"--image=file={file},id={id}"


@pytest.fixture
def images(folder: Path) -> Path:
    (folder / "one.bin").write_bytes(bytes(range(256)) * 11)
    (folder / "two.bin").write_bytes(b"two" * 999)
    (folder / "host.txt").write_bytes(b"int main;\n")
    return folder


CASES: list[tuple[list[str], list[str]]] = [
    (["--type=bc"], ["-type=bc"]),
    (["--type=gch", "--bundle-align=4096"], ["-type=gch", "-bundle-align=4096"]),
    (["--type=o", "--bundle-align=100"], ["-type=o", "-bundle-align=100"]),
    *[([f"--type={type}"], [f"-type={type}"]) for type in ("i", "ii", "cui", "hipi", "d", "ll", "s", "ast")],
]


@pytest.mark.parametrize(("ours", "theirs"), CASES, ids=" ".join)
def test_a_packed_bundle_is_the_one_of_the_original(
    images: Path, fatpack: Fatpack, ours: list[str], theirs: list[str]
) -> None:
    pairs = {"host.txt": HOST, "one.bin": GFX90A, "two.bin": f"{GFX1030}"}
    assert fatpack("pack", "--format=bundle", *ours, *[image(*pair) for pair in pairs.items()], "-o", "our").code == 0
    inputs = [f"-input={file}" for file in pairs]
    targets = f"-targets={','.join(pairs.values())}"
    reference.run("clang-offload-bundler", *theirs, targets, *inputs, "-output=their", cwd=images)
    assert (images / "our").read_bytes() == (images / "their").read_bytes()


@pytest.mark.parametrize("version", [2, 3])
def test_a_compressed_bundle_is_read_by_the_original(images: Path, fatpack: Fatpack, version: int) -> None:
    pack = ["pack", "--format=bundle", "--compress", f"--ccob-version={version}", "-o", "b"]
    assert fatpack(*pack, image("/dev/null", HOST), image("one.bin", GFX90A)).code == 0
    unbundle = ["-type=bc", "-unbundle", f"-targets={GFX90A}", "-input=b", "-output=back"]
    reference.run("clang-offload-bundler", *unbundle, cwd=images)
    assert (images / "back").read_bytes() == (images / "one.bin").read_bytes()


def test_triple_arch_and_kind_make_the_same_bundle_as_the_id(images: Path, fatpack: Fatpack) -> None:
    fatpack("pack", "--format=bundle", image("one.bin", GFX90A), "-o", "by-id")
    spelled = "--image=file=one.bin,kind=hip,triple=amdgcn-amd-amdhsa,arch=gfx90a"
    assert fatpack("pack", "--format=bundle", spelled, "-o", "by-parts").code == 0
    assert (images / "by-id").read_bytes() == (images / "by-parts").read_bytes()


def test_an_unnamed_bundle_is_named_after_the_first_image_that_is_a_file(images: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=bundle", image("/dev/null", HOST), image("one.bin", GFX90A))
    assert ran.err.startswith("wrote one.bundle: 2 images")


REFUSED = {
    "a key a bundle has no place for": (["--image=file=one.bin,id=x-y,producer=me"], "cannot store the key 'producer'"),
    "the target stated twice": ([f"--image=file=one.bin,id={GFX90A},arch=gfx90a"], "id already states what arch does"),
    "no kind": (["--image=file=one.bin,triple=amdgcn-amd-amdhsa"], "needs to know the kind"),
    "a kind of other containers": (["--image=file=one.bin,kind=cuda,triple=t"], "kind=cuda is no offload kind"),
    "no triple": (["--image=file=one.bin,kind=hip"], "need a triple"),
    "an empty ID": (["--image=file=one.bin,id="], "the bundle ID is empty"),
    "two hosts": ([image("one.bin", HOST), image("two.bin", "host-aarch64-unknown-linux-gnu")], "2 images for a host"),
    "one ID twice": ([image("one.bin", GFX90A), image("two.bin", GFX90A)], "two images have the bundle ID"),
    "conflicting features": (
        [image("one.bin", GFX90A), image("two.bin", f"{GFX90A}:xnack+")],
        "xnack",
    ),
    "a version without compression": ([image("one.bin", GFX90A), "--ccob-version=2"], "need --compress"),
    "an option of offload binaries": (
        [image("one.bin", GFX90A), "--container-version=2"],
        "--container-version is for",
    ),
    "an alignment of text": ([image("one.bin", GFX90A), "--type=s", "--bundle-align=8"], "has no alignment"),
}


def test_pack_says_how_a_bundle_gets_an_image_for_the_host(images: Path, fatpack: Fatpack) -> None:
    device = image("one.bin", "openmp-amdgcn-amd-amdhsa--gfx90a")
    ran = fatpack("pack", "--format=bundle", device, "-o", "b")
    assert (ran.code, "note FP1315: " in ran.err) == (0, True)
    (option,) = re.findall("add (--image=.*)", ran.err)
    ran = fatpack("pack", "--format=bundle", option, device, "-o", "c")
    assert (ran.code, "FP1315" in ran.err) == (0, False)


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_a_bundle_cannot_be_is_refused_with_the_reason(
    images: Path, fatpack: Fatpack, options: list[str], message: str
) -> None:
    ran = fatpack("pack", "--format=bundle", *options, "-o", "x")
    assert ran.code == 2
    assert message in ran.err
    assert not (images / "x").exists()


def test_options_of_bundles_are_refused_for_offload_binaries(images: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--image=file=one.bin,triple=t", "--type=bc", "-o", "x")
    assert (ran.code, "--type is for --format=bundle" in ran.err) == (2, True)


def test_a_bundle_goes_into_a_section_of_a_host_and_out_again(images: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", "--format=bundle", image("one.bin", GFX90A), "--host", "host.o", "-o", "fat.o").code == 0
    assert ".hip_fatbin at" in fatpack("inspect", "fat.o").out
    assert fatpack("extract", "fat.o", "--id", GFX90A, "-o", "back").code == 0
    assert (images / "back").read_bytes() == (images / "one.bin").read_bytes()
    assert fatpack("remove", "fat.o", "-o", "slim.o").code == 0
    assert "no device code found" in fatpack("inspect", "slim.o").out


@pytest.fixture
def bundle(images: Path, fatpack: Fatpack) -> Path:
    made = fatpack("pack", "--format=bundle", image("/dev/null", HOST), image("one.bin", GFX90A), "-o", "b",
                   image("two.bin", f"{GFX1030}"))  # fmt: skip
    assert made.code == 0
    return images


@pytest.mark.parametrize(
    ("request_id", "reason"),
    [
        (GFX90A, "its exact ID"),
        ("hipv4-amdgcn-amd-amdhsa-unknown-gfx90a", "the same ID in normal form"),
        ("hip-amdgcn-amd-amdhsa--gfx90a", "hipv4 serves hip"),
        (f"{GFX90A}:xnack+", "it leaves xnack open"),
    ],
)
def test_an_image_is_chosen_by_id_and_the_reason_said(
    bundle: Path, fatpack: Fatpack, request_id: str, reason: str
) -> None:
    ran = fatpack("extract", "b", "--id", request_id, "-o", "x")
    assert ran.code == 0
    assert f"{request_id}: chose {GFX90A}, " in ran.err
    assert reason in ran.err
    assert (bundle / "x").read_bytes() == (bundle / "one.bin").read_bytes()


def test_the_exact_id_wins_over_compatible_ones_and_more_features_over_fewer(images: Path, fatpack: Fatpack) -> None:
    for name in ("any", "both"):
        (images / name).write_text(name)
    any_id, both = "hip-amdgcn-amd-amdhsa--gfx90a", "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack+"
    fatpack("pack", "--format=bundle", image("any", any_id), image("both", both), "-o", "b")
    ran = fatpack("extract", "b", "--id", "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack+", "-o", "x")
    assert (images / "x").read_text() == "both"
    assert f"(also compatible: {any_id})" in ran.err
    fatpack("extract", "b", "--id", any_id, "-o", "y")
    assert (images / "y").read_text() == "any"


SPELLINGS = ["hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgpu-amd-amdhsa--gfx90a", "hip-amdgpu9.0a-amd-amdhsa--"]


@pytest.mark.parametrize("stored", SPELLINGS)
def test_the_names_of_llvm_22_and_llvm_23_mean_one_target(images: Path, fatpack: Fatpack, stored: str) -> None:
    other = "hip-amdgpu9.08-amd-amdhsa--"
    fatpack("pack", "--format=bundle", image("two.bin", other), image("one.bin", stored), "-o", "b")
    selections = [["--id", id] for id in SPELLINGS]
    selections += [["--arch", "gfx90a"], ["--arch", "gfx90*", "--triple", "!*9.08*"], ["--triple", "amdgpu9.0a-*"]]
    for selection in selections:
        ran = fatpack("extract", "b", *selection, "-o", "x", "--force")
        assert (ran.code, selection) == (0, selection), ran.err
        assert (images / "x").read_bytes() == (images / "one.bin").read_bytes()
    for triple in ("amdgcn-amd-amdhsa", "amdgpu-amd-amdhsa"):
        assert fatpack("extract", "b", "--triple", triple, "-d", "both", "--force").out.count("\n") == 2
    ran = fatpack("extract", "b", "--arch", "gfx942", "-o", "y")
    assert (ran.code, "architectures present: gfx908, gfx90a" in ran.err) == (1, True)
    written = (images / "b").read_bytes()
    assert (written.count(stored.encode()), written.count(other.encode())) == (1, 1)


def test_unknown_processors_are_distinguished(images: Path, fatpack: Fatpack) -> None:
    """clang-offload-bundler 22 hands out the image of one unknown processor for any other."""
    ids = [f"hipv4-amdgcn-amd-amdhsa--gfx{number}" for number in ("940", "941", "9999")]
    fatpack("pack", "--format=bundle", image("one.bin", ids[0]), image("two.bin", ids[1]), "-o", "b")
    assert fatpack("extract", "b", "--id", ids[1], "-o", "x").code == 0
    assert (images / "x").read_bytes() == (images / "two.bin").read_bytes()
    assert fatpack("extract", "b", "--id", ids[2], "-o", "y").code == 1


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (":bogus+", "gfx90a has no feature 'bogus' that a target ID could set; it has sramecc and xnack"),
        (":bogus-:xnack+", "gfx90a has no feature 'bogus' that a target ID could set; it has sramecc and xnack"),
    ],
)
def test_features_that_a_processor_does_not_have_find_their_very_id_only(
    images: Path, fatpack: Fatpack, features: str, why: str
) -> None:
    plain = "hipv4-amdgcn-amd-amdhsa--gfx90a"
    ran = fatpack("pack", "--format=bundle", image("one.bin", plain), "-o", "b")
    assert (ran.code, "warning" in ran.err) == (0, False)
    ran = fatpack("extract", "b", "--id", plain + features, "-o", "x")
    assert (ran.code, (images / "x").exists()) == (1, False)
    assert f"no image for the bundle ID {plain}{features} ({why}); present are {plain}" in ran.err
    ran = fatpack("pack", "--format=bundle", image("one.bin", plain + features), "-o", "odd")
    assert (ran.code, f"warning: {why}" in ran.err) == (1, True)
    assert fatpack("extract", "odd", "--id", plain + features, "-o", "x").code == 0


def test_features_are_for_amd_gpus_known_or_not(images: Path, fatpack: Fatpack) -> None:
    ids = ["openmp-nvptx64-nvidia-cuda-unknown-sm_70", "hip-amdgcn-amd-amdhsa--gfx9999"]
    fatpack("pack", "--format=bundle", *(image("one.bin", id) for id in ids), "-o", "b")
    ran = fatpack("extract", "b", "--id", f"{ids[0]}:xnack+", "-o", "x")
    assert (ran.code, "features are for AMD GPUs, and nvptx64-nvidia-cuda-unknown has none" in ran.err) == (1, True)
    assert fatpack("extract", "b", "--id", f"{ids[1]}:any+", "-o", "x").code == 0


def test_an_architecture_is_no_bundle_id(bundle: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "b", "--id", "gfx90a", "-o", "x")
    assert ran.code == 1
    assert "for an architecture alone use --arch" in ran.err


def test_a_missing_id_writes_nothing_and_says_what_there_is(bundle: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "b", "--id", GFX90A, "--id", "hip-amdgcn-amd-amdhsa--gfx1100", "-d", "out")
    assert ran.code == 1
    assert (
        "no image for the bundle ID hip-amdgcn-amd-amdhsa--gfx1100 (the processors differ: gfx90a and gfx1100"
        in ran.err
    )
    assert f"; present are {HOST}-, {GFX90A}" in ran.err
    assert not (bundle / "out").exists()


def test_the_library_refuses_an_id_that_is_missing(bundle: Path) -> None:
    present = library.open(bundle / "b").containers[0].images[1].attrs["id"]
    for ids in ((present, "hip-amdgcn-amd-amdhsa--gfx1100"), "hip-amdgcn-amd-amdhsa--gfx1100"):
        with pytest.raises(UsageError, match=f"no image for the bundle ID hip-.*gfx1100 .*; present are .*{present}"):
            library.extract(bundle / "b", bundle / "out", library.Selector(id=ids))
    assert not (bundle / "out").exists()
    assert len(library.extract(bundle / "b", bundle / "out", library.Selector(id=present))) == 1


def test_text_that_no_file_can_hold_is_refused(bundle: Path) -> None:
    for words in ({"triple": "a\ud800"}, {"attrs": {"k\ud800": "v"}}):
        with pytest.raises(UsageError, match="cannot be stored as text"):
            library.pack([library.ImageFile(b"image", **words)], bundle / "out")  # type: ignore[arg-type]
    assert not (bundle / "out").exists()


def test_a_missing_image_can_be_allowed(bundle: Path, fatpack: Fatpack) -> None:
    wanted = ["--id", "hip-amdgcn-amd-amdhsa--gfx1100", "--allow-missing"]
    assert fatpack("extract", "b", *wanted, "-o", "x").code == 0
    assert (bundle / "x").read_bytes() == b""
    assert fatpack("extract", "b", "--id", GFX90A, *wanted, "-o", "y").code == 0
    assert (bundle / "y").read_bytes() == (bundle / "one.bin").read_bytes()


def test_hip_and_openmp_replace_each_other_only_on_request(bundle: Path, fatpack: Fatpack) -> None:
    wanted = ["--id", "openmp-amdgcn-amd-amdhsa--gfx90a", "-o", "x"]
    assert fatpack("extract", "b", *wanted).code == 1
    assert fatpack("extract", "b", *wanted, "--hip-openmp").code == 0


@pytest.mark.parametrize("features", [":xnack", ":xnack+:xnack-", ":+"])
def test_an_id_with_features_that_are_none_is_refused(bundle: Path, fatpack: Fatpack, features: str) -> None:
    ran = fatpack("extract", "b", "--id", GFX90A + features, "-o", "x")
    assert (ran.code, "feature" in ran.err) == (2, True)
    assert not (bundle / "x").exists()
