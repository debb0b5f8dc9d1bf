"""An overview with the names of kernels as people write them."""

from __future__ import annotations

from fatpack.demangling import demangle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.commands.report.model import KernelCoverage, ReportResult


def with_demangled_names(overview: ReportResult) -> ReportResult:
    """Return an overview that names kernels as people do. Raises Unsupported where nothing demangles.

    Bytes and copies are those of all kernels whose qualified name is the same: their names are such as they are.
    """
    names = demangle(name for item in overview.coverage for row in item.patterns for name in row.names)
    return overview.replace(coverage=tuple(_renamed(item, names) for item in overview.coverage))


def _renamed(item: KernelCoverage, names: Mapping[str, str]) -> KernelCoverage:
    patterns = (row.replace(names=tuple(sorted(names.get(name, name) for name in row.names))) for row in item.patterns)
    return item.replace(patterns=tuple(patterns))
