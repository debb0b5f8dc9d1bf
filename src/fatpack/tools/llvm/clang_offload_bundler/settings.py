"""What a command line and the environment ask for, checked in the order of the original and with its words."""

from __future__ import annotations

import os
import sys

from fatpack.concurrency.system import find_programs
from fatpack.record import Record
from fatpack.tools.llvm.command_line import parse_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.tools.llvm.command_line import ClArguments


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
    """Return the settings; warnings go to stderr as they come up. Raises Refusal."""
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


#: What the name of the temporary file is that the original gives to llvm-objcopy.
TEMPORARY_DIRECTORY = "<temporary file>"

_ARCHIVE_ONLY = "-check-input-archive can only be used for unbundling archives (-type=a)"

#: What LLVM 22 does when nobody says anything: zstd at level 3, version 3 of the compressed bundle.
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
    folders = [os.path.dirname(program)] if os.path.exists(program) else []
    return next(find_programs(["llvm-objcopy"], folders), "llvm-objcopy")
