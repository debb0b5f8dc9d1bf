"""One file, examined: every container parsed, every image inflated and read, all that has a hash compared with it."""

from __future__ import annotations

from fatpack import binary, formats, images, limits
from fatpack.commands.doctor import naming, reach, rewriting
from fatpack.commands.doctor.model import UNJUDGED, DoctorNotes
from fatpack.concurrency.processes import map_in_processes
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import code_for_error as code_for
from fatpack.findings import finding
from fatpack.images import NOT_INFLATED
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import bytes_to_inflate, detect_host, inflate_image, registration_verdict, scan
from fatpack.scanner.standalone_images import member_images, sidecar_record, standalone_image
from fatpack.tabular.cir_launches import cir_launches, launch_problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.images import ImageInfo
    from fatpack.io.source import Source, View
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
    """A file that was examined: the kind of host it is, its size in bytes, and what was noted."""

    host: str
    size: int
    notes: DoctorNotes
    reach: reach.Extent | None = None


def examine_file(view: View, *, deep: bool = False) -> ExaminedFile:
    """Examine a file. Damage is noted; raises what reading raises (``OSError``, FormatError where a package ends)."""
    examination = _Examination(view, deep)
    examination.run()
    host, notes = examination.host, examination.notes
    odd = naming.extension_problem(
        view, view.source.name, has_device_code=bool({"containers", "images"} & set(notes.counts))
    )
    if odd is not None and notes.state == "healthy":
        notes.add(odd)
    extent = reach.measure_extent(view, host, {index for _, index in notes.sections if index >= 0})
    if extent is not None:
        notes.extend(reach.overflow_findings(extent, view, notes.archs))
    return ExaminedFile(host, len(view), notes, extent)


class _Examination:
    """What is known of one file so far."""

    def __init__(self, view: View, deep: bool) -> None:
        self._view = view
        self._deep = deep
        self.host = detect_host(view)
        self.notes = DoctorNotes()
        #: how many more bytes of images are read: entries may share their bytes
        self._room = view.source.budget.inflatable
        self._seen: set[tuple[Source, int, int]] = set()

    def run(self) -> None:
        """Examine the file."""
        notes = self.notes
        found = scan(self._view, deep=self._deep)
        scanned = registration_verdict.ScannedContainers()
        members: set[tuple[int, ...]] = set()
        made_ahead = map_in_processes(found, self._elsewhere, bytes_to_inflate)
        try:
            for item, made in made_ahead:
                scanned.take(item)
                if isinstance(item, Finding):
                    notes.add(item)
                    continue
                members.add(item.member_numbers)
                other: DoctorNotes | None = None if made is None else made.value
                if other is not None and self._view.source.budget.inflate(other.drawn):
                    notes.join(other)
                else:
                    self._container(item)
                self._seen.clear()
        finally:
            made_ahead.close()
        self._alone(members)
        self._registration(scanned)
        notes = self.notes
        if members or notes.counts.get("images"):
            for row in found.not_searched:
                text = "only a deep search looks for containers there"
                notes.skip("bytes of sections and members without device code", text, row.size)
        elif notes.state == "healthy":
            notes.skip("files without device code", "there is nothing to verify in them but their structure")
        if notes.state != "damaged":
            self._map()

    def _registration(self, scanned: registration_verdict.ScannedContainers) -> None:
        """Take the verdict on what the file registers, which also those get who ask about nothing else."""
        verdict, notes = registration_verdict.judge_file(self._view, scanned), self.notes
        notes.extend(verdict.findings)
        notes.count("registrations", max(verdict.judged, notes.wrong.get("registrations", 0)))
        if verdict.why_not:
            notes.skip(UNJUDGED, verdict.why_not)

    def _map(self) -> None:
        try:
            rewriting.check_host(self._view, self.host, self.notes)
            checker = binary.get_checker(self.host)
            for item in () if checker is None else checker.check(self._view):
                if isinstance(item, Finding):
                    self.notes.add(item)
                else:
                    self.notes.count("symbol tables", item)
        except FormatError as error:
            self.notes.add(_damage("FP1001", self._view, error))

    def _elsewhere(self, found: FoundContainer | Finding) -> DoctorNotes | None:
        """Return what is noted of a container in another process; None where this one has to do it."""
        if isinstance(found, Finding):
            return None
        self.notes = DoctorNotes()
        self._seen.clear()
        before = self._view.source.budget.drawn
        self._container(found)
        self.notes.drawn = self._view.source.budget.drawn - before
        return self.notes if self._room >= 0 else None

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
                rewriting.check_container(found, notes)
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
        described = dict(formats.get_format(container.format).describe(container))
        numbered = [{"index": index, "arch": image.target.arch} for index, image in enumerate(container.images)]
        record = {"stored": described, "images": numbered}
        wanted, devices = cir_launches(record)
        self.notes.count("launches", len(wanted) * len(devices))
        for code, at, text in launch_problems(record):
            self.notes.add(finding(code, container.images[at].span, text))

    def _image(self, found: FoundImage, neighbours: Sequence[Image], *, is_hashed: bool) -> None:
        notes = self.notes
        read = self._inflated(found, neighbours)
        if read is None:
            return
        image = read.as_stored
        if image.stored_size and image.target.offload != "host":
            arch = image.target.arch or image.target.triple
            notes.archs[arch] = notes.archs.get(arch, 0) + image.stored_size
        for item in read.inside:
            if isinstance(item, Finding):
                notes.add(item)
            else:
                self._container(item)
        self._claims(read.recognised)
        form = read.recognised.form or image.form
        self._parse(image.data, form, image, is_hashed=is_hashed or image.compression == "zlib")

    def _inflated(self, found: FoundImage, neighbours: Sequence[Image]) -> FoundImage | None:
        """Return an image inflated and recognised, None if that cannot be done."""
        notes = self.notes
        if found.data.source.is_refused:
            notes.skip("images", "this version does not inflate them")
            return None
        if found.recognised is not NOT_INFLATED or not found.size:
            return found
        if self._room < 0:
            return None
        self._room -= found.size
        if self._room < 0:
            text = "the images add up to more than is inflated of one file; those from here on are not verified"
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
            span = view.span() if image is None else image.span
            notes.add(finding(code_for("FP1104", error), span, error.describe(), error.hint))
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
            notes.skip("images of unknown form", "nothing says what their bytes are")
        facts = images.facts(view, form)
        notes.count("kernels", len(facts.kernels))
        span = view.span() if image is None else image.span
        notes.extend(finding("FP1106", span, text) for text in facts.contradictions)

    def _alone(self, members: set[tuple[int, ...]]) -> None:
        """Examine a file that is a device image itself, or such members of an archive; ``members`` hold containers."""
        recognised = None if members else standalone_image(self._view)
        if recognised is not None:
            self.notes.extend(sidecar_record(self._view, recognised)[1])
            self._claims(recognised)
            self._parse(self._view, recognised.form)
        if self.host == "archive":
            for member in member_images(self._view, members):
                if isinstance(member, Finding):
                    self.notes.add(member)
                else:
                    self._claims(member.recognised)
                    self._parse(member.view, member.recognised.form)


def _damage(code: str, view: View, error: FormatError) -> Finding:
    return finding(code_for(code, error), view.span(), error.describe(), error.hint, field=error.field)
