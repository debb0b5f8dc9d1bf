"""The files of kernel stores in a folder or wheel: which of them go, once all were looked at.

A store of which no device takes anything stays: as with containers, nothing is emptied without being asked for.
"""

from __future__ import annotations

import os

from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import arch_label
from fatpack.commands.slim.outcome import goes_whole
from fatpack.commands.slim.plan import SlimPlan
from fatpack.commands.slim.result import SlimmedFile
from fatpack.errors import cli_or_api
from fatpack.formats.aks2.layout import TARGET_IN_PATH
from fatpack.formats.kernel_cache.layout import CACHE_FORMAT
from fatpack.tensile.library import library_folder, split_path, target_of_file
from fatpack.tensile.tables import CODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import PackageLibrary

#: ends of the names of AKS2 archives, and of zips of them
_ARCHIVES = (".aks2", ".zip")


class StoreFiles:
    """The files of kernel stores in a folder or wheel. Which of them go is known when all files were looked at."""

    def __init__(self, options: SlimOptions) -> None:
        self._options = options
        #: candidates, with the key of the store that must go on serving a device; None for a cache
        self._candidates: list[tuple[PackageLibrary, object]] = []
        self._tables: list[PackageLibrary] = []
        #: stores that have code for a device
        self._serving: set[object] = set()
        #: root and target of Tensile's code that stays
        self._staying: set[tuple[str | None, str]] = set()

    def take(self, library: PackageLibrary) -> bool:
        """Take note of a file that was planned; return whether its fate is decided at the end."""
        plan: SlimPlan | None = getattr(library.slimmed, "plan", None)
        key = _store_key(library.name)
        if plan is not None and library.slimmed is not None and goes_whole(library.slimmed):
            is_cache = all(row.found.format == CACHE_FORMAT for row in plan.dropped)
            self._candidates.append((library, None if is_cache else key))
            return True
        if plan is not None and plan.kept:
            self._serving.add(key)
        self.keep(library.name)
        return False

    def take_table(self, library: PackageLibrary) -> None:
        """Take note of a table of Tensile, which stays or goes with the code of its target."""
        self._tables.append(library)

    def keep(self, path: str) -> None:
        """Take note that a file stays, also one that was to go: with Tensile's code the tables of its target stay."""
        root = library_folder(path)
        if root is not None and path.endswith(CODE):
            self._staying.add((root, target_of_file(path)))

    def decide(self) -> Iterator[tuple[PackageLibrary, bool]]:
        """Yield every file that was taken and not answered for, code before tables, and whether it goes.

        Code that stays has an error that says why.
        """
        #: folder and target of Tensile's code that goes
        gone: set[tuple[str, str]] = set()
        for library, key in self._candidates:
            goes = key is None or key in self._serving or self._options.allow_empty
            if goes:
                if library_folder(library.name) is not None:
                    gone.add((split_path(library.name)[0], target_of_file(library.name)))
                yield library, True
            else:
                self.keep(library.name)
                yield library.replace(slimmed=None, error=self._refusal(library)), False
        merged = {library_folder(table.name) for table in self._tables if not target_of_file(table.name)}
        for table in self._tables:
            root = library_folder(table.name)
            arch = target_of_file(table.name)
            if (split_path(table.name)[0], arch) in gone and (root, arch) not in self._staying and root not in merged:
                note = f"a table for {arch}, of which no code stays"
                yield table.replace(slimmed=SlimmedFile(SlimPlan((), (), (), (note,), "remove"))), True
            else:
                yield table, False

    def _refusal(self, library: PackageLibrary) -> SlimRefused:
        plan: SlimPlan = library.slimmed.plan  # type: ignore[union-attr]
        archs = ", ".join(dict.fromkeys(arch_label(row.image) for row in plan.dropped))
        devices = ", ".join(device.words for device in self._options.devices) or "what stays"
        empty = cli_or_api("--allow-empty", "allow_empty=True")
        keep = archs.partition(", ")[0]
        hint = f"{cli_or_api(f'--keep {keep}', f'keep={keep!r}')} keeps them; {empty} leaves such files out"
        return SlimRefused(f"it is for {archs}, and nothing beside it is for {devices}", (), hint=hint)


def make_stores(options: SlimOptions) -> StoreFiles | None:
    """Return what decides about files of kernel stores by these options; None if they leave no file out."""
    return StoreFiles(options) if options.stores == "drop" else None


def _store_key(path: str) -> object:
    """Return the key of the store that a file belongs to: a library of Tensile, or the archives of AOTriton."""
    root = library_folder(path)
    if root is not None:
        return "tensile", root
    shown = path.replace(os.sep, "/")
    match = TARGET_IN_PATH.search(shown) if path.endswith(_ARCHIVES) else None
    return "aks2", shown[: match.start()] if match is not None and match[1] else split_path(path)[0]
