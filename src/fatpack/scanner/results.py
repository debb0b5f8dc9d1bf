"""What a scan finds: containers and where they lie, and their images with what those turned out to be.

Images that hold containers or hosts are walked in turn, by what :mod:`fatpack.scanner.scan_host` hands in.
"""

from __future__ import annotations

import re

from fatpack import images, limits
from fatpack.binary.elf.quick_header import DYNSYM, SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import FormatError, LimitExceeded, Unsupported, format_hex, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.model import Finding, is_not_inflated
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


class FoundContainer(Record):
    """A container and where it lies.

    ``view`` are the container's own bytes, ``host`` the kind of file around it (``raw``: none), ``section`` and
    ``member`` the place in that host, ``index`` the section's number there (None outside sections). ``images`` are
    its images, recognised and with what they hold in turn; those of a container that is compressed as a whole are
    recognised when the first is looked at, which takes inflating it. ``member_numbers`` lead to the member, outermost
    archive first: names may occur twice. ``host_attrs`` are names and values of what the host says
    of the container.
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
        """Where the whole container lies, with its padding."""
        return self.container.span

    def __repr__(self) -> str:
        count = len(self.container.images)
        return f"<{self.format} v{self.version} at {format_hex(self.span.start)}, {pluralize(count, 'image')}>"


class FoundImage(Record):
    """An image, what its bytes turned out to be, and the containers and findings inside it.

    ``as_stored`` is the image as its container states it; target, data, size and the like are its own. A compressed
    one whose container says what it is has ``images.NOT_INFLATED`` for ``info`` until
    :func:`inflated`.
    """

    as_stored: Image
    info: ImageInfo
    inside: tuple[FoundContainer | Finding, ...] = ()

    def __repr__(self) -> str:
        target = self.target
        words = (target.offload, target.canonical, self.form or "of unknown form", pluralize(self.size, "byte"))
        return f"<image {', '.join(word for word in words if word)}>"

    @property
    def target(self) -> Target:
        """What the image was made for, as its container states it."""
        return self.as_stored.target

    @property
    def form(self) -> str:
        """What the bytes are: recognised, or as the container says where nothing was recognised."""
        return self.info.form or self.as_stored.form

    @property
    def data(self) -> View:
        """The image's bytes, read (and inflated) when they are asked for, as long as the file is open."""
        return self.as_stored.data

    @property
    def size(self) -> int:
        """The number of its bytes, after decompression."""
        return self.as_stored.size

    @property
    def stored_size(self) -> int | None:
        """The number of bytes it takes in the file; None where only a whole container was compressed."""
        return self.as_stored.stored_size

    @property
    def compression(self) -> str | None:
        """How it is compressed in the file: None, "zlib", "zstd", "lz4"."""
        return self.as_stored.compression

    @property
    def span(self) -> Span:
        """Where the stored bytes lie."""
        return self.as_stored.span

    @property
    def attrs(self) -> Mapping[str, str]:
        """The further key-value pairs of its container's format."""
        return self.as_stored.attrs

    @property
    def kernels(self) -> tuple[KernelNeeds, ...]:
        """The kernels in stored order, with what each needs of a device; () for forms that show none.

        Reads the tables of the whole image. Raises FormatError when they are damaged.
        """
        if self.form != "cir":
            return images.kernel_facts(self.data, self.form)
        from fatpack.images.kernel import KernelNeeds

        return tuple(map(KernelNeeds, self.kernel_names))

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of the kernels; reads no more than that needs."""
        return kernel_names(self.data, self.form, self.as_stored.record)


def kernel_names(view: View, form: str, record: object = None) -> tuple[str, ...]:
    """Return the names of the kernels in an image of a form, with the ``record`` of the container it was read from.

    () for forms that show none. Raises FormatError when what names them is damaged.
    """
    if form != "cir":
        return images.kernels(view, form)
    from fatpack.formats import cir

    return cir.kernel_names(view, record)


class LazyImages:
    """The images of a container that has to be inflated for them: they are recognised when the first is looked at."""

    __slots__ = ("_enter", "_found", "_stored")

    def __init__(self, stored: Sequence[Image], enter: EnterCallback) -> None:
        self._stored = stored
        self._enter = enter
        self._found: tuple[FoundImage, ...] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # What recognises them stays in this process, so they are recognised here.
        return tuple, (self._recognised(),)

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[FoundImage]:
        return iter(self._recognised())

    def __getitem__(self, index: int) -> FoundImage:
        return self._recognised()[index]

    def _recognised(self) -> tuple[FoundImage, ...]:
        if self._found is None:
            self._found = _recognise_now(self._stored, self._enter)
        return self._found


def bytes_to_inflate(found: FoundContainer | Finding) -> int:
    """Return the bytes of images that another process reads for a container; 0 where only this one can."""
    if isinstance(found, Finding) or isinstance(found.images, LazyImages):
        return 0
    if any(not isinstance(inner, Finding) for image in found.images for inner in image.inside):
        return 0
    return sum([min(image.as_stored.size, limits.INFLATED) for image in found.images])


def identify_images(stored: Sequence[Image], enter: EnterCallback | None) -> tuple[FoundImage, ...] | LazyImages:
    """Recognise images, those that come out of a stream not before somebody looks at them.

    ``enter`` walks what an image of a form holds; with None nobody looks at images.
    """
    if enter is None:
        return tuple([FoundImage(image, images.UNKNOWN) for image in stored])
    if not stored:
        return ()
    if is_not_inflated(stored[0]):
        if all(image.form and is_not_inflated(image) for image in stored):
            return tuple([FoundImage(image, images.NOT_INFLATED) for image in stored])
    elif stored[0].data.source.is_streamed:
        return LazyImages(stored, enter)
    return _recognise_now(stored, enter)


def _recognise_now(stored: Sequence[Image], enter: EnterCallback) -> tuple[FoundImage, ...]:
    """Recognise images, and look into those that can hold containers.

    Entries may share their bytes, so each span is looked at once; and of images that overlap otherwise only the first
    is looked at (rule 3). Entries of 40 bytes that all point into one container full of such entries would make work
    grow exponentially with the nesting.

    Nothing is inflated that its container names: a CUDA library has thousands of such images (:func:`inflated`).
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
            # An image of its own compression does not inflate; its neighbours do. A damaged stream is reported once.
            seen[place] = (images.UNKNOWN, (finding_from_error(error, image.span),) if error is not reported else ())
            reported = error
            continue
        reached[chain] = max(reached.get(chain, 0), end)
    results = []
    for place, image in placed:
        recognised, inside = seen[place]
        wrong = () if recognised is images.NOT_INFLATED else _disagreements(image, recognised, stored)
        results.append(FoundImage(image, recognised, (*wrong, *inside)))
        # What lies inside belongs to the first image of a span: each level would multiply it otherwise.
        seen[place] = (recognised, ())
    return tuple(results)


