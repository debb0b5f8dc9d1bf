"""Package databases in container images: rows about libraries that changed follow, wherever both lie in the layers.

A row changes if it holds the digest of the old bytes of a file that changed. The file is the one that the database's
path leads to in the file system of the image, or, of a database that a later layer replaces, of its own layer.

How we know: binary distribution format (RECORD), dpkg's deb-md5sums(5), conda's ``conda-meta`` (conda 24.1,
``core/prefix_data.py``), apk-tools 2.14 (``installed`` of v2); OCI image-spec 1.1, layer.md (whiteouts).
"""

from __future__ import annotations

import base64
import json
import re

from fatpack.commands.slim.image_layers import LayerDatabase, LayerLibrary, LayerMember
from fatpack.distributions import wheel_metadata
from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from fatpack.commands.slim.image_layers import FileFacts

    #: the libraries that a path means, in several images perhaps
    Libraries: TypeAlias = Mapping[str, Sequence[LayerLibrary]]


# The file system of an image: layer after layer, with links, as far as libraries and databases need it.

#: prefixes of files that remove others of lower layers, and of old ones that mean nothing any more
_WHITEOUT, _OPAQUE, _IGNORED = ".wh.", ".wh..wh..opq", (".wh..wh.plnk", ".wh..wh.aufs")

#: LIMIT: links that one path may lead through, as in Linux
_LINKS = 40


class _Link:
    """A symbolic link."""

    __slots__ = ("target",)

    def __init__(self, target: str) -> None:
        self.target = target


class FileSystem:
    """The file system of an image after some layers: folders on the way to libraries, databases and links."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, members: Sequence[LayerMember]) -> None:
        """Put a layer on top: its whiteouts first, wherever they are in it (OCI, layer.md)."""
        for member in members:
            folder, _, name = member.path.rpartition("/")
            if name.startswith(_WHITEOUT) and name not in _IGNORED:
                inside = self._folder(folder)
                if inside is None:
                    continue
                if name == _OPAQUE:
                    inside.clear()
                else:
                    inside.pop(name.removeprefix(_WHITEOUT), None)
        for member in members:
            self._put(member)

    def _put(self, member: LayerMember) -> None:
        folder, _, name = member.path.rpartition("/")
        if not name or name.startswith(_WHITEOUT):
            return
        subject: object = member.subject
        if member.kind == "link":
            subject = _Link(member.target)
        elif member.kind == "hard":
            subject = self.find(member.target)
        inside = self._folder(folder, makes=subject is not None)
        if inside is None or (member.kind == "folder" and isinstance(inside.get(name), dict)):
            return
        inside.pop(name, None)
        if subject is not None:
            inside[name] = subject

    def find(self, path: str) -> LayerLibrary | LayerDatabase | None:
        """Return the library or database at a path, through links; None for anything else."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        found = self._walk(parts, makes=False) if parts else None
        return found if isinstance(found, (LayerLibrary, LayerDatabase)) else None

    def databases(self) -> Iterator[LayerDatabase]:
        """Yield the databases that are there."""
        left = [self._root]
        while left:
            for node in left.pop().values():
                if isinstance(node, dict):
                    left.append(node)
                elif isinstance(node, LayerDatabase):
                    yield node

    def libraries(self) -> Iterator[LayerLibrary]:
        """Yield the libraries that are there, once for each name."""
        left = [self._root]
        while left:
            for node in left.pop().values():
                if isinstance(node, dict):
                    left.append(node)
                elif isinstance(node, LayerLibrary):
                    yield node

    def _folder(self, path: str, *, makes: bool = False) -> dict[str, Any] | None:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        found = self._walk(parts, makes=makes)
        return found if isinstance(found, dict) else None

    def _walk(self, parts: Sequence[str], *, makes: bool) -> object:
        """Return what is at a path, inside the root; with ``makes`` missing folders are made."""
        left = list(reversed(parts))
        above: list[dict[str, Any]] = []
        inside: dict[str, Any] = self._root
        links = 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                inside = above.pop() if above else self._root
                continue
            node = inside.get(part)
            if isinstance(node, _Link):
                links += 1
                if links > _LINKS:
                    return None
                if node.target.startswith("/"):
                    inside, above = self._root, []
                left += reversed(node.target.split("/"))
                continue
            if not isinstance(node, dict):
                if not left and not makes:
                    return node
                if not makes:
                    return None
                node = inside[part] = {}
            above.append(inside)
            inside = node
        return inside


