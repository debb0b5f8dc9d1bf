"""Conda's solvers: the builds of a package that a machine may have, and the one that it gets.

::

    __cuda_arch      a virtual package: the *lowest* compute capability of the machine's GPUs; absent without __cuda
    cuda-arch V      a metapackage for each compute capability V, which depends on __cuda_arch >=V

Packages depend on the metapackage. So ``cuda-arch >=8.0`` lets every device from 8.0 on have the package, future ones
too, and an upper bound on it keeps no device away: for ``cuda-arch >=8.0,<9.0`` a 9.0 gets the metapackage for 8.9.
Only ``__cuda_arch <9.0`` keeps it away. A second GPU that is newer than the lowest one is not looked at.

Of the builds that a machine may have, a solver takes one with fewer ``track_features``, then a higher version, then a
higher build number; which of equal ones it takes depends on their other dependencies.

Sources: CEP 46 (``__cuda_arch``), CEP 29 (specifications), CEP 33 (versions), CEP 34 (``index.json``), conda-forge's
announcement of ``cuda-arch`` (2026-10-19). ``tests/targets/installers`` compares all of this with rattler's solver.
"""

from __future__ import annotations

import re
from functools import cmp_to_key
from itertools import zip_longest

from fatpack.record import Record
from fatpack.targets.devices import nvidia_capabilities
from fatpack.targets.nvidia import TEGRA_ARCHS, cuda_versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    #: a compute capability, (8, 6)
    Capability: TypeAlias = tuple[int, int]

    #: what lies between two dots of a version: numbers and words by their rank, as CEP 33 orders them
    Part: TypeAlias = tuple[tuple[int, int, str], ...]


class UnreadableSpec(Exception):
    """A specification or a description of a package that cannot be read, and why, in words."""


# Versions and specifications of them.

#: LIMIT: characters of a specification; those of packages have some dozens
_LONGEST = 200

#: LIMIT: brackets in brackets of a specification
_DEEPEST = 16

_ATOM = re.compile(r"[0-9]+|[a-z]+|\*")

#: what a version has where another one has more parts
_ZERO = (1, 0, "")


def compare_versions(one: str, other: str) -> int:
    """Return a number below, at or above 0 as a version comes before another, is equal to it, or comes after it."""
    pairs = zip(_version_parts(one), _version_parts(other), strict=True)
    return next(filter(None, (_compare_parts(left, right) for left, right in pairs)), 0)


def _compare_parts(one: Sequence[Part], other: Sequence[Part]) -> int:
    for part, counterpart in zip_longest(one, other, fillvalue=(_ZERO,)):
        for atom, against in zip_longest(part, counterpart, fillvalue=_ZERO):
            if atom != against:
                return -1 if atom < against else 1
    return 0


def _version_parts(text: str) -> tuple[list[Part], ...]:
    """Return epoch, version and local version."""
    epoch, mark, rest = text.strip().lower().rpartition("!")
    public, _, local = rest.partition("+")
    return tuple(
        [_atoms(part) for part in re.split("[._-]", item)] if item else []
        for item in (epoch if mark else "0", public, local)
    )


def _atoms(part: str) -> Part:
    found = [_atom(text) for text in _ATOM.findall(part)]
    return tuple([_ZERO, *found] if found and found[0][2] else found)


def _atom(text: str) -> tuple[int, int, str]:
    if text.isdigit():
        return 1, int(text), ""
    return {"dev": -1, "post": 2, "*": -2}.get(text, 0), 0, text


class VersionSpec(Record):
    """A specification of versions: ``>=8.0,<9``. ``text`` is what the package says."""

    text: str
    test: Callable[[str], bool]

    def matches(self, version: Capability) -> bool:
        """Return whether it lets a version in."""
        return self.test(_dotted(version))


_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|[<>=])?([0-9][0-9A-Za-z!+._-]*?)?(\.?\*)?")
_OPERATOR = re.compile(r"(>=|<=|==|!=|~=|[<>=!~]|[(),|])\s+|\s+(?=[(),|])")


