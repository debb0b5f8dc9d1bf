"""Known bugs: which of ``data/known.toml`` the findings of files, and facts about them, are evidence of.

The facts that the table names, beside codes of findings:

``zlib-content-damaged``    a bundle that zlib compressed has another hash than its content
``magic-inside``            the magic of compressed bundles stands in the compressed bytes of one
``bundle-without-size``     a compressed bundle of version 1
``no-host-entry``           a bundle without an entry for the host
``doubled-host-id``         a host's bundle ID that is stored twice over
``compressed-sycl-images``  images of a linked SYCL program that are compressed one by one
"""

from __future__ import annotations

import os
from importlib import import_module

from fatpack import magics
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from fatpack.formats.clang_bundle.stored import CompressedBundle
    from fatpack.model import Container, Finding


class Match(Record):
    """A finding that is evidence: its code; its field and words of its message where these are given."""

    code: str
    field: str = ""
    words: str = ""

    def fits(self, item: Finding) -> bool:
        """Return whether a finding is such evidence."""
        return item.code == self.code and (not self.field or item.field == self.field) and self.words in item.message


class Bug(Record):
    """A line of ``data/known.toml``, which says what the fields mean."""

    name: str
    side: str
    producer: str
    versions: str
    what: str
    advice: str
    sources: tuple[str, ...]
    match: tuple[Match, ...] = ()
    facts: tuple[str, ...] = ()

    def evidence(self, findings: Iterable[Finding], facts: Iterable[str]) -> tuple[str, ...]:
        """Return what of findings and facts shows this bug: codes and names, each once; nothing if none does."""
        codes = (item.code for item in findings if any(match.fits(item) for match in self.match))
        return tuple(dict.fromkeys([*codes, *(name for name in facts if name in self.facts)]))


_loaded: list[tuple[Bug, ...]] = []


def known_bugs() -> tuple[Bug, ...]:
    """Return all lines of the table; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "known.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded.append(tuple(_bug(row) for row in data["bug"]))
    return _loaded[0]


def _bug(row: dict[str, Any]) -> Bug:
    lists = {name: tuple(row.get(name, ())) for name in ("sources", "facts")}
    return Bug(**{**row, **lists, "match": tuple(Match(**each) for each in row.get("match", ()))})


def compressed(container: Container) -> CompressedBundle | None:
    """Return what was stored of a compressed bundle, None for any other container."""
    if container.format != "clang-offload-bundle":
        return None
    from fatpack.formats.clang_bundle.stored import CompressedBundle

    return container.record if isinstance(container.record, CompressedBundle) else None


def facts_of(container: Container, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the facts about a container that known bugs are recognised by; ``findings`` are those about it."""
    if container.format != "clang-offload-bundle":
        return
    record = compressed(container)
    if record is not None:
        if record.method == "zlib" and any(item.code == "FP1304" for item in findings):
            yield "zlib-content-damaged"
        if record.stream.find(magics.COMPRESSED_BUNDLE) >= 0:
            yield "magic-inside"
        if record.size is None:
            yield "bundle-without-size"
    offloads = {image.target.offload for image in container.images}
    if container.images and "host" not in offloads and container.attrs.get("flavour") not in ("object", "linked"):
        yield "no-host-entry"
    if any(_is_doubled(image.target.spelling) for image in container.images):
        yield "doubled-host-id"
    if container.attrs.get("flavour") == "linked" and any(image.compression == "zstd" for image in container.images):
        yield "compressed-sycl-images"


def _is_doubled(spelling: str) -> bool:
    half = spelling[: len(spelling) // 2]
    return half.endswith("-") and spelling == half + half
