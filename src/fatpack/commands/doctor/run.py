"""Files, folders and packages → a diagnosis. Files are examined on all cores; folders are looked at as a whole too."""

from __future__ import annotations

import os

from fatpack.commands.doctor import package_checksums
from fatpack.commands.doctor.check_file import examine_file
from fatpack.commands.doctor.model import (
    VERIFIED,
    DoctorNotes,
    DoctorResult,
    FileReport,
    KnownBug,
    NotVerified,
    RelocationReach,
    VerifiedCount,
    known_bugs,
)
from fatpack.errors import FatpackError, FormatError, TargetError, UsageError
from fatpack.exit_codes import FINDINGS, FINE, error_message, exit_code, worst_exit_code
from fatpack.findings import code_for_error, finding
from fatpack.inputs.files import SEPARATOR, Filter, InputFile, MemberPath, SkipCounts, with_indexed_wheels
from fatpack.inputs.map_files import map_paths
from fatpack.io.source import Span
from fatpack.library.arguments import as_paths, as_patterns, check_bools, make_budget
from fatpack.limits import current_budget
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.tabular.skipped import make_skipped
from fatpack.targets.local_devices import THIS_MACHINE
from fatpack.tensile.library import TensileFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.commands.doctor.whole_file import LoadedExtent
    from fatpack.inputs.map_files import Opener
    from fatpack.limits import Budget
    from fatpack.packages.checksums import StatedFile


# The run of ``doctor``.


