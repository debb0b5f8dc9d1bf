"""``fatpack check`` with a policy: forms of the command line, outputs and exit codes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from tests.builders.packages import zipped
from tests.builders.policy_files import library
from tests.builders.wheels import files_of, packed
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import check
from fatpack.findings import CODES
from fatpack.text.schemas import schema_text

Fatpack = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a wheel of three libraries, one without device code, and with sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    files = {"x/a.so": library("80 90 p90", "80 90=k|b,c p90"), "x/b.so": library("80"), "x/c.so": library()}
    (tmp_path / "x.whl").write_bytes(zipped(files))
    (tmp_path / "x.so").write_bytes(library("80 90 p90"))
    return tmp_path


def test_the_first_line_says_what_matters(place: Path, fatpack: Fatpack) -> None:
    ran = fatpack("check", "x.whl", "--require", "sm_80,sm_120+ptx")
    assert ran.code == 1
    first, *rest = ran.out.splitlines()
    assert first == "failed: lacks sm_120: 1 of 2 libraries; lacks PTX later than sm_120: 1 of 2 libraries"
    assert rest == [
        "  x.whl",
        "    error FP3303: x/b.so: lacks sm_120",
        "      container 0 (.nv_fatbin) has sm_80; no image fits compute capability 12.0 [C2]: kernel k",
        "    error FP3303: x/b.so: lacks PTX for devices later than sm_120",
        "      container 0 (.nv_fatbin) has sm_80; no PTX that all later devices can compile [C7]: kernel k",
        "  what to do: build with -gencode arch=compute_120,code=sm_120",
        "              build with -gencode arch=compute_120,code=compute_120",
        "  rules: every unit serves sm_80, sm_120+ptx",
        "  3 files read, 2 with device code",
    ]
    ran = fatpack("check", "x.whl", "x.so", "--require", "sm_80", "-v")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "passed: all 3 libraries with code for NVIDIA serve sm_80",
            "  ok: x.whl!x/a.so: 2 units for sm_80, sm_90, compute_90",
            "  ok: x.whl!x/b.so: 1 unit for sm_80",
            "  ok: x.so: 1 unit for sm_80, sm_90, compute_90",
        ],
    )


def test_units_that_serve_differently_call_for_the_option_for_libraries(place: Path, fatpack: Fatpack) -> None:
    """Libraries as cuBLAS choose among their containers: the short help and the advice name ``--per``."""
    Path("y.so").write_bytes(library("80 90", "75"))
    ran = fatpack("check", "y.so", "--require", "sm_90")
    assert ran.code == 1
    assert "code=sm_90; or --per library if the library chooses among its units itself: others" in ran.out
    assert fatpack("check", "y.so", "--require", "sm_90", "--per", "library").code == 0
    assert "--per [unit|library]" in fatpack("check", "--help").out


def test_what_packages_declare(place: Path, fatpack: Fatpack) -> None:
    variant = b'{"variants": {"one": {"nvidia": {"sm_arch": ["80_real", "120_real"]}}}}'
    Path("y.whl").write_bytes(zipped({"y/a.so": library("80 90"), "y-1.dist-info/variant.json": variant}))
    ran = fatpack("check", "y.whl", "x.whl", "--metadata")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "failed: declares sm_120 without it: y.whl; declares nothing: x.whl",
        "  error FP3311: y.whl: variant.json declares 120_real: no image fits compute capability 12.0 [C2]",
        "  note FP3312: y.whl: has sm_90, which variant.json does not declare",
        "  error FP3313: x.whl: its metadata does not declare architectures",
        "  y.whl",
        "    note FP3319: y-1.dist-info/variant.json: variant.json declares 80_real, 120_real",
        "  what to do: build for sm_120, or remove it from the metadata",
        "              declare it in variant.json or METADATA of a wheel, info/index.json of conda's, control of "
        "Debian's packages",
        "  rules: packages have what they declare",
        "  4 files read, 3 with device code",
        "  skipped: 1 by name (no device code)",
    ]


@pytest.mark.parametrize("path", ["libtwo.so", "demo-1.5-py3-none-any.whl"])
def test_what_takes_out_what_is_forbidden_is_one_command(path: str, place: Path, fatpack: Fatpack) -> None:
    library = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
    (place / path).write_bytes(library if path.endswith(".so") else packed(files_of({"x/libtwo.so": library})))
    ran = fatpack("check", path, "--forbid", "sm_8*", "--forbid", "compute_90")
    (advice,) = [line.partition("what to do: ")[2] for line in ran.out.splitlines() if "what to do: " in line]
    assert (ran.code, advice.count("fatpack slim ")) == (1, 1)
    assert fatpack(*shlex.split(advice)[1:]).code == 0
    (slim,) = (place / "slim").iterdir()
    assert fatpack("check", str(slim), "--forbid", "sm_8*", "--forbid", "compute_90").code == 0


def test_libraries_for_other_vendors_are_not_asked(
    place: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    amd = (FIXTURES / "elf" / "clang-22-hip.o").read_bytes()
    (place / "y.whl").write_bytes(zipped({"y/a.so": library("80"), "y/b.so": library("80 90"), "y/amd.o": amd}))
    ran = fatpack("check", "y.whl", "--require", "sm_80", "-v")
    first, *rest = ran.out.splitlines()
    assert (ran.code, first) == (0, "passed: both libraries with code for NVIDIA serve sm_80; not checked: 1 for AMD")
    assert str(check("y.whl", require="sm_80")) == first
    assert [line.partition(": ")[0] for line in rest] == ["  ok", "  ok", "  not checked"]
    ran = fatpack("check", "y.whl", "--require", "sm_90")
    assert str(check("y.whl", require="sm_90")).splitlines()[0] == ran.out.splitlines()[0]
    assert ran.out.startswith("failed: lacks sm_90: 1 of 2 libraries; not checked: 1 for AMD\n")
    ran = fatpack("check", "y.whl", "--require", "sm_90", "--forbid", "gfx1*")
    assert "not checked" not in ran.out  # it is asked for nothing of gfx1*
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    ran = fatpack("check", "y.whl", "--require", "sm_90", "--output", "github")
    assert "y/a.so: lacks sm_90 (no image fits compute capability 9.0); build with" in ran.out
    table = (place / "summary.md").read_text().splitlines()[-5:]
    assert [line.split(" | ")[1] for line in table if "y.whl!" in line] == ["failed", "ok", "not checked"]
    suites = ElementTree.fromstring(fatpack("check", "y.whl", "--require", "sm_90", "--output", "junit").out)
    assert [one.attrib["message"] for one in suites.iter("skipped")] == ["not checked: it is for AMD"]
    assert suites[0].attrib["skipped"] == "1"


def test_what_is_not_there_is_reported_once(place: Path, fatpack: Fatpack) -> None:
    for name, lines in (
        (
            "missing.so",
            ["unreadable: missing.so", "  error FP3301: missing.so: No such file or directory"],
        ),
        (
            "dist/*.whl",
            ["unreadable: no file matches dist/*.whl", "  error FP3301: dist/*.whl: no file matches this pattern"],
        ),
        ("*.dll", ["unreadable: no file matches *.dll", "  error FP3301: *.dll: no file matches this pattern"]),
    ):
        ran = fatpack("check", name, "--require", "sm_80")
        assert (ran.code, [line for line in ran.out.splitlines() if name.partition("/")[0] in line]) == (5, lines)


def test_lines_stay_readable(place: Path, fatpack: Fatpack) -> None:
    names = "+".join(f"_Z35kOptimizerStatic8bit1StateBlockwise{number}{'PT_' * 40}" for number in range(9))
    (place / "z.whl").write_bytes(zipped({"z/a.so": library(f"80={names}"), "z/notes.bin": bytes(1_200_000)}))
    ran = fatpack("check", "z.whl", "--require", "sm_90", "--max-size", "1kB")
    assert "9 kernels, as _Z35kOptimizerStatic8bi…PT_PT_" in ran.out
    assert max(map(len, ran.out.splitlines())) < 170
    assert " over the limit of 1000 bytes" in ran.out
    assert "Python" not in ran.out
    assert f"{'PT_' * 40}" in fatpack("check", "z.whl", "--require", "sm_90", "-v").out


def test_forms_that_cannot_be_meant(place: Path, fatpack: Fatpack) -> None:
    for arguments, words in (
        (["x.so"], "no rules given: add --require, --forbid or --max-size; fatpack check x.so --require"),
        (["x.so", "--output", "sarif"], "no rules given"),
        (["--require", "sm_80"], "no file is given"),
        (["x.so", "--require", "sm_80,,sm_90"], "empty item"),
        (["x.so", "--require", "compute_90!"], "write compute_90, or sm_90!"),
        (["x.so", "--require", "gfx942+ptx"], "only NVIDIA devices compile PTX"),
        (["x.so", "--require", "RTX 9999"], "unknown"),
        (["x.so", "--require", "@nobody"], "no preset @nobody"),
        (["x.so", "--max-size", "5 apples"], "no size"),
        (["x.so", "--max-growth", "5%"], "go together"),
        (["x.so", "--against", "x.so"], "go together"),
        (["x.so", "--forbid", "sm_5*,"], "a pattern is empty"),
        (["x.so", "--require", "sm_80", "--config", "x.toml"], "is no TOML"),
        (["x.so", "--max-size", ""], "is no size"),
        (["x.so", "--max-growth", "", "--against", "x.so"], "is no size"),
        (["x.so", "--uniform", "--per", "library"], "--per goes with --require"),
        (["x.so", "--uniform", "--config", "x.toml", "--no-config"], "contradict"),
        (["x.so", "--uniform", "--json", "--output", "sarif"], "contradict"),
    ):
        (place / "x.toml").write_text("= 3")
        ran = fatpack("check", *arguments)
        assert (ran.code, words in ran.err) == (2, True), (arguments, ran.err)


def test_a_project_keeps_its_policy_in_its_file(place: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "pyproject.toml").write_text(
        '[tool.fatpack.check]\nrequire = "@ours"\nmax-size = "1MB"\n'
        '[tool.fatpack.check.presets]\nours = "sm_80, sm_90"\n'
    )
    (place / "below").mkdir()
    monkeypatch.chdir(place / "below")
    ran = fatpack("check", "../x.whl")
    assert ran.code == 1
    assert ran.out.startswith("failed: lacks sm_90: 1 of 2 libraries\n")
    assert "  policy of ../pyproject.toml\n" in ran.out
    assert fatpack("check", "../x.whl", "--require", "sm_80").code == 0
    assert fatpack("check", "../x.whl", "--require", "@ours").code == 1
    assert fatpack("check", "../x.whl", "--require=@ours", "--max-size", "1GB").code == 1
    assert fatpack("check", "../x.whl", "--no-config").code == 2
    assert "@ours" in fatpack("check", "--presets").out
    (place / "own.toml").write_text('require = ["sm_80"]\nforbid = "sm_90"\n')
    assert fatpack("check", "../x.whl", "--config", "../own.toml").code == 1
    for wrong in ("per = 3", "requires = 1", "require = 3", "uniform = 'yes'", "presets = 1"):
        (place / "own.toml").write_text(wrong)
        assert fatpack("check", "../x.whl", "--config", "../own.toml").code == 2


def test_a_policy_that_may_be_there_and_cannot_be_read(place: Path, fatpack: Fatpack) -> None:
    project = place / "pyproject.toml"
    for make in (lambda: project.symlink_to("nothing"), lambda: os.mkfifo(project), project.mkdir):
        make()
        ran = fatpack("check", "x.so", "--uniform")
        assert (ran.code, "a policy may be in it; fatpack check --no-config reads none" in ran.err) == (2, True)
        assert fatpack("check", "x.so", "--uniform", "--no-config").code == 0
        project.rmdir() if project.is_dir() else project.unlink()


def test_json_says_why_nothing_was_checked(place: Path, fatpack: Fatpack) -> None:
    for arguments, code in (
        (["x.so", "--require", "RTX 9999"], 2),
        (["x.so", "--max-size", "5 apples"], 2),
        (["x.so", "--config", "gone.toml"], 5),
    ):
        for form in (["--json"], ["--output", "json"]):
            ran = fatpack("check", *arguments, *form)
            document = json.loads(ran.out)
            jsonschema.validate(document, json.loads(schema_text("check")))
            assert (ran.code, document["exit_code"], document["error"]["exit_code"]) == (code, code, code)
            assert document["error"]["message"]


def outputs(fatpack: Fatpack, *arguments: str) -> dict[str, Ran]:
    return {name: fatpack("check", *arguments, "--output", name) for name in ("json", "github", "junit", "sarif")}


def test_every_output_renders_the_same(place: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    for arguments, code in (
        (["x.whl", "--require", "sm_80,sm_120+ptx"], 1),
        (["x.whl", "missing.whl", "--require", "sm_90"], 5),
        (["x.so", "--require", "sm_80"], 0),
    ):
        ran = outputs(fatpack, *arguments)
        assert {one.code for one in ran.values()} == {code}
        document = json.loads(ran["json"].out)
        jsonschema.validate(document, json.loads(schema_text("check")))
        violations = document["policy"]["violations"]
        _sarif_holds(json.loads(ran["sarif"].out), violations)
        _junit_holds(ran["junit"].out, violations)
        commands = [line for line in ran["github"].out.splitlines() if line.startswith("::")]
        assert len(commands) == len(violations)
        assert all(line.startswith("::error title=fatpack FP33") for line in commands)
    summary = (place / "summary.md").read_text()
    assert summary.count("### fatpack check: ") == 3
    assert "| FP3303 | x.whl!x/b.so | lacks sm\\_120 | 1 of 1 | kernel k |" in summary
    assert (
        fatpack("check", "x.so", "--require", "sm_80", "--json").out
        == fatpack("check", "x.so", "--require", "sm_80", "--output", "json").out
    )


def _sarif_holds(document: dict[str, Any], violations: list[dict[str, Any]]) -> None:
    """The properties that SARIF 2.1.0 requires, and the references within it."""
    assert (document["version"], document["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "fatpack"
    assert [rule["id"] for rule in driver["rules"]] == list(dict.fromkeys(item["code"] for item in violations))
    assert all(rule["shortDescription"]["text"] == CODES[rule["id"]][1] for rule in driver["rules"])
    assert [result["ruleId"] for result in run["results"]] == [item["code"] for item in violations]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result.get("locations", ()):
            physical = location["physicalLocation"]
            assert " " not in physical["artifactLocation"]["uri"]
            assert physical.get("region", {"byteOffset": 0})["byteOffset"] >= 0
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is all(item["code"] != "FP3301" for item in violations)


def _junit_holds(document: str, violations: list[dict[str, Any]]) -> None:
    """The elements and attributes of the schema that Jenkins has, and counts that are right."""
    suites = ElementTree.fromstring(document)
    (suite,) = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    cases = list(suite)
    assert {case.tag for case in cases} == {"testcase"}
    assert all({"name", "classname", "time"} <= case.attrib.keys() for case in cases)
    failures = [one for case in cases for one in case if one.tag == "failure"]
    errors = [one for case in cases for one in case if one.tag == "error"]
    assert bool(errors) is any(item["code"] == "FP3301" for item in violations)
    assert len(failures) + len(errors) == sum(map(len, cases))
    for element in (suites, suite):
        counts = {name: int(element.attrib[name]) for name in ("tests", "failures", "errors")}
        assert counts == {"tests": len(cases), "failures": len(failures), "errors": len(errors)}
    broken = {item["path"] for item in violations if item["severity"] != "note"}
    assert {case.attrib["name"] for case in cases if len(case)} == {path or "all paths" for path in broken}


def test_names_from_files_are_no_commands(place: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    name = 'a|b\n::error::c <d> & % \x1b[31m".so'
    (place / "y.whl").write_bytes(zipped({name: library("80")}))
    ran = outputs(fatpack, "y.whl", "--require", "sm_90")
    lines = ran["github"].out.splitlines()
    assert [line.startswith("::error title=fatpack FP3303::y.whl!a|b\\n::error::c") for line in lines] == [True, False]
    assert "%25" in lines[0]
    assert "\x1b" not in "".join(one.out for one in ran.values()) + (place / "summary.md").read_text()
    assert "a\\|b" in (place / "summary.md").read_text()
    cases = ElementTree.fromstring(ran["junit"].out).iter("testcase")
    assert any("<d> & %" in case.attrib["name"] for case in cases)
    uri = json.loads(ran["sarif"].out)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert "%3Cd%3E" in uri["uri"]


def test_names_from_files_are_no_commands_of_the_older_kind_and_no_markup(
    place: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    (place / "y.whl").write_bytes(zipped({"##[stop-commands]x ~~s~~ &lt;.fatbin": DAMAGED}))
    *commands, headline = fatpack("check", "y.whl", "--require", "sm_90", "--output", "github").out.splitlines()
    assert all(line.startswith("::error title=fatpack FP33") for line in commands)
    assert "stop-commands" in headline and "##[" not in headline
    assert "\\~\\~s\\~\\~ &amp;lt;.fatbin" in (place / "summary.md").read_text()


#: a fat binary of which half is missing
DAMAGED = (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes()[:-300]


def test_nothing_is_reported_for_each_of_many(place: Path, fatpack: Fatpack) -> None:
    for number in range(6):
        (place / f"broken{number}.fatbin").write_bytes(DAMAGED)
    out = fatpack("check", ".", "--forbid", "sm_5*").out
    assert out.count("for details") == 1
    assert "for details, and so for 5 other files" in out
    assert fatpack("check", ".", "--forbid", "sm_5*", "-v").out.count("for details") == 6
    assert "files read" not in fatpack("check", "nothing-there", "--forbid", "sm_5*").out


def test_code_for_linkers_is_called_so(place: Path, fatpack: Fatpack) -> None:
    path = str(FIXTURES / "cuda_fatbin" / "v130_ltoir.fatbin")
    assert "has sm_80 (LTO-IR); no image fits compute capability 8.0" in fatpack("check", path, "--require", "8.0").out
    ran = fatpack("check", str(FIXTURES / "cuda_fatbin" / "hosts" / "k1.rdc.o"), "--require", "8.0")
    assert ran.out.startswith("failed: not known if sm_80 is served\n")


def test_without_a_policy_the_advice_can_be_typed(place: Path, fatpack: Fatpack) -> None:
    (place / "a b").mkdir()
    ran = fatpack("check", "a b/x.so")
    assert "no rules given: add --require, --forbid or --max-size; fatpack check 'a b/x.so' --require" in ran.err
    assert len(ran.err) < 200


def test_what_is_believed_is_reported(place: Path, fatpack: Fatpack) -> None:
    path = str(FIXTURES / "cuda_fatbin" / "v130_ltoir.fatbin")
    ran = fatpack("check", path, "--forbid", "sm_5*")
    assert (ran.code, ran.out.count("note FP1408"), ran.out.count("are not checked")) == (0, 1, 1)
    assert (
        "believed" not in fatpack("check", str(FIXTURES / "cuda_fatbin" / "v130_size.fatbin"), "--forbid", "sm_5*").out
    )


def test_junit_does_not_list_every_kernel(place: Path, fatpack: Fatpack) -> None:
    kernels = "+".join(f"kernel{number}" for number in range(200))
    (place / "x.so").write_bytes(library(f"80={kernels}"))
    out = fatpack("check", "x.so", "--require", "sm_90", "--output", "junit").out
    assert "kernel0" in out
    assert "kernel199" not in out