# Kinds of databases.

#: change of a row about a file: its path from the root, and the facts that it states; None where it stays
_DPKG_LINE = re.compile(rb"([0-9a-f]{32})(  )([^\n]+)")


class _Rows:
    """Rows of one database that changed, or hold digests that were wrong before."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self.changed = 0
        self.wrong: list[str] = []

    def facts(self, path: str, algorithm: str, digest: bytes) -> FileFacts | None:
        """Return the new facts of a file, if the row held the digest of the old one."""
        libraries = self._libraries.get(path, ())
        for library in libraries:
            if library.before.digest(algorithm) == digest:
                self.changed += 1
                return library.after
        if libraries:
            self.wrong.append(path)
        return None


def _relative(base: str, path: str) -> str:
    """Return a path of a database from the root: it may be absolute, or relative to a folder."""
    return path.lstrip("/") if path.startswith("/") or not base else f"{base}/{path}"


def _wheel(data: bytes, base: str, rows: _Rows) -> bytes:
    contents = {}
    lines = wheel_metadata.parse_record(data)
    for line in lines:
        if line.hash_name != "sha256" or not line.path:
            continue
        try:
            digest = base64.urlsafe_b64decode(line.digest + "=" * (-len(line.digest) % 4))
        except ValueError:
            continue
        facts = rows.facts(_relative(base, line.path), "sha256", digest)
        if facts is not None:
            contents[line.path] = facts.digest("sha256"), facts.size
    return wheel_metadata.rewrite_record(lines, contents, {}) if contents else data


def _wheel_paths(data: bytes, base: str) -> Iterator[str]:
    yield from (_relative(base, line.path) for line in wheel_metadata.parse_record(data) if line.path)


def _dpkg(data: bytes, _base: str, rows: _Rows) -> bytes:
    def new(match: re.Match[bytes]) -> bytes:
        path = match[3].decode("utf-8", "surrogateescape")
        facts = rows.facts(path.lstrip("/"), "md5", bytes.fromhex(match[1].decode()))
        return match[0] if facts is None else facts.digest("md5").hex().encode() + match[2] + match[3]

    return _DPKG_LINE.sub(new, data)


def _dpkg_paths(data: bytes, _base: str) -> Iterator[str]:
    for match in _DPKG_LINE.finditer(data):
        yield match[3].decode("utf-8", "surrogateescape").lstrip("/")


def _conda(data: bytes, base: str, rows: _Rows) -> bytes:
    """Return a record of ``conda-meta``, or ``info/paths.json`` of a package cache, with new digests.

    Checkers of a prefix read ``sha256_in_prefix`` first; ``sha256`` is that of the package, and stays. A cache has no
    prefix, and ``sha256`` is that of the file.
    """
    from fatpack.distributions.conda_packages import JsonDocument

    document = JsonDocument(data, "paths", ())
    is_cache = "paths_data" not in document.values
    for entry in _conda_entries(document.values):
        stated = entry.get("sha256") if is_cache else entry.get("sha256_in_prefix", entry.get("sha256"))
        if not isinstance(stated, str) or re.fullmatch("[0-9a-f]{64}", stated) is None:
            continue
        facts = rows.facts(_relative(base, str(entry["_path"])), "sha256", bytes.fromhex(stated))
        if facts is not None:
            entry["sha256" if is_cache else "sha256_in_prefix"] = facts.digest("sha256").hex()
            if "size_in_bytes" in entry:
                entry["size_in_bytes"] = facts.size
    return document.written() if rows.changed else data


def _conda_entries(values: Any) -> list[dict[str, Any]]:
    inner = values.get("paths_data", values) if isinstance(values, dict) else {}
    paths = inner.get("paths") if isinstance(inner, dict) else None
    return [one for one in paths if isinstance(one, dict) and "_path" in one] if isinstance(paths, list) else []


def _conda_paths(data: bytes, base: str) -> Iterator[str]:
    yield from (_relative(base, str(entry["_path"])) for entry in _conda_entries(json.loads(data)))


def _apk(data: bytes, _base: str, rows: _Rows) -> bytes:
    """Return apk's list of installed files: F: a folder, R: a file in it, Z:Q1 its SHA-1 in base64."""
    out, folder, path = [], "", ""
    for line in data.split(b"\n"):
        new = line
        if line.startswith(b"F:"):
            folder = line[2:].decode("utf-8", "surrogateescape")
        elif line.startswith(b"R:"):
            path = f"{folder}/{line[2:].decode('utf-8', 'surrogateescape')}".lstrip("/")
        elif line.startswith(b"Z:Q1") and path:
            try:
                digest = base64.b64decode(line[4:])
            except ValueError:
                digest = b""
            facts = rows.facts(path, "sha1", digest)
            if facts is not None:
                new = b"Z:Q1" + base64.b64encode(facts.digest("sha1"))
        out.append(new)
    return b"\n".join(out)


