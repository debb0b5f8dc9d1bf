"""The model every format and host is read into and written from. No I/O, no format knowledge.

A *container* holds *images*; an image is one device binary for one *target*. A container lies in a *host* (an
object, an archive, …) or is a file of its own. Offsets and sizes are bytes; spans are half open and absolute in
the innermost source that holds the bytes as such.
"""

from __future__ import annotations

from fatpack.io.source import Span
from fatpack.record import LazyRecord, Record, is_pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fatpack.io.source import View


# A container that is put together from sections of a host, and where it lies.


class CombinedContainer(Record):
    """A container, its own bytes, and the section it lies in by name and number; a fat object lies in none."""

    container: Container
    data: View
    section: str | None = None
    index: int | None = None


__all__ = ["Container", "Finding", "Image", "Label", "Span", "Target"]

#: The value of attributes nobody gave: one read-only mapping for all. (``types.MappingProxyType``, without its import.)
_NOTHING: Mapping[str, str] = type(type.__dict__)({})


class Target(Record):
    """What an image was made for, as the file spells it.

    ``triple`` and ``arch`` are the stored strings ("" when absent), ``arch`` with its features
    (``gfx90a:sramecc+:xnack-``); ``offload`` is the programming model: cuda, hip, openmp, sycl, none, or
    ``kind 7 (unknown)``. ``spelling`` is the whole target where a format stores it as one string (a bundle ID),
    else "". Nothing is normalised here: ``fatpack.targets`` compares and canonicalises.
    """

    triple: str = ""
    arch: str = ""
    offload: str = "none"
    spelling: str = ""

    @property
    def processor(self) -> str:
        """The architecture without features: ``gfx90a`` of ``gfx90a:xnack+``."""
        return self.arch.partition(":")[0]

    @property
    def features(self) -> tuple[str, ...]:
        """The features of a target ID in stored order, each with its sign: ``("xnack+",)``."""
        return tuple(part for part in self.arch.split(":")[1:] if part)

    @property
    def canonical(self) -> str:
        """One string for the target with features in alphabetical order, as clang spells target IDs."""
        if self.spelling and not self.triple:
            return self.spelling
        return "-".join(part for part in (self.triple, ":".join((self.processor, *sorted(self.features)))) if part)


