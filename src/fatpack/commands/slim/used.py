"""Slimming by use: containers of which a recorded run launched no kernel lose their images, and what fails then.

The unit is the container, one module as a program registers it: all of its images stay, or none. Parts of a cubin hang
together in ways that no tool can prove. A container stays if it holds a kernel that ran, or by one of these rules:

====  ================================================================================================================
K1    a kernel that ran lies in several containers: all of them stay, since it is not documented which is taken
K2    host code uses a kernel for more than launches, and may ask for its attributes, which no launch shows, as CUB
      does with ``cub::EmptyKernel``; or the code that registers a kernel could not be followed
K3    units that are linked together (``-rdc=true``): what was linked, and what it was linked from, are one
K4    it has no kernels, and so device variables alone; or a variable that the program may ask for by name
K5    its kernels launch others, which no trace of the host shows
K6    no record leads to it, or it holds code for a linker: tables of the program lead to it, or it is linked later
K7    its kernels cannot be read
====  ================================================================================================================

An unused container keeps the newest PTX that serves every device it served: its kernels still run, compiled at first
use. One without such PTX stays as it is, and goes with ``--drop-unused`` alone. It stays registered then, empty: a
program loads as before, and the first launch of one of its kernels returns ``cudaErrorNoKernelImageForDevice`` (209).

Libraries that choose among kernels while they run stay whole: another shape or alignment takes another kernel.
"""

from __future__ import annotations

import os

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import DYNSYM, SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable, symbol_table_strings
from fatpack.commands.slim.keep_for_device import LINKED, arch_label, image_form, is_host
from fatpack.errors import FormatError, Unsupported, UsageError, cli_or_api, pluralize
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.selectors.kernel_names import KernelNameIndex, best_forms, form_counts, match_names, name_lines
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.nvidia import NvidiaArch, can_load, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.slim.keep_for_device import ImageSelection, SlimImage
    from fatpack.commands.slim.linked import LinkedProgramFile
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import SlimOutcome
    from fatpack.io.source import View
    from fatpack.selectors.kernel_names import NameForm
    from fatpack.selectors.profiles import Profile

#: what a program meets where a kernel is gone: cudaErrorNoKernelImageForDevice
ERROR_OF_LOST_KERNEL = 209

_FATBIN, _BUNDLE = "cuda-fatbin", "clang-offload-bundle"

#: beginnings of file names, in lower case and without ``lib``, of libraries that choose among kernels while they run,
#: besides those of ``libraries.toml``. Source: their documents on heuristics, tuning and plans.
_CHOOSERS = (
    *("cufft", "nccl", "nvinfer", "cutlass", "cutensor", "hipblaslt", "rocblas", "tensile", "miopen", "hipfft"),
    *("rocfft", "rccl", "hipsparselt"),
)

#: functions by which a host reaches device variables; a program with a static runtime has no names of them
_ASKS_FOR_VARIABLES = tuple(
    f"{name}{suffix}".encode()
    for name in ("cudaMemcpyToSymbol", "cudaMemcpyFromSymbol", "cudaGetSymbolAddress", "cudaGetSymbolSize")
    for suffix in ("", "Async", "_ptds", "Async_ptsz")
)
_REGISTERS = b"__cudaRegisterFatBinary"

#: parts of the names of variables that no host code asks for: constants of NVIDIA's header libraries
_HEADER_LIBRARIES = (b"4cuda3std", b"6thrust", b"4cute", b"3cub")

#: beginnings of the functions of the device runtime by which a kernel launches others
_DEVICE_LAUNCHES = (b"__cudaCDP2LaunchDevice", b"__cudaCDP2GetParameterBuffer", b"cudaLaunchDevice")
_DEVICE_RUNTIME = (*_DEVICE_LAUNCHES, b"cudaGetParameterBuffer", b"cnprt")

_OBJECT = 1


