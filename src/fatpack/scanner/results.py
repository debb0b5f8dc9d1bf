"""Results of a scan: containers with their location, and their images with form, target and kernels.

Images can contain containers and hosts; ``enter``, a callback from :mod:`fatpack.scanner.scan_host`, scans those.
"""

from __future__ import annotations

from fatpack import images, limits
from fatpack.errors import FormatError, Unsupported, format_hex, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.model import Finding, arch_name, is_not_inflated
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.errors import HostError
    from fatpack.images import ImageInfo
    from fatpack.images.kernel import KernelNeeds
    from fatpack.io.source import Source, Span, View
    from fatpack.model import Container, Image, Target

    EnterCallback: TypeAlias = "Callable[[View, str], tuple[FoundContainer | Finding, ...]]"


#: Forms of which only the container, or the module around it, names the kernels, and nothing else is known of them.
NAMED_BY_CONTAINERS = ("cir", "air")


class FoundContainer(Record):
    """A container and its location.

    ``view``: the bytes of the container.
    ``host``: the format of the file around it (``raw``: none).
    ``section``, ``index``, ``member``: name and number of the section (None outside sections), and the archive member.
    ``images``: its images, identified, with the containers inside them. For a container compressed as a whole, images
    are identified on first access, because that requires decompressing it.
    ``member_numbers``: the numbers of the members that lead to it, outermost archive first; names may occur twice.
    ``host_attrs``: names and values that the host has for the container.
    """

    container: Container
    view: View
    host: str
    section: str | None
    member: str | None
    index: int | None
    images: tuple[FoundImage, ...] | LazyImages
    member_numbers: tuple[int, ...] = ()
    host_attrs: tuple[tuple[str, str], ...] = ()

    @property
    def format(self) -> str:
        """The container's format, by its JSON name: ``cuda-fatbin``."""
        return self.container.format

    @property
    def version(self) -> int:
        """The format's version, as its producer numbers it."""
        return self.container.version

    @property
    def span(self) -> Span:
        """The range of the whole container, with its padding."""
        return self.container.span

    @property
    def attrs(self) -> Mapping[str, str]:
        """The further key-value pairs that the container stores."""
        return self.container.attrs

    def __repr__(self) -> str:
        count = len(self.container.images)
        return f"<{self.format} v{self.version} at {format_hex(self.span.start)}, {pluralize(count, 'image')}>"


