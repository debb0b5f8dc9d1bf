"""Device code that no device needs taken out of a copy of a file: ``slim``."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from contextlib import ExitStack

from fatpack.command_line.edit_io import check_output
from fatpack.command_line.shared_options import allow_any_output, check_output_name
from fatpack.commands.slim.image_files import check_folder_target, is_image_folder
from fatpack.commands.slim.options import NameChange, SlimOptions
from fatpack.commands.slim.outcome import (
    SlimOutcome,
    count_by_arch,
    exit_code_for,
    find_unsupported_devices,
    needs_new_name,
    refuse_all,
    refuse_unmatched_patterns,
)
from fatpack.commands.slim.packages import changed_name, is_container_image, is_package, slim_package
from fatpack.commands.slim.result import plan_with_digests
from fatpack.commands.slim.store_files import make_stores
from fatpack.errors import UsageError, cli_or_api
from fatpack.exit_codes import FINE
from fatpack.io.atomic_write import NewFolder, check_target, write_file
from fatpack.library.arguments import (
    as_path,
    as_strings,
    check_bools,
    check_type,
    issue_warnings,
    make_budget,
    open_input,
    write_edited,
)
from fatpack.record import Record
from fatpack.result import Result
from fatpack.selectors.address import Address, find_location, parse_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from fatpack.command_line.edit_io import EditDestination
    from fatpack.commands.slim.outcome import PackageLibrary, Slimming
    from fatpack.commands.slim.policy import PlanReader, SlimPolicy
    from fatpack.commands.slim.used import UseRequest
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.library.arguments import Output
    from fatpack.literals import KeepPtx, Recompression, SlimMode, Widening
    from fatpack.targets.devices import Device


__all__ = ["SlimResult", "slim"]

#: the highest level of any method
LAST_LEVEL = 22


#: advice for a package without an output: its new name differs, as its content does
_INTO_FOLDER = "-d DIR for a package under a name of its own, or -o FILE"


class SlimResult(Result):
    """The result for one file: its sizes in bytes, and the kept and removed images for each architecture.

    Architectures are named as patterns name them: ``sm_90a``, ``compute_80`` for PTX. ``mode`` is "" for a file that
    stays as it is, ``edit`` for objects, archives and containers, ``shrink`` or ``zero`` for linked files. ``notes``
    say what was not slimmed and why. Of a package the numbers are those of all files in it, ``before`` and ``after``
    are its own sizes, ``mode`` is ``edit`` if it changed, and ``path`` is where it was written. ``unserved`` are
    the requested devices that no image is known to be for. ``lost`` are the kernels that cannot run any more, by
    ``drop_unused``. ``exit_code`` is what ``fatpack slim`` exits
    with: 0 if every request was fulfilled.
    """

    before: int
    after: int
    mode: str
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    notes: tuple[str, ...] = ()
    path: str = ""
    unserved: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    exit_code: int = FINE


def slim(
    file: Input,
    output: Output,
    *,
    devices: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    keep_ptx: KeepPtx | None = None,
    allow_empty: bool = False,
    recompress: Recompression | None = None,
    level: int | None = None,
    lossless: bool = False,
    drop_dead: bool = False,
    driver: str | float | None = None,
    mode: SlimMode = "auto",
    drop_signature: bool = False,
    used: str | Sequence[str] = (),
    widen: Widening | None = None,
    drop_unused: bool = False,
    by_use_also: str | Sequence[str] = (),
    accept_missing: int | None = None,
    max_size: int | str | None = None,
    priority: str | Sequence[str] = (),
    config: str | os.PathLike[str] | None = None,
    plan: str | os.PathLike[str] | None = None,
    strict: bool = False,
    build_tag: str = "",
    local_version: str = "",
    overwrite: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> SlimResult:
    """Write a copy of a file with the device code that some devices load, and say what stayed and went.

    The file is a linked program or library (ELF, PE), an object, an archive or a container. ``devices`` are
    architectures or what devices are sold as (``sm_86``, ``gfx942``, ``RTX 4090``, ``this-machine``); of each container
    stays what their runtimes would take. ``keep`` and ``drop`` are patterns of architectures (``sm_9*``, ``compute_80``
    for PTX). ``keep_ptx`` is what becomes of other PTX: by default the newest stays where devices or ``keep`` are
    given, else all. In linked files what code can reach keeps its address; ``mode`` says how they lose bytes.
    ``drop_dead`` removes the images that can never run, because every device takes another image of their container:
    docs/dead-code.md says what that assumes. ``lossless`` removes nothing else, and compresses images as well as a
    ``driver`` (``"525"``) inflates them: with zstd for CUDA 12.4 and newer and where none is given, else with LZ4.
    ``recompress`` compresses images anew, at a ``level``. ``drop_signature`` takes the signature out of a signed PE
    image, which else is refused.

    ``used`` are profiles of recorded runs (Nsight Systems' SQLite, traces of torch.profiler, rocprofv3, Negativa-ML,
    or names). Containers of which no kernel ran keep PTX alone where it serves their devices, else everything, or
    nothing with ``drop_unused``: then their kernels fail, ``lost`` lists them, and ``exit_code`` is 1 unless they are
    ``accept_missing``. Other instances of a used template with the same functor stay, unless ``widen`` is ``none``.
    ``by_use_also`` names libraries that choose kernels at run time, which else stay whole.
    ``max_size`` (``"400MB"``) takes steps until the file fits, first those that cost users least: see
    ``docs/how-to/slim-by-use-or-size.md``. Devices go from the end of ``priority``, kernels by ``used``.

    ``config`` is a TOML file with a policy, ``[tool.fatpack.slim]``: rules given here replace its rules, its exceptions
    for libraries hold. ``plan`` is one of ``fatpack slim --save-plan``, and says all; the file must be the same.

    A wheel or conda package is slimmed with all that is in it; ``output`` is the folder that gets it then. If it
    changes it gets another name, by a ``build_tag`` (``1sm90``), a ``local_version`` (``sm90``, of wheels), or both. If
    neither is given, the build tag is made of the ``devices`` or patterns. Files of AMD's kernel stores for other
    devices are left out of a wheel: docs/how-to/kernel-caches.md.

    A container image (an archive, or an OCI layout in a folder) is slimmed layer by layer, and proved; ``output`` is
    the new archive or folder.

    Raises FatpackError with ``exit_code`` 1 where a container would have no device code left, or none for a device,
    unless ``allow_empty``; TargetError for an unknown device; UsageError, FormatError and HostError as
    :func:`remove` does. ``overwrite``, ``max_inflated`` and ``max_output`` are those of :func:`fatpack.extract`.
    """
    from fatpack.commands.slim.plan import plan_slim
    from fatpack.commands.slim.result import verifier_for

    check_bools(
        overwrite=overwrite,
        allow_empty=allow_empty,
        drop_signature=drop_signature,
        lossless=lossless,
        drop_dead=drop_dead,
        strict=strict,
        drop_unused=drop_unused,
    )
    given = {
        "devices": as_strings("devices", devices),
        "keep": as_strings("keep", keep),
        "drop": as_strings("drop", drop),
        "keep_ptx": keep_ptx,
        "allow_empty": allow_empty,
        "recompress": recompress,
        "level": None if level is None else check_type("level", level, int, "a whole number"),
        "lossless": lossless,
        "drop_dead": drop_dead,
        "driver": "" if driver is None else str(driver),
        "mode": mode,
        "drop_signature": drop_signature,
        "used": as_strings("used", used),
        "widen": widen,
        "drop_unused": drop_unused,
        "by_use_also": as_strings("by_use_also", by_use_also),
        "accept_missing": (
            None if accept_missing is None else check_type("accept_missing", accept_missing, int, "a whole number")
        ),
        "max_size": max_size,
        "priority": as_strings("priority", priority),
    }
    options, is_strict = options_with_rules(given, config, plan)
    naming = NameChange(
        check_type("build_tag", build_tag, str, "a text"), check_type("local_version", local_version, str, "a text")
    )
    if isinstance(file, (str, os.PathLike)) and is_image_folder(os.fspath(file)):
        return _image(os.fspath(file), output, options, overwrite=overwrite, is_strict=strict or is_strict)
    with open_input("file", file, budget=make_budget(max_inflated, max_output)) as source:
        check_naming(naming, [source.name])
        if options.plan is not None:
            options.plan.take_file(source.view())
        if is_container_image(source.view(), source.name):
            return _image(source.view(), output, options, overwrite=overwrite, is_strict=strict or is_strict)
        notes: tuple[str, ...] = ()
        if options.size is not None:
            from fatpack.commands.slim.budget import plan_for_size

            steps = plan_for_size(source.view(), source.name, options, naming)
            options, notes = steps.options, tuple(steps.lines())
        if is_package(source.view(), source.name):
            done = _package(source, output, options, naming, overwrite=overwrite, is_strict=strict or is_strict)
            return done.replace(notes=(*notes, *done.notes))
        place = find_location(source.view(), Address(source.name, ""))
        _refuse_existing(output, source.view(), overwrite=overwrite)
        made = plan_slim(place.view, options)
        issue_warnings(finding.text for finding in made.damaged)
        planned = SlimOutcome(source.name, len(source.view()), 0, "", made)
        refuse_unmatched_patterns([planned], options, source.view().chain)
        after = write_edited(source.view(), made.pieces, output, overwrite=overwrite, check=verifier_for(made))
        kept, dropped = count_by_arch(made.kept), count_by_arch(made.dropped)
        outcome = planned.replace(after=after)
        devices, code = _unserved([outcome], options), exit_code_for([outcome], options)
        lost = () if made.use is None else made.use.lost
        notes = (*notes, *made.notes)
        return SlimResult(outcome.before, after, made.mode, kept, dropped, notes, "", devices, lost, code)


def _refuse_existing(output: Output, view: View, *, overwrite: bool) -> None:
    """Raise what writing a path would raise because it is there, before any work is done; writing checks it again."""
    if isinstance(output, (str, os.PathLike)):
        check_target(os.fspath(output), overwrite, [view])


def options_with_rules(
    given: Mapping[str, Any], config: str | os.PathLike[str] | None, plan: str | os.PathLike[str] | None
) -> tuple[SlimOptions, bool]:
    """Return the options of a call with those of a policy file or a plan, and whether these are strict.

    ``given`` are the arguments of :func:`make_slim_options`. Raises what that and reading the file raise.
    """
    if config is None and plan is None:
        return make_slim_options(**given), False
    from fatpack.commands.slim.policy import PlanReader, add_policy, find_policy

    reader = None if plan is None else PlanReader(as_path("plan", plan))
    if reader is not None:
        names = [name for name, value in (*given.items(), ("config", config)) if value and (name, value) != _MODE]
        if names:
            raise UsageError(f"{names[0]} does nothing with plan, which says all", hint="leave it out")
    policy = find_policy(as_path("config", config), reads=True) if reader is None else reader.policy
    assert policy is not None
    merged, exceptions = add_policy(given, policy, make_slim_options)
    options = make_slim_options(**merged).replace(exceptions=exceptions, plan=reader)
    return options, bool(policy.values.get("strict"))


#: the mode by default
_MODE = ("mode", "auto")


def _unserved(outcomes: Sequence[SlimOutcome], options: SlimOptions) -> tuple[str, ...]:
    return tuple(one.device.words for one in find_unsupported_devices(outcomes, options.devices))


def _package(
    source: Source, output: Output, options: SlimOptions, naming: NameChange, *, overwrite: bool, is_strict: bool
) -> SlimResult:
    if not isinstance(output, (str, os.PathLike)):
        raise UsageError("a slimmed package has a name of its own", hint="give the path of a folder as output")
    if needs_new_name(os.fspath(output)) and not os.path.isdir(output):
        folder = os.path.dirname(output) or os.curdir
        raise UsageError(
            f"{os.fspath(output)} is the name of a package, and output is the folder that gets one",
            hint=f"give {folder}: the slimmed package gets a name of its own there",
        )
    view = source.view()
    with ExitStack() as stack:
        naming = naming.for_options(options)
        name = changed_name(source.name, naming)
        if name:
            _refuse_existing(os.path.join(output, name), view, overwrite=overwrite)
        options = options.for_many_files("drop" if source.name.endswith(".whl") else "keep")
        slimming: Slimming = lambda part: plan_with_digests(part, options)  # noqa: E731
        strict = refuse_all(slimming) if is_strict else slimming
        made = slim_package(view, source.name, strict, naming, stack, make_stores(options))
        libraries = () if made is None else made.libraries
        refuse_unmatched_patterns([item.outcome for item in libraries], options, view.chain)
        name = os.path.basename(source.name) if made is None else made.name
        path = os.path.join(output, name)
        verify = None if made is None else made.verify
        pieces = [view] if made is None else made.pieces
        with NewFolder(os.fspath(output)):
            size = write_file(path, pieces, force=overwrite, inputs=[view], verify=verify)
    notes = () if made is None else made.notes
    is_changed = made is not None and made.is_changed
    return _members_result(libraries, notes, options, (len(view), size), path, is_changed=is_changed)


def _image(image: str | View, output: Output, options: SlimOptions, *, overwrite: bool, is_strict: bool) -> SlimResult:
    from fatpack.commands.slim.image_run import ImageJob, refuse_unproved

    if not isinstance(output, (str, os.PathLike)):
        raise UsageError("a slimmed image is read again before it gets its name", hint="give a path as output")
    if options.size is not None:
        raise UsageError("a size is reached for libraries and packages, and this is an image", hint="give devices")
    options = options.for_many_files("keep")
    slimming: Slimming = lambda part: plan_with_digests(part, options)  # noqa: E731
    with ImageJob(image, refuse_all(slimming) if is_strict else slimming, options) as job:
        if isinstance(image, str):
            check_folder_target(os.fspath(output))
        else:
            _refuse_existing(output, image, overwrite=overwrite)
        made = job.slim()
        chain = (image,) if isinstance(image, str) else image.chain
        refuse_unmatched_patterns([item.outcome for item in made.libraries], options, chain)
        path = os.fspath(output)
        size = job.write(path, force=overwrite, prove=lambda after: refuse_unproved(image, after), quiet=True)
        sizes = job.size, size
    return _members_result(made.libraries, made.notes, options, sizes, path, is_changed=made.is_changed)


def _members_result(
    libraries: Iterable[PackageLibrary],
    remarks: Iterable[str],
    options: SlimOptions,
    sizes: tuple[int, int],
    path: str,
    *,
    is_changed: bool,
) -> SlimResult:
    """Return the result for a package or an image, which was written to ``path``."""
    kept: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    notes = list(remarks)
    outcomes = [item.outcome for item in libraries]
    for outcome in outcomes:
        if outcome.plan is not None:
            kept.update(count_by_arch(outcome.plan.kept))
            dropped.update(count_by_arch(outcome.plan.dropped))
        if outcome.error is not None:
            notes.append(f"{outcome.path} is not slimmed: {getattr(outcome.error, 'problem', outcome.error)}")
    outcomes = [item for item in outcomes if item.error is not None or item.has_device_code]
    facts = dict(kept), dict(dropped), tuple(notes), path
    unserved, code = _unserved(outcomes, options), exit_code_for(outcomes, options)
    uses = [item.plan.use for item in outcomes if item.plan is not None and item.plan.use is not None]
    lost = tuple(sorted({name for use in uses for name in use.lost}))
    before, after = sizes
    return SlimResult(before, after, "edit" if is_changed else "", *facts, unserved, lost, code)


def make_slim_options(
    *,
    devices: Sequence[str] = (),
    keep: Iterable[str] = (),
    drop: Iterable[str] = (),
    keep_ptx: KeepPtx | None = None,
    allow_empty: bool = False,
    recompress: Recompression | None = None,
    level: int | None = None,
    lossless: bool = False,
    drop_dead: bool = False,
    driver: str = "",
    mode: SlimMode = "auto",
    drop_signature: bool = False,
    used: Sequence[str] = (),
    widen: Widening | None = None,
    drop_unused: bool = False,
    by_use_also: Sequence[str] = (),
    accept_missing: int | None = None,
    max_size: int | str | None = None,
    priority: Sequence[str] = (),
) -> SlimOptions:
    """Return the options of a request, checked; both the command line and the library call this.

    Raises UsageError for options that ask for nothing or contradict each other, TargetError for an unknown device.
    """
    if driver and not lossless and max_size is None:
        names = cli_or_api("--driver goes with --lossless or --max-size", "driver goes with lossless or max_size")
        raise UsageError(names, hint=cli_or_api("slim --lossless --driver 525", "lossless=True, driver='525'"))
    if lossless:
        if devices or keep or drop or keep_ptx or recompress or used or max_size is not None:
            both = cli_or_api(
                "--lossless keeps every image, and --for, --keep, --drop, --keep-ptx, --recompress, --used "
                "and --max-size "
                "say otherwise",
                "lossless keeps every image, and devices, keep, drop, keep_ptx, recompress, used "
                "and max_size say otherwise",
            )
            raise UsageError(both, hint="slim twice, first without loss")
        recompress = _method_for(driver)
    named: tuple[Device, ...] = ()
    if devices:
        from fatpack.targets.local_devices import parse_devices

        named = parse_devices(devices)
    gives_ptx_up = max_size is not None and keep_ptx == "none"  # a step of its own then, not a rule
    options = SlimOptions(
        devices=named,
        keep=_parse_patterns("keep", keep),
        drop=_parse_patterns("drop", drop),
        keep_ptx=None if gives_ptx_up else keep_ptx,
        allow_empty=allow_empty,
        recompress=recompress,
        level=level,
        mode=mode,
        drop_signature=drop_signature,
        lossless=lossless,
        drop_dead=drop_dead,
        **_use_and_size(
            _use_request(used, drop_unused, by_use_also, accept_missing, widen),
            max_size,
            priority,
            driver=driver,
            drops_ptx=gives_ptx_up,
        ),
    )
    if not options.drops and recompress is None:
        hint = cli_or_api(
            "--for DEVICE, --drop PATTERN, --keep PATTERN, --drop-dead or --lossless",
            "give devices, keep, drop, drop_dead or lossless",
        )
        raise UsageError("no rule says which images to remove", hint=hint)
    if level is not None and recompress is None:
        names = cli_or_api("--level goes with --recompress", "level goes with recompress")
        raise UsageError(names, hint=cli_or_api("--recompress zstd --level 19", "recompress='zstd', level=19"))
    if level is not None and not 0 <= level <= LAST_LEVEL:
        raise UsageError(f"level is {level}", hint=f"give a number from 0 to {LAST_LEVEL}")
    return options


def _use_request(
    used: Sequence[str], drops_unused: bool, also: Sequence[str], accepted: int | None, widen: Widening | None
) -> UseRequest | None:
    if not used:
        for option, name, is_given in (
            ("--drop-unused", "drop_unused", drops_unused),
            ("--by-use-also", "by_use_also", bool(also)),
            ("--accept-missing", "accept_missing", accepted is not None),
            ("--widen", "widen", widen is not None),
        ):
            if is_given:
                words = cli_or_api(f"{option} goes with --used", f"{name} goes with used")
                raise UsageError(words, hint=cli_or_api("--used PROFILE", "used='PROFILE'"))
        return None
    if accepted is not None and accepted < 0:
        raise UsageError(f"accept_missing is {accepted}", hint="give the number of kernels that may be lost")
    from fatpack.commands.slim.used import UseRequest
    from fatpack.selectors.profiles import read_profiles

    if widen not in (None, "siblings", "none"):
        raise UsageError(f"widen {widen!r}", hint="choose from siblings, none")
    return UseRequest(read_profiles(used), drops_unused, tuple(also), accepted, widen != "none")


def _use_and_size(
    use: UseRequest | None, max_size: int | str | None, priority: Sequence[str], *, driver: str, drops_ptx: bool
) -> dict[str, Any]:
    """Return the options that say which kernels ran and which size is to be reached: the first is its last step."""
    if max_size is None:
        if priority:
            names = cli_or_api("--priority goes with --max-size", "priority goes with max_size")
            raise UsageError(names, hint=cli_or_api("--max-size 400MB", "max_size='400MB'"))
        return {"use": use}
    from fatpack.commands.slim.budget import SizeRequest, parse_max_size
    from fatpack.targets.local_devices import parse_devices

    devices = parse_devices(priority) if priority else ()
    has_zstd = bool(driver) and _method_for(driver) == "zstd"
    return {"size": SizeRequest(parse_max_size(max_size), devices, use, has_zstd, drops_ptx)}


def _method_for(driver: str) -> Recompression:
    """Return the best compression method that a driver inflates; zstd if no driver is given."""
    if not driver:
        return "zstd"
    from fatpack.targets.selection.cuda import ZSTD_SINCE
    from fatpack.targets.selection.drivers import driver_cuda

    return "zstd" if driver_cuda(driver) >= ZSTD_SINCE else "lz4"


def _parse_patterns(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    found = tuple(part.strip() for text in texts for part in text.split(","))
    if "" in found:
        raise UsageError(
            f"{cli_or_api(f'--{name}', name)}: a pattern is empty", hint="write PATTERN or PATTERN,PATTERN, as sm_9*"
        )
    return found


def check_naming(naming: NameChange, files: Iterable[str]) -> None:
    """Raise UsageError for a build tag or a local version if none of the files is a wheel or conda package."""
    if naming != NameChange() and not any(map(needs_new_name, files)):
        names = cli_or_api("--build-tag and --local-version", "build_tag and local_version")
        raise UsageError(
            f"{names} name wheels and conda packages, and none is given",
            hint="leave them out: other files keep their names",
        )


# The request of ``fatpack slim``, checked before a file is opened.

#: what says something of a proof of two files; all other options ask for a file to be made
_OF_PROOFS = ("as_json", "certificate", "force", "max_inflated", "max_output", "output", "quiet", "verify")


class SlimRequest(Record):
    """The files, what is wished, and where the results go: to one place, or into the folder ``directory``.

    ``deflates`` asks for sizes as in a wheel, ``certificate`` is the file that the proof is written to. ``naming`` says
    how a package that changes is called, ``sbom`` is the file that lists what device code it holds. ``environment`` is
    the folder of an environment, in the place of files, and ``backup`` the one that its originals go to. ``find_links``
    is a folder of wheels, in the place of files, and ``requirements`` are the locks that choose from them.
    ``keep_layers`` is the number of lowest layers of a container image that stay as they are.
    ``save_plan`` is the file that the plan of a run is written to.
    """

    files: tuple[str, ...]
    options: SlimOptions
    to: EditDestination
    directory: str | None = None
    dry_run: bool = False
    deflates: bool = False
    certificate: str | None = None
    as_json: bool = False
    quiet: bool = False
    naming: NameChange = NameChange()
    sbom: str | None = None
    is_strict: bool = False
    environment: str | None = None
    backup: str | None = None
    find_links: str | None = None
    requirements: tuple[str, ...] = ()
    keep_layers: int = 0
    save_plan: str | None = None

    def check(self) -> None:
        """Raise UsageError unless the options say what to do and where to write."""
        if self.backup is not None and self.environment is None:
            raise UsageError("--backup goes with --environment", hint="-d DIR slims a copy of a folder or file")
        if self.environment is not None:
            self._check_environment()
        elif self.find_links is not None or self.requirements:
            self._check_wheelhouse()
        else:
            self._check_files()

    def _check_files(self) -> None:
        if not self.files:
            raise UsageError("no file is given", hint="fatpack slim FILE --for DEVICE -o OUTPUT")
        if self.sbom is not None and len(self.files) > 1:
            raise UsageError("an SBOM is about one package", hint="slim one at a time")
        self._check_effects()
        several = len(self.files) > 1 or os.path.isdir(self.files[0])
        if self.dry_run:
            return
        if self.directory is not None:
            allow_any_output(self.to.force)
            check_output_name(self.directory)
            if self.to.output is not None or self.to.in_place:
                raise UsageError("-d, -o and --in-place exclude each other")
        elif several and not self.to.in_place:
            raise UsageError("several files do not go into one", hint=self._hint_for_several())
        else:
            hints = [_INTO_FOLDER] if self.files[0].endswith((".whl", ".conda", ".tar.bz2")) else []
            check_output(self.files[0], self.to, *hints)
        is_layout = len(self.files) == 1 and os.path.isfile(os.path.join(self.files[0], "oci-layout"))
        if self.certificate is not None and several and not is_layout:
            later = "fatpack slim --verify FOLDER COPY --certificate FILE proves a copy of a folder"
            is_folder = len(self.files) == 1 and os.path.isdir(self.files[0])
            raise UsageError("a certificate is about one file", hint=later if is_folder else "slim one file at a time")
        if self.certificate is not None and self.to.output == "-":
            raise UsageError("a certificate is about two files", hint="write a copy with -o or -d")

    def _hint_for_several(self) -> str:
        """Return the options that say where the files go; environments and image layouts have a way of their own."""
        folder = self.files[0] if len(self.files) == 1 else ""
        if folder and os.path.isfile(os.path.join(folder, "oci-layout")):
            return "-d DIR writes a new layout: images are not changed in place"
        environment = any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))
        if folder and environment:
            return f"--environment {shlex.quote(folder)} slims it in its place, with a journal; -d DIR writes a copy"
        return "-d DIR for all of them, or --in-place"

    def _check_environment(self) -> None:
        """Raise UsageError for options that do nothing where an environment is slimmed in its place."""
        if self.files:
            raise UsageError(
                f"--environment names all that is slimmed, and {self.files[0]} is given too", hint="leave one out"
            )
        given = {
            "-d": self.directory,
            "-o": self.to.output,
            "--certificate": self.certificate,
            "--sbom": self.sbom,
            "--deflated": self.deflates,
            "--build-tag": self.naming.build_tag,
            "--local-version": self.naming.local_version,
        }
        for option, value in given.items():
            if value:
                raise UsageError(
                    f"{option} does nothing with --environment: its files keep their names and places",
                    hint=f"leave {option} out; --backup DIR keeps the originals",
                )

    def _check_wheelhouse(self) -> None:
        """Raise UsageError for options that do nothing where a folder of wheels is slimmed into another."""
        if self.find_links is None:
            raise UsageError(
                "-r names wheels, and no folder has them: fatpack downloads nothing",
                hint=f"pip download -r {self.requirements[0]} -d DIR, then add --find-links DIR",
            )
        if self.files:
            raise UsageError(f"--find-links names all wheels, and {self.files[0]} is given too", hint="leave one out")
        for option, value in {"-o": self.to.output, "--in-place": self.to.in_place, "--sbom": self.sbom}.items():
            if value:
                raise UsageError(f"{option} does nothing with --find-links", hint="-d DIR gets the wheels")
        if self.certificate is not None:
            raise UsageError("a certificate is about one file", hint="slim one wheel at a time")
        if self.directory is None:
            if not self.dry_run:
                raise UsageError("--find-links needs a place for the wheels", hint="-d wheelhouse")
        elif os.path.realpath(self.directory) == os.path.realpath(self.find_links):
            raise UsageError(f"{self.directory} has the old wheels", hint="give another folder with -d")

    def _check_effects(self) -> None:
        """Raise UsageError for an option that would do nothing, and for files that would be written over each other."""
        folders = [file for file in self.files if os.path.isdir(file)]
        packages = [file for file in self.files if needs_new_name(file) and file not in folders]
        check_naming(self.naming, packages)
        if self.sbom is not None and not packages:
            hint = "fatpack inspect --json lists the device code of any file"
            raise UsageError("--sbom is about a wheel or conda package, and none is given", hint=hint)
        if self.deflates and folders:
            hint = "name the files in it, or slim the wheel, where these sizes are always told"
            raise UsageError(f"--deflated is about files, and {folders[0]} is a folder", hint=hint)
        for option, value in (("--sbom", self.sbom), ("--certificate", self.certificate)):
            if self.dry_run and value is not None:
                raise UsageError(f"{option} writes a file, and --dry-run writes none")
        seen: dict[str, str] = {}
        for file in self.files if self.directory is not None and len(self.files) > 1 else ():
            name = os.path.basename(parse_address(file).path)
            if file not in folders and seen.setdefault(name, file) is not file:
                hint = "slim them into different folders, one after the other"
                raise UsageError(f"{seen[name]} and {file} would both be {name} in {self.directory}", hint=hint)


def check_proof_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for options of the command that do nothing where two files are proved."""
    for name, value in options.items():
        is_default = value is None or value is False or value == () or (name, value) == ("mode", "auto")
        if name not in _OF_PROOFS and not is_default:
            option = f"--{name.removeprefix('as_').rstrip('_').replace('_', '-')}"
            hint = f"give {option} when you slim; then compare with --verify"
            raise UsageError(f"{option} does nothing with --verify, which makes no file", hint=hint)


