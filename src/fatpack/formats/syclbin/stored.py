"""What a SYCLBIN file stores beyond the common model, kept so that a rewrite loses nothing."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Container, Image


class AbstractModule(Record):
    """An abstract module, which binds images that share properties: its number, and the text of its property sets."""

    number: int
    metadata: View


class SyclbinHeader(Record):
    """What a file says besides its images; kept in ``Container.record`` for lossless rewriting.

    ``body`` is the whole file, ``state`` the number of its state as it is stored, None if none is. ``is_padded`` says
    whether a file of version 1 ends at a multiple of eight as its writers have it, and ``padding`` are the bytes in the
    middle of its header, which they do not set. ``outer`` is the offload binary that a file of version 2 is.
    """

    body: View
    global_metadata: View | None
    state: int | None
    modules: tuple[AbstractModule, ...] = ()
    is_padded: bool = True
    padding: int = 0
    outer: Container | None = None


class NewModules(Record):
    """Property sets of abstract modules that are to be written, by their numbers."""

    metadata: Mapping[int, bytes]


class SyclbinEntry(Record):
    """An image as it is stored: its role, its abstract module (None if no module names it) and its property sets.

    ``at`` is where its header stands in a file of version 1, in one of version 2 the number of its entry; ``outer`` is
    what the offload binary around it holds.
    """

    role: str
    module: int | None
    metadata: View
    data: View
    at: int = 0
    outer: Image | None = None
