"""The commands of docs/how-to/fail-a-build.md print what stands there."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.builders.packages import zipped
from tests.builders.policy_files import library

import fatpack
from fatpack.commands.check.policy import builtin_presets, read_policy_file
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "fail-a-build.md").read_text()
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    files = {"demo/_new.so": library("80 90 100 120 p120", "80 90 100 120 p120"), "demo/_old.so": library("80 90")}
    (tmp_path / "demo.whl").write_bytes(zipped(files))


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(
    wheel: None, capsys: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    assert main(shlex.split(command)[1:]) == 1
    out = capsys.readouterr().out
    assert out == printed or (printed.count("\n") == 1 and out.startswith(printed))


def test_the_settings_and_the_example_hold(wheel: None, tmp_path: Path) -> None:
    (settings,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings)
    assert (
        tomllib.loads(settings)["tool"]["fatpack"]["check"].keys() - {"presets"}
        == read_policy_file("pyproject.toml").values.keys()
    )
    made = fatpack.check("demo.whl", config="pyproject.toml")
    assert (made.exit_code, made.verdict, {item.path for item in made.violations}) == (
        1,
        "failed",
        {"demo.whl!demo/_old.so"},
    )
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(example, {})


def test_the_job_for_gitlab_fails_and_leaves_its_report(wheel: None, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (
        block for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "script:" in block
    )
    assert "reports:\n      junit: device-code.xml\n" in text
    command, _, report = re.findall(r"- (fatpack .*)", text)[0].partition(" > ")
    assert report == "device-code.xml"
    assert main(shlex.split(command)[1:]) == 1
    suites = ElementTree.fromstring(capsys.readouterr().out)
    assert {case.get("name") for case in suites.iter("testcase")}
    assert [failure.get("message") for failure in suites.iter("failure")]


def test_wrong_arguments_are_errors(wheel: None) -> None:
    with pytest.raises(fatpack.UsageError, match="asks for nothing"):
        fatpack.check("demo.whl")
    with pytest.raises(fatpack.UsageError, match="go together"):
        fatpack.check("demo.whl", max_growth="5%")
    with pytest.raises(TypeError, match="require must be a text"):
        fatpack.check("demo.whl", require=[80])  # type: ignore[list-item]
    assert fatpack.check(["demo.whl"], max_size="1MB", forbid="sm_5*").exit_code == 0


def test_presets_can_be_meant_and_name_their_sources() -> None:
    from fatpack.commands.check.policy import all_presets, parse_requirements

    for preset in builtin_presets():
        assert parse_requirements([f"@{preset.name}"], all_presets(None))
        assert re.search(r"\w+/\w[\w-]*#\d+|\.org/", preset.source)
