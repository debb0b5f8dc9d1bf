"""One build stage: its kind, its device code, and the kernels that its host code launches and registers.

Kernels are named by cubins, PTX, code objects, SPIR-V and CIR; bitcode and LTO-IR do not tell, and neither do modules
in MLIR bytecode whose functions only their dialect knows. What host files register comes from
:mod:`fatpack.scanner.registration_verdict`, with what is wrong with it.
"""

from __future__ import annotations

from collections import Counter

from fatpack import images
from fatpack.binary.elf import quick_header
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.model import Finding, Target
from fatpack.record import Record
from fatpack.scanner import FoundContainer, detect_host, registration_verdict, scan
from fatpack.scanner.results import finding_from_error
from fatpack.targets.compatibility import effective_processor, target_identity
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx
from fatpack.targets.vocabulary import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
    from typing import Any

    from fatpack.io.source import View
    from fatpack.registration.analysis.model import RegistrationEvidence
    from fatpack.scanner import FoundImage


# The stages of a build, and the content of the files of one source file.
#
# ::
#
#     modules ──► images ──► containers ──► objects ──► programs
#     CIR, MLIR,   cubin,     fat binary,    .o, .obj,   executables,
#     bitcode      PTX,       bundle,        .a          libraries
#                  code       offload
#                  object     binary
#
# The stage of a file is decided by its content, not by its name. Files of the same stage are merged: the cubins of
# several architectures, the module of the host and the modules of the devices.

#: The stages, earliest first.
MODULES, IMAGES, CONTAINERS, OBJECTS, PROGRAMS = "modules", "images", "containers", "objects", "programs"
ORDER = (MODULES, IMAGES, CONTAINERS, OBJECTS, PROGRAMS)

#: Functions that runtimes call before and after all kernels: compilers write them, and nothing registers them.
_OF_RUNTIMES = frozenset(
    ("amdgcn.device.init", "amdgcn.device.fini", "nvptx$device$init", "nvptx$device$fini", "__omp_offloading_entries")
)

#: LIMIT: architectures of one processor in a stage, each of which is compared with each. AMD has nine for a processor:
#: two features that are on, off or either.
VARIANTS = 16


class StageImage(Record):
    """Device code for one target: its form, and the names of its kernels; None if its form does not tell them."""

    target: Target
    form: str
    kernels: frozenset[str] | None


class HostSide(Record):
    """The host's side of a file. ``launched`` are the names of the kernels that it launches, if the file has them.

    ``registered`` are the names that it registers as kernels; ``why_not`` tells in words why some or all of them are
    not known. ``awaits`` tells that its device code comes from a file that it is linked with.
    """

    launched: frozenset[str] = frozenset()
    registered: frozenset[str] | None = None
    why_not: str = ""
    awaits: bool = False


class StageFile(Record):
    """A file of the unit: its stage ("" if it is of none), its device code, and its host's side, if it has one."""

    path: str
    kind: str
    codes: tuple[StageImage, ...]
    host: HostSide | None
    findings: tuple[Finding, ...]


class StageArchCode(Record):
    """The device code of a stage for one architecture; ``is_whole``: the kernels of all its images are known."""

    target: Target
    kernels: frozenset[str]
    is_whole: bool
    forms: tuple[str, ...]

    @property
    def title(self) -> str:
        """The architecture as users name it."""
        return self.target.arch or self.target.triple or "no architecture"


class BuildStage(Record):
    """The files of one stage: their device code by architecture, and their host's sides together.

    ``unplaced`` is device code that does not say for which architecture it is, or is for one of the ``crowded``
    processors, of which there are more variants than are compared.
    """

    kind: str
    files: tuple[StageFile, ...]
    parts: tuple[StageArchCode, ...]
    unplaced: tuple[StageImage, ...]
    host: HostSide | None
    crowded: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the stage."""
        return tuple(each.path for each in self.files)

    @property
    def kernels(self) -> frozenset[str]:
        """The names of all kernels in its device code, except the runtimes' own."""
        named = frozenset[str]().union(*(part.kernels for part in self.parts), *map(_names, self.unplaced))
        return named - _OF_RUNTIMES


