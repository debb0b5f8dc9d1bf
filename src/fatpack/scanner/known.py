"""The kernels of containers that were found, as far as they can be known without reading much."""

from __future__ import annotations

import re

from fatpack import images, limits
from fatpack.binary.elf.quick_header import DYNSYM, SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.scanner.results import FoundContainer, LazyImages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import View
    from fatpack.scanner.results import FoundImage

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
            left -= image.size if image.compression or image.recognised is images.NOT_INFLATED else 0
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
            left -= image.size if image.compression or image.recognised is images.NOT_INFLATED else 0
            if left < 0:
                break
            inside = [item for item in image.inside if isinstance(item, FoundContainer)]
            found |= defined_variables(inside, left) if inside else _variables(image)
    return {name for name in found if not name.startswith(_RESERVED)}


def _variables(image: FoundImage) -> set[str]:
    try:
        form = image.form if image.recognised is not images.NOT_INFLATED else images.identify_image(image.data).form
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
        form = image.form if image.recognised is not images.NOT_INFLATED else images.identify_image(image.data).form
        if form not in _NAMING:
            return None
        arch = "" if form == _PORTABLE else image.target.arch
        return {arch: set(images.kernels(image.data, form))}
    except (FormatError, Unsupported):
        return None
