"""``fatpack tool nvprune``: keeps the device code of some architectures in objects and libraries, as nvprune does.

``fatpack.commands.slim`` removes the other images. Messages, their order, exit codes and bytes are those of nvprune
12.4, the newest that was available, compared on generated files and command lines; ``docs/tools/nvprune.md`` lists
every difference. Linked programs and libraries are pruned too, and all other files that ``fatpack slim`` takes.

An entry is kept by its exact name: ``sm_80`` is a cubin, ``compute_80`` PTX. Cubins that are still to be linked are
those of ``__nv_relfatbin``, whatever their ELF headers say. ``-ipc`` keeps what a device of the architecture runs, by
the rules of ``fatpack.targets.nvidia``, which equal the original's for every architecture that it knows.
"""

from __future__ import annotations

import os
import sys

from fatpack import binary, magic_numbers
from fatpack.binary.section_names import CUDA_FATBIN, CUDA_RELOCATABLE, with_cut
from fatpack.commands.slim.keep_for_device import arch_label, image_form
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.errors import FatpackError, UsageError
from fatpack.record import Record
from fatpack.scanner import FoundContainer, scan
from fatpack.targets.nvidia import can_load, parse_nvidia
from fatpack.tools.nvidia import command_line
from fatpack.tools.nvidia.command_line import NvidiaCommandLineError, NvidiaOption
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.io.source import View
    from fatpack.scanner import FoundImage
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.tools.nvidia.command_line import NvidiaArguments

    PrintMessage: TypeAlias = Callable[[str, str], None]


_NONE_LEFT = "No device code that matched architecture, so stripped out all device code"

#: The section of code that is still to be linked, and that of other code; PE cuts their names.
_RELOCATABLE = with_cut(CUDA_RELOCATABLE)
_EXECUTABLE = with_cut(CUDA_FATBIN)

#: Forms of entries that can be named; all others go, Tile IR among them. QUIRK(nvprune 12.4): so does LTO-IR.
_NAMED = ("cubin", "ptx", "ltoir")

_ARCHIVES = (magic_numbers.ARCHIVE, magic_numbers.THIN_ARCHIVE)


def prune_file(request: NvpruneRequest, say: PrintMessage) -> bool:
    """Write a file without the images that are not asked for; return whether some of it is damaged.

    ``say`` gets messages and their kinds: ``warning``, ``info``, "" with ``-v``. Raises NvidiaCommandLineError with
    what it stopped at; nothing is written then.
    """
    from fatpack.io.open import open_source

    try:
        # A file called "-" is one; standard input is not read.
        source = open_source("./-" if request.path == "-" else request.path)
    except (OSError, UsageError):
        raise NvidiaCommandLineError(f"Could not open input file '{request.path}'") from None
    with source:
        view = source.view()
        if view.head(0, 8) == magic_numbers.THIN_ARCHIVE:
            raise NvidiaCommandLineError("thin archives not supported")
        goes = _goes(request)
        try:
            made = plan_slim(view, SlimOptions(goes=goes, allow_empty=True))
        except FatpackError as error:
            raise NvidiaCommandLineError(str(error)) from error
        if not _is_known(view, made):
            raise NvidiaCommandLineError(f"Unrecognized file '{request.path}'")
        if request.is_verbose:
            for line in _verbose(view, request.path, made):
                say("", line)
        for finding in (*made.damaged, *made.unread):
            say("warning", f"{finding.code} at {finding.span.start:#x}: {finding.text}")
        _write(request, view, made)
        if not any(_is_meant(row.found) for row in made.kept):
            say("warning", _NONE_LEFT)
        for note in made.notes if made.mode in ("shrink", "zero") else ():
            say("info", note)
        return bool(made.damaged)


def _goes(request: NvpruneRequest) -> Callable[[FoundContainer, FoundImage], bool]:
    """Return the function that says if an image is removed. Raises NvidiaCommandLineError for an unknown name."""
    targets = {code: _arch(code) for code in request.codes if code}
    real = [arch for code, arch in targets.items() if code.startswith("sm_")] if request.takes_possible else []

    def goes(found: FoundContainer, image: FoundImage) -> bool:
        form = image_form(image)
        if not _is_meant(found):
            return False
        if form not in _NAMED:
            return True
        if form == "cubin" and not request.takes_relocatable and found.section in _RELOCATABLE:
            return True
        return arch_label(image) not in targets and not _is_possible(image, form, real)

    return goes


