"""What a file is, from its first bytes: a host, a container on its own, or packed as a whole."""

from __future__ import annotations

from fatpack import formats, hosts, magics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: how files begin that are packed as a whole → what they are, and what unpacks them
PACKED = {
    magics.ZIP: ("a zip archive, as wheels are", "unzip it"),
    magics.ZSTD: ("compressed with zstd", "zstd -d unpacks it"),
    magics.GZIP: ("compressed with gzip", "gzip -d unpacks it"),
    magics.XZ: ("compressed with xz", "xz -d unpacks it"),
}


def host_of(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.sniff(view.head(0, 24)):
        return "raw"
    return next((name for name in hosts.ROOMS if hosts.room(name).detect(view)), "raw")
