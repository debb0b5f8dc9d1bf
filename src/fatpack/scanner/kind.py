"""What a file is, from its first bytes: a host, or something else."""

from __future__ import annotations

from fatpack import formats, hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


def host_of(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.sniff(view.head(0, 24)):
        return "raw"
    return hosts.detected(view) or "raw"
