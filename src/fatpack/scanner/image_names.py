"""Names of kernels and variables in the images of containers, for comparison with registrations."""

from __future__ import annotations

from contextlib import closing

from fatpack import images, limits
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.printable import format_size
from fatpack.scanner.results import LazyImages
from fatpack.scanner.share import ImageRoom, share_containers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import View
    from fatpack.scanner.results import FoundContainer, FoundImage

#: forms with names of kernels that a runtime loads
_NAMING = ("cubin", "ptx", "code-object")

#: form → st_info of its variables: STT_OBJECT with STB_GLOBAL, in cubins with STB_LOCAL too, which nvcc gives to all
_VARIABLES = {"cubin": (0x11, 0x01), "code-object": (0x11,)}

#: suffixes of symbols that are not variables in the source: kernel descriptors, and initial values
_NO_VARIABLES = (b".kd", b".managed")

#: prefixes of names reserved for compilers: __hip_cuid_… is in host and device code, and never registered
#: (CGCUDANV.cpp); $str is a literal of nvcc
_RESERVED = ("__", "$")

#: definition of a variable in PTX, at the start of a line: state space, alignment, type, name
_DECLARED = rb"(?m)^(?:\.visible )?\.(?:global|const)(?: \.\w+(?:\(\.\w+\))?| \d+)* (\w+)[\[;= ]"

#: LIMIT: bytes of PTX that are searched for variables, which precede the functions
_TEXT = 1 << 20

#: the form that runs on its architecture and all later ones
_PORTABLE = "ptx"


def kernel_names_by_arch(
    containers: Iterable[FoundContainer], most: int = limits.INFLATED_AT_ONCE
) -> dict[str, set[str]] | None:
    """Map each architecture to the names of the kernels in its images; PTX, which is for any architecture, to "".

    None if there is no image, or the names of one cannot be read.
    """
    return read_kernel_names(containers, most)[0]


class _NamesUnknown(Exception):
    """The kernels of an image are unknown; the text is the reason."""


def read_kernel_names(
    containers: Iterable[FoundContainer], most: int = limits.INFLATED_AT_ONCE
) -> tuple[dict[str, set[str]] | None, str]:
    """Return the result of :func:`kernel_names_by_arch`, and the reason that it is None; "" without an image.

    A container without kernels beside others with kernels is ignored: nvcc's device link adds one if there was nothing
    to link, possibly for another architecture. At most ``most`` bytes are decompressed.
    """
    try:
        return _all_names(containers, ImageRoom(most)), ""
    except _NamesUnknown as error:
        return None, str(error)


def _all_names(containers: Iterable[FoundContainer], room: ImageRoom) -> dict[str, set[str]] | None:
    """Return architecture → names, None without an image. Raises _NamesUnknown."""
    held = _with_room(containers, room)
    if held is None:
        raise _NamesUnknown(too_large(room.size, "kernels"))

    def work(found: FoundContainer, _number: int) -> tuple[dict[str, set[str]], str]:
        try:
            return _container_names(found, room), ""
        except _NamesUnknown as error:
            return {}, str(error)

    parts: list[dict[str, set[str]]] = []
    with closing(share_containers(held, work)) as shared:
        for found, made in shared:
            names, why = made or work(found, 0)
            if why:
                raise _NamesUnknown(why)
            parts.append(names)
    every: dict[str, set[str]] = {}
    for names in [part for part in parts if any(part.values())] or parts:
        _add(every, names)
    return every or None


def too_large(most: int, kind: str) -> str:
    """Return the reason in words that names of a kind were not read."""
    return f"its images inflate to more than {format_size(most)}, and the names of their {kind} were not read"


def _with_room(containers: Iterable[FoundContainer], room: ImageRoom) -> list[FoundContainer] | None:
    """Take the room for what reading the images of containers decompresses; return them, None without enough."""
    held = list(containers)
    return held if room.take(sum(map(_compressed_size, held))) else None


def _compressed_size(found: FoundContainer) -> int:
    """Return the bytes that reading the images of a container for devices decompresses."""
    if isinstance(found.images, LazyImages):
        return found.images.size
    return sum(
        image.size
        for image in found.images
        if image.target.offload != "host" and (image.compression or image.info is images.NOT_INFLATED)
    )


def _container_names(found: FoundContainer, room: ImageRoom) -> dict[str, set[str]]:
    """Return architecture → names of one container. Raises _NamesUnknown."""
    names: dict[str, set[str]] = {}
    for image in found.images:
        if image.target.offload != "host" and image.size:
            _add(names, _names(image, room))
    return names


def kernel_names_in_images(views: Iterable[View]) -> dict[str, set[str]] | None:
    """Return the same for images outside containers; None if the names of one cannot be read."""
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


def defined_variables(containers: Iterable[FoundContainer], most: int = limits.INFLATED_AT_ONCE) -> set[str] | None:
    """Return the names of the global variables that images define, if the images have them.

    None if reading them decompresses more than ``most`` bytes.
    """
    found = _all_variables(containers, ImageRoom(most))
    return None if found is None else {name for name in found if not name.startswith(_RESERVED)}


def _all_variables(containers: Iterable[FoundContainer], room: ImageRoom) -> set[str] | None:
    found: set[str] = set()
    held = _with_room(containers, room)
    if held is None:
        return None
    for container in held:
        for image in container.images:
            if image.target.offload == "host" or not image.size:
                continue
            inside = list(image.containers)
            names = _all_variables(inside, room) if inside else _variables(image)
            if names is None:
                return None
            found |= names
    return found


def _variables(image: FoundImage) -> set[str]:
    from fatpack.binary.elf.layout import DYNSYM, SYMTAB
    from fatpack.binary.elf.symbols import ElfSymbolTable

    try:
        form = image.form if image.info is not images.NOT_INFLATED else images.identify_image(image.data).form
        if form == _PORTABLE:
            import re

            text = image.data.head(0, _TEXT)
            return {name.decode("utf-8", "backslashreplace") for name in re.findall(_DECLARED, text)}
        if form not in _VARIABLES:
            return set()
        symbols = ElfSymbolTable(image.data, (SYMTAB, DYNSYM))
        names = {symbols.name(at) for at, info, _, section in symbols if section and info in _VARIABLES[form]}
        return {name.decode("utf-8", "backslashreplace") for name in names if not name.endswith(_NO_VARIABLES)}
    except (FormatError, LimitExceeded, Unsupported):
        return set()


def _add(names: dict[str, set[str]], more: dict[str, set[str]]) -> None:
    for arch, some in more.items():
        names.setdefault(arch, set()).update(some)


def _names(image: FoundImage, room: ImageRoom) -> dict[str, set[str]]:
    inside = list(image.containers)
    if inside:
        names = _all_names(inside, room)
        if names is None:
            raise _NamesUnknown("a container inside an image has no image that tells the names of its kernels")
        return names
    try:
        form = image.form if image.info is not images.NOT_INFLATED else images.identify_image(image.data).form
        if form not in _NAMING:
            what = f"an image of form {form}" if form else "an image of unknown form"
            raise _NamesUnknown(f"{what} does not tell the names of its kernels")
        arch = "" if form == _PORTABLE else image.target.arch
        return {arch: set(images.kernels(image.data, form))}
    except (FormatError, Unsupported) as error:
        raise _NamesUnknown("an image that cannot be read does not tell the names of its kernels") from error
