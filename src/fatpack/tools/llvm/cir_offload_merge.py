"""``fatpack tool cir-offload-merge``: combines and splits CIR offload containers as ClangIR's tool does.

Options, order of checks, sentences and exit codes are those of the tool's source
(clang/tools/cir-offload-merge/cir-offload-merge.cpp, RiverDave/llvm-project, 2026) and, for what it leaves to LLVM's
libraries, of mlir-opt 22. No pass is run over what is combined and no output is written before everything was checked;
``docs/tools/cir-offload-merge.md`` lists all differences.
"""

from __future__ import annotations

import errno
import sys

from fatpack.errors import FatpackError, UsageError
from fatpack.formats import cir
from fatpack.formats.cir.bundle_id import parse_bundle_id, refusal_reason
from fatpack.formats.cir.reader import check_syntax
from fatpack.formats.cir.vocabulary import CIR_FORMAT, CURRENT
from fatpack.io.atomic_write import OutputBatch
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Container, Image
from fatpack.printable import printable
from fatpack.targets.llvm_triple import is_architecture
from fatpack.targets.triple import is_amdgpu
from fatpack.tools.llvm import command_line
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, Source, View

#: Options of the fork that switch its passes off (RiverDave/llvm-project, 2026).
_PASS_OPTIONS = (
    "no-dead-kernel-elimination",
    "no-kernel-arg-const-prop",
    "no-module-opts",
    "no-offload-opts",
    "no-pointer-facts",
    "no-propagate-block-shape",
    "no-tighten-launch-bounds",
)

#: In the order of the help.
_OPTIONS = (
    command_line.ClOption("combine", "flag", "Make one container of a host module and device modules"),
    command_line.ClOption("disable-cir-infer-launch-bounds", "flag", "Accepted; no pass is run"),
    command_line.ClOption("disable-cir-prop-kernel-args", "flag", "Accepted; no pass is run"),
    command_line.ClOption("h", "switch", "Alias for --help", is_hidden=True),
    command_line.ClOption("help", "switch", "Display available options"),
    command_line.ClOption("help-list", "switch", "Display available options"),
    command_line.ClOption("input", "list", "Input file, once per module; - is standard input", "<string>"),
    *(command_line.ClOption(name, "flag", "Accepted; no pass is run") for name in _PASS_OPTIONS),
    command_line.ClOption(
        "output", "list", "Output file, once per module of a split; - is standard output", "<string>"
    ),
    command_line.ClOption("split", "flag", "Write modules of a container to files of their own"),
    command_line.ClOption("targets", "commas", "Bundle IDs, separated by commas", "<string>"),
    command_line.ClOption("version", "switch", "Display the version of this program"),
)

#: Errors of writing to an output that could be created.
_IO_FAILURES = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))

_NOT_ONE = "expected exactly one direct top-level offload container"
#: Findings about what MLIR takes, and the tool looks at later: several containers, an ID twice.
_CHECKED_LATER = ("FP1504", "FP1508")


class _MergeError(Exception):
    """An error in the tool's words; ``detail`` goes before it, as MLIR's own diagnostics do."""

    def __init__(self, text: str, detail: str = "", prefix: str = "error") -> None:
        super().__init__(f"{prefix}: {text}")
        self.detail = detail


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse_cl(words, _OPTIONS, most_positional=0, program=program)
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    if given.switch:
        command_line.print_complaints(given.complaints, program)
        return _print(given.switch, program)
    opened: list[Source] = []
    try:
        _run(given, opened)
    except _MergeError as error:
        for line in filter(None, (error.detail, str(error))):
            sys.stderr.write(printable(line) + "\n")
        return 1
    finally:
        for source in opened:
            source.close()
    return 0


def _print(switch: str, program: str) -> int:
    if switch == "version":
        sys.stdout.write(f"{version_text('cir-offload-merge', 'ClangIR')}\n")
        return 0
    from fatpack.tools.llvm.cl_tool import help_page

    usage = f"{program.rpartition('/')[2]} [options]"
    overview = "Combine and split CIR offload containers"
    sys.stdout.write(help_page(overview, usage, _OPTIONS, tool="cir-offload-merge", as_list=False))
    return 0


def _run(given: command_line.ClArguments, opened: list[Source]) -> None:
    inputs, outputs = given.values.get("input", []), given.values.get("output", [])
    targets = [target for word in given.values.get("targets", []) for target in word.split(",")]
    is_combined = bool(given.last("combine"))
    if is_combined == bool(given.last("split")):
        raise _MergeError("expected exactly one of -combine or -split")
    if not inputs:
        raise _MergeError("missing required -input")
    if not is_combined and len(inputs) != 1:
        raise _MergeError("split mode expects exactly one input")
    if not targets:
        raise _MergeError("missing required -targets")
    if not outputs:
        raise _MergeError("missing required -output")
    if is_combined:
        _combine(inputs, targets, outputs, opened)
    else:
        _split(inputs[0], targets, outputs, opened)


