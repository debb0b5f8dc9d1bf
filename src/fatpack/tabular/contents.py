"""The images of a file, read: inflated, digested, their kernels; as far as options ask for it and limits allow."""

from __future__ import annotations

from fatpack import images, limits
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import code_for_error as code_for
from fatpack.findings import finding
from fatpack.images import NOT_INFLATED, UNKNOWN
from fatpack.scanner import inflate_image
from fatpack.scanner.results import checked_against_container
from fatpack.tabular.of_kernels import has_kernel, read_image_kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from fatpack.images.images_kernel import KernelNeeds
    from fatpack.io.source import Source, Span, View
    from fatpack.model import Finding
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.tabular.options import RowOptions

    #: kernels of an image, and the digests of their code by their names
    _Kernels: TypeAlias = tuple[tuple[KernelNeeds, ...], dict[str, str]]
    #: columns that take reading an image, and its kernels
    ImageBytes: TypeAlias = tuple[dict[str, Any], _Kernels]

#: what is known of an image that is not read
NO_CONTENT: ImageBytes = {}, ((), {})


class ImageReader:
    """The images of one file; ``note`` gets what is wrong with them."""

    def __init__(self, options: RowOptions, room: int, note: Callable[[Finding], None]) -> None:
        self._options = options
        self._note = note
        #: how many more bytes of images are read: entries may share their bytes, and small streams be of large content
        self._room = room
        self._read_of: dict[tuple[Source, int, int], ImageBytes] = {}

    def forget(self) -> None:
        """Forget what was read: bytes are shared within a container."""
        self._read_of.clear()

    def inflated(self, found: FoundImage, around: FoundContainer) -> FoundImage:
        """Return an image that was only listed inflated and recognised, as far as that is wanted and can be done."""
        if not self._options.reads_images:
            # Asked first: the data of an image that is only listed is not even made.
            return _compared(found, around) if self._options.heads else found
        if found.recognised is not NOT_INFLATED or not found.size:
            return found
        if found.data.source.is_refused or not self._has_room(found):
            return found
        try:
            return inflate_image(found, around.container.images)
        except Unsupported:  # its container has the finding
            return found
        except FormatError as error:
            self._note(finding(code_for("FP1104", error), found.span, error.describe(), error.hint))
            return found

    def _has_room(self, found: FoundImage) -> bool:
        """Return whether an image is read; the first that is not, and all behind it, are a finding."""
        if self._room < 0:
            return False
        self._room -= found.size
        if self._room < 0:
            self._note(_too_much(found.span))
        return self._room >= 0

    def read(self, view: View, form: str, record: object, findings: list[Finding]) -> ImageBytes:
        """Return the columns that take reading an image, and its kernels with digests; shared bytes are read once."""
        options = self._options
        wants_kernels = options.reads_kernels
        place = (view.source, view.start, view.end)
        if place in self._read_of:
            return self._read_of[place]
        columns: dict[str, Any] = {}
        kernels: tuple[KernelNeeds, ...] = ()
        codes: dict[str, str] = {}
        try:
            has_room = options.digests and self._has_room_for(view)
            is_hashed = options.digest_sizes is None or len(view) in options.digest_sizes
            if has_room and is_hashed and self._options.of != "kernels":
                from fatpack.io.pieces import sha256_of_pieces

                columns["sha256"] = sha256_of_pieces([view]).hex()
            if wants_kernels:
                kernels, contradictions = read_image_kernels(view, form, record)
                findings += (finding("FP1106", view.span(), text) for text in contradictions)
                columns["kernel_count"] = len(kernels) if kernels or form != UNKNOWN.form else None
                if options.kernel:
                    columns["has_kernel"] = has_kernel(kernels, form, options.kernel)
                columns["registers_max"] = max((item.registers for item in kernels if item.registers), default=None)
            if has_room and (self._options.of == "kernels" or options.each_kernel):
                codes, data = images.code_digests(view, form, kernels)
                if options.each_kernel:
                    columns["data_sha256"] = data
        except Unsupported:  # its container has the finding
            pass
        except FormatError as error:
            findings.append(finding(code_for("FP1104", error), view.span(), error.describe(), error.hint))
        self._read_of[place] = columns, (kernels, codes)
        return columns, (kernels, codes)

    def _has_room_for(self, view: View) -> bool:
        if self._room >= 0:
            self._room -= len(view)
            if self._room < 0:
                self._note(_too_much(view.span()))
        return self._room >= 0


def _compared(found: FoundImage, around: FoundContainer) -> FoundImage:
    """Return an image that was only listed with what its first bytes contradict, and with the damage of these."""
    if found.recognised is not NOT_INFLATED or not found.size:
        return found
    try:
        return checked_against_container(found, around.view.source, around.container.images)
    except Unsupported:  # its container has the finding
        return found
    except FormatError as error:
        problem = finding(code_for("FP1104", error), found.span, error.describe(), error.hint)
        return found.replace(inside=(problem, *found.inside))


def _too_much(span: Span) -> Finding:
    """Return the finding for images of which no more are read."""
    text = "the images add up to more than is inflated of one file; from here on they are only listed"
    return finding("FP1005", span, text, limits.inflated_hint())
