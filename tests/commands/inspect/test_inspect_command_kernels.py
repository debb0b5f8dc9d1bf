"""``fatpack inspect --kernels``: tables for people, records for scripts, and nothing of it unless asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import images
from fatpack.commands.inspect.text import kernel_table
from fatpack.images.kernel import KernelNeeds
from fatpack.text.schemas import schema_text

Fatpack = Callable[..., Ran]
NEEDS = FIXTURES / "kernels"


def table(ran: Ran) -> list[str]:
    """Return the lines behind the first."""
    return ran.out.splitlines()[1:]


def test_the_page_shows_what_the_command_prints(folder: Path, fatpack: Fatpack) -> None:
    shutil.copy(NEEDS / "needs.cuda13.0.linked.sm_90.cubin", "needs.cubin")
    shutil.copy(NEEDS / "needs.v6.gfx90a.hsaco", "needs.hsaco")
    page = (Path(__file__).parents[3] / "docs" / "kernels.md").read_text()
    command, _, shown = page.partition("```text\n$ fatpack ")[2].partition("\n```")[0].partition("\n")
    assert fatpack(*command.split()).out == shown + "\n"


def test_the_page_names_every_fact() -> None:
    page = (Path(__file__).parents[3] / "docs" / "kernels.md").read_text()
    assert [field for field in KernelNeeds._fields if f"`{field}`" not in page] == ["name"]


def test_the_table_of_a_cubin(fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "--kernels", NEEDS / "needs.cuda13.0.linked.sm_90.cubin")
    assert (ran.code, ran.err) == (0, "")
    assert table(ran) == [
        "  registers  shared    local  params  constant  threads  cluster  barriers  code  kernel",
        "         24       0  dynamic       8       536        -        -         0   384  recursion",
        "         24       0      160       8       536        -        -         0   384  stack",
        "          4       0        0       0       528      128        -         5   256  waits",
        "         12    1280        0      36       564    8x4x2        -         1   512  bounds",
        "          8       0        0       8       536      256    2x2x1         0   256  cluster",
    ]


def test_the_table_of_a_code_object_has_the_words_of_its_vendor(fatpack: Fatpack) -> None:
    heading, *rows = table(fatpack("inspect", "--kernels", NEEDS / "needs.v5.gfx1100.hsaco"))
    assert heading.split("  ")[1:] == [
        *("VGPRs", "SGPRs", "VGPR spills", "SGPR spills", "LDS", "scratch", "kernarg"),
        *("work-group", "wave", "code", "kernel"),
    ]
    assert [row.split()[-1] for row in rows] == ["plain", "scratch", "recursion", "lds"]
    # Recursion needs more scratch than it says.
    assert rows[2].split()[5] == "16+"


def test_the_table_of_ptx_has_what_ptx_says(fatpack: Fatpack) -> None:
    assert table(fatpack("inspect", "--kernels", NEEDS / "src" / "needs.ptx"))[:3] == [
        "  params  threads  min. blocks  kernel",
        "      36    8x4x2            -  bounds",
        "       0      128            3  waits",
    ]


def test_tables_stand_below_the_images_of_containers(fatpack: Fatpack) -> None:
    lines = table(fatpack("inspect", "--kernels", FIXTURES / "elf" / "clang-22-hip.o"))
    assert lines[2].split()[:4] == ["0.1", "hip", "amdgcn-amd-amdhsa", "gfx1100"]
    assert "kernel" not in lines[2]
    assert lines[3].startswith("        VGPRs  SGPRs")
    assert lines[4].endswith("_Z5kern1Pii")


def test_banks_of_constants_beside_the_first_are_numbered() -> None:
    kernel = dict.fromkeys(KernelNeeds._fields) | {"name": "k", "constants": {"0": 352, "2": 8}}
    assert list(kernel_table([kernel], "cubin", "")) == ["  constant  kernel", "352, [2] 8  k"]


def test_kernels_of_which_nothing_is_known_are_named() -> None:
    kernel = dict.fromkeys(KernelNeeds._fields) | {"name": "k\x1b"}
    assert list(kernel_table([kernel], "spirv", "  ")) == ["  kernel k\\x1b"]


def test_verbose_names_the_tools_too(fatpack: Fatpack) -> None:
    lines = table(fatpack("inspect", "--kernels", "-v", NEEDS / "needs.cuda13.0.linked.sm_90.cubin"))
    assert lines[0].startswith("  made by nvlink -arch sm_90 (Cuda compilation tools, release 13.0")
    assert lines[1].startswith("  made by ptxas -arch sm_90 -c (")
    assert lines[2].startswith("  registers")


@pytest.mark.parametrize(
    "name",
    ["kernels/needs.cuda13.0.linked.sm_90.cubin", "kernels/exact.v5.gfx1030.o", "kernels/src/needs.ptx"],
)
def test_json_has_the_facts_in_the_order_of_the_names(name: str, fatpack: Fatpack) -> None:
    document = json.loads(fatpack("inspect", "--json", "--kernels", FIXTURES / name).out)
    jsonschema.validate(document, json.loads(schema_text("inspect")))
    image = document["files"][0]["image"]
    assert [kernel["name"] for kernel in image["kernel_facts"]] == image["kernels"]
    assert {tuple(kernel) for kernel in image["kernel_facts"]} == {KernelNeeds._fields}


def test_json_of_a_container_has_them_per_image(fatpack: Fatpack) -> None:
    document = json.loads(fatpack("inspect", "--json", "--kernels", FIXTURES / "elf" / "clang-22-hip.o").out)
    jsonschema.validate(document, json.loads(schema_text("inspect")))
    host, first, _ = document["files"][0]["containers"][0]["images"]
    assert (host["kernel_facts"], host["made_by"]) == ([], [])
    (kernel,) = first["kernel_facts"]
    assert (kernel["name"], kernel["params"], kernel["wavefront"]) == ("_Z5kern1Pii", 12, 32)
    assert "clang version 22" in " ".join(first["made_by"])


def test_the_schema_describes_every_fact() -> None:
    described = json.loads(schema_text("inspect"))["$defs"]["kernel"]
    assert tuple(described["properties"]) == tuple(described["required"]) == KernelNeeds._fields


def test_facts_are_read_only_when_asked_for(fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("facts were read")

    monkeypatch.setattr(images, "facts", refuse)
    path = FIXTURES / "elf" / "clang-22-hip.o"
    for options in ([], ["-v"], ["--json"]):
        ran = fatpack("inspect", *options, path)
        assert ran.code == 0
        assert "made_by" not in ran.out
    with pytest.raises(AssertionError, match="facts were read"):
        fatpack("inspect", "--kernels", path)


def test_damaged_metadata_is_a_finding_and_the_names_stay(folder: Path, fatpack: Fatpack) -> None:
    data = (NEEDS / "needs.v6.gfx90a.hsaco").read_bytes()
    at = data.index(b".vgpr_count") + len(b".vgpr_count")
    (folder / "k.hsaco").write_bytes(data[:at] + b"\xc1" + data[at + 1 :])
    ran = fatpack("inspect", "--kernels", "k.hsaco")
    assert ran.code == 3
    assert "4 kernels: plain, scratch, recursion, … 1 more" in ran.out
    assert f"error FP1104 at {at:#x}: metadata: 0xc1 begins no value" in ran.out
    image = json.loads(fatpack("inspect", "--json", "--kernels", "k.hsaco").out)["files"][0]["image"]
    assert (len(image["kernels"]), image["kernel_facts"], image["made_by"]) == (4, [], [])
    assert fatpack("inspect", "k.hsaco").code == 0
    by_kernel = fatpack("inspect", "--by", "kernel", "k.hsaco")
    assert (by_kernel.code, by_kernel.err.count("FP1104")) == (3, 1)


def test_the_first_record_is_written_before_the_last_file_is_read(folder: Path) -> None:
    (folder / "first.cubin").write_bytes((NEEDS / "needs.cuda13.0.linked.sm_90.cubin").read_bytes())
    os.mkfifo(folder / "last")
    program = "import sys; from fatpack.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "inspect", "--json", "first.cubin", "last"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    begun = b""
    while not begun.endswith(b"\n  }"):  # the record of the first file is whole, and nobody has opened the last
        begun += os.read(process.stdout.fileno(), 1 << 16)
    assert b"first.cubin" in begun
    with open(folder / "last", "wb") as last:
        last.write(b"no device code")
    document = json.loads(begun + process.stdout.read())
    process.stdout.close()
    assert process.wait() == 0
    assert [file["path"] for file in document["files"]] == ["first.cubin", "last"]


def test_an_image_that_contradicts_itself_is_a_warning(folder: Path, fatpack: Fatpack) -> None:
    data = bytearray((NEEDS / "needs.v6.gfx90a.hsaco").read_bytes())
    data[48] = 0x4C
    (folder / "k.hsaco").write_bytes(data)
    ran = fatpack("inspect", "--kernels", "k.hsaco")
    assert ran.code == 1
    assert "warning FP1106 at 0x0: its header says amdgcn-amd-amdhsa--gfx942, its metadata" in ran.out