def parse_version_spec(text: str) -> VersionSpec:
    """Return the specification of a text. Raises UnreadableSpec."""
    if len(text) > _LONGEST:
        raise UnreadableSpec(f"a specification has more than {_LONGEST} characters")
    words = re.findall(r"[(),|]|[^(),|]+", _OPERATOR.sub(r"\1", text.strip()))
    at, test = _any_of(words, 0, 0)
    if at != len(words):
        raise UnreadableSpec(f"{_shown(text)} is no specification of versions")
    return VersionSpec(text, test)


def _any_of(words: Sequence[str], at: int, depth: int) -> tuple[int, Callable[[str], bool]]:
    """Return the end and the test of what is joined by ``|``, in which ``,`` binds closer."""
    alternatives: list[list[Callable[[str], bool]]] = [[]]
    while True:
        at, test = _one_of(words, at, depth)
        alternatives[-1].append(test)
        if at == len(words) or words[at] not in ",|":
            return at, lambda version: any(all(test(version) for test in tests) for tests in alternatives)
        if words[at] == "|":
            alternatives.append([])
        at += 1


def _one_of(words: Sequence[str], at: int, depth: int) -> tuple[int, Callable[[str], bool]]:
    word = words[at] if at < len(words) else ""
    if word == "(" and depth < _DEEPEST:
        at, test = _any_of(words, at + 1, depth + 1)
        if at < len(words) and words[at] == ")":
            return at + 1, test
        word = ""
    found = _CLAUSE.fullmatch(word)
    if found is None or not (found[2] or (found[3] == "*" and found[1] in (None, "=", "=="))):
        raise UnreadableSpec(f"{_shown(word or ' '.join(words))} is no specification of versions")
    return at + 1, _clause(found[1] or "", found[2] or "", is_fuzzy=bool(found[3]))


def _clause(operator: str, literal: str, *, is_fuzzy: bool) -> Callable[[str], bool]:
    if not literal:
        return lambda version: True
    if operator == "~=":
        stem = re.split("[._-]", literal)[:-1]
        return lambda version: compare_versions(version, literal) >= 0 and _starts_with(version, ".".join(stem))
    if operator in (">=", "<=", ">", "<"):
        signs = {">=": (0, 1), "<=": (0, -1), ">": (1,), "<": (-1,)}[operator]
        return lambda version: compare_versions(version, literal) in signs
    if operator == "!=":
        return lambda version: not _equals(version, literal, is_fuzzy)
    return lambda version: _equals(version, literal, is_fuzzy or operator == "=")


def _equals(version: str, literal: str, is_fuzzy: bool) -> bool:
    return _starts_with(version, literal) if is_fuzzy else not compare_versions(version, literal)


def _starts_with(version: str, stem: str) -> bool:
    """Return whether the first parts of a version are those of another: 8.0 and 8.6 start with 8."""
    (epoch, have, _), (other_epoch, want, _) = _version_parts(version), _version_parts(stem)
    return epoch == other_epoch and not _compare_parts(have[: len(want)], want)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:64]}…")


# Descriptions of packages.


def _known() -> Iterator[Capability]:
    """Yield the capabilities that devices have, each of which has a metapackage."""
    return ((arch.major, arch.minor) for arch in nvidia_capabilities())


def _dotted(version: Capability) -> str:
    return f"{version[0]}.{version[1]}"


#: the virtual packages and the metapackage by which a package is chosen for devices
CUDA_ARCH, CUDA, METAPACKAGE = "__cuda_arch", "__cuda", "cuda-arch"

_SPEC = re.compile(r"(?:[^\s:]*:[^\s:]*:)?\s*([A-Za-z0-9_.-]+)\s*(.*)", re.DOTALL)
_KEY = re.compile(r"""\bversion\s*=\s*(?:'([^']*)'|"([^"]*)"|([^,\]\s]+))""")