def _recognise_alone(image: Image, stored: Sequence[Image], enter: EnterCallback) -> FoundImage:
    """Recognise the only image of a container, which shares its bytes with no other."""
    if image.form and (is_not_inflated(image) or not image.data.source.is_at_hand):
        return FoundImage(image, images.NOT_INFLATED)
    try:
        recognised, inside = _recognise(image, enter)
    except (FormatError, Unsupported) as error:
        recognised, inside = images.UNKNOWN, (finding_from_error(error, image.span),)
    return FoundImage(image, recognised, (*_disagreements(image, recognised, stored), *inside))


def _start(placed: tuple[tuple[tuple[str, ...], int, int], Image]) -> int:
    """Return where an image starts."""
    return placed[0][1]


def inflate_image(found: FoundImage, neighbours: Sequence[Image] = ()) -> FoundImage:
    """Return an image that was listed without inflating it (``images.NOT_INFLATED``), inflated and recognised.

    ``neighbours`` are the images of its container. Raises FormatError when it does not inflate, Unsupported when nobody
    can.
    """
    recognised = images.identify_image(found.data)
    wrong = _disagreements(found.as_stored, recognised, neighbours)
    return found.replace(info=recognised, inside=(*wrong, *found.inside))


def checked_against_container(found: FoundImage, holder: Source, neighbours: Sequence[Image] = ()) -> FoundImage:
    """Return an image that was listed without inflating it, compared with what is stored about it by its first bytes.

    ``holder`` is the source of its container, ``neighbours`` are the images of that. What contradicts is ``inside``;
    it still counts as not inflated. Raises as :func:`inflated` does.
    """
    from fatpack.images import peek

    recognised = peek.identify_by_head(found.as_stored, holder)
    wrong = tuple(_disagreements(found.as_stored, recognised, neighbours))
    return found.replace(inside=(*wrong, *found.inside)) if wrong else found


