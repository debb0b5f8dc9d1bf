"""The files of a container image, in a tar archive or a folder: read by name, written with other contents and names.

::

    OCI layout        oci-layout  index.json  blobs/sha256/DIGEST
    docker archive    manifest.json  DIGEST.json  DIGEST.tar or ID/layer.tar (a file, or a link to DIGEST.tar)
    Docker 25         both: an OCI layout with a manifest.json

Files are named by digests, so a file with other content has another name of the same length.

How we know: OCI image-spec 1.1, image-layout.md; moby, image/tarexport/load.go; archives of skopeo 1.9.3.
"""

from __future__ import annotations

import json
import os
import posixpath
import re

from fatpack.errors import BadValue, FormatError, HostError, LimitExceeded, Unsupported, UsageError
from fatpack.io.open import open_source
from fatpack.packages.members import LazyInflatedMember
from fatpack.packages.names import detect_compression, name_problem
from fatpack.packages.streams import InflatedStream
from fatpack.packages.tar.reader import BLOCK, HEADER, SeekableTarFile, TarHeaders
from fatpack.record import Record
from fatpack.strict_json import InvalidJson, parse_strict_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import ExitStack
    from tarfile import TarInfo
    from typing import Any

    from fatpack.io.source import Piece, View

FORMAT = "image"

#: files by which an image is known: of OCI layouts, of docker archives
LAYOUT, INDEX, SAVED = "oci-layout", "index.json", "manifest.json"

#: LIMIT: bytes of a document, which is read whole. The largest known indexes have some hundred kilobytes.
_DOCUMENT = 16 << 20

#: LIMIT: files of an image. A layout of a hundred images has some thousand blobs.
_FILES = 100_000

#: LIMIT: members of an archive that are looked at before it is no image: the documents may come after the layers.
_LOOKED_AT = 20_000

#: digests in names and documents
DIGEST = re.compile(r"[0-9a-f]{64}")
_STORED_DIGEST = re.compile(rb"[0-9a-f]{64}")


# Documents: JSON whose unknown fields stay, with numbers as they are written.


class _Fraction(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def load_document(data: bytes, title: str, chain: Sequence[str]) -> Any:
    """Return the value of a JSON document. Raises BadValue for what is no JSON, and for a key twice in an object."""
    try:
        return parse_strict_json(data, parse_float=_Fraction)
    except InvalidJson as error:
        raise document_error(title, "content", "JSON", str(error), chain) from error


def document_error(title: str, field: str, expected: str, found: str, chain: Sequence[str]) -> BadValue:
    """Return the error about a field of a document."""
    return BadValue(
        "the image describes itself wrongly",
        format=FORMAT,
        field=f"{title}: {field}",
        expected=expected,
        found=found,
        hint="save the image again, or copy it with skopeo copy",
        chain=chain,
    )


def dump_document(value: Any) -> bytes:
    """Return a document as Go's encoder writes it, which most tools for images use: without blanks."""
    return _dumped(value).encode("utf-8", "surrogatepass")


#: characters that Go's encoder escapes although JSON does not require it
_ESCAPED = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def _dumped(value: Any) -> str:
    if isinstance(value, _Fraction):
        return str(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{_dumped(key)}:{_dumped(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_dumped, value))}]"
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


# Headers of tar archives with another size or other names.

_SIZE_AT, _SUM_AT, _KIND_AT = (HEADER.field_offset(name) for name in ("size", "checksum", "kind"))
#: the first size with more than eleven octal digits
_LARGE = 8**11


def resized_headers(area: bytes, size: int) -> bytes:
    """Return the headers of a file, extended ones first, for another size. All else in them stays.

    The size of a pax record counts its own digits (POSIX.1-2017, pax Extended Header).
    """
    out = []
    at = 0
    while at < len(area) - BLOCK:
        length = _number(area[at + _SIZE_AT : at + _SIZE_AT + 12])
        end = at + BLOCK + length + -length % BLOCK
        head, body = area[at : at + BLOCK], area[at + BLOCK : at + BLOCK + length]
        new = _with_pax_size(body, size) if head[_KIND_AT : _KIND_AT + 1] in b"xX" else body
        if new == body:
            out.append(area[at:end])
        else:
            out += [_with_size(head, len(new)), new, bytes(-len(new) % BLOCK)]
        at = end
    return b"".join([*out, _with_size(area[at:], size)])


