"""Wheels, conda packages and folders that are slimmed as a whole: everything else in them stays as it is."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, suppress

from fatpack import __version__, proof
from fatpack.command_line.edit_io import write_result
from fatpack.command_line.messages import CopyProgress, print_stderr, warn_stale_temp_files
from fatpack.command_line.terminal import write_text
from fatpack.commands.slim import certificate, packages
from fatpack.commands.slim.outcome import (
    SlimOutcome,
    deflated_size,
    refuse_all,
    refuse_unmatched_patterns,
    try_to_slim,
    why_unchanged,
)
from fatpack.commands.slim.packages import is_container_image, is_package
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.policy import PlanReader, PlanWriter
from fatpack.commands.slim.result import plan_with_digests, verifier_for
from fatpack.commands.slim.store_files import make_stores
from fatpack.edit import editor
from fatpack.errors import FatpackError, FormatError, HostError, Unsupported, UsageError
from fatpack.exit_codes import FINDINGS, FINE, error_message
from fatpack.io.atomic_write import NewFolder, check_target, write_file
from fatpack.io.open import open_source
from fatpack.io.source import PiecesSource
from fatpack.printable import format_size, printable
from fatpack.scanner.context import detect_package
from fatpack.selectors.address import find_location, parse_address, refuse_package
from fatpack.text.json import json_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.command_line.edit_io import EditDestination
    from fatpack.commands.slim.budget import SizePlan
    from fatpack.commands.slim.conda import SlimmedConda
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import PackageLibrary, Slimming
    from fatpack.commands.slim.request import SlimRequest
    from fatpack.commands.slim.wheels import SlimmedWheel
    from fatpack.edit.editor import EditCheck
    from fatpack.io.source import View


# Proofs of slimmed files: from the two files alone, as text, as JSON, and as certificates in files.


class ProofOutcome:
    """The proof about two files: the certificate as plain data, and the lines for users."""

    def __init__(self, before: str | View, after: str | View) -> None:
        """Prove it; folders are given by paths. Raises Unsupported where nothing is proved, and FormatError."""
        self.document: dict[str, Any]
        self.lines: Iterable[str]
        if isinstance(before, str) or isinstance(after, str) or (detect_package(before) and detect_package(after)):
            from fatpack.proof import packages

            package = packages.prove_package(before, after)
            self.is_proved = package.is_proved
            self.document = certificate.package_certificate_record(package, __version__)
            self.lines = certificate.render_package_certificate(package)
        else:
            verdict = proof.prove(before, after)
            self.is_proved = verdict.is_proved
            self.document, self.lines = (
                certificate.certificate_record(verdict, __version__),
                certificate.render_certificate(verdict),
            )

    def add_use(self, path: str, use: dict[str, Any]) -> None:
        """Add the report of slimming by use to the certificate of the library at a path; "" is the file itself."""
        if not path:
            self.document["use"] = use
        for library in self.document.get("libraries", ()):
            if library["path"] == path:
                library["certificate"]["use"] = use

    def text(self) -> list[bytes]:
        """Return the certificate as a file."""
        return [*(part.encode() for part in json_pieces(self.document)), b"\n"]


def verify_files(
    files: Sequence[str], target: str | None, *, as_json: bool, force: bool, quiet: bool, output: str | None = None
) -> int:
    """Prove that the second of two files is the first with less device code; return the exit code: 1 if it is not.

    The certificate is written to ``target``, if there is one.
    """
    if len(files) != 2:
        raise UsageError("--verify takes two files", hint="fatpack slim --verify BEFORE AFTER")
    if output is not None:
        raise UsageError("--verify writes no file but --certificate FILE")
    with ExitStack() as stack:
        both = [file if os.path.isdir(file) else stack.enter_context(open_source(file)).view() for file in files]
        views = [one for one in both if not isinstance(one, str)]
        if target is not None:
            check_target(target, force, views)
        proved = ProofOutcome(*both)
        if target is not None:  # before anything is printed: what fails is the only document of what asked for JSON
            write_file(target, proved.text(), force=force, inputs=views)
        if as_json:
            sys.stdout.write(b"".join(proved.text()).decode())
        elif not quiet:
            write_text(proved.lines)
        if target is not None:
            print_stderr(f"wrote {target}", quiet=quiet)
    return FINE if proved.is_proved else FINDINGS


class CertificateWriter:
    """The proof of a result before it takes its name, and its certificate, if one is requested.

    Of a file that is changed in place the certificate is written before the exchange: the proof cannot be made again
    when the old file is gone.
    """

    def __init__(
        self,
        before: View,
        output: str,
        to: EditDestination,
        target: str | None,
        *,
        quiet: bool,
        uses: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """Take what is proved and where the certificate goes. Raises UsageError and ``FileExistsError`` for that.

        ``uses`` are the reports of slimming by use, by the paths of libraries in a package; "" is the file itself.
        """
        if target is not None:
            if os.path.realpath(target) == os.path.realpath(output):
                raise UsageError(f"{target} is the output itself", hint="give the certificate a name of its own")
            check_target(target, to.force, [before])
        self._before, self._output, self._to, self._target = before, output, to, target
        self._quiet = quiet
        self._uses = uses or {}
        self._text: list[bytes] | None = None
        self._lines: list[str] = []

    def prove(self, after: View) -> None:
        """Prove a result. Raises HostError if it is not proved, Unsupported if it cannot be, and FormatError."""
        proved = ProofOutcome(self._before, after)
        for path, use in self._uses.items():
            proved.add_use(path, use)
        self._text, self._lines = proved.text(), list(proved.lines)
        if not proved.is_proved:
            for line in self._lines:
                print_stderr(line)
            unproved = "with -o FILE" if self._to.in_place else "without --certificate"
            raise HostError(
                "the result is not proved to differ in device code alone, and was not written",
                hint=f"report this, with the file; {unproved} it is written unproved",
                chain=after.chain,
            )
        if self._to.in_place and self._target is not None:
            write_file(self._target, self._text, force=self._to.force, inputs=[self._before])

    def after(self, check: EditCheck) -> EditCheck:
        """Return a check of the host and the result that proves the result if ``check`` accepts it."""

        def checked_and_proved(before: View, after: View) -> None:
            check(before, after)
            self.prove(after)

        return checked_and_proved

    def tell(self) -> None:
        """Say what was proved; write the certificate that is not written yet.

        Raises UsageError if the result went to where nothing can be read again.
        """
        if self._text is None:
            raise UsageError(f"{self._output} is no file, and a certificate is about one", hint="-o FILE or -d DIR")
        if self._target is not None and not self._to.in_place:
            write_file(self._target, self._text, force=self._to.force, inputs=[self._before])
        for line in self._lines:
            print_stderr(line, quiet=self._quiet)
        if self._target is not None:
            print_stderr(f"wrote {self._target}", quiet=self._quiet)

    def withdraw(self) -> None:
        """Remove the certificate of a file that was not exchanged after all."""
        if self._text is not None and self._to.in_place and self._target is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._target)


@contextmanager
def withdrawn_on_failure(proof: CertificateWriter | None) -> Iterator[None]:
    """Take a certificate back that was written before a file got its name, if it never gets it."""
    try:
        yield
    except BaseException:
        if proof is not None:
            proof.withdraw()
        raise


def slim_package(request: SlimRequest, view: View, path: str) -> tuple[list[SlimOutcome], str]:
    """Slim a package that is open; return what became of the files in it that may hold device code, and its new path.

    Raises UsageError where the result has no place or no name, and what slimming the package raises.
    """
    if request.to.in_place:
        raise UsageError(f"{path}: a package that changes gets another name", hint="-d DIR writes it there")
    with ExitStack() as stack:
        return _slim_package(request, view, path, stack)


def _slim_package(request: SlimRequest, view: View, path: str, stack: ExitStack) -> tuple[list[SlimOutcome], str]:
    naming = request.naming.for_options(request.options)
    _refuse_existing(request, view, packages.changed_name(path, naming))
    options = request.options.for_many_files("drop" if path.endswith(".whl") else "keep")
    made = packages.slim_package(view, path, _slimming(request, options), naming, stack, make_stores(options))
    if made is None:
        target = _target(request, path, os.path.basename(path))
        if not request.dry_run:
            _write(request, view, target, None)
        print_stderr(f"{path}: unchanged: it holds no device code", quiet=request.quiet)
        return [], target
    outcomes = [_member_outcome(path, library) for library in made.libraries]
    if len(request.files) == 1:
        refuse_unmatched_patterns(outcomes, request.options, view.chain)
    target = _target(request, path, made.name)
    for note in made.notes:
        print_stderr(f"fatpack: note: {path}: {note}", quiet=request.quiet)
    if not made.is_changed:
        print_stderr(f"{path}: unchanged: {why_unchanged(outcomes)}", quiet=request.quiet)
    if not request.dry_run:
        _write(request, view, target, made)
        outcomes = [item.replace(output=target) for item in outcomes]
    elif not made.is_changed:
        print_stderr(f"would copy {target}: unchanged, {format_size(len(view))}", quiet=request.quiet)
    else:
        size = sum(map(len, made.pieces))
        print_stderr(f"would write {target}: {format_size(len(view))} → {format_size(size)}", quiet=request.quiet)
    if request.sbom is not None and not request.dry_run:
        _write_sbom(request.sbom, made, request)
    return [item for item in outcomes if item.error is not None or item.has_device_code], target


def _slimming(request: SlimRequest, options: SlimOptions | None = None) -> Slimming:
    """Return the slimming of the libraries in a package or folder; --strict makes the first failure one of all.

    ``options`` are by default those of the request.
    """
    chosen = request.options if options is None else options
    slimming: Slimming = lambda part: plan_with_digests(part, chosen, digests=request.sbom is not None)  # noqa: E731
    return refuse_all(slimming) if request.is_strict else slimming


def make_proof(
    request: SlimRequest, before: View, output: str, outcomes: Iterable[SlimOutcome], *, is_only: bool = False
) -> CertificateWriter | None:
    """Return the proof of a result before it gets its name: for a certificate, or if the result ``is_only``.

    A linked file that is changed in place is the only one that the user has.
    """
    if request.certificate is None and not is_only:
        return None
    from fatpack.commands.slim.used import use_record

    uses = {
        item.path: use_record(item.plan.use, request.options.use)
        for item in outcomes
        if item.plan is not None and item.plan.use is not None
    }
    return CertificateWriter(before, output, request.to, request.certificate, quiet=request.quiet, uses=uses)


def _target(request: SlimRequest, path: str, name: str) -> str:
    """Return where a package goes. Raises UsageError for a file name that is not the package's."""
    if request.directory is not None:
        return os.path.join(request.directory, name)
    if request.to.output is None:
        return name
    if request.to.output != "-" and os.path.basename(request.to.output) != name:
        raise UsageError(f"{path} becomes {name}: pip and conda use the file name", hint=f"-d DIR writes DIR/{name}")
    return request.to.output


