"""What the files hold that stand in a command line: listed quickly, or not at all."""

from __future__ import annotations

import os
import stat
from time import monotonic

from fatpack.errors import FatpackError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.scanner.results import FoundImage

#: LIMIT: seconds for listing. Who presses TAB waits for it.
_PATIENCE = 0.5

#: LIMIT: bytes that are inflated for it.
_MOST_INFLATED = 64 << 20

#: LIMIT: files of a command line that are looked into.
_MOST_FILES = 8

#: What the names of targets are made of. Another name is not offered: a file must not decide what a shell runs.
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+-")


def values_in_files(what: str, files: Sequence[str], patience: float = _PATIENCE) -> list[str] | None:
    """Return every ``arch``, ``triple``, ``offload``, ``form``, ``kernel`` or bundle ``id`` in files, sorted.

    None if that cannot be told: a file cannot be read, holds nothing, or takes longer than a user waits. What is no
    file, as an output that is still to be made, is passed over.
    """
    files = [word for word in files[:_MOST_FILES] if _may_be(word)]
    if not files:
        return None  # before anything is loaded that reads files
    from fatpack.limits import raised_budget

    deadline = monotonic() + patience
    words: set[str] = set()
    try:
        with raised_budget(inflated=_MOST_INFLATED):
            for word in files:
                for found in _values_per_image(word, what):
                    words.update(found)
                    if monotonic() > deadline:
                        return None
    except (FatpackError, OSError, MemoryError):
        return None
    return sorted(word for word in words if word and _HARMLESS.issuperset(word)) or None


def _path(word: str) -> str:
    """Return the path that a word means: shells pass ``~`` and ``$HOME`` as they were typed."""
    path = os.path.expanduser(word)
    return path if "$" not in path or os.path.exists(path) else os.path.expandvars(path)


def _may_be(word: str) -> bool:
    """Return whether a word may name something in a file: of an address, what stands in front of its mark."""
    whole = _path(word)
    return any(os.path.isfile(part) for part in (whole, *(whole.partition(mark)[0] for mark in "(!#")))


def _values_per_image(word: str, what: str) -> Iterator[tuple[str, ...]]:
    """Yield words for each image of a file, or of a member that an address names; of what is no regular file, none."""
    from fatpack.scanner import scan
    from fatpack.scanner.results import FoundContainer
    from fatpack.scanner.standalone_images import standalone_image
    from fatpack.selectors.address import find_location, open_file, parse_address

    address = parse_address(_path(word), ranges=True, packages=True)
    if "://" in word or not stat.S_ISREG(os.stat(address.path).st_mode):
        return
    source, address = open_file(address)
    with source:
        view = find_location(source.view(), address).view
        alone = standalone_image(view)
        if alone is not None:
            yield _of_image(view, alone, what)
            return
        for item in scan(view, checks_registration=False):
            if isinstance(item, FoundContainer):
                yield from (_image_values(image, what) for image in item.images)


def _of_image(view: View, image: ImageInfo, what: str) -> tuple[str, ...]:
    """Return the words for an image that is a file of its own, as it says them itself."""
    from fatpack.scanner.results import kernel_names

    if what == "kernel":
        return kernel_names(view, image.form)
    return (str(getattr(image, what, "")),)


def _image_values(image: FoundImage, what: str) -> tuple[str, ...]:
    """Return the words for an image of a container."""
    if what == "kernel":
        return image.kernel_names
    if what == "id":
        from fatpack.selectors.bundle_id_match import image_id

        return (image_id(image.as_stored),)
    return (image.form if what == "form" else str(getattr(image.target, what) or ""),)
