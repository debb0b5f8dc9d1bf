"""The options of nvprune 12.4, what they ask for, and the help."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.tools.nvidia.command_line import NvidiaCommandLineError, NvidiaOption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.tools.nvidia.command_line import NvidiaArguments

#: In the order of the help. The one without a text is not in it.
OPTIONS = (
    NvidiaOption("arch", "arch", "string", "What stays: sm_NN, compute_NN for PTX.", "<gpu architecture name>"),
    NvidiaOption(
        "generate-code",
        "gencode",
        "pairs",
        "As nvcc's option: arch=compute_NN,code=[sm_NN,compute_NN]. What code names stays.",
        keywords=("arch", "code"),
        has_brackets=True,
    ),
    NvidiaOption("help", "h", "flag", "Print this help."),
    NvidiaOption(
        "include-possible-codes", "ipc", "flag", "Keep what else runs on these architectures, or is PTX for them."
    ),
    NvidiaOption("no-relocatable-elf", "no-relocatable-elf", "flag", "Keep no cubins that are still to be linked."),
    NvidiaOption("options-file", "optf", "list", "Read more options from these files.", "<file>,..."),
    NvidiaOption("output-file", "o", "string", "Write the result to this file.", "<file>"),
    NvidiaOption("verbose", "v", "flag", "Name what is pruned."),
    NvidiaOption("version", "V", "flag", "Print the version."),
    NvidiaOption("tool-name", "tool-name", "string"),
)

#: Where short names begin in the help.
HELP_WIDTH = 32


class NvpruneRequest(Record):
    """What is asked for: the names that stay (``sm_80``, ``compute_90``, ``lto_90``), and where the result goes."""

    path: str
    output: str
    codes: tuple[str, ...]
    takes_possible: bool
    takes_relocatable: bool
    is_verbose: bool


def parse_nvprune_request(given: NvidiaArguments) -> NvpruneRequest:
    """Return what a command line with one file asks for. Raises CommandLineError."""
    groups = given.pairs.get("generate-code", ())
    listed = [group["code"] for group in groups if "code" in group]
    if ("arch" in given.values) == bool(groups) or (groups and not listed):
        raise NvidiaCommandLineError("Either -arch or -gencode must be specified")
    if "output-file" not in given.values:
        raise NvidiaCommandLineError("Must specify output file with -o option")
    codes = [part.strip() for text in listed for part in text.split(",")] if groups else [given.last("arch")]
    return NvpruneRequest(
        given.positional[0],
        given.last("output-file"),
        tuple(codes),
        bool(given.last("include-possible-codes")),
        not given.last("no-relocatable-elf"),
        bool(given.last("verbose")),
    )
