"""Files of formats that fatpack does not read, and that may contain device code: each is reported.

Blender ships its kernels as ``.cubin.zst``: nothing can be found in them without decompression. Files that are not
compressed are searched for containers, but a search finds neither bare images nor the names of members.

Compilers write device code into text as well, as strings or numbers: LLVM IR (``.ll``), assembly (``.s``) and the C
file with which nvcc embeds a fat binary (``.fatbin.c``). What :mod:`fatpack.scanner.compiler_text` does not decode is
reported.

The kinds themselves stand in :mod:`fatpack.scanner.unread_kinds`.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import cli_or_api
from fatpack.findings import finding
from fatpack.scanner.context import detect_package
from fatpack.scanner.unread_kinds import COMPRESSED, SQLITE, TAR, unread_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import View
    from fatpack.model import Finding

#: The file from which rocBLAS and hipBLASLt select kernels: a MessagePack map of two or three, "solutions" and
#: "library" first (``MasterSolutionLibrary.state`` in Tensile/SolutionLibrary.py). It contains no device code.
_TENSILE = "a table of Tensile, which names kernels of code objects beside it"
_TENSILE_STARTS = tuple(bytes((0x80 + count,)) + key for count in (2, 3) for key in (b"\xa9solutions", b"\xa7library"))

_HEAD_SIZE = 512

#: First bytes of the containers that compilers write into text, as one ``.quad`` has them: the magic and the version.
_QUADS = (
    magic_numbers.FATBIN + b"\1\0\x10\0",
    magic_numbers.BUNDLE[:8],
    *(magic_numbers.COMPRESSED_BUNDLE + bytes((version, 0, method, 0)) for version in (1, 2, 3) for method in (0, 1)),
    *(magic_numbers.OFFLOAD_BINARY + bytes((version, 0, 0, 0)) for version in (1, 2)),
)
#: directives of numbers of each size; ``.word`` has 2 bytes on x86 and 4 on AArch64
_NUMBERS = {
    8: rb"\.(?:quad|8byte|xword)[ \t]+",
    4: rb"\.(?:long|4byte|int|word)[ \t]+",
    2: rb"\.(?:short|2byte|hword|value|word)[ \t]+",
    1: rb"\.byte[ \t]+",
}
#: between two numbers: a comma, or the rest of a line and the beginning of the next
_NEXT = rb'[ \t]*(?:,[ \t]*|(?:\\n"[ \t]*)?(?:(?:#|//)[^\n]{0,80})?\r?\n\s{0,80}(?:"[ \t]*)?%b)'


def _ir_string(data: bytes) -> bytes:
    r"""Return the expression for bytes in a string of LLVM IR: each is ``\`` and two digits, or itself if printable."""
    spelled = (rb"\\(?i:%02x)" % byte for byte in data)
    return b"".join(
        rb"(?:%c|%b)" % (byte, each) if (chr(byte).isalnum() and byte < 0x80) or byte == 0x5F else each
        for byte, each in zip(data, spelled, strict=True)
    )


def _hexadecimal(byte: int) -> bytes:
    """Return the expression for a byte as a hexadecimal escape of GNU as."""
    return rb"\\[xX]0?(?i:%x)" % byte


def _assembly_string(data: bytes) -> bytes:
    r"""Return the expression for bytes in a string of assembly: ``\`` and octal digits, or the byte if printable."""
    return b"".join(
        rb"(?:%c|\\%o|%b)" % (byte, byte, _hexadecimal(byte))
        if (chr(byte).isalnum() and byte < 0x80) or byte == 0x5F
        else rb"(?:\\0?%o|%b)" % (byte, _hexadecimal(byte))
        for byte in data
    )


def _numbers(size: int) -> bytes:
    """Return the expression for the first bytes of containers as numbers of a size, with their directive."""
    starts = set()
    for quad in _QUADS:
        data, words = quad if size == 8 else quad[:4], []
        for at in range(0, len(data), size):
            value = int.from_bytes(data[at : at + size], "little")
            words.append(rb"(?:0[xX]0*(?i:%x)|%d|%d|0+%o)\b" % (value, value, value - (1 << 8 * size), value))
        starts.add((_NEXT % _NUMBERS[size]).join(words))
    return _NUMBERS[size] + b"(?:" + b"|".join(sorted(starts)) + b")"


def _any(expressions: Iterable[bytes]) -> bytes:
    return b"(?:" + b"|".join(expressions) + b")"


_MAGICS = (magic_numbers.FATBIN, magic_numbers.BUNDLE[:12], magic_numbers.OFFLOAD_BINARY)

#: The first bytes of a container in assembly: a directive with a string, or with the first numbers.
ASSEMBLY_START = _any(
    (
        rb'\.(?:ascii|asciz|string)[ \t]+"'
        + _any(
            (*map(_assembly_string, _MAGICS), _assembly_string(magic_numbers.COMPRESSED_BUNDLE) + rb"\\(?:00|[xX]0)")
        ),
        *map(_numbers, _NUMBERS),
    )
)

#: first bytes of containers and device images as strings of LLVM IR, as strings of assembly, and as numbers of both
_SPELLED = {
    "LLVM IR with device code in a string": (
        rb'c"'
        + _any((*map(_ir_string, _MAGICS), _ir_string(magic_numbers.COMPRESSED_BUNDLE) + rb"\\0", rb"\\7FELF\\0")),
        "compile it with clang -c, and give the object",
    ),
    # Arrays of numbers, structures, and strings that begin otherwise: clang itself writes strings.
    "LLVM IR with data in a section for device code": (
        rb'[]}"], section "(?:\.nv_fatbin|__nv_relfatbin|\.hip_fatbin|\.llvm\.offloading)"',
        "compile it with clang -c, and give the object",
    ),
    "assembly or C with device code in strings or numbers": (
        ASSEMBLY_START,
        "compile it to an object, and give that",
    ),
}

#: one search for all of them, and the most bytes that it reads for one
_IN_TEXT = b"|".join(b"(%b)" % pattern for pattern, _ in _SPELLED.values())
_LONGEST = 512

#: the separator of parts of a file for ``mlir-opt --split-input-file``
_PARTED = rb"(?m)^// -----"


def unsupported_kind(view: View) -> str:
    """Return the format of a file that fatpack does not read (``a tar archive``); "" for any other file.

    Some of these formats accompany device code and contain none.
    """
    kind = unread_format(view)
    if kind is not None:
        return kind.one
    return _TENSILE if view.head(0, _HEAD_SIZE).startswith(_TENSILE_STARTS) else ""


def unsupported_finding(view: View, is_searched: bool) -> Finding | None:
    """Return the finding that the device code of a file, if any, is not read; None for supported and unknown formats.

    ``is_searched`` is true if all of its bytes were searched for containers.
    """
    known = unread_format(view)
    if known is None:
        return _spelled(view)
    kind, remedy = known.one, known.remedy
    if known is SQLITE:
        return finding("FP2801", view.span(), f"{kind}: not read")
    if known is TAR and not detect_package(view):  # one that adds up is a package
        text = f"{kind}, whose first header does not add up to its checksum: the files in it are not listed"
        return finding("FP1701", view.span(), text, "get the file again", field="header")
    if detect_package(view):
        text = f"{kind}: the files in it are not listed where it is read as one file"
        remedy = cli_or_api("name it alone, or a folder around it", "fatpack.files opens them")
    elif is_compressed(view):
        text = f"{kind}: this version does not look inside"
    elif is_searched:
        text = f"{kind}: not read, only searched for containers"
    else:
        text = f"{kind}: this version does not read these"
        search = f"{cli_or_api('--deep', 'deep=True')} searches it for containers"
        remedy = f"{remedy}; {search}".lstrip("; ")
    return finding("FP1006", view.span(), text, remedy)


def _spelled(view: View) -> Finding | None:
    """Return the finding that a text has device code as strings or numbers, None if it has none."""
    hit = _place(view, _IN_TEXT)
    if hit is None:
        return None
    kind, (_, remedy) = list(_SPELLED.items())[hit[1] - 1]
    return finding("FP1006", view.span(hit[0], 0), f"{kind}: not read", remedy)


def undecoded_finding(view: View) -> Finding:
    """Return the finding that a container in a text is longer than what of it is decoded."""
    kind, (_, remedy) = list(_SPELLED.items())[-1]
    return _spelled(view) or finding("FP1006", view.span(), f"{kind}: not read", remedy)


def has_spelled_code(view: View) -> bool:
    """Return whether a text has device code as strings or numbers."""
    return _place(view, _IN_TEXT) is not None


def split_mlir_finding(view: View) -> Finding | None:
    """Return the finding that an MLIR file has several parts, each a file of its own; None if it has one part."""
    at = _place(view, _PARTED)
    if at is None:
        return None
    text = "a line // -----: mlir-opt --split-input-file takes the parts for files; what other parts hold is not listed"
    return finding("FP1006", view.span(at[0], 8), text, "write each part to a file of its own")


def _place(view: View, expression: bytes) -> tuple[int, int] | None:
    """Return where a text first matches an expression, and the number of the group; None if the file is no text.

    A text ends at a NUL: searching a table of 100 MB that has none in its first bytes would take ten seconds.
    """
    if b"\0" in view.head(0, _HEAD_SIZE):
        return None
    import re

    pattern = re.compile(expression)
    before, end = b"\n", 0
    for piece in view.pieces():
        data = bytes(piece)
        stop = data.find(b"\0")
        block = before + (data if stop < 0 else data[:stop])
        hit = pattern.search(block)
        if hit is not None:
            return end - len(before) + hit.start(), hit.lastindex or 0
        if stop >= 0:
            return None
        end += len(piece)
        before = block[-_LONGEST:]
    return None


def is_compressed(view: View) -> bool:
    """Return whether a file is compressed, so that its contents cannot be searched."""
    return view.head(0, _HEAD_SIZE).startswith(tuple(COMPRESSED))
