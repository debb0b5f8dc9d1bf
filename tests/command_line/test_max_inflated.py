"""The limit of inflated bytes: the option and the argument that raise it, and the commands that have them."""

from __future__ import annotations

import hashlib
import re
import struct
import threading
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.conftest import Ran

import fatpack as library
from fatpack import limits
from fatpack.errors import LimitExceeded
from fatpack.io import open
from fatpack.model import Finding

Fatpack = Callable[..., Ran]

#: More than a command may inflate here.
SIZE = 64 << 20
ID = b"hip-amdgcn-amd-amdhsa--gfx90a"


@cache
def bundle_of_zeros(method: str, size: int = SIZE) -> bytes:
    """Return a compressed bundle, valid in every field, whose one image is zeros."""
    table = struct.pack("<24sQQQQ", b"__CLANG_OFFLOAD_BUNDLE__", 1, 4096, size - 4096, len(ID)) + ID
    plain = table + bytes(size - len(table))
    packed = zstandard.ZstdCompressor().compress(plain) if method == "zstd" else zlib.compress(plain, 9)
    digest = hashlib.md5(plain, usedforsecurity=False).digest()[:8]
    return struct.pack("<4sHHQQ8s", b"CCOB", 3, int(method == "zstd"), 32 + len(packed), size, digest) + packed


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command inflate half of that; that the real limit is thousands of times as much is another law's."""
    monkeypatch.setattr(limits, "INFLATED", SIZE // 2)


@pytest.fixture(params=["zstd", "zlib"])
def zeros(request: pytest.FixtureRequest, folder: Path) -> Path:
    (folder / "zeros").write_bytes(bundle_of_zeros(request.param))
    return folder / "zeros"


@pytest.mark.usefixtures("zeros")
def test_a_limit_is_no_damage_and_says_how_to_raise_it(fatpack: Fatpack) -> None:
    ran = fatpack("inspect", "zeros")
    assert ran.code == 3
    assert "not read because of a limit" in ran.out
    assert "damaged" not in ran.out
    assert "error FP1005" in ran.out
    assert "(expected at most " in ran.out
    assert "if you trust the file, use --max-inflated" in ran.out


@pytest.mark.sweep(4)
@pytest.mark.parametrize("size", [str(SIZE), "64M", "64m", "65536K", "1G"])
@pytest.mark.usefixtures("zeros")
def test_the_option_raises_it(fatpack: Fatpack, size: str) -> None:
    ran = fatpack("inspect", f"--max-inflated={size}", "zeros")
    assert (ran.code, "gfx90a" in ran.out) == (0, True)


def test_every_command_that_reads_takes_it(zeros: Path, fatpack: Fatpack) -> None:
    folder = zeros.parent
    assert fatpack("extract", "zeros", "-o", "image").code == 3
    assert fatpack("extract", "zeros", "-o", "image", "--max-inflated=64M").code == 0
    assert (folder / "image").stat().st_size == SIZE - 4096
    assert fatpack("convert", "zeros", "--format=bundle", "-o", "plain", "--max-inflated=64M").code == 0
    assert (folder / "plain").stat().st_size >= SIZE - 4096
    assert fatpack("embed", "host.o", "zeros", "-o", "with.o", "--force").code == 0
    assert fatpack("remove", "with.o", "-o", "without.o", "--max-inflated=64M").code == 0


@pytest.mark.usefixtures("zeros")
def test_a_command_leaves_no_budget_behind(fatpack: Fatpack) -> None:
    assert fatpack("inspect", "--max-inflated=64M", "zeros").code == 0
    assert limits.current_budget().inflated is None
    assert fatpack("inspect", "zeros").code == 3


@pytest.mark.parametrize("size", ["", "0", "M", "1X", "-1", "٣"])
def test_what_is_no_size_is_refused(fatpack: Fatpack, size: str) -> None:
    ran = fatpack("inspect", f"--max-inflated={size}", "x")
    assert (ran.code, "is no size" in ran.err) == (2, True)


def test_it_lowers_the_limit_too(folder: Path, fatpack: Fatpack) -> None:
    (folder / "small").write_bytes(bundle_of_zeros("zstd", 1 << 20))
    assert fatpack("inspect", "small").code == 0
    assert fatpack("inspect", "--max-inflated=512K", "small").code == 3


def test_the_argument_of_the_library(zeros: Path) -> None:
    (finding,) = library.scan(zeros)
    assert isinstance(finding, Finding)
    assert finding.code == "FP1005"
    with library.open(zeros, max_inflated=SIZE) as file:
        (image,) = file.images()
        # The file keeps its budget: for what is inflated later, and in other threads.
        sizes: list[int] = []
        thread = threading.Thread(target=lambda: sizes.append(len(image.data.tobytes())))
        thread.start()
        thread.join()
    assert sizes == [SIZE - 4096]
    assert [type(item).__name__ for item in library.scan(zeros, max_inflated=SIZE)] == ["FoundContainer"]


def test_what_one_thread_allows_its_file_does_not_hold_for_that_of_another(
    zeros: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread stands still while it opens a file it trusts; another opens one that it does not."""
    inside, done = threading.Event(), threading.Event()
    real = open._opened

    def waiting(data: Any, name: str, *, may_close: bool) -> Any:
        if threading.current_thread() is thread:
            inside.set()
            assert done.wait(60)
        return real(data, name, may_close=may_close)

    monkeypatch.setattr(open, "_opened", waiting)
    trusted: list[library.File] = []
    thread = threading.Thread(target=lambda: trusted.append(library.open(zeros, max_inflated=SIZE)))
    thread.start()
    assert inside.wait(60)
    with library.open(zeros) as other:
        done.set()
        thread.join()
        assert [finding.code for finding in other.findings] == ["FP1005"]
    with trusted[0] as file:
        assert len(file.images()) == 1


def test_files_that_an_archive_names_share_its_budget(zeros: Path) -> None:
    header = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (b"/0", 0, 0, 0, b"644", zeros.stat().st_size)
    names = b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (b"//", b"", b"", b"", b"", 8) + b"zeros/\n\n"
    thin = zeros.parent / "thin.a"
    thin.write_bytes(b"!<thin>\n" + names + header)
    with library.open(thin) as file:
        assert [finding.code for finding in file.findings] == ["FP1005"]
    with library.open(thin, max_inflated=SIZE) as file:
        assert len(file.images()) == 1


@pytest.mark.parametrize("what", [["-list"], ["-unbundle", f"-targets={ID.decode()}", "-output=image"]])
@pytest.mark.usefixtures("zeros")
def test_a_stand_in_names_the_variable_that_it_takes(
    fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, what: list[str]
) -> None:
    """It has no option for limits: what it says is done, and then it works."""
    command = ("tool", "clang-offload-bundler", *what, "-type=bc", "-input=zeros")
    ran = fatpack(*command)
    assert ran.code == 1
    assert "--max-inflated" not in ran.err
    settings, *_ = re.findall(r"set FATPACK_LIMITS='([^']*)' in the environment", ran.err)
    monkeypatch.setenv("FATPACK_LIMITS", settings)
    assert fatpack(*command).code == 0
    assert "max_inflated" in limits.inflated_hint()
    with limits.stand_in_advice():
        assert limits.advice("IMAGES", "BUNDLE_ID").endswith("FATPACK_LIMITS='images=N bundle-id=N' in the environment")
        assert "inflated=5'" in limits.inflated_hint(5)


@pytest.mark.usefixtures("zeros")
def test_what_refuses_an_edit_keeps_the_hint(fatpack: Fatpack) -> None:
    ran = fatpack("remove", "zeros", "-o", "x")
    assert ran.code == 3
    assert "use --max-inflated" in ran.err
    assert ran.err.endswith("; nothing was removed\n")
    with pytest.raises(library.FatpackError, match=r"max_inflated.*; nothing was converted"):
        library.convert("zeros", "x", format="offload-binary")


def test_budgets_nest() -> None:
    with limits.sources_with_budget(limits.Budget(1)):
        with limits.sources_with_budget(limits.Budget(2)):
            assert limits.current_budget().inflated == 2
        assert limits.current_budget().inflated == 1
    assert limits.current_budget().inflated is None


def test_an_error_carries_the_limit(zeros: Path) -> None:
    from fatpack.formats.clang_bundle import parse
    from fatpack.io.open import open_source

    with open_source(zeros) as source, pytest.raises(LimitExceeded, match="at most "):
        parse(source.view())
