"""GCC's own libgomp runs programs of GCC's offloading, and gives what they register to a plug-in for no real device.

The plug-in prints the version and the record that libgomp hands to it, and maps as many functions and variables as a
test says. libgomp compares that number with the host's table, and stops if they differ: so it is the judge of what
``inspect`` says that a program registers, and of the finding about other numbers. Without the plug-in there is no
device, and the program runs on the host.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.builders.gcc_offload import GCN, NVPTX, build_program
from tests.reference import tool

import fatpack
from fatpack.formats import get_format
from fatpack.scanner import FoundContainer

pytestmark = pytest.mark.reference

FORMAT = "gcc-offload"

#: the sizes of the variables of the program: an int, and four doubles
SIZES = "4,32"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-ins, which libgomp looks for by these names."""
    made = tmp_path_factory.mktemp("libgomp")
    source = Path(__file__).parent / "libgomp_plugin.c"
    for name, type in (("nvptx", 5), ("gcn", 8)):
        command = [tool("gcc-12"), "-shared", "-fPIC", f'-DNAME="{name}"', f"-DTYPE={type}", str(source)]
        subprocess.run([*command, "-o", str(made / f"libgomp-plugin-{name}.so.1")], check=True)
    return made


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    return build_program(folder, "both", *NVPTX, *GCN)


def _run(program: Path, folder: Path | None, device: str = "", functions: int = 0) -> subprocess.CompletedProcess[str]:
    extra = {"DEVICE": device, "FUNCTIONS": str(functions), "VARIABLES": SIZES}
    path = {"LD_LIBRARY_PATH": str(folder)} if folder else {}
    env = {**os.environ, **extra, **path, "GOMP_DEBUG": "1"}
    return subprocess.run([str(program)], env=env, capture_output=True, text=True, check=False, timeout=60)


def _records(path: Path) -> dict[str, FoundContainer]:
    found = [item for item in fatpack.scan(path) if isinstance(item, FoundContainer) and item.format == FORMAT]
    return {item.attrs["device"]: item for item in found}


def _bytes(path: Path, found: FoundContainer) -> list[bytes]:
    """Return the bytes of each image, from where the file has them."""
    data = path.read_bytes()
    return [data[image.span.start : image.span.end] for image in found.images]


@pytest.mark.parametrize("device", ["nvptx", "gcn"])
@pytest.mark.parametrize("is_stripped", [False, True])
def test_libgomp_gets_what_inspect_says(program: Path, folder: Path, device: str, *, is_stripped: bool) -> None:
    path = program
    if is_stripped:
        path = folder / "stripped"
        subprocess.run([tool("strip"), "-o", str(path), str(program)], check=True)
    found = _records(path)[device]
    functions, variables = int(found.attrs["functions"]), int(found.attrs["variables"])
    done = _run(path, folder, device, functions)
    assert done.returncode == 0, done.stderr
    name, version, size, total, count, *kernels = done.stderr.splitlines()[0].split()
    stored = get_format(FORMAT).describe(found.container)
    assert (name, version) == (device, stored["version"])
    assert int(size) == sum(image.size for image in found.images)
    assert int(total) == sum(map(sum, _bytes(path, found)))
    assert int(count) == variables == 2
    assert kernels == [kernel["name"] for kernel in stored["kernels"]]
    # Both regions run on the device: that of main is the second of the table.
    assert done.stderr.splitlines()[1:] == ["region 1", "region 0"]


@pytest.mark.parametrize("device", ["nvptx", "gcn"])
def test_libgomp_stops_where_the_numbers_differ(program: Path, folder: Path, device: str) -> None:
    record = _records(program)[device]
    functions, variables = int(record.attrs["functions"]), int(record.attrs["variables"])
    done = _run(program, folder, device, functions - 1)
    assert done.returncode == 1
    have = functions + variables
    assert f"Cannot map target functions or variables (expected {have}, have {have - 1})" in done.stderr


def test_without_a_device_the_regions_run_on_the_host(program: Path, folder: Path) -> None:
    """The same result with OMP_TARGET_OFFLOAD=mandatory (GCC 12), as rule G3 of explain says."""
    done = _run(program, folder)
    assert (done.returncode, done.stdout) == (0, "7 2.000000\n")
    env = {**os.environ, "OMP_TARGET_OFFLOAD": "mandatory", "DEVICE": "", "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "7 2.000000\n")