class UseRequest(Record):
    """The kernels that ran, by ``profiles``, and what becomes of the others.

    ``widens`` keeps other instances of the templates that ran with the same functors, too: other types and sizes.
    ``drops_unused`` takes unused containers out that have no PTX to run by, ``also`` names libraries that choose
    kernels while they run and are slimmed all the same, and ``accepted`` is the number of kernels that may be lost.
    """

    profiles: tuple[Profile, ...]
    drops_unused: bool = False
    also: tuple[str, ...] = ()
    accepted: int | None = None
    widens: bool = True


class UsedContainer(Record):
    """A container and its fate: ``reason`` is a key of ``REASONS``.

    ``kernels`` are those that it lost or that are compiled at first use then: none of one that stays. ``count`` is how
    many it has, ``stored`` the bytes that went, or would go with ``drops_unused``; ``arch`` is that of the PTX.
    """

    number: int
    reason: str
    count: int
    kernels: tuple[str, ...] = ()
    stored: int = 0
    arch: str = ""


class UseReport(Record):
    """The result of slimming a file by use: its containers, and the names that mean kernels of it, each with its form.

    ``lost`` are the kernels that cannot run any more, ``total`` is how many the file has.
    """

    containers: tuple[UsedContainer, ...]
    forms: Mapping[str, NameForm]
    lost: tuple[str, ...]
    total: int
    widened: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The fate of the containers in words, and what to know about it."""
        return (*_container_words(self), *self.notes)

    def with_kept(self, numbers: Collection[int]) -> UseReport:
        """Return the report if the containers of some numbers stay after all, because they cannot be edited."""
        if not numbers:
            return self
        containers = tuple(
            one.replace(reason="K6", kernels=(), arch="") if one.number in numbers else one for one in self.containers
        )
        return self.replace(containers=containers, lost=_lost(containers))


class _Unit:
    """A container, or several that are linked together, with the images that are left of it."""

    def __init__(self) -> None:
        self.rows: list[SlimImage] = []
        self.kernels: dict[str, None] = {}
        self.is_readable = True

    def read(self) -> None:
        for row in self.rows:
            try:
                self.kernels |= dict.fromkeys(row.image.kernel_names)
            except (FormatError, Unsupported):
                self.is_readable = False


def apply_use(
    view: View, selection: ImageSelection, options: SlimOptions, file: LinkedProgramFile | None = None
) -> tuple[ImageSelection, UseReport | None]:
    """Return a selection without the images of unused containers, and the report; None if use was not asked about.

    ``file`` is given for linked programs. Raises Unsupported if names need a demangler and none is installed.
    """
    request = options.use
    if request is None:
        return selection, None
    units = _units(selection, file)
    for unit in units:
        unit.read()
    every = {name: None for unit in units for name in unit.kernels}
    index = KernelNameIndex(every)
    matches = match_names(request.profiles, index)
    name = view.chain[-1] if view.chain else view.source.name
    chooser = _chooser(name)
    notes = []
    siblings = index.siblings(matches.kernels) if request.widens and matches.kernels else frozenset()
    if chooser and any(_means(given, chooser, name) for given in request.also):
        notes.append(f"{chooser} chooses among kernels while it runs: other inputs may need kernels that are gone")
        chooser = ""
    elif chooser:
        option = cli_or_api("--by-use-also", "by_use_also=")
        notes.append(f"{chooser} chooses among kernels while it runs, and stays as it is; {option} slims it by use")
    rules = _Rules(view, file)
    containers: list[UsedContainer] = []
    gone: set[int] = set()
    for unit in units:
        reason = "library" if chooser else "name" if matches.kernels & unit.kernels.keys() else ""
        reason = reason or ("sibling" if siblings & unit.kernels.keys() else rules.reason(unit))
        fate = _Fate(reason, frozenset()) if reason else _fate_of_unused(unit, options, request)
        gone |= fate.gone
        containers += _containers(unit, fate)
    kept = tuple(row for row in selection.kept if id(row.image) not in gone)
    dropped = (*selection.dropped, *(row for row in selection.kept if id(row.image) in gone))
    if not options.devices:
        devices = cli_or_api("--for DEVICE", "devices=")
        notes.append(f"{devices} saves more and loses no kernel: other architectures take most of the bytes")
    containers.sort(key=lambda one: one.number)
    report = UseReport(tuple(containers), matches.forms, _lost(containers), len(every), matches.widened, tuple(notes))
    return selection.replace(kept=kept, dropped=dropped), report


def _lost(containers: Iterable[UsedContainer]) -> tuple[str, ...]:
    return tuple(sorted({name for one in containers if one.reason == "emptied" for name in one.kernels}))


def _units(selection: ImageSelection, file: LinkedProgramFile | None) -> list[_Unit]:
    together = frozenset() if file is None else file.same_arch_ids
    units: dict[int, _Unit] = {}
    for row in selection.kept:
        if not is_host(row.image):
            units.setdefault(-1 if id(row.found) in together else row.number, _Unit()).rows.append(row)
    return list(units.values())


def _containers(unit: _Unit, fate: _Fate) -> Iterator[UsedContainer]:
    by_number: dict[int, list[SlimImage]] = {}
    for row in unit.rows:
        by_number.setdefault(row.number, []).append(row)
    names = tuple(unit.kernels) if fate.gone else ()
    for number, rows in by_number.items():
        stored = sum(row.image.stored_size or 0 for row in rows if id(row.image) in (fate.gone | fate.would_go))
        yield UsedContainer(number, fate.reason, len(unit.kernels), names, stored, fate.arch)


class _Fate(Record):
    """The fate of a unit: the ``reason``, and the ``id()`` of the images that go, or would go with ``drops_unused``."""

    reason: str
    gone: frozenset[int]
    would_go: frozenset[int] = frozenset()
    arch: str = ""


def _fate_of_unused(unit: _Unit, options: SlimOptions, request: UseRequest) -> _Fate:
    every = frozenset(id(row.image) for row in unit.rows)
    if any(row.found.format != _FATBIN for row in unit.rows) and not options.allow_empty:
        return _Fate("bundle", frozenset())  # what HIP's runtime does with a bundle without device code is not known
    if request.drops_unused:
        return _Fate("emptied", every)
    text = _newest_text(unit, options)
    if text is None:
        return _Fate("kept", frozenset(), every)
    return _Fate("PTX", every - {id(text.image)}, every, arch_label(text.image))


def _newest_text(unit: _Unit, options: SlimOptions) -> SlimImage | None:
    """Return the newest PTX of a container that has all of its kernels and serves all devices that it serves."""
    if len({row.number for row in unit.rows}) > 1:
        return None
    devices = [one.nvidia for one in options.devices if one.nvidia is not None]
    wanted = devices or [arch for row in unit.rows if (arch := parse_nvidia(row.image.target.arch)) is not None]
    found: list[tuple[int, SlimImage]] = []
    for row in unit.rows:
        arch = parse_nvidia(row.image.target.arch)
        if row.image.form != "ptx" or row.image.as_stored.form in (*LINKED, "relocatable-ptx") or arch is None:
            continue
        if arch.suffix or not all(can_load(arch, NvidiaArch(one.number), "ptx").answer for one in wanted):
            continue
        if unit.kernels.keys() <= set(row.image.kernel_names):
            found.append((arch.number, row))
    return max(found, key=lambda one: one[0])[1] if found else None


class _Rules:
    """The rules K2 to K7 for containers without a kernel that ran."""

    def __init__(self, view: View, file: LinkedProgramFile | None) -> None:
        self._view = view
        self._file = file
        self._recorded = frozenset() if file is None else frozenset(item.position for item in file.pointings.items)
        self._elsewhere = frozenset() if file is None else frozenset(map(id, file.elsewhere))
        self._asks = _asks_for_variables(view, file)
        self._read: tuple[frozenset[str], frozenset[str]] | None = None

    def reason(self, unit: _Unit) -> str:
        """Return the rule by which a unit stays, "" if none holds."""
        rules = (
            ("format", any(row.found.format not in (_FATBIN, _BUNDLE) for row in unit.rows)),
            ("K7", not unit.is_readable),
            ("K6", any(image_form(row.image) in (*LINKED, "relocatable-ptx") for row in unit.rows)),
            ("K2", any(map(_is_empty_kernel, unit.kernels))),
            ("K4", not unit.kernels),
            ("K6", not all(map(self._is_led_to, unit.rows))),
        )
        reason = next((rule for rule, holds in rules if holds), "")
        try:
            return reason or self._by_symbols(unit) or self._by_code(unit)
        except (FormatError, Unsupported):
            return "K7"

    def _by_code(self, unit: _Unit) -> str:
        """Return K2 if host code may ask about a kernel, or if it is not known what host code does with one."""
        if self._file is None or any(row.found.format != _FATBIN for row in unit.rows):
            return ""
        if self._read is None:
            self._read = _registered_and_asked(self._view, self._file.host)
        registered, asked = self._read
        return "K2" if not unit.kernels.keys() <= registered or not asked.isdisjoint(unit.kernels) else ""

    def _is_led_to(self, row: SlimImage) -> bool:
        """Return whether records lead to a container; of an object, or a container alone, all counts as led to."""
        file = self._file
        if file is None or id(row.found) in file.same_arch_ids:
            return True
        return id(row.found) not in self._elsewhere and row.found.view.start - self._view.start in self._recorded

    def _by_symbols(self, unit: _Unit) -> str:
        for row in unit.rows:
            if row.image.form != "cubin":
                continue
            symbols = ElfSymbolTable(row.image.data, (SYMTAB,))
            found = [(at, info, section) for at, info, _, section in symbols]
            names = symbols.names([at for at, _, _ in found])
            if any(name.startswith(_DEVICE_RUNTIME) for name in names):
                return "K5"
            if self._asks and any(
                info & 15 == _OBJECT and section and _may_be_asked_for(name)
                for name, (_, info, section) in zip(names, found, strict=True)
            ):
                return "K4"
        return ""


def _registered_and_asked(view: View, host: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the kernels whose registration a program's code shows, and the kernels that it not only launches."""
    from fatpack.registration.analysis.analyze import read_evidence
    from fatpack.registration.analysis.asked_kernels import asked_kernels

    evidence, _ = read_evidence(view, host)
    if evidence is None:
        return frozenset(), frozenset()
    return frozenset(evidence.kernels), asked_kernels(evidence)


