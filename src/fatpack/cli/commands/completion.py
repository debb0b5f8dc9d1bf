"""``fatpack completion``: the script by which a shell completes command lines of fatpack."""

from __future__ import annotations

import sys

from fatpack.cli.grammar.completion_scripts import SCRIPTS
from fatpack.cli.grammar.declared import argument, takes
from fatpack.cli.grammar.kinds import Choice

SHELLS = Choice(SCRIPTS)


@takes(argument("shell", SHELLS, metavar=SHELLS.metavar))
def command(shell: str) -> int:
    """Print the script by which a shell completes commands, options, names, files and what is in them.

    Add one line to the start-up file of the shell. bash: eval "$(fatpack completion bash)"; zsh the same with zsh,
    behind compinit; fish: fatpack completion fish | source. What --arch offers is what the file that was typed holds.
    """
    sys.stdout.write(SCRIPTS[shell])
    return 0
