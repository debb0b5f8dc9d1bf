"""The targets of a command line: checked, spelled as they are stored, and matched with the entries of a bundle.

LLVM 22 loses what it does not know: it drops a target-id whose processor is new to it, and the processor of targets of
five parts, and then takes all of them for one. Here they are kept and compared as text; for everything else the rules
are its own (:mod:`fatpack.formats.clang_bundle.bundle_id`).
"""

from __future__ import annotations

import os
import sys

from fatpack.record import Record
from fatpack.tools.llvm.command_line import ClOption, parse_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.tools.llvm.command_line import ClArguments


# The options of clang-offload-bundler 22 and what it prints about them.

_TYPES = """\
Type of the files to be bundled/unbundled.
Current supported types are:
  i    - cpp-output
  ii   - c++-cpp-output
  cui  - cuda-cpp-output
  hipi - hip-cpp-output
  d    - dependency
  ll   - llvm
  bc   - llvm-bc
  s    - assembler
  o    - object
  a    - archive of objects
  gch  - precompiled-header
  ast  - clang AST file"""

#: In the order of the help.
OPTIONS = (
    ClOption(
        "###",
        "flag",
        "Print any external commands that are to be executed instead of actually executing them - for testing "
        "purposes.",
    ),
    ClOption("allow-missing-bundles", "flag", "Create empty files if bundles are missing when unbundling."),
    ClOption("bundle-align", "uint", "Alignment of bundle for binary files", "<uint>"),
    ClOption(
        "check-input-archive", "flag", "Check if input heterogeneous archive is valid in terms of TargetID rules."
    ),
    ClOption("compress", "flag", "Compress output file when bundling."),
    ClOption("compression-level", "int", "Specify the compression level (integer)", "<n>"),
    ClOption("h", "flag", "Alias for -help", is_hidden=True),
    ClOption("help", "switch", "Display available options (--help-hidden for more)"),
    ClOption("help-hidden", "switch", "Display all available options"),
    ClOption("help-list", "switch", "Display list of available options (--help-list-hidden for more)"),
    ClOption("help-list-hidden", "switch", "Display list of all available options"),
    ClOption(
        "hip-openmp-compatible",
        "flag",
        "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa.",
    ),
    ClOption("input", "list", "Input file. Can be specified multiple times for multiple input files.", "<string>"),
    ClOption("inputs", "commas", "[<input file>,...] (deprecated)", "<string>"),
    ClOption("list", "flag", "List bundle IDs in the bundled file."),
    ClOption("output", "list", "Output file. Can be specified multiple times for multiple output files.", "<string>"),
    ClOption("outputs", "commas", "[<output file>,...] (deprecated)", "<string>"),
    ClOption("print-all-options", "flag", "Print all option values after command line parsing"),
    ClOption("print-options", "flag", "Print non-default options after command line parsing"),
    ClOption("targets", "commas", "[<offload kind>-<target triple>,...]", "<string>"),
    ClOption("type", "string", _TYPES, "<string>", is_required=True),
    ClOption("unbundle", "flag", "Unbundle bundled file into several output files."),
    ClOption("verbose", "flag", "Print debug information."),
    ClOption("version", "switch", "Display the version of this program"),
)

_OVERVIEW = """\
A tool to bundle several input files of the specified type <type> 
referring to the same source file but different targets into a single 
one. The resulting file can also be unbundled into different files by 
this tool if -unbundle is provided."""  # noqa: W291  (the original's lines end so)

_GENERIC = ("help", "help-hidden", "help-list", "help-list-hidden", "print-all-options", "print-options", "version")

#: Generic options that only the help of hidden options names.
_RARE = ("help-hidden", "help-list-hidden", "print-all-options", "print-options")


def print_help(switch: str, program: str) -> None:
    """Print what ``--help``, ``--help-hidden``, ``--help-list`` or ``--help-list-hidden`` prints; "" is ``-h``."""
    from fatpack.tools.llvm.cl_tool import help_page

    shown = [option for option in OPTIONS if switch.endswith("-hidden") or option.name not in _RARE]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    groups = (("Generic Options", _GENERIC), ("clang-offload-bundler options", ()))
    as_list = switch in ("", "help-list")
    if switch == "help-list-hidden":
        # QUIRK(LLVM cl): this list names the option that prints the other one, too.
        groups = (("", tuple(option.name for option in shown)),)
    usage = f"{program.rpartition('/')[2]} [options]"
    sys.stdout.write(help_page(_OVERVIEW, usage, shown, tool="clang-offload-bundler", as_list=as_list, groups=groups))


# The command line and the environment, checked in the order of the original and with its messages.


