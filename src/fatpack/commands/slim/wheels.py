"""Slim a wheel: its libraries, and the RECORD and file name that follow from them."""

from __future__ import annotations

import hashlib
import re

from fatpack.commands.slim.outcome import (
    HEAD_SIZE,
    PackageLibrary,
    goes_whole,
    is_for_size_alone,
    left_as_it_is,
    may_hold_device_code,
    try_to_slim,
    without_pieces,
)
from fatpack.commands.slim.whole_files import is_table, is_table_name
from fatpack.distributions import wheel_metadata
from fatpack.errors import BadValue, FatpackError, FormatError, HostError, Unsupported, UsageError, cli_or_api
from fatpack.io.source import PiecesSource
from fatpack.packages.zip import crosscheck
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.packing import LEVEL, pack_content
from fatpack.packages.zip.writer import ZipChange, exchange_entries, read_zip_entries
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.slim.options import NameChange
    from fatpack.commands.slim.outcome import Slimming
    from fatpack.commands.slim.store_files import StoreFiles
    from fatpack.distributions.wheel_metadata import RecordLine
    from fatpack.io.source import Piece, Source, View
    from fatpack.packages.wheel_names import WheelName
    from fatpack.packages.zip.directory import ZipEntry


# The files of a wheel: where they are in the zip archive, and whether they are what RECORD says.

#: LIMIT: bytes of RECORD, METADATA and WHEEL, each read whole. A RECORD of 100,000 files has 12 MB.
_TEXT = 64 << 20

#: signatures of RECORD, which no other RECORD has
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


