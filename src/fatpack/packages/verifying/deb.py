"""Debian packages: the files of ``data.tar`` against ``md5sums`` in ``control.tar``, which dpkg keeps for ``--verify``.

How we know: deb-md5sums(5) of dpkg 1.21: a line has an MD5 in hexadecimal, two blanks, and a path without the slash
before it. Links and folders have no line, and configuration files may have none.
"""

from __future__ import annotations

from fatpack.packages import Member, room
from fatpack.packages.verifying import Compared
from fatpack.packages.verifying.stated import Stated, compared, text_of, wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

_WHO = "md5sums"


def is_stated(view: View) -> bool:
    """Say whether this may be stated: of any Debian package."""
    return True


def verify(view: View) -> Iterator[Compared | Finding]:
    """Yield what is wrong with the files, and how many were compared."""
    parts = {item.name.partition(".")[0]: item for item in room("deb").members(view) if isinstance(item, Member)}
    control, data = parts.get("control"), parts.get("data")
    if control is None or data is None:
        yield Compared(_WHO, 1, "the package has no control.tar, or no data.tar")
        return
    stated: dict[str, Stated] | None = None
    with control.open() as source:
        for item in room("tar").members(source.view()):
            if isinstance(item, Member) and item.name == _WHO and stated is None:
                lines = text_of(item).decode("utf-8", "surrogateescape").splitlines()
                stated = {}
                for line in lines:
                    digest, _, name = line.partition(" ")
                    name = name[1:] if name[:1] in (" ", "*") else name
                    if len(digest) != 32 or not name:
                        yield wrong("FP3604", view, f"a line of md5sums is none: {line[:80]!r}", _WHO)
                        continue
                    stated[name.removeprefix("./")] = Stated("md5", digest)
    if stated is None:
        yield Compared(_WHO, 1, "control.tar has no md5sums")
        return
    with data.open() as source:
        yield from compared(room("tar").members(source.view()), stated, _WHO, view, unlisted=False)
