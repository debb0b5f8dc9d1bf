"""``fatpack check``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from elftools.elf.elffile import ELFFile
from tests.builders.kpack_site import Site, sound
from tests.builders.policy_files import container, library
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main
from fatpack.text.schemas import schema_text

Printed = Callable[..., tuple[int, str]]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return sound(tmp_path / "site")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Printed:
    def _run(command: str, *arguments: str) -> tuple[int, str]:
        code = main([command, *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return _run


def document(run: Printed, *arguments: str) -> dict[str, Any]:
    code, printed = run("check-kpack", "site", "--json", *arguments)
    found: dict[str, Any] = json.loads(printed)
    jsonschema.validate(found, json.loads(schema_text("check")))
    assert found["exit_code"] == code
    return found


def test_a_sound_folder(site: Site, run: Printed) -> None:
    code, printed = run("check-kpack", "site")
    assert code == 0
    assert printed.splitlines() == [
        "site: 2 programs with 3 markers, 4 archives with 6 code objects",
        "  gfx90a   3 of 3 code objects found",
        "  gfx1100  3 of 3 code objects found",
        "  6 files looked at",
    ]


def test_what_each_program_gets(site: Site, run: Printed) -> None:
    site.manifest("core/.kpack/x.kpm")
    site.write("core/readme.md", b"")
    _, printed = run("check-kpack", "site", "-v", "--device=gfx1100")
    assert printed.splitlines() == [
        "site: 2 programs with 3 markers, 4 archives with 6 code objects, 1 manifest",
        "  gfx1100  3 of 3 code objects found",
        "  site/core/lib/libx.so: 2 markers of core/lib/libx.so, looks for ../.kpack/x_@GFXARCH@.kpack",
        "    gfx1100  2 of 2  from site/core/.kpack/x_gfx1100.kpack",
        "  site/core/lib/liby.so: 1 marker of core/lib/liby.so, looks for ../.kpack/y_@GFXARCH@.kpack",
        "    gfx1100  1 of 1  from site/core/.kpack/y_gfx1100.kpack",
        "  7 files looked at, 1 passed by because of their names",
    ]


def test_something_missing_is_reported_with_its_place(site: Site, run: Printed) -> None:
    (site.root / "core/.kpack/y_gfx1100.kpack").unlink()
    code, printed = run("check-kpack", "site")
    assert code == 1
    assert "  gfx1100  2 of 3 code objects found  1 missing" in printed
    assert (
        "  warning FP3103: site/core/lib/liby.so at 0x1018: gfx1100: in site/core/.kpack is no y_@GFXARCH@" in printed
    )


def test_the_document_has_what_the_text_has(site: Site, run: Printed) -> None:
    (site.root / "core/.kpack/y_gfx1100.kpack").unlink()
    site.archive("core/.kpack/x_gfx90a:xnack-.kpack", [("core/lib/libx.so#0", "gfx90a:xnack-")])
    found = document(run)
    kpack = found["kpack"]
    assert kpack["devices"] == ["gfx90a:xnack-", "gfx90a:xnack+", "gfx1100"]
    libx, liby = kpack["programs"]
    assert [(row["device"], row["resolved"], row["only_newer"]) for row in libx["devices"]] == [
        ("gfx90a:xnack-", 2, 1),
        ("gfx90a:xnack+", 2, 0),
        ("gfx1100", 2, 0),
    ]
    assert liby["devices"][2] == {
        "device": "gfx1100",
        "resolved": 0,
        "missing": ["core/lib/liby.so#0"],
        "missing_count": 1,
        "only_newer": 0,
        "wrong": 0,
        "archives": [],
    }
    assert {item["code"] for item in found["findings"]} == {"FP3103", "FP3105"}
    assert found["exit_code"] == 1
    assert document(run, "--newer-loader", "--device", "gfx90a")["exit_code"] == 0


def test_damage_exits_with_3(site: Site, run: Printed) -> None:
    path = site.root / "core/.kpack/y_gfx1100.kpack"
    path.write_bytes(path.read_bytes()[:-1])
    assert document(run)["exit_code"] == 3


def test_variables_are_named_and_not_read(site: Site, run: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_KPACK_PATH", "/nowhere")
    monkeypatch.setenv("ROCM_KPACK_DISABLE", "1")
    monkeypatch.setenv("ROCM_KPACK_PATH_PREFIX", "")
    code, printed = run("check-kpack", "site")
    assert code == 0
    assert "  ROCM_KPACK_PATH is set: the runtime minds it, and this check does not" in printed
    assert document(run)["kpack"]["environment"] == ["ROCM_KPACK_PATH", "ROCM_KPACK_DISABLE"]


def test_a_folder_without_programs_is_called_as_it_was_typed(site: Site, run: Printed) -> None:
    (site.root.parent / "empty").mkdir()
    (site.root.parent / "link").symlink_to("empty")
    code, printed = run("check-kpack", "link")
    assert code == 1
    assert "  warning FP3110: link: no program looks for kpack archives among 0 files; " in printed
    (site.root.parent / "link2").symlink_to("nowhere")
    assert run("check-kpack", "link2") == (5, "fatpack: error: link2: No such file or directory\n")


def test_archives_in_the_place_of_others(site: Site, run: Printed) -> None:
    names = ["core/lib/libx.so#0", "core/lib/libx.so#1", "core/lib/liby.so#0"]
    Site(site.root.parent).archive("all.kpack", [(name, "gfx906") for name in names])
    assert run("check-kpack", "site", "--device=gfx906")[0] == 1
    assert run("check-kpack", "site", "--device=gfx906", "--kpack-path=all.kpack")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "no file is given"),
        (["check", "site"], "no rules given: add --require, --forbid or --max-size"),
        (["check", "a", "b"], "fatpack check a ... --require sm_80,sm_90+ptx; fatpack check-stages compares"),
        (["check-stages", "site"], "1 file given, several of one build were expected"),
        (["check-stages"], "0 files given"),
        (["check-kpack"], "Missing argument 'FOLDER'"),
        (["check-kpack", "site", "site"], "unexpected extra argument (site)"),
        (["check-kpack", "site", "--device", "gfx90b"], "unknown target 'gfx90b'"),
    ],
)
def test_what_cannot_be_meant_is_refused(site: Site, run: Printed, arguments: list[str], words: str) -> None:
    code, printed = run(*arguments)
    assert (code, words in printed) == (2, True)


def test_a_folder_that_is_none_is_refused(site: Site, run: Printed) -> None:
    assert run("check-kpack", "nowhere")[0] == 5
    assert run("check-kpack", "site/core/lib/libx.so")[0] == 5


def test_the_schema_is_printed(run: Printed) -> None:
    assert json.loads(run("check-stages", "--schema")[1])["title"] == "fatpack.check/1"


def test_stages_of_a_unit(run: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "single.o", "fat.o")
    with fatpack.open("fat.o") as file:
        Path("k.fatbin").write_bytes(file.containers[0].view.tobytes())
    assert run("check-stages", "k.fatbin", "fat.o") == (
        0,
        "containers  k.fatbin  sm_80, sm_90  3 kernels\n"
        "objects     fat.o     sm_80, sm_90  3 kernels, 3 launched, 3 registered\n"
        "every stage has what those before it have\n",
    )
    fatpack.remove("fat.o", "less.o", fatpack.Selector(arch="sm_90"))
    code, printed = run("check-stages", "less.o", "k.fatbin", "--json")
    found = json.loads(printed)
    jsonschema.validate(found, json.loads(schema_text("check")))
    assert (code, found["exit_code"]) == (1, 1)
    assert [(item["what"], item["arch"], item["had"], item["stage"]) for item in found["lost"]] == [
        ("arch", "sm_90", "containers", "objects")
    ]
    code, printed = run("check-stages", "k.fatbin", "less.o", "-v")
    assert "less.o: no device code for sm_90; k.fatbin has 3 kernels for it: _Z5scale" in printed


def test_a_damaged_file_of_a_unit_is_an_error_and_one_of_no_stage_a_finding(run: Printed, tmp_path: Path) -> None:
    data = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()
    whole, cut, other = tmp_path / "whole.o", tmp_path / "cut.o", tmp_path / "x.txt"
    whole.write_bytes(data)
    cut.write_bytes(data[: len(data) // 2])
    other.write_text("nothing")
    assert run("check-stages", str(whole), str(cut))[0] == 3
    code, printed = run("check-stages", str(whole), str(other))
    assert code == 1
    assert "x.txt: of no stage" in printed
    assert run("check-stages", str(whole), str(tmp_path / "none.o"))[0] == 5
    assert run("check-stages", str(whole), str(tmp_path))[0] == 5


def test_json_says_why_nothing_was_compared(run: Printed, tmp_path: Path) -> None:
    for arguments in (["check-stages", "a.o", "b.o"], ["check-kpack", "nowhere"]):
        code, printed = run(*arguments, "--json")
        document, _, said = printed.rpartition("fatpack: error: ")
        found = json.loads(document)
        jsonschema.validate(found, json.loads(schema_text("check")))
        assert (code, found["exit_code"], found["error"]["exit_code"]) == (5, 5, 5)
        assert "No such file or directory" in found["error"]["message"]
        assert said == f"{found['error']['message']}\n"


def test_what_is_wrong_with_a_registration_is_no_all_clear(run: Printed, tmp_path: Path) -> None:
    host, container, broken = FIXTURES / "cuda_fatbin" / "hosts" / "single.o", tmp_path / "k.fatbin", tmp_path / "b.o"
    with fatpack.open(host) as file:
        container.write_bytes(file.containers[0].view.tobytes())
    with host.open("rb") as opened:
        pointers = ELFFile(opened).get_section_by_name(".rela.init_array")
        at, size = pointers["sh_offset"], pointers["sh_size"]
    data = host.read_bytes()
    broken.write_bytes(data[:at] + bytes(size) + data[at + size :])
    code, printed = run("check-stages", str(container), str(broken))
    assert "b.o at 0x" in printed
    assert "FP3043" in printed
    assert "b.o: 3 kernels of k.fatbin not registered here" in printed
    assert (code, "every stage" in printed) == (1, False)


def test_two_programs_are_no_stages_of_a_unit(site: Site, run: Printed) -> None:
    first, second = library("80"), library("90")
    Path("a.so").write_bytes(first)
    Path("b.so").write_bytes(second)
    assert run("check-stages", "a.so", "b.so")[0] == 1
    Path("b.so").write_bytes(second[:-100])
    code, printed = run("check-stages", "a.so", "b.so")
    assert (code, "FP1001" in printed) == (3, True)
    # A container and a program that has it are two stages.
    Path("a.fatbin").write_bytes(container("80"))
    assert run("check-stages", "a.fatbin", "a.so")[0] == 0