class FoundImage(Record):
    """An image, its identification, and the containers and findings inside it (``items``, as of a file).

    ``as_stored`` is the image as described by its container, with target, data, and size. A compressed image that its
    container describes has ``images.NOT_INFLATED`` as ``info`` until :func:`inflate_image`.
    """

    as_stored: Image
    info: ImageInfo
    items: tuple[FoundContainer | Finding, ...] = ()

    def __repr__(self) -> str:
        target = self.target
        named = target.replace(arch=self.label).canonical
        words = (target.offload, named, self.form or "of unknown form", pluralize(self.size, "byte"))
        return f"<image {', '.join(word for word in words if word)}>"

    @property
    def containers(self) -> tuple[FoundContainer, ...]:
        """The containers inside the image, in file order."""
        return tuple([item for item in self.items if not isinstance(item, Finding)])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings about the image and about what is inside it, in file order."""
        return tuple([item for item in self.items if isinstance(item, Finding)])

    @property
    def target(self) -> Target:
        """The target of the image, according to its container."""
        return self.as_stored.target

    @property
    def form(self) -> str:
        """The form of the bytes (``cubin``, ``ptx``, …); if they were not identified, according to the container."""
        return self.info.form or self.as_stored.form

    @property
    def data(self) -> View:
        """The bytes of the image, read (and decompressed) on access, as long as the file is open."""
        return self.as_stored.data

    def read(self, size: int = -1) -> bytes:
        """Return the image's bytes after decompression, or the first ``size`` of them, while the file is open."""
        return self.data.tobytes() if size < 0 else self.data.head(0, size)

    @property
    def label(self) -> str:
        """The architecture as patterns name it: ``sm_90a``, ``compute_90`` for PTX, ``gfx90a:xnack+``."""
        return arch_name(self.target.arch, self.form)

    @property
    def size(self) -> int:
        """The number of its bytes, after decompression."""
        return self.as_stored.size

    @property
    def stored_size(self) -> int | None:
        """The number of bytes in the file; None if the container is compressed as a whole."""
        return self.as_stored.stored_size

    @property
    def compression(self) -> str | None:
        """The compression in the file: None, "zlib", "zstd", "lz4"."""
        return self.as_stored.compression

    @property
    def span(self) -> Span:
        """The range of the stored bytes."""
        return self.as_stored.span

    @property
    def attrs(self) -> Mapping[str, str]:
        """The further key-value pairs of its container's format."""
        return self.as_stored.attrs

    @property
    def kernels(self) -> tuple[KernelNeeds, ...]:
        """The kernels in stored order, each with its resource requirements; () for forms without a table of kernels.

        Reads the tables of the whole image. Raises FormatError if they are damaged.
        """
        if self.form not in NAMED_BY_CONTAINERS:
            return images.kernel_facts(self.data, self.form)
        from fatpack.images.kernel import KernelNeeds

        return tuple(map(KernelNeeds, self.kernel_names))

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of the kernels; reads only the tables of names."""
        return kernel_names(self.data, self.form, self.as_stored.record)


def kernel_names(view: View, form: str, record: object = None) -> tuple[str, ...]:
    """Return the names of the kernels in an image of a form; ``record`` is its entry in the container.

    () for forms without names of kernels. Raises FormatError if the table of names is damaged.
    """
    if form == "air":
        name = getattr(record, "name", "")
        return (name,) if name and getattr(record, "type", "") == "kernel" else ()
    if form != "cir":
        return images.kernels(view, form)
    from fatpack.formats import cir

    return cir.kernel_names(view, record)


class LazyImages:
    """The images of a container that is compressed as a whole: they are identified on first access."""

    __slots__ = ("_found", "_scans", "_stored", "has_scanned")

    def __init__(self, stored: Sequence[Image], enter: EnterCallback) -> None:
        self._stored = stored
        self._scans = enter
        #: whether a container or a host file in an image was scanned
        self.has_scanned = False
        self._found: tuple[FoundImage, ...] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # The callback cannot be pickled, so the images are identified here.
        return tuple, (self._recognised(),)

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[FoundImage]:
        return iter(self._recognised())

    def __getitem__(self, index: int) -> FoundImage:
        return self._recognised()[index]

    @property
    def size(self) -> int:
        """The bytes of all images, decompressed."""
        return sum([image.size for image in self._stored])

    def _recognised(self) -> tuple[FoundImage, ...]:
        if self._found is None:
            self._found = _recognise_now(self._stored, self._enter)
        return self._found

    def _enter(self, view: View, form: str) -> tuple[FoundContainer | Finding, ...]:
        self.has_scanned = True
        return self._scans(view, form)


def bytes_to_inflate(found: FoundContainer | Finding) -> int:
    """Return the bytes of images that another process can read for a container; 0 if only this process can.

    Of a container that is compressed as a whole only the process that has read it knows: see :func:`has_files`.
    """
    if isinstance(found, Finding) or (not isinstance(found.images, LazyImages) and has_files(found)):
        return 0
    return bytes_of_images(found)


def bytes_of_images(found: FoundContainer) -> int:
    """Return the bytes that reading all images of a container takes, by its own account."""
    if isinstance(found.images, LazyImages):
        return min(found.images.size, limits.INFLATED)
    return sum([min(image.as_stored.size, limits.INFLATED) for image in found.images])


def has_files(found: FoundContainer) -> bool:
    """Return whether containers, or files that were scanned for them, are in images of a container.

    Only the process that scanned them knows what their scan has noted.
    """
    if any(image.containers for image in found.images):
        return True
    return isinstance(found.images, LazyImages) and found.images.has_scanned


def identify_images(stored: Sequence[Image], enter: EnterCallback | None) -> tuple[FoundImage, ...] | LazyImages:
    """Identify images; those in a compressed stream are identified on first access.

    ``enter`` scans the contents of an image of a form; with None no image is read.
    """
    if enter is None:
        return tuple([FoundImage(image, images.UNKNOWN) for image in stored])
    if not stored:
        return ()
    if stored[0].form == "air" and all(image.form == "air" for image in stored):
        # The list of a Metal library says of its functions what reading them would, and there are tens of thousands.
        return tuple([FoundImage(image, _stated(image.target)) for image in stored])
    if is_not_inflated(stored[0]):
        if all(image.form and is_not_inflated(image) for image in stored):
            return tuple([FoundImage(image, images.NOT_INFLATED) for image in stored])
    elif stored[0].data.source.is_streamed:
        return LazyImages(stored, enter)
    return _recognise_now(stored, enter)


def _stated(target: Target) -> ImageInfo:
    return images.ImageInfo("air", target.arch, target.triple, detail="bitcode of AIR")


def _recognise_now(stored: Sequence[Image], enter: EnterCallback) -> tuple[FoundImage, ...]:
    """Return images, each with its identification, and with the containers that were found inside it.

    Entries may share their bytes, so each span is read once; of images that overlap otherwise only the first is read
    (invariant 3 of the scanner). Entries of 40 bytes that all point into one container full of such entries would make
    work grow exponentially with the nesting.

    An image that its container describes is not decompressed: a CUDA library has thousands (:func:`inflate_image`).
    """
    if len(stored) == 1:
        return (_recognise_alone(stored[0], stored, enter),)
    seen: dict[tuple[tuple[str, ...], int, int], tuple[ImageInfo, tuple[FoundContainer | Finding, ...]]] = {}
    reached: dict[tuple[str, ...], int] = {}
    reported: FormatError | Unsupported | None = None
    placed = [((span.source, span.start, span.end), image) for image in stored for span in (image.span,)]
    for place, image in sorted(placed, key=_start):
        if place in seen:
            continue
        chain, start, end = place
        if image.size and start < reached.get(chain, 0):
            seen[place] = (images.UNKNOWN, ())
            continue
        if image.form and (is_not_inflated(image) or not image.data.source.is_at_hand):
            seen[place] = (images.NOT_INFLATED, ())
            continue
        try:
            seen[place] = _recognise(image, enter)
        except (FormatError, Unsupported) as error:
            # Neighbours of a damaged compressed image may be intact. A stream that they share is reported once.
            seen[place] = (images.UNKNOWN, (finding_from_error(error, image.span),) if error is not reported else ())
            reported = error
            continue
        reached[chain] = max(reached.get(chain, 0), end)
    results = []
    for place, image in placed:
        recognised, inside = seen[place]
        wrong = () if recognised is images.NOT_INFLATED else _disagreements(image, recognised, stored)
        results.append(FoundImage(image, recognised, (*wrong, *inside)))
        # The contents belong to the first image of a span: each level would multiply them otherwise.
        seen[place] = (recognised, ())
    return tuple(results)


def _recognise_alone(image: Image, stored: Sequence[Image], enter: EnterCallback) -> FoundImage:
    """Identify the only image of a container, which shares its bytes with no other."""
    if image.form and (is_not_inflated(image) or not image.data.source.is_at_hand):
        return FoundImage(image, images.NOT_INFLATED)
    try:
        recognised, inside = _recognise(image, enter)
    except (FormatError, Unsupported) as error:
        recognised, inside = images.UNKNOWN, (finding_from_error(error, image.span),)
    return FoundImage(image, recognised, (*_disagreements(image, recognised, stored), *inside))


def _start(placed: tuple[tuple[tuple[str, ...], int, int], Image]) -> int:
    """Return the offset of an image."""
    return placed[0][1]


def inflate_image(found: FoundImage, neighbours: Sequence[Image] = ()) -> FoundImage:
    """Return an image that was listed without decompressing it (``images.NOT_INFLATED``), decompressed and identified.

    ``neighbours`` are the images of its container. Raises FormatError if the compressed data is damaged, Unsupported if
    the compression is not supported.
    """
    recognised = images.identify_image(found.data)
    wrong = _disagreements(found.as_stored, recognised, neighbours)
    return found.replace(info=recognised, items=(*wrong, *found.items))


def checked_against_container(found: FoundImage, holder: Source, neighbours: Sequence[Image] = ()) -> FoundImage:
    """Compare the first bytes of an image that was listed without decompressing it with its container's metadata.

    ``holder`` is the source of its container, ``neighbours`` are the images of that. Contradictions are added to
    ``items``; ``info`` stays ``images.NOT_INFLATED``. Raises as :func:`inflate_image` does.
    """
    from fatpack.images import peek

    recognised = peek.identify_by_head(found.as_stored, holder)
    wrong = tuple(_disagreements(found.as_stored, recognised, neighbours))
    return found.replace(items=(*wrong, *found.items)) if wrong else found


def _disagreements(image: Image, recognised: ImageInfo, neighbours: Sequence[Image]) -> Iterable[Finding]:
    """Return a finding for each contradiction between an image and its container's metadata."""
    target = image.target
    if (
        image.form == recognised.form
        and recognised.triple in ("", target.triple)
        and recognised.arch in ("", target.arch)
        and (recognised.size is None or recognised.size <= image.size)
    ):
        return ()  # most images agree with their metadata, or have none
    from fatpack.images.container_mismatch import mismatch_findings

    return mismatch_findings(image, recognised, neighbours)