def group_into_stages(given: Iterable[StageFile]) -> list[BuildStage]:
    """Return the stages that files are of, earliest first."""
    by_kind: dict[str, list[StageFile]] = {}
    for each in given:
        by_kind.setdefault(each.kind, []).append(each)
    return [_stage(kind, by_kind[kind]) for kind in ORDER if kind in by_kind]


def _stage(kind: str, files: Sequence[StageFile]) -> BuildStage:
    groups: dict[Hashable, list[StageImage]] = {}
    unplaced = []
    for code in (code for each in files for code in each.codes):
        key = arch_key(code.target)
        if key is None:
            unplaced.append(code)
        else:
            groups.setdefault(key, []).append(code)
    parts = tuple(map(_part, groups.values()))
    count = Counter(processor_key(part.target) for part in parts)
    crowded = {processor: None for processor, variants in count.items() if variants > VARIANTS}
    if crowded:
        for part, codes in zip(parts, groups.values(), strict=True):
            unplaced += codes if processor_key(part.target) in crowded else []
        parts = tuple(part for part in parts if processor_key(part.target) not in crowded)
    return BuildStage(kind, tuple(files), parts, tuple(unplaced), _host(files), tuple(map(str, crowded)))


def _part(codes: Sequence[StageImage]) -> StageArchCode:
    # A virtual architecture is the same as the real one of its number: PTX beside a cubin.
    target = next((code.target for code in codes if not code.target.arch.startswith("compute_")), codes[0].target)
    return StageArchCode(
        target=target,
        kernels=frozenset[str]().union(*map(_names, codes)) - _OF_RUNTIMES,
        is_whole=all(code.kernels is not None for code in codes),
        forms=tuple(dict.fromkeys(code.form for code in codes)),
    )


def _host(files: Sequence[StageFile]) -> HostSide | None:
    hosts = [each.host for each in files if each.host is not None]
    if not hosts:
        return None
    known = [each.registered for each in hosts if each.registered is not None]
    return HostSide(
        launched=frozenset[str]().union(*(each.launched for each in hosts)),
        registered=frozenset[str]().union(*known) if known else None,
        why_not=next((each.why_not for each in hosts if each.why_not), ""),
        awaits=any(each.awaits for each in hosts),
    )


def _names(code: StageImage) -> frozenset[str]:
    return code.kernels or frozenset()


def arch_key(target: Target) -> Hashable | None:
    """Return what is equal for code of one architecture, None for code that names none."""
    arch = parse_nvidia(target.arch)
    if arch is not None:
        return (arch.number, arch.suffix)
    return target_identity(target) if effective_processor(target) else None


def processor_key(target: Target) -> Hashable:
    """Return what is equal for code of one processor, whatever its features: only that can be of one architecture."""
    return arch_key(target) if parse_nvidia(target.arch) else effective_processor(target)


def is_for_same_target(wanted: Target, there: Target) -> bool:
    """Return whether code of a later stage is that for the target of an earlier one.

    A feature of an AMD target that one of them does not name may be either: code objects state what bundles leave open.
    """
    if arch_key(wanted) == arch_key(there):
        return True
    if parse_nvidia(wanted.arch) or effective_processor(wanted) != effective_processor(there):
        return False
    have, want = feature_signs(there.arch), feature_signs(wanted.arch)
    return all(have.get(feature, sign) == sign for feature, sign in want.items())


# Kernels that the host launches and registers, by name. Code counts unless a verdict shows that it never runs.
#
# Names that a file holds for a register function are not registered where no constructor leads to the call, and neither
# are offload entries that nothing goes through.

#: verdicts: no constructor leads to what registers; nothing calls what registers; calls pass entries by
_NEVER_RUN, _NOT_CALLED, _PASSED_BY = {"FP3043", "FP3044"}, {"FP3049", "FP3053"}, "FP3047"

