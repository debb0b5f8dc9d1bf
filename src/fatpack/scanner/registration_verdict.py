"""Compare the kernels that a file registers, launches and contains: one verdict for all commands.

::

    the scan ─► containers ─┐
             ─► findings ───┤
    the host's code ────────┴─► all findings about registration ─► agrees, findings, or not judged: reason

Used by ``inspect --runtime``, ``check --registered`` and ``doctor``. The scan has analyzed the relocations of objects;
the code of programs is analyzed here. The verdict is never "agrees" if the code could not be analyzed, or if kernels
are registered whose images do not show their names.
"""

from __future__ import annotations

from fatpack import binary, limits
from fatpack.binary.host_sections import is_host_data_section, section_name_stem
from fatpack.binary.section_names import CUDA_FATBIN, HIP_FATBIN
from fatpack.errors import FormatError, HostError, Unsupported, pluralize
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.registration.analysis import analyze
from fatpack.registration.analysis.findings import name_list, unregistered_variables
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.scanner.image_names import (
    defined_variables,
    kernel_names_by_arch,
    kernel_names_in_images,
    read_kernel_names,
    too_large,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.registration.analysis.findings import KernelsByArch
    from fatpack.registration.analysis.model import RegistrationEvidence

AGREES, FINDINGS, NOT_JUDGED, NO_VERDICT = "agrees", "findings", "not judged", "nothing registers"

#: SYCL's runtime finds the kernel of a launch by its name, and the host code has no table of these
UNCHECKED = "the kernels that SYCL code launches, because no table in it names them"

#: prefix of the codes of findings about registration and launches
CODES = "FP30"

#: the prefix of the mangled names of variables in functions
_OF_FUNCTIONS = "_ZZ"

#: LIMIT: bytes of images that are decompressed and read for the names of their kernels. If there are more, the names
#: that a program registers are not compared.
IMAGES = 512 << 20


class RegisteringFile(Record):
    """An object, a program, or a member of an archive, and its registrations.

    ``way``: the source of the evidence, or the reason that there is none.
    ``evidence``: None if it was not read.
    ``kernels``: the names in its images, None if they were not read.
    ``findings``: findings that the scan has not reported.
    ``why_not``: the reason in words if no agreement can be stated.
    ``unchecked``: a part of the registrations, in words, that no file shows.
    ``is_judged``: true if there was anything to judge.
    """

    member: str | None
    numbers: tuple[int, ...]
    view: View
    host: str
    way: str
    evidence: RegistrationEvidence | None
    kernels: KernelsByArch | None = None
    findings: tuple[Finding, ...] = ()
    why_not: str = ""
    is_judged: bool = False
    unchecked: str = ""


class ScannedContainers:
    """The results of a scan so far: containers by archive member, and findings."""

    def __init__(self, items: Iterable[FoundContainer | Finding] = ()) -> None:
        self.containers: dict[tuple[int, ...], list[FoundContainer]] = {}
        self.findings: list[Finding] = []
        for item in items:
            self.take(item)

    def take(self, item: FoundContainer | Finding) -> None:
        """Add an item of the scan."""
        if isinstance(item, Finding):
            self.findings.append(item)
        else:
            self.containers.setdefault(item.member_numbers, []).append(item)


class RegistrationVerdict(Record):
    """All findings about the registrations of a file, notes included, and the reasons that some were not judged.

    ``judged`` is the number of objects and programs in it whose registrations were read, ``unchecked`` a part of their
    registrations, in words, that no file shows.
    """

    findings: tuple[Finding, ...] = ()
    why_not: str = ""
    judged: int = 0
    unchecked: str = ""

    @property
    def word(self) -> str:
        """``agrees``, ``findings``, ``not judged`` or ``nothing registers``."""
        if any(item.severity != "note" for item in self.findings):
            return FINDINGS
        if self.why_not:
            return NOT_JUDGED
        return AGREES if self.judged else NO_VERDICT

    @property
    def text(self) -> str:
        """The word, with the reason after ``not judged``."""
        return f"{NOT_JUDGED}: {self.why_not}" if self.word == NOT_JUDGED else self.word


def judge_file(view: View, scanned: ScannedContainers | None = None) -> RegistrationVerdict:
    """Return the verdict on a file; ``scanned`` are the results of its scan if there was one already."""
    scanned = ScannedContainers(scan(view)) if scanned is None else scanned
    return make_verdict(scanned.findings, read_registering_files(view, scanned))


def make_verdict(reported: Iterable[Finding], found: Iterable[RegisteringFile]) -> RegistrationVerdict:
    """Return the verdict that follows from the findings of a scan and the parts of a file."""
    findings = [item for item in reported if item.code.startswith(CODES)]
    why_not, judged, unchecked = "", 0, ""
    for part in found:
        findings += part.findings
        why_not = why_not or part.why_not
        judged += part.is_judged
        unchecked = unchecked or part.unchecked
    return RegistrationVerdict(tuple(dict.fromkeys(findings)), why_not, judged, unchecked)


def read_registering_files(view: View, scanned: ScannedContainers) -> Iterator[RegisteringFile]:
    """Yield the host files in a file that use a runtime or contain device code, with their registrations."""
    reported: dict[object, set[str]] = {}
    for item in scanned.findings:
        reported.setdefault(item.span.source, set()).add(item.code)
    for member, numbers, inner in _files(view, None, (), limits.NESTING):
        found = scanned.containers.get(numbers, [])
        host = detect_host(inner)
        if not found and not analyze.may_register(inner, host):
            continue
        part = _part(inner, host, member, numbers, found, reported.get(inner.chain, set()))
        if part is not None:
            yield part


def _files(
    view: View, member: str | None, numbers: tuple[int, ...], depth: int
) -> Iterator[tuple[str | None, tuple[int, ...], View]]:
    """Yield the host files in a file, with the names of members and the numbers that lead to them."""
    host = detect_host(view)
    if host != "archive":
        yield member, numbers, view
        return
    if not depth:
        return
    try:
        for site in binary.get_host("archive").locate(view):
            if not isinstance(site, Finding) and site.content == binary.MEMBER:
                name = site.member if member is None else f"{member}({site.member})"
                yield from _files(site.data, name, (*numbers, site.number), depth - 1)
    except (FormatError, HostError, Unsupported):
        return  # the scan has reported it


def _part(
    view: View,
    host: str,
    member: str | None,
    numbers: tuple[int, ...],
    found: Sequence[FoundContainer],
    reported: set[str],
) -> RegisteringFile | None:
    """Return one object or program, None if it uses no runtime; ``reported`` are the codes of the findings so far."""
    evidence, way = analyze.read_evidence(view, host)
    if evidence is None:
        if not found and way not in (analyze.NOT_READ, analyze.DAMAGED):
            return None
        why_not = _unread(host, way) if found and host != "raw" else ""
        return RegisteringFile(member, numbers, view, host, way, None, why_not=why_not)
    has_records = evidence.wrappers or evidence.tables or evidence.descriptors or evidence.offload_binaries
    if not (evidence.called or has_records or evidence.stubs or evidence.binaries):
        # Nothing has to register images among the data of a library: its own code loads them, as Triton's tools do.
        is_for_link = not evidence.is_linked and not any(_is_for_records(each) for each in found)
        if is_for_link or all(_is_in_data(each) for each in found):
            return None
        return RegisteringFile(
            member, numbers, view, host, way, evidence, why_not="nothing in it registers its device code"
        )
    kernels, unknown = _kernels(evidence, found) if evidence.kernels or evidence.binaries else (None, "")
    findings: list[Finding] = []
    # Of objects the scan compares what takes little inflating.
    if evidence.is_linked or (kernels is not None and found and kernel_names_by_arch(found) is None):
        made = analyze.findings_from_evidence(evidence, kernels, lambda: defined_variables(found, IMAGES) or set())
        findings = [item for item in made if item.code not in reported]
    is_own = bool(found) or analyze.has_own_kernels(evidence)
    why_not = analyze.not_judged_reason(evidence, way) if is_own else ""
    if is_own and not why_not and evidence.kernels and not any(each.symbol for each in evidence.wrappers):
        why_not = unknown
    if is_own and not why_not and not evidence.memory.has_variables and not findings:
        why_not = _unknown_variables(evidence, defined_variables(found, IMAGES))
    is_judged = is_own and not why_not
    models = {each.model for each in evidence.binaries} | {each.model for each in evidence.descriptors}
    unchecked = UNCHECKED if is_judged and "sycl" in models else ""
    return RegisteringFile(
        member, numbers, view, host, way, evidence, kernels, tuple(findings), why_not, is_judged, unchecked
    )


def _unknown_variables(evidence: RegistrationEvidence, variables: set[str] | None) -> str:
    """Return the reason in words that variables of images were not judged; "" if all are registered.

    ``variables`` are those of the images, None if they were not read. Those of functions are for the device alone.
    """
    if variables is None:
        return too_large(IMAGES, "variables")
    lost = [name for name in unregistered_variables(evidence, variables) if not name.startswith(_OF_FUNCTIONS)]
    if not lost:
        return ""
    text = f"{pluralize(len(lost), 'variable')} of the images not registered"
    return f"{text}, and no table of symbols shows if host code uses them: {name_list(lost)}"


def _is_for_records(found: FoundContainer) -> bool:
    """Return whether a container is in a section whose containers records register; others are inputs of a link."""
    return section_name_stem(found.section or "") in (CUDA_FATBIN, HIP_FATBIN)


def _is_in_data(found: FoundContainer) -> bool:
    return is_host_data_section(section_name_stem(found.section or ""))


def _kernels(evidence: RegistrationEvidence, found: Sequence[FoundContainer]) -> tuple[KernelsByArch | None, str]:
    """Return the kernels of all images, None if they are unknown, and the reason that an image does not show them.

    Without containers in the scan, the images are the ones to which descriptors point.
    """
    if found:
        return read_kernel_names(found, IMAGES)
    memory, views = evidence.memory, []
    for image in (image for each in evidence.descriptors for image in each.images):
        place, size = memory.place(image.begin), image.end - image.begin
        if not place or not 0 < size <= len(memory.view) - place:
            return None, "a descriptor points to an image outside the file"
        views.append(memory.view.slice(place, size))
    names = kernel_names_in_images(views) if views else None
    why = "a descriptor points to an image without names of kernels"
    return names, why if views and names is None else ""


def _unread(host: str, way: str) -> str:
    """Return the reason in words that the registrations of a host file are unknown."""
    if way == analyze.LTO or host == "bitcode":
        return "the registrations of bitcode are known only after it is compiled"
    if way == analyze.DAMAGED:
        return "its bytes are damaged or could not be read"
    if way == analyze.NOT_READ:
        return "its processor or its encoding of relocations is not supported"
    return "registrations in files of this kind are not read"
