"""The command that is run for images: words in which ``{in}``, ``{arch}`` and the like stand for those of an image.

Nothing is given to a shell, and an argument stays one argument. What comes from a file goes in only as a plain word:
the name of an architecture cannot become an option or a path.
"""

from __future__ import annotations

import re

from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.scanner import FoundImage

#: name → what it stands for, as the help says it
PLACEHOLDERS = {
    "in": "a file with the image",
    "out": "where the command writes its result",
    "arch": "the image's architecture",
    "processor": "the architecture without features",
    "triple": "its triple",
    "offload": "its offload model",
    "form": "what it is (ptx, bitcode, …)",
    "id": "its bundle ID",
    "container": "the number of its container",
    "index": "its number there",
}

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

#: A word that no program takes for an option or for a path: what target IDs, triples and bundle IDs are made of.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+,=-]*\Z")


class CommandTemplate(Record):
    """A command with placeholders in it."""

    words: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it has."""
        return frozenset(match[1] for word in self.words for match in _PART.finditer(word) if match[1] is not None)

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Return the arguments with values in the place of the placeholders."""
        return [_PART.sub(lambda match: _text(match, values), word) for word in self.words]


def _text(match: re.Match[str], values: Mapping[str, str]) -> str:
    return values[match[1]] if match[1] is not None else match[0][0]


def parse_template(words: Sequence[str], *, wants_output: bool) -> CommandTemplate:
    """Return a command as it was given; ``wants_output`` says that what it makes goes somewhere.

    Raises UsageError for an unknown placeholder, and for one that is missing or goes nowhere.
    """
    if not words or not words[0]:
        raise UsageError("there is no command", hint="write it behind --, such as: -- ptxas -arch=sm_90 {in} -o {out}")
    for word in words:
        if "\0" in word:
            raise UsageError("an argument cannot contain a NUL character")
        for match in _PART.finditer(word):
            if match[0] in "{}" or (match[1] is not None and match[1] not in PLACEHOLDERS):
                raise UsageError(
                    f"{match[0]} in the argument {word!r} is no placeholder",
                    hint=f"they are {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}; write {{{{ for a brace",
                )
    made = CommandTemplate(tuple(words))
    if "in" not in made.names:
        raise UsageError("no argument of the command has {in}, the file with the image")
    if wants_output and "out" not in made.names:
        raise UsageError("no argument of the command has {out}, the file that it is to write")
    if not wants_output and "out" in made.names:
        hint = cli_or_api("--add, --replace and -d DIR say where", "fatpack.map_images(…, put=…) says where")
        raise UsageError("what the command writes to {out} goes nowhere", hint=hint)
    return made


def placeholder_values(position: str, image: FoundImage, names: frozenset[str]) -> dict[str, str]:
    """Return what the placeholders stand for that come from an image; ``in`` and ``out`` are the caller's.

    Raises UsageError for a text of the file that is no plain word, or is not there.
    """
    container, _, index = position.rpartition("/")[2].partition(".")  # of an image in an image, the inner one
    target = image.target
    texts = {
        "arch": target.arch,
        "processor": target.processor,
        "triple": target.triple,
        "offload": target.offload,
        "form": image.form,
        "id": image.attrs.get("id", ""),
        "container": container,
        "index": index,
    }
    for name in names & texts.keys():
        if not texts[name]:
            raise UsageError(f"image {position} has no {name}", hint=f"leave out {{{name}}}, or select other images")
        if not _PLAIN.match(texts[name]):
            raise UsageError(
                f"the {name} of image {position} is no plain word, and no argument is made of it: {texts[name]!r}",
                hint=f"write the {name} itself in the place of {{{name}}}",
            )
    return texts
