"""The version that a stand-in follows: ``--as``, then the environment, then the default."""

from __future__ import annotations

import pytest

from fatpack.errors import UsageError
from fatpack.main import main
from fatpack.tools.versions import FOLLOWED, choose_version

TOOL = "llvm-offload-binary"


@pytest.mark.parametrize(
    ("given", "environment", "version"),
    [
        (None, {}, "22"),
        (None, {"FATPACK_LLVM": ""}, "22"),
        (None, {"FATPACK_LLVM": "23"}, "23"),
        ("23", {"FATPACK_LLVM": "22"}, "23"),
        ("22", {"FATPACK_LLVM": "nonsense"}, "22"),
    ],
)
def test_the_option_beats_the_environment_beats_the_default(
    given: str | None, environment: dict[str, str], version: str
) -> None:
    assert choose_version(TOOL, given, environment) == version


@pytest.mark.parametrize(
    ("given", "environment", "where"),
    [("21", {}, "--as=21"), ("", {}, "--as="), (None, {"FATPACK_LLVM": "24"}, "FATPACK_LLVM=24")],
)
def test_an_unknown_version_is_refused_with_the_known_ones(
    given: str | None, environment: dict[str, str], where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose_version(TOOL, given, environment)
    assert str(caught.value) == f"{where}: {TOOL} follows no such version of LLVM; choose from 22, 23"


def test_a_stand_in_of_one_version_takes_none() -> None:
    assert choose_version("cir-offload-merge", None, {"FATPACK_LLVM": "23"}) == ""
    with pytest.raises(UsageError, match="--as means nothing for cir-offload-merge"):
        choose_version("cir-offload-merge", "22", {})


@pytest.mark.parametrize("tool", ["llvm-offload-binary", "clang-offload-bundler"])
@pytest.mark.parametrize("front", [["--as=23"], ["--as", "23"]])
def test_the_version_is_what_a_stand_in_names(tool: str, front: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", *front, tool, "--version"]) == 0
    assert capsys.readouterr().out.endswith(f"standing in for {tool} of LLVM 23\n")


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FATPACK_LLVM", "23")
    assert main(["tool", TOOL, "--version"]) == 0
    assert capsys.readouterr().out.endswith("of LLVM 23\n")


def test_the_list_of_stand_ins_says_which_versions_they_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, versions in FOLLOWED.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.endswith(f"{versions.project} {', '.join(versions.known)} (or {versions.variable})")


def test_a_missing_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "--as"]) == 2
    assert "--as needs a version" in capsys.readouterr().err
