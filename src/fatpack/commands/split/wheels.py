"""Variant wheels: the fat wheel with slimmed libraries, a label in its name, and ``variant.json`` (PEP 825).

Files that are not slimmed keep their stored bytes. RECORD gets the digests of the new ones, and a line for
``variant.json``, which lies behind all other files.
"""

from __future__ import annotations

import os
import re

from fatpack.commands.slim.outcome import may_hold_device_code
from fatpack.commands.slim.wheels import WheelContents
from fatpack.commands.split.labels import LabelMap, map_labels, table_of_devices
from fatpack.commands.split.plan import PackageFile, PackageVariant
from fatpack.commands.split.serving import read_library
from fatpack.commands.split.variants import VARIANT_FILE, make_document, schema_named, unlike_ours
from fatpack.distributions import wheel_metadata
from fatpack.errors import HostError, UsageError, cli_or_api
from fatpack.packages.wheel_names import INDEX_END, split_wheel_name
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.packing import LEVEL, Packing, pack_content
from fatpack.packages.zip.writer import ZipAddition, ZipChange, exchange_entries, read_zip_entries
from fatpack.targets.installers.conda import METAPACKAGE
from fatpack.targets.installers.variant_documents import InvalidVariants, parse_variants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from fatpack.commands.split.request import SplitRequest
    from fatpack.commands.split.serving import LibraryCode, ServingJudge
    from fatpack.distributions.wheel_metadata import RecordLine
    from fatpack.io.source import Piece, View
    from fatpack.packages.wheel_names import WheelName
    from fatpack.packages.zip.packing import PackedFile, StoredBlocks
    from fatpack.targets.installers.variant_documents import VariantDocument
    from fatpack.targets.installers.variant_providers import Properties

#: LIMIT: bytes of a description of variants, which is read whole; one of 100 labels has 20 kB
_LARGEST = 4 << 20


class FatWheel:
    """A wheel for all devices, open: its libraries stay inflated until the stack closes them.

    Raises UsageError for a wheel that is a variant already, HostError for a signed one, FormatError where RECORD and
    the files disagree.
    """

    kind = "wheel"

    def __init__(self, view: View, path: str, stack: ExitStack) -> None:
        self.path, self.view = path, view
        self.name = os.path.basename(path)
        named = split_wheel_name(path)
        if named is not None and named.label:
            raise UsageError(f"{path} is the wheel of the label {named.label}", hint="split the wheel for all devices")
        parts = wheel_metadata.parse_wheel_name(self.name)
        self._wheel = WheelContents(view, parts)
        self._wheel.refuse_signed()
        self.release = f"{parts.distribution}-{parts.version}"
        self.index = f"{self.release}{INDEX_END}"
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

    def pack(self, library: PackageFile, pieces: Sequence[Piece], known: StoredBlocks) -> Packing:
        """Return the new content of a library, deflated if the old one is compressed."""
        entry = self._wheel.entries[library.number]
        deflates, hash_name = entry.method != 0, self._hash_name(entry.name)
        return Packing(pieces, deflates=deflates, level=LEVEL, hash_name=hash_name, known=known)

    def _packed(self, pieces: Sequence[Piece], name: str, *, deflates: bool) -> PackedFile:
        return pack_content(pieces, deflates=deflates, level=LEVEL, hash_name=self._hash_name(name))

    def _hash_name(self, name: str) -> str:
        line = self._line(name)
        return line.hash_name if line is not None and line.hash_name else "sha256"

    def variants(
        self, labels: LabelMap, contents: Mapping[str, Mapping[int, PackedFile]], schema: str, stack: ExitStack
    ) -> dict[str, PackageVariant]:
        """Return the wheels of labels, with new contents of some libraries."""
        return {label: self._variant(label, labels, own, schema) for label, own in contents.items()}

    def _variant(self, label: str, labels: LabelMap, contents: Mapping[int, PackedFile], schema: str) -> PackageVariant:
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

    def map_labels(
        self, packages: Sequence[Sequence[LibraryCode]], request: SplitRequest, judge: ServingJudge
    ) -> LabelMap:
        """Return the labels of a release with this wheel."""
        if request.depend_on != METAPACKAGE:
            option = cli_or_api(f"--depend-on {request.depend_on}", f"depend_on={request.depend_on!r}")
            raise UsageError(f"{option} is for conda packages: {self.path} is a wheel", hint="leave it out")
        insisted, has_null = request.insisted, request.null != "none"
        return map_labels(packages, request.by, judge, insisted=insisted, has_null=has_null)

    def shares_release(self, name: str) -> bool:
        """Return whether installers take a file of this name for a wheel of the same project and version."""
        own, other = split_wheel_name(self.name), split_wheel_name(name)
        return own is not None and other is not None and _release_key(own) == _release_key(other)

    def find_written(self, folder: str) -> WrittenWheels:
        """Return the wheels of labels of this one in a folder."""
        return WrittenWheels(self, folder)