class ArgumentError(Exception):
    """An error in the original's words; printed as ``<program>: error: <text>``, exit code 1."""


class BundlerSettings(Record):
    """A command line that can be carried out; ``targets`` are as they were typed.

    ``llvm`` is the version of the original, ``mode`` is ``list``, ``unbundle`` or ``bundle``; ``level`` and ``version``
    are those of compressed bundles.
    """

    program: str
    llvm: str
    mode: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    targets: tuple[str, ...]
    align: int
    level: int
    version: int
    allows_missing: bool
    checks_archive: bool
    is_compressed: bool
    is_verbose: bool
    prints_commands: bool
    treats_hip_as_openmp: bool


def check_settings(given: ClArguments, program: str, llvm: str, environment: Mapping[str, str]) -> BundlerSettings:
    """Return the settings; warnings go to stderr as they come up. Raises ArgumentError."""
    is_compressed, is_verbose, level, version = _from_environment(environment)
    inputs = _files(given, program, "input")
    outputs = _files(given, program, "output")
    mode = "list" if given.last("list") else "unbundle" if given.last("unbundle") else "bundle"
    settings = BundlerSettings(
        program,
        llvm,
        mode,
        given.last("type"),
        inputs,
        outputs,
        tuple(given.values.get("targets", ())),
        _number(given, "bundle-align", 1),
        _number(given, "compression-level", level),
        version,
        bool(given.last("allow-missing-bundles")),
        bool(given.last("check-input-archive")),
        bool(given.last("compress")) if "compress" in given.values else is_compressed,
        bool(given.last("verbose")) if "verbose" in given.values else is_verbose,
        bool(given.last("###")),
        bool(given.last("hip-openmp-compatible")),
    )
    problem = _problem(settings, bool(given.last("unbundle")))
    if problem:
        raise ArgumentError(problem)
    return settings


def _number(given: ClArguments, name: str, default: int) -> int:
    value = parse_integer(given.last(name), -(1 << 31), (1 << 32) - 1)
    return default if value is None else value


def _files(given: ClArguments, program: str, name: str) -> tuple[str, ...]:
    """Return the files of ``-input`` or of the deprecated ``-inputs``."""
    plural = f"{name}s"
    if name in given.values and plural in given.values:
        raise ArgumentError(f"-{plural} and -{name} cannot be used together, use only -{name} instead")
    if plural in given.values:
        sys.stderr.write(f"{program}: warning: -{plural} is deprecated, use -{name} instead\n")
    return (*given.values.get(name, ()), *given.values.get(plural, ()))


def _problem(settings: BundlerSettings, unbundles: bool) -> str:
    """Return the first thing that is wrong with the numbers of inputs, outputs and targets, "" for nothing."""
    inputs, outputs, targets = len(settings.inputs), len(settings.outputs), len(settings.targets)
    checks: list[tuple[bool, str]]
    if settings.mode == "list":
        checks = [
            (unbundles, "-unbundle and -list cannot be used together"),
            (inputs != 1, "only one input file supported for -list"),
            (outputs > 0, "-outputs option is invalid for -list"),
            (targets > 0, "-targets option is invalid for -list"),
        ]
    else:
        is_archive = settings.type == "a"
        checks = [
            (settings.checks_archive and not unbundles, "-check-input-archive cannot be used while bundling"),
            (settings.checks_archive and not is_archive, _ARCHIVE_ONLY),
            (not outputs, "no output file specified!"),
            (not targets, "for the --targets option: must be specified at least once!"),
            (unbundles and inputs != 1, "only one input file supported in unbundling mode"),
            (unbundles and outputs != targets, "number of output files and targets should match in unbundling mode"),
            (not unbundles and is_archive, "Archive files are only supported for unbundling"),
            (not unbundles and outputs != 1, "only one output file supported in bundling mode"),
            (not unbundles and inputs != targets, "number of input files and targets should match in bundling mode"),
        ]
    return next((text for is_wrong, text in checks if is_wrong), "")


#: Replaces the name of the temporary file that the original passes to llvm-objcopy.
TEMPORARY_DIRECTORY = "<temporary file>"

_ARCHIVE_ONLY = "-check-input-archive can only be used for unbundling archives (-type=a)"

#: Defaults of LLVM 22: zstd at level 3, version 3 of the compressed bundle.
_LEVEL, _VERSION = 3, 3


