"""The code of the kernels of a PTX text, as digests: :mod:`fatpack.images.kernel` says what they cover.

CUDA 13 documentation, "PTX ISA": ".loc", ".file", "Debugging Directives". LLVM's NVPTX backend, which nvcc and clang
share, numbers labels and depots by function (``$L__BB3_7``, ``__local_depot3``), and marks lines with ``$L__tmp12``.
"""

from __future__ import annotations

import re

from fatpack import limits
from fatpack.errors import LimitExceeded
from fatpack.images.kernel import digest_parts, digest_with_calls, strip_unit_suffix
from fatpack.images.ptx_code import strip_comments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: what a function begins with: its name is behind parameters that it returns
_FUNCTION = re.compile(rb"\.entry\s+([\w$%]+)|\.func\b\s*(?:\([^()]*\)\s*)?([\w$%]+)", re.ASCII)

#: what a variable of the module begins with, and what stands for its name while its value is read
_VARIABLE = re.compile(rb"(?:\.extern\s+)?\.(?:global|const|shared|texref|samplerref|surfref|alias)\b")
_VALUE = "="

#: what the text says of itself: which drivers can compile it, and for what
_MODULE = re.compile(rb"(?m)^[ \t]*\.(?:version|target|address_size)[ \t]+[^\n]*")

_BRACES, _ENDS = re.compile(rb"[{}]"), re.compile(rb"[{};]")

#: what says where code came from, to the end of the line
_LINES = re.compile(rb"(?m)^[ \t]*\.(?:loc|file)\b[^\n]*")

#: labels that mark lines, and numbers of functions in names
_MARKS = re.compile(rb"\$L__(?:tmp|func_begin|func_end|info_string)\d+:?")
_NUMBERED = re.compile(rb"(\$L__BB|\bL?BB|\b__local_depot)\d+")

#: in text with single blanks
_CALL = re.compile(rb"\bcall(?:\.uni)? ?(?:\([^()]*\) ?, ?)?([A-Za-z_$%][\w$]*)", re.ASCII)


def codes(view: View) -> tuple[dict[str, bytes], bytes]:
    """Return the digest of each kernel's text, by its name, and that of the variables.

    Raises LimitExceeded for headers without end.
    """
    functions = _FunctionDigests(view)
    for part in strip_comments(view.pieces()):
        functions.take(part)
    return digest_with_calls(functions.own, functions.calls, functions.kernels), digest_parts(functions.variables)


class _FunctionDigests:
    """The functions of a text in the making: each is held until its body ends."""

    def __init__(self, view: View) -> None:
        self._view = view
        #: text since the last function or declaration, or of the function around
        self._kept: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._name = ""
        self.own: dict[str, bytes] = {}
        self.calls: dict[str, list[str]] = {}
        self.kernels: list[str] = []
        #: what the text says of itself, and the text of each variable
        self.variables: list[bytes] = []

    def take(self, part: bytes) -> None:
        """Take the next part of the text."""
        at = 0
        while (mark := (_BRACES if self._depth else _ENDS).search(part, at)) is not None:
            self._keep(part[at : mark.end()])
            at = mark.end()
            if mark[0] == b"{":
                if not self._depth:
                    self._begin()
                self._depth += 1
            elif mark[0] == b"}":
                self._depth = max(self._depth - 1, 0)
                if not self._depth:
                    self._end()
            else:
                self._declare()
        self._keep(part[at:])

    def _keep(self, piece: bytes) -> None:
        if self._depth and not self._name:
            return
        self._kept.append(piece)
        self._size += len(piece)
        if not self._depth and self._size > limits.PTX_HEADER:
            raise LimitExceeded(
                "the header of a function does not end",
                format="ptx",
                offset=self._view.offset(0),
                field=".func",
                expected=f"at most {limits.PTX_HEADER} bytes",
                hint=limits.advice("PTX_HEADER"),
                chain=self._view.chain,
            )

    def _begin(self) -> None:
        header = b"".join(self._kept)
        found = _FUNCTION.search(header)
        self._forget()
        self._note(header)
        variable = None if found else _variable(header)
        if variable:
            self._kept.append(variable)
            self._name = _VALUE
        if found is not None:
            self._name = (found[1] or found[2]).decode("ascii")
            if found[1]:
                self.kernels.append(self._name)
            self._kept.append(header[found.start() :])

    def _declare(self) -> None:
        """Take what ends without a body: a variable, or the declaration of a function, which says nothing."""
        header = b"".join(self._kept)
        self._note(header)
        found = _VARIABLE.search(header)
        if found is not None and _FUNCTION.search(header) is None:
            self.variables.append(_plain(header[found.start() :]))
        self._forget()

    def _note(self, header: bytes) -> None:
        self.variables += (b" ".join(line.split()) for line in _MODULE.findall(header))

    def _end(self) -> None:
        if self._name == _VALUE:
            self.variables.append(_plain(b"".join(self._kept)))
        elif self._name and self._name not in self.own:
            body = _MARKS.sub(b"", _LINES.sub(b"", b"".join(self._kept)))
            words = b" ".join(_NUMBERED.sub(rb"\1", body).split())
            self.own[self._name] = digest_parts((strip_unit_suffix(words.decode("ascii", "replace")).encode(),))
            self.calls[self._name] = [name.decode("ascii") for name in dict.fromkeys(_CALL.findall(words))]
        self._forget()

    def _forget(self) -> None:
        self._kept.clear()
        self._size, self._name = 0, ""


def _plain(statement: bytes) -> bytes:
    """Return the statement of a variable with single blanks, and without what compilers made of its unit."""
    return strip_unit_suffix(b" ".join(statement.split()).decode("ascii", "replace")).encode()


def _variable(header: bytes) -> bytes:
    """Return the statement of a variable up to its value; "" if none begins here. Other directives may stand before."""
    statement, sign, rest = header.rpartition(b"=")
    found = _VARIABLE.search(statement, statement.rfind(b"=") + 1)
    return header[found.start() :] if found and sign and not rest[:-1].strip() else b""