class WheelContents:
    """A wheel that may be changed: ``entries`` are its files, ``info`` is the name of its ``.dist-info`` folder.

    Raises FormatError, HostError for what cannot be changed, Unsupported for a version of wheels that is not known,
    each before a library is read.
    """

    def __init__(self, view: View, name: WheelName) -> None:
        self.view = view
        self.name = name
        self.entries = read_zip_entries(view)
        self._places = {entry.name: number for number, entry in enumerate(self.entries)}
        self.info = self._info()
        self._check_version()

    def number(self, name: str) -> int:
        """Return the place of a file in the directory. Raises BadValue if there is none."""
        if name not in self._places:
            raise self.wrong("this is no wheel", name, "a file", "none")
        return self._places[name]

    def info_file(self, name: str) -> str:
        """Return the path of a file in the ``.dist-info`` folder."""
        return f"{self.info}/{name}"

    def text(self, name: str) -> bytes:
        """Return a file of the ``.dist-info`` folder whole. Raises FormatError."""
        entry = self.entries[self.number(self.info_file(name))]
        if entry.size > _TEXT:
            raise self.wrong("it is far too large", "size", f"at most {_TEXT} bytes", str(entry.size), at=entry.name)
        with self.open(self._places[entry.name]) as source:
            return source.read(0, source.size)

    def open(self, number: int) -> Source:
        """Return a source of a file, which the caller closes. Raises FormatError and Unsupported."""
        source = open_content(self.view, self.entries[number])
        source.budget = self.view.source.budget
        return source

    def lines(self) -> list[RecordLine]:
        """Return the lines of RECORD. Raises FormatError."""
        return wheel_metadata.parse_record(self.text("RECORD"), (*self.view.chain, self.info_file("RECORD")))

    def refuse_signed(self) -> None:
        """Raise HostError for a wheel whose RECORD is signed, or that names a file twice."""
        for name in _SIGNATURES:
            if self.info_file(name) in self._places:
                raise HostError(
                    f"the wheel is signed ({self.info_file(name)}), and a change makes the signature invalid",
                    hint="take the signature out first: wheel unpack, remove it, wheel pack",
                    chain=self.view.chain,
                )
        if len(self._places) != len(self.entries):
            twice = next(entry.name for number, entry in enumerate(self.entries) if self._places[entry.name] != number)
            raise self.wrong("RECORD does not say which of them it means", "name", "one file", "several", at=twice)

    def _info(self) -> str:
        folders = {name.partition("/")[0] for name in self._places if "/" in name}
        found = sorted(folder for folder in folders if folder.endswith(".dist-info"))
        if len(found) != 1:
            hint = "a wheel has one, with METADATA, WHEEL and RECORD"
            raise self.wrong("this is no wheel", "*.dist-info", "one folder", ", ".join(found) or "none", hint=hint)
        project, _, version = found[0].removesuffix(".dist-info").rpartition("-")
        is_same = wheel_metadata.is_same_project(project, self.name.distribution)
        if not (is_same and wheel_metadata.is_same_version(version, self.name.version)):
            hint = "give it its first name again"
            raise self.wrong(
                "the file has the name of another wheel", found[0], self.name.file_name, found[0], hint=hint
            )
        return found[0]

    def _check_version(self) -> None:
        version = wheel_metadata.header_value(self.text("WHEEL"), "Wheel-Version")
        if version.partition(".")[0] != "1":
            text = f"wheels of version {version or 'unknown'}"
            raise Unsupported(text, hint="fatpack knows version 1", chain=self.view.chain)
        stated = wheel_metadata.header_value(self.text("METADATA"), "Version")
        if not wheel_metadata.is_same_version(stated, self.name.version):
            text = "the name of the file has another one"
            raise self.wrong(text, "Version", self.name.version, stated, at=self.info_file("METADATA"))

    def wrong(
        self, problem: str, field: str, expected: str, found: str, *, hint: str = "build it again", at: str = ""
    ) -> BadValue:
        """Return the error about a field of a file of the wheel, ``at`` is the file's path."""
        place = self._places.get(at)
        return BadValue(
            problem,
            format="wheel",
            offset=self.view.offset(0 if place is None else self.entries[place].header_at),
            field=field if not at else f"{at}: {field}",
            expected=expected,
            found=found,
            hint=hint,
            chain=self.view.chain,
        )

    def disagreement(self, line: RecordLine, source: Source) -> BadValue | None:
        """Return what a line of RECORD and the file that it names disagree about, None if they agree.

        Raises FormatError for a file that cannot be read.
        """
        entry = self.entries[self._places[line.path]]
        if line.size is not None and line.size != source.size:
            return self._other(entry, "size", str(line.size), str(source.size))
        if not line.hash_name:
            return None
        if line.hash_name not in wheel_metadata.HASHES:
            return self._other(entry, "hash", " or ".join(wheel_metadata.HASHES), line.hash_name)
        digest = hashlib.new(line.hash_name, usedforsecurity=False)
        for piece in source.read_once(0, source.size):
            digest.update(piece)
        found = wheel_metadata.encode_digest(digest.digest())
        if found != line.digest.rstrip("="):
            return self._other(entry, line.hash_name, line.digest, found)
        return None

    def _other(self, entry: ZipEntry, field: str, expected: str, found: str) -> BadValue:
        hint = "the wheel was changed after it was made: get it again, or pack it anew: wheel unpack, wheel pack"
        return self.wrong("RECORD has another value", field, expected, found, hint=hint, at=entry.name)


