"""Packages that are installed in an environment, and the files that describe them: digests of installed files.

===================================  ================================================================================
``*.dist-info/RECORD``               wheels: a line for each file with digest and size (PyPA, "Recording installed
                                     projects")
``conda-meta/*.json``                conda packages: ``paths_data.paths``, with the digest in the package and the one in
                                     the prefix
``var/lib/dpkg/info/*.md5sums``      Debian packages: MD5 and path from the root of the file system
===================================  ================================================================================

A description that names the digest that a file had gets the one that it has; one that named another one stays: it was
wrong before, as the RECORDs of many conda packages are.
"""

from __future__ import annotations

import glob
import hashlib
import os

from fatpack.distributions import wheel_metadata
from fatpack.distributions.conda_packages import MAX_DOCUMENT_SIZE, JsonDocument
from fatpack.errors import BadValue, UsageError
from fatpack.io.open import read_regular_file
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.io.source import Piece


class FileDigests(Record):
    """The size of a file, and its digests in hexadecimal by the name of the hash: sha256 always, others if needed."""

    size: int
    hashes: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The SHA-256."""
        return self.hashes["sha256"]


class FileChange(Record):
    """A file that was changed: its digests now, and those of every state that it had before."""

    now: FileDigests
    earlier: tuple[FileDigests, ...]

    def new_digest(self, hash_name: str, digest: str) -> str | None:
        """Return the digest of the file now, if ``digest`` is that of one of its states; None if it never had it."""
        is_known = any(state.hashes.get(hash_name) == digest for state in (*self.earlier, self.now))
        return self.now.hashes.get(hash_name) if is_known else None


def digests_of(pieces: Iterable[Piece], hash_names: Iterable[str]) -> FileDigests:
    """Return the digests of concatenated pieces: by SHA-256, and by the hashes that are named."""
    sums = {name: hashlib.new(name, usedforsecurity=False) for name in sorted({"sha256", *hash_names})}
    size = 0
    for piece in pieces:
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read_once():
            size += len(part)
            for one in sums.values():
                one.update(part)
    return FileDigests(size, {name: one.hexdigest() for name, one in sums.items()})


class Description:
    """A file that describes an installed package: ``path`` is its own, ``package`` the package as a command names it.

    ``installer`` is the tool that installs the package: pip, uv, conda or apt-get. ``files`` are the paths of the
    files of the package, as links on the way to them lead, each with the hashes that it is described by.
    ``wrong`` counts digests that changed files had in no state.
    """

    def __init__(self, path: str, package: str, installer: str) -> None:
        self.path = path
        self.package = package
        self.installer = installer
        self.files: dict[str, set[str]] = {}
        self.wrong = 0

    def _add(self, place: str, hash_name: str) -> None:
        if hash_name in _HASHES:
            self.files.setdefault(place, set()).add(hash_name)

    def rewritten(self, changes: Mapping[str, FileChange]) -> bytes | None:
        """Return the description after changes of files, by their paths; None if it stays as it is."""
        raise NotImplementedError


#: hashes that descriptions may name
_HASHES = (*wheel_metadata.HASHES, "md5")

#: LIMIT: bytes of a RECORD or of MD5 sums, read whole. A RECORD of 100,000 files has 12 MB.
_TEXT = 64 << 20


def _read(path: str, most: int) -> bytes:
    data = read_regular_file(path, most + 1, "install the package again")
    if len(data) > most:
        raise BadValue(
            "the description of a package is far too large",
            format="environment",
            field="size",
            expected=f"at most {most} bytes",
            found="more",
            hint="install the package again",
            chain=(path,),
        )
    return data


class _Places:
    """Paths of files with the links on the way resolved; each folder is looked up once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def real(self, path: str) -> str:
        """Return a path with the links in its folders resolved; the file itself may be a link."""
        folder, name = os.path.split(os.path.normpath(path))
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)


