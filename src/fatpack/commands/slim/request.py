"""Device code that no device needs taken out of a copy of a file: ``slim``."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack

from fatpack.commands.edit_request import warn_about_damage
from fatpack.commands.slim.facts import SlimmedFile, plan_with_digests
from fatpack.commands.slim.naming import NameChange, needs_new_name
from fatpack.commands.slim.options import SlimOutcome, count_by_arch, exit_code_for, find_unsupported_devices
from fatpack.commands.slim.packages import is_package, slim_package
from fatpack.errors import UsageError
from fatpack.exit_codes import FINE
from fatpack.io.atomic_write import write_file
from fatpack.library.arguments import as_strings, check_type, make_budget, open_input
from fatpack.library.output import write_edited
from fatpack.result import Result
from fatpack.selectors.address import Address, find_location

__all__ = ["SlimResult", "slim"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.io.open import Input
    from fatpack.io.source import Source
    from fatpack.library.output import Output
    from fatpack.literals import KeepPtx, Recompression, SlimMode


class SlimResult(Result):
    """What became of a file: its sizes in bytes, and the images for each architecture that stayed and went.

    Architectures are named as patterns name them: ``sm_90a``, ``compute_80`` for PTX. ``mode`` is "" for a file that
    stays as it is, ``edit`` for objects, archives and containers, ``shrink`` or ``zero`` for linked files. ``notes``
    say what was not slimmed and why. Of a package the numbers are those of all files in it, ``before`` and ``after``
    are its own sizes, ``mode`` is ``edit`` if it changed, and ``path`` is where it was written. ``unserved`` are
    the devices that were asked for and that nothing is known to be for. ``exit_code`` is what ``fatpack slim`` exits
    with: 0 if all that was asked for is done.
    """

    before: int
    after: int
    mode: str
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    notes: tuple[str, ...] = ()
    path: str = ""
    unserved: tuple[str, ...] = ()
    exit_code: int = FINE


def slim(
    host: Input,
    output: Output,
    *,
    devices: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    keep_ptx: KeepPtx | None = None,
    allow_empty: bool = False,
    recompress: Recompression | None = None,
    level: int | None = None,
    mode: SlimMode = "auto",
    drop_signature: bool = False,
    build_tag: str = "",
    local_version: str = "",
    force: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> SlimResult:
    """Write a copy of a file with the device code that some devices load, and say what stayed and went.

    The file is a linked program or library (ELF, PE), an object, an archive or a container. ``devices`` are
    architectures or what devices are sold as (``sm_86``, ``gfx942``, ``RTX 4090``, ``this-machine``); of each container
    stays what their runtimes would take. ``keep`` and ``drop`` are patterns of architectures (``sm_9*``, ``compute_80``
    for PTX). ``keep_ptx`` is what becomes of other PTX: by default the newest stays where devices or ``keep`` are
    given, else all. In linked files what code can reach keeps its address; ``mode`` says how they lose bytes.
    ``recompress`` compresses images anew, at a ``level``. ``drop_signature`` takes the signature out of a signed PE
    image, which else is refused.

    A wheel or conda package is slimmed with all that is in it; ``output`` is the folder that gets it then. If it
    changes it gets another name, by a ``build_tag`` (``1sm90``), a ``local_version`` (``sm90``, of wheels), or both. If
    neither is given, the build tag is made of the ``devices``.

    Raises FatpackError with ``exit_code`` 1 where a container would have no device code left, or none for a device,
    unless ``allow_empty``; TargetError for a device that nobody knows; UsageError, FormatError and HostError as
    :func:`remove` does. ``force``, ``max_inflated`` and ``max_output`` are as for :func:`fatpack.extract`.
    """
    from fatpack.commands.slim.plan import plan_slim
    from fatpack.commands.slim.result import verifier_for
    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.targets.local_devices import parse_devices as read

    named = as_strings("devices", devices)
    wishes = SlimOptions(
        devices=read(named) if named else (),
        keep=_patterns("keep", keep),
        drop=_patterns("drop", drop),
        keep_ptx=keep_ptx,
        allow_empty=check_type("allow_empty", allow_empty, bool, "True or False"),
        recompress=recompress,
        level=None if level is None else check_type("level", level, int, "a whole number"),
        mode=mode,
        drop_signature=check_type("drop_signature", drop_signature, bool, "True or False"),
    )
    if not wishes.drops and wishes.recompress is None:
        raise UsageError("nothing says what is to go", hint="give devices, keep, drop or recompress")
    naming = NameChange(
        check_type("build_tag", build_tag, str, "a text"), check_type("local_version", local_version, str, "a text")
    )
    with open_input("host", host, budget=make_budget(max_inflated, max_output, force=force)) as source:
        if naming != NameChange() and not needs_new_name(source.name):
            hint = "leave them away: other files keep their names"
            raise UsageError(f"build_tag and local_version are for wheels and conda packages: {source.name}", hint=hint)
        if is_package(source.view(), source.name):
            return _package(source, output, wishes, naming, force=force)
        place = find_location(source.view(), Address(source.name, ""))
        made = plan_slim(place.view, wishes)
        warn_about_damage(made.damaged)
        after = write_edited(source.view(), made.pieces, output, force=force, check=verifier_for(made))
        kept, dropped = count_by_arch(made.kept), count_by_arch(made.dropped)
        outcome = SlimOutcome(source.name, len(source.view()), after, "", made)
        devices, code = _unserved([outcome], wishes), exit_code_for([outcome], wishes.devices)
        return SlimResult(outcome.before, after, made.mode, kept, dropped, made.notes, "", devices, code)


def _unserved(outcomes: Sequence[SlimOutcome], wishes: SlimOptions) -> tuple[str, ...]:
    return tuple(one.device.words for one in find_unsupported_devices(outcomes, wishes.devices))


def _package(source: Source, output: Output, wishes: SlimOptions, naming: NameChange, *, force: bool) -> SlimResult:
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
        naming = naming.for_devices(wishes.devices)
        made = slim_package(view, source.name, lambda part: plan_with_digests(part, wishes), naming, stack)
        name = os.path.basename(source.name) if made is None else made.name
        os.makedirs(output, exist_ok=True)
        path = os.path.join(output, name)
        verify = None if made is None else made.verify
        size = write_file(path, [view] if made is None else made.pieces, force=force, inputs=[view], verify=verify)
    kept: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    notes = [] if made is None else list(made.notes)
    outcomes = []
    for library in () if made is None else made.libraries:
        if isinstance(library.slimmed, SlimmedFile):
            kept.update(count_by_arch(library.slimmed.plan.kept))
            dropped.update(count_by_arch(library.slimmed.plan.dropped))
        plan = library.slimmed.plan if isinstance(library.slimmed, SlimmedFile) else None
        outcomes.append(SlimOutcome(library.name, library.before, library.after, "", plan, library.error))
        if library.error is not None:
            notes.append(f"{library.name} is not slimmed: {getattr(library.error, 'problem', library.error)}")
    is_changed = made is not None and made.is_changed
    outcomes = [item for item in outcomes if item.error is not None or item.has_device_code]
    facts = dict(kept), dict(dropped), tuple(notes), path
    unserved, code = _unserved(outcomes, wishes), exit_code_for(outcomes, wishes.devices)
    return SlimResult(len(view), size, "edit" if is_changed else "", *facts, unserved, code)


def _patterns(argument: str, value: str | Sequence[str]) -> tuple[str, ...]:
    found = tuple(part.strip() for text in as_strings(argument, value) for part in text.split(","))
    if "" in found:
        raise UsageError(f"{argument}: a pattern is empty", hint="give patterns as sm_9*")
    return found