class SlimmedWheel(Record):
    """A wheel with slimmed libraries, to be written under ``name``; one that stays has its old name and bytes.

    ``libraries`` are the files that were looked at, in the order of the wheel; ``notes`` are what a user should know.
    """

    name: str
    pieces: Sequence[Piece]
    libraries: tuple[PackageLibrary, ...]
    notes: tuple[str, ...]
    before: View
    changes: Mapping[int, ZipChange]

    @property
    def is_changed(self) -> bool:
        """True if the wheel differs from the original."""
        return bool(self.changes)

    def verify(self, after: View) -> None:
        """Raise HostError unless a file is this wheel, by another reader of zip archives; RECORD is read again."""
        crosscheck.verify_zip_change(self.before, after, self.changes)
        if not self.is_changed:
            return
        try:
            wheel = WheelContents(after, wheel_metadata.parse_wheel_name(self.name))
            lines = {line.path: line for line in wheel.lines()}
        except FormatError as error:
            raise HostError(f"the new wheel is none: {error.describe()}", chain=after.chain) from error
        names = {entry.name for entry in wheel.entries}
        for number, entry in enumerate(read_zip_entries(self.before)):
            change = self.changes.get(number)
            if change is not None and change.removed and (entry.name in lines or entry.name in names):
                raise HostError(f"the new wheel still has {entry.name}", chain=after.chain)
            line = None if change is None else lines.get(change.name or entry.name)
            if line is None or change is None or change.content is None or not line.hash_name:
                continue
            if (line.digest, line.size) != (wheel_metadata.encode_digest(change.content.digest), change.content.size):
                raise HostError(f"RECORD of the new wheel is wrong about {line.path}", chain=after.chain)


def slim_wheel(
    view: View, file_name: str, slimming: Slimming, naming: NameChange, stores: StoreFiles | None = None
) -> SlimmedWheel:
    """Return a wheel in which ``slimming`` was applied to every file that may hold device code.

    ``file_name`` is the wheel's own, without folder. Changed files are compressed with deflate. Every file
    is compared with RECORD, which must be right before anything is changed. ``stores`` decides which files of kernel
    stores are left out; None if none is. Raises UsageError for a name that is none,
    and for a changed wheel whose ``naming`` says nothing; HostError for a signed one; FormatError where RECORD and the
    files disagree; Unsupported; and what ``slimming`` raises.
    """
    wheel = WheelContents(view, wheel_metadata.parse_wheel_name(file_name))
    work = _Work(wheel, naming, stores)
    for number, entry in enumerate(wheel.entries):
        if not entry.is_folder:
            with wheel.open(number) as source:
                work.take(number, source, slimming)
    return work.result()