class _WheelRecord(Description):
    """The RECORD of a wheel."""

    def __init__(self, path: str, places: _Places) -> None:
        info = os.path.dirname(path)
        metadata = _read(os.path.join(info, "METADATA"), _TEXT)
        name, version = (wheel_metadata.header_value(metadata, key) for key in ("Name", "Version"))
        installer = "pip"
        with_installer = os.path.join(info, "INSTALLER")
        if os.path.isfile(with_installer):
            installer = "uv" if _read(with_installer, _TEXT).strip() == b"uv" else "pip"
        url = _direct_url(info)
        super().__init__(path, f"{name} @ {url}" if url else f"{name}=={version}", installer)
        self._base = os.path.dirname(info)
        self._places = places
        for line in self._lines(_read(path, _TEXT)):
            self._add(self._place(line.path), line.hash_name)

    def _lines(self, data: bytes) -> Iterator[wheel_metadata.RecordLine]:
        for line in wheel_metadata.parse_record(data, (self.path,)):
            if line.hash_name and ".dist-info/" not in line.path:
                yield line

    def _place(self, path: str) -> str:
        return self._places.real(os.path.join(self._base, path))

    def rewritten(self, changes: Mapping[str, FileChange]) -> bytes | None:
        data = _read(self.path, _TEXT)
        contents = {}
        for line in self._lines(data):
            change = changes.get(self._place(line.path))
            if change is None:
                continue
            digest = change.new_digest(line.hash_name, wheel_metadata.decode_digest(line.digest).hex())
            if digest is None:
                self.wrong += 1
            else:
                contents[line.path] = bytes.fromhex(digest), change.now.size
        new = wheel_metadata.rewrite_record(wheel_metadata.parse_record(data, (self.path,)), contents, {})
        return None if new == data else new


def _direct_url(info: str) -> str:
    """Return the URL that a wheel was installed from, "" if an index had it (PyPA, "Recording the Direct URL")."""
    path = os.path.join(info, "direct_url.json")
    if not os.path.isfile(path):
        return ""
    return str(JsonDocument(_read(path, _TEXT), os.path.basename(path), (path,)).values.get("url") or "")


class _CondaRecord(Description):
    """The document of an installed conda package."""

    def __init__(self, path: str, prefix: str, places: _Places) -> None:
        self.path = path
        self._prefix = prefix
        self._places = places
        document = self._document()
        facts = [str(document.values.get(key)) for key in ("name", "version", "build")]
        super().__init__(path, "=".join(facts), "conda")
        for place, _ in self._entries(document):
            self._add(place, "sha256")

    def _document(self) -> JsonDocument:
        return JsonDocument(_read(self.path, MAX_DOCUMENT_SIZE), os.path.basename(self.path), (self.path,))

    def _entries(self, document: JsonDocument) -> Iterator[tuple[str, dict[str, Any]]]:
        data = document.values.get("paths_data")
        paths = data.get("paths") if isinstance(data, dict) else None
        for entry in paths if isinstance(paths, list) else ():
            name = entry.get("_path") if isinstance(entry, dict) else None
            if isinstance(name, str):
                yield self._places.real(os.path.join(self._prefix, name)), entry

    def rewritten(self, changes: Mapping[str, FileChange]) -> bytes | None:
        document = self._document()
        is_changed = False
        for place, entry in self._entries(document):
            # QUIRK(conda): a link is described by digest and size of what it leads to.
            change = changes.get(place) or changes.get(os.path.realpath(place))
            if change is None:
                continue
            # Readers look for sha256_in_prefix first; sha256 is that of the file in the package, and stays.
            stated = entry.get("sha256_in_prefix", entry.get("sha256"))
            digest = None if stated is None else change.new_digest("sha256", str(stated))
            new: dict[str, Any] = {} if digest in (None, stated) else {"sha256_in_prefix": digest}
            self.wrong += stated is not None and digest is None
            if new and entry.get("size_in_bytes") in {state.size for state in change.earlier}:
                new["size_in_bytes"] = change.now.size
            is_changed = is_changed or any(entry.get(key) != value for key, value in new.items())
            entry.update(new)
        return document.written() if is_changed else None


