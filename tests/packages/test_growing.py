"""Errors of members that are inflated on demand."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from fatpack.limits import UNCOUNTED
from fatpack.packages import members
from fatpack.packages.members import LazyInflatedMember

if TYPE_CHECKING:
    from collections.abc import Iterator


def source(pieces: Iterator[bytes], size: int | None = None) -> LazyInflatedMember:
    return LazyInflatedMember(lambda: pieces, size, "x", present=0, budget=UNCOUNTED)


def failing(error: BaseException) -> Iterator[bytes]:
    yield b"first"
    raise error


@pytest.mark.parametrize("size", [None, 5, 10])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), MemoryError(), KeyboardInterrupt()])
def test_what_failed_is_never_whole(error: BaseException, size: int | None) -> None:
    with source(failing(error), size) as member:
        for _ in range(2):
            with pytest.raises(type(error)):
                member.complete()
        assert member.read(0, 4) == b"firs"
        assert not member.is_complete


def test_a_piece_that_could_not_be_kept_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _data: object, _at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with source(iter([b"a" * members.MAX_IN_MEMORY, b"b", b"c"])) as member:
        assert member.beginning(1) == b"a"
        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                member.complete()
        assert member.read(1, 2) == b"aa"
        with pytest.raises(OSError, match="No space left"):
            member.complete()
