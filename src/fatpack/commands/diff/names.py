"""Names of kernels in a comparison as people write them."""

from __future__ import annotations

from fatpack.demangling import demangle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.diff.model import ArchDiff, DiffResult


def with_demangled_kernels(diff: DiffResult) -> DiffResult:
    """Return a comparison whose kernels have their demangled names. Raises Unsupported where nothing demangles."""
    archs = (arch for library in diff.libraries for arch in library.archs)
    names = demangle(kernel.name for arch in archs for kernel in arch.kernels or ())
    libraries = (
        library.replace(archs=tuple(_renamed(arch, names) for arch in library.archs)) for library in diff.libraries
    )
    return diff.replace(libraries=tuple(libraries))


def _renamed(arch: ArchDiff, names: dict[str, str]) -> ArchDiff:
    if not arch.kernels:
        return arch
    kernels = (kernel.replace(demangled=names.get(kernel.name)) for kernel in arch.kernels)
    return arch.replace(kernels=tuple(kernels))
