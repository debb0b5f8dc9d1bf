"""What a proof says of a slimmed wheel or conda package: a certificate as plain data, and its text.

The document is ``fatpack.package-certificate/1``; ``schemas/package-certificate.schema.json`` describes it. The
libraries in it have certificates of their own. There is no time in it: the same two files have the same certificate.
"""

from __future__ import annotations

from fatpack.commands.slim import certificate
from fatpack.errors import pluralize
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fatpack.proof.packages.verdict import PackageProofResult

PACKAGE_SCHEMA = "fatpack.package-certificate/1"

#: differences that a text names
_MAX_PACKAGE_DIFFERENCES_SHOWN = 20


def package_certificate_record(verdict: PackageProofResult, version: str) -> dict[str, Any]:
    """Return the certificate of a verdict; ``version`` is that of fatpack."""
    files = {"before": verdict.before, "after": verdict.after}
    return {
        "schema": PACKAGE_SCHEMA,
        "tool": {"name": "fatpack", "version": version},
        "kind": verdict.kind,
        "proved": verdict.is_proved,
        **{key: {"name": one.name, "size": one.size, "sha256": one.digest} for key, one in files.items()},
        "compared": {"what": list(verdict.compared), "left_out": list(verdict.not_compared)},
        "same_count": verdict.same_count,
        "described": list(verdict.described),
        "libraries": [
            {"path": item.path, "certificate": certificate.certificate_record(item.verdict, version)}
            for item in verdict.libraries
        ],
        "differences": [
            {"what": item.what, "expected": item.expected, "found": item.found} for item in verdict.differences
        ],
        "difference_count": verdict.difference_count,
    }


def render_package_certificate(verdict: PackageProofResult) -> Iterator[str]:
    """Yield the lines that tell a user what was proved, or what differs."""
    before, after = printable(verdict.before.name), printable(verdict.after.name)
    if verdict.before.digest == verdict.after.digest:
        yield f"{after} is {before}, byte for byte; nothing in them was read"
        return
    if verdict.is_proved:
        yield f"{after} is {before} with less device code, and nothing else"
    else:
        yield from certificate.swapped_files_question(verdict.before, verdict.after)
        yield f"{after} is not {before} with less device code:"
        for item in verdict.differences[:_MAX_PACKAGE_DIFFERENCES_SHOWN]:
            facts = [f"expected {item.expected}"] if item.expected else []
            facts += [f"found {item.found}"] if item.found else []
            yield printable(f"  {item.what}: {', '.join(facts) or 'differs'}")
        if verdict.difference_count > _MAX_PACKAGE_DIFFERENCES_SHOWN:
            yield f"  and {verdict.difference_count - _MAX_PACKAGE_DIFFERENCES_SHOWN} more"
    kept, dropped = (
        (
            sum(len(images) for images in found)
            for found in zip(*((item.verdict.kept, item.verdict.dropped) for item in verdict.libraries), strict=True)
        )
        if verdict.libraries
        else (0, 0)
    )
    yield (
        f"{pluralize(verdict.same_count, 'file')} unchanged, {pluralize(len(verdict.libraries), 'library')} proved: "
        f"{pluralize(kept, 'image')} kept, {dropped} dropped"
    )
