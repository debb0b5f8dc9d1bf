"""Names of kernels that stand in the data of a host file as strings: what is left to see where no code is followed.

Linkers let strings share their ends, so only the zero behind a name is asked for. What is found this way is likely: a
program may name a kernel that it does not register.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.binary.memory import HostMemory, MemorySection

#: sections of containers: names in them are those of the images
_CONTAINERS = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin", ".llvm.offloading", "__CLANG_OFFLOAD_BUNDLE__")

#: LIMIT: bytes of data that are searched, and names that are searched for one by one where no whole string is one
_SEARCHED, _MOST = 1 << 28, 1 << 10


def names_in_strings(file: HostMemory, names: Collection[str]) -> list[str]:
    """Return those of some names that stand in the data of a file, in order."""
    missing = {name.encode() for name in names if name}
    found: set[bytes] = set()
    for data in _data(file):
        whole = missing.intersection(data.split(b"\0"))
        found |= whole
        missing -= whole
    for name in sorted(missing)[:_MOST]:
        if any(name + b"\0" in data for data in _data(file)):
            found.add(name)
    return sorted(name.decode() for name in found)


def _data(file: HostMemory) -> Iterator[bytes]:
    left = _SEARCHED
    for section in file.sections:
        if _may_name(section) and len(section.data) <= left:
            left -= len(section.data)
            yield file.content(section)


def _may_name(section: MemorySection) -> bool:
    return not section.is_code and bool(len(section.data)) and not section.name.startswith(_CONTAINERS)
