"""What later stages lost: the device code of earlier ones is followed from stage to stage.

A stage without device code of its own (a host's module, an object whose code comes with the link) is passed over; what
is lost is lost once, in the first stage that lacks it. Each stage is compared by itself: a later one that has what it
lacks may be older. Images alone may be some of several, each in a file of its own: what they lack and the next stage
has was not lost. What cannot be compared is said, and not guessed.
"""

from __future__ import annotations

from fatpack.answers.stages.facts import (
    CONTAINERS,
    IMAGES,
    MODULES,
    OBJECTS,
    PROGRAMS,
    VARIANTS,
    Part,
    Stage,
    is_same,
    place_of,
    processor_of,
)
from fatpack.record import Record
from fatpack.target.compatibility import serves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence
    from typing import Literal

    from fatpack.model import Target

    What = Literal["code", "arch", "kernels", "registration"]

#: LIMIT: lost architectures for which a substitute is looked for, and architectures that are asked whether they are
#: one. The compilers know 200 targets, of three vendors, and a unit is for some of one.
_ASKED = 64

#: architectures that a message names
_SHOWN = 6


class Lost(Record):
    """What a stage lacks that an earlier one has.

    ``what`` is ``code`` (all device code), ``arch`` (what is for one architecture), ``kernels`` (some of one
    architecture), or ``registration`` (kernels that the host's side does not register). ``served`` names architectures
    of the later stage whose code runs on a lost one all the same, as far as they were asked.
    """

    what: What
    arch: str
    kernels: tuple[str, ...]
    had: Stage
    lost: Stage
    served: tuple[str, ...] = ()


class NotCompared(Record):
    """What of a stage could not be compared with the one before it, and why, in words."""

    stage: Stage
    why: str


class _Carried(Record):
    """Device code for one architecture, and the last stage that has it."""

    part: Part
    stage: Stage


def compare(stages: Sequence[Stage]) -> tuple[list[Lost], list[NotCompared]]:
    """Return what was lost on the way through the stages, in their order, and what could not be compared."""
    lost: list[Lost] = []
    not_compared: list[NotCompared] = []
    carried: dict[Hashable, _Carried] = {}
    loose: dict[str, Stage] = {}
    for number, stage in enumerate(stages):
        if number:
            after = stages[number + 1 : number + 2] if stage.kind == IMAGES else ()
            lost += _lost_code(stage, carried, after)
            lost += _lost_loose(stage, loose, after)
            lost += _lost_registration(stage, stages[:number], not_compared)
        if len(stages) > 1:
            not_compared += _untold(stage)
        _carry(stage, carried)
        loose.update((name, stage) for code in stage.unplaced for name in code.kernels or ())
    return lost, not_compared


def _lost_code(stage: Stage, carried: dict[Hashable, _Carried], later: Sequence[Stage]) -> Iterator[Lost]:
    """Yield which device code a stage lacks, and none of some later ones has; what it lacks is not carried on."""
    if not carried:
        return
    if not stage.parts:
        host = stage.host
        if stage.unplaced or stage.kind in (MODULES, IMAGES, CONTAINERS) or (host is not None and host.awaits):
            return
        first = next(iter(carried.values())).stage
        yield Lost("code", "", tuple(sorted(first.kernels)), first, stage)
        carried.clear()
        return
    parts, parts_later = _Places(stage.parts), _Places(part for other in later for part in other.parts)
    asked = 0
    for key, each in list(carried.items()):
        there, again = parts.same(each.part.target), parts_later.same(each.part.target)
        if not there:
            if not stage.unplaced and not again:
                asked += 1
                served = [part.title for part in stage.parts[:_ASKED] if asked <= _ASKED and _serves(part, each.part)]
                yield Lost("arch", each.part.title, tuple(sorted(each.part.kernels)), each.stage, stage, tuple(served))
                del carried[key]
            continue
        if all(part.is_whole for part in there):
            missing = each.part.kernels - frozenset[str]().union(*(part.kernels for part in (*there, *again)))
            if missing:
                yield Lost("kernels", each.part.title, tuple(sorted(missing)), each.stage, stage)


