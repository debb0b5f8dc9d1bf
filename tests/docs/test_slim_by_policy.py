"""The page docs/how-to/slim-by-policy.md: its policy holds, and its commands print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.docs.test_slim_a_wheel import FILES, METADATA, run

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slim-by-policy.md"
ACTION = Path(__file__).parents[2] / "tools" / "ci" / "slim" / "action.yml"


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    files = build.files_of(FILES, info="kernels-1.0.dist-info", metadata=METADATA)
    Path("kernels-1.0-py3-none-any.whl").write_bytes(build.packed(files))
    for name, data in files.items():
        (tmp_path / ".venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv" / name).write_bytes(data)
    (policy,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    Path("pyproject.toml").write_text(policy)
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert run(command, capfd) == expected, command
            shown += 1
    assert shown == 4
    assert Path(".venv/kernels/librel.so").read_bytes() == FILES["kernels/librel.so"]
    assert Path(".venv/kernels/libtwo.so").read_bytes() != FILES["kernels/libtwo.so"]


def test_the_inputs_of_the_action_exist() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    used = set(re.findall(r"^    (\w+): ", example, re.MULTILINE))
    inputs = ACTION.read_text().partition("inputs:\n")[2].partition("runs:")[0]
    assert used <= set(re.findall(r"^  (\w+):$", inputs, re.MULTILINE))
