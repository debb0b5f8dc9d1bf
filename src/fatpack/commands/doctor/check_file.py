"""Complete verification of one file: parses containers, inflates and reads images, compares all hashes."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack import binary, formats, images, limits, magic_numbers
from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.commands.doctor.model import UNJUDGED, UNLINKED, DoctorNotes
from fatpack.concurrency.processes import map_in_processes
from fatpack.concurrency.progress import ReadProgress
from fatpack.errors import FatpackError, FormatError, Unsupported, format_hex, pluralize
from fatpack.findings import code_for_error as code_for
from fatpack.findings import finding
from fatpack.images import NOT_INFLATED
from fatpack.io.source import View
from fatpack.model import Finding, arch_name
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.scanner import (
    bytes_to_inflate,
    detect_host,
    end_in,
    has_containers,
    inflate_image,
    registration_verdict,
    scan,
)
from fatpack.scanner.standalone_images import member_images, sidecar_record, standalone_image
from fatpack.tabular.cir_launches import cir_launches, launch_problems
from fatpack.tabular.hollow import KernelCode, find_hollow
from fatpack.tabular.image_sets import UNDECIDED, device_vendor, unknown_form_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.binary.elf.file import ElfSection
    from fatpack.images import ImageInfo
    from fatpack.io.source import Piece, Source
    from fatpack.model import Container, Image, Label
    from fatpack.scanner import FoundContainer, FoundImage


# Known bugs: which of ``data/known.toml`` the findings of files, and facts about them, are evidence of.
#
# The facts that the table names, beside codes of findings, are what formats call symptoms (``formats.symptoms``).


class BugMatch(Record):
    """A finding that is evidence: its code; its field and words of its message where these are given."""

    code: str
    field: str = ""
    words: str = ""

    def fits(self, item: Finding) -> bool:
        """Return whether a finding is such evidence."""
        return item.code == self.code and (not self.field or item.field == self.field) and self.words in item.message


class KnownBugRow(Record):
    """A line of ``data/known.toml``, which says what the fields mean."""

    name: str
    side: str
    producer: str
    versions: str
    what: str
    advice: str
    sources: tuple[str, ...]
    match: tuple[BugMatch, ...] = ()
    facts: tuple[str, ...] = ()

    def evidence(self, findings: Iterable[Finding], facts: Iterable[str]) -> tuple[str, ...]:
        """Return the codes of findings and the names of facts that show this bug, each once; empty if none does."""
        codes = (item.code for item in findings if any(match.fits(item) for match in self.match))
        return tuple(dict.fromkeys([*codes, *(name for name in facts if name in self.facts)]))


_loaded: list[tuple[KnownBugRow, ...]] = []


def known_bugs() -> tuple[KnownBugRow, ...]:
    """Return all lines of the table; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "known.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded.append(tuple(_bug(row) for row in data["bug"]))
    return _loaded[0]


def _bug(row: dict[str, Any]) -> KnownBugRow:
    lists = {name: tuple(row.get(name, ())) for name in ("sources", "facts")}
    return KnownBugRow(**{**row, **lists, "match": tuple(BugMatch(**each) for each in row.get("match", ()))})


# Check that a file is of the type that its name says: a container, a device image or a package.

