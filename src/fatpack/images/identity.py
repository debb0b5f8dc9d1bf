"""The canonical digest of an image's code: the same for builds of one source at other times and places.

``docs/design/digest.md`` is the specification; its version is :data:`VERSION`. The digest of an image is the SHA-256 of
these parts, each with its size (:func:`fatpack.images.kernel.digest_parts`):

===========  ==========================================================================================================
form         parts after the form's name
===========  ==========================================================================================================
cubin, ptx,  digests of the variables and of the kernels (:mod:`fatpack.images.kernel`), then of each function, also of
code-object  those that no kernel calls, each with its name; of ELF, loaded sections that none of these covers
spirv        the container's word for the architecture; version, and the instructions without those for debuggers
any other    the container's word for the architecture; all bytes
===========  ==========================================================================================================

Containers have no part in it: neither their format, nor names and order of entries, nor compression.
"""

from __future__ import annotations

from fatpack.images.kernel import digest_parts, strip_unit_suffix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fatpack.io.source import View

#: The version of the definition, which each digest begins with. Another definition gets another version.
VERSION = "fp1"

#: forms that are containers themselves: the images in them have digests
CONTAINERS = frozenset(("offload-binary", "syclbin", "bundle", "fatbin"))

#: forms whose code is told from what a build leaves around it; of all others every byte counts
UNDERSTOOD = frozenset(("cubin", "ptx", "code-object", "spirv"))

#: forms that state the architecture themselves, whatever their container says
STATES_ARCH = frozenset(("cubin", "ptx", "code-object"))


def format_digest(digest: bytes) -> str:
    """Return a digest as it is printed: ``fp1:sha256:`` and 64 hexadecimal digits."""
    return f"{VERSION}:sha256:{digest.hex()}"


def image_digest(view: View, form: str, codes: Mapping[str, str], variables: str | None, arch: str = "") -> str | None:
    """Return the canonical digest of an image as text; None for a form that is a container.

    ``codes`` and ``variables`` are those of :func:`fatpack.images.code_digests`; ``arch`` is the container's word for
    the architecture, which counts for forms that do not state it. Raises FormatError for damaged tables, LimitExceeded
    for too large ones.
    """
    if form in CONTAINERS:
        return None
    from fatpack import images

    question = f"{form} {'' if form in STATES_ARCH else arch}"
    return images.recall("digest", question, view, lambda: _read_digest(view, form, codes, variables, arch))


def _read_digest(view: View, form: str, codes: Mapping[str, str], variables: str | None, arch: str) -> str:
    stated = b"" if form in STATES_ARCH else arch.encode("utf-8", "surrogateescape")
    if form == "spirv":
        from fatpack.images.spirv import code_digest

        return format_digest(digest_parts((b"spirv", stated, code_digest(view))))
    if form not in UNDERSTOOD:
        from fatpack.io.source import sha256_of_pieces

        return format_digest(digest_parts((form.encode(), stated, sha256_of_pieces([view]))))
    from fatpack import images

    functions, rest = images.function_digests(view, form)
    parts = [
        form.encode(),
        variables.encode() if variables else b"",
        *_pairs(codes),
        b"functions",
        *_pairs({name: digest.hex() for name, digest in functions.items()}),
        b"sections",
        *rest,
    ]
    return format_digest(digest_parts(parts))


def _pairs(digests: Mapping[str, str]) -> Iterable[bytes]:
    """Return names and digests in the order of the names without what compilers make of a unit, then of the digests."""
    for name, digest in sorted((strip_unit_suffix(name), digest) for name, digest in digests.items()):
        yield from (name.encode("utf-8", "surrogateescape"), digest.encode())


def digest_of_images(digests: Iterable[str]) -> str | None:
    """Return the canonical digest of a file from those of its images, in any order; None if there are none."""
    known = sorted(digests)
    return format_digest(digest_parts((VERSION.encode(), *(text.encode() for text in known)))) if known else None
