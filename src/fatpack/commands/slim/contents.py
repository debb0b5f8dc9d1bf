"""The files of a wheel: where they are in the zip archive, and whether they are what RECORD says."""

from __future__ import annotations

import hashlib

from fatpack.commands.slim import headers, record, wheel_metadata
from fatpack.errors import BadValue, HostError, Unsupported
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.writer import read_zip_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.slim.record import RecordLine
    from fatpack.commands.slim.wheel_metadata import WheelName
    from fatpack.io.source import Source, View
    from fatpack.packages.zip.directory import ZipEntry

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
        return record.parse_record(self.text("RECORD"), (*self.view.chain, self.info_file("RECORD")))

    def refuse_signed(self) -> None:
        """Raise HostError for a wheel whose RECORD is signed, or that names a file twice."""
        for name in _SIGNATURES:
            if self.info_file(name) in self._places:
                raise HostError(
                    f"the wheel is signed ({self.info_file(name)}), and a changed one would not be",
                    hint="take the signature out first: wheel unpack, remove it, wheel pack",
                    chain=self.view.chain,
                )
        if len(self._places) != len(self.entries):
            twice = next(entry.name for number, entry in enumerate(self.entries) if self._places[entry.name] != number)
            raise self.wrong("nobody knows which of them RECORD means", "name", "one file", "several", at=twice)

    def _info(self) -> str:
        folders = {name.partition("/")[0] for name in self._places if "/" in name}
        found = sorted(folder for folder in folders if folder.endswith(".dist-info"))
        if len(found) != 1:
            hint = "a wheel has one, with METADATA, WHEEL and RECORD"
            raise self.wrong("this is no wheel", "*.dist-info", "one folder", ", ".join(found) or "none", hint=hint)
        project, _, version = found[0].removesuffix(".dist-info").rpartition("-")
        is_same = wheel_metadata.is_same_project(project, self.name.distribution)
        if not (is_same and wheel_metadata.is_same_version(version, self.name.version)):
            hint = "give it the name back that it had"
            raise self.wrong(
                "the file has the name of another wheel", found[0], self.name.file_name, found[0], hint=hint
            )
        return found[0]

    def _check_version(self) -> None:
        version = headers.header_value(self.text("WHEEL"), "Wheel-Version")
        if version.partition(".")[0] != "1":
            text = f"wheels of version {version or 'unknown'}"
            raise Unsupported(text, hint="fatpack knows version 1", chain=self.view.chain)
        stated = headers.header_value(self.text("METADATA"), "Version")
        if not wheel_metadata.is_same_version(stated, self.name.version):
            text = "it is another one in the file's name"
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
        if line.hash_name not in record.HASHES:
            return self._other(entry, "hash", " or ".join(record.HASHES), line.hash_name)
        digest = hashlib.new(line.hash_name, usedforsecurity=False)
        for piece in source.once(0, source.size):
            digest.update(piece)
        found = record.encode_digest(digest.digest())
        if found != line.digest.rstrip("="):
            return self._other(entry, line.hash_name, line.digest, found)
        return None

    def _other(self, entry: ZipEntry, field: str, expected: str, found: str) -> BadValue:
        hint = "the wheel was changed after it was made: get it again, or pack it anew: wheel unpack, wheel pack"
        return self.wrong("RECORD says something else", field, expected, found, hint=hint, at=entry.name)
