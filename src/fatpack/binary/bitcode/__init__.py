"""LLVM bitcode (``.bc``, and ``.o`` after ``-flto``) as a host: device code in the globals of a module.

::

    raw      42 43 C0 DE, then blocks: identification, module, symbols, strings
    wrapped  DE C0 17 0B, version u32, offset u32, size u32, CPU type u32; raw bitcode lies at the offset

clang puts each container into a private global ``llvm.embedded.object`` in the section ``.llvm.offloading``, as an
array of bytes. In the stream that is a record of 8-bit numbers that starts at any *bit*, so searching for bytes finds
nothing. HIP and CUDA without relocatable device code do the same in ``.hip_fatbin`` and ``.nv_fatbin``.

Sources: ``llvm/docs/BitCodeFormat.rst`` and the reader and writer in ``llvm/lib/Bitcode``. The reference tests compare
the results for modules of clang 22 (plain, thin and full link-time optimisation, wrapped, several modules) with those
of llvm-offload-binary. LLVM uses globals listed in the metadata ``llvm.embedded.objects``; we use those in sections of
device code, which finds the same ones and HIP's and CUDA's as well.
"""

from __future__ import annotations

from fatpack.binary import CodeSection
from fatpack.binary.bitcode.bitstream import FORMAT, BitReader
from fatpack.errors import FormatError, HostError
from fatpack.findings import finding
from fatpack.layout import Field, FormatInfo, Layout
from fatpack.magic_numbers import BITCODE, WRAPPED_BITCODE
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.binary.bitcode.globals import DeviceGlobal
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding

__all__ = ["DOC", "LAYOUTS", "detect", "edit", "embed", "labels", "locate", "remove", "replace"]

DOC = FormatInfo(
    name=FORMAT,
    title="LLVM bitcode",
    description=(
        "Modules of LLVM's intermediate language. Written by clang with -emit-llvm or -flto, where the files are still "
        "called .o, and by every other compiler that uses LLVM."
    ),
    references=(
        "llvm/docs/BitCodeFormat.rst, LLVM 22.1",
        "llvm/include/llvm/Bitcode/LLVMBitCodes.h and llvm/lib/Bitcode/Writer/BitcodeWriter.cpp, LLVM 22.1",
        "llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1 (extractFromBitcode)",
    ),
    reads="raw and wrapped bitcode of LLVM 3 and newer, with any number of modules",
    writes="nothing",
    limitations=(
        "Bitcode is never edited: compilers embed device code when they write it.",
        "Textual LLVM IR (.ll) is no host: containers in its strings are listed and extracted, and not edited.",
        "Device code is found by the section of a global, not by the metadata llvm.embedded.objects.",
        "The bits of an image in bitcode do not start at a byte of the file, so it has no address for other tools.",
    ),
)

WRAPPER = Layout(
    FORMAT,
    "wrapper",
    (
        Field("magic", "bytes[4]", "Magic: DE C0 17 0B"),
        Field("version", "u32", "Version: 0"),
        Field("offset", "u32", "Offset: offset of the bitcode, in bytes from the wrapper's magic on"),
        Field("size", "u32", "Size: bytes of bitcode"),
        Field("cpu_type", "u32", "CPUType: of the target, as Mach-O numbers them"),
    ),
)
LAYOUTS = (WRAPPER,)

#: LIMIT: bytes of device code per byte of bitcode. Globals with equal contents share one constant, and each is yielded;
#: a hostile file could have thousands of them.
_SHARING = 16


def detect(view: View) -> bool:
    """Return whether the bytes start with the magic of bitcode or of its wrapper."""
    return view.head(0, 4) in (BITCODE, WRAPPED_BITCODE)


def _stream(view: View) -> View:
    """Return the bitcode without its wrapper. Raises FormatError if the wrapper is wrong."""
    if view.head(0, 4) != WRAPPED_BITCODE:
        return view
    _, _, offset, size, _ = WRAPPER.read(view, 0)
    stream = view.slice(offset, size)
    if stream.head(0, 4) != BITCODE:
        raise BitReader(stream).error("the wrapper holds no bitcode")
    return stream


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the globals in sections of device code, module by module; ``index`` is the number of the global variable.

    Their bytes are shifted into place when they are read, and not kept in memory.
    """
    from fatpack.binary.bitcode.globals import read_modules

    budget = _SHARING * len(view)
    try:
        stream = _stream(view)
        bits = BitReader(stream)
        for module in read_modules(bits):
            problem = None
            try:
                module.read()
            except FormatError as error:
                problem = error
            for found in module.globals:
                if found.run is not None:
                    budget -= found.run.count
                yield _place(stream, found, budget)
            if problem is not None:
                yield _damage(view, problem)
    except FormatError as error:
        yield _damage(view, error)


def _place(stream: View, found: DeviceGlobal, budget: int) -> CodeSection | Finding:
    from fatpack.binary.bitcode.globals import constant_view

    title = f"global {found.number} in section {found.section}"
    if found.run is None:
        return finding("FP2402", stream.span(), f"{title}: its initialiser is no array of bytes, or was not reached")
    if budget < 0:
        span = stream.span(found.run.at >> 3, 1)
        return finding("FP1005", span, f"{title} shares its bytes with many others: not read again")
    return CodeSection(constant_view(stream, found.run, found.has_nul, found.section), found.section, found.number)


def _damage(view: View, error: FormatError) -> Finding:
    at = min(view.offset(0) if error.offset is None else error.offset, view.end)
    return finding("FP2401", view.span(at - view.start), error.describe(), error.hint)


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: the fields of the wrapper, and the stream as a whole, as its parts do not start at
    bytes."""
    from fatpack.model import fill_gaps

    at = 0
    parts = []
    if view.head(0, 4) == WRAPPED_BITCODE and len(view) >= WRAPPER.size:
        yield from WRAPPER.labels(view, 0, "wrapper")
        _, _, offset, size, _ = WRAPPER.read(view, 0)
        at = WRAPPER.size
        parts.append(Label(view.span(offset, size), "bitcode", f"{size} bytes", "LLVM bitstream", "data"))
    elif view.head(0, 4) == BITCODE:
        parts.append(Label(view.span(), "bitcode", f"{len(view)} bytes", "LLVM bitstream", "data"))
    yield from fill_gaps(view, parts, at)


def embed(view: View, content: Sequence[Piece], *, name: str = "") -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view)


def replace(view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view)


def remove(view: View, indices: Sequence[int]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view)


def edit(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view)


def _refusal(view: View) -> HostError:
    return HostError(
        "bitcode is not edited: its parts lie between bytes and refer to each other by number",
        hint="compile again, with -Xclang -fembed-offload-object=FILE for what should be in it",
        chain=view.chain,
    )
