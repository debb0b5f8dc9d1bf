"""Wheels with variants: their descriptions against their code, against each other and their index file.

==============================================  ===================================================================
``NAME-…-LABEL.whl!*.dist-info/variant.json``   has the variant of the file name, in a form that installers accept
``NAME-VERSION-variants.json`` beside wheels    says the same of every label
the wheels of one release and one platform      an installer takes one of them for each GPU and driver: its code runs
==============================================  ===================================================================

An installer believes what is declared; the driver looks at the code. Every GPU that NVIDIA's provider lists is asked
about, alone in its machine, with the oldest drivers for which a wheel is taken. Tegra parts are asked about where a
wheel may be installed on AArch64.
"""

from __future__ import annotations

import re

from fatpack.commands.check.rule_context import inside_prefixes, make_violation, supports
from fatpack.distributions.variant_descriptions import (
    VariantWheel,
    has_variants,
    read_wheel,
    release_problems,
    releases,
)
from fatpack.exit_codes import MALFORMED
from fatpack.inputs.files import MemberPath
from fatpack.packages.wheel_names import split_wheel_name
from fatpack.record import Record
from fatpack.tabular.file_image_sets import selection_key
from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.installers.variant_documents import VariantDocument
from fatpack.targets.installers.variant_providers import (
    LOWEST_CAPABILITY,
    NULL_LABEL,
    choose_label,
    fits,
    listed_for_uv,
    nvidia_features,
)
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.nvidia import TEGRA_ARCHS, cuda_versions
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import first_cuda_for_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from fatpack.commands.check.model import Violation
    from fatpack.commands.check.rule_context import RuleContext
    from fatpack.tabular.file_image_sets import FileImageSets, ImageSetRows
    from fatpack.targets.installers.variant_documents import VariantProperties
    from fatpack.targets.installers.variant_providers import Properties

#: the oldest driver that NVIDIA's provider lists
_FIRST_CUDA = (11, 0)

#: Parts that are asked about on AArch64 alone: 8.8 is in no list of discrete parts.
_TEGRA = TEGRA_ARCHS | {88}

#: rules of drivers that are too old
_DRIVER_RULES = ("C8", "C15", "C19")

#: devices that a message names
_NAMED = 12

_INFO = ".dist-info"


def described_wheels(wheels: Sequence[VariantWheel]) -> tuple[str, ...]:
    """Return the paths of wheels for all machines in releases with variants: nothing has to be declared for them."""
    return tuple(
        wheel.path
        for release in releases(wheels)
        for wheel in release
        if wheel.name.label in ("", NULL_LABEL) and any(each.name.label for each in release)
    )


def judged_wheels(wheels: Sequence[VariantWheel]) -> frozenset[str]:
    """Return the paths of wheels whose variants :func:`variant_violations` holds against each GPU and driver."""
    return frozenset(wheel.path for wheel in wheels if wheel.name.label and wheel.properties)


def variant_violations(context: RuleContext, wheels: Sequence[VariantWheel]) -> Iterator[Violation]:
    """Yield what is wrong with the variants of wheels, where any wheel has one or is labelled as one."""
    yield from _no_archives(context)
    if not has_variants(wheels):
        return
    for release in releases(wheels):
        index = yield from _described(release)
        platforms: dict[str, list[VariantWheel]] = {}
        for wheel in release:
            platforms.setdefault(wheel.name.tags, []).append(wheel)
        for group in platforms.values():
            yield from _Release(context, group, index).violations()


def _described(release: Sequence[VariantWheel]) -> Generator[Violation, None, VariantDocument | None]:
    """Yield what is wrong with the descriptions of a release; return what its index file says.

    Declarations that are no JSON are reported as unreadable elsewhere.
    """
    problems = release_problems(release)
    while True:
        try:
            each = next(problems)
        except StopIteration as end:
            index: VariantDocument | None = end.value
            return index
        yield make_violation(each.code, each.path, each.subject, each.message, each.hint)


