"""Finding containers: source → stream of what was found. The only place where hosts and formats meet.

:func:`scan` asks the hosts where device code may lie, walks the containers there by their declared sizes, recognises
every image, and looks into images that are containers or hosts themselves. Damage becomes a
:class:`~fatpack.model.Finding` and the walk goes on behind it, so one bad container never hides its neighbours.

Rules the code below obeys:

1. A container whose header is sound is stepped over by its declared size, even when its inside is damaged: a magic
   inside a payload is never taken for a container.
2. Where nothing starts, the next magic is searched from there; each magic's next position is remembered, so a magic
   that does not occur again is searched for once per region and everything stays linear.
3. Limits on nesting and on findings bound what a hostile file can make us do.
"""

from __future__ import annotations

from fatpack.findings import finding
from fatpack.io import limits
from fatpack.model import Finding
from fatpack.scanner import walk
from fatpack.scanner.found import Found, FoundImage, LateImages, looked_at
from fatpack.scanner.kind import host_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.io.source import View

__all__ = ["Found", "FoundImage", "LateImages", "host_of", "looked_at", "scan"]


def scan(view: View, *, deep: bool = False) -> Iterator[Found | Finding]:
    """Yield every container in a file, an object, or a bare container, and a finding for everything wrong.

    ``deep`` looks for containers outside the places known for them too, which reads the whole file
    (:mod:`fatpack.deep`); those come behind the others of their host.

    Order is that of the bytes within a host; containers that only records lead to (:mod:`fatpack.runtime`) come behind
    those of its sections. Nothing is read but headers, unless something is compressed; of a large
    compressed bundle its table is inflated, and the rest when its images are looked at. Never raises for damaged input:
    an unreadable host is a finding as well. Raises ``OSError`` when reading fails.
    """
    findings, containers = limits.FINDINGS, limits.CONTAINERS
    models: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for item in walk.file(view, None, limits.NESTING, deep):
        if isinstance(item, Finding):
            findings -= 1
            if findings < 0:
                yield finding("FP1005", item.span, f"more than {limits.FINDINGS} findings; the rest is not listed")
                return
        else:
            containers -= 1
            if containers < 0:
                text = f"more than {limits.CONTAINERS} containers; the rest is not listed"
                yield finding("FP1005", item.container.span, text, limits.advice("CONTAINERS"))
                return
            place = item.member or ""
            if item.container.attrs.get("flavour") == "object":
                models[0][place] = None
            elif (item.section or "").startswith(".llvm.offloading"):
                models[1][place] = None
        yield item
    if all(models):
        yield _mixed(view, *models)


def _mixed(view: View, old: Collection[str], new: Collection[str]) -> Finding:
    """Return the finding that a file holds device code of two models, with the members or sections that do."""

    def named(places: Collection[str]) -> str:
        words = [place for place in places if place][:3]
        more = [f"{len(places) - 3} more"] if len(places) > 3 else []
        return f" ({', '.join([*words, *more])})" if words else ""

    text = f"device code in sections of clang-offload-bundler{named(old)} and in .llvm.offloading{named(new)}"
    return finding("FP3021", view.span(), text, "a link takes one of them and drops the other: compile all in one way")