def _refuse_existing(request: SlimRequest, view: View, name: str) -> None:
    """Raise what writing the files of a request would raise because they are there, before any work is done.

    ``name`` is what a file in a folder would be called, "" where only the work says so. Writing checks it again: files
    may appear meanwhile, and a package that stays as it is keeps its old name.
    """
    if request.dry_run:
        return
    targets = [request.certificate, request.sbom]
    if request.to.output is not None:
        targets.append(request.to.output)
    elif name and not request.to.in_place:
        targets.append(os.path.join(request.directory or "", name))
    for target in targets:
        if target is not None and target != "-":
            check_target(target, request.to.force, [view])


def _refuse_unprovable(made: SlimmedWheel | SlimmedConda, view: View) -> None:
    """Raise Unsupported if a file in a package changed of which nothing is proved: an object, an archive, a cache."""
    for library in made.libraries:
        plan = library.outcome.plan
        if plan is not None and plan.mode == "edit":
            raise Unsupported(
                f"{library.name} loses a part of its images, and only linked programs and libraries are proved",
                hint="without --certificate the package is written unproved",
                chain=view.chain,
            )


def _write(request: SlimRequest, view: View, target: str, made: SlimmedWheel | SlimmedConda | None) -> None:
    if made is not None and request.certificate is not None:
        _refuse_unprovable(made, view)
    with NewFolder(os.path.dirname(target)):
        _write_proved(request, view, target, made)


