"""What a file is, from its first bytes: a host, a container on its own, or packed as a whole."""

from __future__ import annotations

from fatpack import formats, hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: how files begin that are packed as a whole → what they are, and what unpacks them
PACKED = {
    b"PK\x03\x04": ("a zip archive, as wheels are", "unzip it"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "zstd -d unpacks it"),
    b"\x1f\x8b\x08": ("compressed with gzip", "gzip -d unpacks it"),
    b"\xfd7zXZ\0": ("compressed with xz", "xz -d unpacks it"),
}


def host_of(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.sniff(view.head(0, 24)):
        return "raw"
    return next((name for name in hosts.ROOMS if hosts.room(name).detect(view)), "raw")
