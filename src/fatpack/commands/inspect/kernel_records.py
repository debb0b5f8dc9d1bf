"""The kernels of a file's images as records, with what each needs if that is wanted.

Images with the same bytes are read once. Damage is a finding beside the kernels that could be read.
"""

from __future__ import annotations

from fatpack import images
from fatpack.errors import FormatError
from fatpack.findings import code_for_error, finding
from fatpack.io.source import Span
from fatpack.scanner.results import NAMED_BY_CONTAINERS, kernel_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.commands.inspect.listing import KernelNames, KernelRecord
    from fatpack.images.kernel import KernelNeeds
    from fatpack.io.source import Source, View
    from fatpack.model import Finding, Image
    from fatpack.scanner import FoundImage

    #: the kernels of an image, and the findings about them
    KernelCache = tuple[KernelNames, list[Finding]]


class KernelRecords:
    """The kernels of the images that were read, until they are forgotten.

    ``has_facts`` adds what each needs; ``has_sizes`` only the sizes of their code, by name.
    """

    def __init__(self, *, has_facts: bool, has_sizes: bool = False) -> None:
        self._has_facts = has_facts
        self._has_sizes = has_sizes
        #: with the findings about them, until the kernels are needed
        self._known: dict[tuple[Source, int, int], KernelCache] = {}

    def forget(self, most: int = 0) -> None:
        """Forget all images, if there are more than so many."""
        if len(self._known) > most:
            self._known.clear()

    def none(self) -> KernelNames:
        """Return the record of an image that has no kernels."""
        if self._has_sizes:
            return {"kernels": [], "kernel_facts": {}}
        return {"kernels": [], "kernel_facts": [], "made_by": []} if self._has_facts else {"kernels": []}

    def of(self, view: View, form: str, image: Image | None = None) -> KernelCache:
        """Return the kernels of an image; findings come with them once. ``image`` is the image of a container."""
        place = (view.source, view.start, view.end)
        record, found = self._known.get(place) or self._read(view, form, image)
        self._known[place] = record, []
        return record, found

    def read_ahead(self, image: FoundImage) -> None:
        """Read the kernels of an image that was just inflated, and let its bytes go.

        The images of one container may be too many for all of them to be kept until the last is inflated.
        """
        view = image.data
        place = (view.source, view.start, view.end)
        if place not in self._known:
            self._known[place] = self._read(view, kernel_form(image), image.as_stored)
            view.source.release_buffers()

    def _read(self, view: View, form: str, image: Image | None) -> KernelCache:
        record = self.none()
        try:
            if self._has_facts and form not in NAMED_BY_CONTAINERS:
                return self._facts(view, form)
            if self._has_sizes and form not in NAMED_BY_CONTAINERS:
                sizes = images.code_sizes(view, form)
                return {"kernels": list(sizes), "kernel_facts": sizes}, []
            stored = image.record if image is not None and form in NAMED_BY_CONTAINERS else None
            record["kernels"] = names = list(kernel_names(view, form, stored))
            if self._has_facts:  # a module says of its kernels only their names
                from fatpack.images.kernel import KernelNeeds

                record["kernel_facts"] = _records([KernelNeeds(name) for name in names])
        except FormatError as error:
            return record, [_damage(view, error)]
        return record, []

    def _facts(self, view: View, form: str) -> KernelCache:
        """Return the kernels of an image with the facts. Raises FormatError when what names them is damaged."""
        try:
            facts = images.facts(view, form)
        except FormatError as error:
            names = list(images.kernels(view, form))
            return {**self.none(), "kernels": names}, [_damage(view, error)]
        names = [kernel.name for kernel in facts.kernels]
        record: KernelNames = {
            "kernels": names,
            "kernel_facts": _records(facts.kernels),
            "made_by": list(facts.made_by),
        }
        return record, [finding("FP1106", view.span(), text) for text in facts.contradictions]


def kernel_form(image: FoundImage) -> str:
    """Return the form as which the kernels of an image are read: that of its bytes, or else the one it is stored as.

    Bytes that are nothing known are then no image without kernels, but one whose kernels cannot be read.
    """
    return "" if image.info is images.NOT_INFLATED else image.form


def unread_finding(span: Span, error: FormatError) -> Finding:
    """Return the finding for an image that cannot be read: damage, or a limit."""
    return finding(code_for_error("FP1104", error), span, error.describe(), error.hint)


def _damage(view: View, error: FormatError) -> Finding:
    """Return the finding for an image whose kernels cannot be read."""
    span = view.span() if error.offset is None else Span(error.offset, view.end, error.chain)
    return unread_finding(span, error)


def _records(kernels: Sequence[KernelNeeds]) -> list[KernelRecord]:
    """Return the records of kernels: their fields, sizes as lists, banks of constants by their number as text."""
    if not kernels:
        return []
    from operator import attrgetter

    fields = type(kernels[0])._fields
    values = attrgetter(*fields)
    records: list[Any] = [dict(zip(fields, values(kernel), strict=True)) for kernel in kernels]
    for record in records:
        for field in ("required_threads", "cluster"):
            if record[field]:
                record[field] = list(record[field])
        if record["constants"] is not None:
            record["constants"] = {str(bank): size for bank, size in record["constants"]}
    return records
