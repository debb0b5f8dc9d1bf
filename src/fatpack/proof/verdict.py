"""What a proof says: what was compared, what differs, and which images the edited file keeps."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    ContainerFate = Literal["kept", "moved", "reduced", "emptied", "dropped"]


class Difference(Record):
    """One thing that is not as it must be.

    ``what`` says which rule is broken. ``address`` is the run-time address, None for what is not loaded; then
    ``offset`` is the position in the edited file, if there is one. ``expected`` and ``found`` are in words.
    """

    what: str
    address: int | None = None
    offset: int | None = None
    expected: str = ""
    found: str = ""


class ChangedRange(Record):
    """A range of addresses that may differ, from ``start`` to ``end``, and what lay or lies there."""

    start: int
    end: int
    what: str


class ProvedImage(Record):
    """An image: its ``title`` as its container states it, its ``size`` in bytes and its SHA-256.

    ``container`` is the run-time address of its container in the file that was edited. ``is_inflated`` is true where
    size and digest are those of the inflated image, and not of the stored one. ``recompressed`` says that the edited
    file stores the same image in other bytes.
    """

    title: str
    container: int
    size: int
    digest: str
    is_inflated: bool = False
    recompressed: bool = False


class ProvedContainer(Record):
    """A container: its ``kind``, addresses and sizes in both files, and what became of it.

    ``records`` are the addresses of the records that lead to it: none for one that no record leads to. ``new`` is None
    and ``new_size`` 0 for a container that is gone.
    """

    kind: str
    old: int
    old_size: int
    new: int | None
    new_size: int
    fate: ContainerFate
    records: tuple[int, ...] = ()


class ProvedFile(Record):
    """One of the files: what it is called, its size in bytes and its SHA-256."""

    name: str
    size: int
    digest: str


class ProofResult(Record):
    """The result of a proof.

    ``is_proved`` is true if nothing differs that must not. ``differences`` are the first of what does,
    ``difference_count`` is how many there are. ``compared_size`` is how many bytes of memory were compared one by one,
    ``changed`` which ranges may differ, and by which rule; ``compared`` and ``not_compared`` say in sentences what the
    proof covers.
    """

    host: str
    before: ProvedFile
    after: ProvedFile
    is_proved: bool
    differences: tuple[Difference, ...]
    difference_count: int
    compared_size: int
    changed: tuple[ChangedRange, ...]
    containers: tuple[ProvedContainer, ...]
    kept: tuple[ProvedImage, ...]
    dropped: tuple[ProvedImage, ...]
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]