def _problem(target: str) -> str:
    """Return why the tool refuses a bundle ID, "" when it takes it: one of an architecture that LLVM knows."""
    wrong = refusal_reason(target)
    if wrong:
        return wrong
    architecture = target.split("-")[1]
    is_known = is_architecture(architecture) or is_amdgpu(architecture)
    return "" if is_known else f"LLVM knows no architecture {architecture!r}"


def _combine(inputs: Sequence[str], targets: Sequence[str], outputs: Sequence[str], opened: list[Source]) -> None:
    if len(outputs) != 1:
        raise _MergeError("combine mode expects exactly one output")
    if len(inputs) != len(targets):
        raise _MergeError("number of input files and targets should match in combine mode")
    seen: set[str] = set()
    for target in targets:
        if target in seen:
            raise _MergeError(f"duplicate target '{target}'")
        seen.add(target)
        if _problem(target):
            raise _MergeError(f"invalid target '{target}'")
    hosts = [target for target in targets if parse_bundle_id(target).kind == "host"]
    if len(hosts) != 1:
        raise _MergeError("expected exactly one host target")
    if len(targets) == 1:
        raise _MergeError("expected at least one device target")
    images: list[Image] = []
    views: list[View] = []
    for name, target in sorted(zip(inputs, targets, strict=True), key=lambda pair: pair[1] != hosts[0]):
        try:
            view = _opened(name, opened)
        except OSError as error:
            for earlier in views:  # which the tool has read before
                _check(earlier)
            raise _unreadable(name, error, by_tool=target != hosts[0]) from error
        views.append(view)
        target_of = parse_bundle_id(target).target
        images.append(Image(target_of, "cir", view, len(view), len(view), view.span(), attrs={"id": target}))
    try:
        combination = cir.combine_container(
            Container(CIR_FORMAT, 0, tuple(images), Span(0, 0), attrs={"form": CURRENT})
        )
        pieces = list(combination.pieces())
    except UsageError as error:
        raise _MergeError("failed to verify combined module", str(error)) from error
    except FatpackError as error:
        raise _MergeError("failed to parse input file", str(error)) from error
    _write([(outputs[0], pieces)])


def _split(name: str, targets: Sequence[str], outputs: Sequence[str], opened: list[Source]) -> None:
    if len(outputs) != len(targets):
        raise _MergeError("number of output files and targets should match in split mode")
    seen_targets: set[str] = set()
    seen_outputs: set[str] = set()
    for target, output in zip(targets, outputs, strict=True):
        if target in seen_targets:
            raise _MergeError(f"duplicate target '{target}'")
        if output in seen_outputs:
            raise _MergeError(f"duplicate output '{output}'")
        if _problem(target):
            raise _MergeError(f"invalid target '{target}'")
        seen_targets.add(target)
        seen_outputs.add(output)
    try:
        view = _opened(name, opened)
    except OSError as error:
        raise _unreadable(name, error, by_tool=False) from error
    container = _container(view)
    try:
        images = cir.assign_targets(container, targets, exact_first=False, problem=_problem)
        split = [(output, list(cir.split_image(image))) for output, image in zip(outputs, images, strict=True)]
    except UsageError as error:
        raise _MergeError(error.problem) from error
    except FatpackError as error:
        raise _MergeError("failed to parse input file", str(error)) from error
    _write(split)


def _container(view: View) -> Container:
    """Return the only container of a file that MLIR would take."""
    if not cir.detect(view):
        _check(view)
        raise _MergeError(_NOT_ONE)
    try:
        container = cir.parse(view)
    except FatpackError as error:
        raise _MergeError("failed to parse input file", str(error)) from error
    findings = [found for found in container.findings if found.severity == "error" or found.code == "FP1515"]
    for finding in findings:
        if finding.code not in _CHECKED_LATER:
            place = f"{'/'.join(view.chain)}: at {finding.span.start:#x}"
            raise _MergeError("failed to parse input file", f"{place}: {finding.text}")
    if container.attrs["form"] == "offload-module" or any(finding.code == "FP1508" for finding in findings):
        raise _MergeError(_NOT_ONE)
    return container


def _check(view: View) -> None:
    try:
        check_syntax(view)
    except FatpackError as error:
        raise _MergeError("failed to parse input file", str(error)) from error


def _opened(name: str, opened: list[Source]) -> View:
    opened.append(open_source(name))
    return opened[-1].view()


def _unreadable(name: str, error: OSError, *, by_tool: bool) -> _MergeError:
    """Return the error for a file that cannot be read. The tool opens devices itself, and leaves the others to MLIR."""
    reason = f"cannot open input file '{name}': {error.strerror or error}"
    detail = reason if by_tool else f"could not open input file {name}"
    return _MergeError("failed to parse input file", f"error: {detail}")


def _write(results: Sequence[tuple[str, Sequence[Piece]]]) -> None:
    """Write all outputs, or none."""
    sys.stdout.flush()
    name = results[0][0]
    try:
        with OutputBatch() as batch:
            for name, pieces in results:
                batch.add(name, pieces)
            batch.publish()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _IO_FAILURES:
            raise _MergeError(f"IO failure on output stream: {reason}", prefix="LLVM ERROR") from error
        raise _MergeError(f"cannot open output file '{name}': {reason}") from error
