"""Compatibility of targets: equality by meaning, LLVM's old and new rules, link groups, and clang's conflict rule.

Four relations that are easily confused:

* :func:`is_same_target`: two spellings of one target.
* :func:`can_serve`: an image built for one target runs on another. LLVM main (2026) has this direction: ``gfx90a``
  serves ``gfx90a:xnack+``, not the reverse.
* :func:`can_serve_hip`: the HIP runtime loads an image for a device. It is stricter than LLVM.
* :func:`is_compatible_llvm22`: the linker wrapper up to LLVM 22 copies an input into the link group of another target.
  It differs in surprising places (``gfx9-generic`` and ``gfx900`` do not match).

Sources: ``areTargetsCompatible`` in llvm/lib/Object/OffloadBinary.cpp, called directly for LLVM 22, read for main;
``TargetID::providesFor`` in llvm/lib/TargetParser/AMDGPUTargetParser.cpp (main). HIP: amd/comgr/src/comgr-metadata.cpp
of ROCm/llvm-project and clr/hipamd/src/hip_fatbin.cpp of ROCm/rocm-systems, 2026.
"""

from __future__ import annotations

from fatpack.model import Target
from fatpack.record import Record
from fatpack.targets.nvidia import can_load, parse_nvidia
from fatpack.targets.triple import (
    is_amdgpu,
    is_nvptx,
    sub_architecture,
    triple_identity,
    triple_processor,
    without_sub_architecture,
)
from fatpack.targets.vocabulary import feature_signs, load_vocabulary, primary_processor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


#: other forms in a fat binary → their names
_FOR_LINKERS = {"ltoir": "LTO-IR", "tileir": "Tile IR"}

#: LLVM writes both for "no particular processor", and leaves the key out as a third spelling.
_NO_PROCESSOR = ("", "generic")


class Compatibility(Record):
    """An answer with its reason in words.

    ``is_assumed`` is true if the answer is yes without certainty: an unknown or missing processor, a missing triple, or
    a rule that NVIDIA's documentation restricts. Do not promise anything to a user for such an answer.
    """

    answer: bool
    reason: str
    is_assumed: bool = False

    def __bool__(self) -> bool:
        return self.answer


class Conflict(Record):
    """Targets that clang refuses in one compilation: with (``having``) and without (``lacking``) one feature."""

    processor: str
    feature: str
    having: tuple[Target, ...]
    lacking: tuple[Target, ...]

    @property
    def message(self) -> str:
        """The conflict in words."""
        return (
            f"{self.having[0].arch} fixes {self.feature} and {self.lacking[0].arch} does not: "
            f"for one processor a feature must be given in all targets or in none"
        )


def effective_processor(target: Target) -> str:
    """Return the processor of a target: of its arch string, else of its triple; "" if neither has one.

    Aliases of AMD processors are resolved; ``generic`` counts as none.
    """
    named = target.processor
    if not target.triple or is_amdgpu(target.triple):
        if named in _NO_PROCESSOR:
            return triple_processor(target.triple)
        return primary_processor(named)
    return "" if named in _NO_PROCESSOR else named


def target_identity(target: Target) -> tuple[object, ...]:
    """Return a key that is equal for two targets exactly if :func:`is_same_target` is true; for grouping and look-up.

    The programming model (``offload``) is no part of it. The key of a target with only a bundle ID is its spelling.
    """
    if target.spelling and not target.triple and not target.arch:
        return ("spelling", target.spelling)
    processor = effective_processor(target)
    triple = triple_identity(without_sub_architecture(target.triple))
    # A processor is more specific than the family in the triple; an unknown instruction set became the processor.
    return triple, processor, frozenset(target.features)


def is_same_target(a: Target, b: Target) -> bool:
    """Return whether two targets are equal regardless of their spelling.

    The order of features and the choice between names of one architecture, processor or "unknown" do not matter;
    ``generic``, empty and absent arch strings are equal.
    """
    return target_identity(a) == target_identity(b)