def _from_environment(environment: Mapping[str, str]) -> tuple[bool, bool, int, int]:
    """Return whether to compress, whether to be verbose, level and version, as environment variables ask for them."""
    if environment.get("OFFLOAD_BUNDLER_IGNORE_ENV_VAR") == "1":
        return False, False, _LEVEL, _VERSION
    is_compressed = environment.get("OFFLOAD_BUNDLER_COMPRESS") == "1"
    is_verbose = environment.get("OFFLOAD_BUNDLER_VERBOSE") == "1"
    level, version = _LEVEL, _VERSION
    name = "OFFLOAD_BUNDLER_COMPRESSION_LEVEL"
    if name in environment:
        number = parse_integer(environment[name], -(1 << 31), (1 << 31) - 1, 10)
        if number is None:
            sys.stderr.write(f"Warning: Invalid value for {name}: {environment[name]}. Ignoring it.\n")
        else:
            level = number
    name = "COMPRESSED_BUNDLE_FORMAT_VERSION"
    if name in environment:
        number = parse_integer(environment[name], 0, (1 << 16) - 1, 10)
        if number in (2, 3):
            version = number
        else:
            known = "" if number is None else " Valid values are 2 or 3."
            text = f"Invalid value for {name}: {environment[name]}.{known} Using default version {version}."
            sys.stderr.write(f"Warning: {text}\n")
    return is_compressed, is_verbose, level, version


def find_objcopy(program: str) -> str:
    """Return the llvm-objcopy that the original would run: its neighbour, else the first on PATH.

    It is only named, for ``-###``; nothing is run.
    """
    from fatpack.concurrency.system import find_programs

    folders = [os.path.dirname(program)] if os.path.exists(program) else []
    return next(find_programs(["llvm-objcopy"], folders), "llvm-objcopy")


_HIP = ("hip", "hipv4")


#: ID as it was typed → as it is stored
_STORED: dict[str, str] = {}
_MOST_STORED = 1000


def cached_stored_id(spelling: str) -> str:
    """Return the stored ID for a typed one. Each is looked up several times, and costs 50 µs."""
    from fatpack.formats.clang_bundle.bundle_id import stored_id as new_stored_id

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
    """Return the IDs for the targets of a command line, in its order. Raises ArgumentError for an invalid target."""
    from fatpack.formats.clang_bundle.bundle_id import refusal_llvm22

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
    from fatpack.formats.clang_bundle.bundle_id import first_conflict_llvm22

    groups: dict[str, set[str]] = {}
    for target in targets:
        parts, target_id = target.split("-", 5), cached_stored_id(target).split("-", 5)[5]
        if target_id and target_id != "".join(parts[5:]):
            parts[4] = ""  # the processor is in the place of the environment
        groups.setdefault("-".join(parts[:5]), set()).add(target_id)
    for group, target_ids in sorted(groups.items()):
        pair = first_conflict_llvm22(target_ids)
        if pair:
            first, second = (f"{group}-{target_id}" for target_id in pair)
            raise ArgumentError(f"Cannot bundle inputs with conflicting targets: '{first}' and '{second}'")


def _is_read_whole(spelling: str) -> bool:
    """Return whether LLVM 22 sees all there is in an ID."""
    from fatpack.formats.clang_bundle.bundle_id import stored_by_llvm22

    return spelling.count("-") >= 4 and cached_stored_id(spelling) == stored_by_llvm22(spelling)


class TargetMatcher:
    """Says which entries of one bundle serve which targets; targets are IDs as we store them."""

    def __init__(self, entries: Sequence[str], targets: Sequence[str], *, hip_openmp: bool, llvm: str) -> None:
        self._hip_openmp = hip_openmp
        self._llvm = llvm
        #: bundle ID → True if LLVM 22 reads all parts of it
        self._whole: dict[str, bool] = {}
        stored = set(entries)
        #: Targets for which LLVM 22 stored a shorter ID than the requested one.
        self._cut = {
            target
            for target in targets
            if target not in stored
            and not self._is_whole(target)
            and not any(self._is_for(entry, target) for entry in entries)
        }

    def serves(self, entry: str, target: str) -> bool:
        """Return whether an entry may be handed out for a target."""
        from fatpack.formats.clang_bundle.bundle_id import is_compatible_id, parse_bundle_id, stored_by_llvm22

        if target not in self._cut:
            return self._is_for(entry, target)
        have = parse_bundle_id(entry)
        return not have.arch and is_compatible_id(entry, stored_by_llvm22(target), hip_openmp=self._hip_openmp)

    def _is_whole(self, spelling: str) -> bool:
        known = self._whole.get(spelling)
        if known is None:
            known = self._whole[spelling] = _is_read_whole(with_amdgcn(spelling))
        return known

    def _is_for(self, entry: str, target: str) -> bool:
        from fatpack.formats.clang_bundle.bundle_id import is_compatible_id, is_compatible_id_llvm22, kinds_agree

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
    from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id

    have = parse_bundle_id(spelling)
    return f"{have.kind}-{have.triple}"
