"""Where the walk is: the file it visits, how far it may go from there, and what the whole scan has done so far."""

from __future__ import annotations

from fatpack import binary, formats, limits, magic_numbers
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.registration.analysis.counts import RegistrationCounts

#: How much of a file is searched: where its host keeps device code, sections whose names say nothing, and the data of
#: programs and libraries …
SEARCH_SECTIONS = 0
#: … and the data of objects, and all of a host that does not say where its data is, since nothing was found there
SEARCH_DATA = 1
#: … everything, since no host says where to look; except for device images, which hold no containers
SEARCH_ANYWHERE = 2
#: … everything, since that was asked for
SEARCH_ALL = 3

#: what a file is called that has no sections, where it was not searched
WHOLE_FILE = "the whole file"


def detect_host(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.format_by_magic(view.head(0, 24)):
        return "raw"
    host = binary.detect_host(view)
    if host is None:
        formats.add_plugins()  # what nobody knows may be a container of theirs
    return host or "raw"


#: how some packages begin, and other files too: scripts with an archive behind them, and LZMA of before xz
_SOME = (b"#!", b"]\0\0")


def detect_package(view: View) -> str:
    """Return the JSON name of the package that a file is, which carries other files; "" for any other file.

    Of most files a few hundred bytes are read. A program with an archive behind it is a program; a script with one
    is a package.
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
    """Bytes of a host that were not searched: the sections of one name, in all files of the scan together.

    ``section`` is the name as far as it says what is in it: ``.text`` for ``.text.main`` too.
    """

    section: str
    count: int
    size: int


class ScanState:
    """What one scan has done so far, wherever in the file it was.

    ``containers`` is how many more are listed, ``is_outside`` whether containers were found in places that are not
    made for them, ``has_plain_members`` whether there may be members of archives in which none was found, ``has_more``
    whether more is searched (``DATA``) if nothing was found. ``units`` are
    what objects and programs register in which nothing is wrong about that; without ``judges`` nobody asks for it.
    Without ``recognises`` images are what their containers say, and nothing looks into them.
    """

    __slots__ = (
        "_skipped",
        "containers",
        "has_more",
        "has_plain_members",
        "is_outside",
        "judges",
        "recognises",
        "units",
    )

    def __init__(self, *, judges: bool = True, recognises: bool = True) -> None:
        self.judges, self.recognises = judges, recognises
        self.containers = limits.CONTAINERS
        self.is_outside = self.has_plain_members = self.has_more = False
        self.units: list[RegistrationCounts] = []
        self._skipped: dict[str, tuple[int, int]] = {}

    def skip(self, section: str, count: int, size: int) -> None:
        """Take note that sections of a name were not searched."""
        before, total = self._skipped.get(section, (0, 0))
        self._skipped[section] = (before + count, total + size)

    def skipped(self) -> tuple[NotSearched, ...]:
        """Return what was not searched, the largest first."""
        rows = [NotSearched(name, count, size) for name, (count, size) in self._skipped.items()]
        return tuple(sorted(rows, key=lambda row: (-row.size, row.section)))


class ScanContext(Record):
    """A file that the walk visits: a whole one, a member of an archive, or what an image or a module holds.

    ``host`` is what kind of file it is, ``member`` what it is called in the archive around it. ``depth`` more levels of
    files are entered from here; ``search`` says how much of it is searched. ``numbers`` lead to the member, outermost
    archive first. ``is_inside`` is set for what an image or a module holds.
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
        """Return the visit to a file inside this one, one level deeper: such is never searched whole."""
        return ScanContext(view, detect_host(view), self.depth - 1, SEARCH_SECTIONS, self.progress, is_inside=True)


def start_scan(view: View, search: int, *, judges: bool = True, recognises: bool = True) -> ScanContext:
    """Return the visit with which a scan starts."""
    return ScanContext(view, detect_host(view), limits.NESTING, search, ScanState(judges=judges, recognises=recognises))
