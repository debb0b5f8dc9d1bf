"""RPM packages: header, payload and files compared with the digests in the two headers.

How we know: RPM's ``docs/manual/tags.md`` and ``format_header.md`` (4.20): in the signature header 269 and 273 are
SHA-1 and SHA-256 of the main header in hexadecimal, 1004 the MD5 of everything after the signature; in the main header
5092 is the digest of the payload as stored, 1035 those of the files, and 5093 and 5011 their algorithms, as numbers of
RFC 4880. Signatures by keys are not verified: that needs the keys.
"""

from __future__ import annotations

from fatpack.packages import get_package
from fatpack.packages.checksums import ChecksumResult, StatedFile, checksum_finding, compare_files
from fatpack.packages.rpm.header import LEAD, RpmHeader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

_SHA1_OF_HEADER, _SHA256_OF_HEADER, _MD5_OF_BOTH = 269, 273, 1004
_OF_PAYLOAD, _PAYLOAD_ALGORITHM = 5092, 5093
_OF_FILES, _FILES_ALGORITHM = 1035, 5011

#: number of an algorithm (RFC 4880, 9.4) → its name
_NAMES = {1: "md5", 2: "sha1", 8: "sha256", 9: "sha384", 10: "sha512", 11: "sha224"}

_RPM_HEADER = "the header"


def has_checksums(view: View) -> bool:
    """Return whether there may be checksums: true for any RPM package."""
    return True


def verify(view: View) -> Iterator[ChecksumResult | Finding]:
    """Yield findings about headers, payload and files, and the counts. Raises FormatError."""
    signature = RpmHeader(view, LEAD.size)
    start = -(-signature.end // 8) * 8
    header = RpmHeader(view, start)
    yield from _parts(view, signature, header, start)
    names = [file.name.removeprefix("/") for file in header.files()]
    digests = header.texts(_OF_FILES)
    if len(digests) != len(names):
        yield ChecksumResult(_RPM_HEADER, len(names), "it has no digests of files")
        return
    algorithm = _NAMES.get(next(iter(header.numbers(_FILES_ALGORITHM)), 1), "")
    stated = {name: StatedFile(algorithm, digest) for name, digest in zip(names, digests, strict=True) if digest}
    linked = {file.name.removeprefix("/") for file in header.files() if file.is_linked}
    listed = {name: each for name, each in stated.items() if name not in linked}
    yield from compare_files(get_package("rpm").members(view), listed, _RPM_HEADER, view, unlisted=False)


def _parts(view: View, signature: RpmHeader, header: RpmHeader, start: int) -> Iterator[ChecksumResult | Finding]:
    """Compare the header, the payload, and both together."""
    whole, payload = view.slice(start, header.end - start), view.slice(header.end, len(view) - header.end)
    signed = view.slice(start, len(view) - start)
    number = next(iter(header.numbers(_PAYLOAD_ALGORITHM)), 8)
    claims = (
        ("header", whole, "sha256", signature.text(_SHA256_OF_HEADER), "the signature header"),
        ("header", whole, "sha1", signature.text(_SHA1_OF_HEADER), "the signature header"),
        ("payload", payload, _NAMES.get(number, ""), next(iter(header.texts(_OF_PAYLOAD)), ""), _RPM_HEADER),
        ("everything after the signature", signed, "md5", signature.binary(_MD5_OF_BOTH).hex(), "the signature header"),
    )
    count = 0
    for what, part, algorithm, stated, record_name in claims:
        if not stated or not algorithm:
            continue
        count += 1
        found = _digest(part, algorithm)
        if found != stated.lower():
            text = f"{what} has another {algorithm} than {record_name} says"
            yield checksum_finding("FP3603", view, text, "", expected=stated, found=found)
    if count:
        yield ChecksumResult("digests of the header and the payload", count)
    else:
        yield ChecksumResult("digests of the header and the payload", 1, "the package states none")


def _digest(view: View, algorithm: str) -> str:
    import hashlib

    made = hashlib.new(algorithm, usedforsecurity=False)
    for piece in view.read_once():
        made.update(piece)
    return made.hexdigest()
