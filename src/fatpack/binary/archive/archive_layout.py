"""The member header of ``ar`` archives, and the reserved names that are no files."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout

FORMAT = "archive"

#: The first 8 bytes. Members of a thin archive are other files; AIX "big" archives share nothing but the idea.
REGULAR, THIN, BIG = magic_numbers.ARCHIVE, magic_numbers.THIN_ARCHIVE, magic_numbers.BIG_ARCHIVE
MAGIC_SIZE = 8

#: What every member header ends with.
TERMINATOR = b"`\n"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b" "))[2:-1]


HEADER = Layout(
    FORMAT,
    "member header",
    (
        Field("name", "bytes[16]", "ar_name: the member's name in one of several spellings, padded with blanks", _text),
        Field("date", "bytes[12]", "ar_date: seconds since 1970, decimal; 0 in deterministic archives", _text),
        Field("user", "bytes[6]", "ar_uid: owner's number, decimal", _text),
        Field("group", "bytes[6]", "ar_gid: group's number, decimal", _text),
        Field("mode", "bytes[8]", "ar_mode: file mode, octal", _text),
        Field("size", "bytes[10]", "ar_size: bytes of what follows, a BSD name included, decimal", _text),
        Field("terminator", "bytes[2]", "ar_fmag: a backquote and a newline", _text),
    ),
)

#: How the symbol tables that we can rewrite keep their header offsets: name → (byte order, struct code).
#: "?" is the byte order of the target, which BSD tables do not state; "second" is Microsoft's, behind the first.
SYMBOL_TABLES = {
    b"/": (">", "I"),
    b"/SYM64/": (">", "Q"),
    b"second": ("<", "I"),
    b"__.SYMDEF": ("?", "I"),
    b"__.SYMDEF SORTED": ("?", "I"),
    b"__.SYMDEF_64": ("?", "Q"),
    b"__.SYMDEF_64 SORTED": ("?", "Q"),
}

LONG_NAMES = b"//"
