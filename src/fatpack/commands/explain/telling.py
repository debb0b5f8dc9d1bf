"""What a program is told where a unit fails: the error as its runtime prints it, and what older ones printed."""

from __future__ import annotations

from fatpack.commands.explain.model import RuntimeErrorText
from fatpack.targets.selection.rules import failure_with_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.tabular.image_sets import ImageSet
    from fatpack.targets.selection.choice_settings import RuntimeSettings
    from fatpack.targets.selection.select_image import DeviceSelection

#: The last ROCm of which the older message is reported, and the first whose source has the newer one for sure.
_OLDER, _NEWER = (6, 2), (7, 0)

_OLD_TEXT = "Unable to find code object for all current devices!"


def runtime_error(unit: ImageSet, choice: DeviceSelection, settings: RuntimeSettings) -> RuntimeErrorText | None:
    """Return what the program is told; None for what does not fail, or nobody knows whether it does."""
    if choice.outcome != "fails":
        return None
    if choice.error is None:
        return _in_words(unit, choice)
    row = failure_with_code(*choice.error)
    if row.runtime == "hip" and choice.rule != "H5":
        return _hip(choice, settings)
    return RuntimeErrorText(row.text, row.code, row.names)


def _hip(choice: DeviceSelection, settings: RuntimeSettings) -> RuntimeErrorText:
    older, row = failure_with_code("hip", 209), failure_with_code("hip", 200)
    if settings.rocm is not None and settings.rocm <= _OLDER:
        return RuntimeErrorText(older.text, older.code, older.names, (f"it prints: {_OLD_TEXT}",))
    asked = f"{choice.state}, value of HIP_FORCE_SPIRV_CODEOBJECT: {int(settings.forces_spirv)}"
    also = [f"in the log of the runtime: No compatible code objects found for: {asked}"]
    if settings.rocm is None or settings.rocm < _NEWER:
        also.append(f"older runtimes: {_OLD_TEXT} ({older.code}, {older.names[0]})")
    return RuntimeErrorText(row.text, row.code, row.names, tuple(also))


def _in_words(unit: ImageSet, choice: DeviceSelection) -> RuntimeErrorText:
    if unit.runtime == "openmp" and choice.rule == "M6":
        mandatory = f"with OMP_TARGET_OFFLOAD=MANDATORY: {choice.text}"
        return RuntimeErrorText("no error: the region runs on the host", also=(mandatory,))
    if choice.rule == "Y4":
        text = "No device image compatible with the current device was found for kernel …"
        return RuntimeErrorText(text, also=("before intel/llvm#21749: No kernel named … was found",))
    return RuntimeErrorText(choice.text or choice.reason)


def driver_too_old_error() -> RuntimeErrorText:
    """Return what a program is told whose CUDA runtime library is of a newer major version than the driver."""
    row = failure_with_code("cuda", 35)
    return RuntimeErrorText(row.text, row.code, row.names)


def missing_kernel_error(runtime: str) -> RuntimeErrorText:
    """Return what a program is told whose kernel is not in the image that was loaded."""
    if runtime != "cuda":
        return RuntimeErrorText("the kernel is not found")
    row, older = failure_with_code("cuda", 500), failure_with_code("cuda", 98)
    return RuntimeErrorText(row.text, row.code, row.names, (f"or: {older.text} ({older.code}, {older.names[0]})",))
