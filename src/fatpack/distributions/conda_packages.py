"""Conda packages: the archives in them, the files that describe them, and new contents of both."""

from __future__ import annotations

import json
from contextlib import ExitStack

from fatpack.codecs.compress import compress_stream
from fatpack.errors import BadValue
from fatpack.io.source import View, sha256_of_pieces
from fatpack.packages.members import LazyInflatedMember, SubRangeSource
from fatpack.packages.names import detect_compression
from fatpack.packages.streams import InflatedStream
from fatpack.packages.tar import writer
from fatpack.packages.tar.writer import exchange_files, read_files
from fatpack.packages.zip import crosscheck
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.packing import pack_content
from fatpack.packages.zip.writer import ZipChange, exchange_entries, read_zip_entries
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.io.source import Piece, Source
    from fatpack.packages.tar.writer import StoredTarFile
    from fatpack.packages.zip.directory import ZipEntry
    from fatpack.packages.zip.packing import PackedFile


#: the files that describe a package
INDEX, PATHS = "info/index.json", "info/paths.json"

# The JSON files of a conda package, rewritten with the indentation that they have.

#: LIMIT: bytes of a document, which is read whole. The paths of 100,000 files take 30 MB.
MAX_DOCUMENT_SIZE = 256 << 20

#: forms in which packers write JSON: conda-build, rattler-build, Python's default, as short as can be
_FORMS: tuple[dict[str, Any], ...] = (
    {"indent": 2},
    {"indent": 4},
    {"indent": 2, "separators": (",", ": ")},
    {},
    {"separators": (",", ":")},
)


class JsonDocument:
    """A JSON object of a package, ``title`` is its path. Raises BadValue for data that is no JSON object."""

    def __init__(self, data: bytes, title: str, chain: Sequence[str]) -> None:
        self._data = data
        self._title = title
        self._chain = chain
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.wrong("content", "JSON", str(error)) from error
        if not isinstance(found, dict):
            raise self.wrong("content", "a JSON object", type(found).__name__)
        self.values: dict[str, Any] = found
        self._form = next((form for form in self._forms() if self._written(form) == data), self._forms()[0])

    def wrong(self, field: str, expected: str, found: str) -> BadValue:
        """Return the error about a field."""
        return BadValue(
            "the package describes itself wrongly",
            format="conda",
            field=f"{self._title}: {field}",
            expected=expected,
            found=found,
            hint="get the package again, or build it again",
            chain=self._chain,
        )

    def written(self) -> bytes:
        """Return the document with its values as they are now, in the form that it had if that is a known one."""
        return self._written(self._form)

    def _forms(self) -> list[dict[str, Any]]:
        return [{**form, "ensure_ascii": ascii} for form in _FORMS for ascii in (True, False)]

    def _written(self, form: Mapping[str, Any]) -> bytes:
        end = self._data[len(self._data.rstrip()) :]
        return json.dumps(self.values, **form).encode("utf-8", "surrogatepass") + end


def parse_paths_json(document: JsonDocument) -> dict[str, dict[str, Any]]:
    """Return the entries of ``paths.json`` by path. Raises BadValue."""
    paths = document.values.get("paths")
    if not isinstance(paths, list) or not all(isinstance(entry, dict) and "_path" in entry for entry in paths):
        raise document.wrong("paths", "a list of objects with _path", type(paths).__name__)
    return {str(entry["_path"]): entry for entry in paths}


# A tar archive in a package, inflated while it is open, and changes of its files.