def _is_meant(found: FoundContainer) -> bool:
    """Return whether a container is one that is pruned: a fat binary in its place, or a file of its own."""
    return found.format == "cuda-fatbin" and (not found.section or found.section in _RELOCATABLE + _EXECUTABLE)


def _arch(code: str) -> NvidiaArch:
    kind, _, rest = code.partition("_")
    arch = parse_nvidia(f"sm_{rest}") if kind in ("sm", "compute", "lto") else None
    if arch is None:
        raise NvidiaCommandLineError(f"Unknown arch name '{code}'")
    return arch


def _is_possible(image: FoundImage, form: str, devices: Sequence[NvidiaArch]) -> bool:
    """Return whether an image runs on one of some devices; of several targets each counts."""
    arch = parse_nvidia(image.target.arch)
    return arch is not None and any(can_load(arch, device, form).answer for device in devices)


def _is_known(view: View, made: SlimPlan) -> bool:
    """Return whether a file is one that device code may be in."""
    return bool(made.kept or made.dropped or made.damaged or binary.detect_host(view))


def _verbose(view: View, path: str, made: SlimPlan) -> Iterator[str]:
    """Yield a line for the file, or each member of an archive, and one for each fat binary that has nothing left."""
    full = {row.number for row in made.kept}
    emptied: dict[tuple[int, ...], int] = {}
    containers = (found for found in scan(view, checks_registration=False) if isinstance(found, FoundContainer))
    for number, found in enumerate(containers):
        if number not in full and _is_meant(found):
            emptied[found.member_numbers[:1]] = emptied.get(found.member_numbers[:1], 0) + 1
    for title, place in _files(view, path):
        yield f"prune {title}"
        yield from ["no device code found that matched arch"] * emptied.get(place, 0)


def _files(view: View, path: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    if view.head(0, 8) not in _ARCHIVES:
        yield path, ()
        return
    for site in binary.get_host("archive").locate(view):
        # Damage of the archive is among the findings of the plan.
        if isinstance(site, binary.CodeSection):
            yield f"{path}:{site.member or ''}", (site.index or 0,)


def _write(request: NvpruneRequest, view: View, made: SlimPlan) -> None:
    from fatpack.commands.slim.result import verifier_for
    from fatpack.io.atomic_write import write_file

    check, path = verifier_for(made), request.output
    # The original takes no program; one stays executable.
    mode = os.stat(request.path).st_mode & 0o777
    try:
        write_file(
            "./-" if path == "-" else path,
            made.pieces,
            force=True,
            mode=mode if mode & 0o111 else None,
            verify=lambda after: check(view, after),
        )
    except (OSError, UsageError):
        raise NvidiaCommandLineError(f"Could not open output file '{path}'") from None
    except FatpackError as error:
        raise NvidiaCommandLineError(str(error)) from error


# The options of nvprune 12.4, and the help.

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

#: The column of short names in the help.
HELP_WIDTH = 32


class NvpruneRequest(Record):
    """The options: the architectures to keep (``sm_80``, ``compute_90``, ``lto_90``), and the output."""

    path: str
    output: str
    codes: tuple[str, ...]
    takes_possible: bool
    takes_relocatable: bool
    is_verbose: bool


def parse_nvprune_request(given: NvidiaArguments) -> NvpruneRequest:
    """Return what a command line with one file asks for. Raises NvidiaCommandLineError."""
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


# The command line.


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    name = program.rpartition("/")[2]
    try:
        given = command_line.parse_nvidia_options(
            arguments, OPTIONS, lambda text: command_line.print_message(name, "warning", text)
        )
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    name = given.last("tool-name") or name
    if given.last("help") or (len(given.positional) != 1 and not given.last("version")):
        from fatpack.tools.nvidia.command_line import help_page

        sys.stdout.write(help_page("nvprune [options] <object>", OPTIONS, HELP_WIDTH))
        return 0
    if given.last("version"):
        sys.stdout.write(f"nvprune: {version_text('nvprune', 'CUDA 12.4')}\n")
        return 0
    try:
        request = parse_nvprune_request(given)

        damage = prune_file(request, lambda kind, text: _say(name, kind, text))
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    return 1 if damage else 0


def _say(name: str, kind: str, text: str) -> None:
    if kind:
        command_line.print_message(name, kind, text)
    else:
        command_line.print_stderr(text)
