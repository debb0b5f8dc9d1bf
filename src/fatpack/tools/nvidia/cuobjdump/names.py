"""The names that cuobjdump gives to what it lists and extracts: from an identifier, or the path of the file.

A text is split at blanks; every word loses its folders and what follows its last dot; what is left is joined by dashes.
So no name chooses a folder.

QUIRK(cuobjdump 13): after its first use, a path with blanks in it is cut at the first of them: ``my dir/x.so`` gives
``my-x.1.sm_80.cubin`` and ``my.2.sm_90.cubin``. Here all names start like the first.
"""

from __future__ import annotations

#: QUIRK(cuobjdump 13): path and function together may have this many bytes before both are cut.
_LONGEST, _CUT = 240, 8

#: What stands for the path in names of functions where an entry has no identifier.
NO_IDENTIFIER = "x"


def identifier_stem(text: str) -> str:
    """Return what a name starts with: ``p-r-s`` of ``p q/r s.cu``."""
    name = ""
    for word in filter(None, text.split(" ")):
        name = f"{name}-" if name else ""
        name += _without_extension(word.rpartition("/")[2])
    return name


def _without_extension(word: str) -> str:
    start, dot, _ = word.rpartition(".")
    return start if dot else word


def function_stem(text: str, function: str, number: int) -> str:
    """Return what the name of a function's code starts with; ``number`` counts them.

    ``text`` is the identifier, the path of a cubin, or NO_IDENTIFIER. C++ has long names: they are cut, and numbered.
    """
    first, second = text.encode("utf-8", "surrogateescape"), function.encode("utf-8", "surrogateescape")
    if len(first) + len(second) <= _LONGEST:
        return identifier_stem(f"{text} {function}")
    first, second = first[:_CUT], second[:_CUT]
    return identifier_stem(f"{(first + b' ' + second).decode('utf-8', 'surrogateescape')}-{number}")


def matches_name(name: str, wanted: tuple[str, ...] | None) -> bool:
    """Return whether a name is asked for: one of the words is in it, or ``all`` is the only word."""
    return wanted is not None and (wanted == ("all",) or any(word in name for word in wanted))
