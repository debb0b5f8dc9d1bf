"""Bytes → facts: one archive, program or manifest. What is damaged becomes a finding, and the rest is read."""

from __future__ import annotations

from fatpack import binary, formats, images, limits
from fatpack.binary.open import HOSTS
from fatpack.commands.check_kpack.facts import KpackArchive, KpackCodeObject
from fatpack.errors import FormatError, Unsupported, pluralize
from fatpack.findings import FindingTally, finding
from fatpack.formats.kpack.layout import KPACK_FORMAT
from fatpack.formats.kpack.stored import KpackEntry, KpackHeader
from fatpack.images.container_mismatch import arch_contradiction
from fatpack.model import Finding
from fatpack.registration import hip
from fatpack.scanner.results import finding_from_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check_kpack.facts import Name
    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.registration.kpack_marker import KpackMarker

#: Bytes at the start of a code object that are read: its header says what it is for.
_HEADER = 256

#: LIMIT: markers of one program. The library with most units that is known to us has 845.
_MOST_MARKERS = 1 << 16

TRIPLE = "amdgcn-amd-amdhsa"


def read_archive(view: View, path: str, *, reads_code: bool = True) -> tuple[KpackArchive | None, list[Finding]]:
    """Return the archive that the bytes are, None if it cannot be read, and what is wrong with it.

    Of each code object the first bytes are read, and inflated where it is compressed; without ``reads_code`` no more is
    read than the table of contents.
    """
    try:
        container = formats.get_format(KPACK_FORMAT).parse(view, 0)
    except (FormatError, Unsupported) as error:
        return None, [finding_from_error(error, view.span())]
    found = list(container.findings)
    tally = FindingTally(limits.FINDINGS)
    objects: dict[Name, KpackCodeObject] = {}
    for image in container.images:
        name = image.attrs["binary"], image.target.arch
        if not reads_code:
            objects.setdefault(name, KpackCodeObject("", image.span))
            continue
        try:
            recognised = _recognised(image)
        except (FormatError, Unsupported) as error:
            problem: Finding | None = finding_from_error(error, image.span)
            claims = ""
        else:
            problem = _contradiction(image, recognised)
            claims = recognised.arch if recognised.form == "code-object" else ""
        if problem is not None and tally.keeps(problem):
            found.append(problem)
        # The loader takes the first of two equal names.
        objects.setdefault(name, KpackCodeObject(claims, image.span))
    found += tally.rest()
    assert isinstance(container.record, KpackHeader)  # the room has read it
    return KpackArchive(path, len(view), container.record.archs, objects), found


def _recognised(image: Image) -> ImageInfo:
    """Return what a code object is, by its first bytes. Raises FormatError if it does not inflate."""
    from fatpack.io.memory import BytesSource

    if image.compression is None or not isinstance(image.record, KpackEntry):
        head = image.data.head(0, _HEADER)
    else:
        from fatpack.codecs import inflate_beginning

        head = inflate_beginning(image.record.stored, _HEADER, method=image.compression, format=KPACK_FORMAT)
    return images.identify_image(BytesSource(head).view())


def _contradiction(image: Image, recognised: ImageInfo) -> Finding | None:
    """Return the finding that a code object is not what its archive says."""
    binary, arch = image.attrs["binary"], image.target.arch
    hint = "the runtime hands it to such a device, which cannot run it: pack the archive again"
    if recognised.form != "code-object":
        what = recognised.form or "of unknown form"
        return finding("FP3107", image.span, f"{binary} for {arch} is no code object but {what}", hint)
    if arch_contradiction(arch, TRIPLE, recognised):
        text = f"{binary} is listed for {arch}, and its header says {recognised.arch}"
        return finding("FP3107", image.span, text, hint)
    return None


def read_program_markers(view: View, host: str) -> Iterator[KpackMarker | Finding]:
    """Yield the markers of a program, and what is wrong with them; never raises for damaged bytes."""
    count = 0
    try:
        for item in hip.kpack_markers(view, host):
            count += not isinstance(item, Finding)
            if count > _MOST_MARKERS:
                text = f"more than {pluralize(_MOST_MARKERS, 'marker')}; the others are not read"
                yield finding("FP1005", view.span(), text)
                return
            yield item
    except (FormatError, Unsupported) as error:
        yield finding_from_error(error, view.span())


def marker_host(view: View) -> str | None:
    """Return the kind of program that the bytes are, if it is one that can have markers."""
    host = binary.detect_host(view)
    return host if host in HOSTS else None
