"""Single compressed files: ``.fatbin.zst``, ``.cubin.zst``, ``.so.xz``. The only member is the file.

The file's name is that of the compressed one without its suffix; gzip's stored name is often missing and not trusted.
Several streams or frames, one after the other, are one file, as for all of the programs.

How we know: RFC 1952 (gzip), RFC 8878 (zstd), the .xz file format 1.2.1, lz4_Frame_format.md 1.6.4; files of gzip, xz,
zstd, bzip2 and lz4 are read in the reference tests.
"""

from __future__ import annotations

from fatpack.layout import FormatInfo
from fatpack.packages import PackageMember
from fatpack.packages.names import detect_compression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.packages.members import LazyInflatedMember

__all__ = ["DOC", "LAYOUTS", "detect", "members"]

FORMAT = "compressed"

DOC = FormatInfo(
    name=FORMAT,
    title="Compressed file",
    description=(
        "One file, compressed as a whole with gzip, xz, zstd, bzip2 or lz4: Blender ships its kernels as `.fatbin.zst` "
        "and `.cubin.zst`. A compressed tar archive is a tar archive, not this."
    ),
    references=(
        "RFC 1952 (gzip)",
        "RFC 8878 (zstd)",
        "The .xz File Format 1.2.1",
        "lz4_Frame_format.md 1.6.4",
    ),
    reads="gzip, xz, zstd, bzip2 and lz4 frames, several in one file, and skippable frames",
    writes="none",
    limitations=(
        "The size of the file is known only after all of it was inflated.",
        "`.lzma` from before xz is only read if it contains a tar archive: it has no magic.",
        "zstd with a dictionary of its own, and lz4's format from before frames, are not read.",
        "Streams that look back further than 128 MiB are refused (`zstd --long=28` and more, `xz` with a larger "
        "dictionary) unless `--limit window=` says so.",
        "Bytes after the last stream are reported when everything was read.",
    ),
)

LAYOUTS = ()

#: method → suffixes that are removed
_SUFFIXES = {
    "gzip": (".gz", ".gzip", ".z"),
    "xz": (".xz",),
    "zstd": (".zst", ".zstd"),
    "bzip2": (".bz2", ".bz"),
    "lz4": (".lz4",),
}


def detect(view: View) -> bool:
    """Return whether the bytes start like a compressed file."""
    return detect_compression(view) in _SUFFIXES


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield the file. Damage is only found when it is read."""
    method = detect_compression(view)
    if method in _SUFFIXES:
        outer = view.chain[-1] if view.chain else view.source.name
        yield PackageMember(_name(outer, method), 0, None, _CompressedOpener(view, method))


def _name(outer: str, method: str) -> str:
    """Return the file's name: that of the compressed one, without folders, outer packages, and its suffix."""
    name = outer.replace("\\", "/").rpartition("/")[2].rpartition("!")[2]
    for suffix in _SUFFIXES[method]:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name or "content"


class _CompressedOpener:
    """Opens the file; used as ``PackageMember.open``."""

    def __init__(self, view: View, method: str) -> None:
        self._view = view
        self._method = method

    def __call__(self) -> LazyInflatedMember:
        from fatpack.packages.members import LazyInflatedMember
        from fatpack.packages.streams import InflatedStream

        view = self._view
        outer = view.chain[-1] if view.chain else view.source.name
        stream = InflatedStream(view, self._method, format=FORMAT)
        name = f"{outer}!{_name(outer, self._method)}"
        present = min(len(view), view.source.present)
        budget, origin = view.source.budget, view.source
        return LazyInflatedMember(
            stream, None, name, present=present, budget=budget, findings=stream.read_findings, origin=origin
        )