def check_undo_options(files: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the environment that is restored. Raises UsageError for options that do nothing then."""
    environment: str | None = options["environment"]
    if environment is None:
        raise UsageError("--undo restores an environment", hint="fatpack slim --environment .venv --undo")
    for name, value in options.items():
        is_default = value is None or value is False or value == () or (name, value) == ("mode", "auto")
        if name not in ("environment", "quiet", "undo", "max_inflated", "max_output") and not is_default:
            option = f"--{name.removeprefix('as_').rstrip('_').replace('_', '-')}"
            raise UsageError(f"{option} does nothing with --undo", hint="fatpack slim --environment DIR --undo")
    if files:
        raise UsageError(f"--undo restores an environment, and {files[0]} is given too", hint="leave it out")
    return environment


def parse_slim_options(options: Mapping[str, Any], policy: SlimPolicy | None = None) -> SlimOptions:
    """Return the options of the command and of a policy as options of a request, with a plan to write or apply.

    Raises what :func:`make_slim_options` raises.
    """
    keep_ptx = options["keep_ptx"]
    if options["drop_ptx"]:
        if keep_ptx not in (None, "none"):
            raise UsageError("--drop-ptx and --keep-ptx exclude each other", hint="leave one out")
        keep_ptx = "none"
    shared = ("keep", "drop", "allow_empty", "drop_signature", "recompress", "level", "lossless", "drop_dead", "mode")
    by_use = ("used", "widen", "drop_unused", "by_use_also", "accept_missing", "max_size", "priority")
    given = {
        "devices": options["for_"],
        "keep_ptx": keep_ptx,
        "driver": options["driver"] or "",
        **{name: options[name] for name in (*shared, *by_use)},
    }
    if policy is None and options["save_plan"] is None:
        return make_slim_options(**given)
    from fatpack.commands.slim.policy import PlanWriter, SlimPolicy, add_policy, policy_table

    policy = policy or SlimPolicy("", {}, {})
    merged, exceptions = add_policy(given, policy, make_slim_options)
    made = make_slim_options(**merged).replace(exceptions=exceptions)
    if options["save_plan"] is None:
        return made
    for option, is_given in (("--used", made.use is not None), ("--max-size", made.size is not None)):
        if is_given:
            hint = "a plan says what goes by devices and patterns"
            raise UsageError(f"--save-plan and {option} exclude each other", hint=hint)
    return made.replace(plan=PlanWriter(policy_table(made, merged, policy)))


def find_rules(options: Mapping[str, Any]) -> tuple[SlimPolicy | None, PlanReader | None]:
    """Return the policy of a run, and the plan that it comes from where one is applied.

    Raises UsageError for rules beside a plan, and what reading both raises.
    """
    from fatpack.commands.slim.policy import PlanReader, find_policy

    if options["plan"] is None:
        return find_policy(options["config"], reads=not options["no_config"]), None
    names = ("for_", "keep", "drop", "keep_ptx", "drop_ptx", "allow_empty", "drop_signature", "recompress", "lossless")
    for name in (*names, "drop_dead", "driver", "level", "used", "max_size", "config", "save_plan"):
        if options[name]:
            option = f"--{name.removeprefix('as_').rstrip('_').replace('_', '-')}"
            raise UsageError(
                f"{option} does nothing with --plan, which says all", hint="leave it out, or make the plan again"
            )
    plan = PlanReader(options["plan"])
    return plan.policy, plan
