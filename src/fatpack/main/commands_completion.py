"""``fatpack completion``: the script by which a shell completes command lines of fatpack."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import ChoiceType
from fatpack.errors import UsageError
from fatpack.main.completion import SCRIPTS

SHELLS = ChoiceType(SCRIPTS)

#: shell → the file that it starts with, and the line that goes there
LINES = {
    "bash": ("~/.bashrc", 'eval "$(fatpack completion bash)"'),
    "zsh": ("~/.zshrc, behind compinit", 'eval "$(fatpack completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "fatpack completion fish | source"),
}


@click.command("completion", cls=Command)
@click.argument("shells", type=SHELLS, metavar=SHELLS.metavar, nargs=-1)
def command(shells: tuple[str, ...]) -> int:
    """Print the script by which a shell completes commands, options, names and files.

    Add one line to the start-up file of the shell. bash: eval "$(fatpack completion bash)"; zsh the same with zsh,
    after compinit; fish: fatpack completion fish | source.
    """
    if not shells:
        from fatpack.command_line.messages import print_stderr
        from fatpack.exit_codes import USAGE

        print_stderr("fatpack: error: name your shell; one line goes into the file that it starts with:")
        for shell, (file, line) in LINES.items():
            print_stderr(f"  {shell:<5} {file:<27} {line}")
        return USAGE
    if len(shells) > 1:
        raise UsageError(f"{len(shells)} shells named, one was expected", hint=f"fatpack completion {shells[0]}")
    sys.stdout.write(SCRIPTS[shells[0]])
    return 0
