"""The walk of docs/how-to/replace-one-image.md: objects of clang and nvcc come apart and together again."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "replace-one-image.md"


def steps(section: str) -> list[list[str]]:
    """Return the arguments of all commands in the section of the page with this heading."""
    (block,) = re.findall(rf"^## {section}:.*?```console\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[2:] for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize(("section", "host"), [("HIP", "elf/clang-22-hip.o"), ("CUDA", "cuda_fatbin/hosts/single.o")])
def test_images_that_were_not_changed_give_the_same_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, host: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / host, "fat.o")
    commands = steps(section)
    assert [command[0] for command in commands] == ["extract", "replace"]
    for command in commands:
        assert main(command) == 0, command
    assert Path("new.o").read_bytes() == Path("fat.o").read_bytes()