def _no_archives(context: RuleContext) -> Iterator[Violation]:
    for item in context.found:
        path, host = item.last.path, item.last.host
        if host is None or host == "zip" or item.last.error is not None:
            continue
        file_name = path.names[-1] if isinstance(path, MemberPath) else path
        if split_wheel_name(file_name) is not None:
            text = "its name says that it is a wheel, and it is no zip archive: it declares nothing"
            yield make_violation("FP3301", path, "metadata", text, "get it again, or remove it", unread=MALFORMED)


# Reading: the wheels among the files, and the index file beside them.


def read_wheels(context: RuleContext) -> list[VariantWheel]:
    """Return the wheels among the files of a check. Nothing is raised for one that cannot be read."""
    found = []
    for item in context.found:
        path = item.last.path
        name = split_wheel_name(path.names[-1] if isinstance(path, MemberPath) else path)
        if item.last.host != "zip" or name is None or item.last.error is not None:
            continue
        inside = inside_prefixes(path)
        libraries = tuple(each for each in context.found if each.units and each.last.path.startswith(inside))
        found.append(read_wheel(path, name, context.budget, libraries))
    return found


# The wheel that an installer takes of those of one platform, and the outcome of its code.


class _Outcome(Record):
    """``answer`` is runs, in part, fails, unknown, or "" for a wheel without code for NVIDIA's devices.

    ``reason`` is why it does not run, by a ``rule`` of the driver: one ``library`` in it does not. Of a wheel that
    runs, they are about another library, which does not.
    """

    answer: str
    library: str = ""
    reason: str = ""
    rule: str = ""

    @property
    def is_whole(self) -> bool:
        """True if nothing of the wheel runs, whatever the driver."""
        return self.answer == "fails" and self.rule not in _DRIVER_RULES

    @property
    def words(self) -> str:
        """The reason in words, with the library and the rule."""
        return f"{self.library}: {self.reason} [{self.rule}]" if self.reason else ""


