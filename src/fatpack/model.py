"""The data model of containers, which readers of all formats return and writers take. No I/O, no knowledge of formats.

A *container* contains *images*; an image is one device binary for one *target*. A container is in a *host* (an object,
an archive, …) or is a file of its own. Offsets and sizes are bytes; spans are half open, and absolute in the file or in
the innermost decompressed source.
"""

from __future__ import annotations

from fatpack.io.source import Span
from fatpack.record import LazyRecord, Record, is_pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fatpack.io.source import View


__all__ = ["PTX_FORMS", "Container", "Finding", "Image", "Label", "Span", "Target", "arch_name"]

#: Default of attributes: one shared read-only mapping. (``types.MappingProxyType``, without its import.)
_NOTHING: Mapping[str, str] = type(type.__dict__)({})


#: Forms of PTX; the second is what CUDA fat binaries call PTX for a device link.
PTX_FORMS = ("ptx", "relocatable-ptx")


class Target(Record):
    """The target of an image, as stored in the file.

    ``triple`` and ``arch`` are the stored strings ("" if absent), ``arch`` with its features
    (``gfx90a:sramecc+:xnack-``); ``offload`` is the programming model: cuda, hip, openmp, sycl, none, or
    ``kind 7 (unknown)``. ``spelling`` is the whole target if a format stores it as one string (a bundle ID), else "".
    Nothing is normalised: ``fatpack.targets`` does that.
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


def arch_name(arch: str, form: str) -> str:
    """Return a stored architecture as users and patterns name it: PTX for ``sm_90`` is ``compute_90``.

    nvcc names the virtual architecture of PTX ``compute_XY``; CUDA fat binaries and cuobjdump store ``sm_XY`` for it.
    Every listing, table, report and file name has the name from here, so that PTX and machine code are never one group.
    """
    if form not in PTX_FORMS or "sm_" not in arch:
        return arch
    if arch.startswith("sm_") and "," not in arch:
        return f"compute_{arch[3:]}"
    return ",".join(f"compute_{part[3:]}" if part.startswith("sm_") else part for part in arch.split(","))


class Finding(Record):
    """A message of a reader about a file: a stable ``code`` (see ``fatpack.findings``), and its location.

    ``severity`` is ``error`` (data is lost or unreadable), ``warning`` (likely a mistake) or ``note``. ``field``: the
    field of the format that is wrong; ``section``: the section of the host that contains it; both may be "". ``count``:
    the number of findings that this one represents. A mistake of a producer can occur a million times, so findings of
    one code are only counted after the first ones (:class:`fatpack.findings.FindingTally`).
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

    ``data``: the bytes after decompression, which reading decompresses. ``form``: their kind (cubin, ptx, object,
    bitcode, spirv, fatbin, …; "" if unknown). ``size``: their number. ``stored_size``: the number of bytes in the file
    (None if only a whole container was compressed). ``compression``: None, "zlib", "zstd" or "lz4". ``span``: the
    location of the stored bytes. ``attrs``: further key-value pairs of the format. ``record``: data of the format
    beyond this model, which makes rewriting lossless; None for an image from elsewhere.
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
) = Image.setters()
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
    """Return an image whose ``data``, ``span``, ``attrs``, ``record`` and ``size`` may be computed on first access.

    ``function(*values)`` returns them as a dictionary with these keys; arguments that are not None are set at once. A
    library has thousands of images, and listing them needs only their targets, sizes and locations. Pass ``data`` for
    an image that is not compressed, and ``span`` for a compressed one if the location is known.
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
    """Return whether an image has its own compression, and its ``data`` was not accessed yet; inflates nothing."""
    return image.compression is not None and is_pending(image)


class Container(LazyRecord):
    """One container: its ``format``, its ``version`` in the producer's numbering, and its images in stored order.

    ``span`` covers the whole container with padding. ``unknown``: spans that no field of the format describes;
    rewriting keeps their bytes if ``record``, the format's own data, says so. ``findings``: irregularities that did not
    prevent reading.
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
        """True for a fat object: a bundle whose images are the sections of an object file."""
        return self.attrs.get("flavour") == "object"

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), _picklable(self._values())


_put_format, _put_version, _put_images, _put_place, _put_features, _put_unknown, _put_findings, *_ = Container.setters()


def lazy_container(
    format: str,
    version: int,
    images: tuple[Image, ...],
    span: Span,
    attrs: Mapping[str, str],
    function: Callable[..., Mapping[str, object]],
    *values: object,
) -> Container:
    """Return a container without findings and unknown spans whose ``record`` is computed on first access.

    ``function(*values)`` returns it as a dictionary with that key; see :func:`lazy_image`.
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


class CombinedContainer(Record):
    """A container made from several sections of a host, with its bytes.

    ``section`` and ``index`` are the section's name and number; None for a fat object, which has several.
    """

    container: Container
    data: View
    section: str | None = None
    index: int | None = None


def _picklable(values: tuple[object, ...]) -> tuple[object, ...]:
    """Return values with a dictionary instead of the read-only mapping, which cannot be pickled."""
    return tuple({} if value is _NOTHING else value for value in values)


class Label(Record):
    """The meaning of the bytes of ``span``: one row of a byte map.

    ``name`` is the path of the field (``entry[2].image_size``), ``value`` the decoded value as text, ``doc`` the
    field's documented meaning. ``kind`` is ``field``, ``data`` (an image, a string table), ``padding`` or ``unknown``.
    The labels of a file cover every byte once.
    """

    span: Span
    name: str
    value: str = ""
    doc: str = ""
    kind: str = "field"


# Byte maps that cover every byte of a file once


def fill_gaps(view: View, labels: Iterable[Label], at: int = 0) -> Iterator[Label]:
    """Yield labels for every byte of a view from position ``at`` on, once, in order.

    ``labels`` may be in any order, overlap, or lie outside the view: parts that overlap an earlier label or an end of
    the view are cut. Gaps are ``padding`` if all their bytes are zero, else ``unknown``.
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
    """Return the label of a gap between two positions; reads it up to the first byte that is not zero."""
    span, size = view.span(start, end - start), end - start
    if view.is_zero(start, size):
        words, doc = f"{size} zero byte{'' if size == 1 else 's'}", "between parts that fields describe"
        return Label(span, "padding", words, doc, "padding")
    return Label(span, "unknown", f"{size} bytes", "bytes that no field describes", "unknown")
