"""Completion on TAB for bash, zsh and fish: the scripts that shells load, and the classes by which click answers them.

The scripts know no option and no name, so they serve every version. Each calls the program that was typed with
``_FATPACK_COMPLETE=SHELL_complete`` and the words up to the cursor, and gets a line for each answer, with tabs between:
``plain``, ``file`` or ``dir``, the value, and its description. Click's own scripts replace a whole word, and know
neither ``--output=FILE`` nor lists with commas. Files and folders are completed by the shell, by its user's rules: it
gets the part of the name that was typed, and the text in front of the name in the same word.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem, ShellComplete

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import ChoiceType, after
from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# A command line as its shell passes it, up to the cursor: its words in one piece, without quotes.


def parse_bash_line(line: str, words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words after the program without quotes, and what of the last one, as it was typed, bash replaces.

    Bash breaks words at ``=``, ``:`` and ``@`` (COMP_WORDBREAKS), also into words of their own, and replaces the last
    one: of ``--arch=sm_9`` only ``sm_9``, but of ``=@a`` all of ``@a`` (rl_special_prefixes). Words without a
    blank between them in the line are one word.
    """
    whole: list[str] = []
    kept = at = 0
    for each in words:
        word, start = each, line.find(each, at)
        if start < 0:  # the cursor is inside of this word
            word = line[at:].lstrip()
            start = len(line) - len(word)
        if whole and start == at and word:
            kept = len(whole[-1].removesuffix("@"))
            whole[-1] += word
            kept = len(whole[-1]) if word.strip("=:") == "" else kept
        else:
            kept = 0
            whole.append(word)
        at = start + len(word)
    return [unquote(word) for word in whole[1:]], whole[-1][kept:] if whole else ""


def unquote(word: str) -> str:
    """Return a word without the quotes and backslashes of the shell, also where a quote is still open at its end."""
    if not any(mark in word for mark in "\\\"'"):
        return word
    from shlex import split

    for end in ("", "\\", "'", '"'):
        try:
            return "".join(split(word + end))
        except ValueError:
            pass
    return word


#: The variable that makes a call a question; its value is the shell.
VARIABLE = "_FATPACK_COMPLETE"

#: ``COMP_WORDS`` are broken at ``=`` and ``:``; the line says what belongs together.
_BASH = r"""# Completion of fatpack for bash.
_fatpack_completion() {
    local kind value rest
    COMPREPLY=()
    while IFS=$'\t' read -r kind value rest; do
        case $kind in
            plain) COMPREPLY+=("$value"); [[ $value == *= ]] && compopt -o nospace 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(_FATPACK_COMPLETE=bash_complete "${1/#\~/$HOME}" "${COMP_LINE:0:COMP_POINT}" \
        "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}
complete -o nosort -F _fatpack_completion fatpack 2>/dev/null || complete -F _fatpack_completion fatpack
"""

_ZSH = r"""#compdef fatpack
# Completion of fatpack for zsh.
_fatpack() {
    local line value help
    local -a parts plain begun
    while IFS= read -r line; do
        parts=("${(@ps:\t:)line}")  # read would take two tabs for one
        value=$parts[2] help=$parts[3]
        case $parts[1] in
            plain)
                value=${value//:/\\:}${help:+:$help}
                if [[ $value == *= ]]; then begun+=("$value"); else plain+=("$value"); fi ;;
            file) [[ -n $help ]] && compset -P '*='; _files ;;
            dir) [[ -n $help ]] && compset -P '*='; _files -/ ;;
        esac
    done < <(_FATPACK_COMPLETE=zsh_complete "${~words[1]}" "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( $#plain )) && _describe -V fatpack plain
    (( $#begun )) && _describe -V fatpack begun -S ''
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fatpack "$@"
else
    compdef _fatpack fatpack
fi
"""

_FISH = r"""# Completion of fatpack for fish.
function __fatpack_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (_FATPACK_COMPLETE=fish_complete $words[1] $words[2..-1] "$current" 2>/dev/null)
        set -l parts (string split -m 2 \t -- $line)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] "$parts[3]"
            case file
                printf '%s\n' "$parts[3]"(__fish_complete_path "$parts[2]")
            case dir
                printf '%s\n' "$parts[3]"(__fish_complete_directories "$parts[2]" '')
        end
    end
end
complete -c fatpack -f -a '(__fatpack_complete)'
"""