class _DebianSums(Description):
    """The MD5 sums of an installed Debian package."""

    def __init__(self, path: str, root: str, places: _Places) -> None:
        super().__init__(path, os.path.basename(path).removesuffix(".md5sums"), "apt-get")
        self._root = root
        self._places = places
        for place, _, _ in self._lines(_read(path, _TEXT)):
            if place:
                self._add(place, "md5")

    def _lines(self, data: bytes) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield the path of a file, its MD5, and the rest of the line; the path is "" where there is none to change."""
        for line in data.splitlines(keepends=True):
            digest, rest = line[:32], line[32:]
            name = os.fsdecode(rest.strip())
            is_file = rest.startswith(b"  ")
            yield self._places.real(os.path.join(self._root, name)) if is_file else "", digest, rest

    def rewritten(self, changes: Mapping[str, FileChange]) -> bytes | None:
        data = _read(self.path, _TEXT)
        lines = []
        for place, digest, rest in self._lines(data):
            change = changes.get(place)
            found = change.new_digest("md5", digest.decode("latin-1")) if change is not None else None
            self.wrong += change is not None and found is None
            lines.append((digest if found is None else found.encode()) + rest)
        new = b"".join(lines)
        return None if new == data else new


#: folders of an environment that have wheels in them: of venv, conda, pip's --target, Debian and Windows
_SITES = (
    "",
    "lib/python*/site-packages",
    "lib64/python*/site-packages",
    "Lib/site-packages",
    "usr/lib/python3*/dist-packages",
    "usr/lib*/python3*/site-packages",
    "usr/local/lib/python3*/dist-packages",
    "usr/local/lib/python3*/site-packages",
)


def read_descriptions(environment: str) -> list[Description]:
    """Return the descriptions of all packages of an environment, by their paths.

    Raises UsageError for a folder that is none and for a description that is no regular file, BadValue for one that
    cannot be read, and ``OSError``.
    """
    places = _Places()
    here = glob.escape(environment)
    found: dict[str, Description] = {}
    for site in _SITES:
        for path in sorted(glob.glob(os.path.join(here, site, "*.dist-info", "RECORD"))):
            if os.path.isfile(os.path.join(os.path.dirname(path), "METADATA")):
                found.setdefault(os.path.realpath(path), _WheelRecord(os.path.realpath(path), places))
    for path in sorted(glob.glob(os.path.join(here, "conda-meta", "*.json"))):
        found.setdefault(os.path.realpath(path), _CondaRecord(os.path.realpath(path), environment, places))
    for path in sorted(glob.glob(os.path.join(here, "var/lib/dpkg/info/*.md5sums"))):
        found.setdefault(os.path.realpath(path), _DebianSums(os.path.realpath(path), environment, places))
    if not found:
        raise UsageError(
            f"{environment} is no environment: it has no *.dist-info, no conda-meta and no var/lib/dpkg",
            hint="name the folder that has pyvenv.cfg or conda-meta; any other folder is given as a file is",
        )
    return [found[path] for path in sorted(found)]


def reinstall_commands(environment: str, owners: Iterable[Description]) -> list[str]:
    """Return the commands that install packages again, one for each tool; conda's are not named for pip, too."""
    by_tool: dict[str, list[str]] = {}
    for owner in owners:
        by_tool.setdefault(owner.installer, []).append(owner.package)
    from shlex import join

    pythons = [_at(environment, name) for name in ("bin/python", "Scripts/python.exe", "python.exe")]
    python = next(filter(os.path.exists, pythons), "python")
    commands: dict[str, list[str]] = {
        "pip": [python, "-m", "pip", "install", "--force-reinstall", "--no-deps"],
        "uv": ["uv", "pip", "install", "--python", python, "--reinstall", "--no-deps"],
        "conda": ["conda", "install", "--prefix", environment, "--force-reinstall", "--no-deps"],
        "apt-get": ["apt-get", "install", "--reinstall"],
    }
    return [join([*commands[tool], *sorted(set(names))]) for tool, names in sorted(by_tool.items())]


def _at(environment: str, name: str) -> str:
    return os.path.join(environment, *name.split("/"))


def owners_by_file(descriptions: Sequence[Description]) -> dict[str, Description]:
    """Return the package of each described file: conda's before a wheel's, which may be in a conda package."""
    ranked = sorted(descriptions, key=lambda one: ("pip", "uv", "apt-get", "conda").index(one.installer))
    return {file: one for one in ranked for file in one.files}
