"""The options of clang-offload-bundler 22 and what it prints about them."""

from __future__ import annotations

import sys

from fatpack.tools.llvm.command_line import ClOption

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
    from fatpack.tools.llvm.help_page import help_page

    shown = [option for option in OPTIONS if switch.endswith("-hidden") or option.name not in _RARE]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    groups = (("Generic Options", _GENERIC), ("clang-offload-bundler options", ()))
    as_list = switch in ("", "help-list")
    if switch == "help-list-hidden":
        # QUIRK(LLVM cl): this list names the option that prints the other one, too.
        groups = (("", tuple(option.name for option in shown)),)
    usage = f"{program.rpartition('/')[2]} [options]"
    sys.stdout.write(help_page(_OVERVIEW, usage, shown, tool="clang-offload-bundler", as_list=as_list, groups=groups))