class _Places:
    """Parts by their processors, so that each is compared with few others."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts: dict[Hashable, list[Part]] = {}
        for part in parts:
            self._parts.setdefault(processor_of(part.target), []).append(part)

    def same(self, wanted: Target) -> list[Part]:
        """Return the parts that are for a target of an earlier stage."""
        return [part for part in self._parts.get(processor_of(wanted), ()) if is_same(wanted, part.target)]


def _lost_loose(stage: Stage, loose: dict[str, Stage], later: Sequence[Stage]) -> Iterator[Lost]:
    """Yield the kernels that a stage, and some later ones, have for no architecture, of code that did not say for which
    it is.
    """
    if not stage.parts or stage.unplaced or not all(part.is_whole for part in stage.parts):
        return
    there = stage.kernels.union(*(other.kernels for other in later))
    missing = [name for name in loose if name not in there]
    by_stage: dict[str, tuple[Stage, list[str]]] = {}
    for name in missing:
        had = loose.pop(name)
        by_stage.setdefault(had.kind, (had, []))[1].append(name)
    for had, names in by_stage.values():
        yield Lost("kernels", "", tuple(sorted(names)), had, stage)


def _serves(there: Part, wanted: Part) -> bool:
    forms = [form for form in there.forms if form in ("cubin", "ptx")] or ["cubin"]
    return any(serves(there.target, wanted.target, nvidia_rules=True, form=form) for form in forms)


def _carry(stage: Stage, carried: dict[Hashable, _Carried]) -> None:
    """Take on what a stage has. Where it does not name its kernels, those known before are still looked for."""
    keys: dict[Hashable, list[Hashable]] = {}
    for key, each in carried.items():
        keys.setdefault(processor_of(each.part.target), []).append(key)
    for part in stage.parts:
        near = keys.setdefault(processor_of(part.target), [])
        known, left = part, []
        for key in near:
            if not is_same(carried[key].part.target, part.target):
                left.append(key)
                continue
            before = carried.pop(key).part
            if not part.is_whole:
                known = known.replace(kernels=known.kernels | before.kernels)
        key = place_of(part.target)
        near[:] = [*left, key]
        carried[key] = _Carried(known, stage)


def _lost_registration(stage: Stage, earlier: Sequence[Stage], not_compared: list[NotCompared]) -> Iterator[Lost]:
    """Yield the kernels that a stage of host files does not register, and should by what earlier stages show."""
    if stage.kind not in (OBJECTS, PROGRAMS) or stage.host is None:
        return
    wanted: dict[str, Stage] = {}
    for before in earlier:
        host = before.host
        names = (host.launched | (host.registered or frozenset())) if host is not None else frozenset[str]()
        wanted.update(dict.fromkeys(names, before))
    if not wanted:
        # No host's side to go by: what the device code has is meant to be launched.
        for before in earlier:
            wanted.update(dict.fromkeys(before.kernels, before))
    known = stage.host.registered
    missing = [name for name in wanted if known is None or name not in known]
    if not missing:
        return
    if known is None or stage.host.why_not:
        why = stage.host.why_not or "nothing tells what it registers"
        not_compared.append(NotCompared(stage, f"which kernels are registered is not known: {why}"))
        return
    by_stage: dict[int, list[str]] = {}
    for name in missing:
        by_stage.setdefault(earlier.index(wanted[name]), []).append(name)
    for number, lost in sorted(by_stage.items()):
        yield Lost("registration", "", tuple(sorted(lost)), earlier[number], stage)


def _untold(stage: Stage) -> Iterator[NotCompared]:
    """Yield which device code of a stage does not name its kernels, or its architecture."""
    open_parts = [part for part in stage.parts if not part.is_whole]
    if open_parts:
        forms = ", ".join(dict.fromkeys(form or "data" for part in open_parts for form in part.forms))
        archs = some([part.title for part in open_parts])
        yield NotCompared(stage, f"the kernels for {archs} are not named by {forms}")
    if stage.crowded:
        processors = some(stage.crowded)
        yield NotCompared(
            stage, f"code for more than {VARIANTS} variants of {processors} is taken as for no architecture"
        )
    nowhere = [code for code in stage.unplaced if place_of(code.target) is None]
    if nowhere:
        forms = ", ".join(dict.fromkeys(code.form or "data" for code in nowhere))
        untold = "" if all(code.kernels is not None for code in nowhere) else ", or which kernels it has"
        yield NotCompared(stage, f"{forms} does not say for which architecture it is{untold}")


def some(archs: Sequence[str]) -> str:
    """Return the first of some architectures, and how many there are besides."""
    more = f" and {len(archs) - _SHOWN} more" if len(archs) > _SHOWN else ""
    return f"{', '.join(archs[:_SHOWN])}{more}"
