"""The selector of images: the same options with the same meaning in every command."""

from __future__ import annotations

from fatpack.errors import FormatError, Unsupported, UsageError, truncate_words
from fatpack.model import PTX_FORMS, arch_name
from fatpack.record import Record
from fatpack.scanner import FoundContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.model import Finding
    from fatpack.scanner import FoundImage
    from fatpack.selectors.bundle_id_match import BundleIdChoice


# Regular expressions of users over kernel names, with a time limit.
#
# The time of some expressions doubles with every character of a name, ``(a+)+$`` for one. Engines without this problem
# (RE2) have another syntax, and are a further dependency; so Python's engine runs with a budget of processor time. The
# interpreter checks for signals during a match, and the timer's handler ends it.

#: LIMIT: seconds of processor time for the names of one image. A hundred thousand names take a tenth of one.
BUDGET = 5.0


class KernelPattern:
    """A regular expression for kernel names of an image. Raises UsageError for an invalid expression."""

    def __init__(self, text: str) -> None:
        import re

        self._text = text
        try:
            self._expression = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"kernel pattern {text!r} is no regular expression: {error}") from error

    def finds(self, names: Iterable[str]) -> bool:
        """Return whether a name contains the expression. Raises UsageError if that takes more than the budget.

        There is no budget outside the main thread, where no handler can be set, or if the timer is in use already.
        """
        import signal

        if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGVTALRM) != signal.SIG_DFL:
            return self._search(names)
        try:
            signal.signal(signal.SIGVTALRM, _expire)
        except ValueError:  # not the main thread
            return self._search(names)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, BUDGET)
            try:
                return self._search(names)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _BudgetExpired:
            raise UsageError(
                f"kernel pattern {self._text!r} takes more than {BUDGET:g} s for the kernels of one image",
                hint="repeats inside repeats, as in (a+)+, take time without end: write it without them",
            ) from None
        finally:
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _search(self, names: Iterable[str]) -> bool:
        return any(self._expression.search(name) for name in names)


class _BudgetExpired(Exception):
    """The budget is used up."""


def _expire(*_: object) -> None:
    raise _BudgetExpired


#: programming model → its names in bundle IDs: clang-offload-bundler has a second one for code objects of HIP
_MODEL_NAMES = {"hip": ("hip", "hipv4")}

#: conditions that are patterns, and may have several in one text, separated by commas
PATTERNS = ("arch", "triple", "offload", "form")