def _write_proved(request: SlimRequest, view: View, target: str, made: SlimmedWheel | SlimmedConda | None) -> None:
    pieces = [view] if made is None else made.pieces
    proof = None
    if made is not None and made.is_changed:
        proof = make_proof(request, view, target, [library.outcome for library in made.libraries])
    if target == "-":
        from fatpack.io.write import write_pieces

        write_pieces(1, pieces)
        return
    check_target(target, request.to.force, [view])
    warn_stale_temp_files(os.path.dirname(target), quiet=request.quiet)
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
    if made is None or not made.is_changed:
        print_stderr(f"copied {target}: unchanged, {format_size(size)}", quiet=request.quiet)
    else:
        print_stderr(f"wrote {target}: {format_size(len(view))} → {format_size(size)}", quiet=request.quiet)
    if proof is not None:
        proof.tell()


def _member_outcome(path: str, library: PackageLibrary) -> SlimOutcome:
    sizes = None
    if library.stored_before is not None and library.stored_after is not None:
        sizes = library.stored_before, library.stored_after
    return library.outcome.replace(path=f"{path}!{library.name}", deflated=sizes)


def slim_folder(request: SlimRequest, path: str) -> list[SlimOutcome]:
    """Slim the libraries of a folder: in a copy of everything, or each in its place; return what became of them."""
    from fatpack.commands.slim.folders import FolderJob

    options = request.options.for_many_files("drop")
    work = FolderJob(
        path,
        None if request.dry_run else request.directory,
        request.to.in_place and not request.dry_run,
        break_links=request.to.break_links,
        force=request.to.force,
        use=request.options.use,
        stores=make_stores(options),
    )
    notes: list[str] = []
    outcomes = []
    count = 0
    try:
        for library in work.slim(_slimming(request, options), notes):
            count += 1
            item = _member_outcome(path, library).replace(path=os.path.join(path, library.name))
            if item.error is None and not item.has_device_code:
                continue
            if library.is_changed and library.after and not request.dry_run:
                output = os.path.join(path if request.directory is None else request.directory, library.name)
                item = item.replace(output=output)
            outcomes.append(item)
    finally:
        for note in notes:
            print_stderr(f"fatpack: note: {path}: {note}", quiet=request.quiet)
    if not count:
        raise UsageError(f"{path} has no file that may hold device code")
    return outcomes


