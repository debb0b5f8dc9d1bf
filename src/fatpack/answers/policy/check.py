"""The check: what was named, read once; each rule of the policy held against it."""

from __future__ import annotations

import fnmatch
import os

from fatpack.answers.policy import kernels, limits, uniform
from fatpack.answers.policy.coverage import covers, has_later
from fatpack.answers.policy.kernels import Kernels
from fatpack.answers.policy.outcome import VENDORS, Checked, CheckedLibrary, CheckedPath, Hole, Required, Violation
from fatpack.answers.policy.units import choosing, libraries, loose_together, spelled
from fatpack.errors import counted
from fatpack.facts.gathering import gather
from fatpack.facts.reading import RowOptions
from fatpack.findings import CODES
from fatpack.io.budget import budget_now
from fatpack.outcomes import MALFORMED, UNSUPPORTED
from fatpack.packages import ROOMS as PACKAGES
from fatpack.record import Record
from fatpack.trees.leaves import SEPARATOR, Counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.answers.policy.coverage import Coverage
    from fatpack.answers.policy.requirements import Requirement
    from fatpack.answers.policy.units import Library, Unit
    from fatpack.facts.columns import AnyRow
    from fatpack.facts.gathering import OnFile, Opener
    from fatpack.io.budget import Budget

#: LIMIT: bytes of a library whose kernels are read to name those that lack an architecture; more only if that is asked.
READ_FOR_NAMES = 256 << 20

#: findings that mean that device code was not read, though a listing goes on
_NOT_READ = ("FP1006",)


class Policy(Record):
    """What is asked of files; ``per`` is what must serve a device: each ``unit``, or something in each ``library``.

    ``max_growth`` is a text as ``5%`` or ``20MB``, against the file or folder ``against``. ``names_kernels`` reads the
    kernels of large libraries too, to name those that lack something.
    """

    require: tuple[Requirement, ...] = ()
    forbid: tuple[str, ...] = ()
    max_size: int | None = None
    max_growth: str = ""
    against: str = ""
    uniform: bool = False
    registered: bool = False
    metadata: bool = False
    per: str = "unit"
    exclude: tuple[str, ...] = ()
    deep: bool = False
    names_kernels: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules in words."""
        wanted = [item.words for item in self.require]
        found = [f"every {self.per} serves {', '.join(wanted)}"] if wanted else []
        found += [f"nothing is for {', '.join(self.forbid)}"] if self.forbid else []
        found += [f"at most {limits.words(self.max_size)}"] if self.max_size is not None else []
        found += [f"grows by {self.max_growth} at most against {self.against}"] if self.max_growth else []
        found += ["every kernel on every architecture of its library"] if self.uniform else []
        found += ["what is launched is registered"] if self.registered else []
        found += ["what packages declare is in them"] if self.metadata else []
        return tuple(found)

    @property
    def required(self) -> tuple[Required, ...]:
        """What is required of the code for each vendor's devices."""
        vendors = dict.fromkeys(item.device.vendor for item in self.require)
        return tuple(
            Required(vendor, tuple(item.words for item in self.require if item.device.vendor == vendor))
            for vendor in vendors
        )

    def asks(self, vendors: Sequence[str]) -> bool:
        """Return whether anything is asked of a library with code for the devices of these vendors."""
        all_are_asked = not self.require or self.forbid or self.uniform or self.registered
        return bool(all_are_asked) or any(item.device.vendor in vendors for item in self.require)


def check(
    paths: Sequence[str | os.PathLike[str]],
    policy: Policy,
    *,
    on_file: OnFile | None = None,
    budget: Budget | None = None,
    opener: Opener | None = None,
    config: str = "",
) -> Checked:
    """Return whether files, folders, packages and URLs keep to a policy. Raises UsageError for growth that is no size.

    Fails closed: what cannot be read fails it, and so does what was named and has no device code, if any is required.
    """
    names = [os.fspath(path) for path in paths]
    work = _Check(names, policy, budget_now() if budget is None else budget)
    counts, unmatched = Counts(), list[str]()
    options = RowOptions(deep=policy.deep, each_kernel=policy.uniform)
    rows = gather(
        names,
        options,
        exclude=policy.exclude,
        unmatched=unmatched,
        on_file=on_file,
        counts=counts,
        budget=budget,
        opener=opener,
    )
    work.read(rows)
    violations = [*work.unread(unmatched), *work.broken()]
    return Checked(
        work.sizes(),
        policy.rules,
        tuple(_library(item, policy) for item in work.found if item.units),
        tuple(violations),
        sum(item.last.host not in PACKAGES for item in work.found),
        counts.passed,
        config,
        policy.required,
    )