#: the models that verdict FP3047 is about
_BY_CALLS = ("cuda", "hip")


def registered_kernels(evidence: RegistrationEvidence, codes: Set[str]) -> frozenset[str]:
    """Return the names of the kernels that a file registers when it is loaded; ``codes`` are those of its verdicts."""
    reached = evidence.reached if not _NEVER_RUN.isdisjoint(codes) else None
    callers: dict[str, set[int]] = {}
    for binary in evidence.binaries:
        callers.setdefault(binary.model, set()).add(binary.caller)

    def is_begun(model: str) -> bool:
        """True unless a verdict shows that no code registers the model's device code with its runtime."""
        if model not in callers:
            return _NOT_CALLED.isdisjoint(codes)
        return reached is None or not callers[model].isdisjoint(reached)

    names = {
        each.name
        for each in evidence.registered
        if each.is_kernel and each.name and is_begun(each.model) and (reached is None or each.caller in reached)
    }
    entries = (each for each in evidence.entries if each.is_kernel and is_begun(each.kind))
    names.update(each.name for each in entries if _PASSED_BY not in codes or each.kind not in _BY_CALLS)
    return frozenset(names)


def launched_kernels(evidence: RegistrationEvidence) -> frozenset[str]:
    """Return the names of the kernels that a file launches, if their registrations have names."""
    names = {each.handle: each.name for each in evidence.registered if each.is_kernel and each.name}
    names.update((entry.address, entry.name) for entry in evidence.entries if entry.is_kernel)
    return frozenset(names[each.handle] for each in evidence.launches if each.handle in names)


#: Forms whose readers name every kernel
_NAMING = ("cubin", "ptx", "code-object", "spirv", "tileir")

#: Forms of files that are no image alone
_NO_IMAGES = ("", "object", "archive", "empty")

_CIR = "cir-offload-container"

#: Hosts that are linked with others before they run; of other hosts only ELF files may be either.
_UNLINKED = ("coff", "archive", "bitcode")

#: Beginnings of the codes of what is wrong with what a host file registers
_REGISTRATION = ("FP304", "FP305")


def read_stage_file(view: View, path: str) -> StageFile:
    """Return the stage of a file. Damage is in its findings, as errors; nothing is raised for it.

    The findings about its registration are there, too, as in ``inspect --runtime``.
    """
    scanned = registration_verdict.ScannedContainers()
    found: list[FoundContainer] = []
    findings: list[Finding] = []
    try:
        for item in scan(view):
            scanned.take(item)
            if isinstance(item, FoundContainer):
                found.append(item)
            elif item.severity == "error" or item.code.startswith(_REGISTRATION):
                findings.append(item)
        recognised = images.identify_image(view)
        reader = _Reader(view, found, findings, scanned)
        kind, codes, host = reader.read(recognised)
    except (FormatError, HostError, Unsupported) as error:
        return StageFile(path, "", (), None, (*findings, finding_from_error(error, view.span())))
    return StageFile(path, kind, tuple(codes), host, tuple(findings))


