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

import os
import re
import stat

from fatpack.commands.check.declarations import MAX_DECLARATION_SIZE
from fatpack.commands.check.rule_context import inside_prefixes, make_violation, selection_key, supports
from fatpack.concurrency import system
from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import error_message
from fatpack.inputs.files import MemberPath
from fatpack.inputs.reopen import reopen
from fatpack.model import Finding
from fatpack.packages import get_package
from fatpack.packages.wheel_names import LABEL, indexed_release, split_wheel_name
from fatpack.record import Record
from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.installers.variant_documents import InvalidVariants, VariantDocument, parse_variants
from fatpack.targets.installers.variant_providers import (
    LOWEST_CAPABILITY,
    NULL_LABEL,
    choose_label,
    fits,
    is_built_into_uv,
    listed_for_uv,
    never_listed,
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
    from fatpack.commands.check.rule_context import FileImageSets, ImageSetRows, RuleContext
    from fatpack.io.source import Source
    from fatpack.limits import Budget
    from fatpack.packages.wheel_names import WheelName
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


class VariantWheel(Record):
    """A wheel as installers see it: its ``path``, its ``name``, and what its ``variant.json`` says.

    ``problem`` is why it cannot be read, ``is_listed`` whether RECORD has it. ``libraries`` are the files in the wheel
    that have device code.
    """

    path: str
    name: WheelName
    document: VariantDocument | None
    problem: str
    is_listed: bool
    libraries: tuple[FileImageSets, ...]

    @property
    def properties(self) -> VariantProperties:
        """The properties of its variant; none of a wheel without a label, or whose description cannot be read."""
        return {} if self.document is None else self.document.variants.get(self.name.label, {})


def described_wheels(wheels: Sequence[VariantWheel]) -> tuple[str, ...]:
    """Return the paths of wheels for all machines in releases with variants: nothing has to be declared for them."""
    return tuple(
        wheel.path
        for release in _releases(wheels)
        for wheel in release
        if wheel.name.label in ("", NULL_LABEL) and any(each.name.label for each in release)
    )


def judged_wheels(wheels: Sequence[VariantWheel]) -> frozenset[str]:
    """Return the paths of wheels whose variants :func:`variant_violations` holds against each GPU and driver."""
    return frozenset(wheel.path for wheel in wheels if wheel.name.label and wheel.properties)


def _releases(wheels: Sequence[VariantWheel]) -> list[list[VariantWheel]]:
    found: dict[object, list[VariantWheel]] = {}
    for wheel in wheels:
        folder = "" if isinstance(wheel.path, MemberPath) else os.path.dirname(wheel.path)
        found.setdefault((folder, wheel.name.release), []).append(wheel)
    return list(found.values())


def variant_violations(context: RuleContext, wheels: Sequence[VariantWheel]) -> Iterator[Violation]:
    """Yield what is wrong with the variants of wheels, where any wheel has one or is labelled as one."""
    if not any(wheel.name.label or wheel.document or wheel.problem for wheel in wheels):
        return
    for wheel in wheels:
        yield from _described(wheel)
    for release in _releases(wheels):
        index = yield from _compared_with_index(release)
        yield from _compared(release)
        platforms: dict[str, list[VariantWheel]] = {}
        for wheel in release:
            platforms.setdefault(wheel.name.tags, []).append(wheel)
        for group in platforms.values():
            yield from _Release(context, group, index).violations()


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
        libraries = [each for each in context.found if each.units and each.last.path.startswith(inside)]
        found.append(VariantWheel(path, name, *read_description(path, context.budget), tuple(libraries)))
    return found


def read_description(path: str, budget: Budget) -> tuple[VariantDocument | None, str, bool]:
    """Return what ``variant.json`` of a wheel says, the reason if installers refuse it, and whether RECORD lists it."""
    data, record, problem = _read_info(path, budget)
    document = None
    if data is not None and not problem:
        try:
            document = parse_variants(data)
        except InvalidVariants as error:
            problem = str(error)
    return document, problem, record is None or b"variant.json," in record


def _read_info(path: str, budget: Budget) -> tuple[bytes | None, bytes | None, str]:
    """Return ``variant.json`` and RECORD of a wheel, None where there is none, and why one cannot be read."""
    found: dict[str, bytes] = {}
    try:
        with reopen(path, budget) as source:
            for item in get_package("zip").members(source.view()):
                folder, _, file = ("", "", "") if isinstance(item, Finding) else item.name.rpartition("/")
                if file in ("variant.json", "RECORD") and folder.endswith(_INFO) and "/" not in folder:
                    with item.open() as opened:  # type: ignore[union-attr]  # no finding has a name
                        found[file] = _beginning(opened)
    except InvalidVariants as error:
        return b"", found.get("RECORD"), str(error)
    except (FatpackError, OSError) as error:
        return b"", found.get("RECORD"), error_message(error)
    return found.get("variant.json"), found.get("RECORD"), ""


def _beginning(source: Source) -> bytes:
    return _bounded(source.beginning(MAX_DECLARATION_SIZE + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_DECLARATION_SIZE:
        raise InvalidVariants(f"it has more than {MAX_DECLARATION_SIZE} bytes")
    return data


def index_path(path: str, release: tuple[str, str]) -> str | None:
    """Return the path of the index file beside a wheel of a release; None where there is none, or in a package."""
    if isinstance(path, MemberPath):
        return None
    folder = os.path.dirname(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:  # a URL, or a folder that may not be listed
        return None
    same = (name for name in names if indexed_release(name) == release)
    return next((os.path.join(folder, name) for name in same), None)


# One wheel: its label, its description, and what providers list.


def read_index(path: str) -> VariantDocument:
    """Return what an index file says. Raises InvalidVariants, ``OSError``, and UsageError for no regular file."""
    # AT_ONCE: opening a pipe must not wait for a writer.
    fd = system.open_to_read(path, system.AT_ONCE)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"{path} is no regular file", hint="remove it, and write the index file anew")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(MAX_DECLARATION_SIZE + 1)
    finally:
        os.close(fd)
    return parse_variants(_bounded(data))


def _described(wheel: VariantWheel) -> Iterator[Violation]:
    label = wheel.name.label
    hint = "write variant.json and the file name with one label, as `variantlib make-variant` does"
    if label and LABEL.fullmatch(label) is None:
        text = f"the label {label!r} in its name has other characters than a to z, 0 to 9, _ and ."
        yield make_violation("FP3330", wheel.path, "label", text, hint)
    if wheel.problem.startswith("it is no JSON"):
        return  # its declarations cannot be read, which is told as such
    if wheel.problem:
        yield make_violation("FP3330", wheel.path, "variant.json", f"variant.json is refused: {wheel.problem}", hint)
    elif wheel.document is None:
        if label:
            text = f"it has no variant.json, and its name says that it is the variant {label}"
            yield make_violation("FP3330", wheel.path, "variant.json", text, hint)
    elif list(wheel.document.variants) != [label]:
        names = ", ".join(list(wheel.document.variants)[:_NAMED]) or "none"
        of = f"the label {label}" if label else "no label"
        yield make_violation(
            "FP3330", wheel.path, "label", f"variant.json has the variants {names}, and the file name has {of}", hint
        )
    if wheel.document is None:
        return
    if not wheel.is_listed:
        text = "RECORD does not list variant.json, so that installers may leave it out"
        yield make_violation("FP3330", wheel.path, "RECORD", text, "add variant.json to RECORD")
    yield from _listed(wheel, wheel.document)


def _listed(wheel: VariantWheel, document: VariantDocument) -> Iterator[Violation]:
    for namespace, features in wheel.properties.items():
        for feature, values in features.items():
            unknown = never_listed(document.providers[namespace], namespace, feature, values)
            where, names = f"{namespace} :: {feature}", ", ".join(unknown[:_NAMED])
            if len(unknown) == len(values):
                text = f"no provider lists {names} for {where}, and no other value is asked for: no machine fits"
                hint = "NVIDIA's lists 90_real and 90_virtual for 9.0: no letters behind numbers, no 86_virtual"
                yield make_violation("FP3333", wheel.path, where, text, hint if namespace == "nvidia" else "")
            elif unknown:
                text = f"no provider lists {names} for {where}: only the other values count"
                yield make_violation("FP3334", wheel.path, where, text)
        provider = document.providers[namespace]
        if features and "static-properties" not in provider and not is_built_into_uv(namespace, provider):
            text = f"uv 0.13.9 does not have the provider of {namespace} as it is described, and takes no such variant"
            yield make_violation("FP3334", wheel.path, namespace, text)


# The wheels of one release: what they and the index say of a label must be the same.


def _compared_with_index(
    release: Sequence[VariantWheel],
) -> Generator[Violation, None, VariantDocument | None]:
    """Yield where the index file beside wheels says something else than they do; return what it says, if any."""
    path = index_path(release[0].path, release[0].name.release)
    if path is None:
        return None
    try:
        index = read_index(path)
    except InvalidVariants as error:
        yield make_violation("FP3330", path, "index", f"the index file is refused: {error}")
        return None
    except (FatpackError, OSError) as error:
        yield make_violation("FP3301", path, "index", error_message(error))
        return None
    hint = "write the index file from the wheels: `variantlib generate-index-json -d DIR`"
    for wheel in release:
        label, own = wheel.name.label, wheel.document
        if not label or own is None:
            continue
        if label not in index.variants:
            text = f"the index file has no variant {label}: installers do not take the wheel"
            yield make_violation("FP3331", wheel.path, label, f"{text} ({path})", hint)
        elif index.variants[label] != wheel.properties:
            text = _difference(index.variants[label], wheel.properties)
            yield make_violation("FP3331", wheel.path, label, f"the index file says {text} ({path})", hint)
        for key in (key for key, value in index.shared.items() if own.shared[key] != value):
            text = f"{key} is not the same in the index file and in variant.json ({path})"
            yield make_violation("FP3331", wheel.path, key, text, hint)
    beside = {name.label for each in os.listdir(os.path.dirname(path) or ".") if (name := split_wheel_name(each))}
    for label in (label for label in index.variants if label not in beside):
        text = f"the index file has the variant {label}, and no wheel beside it has that label"
        yield make_violation("FP3331", path, label, text, hint)
    return index


def _difference(said: VariantProperties, own: VariantProperties) -> str:
    """Return the first property of two variants that differs, in words."""
    pairs = [
        (namespace, feature) for each in (said, own) for namespace, features in each.items() for feature in features
    ]
    for namespace, feature in pairs:
        one, other = (each.get(namespace, {}).get(feature, ()) for each in (said, own))
        if one != other:
            words = [", ".join(values) or "nothing" for values in (one, other)]
            return f"{words[0]} of {namespace} :: {feature}, and variant.json {words[1]}"
    return "something else than variant.json"


def _compared(release: Sequence[VariantWheel]) -> Iterator[Violation]:
    """Yield where two wheels of a release describe one label, or what they share, differently."""
    first: dict[str, VariantWheel] = {}
    for wheel in (wheel for wheel in release if wheel.name.label and wheel.document is not None):
        other = first.setdefault(wheel.name.label, wheel)
        if other.properties != wheel.properties:
            text = f"{other.name.file_name} says {_difference(other.properties, wheel.properties)}"
            yield make_violation("FP3331", wheel.path, wheel.name.label, text, "one label means one thing in a release")
        leader = next(iter(first.values()))
        assert leader.document is not None
        assert wheel.document is not None
        if leader.document.shared != wheel.document.shared:
            text = f"variant.json has other providers, priorities or another schema than {leader.name.file_name}"
            yield make_violation("FP3331", wheel.path, "providers", text, "all wheels of a release share these keys")


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
                    continue  # nothing of the release serves it; or the metadata declares code, which is told elsewhere
                if wheel is not None and outcome.is_whole and _declares(wheel.properties, device):
                    continue  # the declaration itself is wrong, which is told as such
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
