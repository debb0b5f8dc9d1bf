"""RPM packages of Fedora, SUSE and others: two headers, and a compressed cpio archive of the files.

::

    lead         96 bytes, obsolete
    signature    a header, padded to 8
    header       tags and values: name, dependencies, scripts, and tables of its files
    payload      a cpio archive, compressed as a whole with gzip, xz, zstd, bzip2 or LZMA; or uncompressed

The payload is inflated once, forwards, like compressed tar archives. Its first bytes show the method.

How we know: RPM's manual, ``format_v4.md`` and ``format_v6.md``, and ``lib/rpmfi.c`` and ``lib/cpio.c`` of RPM 4.20 for
packages whose cpio archive omits names and sizes. Packages of rpmbuild 4.18 are compared with rpm's listing.

QUIRK(hard links): several names of one file come one after the other; only the last has the bytes, and is listed.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import FormatInfo
from fatpack.packages.rpm.header import FORMAT, LAYOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.packages import PackageMember

__all__ = ["DOC", "LAYOUTS", "detect", "members"]

DOC = FormatInfo(
    name=FORMAT,
    title="RPM package",
    description=(
        "Packages of rpm, dnf and zypper (Fedora, RHEL, SUSE and others); source packages too. The files "
        "are a cpio archive after two headers, compressed as a whole."
    ),
    references=(
        "rpm.org manual: RPM V4 Package format, RPM V6 Package format",
        "RPM 4.20, lib/rpmfi.c and lib/cpio.c",
        "cpio(5) of FreeBSD 14, New ASCII Format",
    ),
    reads="packages of version 3, 4 and 6 with payloads of gzip, xz, zstd, bzip2, LZMA or none",
    writes="none",
    limitations=(
        "Everything is inflated up to the last file that is read, and files are read in order.",
        "Listings check no digests; `fatpack doctor` does. Signatures by keys are not checked.",
        "If a file has several names (hard links), the last is listed; none if the file is empty.",
        "Delta packages (`.drpm`) are not read.",
        "Names are read as UTF-8.",
    ),
)


def detect(view: View) -> bool:
    """Return whether the bytes start like an RPM package."""
    return view.head(0, 4) == magic_numbers.RPM


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield every file in stored order, and damage; open each file before requesting the next."""
    from fatpack.packages.rpm.files import members

    return members(view)