def _disagreements(image: Image, recognised: ImageInfo, neighbours: Sequence[Image]) -> Iterable[Finding]:
    """Return a finding for everything in which an image contradicts what is stored about it."""
    target = image.target
    if (
        image.form == recognised.form
        and recognised.triple in ("", target.triple)
        and recognised.arch in ("", target.arch)
        and (recognised.size is None or recognised.size <= image.size)
    ):
        return ()  # most images say what is stored about them, or nothing
    from fatpack.images.container_mismatch import mismatch_findings

    return mismatch_findings(image, recognised, neighbours)


def _recognise(image: Image, enter: EnterCallback) -> tuple[ImageInfo, tuple[FoundContainer | Finding, ...]]:
    """Return what an image is, and the containers in it. Raises FormatError when it does not inflate."""
    view = image.data
    recognised = images.identify_image(view)
    is_stored = image.compression is None or image.stored_size is None
    # What an archive that is compressed by itself holds are device binaries, for which all of it must be inflated.
    may_hold = recognised.container or recognised.form in ("cir", "object")
    if may_hold or (recognised.form == "archive" and is_stored):
        # What its container calls a module is no file of its own.
        return recognised, enter(view, "module" if image.form == recognised.form == "cir" else recognised.form)
    return recognised, ()


def finding_from_error(error: FormatError | Unsupported | HostError, span: Span) -> Finding:
    """Return the finding for an error: where the error says it is, else at ``span``."""
    if isinstance(error, FormatError) and error.offset is not None:
        start = error.offset
        span = span.replace(start=start, end=max(span.end, start))
        message = f"{error.format}: {error.describe()}" if error.format else error.describe()
        return finding(code_for_error("FP1001", error), span, message, error.hint, field=error.field)
    if isinstance(error, FormatError):
        return finding(code_for_error("FP1001", error), span, error.describe(), error.hint, field=error.field)
    return finding("FP1008" if isinstance(error, Unsupported) else "FP1001", span, error.problem, error.hint)


# The kernels of containers that were found, as far as they can be known without reading much.

#: forms that name their kernels, of those of which a runtime takes kernels
_NAMING = ("cubin", "ptx", "code-object")

#: st_info of variables that other files see: STB_GLOBAL with STT_OBJECT
_GLOBAL_OBJECTS = (0x11,)

#: ends of the names of objects that are no variables of a source: descriptors of kernels, and initial values
_NO_VARIABLES = (b".kd", b".managed")

#: names that compilers keep for themselves: __hip_cuid_… is on both sides, and registered by nobody (CGCUDANV.cpp)
_RESERVED = "__"

#: a variable of PTX that a file defines, at the start of a line: state space, alignment, type, name
_DECLARED = re.compile(rb"^(?:\.visible )?\.(?:global|const)(?: \.\w+| \d+)* (\w+)[\[;= ]", re.MULTILINE)

#: LIMIT: bytes of PTX in which variables are looked for; they stand before the functions
_TEXT = 1 << 20