#: LIMIT: specifications about devices of one package, each of which is held against every capability
_MOST = 64


class PackageSpec(Record):
    """A dependency: the package's name, the versions that will do, and the ``text``.

    ``lowest`` is the lowest known compute capability among the versions that will do, None without one.
    """

    name: str
    versions: VersionSpec
    text: str
    lowest: Capability | None = None

    def lets_in(self, arch: Capability) -> bool:
        """Return whether it holds where ``__cuda_arch`` is a capability: directly, or by a metapackage for it."""
        if self.name == METAPACKAGE and self.lowest and self.lowest <= arch:
            return True
        return self.versions.matches(arch)


def parse_package_spec(text: str) -> PackageSpec:
    """Return a dependency, builds and channels left aside. Raises UnreadableSpec."""
    found = _SPEC.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        raise UnreadableSpec(f"{_shown(text)} is no specification of a package")
    name, rest = found[1].lower(), found[2].strip()
    rest, bracket, keys = rest.partition("[")
    if bracket:
        key = _KEY.search(keys)
        version = "*" if key is None else key[1] or key[2] or key[3]
        return _package_spec(name, version if key or not rest.strip() else rest, text)
    joined = _OPERATOR.sub(r"\1", rest)
    if joined.startswith("=") and not joined.startswith("==") and "=" in joined[1:]:
        joined = joined[1:].replace("=", " ", 1)  # name=version=build
    words = joined.split()
    if len(words) > 2:
        raise UnreadableSpec(f"{_shown(text)} is no specification of a package")
    return _package_spec(name, words[0] if words else "*", text)


def _package_spec(name: str, versions: str, text: str) -> PackageSpec:
    spec = parse_version_spec(versions)
    lowest = next(filter(spec.matches, _known()), None) if name == METAPACKAGE else None
    return PackageSpec(name, spec, text, lowest)


def _joined(specs: Sequence[PackageSpec]) -> PackageSpec:
    """Return the specification of one package that several make together."""
    tests = [spec.versions.test for spec in specs]
    versions = VersionSpec(
        ",".join(f"({spec.versions.text})" for spec in specs), lambda text: all(test(text) for test in tests)
    )
    lowest = next(filter(versions.matches, _known()), None)
    return PackageSpec(specs[0].name, versions, ", ".join(spec.text for spec in specs), lowest)


class CondaPackage(Record):
    """A build of a package, as solvers read it: ``depends`` and ``constrains`` are those about devices and drivers.

    ``tracked`` is how many features it tracks; ``subdir`` the platform, ``linux-64``; ``path`` the file.
    """

    name: str
    version: str
    build: str
    build_number: int
    depends: tuple[PackageSpec, ...]
    constrains: tuple[PackageSpec, ...]
    tracked: int = 0
    subdir: str = ""
    path: str = ""

    @property
    def asks(self) -> tuple[PackageSpec, ...]:
        """The specifications about devices: all conditions for a machine to have it, except about its driver.

        Several about the metapackage are one: a solver installs one version of it, which all of them have to let in.
        """
        metapackages = [spec for spec in self.depends if spec.name == METAPACKAGE]
        depends = [spec for spec in self.depends if spec.name != CUDA]
        if len(metapackages) > 1:
            depends = [*(spec for spec in depends if spec.name == CUDA_ARCH), _joined(metapackages)]
        return (*depends, *(spec for spec in self.constrains if spec.name == CUDA_ARCH))


