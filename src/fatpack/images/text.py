"""Images that are text: PTX, CIR and other MLIR, what clang prints on its way, and the text flavour of its bundles.

None of them has a magic. The first thing that is neither blank nor comment decides; PTX and MLIR share C's comments.
What clang keeps in text bundles begins in ways of its own: LLVM IR with what module it is, assembly for AMD with the
target, preprocessed sources with a line marker.
"""

from __future__ import annotations

from fatpack.images.identification import UNKNOWN, ImageInfo
from fatpack.magic_numbers import BUNDLE, MLIR_BYTECODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: LIMIT: bytes read to decide: first the few that nearly always do, then room for a long licence as a comment.
WINDOWS = (2048, 64 << 10)

#: The decision wants this many bytes after the comments; fewer mean a larger window.
_ENOUGH = 512

_BLANKS = b" \t\r\n\v\f"
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.-")

#: Comments → what ends them.
_CLOSERS = {b"//": b"\n", b"/*": b"*/"}

#: A text bundle begins with an empty line and one of the three comment tokens, by the language of its entries.
_BUNDLE = tuple(b"\n" + token + b" " + BUNDLE + b"__START__ " for token in (b"//", b"#", b";"))

#: whether it has the word, and its kind → what MLIR is; containers have very many modules
_MLIR = {
    (is_cir, kind): ImageInfo("cir", detail=f"{'CIR' if is_cir else 'MLIR'} {kind}")
    for is_cir in (True, False)
    for kind in ("text", "bytecode")
}

#: What LLVM prints before anything else; the first two are left out of modules without a name.
_LLVM_IR = (b"; ModuleID = '", b'source_filename = "', b'target datalayout = "', b'target triple = "')
#: What LLVM prints first into assembly for AMD, before ``triple--target ID"``.
_AMDGCN = b'.amdgcn_target "'
_LINE_MARKERS = (b'# 1 "', b'#line 1 "')
_LONGEST_WORD = 128


def identify_text(view: View) -> ImageInfo:
    """Return what a text is; UNKNOWN for everything that is none of ours. Reads at most two times 64 KiB."""
    for size in WINDOWS:
        window = view.head(0, size)
        if window.startswith(MLIR_BYTECODE):
            # The strings of bytecode lie near its end.
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
    """Return what a text is that begins with a directive of NVIDIA's: PTX, or what a disassembler prints."""
    sass = _sass(text)
    if sass is not None:
        return sass
    from fatpack.images import ptx

    quick = ptx.identify_ptx_fast(text)
    if quick is not None:
        return quick
    from fatpack.images.ptx import strip_comments

    return ptx.identify_ptx(b"".join(strip_comments([text])))


def _sass(text: bytes) -> ImageInfo | None:
    """Return what nvdisasm printed of a cubin; None for a text that begins otherwise, as PTX does.

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
    """Return what a text is that clang printed; UNKNOWN for any other."""
    if window.startswith(_LLVM_IR, start):
        _, _, behind = window.partition(b'\ntarget triple = "')
        return ImageInfo("llvm-ir", triple=_word(behind), detail="LLVM IR text")
    if window.startswith(_AMDGCN, start):
        triple, _, arch = _word(window[start + len(_AMDGCN) :]).rpartition("--")
        return ImageInfo("assembly", arch=arch, triple=triple, detail="assembly text")
    if window.startswith(_LINE_MARKERS, start):
        return ImageInfo("preprocessed", detail="preprocessed source text")
    return UNKNOWN


def _word(text: bytes) -> str:
    """Return what a quotation mark ends; "" if that is far away, or no name stands there."""
    word, quote, _ = text[:_LONGEST_WORD].partition(b'"')
    return word.decode() if quote and _NAME.issuperset(word.replace(b":", b"").replace(b"+", b"")) else ""


def _mlir(window: bytes, kind: str) -> ImageInfo:
    """Return what MLIR is; whether it is a container as well only the format can tell."""
    return _MLIR[b"cir" in window, kind]


def _skip(window: bytes) -> int:
    """Return the position of the first byte that is neither blank nor in a comment."""
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


#: How the values of attribute aliases begin that MLIR's printer makes: attributes of dialects, and builtin ones (``MLIR
#: LangRef``, "Builtin Dialect"). Commented settings of other files have plain words there, numbers, strings and lists.
_ALIASED = (b"#", b"loc(", b"affine_", b"dense", b"array<", b"distinct[")


def _starts_mlir(text: bytes) -> bool:
    """Return whether a text begins as MLIR does: with a module, an alias or file metadata."""
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
