"""What a shell offers when its user presses TAB: file names, and the words that an option takes."""

from __future__ import annotations

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Type = click.ParamType[str]
else:
    Type = click.ParamType  # click 8.1 has no brackets here


class FileName(Type):
    """A file, completed by the shell. ``click.Path`` would look at the file too, and report it in its own words."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leave the completion to the shell, which has its user's rules."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=self.name)]


class Words(Type):
    """One of some words, or several with commas between them. Any other word is taken too."""

    name = "text"

    def __init__(self, *words: str) -> None:
        self._words = words

    def words(self) -> tuple[str, ...]:
        """Return the words that are offered."""
        return self._words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that the part behind the last comma begins."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + word) for word in self.words() if word.startswith(last)]


class _Targets(Words):
    def words(self) -> tuple[str, ...]:
        from fatpack.target.vocabulary import vocabulary

        return tuple(vocabulary().names())


class _Forms(Words):
    def words(self) -> tuple[str, ...]:
        from fatpack.images import EXTENSIONS

        return tuple(filter(None, EXTENSIONS))


FILE = FileName("file")
DIRECTORY = FileName("dir")
TARGET = _Targets()
FORM = _Forms()
OFFLOAD = Words("cuda", "hip", "openmp", "sycl", "host")