def read_conda_index(index: Mapping[str, Any], path: str = "") -> CondaPackage:
    """Return the package that ``index.json``, or a row of ``repodata.json``, describes. Raises UnreadableSpec."""
    texts = {key: index.get(key, "") for key in ("name", "version", "build", "subdir")}
    number, tracked = index.get("build_number", 0), index.get("track_features") or ""
    for key, value in texts.items():
        if not isinstance(value, str):
            raise UnreadableSpec(f"{key} is no text")
    if not isinstance(number, int) or number < 0:
        raise UnreadableSpec("build_number is no whole number")
    if isinstance(tracked, list):
        tracked = " ".join(map(str, tracked))
    if not isinstance(tracked, str):
        raise UnreadableSpec("track_features is no text")
    depends, constrains = (tuple(_specs_of(index, key)) for key in ("depends", "constrains"))
    if len(depends) + len(constrains) > _MOST:
        raise UnreadableSpec(f"it has more than {_MOST} dependencies about devices")
    names = texts["name"], texts["version"], texts["build"]
    count = len(tracked.replace(",", " ").split())
    return CondaPackage(*names, number, depends, constrains, count, texts["subdir"], path)


def _specs_of(index: Mapping[str, Any], key: str) -> Iterator[PackageSpec]:
    texts = index.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UnreadableSpec(f"{key} is no list of texts")
    for text in texts:
        if re.search(r"(?<![\w.-])(?:__cuda|__cuda_arch|cuda-arch)(?![\w.-])", text, re.IGNORECASE):
            spec = parse_package_spec(text)
            if spec.name in (CUDA, CUDA_ARCH, METAPACKAGE):
                yield spec


#: the metapackage for a version of CUDA: it asks for a driver of the same major version
CUDA_VERSION = "cuda-version"


