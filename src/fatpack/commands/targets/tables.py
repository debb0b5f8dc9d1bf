"""All names as tables: for ``fatpack targets`` without a name, and for the documents."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.devices import device_names, name_sources
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.vocabulary import load_vocabulary


class TargetTable(Record):
    """One table: ``vendor`` (nvidia, amd, intel or ""), a title, the columns' names and rows of as many texts."""

    vendor: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def target_tables() -> tuple[TargetTable, ...]:
    """Return every name of the vocabulary in tables, grouped by vendor."""
    return (_nvidia(), _amd(), _amd_generics(), _amd_others(), _intel_gpus(), _intel_cpus(), _intel_xe(), _triples())


def board_tables() -> tuple[TargetTable, ...]:
    """Return the names that devices are sold by, in a table for each vendor, and what their sources are."""
    titles = {"nvidia": "NVIDIA devices", "amd": "AMD devices", "intel": "Intel devices"}
    columns = ("name", "architecture", "source")
    sections = []
    for vendor, title in titles.items():
        rows = tuple((row.name, row.arch or "not known", row.source) for row in device_names() if row.vendor == vendor)
        sections.append(TargetTable(vendor, title, columns, rows))
    return (*sections, TargetTable("", "Sources", ("source", "what it is"), tuple(name_sources().items())))


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _nvidia() -> TargetTable:
    rows = []
    for line in load_vocabulary().nvidia.values():
        arch = parse_nvidia(line.name)
        if arch is not None and not arch.is_virtual:
            last = line.until or "-"
            row = (line.name, line.virtual, arch.capability, line.generation, line.since, last, _yes(line.clang22))
            rows.append(row)
    columns = ("name", "PTX is for", "capability", "generation", "since CUDA", "last CUDA", "clang 22")
    return TargetTable("nvidia", "NVIDIA architectures", columns, tuple(rows))


def _amd() -> TargetTable:
    words = load_vocabulary()
    rows = tuple(
        (
            line.name,
            " ".join(line.features),
            " ".join(words.generics_of(line.name)),
            f"amdgpu{line.triple}",
            _yes(line.clang22),
            " ".join(line.aliases),
        )
        for line in dict.fromkeys(words.amd.values())
        if line.kind == "processor"
    )
    columns = ("name", "features", "covered by", "in triples", "clang 22", "aliases")
    return TargetTable("amd", "AMD processors", columns, rows)


def _amd_generics() -> TargetTable:
    rows = tuple(
        (
            line.name,
            " ".join(line.features),
            f"amdgpu{line.triple}",
            _yes(line.clang22),
            " ".join((*line.covers, *(f"({name})" for name in line.covers_main))),
        )
        for line in load_vocabulary().amd.values()
        if line.kind == "generic"
    )
    columns = ("name", "features", "in triples", "clang 22", "covers (in brackets: LLVM main)")
    return TargetTable("amd", "AMD generic processors", columns, rows)


def _amd_others() -> TargetTable:
    lines = load_vocabulary().amd.values()
    rows = tuple((line.name, _yes(line.clang22), line.text) for line in lines if line.kind in ("portable", "removed"))
    return TargetTable("amd", "Other AMD names", ("name", "clang 22", "what it is"), rows)


def _intel_gpus() -> TargetTable:
    words = load_vocabulary()
    rows = []
    for line in dict.fromkeys(words.intel.values()):
        if line.kind == "gpu":
            main = [name for name in (f"xe-{name.replace('_', '-')}" for name in line.names) if name in words.intel]
            ip = words.intel[main[0]].ip if main else ""
            rows.append((" ".join(line.names), line.device, line.compiler, ip or "-", _yes(line.clang22)))
    columns = ("names", "device", "ocloc -device", "IP", "clang 22")
    return TargetTable("intel", "Intel GPUs (DPC++; -fsycl-targets=intel_gpu_NAME)", columns, tuple(rows))


def _intel_cpus() -> TargetTable:
    lines = dict.fromkeys(load_vocabulary().intel.values())
    rows = tuple(
        (line.names[0], line.device, line.compiler, _yes(line.clang22)) for line in lines if line.kind == "cpu"
    )
    return TargetTable("intel", "Intel CPUs (DPC++)", ("name", "device", "opencl-aot -march", "clang 22"), rows)


def _intel_xe() -> TargetTable:
    lines = dict.fromkeys(load_vocabulary().intel.values())
    rows = tuple((line.ip or "-", " ".join(line.names)) for line in lines if line.kind.startswith("xe"))
    return TargetTable("intel", "Intel GPUs (LLVM main)", ("IP", "names; the first is the one that is printed"), rows)


def _triples() -> TargetTable:
    rows = tuple((line.triple, line.arch, line.producer) for line in load_vocabulary().triples)
    return TargetTable("", "Triples", ("triple", "arch string", "written by"), rows)
