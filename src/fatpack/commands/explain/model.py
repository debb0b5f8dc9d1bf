"""Records of ``explain``: outcomes by device and unit, failures first."""

from __future__ import annotations

from fatpack.exit_codes import FINDINGS, FINE
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data
from fatpack.tabular.skipped import Skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.tabular.image_sets import ImageSetLocation

#: The installers whose choice is known (:mod:`fatpack.commands.explain.installers`).
INSTALLERS = ("uv", "pip", "conda", "hugging-face")

#: The version of the JSON document.
SCHEMA = "fatpack.explain/1"


class RuntimeErrorText(Record):
    """The error that the runtime gives to the program: its text, its number and its names.

    ``code`` is None where there is none. ``also`` are what the runtime writes beside it, and what others say instead.
    """

    text: str
    code: int | None = None
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class ImageAnswer(Record):
    """An image, or several that are alike to the runtime (``count``), and whether it fits the device.

    ``position`` is where ``inspect`` lists the first of them, ``name`` what it is for as patterns name it
    (``compute_80`` for PTX), ``form`` what its bytes are. ``fits`` is yes, no, unknown, or some: in some settings of
    the device's features. ``rule`` and ``reason`` are those that say so. ``role`` is taken, may (it may be taken) or
    "". ``needs`` is the CUDA version of the first driver that takes it, "" for any. ``has_kernel`` says whether the
    kernel that was asked for is in it, None if that is not known. ``holds`` is what its bytes are for by their own
    account, where that is not what it is labelled as, else "".
    """

    position: str
    name: str
    form: str
    count: int
    fits: str
    rule: str
    reason: str
    role: str = ""
    compression: str | None = None
    ptx_version: str | None = None
    needs: str = ""
    has_kernel: bool | None = None
    holds: str = ""


class StateAnswer(Record):
    """Outcome of a unit for one setting of an AMD device's features."""

    state: str
    outcome: str
    rule: str
    reason: str


class ImageSetAnswer(Record):
    """The runtime's choice for a device among the images of one unit, or of several units with the same answer.

    ``outcome`` is runs, compiles (what is taken is compiled when it is loaded), fails or unknown. ``rule`` and
    ``reason`` decided it; without ``is_certain`` the rules leave open what is taken. ``error`` is what the program gets
    where it fails, ``fixes`` what helps, ``danger`` what seems to help and does harm. ``states`` has a line for
    each setting of an AMD device's features, where they differ. ``runtime`` is cuda, hip, openmp, sycl, kpack or gcc.
    """

    runtime: str
    format: str | None
    outcome: str
    rule: str
    reason: str
    is_certain: bool
    images: tuple[ImageAnswer, ...]
    error: RuntimeErrorText | None = None
    fixes: tuple[str, ...] = ()
    danger: str = ""
    states: tuple[StateAnswer, ...] = ()
    places: tuple[ImageSetLocation, ...] = ()

    @property
    def count(self) -> int:
        """Number of units with this outcome."""
        return len(self.places)

    @property
    def noun(self) -> str:
        """Title of a unit: a program of kpack archives, a library that chooses by itself, an image, or a container."""
        from fatpack.tabular.image_sets import is_in_data

        if self.runtime == "kpack":
            return "program"
        if all(place.library for place in self.places):
            return "library"
        if all(is_in_data(place.section or "", self.format) for place in self.places):
            return "library"
        return "image" if all(place.container is None for place in self.places) else "container"


class RuleAnswer(Record):
    """A rule that an answer names, with its source; ``mark`` says what it rests on: S, D, F, O or U."""

    name: str
    says: str
    mark: str
    source: str


