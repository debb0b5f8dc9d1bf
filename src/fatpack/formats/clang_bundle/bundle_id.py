"""Bundle IDs: ``kind-arch-vendor-os-env[-target-id]``, parsed, spelled as LLVM 22 spells them, and compared.

Producers have had different spellings, so a reader accepts any text: :func:`parse_bundle_id` finds a kind, a triple
and an arch string in all of them and never fails. Each rule has two versions:

===============================  =========================  ============================================
clang-offload-bundler 22         fatpack                    difference
(with its faults)
===============================  =========================  ============================================
:func:`stored_by_llvm22`         :func:`stored_id`          LLVM drops a processor that it does not know
:func:`is_compatible_id_llvm22`  :func:`is_compatible_id`   LLVM treats all unknown processors as one
:func:`conflict_llvm22`          :func:`find_id_conflicts`  LLVM compares features in one direction only
===============================  =========================  ============================================

Source: clang/lib/Driver/OffloadBundler.cpp and clang/lib/Basic/TargetID.cpp of LLVM 22.1; the left column is compared
with the tool on thousands of random IDs.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.model import Target
from fatpack.record import Record
from fatpack.targets import llvm_triple
from fatpack.targets.llvm_triple import (
    is_architecture,
    normalize_triple,
    parse_environment,
    parse_llvm_triple,
    parse_object_format,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.targets.compatibility import Conflict


class BundleId(Record):
    """A parsed bundle ID.

    ``triple`` is as stored, without empty parts at its end; ``arch`` is the target-id with its features.
    """

    spelling: str
    kind: str
    triple: str
    arch: str = ""

    @property
    def offload(self) -> str:
        """The programming model of the kind: host, hip, openmp, sycl, or ``kind X (unknown)``."""
        if not self.kind:
            return "none"
        return llvm_triple.OFFLOADS.get(self.kind, f"kind {self.kind} (unknown)")

    @property
    def target(self) -> Target:
        """The target that the ID names."""
        return Target(self.triple, self.arch, self.offload, self.spelling)


def parse_bundle_id(spelling: str) -> BundleId:
    """Return the parts of an ID of any shape; never fails.

    The target-id is part six. An ID with fewer parts has one too if its last part looks like a processor:
    ``hip-amdgcn-amd-amdhsa-gfx906`` (old HIP), ``sycl-spir64_gen-unknown-unknown-pvc`` (DPC++).
    """
    half = spelling[: len(spelling) // 2]
    # QUIRK(LLVM 19): a host target that was given with a dash at its end is stored doubled.
    if half.endswith("-") and spelling == half + half:
        return parse_bundle_id(half).replace(spelling=spelling)
    parts = spelling.split("-", 5)
    if len(parts) > 2:
        for at in range(2, min(len(parts), 5)):
            if _looks_like_processor(parts[at]):
                return BundleId(spelling, parts[0], _join(parts[1:at]), "-".join(parts[at:]))
    if len(parts) == 6:
        return BundleId(spelling, parts[0], _join(parts[1:5]), parts[5])
    if len(parts) == 5 and parts[0] != "host" and not _may_be_environment(parts[4]):
        return BundleId(spelling, parts[0], _join(parts[1:4]), parts[4])
    return BundleId(spelling, parts[0], _join(parts[1:]))


def _join(parts: Sequence[str]) -> str:
    return "-".join(parts).rstrip("-")


def _looks_like_processor(part: str) -> bool:
    return part.startswith(("gfx", "sm_")) and part[3:4].isalnum()


def _may_be_environment(part: str) -> bool:
    # DPC++ of 2019 to 2021 wrote sycldevice as the environment of SYCL targets.
    return part in ("", "unknown", "sycldevice") or bool(parse_environment(part) or parse_object_format(part))


def id_for(target: Target) -> str:
    """Return the ID that clang-offload-bundler 22 would store for a target from another container.

    HIP is spelled ``hipv4``, which the HIP runtime requires. Raises UsageError for a programming model that
    a bundle cannot name.
    """
    kinds = {"host": "host", "hip": "hipv4", "openmp": "openmp", "sycl": "sycl"}
    if target.offload not in kinds:
        raise UsageError(
            f"a bundle cannot name the programming model {target.offload!r}",
            hint=f"it knows {', '.join(kinds)}; or give the bundle ID itself",
        )
    kind = kinds[target.offload]
    return f"{kind}-{_stored_triple([*target.triple.split('-', 3), '', '', ''][:4])}-{target.arch}"


def _stored_triple(parts: Sequence[str]) -> str:
    """Return four parts of a triple as LLVM 22 stores them: AMD's without an environment, others with all four."""
    triple = "-".join(parts)
    return f"{normalize_triple(triple, 3)}-" if parts[2].startswith("amdhsa") else normalize_triple(triple, 4)


class _Llvm22(Record):
    """An ID as LLVM 22 parses it: the target-id is "" unless its processor is known."""

    kind: str
    triple_parts: tuple[str, ...]
    target_id: str

    @property
    def triple(self) -> str:
        return "-".join(self.triple_parts)