def can_serve(provider: Target, request: Target, *, nvidia_rules: bool = False, form: str = "cubin") -> Compatibility:
    """Return whether an image built for ``provider`` can serve ``request``, and the reason.

    This is the directional rule of LLVM main. A triple that is missing on either side is not compared: people type
    ``gfx90a``. With ``nvidia_rules``, images for NVIDIA follow the rules of the CUDA driver: the request is the device,
    and ``form`` is the form of the image (``cubin``, ``ptx``). Code that no driver loads, such as LTO-IR, serves
    nothing then; other forms follow LLVM's rule alone.
    LLVM main treats unknown names as wildcards; here the removed gfx940 and gfx941 serve only themselves, and features
    of an unknown processor are compared.
    """
    triples = _triples(provider, request)
    if not triples.answer:
        return triples
    triple = provider.triple or request.triple
    if is_amdgpu(triple) or (not triple and provider.arch.startswith("gfx")):
        verdict = _serves_amd(provider, request)
    else:
        verdict = _serves_other(provider, request, nvidia_rules and (is_nvptx(triple) or not triple), form)
    assumed = verdict.answer and (verdict.is_assumed or triples.is_assumed)
    return verdict.replace(is_assumed=assumed)


def _triples(provider: Target, request: Target) -> Compatibility:
    """Compare the triples alone: equal, except that AMD's instruction set may be the family of the other one."""
    first, second = provider.triple, request.triple
    if not first or not second:
        return Compatibility(True, "no triple to compare", is_assumed=not first and bool(second))
    if triple_identity(without_sub_architecture(first)) != triple_identity(without_sub_architecture(second)):
        return Compatibility(False, f"the triples differ: {first} and {second}")
    have, want = sub_architecture(first), sub_architecture(second)
    if have and want and have != want and not _is_family_of(have, want) and not _is_family_of(want, have):
        return Compatibility(
            False, f"neither of the instruction sets amdgpu{have} and amdgpu{want} is the other's family"
        )
    return Compatibility(True, "the triples agree")


def _is_family_of(family: str, isa: str) -> bool:
    words = load_vocabulary()
    known = words.families.get(family)
    return known is not None and known.triple == words.family_of(triple_processor(f"amdgpu{isa}"))


def _serves_amd(provider: Target, request: Target) -> Compatibility:
    have, want = effective_processor(provider), effective_processor(request)
    words = load_vocabulary()
    assumed = False
    if have == want:
        reason = f"both are for {have}" if have else "neither names a processor"
        assumed = not have
    elif not have or not want:
        reason = f"{'the image' if not have else 'the request'} names no processor"
        assumed = True
    elif want in words.members(have):
        reason = f"{have} covers {want}"
    elif unknown := [name for name in (have, want) if not words.vendor(name) and not words.family_of(name)]:
        reason = f"{unknown[0]} is unknown, and LLVM takes an unknown processor for any"
        assumed = True
    else:
        return Compatibility(False, f"the processors differ: {have} and {want}")
    fixed, requested = feature_signs(provider.arch), feature_signs(request.arch)
    line = words.amd.get(have)
    for feature, sign in sorted(fixed.items()):
        if line is not None and feature not in line.features:
            continue
        if requested.get(feature) != sign:
            found = f"asks for {feature}{requested[feature]}" if feature in requested else f"leaves {feature} open"
            return Compatibility(False, f"the image needs {feature}{sign}, the request {found}")
    return Compatibility(True, reason, assumed)


