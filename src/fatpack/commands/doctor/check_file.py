"""Complete verification of one file: parses containers, inflates and reads images, compares all hashes."""

from __future__ import annotations

from contextlib import closing

from fatpack import binary, formats, images, limits
from fatpack.commands.doctor.model import UNJUDGED, UNLINKED, DoctorNotes
from fatpack.commands.doctor.whole_file import (
    LoadedExtent,
    check_container,
    check_host,
    extension_problem,
    measure_extent,
    overflow_findings,
)
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import code_for_error as code_for
from fatpack.findings import finding
from fatpack.images import NOT_INFLATED
from fatpack.io.source import Span, View
from fatpack.model import Finding, arch_name
from fatpack.record import Record
from fatpack.scanner import (
    detect_host,
    inflate_image,
    registration_verdict,
    scan,
)
from fatpack.scanner.share import ImageRoom, share_containers
from fatpack.scanner.standalone_images import member_images, sidecar_record, standalone_image
from fatpack.tabular.cir_launches import as_listed, cir_launches, launch_findings
from fatpack.tabular.hollow import KernelCode, find_hollow
from fatpack.tabular.image_sets import UNDECIDED, device_vendor, unknown_form_findings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.images import ImageInfo
    from fatpack.io.source import Source
    from fatpack.model import Container, Image
    from fatpack.scanner import FoundContainer, FoundImage


#: forms that nothing but their headers is read of, and what they are called
_HEADERS_ONLY = {
    "bitcode": "bitcode",
    "ltoir": "NVIDIA LTO-IR",
    "object": "host objects",
    "archive": "archives of device objects",
    "aocx": "packages for FPGAs",
}

#: forms of images that are containers themselves: what is in them is examined in turn
_CONTAINERS = ("fatbin", "bundle", "offload-binary", "syclbin")


class ExaminedFile(Record):
    """A file that was examined: its kind of host, its size in bytes, and the notes about it."""

    host: str
    size: int
    notes: DoctorNotes
    reach: LoadedExtent | None = None


def examine_file(view: View, *, deep: bool = False) -> ExaminedFile:
    """Examine a file. Damage is noted; raises what reading raises (``OSError``, FormatError where a package ends)."""
    examination = _Examination(view, deep)
    examination.run()
    host, notes = examination.host, examination.notes
    odd = extension_problem(view, view.source.name, has_device_code=bool({"containers", "images"} & set(notes.counts)))
    if odd is not None and notes.state == "healthy":
        notes.add(odd)
    extent = measure_extent(view, host, {index for _, index in notes.sections if index >= 0})
    if extent is not None:
        notes.extend(overflow_findings(extent, view, notes.archs))
    return ExaminedFile(host, len(view), notes, extent)


def _label(view: View, form: str, image: Image | None) -> str:
    """Return the architecture of an image whose kernels are compared with those of other architectures."""
    arch = images.identify_image(view).arch if image is None else image.target.arch
    return arch_name(arch, form) or form


