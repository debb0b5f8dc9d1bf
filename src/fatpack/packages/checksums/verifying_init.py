"""What packages state of their files, compared with the files: digests, sizes, lists. One module per kind.

::

    package ──► statements: name → digest, size ──┐
       └──────► every file, once, forwards ───────┴──► Compared and findings
"""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

    ChecksumVerifier = Callable[[View], Iterator["ChecksumResult | Finding"]]


class ChecksumResult(Record):
    """How many files, or parts of a package, have the digest or the size that is stated of them, or another one.

    ``what`` says who states it: ``md5sums``. With ``why`` they were not compared: nothing is stated that can be.
    """

    what: str
    count: int
    why: str = ""


#: JSON name of the package → modules that compare what such packages state, each with ``is_stated`` and ``verify``
CHECKSUM_MODULES: dict[str, tuple[str, ...]] = {
    "deb": ("fatpack.packages.checksums.deb",),
    "rpm": ("fatpack.packages.checksums.rpm",),
    "zip": ("fatpack.packages.checksums.conda",),
    "tar": ("fatpack.packages.checksums.conda",),
}


def checksum_verifier(kind: str, view: View) -> ChecksumVerifier | None:
    """Return what compares a package with what it states, None for one that states nothing that is known here.

    Cheap; what is returned reads and inflates the whole package. It raises what opening a file in it does, FormatError
    and Unsupported, for parts without which nothing can be compared.
    """
    for name in CHECKSUM_MODULES.get(kind, ()):
        module = __import__(name, fromlist=["verify"])
        try:
            if module.is_stated(view):
                found: ChecksumVerifier = module.verify
                return found
        except (FatpackError, OSError):
            return None  # said where the package is read
    return None
