"""The stand-ins for roc-obj-ls and roc-obj-extract next to the originals, on generated libraries, words and URIs.

What the two differ in on purpose is left out here: the pages below ``docs/tools`` and ``test_roc_obj.py`` have it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.builders.elf import ALLOC, Elf
from tests.conftest import Ran

pytestmark = pytest.mark.reference

Fatpack = Callable[..., Ran]

NAMES = ("host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx906:xnack-")
PAGE = 4096


def bundle(rng: random.Random, count: int) -> bytes:
    """Return a bundle as clang makes it for HIP: the host's empty entry, and code objects on pages of their own."""
    names = [NAMES[0], *(f"{NAMES[1 + number % 2]}{number // 2 or ''}" for number in range(count))]
    at, head, data = PAGE, b"", b""
    for name in names:
        size = 0 if name == NAMES[0] else rng.randint(1, 2 * PAGE)
        head += struct.pack("<QQQ", at, size, len(name)) + name.encode()
        content = rng.randbytes(size)
        data += content + bytes(-len(content) % PAGE if size else 0)
        at = PAGE + len(data)
    start = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + head
    return start + bytes(PAGE - len(start)) + data


def library(seed: int) -> bytes:
    rng = random.Random(seed)
    elf = Elf()
    elf.add(".text", b"\xc3" * rng.randint(1, 99))
    section = b"".join(bundle(rng, rng.randint(1, 4)) for _ in range(rng.choice((1, 1, 2, 3))))
    elf.add(".hip_fatbin", section, flags=ALLOC, align=PAGE)
    return elf.build()


class Both:
    """Runs both tools in one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> None:
        self.folder = folder
        self._fatpack = fatpack
        monkeypatch.chdir(folder)

    def agree(self, name: str, *arguments: str) -> tuple[str, dict[str, bytes]]:
        """Compare what both do; return what they print, and the files that they write."""
        done = reference.run(name, *arguments, cwd=self.folder, check=False)
        files = self._taken()
        ours = self._fatpack("tool", name, *arguments)
        out = "".join(
            line
            for line in done.stdout.decode(errors="replace").splitlines(True)
            if not line.startswith("DD Command: ")
        )
        assert ours.out == out, arguments
        assert ours.err == done.stderr.decode(), arguments
        assert ours.code == done.returncode, arguments
        assert self._taken() == files, arguments
        return out, files

    def _taken(self) -> dict[str, bytes]:
        written = {str(path): path.read_bytes() for path in self.folder.rglob("*.co")}
        for path in written:
            Path(path).unlink()
        return written


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Both:
    return Both(tmp_path, monkeypatch, fatpack)


@pytest.mark.sweep(9)
@pytest.mark.parametrize("seed", range(6))
def test_code_objects_are_listed_and_extracted_alike(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    names = ("a.so", "b c.so", "dir/e.so", "100%.so", "x+y=(z)!.so")
    (both.folder / "dir").mkdir()
    for number, name in enumerate(names):
        (both.folder / name).write_bytes(library(seed * 10 + number))
    out, _ = both.agree("roc-obj-ls", *rng.sample(names, 3))
    both.agree("roc-obj-ls", "-v", *rng.sample(names, 2))
    both.agree("roc-obj-ls", str(both.folder / "a.so"))
    uris = [line.split()[-1] for line in out.splitlines() if not line.endswith("size=0")]
    _, files = both.agree("roc-obj-extract", *uris)
    assert len(files) == len(uris)
    both.agree("roc-obj-extract", "-v", "-o", "dir", *rng.sample(uris, 2))
    assert len(both.agree("roc-obj-extract", "-o-", "--", uris[0])[0]) > 0


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "words",
    [
        ["none"],
        ["-v", "none", "a.so"],
        ["a.so", "none"],
        [],
        ["-x", "a.so"],
        ["-vx", "a.so"],
        ["a.so", "-v"],
        ["plain.o"],
    ],
    ids=" ".join,
)
def test_command_lines_of_ls_are_read_alike(both: Both, words: list[str]) -> None:
    (both.folder / "a.so").write_bytes(library(1))
    (both.folder / "plain.o").write_bytes(Elf().build())
    both.agree("roc-obj-ls", *words)


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "words",
    [
        ["file://none"],
        ["-v", "file://a.so"],
        ["-vx", "FILE://a.so#offset=4&size=8"],
        ["file://a.so?offset=4&size=8"],
        ["file://a.so#size=8&offset=4"],
        ["file://a.so#offset=4"],
        ["file://a.so#offset=1&size=0", "-v"],
        ["-v", "file://a.so#offset=1&size=0"],
        ["file://a.so#offset=1&size=999999999", "x://y", "file://none", "file://%61.so#offset=0&size=3"],
        ["-o", "none", "file://a.so"],
        ["-o", "", "file://a.so"],
        ["-o", "text", "file://a.so"],
        ["-o", "text/x", "file://a.so"],
        ["-o", "/dev/null", "file://a.so"],
        ["a.so"],
        ["-o", "out", "-v", "file://a.so#offset=2&size=2"],
        ["-oout", "file://a.so#offset=2&size=2"],
        ["-o", "-", "file://text#offset=0&size=4"],
    ],
    ids=" ".join,
)
def test_uris_are_read_alike(both: Both, words: list[str]) -> None:
    (both.folder / "a.so").write_bytes(library(1))
    (both.folder / "text").write_text("text of a file\n")
    (both.folder / "out").mkdir()
    both.agree("roc-obj-extract", *words)
