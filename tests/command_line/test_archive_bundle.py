"""Heterogeneous archives: members that are bundles, taken apart by target and put together again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran

import fatpack as library

Fatpack = Callable[..., Ran]

HOST = "host-x86_64-unknown-linux-gnu"
IDS = ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx1030", "openmp-nvptx64-nvidia-cuda--sm_70")


@pytest.fixture
def archive(folder: Path) -> Path:
    """A folder with het.a: two bundles of the same name and one of another, made by the original."""
    members = []
    for number, name in enumerate(("one.o", "two.bc", "one.o")):
        inputs = []
        for part in range(len(IDS)):
            (folder / f"{part}.bin").write_bytes(bytes([65 + number * 10 + part]) * (50 + number + part))
            inputs.append(f"-input={part}.bin")
        (folder / str(number)).mkdir()
        targets = f"-targets={HOST},{','.join(IDS)}"
        output = f"-output={number}/{name}"
        reference.run("clang-offload-bundler", "-type=bc", targets, "-input=0.bin", *inputs, output, cwd=folder)
        members.append(f"{number}/{name}")
    reference.run("llvm-ar", "qcD", "het.a", *members, cwd=folder)
    return folder


@pytest.mark.parametrize("id", IDS)
def test_the_archive_for_a_target_is_the_one_of_the_original(archive: Path, fatpack: Fatpack, id: str) -> None:
    assert fatpack("extract", "het.a", "--id", id, "--archive", "-o", "our.a").code == 0
    unbundle = ["-type=a", "-unbundle", f"-targets={id}", "-input=het.a", "-output=their.a"]
    reference.run("clang-offload-bundler", *unbundle, cwd=archive)
    assert (archive / "our.a").read_bytes() == (archive / "their.a").read_bytes()


def test_archives_per_target_become_one_of_bundles_again(archive: Path, fatpack: Fatpack) -> None:
    options = []
    for number, id in enumerate((HOST, *IDS)):
        fatpack("extract", "het.a", "--id", id, "--archive", "-o", f"{number}.a")
        options.append(f"--image=file={number}.a,id={id}")
    assert fatpack("pack", "--format=bundle", "--type=a", *options, "-o", "again.a").code == 0
    with library.open(archive / "het.a") as before, library.open(archive / "again.a") as after:
        first, second = (sorted((i.attrs["id"], i.data.tobytes()) for i in f.images()) for f in (before, after))
        assert first == second
        stored = [[image.attrs["id"] for image in found.images] for found in before.containers]
        assert [[image.attrs["id"] for image in found.images] for found in after.containers] == stored
    # The original finds everything in ours.
    unbundle = ["-type=a", "-unbundle", f"-targets={IDS[0]}", "-input=again.a", "-output=back.a"]
    reference.run("clang-offload-bundler", *unbundle, cwd=archive)
    with library.open(archive / "again.a") as file:
        wanted = [i.data.tobytes() for i in file.images(library.Selector(id=IDS[0]))]
    from fatpack import binary
    from fatpack.io.open import open_source
    from fatpack.model import Finding

    with open_source(archive / "back.a") as source:
        sites = binary.get_host("archive").locate(source.view())
        assert [site.data.tobytes() for site in sites if not isinstance(site, Finding)] == wanted


def test_members_with_an_object_become_fat_objects(folder: Path, fatpack: Fatpack) -> None:
    reference.run("llvm-ar", "qcD", "host.a", "host.o", cwd=folder)
    (folder / "host.bin").write_bytes(b"device code")
    reference.run("llvm-ar", "qcD", "device.a", "host.bin", cwd=folder)
    images = [f"--image=file=device.a,id={IDS[1]}", f"--image=file=host.a,id={HOST}"]
    assert fatpack("pack", "--format=bundle", "--type=a", *images, "-o", "fat.a").code == 0
    with library.open(folder / "fat.a") as file:
        (found,) = file.containers
        assert (found.member, found.container.attrs["flavour"]) == ("host.o", "object")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pack", "--format=bundle", "--type=a", f"--image=file=a.cubin,id={IDS[0]}", "-o", "x"], "is no archive"),
        (["pack", "--format=bundle", "--type=a", "--compress", f"--image=file=a.cubin,id={IDS[0]}"], "nor compressed"),
        (["extract", "pkg.bin", "--archive"], "name it with -o"),
    ],
)
def test_what_has_no_meaning_is_refused(folder: Path, fatpack: Fatpack, arguments: list[str], message: str) -> None:
    ran = fatpack(*arguments)
    assert (ran.code, message in ran.err) == (2, True)
