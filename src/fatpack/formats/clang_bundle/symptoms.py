"""By what bugs of producers and readers of bundles show, beside findings: names that tables of known bugs use.

``zlib-content-damaged``    a bundle that zlib compressed has another hash than its content
``magic-inside``            the magic of compressed bundles stands in the compressed bytes of one
``bundle-without-size``     a compressed bundle of version 1
``no-host-entry``           a bundle without an entry for the host
``doubled-host-id``         a host's bundle ID that is stored twice over
``compressed-sycl-images``  images of a linked SYCL program that are compressed one by one
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.clang_bundle.clang_bundle_stored import CompressedBundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.model import Container, Finding


def symptoms(container: Container, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the names of the facts that are so of a bundle; ``findings`` are those about it."""
    record = container.record
    if isinstance(record, CompressedBundle):
        if record.method == "zlib" and any(item.code == "FP1304" for item in findings):
            yield "zlib-content-damaged"
        if record.stream.find(magic_numbers.COMPRESSED_BUNDLE) >= 0:
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
