"""Images that are text: PTX, CIR and other MLIR, intermediate outputs of clang, and text bundles.

They have no magic: the first bytes after blanks and comments identify them. PTX and MLIR share C's comments. Outputs of
clang in text bundles have other beginnings: LLVM IR starts with the module's name, assembly for AMD with the target,
preprocessed source with a line marker.
"""

from __future__ import annotations

from fatpack.images.identification import UNKNOWN, ImageInfo
from fatpack.magic_numbers import BUNDLE, MLIR_BYTECODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: LIMIT: bytes that are read: first a few, which nearly always suffice, then enough for a long licence comment.
WINDOWS = (2048, 64 << 10)

#: Bytes needed after the comments; with fewer, the larger window is read.
_ENOUGH = 512

_BLANKS = b" \t\r\n\v\f"
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.-")

#: Start of a comment → its end.
_CLOSERS = {b"//": b"\n", b"/*": b"*/"}

#: A text bundle begins with an empty line and one of three comment tokens, depending on the language of its entries.
_BUNDLE = tuple(b"\n" + token + b" " + BUNDLE + b"__START__ " for token in (b"//", b"#", b";"))

#: whether the text is CIR, and its kind → the result; containers have very many modules
_MLIR = {
    (is_cir, kind): ImageInfo("cir", detail=f"{'CIR' if is_cir else 'MLIR'} {kind}")
    for is_cir in (True, False)
    for kind in ("text", "bytecode")
}

#: First lines of LLVM IR; a module without a name has only the last.
_LLVM_IR = (b"; ModuleID = '", b'source_filename = "', b'target datalayout = "', b'target triple = "')
#: First line of assembly for AMD, before ``triple--target ID"``.
_AMDGCN = b'.amdgcn_target "'
_LINE_MARKERS = (b'# 1 "', b'#line 1 "')
_LONGEST_WORD = 128


def identify_text(view: View, head: bytes) -> ImageInfo:
    """Identify a text by its first bytes ``head`` and more; UNKNOWN for other texts. Reads at most two times 64 KiB."""
    for size in WINDOWS:
        window = head if len(head) == len(view) else view.head(0, size)
        if window.startswith(MLIR_BYTECODE):
            # The strings of bytecode are near its end.
            tail = view.head(max(len(view) - WINDOWS[-1], 0), WINDOWS[-1])
            return _mlir(tail, "bytecode")
        window = window.partition(b"\0")[0].replace(b"\r", b"\n")
        start = _skip(window)
        if len(window) < size or start + _ENOUGH < len(window):
            break
    if window.startswith(_BUNDLE):
        return ImageInfo("bundle", detail="clang offload bundle, text", container="clang-offload-bundle")
    if window.startswith((b".version", b".target", b".headerflags"), start):
        return _nvidia(window[start:])
    if _starts_mlir(window[start:]):
        return _mlir(window if len(window) == len(view) else view.head(0, WINDOWS[-1]), "text")
    return _printed(window, start)


def _nvidia(text: bytes) -> ImageInfo:
    """Identify a text that begins with an NVIDIA directive: PTX, or output of a disassembler."""
    from fatpack.images.ptx import identify_ptx_fast

    known = identify_ptx_fast(text) or _sass(text)
    if known is not None:
        return known
    from fatpack.images.ptx import identify_ptx, strip_comments

    return identify_ptx(b"".join(strip_comments([text])))


def _sass(text: bytes) -> ImageInfo | None:
    """Identify output of nvdisasm; None for a text that begins otherwise, such as PTX.

    It begins with ``.headerflags @"… EF_CUDA_SM80 …"``, and since CUDA 13 with ``.target sm_90`` and ``.elftype``.
    """
    words = text[:_ENOUGH].split(None, 3)[:3]
    if words[:1] != [b".headerflags"] and words[2:3] != [b".elftype"]:
        return None
    number = text[:_ENOUGH].partition(b"EF_CUDA_SM")[2][:4]
    arch = words[1] if words[0] == b".target" else b"sm_" + number[: len(number) - len(number.lstrip(b"0123456789"))]
    name = arch.decode("ascii", "replace") if _NAME.issuperset(arch) and arch != b"sm_" else ""
    return ImageInfo("assembly", arch=name, triple="nvptx64-nvidia-cuda", detail="SASS text")


def _printed(window: bytes, start: int) -> ImageInfo:
    """Identify a text printed by clang; UNKNOWN for any other."""
    if window.startswith(_LLVM_IR, start):
        _, _, after = window.partition(b'\ntarget triple = "')
        return ImageInfo("llvm-ir", triple=_word(after), detail="LLVM IR text")
    if window.startswith(_AMDGCN, start):
        triple, _, arch = _word(window[start + len(_AMDGCN) :]).rpartition("--")
        return ImageInfo("assembly", arch=arch, triple=triple, detail="assembly text")
    if window.startswith(_LINE_MARKERS, start):
        return ImageInfo("preprocessed", detail="preprocessed source text")
    return UNKNOWN


def _word(text: bytes) -> str:
    """Return the text up to a quotation mark; "" if that is far away, or the text is no name."""
    word, quote, _ = text[:_LONGEST_WORD].partition(b'"')
    return word.decode() if quote and _NAME.issuperset(word.replace(b":", b"").replace(b"+", b"")) else ""


def _mlir(window: bytes, kind: str) -> ImageInfo:
    """Identify MLIR; only the format's reader can tell whether it is also a container."""
    return _MLIR[b"cir" in window, kind]


def _skip(window: bytes) -> int:
    """Return the position of the first byte that is not blank and not in a comment."""
    at = 0
    while at < len(window):
        if window[at] in _BLANKS:
            at += 1
        elif (opener := window[at : at + 2]) in (b"//", b"/*"):
            closer = _CLOSERS[opener]
            end = window.find(closer, at + 2)
            at = len(window) if end < 0 else end + len(closer)
        else:
            break
    return at


#: Beginnings of attribute aliases as MLIR's printer makes them: attributes of dialects, and builtin ones (``MLIR
#: LangRef``, "Builtin Dialect"). Commented settings in other files are plain words, numbers, strings and lists.
_ALIASED = (b"#", b"loc(", b"affine_", b"dense", b"array<", b"distinct[")


def _starts_mlir(text: bytes) -> bool:
    """Return whether a text begins like MLIR: with a module, an alias or file metadata."""
    if text.startswith((b"{-#", b'"builtin.module"', b"builtin.module")):
        return True
    if text.startswith(b"module"):
        return text[6:7] in (b" ", b"\n", b"\t") and text[6:].lstrip().startswith((b"{", b"@", b"attributes"))
    if text.startswith((b"#", b"!")):
        name, equals, value = text[1:256].partition(b"=")
        name = name.rstrip(b" \t")
        is_alias = bool(equals and name and _NAME.issuperset(name))
        value = value.lstrip()
        return is_alias and (text.startswith(b"!") or not value or value.startswith(_ALIASED))
    return False
