"""``extract`` takes the addresses that ``inspect -v`` prints, for images in any kind of file."""

from __future__ import annotations

import os
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import archive as build_archive
from tests.builders import sycl
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.selectors.address import format_range, parse_address

Fatpack = Callable[..., Ran]

FAT = (FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o").read_bytes()
HIP = (FIXTURES / "elf" / "clang-22-hip.o").read_bytes()
ARCHIVE = b"!<arch>\n" + b"".join(build_archive.member(b"m.o/", data) for data in (FAT, HIP, FAT))
LARGE = sycl.spirv(5000, 1)
PROGRAM = sycl.program([sycl.Stored(sycl.spirv(30)), sycl.Stored(sycl.packed(LARGE), len(LARGE))])

FILES = {
    "fat.o": FAT,
    "hip.o": HIP,
    "lib.a": ARCHIVE,
    "outer.a": b"!<arch>\n" + build_archive.member(b"in.a/", ARCHIVE),
    "program.so": PROGRAM,
    "program.dll": sycl.windows_program([sycl.Stored(sycl.spirv(30)), sycl.Stored(sycl.packed(LARGE), len(LARGE))]),
    "plain.bundle": (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes(),
    "packed.bundle": (FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").read_bytes(),
    "odd name #1?offset=2%41&x.o": HIP,
    "a#offset=1": HIP,
    "odd(1)": HIP,
    "Größe.o": HIP,
    "line\nbreak.o": HIP,
    "file:x.o": HIP,
    os.fsdecode(b"broken-\xff.o"): HIP,
}

#: names that are printed behind ``file://``, percent-encoded
ENCODED = {name for name in FILES if any(char in name for char in " #?%&\n\udcff")}


@pytest.mark.parametrize("name", FILES, ids=ascii)
def test_every_image_can_be_had_by_what_inspect_prints(name: str, folder: Path, fatpack: Fatpack) -> None:
    Path(name).write_bytes(FILES[name])
    lines = [line.strip() for line in fatpack("inspect", "-v", f"./{name}").out.splitlines()]
    handles = [line for line in lines if "#offset=0x" in line or line.startswith(("extract with ", "fatpack extract "))]
    assert all(line.startswith("file://") == (name in ENCODED) for line in handles if "#offset=0x" in line)
    with library.open(name) as file:
        images = [(found, image) for found in file.containers for image in found.images]
        assert len(handles) == len(images)
        for (found, image), handle in zip(images, handles, strict=True):
            if "#offset=0x" in handle:
                ran = fatpack("extract", handle, "-o", "got", "--force")
            elif handle.startswith("fatpack "):
                ran = fatpack(*shlex.split(handle)[1:], "-o", "got", "--force")
            else:
                assert not name.isprintable()
                ran = fatpack(
                    "extract", f"./{name}", *handle.removeprefix("extract with ").split(), "-o", "got", "--force"
                )
            assert ran.code == 0, ran.err
            got = Path("got").read_bytes()
            if image.target.offload == "host" and found.container.attrs["flavour"] == "object":
                # The host's image is the object without the bundle's sections.
                assert got.startswith(b"\x7fELF")
                assert b"__CLANG_OFFLOAD_BUNDLE__" not in got
            else:
                assert got == image.data.tobytes()


@pytest.mark.parametrize("name", FILES, ids=ascii)
def test_an_address_of_any_path_is_read_back(name: str, folder: Path) -> None:
    Path(name).write_bytes(b"0123456789")
    address = parse_address(format_range(name, 3, 4), ranges=True)
    assert (address.path, address.members, address.offset, address.size) == (name, "", 3, 4)


@pytest.mark.parametrize("mark", ["#", "?"])
@pytest.mark.parametrize("numbers", ["offset=4096&size=4616", "offset=0x1000&size=0x1208", "offset=010000&size=011010"])
def test_addresses_of_rocm_are_understood(mark: str, numbers: str, folder: Path, fatpack: Fatpack) -> None:
    Path("hip object.o").write_bytes(HIP)
    assert fatpack("extract", f"file://hip%20object.o{mark}{numbers}", "-o", "got").code == 0
    assert Path("got").read_bytes() == HIP[4096 : 4096 + 4616]


def test_an_address_outside_the_file_is_refused(folder: Path, fatpack: Fatpack) -> None:
    Path("hip.o").write_bytes(HIP)
    ran = fatpack("extract", f"hip.o#offset={len(HIP)}&size=1", "-o", "got")
    assert ran.code == 2
    assert "outside the file" in ran.err
    assert not Path("got").exists()


def test_inspect_takes_the_addresses_that_it_prints(folder: Path, fatpack: Fatpack) -> None:
    Path("hip object.o").write_bytes(HIP)
    printed = [line.strip() for line in fatpack("inspect", "-v", "hip object.o").out.splitlines() if "#offset=" in line]
    assert len(printed) == 3
    for address, claimed in zip(printed[1:], ("gfx1100", "gfx90a"), strict=True):
        ran = fatpack("inspect", address)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"{address}: code-object {claimed}, ")
        assert fatpack("inspect", "--at", int(address.split("=")[1].split("&")[0], 0), address).code == 0


def test_addresses_inside_an_address_are_those_of_the_file(folder: Path, fatpack: Fatpack) -> None:
    Path("hip.o").write_bytes(HIP)
    ran = fatpack("inspect", "-v", "hip.o#offset=0x1000&size=0x3210")
    assert ran.code == 0
    printed = [line.strip() for line in ran.out.splitlines()[1:] if "#offset=" in line]
    assert printed == [f"hip.o#offset={at}" for at in ("0x2000&size=0x0", "0x2000&size=0xef8", "0x3000&size=0x1210")]
    ran = fatpack("inspect", f"hip.o#offset={len(HIP)}&size=1")
    assert (ran.code, "outside the file" in ran.err) == (2, True)


def test_a_file_that_damage_to_its_package_hides_is_not_called_missing(folder: Path, fatpack: Fatpack) -> None:
    with zipfile.ZipFile("whole.zip", "w") as package:
        package.write("host.o", "lib/x.o")
    data = Path("whole.zip").read_bytes()
    at = data.rindex(b"PK\1\2")
    Path("cut.zip").write_bytes(data[:at] + b"XX" + data[at + 2 :])
    ran = fatpack("inspect", "cut.zip!lib/x.o")
    assert ran.code == 3
    assert "damaged" in ran.err
    assert fatpack("inspect", "whole.zip!lib/y.o").code == 2