class Shell(ShellComplete):
    """A shell that asks: the words of its line are the arguments of the program."""

    def source(self) -> str:
        """Return the script as it is: it has no variables of click."""
        return self.source_template

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words in front of the cursor, and the one that was begun."""
        words = sys.argv[1:] or [""]
        return words[:-1], words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return the words that may be at the cursor, as whole words also after ``--option=``."""
        if args[:1] == ["tool"] and (words := self._words_of_stand_in(args[1:])):
            from fatpack.tools.command import completions

            return list(completions(words, incomplete))
        before = ""
        if incomplete.startswith("--") and "=" in incomplete and "--" not in args:
            before = incomplete[: incomplete.index("=") + 1]
        found = super().get_completions(args, incomplete)
        return [after(before, item) for item in found] if before else found

    def _words_of_stand_in(self, args: list[str]) -> Sequence[str]:
        """Return the name of a stand-in and its arguments; none while the name is missing or stand-ins are placed."""
        tool = self.cli.get_command(click.Context(self.cli), "tool") if isinstance(self.cli, click.Group) else None
        if tool is None:
            return ()
        given = tool.make_context("tool", args, resilient_parsing=True).params
        is_placing = given.get("install") or given.get("uninstall") or given.get("which")
        return () if is_placing else given.get("words") or ()

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line of an answer."""
        return f"{item.type}\t{item.value}\t{item.help or ''}".encode("utf-8", "replace").decode()


class Bash(Shell):
    """Bash: it passes the line, and its words broken at ``=`` and ``:``."""

    name, source_template = "bash", _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return whole words; remember the part of the last one that bash replaces."""
        line, *pieces = sys.argv[1:] or [""]
        words, self._replaced = parse_bash_line(line, pieces)
        self._typed = words[-1] if words else ""
        return words[:-1], self._typed

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line of an answer; the quotes and backslashes that were typed stay."""
        if item.type != "plain":
            return super().format_completion(item)
        value = self._replaced + item.value[len(self._typed) :]
        return super().format_completion(CompletionItem(value, help=item.help))


class Zsh(Shell):
    """Zsh: it passes whole words without quotes."""

    name, source_template = "zsh", _ZSH


class Fish(Shell):
    """Fish: it passes the last word with its quotes."""

    name, source_template = "fish", _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words, the last one without its quotes."""
        words, last = super().get_completion_args()
        return words, unquote(last)


SHELLS: tuple[type[Shell], ...] = (Bash, Zsh, Fish)

#: shell → its script
SCRIPTS = {shell.name: shell.source_template for shell in SHELLS}


def answer(group: click.Group, instruction: str) -> int:
    """Print the answers for a command line (``zsh_complete``), or the script (``zsh_source``); return the exit code.

    Mistakes are not reported: a message on stderr would be written into the line that is typed.
    """
    name, _, action = instruction.partition("_")
    shell = next((each for each in SHELLS if each.name == name), None)
    if shell is None or action not in ("complete", "source"):
        return 1
    asked = shell(group, {}, "fatpack", VARIABLE)
    text = asked.source() if action == "source" else asked.complete()
    sys.stdout.write(text if not text or text.endswith("\n") else f"{text}\n")
    return 0


# ``fatpack completion``: the script by which a shell completes command lines of fatpack.

COMMANDS_COMPLETION_SHELLS = ChoiceType(SCRIPTS)

#: shell → the file that it starts with, and the line that goes there
LINES = {
    "bash": ("~/.bashrc", 'eval "$(fatpack completion bash)"'),
    "zsh": ("~/.zshrc, after compinit", 'eval "$(fatpack completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "fatpack completion fish | source"),
}


@click.command("completion", cls=Command)
@click.argument("shells", type=COMMANDS_COMPLETION_SHELLS, metavar=COMMANDS_COMPLETION_SHELLS.metavar, nargs=-1)
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
