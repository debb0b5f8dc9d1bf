"""Input and output of the commands that edit a host."""

from __future__ import annotations

import os
from contextlib import contextmanager

from fatpack.command_line.messages import (
    CopyProgress,
    print_findings,
    print_stderr,
    print_warnings,
    warn_stale_temp_files,
)
from fatpack.command_line.shared_options import allow_any_output, check_output_name
from fatpack.errors import UsageError, pluralize
from fatpack.exit_codes import FINE, MALFORMED, exit_code_for_findings
from fatpack.printable import format_size
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.edit.editor import EditCheck
    from fatpack.edit.replace_images import ImageSubstitution
    from fatpack.io.source import Piece, View
    from fatpack.selectors.address import Location


class EditDestination(Record):
    """The destination of an edited host, from the options."""

    output: str | None
    in_place: bool
    break_links: bool
    force: bool


def check_output(
    host: str,
    to: EditDestination,
    hint: str = "-o FILE for a copy, or --in-place to change the file itself",
) -> None:
    """Raise UsageError unless the options name exactly one place to write; called before any work is done.

    ``hint`` is the advice if they name none.
    """
    allow_any_output(to.force)
    check_output_name(to.output)
    if to.in_place and host == "-":
        raise UsageError("--in-place needs a file, and - is standard input")
    if to.in_place and hasattr(host, "full_url"):
        raise UsageError(f"--in-place needs a file, and {host} is a URL", hint="write a copy with -o")
    if to.in_place and to.output is not None:
        raise UsageError("-o and --in-place exclude each other")
    if to.break_links and not to.in_place:
        raise UsageError("--break-links goes with --in-place", hint="a new file has no other names")
    if not to.in_place and to.output is None:
        raise UsageError("say where to write", hint=hint)


def refuse_damaged(path: str, content: View, *, force: bool) -> int:
    """Print what is damaged in the container that is to go into a host; return the exit code if that refuses it.

    With ``force`` nothing is refused.
    """
    from fatpack.edit.embed import container_damage

    damage = container_damage(content)
    print_findings(path, damage)
    if not damage or force:
        return FINE
    print_stderr(f"fatpack: {path}: nothing was written; --force puts it in as it is")
    return exit_code_for_findings((item.severity, item.code) for item in damage)


#: the finding for kernels that host code registers and no image has
_ABSENT = "FP3046"


@contextmanager
def open_edit(host: str, container: str, to: EditDestination, *, writes: bool = True) -> Iterator[EditTarget]:
    """Open the host that an address names and the container that goes into it, once the options are checked.

    Raises UsageError for options that exclude each other, and for what is empty or not there.
    """
    from fatpack.edit.editor import locate_edit
    from fatpack.io.open import open_source
    from fatpack.selectors.address import parse_address

    if writes:
        check_output(host, to)
    address = parse_address(host)
    with open_source(address.path) as into, open_source(container) as content:
        place = locate_edit(into.view(), address, content.view())
        yield EditTarget(into.view(), content.view(), address.path, place, to)


class EditTarget(Record):
    """A host and what goes into it: ``place`` is what is edited, the file ``host`` or a member of it."""

    host: View
    content: View
    path: str
    place: Location
    to: EditDestination

    def write(self, edited: Iterable[Piece], *, quiet: bool, compares: bool = False) -> int:
        """Write the host with its place edited where the options say; return the exit code.

        With ``compares`` it names the kernels that the host registers and the new container lacks.
        """
        from fatpack.io.source import PiecesSource

        pieces = list(self.place.around(edited))
        if compares:
            warn_about_kernels(self.host, PiecesSource(pieces, self.path).view(), self.path, quiet=quiet)
        return write_result(self.host, self.path, pieces, self.to, quiet=quiet, inputs=[self.content])


def warn_about_kernels(before: View, after: View, path: str, *, quiet: bool) -> None:
    """Print which kernels a host registers that its device code lacks once it is edited, and did not lack before."""
    from fatpack.scanner.registration_verdict import judge_file

    found = [item for item in judge_file(after).findings if item.code == _ABSENT]
    told = {item.message for item in judge_file(before).findings} if found else set()
    for item in found:
        if item.message not in told:
            print_stderr(f"fatpack: warning: {path}: {item.message}; launching them will fail", quiet=quiet)


def write_result(
    host: View,
    path: str,
    pieces: Iterable[Piece],
    to: EditDestination,
    *,
    quiet: bool,
    inputs: Sequence[View] = (),
    done: Sequence[str] = (),
    check: EditCheck | None = None,
) -> int:
    """Write a host, opened from ``path`` and edited, where the options say; return the exit code.

    ``check`` verifies the result, as in :func:`fatpack.edit.editor.write_edited`. The files of ``inputs``, what
    goes into the host, are never written over. The lines of ``done`` tell what was done, and so only when it is.
    """
    from fatpack.edit.editor import write_edited, write_in_place
    from fatpack.io.write import write_pieces

    if to.output == "-":
        write_pieces(1, pieces)
        for line in done:
            print_stderr(line, quiet=quiet)
        return FINE
    target = path if to.output is None else to.output
    warn_stale_temp_files(os.path.dirname(target), quiet=quiet)
    meter = CopyProgress(len(host), f"writing {target}", quiet=quiet)
    how = ""
    try:
        if to.in_place:
            edit = write_in_place(host, pieces, path, break_links=to.break_links, progress=meter, check=check)
            size = edit.size
            how = ", rewritten as a whole" if edit.added is None else f", of which {format_size(edit.added)} were added"
        else:
            size = write_edited(host, pieces, target, force=to.force, inputs=inputs, progress=meter, check=check)
    finally:
        meter.finish()
    for line in done:
        print_stderr(line, quiet=quiet)
    print_stderr(f"wrote {target}: {format_size(size)}{how}", quiet=quiet)
    return FINE


def write_substitution(
    plan: ImageSubstitution, file: EditTarget, *, done: Sequence[str], dry_run: bool = False, quiet: bool
) -> int:
    """Write a host with other images where the options say, or with ``dry_run`` only verify it; return the exit code.

    The lines of ``done`` tell what was done.
    """
    from fatpack.io.source import PiecesSource

    print_findings(file.path, plan.damaged)
    print_warnings(plan.unread, quiet=quiet)
    for text in plan.unmatched:
        print_stderr(f"fatpack: warning: {text}", quiet=quiet)
    pieces, check = list(file.place.around(plan.pieces)), plan.check_in(file.place)
    warn_about_kernels(file.host, PiecesSource(pieces, file.path).view(), file.path, quiet=quiet)
    if dry_run:
        after = PiecesSource(pieces, file.path).view()
        check(file.host, after)
        sizes = f"{format_size(len(file.host))} → {format_size(len(after))}"
        for line in (*done, f"{pluralize(len(plan.changed), 'image')}; {file.path}: {sizes}"):
            print_stderr(line, quiet=quiet)
        code = FINE
    else:
        code = write_result(
            file.host, file.path, pieces, file.to, quiet=quiet, inputs=[file.content], done=done, check=check
        )
    return MALFORMED if plan.damaged and code == FINE else code
