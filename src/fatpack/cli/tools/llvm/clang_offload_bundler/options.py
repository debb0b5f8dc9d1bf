"""The options of clang-offload-bundler 22 and what it prints about them."""

from __future__ import annotations

import sys

from fatpack.cli.tools.llvm.command_line import Option

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
    Option(
        "###",
        "flag",
        "Print any external commands that are to be executed instead of actually executing them - for testing "
        "purposes.",
    ),
    Option("allow-missing-bundles", "flag", "Create empty files if bundles are missing when unbundling."),
    Option("bundle-align", "uint", "Alignment of bundle for binary files", "<uint>"),
    Option("check-input-archive", "flag", "Check if input heterogeneous archive is valid in terms of TargetID rules."),
    Option("compress", "flag", "Compress output file when bundling."),
    Option("compression-level", "int", "Specify the compression level (integer)", "<n>"),
    Option("h", "flag", "Alias for -help", is_hidden=True),
    Option("help", "switch", "Display available options (--help-hidden for more)"),
    Option("help-hidden", "switch", "Display all available options"),
    Option("help-list", "switch", "Display list of available options (--help-list-hidden for more)"),
    Option("help-list-hidden", "switch", "Display list of all available options"),
    Option(
        "hip-openmp-compatible",
        "flag",
        "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa.",
    ),
    Option("input", "list", "Input file. Can be specified multiple times for multiple input files.", "<string>"),
    Option("inputs", "commas", "[<input file>,...] (deprecated)", "<string>"),
    Option("list", "flag", "List bundle IDs in the bundled file."),
    Option("output", "list", "Output file. Can be specified multiple times for multiple output files.", "<string>"),
    Option("outputs", "commas", "[<output file>,...] (deprecated)", "<string>"),
    Option("print-all-options", "flag", "Print all option values after command line parsing"),
    Option("print-options", "flag", "Print non-default options after command line parsing"),
    Option("targets", "commas", "[<offload kind>-<target triple>,...]", "<string>"),
    Option("type", "string", _TYPES, "<string>", is_required=True),
    Option("unbundle", "flag", "Unbundle bundled file into several output files."),
    Option("verbose", "flag", "Print debug information."),
    Option("version", "switch", "Display the version of this program"),
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
    from fatpack.cli.tools.llvm.help_page import help_page

    shown = [option for option in OPTIONS if switch.endswith("-hidden") or option.name not in _RARE]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    groups = (("Generic Options", _GENERIC), ("clang-offload-bundler options", ()))
    as_list = switch in ("", "help-list")
    if switch == "help-list-hidden":
        # QUIRK(LLVM cl): this list names the option that prints the other one, too.
        groups = (("", tuple(option.name for option in shown)),)
    usage = f"{program.rpartition('/')[2]} [options]"
    sys.stdout.write(help_page(_OVERVIEW, usage, shown, tool="clang-offload-bundler", as_list=as_list, groups=groups))
