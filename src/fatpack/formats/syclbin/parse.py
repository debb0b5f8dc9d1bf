"""Bytes → model for SYCLBIN files of either version."""

from __future__ import annotations

from fatpack.formats import offload_binary
from fatpack.formats.syclbin import version1
from fatpack.formats.syclbin.layout import bundle_state
from fatpack.formats.syclbin.syclbin_layout import MAGIC, SYCLBIN_FORMAT
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


def detect(view: View, at: int = 0) -> bool:
    """Return whether a SYCLBIN file seems to start at ``at``.

    It has the magic of version 1 and room for a version, or is an offload binary whose first entry has a role.
    """
    head = view.head(at, 8)
    if head[:4] == MAGIC:
        return len(head) == 8
    from fatpack.formats.syclbin import version2

    return version2.detect_version2(view, at)


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the file at ``at`` takes, or None when its header cannot be right."""
    if view.head(at, 4) == MAGIC:
        return version1.extent_version1(view, at)
    return offload_binary.extent(view, at)


def parse(view: View, at: int = 0) -> Container:
    """Return the file that starts at ``at``. Its images are what stands behind their metadata: views, not copies.

    Raises BadMagic, Unsupported (a version that is not known), Truncated, BadValue and LimitExceeded; offsets are
    absolute.
    """
    head = view.head(at, 4)
    if not head or MAGIC.startswith(head):
        header, found, contents = version1.read_version1(view, at)
    else:
        from fatpack.formats.syclbin import version2

        header, found, contents = version2.read_version2(view, at)
    for module in header.modules:
        contents.facts(module.metadata, f"metadata of abstract module {module.number}")
    counts: dict[str, int] = {}
    images = []
    for entry in found:
        number = counts[entry.role] = counts.get(entry.role, -1) + 1
        images.append(contents.image(entry, f"{entry.role or 'image'}[{number}]"))
    outer, attrs = header.outer, {"state": bundle_state(header)}
    if outer is None:
        gaps = version1.undescribed_bytes(header, found)
        for gap in gaps:
            contents.faults.unexpected("FP1804", gap.span(), f"{len(gap)} bytes that belong to nothing")
        version, span, unknown = 1, header.body.span(), tuple(gap.span() for gap in gaps)
        findings = tuple(contents.faults.findings)
    else:
        version, span, unknown = 2, outer.span, outer.unknown
        findings = (*outer.findings, *contents.faults.findings)
        attrs["compression"] = outer.attrs.get("compression", "")
    return Container(
        format=SYCLBIN_FORMAT,
        version=version,
        images=tuple(images),
        span=span,
        attrs={key: text for key, text in attrs.items() if text},
        unknown=unknown,
        findings=findings,
        record=header,
    )
