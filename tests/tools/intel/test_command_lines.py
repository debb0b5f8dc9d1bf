"""Help and wrong command lines, as LLVM's ``cl`` library answers them for the options of these tools.

``command_lines.json`` was recorded with programs that declare these options, as the sources of the originals do, and do
nothing else, linked with the library of LLVM 22.1.8: arguments, exit code and streams.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fatpack.main import main

RECORDED = json.loads(Path(__file__).with_name("command_lines.json").read_text())


@pytest.mark.parametrize("tool", ["llvm-foreach", "file-table-tform", "clang-offload-deps"])
def test_command_lines_are_answered_as_llvm_answers_them(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [case for case in RECORDED if case["tool"] == tool]
    assert len(cases) > 20
    for case in cases:
        code = main(["tool", tool, *case["arguments"]])
        streams = capsys.readouterr()
        assert (code, streams.err, streams.out) == (case["code"], case["stderr"], case["stdout"]), case["arguments"]
