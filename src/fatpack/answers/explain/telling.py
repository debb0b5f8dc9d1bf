"""What a program is told where a unit fails: the error as its runtime prints it, and what older ones printed."""

from __future__ import annotations

from fatpack.answers.explain.records import Told
from fatpack.target.choice.rules import failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.facts.units import Unit
    from fatpack.target.choice.asking import Choice
    from fatpack.target.choice.settings import Settings

#: The last ROCm of which the older message is reported, and the first whose source has the newer one for sure.
_OLDER, _NEWER = (6, 2), (7, 0)

_OLD_TEXT = "Unable to find code object for all current devices!"


def told(unit: Unit, choice: Choice, settings: Settings) -> Told | None:
    """Return what the program is told; None for what does not fail, or nobody knows whether it does."""
    if choice.outcome != "fails":
        return None
    if choice.error is None:
        return _in_words(unit, choice)
    row = failure(*choice.error)
    if row.runtime == "hip" and choice.rule != "H5":
        return _hip(choice, settings)
    return Told(row.text, row.code, row.names)


def _hip(choice: Choice, settings: Settings) -> Told:
    older, row = failure("hip", 209), failure("hip", 200)
    if settings.rocm is not None and settings.rocm <= _OLDER:
        return Told(older.text, older.code, older.names, (f"it prints: {_OLD_TEXT}",))
    asked = f"{choice.state}, value of HIP_FORCE_SPIRV_CODEOBJECT: {int(settings.forces_spirv)}"
    also = [f"in the log of the runtime: No compatible code objects found for: {asked}"]
    if settings.rocm is None or settings.rocm < _NEWER:
        also.append(f"older runtimes: {_OLD_TEXT} ({older.code}, {older.names[0]})")
    return Told(row.text, row.code, row.names, tuple(also))


def _in_words(unit: Unit, choice: Choice) -> Told:
    if unit.runtime == "openmp" and choice.rule == "M6":
        mandatory = f"with OMP_TARGET_OFFLOAD=MANDATORY: {choice.text}"
        return Told("no error: the region runs on the host", also=(mandatory,))
    if choice.rule == "Y4":
        text = "No device image compatible with the current device was found for kernel …"
        return Told(text, also=("before intel/llvm#21749: No kernel named … was found",))
    return Told(choice.text or choice.reason)


def too_old() -> Told:
    """Return what a program is told whose CUDA runtime library is of a newer major version than the driver."""
    row = failure("cuda", 35)
    return Told(row.text, row.code, row.names)


def missing(runtime: str) -> Told:
    """Return what a program is told whose kernel is not in the image that was loaded."""
    if runtime != "cuda":
        return Told("the kernel is not found")
    row, older = failure("cuda", 500), failure("cuda", 98)
    return Told(row.text, row.code, row.names, (f"or: {older.text} ({older.code}, {older.names[0]})",))
