"""Conda packages for tests, as conda/ceps describe them: CEP 34 and 35."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

import zstandard


def entry(name: str, data: bytes, kind: str = "hardlink") -> dict[str, Any]:
    """Return what ``paths.json`` says of a file."""
    digest = hashlib.sha256(data).hexdigest()
    return {"_path": name, "path_type": kind, "sha256": digest, "size_in_bytes": len(data)}


def tarred(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_600_000_000
            archive.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return into.getvalue()


def zipped(stem: str, files: bytes, info: bytes) -> bytes:
    """Return a ``.conda`` of two tar archives."""
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr(zipfile.ZipInfo("metadata.json"), b'{"conda_pkg_format_version": 2}')
        for kind, tar in (("pkg", files), ("info", info)):
            data = zstandard.ZstdCompressor(level=3).compress(tar)
            archive.writestr(zipfile.ZipInfo(f"{kind}-{stem}.tar.zst"), data)
    return into.getvalue()


def package(files: Mapping[str, bytes], name: str, version: str, build: str) -> bytes:
    """Return a whole ``.conda``."""
    index = {"build": build, "build_number": 0, "name": name, "version": version}
    paths = {"paths": [entry(path, data) for path, data in files.items()], "paths_version": 1}
    info = {"info/paths.json": json.dumps(paths).encode(), "info/index.json": json.dumps(index).encode()}
    return zipped(f"{name}-{version}-{build}", tarred(files), tarred(info))