class OpenTar:
    """A tar archive, compressed or not, whose regular ``files`` can be read by name. Close it when all is written.

    Raises FormatError and Unsupported.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.method = detect_compression(view) or ""
        self._source: Source | None = None
        if self.method:
            stream = InflatedStream(view, self.method, format="tar")
            name = view.chain[-1] if view.chain else ""
            budget, origin = view.source.budget, view.source
            self._source = LazyInflatedMember(stream, None, name, present=len(view), budget=budget, origin=origin)
            self._source.check()
        self.plain = view if self._source is None else self._source.view()
        self.files = {file.name: file for file in read_files(self.plain)}

    def content(self, file: StoredTarFile) -> Source:
        """Return a source of a file."""
        outer = self.view.chain[-1] if self.view.chain else self.view.source.name
        return SubRangeSource(self.plain.slice(file.at, file.size), f"{outer}!{file.name}")

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        file = self.files[name]
        return self.plain.read(file.at, file.size)

    def close(self) -> None:
        """Release the inflated data."""
        if self._source is not None:
            self._source.close()


class TarEdit:
    """An archive with other contents of some files; the archive can have several edits.

    ``digests`` and ``sizes`` are those of the files that are changed, by name.
    """

    def __init__(self, tar: OpenTar) -> None:
        self.tar = tar
        self.files = tar.files
        self._contents: dict[int, Sequence[Piece]] = {}
        self.digests: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}

    def put(self, name: str, content: Sequence[Piece], digest: bytes | None = None) -> None:
        """Exchange the content of a file; ``digest`` is its SHA-256 if it is known."""
        self._contents[self.files[name].at] = content
        self.digests[name] = digest or sha256_of_pieces(content)
        self.sizes[name] = sum(map(len, content))

    @property
    def is_changed(self) -> bool:
        """True if a file is changed."""
        return bool(self._contents)

    def pieces(self, *, on_all_cores: bool = True) -> Iterator[bytes]:
        """Yield the changed archive, compressed by the method of the original."""
        new = exchange_files(self.tar.plain, self._contents)
        yield from compress_stream(new, self.tar.method, sum(map(len, new)), on_all_cores=on_all_cores)

    def verify(self, after: OpenTar) -> None:
        """Raise HostError unless another archive is this one with its changes."""
        writer.verify_tar_change(self.tar.plain, after.plain, self.digests)


def pack_on_all_cores(edit: TarEdit, deflates: bool) -> PackedFile:
    """Return a changed archive as it is stored in a package."""
    return pack_content(edit.pieces(), deflates=deflates)


def read_document(info: TarEdit, name: str) -> JsonDocument:
    """Return a file that describes the package, as it was before all changes. Raises BadValue."""
    file, view = info.files.get(name), info.tar.view
    if file is None or file.size > MAX_DOCUMENT_SIZE:
        found = "none" if file is None else f"{file.size} bytes"
        raise BadValue(
            "the package does not describe itself",
            format="conda",
            offset=view.offset(0),
            field=name,
            expected=f"a file of at most {MAX_DOCUMENT_SIZE} bytes",
            found=found,
            hint="unpack it with cph x, and slim the folder",
            chain=view.chain,
        )
    return JsonDocument(info.tar.read(name), name, view.chain)


#: extensions of conda packages
SUFFIXES = (".conda", ".tar.bz2")


class CondaContents:
    """A conda package: ``files`` is the archive of the installed files, ``info`` the one of its metadata.

    What was inflated stays until ``stack`` closes it. Raises FormatError, HostError and Unsupported.
    """

    def __init__(self, view: View, file_name: str, stack: ExitStack) -> None:
        self.view = view
        self._entries: list[ZipEntry] = []
        self._numbers: dict[str, int] = {}
        if not file_name.endswith(".conda"):
            self.files = self.info = OpenTar(view)
            stack.callback(self.files.close)
            return
        self._entries = read_zip_entries(view)
        tars = {}
        for kind in ("pkg", "info"):
            found = [number for number, entry in enumerate(self._entries) if entry.name.startswith(f"{kind}-")]
            if len(found) != 1:
                raise BadValue(
                    "this is no conda package",
                    format="conda",
                    offset=view.offset(0),
                    field=f"{kind}-*.tar.zst",
                    expected="one file",
                    found=str(len(found)),
                    hint="get the package again",
                    chain=view.chain,
                )
            self._numbers[kind] = found[0]
        for kind, number in self._numbers.items():
            tars[kind] = OpenTar(stack.enter_context(open_content(view, self._entries[number])).view())
            stack.callback(tars[kind].close)
        self.files, self.info = tars["pkg"], tars["info"]

    def edits(self) -> tuple[TarEdit, TarEdit]:
        """Return an edit of the installed files, and one of the descriptions; they are the same for one archive."""
        files = TarEdit(self.files)
        return files, files if self.info is self.files else TarEdit(self.info)

    def written(
        self, name: str, files: TarEdit, info: TarEdit, pack: Callable[[TarEdit, bool], PackedFile] = pack_on_all_cores
    ) -> WrittenConda:
        """Return the package with the changes of both, under a name.

        ``pack`` returns a changed archive as it is stored; the second argument says if the package deflates it.
        """
        if files is info:
            return WrittenConda(self.view, name, [pack(files, False).stored], {}, (files,))
        tars, changes = {"pkg": files, "info": info}, {}
        order = sorted(self._numbers, key=self._numbers.__getitem__)
        for kind in order:
            number = self._numbers[kind]
            inner = f"{kind}-{name.removesuffix('.conda')}.tar.zst"
            if not tars[kind].is_changed:
                changes[number] = ZipChange(None, inner)
                continue
            deflates = self._entries[number].method != 0
            changes[number] = ZipChange(pack(tars[kind], deflates), inner)
        pieces = exchange_entries(self.view, changes)
        return WrittenConda(self.view, name, pieces, changes, tuple(tars[kind] for kind in order))


class WrittenConda(Record):
    """A changed conda package, to be written under ``name``."""

    before: View
    name: str
    pieces: Sequence[Piece]
    changes: Mapping[int, ZipChange]
    tars: tuple[TarEdit, ...]

    def verify(self, after: View) -> None:
        """Raise HostError unless a file is this package, by other readers of zip and tar archives."""
        with ExitStack() as stack:
            views = [after]
            if self.changes:
                crosscheck.verify_zip_change(self.before, after, self.changes)
                views = [
                    stack.enter_context(open_content(after, entry)).view()
                    for number, entry in enumerate(read_zip_entries(after))
                    if number in self.changes
                ]
            for old, view in zip(self.tars, views, strict=True):
                new = OpenTar(view)
                stack.callback(new.close)
                old.verify(new)


def check_paths(files: OpenTar, info: TarEdit, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of some files, by name. Raises BadValue if ``paths.json`` states another digest."""
    paths = read_document(info, PATHS)
    entries = parse_paths_json(paths)
    return {name: _checked(paths, entries.get(name, {}), files, name) for name in names}


