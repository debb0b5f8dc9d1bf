"""A file of a unit, read: of which stage it is, its device code, and what its host's side launches and registers.

Kernels are named by cubins, PTX, code objects, SPIR-V and CIR; bitcode and LTO-IR do not tell, and neither do modules
in MLIR bytecode whose functions only their dialect knows. What host files register comes from
:mod:`fatpack.scanner.registration_verdict`, with what is wrong with it.
"""

from __future__ import annotations

from fatpack import images
from fatpack.binary.elf import quick_header
from fatpack.commands.check_stages import registering
from fatpack.commands.check_stages.facts import (
    CONTAINERS,
    IMAGES,
    MODULES,
    OBJECTS,
    PROGRAMS,
    HostSide,
    StageFile,
    StageImage,
)
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.model import Finding, Target
from fatpack.scanner import FoundContainer, detect_host, registration_verdict, scan
from fatpack.scanner.results import finding_from_error
from fatpack.targets.triple import is_amdgpu, is_nvptx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from fatpack.io.source import View
    from fatpack.scanner import FoundImage

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
    """Return what a file shows. What is damaged is in its findings, as errors; nothing is raised for it.

    What is wrong with what it registers is there, too, as ``inspect --runtime`` has it.
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
        inside = [item for item in image.inside if isinstance(item, FoundContainer)]
        if inside:
            yield from self._codes(inside)
            return
        target = image.target
        try:
            recognised = image.recognised
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
            launched |= registering.launched_kernels(evidence)
            registered |= registering.registered_kernels(evidence, codes)
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
