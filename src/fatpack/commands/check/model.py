"""Records of a policy check, which every output renders."""

from __future__ import annotations

from fatpack.commands.check.headline import UNJUDGED, check_headline
from fatpack.commands.doctor.model import NO_IMAGE_READ
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED, worst_exit_code
from fatpack.findings import CODES
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data
from fatpack.tabular.skipped import Skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: The schema of the record as JSON.
SCHEMA = "fatpack.check/1"


class MissingKernels(Record):
    """A unit of a library that does not meet a requirement.

    ``position`` is where ``inspect`` lists the unit's container ("" for images in none), ``section`` and ``offset`` say
    where it lies, ``has`` are the architectures in it. ``kernels`` are the names of its kernels, as stored, None where
    they were not read. ``reason`` says in words why nothing in it serves, ``rule`` is the name of the rule.
    """

    position: str
    section: str
    member: str
    offset: int | None
    has: tuple[str, ...]
    rule: str
    reason: str
    kernels: tuple[str, ...] | None = None


class Violation(Record):
    """One way in which one library, or all paths together, break the policy.

    ``code`` is that of a finding (``docs/findings.md``), ``severity`` is ``error`` for what fails the check,
    ``warning`` and ``note`` for what is only said. ``path`` is the library, "" where it is about
    all of them; ``subject`` what is lacking or too much, such as ``sm_120``. ``units`` is how many units the library
    has for the vendor, ``holes`` are those among them that are not served. ``unread`` is the exit code of what could
    not be read, as of ``fatpack inspect``: 3 damaged, 4 not supported, 5 not there; 0 for all else.
    """

    code: str
    severity: str
    path: str
    subject: str
    message: str
    hint: str = ""
    units: int = 0
    holes: tuple[MissingKernels, ...] = ()
    unread: int = FINE

    @property
    def is_broken(self) -> bool:
        """True if the check fails because of it."""
        return self.severity == "error"

    @property
    def is_unread(self) -> bool:
        """True if a file could not be read, so that it is unknown if it complies with the policy."""
        return self.code in ("FP3301", "FP3340") or (
            not self.code.startswith("FP33") and CODES[self.code][0] == "error"
        )


class CheckedLibrary(Record):
    """A file with device code: its path, its size in bytes, what it is for, and how many units it has.

    A unit is what a runtime chooses one image from: a registered fat binary, a bundle, all images of an OpenMP or SYCL
    program, images that lie loose in a folder. ``archs`` are spelled ``sm_90a``, and ``compute_90`` for PTX.
    ``vendors`` are those whose devices it has code for: ``nvidia``, ``amd``, ``intel``; ``is_asked`` tells whether a
    rule was held against it: that an NVIDIA device is served is not asked of a library for AMD's alone. ``unchecked``
    says, in words, what no rule could check in it. ``words`` say what is in a library of several files, such as that of
    rocBLAS, whose folder is the path; "" for others.
    """

    path: str
    size: int
    units: int
    archs: tuple[str, ...]
    vendors: tuple[str, ...] = ()
    is_asked: bool = True
    unchecked: tuple[str, ...] = ()
    words: str = ""


class CompiledDevice(Record):
    """A device that ``units`` of ``total`` units serve only after a driver compiled what is in them.

    ``device`` is spelled as in the devices of :class:`~fatpack.commands.check.policy.Requirement`.
    """

    device: str
    units: int
    total: int


class RequiredDevices(Record):
    """The devices of one vendor that must be served, in words, and those of them that no machine code serves."""

    vendor: str
    devices: tuple[str, ...]
    compiled: tuple[CompiledDevice, ...] = ()


class CheckedPath(Record):
    """An argument and its size in bytes; None if the size is unknown."""

    path: str
    size: int | None


class CheckResult(Result):
    """The outcome of a policy check.

    ``verdict`` is ``passed``, ``failed``, ``unreadable``, or ``not judged`` where nothing is wrong and the registration
    of something could not be followed; ``exit_code`` is 0, 1, or that of what could not be read.
    ``rules`` are the rules that were checked, in words. ``files`` is how many files were looked into, ``passed_by`` how
    many were not, because their names say that no device code is in them. ``required`` are the devices that must be
    served, by vendor, ``unlooked`` is what was met and not looked into.
    """

    paths: tuple[CheckedPath, ...]
    rules: tuple[str, ...]
    libraries: tuple[CheckedLibrary, ...]
    violations: tuple[Violation, ...]
    files: int
    passed_by: int = 0
    config: str = ""
    required: tuple[RequiredDevices, ...] = ()
    unlooked: Skipped = Skipped()

    @property
    def exit_code(self) -> int:
        """0 if the policy holds, 1 if it is broken; 3, 4 or 5 if something could not be read."""
        broken = [item for item in self.violations if item.is_broken]
        return worst_exit_code((FINE, *((item.unread or MALFORMED) if item.is_unread else FINDINGS for item in broken)))

    @property
    def verdict(self) -> str:
        """``passed``, ``not judged``, ``failed`` or ``unreadable``."""
        unjudged = any(item.code == UNJUDGED or item.subject == NO_IMAGE_READ for item in self.violations)
        passed = "not judged" if unjudged else "passed"
        return {FINE: passed, FINDINGS: "failed"}.get(self.exit_code, "unreadable")

    def lines(self) -> Sequence[str]:
        """Return the first line of the command, then the violations, the first few."""
        broken = [item for item in self.violations if item.is_broken]
        said = [
            f"{f'{item.path}: ' if item.path else ''}{item.message} [{item.code}]"
            for item in broken[:MAX_PROBLEM_LINES]
        ]
        if len(broken) > MAX_PROBLEM_LINES:
            said.append(f"{len(broken) - MAX_PROBLEM_LINES} more in violations")
        return (check_headline(self), *said)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain data, schema ``fatpack.check/1``."""
        policy = {
            "verdict": self.verdict,
            "config": self.config or None,
            "rules": list(self.rules),
            "required": [to_plain_data(item) for item in self.required],
            "paths": [to_plain_data(item) for item in self.paths],
            "files": self.files,
            "passed_by_name": self.passed_by,
            "not_looked_into": to_plain_data(self.unlooked),
            "libraries": [to_plain_data(item) for item in self.libraries],
            "violations": [to_plain_data(item) for item in self.violations],
        }
        return {"schema": SCHEMA, "policy": policy, "findings": [], "exit_code": self.exit_code}