#: the form that serves any architecture from its own on
_PORTABLE = "ptx"


def kernel_names_by_arch(
    containers: Iterable[FoundContainer], most: int = limits.INFLATED_AT_ONCE
) -> dict[str, set[str]] | None:
    """Return architecture → names of the kernels in all images for it; None if there is no image, or one that does not
    tell. Images that serve any architecture have "".

    A container without any kernel beside others with some is left out: what nvcc's device link adds where there was
    nothing to link, for an architecture that the others may not be for. No more than ``most`` bytes are inflated.
    """
    parts: list[dict[str, set[str]]] = []
    left = most
    for found in containers:
        names: dict[str, set[str]] = {}
        if isinstance(found.images, LazyImages) and sum(image.size for image in found.container.images) > left:
            return None
        for image in found.images:
            if image.target.offload == "host" or not image.size:
                continue
            left -= image.size if image.compression or image.info is images.NOT_INFLATED else 0
            own = _names(image) if left >= 0 else None
            if own is None:
                return None
            _add(names, own)
        parts.append(names)
    every: dict[str, set[str]] = {}
    for names in [part for part in parts if any(part.values())] or parts:
        _add(every, names)
    return every or None


def kernel_names_in_images(views: Iterable[View]) -> dict[str, set[str]] | None:
    """Return the same for images that lie in no container; None if one does not tell its kernels."""
    every: dict[str, set[str]] = {}
    try:
        for view in views:
            recognised = images.identify_image(view)
            if recognised.form not in _NAMING:
                return None
            arch = "" if recognised.form == _PORTABLE else recognised.arch
            _add(every, {arch: set(images.kernels(view, recognised.form))})
    except (FormatError, Unsupported):
        return None
    return every or None


def defined_variables(containers: Iterable[FoundContainer], most: int = limits.INFLATED_AT_ONCE) -> set[str]:
    """Return the names of the variables that images define and other code may see, as far as images tell them.

    No more than ``most`` bytes are inflated.
    """
    found: set[str] = set()
    left = most
    for container in containers:
        for image in container.images:
            if image.target.offload == "host" or not image.size:
                continue
            left -= image.size if image.compression or image.info is images.NOT_INFLATED else 0
            if left < 0:
                break
            inside = [item for item in image.inside if isinstance(item, FoundContainer)]
            found |= defined_variables(inside, left) if inside else _variables(image)
    return {name for name in found if not name.startswith(_RESERVED)}


def _variables(image: FoundImage) -> set[str]:
    try:
        form = image.form if image.info is not images.NOT_INFLATED else images.identify_image(image.data).form
        if form == _PORTABLE:
            text = image.data.head(0, _TEXT)
            return {name.decode("utf-8", "backslashreplace") for name in _DECLARED.findall(text)}
        if form not in _NAMING:
            return set()
        symbols = ElfSymbolTable(image.data, (SYMTAB, DYNSYM))
        names = {symbols.name(at) for at, info, _, section in symbols if section and info in _GLOBAL_OBJECTS}
        return {name.decode("utf-8", "backslashreplace") for name in names if not name.endswith(_NO_VARIABLES)}
    except (FormatError, LimitExceeded, Unsupported):
        return set()


def _add(names: dict[str, set[str]], more: dict[str, set[str]]) -> None:
    for arch, some in more.items():
        names.setdefault(arch, set()).update(some)


def _names(image: FoundImage) -> dict[str, set[str]] | None:
    inside = [item for item in image.inside if isinstance(item, FoundContainer)]
    if inside:
        return kernel_names_by_arch(inside)
    try:
        form = image.form if image.info is not images.NOT_INFLATED else images.identify_image(image.data).form
        if form not in _NAMING:
            return None
        arch = "" if form == _PORTABLE else image.target.arch
        return {arch: set(images.kernels(image.data, form))}
    except (FormatError, Unsupported):
        return None