class DeviceAnswer(Record):
    """Outcome of all files on one device.

    ``device`` is its architecture, ``words`` as messages call it. ``verdict`` is one sentence. ``runs`` counts units
    that run, ``compiles`` those of them that compile code first; ``fails`` and ``unknown`` the others. ``units`` are
    those that fail first. ``without_kernels`` counts units of which no launch can fail, if there are no others.
    ``notes`` say what to know. Without ``is_complete`` not all could be read that may be for it.
    """

    device: str
    words: str
    vendor: str
    verdict: str
    runs: int
    compiles: int
    fails: int
    unknown: int
    units: tuple[ImageSetAnswer, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    without_kernels: int = 0

    @property
    def is_served(self) -> bool:
        """True if the files have code for devices of its vendor, and all of it was read and runs, or has no kernels."""
        return self.is_complete and bool(self.runs or self.without_kernels) and not self.fails and not self.unknown


class LeftBuild(Record):
    """A build of a release that an installer leaves, by its file name, and the reason."""

    name: str
    reason: str


class InstallerChoice(Record):
    """The build that an installer takes for a machine: its ``path``, "" if it takes none, with the reason.

    ``release`` is the requested release (``demo 1.0``), ``label`` the variant's label, ``left`` are the other builds.
    ``notes`` say what was assumed.
    """

    installer: str
    release: str
    path: str
    label: str
    reason: str
    left: tuple[LeftBuild, ...] = ()
    notes: tuple[str, ...] = ()


class PackageOutcome(Record):
    """Outcome of the files of an installed package on one device: numbers of files, and why the first of them fails.

    A file counts once, by the worst of its units.
    """

    device: str
    runs: int
    fails: int
    unknown: int
    reason: str = ""


class InstalledPackage(Record):
    """A package in an environment: as commands name it, its ``installer``, and the ``label`` of its variant or "".

    ``outcomes`` has one for each device, and is empty if the package has no device code for them.
    """

    package: str
    installer: str
    label: str
    outcomes: tuple[PackageOutcome, ...]
    notes: tuple[str, ...] = ()


class UnreadInput(Record):
    """A file that could not be read, or not to its end: the reason, and its exit code."""

    path: str
    problem: str
    exit_code: int


class ExplainResult(Result):
    """The images that devices load from files; ``files`` counts files with device code, ``kernel`` is the pattern.

    ``installed`` are what an installer takes, if one was named: the rest is about that. ``packages`` are those of an
    environment with code for the devices.

    ``rules`` are all that the answers name. ``exit_code`` is 0 if everything runs on every device, 1 if something fails
    or is not known to run, and that of the worst file if one could not be read. ``unlooked`` counts the files that
    were skipped.
    """

    paths: tuple[str, ...]
    files: int
    kernel: str
    driver: str
    rocm: str
    devices: tuple[DeviceAnswer, ...]
    rules: tuple[RuleAnswer, ...]
    unread: tuple[UnreadInput, ...]
    exit_code: int
    unlooked: Skipped = Skipped()
    installed: tuple[InstallerChoice, ...] = ()
    packages: tuple[InstalledPackage, ...] = ()

    @property
    def verdict(self) -> str:
        """``runs``, ``fails`` or ``unknown`` (nothing fails, and not all is known to run), or ``unreadable``."""
        if self.exit_code > FINDINGS or self.unread:
            return "unreadable"
        if self.exit_code == FINE:
            return "runs"
        is_open = any(one.unknown and not one.fails for one in self.devices)
        return "unknown" if is_open and not any(one.fails for one in self.devices) else "fails"

    def lines(self) -> Sequence[str]:
        """Return the verdict of each device, and what could not be read."""
        unread = [f"not read: {item.path}: {item.problem}" for item in self.unread[:MAX_PROBLEM_LINES]]
        first, *others = [one.verdict for one in self.devices] or [self.verdict]
        left_out = () if self.unlooked.is_asked else (self.unlooked.sentence(),)
        return (f"{self.verdict}: {first}", *others, *unread, *left_out)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: the document of ``fatpack explain --json``."""
        return {"schema": SCHEMA, **to_plain_data(self)}
