"""The verdict on a package, and the shared parts of proofs for all kinds of packages."""

from __future__ import annotations

from fatpack import magic_numbers, proof
from fatpack.errors import pluralize
from fatpack.proof.ledger import ProvedFile, file_digest
from fatpack.proof.packages.left_out import LeftOutFile, find_objection, find_table_objection, kind_of
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.io.source import View
    from fatpack.proof.ledger import Difference, DifferenceLog, ProofResult


class ProvedLibrary(Record):
    """A library that changed: its path in the package, and the result of its proof."""

    path: str
    verdict: ProofResult


class ProvedLayer(Record):
    """A layer of a container image: its number in it, digests of its file, sizes and diff IDs, before and after."""

    number: int
    digests: tuple[str, str]
    sizes: tuple[int, int]
    diff_ids: tuple[str, str]


class PackageProofResult(Record):
    """The result of a proof of a package, whose ``kind`` is ``wheel``, ``conda``, ``image`` or ``folder``.

    ``is_proved`` is true if there is no forbidden difference; ``differences`` are the first of these, and
    ``difference_count`` is their number. ``same_count`` files have the same content, ``libraries`` are the changed
    libraries, and ``described`` the changed files that describe the package. Of an image ``layers`` are its layers, and
    ``dropped`` is what vouched for the old digests and is missing. ``left_out`` are the files that are missing.
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
    layers: tuple[ProvedLayer, ...] = ()
    dropped: tuple[str, ...] = ()
    left_out: tuple[LeftOutFile, ...] = ()


def proved_file(view: View) -> ProvedFile:
    """Return the name, size and digest of a package, which is read completely."""
    return ProvedFile(view.chain[-1] if view.chain else view.source.name, len(view), file_digest(view))


def proved_same_bytes(kind: str, before: ProvedFile, after: ProvedFile) -> PackageProofResult:
    """Return the result of a proof for two files with the same digest."""
    return PackageProofResult(
        kind, before, after, True, (), 0, 0, (), (), ("every byte: both files are the same",), ("what is in them",)
    )


def judge_left_out(path: str, view: View, ledger: DifferenceLog, found: list[LeftOutFile]) -> bool:
    """Take down a file that the new package lacks, and return whether it is one of a kernel store.

    Of such a file a difference is recorded unless its content is device code alone.
    """
    kind = kind_of(path, view)
    if not kind:
        return False
    objection = find_objection(path, view)
    if objection is not None:
        ledger.differ(f"{path}: left out", expected=objection[0], found=objection[1])
    found.append(LeftOutFile(path, len(view), file_digest(view), kind))
    return True


def judge_tables(gone: Sequence[str], staying: Collection[str], ledger: DifferenceLog) -> None:
    """Record a difference for a table of Tensile that went although code of its target stays, or none went."""
    for path in gone:
        objection = find_table_objection(path, gone, staying)
        if objection is not None:
            ledger.differ(f"{path}: left out", expected=objection[0], found=objection[1])


def compare_libraries(
    name: str, before: View, after: View, ledger: DifferenceLog, libraries: list[ProvedLibrary]
) -> None:
    """Prove a changed file of a package; record a difference if it is no linked file, or not proved."""
    if not before.head(0, 4).startswith((magic_numbers.ELF, magic_numbers.DOS)):
        ledger.differ(f"{name}: content", expected="as it was: only linked programs are proved", found="another")
        return
    verdict = proof.prove(before, after)
    libraries.append(ProvedLibrary(name, verdict))
    if not verdict.is_proved:
        count, first = pluralize(verdict.difference_count, "difference"), verdict.differences[0]
        ledger.differ(
            f"{name}: {count}: {first.what}",
            address=first.address,
            offset=first.offset,
            expected=first.expected or "the same",
            found=first.found or "another",
        )
