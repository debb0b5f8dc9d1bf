"""Known names of targets and facts about them, read from ``data/*.toml`` on first use.

Unknown names are legal in every container. The vocabulary is used for display, for validation of typed names, and by
the compatibility rules; no reader refuses a file because of it.
"""

from __future__ import annotations

import os

from fatpack.errors import TargetError
from fatpack.model import Target
from fatpack.record import Record
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    RecordKind = TypeVar("RecordKind", bound=Record)


# AMD target IDs: a processor and the settings of its features.
#
# ``gfx90a:sramecc+:xnack-`` is code for a gfx90a with error-correcting memory on and retry on page faults off. A
# feature that is not named may be either. Order does not matter; clang writes features in alphabetical order
# (llvm/docs/AMDGPUUsage.rst, target ID). Nothing here reads the vocabulary's data, so whether a processor accepts a
# feature is checked by :func:`fatpack.targets.check_target_id`.

_EXAMPLE = "a target ID looks like gfx90a:sramecc+:xnack-"


class TargetId(Record):
    """The parts of a target ID: ``features`` have their sign and are in alphabetical order."""

    processor: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.processor, *self.features))


def parse_target_id(text: str) -> TargetId:
    """Return the parts of a target ID, as strictly as clang reads them.

    Raises TargetError for a missing processor, a feature without sign or name, and a feature given twice. Whether
    such a processor or feature exists is not checked.
    """
    processor, _, rest = text.partition(":")
    if not processor:
        raise TargetError(f"target ID {text!r} names no processor", hint=_EXAMPLE)
    # QUIRK(clang 22): one colon at the end is accepted and dropped, an empty feature anywhere else is not.
    features = rest.removesuffix(":").split(":") if rest else []
    seen = set()
    for feature in features:
        name, sign = feature[:-1], feature[-1:]
        if sign not in ("+", "-") or not name or name[-1] in "+-":
            raise TargetError(f"feature {feature!r} of {text!r} does not end in one + or -", hint=_EXAMPLE)
        if name in seen:
            raise TargetError(f"target ID {text!r} gives the feature {name} twice", hint="keep one of them")
        seen.add(name)
    return TargetId(processor, tuple(sorted(features)))


def canonical_target_id(text: str) -> str:
    """Return a target ID as clang stores it. Raises TargetError as :func:`parse_target_id` does."""
    return str(parse_target_id(text))


def feature_signs(arch: str) -> dict[str, str]:
    """Return feature → sign of an arch string from a file; malformed and repeated features are skipped.

    LLVM compares stored target IDs, which no tool has validated, in the same way (AMDGPUTargetParser.cpp, 2026).
    """
    found: dict[str, str] = {}
    for feature in arch.split(":")[1:]:
        if feature[-1:] in ("+", "-"):
            found.setdefault(feature[:-1], feature[-1])
    return found


#: Vendors in the order of listings; each has a table in ``data``.
VENDORS = ("nvidia", "amd", "intel")

#: Prefixes of names in DPC++'s -fsycl-targets, by vendor (intel/llvm, sycl/doc/UsersManual.md).
SYCL_PREFIXES = {"nvidia": "nvidia_gpu_", "amd": "amd_gpu_", "intel": "intel_gpu_"}


class NvidiaName(Record):
    """A line of ``nvidia.toml``: an architecture, or a virtual one (``virtual`` is then its own name)."""

    name: str
    since: str
    sources: tuple[str, ...]
    virtual: str = ""
    until: str = ""
    generation: str = ""
    clang22: bool = False
    backend22: bool = False
    embedded: bool = False
    renamed: str = ""


class AmdName(Record):
    """A line of ``amd.toml``; ``kind`` is processor, generic, portable or removed.

    ``triple`` is the text after ``amdgpu`` in a triple, ``family`` the same for the family, ``covers`` the processors
    of a generic one, ``covers_main`` the processors that LLVM main adds.
    """

    name: str
    clang22: bool
    sources: tuple[str, ...]
    kind: str = "processor"
    triple: str = ""
    family: str = ""
    features: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    covers_main: tuple[str, ...] = ()
    text: str = ""

    @property
    def serves(self) -> tuple[str, ...]:
        """All processors that a generic one covers; the name itself for another."""
        return (*self.covers, *self.covers_main) or (self.name,)


