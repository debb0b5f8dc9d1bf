"""Proof that an edited program is unchanged except for its device code; its readers share nothing with editors.

The memory images of both files are read with pyelftools (ELF) and LIEF (PE), and compared everywhere except where
device code was, where records point to it, and where file headers count segments. Those bytes have rules of their own
for containers, images, pointers and headers. The proof needs only the two files, and nothing from an editor.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import Unsupported
from fatpack.proof.ledger import DifferenceLog, ProofResult, ProvedFile
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from fatpack.io.source import View
    from fatpack.proof.device_code import DeviceCodeComparison
    from fatpack.proof.ledger import ChangedRange
    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.records import PointerFinder, PointerResolver

    class _ProofModule(Protocol):
        """The interface of the proofs for ELF and PE."""

        COMPARED: tuple[str, ...]
        NOT_COMPARED: tuple[str, ...]

        def compare(
            self, before: View, after: View, ledger: DifferenceLog
        ) -> tuple[DeviceCodeComparison, tuple[ChangedRange, ...]]: ...


def prove(before: View, after: View) -> ProofResult:
    """Prove that ``after`` is ``before`` with the same or less device code, and otherwise unchanged.

    Both are linked programs or libraries: ELF or PE. Reads both files about three times, in windows. Raises
    Unsupported for other files, FormatError for a damaged one, and LimitExceeded if device code exceeds the limits on
    decompression.
    """
    ledger = DifferenceLog()
    host = _host(before)
    if _host(after) != host:
        raise Unsupported(f"{_name(before)} is {host.upper()}, and {_name(after)} is not", chain=after.chain)
    from fatpack.proof.ledger import file_digest

    module = _proof_module(host)
    device, changed = module.compare(before, after, ledger)
    return ProofResult(
        host,
        ProvedFile(_name(before), len(before), file_digest(before)),
        ProvedFile(_name(after), len(after), file_digest(after)),
        not ledger.count,
        tuple(ledger.differences),
        ledger.count,
        ledger.compared,
        changed,
        device.containers,
        device.kept,
        device.dropped,
        module.COMPARED,
        module.NOT_COMPARED,
    )


def _proof_module(host: str) -> _ProofModule:
    return __import__(f"fatpack.proof.{host}", fromlist=["compare"])


def _host(view: View) -> str:
    head = view.head(0, 4)
    if head.startswith(magic_numbers.ELF):
        return "elf"
    if head.startswith(magic_numbers.DOS):
        return "pe"
    raise Unsupported(
        "only linked programs and libraries are proved: ELF and PE",
        hint="for objects, archives and containers compare the output of fatpack inspect",
        chain=view.chain,
    )


def _name(view: View) -> str:
    return view.chain[-1] if view.chain else ""


# Both programs of a proof: their memory, the reader of their pointers, and the log of differences.


class ProgramPair(Record):
    """The program before and after; ``resolve`` and ``find_pointers`` read the pointers of this kind of program."""

    before: ProgramMemory
    after: ProgramMemory
    resolve: PointerResolver
    find_pointers: PointerFinder
    ledger: DifferenceLog
