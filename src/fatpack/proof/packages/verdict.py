"""The verdict on a package, and the shared parts of proofs for all kinds of packages."""

from __future__ import annotations

from fatpack import magic_numbers, proof
from fatpack.proof.ledger import ProvedFile, file_digest
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.proof.ledger import Difference, DifferenceLog, ProofResult


class ProvedLibrary(Record):
    """A library that changed: its path in the package, and what its proof says."""

    path: str
    verdict: ProofResult


class PackageProofResult(Record):
    """The result of a proof of a package, whose ``kind`` is ``wheel`` or ``conda``.

    ``is_proved`` is true if nothing differs that must not; ``differences`` are the first of what does, and
    ``difference_count`` is how many there are. ``same_count`` files have the content that they had, ``libraries`` are
    those that have not, and ``described`` the files that describe the package and changed.
    """

    kind: str
    before: ProvedFile
    after: ProvedFile
    is_proved: bool
    differences: tuple[Difference, ...]
    difference_count: int
    same_count: int
    libraries: tuple[ProvedLibrary, ...]
    described: tuple[str, ...]
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]


def proved_file(view: View) -> ProvedFile:
    """Return the name, size and digest of a package, which is read whole."""
    return ProvedFile(view.chain[-1] if view.chain else view.source.name, len(view), file_digest(view))


def proved_same_bytes(kind: str, before: ProvedFile, after: ProvedFile) -> PackageProofResult:
    """Return what is proved of two files with the same digest."""
    return PackageProofResult(
        kind, before, after, True, (), 0, 0, (), (), ("every byte: both files are the same",), ("what is in them",)
    )


def compare_libraries(
    name: str, before: View, after: View, ledger: DifferenceLog, libraries: list[ProvedLibrary]
) -> None:
    """Prove a file of a package that changed; note a difference if it is no linked file, or not proved."""
    if not before.head(0, 4).startswith((magic_numbers.ELF, magic_numbers.DOS)):
        ledger.differ(f"{name}: content", expected="as it was: it is no linked program", found="another")
        return
    verdict = proof.prove(before, after)
    libraries.append(ProvedLibrary(name, verdict))
    if not verdict.is_proved:
        ledger.differ(f"{name}: {verdict.difference_count} differences", expected="none")