class WrittenLabels(LabelMap):
    """The labels of files that were written: ``document`` has those of the index, by which installers choose.

    ``present`` are those for which there is a package.
    """

    document: VariantDocument | None = None
    present: tuple[str, ...] = ()

    @property
    def vendors(self) -> tuple[str, ...]:
        """The vendors by their priority in the index."""
        return tuple(self.document.priorities) if self.document is not None else ()

    @property
    def variants(self) -> dict[str, Properties]:
        """The properties of the labels for which there is a package."""
        known = self.document.variants if self.document is not None else {}
        return {label: known[label] for label in self.present if label in known}


class WrittenWheels:
    """The wheels of labels of a fat one in a folder: ``files`` are their labels and paths, and what the index says."""

    def __init__(self, fat: FatWheel, folder: str) -> None:
        self.problems: list[str] = []
        self.files: list[tuple[str, str]] = []
        beside: set[str] = set()
        for name in sorted(os.listdir(folder)):
            parts = split_wheel_name(name)
            if parts is None or not fat.shares_release(name):
                continue
            beside.add(parts.label)
            if parts.label and parts.replace(label="").file_name == fat.name:
                self.files.append((parts.label, os.path.join(folder, name)))
        path = os.path.join(folder, fat.index)
        self._document = self._read_index(path) if self.files else None
        if self._document is not None:
            self.problems += (f"{path}: {text}" for text in unlike_ours(self._document))
            gone = [label for label in self._document.variants if label not in beside]
            self.problems += (f"{path}: it has the label {label}, and no wheel beside it has" for label in gone)

    def _read_index(self, path: str) -> VariantDocument | None:
        if not os.path.isfile(path):
            found = "is no regular file" if os.path.lexists(path) else "is missing"
            self.problems.append(f"{path} {found}: installers know no label without it")
            return None
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            self.problems.append(_too_large(path, "more"))
            return None
        return _parsed(data, path, self.problems)

    def read(
        self, view: View, label: str, names: Sequence[str], problems: list[str]
    ) -> tuple[list[LibraryCode], bytes]:
        """Return the libraries of a wheel, and note where its metadata and the index differ."""
        codes = {}
        described, is_there = None, False
        for entry in read_zip_entries(view):
            is_description = entry.name.endswith(f".dist-info/{VARIANT_FILE}")
            if not is_description and entry.name not in names:
                continue
            with open_content(view, entry) as source:
                if is_description and source.size > _LARGEST:
                    is_there = True
                    problems.append(_too_large(entry.name, str(source.size)))
                elif is_description:
                    is_there, described = True, _parsed(source.read(0, source.size), entry.name, problems)
                else:
                    codes[entry.name] = read_library(source.view(), entry.name)
        document = self._document
        if described is None:
            problems += [] if is_there else [f"{VARIANT_FILE} is missing"]
        elif tuple(described.variants) != (label,):
            problems.append(f"{VARIANT_FILE}: the label is {', '.join(described.variants)}, and the name has {label}")
        else:
            problems += (f"{VARIANT_FILE}: {text}" for text in unlike_ours(described))
        if described is not None and document is not None and label in described.variants:
            if label not in document.variants:
                problems.append(f"the index has no label {label}: installers do not take this wheel")
            elif document.variants[label] != described.variants[label]:
                problems.append(f"the index has other properties of {label} than {VARIANT_FILE}")
            # Each file is told already where it is not as split writes it.
            if document.shared != described.shared and not any((*unlike_ours(document), *unlike_ours(described))):
                problems.append(f"the index and {VARIANT_FILE} differ beside the label")
        return [codes[name] for name in names if name in codes], b""

    def labels(self, codes: Sequence[LibraryCode], described: Mapping[str, bytes]) -> LabelMap:
        """Return the labels by which installers choose: those of the index for which there is a wheel."""
        return WrittenLabels((), (), table_of_devices(codes), False, self._document, tuple(described))


def _release_key(name: WheelName) -> tuple[str, str]:
    """Return project and version as installers compare them: 1.5.0 is 1.5."""
    project, version = name.release
    return project, re.sub(r"(\.0)+$", "", version.lower())


def _too_large(path: str, size: str) -> str:
    return f"{path} is too large: at most {_LARGEST} bytes are read, and it has {size}"


def _parsed(data: bytes, path: str, problems: list[str]) -> VariantDocument | None:
    try:
        return parse_variants(data)
    except InvalidVariants as error:
        problems.append(f"{path}: installers refuse it: {error}")
        return None
