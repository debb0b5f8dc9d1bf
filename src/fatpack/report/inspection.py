"""What ``inspect`` says: one record of plain data per file, from which text and JSON are made.

The record's shape is ``fatpack.inspect/1``; ``inspect.schema.json`` beside this file describes it. Names may be added
within a version, never renamed or removed.
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.errors import FatpackError, FormatError
from fatpack.findings import finding
from fatpack.io import limits
from fatpack.io.source import is_in_file
from fatpack.model import Finding, Span
from fatpack.scan import host_of, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.io.source import View
    from fatpack.scan import Found, FoundImage

SCHEMA = "fatpack.inspect/1"


def inspection(view: View) -> dict[str, Any]:
    """Return the record of one file."""
    return _Inspection(view).record()


class _Inspection:
    """The record of a file in the making: its findings so far, and the kernels of images that were read."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.findings: list[Finding] = []
        self._kernels_of: dict[tuple[int, int, int], list[str]] = {}

    def record(self) -> dict[str, Any]:
        view = self.view
        containers = self._containers(list(scan(view)))
        image = None if containers else self._image_alone()
        if len(self.findings) > limits.FINDINGS:
            rest = len(self.findings) - limits.FINDINGS
            text = f"{rest} more findings are not listed"
            self.findings[limits.FINDINGS :] = [finding("FP1005", view.span(), text)]
        return {
            "path": view.chain[0] if view.chain else "",
            "size": len(view),
            "host": host_of(view),
            "format": formats.sniff(view.head(0, 24)),
            "image": image,
            "containers": containers,
            "findings": [_finding(item) for item in self.findings],
        }

    def _image_alone(self) -> dict[str, Any] | None:
        """Return what a file without containers is, if it is a device image itself."""
        recognised = images.recognise(self.view)
        if recognised.form in ("", "object", "empty") or recognised.container:
            return None
        # A damaged file has its finding already.
        kernels = [] if self.findings else self._kernels(self.view, recognised.form)
        return {
            "form": recognised.form,
            "triple": recognised.triple,
            "arch": recognised.arch,
            "detail": recognised.detail,
            "kernels": kernels,
        }

    def _containers(self, items: Sequence[Found | Finding]) -> list[dict[str, Any]]:
        self.findings += [item for item in items if isinstance(item, Finding)]
        return [self._container(item) for item in items if not isinstance(item, Finding)]

    def _container(self, found: Found) -> dict[str, Any]:
        container = found.container
        return {
            "format": container.format,
            "version": container.version,
            "host": found.host,
            "section": found.section,
            "section_index": found.index,
            "member": found.member,
            "offset": self._offset(container.span, found.view),
            "size": container.span.size,
            "attrs": dict(container.attrs),
            "stored": dict(formats.room(container.format).describe(container)),
            "images": [self._image(index, image) for index, image in enumerate(found.images)],
        }

    def _image(self, index: int, found: FoundImage) -> dict[str, Any]:
        image, target = found.image, found.image.target
        view: View = image.data  # type: ignore[assignment]
        inside = self._containers(found.inside)
        return {
            "index": index,
            "offload": target.offload,
            "triple": target.triple,
            "arch": target.arch,
            "form": found.form,
            "stored_form": image.form,
            "offset": self._offset(image.span, view),
            "stored_size": image.stored_size,
            "size": image.size,
            "compression": image.compression,
            "attrs": dict(image.attrs),
            "claims": {"triple": found.recognised.triple, "arch": found.recognised.arch},
            "detail": found.recognised.detail,
            "kernels": self._kernels(view, found.recognised.form),
            "containers": inside,
        }

    def _kernels(self, view: View, form: str) -> list[str]:
        """Return the kernels of an image; images that share their bytes are read once."""
        place = (id(view.source), view.start, view.end)
        if place not in self._kernels_of:
            names: list[str] = []
            try:
                names = list(images.kernels(view, form))
            except FormatError as error:
                span = view.span() if error.offset is None else Span(error.offset, view.end, error.chain)
                self.findings.append(finding("FP1104", span, error.describe(), error.hint))
            self._kernels_of[place] = names
        return self._kernels_of[place]

    def _offset(self, span: Span, view: View) -> int | None:
        """Return an absolute offset in the file, None for bytes that are not in it as such."""
        return span.start if view.source is self.view.source else None


def _finding(item: Finding) -> dict[str, Any]:
    return {
        "code": item.code,
        "severity": item.severity,
        "offset": item.span.start if is_in_file(item.span.source) else None,
        "message": item.message,
        "hint": item.hint,
        "where": list(item.span.source),
    }


def failure(path: str, error: FatpackError | OSError) -> dict[str, Any]:
    """Return the record of a file that could not be read at all."""
    from fatpack.report.problems import exit_code, message

    return {
        "path": path,
        "size": None,
        "host": None,
        "format": None,
        "image": None,
        "containers": [],
        "findings": [],
        "error": {"message": message(error), "exit_code": exit_code(error)},
    }
