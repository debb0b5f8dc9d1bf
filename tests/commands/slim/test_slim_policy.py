"""``[tool.fatpack.slim]``, exceptions for libraries, and plans that are written, reviewed and applied."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders import wheels as build
from tests.builders.fatbin import of_words

import fatpack as library
from fatpack.commands.slim.policy import KEYS, find_policy, parse_policy
from fatpack.errors import UsageError
from fatpack.main import main

NAME = "demo-1.5-py3-none-any.whl"
BOTH = of_words("80 90")
FILES = {"demo/a.fatbin": BOTH, "demo/deep/b.fatbin": of_words("75 80 90"), "demo/c.txt": b"text"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).write_bytes(build.wheel(FILES))
    return tmp_path


def policy(text: str, name: str = "pyproject.toml") -> None:
    Path(name).write_text(text)


def slimmed(*more: str) -> dict[str, list[str]]:
    """Slim the wheel, and return the architectures of its libraries."""
    assert main(["slim", NAME, "-d", "out", "--force", "--quiet", *more]) == 0
    (path,) = Path("out").iterdir()
    found = {name: archs(f"{path}!{name}") for name in FILES if name.endswith("fatbin")}
    path.unlink()
    return found


def archs(path: str) -> list[str]:
    package, _, inside = path.partition("!")
    with library.open(package, member=inside or None) as file:
        return [image.target.arch for found in file.containers for image in found.images]


def test_the_nearest_pyproject_says_what_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy('[tool.fatpack.slim]\ndevices = "sm_90"\n')
    assert slimmed() == {"demo/a.fatbin": ["sm_90"], "demo/deep/b.fatbin": ["sm_90"]}
    (here / "deeper").mkdir()
    monkeypatch.chdir(here / "deeper")
    (here / "deeper" / NAME).write_bytes(build.wheel(FILES))
    assert slimmed() == {"demo/a.fatbin": ["sm_90"], "demo/deep/b.fatbin": ["sm_90"]}


def test_a_rule_of_the_command_line_replaces_those_of_the_file(here: Path) -> None:
    policy('[tool.fatpack.slim]\nkeep = ["sm_80"]\n[tool.fatpack.slim.libraries."*/deep/*"]\ndrop = "sm_75"\n')
    assert slimmed() == {"demo/a.fatbin": ["sm_80"], "demo/deep/b.fatbin": ["sm_80"]}
    assert slimmed("--drop", "sm_80") == {"demo/a.fatbin": ["sm_90"], "demo/deep/b.fatbin": ["sm_80", "sm_90"]}
    assert slimmed("--drop", "sm_80", "--no-config") == {
        "demo/a.fatbin": ["sm_90"],
        "demo/deep/b.fatbin": ["sm_75", "sm_90"],
    }


def test_exceptions_are_by_name_and_by_path(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy(
        'devices = ["sm_90"]\n[libraries."b.*"]\ndevices = ["sm_80", "sm_90"]\n[libraries."demo/a*"]\nstays = true\n',
        "own.toml",
    )
    assert slimmed("--config", "own.toml") == {
        "demo/a.fatbin": ["sm_80", "sm_90"],
        "demo/deep/b.fatbin": ["sm_80", "sm_90"],
    }
    assert main(["slim", NAME, "--dry-run", "--config", "own.toml"]) == 0
    printed = capsys.readouterr()
    assert "demo/a.fatbin: unchanged: the policy leaves it as it is" in printed.out
    assert "policy: own.toml" in printed.err


def test_two_policies_give_two_names(here: Path) -> None:
    names = set()
    for number, stays in enumerate(("demo/a*", "b.fatbin", "")):
        policy('devices = "sm_90"\n' + (f'[libraries."{stays}"]\nstays = true\n' if stays else ""), "own.toml")
        assert main(["slim", NAME, "-d", f"out{number}", "--quiet", "--config", "own.toml"]) == 0
        names.update(path.name for path in Path(f"out{number}").iterdir())
    assert len(names) == 3


def test_strict_is_a_setting(here: Path) -> None:
    (here / NAME).write_bytes(build.wheel({**FILES, "demo/only.fatbin": of_words("100")}))
    policy('[tool.fatpack.slim]\ndevices = "sm_90"\nstrict = true\n')
    assert main(["slim", NAME, "-d", "out", "--quiet"]) == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('devcies = ["sm_90"]', "did you mean devices?"),
        ('keep_ptx = "none"', "did you mean keep-ptx?"),
        ("xyz = 1", "settings are devices, keep, drop"),
        ("[libraries.x]\nlossless = true\n", "there is no setting 'lossless'"),
        ("[libraries.x]\nstay = true\n", "did you mean stays?"),
        ("libraries = 3", "libraries is no table of tables"),
        ('strict = "yes"', "strict is not true or false"),
        ("devices = [90]", "devices is not a text or a list of texts"),
        ("level = true", "level is not a whole number"),
        ('keep-ptx = "some"', "keep_ptx 'some'"),
        ('devices = "sm_999"', "sm_999"),
        ('lossless = true\n[libraries.x]\ndrop = "sm_80"\n', "lossless keeps all"),
    ],
)
def test_wrong_settings_are_named(here: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    policy(text, "own.toml")
    assert main(["slim", NAME, "-d", "out", "--config", "own.toml"]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("out").exists()


def test_every_setting_is_an_argument_of_the_library() -> None:
    from inspect import signature

    assert {key.replace("-", "_") for key in KEYS} <= set(signature(library.slim).parameters)
    with pytest.raises(UsageError, match="did you mean recompress"):
        parse_policy({"recompres": "zstd"}, "x.toml")


def made_plan(*more: str) -> dict[str, Any]:
    assert main(["slim", NAME, "--for", "sm_90", "--dry-run", "--quiet", "--save-plan", "plan.json", *more]) == 0
    found: dict[str, Any] = json.loads(Path("plan.json").read_text())
    return found


def test_a_plan_does_what_it_says(here: Path) -> None:
    plan = made_plan()
    assert plan["options"] == {"devices": ["sm_90"], "libraries": {}}
    assert plan["files"] == [
        {"name": NAME, "size": (here / NAME).stat().st_size, "sha256": build.hexadecimal((here / NAME).read_bytes())}
    ]
    first, second = plan["libraries"]
    assert (first["name"], first["kept"], first["dropped"]) == (f"{NAME}!demo/a.fatbin", {"sm_90": 1}, {"sm_80": 1})
    assert second["dropped"] == {"sm_75": 1, "sm_80": 1}
    assert first["sha256"] == build.hexadecimal(BOTH)
    assert slimmed("--plan", "plan.json") == {"demo/a.fatbin": ["sm_90"], "demo/deep/b.fatbin": ["sm_90"]}


def test_a_review_keeps_a_library(here: Path) -> None:
    plan = made_plan()
    plan["libraries"][0]["do"] = "stay"
    Path("plan.json").write_text(json.dumps(plan))
    assert slimmed("--plan", "plan.json") == {"demo/a.fatbin": ["sm_80", "sm_90"], "demo/deep/b.fatbin": ["sm_90"]}


def test_a_plan_is_applied_wherever_the_libraries_are(here: Path) -> None:
    made_plan()
    for name, data in build.files_of(FILES).items():
        (here / "venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "venv" / name).write_bytes(data)
    assert main(["slim", "--environment", "venv", "--plan", "plan.json", "--quiet"]) == 0
    assert archs("venv/demo/a.fatbin") == archs("venv/demo/deep/b.fatbin") == ["sm_90"]


def test_the_library_takes_policies_and_plans(here: Path) -> None:
    policy('devices = "sm_90"\nstrict = true\n[libraries."b.*"]\nstays = true\n', "own.toml")
    done = library.slim(NAME, "out", config="own.toml")
    assert dict(done.kept) == {"sm_75": 1, "sm_80": 1, "sm_90": 2}
    done = library.slim(NAME, "other", config="own.toml", drop="sm_80")
    assert dict(done.dropped) == {"sm_80": 1}
    made_plan()
    done = library.slim(NAME, "planned", plan="plan.json")
    assert dict(done.dropped) == {"sm_75": 1, "sm_80": 2}
    with pytest.raises(UsageError, match="devices does nothing with plan"):
        library.slim(NAME, "more", plan="plan.json", devices="sm_90")
    (here / NAME).write_bytes(build.wheel({**FILES, "demo/c.txt": b"other"}))
    with pytest.raises(UsageError, match="changed since the plan was made"):
        library.slim(NAME, "more", plan="plan.json")
    (here / NAME).write_bytes(build.wheel({**FILES, "demo/only.fatbin": of_words("100")}))
    with pytest.raises(library.FatpackError, match="strict=True"):
        library.slim(NAME, "more", config="own.toml")


def _another_wheel(plan: dict[str, Any]) -> None:
    Path(NAME).write_bytes(build.wheel({**FILES, "demo/c.txt": b"other"}))


def _another_choice(plan: dict[str, Any]) -> None:
    plan["libraries"][0]["dropped"] = {}


def _no_library(plan: dict[str, Any]) -> None:
    del plan["libraries"][1]


def _another_schema(plan: dict[str, Any]) -> None:
    plan["schema"] = "fatpack.slim/1"


def _another_deed(plan: dict[str, Any]) -> None:
    plan["libraries"][0]["do"] = "burn"


def _another_setting(plan: dict[str, Any]) -> None:
    plan["options"]["device"] = ["sm_80"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_another_wheel, "changed since the plan was made"),
        (_another_choice, "a.fatbin: dropped is {'sm_80': 1}, and plan.json says nothing"),
        (_no_library, "b.fatbin is not in the plan, or changed since plan.json was made"),
        (_another_schema, "is no plan: schema 'fatpack.slim/1'"),
        (_another_deed, "is no plan: do is 'burn'"),
        (_another_setting, "did you mean devices?"),
    ],
)
def test_a_plan_for_something_else_is_refused(
    here: Path, change: Callable[[dict[str, Any]], None], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made_plan()
    change(plan)
    Path("plan.json").write_text(json.dumps(plan))
    assert main(["slim", NAME, "--plan", "plan.json", "-d", "out"]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_library_of_an_environment_that_changed_stays_with_all_others(here: Path) -> None:
    made_plan()
    files = {**FILES, "demo/deep/b.fatbin": of_words("75 86 90")}
    for name, data in build.files_of(files).items():
        (here / "venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "venv" / name).write_bytes(data)
    assert main(["slim", "--environment", "venv", "--plan", "plan.json", "--quiet"]) == 2
    assert (here / "venv/demo/a.fatbin").read_bytes() == BOTH


def test_what_cannot_be_slimmed_is_in_the_plan(here: Path) -> None:
    (here / NAME).write_bytes(build.wheel({**FILES, "demo/only.fatbin": of_words("100")}))
    assert main(["slim", NAME, "--for", "sm_90", "--dry-run", "--quiet", "--save-plan", "plan.json"]) == 1
    plan = json.loads(Path("plan.json").read_text())
    assert "sm_100" in plan["libraries"][2]["error"]
    assert main(["slim", NAME, "--plan", "plan.json", "-d", "out", "--quiet"]) == 1
    assert len(list(Path("out").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--plan plan.json --for sm_90", "--for does nothing with --plan"),
        ("--plan plan.json --save-plan other.json", "--save-plan does nothing with --plan"),
        ("--config own.toml --no-config", "contradict each other"),
        ("--plan text.txt", "is no plan"),
    ],
)
def test_options_that_contradict_a_plan(
    here: Path, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made_plan()
    Path("text.txt").write_text("text")
    assert main(["slim", NAME, "-d", "out", *words.split()]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a." * 30_000 + "a=1", "a=" + "[" * 50_000, "#" * (5 << 20)])
def test_hostile_tables_are_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    assert main(["slim", str(path), "--config", str(path), "--dry-run"]) == 2
    assert "is no TOML" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"options": None}, {"libraries": [{"sha256": "", "do": "slim", "size": 1e400}]}])
def test_plans_of_wrong_types_are_refused(
    tmp_path: Path, change: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    document = {"schema": "fatpack.slim-plan/1", "options": {}, "files": [], "libraries": [], **change}
    path.write_text(json.dumps(document))
    assert main(["slim", str(path), "--plan", str(path), "--dry-run"]) == 2
    assert "is no plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "x = {" + ".".join(["a"] * 101) + " = 1}",
        "x = {" + " . ".join(['"\\""'] * 101) + " = 1}",
        "[" + ".".join(["'.'"] * 101) + "]",
        ".".join(["a"] * 101) + " = 1",
    ],
)
def test_a_name_of_many_parts_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "slim.toml"
    path.write_text(f"{text}\n[tool.fatpack.slim]\ndevices = 'sm_90'\n")
    with pytest.raises(UsageError, match="a name of more than 100 parts"):
        find_policy(str(path), reads=True)
    path.write_text(f'x = "{"a." * 101}" # {"a." * 101}\n[tool.fatpack.slim]\ndevices = "sm_90"\n')
    found = find_policy(str(path), reads=True)
    assert found is not None and found.values == {"devices": ["sm_90"]}