def oldest_driver(index: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the oldest driver, as a CUDA version, with which a package is installed; None if it asks for none.

    ``__cuda >=12.4`` asks for one itself, ``cuda-version >=12.9,<13`` for any of CUDA 12 (minor version compatibility).
    Raises UnreadableSpec.
    """
    found = []
    for key in ("depends", "constrains"):
        for text in index.get(key) or ():
            name = re.match(r"[\w.-]*", text)[0].lower() if isinstance(text, str) else ""  # type: ignore[index]
            if name not in (CUDA, CUDA_VERSION) or not text[len(name) :].strip():
                continue
            versions = parse_package_spec(text).versions
            lowest = next((each for each in cuda_versions() if versions.matches(each)), None)
            if lowest is not None and lowest > cuda_versions()[0]:
                found.append((lowest[0], 0) if name == CUDA_VERSION else lowest)
    return max(found, default=None)


# Machines, and the builds that they may have.

#: Capabilities of parts that exist only beside Arm processors: Jetson and Drive, Thor among them.
ON_ARM = TEGRA_ARCHS | {110}

#: Platforms of conda whose machines have no Arm processor.
_NOT_ARM = frozenset(("linux-64", "linux-32", "linux-ppc64le", "win-64", "win-32", "osx-64"))

#: The lowest compute capability of all. CUDA 9 was the last to compile for it, years before conda knew of any.
LOWEST = (2, 0)

#: Stands for every device that is yet to come.
_LATER = (999, 0)


class CondaMachine(Record):
    """A machine: the compute capabilities of its GPUs, and the CUDA version of its driver, None if it is unknown.

    Without a driver (``has_cuda`` is False) both virtual packages are absent.
    """

    capabilities: tuple[Capability, ...]
    driver: Capability | None = None
    has_cuda: bool = True

    @property
    def cuda_arch(self) -> Capability | None:
        """The version of ``__cuda_arch``: the lowest capability; None where the virtual package is absent."""
        return min(self.capabilities, default=None) if self.has_cuda else None

    def overridden(self, variables: Mapping[str, str]) -> CondaMachine:
        """Return the machine that solvers see with ``CONDA_OVERRIDE_CUDA_ARCH`` and ``CONDA_OVERRIDE_CUDA``.

        An empty value makes the virtual package absent; one that is no version is passed by.
        """
        arch, cuda = (variables.get(name) for name in ("CONDA_OVERRIDE_CUDA_ARCH", "CONDA_OVERRIDE_CUDA"))
        capabilities, driver = self.capabilities, self.driver
        if arch is not None:
            version = _parse_capability(arch)
            capabilities = ((version,) if version else capabilities) if arch else ()
        if cuda:
            driver = _parse_capability(cuda) or driver
        return CondaMachine(capabilities, driver, self.has_cuda if cuda is None else bool(cuda))


def _parse_capability(text: str) -> Capability | None:
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", text)
    return (int(found[1]), int(found[2])) if found else None


class CondaAnswer(Record):
    """The answer whether a machine may have a build, and the ``spec`` that keeps it away with a ``reason``, or ""."""

    answer: bool
    spec: str = ""
    reason: str = ""


def may_have(package: CondaPackage, machine: CondaMachine) -> CondaAnswer:
    """Return whether a solver lets a machine have a build, as far as devices and drivers decide."""
    arch = machine.cuda_arch
    shown = f"{CUDA_ARCH} {_dotted(arch)}" if arch else f"there is no {CUDA_ARCH}"
    for spec in package.asks:
        if arch is None:
            if spec.name == METAPACKAGE or spec in package.depends:
                return CondaAnswer(False, spec.text, shown)
        elif not spec.lets_in(arch):
            return CondaAnswer(False, spec.text, f"this machine has {shown}, the lowest of its GPUs")
    for spec in (*package.depends, *package.constrains):
        if spec.name == CUDA and not machine.has_cuda and spec in package.depends:
            return CondaAnswer(False, spec.text, f"there is no {CUDA}")
        if spec.name == CUDA and machine.has_cuda and machine.driver and not spec.versions.matches(machine.driver):
            return CondaAnswer(False, spec.text, f"the driver is of CUDA {_dotted(machine.driver)}")
    return CondaAnswer(True)


class CondaChoice(Record):
    """The build that a machine gets, None if it may have none, and why it may not have each of the others.

    ``equals`` are builds that a solver may take as well: which of them it takes depends on more than is modelled here.
    """

    package: CondaPackage | None
    refused: tuple[tuple[CondaPackage, CondaAnswer], ...] = ()
    equals: tuple[CondaPackage, ...] = ()


def choose_conda_package(packages: Iterable[CondaPackage], machine: CondaMachine) -> CondaChoice:
    """Return which of the builds of one package a solver takes for a machine."""
    answers = [(package, may_have(package, machine)) for package in packages]
    refused = tuple((package, answer) for package, answer in answers if not answer.answer)
    fitting = sorted((package for package, answer in answers if answer.answer), key=cmp_to_key(_compare_priority))
    if not fitting:
        return CondaChoice(None, refused)
    equals = tuple(other for other in fitting[1:] if not _compare_priority(fitting[0], other))
    return CondaChoice(fitting[0], refused, equals)


def _compare_priority(one: CondaPackage, other: CondaPackage) -> int:
    """Return a number below 0 if a solver prefers ``one``, above 0 if ``other``, 0 if neither for its own sake."""
    by_version = compare_versions(other.version, one.version)
    return one.tracked - other.tracked or by_version or other.build_number - one.build_number


class AdmittedDevices(Record):
    """The devices that may have a package, each alone in its machine, on the package's platform.

    ``capabilities`` are known ones, lowest first. ``is_open`` says that devices after all known ones may have it too.
    ``idle`` are upper bounds on the metapackage, which keep no device away.
    """

    capabilities: tuple[Capability, ...]
    is_open: bool
    idle: tuple[str, ...] = ()


def admitted_devices(package: CondaPackage) -> AdmittedDevices:
    """Return the devices that may have a package; Jetsons only if its platform is not one without Arm processors."""
    passed_by = {number for number in ON_ARM if package.subdir in _NOT_ARM}
    asks = package.asks
    found = [
        each
        for each in (*_known(), _LATER)
        if each[0] * 10 + each[1] not in passed_by and all(spec.lets_in(each) for spec in asks)
    ]
    idle = tuple(
        spec.text
        for spec in asks
        if spec.name == METAPACKAGE and any(not spec.versions.matches(each) for each in found)
    )
    return AdmittedDevices(tuple(each for each in found if each != _LATER), _LATER in found, idle)
