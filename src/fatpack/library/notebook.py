"""What notebooks show of an opened file: its images and findings as a small table, escaped."""

from __future__ import annotations

from fatpack.model import Finding
from fatpack.printable import format_size
from fatpack.result import to_html_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.scanner import FoundContainer


def file_html(path: str, size: int, host: str, items: Sequence[FoundContainer | Finding]) -> str:
    """Return a file as HTML: nothing is inflated for it, so that images are listed as their containers state them."""
    found = [item for item in items if not isinstance(item, Finding)]
    rows = [
        {
            "image": f"{number}.{index}",
            "container": item.format,
            "place": item.section or item.member or "",
            "offload": image.target.offload,
            "arch": image.target.arch or image.target.triple,
            "form": image.form,
            "size": format_size(image.size),
        }
        for number, item in enumerate(found)
        for index, image in enumerate(item.container.images)
    ]
    findings = [
        {"finding": f"{item.severity} {item.code}", "message": item.text} for item in items if isinstance(item, Finding)
    ]
    data = {"size": format_size(size), "kind": host, "containers": len(found), "images": rows, "findings": findings}
    return to_html_table(path or "a file", data)
