"""Bundle IDs as cir-offload-merge uses them: validity, matching, and the module names derived from them.

::

    kind - arch - vendor - os - environment [- processor[:feature(+|-)]…]

The kinds are those of clang-offload-bundler, and ``cuda``, which that tool refuses. With five parts there is no
processor: ``cuda-nvptx64-nvidia-cuda-sm_80`` of early examples means an environment ``sm_80``. It is shown as a
processor here, which is the intent, and reported.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.model import Target
from fatpack.record import Record
from fatpack.targets.triple import as_llvm22, same_triple
from fatpack.targets.vocabulary import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container as Set

#: kind in the ID → programming model
KINDS = {"host": "host", "cuda": "cuda", "hip": "hip", "hipv4": "hip", "openmp": "openmp"}

_NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class CirBundleId(Record):
    """A parsed bundle ID; ``is_misplaced`` is true if the processor is in the position of the environment."""

    spelling: str
    kind: str
    triple: str
    arch: str
    is_misplaced: bool = False

    @property
    def target(self) -> Target:
        """The target that the ID names."""
        offload = KINDS.get(self.kind, f"kind {self.kind} (unknown)" if self.kind else "none")
        return Target(self.triple, self.arch, offload, self.spelling)


def parse_bundle_id(spelling: str) -> CirBundleId:
    """Return the parts of an ID of any shape; never fails."""
    parts = spelling.split("-", 5)
    if len(parts) == 6:
        return CirBundleId(spelling, parts[0], "-".join(parts[1:5]).rstrip("-"), parts[5])
    if len(parts) == 5 and parts[4].startswith(("sm_", "gfx")):
        return CirBundleId(spelling, parts[0], "-".join(parts[1:4]), parts[4], is_misplaced=True)
    return CirBundleId(spelling, parts[0], "-".join(parts[1:]).rstrip("-"), "")


def refusal_reason(spelling: str) -> str:
    """Return why cir-offload-merge refuses an ID, "" when nothing is wrong with it.

    The tool also refuses architectures that its version of LLVM does not know; these are accepted here.
    """
    parts = spelling.split("-", 5)
    if len(parts) < 5:
        return f"it has {len(parts)} of the five parts kind-arch-vendor-os-environment"
    if parts[0] not in KINDS:
        return f"its kind {parts[0]!r} is none of {', '.join(KINDS)}"
    return "" if parts[1] else "it names no architecture"


def id_for(target: Target) -> str:
    """Return the ID that clang's driver uses for a target: ``cuda-nvptx64-nvidia-cuda-unknown-sm_80``.

    Raises UsageError for a target that an ID cannot name.
    """
    if target.spelling and not refusal_reason(target.spelling):
        return target.spelling
    if target.offload not in KINDS.values() or not target.triple:
        raise UsageError(
            f"no bundle ID for triple {target.triple!r} and programming model {target.offload!r}",
            hint=f"give id=KIND-ARCH-VENDOR-OS-ENV[-PROCESSOR]; the kinds are {', '.join(KINDS)}",
        )
    parts = [part or "unknown" for part in [*target.triple.split("-", 3), "", "", ""][:4]]
    return "-".join([target.offload, *parts, *([target.arch] if target.arch else [])])


def fits(stored: str, requested: str) -> bool:
    """Return whether a module stored under one ID satisfies a request for another.

    Equal IDs match. Otherwise kinds (``hip`` is ``hipv4`` if there is a processor) and triples must mean the
    same, processors must be equal, and the request must have every feature of the module with the same sign: ``gfx908``
    satisfies a request for ``gfx908:xnack+``, but not the reverse.
    """
    if stored == requested:
        return True
    have, want = parse_bundle_id(stored), parse_bundle_id(requested)
    kinds = {have.kind, want.kind}
    triple, arch = as_llvm22(have.triple, have.arch)
    wanted_triple, wanted_arch = as_llvm22(want.triple, want.arch)
    if (len(kinds) > 1 and kinds != {"hip", "hipv4"}) or not same_triple(triple, wanted_triple):
        return False
    if arch.partition(":")[0] != wanted_arch.partition(":")[0] or (len(kinds) > 1 and not arch):
        return False
    return feature_signs(arch).items() <= feature_signs(wanted_arch).items()


def module_name(spelling: str, used: Set[str] = ()) -> str:
    """Return the name of a device module in a combined container: the sanitised ID, with a number if that is in use."""
    name = "device_" + "".join(
        chr(byte) if byte in _NAME_BYTES else "_" for byte in spelling.encode("utf-8", "surrogateescape")
    )
    number, unique = 0, name
    while unique in used:
        number += 1
        unique = f"{name}_{number}"
    return unique