def _is_empty_kernel(name: str) -> bool:
    return "11EmptyKernel" in name and "cub" in name


def _may_be_asked_for(name: bytes) -> bool:
    return bool(name) and not name.startswith((b"$", b".")) and not any(part in name for part in _HEADER_LIBRARIES)


def _asks_for_variables(view: View, file: LinkedProgramFile | None) -> bool:
    """Return whether host code may reach device variables. Imports say that it does not."""
    if file is None or file.host != "elf":
        return True
    names = b"\0".join(symbol_table_strings(ElfFile(view), DYNSYM))
    if _REGISTERS not in names:
        return True  # the runtime is in the program itself
    return any(b"\0" + name + b"\0" in names for name in _ASKS_FOR_VARIABLES)


def _chooser(file_name: str) -> str:
    """Return the name of a library that chooses among kernels while it runs, "" for other files."""
    library = find_name_based_library(file_name)
    if library is not None:
        return library.library
    stem = os.path.basename(file_name).lower().removeprefix("lib").partition(".")[0]
    return next((name for name in _CHOOSERS if stem.startswith(name) and not stem[len(name) :][:1].isalpha()), "")


def _means(given: str, chooser: str, file_name: str) -> bool:
    base = os.path.basename(file_name).lower()
    word = os.path.basename(given).lower()
    return word in (chooser.lower(), base) or base.removeprefix("lib").partition(".")[0] == word.removeprefix("lib")


