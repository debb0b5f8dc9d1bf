"""Debian packages: the files of ``data.tar`` against ``md5sums`` in ``control.tar``, which dpkg keeps for ``--verify``.

How we know: deb-md5sums(5) of dpkg 1.21: a line has an MD5 in hexadecimal, two blanks, and a path without the slash
before it. Links and folders have no line, and configuration files may have none.
"""

from __future__ import annotations

from fatpack.packages import PackageMember, get_package
from fatpack.packages.checksums import ChecksumResult, StatedFile, checksum_finding, compare_files, read_file_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

_MD5SUMS = "md5sums"


def has_checksums(view: View) -> bool:
    """Return whether there may be checksums: true for any Debian package."""
    return True


def verify(view: View) -> Iterator[ChecksumResult | Finding]:
    """Yield findings about the files, and the counts."""
    parts = {
        item.name.partition(".")[0]: item
        for item in get_package("deb").members(view)
        if isinstance(item, PackageMember)
    }
    control, data = parts.get("control"), parts.get("data")
    if control is None or data is None:
        yield ChecksumResult(_MD5SUMS, 1, "the package has no control.tar, or no data.tar")
        return
    stated: dict[str, StatedFile] | None = None
    with control.open() as source:
        for item in get_package("tar").members(source.view()):
            if isinstance(item, PackageMember) and item.name == _MD5SUMS and stated is None:
                lines = read_file_list(item).decode("utf-8", "surrogateescape").splitlines()
                stated = {}
                for line in lines:
                    digest, _, name = line.partition(" ")
                    name = name[1:] if name[:1] in (" ", "*") else name
                    if len(digest) != 32 or not name:
                        yield checksum_finding("FP3604", view, f"a line of md5sums is none: {line[:80]!r}", _MD5SUMS)
                        continue
                    stated[name.removeprefix("./")] = StatedFile("md5", digest)
    if stated is None:
        yield ChecksumResult(_MD5SUMS, 1, "control.tar has no md5sums")
        return
    with data.open() as source:
        yield from compare_files(get_package("tar").members(source.view()), stated, _MD5SUMS, view, unlisted=False)
