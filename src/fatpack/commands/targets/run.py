"""Facts about the name of a target: as plain data, and as words for people."""

from __future__ import annotations

from fatpack.errors import TargetError
from fatpack.record import Record
from fatpack.targets.devices import Coverage, parse_device, run_coverage
from fatpack.targets.nvidia import RENAMED, NvidiaArch, parse_nvidia
from fatpack.targets.triple import is_amdgpu, same_triple, split_triple, sub_architecture, triple_processor
from fatpack.targets.vocabulary import (
    SYCL_PREFIXES,
    AmdName,
    IntelName,
    NvidiaName,
    TargetId,
    TripleName,
    check_target_id,
    default_triple,
    load_vocabulary,
    nearest_names,
    without_prefix,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_STATES = {"+": "on", "-": "off"}
_PARTS = ("architecture", "vendor", "system", "environment")


class Explanation(Record):
    """A name explained.

    ``name`` is the canonical spelling of ``given``. ``kind`` is architecture, virtual, processor, generic, alias,
    portable, removed, device, cpu, group, family, triple or none. ``facts`` are (label, text) in reading order,
    ``notes`` sentences, ``sources`` where the facts are from. ``values`` are the facts as plain data for programs,
    ``coverage`` says where the images run.
    """

    name: str
    given: str
    vendor: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    values: Mapping[str, object] = {}
    coverage: tuple[Coverage, ...] = ()


def full_sources(table: str, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the full sources for the keys of a table."""
    citations = load_vocabulary().citations(table)
    return tuple(citations[key] for key in keys)


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def explain_nvidia(line: NvidiaName) -> Explanation:
    """Return the explanation of an architecture, real or virtual."""
    arch = parse_nvidia(line.name) or NvidiaArch(0)  # the data is tested: every name parses
    coverage = run_coverage(line.name)
    facts = [("compute capability", arch.capability + (f", {line.generation}" if line.generation else ""))]
    if arch.is_virtual:
        facts.append(("what it is", "a virtual architecture: PTX is written for it and compiled when it is loaded"))
    else:
        facts.append(("PTX is for", line.virtual))
    facts += [(f"{'PTX' if part.form == 'ptx' else part.form} runs on", part.rule) for part in coverage]
    facts.append(("since CUDA", line.since))
    facts.append(("last CUDA", line.until or "none so far"))
    facts.append(("--offload-arch", f"clang 22: {_yes(line.clang22)}"))
    if not arch.is_virtual:
        facts.append(("NVPTX back end", f"LLVM 22: {_yes(line.backend22)}"))
    return Explanation(
        name=line.name,
        given=line.name,
        vendor="nvidia",
        kind="virtual" if arch.is_virtual else "architecture",
        facts=tuple(facts),
        notes=_nvidia_notes(arch, line),
        sources=full_sources("nvidia", line.sources),
        values={
            "compute_capability": arch.capability,
            "suffix": arch.suffix,
            "virtual": line.virtual,
            "generation": line.generation or None,
            "since_cuda": line.since,
            "until_cuda": line.until or None,
            "clang22": line.clang22,
            "backend22": line.backend22,
            "embedded": line.embedded,
            "renamed": line.renamed or None,
        },
        coverage=coverage,
    )


def _nvidia_notes(arch: NvidiaArch, line: NvidiaName) -> tuple[str, ...]:
    notes = []
    if line.renamed:
        notes.append(f"CUDA 13 renamed it to {line.renamed}.")
    if arch.number in RENAMED.values():
        notes.append("CUDA 12 called it 101 (compute capability 10.1).")
    if line.until == "12.9" and not line.renamed:
        notes.append("CUDA 13 dropped it; LLVM 22 still accepts it.")
    if arch.is_virtual:
        notes.append("PTX needs a driver at least as new as its CUDA version: PTX 8.7 one of CUDA 12.8.")
    if line.embedded:
        notes.append("A Tegra part: cubins for it and for discrete parts are not interchangeable; PTX is.")
    if arch.suffix == "f" and not arch.is_virtual:
        notes.append("CUDA 12.4 tools do not know the suffix f; they show the plain architecture.")
    if arch.number == 52 and not arch.is_virtual:
        notes.append("It is what clang compiles for when no architecture is given.")
    if not arch.is_virtual:
        notes.append("LLVM tools compare architectures as text: to them any two different ones are unrelated.")
    return tuple(notes)


def explain_amd(given: str, line: AmdName, target_id: TargetId) -> Explanation:
    """Return the explanation of a processor, generic processor or alias, with the features that are fixed."""
    name = str(target_id)
    is_alias = given.partition(":")[0] in line.aliases
    generics = load_vocabulary().generics_of(line.name)
    fixed = {feature[:-1]: _STATES[feature[-1]] for feature in target_id.features}
    accepts_features = line.kind in ("processor", "generic")
    rows = [
        ("alias of", line.name if is_alias else ""),
        ("what it is", line.text),
        ("features", ", ".join(line.features) or ("none that a target ID could fix" if accepts_features else "")),
        *((f"{feature} is", fixed.get(feature, "either on or off")) for feature in line.features if fixed),
        ("covers", ", ".join(line.covers)),
        ("covers, LLVM main", ", ".join(line.covers_main)),
        ("covered by", ", ".join(generics) or ("no generic processor" if line.kind == "processor" else "")),
        ("aliases", ", ".join(line.aliases)),
        ("triple, LLVM 23", f"amdgpu{line.triple}-amd-amdhsa" if line.triple else ""),
        ("--offload-arch", f"clang 22: {_yes(line.clang22)}"),
    ]
    notes = []
    if is_alias:
        notes.append("clang resolves the alias before anything is written: containers hold the processor's name.")
    if not line.clang22 and line.kind != "removed":
        notes.append("Only LLVM main knows it.")
    if given != name and not is_alias:
        notes.append("Features are stored in alphabetical order.")
    if line.kind == "generic":
        notes.append("LLVM up to 22 treats it as one more architecture: its linker wrapper does not match it with any.")
    return Explanation(
        name=name,
        given=given,
        vendor="amd",
        kind="alias" if is_alias else line.kind,
        facts=tuple((label, text) for label, text in rows if text),
        notes=tuple(notes),
        sources=full_sources("amd", line.sources),
        values={
            "processor": line.name,
            "set_features": list(target_id.features),
            "features": list(line.features),
            "generics": list(generics),
            "covers": [*line.covers, *line.covers_main],
            "aliases": list(line.aliases),
            "triple": f"amdgpu{line.triple}-amd-amdhsa" if line.triple else None,
            "clang22": line.clang22,
        },
        coverage=run_coverage(name),
    )


def explain_intel(name: str, line: IntelName) -> Explanation:
    """Return the explanation of a device, a CPU or a group of devices."""
    words = load_vocabulary()
    tools = {"gpu": "ocloc -device", "cpu": "opencl-aot -march"}
    others = [other for other in line.names if other != name]
    relative = words.relative(name)
    facts = [("device", line.device)] if line.device else []
    if line.ip:
        facts.append(("GPU IP version", line.ip))
    if line.kind == "xe-group":
        facts.append(("what it is", "a name for a group of devices, none of which reports it"))
    if line.covers:
        facts.append(("covers", ", ".join(line.covers)))
    if others:
        facts.append(("same device" if line.kind == "gpu" else "same IP version", ", ".join(others)))
    if line.compiler:
        facts.append((tools[line.kind], line.compiler))
    if relative:
        facts.append(("LLVM main calls it" if line.kind == "gpu" else "DPC++ calls it", relative))
    if line.kind == "gpu":
        facts.append(("-fsycl-targets", f"{SYCL_PREFIXES['intel']}{name}"))
    facts.append(("triple", default_triple(name)))
    facts.append(("--offload-arch", f"clang 22: {_yes(line.clang22)}"))
    notes = []
    if line.kind == "xe" and name == line.names[0] and others:
        notes.append("Of the names with this IP version it is the one that LLVM's offload-arch utility prints.")
    if line.kind.startswith("xe"):
        notes.append("Only LLVM main knows it.")
    elif not line.clang22:
        notes.append("DPC++ accepts it; upstream LLVM 22 does not.")
    if relative and relative in words.intel and words.intel[relative].ip:
        facts.insert(1, ("GPU IP version", words.intel[relative].ip))
    return Explanation(
        name=name,
        given=name,
        vendor="intel",
        kind={"gpu": "device", "cpu": "cpu", "xe": "device", "xe-group": "group"}[line.kind],
        facts=tuple(facts),
        notes=tuple(notes),
        sources=full_sources("intel", line.sources),
        values={
            "device": line.device or None,
            "names": list(line.names),
            "ocloc": line.compiler if line.kind == "gpu" else None,
            "opencl_aot": line.compiler if line.kind == "cpu" else None,
            "ip": line.ip or (words.intel[relative].ip if relative else "") or None,
            "relative": relative or None,
            "triple": default_triple(name),
            "clang22": line.clang22,
        },
        coverage=run_coverage(name),
    )


def explain_triple(name: str, line: TripleName | None) -> Explanation:
    """Return the explanation of a triple; ``line`` is what the vocabulary has for it or for its architecture."""
    words = load_vocabulary()
    parts = split_triple(name)
    processor = triple_processor(name)
    values = (parts.architecture, parts.vendor, parts.system, parts.environment)
    facts = [(label, text or "none given") for label, text in zip(_PARTS, values, strict=True)]
    if line is not None:
        facts += [("written by", line.producer), ("arch string", line.arch)]
        facts += [("also spelled", ", ".join(line.also))] if line.also else []
    if processor in words.amd:
        facts.append(("processor", processor))
    elif processor:
        facts.append(("processors", ", ".join(words.members(processor))))
    notes = [line.note] if line is not None and line.note else []
    if is_amdgpu(name):
        notes.append("amdgcn (up to LLVM 22) and amdgpu (LLVM 23) are one architecture.")
    if parts.architecture in words.hosts:
        notes.append("A host triple: stored for OpenMP on CPUs, and in bundles for the host entry.")
    notes.append("A missing part at the end, an empty part and unknown mean the same.")
    return Explanation(
        name=name,
        given=name,
        vendor="amd" if is_amdgpu(name) else line.vendor if line is not None else "",
        kind="triple",
        facts=tuple(facts),
        notes=tuple(notes),
        sources=full_sources("triples", line.sources if line is not None else ("main",)),
        values={
            **{label: text or None for label, text in zip(_PARTS, values, strict=True)},
            "processor": processor or None,
        },
        coverage=run_coverage(processor) if processor else (),
    )


# From whatever a person typed to its explanation, and the list of all names.


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
