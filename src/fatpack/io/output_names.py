"""Names of output files: text stored in a file becomes harmless words, so that no output leaves the output folder."""

from __future__ import annotations

#: Characters that are kept; all others become "_". Excludes separators, the colon (drives and streams on Windows),
#: blanks and control characters.
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=@")

#: LIMIT: characters of one word; file systems allow 255 bytes for a whole name.
WORD = 80


def safe_word(text: str) -> str:
    """Return ``text`` as a part of a file name: not empty unless ``text`` is, no path, no option."""
    # The fast path matters: thousands of file names contain three words each.
    harmless = text if _HARMLESS.issuperset(text) else "".join(char if char in _HARMLESS else "_" for char in text)
    word = harmless[:WORD]
    return word.lstrip(".-") or ("_" if text else "")


def file_stem(path: str) -> str:
    """Return a file's name without directories and last extension: ``libx.so`` for ``/usr/lib/libx.so.2``."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    base, dot, _ = name.rpartition(".")
    return base if dot and base else name


def image_name(source: str, triple: str, arch: str, index: int, extension: str) -> str:
    """Return ``<stem>-<triple>-<arch>.<index>.<extension>``, as LLVM names extracted images, sanitized.

    Empty parts are left out with their separator. Colons of target IDs become underscores.
    """
    words = [safe_word(file_stem(source)) or "image", safe_word(triple), safe_word(arch)]
    name = "-".join(word for word in words if word)
    return f"{name}.{index}.{extension}" if extension else f"{name}.{index}"


def member_word(text: str) -> str:
    """Return ``text`` as a member's name that unpacks into one file: no separators, no control characters.

    Surrogates, which represent bytes that are not UTF-8, are kept: archives name files in any encoding.
    """
    return "".join(
        "_" if char in "/\\" or not (char.isprintable() or "\udc80" <= char <= "\udcff") else char for char in text
    )