#: how names of files end that hold device code, and nothing else
_DEVICE = (".fatbin", ".cubin", ".hipfb", ".hsaco", ".kpack", ".syclbin")
#: how names of packages end
_ARCHIVES = (".whl", ".conda", ".zip")
_PACKAGES = (*_ARCHIVES, ".deb", ".rpm", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")

#: bytes of the record that ends a zip archive, and of a comment after it
_END, _COMMENT = 22, 0xFFFF


def extension_problem(view: View, path: str, *, has_device_code: bool) -> Finding | None:
    """Return what is wrong with a file that is no package, given its name and whether device code is in it."""
    name = path.lower()
    if name.endswith(_PACKAGES):
        if name.endswith(_ARCHIVES) and _ends_as_zip(view):
            text = "bytes precede the archive: other readers open it; fatpack reads no file in it"
            return finding("FP3607", view.span(), text, "get it again, or cut them off")
        text = f"its name says that it is a package, and its {pluralize(len(view), 'byte')} are none"
    elif name.endswith(_DEVICE) and not has_device_code:
        text = f"its name says that device code is in it, and in its {pluralize(len(view), 'byte')} is none"
    else:
        return None
    return finding("FP3607", view.span(), text, "get it again, or give it another name")


def _ends_as_zip(view: View) -> bool:
    size = min(len(view), _END + _COMMENT)
    return magic_numbers.ZIP_END in view.head(len(view) - size, size)


# Check that 32-bit relocations reach across the device code: if not, ld reports ``relocation truncated to fit``.
#
# Code for x86-64 reaches data through signed offsets of 32 bits (small and medium code model of the System V psABI);
# AArch64 through ``adrp``, 4 GiB either way. Device code that a linker lays between code and data pushes them apart
# (pytorch/pytorch#48588, NixOS/nixpkgs#220402).

#: e_machine → how far an instruction reaches that a relocation of 32 bits is in: x86-64, AArch64
_LIMITS = {62: 1 << 31, 183: 1 << 32}

_RELOCATABLE, _ALLOCATED, _CODE = 1, 2, 4

#: From this part of the limit on, a finding reports that a linked file or an object is near it.
_NEAR = 0.5

#: LIMIT: sections of a file that are looked at; an object of one function per section has tens of thousands.
_MOST_SECTIONS = 1 << 18


class LoadedExtent(Record):
    """The distance between the loaded parts of a linked file (``is_linked``), or the size of those of an object.

    ``reached`` is the longest way from code to other loaded parts, ``device`` what of all loaded bytes is device code.
    """

    is_linked: bool
    span: int
    reached: int
    device: int
    limit: int


def measure_extent(view: View, host: str, device: Collection[int]) -> LoadedExtent | None:
    """Return the extent of an ELF file; ``device`` are the numbers of its sections of device code.

    None for any other file, for processors with another reach, and where there is no device code in sections.
    """
    if host != "elf" or not device:
        return None
    try:
        elf = ElfFile(view)
        limit = _LIMITS.get(elf.header.machine)
        if limit is None or elf.section_count > _MOST_SECTIONS:
            return None
        loaded = [item for item in elf.sections() if item.flags & _ALLOCATED and item.type != layout.NULL]
    except FormatError:
        return None  # said where the file was scanned
    own = sum(item.size for item in loaded if item.index in device)
    if not own:
        return None
    if elf.header.type == _RELOCATABLE:
        total = sum(item.size for item in loaded)
        return LoadedExtent(is_linked=False, span=total, reached=total, device=own, limit=limit)
    low, high = min(item.address for item in loaded), max(item.address + item.size for item in loaded)
    return LoadedExtent(is_linked=True, span=high - low, reached=_reached(loaded, device), device=own, limit=limit)


def _reached(loaded: list[ElfSection], device: Collection[int]) -> int:
    """Return the longest way between code and what it refers to: everything loaded but device code itself."""
    code = [item for item in loaded if item.flags & _CODE]
    others = [item for item in loaded if item.index not in device and item.size]
    if not code or not others:
        return 0
    first, last = min(item.address for item in code), max(item.address + item.size for item in code)
    low, high = min(item.address for item in others), max(item.address + item.size for item in others)
    return max(last - low, high - first)


def overflow_findings(extent: LoadedExtent, view: View, archs: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding where relocations hardly reach, with what to drop; ``archs`` are the bytes of each."""
    if extent.reached < extent.limit * _NEAR:
        return
    from fatpack.errors import format_hex

    kind = "code and data lie up to" if extent.is_linked else "the loaded sections have"
    far = extent.reached > extent.limit and not extent.is_linked
    apart = " apart" if extent.is_linked else ""
    text = (
        f"{kind} {format_size(extent.reached)}{apart}, {format_size(extent.device)} of them device code; "
        f"relocations of 32 bits reach {format_size(extent.limit)} ({format_hex(extent.limit)})"
    )
    yield finding("FP3605" if far else "FP3606", view.span(), text, _advice(archs))


def _advice(archs: Mapping[str, int]) -> str:
    """Return what to drop: the architectures that take most."""
    most = sorted(archs.items(), key=lambda item: -item[1])[:4]
    if not most:
        return "link with fewer architectures, or compress device code"
    words = ", ".join(f"{arch} ({format_size(size)})" for arch, size in most)
    return f"compress device code, or leave out architectures; most bytes are for {words}"


# Check that every byte of a file is described once, and that writing a container again gives the stored bytes.


def check_host(view: View, host: str, notes: DoctorNotes) -> None:
    """Note whether the host's labels cover every byte of a file once. Raises FormatError for a damaged file."""
    if host == "raw":
        return
    notes.count("byte maps")
    _check_labels(binary.get_host(host).labels(view), view, host, notes)


def check_container(found: FoundContainer, notes: DoctorNotes) -> None:
    """Note whether labels cover every byte of a container once, and whether writing it gives the same bytes.

    Raises FormatError for what is damaged in it.
    """
    container, view = found.container, found.view
    if container.is_fat_object:
        notes.skip("rewrites", "a fat object is laid out by its host, which is not written again")
        return
    room = formats.get_format(container.format)
    if container.format in formats.MODULES:
        notes.count("byte maps")
        _check_labels(room.labels(view, container), view, container.format, notes)
    try:
        at = _first_difference(room.write(container), view)
    except FatpackError as error:
        notes.skip("rewrites", error.problem)
        return
    if at is not None and any(image.stored_size is None for image in container.images):
        notes.skip("rewrites", "a container compressed as a whole is compressed anew, which gives other bytes")
        return
    notes.count("rewrites")
    if at is not None:
        text = f"written again, this container of {container.format} differs from byte {format_hex(at)} on"
        notes.add(finding("FP3601", view.span(), text, "an edit of this file would change more bytes than needed"))


def _check_labels(labels: Iterable[Label], view: View, what: str, notes: DoctorNotes) -> None:
    reached = view.start
    for label in labels:
        if label.span.start != reached or label.span.end <= reached:
            text = f"the map of this {what} has {label.name} at {format_hex(label.span.start)}, not at"
            notes.add(finding("FP3602", view.span(), f"{text} {format_hex(reached)}"))
            return
        reached = label.span.end
    if reached != view.end:
        text = f"the map of this {what} ends {pluralize(view.end - reached, 'byte')} before it does"
        notes.add(finding("FP3602", view.span(), text))


def _first_difference(pieces: Iterable[Piece], view: View) -> int | None:
    """Return the offset of the first byte that differs from those of a view, None if all are the same.

    A piece that is the same range of the same source is not read.
    """
    at = 0
    for piece in pieces:
        size = len(piece)
        if at + size > len(view):
            return view.end
        if isinstance(piece, View):
            if piece.source is not view.source or piece.start != view.start + at:
                for part in piece.read_once():
                    if view.head(at, len(part)) != part:
                        return view.offset(at)
                    at += len(part)
                continue
        else:
            data = memoryview(piece)
            for start in range(0, size, limits.CHUNK):
                part = data[start : start + limits.CHUNK]
                if view.head(at + start, len(part)) != part:
                    return view.offset(at + start)
        at += size
    return None if at == len(view) else view.offset(at)


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
            with ReadProgress(len(self._view)) as progress:
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
                    progress.reach(end_in(self._view, item))
        finally:
            made_ahead.close()
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

    def _elsewhere(self, found: FoundContainer | Finding) -> DoctorNotes | None:
        """Return the notes about a container from another process; None if this process has to examine it."""
        if isinstance(found, Finding):
            return None
        self.notes = DoctorNotes()
        self._seen.clear()
        before = self._view.source.budget.drawn
        self._container(found)
        self.notes.drawn = self._view.source.budget.drawn - before
        return self.notes if self._room >= 0 and not has_containers(found) else None

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
        described = dict(formats.get_format(container.format).describe(container))
        numbered = [{"index": index, "arch": image.target.arch} for index, image in enumerate(container.images)]
        record = {"stored": described, "images": numbered}
        wanted, devices = cir_launches(record)
        self.notes.count("launches", len(wanted) * len(devices))
        for code, at, text in launch_problems(record):
            self.notes.add(finding(code, container.images[at].span, text))

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
        if vendor and not form and image.size:
            notes.add(finding("FP1105", image.span, unknown_form_text(stored.triple, stored.arch)))
        self._parse(image.data, form, image, is_hashed=is_hashed or image.compression == "zlib")

    def _inflated(self, found: FoundImage, neighbours: Sequence[Image]) -> FoundImage | None:
        """Return an image inflated and recognised, None if that cannot be done."""
        notes = self.notes
        if found.data.source.is_refused:
            notes.skip("images", "this version does not inflate them")
            return None
        if found.info is not NOT_INFLATED or not found.size:
            return found
        if self._room < 0:
            return None
        self._room -= found.size
        if self._room < 0:
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
    return finding(code_for(code, error), view.span(), error.describe(), error.hint, field=error.field)