def _with_pax_size(body: bytes, size: int) -> bytes:
    out, at = [], 0
    while at < len(body):
        length = body[at:].partition(b" ")[0]
        if not length.isdigit() or not int(length):
            return body
        record = body[at : at + int(length)]
        if record[len(length) + 1 :].startswith(b"size="):
            content = b" size=%d\n" % size
            total = len(content) + 1
            while len(b"%d" % total) + len(content) != total:
                total += 1
            record = b"%d%s" % (total, content)
        out.append(record)
        at += int(length)
    return b"".join(out)


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return int(field.strip(b" \0") or b"0", 8)


def _with_size(block: bytes, size: int) -> bytes:
    new = bytearray(block)
    if size < _LARGE:
        new[_SIZE_AT : _SIZE_AT + 12] = b"%011o%c" % (size, 0x20 if block[_SIZE_AT + 11] == 0x20 else 0)
    else:
        new[_SIZE_AT : _SIZE_AT + 12] = b"\x80" + size.to_bytes(11, "big")
    return _with_checksum(new)


def _with_checksum(block: bytearray) -> bytes:
    block[_SUM_AT : _SUM_AT + 8] = b" " * 8
    block[_SUM_AT : _SUM_AT + 8] = b"%06o\0 " % sum(block)
    return bytes(block)


def _renamed_headers(area: bytes, renames: Mapping[str, str]) -> bytes:
    """Return headers in which digests are exchanged, in names and in targets of links."""

    def new(match: re.Match[bytes]) -> bytes:
        return renames.get(match[0].decode(), match[0].decode()).encode()

    renamed = _STORED_DIGEST.sub(new, area)
    if renamed == area:
        return area
    out, at = [], 0
    while at < len(area):
        is_last = at == len(area) - BLOCK
        length = 0 if is_last else _number(area[at + _SIZE_AT : at + _SIZE_AT + 12])
        end = at + BLOCK + length + -length % BLOCK
        out += [_with_checksum(bytearray(renamed[at : at + BLOCK])), renamed[at + BLOCK : end]]
        at = end
    return b"".join(out)


def plain_name(name: str) -> str:
    """Return a name in an archive without ``./``, a slash in front, and empty parts."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


# The two stores.


class NewImageFile(Record):
    """A file of the new image: its name, and its bytes."""

    name: str
    pieces: Sequence[Piece]


class ImageFiles:
    """The files of an image by name; ``title`` is the path of the image, ``size`` the bytes of all."""

    title: str
    files: Mapping[str, View]
    chain: tuple[str, ...]

    def resolve(self, name: str) -> str:
        """Return the name of the file itself for one that may be a link."""
        return name

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name."""
        return self.resolve(name) in self.files

    def view(self, name: str) -> View:
        """Return the bytes of a file. Raises BadValue if there is none."""
        found = self.files.get(self.resolve(name))
        if found is None:
            raise document_error(name, "file", "one", "none", self.chain)
        return found

    def document(self, name: str) -> Any:
        """Return a JSON document. Raises BadValue and LimitExceeded."""
        view = self.view(name)
        if len(view) > _DOCUMENT:
            raise LimitExceeded(
                "a document of the image is far too large",
                format=FORMAT,
                field=name,
                expected=f"at most {_DOCUMENT} bytes",
                found=str(len(view)),
                hint="save the image again",
                chain=self.chain,
            )
        return load_document(view.tobytes(), name, self.chain)


