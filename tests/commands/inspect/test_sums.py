"""Totals of device code, checked against the records they are made from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.builders import elf
from tests.laws.rooms import FIXTURES

from fatpack import codecs
from fatpack.binary import archive
from fatpack.commands.inspect import KEYS
from fatpack.commands.inspect.record import make_file_record
from fatpack.commands.inspect.totals import compute_totals as add_up
from fatpack.commands.inspect.totals import totals_table
from fatpack.formats.cuda_fatbin import entry
from fatpack.io.source import PiecesSource
from fatpack.main import main
from fatpack.testing.helpers import make_view
from fatpack.text.schemas import schema_text

PLAIN = FIXTURES / "offload_binary" / "llvm-22-four.bin"
COMPRESSED = FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle"

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> str:
        # An image of PLAIN is no cubin, which sums by kernel call damage.
        assert main([str(argument) for argument in arguments]) in ((0, 1, 3) if "kernel" in arguments else (0, 1))
        return capsys.readouterr().out

    return run


def image(arch: str, size: int, stored: int | None, kernels: tuple[str, ...] = (), **more: object) -> dict[str, object]:
    codes = {name: 10 * number for number, name in enumerate(kernels, 1)}
    facts_and_size = {"size": size, "stored_size": stored, "kernels": list(kernels), "kernel_facts": codes}
    label = {"arch": arch, "triple": "t", "offload": "cuda", "form": "cubin"}
    return {**label, "containers": [], "compression": None, **facts_and_size, **more}


def container(size: int, *images: dict[str, object]) -> dict[str, object]:
    return {"size": size, "member": None, "attrs": {}, "images": list(images)}


def file(path: str, *containers: dict[str, object], **more: object) -> dict[str, Any]:
    return {"path": path, "size": 1000, "image": None, "containers": list(containers), **more}


def compute_totals(files: Any, by: list[str]) -> Any:
    """Return the plain data of the sums over files."""
    return add_up(files, by).record()


def table(files: Any, by: list[str]) -> list[str]:
    """Return the lines of the sums over files."""
    return list(totals_table(add_up(files, by)))


def test_images_of_an_arch_are_added_over_all_files() -> None:
    files = [
        file("one", container(100, image("a", 30, 20), image("b", 60, 60))),
        file("two", container(10, image("a", 5, 5))),
    ]
    result = compute_totals(files, ["arch"])
    assert [(row["arch"], row["images"], row["stored_size"], row["size"]) for row in result["rows"]] == [
        ("b", 1, 60, 60),
        ("a", 2, 25, 35),
    ]
    assert (result["total"]["stored_size"], result["total"]["size"]) == (85, 95)
    assert [row["file"] for row in compute_totals(files, ["file"])["rows"]] == ["one", "two"]


def test_forms_of_one_arch_are_counted_separately() -> None:
    result = compute_totals([file("one", container(90, image("a", 30, 30), image("a", 50, 50, form="ptx")))], ["arch"])
    assert [(row["arch"], row["form"], row["images"]) for row in result["rows"]] == [("a", "ptx", 1), ("a", "cubin", 1)]
    lines = table([file("one", container(90, image("a", 30, 30), image("a", 50, 50, form="ptx")))], ["arch"])
    assert [line.split()[-2:] for line in lines][1:] == [["a", "ptx"], ["a", "cubin"], ["B", "total"]]


def test_several_keys_make_a_row_for_each_of_their_combinations() -> None:
    files = [
        file("one", container(100, image("a", 30, 20), image("b", 60, 60))),
        file("two", container(10, image("a", 5, 5))),
    ]
    result = compute_totals(files, ["arch", "file"])
    assert [(row["arch"], row["file"], row["stored_size"]) for row in result["rows"]] == [
        ("b", "one", 60),
        ("a", "one", 20),
        ("a", "two", 5),
    ]
    assert list(result["rows"][0])[:3] == ["arch", "form", "file"]
    assert list(compute_totals(files, ["file", "arch"])["rows"][0])[:3] == ["file", "arch", "form"]


def test_tables_have_groups_and_name_a_package_once() -> None:
    files = [
        file("d/x.whl!lib/a.so", container(20, image("sm_90", 5, 5), image("sm_90", 9, 9, form="ptx"))),
        file("d/x.whl!lib/b.so", container(70, image("sm_80", 50, 50), image("gfx90a", 8, 8, form="code-object"))),
    ]
    lines = table(files, ["file", "arch"])
    assert lines[0] == "in d/x.whl!lib/"
    assert [line.split()[5:] for line in lines[2:]] == [
        ["b.so", "sm_80", "cubin"],
        ["gfx90a", "code-object"],
        ["a.so", "compute_90", "ptx"],
        ["sm_90", "cubin"],
        ["total"],
    ]
    lines = table(files, ["arch", "file"])
    assert [line.split()[5:] for line in lines[2:-1]] == [
        ["sm_80", "cubin", "b.so"],
        ["compute_90", "ptx", "a.so"],
        ["gfx90a", "code-object", "b.so"],
        ["sm_90", "cubin", "a.so"],
    ]
    (one,) = [line for line in table(files[:1], ["file"]) if line.endswith("a.so")]
    assert one.split()[-1] == "lib/a.so"


def test_the_empty_entry_of_the_host_is_no_image() -> None:
    host = image("", 0, 0, triple="x86_64", offload="host", form="empty")
    code = image("", 7, 7, triple="x86_64", offload="host", form="object")
    result = compute_totals([file("one", container(100, host, image("a", 30, 30), code))], ["arch"])
    assert [(row["arch"], row["images"]) for row in result["rows"]] == [("a", 1), ("x86_64", 1)]
    assert result["total"]["images"] == 2


def test_the_marker_of_the_host_in_a_fat_object_is_no_image(run: Run) -> None:
    path = FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o"
    rows = json.loads(run("inspect", "--by", "arch", "--json", path))["rows"]
    assert {(row["arch"], row["form"]) for row in rows} == {("gfx1100", "bitcode"), ("gfx90a", "bitcode")}


def test_a_compressed_container_is_shared_out_by_inflated_size() -> None:
    files = [file("one", container(40, image("a", 300, None), image("b", 100, None)))]
    result = compute_totals(files, ["arch"])
    assert {row["arch"]: row["stored_size"] for row in result["rows"]} == {"a": 30, "b": 10}


def test_what_holds_containers_is_not_counted_itself() -> None:
    inner = container(80, image("x", 40, 40), image("y", 30, 30))
    outer = image("wrapped", 80, 20, containers=[inner], compression="zstd")
    result = compute_totals([file("one", container(100, outer))], ["arch"])
    assert {row["arch"]: (row["stored_size"], row["size"]) for row in result["rows"]} == {"x": (11, 40), "y": (8, 30)}


def test_kernels_are_ordered_by_their_code() -> None:
    files = [file("one", container(9, image("a", 9, 9, ("k", "m")), image("b", 9, 9, ("m",))))]
    rows = compute_totals(files, ["kernel"])["rows"]
    assert [(row["kernel"], row["images"], row["code_size"]) for row in rows] == [("m", 2, 30), ("k", 1, 10)]
    rows = compute_totals(files, ["arch", "kernel"])["rows"]
    assert [(row["arch"], row["kernel"], row["code_size"]) for row in rows] == [
        ("a", "m", 20),
        ("a", "k", 10),
        ("b", "m", 10),
    ]


@pytest.mark.parametrize("by", KEYS)
def test_images_without_a_container_count(run: Run, tmp_path: Path, by: str) -> None:
    """Files that are images, as rocBLAS has them, and members of archives."""
    cubins = sorted((FIXTURES / "cuda" / "cubin").glob("k1.*.cubin"))
    sizes = [path.stat().st_size for path in cubins]
    alone = json.loads(run("inspect", "--by", by, "--json", *cubins))
    assert alone["total"] == {"images": len(cubins), "stored_size": sum(sizes), "size": sum(sizes)}
    archive_file = tmp_path / "libk.a"
    members = [(path.name.encode(), make_view(path.read_bytes())) for path in cubins]
    archive_file.write_bytes(PiecesSource(list(archive.build_archive(members)), "libk.a").view().tobytes())
    together = json.loads(run("inspect", "--by", by, "--json", archive_file))
    assert together["total"] == alone["total"]
    if by == "arch":
        assert together["rows"] == alone["rows"]
        assert {row["form"] for row in alone["rows"]} == {"cubin"}
    elif by == "kernel":
        assert {row["kernel"] for row in together["rows"]} >= {"add_one"}


def test_the_command_prints_a_table_and_json(run: Run) -> None:
    lines = run("inspect", "--by", "arch", PLAIN, COMPRESSED).splitlines()
    assert lines[0].split() == ["images", "stored", "inflated", "arch", "form"]
    assert lines[-1].split()[-1] == "total"
    result = json.loads(run("inspect", "--by", "file", "--json", PLAIN, COMPRESSED))
    assert result["schema"] == "fatpack.sums/1"
    assert {Path(row["file"]) for row in result["rows"]} == {PLAIN, COMPRESSED}
    assert result["total"]["images"] == sum(row["images"] for row in result["rows"])


@pytest.mark.parametrize("by", [("arch",), ("kernel",), ("file",), ("arch", "file"), ("kernel", "arch", "file")])
def test_the_json_fits_its_schema(run: Run, by: tuple[str, ...]) -> None:
    options = [word for key in by for word in ("--by", key)]
    document = json.loads(run("inspect", "--json", *options, PLAIN, FIXTURES / "cuda_fatbin" / "v130_size.fatbin"))
    assert document["rows"]
    jsonschema.validate(document, json.loads(schema_text("sums")))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_keeps_sums_from_being_whole_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options
) -> None:
    cut = tmp_path / "cut.bin"
    cut.write_bytes(PLAIN.read_bytes()[:-10])
    assert main(["inspect", "--by", "arch", *options, str(cut), str(PLAIN)]) == 3
    streams = capsys.readouterr()
    (line,) = streams.err.splitlines()
    assert line.startswith(f"{cut}: error FP")
    assert "error" not in streams.out


def test_what_was_not_searched_is_named_where_more_may_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fatbin = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
    for name, expected in ((".cask_resource", "not searched for containers: .data (40 B); --deep"), (".nv_fatbin", "")):
        host = elf.Elf()
        host.add(name, fatbin, align=8)
        host.add(".data", b"d" * 40)
        path = tmp_path / "lib.so"
        path.write_bytes(host.build())
        assert main(["inspect", "--by", "arch", str(path)]) == 0
        assert expected in capsys.readouterr().err
        assert main(["inspect", "--by", "arch", "--deep", str(path)]) == 0
        assert capsys.readouterr().err == ""


def test_the_table_by_kernel_has_the_bytes_of_the_images_that_hold_each(run: Run) -> None:
    path = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
    heading, *rows, total = run("inspect", path, "--by", "kernel").splitlines()
    assert heading.split() == ["images", "code", "stored", "inflated", "kernel"]
    record = json.loads(run("inspect", path, "--by", "kernel", "--json"))
    images = json.loads(run("inspect", path, "--json"))["files"][0]["containers"][0]["images"]
    assert [row.split()[-1] for row in rows] == [row["kernel"] for row in record["rows"]]
    count = record["total"]["images"]
    assert total.startswith(f"each image counts once for every kernel in it; there are {count} images, ")
    for row in record["rows"]:
        holding = [image for image in images if row["kernel"] in image["kernels"]]
        assert (row["images"], row["stored_size"], row["size"]) == (
            len(holding),
            sum(image["stored_size"] for image in holding),
            sum(image["size"] for image in holding),
        )


@pytest.fixture
def inflations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls that inflated parts of fat binaries since the test began, by name."""
    seen: list[str] = []
    for module, name in ((entry, "decompress"), (entry, "inflate_pieces"), (codecs, "inflate_beginning")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *words, _real=real, _name=name, **more: seen.append(_name) or _real(*words, **more)
        )
    return seen


@pytest.mark.parametrize("by", ["arch", "file"])
def test_a_library_of_fat_binaries_is_added_up_from_its_tables(
    run: Run, tmp_path: Path, inflations: list[str], by: str
) -> None:
    fatbins = ("v130_size.fatbin", "v135_concat_tiny.fatbin", "v130_ltoir.fatbin", "v124_all_ident.fatbin")
    library = tmp_path / "library.fatbin"
    library.write_bytes(b"".join((FIXTURES / "cuda_fatbin" / name).read_bytes() for name in fatbins))
    hosted = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
    found = json.loads(run("inspect", "--json", "--by", by, library, hosted))
    assert inflations == []
    whole = [make_file_record(make_view(path.read_bytes(), str(path))) for path in (library, hosted)]
    assert inflations
    assert len(whole[0]["containers"]) == len(fatbins)
    assert found == compute_totals(whole, [by])


def test_the_sums_by_kernel_take_inflating(run: Run, inflations: list[str]) -> None:
    run("inspect", "--by", "kernel", FIXTURES / "cuda_fatbin" / "v130_size.fatbin")
    assert inflations
