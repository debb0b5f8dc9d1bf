"""What docs/how-to/gates says to add to other projects passes good code there, and fails code that lacks a device."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.builders import conda, wheels
from tests.builders.policy_files import library

from fatpack.main import main

GATES = Path(__file__).parents[2] / "docs" / "how-to" / "gates"
PAGES = (
    "rapids.md",
    "vllm.md",
    "easybuild.md",
    "nix.md",
    "debian.md",
    "conda-forge.md",
    "kernel-builder.md",
)
GOOD, BAD = "80 90 p90", "80"
INSTALLED = "usr/lib/x86_64-linux-gnu/libdemo.so.1"
VARIANT = "build/torch29-cxx11-cu128-x86_64-linux"


def _tree(page: str, words: str) -> dict[str, bytes]:
    """Return the files, by their names, that a build of the page's project leaves; words say for which devices."""
    code = library(words)
    packed = {"demo/_C.abi3.so": code}
    if page == "vllm.md":
        packed["demo/vllm_flash_attn/_vllm_fa3_C.abi3.so"] = library("90a")
    installed = conda.package({"lib/libdemo.so": code}, "demo", "1.5", "h0_0")
    stated = json.dumps({"backend": {"type": "cuda", "archs": ["8.0", "9.0+PTX"]}, "version": 1}).encode()
    trees: dict[str, dict[str, bytes]] = {
        "easybuild.md": {"software/demo/1.5/lib/libdemo.so": code},
        "nix.md": {"result/lib/libdemo.so": code},
        "debian.md": {INSTALLED: code},
        "conda-forge.md": {"lib/libdemo.so": code, "output/linux-64/demo-1.5-h0_0.conda": installed},
        "kernel-builder.md": {f"{VARIANT}/_demo.abi3.so": code, f"{VARIANT}/metadata.json": stated},
    }
    return trees.get(page) or {"dist/demo-1.5-py3-none-any.whl": wheels.wheel(packed)}


def _make(page: str, words: str) -> None:
    for name, data in _tree(page, words).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)


def _blocks(page: str, language: str) -> list[str]:
    text = (GATES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _script(page: str) -> tuple[str, Mapping[str, str]]:
    """Return what the page's project runs of the page's snippet, and the variables that it has set."""
    here = os.getcwd()
    if page == "rapids.md":
        (text,) = _blocks(page, "bash")
        return f"rapids-logger() {{ :; }}\n{text}", {"wheel_dir_relative_path": "dist"}
    if page == "vllm.md":
        (text,) = _blocks(page, "bash")
        return text, {"TORCH_CUDA_ARCH_LIST": "8.0 9.0+PTX", "VLLM_MAX_SIZE_MB": "500"}
    if page == "debian.md":
        (text,) = _blocks(page, "bash")
        assert text.startswith("#!/bin/sh\n")
        return f"dpkg() {{ printf '%s\\n' /usr/share/doc {INSTALLED}; }}\n{text}", {"AUTOPKGTEST_TMP": here}
    if page == "easybuild.md":
        values: dict[str, list[str]] = {}
        (text,) = _blocks(page, "python")
        exec(text, values)
        templates = {"installdir": f"{here}/software/demo/1.5", "cuda_compute_capabilities": "8.0,9.0"}
        return "\n".join(command % templates for command in values["sanity_check_commands"]), {}
    if page == "nix.md":
        (text,) = _blocks(page, "nix")
        (phase,) = re.findall(r"installCheckPhase = ''\n(.*?)''", text, re.DOTALL)
        filled, count = re.subn(r"\$\{lib\.concatStringsSep .*?\}", "8.0,9.0", phase)
        assert count == 1
        return f"runHook() {{ :; }}\n{filled}", {"out": f"{here}/result"}
    (text,) = _blocks(page, "yaml")
    commands = re.findall(r"^ *(?:- |run: )(fatpack check .*)$", text, re.MULTILINE)
    assert commands
    return "\n".join(commands), {"PREFIX": here}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and this fatpack on the path of programs."""
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    program = programs / "fatpack"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fatpack "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(work)
    return work


def test_every_gate_is_tested() -> None:
    assert sorted(path.name for path in GATES.glob("*.md")) == sorted(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_gate_passes_what_serves_the_devices_and_fails_what_does_not(page: str, folder: Path) -> None:
    shell = "sh" if page == "debian.md" else "bash"
    for words, passes in ((GOOD, True), (BAD, False)):
        _make(page, words)
        script, variables = _script(page)
        done = subprocess.run(
            [shell, "-eu", "-c", script], env={**os.environ, **variables}, capture_output=True, text=True
        )
        assert done.stderr == ""
        expected = 0 if passes else 123 if page == "debian.md" else 1
        assert done.returncode == expected, done.stdout
        assert re.match("passed: " if passes else "failed: (lacks sm_90|declares sm_90 without it)", done.stdout)


SHOWN = [
    (page, command, printed)
    for page in PAGES
    for command, printed in re.findall(r"^\$ (fatpack .*)\n((?:(?!\$ ).*\n)*)", "".join(_blocks(page, "console")), re.M)
]


@pytest.mark.parametrize(("page", "command", "printed"), SHOWN, ids=[f"{page} {line}" for page, line, _ in SHOWN])
def test_a_failure_prints_what_the_page_shows(
    page: str, command: str, printed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _make(page, BAD)
    assert main(shlex.split(command)[1:]) == 1
    assert capsys.readouterr().out == printed


def test_the_files_of_debian_name_one_test() -> None:
    (stanza,) = _blocks("debian.md", "text")
    fields = dict(line.split(": ", 1) for line in stanza.splitlines())
    assert f"`debian/tests/{fields['Tests']}`" in (GATES / "debian.md").read_text(encoding="utf-8")
    assert fields["Depends"].split(", ") == ["libdemo1", "fatpack"]
