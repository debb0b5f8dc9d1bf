"""The settings of a runtime that decide which image it takes: versions and environment variables of the program.

fatpack's own environment is never read: the user states the environment of the program.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class RuntimeSettings(Record):
    """Versions and environment variables that a runtime reads.

    ``driver`` is the CUDA version of NVIDIA's driver, (13, 0), ``rocm`` that of ROCm, (6, 3); None: unknown.
    ``forces_ptx`` and ``disables_ptx`` are CUDA's variables, ``forces_spirv`` is HIP's. ``xnack`` is "+" or "-" if
    HSA_XNACK is set, ``override`` the processor of HSA_OVERRIDE_GFX_VERSION, "" if they are not set.
    """

    driver: tuple[int, int] | None = None
    rocm: tuple[int, int] | None = None
    forces_ptx: bool = False
    disables_ptx: bool = False
    forces_spirv: bool = False
    xnack: str = ""
    override: str = ""


#: variable → the boolean field that it sets
_SWITCHES = {
    "CUDA_FORCE_PTX_JIT": "forces_ptx",
    "CUDA_FORCE_JIT": "forces_ptx",
    "CUDA_DISABLE_PTX_JIT": "disables_ptx",
    "CUDA_DISABLE_JIT": "disables_ptx",
    "HIP_FORCE_SPIRV_CODEOBJECT": "forces_spirv",
}

#: the variables in the rules
VARIABLES = (*_SWITCHES, "HSA_XNACK", "HSA_OVERRIDE_GFX_VERSION")


def with_variables(settings: RuntimeSettings, variables: Iterable[str]) -> RuntimeSettings:
    """Return settings with variables, each as ``NAME=VALUE``. Raises UsageError for one that no rule has."""
    for text in variables:
        name, _, value = text.partition("=")
        if name in _SWITCHES:
            if value not in ("0", "1"):
                raise UsageError(f"{text[:80]!r} is neither {name}=0 nor {name}=1")
            settings = settings.replace(**{_SWITCHES[name]: value == "1"})
        elif name == "HSA_XNACK":
            if value not in ("0", "1"):
                raise UsageError(f"{text[:80]!r} is neither HSA_XNACK=0 nor HSA_XNACK=1")
            settings = settings.replace(xnack="-+"[int(value)])
        elif name == "HSA_OVERRIDE_GFX_VERSION":
            settings = settings.replace(override=_processor(value))
        else:
            raise UsageError(f"no rule knows the variable {name[:80]!r}", hint=f"known are {', '.join(VARIABLES)}")
    return settings


def _processor(value: str) -> str:
    """Return the processor of a version: gfx1030 for 10.3.0, gfx90a for 9.0.10."""
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 2 for part in parts):
        raise UsageError(f"{value[:40]!r} is no version for HSA_OVERRIDE_GFX_VERSION", hint="write it as 10.3.0")
    major, minor, stepping = map(int, parts)
    return f"gfx{major}{minor:x}{stepping:x}"
