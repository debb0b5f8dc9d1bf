"""From whatever a person typed to its explanation, and the list of all names."""

from __future__ import annotations

from fatpack.commands.targets.run import (
    Explanation,
    explain_amd,
    explain_intel,
    explain_nvidia,
    explain_triple,
    full_sources,
)
from fatpack.errors import TargetError
from fatpack.targets.devices import parse_device
from fatpack.targets.triple import is_amdgpu, same_triple, split_triple, sub_architecture, triple_processor
from fatpack.targets.vocabulary import check_target_id, load_vocabulary, nearest_names, without_prefix


def explain_name(name: str) -> Explanation:
    """Return what is known about an architecture, processor, target ID, device, alias or triple.

    ``80``, ``8.0`` and ``90a`` are understood as short for an architecture, and a note says so. Case matters in all
    names. Raises TargetError with the nearest names for an unknown one.
    """
    words = load_vocabulary()
    short = without_prefix(name)
    processor = short.partition(":")[0]
    if short in words.nvidia:
        return explain_nvidia(words.nvidia[short]).replace(given=name)
    if processor in words.amd:
        return explain_amd(short, words.amd[processor], check_target_id(short)).replace(given=name)
    if short in words.intel:
        return explain_intel(short, words.intel[short]).replace(given=name)
    if name in ("", "generic"):
        return _no_processor(name)
    return _short(name) or _unlisted(name) or _triple(name) or _board(name)


def _board(name: str) -> Explanation:
    """Explain what a device is that is sold by a name. Raises TargetError for an unknown one."""
    found = parse_device(name)
    explanation = explain_name(found.arch)
    return explanation.replace(given=name, notes=(f"{found.title or name} is {found.arch}.", *explanation.notes))


def _no_processor(name: str) -> Explanation:
    return Explanation(
        name="generic",
        given=name,
        vendor="",
        kind="none",
        facts=(
            ("what it is", "no particular processor"),
            ("also spelled", "an empty arch string, or none at all"),
            ("matching", "LLVM lets generic match every processor of its triple, in both directions"),
        ),
        notes=("AMD's generic processors are another thing: gfx9-generic is one of them.",),
        sources=("llvm/llvm-project, llvm/lib/Object/OffloadBinary.cpp: areTargetsCompatible",),
    )


def _short(name: str) -> Explanation | None:
    """Explain ``80``, ``8.0``, ``90a``, ``906`` as the name they are short for; None if they are for none."""
    words = load_vocabulary()
    digits = name.replace(".", "", 1) if name[:1].isdigit() and name[-1:] != "." else ""
    found = [full for full in (f"sm_{digits}", f"gfx{digits}") if full in words.nvidia or full in words.amd]
    if not found:
        return None
    explanation = explain_name(found[0])
    hint = f"Taken as short for {found[0]}; containers and compilers want the whole name."
    notes = (hint, *(f"There is a {other} too." for other in found[1:]), *explanation.notes)
    return explanation.replace(given=name, notes=notes)


def _unlisted(name: str) -> Explanation | None:
    """Explain ``xe_20.5.1``, which LLVM's utility prints for a GPU that it has no name for."""
    numbers = name.removeprefix("xe_").split(".")
    if (
        not name.startswith("xe_")
        or len(numbers) != 3
        or not all(part.isascii() and part.isdigit() for part in numbers)
    ):
        return None
    ip = ".".join(numbers[:2])
    known = next((line.names[0] for line in load_vocabulary().intel.values() if line.ip == ip), "")
    return Explanation(
        name=name,
        given=name,
        vendor="intel",
        kind="device",
        facts=(
            ("GPU IP version", ip),
            ("revision", numbers[2]),
            ("named device", known or "none with this IP version"),
        ),
        notes=("LLVM's offload-arch utility prints such a name for a device that it does not know.",),
        sources=full_sources("intel", ("xe",)),
        values={"ip": ip, "relative": known or None},
    )


def _triple(name: str) -> Explanation | None:
    """Explain a triple whose first part is known; None for other text."""
    words = load_vocabulary()
    first = split_triple(name).architecture
    # The nearest row tells most: the same text, the same meaning, then the same architecture.
    rows = [row for row in words.triples if name in (row.triple, *row.also)]
    rows += [row for row in words.triples if same_triple(row.triple, name)]
    rows += [row for row in words.triples if split_triple(row.triple).architecture == first]
    if is_amdgpu(name):
        rows += [row for row in words.triples if row.triple.startswith("amdgpu")]
    if not rows and first not in words.hosts:
        return None
    processor = triple_processor(name)
    if processor and processor not in words.amd and not words.family_of(processor):
        known = {f"amdgpu{line.triple}" for line in words.amd.values()} | {f"amdgpu{key}" for key in words.families}
        raise TargetError(
            f"unknown instruction set {sub_architecture(name)[:40]!r} in the triple {name[:80]!r}",
            nearest=nearest_names(first, names=sorted(known)),
        )
    return explain_triple(name, rows[0] if rows else None)
