"""Checks of content that listing does not read: compressed containers, on all cores."""

from __future__ import annotations

import os

from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import code_for_error, finding
from fatpack.io.open import open_source
from fatpack.io.source import is_in_file
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from fatpack.concurrency.threads import ThreadTasks
    from fatpack.io.source import View
    from fatpack.model import Container, Image
    from fatpack.scanner import FoundImage


class Verification:
    """The checks of all compressed containers among some items of a scan; they start when this is made.

    :meth:`findings` waits for them. Leaving the block early cancels the rest. Small containers were checked when they
    were read. Memory is bounded by the windows of the compressed streams (128 MB at most from LLVM), once per core.
    """

    def __init__(self, items: Sequence[FoundContainer | Finding]) -> None:
        self._items = items
        # Decompressed data shares its source with other readers, so threads must not read it.
        checks = [_check(found.container) for found in _unchecked(items) if _is_in_file(found)]
        self._tasks: ThreadTasks[list[Finding]] | None = None
        if checks:
            from fatpack.concurrency.threads import ThreadTasks

            self._tasks = ThreadTasks(checks)

    def findings(self) -> list[Finding]:
        """Return the findings: hashes, stray bytes, damaged streams. Containers inside images come last."""
        found = [item for findings in self._tasks or () for item in findings]
        for inner in _everything(self._items):
            if not _is_in_file(inner):
                found += _check(inner.container)()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks is not None:
            self._tasks.__exit__()


def verify_content(items: Sequence[FoundContainer | Finding]) -> list[Finding]:
    """Return findings about the content of all compressed containers among the items; damage does not raise."""
    with Verification(items) as checks:
        return checks.findings()


#: Codes of findings that compressed content differs from what was stored.
CONTENT_CODES = ("FP1304", "FP1305")


def content_findings(found: Sequence[FoundContainer]) -> list[Finding]:
    """Return findings about the content of compressed containers, from their reading or from checks made now.

    Call this before writing such content again: a new hash would hide the damage of its code.
    """
    checked = [item for one in found for item in one.container.findings if item.code in CONTENT_CODES]
    return [*checked, *(item for item in verify_content(found) if item.severity != "note")]


def _unchecked(items: Iterable[FoundContainer | Finding]) -> Iterator[FoundContainer]:
    """Yield the containers that were not checked when they were read, without reading their images."""
    from fatpack import formats

    for item in items:
        if not isinstance(item, Finding):
            check = formats.content_verifier(item.container.format)
            if check is not None and check.is_unchecked(item.container):
                yield item


def _everything(items: Iterable[FoundContainer | Finding]) -> Iterator[FoundContainer]:
    """Yield the unchecked containers among the items and inside their images, in file order."""
    yield from _unchecked(items)
    for item in items:
        if not isinstance(item, Finding):
            for image in item.images:
                yield from _everything(image.items)


def _is_in_file(found: FoundContainer) -> bool:
    return is_in_file(found.container.span.source)


def _check(container: Container) -> Callable[[], list[Finding]]:
    from fatpack import formats

    def run() -> list[Finding]:
        try:
            late = formats.content_verifier(container.format)
            return [] if late is None else late.verify(container)
        except FormatError as error:
            return [finding(code_for_error("FP1001", error), container.span, error.describe(), error.hint)]

    return run


def deferred_damage(found: Sequence[FoundImage], path: str = "") -> list[Finding]:
    """Return the damage of images that were listed without decompression, and decompressed to be written.

    ``path`` is the file that one of them was written to: its headers and tables of symbols are read from there, which
    avoids decompressing it again. Several images, in an archive, are read from their containers.
    """
    from fatpack import images

    late = [image for image in found if image.info is images.NOT_INFLATED]
    if len(late) == len(found) == 1 and os.path.isfile(path):
        with open_source(path) as source:
            return list(_damage(late[0].as_stored, source.view()))
    return [item for image in late for item in _damage(image.as_stored, image.as_stored.data)]


def container_damage_list(content: View) -> list[Finding]:
    """Return all damage of a container, in its images and in its compressed content, which reads all of it.

    Formats that this version does not read are not damage.
    """
    items = list(scan(content))
    found = [item for item in items if isinstance(item, FoundContainer)]
    wrong = [item for item in items if isinstance(item, Finding)]
    wrong += (item for item in content_findings(found) if item not in wrong)
    wrong += (item for one in found for image in one.images for item in _damage_in(image))
    return [item for item in wrong if item.severity == "error" and item.code != "FP1008"]


def _damage_in(image: FoundImage) -> list[Finding]:
    """Return the damage of an image, read to its last byte."""
    try:
        return list(_damage(image.as_stored, image.as_stored.data))
    except (Unsupported, HostError):
        return []
    except FormatError as error:
        return [
            finding(
                code_for_error("FP1104", error), image.as_stored.span, error.describe(), error.hint, field=error.field
            )
        ]


def _damage(image: Image, data: View) -> Iterator[Finding]:
    """Yield the findings of ``inspect`` about a damaged image."""
    from fatpack import images
    from fatpack.images.container_mismatch import mismatch_findings

    recognised = images.identify_image(data)
    cut = [item for item in mismatch_findings(image, recognised) if item.code == "FP1104"]
    yield from cut
    try:
        if not cut:
            images.kernels(data, recognised.form)
    except FormatError as error:
        yield finding(
            code_for_error("FP1104", error), image.span, error.describe(), error.hint, field=error.field or ""
        )
