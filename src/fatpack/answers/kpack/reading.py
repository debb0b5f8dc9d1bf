"""Bytes → facts: one archive, program or manifest. What is damaged becomes a finding, and the rest is read."""

from __future__ import annotations

from fatpack import formats, hosts, images
from fatpack.answers.kpack.facts import Archive, CodeObject
from fatpack.errors import FormatError, Unsupported, counted
from fatpack.findings import Tally, finding
from fatpack.formats.kpack.layout import FORMAT
from fatpack.formats.kpack.stored import Entry, Header
from fatpack.images.agreement import of_arch
from fatpack.io import limits
from fatpack.model import Finding
from fatpack.runtime.pointers.open import HOSTS
from fatpack.runtime.registration import hip
from fatpack.scanner.found import as_finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.kpack.facts import Name
    from fatpack.images import Recognised
    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.runtime.registration.kpack import Marker

#: Bytes at the start of a code object that are read: its header says what it is for.
_HEADER = 256

#: LIMIT: markers of one program. The library with most units that is known to us has 845.
_MOST_MARKERS = 1 << 16

TRIPLE = "amdgcn-amd-amdhsa"


def archive(view: View, path: str, *, reads_code: bool = True) -> tuple[Archive | None, list[Finding]]:
    """Return the archive that the bytes are, None if it cannot be read, and what is wrong with it.

    Of each code object the first bytes are read, and inflated where it is compressed; without ``reads_code`` no more is
    read than the table of contents.
    """
    try:
        container = formats.room(FORMAT).parse(view, 0)
    except (FormatError, Unsupported) as error:
        return None, [as_finding(error, view.span())]
    found = list(container.findings)
    tally = Tally(limits.FINDINGS)
    objects: dict[Name, CodeObject] = {}
    for image in container.images:
        name = image.attrs["binary"], image.target.arch
        if not reads_code:
            objects.setdefault(name, CodeObject("", image.span))
            continue
        try:
            recognised = _recognised(image)
        except (FormatError, Unsupported) as error:
            problem: Finding | None = as_finding(error, image.span)
            claims = ""
        else:
            problem = _contradiction(image, recognised)
            claims = recognised.arch if recognised.form == "code-object" else ""
        if problem is not None and tally.keeps(problem):
            found.append(problem)
        # The loader takes the first of two equal names.
        objects.setdefault(name, CodeObject(claims, image.span))
    found += tally.rest()
    assert isinstance(container.record, Header)  # the room has read it
    return Archive(path, len(view), container.record.archs, objects), found


def _recognised(image: Image) -> Recognised:
    """Return what a code object is, by its first bytes. Raises FormatError if it does not inflate."""
    from fatpack.io.sources.memory import BytesSource

    if image.compression is None or not isinstance(image.record, Entry):
        head = image.data.head(0, _HEADER)
    else:
        from fatpack.codec import beginning

        head = beginning(image.record.stored, _HEADER, method=image.compression, format=FORMAT)
    return images.recognise(BytesSource(head).view())


def _contradiction(image: Image, recognised: Recognised) -> Finding | None:
    """Return the finding that a code object is not what its archive says."""
    binary, arch = image.attrs["binary"], image.target.arch
    hint = "the runtime hands it to such a device, which cannot run it: pack the archive again"
    if recognised.form != "code-object":
        what = recognised.form or "of unknown form"
        return finding("FP3107", image.span, f"{binary} for {arch} is no code object but {what}", hint)
    if of_arch(arch, TRIPLE, recognised):
        text = f"{binary} is listed for {arch}, and its header says {recognised.arch}"
        return finding("FP3107", image.span, text, hint)
    return None


def markers(view: View, host: str) -> Iterator[Marker | Finding]:
    """Yield the markers of a program, and what is wrong with them; never raises for damaged bytes."""
    count = 0
    try:
        for item in hip.markers(view, host):
            count += not isinstance(item, Finding)
            if count > _MOST_MARKERS:
                text = f"more than {counted(_MOST_MARKERS, 'marker')}; the others are not read"
                yield finding("FP1005", view.span(), text)
                return
            yield item
    except (FormatError, Unsupported) as error:
        yield as_finding(error, view.span())


def host_of(view: View) -> str | None:
    """Return the kind of program that the bytes are, if it is one that can have markers."""
    host = hosts.detected(view)
    return host if host in HOSTS else None