def _serves_other(provider: Target, request: Target, nvidia_rules: bool, form: str) -> Compatibility:
    have, want = provider.arch, request.arch
    if nvidia_rules and form in _FOR_LINKERS:
        return Compatibility(False, f"{_FOR_LINKERS[form]} is for linkers and compilers: no driver loads it")
    if have == want:
        return Compatibility(True, f"both are for {have}" if have else "neither names a processor")
    if "generic" in (have, want):
        return Compatibility(True, "generic matches any processor", is_assumed=True)
    image, device = parse_nvidia(have), parse_nvidia(want)
    if nvidia_rules and image and device and form in ("cubin", "ptx"):
        ruling = can_load(image, device, form)
        what = "PTX" if form == "ptx" or image.is_virtual else "a cubin"
        doubt = "" if ruling.is_certain else "; this is uncertain"
        return Compatibility(ruling.answer, f"{what} for {have} runs on {ruling.rule}{doubt}", not ruling.is_certain)
    return Compatibility(False, f"the processors differ: {have or 'none'} and {want or 'none'}")


#: generic processor → processors for which the HIP runtime requests it: fewer than in LLVM
_HIP_GENERICS = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
    "gfx12-5-generic": ("gfx1250",),
}

#: the last name that the HIP runtime requests: SPIR-V, which it compiles
HIP_SPIRV = "amdgcnspirv"


def hip_target_ids(device: str) -> tuple[str, ...]:
    """Return the target IDs that the HIP runtime requests from a bundle, in order.

    ``device`` is the target ID that a device reports, with every feature it has: ``gfx90a:sramecc+:xnack-``.
    """
    processor, _, features = device.partition(":")
    generic = next((name for name, members in _HIP_GENERICS.items() if processor in members), "")
    also = (f"{generic}:{features}" if features else generic,) if generic else ()
    return (device, *also, HIP_SPIRV)


def can_serve_hip(entry: str, name: str) -> Compatibility:
    """Return whether the HIP runtime loads an entry with a target ID if it requests one of :func:`hip_target_ids`.

    The processors must be equal, and each feature of the entry must be in the request. A feature that the processor
    does not have makes a target ID invalid, on either side, and then nothing fits. There is no wildcard processor.
    """
    for target_id in (entry, name):
        processor = primary_processor(target_id.partition(":")[0])
        line = load_vocabulary().amd.get(processor)
        if line is None:
            return Compatibility(False, f"HIP knows no processor {processor or '(none)'}")
        wrong = sorted(feature_signs(target_id).keys() - set(line.features))
        if wrong:
            return Compatibility(False, f"{target_id} is invalid: {processor} has no {wrong[0]}")
    have, want = (primary_processor(target_id.partition(":")[0]) for target_id in (entry, name))
    if have != want:
        return Compatibility(False, f"the processors differ: {have} and {want}")
    fixed, requested = feature_signs(entry), feature_signs(name)
    for feature, sign in sorted(fixed.items()):
        if requested.get(feature) != sign:
            found = f"has {feature}{requested[feature]}" if feature in requested else f"does not say {feature}"
            return Compatibility(False, f"the image needs {feature}{sign}, the device {found}")
    return Compatibility(True, f"the image is for {have}")


def is_compatible_llvm22(a: Target, b: Target) -> bool:
    """Return the result of ``areTargetsCompatible`` of LLVM 22 and older: one image joins the other's link group.

    False for identical targets, which are grouped anyway. Triples must be equal as text, ``generic`` matches any
    processor, and only AMD targets are compared further. The relation is symmetric.
    """
    if (a.triple, a.arch) == (b.triple, b.arch) or a.triple != b.triple:
        return False
    if a.arch == "generic" or b.arch == "generic":
        return True
    if a.triple.partition("-")[0] not in ("amdgcn", "r600"):
        return False
    if a.processor != b.processor:
        return False
    # QUIRK(LLVM 22): features are searched anywhere in the string, valid or not.
    for feature in ("xnack", "sramecc"):
        for first, second in ((a.arch, b.arch), (b.arch, a.arch)):
            if f"{feature}+" in first and f"{feature}-" in second:
                return False
    return True


