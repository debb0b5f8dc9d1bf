"""What modules state of themselves against what their container says of them, and against each other.

Neither the CIR dialect's verifier nor cir-offload-merge compares these; the programs that come out do not run. The
flags are those of ``cir.lowering_lang_options`` (llvm-project#224757): HIP sets ``cuda`` too.
"""

from __future__ import annotations

from functools import lru_cache

from fatpack.formats.cir.bundle_id import KINDS, fits
from fatpack.formats.cir.verify import RuleBreach, module_words
from fatpack.formats.cir.vocabulary import ROLES
from fatpack.targets.triple import as_llvm22, triple_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.bundle_id import CirBundleId
    from fatpack.formats.cir.modules.facts import ModuleFacts

_CODE = "FP1516"
#: What to do about a module that was packed as something else.
CHECK_IDS = "check which file was packed with which bundle ID"

#: programming model → the flag of a compilation for a device
_DEVICE_FLAGS = {"cuda": "cuda_is_device", "hip": "cuda_is_device", "openmp": "openmp_is_target_device"}


def module_contradictions(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    """Yield what in the modules of a container contradicts their roles and IDs, and what contradicts another module."""
    for number, module in enumerate(modules):
        role = module.kind if module.kind in ROLES else ROLES[min(number, 1)]
        for text in role_contradictions(module, role, module.parts):
            yield RuleBreach(_CODE, module.start, f"module {number}{module_words(module)}: {text}", CHECK_IDS)
    yield from container_contradictions(modules)


def role_contradictions(module: ModuleFacts, role: str, id: CirBundleId | None) -> Iterator[str]:
    """Yield what a module states that contradicts the role and the bundle ID that a container gives it."""
    if module.kind in ROLES and module.kind != role:
        yield f"it is stored as {role}, and states that it is {_called(module.kind)}"
    if id is not None:
        yield from _of_id(module, role, id)
    is_device = _is_device(module)
    if is_device is not None and is_device != (role == "device"):
        yield f"it is stored as {role}, and was compiled for {'a device' if is_device else 'the host'}"


def _of_id(module: ModuleFacts, role: str, target: CirBundleId) -> Iterator[str]:
    id = target.spelling
    if (target.kind == "host") != (role == "host"):
        yield f"it is stored as {role}, with the bundle ID {id!r}"
    if module.id is not None and module.id != id and not fits(module.id, id) and not fits(id, module.id):
        yield f"it is stored as {id!r}, and its file as {module.id!r}"
    if module.triple and not _agree(module.triple, target.triple):
        yield f"it is stored as {id!r}, and its triple is {module.triple!r}"
    model = KINDS.get(target.kind)
    if model in ("cuda", "hip") and module.model in ("cuda", "hip") and module.model != model:
        yield f"it is stored as {id!r}, and was compiled as {module.model.upper()}"


def container_contradictions(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    """Yield what the modules of one container state differently that has to be the same for all of them."""
    stated = [(number, module, module.options["gpu_rdc"]) for number, module in enumerate(modules) if _has_rdc(module)]
    for number, module, is_relocatable in stated[1:]:
        if is_relocatable != stated[0][2]:
            first = f"module {stated[0][0]}{module_words(stated[0][1])}"
            how = "with" if is_relocatable else "without"
            text = f"module {number}{module_words(module)}: it was compiled {how} -fgpu-rdc, unlike {first}"
            yield RuleBreach(_CODE, module.start, text, "compile the host and all devices alike")


def _has_rdc(module: ModuleFacts) -> bool:
    return module.model in ("cuda", "hip") and "gpu_rdc" in module.options


def _is_device(module: ModuleFacts) -> bool | None:
    """Return whether a module was compiled for a device; None where it does not tell."""
    return module.options.get(_DEVICE_FLAGS.get(module.model, ""))


@lru_cache(maxsize=64)
def _agree(first: str, second: str) -> bool:
    """Return whether two triples can mean the same; a part that one leaves open fits any."""
    pairs = zip(*(triple_identity(as_llvm22(triple, "")[0]) for triple in (first, second)), strict=False)
    return all(one == other or not one or not other for one, other in pairs)


def _called(kind: str) -> str:
    return "the host" if kind == "host" else "a device"
