"""Containers that are shared out: how much of a file is done follows from what they cost, not from where they lie."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.builders import offered

from fatpack.concurrency import processes
from fatpack.concurrency.progress import ReadProgress, read_state
from fatpack.io.open import open_source
from fatpack.scanner import scan
from fatpack.scanner.share import share_containers

FAT = offered.cuda("75 80 zstd")

#: Eleven containers in the last tenth of a file.
FAR = bytes(9 * 11 * len(FAT)) + FAT * 11


def steps(*, together: int = 1000, is_read: bool = True) -> list[tuple[int, bool]]:
    """Return the part that is done, in percent, and whether the rest is even, while each container is worked on."""
    states = []
    with pytest.MonkeyPatch.context() as patch, open_source(FAR) as source:
        patch.setattr(processes, "_TOGETHER", together)
        items = scan(source.view(), deep=True)
        shared = share_containers(items, lambda found, number: None, is_read=is_read, size=len(FAR))
        with closing(shared):
            for _ in shared:
                state = read_state()
                assert state is not None
                assert state.known == len(FAR)
                states.append((round(100 * state.done / state.known), state.is_even))
        assert read_state() is None
    return states


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_is_done_by_as_much_as_its_containers_cost(is_read: bool) -> None:
    assert steps(is_read=is_read) == [(round(100 * number / 11), True) for number in range(11)]


def test_while_more_containers_are_looked_for_nothing_is_known_of_the_rest() -> None:
    assert steps(together=4) == [(0, False)] * 8 + [(round(100 * number / 11), True) for number in (8, 9, 10)]


def test_without_a_size_nothing_is_noted_of_the_file() -> None:
    with ReadProgress(100, [50, 50]) as progress, open_source(FAT * 2) as source:
        with closing(share_containers(scan(source.view()), lambda found, number: None)) as shared:
            for _ in shared:
                pass
        state = read_state()
        assert state is not None
        assert state.done == 0
        progress.reach(1)
