"""Certificates: the proof of a slimmed program as plain data, and its text.

The document is ``fatpack.certificate/1``; ``schemas/certificate.schema.json`` describes it. There is no time in it: the
same two files have the same certificate.
"""

from __future__ import annotations

from fatpack.errors import format_hex, pluralize
from fatpack.printable import format_size, printable
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.proof.ledger import Difference, ProofResult, ProvedContainer, ProvedFile, ProvedImage
    from fatpack.proof.packages.verdict import PackageProofResult


PROGRAM_SCHEMA = "fatpack.certificate/1"

#: differences that a text names
_MAX_DIFFERENCES_SHOWN = 20

#: characters of a value that a text shows
_WIDTH = 50

#: kinds of differences from which on two files are two programs, and kinds that a text names of them
_ANOTHER, _NAMED = 6, 3


def certificate_record(verdict: ProofResult, version: str) -> dict[str, Any]:
    """Return the certificate of a verdict; ``version`` is that of fatpack."""
    return {
        "schema": PROGRAM_SCHEMA,
        "tool": {"name": "fatpack", "version": version},
        "host": verdict.host,
        "proved": verdict.is_proved,
        "before": _file(verdict.before),
        "after": _file(verdict.after),
        "compared": {
            "bytes": verdict.compared_size,
            "what": list(verdict.compared),
            "left_out": list(verdict.not_compared),
        },
        "changed": [
            {"address": item.start, "size": item.end - item.start, "what": item.what} for item in verdict.changed
        ],
        "containers": [_container(item) for item in verdict.containers],
        "kept": [_image(item) for item in verdict.kept],
        "dropped": [_image(item) for item in verdict.dropped],
        "differences": [_difference(item) for item in verdict.differences],
        "difference_count": verdict.difference_count,
    }


def _file(fact: ProvedFile) -> dict[str, Any]:
    return {"name": fact.name, "size": fact.size, "sha256": fact.digest}


def _container(fact: ProvedContainer) -> dict[str, Any]:
    new = None if fact.new is None else {"address": fact.new, "size": fact.new_size}
    return {
        "kind": fact.kind,
        "fate": fact.fate,
        "old": {"address": fact.old, "size": fact.old_size},
        "new": new,
        "records": list(fact.records),
    }


def _image(fact: ProvedImage) -> dict[str, Any]:
    return {
        "title": fact.title,
        "container": fact.container,
        "size": fact.size,
        "sha256": fact.digest,
        "inflated": fact.is_inflated,
        "recompressed": fact.recompressed,
    }


def _difference(item: Difference) -> dict[str, Any]:
    return {
        "what": item.what,
        "address": item.address,
        "offset": item.offset,
        "expected": item.expected,
        "found": item.found,
    }


def render_certificate(verdict: ProofResult) -> Iterator[str]:
    """Yield the lines that tell a user what was proved, or what differs."""
    before, after = printable(verdict.before.name), printable(verdict.after.name)
    if verdict.is_proved:
        yield f"{after} is {before} with less device code, and nothing else"
    else:
        yield from swapped_files_question(verdict.before, verdict.after)
        kinds = list(dict.fromkeys(item.what for item in verdict.differences))
        if len(kinds) >= _ANOTHER:
            more = f" and {len(kinds) - _NAMED} other things" if len(kinds) > _NAMED else ""
            yield f"{after} is another program than {before}, and not the same with less device code"
            yield printable(
                f"{pluralize(verdict.difference_count, 'difference')}: {', '.join(kinds[:_NAMED])}{more}; "
                "--json lists them"
            )
            return
        yield f"{after} is not {before} with less device code:"
        yield from _differences(verdict)
    moved = [item for item in verdict.containers if item.fate != "kept"]
    yield (
        f"{format_size(verdict.compared_size)} of memory compared; {pluralize(len(verdict.containers), 'container')}, "
        f"{len(moved)} changed or moved"
    )
    kept, dropped = _totals(verdict.kept), _totals(verdict.dropped)
    yield from align_columns([["images kept", *kept], ["images dropped", *dropped]])


def swapped_files_question(before: ProvedFile, after: ProvedFile) -> Iterator[str]:
    """Yield a question where a file that is not proved is larger: most likely the files were swapped."""
    if after.size > before.size:
        yield (
            f"AFTER is larger than BEFORE ({format_size(after.size)}, {format_size(before.size)}): "
            "are the two files the wrong way round?"
        )


