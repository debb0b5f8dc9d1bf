"""llvm-objcopy as fat objects use it, and ours beside it: the same bytes, or both refuse in the same words."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.reference import tool

from fatpack import binary
from fatpack.errors import FatpackError, HostError
from fatpack.io.source import BytesSource, PiecesSource, View

if TYPE_CHECKING:
    from fatpack.io.source import Piece

PREFIX = "__CLANG_OFFLOAD_BUNDLE__"

#: What clang-offload-bundler adds: the host's mark, device code, and a target without any
BUNDLES = (
    (f"{PREFIX}host-x86_64-unknown-linux-gnu-", b"\0"),
    (f"{PREFIX}hip-amdgcn-amd-amdhsa--gfx90a:xnack+", b"device code " * 30),
    (f"{PREFIX}hip-amdgcn-amd-amdhsa--gfx942", b""),
)
#: What ours refuses because llvm-objcopy then writes whatever its memory happens to hold, or damages the file
UNDEFINED = ("is named by a symbol in a section that would be removed",)

Additions = Sequence[tuple[str, bytes]]


def joined(pieces: Iterable[Piece]) -> bytes:
    """Return pieces as bytes."""
    source = PiecesSource(list(pieces))
    return source.read(0, source.size)


def added(path: Path, additions: Additions = BUNDLES) -> bytes:
    """Return a file with sections added; llvm-objcopy must make the same of it, or refuse with ours as well."""
    options = [f"--add-section={name}={_file(path, n, content)}" for n, (name, content) in enumerate(additions)]
    options += [f"--set-section-flags={name}=readonly,exclude" for name in dict.fromkeys(name for name, _ in additions)]
    return _compared(path, options, lambda: _room(path).add_sections(_view(path), [(n, [c]) for n, c in additions]))


def removed(path: Path, prefix: str = PREFIX) -> bytes:
    """Return a file without some sections, compared as :func:`added` does."""
    options = ["--regex", f"--remove-section={re.escape(prefix)}.*"]
    return _compared(path, options, lambda: _room(path).remove_sections(_view(path), prefix))


def _file(path: Path, number: int, content: bytes) -> Path:
    file = path.with_name(f"{path.name}.addition{number}")
    file.write_bytes(content)
    return file


def _view(path: Path) -> View:
    return BytesSource(path.read_bytes(), path.name).view()


def _room(path: Path) -> binary.Objcopy:
    return binary.get_objcopy("elf" if path.read_bytes()[:4] == b"\x7fELF" else "coff")


def _compared(path: Path, options: Sequence[str], ours: Callable[[], list[Piece]]) -> bytes:
    output = path.with_name(f"{path.name}.objcopied")
    output.unlink(missing_ok=True)
    done = subprocess.run([tool("llvm-objcopy"), *options, "--", path, output], capture_output=True)
    try:
        result = joined(ours())
    except FatpackError as error:
        if any(reason in str(error) for reason in UNDEFINED):
            raise
        assert done.returncode, f"only ours refuses: {error}"
        if isinstance(error, HostError):
            # "llvm-objcopy: error: 'file': what is wrong"; for a damaged file we have words of our own.
            reason = done.stderr.decode(errors="replace").strip().partition("error: ")[2].rpartition("': ")[2]
            assert reason in str(error), f"{reason!r} is not what ours says: {error}"
        raise
    assert done.returncode == 0, f"only llvm-objcopy refuses: {done.stderr.decode(errors='replace')}"
    theirs = output.read_bytes()
    if result != theirs:
        pairs = enumerate(zip(result, theirs, strict=False))
        at = next((at for at, pair in pairs if pair[0] != pair[1]), min(len(result), len(theirs)))
        pytest.fail(f"{len(result)} bytes, llvm-objcopy makes {len(theirs)}; the first other one is at {at:#x}")
    return result


def fat_and_slim(path: Path) -> bytes:
    """Compare a file made fat, made slim again, and made fat twice; all may refuse, in the same words.

    Returns the file made fat.
    """
    fat = path.with_name(f"{path.name}.fat")
    data = added(path)
    fat.write_bytes(data)
    removed(fat)
    added(fat, [*BUNDLES[:2], (f"{PREFIX}sycl-spir64", b"other")])
    return data


def every_name(path: Path, names: Iterable[str]) -> int:
    """Compare the removal of all sections whose names start alike, for some names; return how many are refused."""
    refused = 0
    for name in names:
        try:
            removed(path, name)
        except FatpackError:
            refused += 1
    return refused
