"""Both programs of a proof: their memory, how pointers are read in it, and where differences are written down."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.proof.ledger import DifferenceLog
    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.proof_records import PointerResolver
    from fatpack.proof.stale import PointerFinder


class ProgramPair(Record):
    """The program before and after; ``resolve`` and ``leading`` read the pointers of this kind of program."""

    before: ProgramMemory
    after: ProgramMemory
    resolve: PointerResolver
    leading: PointerFinder
    ledger: DifferenceLog
