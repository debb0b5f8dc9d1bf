"""A small file of each format, byte by byte: the output of ``inspect --bytes``, eight bytes in a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fatpack.commands.inspect.bytes import file_labels
from fatpack.io.open import open_source

if TYPE_CHECKING:
    from fatpack.model import Label

ROOT = Path(__file__).parents[2]

#: format → files below ``tests/fixtures`` on its page, small ones of other tools or their code
SHOWN = {
    "aotriton-aks2": ("aks2/two_targets.aks2",),
    "cir-offload-container": ("cir/mlir-22-v6.mlirbc",),
    "clang-offload-bundle": ("clang_bundle/llvm-22-hip.bundle", "clang_bundle/llvm-22-v3-zstd.bundle"),
    "cuda-fatbin": ("cuda_fatbin/v124_all_ident.fatbin",),
    "llvm-offload-binary": ("offload_binary/llvm-22-one.bin",),
    "metal-library": ("metallib/good.metallib",),
    "rocm-kernel-cache": ("kernel_cache/gfx1100_48.kdb",),
    "rocm-kpack": ("kpack/needs.zstd.kpack",),
    "syclbin": ("syclbin/dpcpp-v1.syclbin", "syclbin/dpcpp-v2.syclbin"),
}

#: Bytes in a row, and characters shown of bytes without a number or name.
_ROW, _LETTERS = 8, 36


def section(name: str) -> list[str]:
    """Return the lines of the part of a format's page about small files."""
    lines = ["## Small ones, byte by byte" if len(SHOWN[name]) > 1 else "## A small one, byte by byte", ""]
    for path in SHOWN[name]:
        lines += [f"`fatpack inspect --bytes tests/fixtures/{path}`, shortened: `+8` means eight more bytes.", ""]
        lines += ["```text", *rows(ROOT / "tests" / "fixtures" / path), "```", ""]
    return lines


def rows(path: Path) -> list[str]:
    """Return the dump of a file: offset, the first bytes, the name and the value of each label."""
    with open_source(path) as source:
        view = source.view()
        found = [(label, view.read(label.span.start, min(label.span.size, _LETTERS))) for label in file_labels(view)]
    names = [label.name.removeprefix("container[0].") for label, _ in found]
    wide = max(len(name) for name in names)
    lines = []
    for name, (label, head) in zip(names, found, strict=True):
        more = label.span.size - _ROW
        shown = head[:_ROW].hex(" ") + (f" +{more}" if more > 0 else "")
        lines.append(f"{label.span.start:#06x}  {shown:29}  {name:{wide}}  {_said(label, head)}".rstrip())
    return lines


def _said(label: Label, head: bytes) -> str:
    """Return the value of a label; the bytes as characters if it has none."""
    if label.value:
        return label.value
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in head) + (
        "…" if label.span.size > len(head) else ""
    )
