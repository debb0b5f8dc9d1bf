"""The targets of a command line: checked, spelled as they are stored, and matched with the entries of a bundle.

LLVM 22 loses what it does not know: it drops a target-id whose processor is new to it, and the processor of targets of
five parts, and then takes all of them for one. Here they are kept and compared as text; for everything else the rules
are its own (:mod:`fatpack.formats.clang_bundle.bundle_id`).
"""

from __future__ import annotations

from fatpack.formats.clang_bundle.bundle_id import (
    first_conflict_llvm22,
    is_compatible_id,
    is_compatible_id_llvm22,
    kinds_agree,
    parse_id,
    refusal_llvm22,
    stored_by_llvm22,
)
from fatpack.formats.clang_bundle.bundle_id import stored_id as new_stored_id
from fatpack.tools.llvm.clang_offload_bundler.settings import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.tools.llvm.clang_offload_bundler.settings import BundlerSettings

_HIP = ("hip", "hipv4")


#: ID as it was typed → as it is stored
_STORED: dict[str, str] = {}
_MOST_STORED = 1000


def cached_stored_id(spelling: str) -> str:
    """Return the ID that is stored for one that was typed. Each is asked for several times, and costs 50 µs."""
    known = _STORED.get(spelling)
    if known is None:
        if len(_STORED) == _MOST_STORED:
            _STORED.clear()
        word = _amdgpu_word(spelling)
        known = new_stored_id(with_amdgcn(spelling))
        if word:
            known = known.replace("amdgcn", word, 1)
        _STORED[spelling] = known
    return known


def _amdgpu_word(spelling: str) -> str:
    """Return LLVM 23's name of AMD's architecture in an ID, ``amdgpu`` or ``amdgpu9.0a``; "" for any other."""
    word = spelling.split("-", 2)[1] if spelling.count("-") > 1 else ""
    return word if word.startswith("amdgpu") else ""


def with_amdgcn(spelling: str) -> str:
    """Return an ID with LLVM 22's name of AMD's architecture in the place of LLVM 23's."""
    word = _amdgpu_word(spelling)
    return spelling.replace(word, "amdgcn", 1) if word else spelling


def is_host(spelling: str) -> bool:
    """Return whether an ID is of the kind ``host``."""
    return spelling.partition("-")[0] == "host"


def are_all_hip(targets: Iterable[str]) -> bool:
    """Return whether a bundle for these targets needs no host."""
    return all(target.partition("-")[0] in _HIP for target in targets)


def stored_ids(settings: BundlerSettings) -> list[str]:
    """Return the IDs for the targets of a command line, in its order. Raises Refusal for what cannot be bundled."""
    targets = settings.targets
    ids: list[str] = []
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise ArgumentError("Duplicate targets are not allowed")
        problem = refusal_llvm22(target if settings.llvm == "22" else with_amdgcn(target))
        if problem:
            raise ArgumentError(problem)
        ids.append(cached_stored_id(target))
        if ids[-1] in ids[:-1]:
            # Two spellings of one target: the original stores two entries under one ID, and readers see one of them.
            raise ArgumentError("Duplicate targets are not allowed")
    _refuse_conflicts(targets)
    hosts = sum(map(is_host, targets))
    most_hosts = 1 if settings.mode == "unbundle" or not are_all_hip(targets) else 0
    least_hosts = most_hosts if settings.mode == "bundle" else 0
    if not least_hosts <= hosts <= most_hosts:
        raise ArgumentError(f"expecting exactly one host target but got {hosts}")
    return ids


def _refuse_conflicts(targets: Sequence[str]) -> None:
    groups: dict[str, set[str]] = {}
    for target in targets:
        parts, target_id = target.split("-", 5), cached_stored_id(target).split("-", 5)[5]
        if target_id and target_id != "".join(parts[5:]):
            parts[4] = ""  # the processor stands in the place of the environment
        groups.setdefault("-".join(parts[:5]), set()).add(target_id)
    for group, target_ids in sorted(groups.items()):
        pair = first_conflict_llvm22(target_ids)
        if pair:
            first, second = (f"{group}-{target_id}" for target_id in pair)
            raise ArgumentError(f"Cannot bundle inputs with conflicting targets: '{first}' and '{second}'")


def _is_read_whole(spelling: str) -> bool:
    """Return whether LLVM 22 sees all there is in an ID."""
    return spelling.count("-") >= 4 and cached_stored_id(spelling) == stored_by_llvm22(spelling)


class TargetMatcher:
    """Says which entries of one bundle serve which targets; targets are IDs as we store them."""

    def __init__(self, entries: Sequence[str], targets: Sequence[str], *, hip_openmp: bool, llvm: str) -> None:
        self._hip_openmp = hip_openmp
        self._llvm = llvm
        #: What was asked for so far: whether LLVM 22 sees all there is in an ID.
        self._whole: dict[str, bool] = {}
        stored = set(entries)
        #: Targets for which LLVM 22 may have stored less than was asked for, and has.
        self._cut = {
            target
            for target in targets
            if target not in stored
            and not self._is_whole(target)
            and not any(self._is_for(entry, target) for entry in entries)
        }

    def serves(self, entry: str, target: str) -> bool:
        """Return whether an entry may be handed out for a target."""
        if target not in self._cut:
            return self._is_for(entry, target)
        have = parse_id(entry)
        return not have.arch and is_compatible_id(entry, stored_by_llvm22(target), hip_openmp=self._hip_openmp)

    def _is_whole(self, spelling: str) -> bool:
        known = self._whole.get(spelling)
        if known is None:
            known = self._whole[spelling] = _is_read_whole(with_amdgcn(spelling))
        return known

    def _is_for(self, entry: str, target: str) -> bool:
        if entry == target:
            return True
        if self._llvm == "23":
            sets = {_amdgpu_word(spelling).removeprefix("amdgpu") for spelling in (entry, target)}
            if len(sets - {""}) > 1:
                return False  # two instruction sets; what names none goes with any
            entry, target = with_amdgcn(entry), with_amdgcn(target)
        if not kinds_agree(entry.partition("-")[0], target.partition("-")[0], self._hip_openmp):
            return False
        if self._is_whole(entry) and self._is_whole(target):
            return is_compatible_id_llvm22(entry, target, hip_openmp=self._hip_openmp, llvm=self._llvm)
        if is_host(entry) and is_host(target):
            return is_compatible_id(_without_arch(entry), _without_arch(target))  # the host's processor never counted
        return is_compatible_id(entry, target, hip_openmp=self._hip_openmp)


def _without_arch(spelling: str) -> str:
    have = parse_id(spelling)
    return f"{have.kind}-{have.triple}"