class Selector(Record):
    """Conditions on an image; an empty condition is true for every image, several values of one are alternatives.

    ``arch``, ``triple``, ``offload`` and ``form`` are shell patterns (``sm_9*``), or several: ``sm_80,sm_90``.
    ``!pattern`` excludes. Only exclusions mean everything else, except images without that property (a host image has
    no arch). An ``arch`` pattern without a colon also matches the processor alone: ``gfx90a`` matches
    ``gfx90a:xnack+``. AMD's targets may be spelled as in LLVM 22 or in LLVM 23: ``amdgpu9.0a-amd-amdhsa`` is
    ``amdgcn-amd-amdhsa`` with gfx90a. The order of features does not matter, ``unknown`` at the end of a triple is
    ignored, and ``hipv4`` is ``hip``. PTX for sm_90 also matches ``compute_90``, and an image for ``sm_80,sm_90``
    matches each of them.
    ``kernel`` is a regular expression that one of the image's kernel names must contain; in the main thread, one that
    takes more than 5 s of processor time for an image raises UsageError. ``container`` and ``index`` are positions as
    ``inspect`` prints them: the n-th container of the file, the n-th image in it. ``id`` are bundle IDs: in every
    container they select the image with exactly this ID, else the compatible one
    (:mod:`fatpack.selectors.bundle_id_match`); ``hip_openmp`` makes HIP and OpenMP compatible there.
    """

    arch: str | tuple[str, ...] = ()
    triple: str | tuple[str, ...] = ()
    offload: str | tuple[str, ...] = ()
    form: str | tuple[str, ...] = ()
    kernel: str | None = None
    container: int | None = None
    index: int | None = None
    id: str | tuple[str, ...] = ()
    hip_openmp: bool = False

    if not TYPE_CHECKING:  # type checkers take the signature from the fields

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Take the fields; raise TypeError for a value of another type, UsageError for an empty pattern."""
            super().__init__(*args, **kwargs)
            for name, put in zip(type(self)._fields, type(self)._setters, strict=True):
                put(self, _checked(name, getattr(self, name)))

    @property
    def ids(self) -> tuple[str, ...]:
        """The bundle IDs, also if the selector was made with a single one."""
        return (self.id,) if isinstance(self.id, str) else self.id

    def is_empty(self) -> bool:
        """Return whether the selector has no conditions."""
        return self == Selector()

    def describe(self) -> str:
        """Return the conditions as the command line spells them."""
        words = []
        for name in type(self)._fields:
            value = getattr(self, name)
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words += [option] if value else []
                continue
            words += [
                f"{option}={item}" for item in (value if isinstance(value, tuple) else [value]) if item is not None
            ]
        return " ".join(words)

    def matches(self, found: FoundImage) -> bool:
        """Return whether an image fulfils the conditions, except positions, which the caller checks."""
        target = found.target
        if self.form and not _one_of(_alternatives(self.form), (found.form,)):
            return False
        if self.offload and not _one_of(
            _alternatives(self.offload), _MODEL_NAMES.get(target.offload, (target.offload,))
        ):
            return False
        if self.arch or self.triple:
            from fatpack.targets.triple import triple_spellings

            if self.arch and not self.has_arch(target.triple, target.arch, found.form):
                return False
            if self.triple:
                triples = triple_spellings(target.triple, target.arch)
                patterns = tuple(map(_without_unknown, _alternatives(self.triple)))
                if not _one_of(patterns, (*triples, *map(_without_unknown, triples))):
                    return False
        return self.kernel is None or self._has_kernel(found)

    def has_arch(self, triple: str, arch: str, form: str) -> bool:
        """Return whether an architecture matches a pattern of ``arch``."""
        from fatpack.targets.triple import as_llvm22

        processor = as_llvm22(triple, arch)[1]
        spelled = (processor, *_also(arch, form), _in_order(processor))
        return _one_of(tuple(map(_in_order, _alternatives(self.arch))), spelled)

    def _has_kernel(self, found: FoundImage) -> bool:
        pattern = KernelPattern(self.kernel or "")
        try:
            names = found.kernel_names
        except (FormatError, Unsupported):  # a damaged symbol table: `inspect` reports it
            return False
        return pattern.finds(names)


def _alternatives(patterns: str | tuple[str, ...]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else patterns


def _checked(name: str, value: object) -> object:
    """Return the normalized value of a condition, with its patterns one by one."""
    if name in ("container", "index"):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} must be a number, got {type(value).__name__}")
        return value
    if name == "kernel":
        if value is not None and not isinstance(value, str):
            raise TypeError(f"kernel must be a regular expression, got {type(value).__name__}")
        return value
    if name == "hip_openmp":
        if not isinstance(value, bool):
            raise TypeError(f"hip_openmp must be True or False, got {type(value).__name__}")
        return value
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} is a text or a tuple of texts, not {value!r:.80}")
    if name not in PATTERNS:
        return tuple(texts)
    # No architecture, triple, offload model or form has a comma or a blank.
    patterns = tuple(pattern.strip() for text in texts for pattern in text.split(","))
    if "" in patterns:
        raise UsageError(f"{name}: a pattern is empty", hint="write PATTERN or PATTERN,PATTERN")
    return patterns


def _also(arch: str, form: str) -> Iterator[str]:
    """Yield the spellings of an architecture: as stored, each of several in one string, and that of PTX."""
    if arch:
        yield arch
    if "," in arch:
        yield from arch.split(",")
    if form in PTX_FORMS:
        yield from arch_name(arch, form).split(",")


def _in_order(arch: str) -> str:
    """Return an architecture, or a pattern of it, with its features as clang orders them: by name."""
    processor, *features = arch.split(":")
    return ":".join((processor, *sorted(features)))


def _without_unknown(triple: str) -> str:
    """Return a triple, or a pattern of it, without empty and ``unknown`` parts at its end.

    clang's driver writes ``nvptx64-nvidia-cuda-unknown`` into the IDs of CIR containers, and ``nvptx64-nvidia-cuda``
    into offload binaries; clang-offload-bundler stores ``nvptx64-nvidia-cuda-``.
    """
    parts = triple.split("-")
    while len(parts) > 1 and parts[-1] in ("", "unknown"):
        parts.pop()
    return "-".join(parts)


def _one_of(patterns: Sequence[str], values: Sequence[str]) -> bool:
    """Return whether a value matches one of the patterns, and none of the exclusions among them.

    ``values`` are the spellings of the value.
    """
    exceptions = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    if exceptions and (not values[0] or any(_matches(pattern, value) for pattern in exceptions for value in values)):
        return False
    return len(exceptions) == len(patterns) or any(_matches(pattern, value) for pattern in patterns for value in values)


def _matches(pattern: str, value: str) -> bool:
    if pattern == value:
        return True
    if not any(char in pattern for char in "*?["):
        return ":" not in pattern and value.partition(":")[0] == pattern
    from fnmatch import fnmatchcase

    return fnmatchcase(value, pattern) or (":" not in pattern and fnmatchcase(value.partition(":")[0], pattern))


def select_images(
    items: Sequence[FoundContainer | Finding], selector: Selector
) -> Iterator[tuple[str, FoundContainer, FoundImage]]:
    """Yield (position, container, image) for every selected image.

    The position is as ``inspect`` prints it: ``2.0`` is image 0 of container 2 of the file, ``2.0/0.1`` image 1 of
    container 0 inside that image. Images inside images are selected only if they match themselves, and not by
    container and index, which are those of the file.
    """
    matching = _matching(items, selector)
    if not selector.id:
        yield from matching
        return
    rows = list(matching)
    # Choices name images of these rows, as objects: equal images of two containers are chosen apart.
    chosen = {id(choice.image) for choice in _choices(rows, selector)}
    yield from (row for row in rows if id(row[2]) in chosen)


def id_choices(items: Sequence[FoundContainer | Finding], selector: Selector) -> list[BundleIdChoice]:
    """Return the selection by bundle ID in every container, with the reasons, in file order."""
    return list(_choices(list(_matching(items, selector)), selector))


def _choices(rows: Sequence[tuple[str, FoundContainer, FoundImage]], selector: Selector) -> Iterator[BundleIdChoice]:
    from fatpack.selectors.bundle_id_match import choose_by_id

    containers: dict[str, list[FoundImage]] = {}
    for position, _, image in rows:
        containers.setdefault(position.rpartition(".")[0], []).append(image)
    for images_of in containers.values():
        for request in dict.fromkeys(selector.ids):
            yield from choose_by_id(images_of, request, hip_openmp=selector.hip_openmp)


def _matching(
    items: Sequence[FoundContainer | Finding], selector: Selector
) -> Iterator[tuple[str, FoundContainer, FoundImage]]:
    """Yield the images that fulfil all conditions except the bundle IDs."""
    by_place = selector.container is not None or selector.index is not None
    for position, found, image in with_positions(items):
        outer, _, inner = position.partition("/")
        container, _, index = outer.partition(".")
        if by_place and inner:
            continue
        if selector.container is not None and int(container) != selector.container:
            continue
        if selector.index is not None and int(index) != selector.index:
            continue
        if selector.matches(image):
            yield position, found, image


def with_positions(
    items: Sequence[FoundContainer | Finding], prefix: str = ""
) -> Iterator[tuple[str, FoundContainer, FoundImage]]:
    """Yield (position, container, image) for every image, those inside an image right after it."""
    containers = (item for item in items if isinstance(item, FoundContainer))
    for number, found in enumerate(containers):
        for index, image in enumerate(found.images):
            position = f"{prefix}{number}.{index}"
            yield position, found, image
            yield from with_positions(image.items, f"{position}/")


def describe_image(position: str, found: FoundImage) -> str:
    """Return an image in a few words: position, and if known, offload model, triple, arch and form."""
    target = found.target
    offload = "" if target.offload == "none" else target.offload
    return truncate_words(
        " ".join(word for word in (position, offload, target.triple, found.label, found.form) if word)
    )


def ids_in_file(items: Sequence[FoundContainer | Finding]) -> list[str]:
    """Return the IDs of all images that have one, each once, in order."""
    from fatpack.selectors.bundle_id_match import image_id

    return list(dict.fromkeys(filter(None, (image_id(image.as_stored) for _, _, image in with_positions(items)))))