# Words about a result: of one file, and of all files of a run.

#: reasons for the fate of containers, in words; ``name``: it holds a kernel that ran
REASONS = {
    "name": "used",
    "sibling": "hold other instances of templates that were used",
    "K2": "hold a kernel that host code may ask about (K2)",
    "K4": "hold device variables that the program may use (K4)",
    "K5": "hold kernels that launch others (K5)",
    "K6": "hold code that is found or linked while the program runs (K6)",
    "K7": "cannot be read (K7)",
    "PTX": "unused: compiled from PTX at first use",
    "emptied": "unused: emptied",
    "kept": "unused: kept, without PTX to run by",
    "bundle": "unused: kept, as HIP's runtime may not load a bundle without device code",
    "format": "are of a format of which nothing is known by use",
    "library": "kept",
}


def _container_words(report: UseReport) -> Iterator[str]:
    counts = {reason: [one for one in report.containers if one.reason == reason] for reason in REASONS}
    words = [f"{len(found)} {REASONS[reason]}" for reason, found in counts.items() if found]
    if words:
        yield f"{pluralize(len(report.containers), 'container')}: {'; '.join(words)}"
    left = counts["kept"]
    if left:
        option = cli_or_api("--drop-unused", "drop_unused=True")
        size = format_size(sum(one.stored for one in left))
        yield f"{option} empties {pluralize(len(left), 'container')} more, {size} of device code"


