"""Fat binaries as users pack and convert them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran
from tests.formats.cuda_fatbin.test_reference import version
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.model import Image

Fatpack = Callable[..., Ran]
CUBINS = FIXTURES / "cuda" / "cubin"
RECORDED = FIXTURES / "cuda_fatbin"


def images(path: str | Path) -> list[Image]:
    with library.open(path) as file:
        assert not file.findings
        return [found.as_stored.replace(data=found.data.tobytes()) for found in file.images()]


def said(path: str | Path) -> list[tuple[str, str, str | None]]:
    return [(image.target.arch, image.form, image.compression) for image in images(path)]


def test_files_are_all_that_has_to_be_said(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=fatbin", "--image=file=a.cubin", "--image=file=k.ptx")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("wrote a.fatbin: 2 images, ")
    assert said("a.fatbin") == [("sm_80", "cubin", None), ("sm_80", "ptx", "zstd")]
    assert [image.data for image in images("a.fatbin")] == [Path("a.cubin").read_bytes(), Path("k.ptx").read_bytes()]


@pytest.mark.reference
@pytest.mark.parametrize("mode", [[], ["--compress-mode=size"], ["--compress-mode=none"], ["--compress-all"]])
def test_the_bytes_are_those_of_fatbinary(folder: Path, fatpack: Fatpack, mode: list[str]) -> None:
    producer = "13.0" if version() < (13, 1) else "13.5"
    options = ["--minify-ptx", f"--producer={producer}", *mode]
    given = [f"--image=file={name},ident=x.cu" for name in ("a.cubin", "b.cubin")]
    ran = fatpack("pack", "--format=fatbin", *given, "--image=file=k.ptx,ident=x.cu,cmdline=-O1", *options, "-o", "x")
    assert ran.code == 0, ran.err
    theirs = ["kind=elf,sm=80,file=a.cubin", "kind=elf,sm=90,file=b.cubin", "kind=ptx,sm=80,file=k.ptx"]
    reference.run(
        "fatbinary", "--create=y", "-ident=x.cu", "-cmdline=-O1", *(f"--image3={image}" for image in theirs), *mode
    )
    assert Path("x").read_bytes() == Path("y").read_bytes()


@pytest.mark.reference
def test_cuobjdump_lists_what_is_packed_into_a_host(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=fatbin", "--image=file=a.cubin", "--image=file=k.ptx", "--host=host.o", "-o", "x.o")
    assert ran.code == 0, ran.err
    listing = reference.run("cuobjdump", "-lelf", "-lptx", "x.o").stdout.decode().split()
    assert [word for word in listing if word.endswith((".cubin", ".ptx"))] == ["x.1.sm_80.cubin", "x.1.sm_80.ptx"]
    assert said("x.o") == [("sm_80", "cubin", None), ("sm_80", "ptx", "zstd")]


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("file=a.cubin,arch=sm_90", "a.cubin: arch=sm_90, and the image is for sm_80; leave out arch;"),
        ("file=a.cubin,arch=sm_80a", "a.cubin: arch=sm_80a, and the image is for sm_80;"),
        ("file=a.cubin,arch=compute_80", "compute_80 is no architecture of a cubin; write arch=sm_NN"),
        ("file=k.ptx,arch=compute_90", "k.ptx: arch=sm_90, and the image is for sm_80;"),
        ("file=a.cubin,triple=nvptx-nvidia-cuda", "triple=nvptx-nvidia-cuda, and the image is for nvptx64-nvidia-cuda"),
        ("file=a.cubin,kind=ptx", "a.cubin: stored as ptx, but the bytes are"),
        (
            "file=host.o",
            "host.o: ELF64 relocatable, x86_64, and no image of a fat binary; add kind=elf|ptx|nvvm|tileir",
        ),
        ("file=a.cubin,id=x", "a fat binary cannot store the key 'id'; it stores ident, cmdline, debug, host"),
        ("file=a.cubin,check=maybe", "check=maybe; write check=yes or check=no"),
        ("file=a.cubin,cmdline=-O1", "options '-O1' of an entry of kind elf"),
        ("file=a.cubin,host=plan9", "host 'plan9' of a fat binary; choose from none, linux, mac, windows"),
    ],
)
def test_contradictions_are_refused(folder: Path, fatpack: Fatpack, image: str, problem: str) -> None:
    ran = fatpack("pack", "--format=fatbin", f"--image={image}", "-o", "x")
    assert ran.code == 2
    assert problem in ran.err
    assert not Path("x").exists()


def test_what_is_given_can_be_stored_all_the_same(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=fatbin", "--image=file=k.ptx,arch=compute_90a,check=no", "-o", "x", "-q")
    assert ran.code == 0, ran.err
    assert said("x") == [("sm_90a", "ptx", "zstd")]


def test_a_cubin_for_a_family_says_so_by_the_command_line_in_it(folder: Path, fatpack: Fatpack) -> None:
    shutil.copy(CUBINS / "k1.cuda13.0.sm_100f.cubin", "f.cubin")
    assert fatpack("pack", "--format=fatbin", "--image=file=f.cubin", "-o", "x", "-q").code == 0
    assert fatpack("pack", "--format=fatbin", "--image=file=f.cubin,arch=sm_100f", "-o", "y", "-q").code == 0
    assert (said("x")[0][0], said("y")[0][0]) == ("sm_100f", "sm_100f")
    ran = fatpack("pack", "--format=fatbin", "--image=file=f.cubin,arch=sm_100", "-o", "z")
    assert (ran.code, "arch=sm_100, and the image is for sm_100f" in ran.err) == (2, True)


def test_attributes_and_other_kinds_are_stored(folder: Path, fatpack: Fatpack) -> None:
    options = "file=k.ptx,kind=ptx,ident=a b,cmdline=-O1,debug=yes,host=windows"
    assert (
        fatpack("pack", "--format=fatbin", f"--image={options}", "--image=file=host.o,kind=0x200", "-o", "x").code == 1
    )
    with library.open("x") as file:
        first, second = file.images()
    assert first.attrs == {"identifier": "a b", "options": "-O1", "debug": "yes", "host": "windows"}
    assert second.attrs == {"kind": "0x200"}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("all", ["80", "90a", "100f"]),
        ("none", []),
        ("newest", ["80"]),
        ("oldest", ["80"]),
        ("sm_90a,compute_80", ["80", "90a"]),
    ],
)
def test_ptx_is_included_as_the_policy_says(folder: Path, fatpack: Fatpack, policy: str, kept: Sequence[str]) -> None:
    names = [f"k1.compute_{arch}.ptx" for arch in ("80", "90a", "100f")]
    for name in names:
        shutil.copy(FIXTURES / "cuda" / "ptx" / name, name)
    given = ["--image=file=a.cubin", *(f"--image=file={name}" for name in names)]
    ran = fatpack("pack", "--format=fatbin", *given, f"--include-ptx={policy}", "-o", "x")
    assert ran.code == int("warning" in ran.err), ran.err
    assert [arch for arch, form, _ in said("x") if form == "ptx"] == [f"sm_{arch}" for arch in kept]
    left_out = [f"sm_{arch}" for arch in ("80", "90a", "100f") if arch not in kept]
    assert (f"left out: PTX for {', '.join(left_out)}\n" in ran.err) == bool(left_out)
    assert f"wrote x: {len(kept) + 1} image" in ran.err
    assert ("sm_80", "cubin", None) in said("x")


@pytest.mark.parametrize(
    ("policy", "served"),
    [("newest", "8.0, 8.6, 8.7, 8.8, 8.9, 9.0"), ("oldest", ""), ("sm_90", "8.7, 8.8"), ("all", "")],
)
def test_gpus_without_an_image_are_a_warning(folder: Path, fatpack: Fatpack, policy: str, served: str) -> None:
    for arch in ("80", "90", "100"):
        text = f".version 8.6\n.target sm_{arch}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
        (folder / f"p{arch}.ptx").write_text(text)
    given = [f"--image=file=p{arch}.ptx" for arch in ("80", "90", "100")]
    # A cubin for 8.0 serves 8.6 and 8.9 too: what is left is a Tegra part, and one of which nobody knows.
    given += ["--image=file=a.cubin"] if policy == "sm_90" else []
    ran = fatpack("pack", "--format=fatbin", *given, f"--include-ptx={policy}", "-o", "x")
    assert ran.code == int("warning" in ran.err), ran.err
    found = ran.err.partition("no image is for compute capability ")[2].partition(";")[0].partition(" and ")[0]
    assert ("FP1421" in ran.err) == bool(served)
    assert found.startswith(served.split(", ", maxsplit=1)[0]) or not served


def test_the_newest_ptx_is_one_that_later_gpus_run(folder: Path, fatpack: Fatpack) -> None:
    for arch in ("90a", "100f"):
        shutil.copy(FIXTURES / "cuda" / "ptx" / f"k1.compute_{arch}.ptx", f"{arch}.ptx")
    given = ["--image=file=90a.ptx", "--image=file=100f.ptx"]
    ran = fatpack("pack", "--format=fatbin", *given, "--include-ptx=newest", "-o", "x")
    assert ran.code == 2
    assert "none of it is portable: name its architectures; there is PTX for: sm_90a, sm_100f" in ran.err


@pytest.mark.parametrize(("policy", "kept"), [("newest", "sm_80"), ("oldest", "sm_80")])
def test_every_source_file_keeps_its_own_ptx(folder: Path, fatpack: Fatpack, policy: str, kept: str) -> None:
    shutil.copy(FIXTURES / "cuda" / "ptx" / "k1.compute_90a.ptx", "n.ptx")
    given = [f"--image=file={name},ident={source}" for source in ("x.cu", "y.cu") for name in ("k.ptx", "n.ptx")]
    assert fatpack("pack", "--format=fatbin", *given, "-o", "all").code == 0
    ran = fatpack("convert", "all", "--format=fatbin", f"--include-ptx={policy}", "-o", "x")
    assert (ran.code, "wrote x: 2 images" in ran.err) == (0, True)
    assert [(image.target.arch, image.attrs["identifier"]) for image in images("x")] == [(kept, "x.cu"), (kept, "y.cu")]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("sm_90", "no PTX for sm_90; there is PTX for: sm_80;"),
        ("none", "all images are PTX"),
        (",", "no architecture"),
        ("newst", "did you mean newest?"),
    ],
)
def test_a_policy_that_leaves_nothing_is_refused(folder: Path, fatpack: Fatpack, policy: str, problem: str) -> None:
    ran = fatpack("pack", "--format=fatbin", "--image=file=k.ptx", f"--include-ptx={policy}", "-o", "x")
    assert ran.code == 2
    assert problem in ran.err


@pytest.mark.parametrize(
    ("image", "code", "text"),
    [
        ("file=a.cubin,kind=0x10,arch=sm_80", 1, "warning FP1407"),
        ("file=other,kind=elf-like,arch=sm_80", 1, "warning FP1407"),
        ("file=empty,kind=0x10,arch=sm_80", 2, "the file is empty"),
        ("file=empty,kind=nvvm,arch=sm_80,check=no", 2, "the file is empty"),
    ],
)
def test_what_no_driver_takes_is_not_packed_silently(
    folder: Path, fatpack: Fatpack, image: str, code: int, text: str
) -> None:
    (folder / "empty").touch()
    (folder / "other").write_bytes(b"no device code\n" * 9)
    ran = fatpack("pack", "--format=fatbin", f"--image={image}", "-o", "x")
    assert ran.code == code
    assert text in ran.err


def test_a_version_that_is_not_known_is_not_converted_silently(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", "--format=fatbin", "--image=file=a.cubin", "-o", "x", "-q").code == 0
    data = bytearray(Path("x").read_bytes())
    data[4] = 9
    Path("x").write_bytes(data)
    ran = fatpack("convert", "x", "--format=fatbin", "-o", "y")
    assert ran.code == 1
    assert "not converted: container 0: that it is a cuda-fatbin of version 9" in ran.err
    assert fatpack("convert", "x", "--format=fatbin", "--lossy", "-o", "y").code == 0


def test_source_files_for_other_architectures_are_reported(folder: Path, fatpack: Fatpack) -> None:
    names = ["a.cubin,ident=x.cu", "b.cubin,ident=x.cu", "a.cubin,ident=y.cu"]
    ran = fatpack("pack", "--format=fatbin", *(f"--image=file={name}" for name in names), "-o", "x")
    assert ran.code == 1
    assert "FP1420" in ran.err
    assert "'y.cu' lacks sm_90 (cubin), compared with 'x.cu'" in ran.err
    even = fatpack("pack", "--format=fatbin", *(f"--image=file={name}" for name in names[:2]), "-o", "y")
    assert "FP1420" not in even.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--format=fatbin", "--compress"], "--compress is not for fatbin; use --compress-mode, --compress-all"),
        (["--format=fatbin", "--type=o"], "--type is for --format=bundle, not for fatbin"),
        (["--format=fatbin", "--concat"], "groups of entries are written since CUDA 13.4; add --producer=13.5"),
        (["--format=bundle", "--compress-mode=size"], "--compress-mode is for --format=fatbin, not for bundle"),
        (["--include-ptx=none"], "--include-ptx is for --format=fatbin, not for offload-binary"),
    ],
)
def test_options_of_other_formats_are_refused(folder: Path, fatpack: Fatpack, options: list[str], problem: str) -> None:
    ran = fatpack("pack", "--image=file=a.cubin,triple=nvptx64-nvidia-cuda", *options, "-o", "x")
    assert ran.code == 2
    assert problem in ran.err


def stored(name: str) -> Path:
    return RECORDED / name


@pytest.mark.parametrize(
    "name", ["v112_all_ident", "v124_all_ident", "v130_ltoir", "v130_size", "v130_reloc_ptx", "v135_concat_tiny"]
)
def test_entries_are_copied_as_they_are_stored(folder: Path, fatpack: Fatpack, name: str) -> None:
    path = stored(f"{name}.fatbin")
    ran = fatpack("convert", path, "--format=fatbin", "-o", "x")
    assert ran.code == 0, ran.err
    assert Path("x").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "name", ["v112_all_ident", "v124_all_ident", "v130_ptx32", "v130_reloc_ptx", "v135_concat_tiny"]
)
def test_there_and_back_gives_the_same_entries(folder: Path, fatpack: Fatpack, name: str) -> None:
    path = stored(f"{name}.fatbin")
    assert fatpack("convert", path, "--format=offload-binary", "-o", "there").code == 0
    assert fatpack("convert", "there", "--format=fatbin", "-o", "back").code == 0
    keys = ("target", "form", "attrs", "data")
    before, after = ([[getattr(image, key) for key in keys] for image in images(file)] for file in (path, "back"))
    assert after == before


def test_a_way_of_compression_is_a_request_to_compress_again(folder: Path, fatpack: Fatpack) -> None:
    path = stored("v130_size.fatbin")
    for mode, methods in (("none", {None}), ("speed", {"lz4", None}), ("size", {"zstd"})):
        assert fatpack("convert", path, "--format=fatbin", f"--compress-mode={mode}", "-o", mode, "-q").code == 0
        assert {image.compression for image in images(mode)} == methods
        assert [image.data for image in images(mode)] == [image.data for image in images(path)]
    assert Path("size").read_bytes() == path.read_bytes()
    grouped = ["--producer=13.5", "--concat"]
    assert fatpack("convert", path, "--format=fatbin", *grouped, "-o", "grouped", "-q").code == 0
    assert [image.data for image in images("grouped")] == [image.data for image in images(path)]


def test_obfuscated_images_stay_as_they_are_and_go_nowhere_else(folder: Path, fatpack: Fatpack) -> None:
    path = stored("v130_ltoir.fatbin")
    assert fatpack("convert", path, "--format=fatbin", "--compress-mode=none", "-o", "x").code == 0
    assert Path("x").read_bytes() == path.read_bytes()
    ran = fatpack("convert", path, "--format=offload-binary", "-o", "y")
    assert ran.code == 4
    assert "is obfuscated by its producer; only a fat binary can hold it" in ran.err


def test_images_of_an_offload_binary_make_one_fat_binary(folder: Path, fatpack: Fatpack) -> None:
    given = [f"--image=file={name},triple=nvptx64-nvidia-cuda,arch={arch},kind=cuda" for name, arch in _CUDA]
    assert fatpack("pack", *given, "-o", "in").code == 0
    assert fatpack("convert", "in", "--format=fatbin", "-o", "x").code == 0
    assert said("x") == [("sm_80", "cubin", None), ("sm_90", "cubin", None), ("sm_80", "ptx", "zstd")]
    assert fatpack("pack", *given, given[0], "-o", "twice").code == 0
    assert fatpack("convert", "twice", "--format=fatbin", "-o", "y").code == 0
    with library.open("y") as file:
        assert [len(found.container.images) for found in file.containers] == [3, 1]


_CUDA = [("a.cubin", "sm_80"), ("b.cubin", "sm_90"), ("k.ptx", "sm_80")]


def test_losses_and_foreign_images_keep_the_output_from_being_written(folder: Path, fatpack: Fatpack) -> None:
    assert (
        fatpack("pack", "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,kind=openmp,color=red", "-o", "in").code == 0
    )
    ran = fatpack("convert", "in", "--format=fatbin", "-o", "x")
    assert ran.code == 1
    assert "the key color=red" in ran.err
    assert "the programming model 'openmp'" in ran.err
    assert not Path("x").exists()
    assert fatpack("convert", "in", "--format=fatbin", "-o", "x", "--lossy").code == 0
    assert said("x") == [("sm_80", "cubin", None)]
    assert fatpack("pack", "--image=file=host.o,triple=x86_64-unknown-linux-gnu", "-o", "cpu").code == 0
    ran = fatpack("convert", "cpu", "--format=fatbin", "-o", "y")
    assert ran.code == 4
    assert "cpu: image 0.0 x86_64-unknown-linux-gnu object is no image for NVIDIA GPUs" in ran.err


def test_a_bundle_says_openmp_of_cuda_if_it_may_and_gives_the_images_back(folder: Path, fatpack: Fatpack) -> None:
    path = stored("recorded/v130_all.fatbin")
    ran = fatpack("convert", path, "--format=bundle", "-o", "x")
    assert ran.code == 1
    assert (
        "not converted: image 0.1 cuda nvptx64-nvidia-cuda sm_90a cubin: the programming model 'cuda', in place of"
        in ran.err
    )
    assert ran.err.count("fatpack: note FP1315: ") == 1
    assert "--image" not in ran.err
    assert not Path("x").exists()
    assert fatpack("convert", path, "--format=bundle", "--lossy", "-o", "x").code == 0
    with library.open("x") as file:
        ids = [found.attrs["id"] for found in file.images()]
    assert ids == [f"openmp-nvptx64-nvidia-cuda-unknown-{arch}" for arch in ("sm_80", "sm_90a", "sm_90a")]
    assert fatpack("convert", "x", "--format=fatbin", "--lossy", "-o", "back").code == 0
    keys = ("target", "form", "data")
    before, after = ([[getattr(image, key) for key in keys] for image in images(file)] for file in (path, "back"))
    assert after == before


def test_a_fat_binary_in_an_offload_binary_comes_out_with_its_entries(folder: Path, fatpack: Fatpack) -> None:
    path = stored("v130_size.fatbin")
    shutil.copy(path, "in.fatbin")
    assert fatpack("pack", "--image=file=in.fatbin,triple=nvptx64-nvidia-cuda,arch=sm_80", "-o", "outer").code == 0
    assert fatpack("convert", "outer", "--format=fatbin", "-o", "x").code == 0
    assert Path("x").read_bytes() == path.read_bytes()


def test_the_library_does_the_same(folder: Path, fatpack: Fatpack) -> None:
    given = ["--image=file=a.cubin,ident=x.cu", "--image=file=k.ptx,ident=x.cu"]
    assert fatpack("pack", "--format=fatbin", *given, "--compress-mode=size", "--minify-ptx", "-o", "x").code == 0
    files = [library.ImageFile(name, offload="cuda", attrs={"ident": "x.cu"}) for name in ("a.cubin", "k.ptx")]
    options = library.FatbinOptions(compress_mode="size", minify_ptx=True)
    library.pack(files, "y", options=options)
    assert Path("y").read_bytes() == Path("x").read_bytes()
    library.convert("y", "z", options=library.FatbinOptions(compress_mode="none"))
    assert {image.compression for image in images("z")} == {None}
    with pytest.raises(library.UsageError, match="offload model 'hip' in a fat binary"):
        library.pack([library.ImageFile("a.cubin", offload="hip")], "u", format="fatbin")


def test_the_listing_says_what_ptx_itself_is_for(folder: Path, fatpack: Fatpack) -> None:
    for arch, words in (("compute_90", "PTX 9.0, 64-bit, for sm_80\n"), ("compute_80", "PTX 9.0, 64-bit\n")):
        assert fatpack("pack", "--format=fatbin", f"--image=file=k.ptx,arch={arch},check=no", "-o", arch).code == 0
        assert words in fatpack("inspect", "-v", arch).out


def test_a_kind_of_offload_is_no_kind_of_image(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=fatbin", "--image=file=a.cubin,kind=cuda", "-o", "x")
    problem = "a.cubin: kind=cuda is no kind of image in a fat binary; leave out kind, or write kind=elf, ptx, nvvm"
    assert (ran.code, problem in ran.err) == (2, True)