class _Examination:
    """Facts about one file, collected while it is verified."""

    def __init__(self, view: View, deep: bool) -> None:
        self._view = view
        self._deep = deep
        self.host = detect_host(view)
        self.notes = DoctorNotes()
        self._room = ImageRoom(view.source.budget.inflatable)
        self._seen: set[tuple[Source, int, int]] = set()

    def run(self) -> None:
        """Examine the file."""
        notes = self.notes
        found = scan(self._view, deep=self._deep)
        scanned = registration_verdict.ScannedContainers()
        members: set[tuple[int, ...]] = set()
        with closing(share_containers(found, self._elsewhere, self._room, size=len(self._view))) as shared:
            for item, other in shared:
                scanned.take(item)
                if isinstance(item, Finding):
                    notes.add(item)
                    continue
                members.add(item.member_numbers)
                if other is None:
                    self._container(item)
                else:
                    notes.join(other)
                self._seen.clear()
        self._alone(members)
        self._hollow()
        self._registration(scanned)
        notes = self.notes
        if members or notes.counts.get("images"):
            for row in found.not_searched:
                text = "only a deep search looks for containers there"
                notes.skip("bytes of sections and members without device code", text, row.size)
        elif any(item.code == "FP2701" for item in notes.findings):
            notes.skip(UNLINKED, UNDECIDED)
        elif notes.state == "healthy":
            notes.skip("files without device code", "there is nothing to verify in them but their structure")
        if notes.state != "damaged":
            self._map()

    def _hollow(self) -> None:
        """Note kernels that do nothing on one architecture, all in one finding: the code is sound, and of no use."""
        found = sorted(find_hollow(self.notes.codes), key=lambda kernel: not kernel.is_certain)
        self.notes.codes = []
        if found:
            certain = sum(kernel.is_certain for kernel in found)
            first = f"{found[0].name} on {found[0].label} ({found[0].verdict}; works on {found[0].other})"
            text = f"{certain:,} certain, {len(found) - certain:,} likely; the first is {first}"
            self.notes.add(finding("FP3350", self._view.span(), text, "fatpack check FILE --no-hollow fails for them"))

    def _registration(self, scanned: registration_verdict.ScannedContainers) -> None:
        """Take the verdict on what the file registers, which also those get who ask about nothing else."""
        verdict, notes = registration_verdict.judge_file(self._view, scanned), self.notes
        notes.extend(verdict.findings)
        notes.count("registrations", max(verdict.judged, notes.wrong.get("registrations", 0)))
        if verdict.why_not:
            notes.skip(UNJUDGED, verdict.why_not)
        elif verdict.unchecked:
            notes.skip("files of SYCL", f"not checked: {verdict.unchecked}")

    def _map(self) -> None:
        try:
            check_host(self._view, self.host, self.notes)
            checker = binary.get_checker(self.host)
            for item in () if checker is None else checker.check(self._view):
                if isinstance(item, Finding):
                    self.notes.add(item)
                else:
                    self.notes.count("symbol tables", item)
        except FormatError as error:
            self.notes.add(_damage("FP1001", self._view, error))

    def _elsewhere(self, found: FoundContainer, _number: int) -> DoctorNotes:
        """Return the notes about a container, in another process."""
        self.notes = DoctorNotes()
        self._seen.clear()
        self._container(found)
        return self.notes

    def _container(self, found: FoundContainer) -> None:
        notes, container = self.notes, found.container
        notes.count("containers")
        notes.sections.add((found.section, -1 if found.index is None or found.member else found.index))
        is_hashed = self._verify(container)
        for image in found.images:
            self._image(image, container.images, is_hashed=is_hashed)
        if container.format == "cir-offload-container":
            self._launches(container)
            self._split(container)
        if not any(item.severity == "error" for item in container.findings):
            try:
                check_container(found, notes)
            except FormatError as error:
                notes.add(_damage("FP1001", found.view, error))

    def _verify(self, container: Container) -> bool:
        """Check what only the whole content of a container tells; return whether it has a hash."""
        late, notes = formats.content_verifier(container.format), self.notes
        wrong = list(container.findings)
        try:
            if late is not None and late.is_unchecked(container):
                wrong += late.verify(container)
        except FormatError as error:
            wrong.append(finding(code_for("FP1001", error), container.span, error.describe(), error.hint))
        if late is not None:
            notes.extend(wrong)
        for fact in formats.symptoms(container, wrong):
            notes.fact(fact)
        is_hashed = late is not None and late.is_hashed(container)
        if is_hashed:
            notes.count("hashes")
        return is_hashed

    def _split(self, container: Container) -> None:
        """Make a file of each module, as ``extract`` does: the definitions that it uses have to be there."""
        from fatpack.formats import cir

        for image in container.images:
            try:
                for _ in cir.split_image(image):
                    pass
            except Unsupported as error:
                self.notes.skip("modules of CIR", error.problem)
            except FormatError as error:
                self.notes.add(finding(code_for("FP1001", error), image.span, error.describe(), error.hint))

    def _launches(self, container: Container) -> None:
        listed = as_listed(container)
        wanted, devices = cir_launches(listed)
        self.notes.count("launches", len(wanted) * len(devices))
        self.notes.extend(launch_findings(container, listed))

    def _image(self, found: FoundImage, neighbours: Sequence[Image], *, is_hashed: bool) -> None:
        notes = self.notes
        stored = found.as_stored.target
        vendor = device_vendor(stored.offload, stored.triple, stored.arch, found.form)
        notes.images += 1
        notes.device_images += bool(vendor)
        read = self._inflated(found, neighbours)
        if read is None:
            return
        image = read.as_stored
        if image.stored_size and image.target.offload != "host":
            arch = arch_name(image.target.arch, read.form) or image.target.triple
            notes.archs[arch] = notes.archs.get(arch, 0) + image.stored_size
        for item in read.items:
            if isinstance(item, Finding):
                notes.add(item)
            else:
                self._container(item)
        self._claims(read.info)
        form = read.info.form or image.form
        notes.extend(unknown_form_findings(read))
        self._parse(image.data, form, image, is_hashed=is_hashed or image.compression == "zlib")

    def _inflated(self, found: FoundImage, neighbours: Sequence[Image]) -> FoundImage | None:
        """Return an image inflated and recognised, None if that cannot be done."""
        notes = self.notes
        if found.data.source.is_refused:
            notes.skip("images", "this version does not inflate them")
            return None
        if found.info is not NOT_INFLATED or not found.size:
            return found
        if self._room.left < 0:
            return None
        if not self._room.take(found.size):
            text = "the images add up to more than is inflated of one file; the rest is not verified"
            notes.add(finding("FP1005", found.span, text, limits.inflated_hint()))
            return None
        try:
            return inflate_image(found, neighbours)
        except Unsupported as error:
            notes.skip("images", error.problem)
        except FormatError as error:
            notes.add(finding(code_for("FP1104", error), found.span, error.describe(), error.hint))
        return None

    def _claims(self, recognised: ImageInfo) -> None:
        if recognised.arch or recognised.triple:
            self.notes.count("labels")

    def _parse(self, view: View, form: str, image: Image | None = None, *, is_hashed: bool = False) -> None:
        """Read an image to its end, and its kernels."""
        notes, place = self.notes, (view.source, view.start, view.end)
        notes.count("images")
        if place in self._seen:
            return
        self._seen.add(place)
        notes.inflated += len(view)
        try:
            if view.source is not self._view.source:  # inflated: damage may be anywhere up to its end
                for _ in view.pieces():
                    pass
            self._kernels(view, form, image)
        except Unsupported as error:
            notes.skip("images", error.problem)
        except FormatError as error:
            notes.add(_damage("FP1104", view, error))
        if not is_hashed and len(view):
            notes.skip("images without any stored hash", "a wrong byte in the middle of code goes unnoticed")

    def _kernels(self, view: View, form: str, image: Image | None) -> None:
        notes = self.notes
        if form == "cir":
            from fatpack.scanner.results import kernel_names

            notes.count("kernels", len(kernel_names(view, form, None if image is None else image.record)))
            return
        if form in _HEADERS_ONLY:
            notes.skip(f"content of {_HEADERS_ONLY[form]}", "of that form only headers are read")
        elif not form and len(view):
            notes.skip("images of unknown form", "the form of their bytes is not known")
        facts = images.facts(view, form)
        notes.count("kernels", len(facts.kernels))
        label = _label(view, form, image)
        notes.codes += [KernelCode(kernel.name, label, kernel.size, kernel.body) for kernel in facts.kernels]
        span = view.span() if image is None else image.span
        notes.extend(finding("FP1106", span, text) for text in facts.contradictions)
        images.check_codes(view, form)  # which reads every symbol, as rows of kernels and reports do

    def _alone(self, members: set[tuple[int, ...]]) -> None:
        """Examine a file that is a device image itself, or such members of an archive; ``members`` hold containers."""
        recognised = None if members else standalone_image(self._view)
        if recognised is not None:
            self.notes.extend(sidecar_record(self._view, recognised)[1])
            self._bare(self._view, recognised)
        if self.host == "archive":
            for member in member_images(self._view, members):
                if isinstance(member, Finding):
                    self.notes.add(member)
                else:
                    self._bare(member.view, member.info)

    def _bare(self, view: View, recognised: ImageInfo) -> None:
        """Examine a device image that is in no container."""
        self.notes.images += 1
        self.notes.device_images += bool(device_vendor("", recognised.triple, recognised.arch, recognised.form))
        self.notes.archs[recognised.arch] = self.notes.archs.get(recognised.arch, 0) + len(view)
        self._claims(recognised)
        self._parse(view, recognised.form)


def _damage(code: str, view: View, error: FormatError) -> Finding:
    """Return the finding for an error at the place of the wrong field, as ``inspect --kernels`` has it."""
    span = view.span() if error.offset is None else Span(error.offset, max(error.offset, view.end), error.chain)
    return finding(code_for(code, error), span, error.describe(), error.hint, field=error.field)
