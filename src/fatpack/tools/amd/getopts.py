"""Option parsing as Perl's Getopt::Std does it: letters behind one dash, several at once, a value behind its letter.

The first word that is no option ends them, as ``--`` does. An unknown letter is told, and passed over. How we know:
Perl 5.36 beside this (``tests/cli/tools/amd/test_roc_obj_reference.py``).
"""

from __future__ import annotations

import sys

from fatpack.tools.amd.amd_init import print_stderr
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def parse_options(arguments: Sequence[str], letters: str) -> tuple[dict[str, str], list[str]]:
    """Return the options by their letters (flags: "1"), and the other words; ``letters`` is as Perl has it: ``vho:``.

    ``--help`` is ``h``, and ``--version`` is ``version``.
    """
    found: dict[str, str] = {}
    words = list(arguments)
    while words and len(words[0]) > 1 and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word in ("--help", "--version"):
            found["h" if word == "--help" else "version"] = "1"
            break
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            place = letters.find(letter) if letter != ":" else -1
            if place < 0:
                print_stderr(f"Unknown option: {letter}")
            elif letters[place + 1 : place + 2] != ":":
                found[letter] = "1"
            elif rest or words:
                found[letter], rest = rest or words.pop(0), ""
    return found, words


def print_if_asked(options: Mapping[str, str], name: str, text: str) -> bool:
    """Print the version or the help of a tool, if that was asked for; return whether it was."""
    if "version" in options:
        sys.stdout.write(f"{name}: {version_text(name, 'ROCm 5 to 7')}\n")
    elif "h" in options:
        sys.stdout.write(text)
    return "version" in options or "h" in options