def _apk_paths(data: bytes, _base: str) -> Iterator[str]:
    folder = ""
    for line in data.split(b"\n"):
        text = line[2:].decode("utf-8", "surrogateescape")
        if line.startswith(b"F:"):
            folder = text
        elif line.startswith(b"R:"):
            yield f"{folder}/{text}".lstrip("/")


#: names of databases → how many folders above is what their paths count from (None: the root), the paths, new bytes
_KINDS: tuple[
    tuple[re.Pattern[str], int | None, Callable[[bytes, str], Iterator[str]], Callable[[bytes, str, _Rows], bytes]], ...
] = (
    (re.compile(r"(.*/)?[^/]+\.dist-info/RECORD"), 2, _wheel_paths, _wheel),
    (re.compile(r"var/lib/dpkg/(info|status\.d)/[^/]+\.md5sums"), None, _dpkg_paths, _dpkg),
    (re.compile(r"(.*/)?conda-meta/[^/]+\.json"), 2, _conda_paths, _conda),
    (re.compile(r"(.*/)?pkgs/[^/]+/info/paths\.json"), 2, _conda_paths, _conda),
    (re.compile(r"(usr/)?lib/apk/db/installed"), None, _apk_paths, _apk),
)

#: databases whose digests are signed or hashed themselves
_FIXED = re.compile(r"(var/lib/rpm|usr/lib/sysimage/rpm)/(rpmdb\.sqlite|Packages(\.db)?)")


def is_database(path: str) -> bool:
    """Return whether a file is a package database whose rows can follow."""
    return any(pattern.fullmatch(path) for pattern, *_ in _KINDS)


def is_fixed_database(path: str) -> bool:
    """Return whether a file is rpm's database, whose rows cannot follow."""
    return _FIXED.fullmatch(path) is not None


def _kind(path: str) -> tuple[str, Callable[[bytes, str], Iterator[str]], Callable[[bytes, str, _Rows], bytes]]:
    _, levels, paths, new = next(kind for kind in _KINDS if kind[0].fullmatch(path))
    return "/".join(path.split("/")[:-levels]) if levels else "", paths, new


def database_bytes(database: LayerDatabase) -> bytes:
    """Return the bytes of a database."""
    assert database.change.content is not None
    return database.change.content.tobytes()


def find_libraries(database: LayerDatabase, files: FileSystem) -> Iterator[tuple[str, LayerLibrary]]:
    """Yield the paths of a database that lead to libraries that changed. Raises FormatError for a damaged one."""
    base, paths, _ = _kind(database.name)
    for path in dict.fromkeys(paths(database_bytes(database), base)):
        found = files.find(path)
        if isinstance(found, LayerLibrary):
            yield path, found


def rewrite_database(database: LayerDatabase, libraries: Libraries) -> tuple[bytes, Iterable[str]]:
    """Return a database in which the rows of some libraries follow, and the paths whose rows were wrong before."""
    base, _, new = _kind(database.name)
    rows = _Rows(libraries)
    data = new(database_bytes(database), base, rows)
    return data, rows.wrong


#: exceptions of readers of databases
DAMAGE = (FormatError, ValueError, RecursionError)