def use_lines(outcomes: Sequence[SlimOutcome], request: UseRequest) -> Iterator[str]:
    """Yield messages about a run: how names were matched, unmatched names, and kernels that cannot run any more."""
    reports = _reports(outcomes)
    widened = tuple({name: None for report in reports for name in report.widened})
    yield from name_lines(request.profiles, best_forms(report.forms for report in reports), widened)
    yield lost_words(outcomes)


def lost_words(outcomes: Sequence[SlimOutcome]) -> str:
    """Return the sentence about what cannot run any more."""
    total = sum(one.total for one in _reports(outcomes))
    lost = count_lost(outcomes)
    return f"{lost} kernels of {total} cannot run any more; a program that needs one fails at that call (error 209)"


def count_lost(outcomes: Sequence[SlimOutcome]) -> int:
    """Return how many kernels cannot run any more."""
    return sum(len(one.lost) for one in _reports(outcomes))


def _reports(outcomes: Sequence[SlimOutcome]) -> list[UseReport]:
    return [item.plan.use for item in outcomes if item.plan is not None and item.plan.use is not None]


def refuse_unused(outcomes: Sequence[SlimOutcome], request: UseRequest | None, chain: Sequence[str] = ()) -> None:
    """Raise UsageError if no name of the profiles means a kernel of any file: they are of another program."""
    reports = _reports(outcomes)
    if request is None or not any(report.total for report in reports):
        return
    if best_forms(report.forms for report in reports):
        return
    files = ", ".join(profile.path for profile in request.profiles)
    count = len({name for profile in request.profiles for name in profile.names})
    raise UsageError(
        f"none of the {pluralize(count, 'name')} in {files} is a kernel of the input",
        hint="profile the program that loads this very file; fatpack inspect --kernels lists its kernels",
        chain=chain,
    )


def use_record(report: UseReport, request: UseRequest | None) -> dict[str, Any]:
    """Return a report as plain data, for certificates and JSON."""
    profiles: Collection[Profile] = () if request is None else request.profiles
    return {
        "profiles": [one.record() for one in profiles],
        "matched": form_counts(report.forms),
        "containers": [
            {"container": one.number, "reason": one.reason, "kernels": one.count} for one in report.containers
        ],
        "lost": [
            {"container": one.number, "kernel": name, "error": ERROR_OF_LOST_KERNEL}
            for one in report.containers
            if one.reason == "emptied"
            for name in one.kernels
        ],
        "jit": [
            {"container": one.number, "kernel": name, "arch": one.arch}
            for one in report.containers
            if one.reason == "PTX"
            for name in one.kernels
        ],
        "lost_count": len(report.lost),
        "kernel_count": report.total,
        "not_proved": "that the profiles name every kernel the program needs",
    }