def _as_llvm22(spelling: str) -> _Llvm22:
    parts = spelling.split("-", 5)
    if len(parts) < 5:
        raise UsageError(
            f"bundle ID {spelling!r} has fewer than five parts",
            hint="clang-offload-bundler 22 wants kind-arch-vendor-os-env[-target-id]",
        )
    target_id = parts[5] if len(parts) == 6 and parts[5].partition(":")[0] in llvm_triple.PROCESSORS_LLVM22 else ""
    return _Llvm22(parts[0], tuple(parts[1:5]), target_id)


def refusal_llvm22(spelling: str) -> str:
    """Return the message with which clang-offload-bundler 22 refuses a target, "" if it accepts it."""
    parts = spelling.split("-", 5)
    if len(parts) < 5:
        return (
            "Targets need to follow the format '<offload kind>-<target triple>', where '<target triple>' follows the "
            "format '<kind>-<arch>-<vendor>-<os>-<env>[-<target id>[:target features]]'."
        )
    problems = []
    if parts[0] not in llvm_triple.KINDS_LLVM22:
        problems.append(f", unknown offloading kind '{parts[0]}'")
    if not is_architecture(parts[1]):
        problems.append(f", unknown target triple '{'-'.join(parts[1:5])}'")
    return f"invalid target '{spelling}'{''.join(problems)}" if problems else ""


def stored_by_llvm22(spelling: str) -> str:
    """Return the ID that clang-offload-bundler 22 stores for a target given on its command line.

    QUIRK(LLVM 20-22): a target-id whose processor it does not know is dropped (gfx940, every future name).
    Raises UsageError for fewer than five parts; :func:`refusal_llvm22` has the tool's other refusals.
    """
    given = _as_llvm22(spelling)
    return f"{given.kind}-{_stored_triple(given.triple_parts)}-{given.target_id}"


def stored_id(spelling: str) -> str:
    """Return the ID to store for one that a user typed: LLVM 22's normal form, but without losing a processor.

    Two things are kept that LLVM drops: a target-id whose processor it does not know, and a processor in place of the
    environment (``hip-amdgcn-amd-amdhsa-gfx906``). What LLVM 22 would refuse (fewer than five parts, an architecture it
    does not know) is stored as it was typed.
    """
    parts = spelling.split("-", 5)
    if len(parts) < 5 or not is_architecture(parts[1]):
        return spelling
    stored = stored_by_llvm22(spelling)
    if _as_llvm22(spelling).target_id or not parse_bundle_id(spelling).arch:
        return stored
    if _looks_like_processor(parts[4]):
        return f"{parts[0]}-{_stored_triple([*parts[1:4], ''])}-{'-'.join(parts[4:])}"
    return stored + "".join(parts[5:])


def has_processor_as_environment(spelling: str) -> bool:
    """Return whether a processor is in place of the environment: ``openmp-amdgcn-amd-amdhsa-gfx906``."""
    parts = spelling.split("-")
    return len(parts) == 5 and _looks_like_processor(parts[4])


def kinds_agree(entry: str, request: str, hip_openmp: bool) -> bool:
    """Return whether an image of one kind may serve another; ``hip_openmp`` as for :func:`is_compatible_id`."""
    if entry == request or {entry, request} == {"hip", "hipv4"}:
        return True
    if not hip_openmp:
        return False
    return any(
        first.lower().startswith("hip") and second == "openmp" for first, second in ((entry, request), (request, entry))
    )


def _target_id_features(triple: str, target_id: str, llvm: str) -> tuple[str, dict[str, str]] | None:
    """Return processor and features of a target-id, None if that version of LLVM cannot parse it for that triple."""
    processor, *features = target_id.split(":")
    if features and not features[-1]:
        features.pop()  # QUIRK(LLVM 22): a colon at the end is ignored
    found: dict[str, str] = {}
    for feature in features:
        name, sign = feature[:-1], feature[-1:]
        if sign not in ("+", "-") or name in found:
            return None
        found[name] = sign
    architecture = triple.partition("-")[0]
    if architecture == "amdgcn" and processor not in llvm_triple.AMD_PROCESSORS:
        return None
    allowed = {name for name, having in llvm_triple.FEATURES.items() if processor in having}
    if llvm == "23" and processor in llvm_triple.SRAMECC_ADDED_BY_LLVM23:
        allowed.add("sramecc")
    if not processor or (found and (architecture != "amdgcn" or not allowed.issuperset(found))):
        return None
    return processor, found