class Finding(Record):
    """Something that a reader reports: a stable ``code`` (see ``fatpack.findings``), and where.

    ``severity`` is ``error`` (data is lost or unreadable), ``warning`` (likely a mistake) or ``note``. ``field`` is the
    field of the format that is wrong, ``section`` the section of the host that it lies in; "" where there is none.
    ``count`` is how many this one stands for: a file has a million of a kind where a producer made one mistake, and
    from some number on they are counted and not kept (:class:`fatpack.findings.FindingTally`).
    """

    code: str
    severity: str
    span: Span
    message: str
    hint: str = ""
    field: str = ""
    section: str = ""
    count: int = 1

    @property
    def text(self) -> str:
        """The message with its hint, as one line."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class Image(LazyRecord):
    """One device binary in a container.

    ``data`` gives the bytes after decompression, read when asked for. ``form`` says what they are (cubin, ptx,
    object, bitcode, spirv, fatbin, …; "" unknown), ``size`` how many, ``stored_size`` how many they take in the
    file (None when only a whole container was compressed), ``compression`` how (None, "zlib", "zstd", "lz4").
    ``span`` is where the stored bytes lie. ``attrs`` are the format's further key-value pairs. ``record`` is what
    the format stored beyond this model, kept so that a rewrite loses nothing; None for an image from elsewhere.
    """

    target: Target
    form: str
    data: View
    size: int
    stored_size: int | None
    span: Span
    compression: str | None = None
    attrs: Mapping[str, str] = _NOTHING
    record: object = None

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), _picklable(self._values())


(
    _put_target,
    _put_form,
    _put_data,
    _put_size,
    _put_stored_size,
    _put_span,
    _put_compression,
    _put_attrs,
    _put_record,
) = Image._setters
_put_late = LazyRecord._late.__set__  # the slot, not its value
_new = object.__new__


def lazy_image(
    target: Target,
    form: str,
    data: View | None,
    size: int | None,
    stored_size: int | None,
    compression: str | None,
    function: Callable[..., Mapping[str, object]],
    *values: object,
    span: Span | None = None,
    attrs: Mapping[str, str] | None = None,
    record: object = None,
) -> Image:
    """Return an image of which a function returns ``data``, ``span``, ``attrs`` and ``record``, by these names.

    So it does ``size``, where that is None; what is given of them is known at once.

    It is called with the values when one of them is first asked for. A library has thousands of images, and whoever
    lists them needs no more than their targets, sizes and places. An image that is not compressed has its ``data`` at
    once, and a compressed one the ``span`` of its stored bytes if whoever makes it knows it.
    """
    image = _new(Image)
    _put_target(image, target)
    _put_form(image, form)
    if size is not None:
        _put_size(image, size)
    if attrs is not None:
        _put_attrs(image, attrs)
    if record is not None:
        _put_record(image, record)
    _put_stored_size(image, stored_size)
    _put_compression(image, compression)
    _put_late(image, (function, *values))
    if data is not None:
        _put_data(image, data)
    known = span if span is not None or data is None else data.span()
    if known is not None:
        _put_span(image, known)
    return image


def is_not_inflated(image: Image) -> bool:
    """Return whether an image is compressed by itself, and nobody has asked for its ``data`` yet; asking reads none."""
    return image.compression is not None and is_pending(image)


class Container(LazyRecord):
    """One container: ``format`` and ``version`` as the producer numbers them, and its images in stored order.

    ``span`` covers the whole container with its padding. ``unknown`` are spans that no field of the format
    describes; their bytes are kept on a rewrite where ``record`` (the format's own) says so. ``findings`` are
    what is unexpected and did not prevent reading.
    """

    format: str
    version: int
    images: tuple[Image, ...]
    span: Span
    attrs: Mapping[str, str] = _NOTHING
    unknown: tuple[Span, ...] = ()
    findings: tuple[Finding, ...] = ()
    record: object = None

    @property
    def is_fat_object(self) -> bool:
        """Whether this is a fat object: a bundle whose images are sections of an object, which is the whole file."""
        return self.attrs.get("flavour") == "object"

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), _picklable(self._values())


_put_format, _put_version, _put_images, _put_place, _put_features, _put_unknown, _put_findings, *_ = Container._setters


def lazy_container(
    format: str,
    version: int,
    images: tuple[Image, ...],
    span: Span,
    attrs: Mapping[str, str],
    function: Callable[..., Mapping[str, object]],
    *values: object,
) -> Container:
    """Return a container in which nothing is unexpected, and whose ``record`` a function returns, by this name.

    It is called with the values when the record is first asked for; see :func:`late_image`.
    """
    container = _new(Container)
    _put_format(container, format)
    _put_version(container, version)
    _put_images(container, images)
    _put_place(container, span)
    _put_features(container, attrs)
    _put_unknown(container, ())
    _put_findings(container, ())
    _put_late(container, (function, *values))
    return container


def _picklable(values: tuple[object, ...]) -> tuple[object, ...]:
    """Return values with a dictionary in the place of the read-only mapping, which no process can pickle."""
    return tuple({} if value is _NOTHING else value for value in values)


class Label(Record):
    """What the bytes of ``span`` are: one row of a byte map.

    ``name`` is the path of the field (``entry[2].image_size``), ``value`` the decoded value in words, ``doc`` the
    field's documented meaning. ``kind`` is ``field``, ``data`` (an image, a string table), ``padding`` or
    ``unknown``. The labels of a file cover every byte once.
    """

    span: Span
    name: str
    value: str = ""
    doc: str = ""
    kind: str = "field"


# The map of all bytes: from labels of the parts that are known to labels that cover every byte once.


def fill_gaps(view: View, labels: Iterable[Label], at: int = 0) -> Iterator[Label]:
    """Yield labels for every byte of a view from position ``at`` on, once, in order.

    ``labels`` are those of its parts, in any order and, in a hostile file, anywhere: one that overlaps an earlier one,
    or an end of the view, is cut. What no part covers is ``padding`` if it is zero and ``unknown`` if not.
    """
    reached = view.start + at
    for label in sorted(labels, key=lambda label: (label.span.start, -label.span.end)):
        start, end = max(label.span.start, reached), min(label.span.end, view.end)
        if end <= start:
            continue
        if start > reached:
            yield gap_label(view, reached - view.start, start - view.start)
        is_whole = start == label.span.start and end == label.span.end
        yield label if is_whole else label.replace(span=label.span.replace(start=start, end=end))
        reached = end
    if reached < view.end:
        yield gap_label(view, reached - view.start, len(view))


def gap_label(view: View, start: int, end: int) -> Label:
    """Return the label of bytes between two positions that belong to no part; reads up to the first that is not 0."""
    span, size = view.span(start, end - start), end - start
    if view.is_zero(start, size):
        words, doc = f"{size} zero byte{'' if size == 1 else 's'}", "between parts that fields describe"
        return Label(span, "padding", words, doc, "padding")
    return Label(span, "unknown", f"{size} bytes", "bytes that no field describes", "unknown")