def _totals(images: Sequence[ProvedImage]) -> list[str]:
    return [str(len(images)), format_size(sum(item.size for item in images))]


def _differences(verdict: ProofResult) -> Iterator[str]:
    for item in verdict.differences[:_MAX_DIFFERENCES_SHOWN]:
        place = ""
        if item.address is not None:
            place = f" at address {format_hex(item.address)}"
        elif item.offset is not None:
            place = f" at {format_hex(item.offset)} of the file"
        facts = [f"expected {_short(item.expected)}"] if item.expected else []
        facts += [f"found {_short(item.found)}"] if item.found else []
        yield printable(f"  {item.what}{place}: {', '.join(facts) or 'differs'}")
    if verdict.difference_count > _MAX_DIFFERENCES_SHOWN:
        yield f"  and {verdict.difference_count - _MAX_DIFFERENCES_SHOWN} more"


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


# Certificates of slimmed wheels and conda packages: the proof as plain data, and its text.
#
# The document is ``fatpack.package-certificate/1``; ``schemas/package-certificate.schema.json`` describes it. The
# libraries in it have certificates of their own. There is no time in it: the same two files have the same certificate.

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
        "removed": [
            {"path": item.path, "size": item.size, "sha256": item.digest, "kind": item.kind}
            for item in verdict.left_out
        ],
        "described": list(verdict.described),
        "libraries": [
            {"path": item.path, "certificate": certificate_record(item.verdict, version)} for item in verdict.libraries
        ],
        "differences": [
            {"what": item.what, "expected": item.expected, "found": item.found} for item in verdict.differences
        ],
        "difference_count": verdict.difference_count,
        **(_image_parts(verdict) if verdict.kind == "image" else {}),
    }


def _image_parts(verdict: PackageProofResult) -> dict[str, Any]:
    layers = [
        {
            "number": layer.number,
            **{
                when: {"sha256": digest, "size": size, "diff_id": diff_id}
                for when, digest, size, diff_id in zip(
                    ("before", "after"), layer.digests, layer.sizes, layer.diff_ids, strict=True
                )
            },
        }
        for layer in verdict.layers
    ]
    return {"layers": layers, "dropped": list(verdict.dropped)}


def render_package_certificate(verdict: PackageProofResult) -> Iterator[str]:
    """Yield the lines that tell a user what was proved, or what differs."""
    before, after = printable(verdict.before.name), printable(verdict.after.name)
    if verdict.before.digest == verdict.after.digest:
        yield f"{after} is {before}, byte for byte; nothing in them was read"
        return
    if verdict.is_proved:
        yield f"{after} is {before} with less device code, and nothing else"
    else:
        yield from swapped_files_question(verdict.before, verdict.after)
        yield f"{after} is not {before} with less device code:"
        for item in verdict.differences[:_MAX_PACKAGE_DIFFERENCES_SHOWN]:
            facts = [f"expected {item.expected}"] if item.expected else []
            facts += [f"found {item.found}"] if item.found else []
            yield printable(f"  {item.what}: {', '.join(facts) or 'differs'}")
        if verdict.difference_count > _MAX_PACKAGE_DIFFERENCES_SHOWN:
            yield f"  and {verdict.difference_count - _MAX_PACKAGE_DIFFERENCES_SHOWN} more"
    if verdict.left_out:
        size = format_size(sum(item.size for item in verdict.left_out))
        yield f"{pluralize(len(verdict.left_out), 'file')} of kernel stores left out ({size})"
    yield from (printable(f"missing, as it was about the old digests: {what}") for what in verdict.dropped)
    proved = [item.verdict for item in verdict.libraries if item.verdict.is_proved]
    kept, dropped = sum(len(one.kept) for one in proved), sum(len(one.dropped) for one in proved)
    unproved = len(verdict.libraries) - len(proved)
    yield (
        f"{pluralize(verdict.same_count, 'file')} unchanged, {pluralize(len(proved), 'library')} proved: "
        f"{pluralize(kept, 'image')} kept, {dropped} dropped"
        + (f"; {pluralize(unproved, 'library')} not proved" if unproved else "")
    )
