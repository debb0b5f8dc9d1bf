"""``fatpack inspect``: text, JSON, bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack as api
from fatpack import limits
from fatpack.text.schemas import schema_text
from tools import golden

Fatpack = Callable[..., Ran]
A = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"


def test_the_tree_of_a_container(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "pkg.bin")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "pkg.bin: 624 B\n"
        "  4 × llvm-offload-binary v1, 4 images, 624 B at 0x0\n"
        "    0.0  cuda    nvptx64-nvidia-cuda  sm_70          object   at 0xb0    5 B\n"
        "    1.0  openmp  nvptx64-nvidia-cuda  sm_80          cubin    at 0x148  10 B\n"
        "    2.0  hip     amdgcn-amd-amdhsa    gfx90a:xnack+  bitcode  at 0x208   8 B\n"
        "    3.0  sycl    -                    -              empty    at 0x270   0 B\n"
        "  note FP1105 at 0x148: stored as cubin, but the bytes do not look like it\n"
    )


def test_verbose_adds_addresses_attributes_and_kernels(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", A + ",feature=+ptx80", "-o", "x").code == 0
    lines = [line.strip() for line in fatpack("inspect", "-v", "x").out.splitlines()]
    assert "feature = +ptx80" in lines
    assert "kernel add_one" in lines
    assert any(line.startswith("x#offset=0x") and line.endswith("&size=0x1da0") for line in lines)


def test_a_file_that_is_an_image_says_so(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "a.cubin")
    assert ran.code == 0
    assert ran.out.startswith("a.cubin: cubin sm_80, ELF64 executable, CUDA 13.0")
    assert "add_one" in ran.out


def test_a_file_without_device_code_says_so(folder: Path, fatpack: Fatpack) -> None:
    (folder / "text").write_text("hello\n")
    ran = fatpack("inspect", "host.o", "text")
    assert ran.code == 0
    assert ran.out.count("no device code found") == 2


def test_a_wrong_arch_is_found_and_exits_1(folder: Path, fatpack: Fatpack) -> None:
    fatpack("pack", A.replace("sm_80", "sm_90"), "-o", "x")
    ran = fatpack("inspect", "x")
    assert ran.code == 1
    assert "warning FP1102" in ran.out
    assert "sm_80" in ran.out


def test_a_truncated_file_exits_3_and_says_where(folder: Path, fatpack: Fatpack) -> None:
    (folder / "cut.bin").write_bytes((folder / "pkg.bin").read_bytes()[:-9])
    ran = fatpack("inspect", "cut.bin")
    assert ran.code == 3
    assert "error FP1001 at 0x218: llvm-offload-binary: size: 0x60 is past the end" in ran.out
    assert "3 images" in ran.out


def test_json_fits_its_schema_and_the_fixed_names(folder: Path, fatpack: Fatpack) -> None:
    fatpack("pack", A, "--host=host.o", "-o", "fat.o")
    ran = fatpack("inspect", "--json", "fat.o", "pkg.bin", "a.cubin", "none.o")
    assert ran.code == 5
    document = json.loads(ran.out)
    schema = json.loads(fatpack("inspect", "--schema").out)
    jsonschema.validate(document, schema)
    first = document["files"][0]
    container = first["containers"][0]
    image = container["images"][0]
    assert (document["schema"], first["path"], first["host"]) == ("fatpack.inspect/1", "fat.o", "elf")
    assert (container["format"], container["version"], container["section"], container["member"]) == (
        "llvm-offload-binary",
        1,
        ".llvm.offloading",
        None,
    )
    names = {"index", "offload", "triple", "arch", "form", "offset", "stored_size", "size", "compression", "attrs"}
    assert names | {"kernels", "containers"} <= set(image)
    assert (image["offload"], image["arch"], image["form"], image["size"]) == ("cuda", "sm_80", "cubin", 7584)
    data = (folder / "fat.o").read_bytes()
    assert data[image["offset"] : image["offset"] + image["size"]] == (folder / "a.cubin").read_bytes()
    assert document["files"][3]["error"]["exit_code"] == 5


@pytest.mark.parametrize("path", golden.recorded(), ids=lambda path: path.name)
def test_fixtures_are_described_as_recorded(path: Path) -> None:
    recorded = path.with_name(path.name + ".inspect.json").read_text(encoding="utf-8")
    assert golden.golden(path) == recorded, "run `make golden` and review the diff"
    _validator().validate(json.loads(recorded))


@cache
def _validator() -> jsonschema.Validator:
    """Return what checks the shipped schema and then documents: the schema takes longer."""
    schema = json.loads(schema_text("inspect"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize("path", golden.recorded(), ids=lambda path: path.name)
def test_the_exit_code_does_not_depend_on_what_is_printed(fatpack: Fatpack, path: Path) -> None:
    shown = ((), ("-v",), ("--json",), ("-v", "--json"))
    assert len({fatpack("inspect", *how, path).code for how in shown}) == 1


@pytest.mark.parametrize(
    ("options", "pair"),
    [
        (["--bytes", "--json"], "--bytes and --json"),
        (["--bytes", "--by", "arch"], "--bytes and --by"),
        (["--at", "0", "-v"], "--at and -v"),
        (["--at", "0", "--deep"], "--at and --deep"),
        (["--by", "arch", "--verify"], "--by and --verify"),
        (["--by", "file", "--one-program"], "--by and --one-program"),
        (["--by", "file", "--by", "arch", "-v"], "--by and -v"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_would_be_ignored_are_refused(
    folder: Path, fatpack: Fatpack, options: list[str], pair: str
) -> None:
    ran = fatpack("inspect", "pkg.bin", *options)
    assert (ran.code, bool(ran.out)) == (2, "--json" in options)
    assert f"{pair} exclude each other" in ran.err


def test_long_names_of_kernels_are_cut_in_the_listing_and_whole_with_verbose(folder: Path, fatpack: Fatpack) -> None:
    name = "_Z" + "k" * 300
    text = (folder / "k.ptx").read_text().replace("add_one", name)
    (folder / "long.ptx").write_text(text)
    assert max(map(len, fatpack("inspect", "long.ptx").out.splitlines())) < 250
    assert f"kernel {name}" in [line.strip() for line in fatpack("inspect", "-v", "long.ptx").out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (["inspect"], "fatpack.inspect/1"),
        (["inspect", "--json", "pkg.bin"], "fatpack.inspect/1"),
        (["inspect", "--by", "arch"], "fatpack.sums/1"),
        (["inspect", "--by", "kernel", "--json", "pkg.bin"], "fatpack.sums/1"),
        (["targets"], "fatpack.targets/1"),
    ],
)
def test_the_schema_is_that_of_this_output(folder: Path, fatpack: Fatpack, arguments: list[str], title: str) -> None:
    ran = fatpack(*arguments, "--schema")
    assert (ran.code, json.loads(ran.out)["title"]) == (0, title)


def test_bytes_shows_every_field(folder: Path, fatpack: Fatpack) -> None:
    lines = fatpack("inspect", "--bytes", FIXTURES / "offload_binary" / "llvm-22-one.bin").out.splitlines()
    assert lines[0].split() == ["0x000000", "10", "ff", "10", "ad", "container[0].header.magic", "10", "ff", "10", "ad"]
    assert any("entry[0].string[1].value_offset" in line for line in lines)
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)


def test_at_names_the_field_of_one_byte(folder: Path, fatpack: Fatpack) -> None:
    text = fatpack("inspect", "--at", "0x22", "pkg.bin").out
    assert text.splitlines()[0] == "pkg.bin at 0x22: container[0].entry[0].offload_kind, byte 0 of 2"
    assert "2 (cuda)" in text
    assert "TheOffloadKind" in text


def test_at_looks_into_hosts(folder: Path, fatpack: Fatpack) -> None:
    fatpack("pack", A, "--host=host.o", "-o", "fat.o")
    offset = json.loads(fatpack("inspect", "--json", "fat.o").out)["files"][0]["containers"][0]["offset"]
    assert ".llvm.offloading" in fatpack("inspect", "--at", hex(offset), "fat.o").out
    assert "header.magic" in fatpack("inspect", "--at", hex(offset + 3), "fat.o").out
    assert "header" in fatpack("inspect", "--at", "0x4", "fat.o").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "no file given"),
        (["--at", "x", "pkg.bin"], 2, "'x' is no number"),
        (["--at", "99999", "pkg.bin"], 2, "outside pkg.bin"),
        (["none.o"], 5, "none.o: No such file or directory"),
        (["--bytes", "."], 5, ".: Is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_one_line(
    folder: Path, fatpack: Fatpack, arguments: list[str], code: int, message: str
) -> None:
    ran = fatpack("inspect", *arguments)
    assert ran.code == code
    assert message in ran.err


def test_stored_text_cannot_drive_the_terminal(folder: Path, fatpack: Fatpack) -> None:
    fatpack("pack", "--image=file=k.ptx,triple=\x1b[31mred,arch=a\nb,note=\x07", "-o", "x")
    out = fatpack("inspect", "-v", "x").out + fatpack("inspect", "--bytes", "x").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\\x1b[31mred" in out


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"070701" + b"0" * 104, "a cpio archive"), (bytes(257) + b"ustar\x0000" + bytes(400), "a tar archive")],
)
def test_the_first_line_says_what_a_file_is_that_is_not_read(
    fatpack: Fatpack, folder: Path, data: bytes, kind: str
) -> None:
    (folder / "x").write_bytes(data)
    title, *findings = fatpack("inspect", "x").out.splitlines()
    assert title == f"x: {kind}, {len(data)} B"
    assert kind in findings[0]
    document = json.loads(fatpack("inspect", "--json", "x").out)
    jsonschema.validate(document, json.loads(fatpack("inspect", "--schema").out))
    assert document["files"][0]["kind"] == kind


def test_arch_lists_the_images_for_it_at_their_positions(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "pkg.bin", "--arch", "sm_8*,gfx90a")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.code == 0
    assert [line[0] for line in lines if line[0][0].isdigit() and "." in line[0]] == ["1.0", "2.0"]
    assert "  2 images not shown, of other architectures: sm_70, (no arch)" in ran.out
    verbose = fatpack("inspect", "-v", "pkg.bin", "--arch", "gfx90a").out
    assert "  2.0  hip" in verbose
    assert "sm_80" not in verbose.partition("not shown")[0]


def test_json_with_arch_keeps_positions_and_counts_the_rest(folder: Path, fatpack: Fatpack) -> None:
    document = json.loads(fatpack("inspect", "pkg.bin", "--arch", "sm_80", "--json").out)
    jsonschema.validate(document, json.loads(schema_text("inspect")))
    (record,) = document["files"]
    assert [len(container["images"]) for container in record["containers"]] == [0, 1, 0, 0]
    assert record["left_out"] == {"images": 3, "architectures": ["sm_70", "gfx90a:xnack+", "(no arch)"]}


def test_arch_that_no_image_is_for_exits_1(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "pkg.bin", "a.cubin", "--arch", "sm_50")
    assert (ran.code, ran.err) == (1, "fatpack: no image matches --arch sm_50\n")
    misspelled = fatpack("inspect", "a.cubin", "--arch", "sm90")
    assert (misspelled.code, misspelled.err) == (1, "fatpack: no image matches --arch sm90; did you mean sm_90?\n")
    assert "a.cubin: ELF, 7.58 kB\n" in ran.out
    assert fatpack("inspect", ".", "--arch", "sm_50").code == 1
    ran = fatpack("inspect", ".", "--arch", "sm_90")
    assert (ran.code, "b.cubin: cubin sm_90" in ran.out, "a.cubin" in ran.out) == (0, True, False)


@pytest.mark.parametrize("option", ["--by=arch", "--rows=csv", "--runtime", "--bytes", "--one-program"])
def test_arch_is_refused_where_it_means_nothing(folder: Path, fatpack: Fatpack, option: str) -> None:
    ran = fatpack("inspect", "pkg.bin", "--arch", "sm_50", option)
    assert (ran.code, "exclude each other" in ran.err) == (2, True)


@pytest.mark.parametrize("more", [(), ("-v",), ("--verify",), ("--kernels",)])
def test_image_lists_the_one_at_a_position(folder: Path, fatpack: Fatpack, more: tuple[str, ...]) -> None:
    ran = fatpack("inspect", "pkg.bin", "--image", "1.0", *more)
    # The image is no cubin, which only reading its kernels tells.
    assert (ran.code, ran.err) == (3 if more == ("--kernels",) else 0, "")
    assert "\n    1.0  openmp" in ran.out
    assert "\n  3 images not shown\n" in ran.out
    assert "sm_70" not in ran.out
    document = json.loads(fatpack("inspect", "pkg.bin", "--image", "1.0", *more, "--json").out)
    jsonschema.validate(document, json.loads(schema_text("inspect")))
    (record,) = document["files"]
    assert [len(container["images"]) for container in record["containers"]] == [0, 1, 0, 0]
    assert record["left_out"] == {"images": 3, "architectures": []}


def test_image_inflates_the_one_image_alone(folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_AT_ONCE", 1000)
    (folder / "long.ptx").write_bytes((folder / "k.ptx").read_bytes() + b"// padding\n" * 5000)
    images = [api.ImageFile(folder / "long.ptx", arch="sm_80")] * 12
    api.pack(images, folder / "one", options=api.FatbinOptions(compress_mode="size"))
    (folder / "lib.fatbin").write_bytes((folder / "one").read_bytes() * 3)
    for position in ("0.0", "1.5", "2.11"):
        ran = fatpack("inspect", "lib.fatbin", "--image", position, "--max-inflated", "90k")
        assert (ran.code, "3 kernels: add_one" in ran.out) == (0, True), ran.out
    assert "FP1005" in fatpack("inspect", "lib.fatbin", "--inflate", "--max-inflated", "90k").out


@pytest.mark.parametrize("position", ["1.1", "4.0", "0.17"])
def test_a_position_without_an_image_exits_1(folder: Path, fatpack: Fatpack, position: str) -> None:
    ran = fatpack("inspect", "pkg.bin", "a.cubin", "--image", position)
    assert (ran.code, ran.err) == (1, f"fatpack: no image matches --image {position}\n")


@pytest.mark.parametrize("position", ["1", "a.b", "0.2/1.0", ""])
def test_what_is_no_position_is_refused(folder: Path, fatpack: Fatpack, position: str) -> None:
    ran = fatpack("inspect", "pkg.bin", "--image", position)
    assert (ran.code, "position" in ran.err or "inside another image" in ran.err) == (2, True)


@pytest.mark.parametrize("option", ["--arch=sm_80", "--by=arch", "--rows=csv", "--runtime", "--bytes", "--one-program"])
def test_image_is_refused_where_it_means_nothing(folder: Path, fatpack: Fatpack, option: str) -> None:
    ran = fatpack("inspect", "pkg.bin", "--image", "1.0", option)
    assert (ran.code, "exclude each other" in ran.err) == (2, True)


@pytest.mark.parametrize("shown", [(), ("--arch=sm_*",), ("--arch=sm_90",), ("--image=0.2",)])
def test_what_a_module_lacks_is_said_of_that_module(tmp_path: Path, fatpack: Fatpack, shown: tuple[str, ...]) -> None:
    text = (FIXTURES / "cir" / "samples" / "container_attr_2026.cir").read_text()
    start = text.rindex("_Z5scalePff")
    (tmp_path / "k.cir").write_text(f"{text[:start]}_Z5othrePff{text[start + 11 :]}")
    ran = fatpack("inspect", str(tmp_path / "k.cir"), *shown)
    assert "FP1512" in ran.out
    assert "which the module for sm_90 does not have" in ran.out


@pytest.mark.parametrize("verbose", [(), ("-v",)])
def test_more_than_40_images_begin_with_a_table(folder: Path, fatpack: Fatpack, verbose: tuple[str, ...]) -> None:
    other = A.replace("a.cubin", "k.ptx").replace("sm_80", "sm_90")
    assert fatpack("pack", *[A] * 30, *[other] * 10, "-o", "few").code == 0
    assert "images  arch" not in fatpack("inspect", "few", *verbose).out
    assert fatpack("pack", *[A] * 30, *[other] * 11, "-o", "many").code == 0
    lines = fatpack("inspect", "many", *verbose).out.splitlines()
    assert lines[1:4] == ["  images  arch        form", "      30  sm_80       cubin", "      11  compute_90  ptx"]
    assert lines[4].startswith("  41 × llvm-offload-binary")
