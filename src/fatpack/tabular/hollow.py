"""Hollow kernels: kernels that do nothing on one architecture, and something on another one of the same file.

``#if __CUDA_ARCH__`` takes the bodies of kernels away, and the launch still succeeds: results stay as they were. A
kernel that does nothing anywhere is none, nor is one that is small everywhere.

=======  =============================================================================================================
certain  its code only returns, traps or loops (:mod:`fatpack.images.hollow`), and that for another one does more
likely   its code has at most 512 bytes, and that for another one at least 4,096: a few instructions, and a message
=======  =============================================================================================================
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Bytes of machine code: a kernel of at most so many is likely to be hollow beside one of at least so many.
SMALL, LARGE = 512, 4096

#: what is certain of a body → the words for it
WORDS = {"returns": "only returns", "traps": "only traps", "loops": "only loops for ever", "unreachable": "has no end"}


class KernelCode(Record):
    """The code of one kernel in one image: ``label`` is sm_90 or compute_90, ``size`` in bytes, None for a text."""

    name: str
    label: str
    size: int | None
    body: str | None


class HollowKernel(Record):
    """A kernel that does nothing for ``label``: ``words`` say how that shows, ``other`` is where it does something."""

    name: str
    label: str
    words: str
    other: str
    is_certain: bool

    @property
    def verdict(self) -> str:
        """The verdict in words, with how it shows: ``certain: only returns``, ``likely: 96 bytes, 5,120 on sm_90``."""
        return f"{'certain' if self.is_certain else 'likely'}: {self.words}"


def find_hollow(codes: Iterable[KernelCode]) -> Iterator[HollowKernel]:
    """Yield the hollow kernels among the kernels of one file, each once for an architecture."""
    of_name: dict[str, dict[str, KernelCode]] = {}
    for code in codes:
        # Of two kernels of one name for one architecture that with more code counts: another container has its own.
        known = of_name.setdefault(code.name, {}).setdefault(code.label, code)
        if (known.body is not None and code.body is None) or (known.size or 0) < (code.size or 0):
            of_name[code.name][code.label] = code
    for variants in of_name.values():
        working = [code for code in variants.values() if code.body is None]
        if not working:
            continue
        most = max(working, key=lambda code: code.size or 0)
        for code in variants.values():
            if code.body is not None:
                yield HollowKernel(code.name, code.label, WORDS[code.body], most.label, is_certain=True)
            elif code.size is not None and code.size <= SMALL and (most.size or 0) >= LARGE:
                words = f"{code.size} bytes, {most.size:,} on {most.label}"
                yield HollowKernel(code.name, code.label, words, most.label, is_certain=False)
