"""Files that may well have device code, and that no room reads: packed files, and Mach-O of CUDA and HIP.

Python's wheels are zip archives, and Blender ships its kernels as ``.cubin.zst``: nothing in them is seen as it is.

clang puts fat binaries for macOS into ``__NV_CUDA,__nv_fatbin`` and bundles into ``__HIP,__hip_fatbin``
(clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1); CUDA for macOS ended with 10.2. A header of Mach-O is followed by load
commands, and the names of segments and sections are in there.
"""

from __future__ import annotations

from fatpack import magics
from fatpack.findings import finding
from fatpack.scanner.kind import PACKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Finding

#: MH_MAGIC and MH_MAGIC_64 as little-endian files have them → bytes of the header
_HEADERS = {magics.MACH_O_32: 28, magics.MACH_O_64: 32}

#: where the header has the size of the load commands
_SIZE_AT = 20

#: segments of device code, padded as section headers have them
_SEGMENTS = (b"__NV_CUDA\0", b"__HIP\0")

#: LIMIT: bytes of load commands that are looked at. Large programs have some 10 kB.
_COMMANDS = 1 << 20


def refusal(view: View) -> Finding | None:
    """Return the finding that device code of a file, if it has any, is not read; None if it does not look so."""
    head = view.head(0, _SIZE_AT + 4)
    for magic, (what, remedy) in PACKED.items():
        if head.startswith(magic):
            return finding("FP1006", view.span(), f"{what}: this version does not look inside", remedy)
    size = _HEADERS.get(head[:4])
    if size is None or len(head) < _SIZE_AT + 4:
        return None
    commands = view.head(size, min(int.from_bytes(head[_SIZE_AT:], "little"), _COMMANDS))
    names = [name.rstrip(b"\0").decode() for name in _SEGMENTS if name in commands]
    if not names:
        return None
    text = f"Mach-O with device code in segment {' and '.join(names)}: this version does not read these"
    return finding("FP1006", view.span(), text, "--deep looks for device code in all of the file")