def plan_size(request: SlimRequest) -> SizePlan:
    """Return the plan by which the file of a request gets as small as asked; print the tables where it does not."""
    from fatpack.commands.slim.budget import SizeNotReached, plan_for_size

    if len(request.files) != 1 or os.path.isdir(request.files[0]) or parse_address(request.files[0]).inside:
        raise UsageError("--max-size is about one file", hint="slim one library or package at a time")
    path = request.files[0]
    with open_source(path) as source:
        if is_container_image(source.view(), path):
            raise UsageError("a size is reached for libraries and packages, and this is an image", hint="--for DEVICE")
        if not is_package(source.view(), path):  # the name of a package follows from the steps
            _refuse_existing(request, source.view(), os.path.basename(path))
        try:
            tell: Callable[[str], None] = lambda words: print_stderr(words, quiet=request.quiet)  # noqa: E731
            return plan_for_size(source.view(), path, request.options, request.naming, tell)
        except SizeNotReached as error:
            for line in error.plan.lines() if not request.quiet else ():
                print_stderr(line)
            raise


def slim_environment(request: SlimRequest, path: str) -> list[SlimOutcome]:
    """Slim the libraries of installed packages where they are, with a journal; return what became of them."""
    from fatpack.commands.slim.environment import EnvironmentJob

    job = EnvironmentJob(
        path,
        backup=request.backup or "",
        is_trial=request.dry_run,
        is_checked_first=request.is_strict or isinstance(request.options.plan, PlanReader),
    )
    notes: list[str] = []
    outcomes = []
    options = request.options.for_many_files("keep")
    for library in job.slim(_slimming(request, options), notes):
        item = _member_outcome(path, library).replace(path=os.path.join(path, library.name))
        if item.error is None and not item.has_device_code:
            continue
        if library.is_changed and not request.dry_run:
            item = item.replace(output=item.path)
        outcomes.append(item)
    for note in notes:
        print_stderr(f"fatpack: note: {path}: {note}", quiet=request.quiet)
    for folder in sorted({os.path.dirname(os.path.join(path, name)) for name in job.journal.entries}):
        warn_stale_temp_files(folder, quiet=request.quiet)
    if job.journal.entries and not request.dry_run:
        print_stderr(f"journal: {job.journal.path}", quiet=request.quiet)
        for line in job.journal.restore:
            print_stderr(f"to restore: {line}", quiet=request.quiet)
    return outcomes


