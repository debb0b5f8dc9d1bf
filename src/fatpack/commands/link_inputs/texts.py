"""The groups of a link line as text, one line each, with their files below them."""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import format_size
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def render_link_inputs(document: Mapping[str, Any], *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a document; ``verbose`` adds the files of each group, and inputs of which nothing is taken."""
    sizes = {each["file"]: each["size"] for each in document["files"]}
    places = {each["file"]: " in ".join(filter(None, (each["member"], each["input"]))) for each in document["files"]}
    lines = align_columns([_group_row(group, sizes) for group in document["groups"]])
    for line, group in zip(lines, document["groups"], strict=True):
        yield line
        if verbose:
            yield from align_columns([[name, printable(places[name])] for name in group["files"]], indent="  ")
        if "refusal" in group:
            yield f"  {group['refusal']}"
    if document["left"]:
        targets = dict.fromkeys(" ".join(filter(None, (each["triple"], each["arch"]))) for each in document["left"])
        yield printable(
            f"{pluralize(len(document['left']), 'image')} in archives not linked, for targets that nothing else is for: "
            f"{', '.join(targets)}; --whole-archive in front of an archive takes all of its images"
        )
    for item in document["inputs"] if verbose else ():
        if "why" in item:
            other = f"; device code in {', '.join(item['other_sections'])}" if "other_sections" in item else ""
            yield printable(f"{item['path']}: not linked: {item['why']}{other}")


def _group_row(group: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    target = " ".join(filter(None, (group["triple"], group["arch"]))) or "no target"
    total = sum(sizes[name] for name in group["files"])
    count = pluralize(len(group["files"]), "image")
    return [printable(target), ",".join(group["offloads"]) or "none", f"{count}, {format_size(total)}"]
