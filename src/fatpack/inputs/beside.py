"""What lies beside a file of a package: the metadata that a compiler writes into the folder of an image.

Files that are read forwards only have nothing beside them: what lies there went by, or comes later.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.packages import PackageMember

#: All that is asked for ends so; other files of a package are not kept in mind.
_SUFFIX = ".json"


class PackageSidecars:
    """The metadata files of a package by their folders, looked up when the first is asked for."""

    __slots__ = ("_folders", "_kind", "_view")

    def __init__(self, view: View, kind: str) -> None:
        self._view = view
        self._kind = kind
        self._folders: dict[str, dict[str, PackageMember]] | None = None

    def of(self, folder: str) -> dict[str, PackageMember]:
        """Return the metadata files of a folder by their names; of several with one name, the first.

        Raises FormatError, Unsupported and OSError, each time it is asked, for a package that cannot be read.
        """
        if self._folders is None:
            from fatpack.packages import PackageMember, get_package

            folders: dict[str, dict[str, PackageMember]] = {}
            for item in get_package(self._kind).members(self._view):
                if isinstance(item, PackageMember) and item.is_lasting and item.name.endswith(_SUFFIX):
                    place, _, name = item.name.rpartition("/")
                    folders.setdefault(place, {}).setdefault(name, item)
            self._folders = folders  # an error on the way leaves no half of them behind
        return self._folders.get(folder, {})


class SidecarFolder:
    """The metadata files in the folder of one file; what ``Source.neighbours`` is."""

    __slots__ = ("_folder", "_together")

    def __init__(self, together: PackageSidecars, folder: str) -> None:
        self._together = together
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | None:
        """Return the first bytes of the file of a name, None if there is none. Raises FormatError, Unsupported."""
        member = self._together.of(self._folder).get(name)
        if member is None:
            return None
        with member.open() as source:
            return source.beginning(most)

    def names(self, suffix: str) -> list[str]:
        """Return the names that end so, in order."""
        return sorted(name for name in self._together.of(self._folder) if name.endswith(suffix))