def _library(item: Library, policy: Policy) -> CheckedLibrary:
    archs = dict.fromkeys(arch for unit in item.units for arch in unit.archs)
    vendors = tuple(dict.fromkeys(unit.vendor for unit in item.units))
    size = item.last.file_size or 0
    return CheckedLibrary(item.last.path, size, len(item.units), tuple(archs), vendors, policy.asks(vendors))


def violation(
    code: str, path: str, subject: str, message: str, hint: str = "", *, units: int = 0, holes: tuple[Hole, ...] = ()
) -> Violation:
    """Return a violation: an error, if the check fails because of it."""
    return Violation(code, "note" if CODES[code][0] == "note" else "error", path, subject, message, hint, units, holes)


class _Check:
    """One check: what was read, and each rule over it."""

    def __init__(self, names: Sequence[str], policy: Policy, budget: Budget) -> None:
        self._names, self._policy, self._budget = names, policy, budget
        self.found: list[Library] = []
        self._kernels: dict[str, Kernels] = {}
        self._told: set[str] = set()

    def read(self, rows: Iterable[AnyRow]) -> None:
        """Take all rows, of files, images and kernels."""
        self.found = loose_together(list(libraries(self._without_kernels(rows))))

    def _without_kernels(self, rows: Iterable[AnyRow]) -> Iterator[AnyRow]:
        """Yield the rows that are not of kernels, whose names are kept by their files."""
        for row in rows:
            if self._policy.uniform:
                self._kernels.setdefault(row.path, Kernels()).add(row)
            if row.row != "kernel":
                yield row

    def unread(self, unmatched: Sequence[str]) -> Iterator[Violation]:
        """Yield what could not be read: it may hold anything."""
        self._told = set(unmatched)
        for name in unmatched:
            yield violation("FP3301", name, "pattern", "no file matches this pattern")
        for item in self.found:
            last = item.last
            codes = dict.fromkeys(
                (*last.findings, *(code for u in item.units for row in u.images for code in row.findings))
            )
            missed = [code for code in codes if code in _NOT_READ]
            if last.error is not None:
                self._told.add(last.path)
                if not _is_gone(last.path, unmatched):
                    yield violation("FP3301", last.path, last.path, last.error.removeprefix(f"{last.path}: "))
            elif last.exit_code in (MALFORMED, UNSUPPORTED) or missed:
                self._told.add(last.path)
                wrong = [code for code in codes if CODES[code][0] == "error" or code in _NOT_READ]
                text = f"not all of it can be read: {', '.join(wrong) or 'it is damaged'}"
                yield violation("FP3301", last.path, last.path, text, f"fatpack inspect {last.path} says more")

    def broken(self) -> Iterator[Violation]:
        """Yield what breaks the policy, rule by rule."""
        yield from self._nothing()
        for wanted in self._policy.require:
            yield from self._required(wanted)
        yield from self._forbidden()
        yield from self._too_large()
        yield from self._not_uniform() if self._policy.uniform else ()
        if self._policy.metadata:
            from fatpack.answers.policy.metadata import compare

            yield from compare.violations(self.found, self._names, self._budget)
        if self._policy.registered:
            from fatpack.answers.policy import registered

            yield from registered.violations(self.found, self._budget)
        yield from self._unread_kernels()

    def _unread_kernels(self) -> Iterator[Violation]:
        """Yield the files of which kernels were asked for and could not be read."""
        for path, found in self._kernels.items():
            if found.problem and path not in self._told:
                yield violation("FP3301", path, "kernels", found.problem, f"fatpack inspect {path} says more")

    def _nothing(self) -> Iterator[Violation]:
        """Yield the names with no device code that a requirement could be held against."""
        vendors = dict.fromkeys(item.device.vendor for item in self._policy.require)
        wants_any = vendors or self._policy.uniform
        for name in self._names if wants_any else ():
            if name in self._told:
                continue  # which has been said
            if not any(unit.vendor in vendors or not vendors for item in self._of(name) for unit in item.units):
                whose = " or ".join(VENDORS[vendor] for vendor in vendors)
                text = f"no device code{f' for {whose} devices' if whose else ''} was found"
                yield violation("FP3302", name, "device code", text, "name what has some, or ask for nothing of it")
        for vendor in vendors:
            has_any = any(unit.vendor == vendor for item in self.found for unit in item.units)
            if not has_any and len(vendors) > 1 and not self._told:
                yield violation("FP3302", "", "device code", f"no device code for {VENDORS[vendor]} devices was found")

    def _of(self, name: str) -> list[Library]:
        """Return the files that a name stands for."""
        if len(self._names) == 1:
            return self.found
        inside = (f"{name}{SEPARATOR}", f"{name.rstrip(os.sep)}{os.sep}")
        own = [item for item in self.found if item.last.path == name or item.last.path.startswith(inside)]
        return own or [item for item in self.found if fnmatch.fnmatchcase(item.last.path.partition(SEPARATOR)[0], name)]

    def _required(self, wanted: Requirement) -> Iterator[Violation]:
        """Yield the libraries in which a unit does not serve a device."""
        missing = dict.fromkeys(wanted.exact)
        for item in self.found:
            units = [unit for unit in item.units if unit.vendor == wanted.device.vendor]
            for arch in [arch for arch in missing if any(arch in unit.archs for unit in units)]:
                del missing[arch]
            holes, is_known = self._holes(item, units, wanted)
            if holes:
                count = f" in {len(holes)} of {counted(len(units), 'unit')}" if len(units) > 1 else ""
                code, text = "FP3303", f"lacks {wanted.title}{count}"
                if not is_known:
                    code, text = "FP3305", f"whether {wanted.title} is served is not known{count}"
                yield violation(
                    code, item.last.path, wanted.title, text, _mend(wanted), units=len(units), holes=tuple(holes)
                )
            if wanted.wants_ptx and units:
                yield from self._later(item, units, wanted)
        has_code = any(unit.vendor == "nvidia" for item in self.found for unit in item.units)
        for arch in missing if has_code else ():
            hint = f"build something for {arch}, or ask for sm_{_number(wanted)}"
            yield violation("FP3304", "", arch, f"nothing is for {arch} itself", hint)

    def _holes(self, item: Library, units: Sequence[Unit], wanted: Requirement) -> tuple[list[Hole], bool]:
        """Return the units that break a requirement, and whether one of them does so for sure."""
        known: dict[object, Coverage] = {}
        lacking: list[tuple[Unit, Coverage]] = []
        for unit in units:
            key = unit.offload, choosing(unit.images)
            found = known.get(key)
            if found is None:
                known[key] = found = covers(unit, wanted)
            if not found.serves:
                lacking.append((unit, found))
        if not self._is_broken(lacking, units):
            return [], True
        holes = [self._hole(item, unit, found.rule, found.reason) for unit, found in lacking]
        is_known = any(found.is_certain for _, found in lacking)
        return [hole for hole in holes if hole is not None], is_known

    def _is_broken(self, lacking: Sequence[object], units: Sequence[Unit]) -> bool:
        """Return whether units that lack something can break the policy: it takes kernels, whose reading is dear."""
        return bool(lacking) and (self._policy.per == "unit" or len(lacking) == len(units))

    def _later(self, item: Library, units: Sequence[Unit], wanted: Requirement) -> Iterator[Violation]:
        known: dict[object, bool] = {}
        without = []
        for unit in units:
            key = unit.offload, choosing(unit.images)
            if key not in known:
                known[key] = has_later(unit, wanted.device)
            without += [] if known[key] else [unit]
        if not self._is_broken(without, units):
            return
        reason = "no PTX that all later devices can compile"
        holes = [hole for unit in without if (hole := self._hole(item, unit, "C7", reason)) is not None]
        if holes:
            count = f" in {len(holes)} of {counted(len(units), 'unit')}" if len(units) > 1 else ""
            text = f"lacks PTX for devices later than {wanted.device.arch}{count}"
            hint = f"build with -gencode arch=compute_{_number(wanted)},code=compute_{_number(wanted)}"
            yield violation(
                "FP3303", item.last.path, f"{wanted.device.arch}+ptx", text, hint, units=len(units), holes=tuple(holes)
            )

    def _hole(self, item: Library, unit: Unit, rule: str, reason: str) -> Hole | None:
        """Return a unit as what does not serve; None for one that has no kernels, which nothing misses."""
        found = self._kernels_of(unit, item)
        if found is not None and kernels.has_none(unit, found):
            return None
        row = unit.first
        names = None if found is None else kernels.of_unit(unit, found)
        return Hole(unit.position, row.section or "", row.member or "", row.offset, unit.archs, rule, reason, names)

    def _kernels_of(self, unit: Unit, item: Library) -> Kernels | None:
        """Return the kernels of all files that a unit's images lie in; None where they are not read."""
        found = Kernels()
        for path in dict.fromkeys(row.path for row in unit.images):
            if path not in self._kernels:
                if not self._policy.names_kernels and (item.last.file_size or 0) > READ_FOR_NAMES:
                    return None
                self._kernels[path] = kernels.read(path, self._budget)
            found.merge(self._kernels[path])
        return found

    def _forbidden(self) -> Iterator[Violation]:
        for pattern in self._policy.forbid:
            for item in self.found:
                archs = [arch for unit in item.units for row in unit.images for arch in _matching(row, pattern)]
                if archs:
                    names = ", ".join(dict.fromkeys(archs))
                    text = f"has {names}, which {pattern} forbids ({counted(len(archs), 'image')})"
                    hint = "fatpack slim takes it out"
                    yield violation("FP3306", item.last.path, pattern, text, hint)

    def sizes(self) -> tuple[CheckedPath, ...]:
        """Return what was named with its size, and with how much it grew if it is one."""
        made = []
        for name in self._names:
            size = limits.total(name)
            if size is None:
                size = next((item.last.file_size for item in self.found if item.last.path == name), None)
            made.append(CheckedPath(name, size))
        return tuple(made)

    def _too_large(self) -> Iterator[Violation]:
        policy = self._policy
        if policy.max_size is None and not policy.max_growth:
            return
        sizes = self.sizes()
        for item in sizes:
            if policy.max_size is not None and item.size is not None and item.size > policy.max_size:
                more, most = limits.words(item.size - policy.max_size), limits.words(policy.max_size)
                text = f"{limits.words(item.size)}, {more} over the limit of {most}"
                hint = f"fatpack report {item.path} shows where the bytes are"
                yield violation("FP3307", item.path, "size", text, hint)
            elif item.size is None and not any(each.last.error for each in self._of(item.path)):
                yield violation("FP3301", item.path, "size", "its size is not known")
        if policy.max_growth:
            yield from self._grown(sizes)

    def _grown(self, sizes: Sequence[CheckedPath]) -> Iterator[Violation]:
        percent, most = limits.growth_of(self._policy.max_growth)
        old, new = limits.total(self._policy.against), sum(item.size or 0 for item in sizes)
        if old is None:
            text = f"{self._policy.against} cannot be measured: there is no such file or folder"
            yield violation("FP3301", self._policy.against, "growth", text)
            return
        allowed = most if most is not None else int(old * (percent or 0.0) / 100)
        if new - old > allowed:
            share = f", {100 * (new - old) / old:.1f} %" if old else ""
            more = f"{limits.words(new - old)} more than {self._policy.against}{share}"
            text = f"{limits.words(new)}, {more}; {self._policy.max_growth} is allowed"
            yield violation("FP3308", sizes[0].path if len(sizes) == 1 else "", "growth", text)

    def _not_uniform(self) -> Iterator[Violation]:
        for item in self.found:
            if not item.units:
                continue
            found = Kernels()
            for path in dict.fromkeys(row.path for unit in item.units for row in unit.images):
                found.merge(self._kernels[path])
            missed = uniform.uncompared(item.units, found)
            if missed:
                forms = ", ".join(dict.fromkeys(row.form or "unknown" for unit in missed for row in unit.images))
                text = f"{counted(len(missed), 'unit')} cannot be compared: {forms} shows no kernels"
                yield violation("FP3301", item.last.path, "kernels", text)
            for lack in uniform.lacking(item.units, found):
                holes = tuple(
                    Hole(
                        unit.position,
                        unit.first.section or "",
                        unit.first.member or "",
                        unit.first.offset,
                        unit.archs,
                        "",
                        "others of the library have it",
                        names,
                    )
                    for unit, names in lack.units
                )
                text = f"{counted(len(lack.names), 'kernel')} without {lack.title}, which others of it have"
                yield violation("FP3309", item.last.path, lack.title, text, units=len(item.units), holes=holes)


def _is_gone(path: str, unmatched: Sequence[str]) -> bool:
    """Return whether a path is the folder of a pattern that no file has, because there is no such folder."""
    return not os.path.lexists(path) and any(name.startswith(os.path.join(path, "")) for name in unmatched)


def _matching(row: AnyRow, pattern: str) -> list[str]:
    names = (row.arch or "", spelled(row), row.processor or "")
    return [spelled(row)] if any(name and fnmatch.fnmatchcase(name, pattern) for name in names) else []


def _number(wanted: Requirement) -> str:
    return wanted.device.arch.removeprefix("sm_")


def _mend(wanted: Requirement) -> str:
    arch = wanted.device.arch
    if wanted.device.vendor == "nvidia":
        return f"build with -gencode arch=compute_{_number(wanted)},code={arch}"
    return f"build with --offload-arch={arch}" if wanted.device.vendor == "amd" else f"build for {arch}"
