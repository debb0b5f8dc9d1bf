"""Wheels, conda packages and folders that are slimmed as a whole: everything else in them stays as it is."""

from __future__ import annotations

import os
from contextlib import ExitStack

from fatpack.command_line.messages import CopyProgress, print_stderr, warn_stale_temp_files
from fatpack.commands.slim import packages
from fatpack.commands.slim.facts import SlimmedFile, plan_with_digests
from fatpack.commands.slim.options import SlimOutcome
from fatpack.errors import UsageError
from fatpack.io.atomic_write import check_target, write_file
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.slim.conda import SlimmedConda
    from fatpack.commands.slim.members import PackageLibrary, Slimming
    from fatpack.commands.slim.proofs import CertificateWriter
    from fatpack.commands.slim.slimming_request import SlimRequest
    from fatpack.commands.slim.wheels import SlimmedWheel
    from fatpack.io.source import View


def slim_package(request: SlimRequest, view: View, path: str) -> list[SlimOutcome]:
    """Slim a package that is open, and return what became of the files in it that may hold device code.

    Raises UsageError where the result has no place or no name, and what slimming the package raises.
    """
    if request.to.in_place:
        raise UsageError(f"{path}: a package that changes gets another name", hint="-d DIR writes it there")
    with ExitStack() as stack:
        return _slim_package(request, view, path, stack)


def _slim_package(request: SlimRequest, view: View, path: str, stack: ExitStack) -> list[SlimOutcome]:
    slimming: Slimming = lambda part: plan_with_digests(part, request.wishes, digests=request.sbom is not None)  # noqa: E731
    naming = request.naming.for_devices(request.wishes.devices)
    made = packages.slim_package(view, path, slimming, naming, stack)
    if made is None:
        target = _target(request, path, os.path.basename(path))
        if not request.dry_run:
            _write(request, view, target, None)
        print_stderr(f"{path}: unchanged: it holds no device code", quiet=request.quiet)
        return []
    outcomes = [_member_outcome(path, library) for library in made.libraries]
    target = _target(request, path, made.name)
    for note in made.notes:
        print_stderr(f"fatpack: note: {path}: {note}", quiet=request.quiet)
    if not made.is_changed:
        print_stderr(f"{path}: unchanged: nothing in it is to go", quiet=request.quiet)
    if not request.dry_run:
        _write(request, view, target, made)
        outcomes = [item.replace(output=target) for item in outcomes]
    else:
        size = sum(map(len, made.pieces))
        print_stderr(f"would write {target}: {format_size(len(view))} → {format_size(size)}", quiet=request.quiet)
    if request.sbom is not None and not request.dry_run:
        _write_sbom(request.sbom, made, request)
    return [item for item in outcomes if item.error is not None or item.has_device_code]


def make_proof(request: SlimRequest, before: View, output: str, *, is_only: bool = False) -> CertificateWriter | None:
    """Return what proves a result before it gets its name: where a certificate is asked for, and where it ``is_only``.

    A linked file that is changed in place is the only one that the user has.
    """
    if request.certificate is None and not is_only:
        return None
    from fatpack.commands.slim.proofs import CertificateWriter

    return CertificateWriter(before, output, request.to, request.certificate, quiet=request.quiet)


def _target(request: SlimRequest, path: str, name: str) -> str:
    """Return where a package goes. Raises UsageError for a file name that is not the package's."""
    if request.directory is not None:
        return os.path.join(request.directory, name)
    if request.to.output is None:
        return name
    if request.to.output != "-" and os.path.basename(request.to.output) != name:
        raise UsageError(f"{path} becomes {name}, and pip and conda go by that name", hint=f"-d DIR writes DIR/{name}")
    return request.to.output


def _write(request: SlimRequest, view: View, target: str, made: SlimmedWheel | SlimmedConda | None) -> None:
    folder = os.path.dirname(target)
    if folder:
        os.makedirs(folder, exist_ok=True)
    pieces = [view] if made is None else made.pieces
    proof = make_proof(request, view, target) if made is not None and made.is_changed else None
    if target == "-":
        from fatpack.io.write import write_pieces

        write_pieces(1, pieces)
        return
    check_target(target, request.to.force, [view])
    warn_stale_temp_files(folder, quiet=request.quiet)
    meter = CopyProgress(sum(map(len, pieces)), f"writing {target}", quiet=request.quiet)

    def verify(after: View) -> None:
        if made is not None:
            made.verify(after)
        if proof is not None:
            proof.prove(after)

    try:
        size = write_file(target, pieces, force=request.to.force, inputs=[view], verify=verify, progress=meter)
    finally:
        meter.finish()
    print_stderr(f"wrote {target}: {format_size(len(view))} → {format_size(size)}", quiet=request.quiet)
    if proof is not None:
        proof.tell()


def _member_outcome(path: str, library: PackageLibrary) -> SlimOutcome:
    sizes = None
    if library.stored_before is not None and library.stored_after is not None:
        sizes = library.stored_before, library.stored_after
    plan = library.slimmed.plan if isinstance(library.slimmed, SlimmedFile) else None
    return SlimOutcome(f"{path}!{library.name}", library.before, library.after, "", plan, library.error, sizes)


def slim_folder(request: SlimRequest, path: str) -> list[SlimOutcome]:
    """Slim the libraries of a folder: in a copy of everything, or each in its place; return what became of them."""
    from fatpack.commands.slim.folders import FolderJob

    work = FolderJob(
        path,
        None if request.dry_run else request.directory,
        request.to.in_place and not request.dry_run,
        break_links=request.to.break_links,
        force=request.to.force,
    )
    notes: list[str] = []
    outcomes = []
    count = 0
    for library in work.slim(lambda part: plan_with_digests(part, request.wishes), notes):
        count += 1
        item = _member_outcome(path, library).replace(path=os.path.join(path, library.name))
        if item.error is None and not item.has_device_code:
            continue
        if library.is_changed and not request.dry_run:
            output = os.path.join(path if request.directory is None else request.directory, library.name)
            item = item.replace(output=output)
        outcomes.append(item)
    for note in notes:
        print_stderr(f"fatpack: note: {path}: {note}", quiet=request.quiet)
    if not count:
        raise UsageError(f"{path} has no file that may hold device code")
    return outcomes


def _write_sbom(target: str, made: SlimmedWheel | SlimmedConda, request: SlimRequest) -> None:
    from fatpack.commands.slim.sbom import sbom_fragment
    from fatpack.text.json import json_pieces

    pieces = [*(text.encode() for text in json_pieces(sbom_fragment(made.name, made.libraries))), b"\n"]
    write_file(target, pieces, force=request.to.force)
    print_stderr(f"wrote {target}", quiet=request.quiet)
