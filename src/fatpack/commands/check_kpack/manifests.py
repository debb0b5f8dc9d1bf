"""Whether manifests describe the archives beside them."""

from __future__ import annotations

import os

from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check_kpack.facts import FoundManifest, KpackFolder
    from fatpack.formats.kpack.manifest import ManifestFile
    from fatpack.model import Finding

_HINT = "install archives and manifest of one build"


def manifest_differences(listing: FoundManifest, folder: KpackFolder) -> Iterator[Finding]:
    """Yield a finding for everything in which a manifest and the archives beside it differ."""
    for item in listing.manifest.files:
        for text in _of_file(item, os.path.dirname(listing.path), folder):
            yield finding("FP3108", item.span, f"{item.arch}: {text}", _HINT)


def _of_file(item: ManifestFile, here: str, folder: KpackFolder) -> Iterator[str]:
    if os.path.basename(item.file) != item.file or item.file in ("", ".", "..") or "\0" in item.file:
        yield f"{item.file!r} is no name of a file beside the manifest"
        return
    path = os.path.realpath(os.path.join(here, item.file))
    archive = folder.archives.get(path)
    if archive is None:
        there = "is no archive that can be read" if os.path.lexists(os.path.join(here, item.file)) else "does not exist"
        yield f"{folder.shown(os.path.join(here, item.file))} {there}"
        return
    if item.size is not None and item.size != archive.size:
        yield f"{folder.shown(path)} has {archive.size} bytes, and the manifest says {item.size}"
    count = sum(arch == item.arch for _, arch in archive.objects)
    if item.kernel_count is not None and item.kernel_count != count:
        yield f"{folder.shown(path)} has {count} code objects for it, and the manifest says {item.kernel_count}"
