"""Both programs of a proof: their memory, how pointers are read in it, and where differences are written down."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.proof.ledger import Ledger
    from fatpack.proof.memory import Memory
    from fatpack.proof.records import Resolve
    from fatpack.proof.stale import Leading


class Both(Record):
    """The program before and after; ``resolve`` and ``leading`` read the pointers of this kind of program."""

    before: Memory
    after: Memory
    resolve: Resolve
    leading: Leading
    ledger: Ledger