class _Work:
    """The state of a wheel that is slimmed: the results for its files, and the errors of its RECORD."""

    def __init__(self, wheel: WheelContents, naming: NameChange, stores: StoreFiles | None) -> None:
        self._wheel = wheel
        self._stores = stores
        self._naming = naming
        self._lines = wheel.lines()
        self._by_path = {line.path: line for line in self._lines if line.path}
        self._wrong: list[BadValue] = []
        self._new: WheelName | None = None
        self._changes: dict[int, ZipChange] = {}
        self._libraries: list[PackageLibrary] = []
        present = {entry.name for entry in wheel.entries}
        if len(self._by_path) != sum(1 for line in self._lines if line.path):
            again = next(line.path for line in self._lines if line.path and self._by_path[line.path] is not line)
            self._wrong.append(wheel.wrong("it lists a file twice", f"RECORD: {again}", "one line", "several"))
        for path in self._by_path:
            if path not in present:
                self._wrong.append(
                    wheel.wrong("a file that it lists is not there", f"RECORD: {path}", "a file", "none")
                )

    def take(self, number: int, source: Source, slimming: Slimming) -> None:
        """Compare a file with RECORD, and slim it if it may hold device code."""
        entry = self._wheel.entries[number]
        line = self._by_path.get(entry.name)
        wrong = self._wheel.disagreement(line, source) if line is not None else None
        if wrong is not None:
            self._wrong.append(wrong)
        library = PackageLibrary(entry.name, source.size, source.size, entry.stored_size, entry.stored_size, None)
        if self._stores is not None and is_table(entry.name, source.view()):
            self._stores.take_table(library)
            return
        if not source.size or not may_hold_device_code(entry.name, source.beginning(HEAD_SIZE)):
            return
        outcome = try_to_slim(slimming, source.view())
        if isinstance(outcome, FatpackError):
            library = library.replace(error=outcome)
        elif not outcome.is_changed or goes_whole(outcome):
            library = library.replace(slimmed=outcome)
        else:
            self._check()
            outcome.verify(source.view(), PiecesSource(outcome.pieces, entry.name).view())
            hash_name, deflates = self._hash_of(line), entry.method != 0
            new = pack_content(outcome.pieces, deflates=deflates, level=LEVEL, hash_name=hash_name)
            if len(new.stored) >= entry.stored_size and is_for_size_alone(outcome):
                self._libraries.append(
                    library.replace(slimmed=left_as_it_is(outcome, "it would take more in the wheel"))
                )
                return
            self._changes[number] = ZipChange(new)
            library = library.replace(slimmed=without_pieces(outcome), after=new.size, stored_after=len(new.stored))
        if self._stores is None or not self._stores.take(library):
            self._libraries.append(library)

    def _leave_out(self, stores: StoreFiles) -> None:
        """Remove the files of kernel stores that go."""
        for library, goes in stores.decide():
            if goes:
                self._check()
                self._changes[self._wheel.number(library.name)] = ZipChange(removed=True)
                self._libraries.append(library.replace(after=0, stored_after=0))
            elif not is_table_name(library.name):
                self._libraries.append(library)

    def _check(self) -> None:
        """Raise the error that rules out any change, before work is done for it."""
        self._wheel.refuse_signed()
        if self._wrong:
            raise self._wrong[0]
        self._new = self._new or rename_wheel(self._wheel.name, self._naming)

    def _hash_of(self, line: RecordLine | None) -> str:
        return line.hash_name if line is not None and line.hash_name else "sha256"

    def result(self) -> SlimmedWheel:
        """Return the wheel."""
        if self._stores is not None:
            self._leave_out(self._stores)
        wheel, libraries = self._wheel, tuple(self._libraries)
        if not self._changes:
            notes = tuple(f"RECORD is wrong: {wrong}" for wrong in self._wrong)
            return SlimmedWheel(wheel.name.file_name, [wheel.view], libraries, notes, wheel.view, {})
        self._check()  # what came after the first change counts too
        assert self._new is not None
        self._describe(self._new)
        pieces = exchange_entries(wheel.view, self._changes)
        return SlimmedWheel(
            self._new.file_name, pieces, libraries, tuple(self._notes(self._new)), wheel.view, self._changes
        )

    def _describe(self, new: WheelName) -> None:
        """Bring names of folders, METADATA, WHEEL and RECORD in step with the new name."""
        wheel, old = self._wheel, self._wheel.name
        if new.version != old.version:
            self._put("METADATA", wheel_metadata.with_header_value(wheel.text("METADATA"), "Version", new.version))
        if new.build_tag != old.build_tag:
            text = wheel_metadata.with_header_value(wheel.text("WHEEL"), "Build", new.build_tag, after="Tag")
            self._put("WHEEL", text)
        paths = self._moved(new) if new.version != old.version else {}
        contents = {
            wheel.entries[number].name: (change.content.digest, change.content.size)
            for number, change in self._changes.items()
            if change.content is not None
        }
        gone = {wheel.entries[number].name for number, change in self._changes.items() if change.removed}
        lines = [line for line in self._lines if line.path not in gone]
        self._put("RECORD", wheel_metadata.rewrite_record(lines, contents, paths))
        for number, entry in enumerate(wheel.entries):
            if entry.name in paths:
                self._changes[number] = self._changes.get(number, ZipChange()).replace(name=paths[entry.name])

    def _put(self, name: str, text: bytes) -> None:
        number = self._wheel.number(self._wheel.info_file(name))
        hash_name = self._hash_of(self._by_path.get(self._wheel.info_file(name)))
        deflates = self._wheel.entries[number].method != 0
        self._changes[number] = ZipChange(pack_content([text], deflates=deflates, level=LEVEL, hash_name=hash_name))

    def _moved(self, new: WheelName) -> dict[str, str]:
        """Return the new paths of what is in folders that the version names: ``.dist-info`` and ``.data``."""
        stem, _, _ = self._wheel.info.removesuffix(".dist-info").rpartition("-")
        old = self._wheel.info.removesuffix(".dist-info")
        folders = {f"{old}{suffix}": f"{stem}-{new.version}{suffix}" for suffix in (".dist-info", ".data")}
        moved = {}
        for entry in self._wheel.entries:
            folder, slash, rest = entry.name.partition("/")
            if folder in folders:
                moved[entry.name] = f"{folders[folder]}{slash}{rest}"
        return moved

    def _notes(self, new: WheelName) -> list[str]:
        wheel, old = self._wheel, self._wheel.name
        notes = []
        for number in self._changes:
            name = wheel.entries[number].name
            if name not in self._by_path:
                notes.append(f"RECORD does not list {name}, neither before nor after")
        if any(entry.name.startswith(wheel.info_file("sboms/")) for entry in wheel.entries):
            notes.append("the SBOMs in the wheel are not updated: they may describe the old files")
        if new.version == old.version and is_lower_build(new.build_tag, old.build_tag):
            notes.append(f"installers prefer the build {old.build_tag} to {new.build_tag} where they see both")
        if old.label:
            text = f"this is the variant {old.label} of a wheel, and its variant.json declares the devices that it had"
            notes.append(f"{text}: fatpack check --metadata compares, and fatpack split makes variants")
        return notes