class _Release:
    """The wheels of a release for one platform, as an installer chooses among them for each GPU and driver."""

    def __init__(self, context: RuleContext, wheels: Sequence[VariantWheel], index: VariantDocument | None) -> None:
        self._context = context
        self._wheels = {wheel.name.label: wheel for wheel in wheels if not wheel.problem}
        document = index or next((wheel.document for wheel in self._wheels.values() if wheel.document), None)
        self._document = document
        self._outcomes: dict[object, _Outcome] = {}
        self._libraries: dict[str, list[_Library]] = {}

    def violations(self) -> Iterator[Violation]:
        """Yield the GPUs and drivers for which a wheel is taken that does not run; then what is never taken."""
        if self._document is None:
            return
        failing: dict[tuple[object, ...], tuple[str, _Outcome, str, list[str]]] = {}
        for device in self._devices():
            taken = list(self._taken(device))
            for label, driver in taken:
                wheel = self._wheels.get(label)
                outcome = _Outcome("runs") if wheel is None else self._outcome(wheel, device, driver)
                if outcome == _Outcome("runs"):
                    continue
                better = self._running(device, driver) if outcome.answer in ("in part", "fails", "") else ""
                is_left_over = label in ("", NULL_LABEL)
                if (is_left_over and outcome.answer in ("in part", "fails", "") and not better) or (
                    not outcome.answer and not is_left_over
                ):
                    continue  # nothing of the release serves it; or another rule reports the declared code
                if wheel is not None and outcome.is_whole and _declares(wheel.properties, device):
                    continue  # the declaration itself is wrong, which another rule reports
                is_about_driver = len(taken) > 1 or outcome.rule in _DRIVER_RULES
                about = f" with a driver of CUDA {driver[0]}.{driver[1]}" if is_about_driver else ""
                key = label, outcome.answer, outcome.rule, outcome.library, better
                names = failing.setdefault(key, (label, outcome, better, []))[3]
                names.append(f"{_capability(device)}{about}")
        for label, outcome, better, names in failing.values():
            yield self._violation(label, outcome, better, list(dict.fromkeys(names)))
        yield from self._left()

    def _devices(self) -> Iterator[Device]:
        platform = next(iter(self._wheels.values())).name.platform if self._wheels else ""
        has_tegra = "aarch64" in platform or "arm64" in platform
        for arch in nvidia_capabilities():
            if (arch.major, arch.minor) >= LOWEST_CAPABILITY and (has_tegra or arch.number not in _TEGRA):
                yield Device("nvidia", arch.name)

    def _taken(self, device: Device) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the labels that an installer takes for a GPU, "" for none, each with a driver.

        That is the oldest one for which it is taken: newer ones load what older ones do. For what is left for all
        others it is the newest: there another wheel runs, if it ever does.
        """
        assert self._document is not None
        first = max(first_cuda_for_device(device) or _FIRST_CUDA, _FIRST_CUDA)
        found: dict[str, tuple[int, int]] = {}
        for driver in (each for each in cuda_versions() if each >= first):
            label = choose_label(self._variants(), self._features(device, driver), self._document.priorities) or ""
            if label in ("", NULL_LABEL) or label not in found:
                found[label] = driver
        yield from found.items()

    def _variants(self) -> dict[str, VariantProperties]:
        """Return the variants of the wheels that are there, as the index says of them."""
        assert self._document is not None
        return {
            label: self._document.variants.get(label, wheel.properties)
            for label, wheel in self._wheels.items()
            if label and (wheel.properties or label == NULL_LABEL)
        }

    def _features(self, device: Device, driver: tuple[int, int]) -> Properties:
        """Return what providers list for a GPU; NVIDIA's is asked also where uv does not know it by its description."""
        assert self._document is not None
        assert device.nvidia is not None
        listed = nvidia_features([(device.nvidia.major, device.nvidia.minor)], driver)
        return {"nvidia": listed, **listed_for_uv(self._document.providers, listed)}

    def _running(self, device: Device, driver: tuple[int, int]) -> str:
        """Return the name of a wheel whose code runs on a GPU; "" if none does."""
        names = (
            wheel.name.file_name
            for wheel in self._wheels.values()
            if self._outcome(wheel, device, driver).answer == "runs"
        )
        return next(names, "")

    def _outcome(self, wheel: VariantWheel, device: Device, driver: tuple[int, int]) -> _Outcome:
        key = wheel.path, device.arch, driver
        if key not in self._outcomes:
            self._outcomes[key] = self._judge(wheel, device, driver)
        return self._outcomes[key]

    def _judge(self, wheel: VariantWheel, device: Device, driver: tuple[int, int]) -> _Outcome:
        """Return whether the code of a wheel runs: of one library all of it, and no library runs in part only.

        Libraries of several toolkits lie in one wheel, which takes one of them: the others may have nothing for a GPU.
        """
        if wheel.path not in self._libraries:
            self._libraries[wheel.path] = [_Library(self._context, each) for each in wheel.libraries]
        known = [library.judge(device, driver) for library in self._libraries[wheel.path]]
        found = [outcome for outcome in known if outcome.answer]
        first = {outcome.answer: outcome for outcome in reversed(found)}
        if "in part" in first:
            return first["in part"]
        if "runs" in first and "fails" in first:
            return first["fails"].replace(answer="runs")
        return next((first[answer] for answer in ("unknown", "runs", "fails") if answer in first), _Outcome(""))

    def _violation(self, label: str, outcome: _Outcome, better: str, devices: list[str]) -> Violation:
        wheel = self._wheels[label]
        of = f"the variant {label}" if label else "the wheel without a label"
        names = ", ".join(devices[:_NAMED]) + (f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else "")
        reason = outcome.words or "it has no code for GPUs"
        if outcome.answer == "runs":
            text = f"installers take {of} for {names}; this library of it does not run there: {reason}"
            return make_violation("FP3322", wheel.path, label or "no label", text)
        if outcome.answer == "unknown":
            text = f"installers take {of} for {names}, and it is not known if it runs there: {reason}"
            return make_violation("FP3321", wheel.path, label or "no label", text)
        also = f"; {better} does" if better else ""
        text = f"installers take {of} for {names}, where it does not run: {reason}{also}"
        hint = "ask for fewer values, a higher cuda_version_lower_bound, or leave these devices to null"
        if label in ("", NULL_LABEL):
            hint = "keep that code in null as well, or make null the wheel with all of it"
        return make_violation("FP3332", wheel.path, label or "no label", text, hint)

    def _left(self) -> Iterator[Violation]:
        """Yield the GPUs on which the code of a labelled wheel runs, and for which no installer takes it."""
        newest = cuda_versions()[-1]
        for label, wheel in self._wheels.items():
            if not label or label == NULL_LABEL or "sm_arch" not in wheel.properties.get("nvidia", {}):
                continue
            names = [
                _capability(device)
                for device in self._devices()
                if not fits(
                    {"nvidia": {"sm_arch": wheel.properties["nvidia"]["sm_arch"]}}, self._features(device, newest)
                )
                and self._outcome(wheel, device, newest).answer == "runs"
            ]
            if names:
                text = f"its code runs on {', '.join(names[:_NAMED])} too, for which installers do not take {label}"
                yield make_violation("FP3335", wheel.path, label, text)


