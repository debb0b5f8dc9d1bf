"""Device images outside containers: a file that is a device image, and members of an archive.

Compilers write archives with such members for one target, and clang-offload-bundler does when it unbundles.
"""

from __future__ import annotations

from fatpack import images, limits
from fatpack.errors import FormatError, Unsupported, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any, NotRequired, TypedDict

    from fatpack.formats.described import StoredFacts
    from fatpack.images import ImageInfo
    from fatpack.images.sidecar import SidecarClaims
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.scanner import FoundContainer

    class ImageClaims(TypedDict):
        """The form of an image, and the target that it states itself."""

        form: str
        triple: str
        arch: str
        detail: str

    class SidecarFacts(TypedDict):
        """Contents of the metadata file that a compiler wrote beside an image."""

        file: str
        producer: str
        triple: NotRequired[str]
        arch: NotRequired[str]
        kernel: NotRequired[str]
        warp_size: NotRequired[int]
        threads: NotRequired[int]
        shared: NotRequired[int]

    class SidecarRecord(TypedDict, total=False):
        """The metadata file beside an image; empty if there is none."""

        metadata: SidecarFacts

    class CirModules(TypedDict, total=False):
        """The modules of a CIR file, and the target of the first that names one; empty if they are damaged."""

        triple: str
        arch: str
        stored: StoredFacts


#: Prefixes of the triple of device bitcode. Other bitcode is of the host, compiled with -flto.
_DEVICES = ("amdgcn", "nvptx", "spir", "r600")

#: facts that a metadata file beside an image may state
_CLAIMED = ("producer", "triple", "arch", "kernel", "warp_size", "threads", "shared")

_NO_IMAGES = ("", "object", "archive", "empty")


def standalone_image(view: View) -> ImageInfo | None:
    """Identify a file or a member that is a device image itself; None for any other file."""
    recognised = images.identify_image(view)
    return None if recognised.form in _NO_IMAGES or recognised.container else recognised


def scan_with_standalone_images(view: View, *, deep: bool = False) -> tuple[FoundContainer | Finding, ...]:
    """Return the items of a scan and the images outside containers, each as the only one of a container of its own.

    These are the file itself, if it holds nothing else, and members of an archive.
    """
    from fatpack.scanner import FoundContainer, FoundImage, detect_host, scan
    from fatpack.scanner.bare_images import bare_image_container

    found = scan(view, deep=deep)
    items: list[FoundContainer | Finding] = list(found)
    containers = [item for item in items if isinstance(item, FoundContainer)]
    host = detect_host(view)
    single: list[tuple[View, ImageInfo, str | None, tuple[int, ...]]] = []
    if host == "archive":
        for item in member_images(view, {one.member_numbers for one in containers}):
            if isinstance(item, MemberImage):
                single.append((item.view, item.info, item.title, item.numbers))
            else:
                items.append(item)
    elif not containers:
        recognised = standalone_image(view)
        if recognised is not None:
            single.append((view, recognised, None, ()))
    for data, recognised, member, numbers in single:
        container = bare_image_container(data, recognised)
        image = FoundImage(container.images[0], recognised)
        items.append(FoundContainer(container, data, host, None, member, None, (image,), numbers))
    return tuple(items)


def image_claims(recognised: ImageInfo) -> ImageClaims:
    """Return the form of an image, and the target that it states itself, as plain data."""
    return {
        "form": recognised.form,
        "triple": recognised.triple,
        "arch": recognised.arch,
        "detail": recognised.detail,
    }


def sidecar_record(view: View, recognised: ImageInfo) -> tuple[SidecarRecord, list[Finding]]:
    """Return the metadata file that a compiler wrote beside a standalone image, and its contradictions to the image.

    ``metadata`` has the name of that file, its producer and its facts; empty if there is no such file. The kernels are
    read only if the file has facts about them.
    """
    from fatpack.images import sidecar

    name, span = "", view.span()
    try:
        name, data = _read_beside(view)
        claimed = None if data is None else sidecar.read_sidecar(data)
    except (OSError, FormatError, Unsupported) as error:
        text = error.strerror or str(error) if isinstance(error, OSError) else _described(error)
        return {}, [finding(code_for_error("FP1114", error), span, f"{name or 'the metadata beside it'}: {text}")]
    if claimed is None:
        return {}, []
    # Launch parameters of another target may differ.
    problems = list(sidecar.target_problems(claimed, recognised)) or list(_of_kernels(view, recognised, claimed))
    stated = {field: value for field in _CLAIMED if (value := getattr(claimed, field)) not in ("", None)}
    metadata: Any = {"file": name, **stated}
    return {"metadata": metadata}, [finding(code, span, f"{name} {text}") for code, text in problems]