def update_paths(files: TarEdit, info: TarEdit, digests: Mapping[str, str]) -> tuple[str, ...]:
    """Bring ``paths.json`` in step with changed files, whose old digests are given; return notes. Raises BadValue."""
    paths = read_document(info, PATHS)
    entries = parse_paths_json(paths)
    changed = [name for name in files.digests if not name.startswith("info/")]
    new = {digests[name]: (files.digests[name].hex(), files.sizes[name]) for name in changed}
    for name, entry in entries.items():
        # QUIRK(conda-build, rattler-build): a link is listed with digest and size of what it leads to.
        if (name in changed or entry.get("path_type") == "softlink") and entry.get("sha256") in new:
            entry["sha256"], entry["size_in_bytes"] = new[entry["sha256"]]
    info.put(PATHS, [paths.written()])
    return tuple(f"paths.json does not list {name}, before and after" for name in changed if name not in entries)


def _checked(paths: JsonDocument, entry: Mapping[str, object], tar: OpenTar, name: str) -> str:
    """Return the digest of a library before it was changed. Raises BadValue if the package says another one."""
    file = tar.files[name]
    digest = sha256_of_pieces([tar.content(file).view()]).hex()
    found = {"size_in_bytes": file.size, "sha256": digest}
    for field, value in found.items():
        if entry and entry.get(field) != value:
            raise paths.wrong(f"{name}: {field}", str(value), str(entry.get(field)))
    return digest
