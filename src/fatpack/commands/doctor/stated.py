"""Packages against what they state of their files: Debian's, RPM, conda's. What each kind states, its room knows."""

from __future__ import annotations

import os

from fatpack.budget import Budget
from fatpack.errors import FatpackError, FormatError
from fatpack.exit_codes import error_message
from fatpack.findings import code_for_error, finding
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.doctor.model import DoctorNotes


def verify_package(path: str, kind: str, notes: DoctorNotes, budget: Budget) -> bool:
    """Note what is wrong with the files of a package that is a local file; return whether it states anything of them.

    It is read once more, all of it: names that are passed over, and files without device code, are compared too. What
    that inflates is not drawn from the budget a second time.
    """
    if not os.path.isfile(path):
        return False
    from fatpack.packages.checksums.verifying_init import checksum_verifier

    try:
        with open_source(path, budget=Budget(budget.inflated, budget.output)) as source:
            view = source.view()
            compare = checksum_verifier(kind, view)
            if compare is None:
                return False
            for item in compare(view):
                if isinstance(item, Finding):
                    notes.add(item)
                elif item.why:
                    notes.skip("files of packages", item.why, item.count)
                else:
                    notes.count("records", item.count)
    except FatpackError as error:
        told = error.describe() if isinstance(error, FormatError) else error.problem
        text = f"what it states of its files cannot be compared: {told}"
        notes.add(finding(code_for_error("FP3604", error), Span(0, 0, (path,)), text, error.hint))
    except OSError as error:
        notes.skip("files of packages", error_message(error))
    return True
