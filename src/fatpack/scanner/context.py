"""The state of a scan: the file being scanned, the depth that is left, and the progress of the whole scan."""

from __future__ import annotations

from fatpack import binary, formats, limits, magic_numbers
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.registration.analysis.counts import RegistrationCounts

#: Extent of the search in a file: the sections for device code, sections of unknown names, and the data of programs
#: and libraries …
SEARCH_SECTIONS = 0
#: … and, if nothing was found there, the data of objects, and all of a host without a table of its data
SEARCH_DATA = 1
#: … everything, if the type of the file is unknown; except device images, which hold no containers
SEARCH_ANYWHERE = 2
#: … everything (``--deep``)
SEARCH_ALL = 3

#: the name of a file without sections in lists of what was not searched
WHOLE_FILE = "the whole file"


def detect_host(view: View) -> str:
    """Return the JSON name of the host format of a file: ``raw`` if it is unknown, or a container."""
    if formats.format_by_magic(view.head(0, 24)):
        return "raw"
    host = binary.detect_host(view)
    if host is None:
        formats.add_plugins()  # unknown bytes may be a container of a plug-in
    return host or "raw"


#: first bytes of some packages, and of other files too: scripts with an archive at their end, and LZMA before xz
_SOME = (b"#!", b"]\0\0")


def detect_package(view: View) -> str:
    """Return the JSON name of the package format of a file; "" if the file is no package.

    Of most files a few hundred bytes are read. A program with an archive at its end is a program; a script with one is
    a package.
    """
    head = view.head(0, magic_numbers.TAR_AT + len(magic_numbers.TAR))
    is_one = head.startswith((*magic_numbers.PACKAGES, *_SOME)) or head.startswith(
        magic_numbers.TAR, magic_numbers.TAR_AT
    )
    if not is_one and not head.startswith(magic_numbers.SKIPPABLE, 1):
        return ""
    from fatpack.packages import detect_package

    return detect_package(view) or ""


class NotSearched(Record):
    """Sections of one name that were not searched, in all files of the scan together.

    ``section`` is the general part of the name: ``.text`` for ``.text.main`` too.
    """

    section: str
    count: int
    size: int


class ScanState:
    """The progress and the options of one scan, shared by all files in the scanned one.

    ``containers``: how many more are listed. ``is_outside``: containers were found in sections that are not for device
    code. ``has_plain_members``: archives may have members without containers. ``has_more``: more can be searched
    (``SEARCH_DATA``) if nothing is found. ``units``: the registrations of objects and programs, except of those with a
    finding about them. The two options are those of :func:`fatpack.scanner.scan`.
    """

    __slots__ = (
        "_skipped",
        "checks_registration",
        "containers",
        "has_more",
        "has_plain_members",
        "identifies_images",
        "is_outside",
        "units",
    )

    def __init__(self, *, checks_registration: bool = True, identifies_images: bool = True) -> None:
        self.checks_registration, self.identifies_images = checks_registration, identifies_images
        self.containers = limits.CONTAINERS
        self.is_outside = self.has_plain_members = self.has_more = False
        self.units: list[RegistrationCounts] = []
        self._skipped: dict[str, tuple[int, int]] = {}

    def skip(self, section: str, count: int, size: int) -> None:
        """Record that sections of a name were not searched."""
        before, total = self._skipped.get(section, (0, 0))
        self._skipped[section] = (before + count, total + size)

    def skipped(self) -> tuple[NotSearched, ...]:
        """Return the sections that were not searched, the largest first."""
        rows = [NotSearched(name, count, size) for name, (count, size) in self._skipped.items()]
        return tuple(sorted(rows, key=lambda row: (-row.size, row.section)))


class ScanContext(Record):
    """A file in a scan: the scanned file itself, a member of an archive, or a file in an image or a module.

    ``host`` is its host format, ``member`` its name in the archive around it. ``depth`` is how many more levels of
    nested files are entered; ``search`` is how much of it is searched. ``numbers`` are the numbers of the members that
    lead to it, outermost archive first. ``is_inside`` is true for a file in an image or a module.
    """

    view: View
    host: str
    depth: int
    search: int
    progress: ScanState
    member: str | None = None
    numbers: tuple[int, ...] = ()
    is_inside: bool = False

    def inside(self, view: View) -> ScanContext:
        """Return the context of a file inside this one, one level deeper; only its sections are searched."""
        return ScanContext(view, detect_host(view), self.depth - 1, SEARCH_SECTIONS, self.progress, is_inside=True)


def start_scan(
    view: View, search: int, *, checks_registration: bool = True, identifies_images: bool = True
) -> ScanContext:
    """Return the context with which a scan starts."""
    return ScanContext(
        view,
        detect_host(view),
        limits.NESTING,
        search,
        ScanState(checks_registration=checks_registration, identifies_images=identifies_images),
    )
