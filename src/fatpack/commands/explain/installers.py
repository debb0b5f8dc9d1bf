"""Choose the build of a release as an installer does for the GPUs of a machine: uv, pip, conda, Hugging Face's loader.

===============  =====================================================================================================
``uv``           wheels of one release: the best variant, then ``null``, then the wheel without a label
``pip``          the wheel without a label
``conda``        packages of one name: by ``__cuda_arch``, ``cuda-arch`` and priorities
``hugging-face`` folders with ``metadata.json``: by the declared architectures
===============  =====================================================================================================

All devices are in one machine. Wheels for other Pythons and platforms are releases of their own: nothing of the machine
but its GPUs and drivers is known.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack

from fatpack.commands.explain.model import INSTALLERS, InstallerChoice, LeftBuild
from fatpack.errors import UsageError, cli_or_api
from fatpack.exit_codes import FINDINGS, worst_exit_code
from fatpack.inputs.files import find_indexed_wheels
from fatpack.io.open import open_source
from fatpack.packages.wheel_names import split_wheel_name
from fatpack.targets.installers import conda, hugging_face
from fatpack.targets.installers.variant_documents import InvalidVariants
from fatpack.targets.installers.variant_providers import (
    NULL_LABEL,
    choose_label,
    fits,
    listed_for_uv,
    nvidia_features,
)
from fatpack.targets.nvidia import cuda_versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.commands.explain.model import ExplainResult
    from fatpack.commands.explain.run import ExplainQuery
    from fatpack.limits import Budget
    from fatpack.packages.wheel_names import WheelName
    from fatpack.targets.installers.variant_documents import VariantDocument, VariantProperties
    from fatpack.targets.installers.variant_providers import Properties

#: most values of a feature that a reason lists
_NAMED = 6

#: LIMIT: bytes of metadata.json; it has a digest for each file
_LARGEST = 4 << 20


def choose_builds(
    paths: Sequence[str], installer: str, question: ExplainQuery, budget: Budget
) -> tuple[InstallerChoice, ...]:
    """Return the build that an installer takes, one answer for each release and platform.

    ``paths`` are files, folders with them, or index files. Raises UsageError for an unknown installer, and where there
    is no build; FatpackError and ``OSError`` for files that cannot be read.
    """
    if installer not in INSTALLERS:
        way = cli_or_api("--installer", "installer=")
        raise UsageError(f"{installer[:40]!r} is no installer that is known", hint=f"{way}: {', '.join(INSTALLERS)}")
    machine = _Machine(question)
    if installer == "conda":
        found = list(_conda_choices(paths, machine, budget))
    elif installer == "hugging-face":
        found = list(_loader_choices(paths, machine))
    else:
        found = list(_wheel_choices(paths, installer, machine, budget))
    if not found:
        kinds = {"conda": "no conda package", "hugging-face": "no metadata.json of a kernel"}
        what = kinds.get(installer, "no wheel")
        raise UsageError(f"{what} is at {', '.join(paths[:_NAMED])}", hint="name the files of a release, or a folder")
    return tuple(found)


def with_choices(explained: ExplainResult, choices: tuple[InstallerChoice, ...]) -> ExplainResult:
    """Return the answer for the taken builds, with the choices; a release without a taken build counts as failed."""
    explained = explained.replace(installed=choices)
    missing = [each for each in choices if not each.path]
    if not missing:
        return explained
    if len(missing) == len(choices):
        why = f"{missing[0].installer} installs nothing: {missing[0].reason}"
        devices = tuple(each.replace(verdict=f"{each.words}: {why}") for each in explained.devices)
        explained = explained.replace(devices=devices)
    return explained.replace(exit_code=worst_exit_code((explained.exit_code, FINDINGS)))


class _Machine:
    """The GPUs and drivers of a machine, as installers ask for them."""

    def __init__(self, question: ExplainQuery) -> None:
        self.devices = question.devices
        self.capabilities = [(each.nvidia.major, each.nvidia.minor) for each in question.devices if each.nvidia]
        self.amd = [each.arch for each in question.devices if each.vendor == "amd"]
        self.notes: tuple[str, ...] = ()
        self.driver = question.settings.driver if self.capabilities else None
        if self.capabilities and self.driver is None:
            self.driver = cuda_versions()[-1]
            words = f"CUDA {self.driver[0]}.{self.driver[1]}"
            self.notes = (f"a driver of {words} was assumed; pass {cli_or_api('--cuda', 'cuda=')} to choose by yours",)


# Wheels: uv and pip.


def _wheel_choices(
    paths: Sequence[str], installer: str, machine: _Machine, budget: Budget
) -> Iterator[InstallerChoice]:
    releases: dict[object, dict[str, tuple[str, WheelName]]] = {}
    for path in _files(paths, (".whl",)):
        name = split_wheel_name(path)
        if name is not None:
            builds = releases.setdefault((os.path.dirname(path), name.release, name.tags), {})
            if name.label not in builds or _build_number(builds[name.label][1]) <= _build_number(name):
                builds[name.label] = path, name
    for builds in releases.values():
        title = next(iter(builds.values()))[1]
        release = f"{title.distribution} {title.version} for {title.tags}"
        if installer == "pip":
            yield _of_pip(release, builds, machine)
        else:
            yield _of_uv(release, builds, machine, budget)


def _build_number(name: WheelName) -> tuple[int, str]:
    digits = name.build_tag[: len(name.build_tag) - len(name.build_tag.lstrip("0123456789"))]
    return (int(digits[:18]), name.build_tag) if digits else (-1, "")


def _of_pip(release: str, builds: Mapping[str, tuple[str, WheelName]], machine: _Machine) -> InstallerChoice:
    refused = "pip knows no labels, and takes no wheel whose name has one"
    left = tuple(LeftBuild(name.file_name, refused) for label, (_, name) in builds.items() if label)
    if "" not in builds:
        return InstallerChoice("pip", release, "", "", "there is no wheel without a label", left)
    return InstallerChoice("pip", release, builds[""][0], "", "it is the wheel without a label", left)


def _of_uv(
    release: str, builds: Mapping[str, tuple[str, WheelName]], machine: _Machine, budget: Budget
) -> InstallerChoice:
    from fatpack.distributions import variant_descriptions as variants

    path, name = next(iter(builds.values()))
    index = variants.index_path(path, name.release)
    notes = list(machine.notes)
    documents: dict[str, VariantDocument] = {}
    try:
        for label, (wheel, _) in builds.items():
            document, problem, _ = variants.read_description(wheel, budget) if label else (None, "", True)
            if problem:
                raise InvalidVariants(problem)
            if document is not None:
                documents[label] = document
        shared = variants.read_index(index) if index is not None else next(iter(documents.values()), None)
    except InvalidVariants as error:
        return InstallerChoice("uv", release, "", "", f"it refuses the description of the variants: {error}")
    if index is None and documents:
        notes.append(f"uv reads variants from {name.distribution}-{name.version}-variants.json, which is not there")
    by_label: dict[str, VariantProperties] = {
        label: shared.variants[label] if index and shared else document.variants.get(label, {})
        for label, document in documents.items()
        if shared is not None and (index is None or label in shared.variants)
    }
    listed = listed_for_uv(shared.providers if shared else {}, nvidia_features(machine.capabilities, machine.driver))
    label = choose_label(by_label, listed, shared.priorities if shared else ()) or ""
    left = tuple(
        LeftBuild(each.file_name, _reason_left(other, by_label, listed, label))
        for other, (_, each) in builds.items()
        if other != label
    )
    if label not in builds:
        return InstallerChoice(
            "uv", release, "", "", "no variant fits, and there is no wheel without a label", left, tuple(notes)
        )
    reason = f"the variant {label} fits" if label and label != NULL_LABEL else "no variant fits that asks for something"
    return InstallerChoice("uv", release, builds[label][0], label, reason, left, tuple(notes))


def _reason_left(label: str, by_label: Mapping[str, VariantProperties], listed: Properties, taken: str) -> str:
    if label and label not in by_label:
        return "the index file has no such variant"
    if not label or fits(by_label[label], listed):
        return f"{taken} is preferred"
    for namespace, features in by_label[label].items():
        if namespace not in listed:
            return f"uv has no provider of {namespace}, as it is described"
        for feature, values in features.items():
            has = listed[namespace].get(feature, ())
            if set(values).isdisjoint(has):
                machine = ", ".join(has[:_NAMED]) + (", …" if len(has) > _NAMED else "")
                asked = f"it asks for {', '.join(values[:_NAMED])} of {namespace} :: {feature}"
                return f"{asked}, and the machine has {machine or 'none'}"
    return "it does not fit"


# Packages of conda.


def _conda_choices(paths: Sequence[str], machine: _Machine, budget: Budget) -> Iterator[InstallerChoice]:
    from fatpack.distributions.conda_packages import SUFFIXES

    packages: dict[tuple[str, str], list[conda.CondaPackage]] = {}
    for path in _files(paths, SUFFIXES):
        found = _read_conda(path, budget)
        packages.setdefault((found.name, found.subdir), []).append(found)
    capabilities = tuple(machine.capabilities)
    for (name, subdir), builds in packages.items():
        choice = conda.choose_conda_package(builds, conda.CondaMachine(capabilities, machine.driver))
        left = [
            LeftBuild(os.path.basename(each.path), f"{answer.spec}: {answer.reason}") for each, answer in choice.refused
        ]
        refused = {each.path for each, _ in choice.refused}
        taken = choice.package
        rest = [each for each in builds if each is not taken and each.path not in refused]
        left += [LeftBuild(os.path.basename(each.path), _priority(each, choice.equals)) for each in rest]
        notes = machine.notes
        if len(capabilities) > 1:
            lowest = min(capabilities)
            notes = (*notes, f"conda looks at the lowest GPU alone, {lowest[0]}.{lowest[1]}")
        reason = "no build may be installed" if taken is None else f"build {taken.build} may be installed"
        release = f"{name} for {subdir or 'any platform'}"
        yield InstallerChoice("conda", release, taken.path if taken else "", "", reason, tuple(left), notes)


def _priority(package: conda.CondaPackage, equals: Iterable[conda.CondaPackage]) -> str:
    return "it has the same priority" if package in tuple(equals) else "another build has priority"


def _read_conda(path: str, budget: Budget) -> conda.CondaPackage:
    from fatpack.distributions.conda_packages import CondaContents

    with ExitStack() as stack:
        source = stack.enter_context(open_source(path, budget=budget))
        contents = CondaContents(source.view(), os.path.basename(path), stack)
        if "info/index.json" not in contents.info.files:
            raise UsageError(f"{path} has no info/index.json", hint="get the package again")
        try:
            return conda.read_conda_index(_parse_object(contents.info.read("info/index.json"), path), path)
        except conda.UnreadableSpec as error:
            raise UsageError(f"{path}: info/index.json cannot be read: {error}", hint="get the package again") from None


def _parse_object(data: bytes, path: str) -> dict[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON object", hint="get the package again")
    return found


# Kernels of Hugging Face.


def _loader_choices(paths: Sequence[str], machine: _Machine) -> Iterator[InstallerChoice]:
    for folder in _build_folders(paths):
        path = os.path.join(folder, "metadata.json")
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(f"{path} has more than {_LARGEST} bytes", hint="get the kernel again")
        backend = _parse_object(data, path).get("backend")
        kind, archs = (backend.get("type"), backend.get("archs")) if isinstance(backend, dict) else (None, None)
        if not isinstance(archs or [], list) or not all(isinstance(arch, str) for arch in archs or []):
            raise UsageError(f"{path}: archs of backend is no list of texts", hint="get the kernel again")
        declared = list(archs or [])
        refused = _refused(str(kind), declared, machine)
        names = ", ".join(declared[:_NAMED]) + (", …" if len(declared) > _NAMED else "")
        reason = refused or f"{kind} is not compared with the device"
        if kind in hugging_face.COMPARED_BACKENDS and not refused:
            reason = f"it declares {names}" if declared else "it declares no architectures, so that all are accepted"
        yield InstallerChoice("hugging-face", os.path.normpath(folder), "" if refused else folder, "", reason)


def _refused(kind: str, declared: Sequence[str], machine: _Machine) -> str:
    """Return why the loader refuses a build; it looks at the current device alone, which is the first."""
    names = ", ".join(declared[:_NAMED]) or "nothing"
    if kind == "cuda" and machine.capabilities and declared:
        major, minor = machine.capabilities[0]
        if not hugging_face.is_taken_for_cuda(declared, (major, minor)):
            return f"it declares {names}, and the device is {major}.{minor}"
    if kind == "rocm" and machine.amd and not hugging_face.is_taken_for_rocm(declared, machine.amd[0]):
        return f"it declares {names}, and the device is {machine.amd[0].partition(':')[0]}"
    return ""


def _build_folders(paths: Sequence[str]) -> Iterator[str]:
    """Yield the folders with metadata.json: named folders, folders in them, and folders in their ``build``."""
    for path in paths:
        if os.path.isfile(os.path.join(path, "metadata.json")):
            yield path
            continue
        for base in (path, os.path.join(path, "build")):
            names = sorted(os.listdir(base)) if os.path.isdir(base) else []
            found = [os.path.join(base, name) for name in names]
            yield from (each for each in found if os.path.isfile(os.path.join(each, "metadata.json")))


def _files(paths: Sequence[str], ends: tuple[str, ...]) -> Iterator[str]:
    """Yield the files with one of some extensions: named files, files in named folders and beside named index files."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            inside = (os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(ends))
            found |= dict.fromkeys(each for each in inside if os.path.isfile(each))
        elif (wheels := find_indexed_wheels(path)) is not None:
            found |= dict.fromkeys(wheels)
        elif path.endswith(ends):
            found[path] = None
        else:
            raise UsageError(f"{path} is no file of a release", hint=f"name files that end with {', '.join(ends)}")
    yield from found
