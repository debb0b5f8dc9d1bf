"""Advice fits its reader: command-line users get options, callers of a function get its parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.laws.house import ROOT

import fatpack
from fatpack.commands import COMMANDS
from fatpack.errors import UsageError
from fatpack.main import main
from fatpack.main.click_app import click_group

FIXTURES = Path(__file__).parents[1] / "fixtures"

#: Modules whose text only the command line prints, with options as typed; columns describe its output.
_COMMAND_ALONE = re.compile(
    r"command_line/|main/|tools/|text/|tabular/|exit_codes\.py|commands/__init__|commands/(survey|report|inspect|check_\w+)/"
    r"|commands/(embed|remove|replace)\.py|commands/\w+/(command|text)\.py"
    r"|commands/extract/|commands/pack/format_options\.py|commands/slim/(certificate|run)\.py"
)

#: Calls whose text is no message: FormatInfo is for documents, and ``startswith`` examines a message.
_NO_MESSAGES = {"FormatInfo", "startswith"}

#: Modules that parse typed options: the library takes records, and never calls them. A link line has the same words in
#: both.
_TYPED = {
    "commands/pack/formats.py",
    "commands/link_inputs/link_line.py",
    "formats/offload_binary/image_option.py",
    # These read the command line too, beside the function of the library, whose arguments are checked elsewhere.
    "commands/map/run.py",
    "commands/slim/request.py",
}

#: Selectors and options describe themselves as typed on the command line, and so does the history of an image.
_DESCRIBE = {"selectors/select.py", "commands/slim/container_images.py"}

#: Options of other tools in the advice to call these, and whole commands, which mean the same to everybody.
_OTHERS = re.compile(r"((nvidia-smi|llvm-\w+|nvcc|clang) --|fatpack [a-z]+ ).*")


def own_options() -> set[str]:
    """Return every option of every command."""
    context = click.Context(click_group)
    commands = [click_group.get_command(context, name) for name in COMMANDS]
    return {
        option
        for command in commands
        if command is not None
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }


def texts(tree: ast.AST, calls: tuple[str, ...] = ()) -> Iterator[tuple[ast.Constant, tuple[str, ...]]]:
    """Yield every string that is no docstring, with the names of the calls whose argument it is a part of."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child, calls
        name = child.func if isinstance(child, ast.Call) else None
        called = getattr(name, "id", getattr(name, "attr", ""))
        yield from texts(child, (*calls, called) if called else calls)


def library_messages() -> list[tuple[str, ast.Module]]:
    paths = [path.relative_to(ROOT).as_posix() for path in sorted(Path(ROOT).rglob("*.py"))]
    kept = [name for name in paths if not _COMMAND_ALONE.match(name) and name not in _TYPED | _DESCRIBE]
    read = ((name, (ROOT / name).read_text()) for name in kept)
    return [(name, ast.parse(text)) for name, text in read if "--" in text]


def test_messages_of_the_library_name_options_in_both_languages() -> None:
    options, wrong, right = own_options(), [], 0
    for name, tree in library_messages():
        for text, calls in texts(tree):
            found = re.findall(r"(?<![\w-])--[a-z][\w-]*", _OTHERS.sub("", text.value))
            if not options.intersection(found) or _NO_MESSAGES.intersection(calls):
                continue
            if "cli_or_api" in calls:
                right += 1
            else:
                wrong.append(f"{name}:{text.lineno}: {text.value}")
    assert wrong == []
    assert right > 15


def test_no_module_decides_who_asks_when_it_is_loaded() -> None:
    loaded = [
        f"{name}:{call.lineno}"
        for name, tree in library_messages()
        for statement in tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "cli_or_api"
    ]
    assert loaded == []


def test_a_program_gets_parameters_and_user_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.fatbin"
    path.write_bytes((FIXTURES / "cuda_fatbin" / "hand_lz4frame_flag4000.fatbin").read_bytes())
    for _ in range(2):  # what one has asked does not stay for the other
        with pytest.raises(UsageError) as told:
            fatpack.explain(path, [])
        assert str(told.value) == "device names none; name one: device='RTX 4090'"
        assert main(["explain", str(path), "--device", "4090", "--driver", "535", "--cuda", "12.2"]) == 2
        assert capsys.readouterr().err.endswith("--driver and --cuda both say which driver it is; give one of them\n")
