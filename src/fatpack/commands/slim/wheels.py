"""The door: a wheel in, a wheel out whose libraries are slimmed and whose RECORD and names are right."""

from __future__ import annotations

from fatpack.commands.slim import headers, record, wheel_metadata
from fatpack.commands.slim.contents import WheelContents
from fatpack.commands.slim.members import PackageLibrary, may_hold_device_code, try_to_slim
from fatpack.errors import BadValue, FatpackError, FormatError, HostError
from fatpack.io.pieces import PiecesSource
from fatpack.packages.zip import crosscheck
from fatpack.packages.zip.deflating import LEVEL, pack_content
from fatpack.packages.zip.writer import ZipChange, exchange_entries
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.slim.members import Slimming
    from fatpack.commands.slim.naming import NameChange
    from fatpack.commands.slim.record import RecordLine
    from fatpack.commands.slim.wheel_metadata import WheelName
    from fatpack.io.source import Piece, Source, View


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
        """Whether the wheel is another one."""
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
        for number, change in self.changes.items():
            line = lines.get(wheel.entries[number].name)
            if line is None or change.content is None or not line.hash_name:
                continue
            if (line.digest, line.size) != (record.encode_digest(change.content.digest), change.content.size):
                raise HostError(f"RECORD of the new wheel is wrong about {line.path}", chain=after.chain)


def slim_wheel(view: View, file_name: str, slimming: Slimming, naming: NameChange) -> SlimmedWheel:
    """Return a wheel in which ``slimming`` was applied to every file that may hold device code.

    ``file_name`` is the wheel's own, without folder. What changes is compressed with deflate. Every file
    is compared with RECORD, which must be right before anything is changed. Raises UsageError for a name that is none,
    and for a changed wheel whose ``naming`` says nothing; HostError for a signed one; FormatError where RECORD and the
    files disagree; Unsupported; and what ``slimming`` raises.
    """
    wheel = WheelContents(view, wheel_metadata.parse_wheel_name(file_name))
    work = _Work(wheel, naming)
    for number, entry in enumerate(wheel.entries):
        if not entry.is_folder:
            with wheel.open(number) as source:
                work.take(number, source, slimming)
    return work.result()


class _Work:
    """What is known of a wheel so far: what becomes of its files, and what RECORD is wrong about."""

    def __init__(self, wheel: WheelContents, naming: NameChange) -> None:
        self._wheel = wheel
        self._naming = naming
        self._lines = wheel.lines()
        self._by_path = {line.path: line for line in self._lines if line.path}
        self._wrong: list[BadValue] = []
        self._new: WheelName | None = None
        self._changes: dict[int, ZipChange] = {}
        self._libraries: list[PackageLibrary] = []
        present = {entry.name for entry in wheel.entries}
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
        if not may_hold_device_code(entry.name) or not source.size:
            return
        outcome = try_to_slim(slimming, source.view())
        library = PackageLibrary(entry.name, source.size, source.size, entry.stored_size, entry.stored_size, None)
        if isinstance(outcome, FatpackError):
            library = library.replace(error=outcome)
        elif not outcome.is_changed:
            library = library.replace(slimmed=outcome)
        else:
            self._check()
            outcome.verify(source.view(), PiecesSource(outcome.pieces, entry.name).view())
            hash_name, deflates = self._hash_of(line), entry.method != 0
            new = pack_content(outcome.pieces, deflates=deflates, level=LEVEL, hash_name=hash_name)
            self._changes[number] = ZipChange(new)
            library = library.replace(slimmed=outcome, after=new.size, stored_after=len(new.stored))
        self._libraries.append(library)

    def _check(self) -> None:
        """Raise what stands in the way of any change, before work is done for it."""
        self._wheel.refuse_signed()
        if self._wrong:
            raise self._wrong[0]
        self._new = self._new or wheel_metadata.rename_wheel(self._wheel.name, self._naming)

    def _hash_of(self, line: RecordLine | None) -> str:
        return line.hash_name if line is not None and line.hash_name else "sha256"

    def result(self) -> SlimmedWheel:
        """Return the wheel."""
        wheel, libraries = self._wheel, tuple(self._libraries)
        if not self._changes:
            notes = tuple(f"RECORD is wrong: {wrong}" for wrong in self._wrong)
            return SlimmedWheel(wheel.name.file_name, [wheel.view], libraries, notes, wheel.view, {})
        self._check()  # what came behind the first change counts too
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
            self._put("METADATA", headers.with_header_value(wheel.text("METADATA"), "Version", new.version))
        if new.build_tag != old.build_tag:
            text = headers.with_header_value(wheel.text("WHEEL"), "Build", new.build_tag, behind="Tag")
            self._put("WHEEL", text)
        paths = self._moved(new) if new.version != old.version else {}
        contents = {
            wheel.entries[number].name: (change.content.digest, change.content.size)
            for number, change in self._changes.items()
            if change.content is not None
        }
        self._put("RECORD", record.rewrite_record(self._lines, contents, paths))
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
                notes.append(f"RECORD does not list {name}, before and after")
        if any(entry.name.startswith(wheel.info_file("sboms/")) for entry in wheel.entries):
            notes.append("the SBOMs in the wheel stay as they are: what they say of files may be of the old ones")
        if new.version == old.version and wheel_metadata.is_lower_build(new.build_tag, old.build_tag):
            notes.append(f"installers prefer the build {old.build_tag} to {new.build_tag} where they see both")
        return notes