class _Reader:
    """One file while it is read; ``findings`` get what is damaged in it."""

    def __init__(
        self,
        view: View,
        found: list[FoundContainer],
        findings: list[Finding],
        scanned: registration_verdict.ScannedContainers,
    ) -> None:
        self._view, self._scanned = view, scanned
        self._found = found
        self._findings = findings

    def read(self, recognised: images.ImageInfo) -> tuple[str, list[StageImage], HostSide | None]:
        """Return the stage of the file, its device code, and its host's side."""
        view = self._view
        cir = [item for item in self._found if item.format == _CIR and item.host == "raw"]
        if cir or recognised.form == "cir":
            return self._modules(cir)
        if recognised.form == "bitcode" and _is_device(recognised.triple):
            return MODULES, [StageImage(Target(recognised.triple, recognised.arch), "bitcode", None)], None
        if recognised.form not in (*_NO_IMAGES, "bitcode") and not recognised.container:
            target = Target(recognised.triple, recognised.arch)
            return IMAGES, [StageImage(target, recognised.form, self._kernels(view, recognised.form))], None
        codes = list(self._codes(self._found))
        host = detect_host(view)
        if host == "raw":
            return (CONTAINERS if self._found else ""), codes, None
        return (PROGRAMS if _is_program(view, host) else OBJECTS), codes, self._host(view)

    def _modules(self, containers: list[FoundContainer]) -> tuple[str, list[StageImage], HostSide | None]:
        """Return what CIR modules say: of devices their kernels, of the host what its stubs launch."""
        from fatpack.formats import cir

        codes: list[StageImage] = []
        launched: set[str] = set()
        for item in containers:
            described: Any = cir.describe(item.container)["modules"]
            for image, module in zip(item.images, described, strict=True):
                if image.target.offload == "host":
                    launched.update(stub["kernel"] for stub in module.get("stubs", ()))
                else:
                    codes.append(StageImage(image.target, "cir", _named(module)))
        if not containers:
            alone: Any = cir.describe_plain_modules(self._view)["modules"]
            for module in alone:
                if _is_device(module["triple"]):
                    codes.append(
                        StageImage(Target(module["triple"], module["arch"], module["offload"]), "cir", _named(module))
                    )
                launched.update(stub["kernel"] for stub in module.get("stubs", ()))
        # Finished device code that a host module embeds
        codes += self._codes(item for item in self._found if item not in containers)
        return MODULES, codes, HostSide(frozenset(launched)) if launched else None

    def _codes(self, found: Iterable[FoundContainer]) -> Iterator[StageImage]:
        for item in found:
            for image in item.images:
                if image.target.offload != "host" and image.size:
                    yield from self._code(image)

    def _code(self, image: FoundImage) -> Iterator[StageImage]:
        inside = list(image.containers)
        if inside:
            yield from self._codes(inside)
            return
        target = image.target
        try:
            recognised = image.info
            if recognised is images.NOT_INFLATED:
                recognised = images.identify_image(image.data)
            form = recognised.form or image.as_stored.form
            if not target.arch:
                target = target.replace(triple=target.triple or recognised.triple, arch=recognised.arch)
            kernels = self._kernels(image.data, form)
        except (FormatError, Unsupported) as error:
            self._findings.append(finding_from_error(error, image.span))
            return
        yield StageImage(target, form, kernels)

    def _kernels(self, view: View, form: str) -> frozenset[str] | None:
        """Return the kernels of an image; None for a form that does not name them, and for damage (a finding)."""
        if form not in _NAMING:
            return None
        try:
            return frozenset(images.kernels(view, form))
        except FormatError as error:
            self._findings.append(finding_from_error(error, view.span()))
            return None

    def _host(self, view: View) -> HostSide:
        """Return what the host's side launches and registers; what is wrong with that is added to the findings."""
        launched: set[str] = set()
        registered: set[str] = set()
        why_not, awaits, is_read, is_unread = "", False, False, False
        for part in registration_verdict.read_registering_files(view, self._scanned):
            why_not = why_not or part.why_not
            evidence = part.evidence
            if evidence is None:
                is_unread = is_unread or part.host != "raw"
                continue
            is_read = True
            known = [item for item in self._findings if item.span.source == part.view.chain]
            self._findings += part.findings
            codes = {item.code for item in (*known, *part.findings)}
            launched |= launched_kernels(evidence)
            registered |= registered_kernels(evidence, codes)
            awaits = awaits or any(each.symbol for each in evidence.wrappers)
        names = frozenset(registered) if is_read or not is_unread else None
        return HostSide(frozenset(launched), names, why_not, awaits)


def _named(module: Mapping[str, Any]) -> frozenset[str] | None:
    kernels = module["kernels"]
    return None if kernels is None else frozenset(kernels)


def _is_device(triple: str) -> bool:
    return is_nvptx(triple) or is_amdgpu(triple) or triple.startswith("spir")


def _is_program(view: View, host: str) -> bool:
    if host in _UNLINKED:
        return False
    return host != "elf" or quick_header.is_linked(view)