def slim_wheelhouse(request: SlimRequest, folder: str) -> list[SlimOutcome]:
    """Slim the wheels of a folder that locks name into another; return what became of the libraries in them.

    A wheel that cannot be written anew is copied, unless the request is strict: the lock needs it.
    """
    from fatpack.commands.slim import wheelhouse

    locks = [one for lock in request.requirements for one in wheelhouse.read_lock(lock)]
    chosen = wheelhouse.choose_distributions(folder, locks if request.requirements else None)
    outcomes: list[SlimOutcome] = []
    names: dict[str, wheelhouse.LockedRequirement] = {}
    _take_files(request, [file.path for file, _ in chosen if file.is_wheel])
    for file, requirement in chosen:
        with open_source(file.path) as source:
            view = source.view()
            try:
                found, target = slim_package(request, view, file.path) if file.is_wheel else ([], "")
                outcomes += found
            except (FormatError, HostError, Unsupported) as error:
                print_stderr(f"fatpack: error: {error_message(error)}")
                outcomes.append(SlimOutcome(file.path, len(view), len(view), "", None, error, is_told=True))
                target = ""
                if request.is_strict:
                    continue
            if not target:
                target = _target(request, file.path, file.name)
                if not request.dry_run:
                    _write(request, view, target, None)
            if requirement is not None:
                names[os.path.basename(target)] = requirement
    if not request.dry_run:
        assert request.directory is not None
        files = wheelhouse.write_index(request.directory)
        print_stderr(f"wrote {os.path.join(request.directory, wheelhouse.INDEX)}", quiet=request.quiet)
        if names:
            lock = wheelhouse.write_lock(request.directory, names, files, force=request.to.force)
            print_stderr(f"wrote {lock}", quiet=request.quiet)
    return outcomes


def undo_environment(path: str, *, quiet: bool) -> int:
    """Restore the originals of an environment; return the exit code: 1 if a library stays slimmed.

    The commands that install the packages again are printed then.
    """
    from fatpack.commands.slim import environment

    undone = environment.undo_environment(path)
    for name in undone.restored if not quiet else ():
        print_stderr(f"restored {os.path.join(path, name)}")
    for name, fate in undone.unslimmed if not quiet else ():
        print_stderr(f"{os.path.join(path, name)} {fate}")
    for name, problem in undone.left:
        print_stderr(f"fatpack: warning: {os.path.join(path, name)} stays slimmed: {problem}")
    write_text([printable(line) for line in undone.commands])
    return FINDINGS if undone.left else FINE


def _write_sbom(target: str, made: SlimmedWheel | SlimmedConda, request: SlimRequest) -> None:
    from fatpack.commands.slim.text import sbom_fragment
    from fatpack.text.json import json_pieces

    pieces = [*(text.encode() for text in json_pieces(sbom_fragment(made.name, made.libraries))), b"\n"]
    write_file(target, pieces, force=request.to.force)
    print_stderr(f"wrote {target}", quiet=request.quiet)


# Files slimmed one after the other: named ones, and those of folders and patterns.


def slim_all(request: SlimRequest) -> list[SlimOutcome]:
    """Slim the files of a request, and return the outcome of each. A failure is an outcome, too."""
    found: list[SlimOutcome] = []
    _refuse_other_programs(request)
    _take_files(request, request.files)
    if request.find_links is not None:
        found += slim_wheelhouse(request, request.find_links)
    for file in request.files if request.environment is None else [request.environment]:
        try:
            if request.environment is not None:
                found += slim_environment(request, file)
            else:
                found += _slim_folder(request, file) if os.path.isdir(file) else _slim_file(request, file)
        except BrokenPipeError:
            raise
        except (FatpackError, OSError) as error:
            print_stderr(f"fatpack: error: {error_message(error)}")
            found.append(SlimOutcome(file, 0, 0, "", None, error, is_told=True))
    if request.options.use is not None and not any(item.error for item in found):
        from fatpack.commands.slim.used import refuse_unused

        refuse_unused(found, request.options.use)
    if request.save_plan is not None and isinstance(request.options.plan, PlanWriter):
        request.options.plan.write(request.save_plan, force=request.to.force)
        print_stderr(f"wrote {request.save_plan}", quiet=request.quiet)
    return found


def _take_files(request: SlimRequest, files: Iterable[str]) -> None:
    """Take named files down for a plan; with a plan that is applied, raise UsageError for a file that is none of it."""
    if request.options.plan is None:
        return
    if request.save_plan is not None:
        check_target(request.save_plan, request.to.force, [])
    for file in files:
        path = parse_address(file).path
        if not os.path.isdir(path):
            with open_source(path) as source:
                request.options.plan.take_file(source.view())


