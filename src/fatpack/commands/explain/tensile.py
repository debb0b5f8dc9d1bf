"""Libraries of Tensile (rocBLAS, hipBLASLt) as units: one library, whose tables say which of its files a device gets.

The files of a library are met one by one, and its tables are compared with them when all were read: by the finder that
``check``, ``doctor`` and ``report`` ask, too.
"""

from __future__ import annotations

from fatpack.commands.explain.model import ImageSetAnswer, RuntimeErrorText
from fatpack.tabular.image_sets import ImageSet, ImageSetLocation, make_image_set
from fatpack.tensile.library import TensileFinder, library_folder, shown_folder, target_of_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.limits import Budget
    from fatpack.tabular.columns import ImageRow
    from fatpack.tensile.library import TensileLibrary

#: formats of code files: a code object alone, or a bundle
_FORMATS = (None, "clang-offload-bundle")


class TensileUnits:
    """Takes the rows and units of a walk; those of libraries of Tensile are asked about when all files were read."""

    def __init__(self, budget: Budget) -> None:
        self._finder = TensileFinder(budget)
        self._archs: list[str] = []
        #: folder of a library → its units
        self._found: dict[str, list[ImageSet]] = {}

    def see(self, row: ImageRow) -> None:
        """Take note of a row; tables have a row of their file alone."""
        if row.row == "file":
            self._finder.take(row.path, self._archs)
            self._archs = []
        else:
            self._archs.append(row.arch or "")

    def take(self, image_set: ImageSet) -> bool:
        """Return whether a unit is code of a library, which is asked about later."""
        folder = library_folder(image_set.place.path) if image_set.format in _FORMATS else None
        if folder is None or image_set.vendor != "amd":
            return False
        self._found.setdefault(folder, []).append(image_set)
        return True

    def libraries(self) -> Iterator[tuple[TensileLibrary | None, list[ImageSet]]]:
        """Yield the libraries with their units; None for a library whose tables were not read."""
        known = {library.path: library for library in self._finder.libraries()} if self._found else {}
        for folder, units in self._found.items():
            library = known.get(shown_folder(folder))
            yield library if library is not None and library.is_read else None, units


def explain_library(
    library: TensileLibrary, units: Sequence[ImageSet], arch: str, judge: Callable[[ImageSet], ImageSetAnswer]
) -> ImageSetAnswer:
    """Return what a device gets of a library: of the files for its processor, if the tables lead to them.

    ``judge`` says what the device gets of images.
    """
    own = [unit for unit in units if target_of_file(unit.place.path) in (arch, "")]
    answer = judge(make_image_set([row for unit in own or units for row in unit.rows]))
    answer = answer.replace(places=(ImageSetLocation(library.path, library=library.title),), fixes=(), danger="")
    serves, reason = library.support(arch)
    if not serves:
        text = f"{library.title} error: Cannot read TensileLibrary.dat: No such file or directory for GPU arch : {arch}"
        error = RuntimeErrorText(text) if reason.endswith("aborts") else answer.error
        return _failing(answer, "H16", reason, error, (f"install {library.title} for {arch}",))
    target = library.target(arch)
    faults = [item for item in target.findings if item.severity != "note"] if target is not None else []
    if any(item.severity == "error" for item in faults):
        return answer.replace(outcome="unknown", rule="H16", reason=faults[0].message, is_certain=False, error=None)
    if faults:
        error = RuntimeErrorText("an error, when a problem first needs what is missing or wrong")
        return _failing(answer, "H17", faults[0].message, error, (faults[0].hint,) if faults[0].hint else ())
    if answer.outcome not in ("runs", "compiles"):
        return answer
    return answer.replace(rule="H16", reason=f"{reason}: {answer.reason}", error=None, is_certain=True)


def _failing(
    answer: ImageSetAnswer, rule: str, reason: str, error: RuntimeErrorText | None, fixes: tuple[str, ...]
) -> ImageSetAnswer:
    return answer.replace(
        outcome="fails", rule=rule, reason=reason, is_certain=True, error=error, fixes=fixes, states=()
    )