def find_conflicts(targets: Iterable[Target]) -> list[Conflict]:
    """Return the targets that clang refuses to compile together: some set a feature of a processor, others do not.

    Targets are compared within one programming model, triple and processor. clang 22 itself misses the conflict if the
    target ID that sorts first has the feature and a later one lacks it.
    """
    groups: dict[tuple[object, ...], list[Target]] = {}
    for target in targets:
        key = (target.offload, triple_identity(without_sub_architecture(target.triple)), effective_processor(target))
        groups.setdefault(key, []).append(target)
    found = []
    for (*_, processor), group in groups.items():
        given = [(target, feature_signs(target.arch)) for target in group]
        for feature in sorted({feature for _, features in given for feature in features}):
            having = tuple(target for target, features in given if feature in features)
            lacking = tuple(target for target, features in given if feature not in features)
            if lacking:
                found.append(Conflict(str(processor), feature, having, lacking))
    return found


# Link groups: the inputs that clang-linker-wrapper links together, by the version of LLVM.
#
# An input for gfx90a can be linked into the program for ``gfx90a:xnack+``. The rules changed over time:
#
# =======================  ==========================  ====================  ======================================
# inputs                   LLVM 19                     LLVM 22               LLVM 23
# =======================  ==========================  ====================  ======================================
# objects, whole archives  each adds its own target,   the same              the targets with the most features
#                          and joins all compatible                          come first; an input adds no target of
#                          ones before it                                    its own if one has all its features
# members of archives      join the compatible         join each compatible  the same as LLVM 22
#                          targets that need them, by  target
#                          their symbols
# =======================  ==========================  ====================  ======================================
#
# "Compatible" is :func:`is_compatible_llvm22`: symmetric, and ``generic`` matches all. For objects LLVM 23 uses one
# direction, of AMD targets and others alike: the processors are equal as text, and the target has every feature of the
# input with the same sign.
#
# How we know: ``getDeviceInput`` in clang/tools/clang-linker-wrapper/ClangLinkerWrapper.cpp and
# ``areTargetsCompatible`` in llvm/lib/Object/OffloadBinary.cpp, LLVM 22; pull request llvm#209563 and the tool itself,
# 23.1.4, on link lines made for it: triples are compared as text, and targets with equally many features keep the order
# of the inputs.

#: The versions of LLVM whose rules are known, the newest last.
VERSIONS = ("19", "22", "23")


def feature_count(target: Target) -> int:
    """Return the number of features of a target, by which LLVM 23 orders targets."""
    return target.arch.count(":")


def accepts_image(group: Target, image: Target) -> bool:
    """Return whether LLVM 23 links an object's image for one target into the program for another, or the same."""
    if (group.triple, group.arch) == (image.triple, image.arch):
        return True
    if group.triple != image.triple or not feature_count(group):
        return False
    # QUIRK(LLVM 23.1): a target that starts with a colon has no processor, and accepts an image for any.
    if group.processor != image.processor and (group.processor or feature_count(image)):
        return False
    wanted = _signs(group)
    return all(wanted.get(feature[:-1]) == feature[-1] for feature in image.arch.split(":")[1:] if feature)


def _signs(target: Target) -> dict[str, str]:
    """Return the features of a target ID with their signs; of a repeated feature, the first counts."""
    signs: dict[str, str] = {}
    for feature in target.arch.split(":")[1:]:
        if not feature:
            break  # QUIRK(LLVM 23.1): text after two colons is not read
        signs.setdefault(feature[:-1], feature[-1])
    return signs


def joins_group(image: Target, group: Target, llvm: str) -> bool:
    """Return whether an image joins the link for a target other than its own; see the table above."""
    if llvm != "23" or not is_amdgpu(group.triple):
        return is_compatible_llvm22(image, group)
    # LLVM 23 also accepts the architecture's new name, with and without the instruction set.
    system = f"amdgcn-{group.triple.partition('-')[2]}"
    return image.triple == group.triple and is_compatible_llvm22(
        image.replace(triple=system), group.replace(triple=system)
    )