def _refuse_other_programs(request: SlimRequest) -> None:
    """Raise UsageError where no file of several has a kernel of the profiles, before one is written."""
    if request.options.use is None or request.dry_run:
        return
    if request.environment is None and (len(request.files) < 2 or any(map(os.path.isdir, request.files))):
        return  # these are checked where they are planned
    from fatpack.commands.slim.used import refuse_unused

    outcomes = []
    if request.environment is not None:
        from fatpack.commands.slim.environment import EnvironmentJob

        job = EnvironmentJob(request.environment, backup="", is_trial=True)
        outcomes = [library.outcome for library in job.slim(_slimming(request), [])]
    for file in request.files:
        path = parse_address(file).path
        with open_source(path) as source:
            if is_package(source.view(), path):
                return
            view = find_location(source.view(), parse_address(file)).view
            made = try_to_slim(lambda part: plan_with_digests(part, request.options), view)
            outcomes.append(SlimOutcome(file, len(view), 0, "", getattr(made, "plan", None)))
    if not any(item.error for item in outcomes):
        refuse_unused(outcomes, request.options.use)


def _slim_folder(request: SlimRequest, path: str) -> list[SlimOutcome]:
    from fatpack.commands.slim.image_files import is_image_folder

    if is_image_folder(path):
        return _slim_image(request, path)
    _refuse_image_options(request, path)
    return slim_folder(request, path)


def _refuse_image_options(request: SlimRequest, path: str) -> None:
    if request.keep_layers:
        hint = "give the archive that docker save writes, or the folder with oci-layout"
        raise UsageError(f"--keep-layers is about container images, and {path} is none", hint=hint)


def _slim_image(request: SlimRequest, image: str | View) -> list[SlimOutcome]:
    from fatpack.commands.slim.image_run import slim_container_image

    slimming = _slimming(request, request.options.for_many_files("keep"))
    return slim_container_image(request, image, slimming, ProofOutcome)


def _slim_file(request: SlimRequest, file: str) -> list[SlimOutcome]:
    address = parse_address(file)
    with open_source(address.path) as source:
        if not address.inside and is_container_image(source.view(), address.path):
            return _slim_image(request, source.view())
        _refuse_image_options(request, address.path)
        if not address.inside and is_package(source.view(), address.path):
            return slim_package(request, source.view(), address.path)[0]
    return [_file_outcome(request, file)]


def _file_outcome(request: SlimRequest, file: str) -> SlimOutcome:
    size = 0
    try:
        address = parse_address(file)
        with open_source(address.path) as source:
            whole = source.view()
            size = len(whole)
            refuse_package(whole)
            place = find_location(whole, address)
            _refuse_existing(request, whole, os.path.basename(address.path))
            made = plan_slim(place.view, request.options)
            pieces = list(place.around(made.pieces))
            after = sum(map(len, pieces))
            if len(request.files) == 1:
                planned = SlimOutcome(address.path, size, after, "", made)
                refuse_unmatched_patterns([planned], request.options, whole.chain)
            deflated = (deflated_size([whole]), deflated_size(pieces)) if request.deflates else None
            done = SlimOutcome(address.path, size, after, "", made, None, deflated)
            if request.dry_run:
                if made.is_changed:
                    verifier_for(made)(place.view, PiecesSource(list(made.pieces), address.path).view())
                return done
            output = _output(request, address.path)
            if request.to.in_place and not made.is_changed and request.certificate is None:
                return done
            to = request.to if request.directory is None else request.to.replace(output=output)
            is_only = request.to.in_place and made.mode in ("shrink", "zero") and not place.archives
            proof = make_proof(request, whole, output, [done.replace(path="")], is_only=is_only)

            check = verifier_for(made) if not place.archives else editor.verify_edited
            if proof is not None:
                check = proof.after(check)
            if request.to.in_place and not made.is_changed:
                check(whole, whole)
                output = ""
            else:
                folder = "" if request.directory is None else os.path.dirname(output)
                with NewFolder(folder), withdrawn_on_failure(proof):
                    write_result(whole, address.path, pieces, to, quiet=request.quiet, check=check)
            if proof is not None:
                proof.tell()
            return done.replace(output=output)
    except BrokenPipeError:
        raise
    except (FatpackError, OSError) as error:
        print_stderr(f"fatpack: error: {error_message(error)}")
        return SlimOutcome(file, size, size, "", None, error, is_told=True)


def _output(request: SlimRequest, path: str) -> str:
    if request.directory is not None:
        return os.path.join(request.directory, os.path.basename(path))
    return path if request.to.output is None else request.to.output