class _Library:
    """A library of a wheel, asked about many GPUs and drivers: containers of which runtimes see the same are one."""

    def __init__(self, context: RuleContext, item: FileImageSets) -> None:
        self._context = context
        self._item = item
        self._name = re.split(r"[!/]", str(item.last.path))[-1]
        self._asks_by_name = find_name_based_library(self._name) is not None
        self._groups: dict[object, list[ImageSetRows]] = {}
        for unit in (unit for unit in item.units if unit.vendor == "nvidia"):
            self._groups.setdefault((unit.offload, selection_key(unit.images)), []).append(unit)
        #: groups with a kernel, whose launch can fail
        self._launched: dict[object, bool] = {}

    def judge(self, device: Device, driver: tuple[int, int]) -> _Outcome:
        """Return whether all containers run that have kernels; ``in part`` if only some of them do."""
        runtime = getattr(self._item.last, "cuda_runtime", None)
        if self._groups and runtime is not None and driver[0] < runtime:
            reason = f"it loads libcudart.so.{runtime}, which needs a driver of CUDA {runtime}.0"
            return _Outcome("fails", self._name, reason, "C19")
        settings, runs = RuntimeSettings(driver=driver), False
        first: dict[str, _Outcome] = {}
        for key, units in self._groups.items():
            found = supports(units[0].offered, device, settings)
            if found.serves:
                runs = True
            elif self._is_launched(key):
                is_known = found.is_certain and not (found.rule == "C2" and self._asks_by_name)
                answer = "fails" if is_known else "unknown"
                library = f"{self._name} ({', '.join(units[0].listed[:_NAMED])})"
                first.setdefault(answer, _Outcome(answer, library, found.reason, found.rule))
        if "fails" in first:
            return first["fails"].replace(answer="in part" if runs else "fails")
        return first.get("unknown", _Outcome("runs" if runs else ""))

    def _is_launched(self, key: object) -> bool:
        if key not in self._launched:
            units = self._groups[key]
            self._launched[key] = any(self._context.hole(self._item, unit, "", "") is not None for unit in units)
        return self._launched[key]


def _declares(properties: VariantProperties, device: Device) -> bool:
    """Return whether a variant asks for a GPU by its own number."""
    assert device.nvidia is not None
    values = properties.get("nvidia", {}).get("sm_arch", ())
    return not {f"{device.nvidia.number}_real", f"{device.nvidia.number}_virtual"}.isdisjoint(values)


def _capability(device: Device) -> str:
    assert device.nvidia is not None
    return device.nvidia.capability