def _read_beside(view: View) -> tuple[str, bytes | None]:
    """Return the name and the bytes of the metadata file beside an image file; None if there is none."""
    from fatpack.images import sidecar

    if len(view.chain) != 1:
        return "", None
    *folders, file = getattr(view.chain[0], "names", view.chain)[-1].split("/")
    name = sidecar.sidecar_name(file)
    data = view.source.sibling(name, sidecar.MAX_SIDECAR_SIZE + 1) if name else None
    if data is None and name and folders[-2:-1] == [sidecar.PACKAGE]:
        name = next(iter(view.source.sibling_names(sidecar.OF_PACKAGE)), "")
        data = view.source.sibling(name, sidecar.MAX_SIDECAR_SIZE + 1) if name else None
    return name, data


def _described(error: FormatError | Unsupported) -> str:
    return error.describe() if isinstance(error, FormatError) else error.problem


def _of_kernels(view: View, recognised: ImageInfo, claimed: SidecarClaims) -> Iterator[tuple[str, str]]:
    from fatpack.images import sidecar

    if not claimed.kernel:
        return
    try:
        kernels = images.kernel_facts(view, recognised.form)
    except FormatError:  # the list of kernels has the finding
        return
    yield from sidecar.kernel_problems(claimed, recognised, kernels)


def plain_cir_modules(view: View) -> CirModules:
    """Return the modules of a file that is no container, with the target of the first that names one."""
    from fatpack.formats import cir

    try:
        stored = cir.describe_plain_modules(view)
    except FormatError:  # the scan has the finding
        return {}
    first = next((module for module in stored["modules"] if module["triple"] or module["arch"]), None)
    if first is None:
        return {"stored": stored}
    return {"triple": first["triple"], "arch": first["arch"], "stored": stored}


class MemberImage(Record):
    """A member that is an image: its member numbers, outermost archive first, its name, its bytes and its form."""

    numbers: tuple[int, ...]
    title: str
    view: View
    info: ImageInfo


def member_images(view: View, searched: Collection[tuple[int, ...]]) -> Iterator[MemberImage | Finding]:
    """Yield the images among the members of an archive, and of archives in it.

    ``searched`` are the numbers of members with containers, which are skipped. The scan reports damage. If a limit
    ends the list, the last item is a finding.
    """
    for number, found in enumerate(_walk(view, (), "", searched, limits.NESTING)):
        if number == limits.CONTAINERS:
            text = f"more than {pluralize(number, 'image')} in members; the others are not listed"
            yield finding("FP1005", found.view.span(), text, limits.advice("CONTAINERS"))
            return
        yield found


def _walk(
    view: View, numbers: tuple[int, ...], title: str, searched: Collection[tuple[int, ...]], depth: int
) -> Iterator[MemberImage]:
    from fatpack.binary import CodeSection, archive

    # Containers found between the members of a damaged archive have no member numbers.
    passed = {place[-1] for place in searched if place and place[:-1] == numbers}
    for site in archive.locate(view, passed):
        if not isinstance(site, CodeSection) or site.index is None:
            continue
        place = (*numbers, site.index)
        name = f"{title}({site.member})" if title else site.member or ""
        if archive.detect(site.data):
            if depth > 1:
                yield from _walk(site.data, place, name, searched, depth - 1)
            continue
        recognised = _recognise(site.data)
        if recognised is not None:
            yield MemberImage(place, name, site.data, recognised)


def _recognise(view: View) -> ImageInfo | None:
    """Identify a member that is an image; most members are objects of the host, and only their header is read."""
    from fatpack.binary.elf.layout import AMDGPU, CUDA
    from fatpack.binary.elf.quick_header import read_quick_header

    head = view.head(0, 64)
    elf = read_quick_header(view, head)
    if elf is not None and elf.machine not in (CUDA, AMDGPU):
        return None
    recognised = standalone_image(view)
    is_of_host = recognised and recognised.form == "bitcode" and not recognised.triple.startswith(_DEVICES)
    return None if is_of_host else recognised
