"""The options of nvprune 12.4, what they ask for, and the help."""

from __future__ import annotations

from fatpack.cli.tools.nvidia.command_line import CommandLineError, Option
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.cli.tools.nvidia.command_line import Given

#: In the order of the help. The one without a text is not in it.
OPTIONS = (
    Option("arch", "arch", "string", "What stays: sm_NN, compute_NN for PTX.", "<gpu architecture name>"),
    Option(
        "generate-code",
        "gencode",
        "pairs",
        "As nvcc's option: arch=compute_NN,code=[sm_NN,compute_NN]. What code names stays.",
        keywords=("arch", "code"),
        has_brackets=True,
    ),
    Option("help", "h", "flag", "Print this help."),
    Option("include-possible-codes", "ipc", "flag", "Keep what else runs on these architectures, or is PTX for them."),
    Option("no-relocatable-elf", "no-relocatable-elf", "flag", "Keep no cubins that are still to be linked."),
    Option("options-file", "optf", "list", "Read more options from these files.", "<file>,..."),
    Option("output-file", "o", "string", "Write the result to this file.", "<file>"),
    Option("verbose", "v", "flag", "Name what is pruned."),
    Option("version", "V", "flag", "Print the version."),
    Option("tool-name", "tool-name", "string"),
)

#: Where short names begin in the help.
HELP_WIDTH = 32


class Request(Record):
    """What is asked for: the names that stay (``sm_80``, ``compute_90``, ``lto_90``), and where the result goes."""

    path: str
    output: str
    codes: tuple[str, ...]
    takes_possible: bool
    takes_relocatable: bool
    is_verbose: bool


def request_of(given: Given) -> Request:
    """Return what a command line with one file asks for. Raises CommandLineError."""
    groups = given.pairs.get("generate-code", ())
    listed = [group["code"] for group in groups if "code" in group]
    if ("arch" in given.values) == bool(groups) or (groups and not listed):
        raise CommandLineError("Either -arch or -gencode must be specified")
    if "output-file" not in given.values:
        raise CommandLineError("Must specify output file with -o option")
    codes = [part.strip() for text in listed for part in text.split(",")] if groups else [given.last("arch")]
    return Request(
        given.positional[0],
        given.last("output-file"),
        tuple(codes),
        bool(given.last("include-possible-codes")),
        not given.last("no-relocatable-elf"),
        bool(given.last("verbose")),
    )
