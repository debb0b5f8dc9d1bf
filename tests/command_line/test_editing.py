"""``embed``, ``replace`` and ``remove`` as users type them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.builders.fatbin import PTX, cubin, entry, fatbin
from tests.conftest import Ran
from tests.formats.cuda_fatbin.test_parse import TEXT
from tests.laws.rooms import FIXTURES

Fatpack = Callable[..., Ran]
A = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
B = "--image=file=b.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"


@pytest.fixture(autouse=True)
def fat(folder: Path, fatpack: Fatpack) -> Path:
    assert fatpack("pack", A, B, "-o", "both.bin", "-q").code == 0
    assert fatpack("embed", "host.o", "both.bin", "-o", "fat.o", "-q").code == 0
    return folder / "fat.o"


def archs(fatpack: Fatpack, path: str) -> list[str]:
    return [word for word in fatpack("inspect", path).out.split() if word.startswith("sm_")]


def test_embed_equals_pack_with_host(folder: Path, fatpack: Fatpack, fat: Path) -> None:
    assert fatpack("pack", A, B, "--host=host.o", "-o", "packed.o", "-q").code == 0
    assert (folder / "packed.o").read_bytes() == fat.read_bytes()
    assert archs(fatpack, "fat.o") == ["sm_80", "sm_90"]


def test_remove_takes_all_or_some(fatpack: Fatpack, folder: Path) -> None:
    assert fatpack("remove", "fat.o", "-o", "none.o").code == 0
    assert archs(fatpack, "none.o") == []
    assert fatpack("remove", "fat.o", "--arch=sm_80", "-o", "slim.o").code == 0
    assert archs(fatpack, "slim.o") == ["sm_90"]
    assert (folder / "slim.o").stat().st_size < (folder / "fat.o").stat().st_size


def test_remove_of_nothing_exits_1_and_writes_nothing(fatpack: Fatpack, folder: Path) -> None:
    ran = fatpack("remove", "fat.o", "--arch=gfx90a", "-o", "x.o")
    assert (ran.code, (folder / "x.o").exists()) == (1, False)


def test_a_dry_run_only_talks(fatpack: Fatpack, folder: Path) -> None:
    before = sorted(os.listdir(folder))
    ran = fatpack("remove", "fat.o", "--dry-run")
    assert ran.code == 0
    assert "would remove 0.0 cuda nvptx64-nvidia-cuda sm_80 cubin" in ran.err
    assert sorted(os.listdir(folder)) == before


def test_a_dry_run_tells_the_size_that_the_result_has(fatpack: Fatpack, folder: Path) -> None:
    shutil.copy(FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle", "packed.hipfb")
    ran = fatpack("remove", "packed.hipfb", "--dry-run", "--arch=gfx*")
    note, sizes = ran.err.splitlines()[2:]
    assert note.startswith("fatpack: note: container 0 has no device code left, only the image for its host (host-")
    assert fatpack("remove", "packed.hipfb", "--in-place", "--arch=gfx*", "-q") == (0, "", "")
    assert sizes == f"2 images; packed.hipfb: 298 B → {(folder / 'packed.hipfb').stat().st_size} B"


def test_what_was_removed_is_reported_when_it_was(fatpack: Fatpack, fat: Path) -> None:
    lines = fatpack("remove", "fat.o", "--arch=sm_80", "-o", "x.o").err.splitlines()
    assert [line.split()[0] for line in lines] == ["removed", "wrote"]
    for refused in ("x.o", "nowhere/x.o", "."):
        ran = fatpack("remove", "fat.o", "--arch=sm_80", "-o", refused)
        assert ran.code in (2, 5)
        assert "removed" not in ran.err


@pytest.mark.parametrize("command", [["remove", "fat.o"], ["embed", "host.o", "both.bin"], ["replace", "fat.o", "c"]])
def test_an_empty_output_name_is_no_name(fatpack: Fatpack, fat: Path, command: list[str]) -> None:
    ran = fatpack(*command, "-o", "")
    assert (ran.code, ran.err) == (2, 'fatpack: error: the output has no name; name it with -o; "-" is stdout\n')


def test_a_container_does_not_lose_all_its_images(fatpack: Fatpack, folder: Path) -> None:
    before = (folder / "both.bin").read_bytes()
    ran = fatpack("remove", "both.bin", "--in-place")
    assert (ran.code, ran.out) == (2, "")
    assert "both.bin: all images are selected, and nothing would be left of the container" in ran.err
    assert (folder / "both.bin").read_bytes() == before


@pytest.mark.parametrize(("options", "runtime"), [(["--format=fatbin"], "CUDA"), (["--format=bundle"], "HIP")])
def test_a_container_that_no_code_registers_is_reported_once(
    fatpack: Fatpack, options: list[str], runtime: str
) -> None:
    image = "--image=file=a.cubin" + (",id=hip-amdgcn-amd-amdhsa--gfx90a" if runtime == "HIP" else "")
    assert fatpack("pack", image, *options, "-o", "c", "-q").code == int(runtime == "HIP")
    for command in (["pack", image, *options, "--host=host.o"], ["embed", "host.o", "c"]):
        ran = fatpack(*command, "-o", "out.o", "-f")
        assert ran.code == int("warning" in ran.err)
        assert ran.err.count("no code registers it") == 1
        assert f"so the {runtime} runtime will not find it" in ran.err


def test_a_container_that_needs_no_registration_has_no_such_note(fatpack: Fatpack, folder: Path) -> None:
    assert fatpack("pack", "--image=file=a.cubin", "-o", "c", "-q").code == 0
    for command in (["pack", "--image=file=a.cubin", "--host=host.o"], ["embed", "host.o", "c"]):
        ran = fatpack(*command, "-o", "out.o", "-f")
        assert ran.code == 0
        assert "registers" not in ran.err
        assert "registers" not in fatpack(*command, "-o", "out.o", "-f", "-q").err


def test_replace_exchanges_the_content(fatpack: Fatpack) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    assert fatpack("replace", "fat.o", "one.bin", "-o", "x.o").code == 0
    assert archs(fatpack, "x.o") == ["sm_80"]


def test_replace_needs_a_section(fatpack: Fatpack) -> None:
    ran = fatpack("replace", "host.o", "both.bin", "-o", "x.o")
    assert ran.code == 4
    assert "host.o: no section of device code; embed puts a container into an object without one" in ran.err


def test_replace_of_one_of_several_sections_asks_which(fatpack: Fatpack) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    assert fatpack("embed", "fat.o", "one.bin", "-o", "two.o").code == 0
    ran = fatpack("replace", "two.o", "one.bin", "-o", "x.o")
    assert (ran.code, ran.err.count("(.llvm.offloading)")) == (4, 2)
    assert "two.o: 2 sections of device code; name one with --section: " in ran.err
    ran = fatpack("replace", "two.o", "one.bin", "--section", ".nope", "-o", "x.o")
    assert "no section of device code with the name or number .nope; name one with --section: " in ran.err


def test_in_place_keeps_mode_and_needs_to_be_asked_for(fatpack: Fatpack, fat: Path) -> None:
    fat.chmod(0o751)
    before = fat.read_bytes()
    ran = fatpack("remove", "fat.o", "--arch=sm_80")
    assert (ran.code, fat.read_bytes()) == (2, before)
    assert "say where to write" in ran.err
    assert fatpack("remove", "fat.o", "--arch=sm_80", "--in-place").code == 0
    assert archs(fatpack, "fat.o") == ["sm_90"]
    assert stat.S_IMODE(fat.stat().st_mode) == 0o751


def test_the_host_is_never_overwritten_by_o(fatpack: Fatpack, fat: Path) -> None:
    before = fat.read_bytes()
    for force in ([], ["--force"]):
        assert fatpack("remove", "fat.o", "-o", "fat.o", *force).code == 2
    (fat.parent / "link.o").hardlink_to(fat)
    assert fatpack("remove", "fat.o", "-o", "link.o", "--force").code == 2
    assert fat.read_bytes() == before


def test_embedding_something_else_needs_force_and_warns(fatpack: Fatpack) -> None:
    ran = fatpack("embed", "host.o", "k.ptx", "-o", "x.o")
    assert ran.code == 2
    assert "k.ptx: unknown container format; pack it first, or --force" in ran.err
    ran = fatpack("embed", "host.o", "k.ptx", "-o", "x.o", "--force")
    assert ran.code == 0
    assert "k.ptx: unknown container format; no tool will find it" in ran.err


def test_a_damaged_container_refuses_a_partial_removal(fatpack: Fatpack, folder: Path, fat: Path) -> None:
    data = bytearray(fat.read_bytes())
    at = data.find(b"\x10\xff\x10\xad")
    data[at + 0x40 : at + 0x48] = b"\xff" * 8
    (folder / "bad.o").write_bytes(data)
    ran = fatpack("remove", "bad.o", "--arch=sm_90", "-o", "x.o")
    assert ran.code == 3
    assert "nothing was removed" in ran.err
    assert not (folder / "x.o").exists()


def test_removal_keeps_what_it_cannot_read(fatpack: Fatpack, folder: Path, fat: Path) -> None:
    """A container of a future version, another format and bytes of nobody stay, to the byte."""
    one, two = (folder / "both.bin").read_bytes()[:7728], (folder / "both.bin").read_bytes()[7728:]
    future = one[:4] + b"\x09" + one[5:]
    foreign = b"\x50\xed\x55\xba\x01\0\x10\0" + bytes(8)
    (folder / "mixed.bin").write_bytes(one + future + b"nobodys!" * 4 + two + foreign)
    assert fatpack("embed", "host.o", "mixed.bin", "-o", "mixed.o").code == 0
    assert fatpack("remove", "mixed.o", "--arch=sm_80", "-o", "x.o").code == 0
    left = (folder / "x.o").read_bytes()
    assert future + b"nobodys!" * 4 + two + foreign in left
    assert archs(fatpack, "x.o") == ["sm_90"]
    assert fatpack("remove", "x.o", "-o", "y.o").code == 0
    assert future + b"nobodys!" * 4 + foreign in (folder / "y.o").read_bytes()


def test_replace_keeps_the_format_that_code_refers_to(fatpack: Fatpack, folder: Path) -> None:
    (folder / "fat.bin").write_bytes(b"\x50\xed\x55\xba\x01\0\x10\0" + bytes(8))
    ran = fatpack("replace", "fat.o", "fat.bin", "-o", "x.o")
    assert ran.code == 4
    assert ".llvm.offloading holds llvm-offload-binary, the new content is cuda-fatbin" in ran.err
    ran = fatpack("replace", "fat.o", "k.ptx", "-o", "x.o")
    assert ran.code == 4
    assert "holds llvm-offload-binary, the new content is one image, of the form ptx; pack a container" in ran.err
    assert not (folder / "x.o").exists()


@pytest.mark.parametrize(
    ("host", "advice"), [("clang_win.dll", "PE images are not edited"), ("libtwo.so", "edit the object and link again")]
)
def test_replace_says_first_that_a_linked_file_is_not_edited(fatpack: Fatpack, host: str, advice: str) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    ran = fatpack("replace", FIXTURES / "cuda_fatbin" / "hosts" / host, "one.bin", "-o", "x")
    assert ran.code == 4
    assert advice in ran.err
    assert "--force" not in ran.err


def test_an_image_in_a_section_of_its_own_is_replaced_by_one_of_its_form(fatpack: Fatpack, folder: Path) -> None:
    host, section = (
        FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o",
        "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a",
    )
    ran = fatpack("replace", host, "k.ptx", "--section", section, "-o", "x.o")
    assert ran.code == 4
    assert f"{section} holds one image, of the form bitcode, the new content is one image, of the form ptx" in ran.err
    assert fatpack("extract", host, "--arch", "gfx1100", "-o", "new.bc").code == 0
    assert fatpack("replace", host, "new.bc", "--section", section, "-o", "x.o").code == 0
    assert fatpack("extract", "x.o", "--arch", "gfx90a", "-o", "-").code in (0, 1)
    assert fatpack("replace", host, "k.ptx", "--section", section, "-o", "y.o", "--force").code == 0


def test_sections_of_one_name_are_distinguished_by_number(fatpack: Fatpack, folder: Path) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    assert fatpack("embed", "fat.o", "one.bin", "-o", "two.o").code == 0
    assert fatpack("inspect", "two.o").out.count(".llvm.offloading at") == 2
    ran = fatpack("replace", "two.o", "both.bin", "--section=.llvm.offloading", "-o", "x.o")
    assert ran.code == 4
    number = ran.err.rpartition("present, for --section: ")[2].split(",")[1].split()[0]
    assert fatpack("replace", "two.o", "both.bin", f"--section={number}", "-o", "x.o").code == 0
    assert archs(fatpack, "x.o") == ["sm_80", "sm_90", "sm_80", "sm_90"]
    assert fatpack("remove", "two.o", "--arch=sm_80", "-o", "y.o").code == 0
    assert archs(fatpack, "y.o") == ["sm_90"]


def test_an_image_inside_an_image_is_not_removed_but_named(fatpack: Fatpack) -> None:
    assert fatpack("pack", "--image=file=both.bin,triple=t", "--host=host.o", "-o", "nest.o", "-q").code == 0
    ran = fatpack("remove", "nest.o", "--arch=sm_80", "-o", "x.o")
    assert ran.code == 1
    assert "image 0.0/0.0 is inside another image" in ran.err


def test_what_is_missing_is_reported_with_what_is_there(fatpack: Fatpack) -> None:
    ran = fatpack("remove", "fat.o", "--arch=sm_70", "-o", "x.o")
    assert "no image to remove that matches --arch=sm_70; architectures present: sm_80, sm_90" in ran.err


def test_a_device_image_is_no_host(fatpack: Fatpack) -> None:
    ran = fatpack("embed", "a.cubin", "both.bin", "-o", "x.o")
    assert ran.code == 4
    assert "this is a device image (cubin), not a host file" in ran.err


#: hosts that are read and never edited: a fixture of each, and how the reason starts
UNEDITED = {
    "macho/clang-22-cuda-arm64.o": "Mach-O files are not edited: load commands",
    "macho/lld-22-cuda-x86_64.dylib": "Mach-O files are not edited: load commands",
    "universal/llvm-22-two.o": "universal Mach-O files are not edited: slices",
    "universal/llvm-22-two.o(x86_64)": "Mach-O files are not edited: load commands",
    "universal/llvm-22-fat64.a(arm64)": "an archive contains several objects",
    "universal/llvm-22-fat64.a(arm64(plain.o))": "Mach-O files are not edited: load commands",
}


@pytest.mark.parametrize("command", ["embed", "replace", "remove"])
@pytest.mark.parametrize("name", UNEDITED)
def test_what_is_not_edited_is_refused_with_the_reason(fatpack: Fatpack, folder: Path, command: str, name: str) -> None:
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    content = [] if command == "remove" else ["one.bin"]
    ran = fatpack(command, FIXTURES / name, *content, "-o", "x")
    if command == "remove" and "archive" in UNEDITED[name]:
        assert "Mach-O files are not edited: load commands" in ran.err
    else:
        assert UNEDITED[name] in ran.err
    assert (ran.code, (folder / "x").exists()) == (4, False)


def test_what_no_room_reads_is_named_when_it_should_be_edited(fatpack: Fatpack, folder: Path) -> None:
    (folder / "x.rpm").write_bytes(b"070701" + b"0" * 104)
    assert fatpack("pack", A, "-o", "one.bin", "-q").code == 0
    ran = fatpack("embed", "x.rpm", "one.bin", "-o", "x")
    assert (ran.code, "this is a cpio archive, which this version does not edit" in ran.err) == (4, True)


def test_arguments_of_embed_in_the_wrong_order_are_noticed(fatpack: Fatpack) -> None:
    ran = fatpack("embed", "both.bin", "host.o", "-o", "x.o")
    assert (ran.code, "host.o: unknown container format; the host comes first" in ran.err) == (2, True)


@pytest.mark.parametrize("edit", [["embed", "host.o"], ["replace", "fat.o"]])
def test_a_damaged_container_goes_into_nothing_unless_forced(folder: Path, fatpack: Fatpack, edit: list[str]) -> None:
    whole = (folder / "both.bin").read_bytes()
    (folder / "cut.bin").write_bytes(whole[:-100])
    ran = fatpack(*edit, "cut.bin", "-o", "x.o")
    assert (ran.code, (folder / "x.o").exists()) == (3, False)
    assert "error FP1001: cut.bin at 0x" in ran.err
    assert "cut.bin: nothing was written; --force" in ran.err
    ran = fatpack(*edit, "cut.bin", "-o", "x.o", "--force")
    assert (ran.code, (folder / "x.o").exists()) == (0, True)
    assert "FP1001" in ran.err


def test_a_container_with_a_damaged_image_is_not_embedded(folder: Path, fatpack: Fatpack) -> None:
    stream = zstandard.ZstdCompressor().compress(TEXT + b"\0")[:-4]
    lie = entry(stream, PTX, flags=0x8011, inflated=len(TEXT) + 1, options=b"")
    (folder / "p.fatbin").write_bytes(fatbin(entry(cubin(75), sm=75), lie))
    ran = fatpack("embed", "host.o", "p.fatbin", "-o", "x.o")
    assert (ran.code, (folder / "x.o").exists()) == (3, False)
    assert "error FP1104: p.fatbin at 0x" in ran.err


def test_a_long_list_of_removed_images_is_counted(folder: Path, fatpack: Fatpack) -> None:
    images = ["--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"] * 45
    assert fatpack("pack", *images, "--host=host.o", "-o", "many.o", "-q").code in (0, 1)
    ran = fatpack("remove", "many.o", "--dry-run")
    lines = ran.err.splitlines()
    assert len([line for line in lines if line.startswith("would remove ")]) == 41
    assert "would remove 5 more images" in lines
