"""Open the file of an address in a package, or in a package in it: ``data.tar.xz!usr/lib/libx.so``.

Names may contain ``!`` and parentheses: existing files win, and of these the one with the longest name.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadValue, FatpackError, UsageError
from fatpack.inputs.files import SEPARATOR, MemberPath, PackageSidecars, SidecarFolder
from fatpack.limits import UNCOUNTED
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Source, View
    from fatpack.packages import PackageMember

#: Advice if the compressed stream around a requested file is damaged.
_SALVAGE = "extract of the whole package takes what is left"

#: Names that an error lists
_NAMED = 5


class NestedFile:
    """A file in a package, open with all packages around it; closing it closes them too. A context manager.

    ``source`` has its bytes, ``package`` those of the outermost package. ``name`` is its path, ``rest`` the rest of the
    address: ``(MEMBER)`` or nothing.
    """

    def __init__(self, sources: list[Source], rest: str) -> None:
        self._sources = sources
        self.source = sources[-1]
        self.package = sources[0]
        self.name = self.source.name
        self.rest = rest

    def check(self) -> None:
        """Compare the file, and the packages around it, with the checksums that are stored. Raises FormatError."""
        for source in self._sources:
            source.check()

    def view(self) -> View:
        """Return a view of the file."""
        return self.source.view()

    def close(self) -> None:
        """Close the file, and the packages around it."""
        while self._sources:
            self._sources.pop().close()

    def __enter__(self) -> NestedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_nested(package: Source, inside: str) -> NestedFile:
    """Open the file with an address inside a package, which is closed with it, or at once if opening fails.

    Raises UsageError with the names in the package, FormatError for damage, Unsupported for an unknown compression.
    """
    sources: list[Source] = [package]
    names: tuple[str, ...] = (str(package.name),)
    try:
        for _ in range(limits.NESTING):
            found = _MemberSearch(sources[-1].view(), inside).result()
            names = (*names, found.name)
            found.source.name = MemberPath(*names)
            sources.append(found.source)
            if not found.rest.startswith(SEPARATOR):
                return NestedFile(sources, found.rest)
            inside = found.rest[1:]
        raise UsageError(f"{inside} is nested too deeply in packages", hint=limits.advice("NESTING"))
    except BaseException:
        for source in sources:
            source.close()
        raise


class _FoundMember(Record):
    name: str
    source: Source
    rest: str


class _MembersSeen:
    """Files of a package for an error message: the first ones, and those of the requested name in other folders."""

    def __init__(self, inside: str) -> None:
        self._inside = inside
        self._last = inside.partition(SEPARATOR)[0].partition("(")[0].rpartition("/")[2]
        self._first: list[str] = []
        self._alike: list[str] = []

    def add(self, name: str) -> None:
        """Record a file."""
        if len(self._first) <= _NAMED:
            self._first.append(name)
        if len(self._alike) < _NAMED and name.rpartition("/")[2] == self._last:
            self._alike.append(name)

    def hint(self, kind: str) -> str:
        """Return advice for a name that a package of this kind does not have."""
        if self._alike:
            return f"did you mean {' or '.join(self._alike)}?"
        more = ", …" if len(self._first) > _NAMED else ""
        hint = f"present are {', '.join(self._first[:_NAMED])}{more}" if self._first else "it has no files"
        if kind == "deb":
            hint += f"; its files are in data.tar.*, as in data.tar.xz{SEPARATOR}{self._inside}"
        return hint


class _MemberSearch:
    """Searches a package for the file at the start of an address; files in a stream are opened as they are read."""

    def __init__(self, view: View, inside: str) -> None:
        self._view = view
        self._inside = inside
        self._title = view.chain[0] if view.chain else "the input"
        self._kind = detect_package(view)
        if not self._kind:
            raise UsageError(f"{self._title} is no package: there is no {inside} in it")
        if not inside:
            raise UsageError(f"address {self._title}{SEPARATOR}: the file has no name")

    def result(self) -> _FoundMember:
        """Return the file. Raises UsageError if no file, or more than one, has this name."""
        from fatpack.packages import get_package

        best: list[tuple[PackageMember, str]] = []
        opened: Source | None = None
        failure: FatpackError | None = None
        present = _MembersSeen(self._inside)
        damage: Finding | None = None
        for item in get_package(self._kind).members(self._view):
            if isinstance(item, Finding):
                damage = item if damage is None and item.severity == "error" else damage
                continue
            present.add(item.name)
            rest = self._rest(item)
            if rest is None or (best and len(rest) > len(best[0][1])):
                continue
            if best and len(rest) < len(best[0][1]):
                best = []
            best.append((item, rest))
            if not item.is_lasting:
                if opened is not None:
                    opened.close()
                opened, failure = None, None
                try:
                    opened = item.open()
                except FatpackError as error:
                    failure = error
        if len(best) > 1:
            choices = "; ".join(f"{SEPARATOR}#{member.number}" for member, _ in best[:_NAMED])
            raise UsageError(
                f"{self._title} has {len(best)} files of the name {best[0][0].name}", hint=f"write {choices}"
            )
        if damage is not None and not (best and best[0][0].is_lasting):
            # The checksum is at the end of the stream: any part before it may be damaged.
            what = f"{self._inside} may be damaged" if best else f"no file {self._inside} is left of what is damaged"
            raise BadValue(
                f"{what}: {damage.message}",
                format=self._kind,
                offset=damage.span.start,
                field=damage.field or "package",
                hint="; ".join(filter(None, (damage.hint, _SALVAGE if best else ""))),
                chain=self._view.chain,
            )
        if not best:
            raise UsageError(f"{self._title} has no file {self._inside}", hint=present.hint(self._kind))
        if failure is not None:
            raise failure
        member, rest = best[0]
        source = self._completed(member, member.open() if opened is None else opened)
        return _FoundMember(member.name, source, rest)

    def _completed(self, member: PackageMember, source: Source) -> Source:
        """Return the source of a file, with the metadata files of its package."""
        if source.budget is UNCOUNTED:
            source.budget = self._view.source.budget
        if member.is_lasting:
            source.siblings = SidecarFolder(PackageSidecars(self._view, self._kind), member.name.rpartition("/")[0])
        return source

    def _rest(self, member: PackageMember) -> str | None:
        """Return the rest of the address after a file's name, or after its number (``#3``), if it starts with these."""
        for name in (member.name, f"#{member.number}"):
            if self._inside.startswith(name):
                rest = self._inside[len(name) :]
                if not rest or rest.startswith(SEPARATOR) or (rest.startswith("(") and rest.endswith(")")):
                    return rest
        return None