def _recognise(image: Image, enter: EnterCallback) -> tuple[ImageInfo, tuple[FoundContainer | Finding, ...]]:
    """Identify an image, and return the containers in it. Raises FormatError if it cannot be decompressed."""
    view = image.data
    recognised = images.identify_image(view)
    may_hold = recognised.container or recognised.form in ("cir", "object")
    if recognised.form == "archive":
        # A compressed archive contains device binaries only, and finding them would decompress all of it.
        may_hold = image.compression is None or image.stored_size is None
    if may_hold:
        # An image that its container calls a module is not a file of its own.
        return recognised, enter(view, "module" if image.form == recognised.form == "cir" else recognised.form)
    return recognised, ()


def finding_from_error(error: FormatError | Unsupported | HostError, span: Span) -> Finding:
    """Return the finding for an error, at the error's own offset if it has one, else at ``span``."""
    if isinstance(error, FormatError) and error.offset is not None:
        start = error.offset
        span = span.replace(start=start, end=max(span.end, start))
        message = f"{error.format}: {error.describe()}" if error.format else error.describe()
        return finding(code_for_error("FP1001", error), span, message, error.hint, field=error.field)
    if isinstance(error, FormatError):
        return finding(code_for_error("FP1001", error), span, error.describe(), error.hint, field=error.field)
    return finding("FP1008" if isinstance(error, Unsupported) else "FP1001", span, error.problem, error.hint)