def doctor(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    device: str | Sequence[str] = (),
    exclude: Iterable[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> DoctorResult:
    """Return how files, folders, patterns, packages and URLs are: what was verified, what is wrong, what is not known.

    ``paths`` is one path, or several in a list.

    Every container is parsed and written again, every image inflated and read with its kernels, and what has a hash is
    compared with it; ``docs/how-to/verify-a-file.md`` says what that means. Nothing is raised for a file: ``findings``
    say what is wrong, and the diagnosis is true if there is none. Files are read on all cores.

    Of a folder that is an environment (venv, conda) every package is asked about on every ``device``, all GPUs of one
    machine, as :func:`fatpack.explain` knows them; without any, on those of this machine.

    ``exclude`` are patterns of files in folders and packages that are left out, ``deep`` searches everything for
    containers, and ``max_inflated`` is as for :func:`fatpack.open`, for all of them together. Raises TypeError for an
    argument of another kind, UsageError for none, and for a pattern that no file has.
    """

    patterns = as_patterns(exclude)
    check_bools(deep=deep)
    names = as_paths("paths", paths)
    unmatched: list[str] = []
    if not isinstance(device, (str, list, tuple)):
        raise TypeError(f"device must be the name of a GPU, or several in a list, got {type(device).__name__}")
    devices = [device] if isinstance(device, str) else list(device)
    budget = make_budget(max_inflated)
    found = diagnose(names, devices=devices, exclude=patterns, deep=deep, unmatched=unmatched, budget=budget)
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")
    return found


#: how many paths a known bug names
_NAMED = 5


class FileResult(Record):
    """A leaf that was examined, or a package after the files in it (``package``).

    ``content`` is what a file in a package has, or why that cannot be read, ``record`` the bytes of a file that is
    RECORD of a wheel; ``error`` is why a file could not be read, ``exit_code`` what that exits with.
    """

    path: str
    host: str
    size: int | None
    notes: DoctorNotes
    extent: LoadedExtent | None = None
    package: str = ""
    content: StatedFile | Finding | None = None
    record: bytes | None = None
    error: str | None = None
    exit_code: int = FINE


class _FileExaminer(Record):
    """Verifies one file, in this process or another."""

    deep: bool

    def __call__(self, leaf: InputFile) -> FileResult:
        notes = DoctorNotes()
        notes.extend(leaf.findings)
        if leaf.view is None:
            if leaf.error is None:
                return FileResult(leaf.path, leaf.package, leaf.size, notes, package=leaf.package)
            return _unread(leaf.path, leaf.error, notes, leaf.package, leaf.size)
        view, content, record = leaf.view, None, None
        is_member = SEPARATOR in leaf.path and hasattr(leaf.path, "names")
        try:
            if is_member:
                content, record = _content(leaf, notes)
            found = examine_file(view, deep=self.deep)
        except (FatpackError, OSError) as error:
            return _unread(leaf.path, error, notes, size=leaf.size)
        if isinstance(content, Finding):
            found.notes.drop(content)
        notes.join(found.notes)
        return FileResult(leaf.path, found.host, found.size, notes, found.reach, content=content, record=record)


def _unread(
    path: str, error: FatpackError | OSError, notes: DoctorNotes, package: str = "", size: int | None = None
) -> FileResult:
    return FileResult(
        path, package, size, notes, package=package, error=error_message(error), exit_code=exit_code(error)
    )


def _content(leaf: InputFile, notes: DoctorNotes) -> tuple[StatedFile | Finding, bytes | None]:
    """Return what the bytes of a file in a package are, or why they are not, and of a RECORD the bytes themselves."""
    assert leaf.view is not None
    source = leaf.view.source
    try:
        content = package_checksums.read_member(source)
    except FormatError as error:
        damage = finding(code_for_error("FP1710", error), leaf.view.span(), error.describe(), error.hint)
        notes.add(damage)
        return damage, None
    return content, package_checksums.read_record(source) if package_checksums.is_record(_names(leaf.path)[1]) else None


def _names(path: str) -> tuple[str, str]:
    """Return the path of the package that a file is in, and its stored name there."""
    name = path.names[-1] if isinstance(path, MemberPath) else path.rpartition(SEPARATOR)[2]
    return path[: -len(name) - 1], name


def diagnose(
    paths: Sequence[str | os.PathLike[str]],
    *,
    devices: Sequence[str] = (),
    exclude: Sequence[str] = (),
    deep: bool = False,
    opener: Opener | None = None,
    unmatched: list[str] | None = None,
    on_file: Callable[[bool], None] | None = None,
    budget: Budget | None = None,
) -> DoctorResult:
    """Return how files, folders, patterns, packages and URLs are. Nothing is raised for a file.

    ``devices`` are the names of the GPUs of a machine, for environments among the folders; none means this machine's.
    ``exclude`` are patterns of files to be left out, ``deep`` searches everything for containers, ``unmatched`` gets
    the patterns in ``paths`` that no file has, and ``on_file`` is called for each file, with True if it has images.
    ``opener`` opens addresses, such as ``libx.a(m.o)``, which otherwise are names of files. Raises UsageError for
    devices without an environment, TargetError for unknown devices.
    """
    budget = current_budget() if budget is None else budget
    paths = with_indexed_wheels([os.fspath(path) for path in paths])
    tensile = TensileFinder(budget, deep=deep, is_filtered=bool(exclude))
    counts, rules, summing = SkipCounts(), Filter(tuple(exclude), deep), _DiagnosisBuilder(budget, tensile)
    missing: list[str] = [] if unmatched is None else unmatched
    examine = _FileExaminer(deep)
    for result in map_paths(paths, examine, rules, counts, missing, budget=budget, opener=opener, shares_inside=True):
        summing.take(result)
        if on_file is not None:
            on_file(result.notes.counts.get("images", 0) > 0)
    for path in paths:
        if os.path.isdir(path):
            summing.look_for_archives(os.fspath(path))
    environments = [os.fspath(path) for path in paths if _is_environment(os.fspath(path))]
    if devices and not environments:
        raise UsageError(
            "devices are asked about in environments alone, and none was named",
            hint="name the folder that has pyvenv.cfg or conda-meta; fatpack explain asks about files",
        )
    for folder in environments:
        summing.look_at_gpus(folder, devices)
    summing.compare_variants()
    summing.compare_tensile_tables()
    return summing.diagnosis(counts)


def _is_environment(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "pyvenv.cfg")) or os.path.isdir(os.path.join(path, "conda-meta"))


class _DiagnosisBuilder:
    """A diagnosis in the making: one file after the other."""

    def __init__(self, budget: Budget, tensile: TensileFinder) -> None:
        self._budget = budget
        self._tensile = tensile
        self._notes = DoctorNotes()
        self._files = 0
        #: packages, and folders with something wrong
        self._packages = 0
        self._codes = {FINE}
        self._affected: list[FileReport] = []
        self._reaches: list[RelocationReach] = []
        #: what was not verified and why → how much, in which file first, in how many
        self._skipped: dict[tuple[str, str], tuple[int, str, int]] = {}
        #: known bug → evidence, paths
        self._bugs: dict[str, tuple[dict[str, None], list[str], int]] = {}
        #: package → its files, and how many RECORDs it has, with the first of them
        self._contents: dict[str, dict[str, StatedFile | Finding]] = {}
        self._records: dict[str, tuple[int, bytes | None]] = {}
        self._has_archives = False
        #: the wheels, whose descriptions of variants are compared with each other
        self._wheels: list[str] = []
        #: outermost package → files of packages in it with which nothing was compared
        self._uncompared: dict[str, int] = {}

    def take(self, result: FileResult) -> None:
        """Take up what was found in a file."""
        notes = result.notes
        self._tensile.take(result.path, notes.archs)
        if result.content is not None:
            package, name = _names(result.path)
            self._contents.setdefault(package, {})[name] = result.content
            if package_checksums.is_record(name):
                count, first = self._records.get(package, (0, result.record))
                self._records[package] = count + 1, first
        if result.package:
            self._packages += 1
            if result.package == "zip" and result.error is None:
                self._wheels.append(result.path)
            self._package(result)
        elif result.error is None:
            self._files += 1
            notes.count("files")
        self._has_archives = self._has_archives or any(item.code == "FP3004" for item in notes.findings)
        state = "unread" if result.error is not None else notes.state
        if result.error is not None:
            self._files += not result.package
            self._codes.add(result.exit_code)
        if "limit" in notes.severities:
            notes.skip(
                "files or parts of them", "a limit or an unsupported part ended the reading, as the findings say"
            )
        self._codes.add(notes.exit_code)
        if state != "healthy":
            self._affected.append(FileReport(result.path, result.size, result.host, state, result.error))
        for (what, why), count in notes.skipped.items():
            self._skip(what, why, count, result.path)
        self._note_bugs(notes, result.path)
        if result.extent is not None:
            extent = result.extent
            archs = tuple(sorted(notes.archs.items(), key=lambda item: -item[1]))
            self._reaches.append(
                RelocationReach(result.path, extent.is_linked, extent.reached, extent.device, extent.limit, archs)
            )
        notes.skipped, notes.archs, notes.facts, notes.sections = {}, {}, {}, set()
        self._notes.join(notes)

    def _package(self, result: FileResult) -> None:
        """Compare the files of a package with what it says of them; those of packages in it come before it."""
        contents = self._contents.pop(result.path, {})
        count, record = self._records.pop(result.path, (0, None))
        outermost = result.path.names[0] if isinstance(result.path, MemberPath) else result.path
        inner = self._uncompared.pop(outermost, 0)
        if result.package == "zip":
            self._zip(result, contents, count, record)
        elif result.path != outermost:
            inner += len(contents)
            contents = {}
        if result.path != outermost:
            self._uncompared[outermost] = inner
            return
        if result.error is None and package_checksums.verify_package(
            result.path, result.package, result.notes, self._budget
        ):
            return
        inner += len(contents) if result.package != "zip" else 0
        if inner:
            result.notes.skip("files of packages", f"no checksums of them: {result.package}", inner)

    def _zip(
        self, result: FileResult, contents: dict[str, StatedFile | Finding], count: int, record: bytes | None
    ) -> None:
        record = record if count == 1 else None
        # Of a damaged archive files are missing from the list, and RECORD may be one of them.
        is_damaged = "error" in result.notes.severities
        if record is None and not is_damaged and (count or (result.path.lower().endswith(".whl") and not result.error)):
            package_checksums.check_records(result.path, result.size or 0, count, result.notes)
        try:
            package_checksums.check_zip(result.path, result.size or 0, contents, record, result.notes, self._budget)
        except (FatpackError, OSError) as error:
            result.notes.skip("files of wheels", error_message(error))

    def look_for_archives(self, folder: str) -> None:
        """Check that the programs of a folder find their code, if any of them looks for it in kpack archives."""
        if not self._has_archives:
            return
        from fatpack.commands.check_kpack.run import LoaderSettings, check_folder

        try:
            checked = check_folder(folder, LoaderSettings())
        except (FatpackError, OSError) as error:
            self._skip("kpack lookups", error_message(error), 1, folder)
            return
        notes = DoctorNotes()
        notes.count(
            "kpack lookups", sum(len(program.markers) for program in checked.folder.programs) * len(checked.devices)
        )
        notes.extend(item for item in checked.findings if item.code.startswith("FP31") and item.code != "FP3110")
        if notes.state != "healthy":
            self._codes.add(notes.exit_code)
            self._packages += 1
            self._affected.append(FileReport(folder, None, "folder", notes.state))
        self._note_bugs(notes, folder)
        self._notes.join(notes)

    def look_at_gpus(self, folder: str, devices: Sequence[str]) -> None:
        """Check that something of each package of an environment runs on every GPU of the machine."""
        from fatpack.commands.explain.request import explain

        try:
            explained = explain((), devices or [THIS_MACHINE], environment=folder)
        except TargetError as error:
            if devices:
                raise
            self._skip("packages on GPUs", error_message(error), 1, folder)
            return
        except (FatpackError, OSError) as error:
            self._skip("packages on GPUs", error_message(error), 1, folder)
            return
        notes = DoctorNotes()
        notes.count("GPUs", sum(len(package.outcomes) for package in explained.packages))
        for package in explained.packages:
            for outcome in package.outcomes:
                if outcome.fails and not outcome.runs:
                    hint = next(iter(package.notes), f"install a build that has code for {outcome.device}")
                    text = f"nothing of {package.package} runs on {outcome.device}: {outcome.reason}"
                    notes.add(finding("FP3608", Span(0, 0, (folder,)), text, hint))
                elif outcome.fails:
                    why = f"do not run on {outcome.device}, and other files of their package do"
                    self._skip("files of packages", why, outcome.fails, folder)
                if outcome.unknown:
                    self._skip(
                        "files of packages", f"it is not known if they run on {outcome.device}", outcome.unknown, folder
                    )
        if notes.state != "healthy":
            self._codes.add(notes.exit_code)
            self._packages += 1
            self._affected.append(FileReport(folder, None, "folder", notes.state))
        self._notes.join(notes)

    def compare_variants(self) -> None:
        """Check that installers accept what wheels and their index files say of variants, as ``check`` does."""
        from fatpack.distributions.variant_descriptions import description_problems, read_wheel
        from fatpack.packages.wheel_names import split_wheel_name

        wheels = []
        for path in self._wheels:
            name = split_wheel_name(path.names[-1] if isinstance(path, MemberPath) else path)
            if name is not None:
                wheels.append(read_wheel(path, name, self._budget))
        self._notes.count("variants", sum(1 for wheel in wheels if wheel.document is not None))
        of_path: dict[str, DoctorNotes] = {}
        for each in description_problems(wheels):
            notes = of_path.setdefault(each.path, DoctorNotes())
            told = finding(each.code, Span(0, 0, (each.path,)), each.message, each.hint)
            # A description that installers refuse is no damage, unless it cannot be read.
            is_refused = told.severity == "error" and each.code != "FP3301"
            notes.add(told.replace(severity="warning") if is_refused else told)
        known = {report.path for report in self._affected}
        for path, notes in of_path.items():
            if notes.state != "healthy":
                self._codes.add(notes.exit_code)
                if path not in known:
                    self._affected.append(FileReport(path, None, "zip" if path in self._wheels else "raw", notes.state))
            self._notes.join(notes)

    def compare_tensile_tables(self) -> None:
        """Compare what the tables of Tensile's libraries name with the files that are there."""
        for library in self._tensile.libraries():
            notes = DoctorNotes()
            notes.count("tensile tables", sum(target.tables for target in library.targets))
            notes.extend(library.every_finding)
            if not library.is_read:
                notes.skip("libraries of Tensile", "no table in MessagePack says what belongs to them")
            for (what, why), count in notes.skipped.items():
                self._skip(what, why, count, library.path)
            notes.skipped = {}
            self._codes.add(notes.exit_code)
            if notes.state != "healthy":
                self._packages += 1
                self._affected.append(FileReport(library.path, None, "folder", notes.state))
            self._notes.join(notes)

    def _note_bugs(self, notes: DoctorNotes, path: str) -> None:
        """Note the bugs that findings and facts of a file are evidence of; without any, the table is not read."""
        for bug in known_bugs() if notes.findings or notes.facts else ():
            evidence = bug.evidence(notes.findings, notes.facts)
            if evidence:
                codes, paths, count = self._bugs.get(bug.name, ({}, [], 0))
                codes.update(dict.fromkeys(evidence))
                if len(paths) < _NAMED:
                    paths.append(path)
                self._bugs[bug.name] = codes, paths, count + 1

    def _skip(self, what: str, why: str, count: int, path: str) -> None:
        before, first, files = self._skipped.get((what, why), (0, path, 0))
        self._skipped[what, why] = before + count, first, files + 1

    def diagnosis(self, counts: SkipCounts) -> DoctorResult:
        """Return what all files together are."""
        for number, what, why in make_skipped(counts).reasons():
            self._skipped[what, why] = number, "", 0
        notes = self._notes
        if not notes.device_images:
            self._codes.add(FINDINGS)  # of what a healthy file has, nothing was there
        return DoctorResult(
            files=self._files,
            packages=self._packages,
            images=notes.counts.get("images", 0),
            images_found=notes.images,
            inflated=notes.inflated,
            affected=tuple(self._affected),
            verified=tuple(
                VerifiedCount(what, notes.counts.get(what, 0), notes.wrong.get(what, 0)) for what in VERIFIED
            ),
            findings=tuple(notes.findings),
            more=tuple((item.code, item.count) for item in notes.more()),
            known_bugs=tuple(self._known()),
            reaches=tuple(sorted(self._reaches, key=lambda item: -item.span)),
            not_verified=tuple(
                NotVerified(what, why, count, path, files)
                for (what, why), (count, path, files) in self._skipped.items()
            ),
            exit_code=worst_exit_code(self._codes),
        )

    def _known(self) -> Iterator[KnownBug]:
        for bug in known_bugs():
            if bug.name in self._bugs:
                codes, paths, count = self._bugs[bug.name]
                yield KnownBug(
                    bug.name,
                    bug.side,
                    bug.producer,
                    bug.versions,
                    bug.what,
                    bug.advice,
                    bug.sources,
                    tuple(codes),
                    tuple(paths),
                    count,
                )