# The name of a wheel with changed content: two different files never share a name.

#: what a build tag may be (binary distribution format, "File name convention"; names allow no other characters)
_BUILD_TAG = re.compile(r"[0-9][A-Za-z0-9_.]*")


def rename_wheel(old: WheelName, naming: NameChange) -> WheelName:
    """Return the name of a wheel with other content. Raises UsageError where it would be the old one's, or is none."""
    if naming.is_default:
        # Installers compare the digits first that a tag begins with: with one more, they take the new wheel.
        number = old.build_tag[: len(old.build_tag) - len(old.build_tag.lstrip("0123456789"))]
        naming = naming.replace(build_tag=f"{int(number or 0) + 1}{naming.default}")
    if not (naming.build_tag or naming.local_version):
        tag, label = (
            cli_or_api("--build-tag 1slim", "build_tag='1slim'"),
            cli_or_api("--local-version slim", "local_version='slim'"),
        )
        raise UsageError(
            f"{old.file_name} changes, so the new file needs another name",
            hint=f"add {tag} (keeps the version) or {label} (makes it {old.version}+slim)",
        )
    new = old
    if naming.local_version:
        new = new.replace(version=_with_label(old.version, naming.local_version))
    if naming.build_tag:
        if _BUILD_TAG.fullmatch(naming.build_tag) is None:
            text = f"build tag {naming.build_tag!r}: it starts with a digit, and has letters, digits, _ and . after it"
            raise UsageError(text, hint="for example 1sm90")
        new = new.replace(build_tag=naming.build_tag)
    if new == old:
        raise UsageError(f"{old.file_name} has the build tag {old.build_tag} already", hint="give another one")
    return new


def _with_label(version: str, label: str) -> str:
    """Return a version with a label after what it has locally already (PEP 440, "Local version identifiers")."""
    versions = wheel_metadata.load_packaging("version")
    try:
        local = versions.Version(f"0+{label}").local
    except versions.InvalidVersion as error:
        text = f"local version {label!r}: it is letters and digits in parts that dots separate"
        raise UsageError(text, hint="for example sm90") from error
    return f"{version}{'.' if '+' in version else '+'}{local}"


def is_lower_build(new: str, old: str) -> bool:
    """Return whether installers take the old build tag before the new one: by the number first, then by the rest."""

    def key(tag: str) -> tuple[int, str]:
        digits = len(tag) - len(tag.lstrip("0123456789"))
        return (int(tag[:digits]), tag[digits:]) if digits else (0, "")

    return bool(old) and key(new) <= key(old)