class AmdFamily(Record):
    """A family of AMD instruction sets as triples spell it; ``generic`` is "" if it has no generic processor."""

    triple: str
    sources: tuple[str, ...]
    also: tuple[str, ...] = ()
    generic: str = ""


class IntelName(Record):
    """A device of ``intel.toml``; ``kind`` is gpu, cpu, xe or xe-group, and decides which fields are filled.

    ``compiler`` is the value for ``ocloc -device`` (gpu) or ``opencl-aot -march`` (cpu), ``ip`` the GPU IP version.
    """

    kind: str
    names: tuple[str, ...]
    sources: tuple[str, ...]
    device: str = ""
    compiler: str = ""
    ip: str = ""
    covers: tuple[str, ...] = ()
    clang22: bool = False


class TripleName(Record):
    """A line of ``triples.toml``."""

    triple: str
    producer: str
    arch: str
    vendor: str
    sources: tuple[str, ...]
    also: tuple[str, ...] = ()
    note: str = ""


#: attribute of a vocabulary → the table from which it is made
_TABLES = {
    "nvidia": "nvidia",
    "amd": "amd",
    "families": "amd",
    "intel": "intel",
    "triples": "triples",
    "hosts": "triples",
}


class Vocabulary:
    """Everything in ``data/*.toml``, indexed by name; a table is read on first use of one of its names.

    ``nvidia``, ``amd`` and ``intel`` map every name to its line, aliases included.
    """

    nvidia: dict[str, NvidiaName]
    amd: dict[str, AmdName]
    families: dict[str, AmdFamily]
    intel: dict[str, IntelName]
    triples: list[TripleName]
    hosts: tuple[str, ...]

    def __init__(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self._tables = tables

    def __getattr__(self, name: str) -> Any:
        """Index a table, and return one of the attributes that are made from it."""
        if name not in _TABLES:
            raise AttributeError(name)
        table = self._tables[_TABLES[name]]
        {"nvidia": self._add_nvidia, "amd": self._add_amd, "intel": self._add_intel, "triples": self._add_triples}[
            _TABLES[name]
        ](table)
        return self.__dict__[name]

    def _add_nvidia(self, table: Mapping[str, Any]) -> None:
        architectures = [_line(NvidiaName, row) for row in table["architectures"]]
        virtuals = [_line(NvidiaName, row, virtual=row["name"]) for row in table["virtuals"]]
        self.nvidia = {line.name: line for line in (*architectures, *virtuals)}

    def _add_amd(self, table: Mapping[str, Any]) -> None:
        lines = [
            *(_line(AmdName, row) for row in table["processors"]),
            *(_line(AmdName, row, kind="generic", family=row["triple"]) for row in table["generics"]),
            *(_line(AmdName, row) for row in table["others"]),
        ]
        self.amd = {name: line for line in lines for name in (line.name, *line.aliases)}
        families = [_line(AmdFamily, row) for row in table["families"]]
        self.families = {spelling: family for family in families for spelling in (family.triple, *family.also)}

    def _add_intel(self, table: Mapping[str, Any]) -> None:
        devices = [
            *(_intel("gpu", row, "ocloc") for row in table["gpus"]),
            *(_intel("cpu", row, "opencl_aot") for row in table["cpus"]),
            *(_intel("xe", row) for row in table["xe"]),
            *(_intel("xe-group", row) for row in table["xe_groups"]),
        ]
        self.intel = {name: line for line in devices for name in line.names}

    def _add_triples(self, table: Mapping[str, Any]) -> None:
        self.triples = [_line(TripleName, row) for row in table["triples"]]
        self.hosts = tuple(table["hosts"])

    def citations(self, table: str) -> dict[str, str]:
        """Return the sources that a table names, by their keys."""
        return dict(self._tables[table]["sources"])

    def names(self) -> list[str]:
        """Return every name, vendor by vendor in the order of the data."""
        return [*self.nvidia, *self.amd, *self.intel]

    def vendor(self, name: str) -> str:
        """Return nvidia, amd or intel for a known name, else ""."""
        return next((vendor for vendor in VENDORS if name in getattr(self, vendor)), "")

    def is_gpu(self, name: str) -> bool:
        """Return whether a known name is that of a GPU that DPC++ compiles for, and not of a CPU or of LLVM main."""
        return name not in self.intel or self.intel[name].kind == "gpu"

    def relative(self, name: str) -> str:
        """Return the name in LLVM main of Intel's name in DPC++, or the other way round; "" if there is none."""
        other = name.removeprefix("xe-").replace("-", "_") if name.startswith("xe-") else f"xe-{name.replace('_', '-')}"
        return other if other in self.intel else ""

    def family_of(self, processor: str) -> str:
        """Return how the triple spells the family of an AMD processor, a generic one or a family; "" if unknown."""
        if processor in self.amd:
            return self.amd[processor].family
        family = self.families.get(processor.removeprefix("amdgpu")) if processor.startswith("amdgpu") else None
        return family.triple if family else ""

    def members(self, processor: str) -> tuple[str, ...]:
        """Return the processors for which code for ``processor`` is made; only itself for a specific or unknown one."""
        if processor in self.amd:
            return self.amd[processor].serves
        family = self.family_of(processor)
        found = (line.name for line in self.amd.values() if line.kind == "processor" and line.family == family)
        return tuple(dict.fromkeys(found)) if family else (processor,)

    def generics_of(self, processor: str) -> tuple[str, ...]:
        """Return the generic processors that cover an AMD processor."""
        return tuple(line.name for line in self.amd.values() if line.kind == "generic" and processor in line.serves)


def _line(record: Callable[..., RecordKind], row: Mapping[str, Any], /, **more: object) -> RecordKind:
    """Return a row of a table as its record; lists become tuples, an unknown column is a TypeError."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return record(**{**more, **values})


def _intel(kind: str, row: Mapping[str, Any], compiler: str = "") -> IntelName:
    row = dict(row)
    if compiler:
        row["compiler"] = row.pop(compiler)
    if "name" in row:
        row["names"] = [row.pop("name")]
    return _line(IntelName, row, kind=kind)


class _DataFiles(dict[str, "Mapping[str, Any]"]):
    """The tables in ``data``, each of which is read once."""

    def __missing__(self, name: str) -> Mapping[str, Any]:
        path = os.path.join(os.path.dirname(__file__), "data", f"{name}.toml")
        with open(path, "rb") as file:
            self[name] = __import__("tomllib").load(file)
        return self[name]


_VOCABULARY = Vocabulary(_DataFiles())


def load_vocabulary() -> Vocabulary:
    """Return the vocabulary."""
    return _VOCABULARY


def primary_processor(name: str) -> str:
    """Return the name that clang writes for an AMD processor: ``gfx600`` for ``tahiti``. Others are unchanged."""
    if not name or name.startswith(("gfx", "amd", "sm_")):
        return name  # the common names need no data
    line = load_vocabulary().amd.get(name)
    return line.name if line else name


def without_prefix(name: str) -> str:
    """Return a name without DPC++'s prefix: ``pvc`` of ``intel_gpu_pvc``. Others are unchanged."""
    words = load_vocabulary()
    for vendor, prefix in SYCL_PREFIXES.items():
        short = name.removeprefix(prefix)
        if short != name and words.vendor(short) == vendor and words.is_gpu(short):
            return short
    return name


#: characters that people add to names, leave out, or confuse
_JOINTS = str.maketrans("", "", "-_ ")


def respelled_name(name: str, names: Iterable[str] = ()) -> str:
    """Return the known name that differs only by capitals, hyphens and underlines: ``sm_90`` for ``SM90``; "" if none.

    ``names`` are the names to choose from; by default the whole vocabulary. The features of a target ID are kept.
    """
    processor, colon, features = name[:64].partition(":")
    joined = processor.lower().translate(_JOINTS)
    known = names or load_vocabulary().names()
    right = next((each for each in known if each.lower().translate(_JOINTS) == joined), "") if joined else ""
    return f"{right}{colon}{features}" if right and right != processor else ""


def nearest_names(name: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return up to three known names that look like ``name``, the most similar first.

    ``names`` are the names to choose from; by default the whole vocabulary. A name that is only spelled differently is
    the one that was meant, and the only one.
    """
    import difflib

    known = list(names) or load_vocabulary().names()
    right = respelled_name(name, known)
    if right:
        return (right,)
    # LIMIT: the matcher takes time with the square of the length, and no name is longer than 20 characters.
    typed = name[:64].lower()
    arch = parse_nvidia(typed)
    if arch is not None and typed not in known:
        numbers = {other: parse_nvidia(other) for other in known}
        kin = [other for other in numbers.values() if other and other.is_virtual == arch.is_virtual]
        kin.sort(key=lambda other: (abs(other.number - arch.number), other.suffix != arch.suffix))
        return tuple(other.name for other in kin[:3])
    spelled = {known_name.replace("-", "_"): known_name for known_name in known}
    matches = difflib.get_close_matches(typed.replace("-", "_"), spelled, n=3, cutoff=0.6)
    return tuple(spelled[match] for match in matches)


#: letters before the number of a board: H100, MI300X, RTX 4090
_BOARDS = ("a", "b", "gb", "gh", "gtx", "h", "k", "l", "mi", "p", "rtx", "t", "v")


def _is_board(name: str) -> bool:
    """Return whether a name looks like that of a board, whose number is not its architecture."""
    letters = name.lower().rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789").rstrip(" -_")
    return letters in _BOARDS


def unknown_name(name: str) -> TargetError:
    """Return the error for a name that is not in the vocabulary, with the nearest that are."""
    if _is_board(name):
        hint = "give its architecture: nvidia-smi --query-gpu=compute_cap --format=csv prints it, rocminfo for AMD"
        return TargetError(f"unknown target {name[:80]!r}, which looks like the name of a board", hint=hint)
    nearest = nearest_names(name)
    hint = "" if nearest else "fatpack targets lists all names"
    return TargetError(f"unknown target {name[:80]!r}", nearest=nearest, hint=hint)


def check_target_id(text: str) -> TargetId:
    """Return a target ID with its processor's primary name, checked as clang 22 checks it.

    Raises TargetError for a text that :func:`parse_target_id` refuses, an unknown processor, and a feature that the
    processor does not have. Names that only LLVM main, or only older versions, accept are known names.
    """
    given = parse_target_id(text)
    words = load_vocabulary()
    line = words.amd.get(given.processor)
    if line is None and given.processor in words.nvidia:
        raise TargetError(f"{given.processor!r} is an NVIDIA target, but an AMD target is required", hint="as gfx90a")
    if line is None:
        raise unknown_name(given.processor)
    for feature in given.features:
        if feature[:-1] not in line.features:
            raise TargetError(
                f"{line.name} has no feature {feature[:-1]!r} that a target ID could set",
                hint=f"it has {' and '.join(line.features) or 'none'}",
            )
    return TargetId(line.name, given.features)


def default_triple(arch: str) -> str:
    """Return the triple that goes with an arch string with clang 22 or DPC++; "" for an unknown name."""
    name = arch.partition(":")[0]
    if parse_nvidia(name):
        return "nvptx64-nvidia-cuda"
    if name.startswith("gfx"):
        return "amdgcn-amd-amdhsa"
    words = load_vocabulary()
    if name in words.amd:
        return "spirv64-amd-amdhsa" if words.amd[name].kind == "portable" else "amdgcn-amd-amdhsa"
    if name in words.intel:
        kinds = {"gpu": "spir64_gen-unknown-unknown", "cpu": "spir64_x86_64-unknown-unknown"}
        return kinds.get(words.intel[name].kind, "spirv64-unknown-unknown")
    return ""


def resolve_target(name: str) -> Target:
    """Return the target that a person means by a name or target ID, spelled as clang writes it.

    ``tahiti`` gives gfx600 with the triple for AMD, ``intel_gpu_pvc`` gives pvc with the one for Intel GPUs. Raises
    TargetError for an unknown name and for a target ID that clang 22 would not accept.
    """
    words = load_vocabulary()
    arch = without_prefix(name)
    if arch.partition(":")[0] in words.amd:
        arch = str(check_target_id(arch))
    elif arch not in words.nvidia and arch not in words.intel:
        raise unknown_name(name)
    return Target(default_triple(arch), arch)
