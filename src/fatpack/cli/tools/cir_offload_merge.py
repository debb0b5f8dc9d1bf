"""``fatpack tool cir-offload-merge``: combines and splits CIR offload containers as ClangIR's tool does.

Options, order of checks, sentences and exit codes are those of the tool's source
(clang/tools/cir-offload-merge/cir-offload-merge.cpp, RiverDave/llvm-project, 2026). No pass is run over what is
combined and no output is written before everything was checked; ``docs/tools.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.cli.tools import llvm_command_line as command_line
from fatpack.errors import FatpackError, UsageError
from fatpack.formats import cir
from fatpack.formats.cir.bundle_id import parse_id, problem
from fatpack.formats.cir.words import CURRENT, FORMAT
from fatpack.io.sink import Batch
from fatpack.io.source import open_source
from fatpack.model import Container, Image, Span
from fatpack.report.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Source
    from fatpack.model import Piece

_OPTIONS = (
    command_line.Option("combine", "flag", "Combine host and device modules into one container"),
    command_line.Option("split", "flag", "Split a container into its modules"),
    command_line.Option("input", "list", "Input file; - is standard input", "<file>"),
    command_line.Option("targets", "commas", "Bundle IDs, separated by commas", "<[<kind>-<triple>,...]>"),
    command_line.Option("output", "list", "Output file; - is standard output", "<file>"),
    command_line.Option("disable-cir-infer-launch-bounds", "flag", "Accepted; no pass is run"),
    command_line.Option("disable-cir-prop-kernel-args", "flag", "Accepted; no pass is run"),
    command_line.Option("help", "switch", "Display available options"),
    command_line.Option("version", "switch", "Display the version of this program"),
)


class _Refusal(Exception):
    """An error in the tool's words; ``detail`` goes before it, as MLIR's own diagnostics do."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse(words, _OPTIONS, most_positional=0, program=program)
    except command_line.CommandLineError as error:
        return command_line.report(error.lines, program)
    if given.switch:
        return _print(given.switch)
    opened: list[Source] = []
    try:
        _run(given, opened)
    except _Refusal as error:
        for line in filter(None, (error.detail, f"error: {error}")):
            sys.stderr.write(printable(line) + "\n")
        return 1
    finally:
        for source in opened:
            source.close()
    return 0


def _print(switch: str) -> int:
    if switch == "version":
        from fatpack import __version__

        sys.stdout.write(f"fatpack {__version__}, standing in for cir-offload-merge\n")
        return 0
    sys.stdout.write("OVERVIEW: Combine and split CIR offload containers\n\n")
    sys.stdout.write("USAGE: cir-offload-merge [options]\n\nOPTIONS:\n")
    for option in _OPTIONS:
        value = f"={option.value}" if option.value else ""
        sys.stdout.write(f"  {f'{option.spelled}{value}':<40} - {option.help}\n")
    return 0


def _run(given: command_line.Parsed, opened: list[Source]) -> None:
    inputs, outputs = given.values.get("input", []), given.values.get("output", [])
    targets = [target for word in given.values.get("targets", []) for target in word.split(",")]
    is_combined = bool(given.last("combine"))
    if is_combined == bool(given.last("split")):
        raise _Refusal("expected exactly one of -combine or -split")
    if not inputs:
        raise _Refusal("missing required -input")
    if not is_combined and len(inputs) != 1:
        raise _Refusal("split mode expects exactly one input")
    if not targets:
        raise _Refusal("missing required -targets")
    if not outputs:
        raise _Refusal("missing required -output")
    if is_combined:
        _combine(inputs, targets, outputs, opened)
    else:
        _split(inputs[0], targets, outputs, opened)


def _combine(inputs: Sequence[str], targets: Sequence[str], outputs: Sequence[str], opened: list[Source]) -> None:
    if len(outputs) != 1:
        raise _Refusal("combine mode expects exactly one output")
    if len(inputs) != len(targets):
        raise _Refusal("number of input files and targets should match in combine mode")
    seen: set[str] = set()
    for target in targets:
        if target in seen:
            raise _Refusal(f"duplicate target '{target}'")
        seen.add(target)
        if problem(target):
            raise _Refusal(f"invalid target '{target}'")
    hosts = [target for target in targets if parse_id(target).kind == "host"]
    if len(hosts) != 1:
        raise _Refusal("expected exactly one host target")
    if len(targets) == 1:
        raise _Refusal("expected at least one device target")
    images = []
    for name, target in sorted(zip(inputs, targets, strict=True), key=lambda pair: pair[1] != hosts[0]):
        view = _opened(name, opened).view()
        images.append(
            Image(parse_id(target).target, "cir", view, len(view), len(view), view.span(), attrs={"id": target})
        )
    try:
        combination = cir.combine(Container(FORMAT, 0, tuple(images), Span(0, 0), attrs={"form": CURRENT}))
        pieces = list(combination.pieces())
    except FatpackError as error:
        raise _Refusal("failed to parse input file", str(error)) from error
    _write([(outputs[0], pieces)])


def _split(name: str, targets: Sequence[str], outputs: Sequence[str], opened: list[Source]) -> None:
    if len(outputs) != len(targets):
        raise _Refusal("number of output files and targets should match in split mode")
    seen_targets: set[str] = set()
    seen_outputs: set[str] = set()
    for target, output in zip(targets, outputs, strict=True):
        if target in seen_targets:
            raise _Refusal(f"duplicate target '{target}'")
        if output in seen_outputs:
            raise _Refusal(f"duplicate output '{output}'")
        if problem(target):
            raise _Refusal(f"invalid target '{target}'")
        seen_targets.add(target)
        seen_outputs.add(output)
    view = _opened(name, opened).view()
    try:
        if not cir.detect(view):
            raise _Refusal("expected exactly one direct top-level offload container")
        container = cir.parse(view)
    except FatpackError as error:
        raise _Refusal("failed to parse input file", str(error)) from error
    damage = next((item for item in container.findings if item.severity == "error"), None)
    if damage is not None:
        raise _Refusal("failed to parse input file", f"{name}: {damage.text}")
    try:
        images = cir.route(container, targets, exact_first=False)
        split = [(output, list(cir.split(image))) for output, image in zip(outputs, images, strict=True)]
    except UsageError as error:
        raise _Refusal(error.problem) from error
    except FatpackError as error:
        raise _Refusal("failed to parse input file", str(error)) from error
    _write(split)


def _opened(name: str, opened: list[Source]) -> Source:
    try:
        opened.append(open_source(name))
    except OSError as error:
        detail = f"error: cannot open input file '{name}': {error.strerror or error}"
        raise _Refusal("failed to parse input file", detail) from error
    return opened[-1]


def _write(results: Sequence[tuple[str, Sequence[Piece]]]) -> None:
    """Write all outputs, or none."""
    sys.stdout.flush()
    try:
        with Batch() as batch:
            for name, pieces in results:
                batch.add(name, pieces)
            batch.publish()
    except OSError as error:
        raise _Refusal(error.strerror or str(error)) from error