class FolderImage(ImageFiles):
    """An OCI layout in a folder. Raises ``OSError``, and Unsupported for links: a layout has none."""

    def __init__(self, path: str, stack: ExitStack) -> None:
        self.title, self.chain = path, (path,)
        found: dict[str, View] = {}
        left = [""]
        while left:
            inside = left.pop()
            with os.scandir(os.path.join(path, inside)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
            for entry in listed:
                name = posixpath.join(inside, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    left.append(name)
                elif entry.is_file(follow_symlinks=False):
                    source = stack.enter_context(open_source(os.path.join(path, name), may_close=True))
                    found[name] = source.view()
                else:
                    hint = "copy the layout with skopeo copy oci:DIR oci:OTHER"
                    raise Unsupported(f"{name} is no file, and a layout has files alone", hint=hint, chain=(path,))
                if len(found) > _FILES:
                    raise _too_many(path)
        self.files = found

    def rewritten(
        self, contents: Mapping[str, Sequence[Piece]], renames: Mapping[str, str], dropped: Collection[str]
    ) -> Iterator[NewImageFile]:
        """Yield the files of the new image: with new ``contents``, renamed by digests, without ``dropped`` ones."""
        seen = set()
        for name, view in self.files.items():
            new = DIGEST.sub(lambda match: renames.get(match[0], match[0]), name)
            if name not in dropped and new not in seen:
                seen.add(new)
                yield NewImageFile(new, contents.get(name, [view]))


def _too_many(title: str) -> LimitExceeded:
    return LimitExceeded(
        "the image has too many files", format=FORMAT, expected=f"at most {_FILES}", hint="is it one?", chain=(title,)
    )


class TarImage(ImageFiles):
    """An image in a tar archive, which may be compressed with gzip or zstd. Raises FormatError and HostError."""

    def __init__(self, view: View, title: str, stack: ExitStack) -> None:
        self.title, self.chain = title, view.chain
        self.method = detect_compression(view) or ""
        self.plain = view
        if self.method:
            stream = InflatedStream(view, self.method, format="tar")
            source = LazyInflatedMember(
                stream, None, title, present=len(view), budget=view.source.budget, origin=view.source
            )
            stack.callback(source.close)
            source.complete()
            self.plain = source.view()
        self._members: list[tuple[TarInfo, int]] = []
        self._links: dict[str, str] = {}
        self.files = self._read()

    def _read(self) -> dict[str, View]:
        found: dict[str, View] = {}
        plain = self.plain
        headers = TarHeaders(SeekableTarFile(plain), lambda at: (plain.offset(at), plain.chain))
        for header in headers:
            name = plain_name(header.name)
            self._members.append((header, headers.next_at))
            if len(self._members) > _FILES:
                raise _too_many(self.title)
            if header.issym() or header.islnk():
                folder = posixpath.dirname(name) if header.issym() else ""
                self._links[name] = posixpath.normpath(posixpath.join(folder, header.linkname))
            elif header.isreg():
                if header.sparse is not None:
                    raise self._refused(f"{name} has holes")
                if name in found or name_problem(name):
                    raise document_error(name, "name", "one file in the image", "another", self.chain)
                found[name] = plain.slice(header.offset_data, header.size)
        if headers.last.strip(b"\0"):
            raise FormatError(
                "the header does not add up to its checksum",
                format="tar",
                offset=plain.offset(headers.next_at),
                field="header",
                hint="get the file again",
                chain=plain.chain,
            )
        self._end = min(headers.next_at, len(plain))
        return found

    def _refused(self, problem: str) -> HostError:
        return HostError(problem, hint="copy the image with skopeo copy, and slim the copy", chain=self.chain)

    def resolve(self, name: str) -> str:
        """Return the name of the file that a name leads to by links."""
        name = plain_name(name)
        for _ in range(8):
            if name not in self._links:
                break
            name = self._links[name]
        return name

    def rewritten(
        self, contents: Mapping[str, Sequence[Piece]], renames: Mapping[str, str], dropped: Collection[str]
    ) -> list[Piece]:
        """Return the archive with new ``contents`` of files, renamed by digests, without ``dropped`` ones."""
        pieces: list[Piece] = []
        seen = set()
        for header, end in self._members:
            area = self.plain.read(header.offset, header.offset_data - header.offset)
            name = plain_name(header.name)
            if name in dropped:
                continue
            area = _renamed_headers(area, renames)
            if name not in self.files:
                pieces.append(area)
                continue
            new = DIGEST.sub(lambda match: renames.get(match[0], match[0]), name)
            if new in seen:
                continue
            seen.add(new)
            content = contents.get(name)
            if content is None:
                length = min(end, len(self.plain)) - header.offset_data
                pieces += [area, self.plain.slice(header.offset_data, length)]
            else:
                size = sum(map(len, content))
                pieces += [resized_headers(area, size), *content, bytes(-size % BLOCK)]
        return [*pieces, self.plain.slice(self._end, len(self.plain) - self._end)]


def is_image_folder(path: str) -> bool:
    """Return whether a folder is an OCI layout."""
    return os.path.isfile(os.path.join(path, LAYOUT))


def is_image_archive(view: View) -> bool:
    """Return whether a tar archive is an image: it has the documents of a layout, or of docker save.

    Archives of files with other names, as those of a root file system, are none; damaged ones are left to others.
    """
    from fatpack.model import Finding
    from fatpack.packages import get_package

    tar = get_package("tar")
    if not tar.detect(view):
        return False
    for number, item in enumerate(tar.members(view)):
        if isinstance(item, Finding):
            continue
        if plain_name(item.name) in (LAYOUT, SAVED):
            return True
        if number > _LOOKED_AT:
            return False
    return False


def check_folder_target(path: str) -> None:
    """Raise UsageError for a folder that is not empty: layouts are written as a whole."""
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise UsageError(f"{path} is not empty", hint="choose another output: a layout is written to a new folder")