def is_compatible_id_llvm22(entry: str, request: str, *, hip_openmp: bool = False, llvm: str = "22") -> bool:
    """Return whether clang-offload-bundler 22, or 23, returns the entry for the request.

    The request is normalised first, the entry is used as stored. ``hip_openmp`` is the option
    ``-hip-openmp-compatible``. Raises UsageError for an ID of fewer than five parts, at which the tool stops.
    """
    have, want = _as_llvm22(entry), _as_llvm22(stored_by_llvm22(request))
    is_same_triple = parse_llvm_triple(have.triple).is_compatible(parse_llvm_triple(want.triple))
    if have.kind == want.kind and is_same_triple and have.target_id == want.target_id:
        return True
    if not is_same_triple or not kinds_agree(have.kind, want.kind, hip_openmp):
        return False
    first = _target_id_features(have.triple, have.target_id, llvm)
    second = _target_id_features(want.triple, want.target_id, llvm)
    if first is None or second is None or first[0] != second[0]:
        return False
    return first[1].items() <= second[1].items()


def is_compatible_id(entry: str, request: str, *, hip_openmp: bool = False) -> bool:
    """Return whether an entry satisfies a request; both IDs may have any shape.

    As LLVM 22 intends it: kinds and triples agree, the processors are equal as text, and the request has every feature
    of the entry with the same sign. Unknown processors differ from each other. A generic processor does not satisfy a
    specific one here; :func:`fatpack.targets.can_serve` knows those. LLVM 23's names of AMD's triples are those of LLVM
    22: ``amdgpu9.0a-amd-amdhsa--`` is ``amdgcn-amd-amdhsa--gfx90a``.
    """
    from fatpack.targets.triple import as_llvm22

    have, want = parse_bundle_id(entry), parse_bundle_id(request)
    first, second = (Target(*as_llvm22(item.triple, item.arch)) for item in (have, want))
    if not kinds_agree(have.kind, want.kind, hip_openmp) or not parse_llvm_triple(first.triple).is_compatible(
        parse_llvm_triple(second.triple)
    ):
        return False
    return first.processor == second.processor and set(first.features) <= set(second.features)


def conflict_llvm22(spellings: Sequence[str]) -> tuple[str, str] | None:
    """Return the two targets that clang-offload-bundler 22 names as conflicting, None if it finds no conflict.

    ``spellings`` are the targets of its command line. QUIRK(LLVM 13-22): only a feature that the target-id sorted first
    lacks is noticed; ``gfx906:sramecc+:xnack+`` with ``gfx906:xnack+`` passes.
    """
    groups: dict[str, set[str]] = {}
    for spelling in spellings:
        given = _as_llvm22(spelling)
        groups.setdefault(f"{given.kind}-{given.triple}", set()).add(given.target_id)
    for group, target_ids in sorted(groups.items()):
        pair = first_conflict_llvm22(target_ids)
        if pair:
            return f"{group}-{pair[0]}", f"{group}-{pair[1]}"
    return None


def first_conflict_llvm22(target_ids: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two target-ids of one group that conflict according to LLVM 22, None for no conflict.

    The target-ids must be sorted; LLVM uses any text before the first colon as the processor.
    """
    first_of: dict[str, tuple[str, set[str]]] = {}
    for target_id in sorted(set(target_ids)):
        processor, *rest = target_id.split(":")
        features = {feature[:-1] for feature in rest if feature[-1:] in ("+", "-")}
        first, known = first_of.setdefault(processor, (target_id, features))
        if not features <= known:
            return first, target_id
    return None


def find_id_conflicts(spellings: Sequence[str]) -> list[Conflict]:
    """Return every conflict as clang intends the rule: for one processor, a feature is in all target-ids or in none.

    ``hip`` and ``hipv4`` are different groups, as they are to clang.
    """
    ids = [parse_bundle_id(spelling) for spelling in spellings]
    kinds = {item.kind for item in ids if ":" in item.arch}
    ids = [item for item in ids if item.kind in kinds]
    if len(ids) < 2:
        return []
    from fatpack.targets.compatibility import find_conflicts as target_conflicts

    return target_conflicts(Target(item.triple, item.arch, item.kind, item.spelling) for item in ids)


# Names of members when a heterogeneous archive is unbundled: one archive per target, an image per member.


def member_name(member: str, spelling: str) -> str:
    """Return clang-offload-bundler 22's name for the image of an ID: ``f-hip-amdgcn-amd-amdhsa--gfx906f.bc``.

    QUIRK(LLVM 13-22): the stem comes twice, without a dash before the second. Colons become underscores.
    """
    stem, extension = _split(member)
    arch = parse_bundle_id(spelling).arch
    extension = ".bc" if "gfx" in arch else ".cubin" if "sm_" in arch else extension
    return f"{stem}-{spelling}{stem}{extension}".replace(":", "_")


def member_stem(name: str, spelling: str) -> str:
    """Return the stem of the original member from the name of an ID's image; accepts any name and never fails."""
    stem, _ = _split(name)
    first, found, second = stem.partition(f"-{spelling}".replace(":", "_"))
    return first if found and first == second else stem


def _split(member: str) -> tuple[str, str]:
    """Return the stem and the extension with its dot, "" if there is none; folders are omitted."""
    name = member.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return (name, "") if not dot or name in (".", "..") else (stem, dot + extension)
