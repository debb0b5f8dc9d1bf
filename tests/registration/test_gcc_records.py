"""Records of GCC's offloading: of every library version and host, by their calls and by their images, and damaged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders import gcc_offload as built
from tests.laws.rooms import FIXTURES
from tests.reference import tool

import fatpack
from fatpack.binary.elf.file import ElfFile
from fatpack.formats import get_format
from fatpack.io.open import open_source
from fatpack.registration.gcc_offload import label_gcc_records
from fatpack.registration.gcc_records import GCN, NVPTX, find_register_calls
from fatpack.scanner import FoundContainer

FORMAT = "gcc-offload"
PTX = b"// BEGIN PREAMBLE\n.version 6.0\n.target sm_30\n.address_size 64\n.visible .entry first() { ret; }\n"
NAMES = {GCN: ["_init_array", "_fini_array", "first", "second"], NVPTX: ["first", "second"]}
DEVICES = {GCN: "gcn", NVPTX: "nvptx"}


def containers(path: Path) -> list[FoundContainer]:
    return [item for item in fatpack.scan(path) if isinstance(item, FoundContainer)]


def messages(path: Path) -> dict[str, str]:
    return {item.code: item.message for item in fatpack.scan(path) if not isinstance(item, FoundContainer)}


def facts(found: FoundContainer) -> dict[str, object]:
    return dict(get_format(FORMAT).describe(found.container))


@pytest.fixture(scope="module")
def code() -> bytes:
    """A code object of GCC for gfx803."""
    (found,) = containers(FIXTURES / "gcc" / "p.acc.amd")
    return found.images[0].read()


@pytest.mark.parametrize(
    ("name", "version", "requires"),
    [
        ("p.acc.amd", "0x10002", []),
        ("p.acc.nv", "0x10001", []),
        ("gcc14.acc.amd", "0x30003", []),
        ("gcc14.acc.nv", "0x30001", []),
    ],
)
def test_files_of_gcc_12_and_14(name: str, version: str, requires: list[str]) -> None:
    (found,) = containers(FIXTURES / "gcc" / name)
    stored = facts(found)
    assert (found.format, found.attrs["model"], stored["version"]) == (FORMAT, "OpenACC", version)
    assert (found.attrs["functions"], found.attrs["variables"], stored["indirect_count"]) == ("2", "1", 0)
    assert stored["requires"] == requires
    vector = 32 if name.endswith("nv") else 1
    dims = [row["dims"] for row in stored["kernels"]][-2:]  # type: ignore[attr-defined]
    assert dims == [[0, 1, vector], [4, 1, vector]]
    assert [image.target.offload for image in found.images] == ["openacc"]


@pytest.mark.parametrize("host", ["x86-64", "aarch64"])
@pytest.mark.parametrize("device", [GCN, NVPTX])
@pytest.mark.parametrize("version", [0x10001, 0x10002, 0x20001, 0x20002, 0x30001, 0x30003])
def test_every_library_version(tmp_path: Path, code: bytes, host: str, device: int, version: int) -> None:
    content = code if device == GCN else PTX
    path = built.made_by_hand(tmp_path, device, content, version=version, host=host, requires=0x220)
    for is_stripped in (False, True):
        if is_stripped:
            subprocess.run([tool("strip" if host == "x86-64" else "aarch64-linux-gnu-strip"), str(path)], check=True)
        (found,) = containers(path)
        stored = facts(found)
        assert (stored["device"], stored["version"]) == (DEVICES[device], f"{version:#x}")
        assert stored["requires"] == (["unified_shared_memory"] if version >= 0x20000 else [])
        assert [row["name"] for row in stored["kernels"]] == NAMES[device]  # type: ignore[attr-defined]
        assert (found.attrs["functions"], found.attrs["variables"]) == ("2", "1")
        assert found.images[0].read() == content
        assert "FP2704" not in messages(path)


@pytest.mark.parametrize("device", [GCN, NVPTX])
def test_a_32_bit_host_has_its_record_found_from_the_image(tmp_path: Path, code: bytes, device: int) -> None:
    content = code if device == GCN else PTX
    (found,) = containers(built.made_by_hand(tmp_path, device, content, host="i386"))
    stored = facts(found)
    assert (stored["device"], stored["version"]) == (DEVICES[device], None)
    assert [row["name"] for row in stored["kernels"]] == NAMES[device]  # type: ignore[attr-defined]
    assert found.images[0].read() == content


@pytest.mark.parametrize("options", [("-no-pie",), ("-pie", "-fPIE"), ("-static",), ("-shared", "-fPIC", "-Wl,-z,now")])
def test_every_kind_of_file(tmp_path: Path, code: bytes, options: tuple[str, ...]) -> None:
    path = built.made_by_hand(tmp_path, GCN, code, options=(*options, "-Wl,-e,init"))
    (found,) = containers(path)
    assert facts(found)["version"] == "0x10002"


@pytest.mark.parametrize("device", [GCN, NVPTX])
@pytest.mark.parametrize("version", [0x10001, 0x30003])
def test_a_call_that_is_not_read(tmp_path: Path, code: bytes, device: int, version: int) -> None:
    """The same record is found from its image: its version is unknown then."""
    path = built.made_by_hand(tmp_path, device, code if device == GCN else PTX, version=version)
    data = bytearray(path.read_bytes())
    start = data.index(b"\xe8", data.index(version.to_bytes(4, "little")))
    data[start : start + 5] = b"\x0f\x0b\x90\x90\x90"  # UD2
    path.write_bytes(data)
    with open_source(str(path)) as source:
        assert find_register_calls(ElfFile(source.view())) == []
    (found,) = containers(path)
    stored = facts(found)
    assert (stored["version"], found.attrs["functions"], found.attrs["variables"]) == (None, "2", "1")
    assert "FP2704" not in messages(path)


@pytest.mark.parametrize("device", [GCN, NVPTX])
@pytest.mark.parametrize(("kernels", "variables"), [(-1, 1), (0, 0)])
def test_other_numbers_than_the_hosts(tmp_path: Path, code: bytes, device: int, kernels: int, variables: int) -> None:
    count = len(NAMES[device]) + kernels
    content = code if device == GCN else PTX
    path = built.made_by_hand(tmp_path, device, content, version=0x10001, kernels=count, variables=variables)
    assert f"libgomp stops (expected 3, have {2 + kernels + variables})" in messages(path)["FP2704"]
    assert len(containers(path)) == 1


def test_two_records_with_different_numbers(tmp_path: Path) -> None:
    program = built.build_program(tmp_path, "both", *built.NVPTX, *built.GCN)
    assert "FP2705" not in messages(program)
    found = {item.attrs["device"]: item for item in containers(program)}
    place = int(str(facts(found["gcn"])["record"]), 16)
    data = bytearray(program.read_bytes())
    data[place + 8] -= 1
    program.write_bytes(data)
    told = messages(program)
    assert "nvptx 2, gcn 1" in told["FP2705"]
    assert "expected 4, have 3" in told["FP2704"]


def test_a_library_version_that_was_not_tried(tmp_path: Path) -> None:
    path = built.made_by_hand(tmp_path, NVPTX, PTX, version=0x50001)
    assert "library version 5" in messages(path)["FP2707"]
    assert len(containers(path)) == 1


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [(0, 1 << 40, "image"), (8, 0xFFFFFF, "kernels"), (12, 1, "padding"), (16, 1 << 40, "kernels")],
)
def test_damaged_records_name_the_field(tmp_path: Path, code: bytes, at: int, value: int, field: str) -> None:
    path = built.made_by_hand(tmp_path, GCN, code, options=("-no-pie", "-Wl,-e,init"))
    (found,) = containers(path)
    place = int(str(facts(found)["record"]), 16)
    size = 8 if value > 0xFFFFFFFF else 4
    data = bytearray(path.read_bytes())
    data[place + at : place + at + size] = value.to_bytes(size, "little")
    path.write_bytes(data)
    (wrong,) = [item for item in fatpack.scan(path) if not isinstance(item, FoundContainer) and item.code == "FP2708"]
    assert (wrong.field, wrong.span.start, wrong.severity) == (field, place, "error")
    # The code object is in the data all the same, and found there.
    assert [item.format for item in containers(path)] == ["bare-image"]


def test_the_default_processor_of_gcc_12_is_said() -> None:
    assert "gfx803" in messages(FIXTURES / "gcc" / "p.acc.amd")["FP2706"]
    assert "FP2706" not in messages(FIXTURES / "gcc" / "gcc14.acc.amd")


def test_another_processor_in_the_header(tmp_path: Path, code: bytes) -> None:
    changed = bytearray(code)
    changed[0x30] = 0x3F
    (found,) = containers(built.made_by_hand(tmp_path, GCN, bytes(changed)))
    assert found.images[0].label.partition(":")[0] == "gfx90a"


@pytest.mark.parametrize("name", ["p.acc.amd", "gcc14.acc.nv"])
def test_every_field_of_a_record_has_a_label(name: str) -> None:
    path = FIXTURES / "gcc" / name
    (found,) = containers(path)
    with open_source(str(path)) as source:
        labels = list(label_gcc_records(source.view()))
    place = int(str(facts(found)["record"]), 16)
    assert labels[0].span.start == place
    assert [one.span.end for one in labels[:-1]] == [one.span.start for one in labels[1:]]
    values = {label.name.rpartition(".")[2]: label.value for label in labels}
    assert values["kernel_count"] == ("4" if name.endswith("amd") else "2")
    assert values["variable_count"] == "1"
    assert ("requires" in values) == name.startswith("gcc14")


def test_objects_are_said_not_to_be_compared() -> None:
    path = FIXTURES / "gcc" / "o.acc.o"
    result = fatpack.diff(path, path)
    assert result.exit_code == 4
    assert all("not compared" in item.problem for item in result.unread)


def test_check_says_of_objects_that_the_link_decides() -> None:
    result = fatpack.check(FIXTURES / "gcc" / "o.acc.o", require=["gfx90a"])
    assert [item.code for item in result.violations] == ["FP3302", "FP2701"]
    assert "chosen when it is linked" in result.violations[0].message


@pytest.mark.parametrize(
    ("name", "device", "codes"),
    [
        ("p.acc.amd", "gfx803", []),
        ("p.acc.amd", "gfx90a", ["FP3303"]),
        ("gcc14.acc.amd", "gfx900:xnack-", []),
        ("p.acc.nv", "sm_70", []),
        ("p.acc.nv", "sm_20", ["FP3303"]),
    ],
)
def test_check_asks_as_libgomp_does(name: str, device: str, codes: list[str]) -> None:
    result = fatpack.check(FIXTURES / "gcc" / name, require=[device])
    assert [item.code for item in result.violations if item.severity == "error"] == codes
    if codes:
        assert "-foffload=" in result.violations[0].hint


def test_edits_are_refused_and_slim_leaves_the_program(tmp_path: Path) -> None:
    path = FIXTURES / "gcc" / "p.acc.amd"
    with pytest.raises(fatpack.HostError, match="own data"):
        fatpack.remove(path, tmp_path / "removed", selector=fatpack.Selector(arch="gfx803"))
    assert not (tmp_path / "removed").exists()
    fatpack.slim(path, tmp_path / "slim", devices=["gfx90a"])
    assert (tmp_path / "slim").read_bytes() == path.read_bytes()


def test_extract_takes_every_image(tmp_path: Path) -> None:
    for name, start in (("p.acc.amd", b"\x7fELF"), ("gcc14.acc.nv", b"// BEGIN PREAMBLE")):
        (path,) = fatpack.extract(FIXTURES / "gcc" / name, tmp_path / name)
        data = path.read_bytes()
        assert data.startswith(start)
        assert not (name.endswith("nv") and data.endswith(b"\0"))
