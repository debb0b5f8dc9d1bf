"""Variant wheels: the fat wheel with slimmed libraries, a label in its name, and ``variant.json`` (PEP 825).

Files that are not slimmed keep their stored bytes. RECORD gets the digests of the new ones, and a line for
``variant.json``, which lies behind all other files.
"""

from __future__ import annotations

import os

from fatpack.commands.slim import wheel_metadata
from fatpack.commands.slim.outcome import may_hold_device_code
from fatpack.commands.slim.wheels import WheelContents
from fatpack.commands.split.plan import PackageFile, PackageVariant
from fatpack.commands.split.serving import read_library
from fatpack.commands.split.variants import (
    INDEX_SUFFIX,
    VARIANT_FILE,
    make_document,
    schema_named,
    split_variant_name,
)
from fatpack.errors import HostError, UsageError
from fatpack.packages.zip.writer import LEVEL, ZipAddition, ZipChange, exchange_entries, pack_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from fatpack.commands.slim.wheel_metadata import RecordLine
    from fatpack.commands.split.labels import LabelMap
    from fatpack.io.source import Piece, View
    from fatpack.packages.zip.writer import PackedFile


class FatWheel:
    """A wheel for all devices, open: its libraries stay inflated until the stack closes them.

    Raises UsageError for a wheel that is a variant already, HostError for a signed one, FormatError where RECORD and
    the files disagree.
    """

    kind = "wheel"

    def __init__(self, view: View, path: str, stack: ExitStack) -> None:
        self.path, self.view = path, view
        self.name = os.path.basename(path)
        _, label = split_variant_name(self.name)
        if label:
            raise UsageError(f"{path} is the wheel of the label {label}", hint="split the wheel for all devices")
        parts = wheel_metadata.parse_wheel_name(self.name)
        self._wheel = WheelContents(view, parts)
        self._wheel.refuse_signed()
        self.release = f"{parts.distribution}-{parts.version}"
        self.index = f"{self.release}{INDEX_SUFFIX}"
        self._lines = self._wheel.lines()
        self.libraries = self._read(stack)

    def _read(self, stack: ExitStack) -> Sequence[PackageFile]:
        """Compare every file with RECORD, and return the libraries."""
        wheel, lines = self._wheel, {line.path: line for line in self._lines if line.path}
        names = {entry.name for entry in wheel.entries}
        if wheel.info_file(VARIANT_FILE) in names:
            raise UsageError(f"{self.path} has {VARIANT_FILE}: it is a variant already", hint="split the fat wheel")
        missing = [path for path in lines if path not in names]
        if missing:
            raise wheel.wrong("a file that it lists is not there", f"RECORD: {missing[0]}", "a file", "none")
        found = []
        for number, entry in enumerate(wheel.entries):
            if entry.is_folder:
                continue
            source = wheel.open(number)
            line = lines.get(entry.name)
            wrong = wheel.disagreement(line, source) if line is not None else None
            if wrong is not None:
                source.close()
                raise wrong
            code = read_library(source.view(), entry.name) if may_hold_device_code(entry.name) and source.size else None
            if code is not None and code.units:
                stack.enter_context(source)
                found.append(PackageFile(number, entry.name, source.view(), entry.stored_size, code))
            else:
                source.close()
        return found

    def _line(self, name: str) -> RecordLine | None:
        return next((line for line in self._lines if line.path == name), None)

    def pack(self, library: PackageFile, pieces: Sequence[Piece]) -> PackedFile:
        """Return the new content of a library, deflated if the old one is compressed."""
        entry = self._wheel.entries[library.number]
        return self._packed(pieces, entry.name, deflates=entry.method != 0)

    def _packed(self, pieces: Sequence[Piece], name: str, *, deflates: bool) -> PackedFile:
        line = self._line(name)
        hash_name = line.hash_name if line is not None and line.hash_name else "sha256"
        return pack_content(pieces, deflates=deflates, level=LEVEL, hash_name=hash_name)

    def variant(self, label: str, labels: LabelMap, contents: Mapping[int, PackedFile], schema: str) -> PackageVariant:
        """Return the wheel of a label, with new contents of some libraries."""
        wheel = self._wheel
        changes = {number: ZipChange(content) for number, content in contents.items()}
        digests = {wheel.entries[number].name: (content.digest, content.size) for number, content in contents.items()}
        described = make_document({label: labels.variants[label]}, labels.vendors, schema_named(schema))
        path, record = wheel.info_file(VARIANT_FILE), wheel.info_file("RECORD")
        new = self._packed([described], path, deflates=True)
        text = wheel_metadata.rewrite_record(self._lines, digests, {})
        end = b"" if not text or text.endswith(b"\n") else b"\n"
        line = f"{path},sha256={wheel_metadata.encode_digest(new.digest)},{new.size}\n"
        place = wheel.number(record)
        like = wheel.entries[place]
        changes[place] = ZipChange(self._packed([text + end + line.encode()], record, deflates=like.method != 0))
        added = (ZipAddition(path, new, like),)

        def verify(after: View) -> None:
            from fatpack.packages.zip import crosscheck

            crosscheck.verify_zip_change(self.view, after, changes, added)
            written = WheelContents(after, wheel.name)
            found = {line.path: line for line in written.lines()}
            for name, (digest, size) in {**digests, path: (new.digest, new.size)}.items():
                stated = found.get(name)
                if (
                    stated is not None
                    and stated.hash_name
                    and ((stated.digest, stated.size) != (wheel_metadata.encode_digest(digest), size))
                ):
                    raise HostError(f"RECORD of the new wheel is wrong about {name}", chain=after.chain)

        name = f"{self.name.removesuffix('.whl')}-{label}.whl"
        return PackageVariant(name, exchange_entries(self.view, changes, added), verify)
