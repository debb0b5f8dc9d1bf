"""``__nv_module_id``: what nvcc calls the units that a file was made of, and those that a device link joined.

A section of texts that end in NUL, one or more per unit; linkers put them one behind the other, in the order in which
they put the units' fat binaries:

==========================================  =====================================================================
``__NV_MODULE_ID``                          a unit of whole-program code, which needs no name
``_6b94317d_5_k1_cu_add_one``               a unit of relocatable code (-dc): hash, length, file and a symbol of it
``def _6b94317d_5_k1_cu_add_one``           in what nvcc -dlink makes: a unit that was linked
==========================================  =====================================================================

How we know: objects and libraries made by nvcc 13.0. Which fat binary belongs to which unit is written nowhere but in
symbols, which ``strip`` takes; so names are given only where there are as many units as fat binaries.
"""

from __future__ import annotations

from fatpack import formats
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import View

#: What the sections are called, by compilers and cut by the linkers of PE images: names, relocatable and linked code.
#: In Mach-O a segment and a comma come first.
MODULE_ID_NAMES = ("__nv_module_id", "__nv_mod")
_RELOCATABLE = ("__nv_relfatbin", "__nv_rel")
_LINKED = (".nv_fatbin", ".nv_fatb", "__nv_fatbin")

_WHOLE = b"__NV_MODULE_ID"
_DEFINED = b"def "

#: LIMIT: bytes of names that are read. A library of 1000 units has some 50 kB.
_SIZE = 1 << 20


class ModuleIds(Record):
    """The names in a host: those of ``units`` of relocatable code, and of units that were ``linked``, in order.

    ``is_whole`` says whether there is whole-program code as well, whose fat binaries lie beside the linked ones.
    """

    units: tuple[str, ...]
    linked: tuple[str, ...]
    is_whole: bool

    def of(self, site: CodeSection) -> Sequence[tuple[str, str]]:
        """Return what the names say of each fat binary in a section, as attributes; nothing where that is not sure.

        ``module_id`` is the unit that one is made from, ``linked_module_ids`` are those it was linked from.
        """
        if _name(site) in _RELOCATABLE and self.units and _count(site.data, len(self.units)) == len(self.units):
            return [("module_id", name) for name in self.units]
        if _name(site) in _LINKED and self.linked and not self.is_whole and _count(site.data, 1) == 1:
            return [("linked_module_ids", " ".join(self.linked))]
        return []


def read_module_ids(tables: Sequence[CodeSection]) -> ModuleIds | None:
    """Return the names that sections of a host hold, None if there are none or too many to read."""
    data = b"\0".join(site.data.head(0, _SIZE + 1) for site in tables if _name(site) in MODULE_ID_NAMES)
    names = [name for name in data.split(b"\0") if name]
    if not names or len(data) > _SIZE:
        return None
    units = [name for name in names if name != _WHOLE and not name.startswith(_DEFINED)]
    linked = [name[len(_DEFINED) :] for name in names if name.startswith(_DEFINED)]
    return ModuleIds(tuple(map(_text, units)), tuple(map(_text, linked)), _WHOLE in names)


def _name(site: CodeSection) -> str:
    return (site.section or "").rpartition(",")[2]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _count(data: View, most: int) -> int:
    """Return how many fat binaries fill a section, by their headers alone; more than ``most`` are not counted."""
    extent = formats.get_format("cuda-fatbin").extent
    at = count = 0
    while at < len(data) and count <= most:
        size = extent(data, at)
        if size is None:
            return -1
        count += 1
        at = data.skip_zeros(at + size)
    return count
