"""Fat conda packages: libraries with code for many devices, a file beside them, a link, and what describes them."""

from __future__ import annotations

import bz2
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from tests.builders import conda
from tests.builders.policy_files import library

PATH = "lib/libdemo.so.1"


def fat_package(
    folder: Path,
    *containers: str,
    depends: Sequence[str] = ("libgcc", "cuda-arch >=5.0"),
    suffix: str = ".conda",
    build: str = "h12_0",
    more: Mapping[str, bytes] | None = None,
    data: bytes = b"",
    **index: Any,
) -> Path:
    """Write a package for x86-64 whose library is ``data``, or has containers as :mod:`tests.builders.policy_files`."""
    described = {"build": build, "build_number": 0, "name": "demo", "version": "1.5", "subdir": "linux-64"}
    described |= {"depends": list(depends), **index}
    files = {PATH: data or library(*containers), "site-packages/demo.py": b"value = 1\n", **(more or {})}
    paths = [conda.entry(name, data) for name, data in files.items()]
    paths.append(conda.entry("lib/libdemo.so", files[PATH], "softlink"))
    info = {
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}, indent=2).encode(),
        "info/index.json": json.dumps(described, indent=2).encode(),
    }
    links = {"lib/libdemo.so": PATH.rpartition("/")[2]}
    stem = f"demo-1.5-{build}"
    if suffix == ".conda":
        whole = conda.zipped(stem, conda.tarred(files, links), conda.tarred(info))
    else:
        whole = bz2.compress(conda.tarred({**files, **info}, links))
    path = folder / f"{stem}{suffix}"
    path.write_bytes(whole)
    return path


def files_of(path: Path) -> dict[str, bytes]:
    """Return the regular files of a package, with other readers than fatpack's."""
    data = path.read_bytes()
    tars = [bz2.decompress(data)] if path.name.endswith(".tar.bz2") else []
    if not tars:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            inner = [archive.read(name) for name in archive.namelist() if name.endswith(".tar.zst")]
        tars = [zstandard.ZstdDecompressor().decompressobj().decompress(one) for one in inner]
    found = {}
    for tar in tars:
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            for member in opened.getmembers():
                file = opened.extractfile(member) if member.isreg() else None
                if file is not None:
                    found[member.name] = file.read()
    return found


def index_of(path: Path) -> dict[str, Any]:
    """Return how a package describes itself."""
    found: dict[str, Any] = json.loads(files_of(path)["info/index.json"])
    return found


def repacked(path: Path, into: Path, files: Mapping[str, bytes]) -> Path:
    """Write a package again with other contents of some files, whatever it says of itself."""
    found = files_of(path) | dict(files)
    stem = into.name.removesuffix(".conda")
    links = {"lib/libdemo.so": PATH.rpartition("/")[2]}
    info = {name: data for name, data in found.items() if name.startswith("info/")}
    others = {name: data for name, data in found.items() if name not in info}
    if into.name.endswith(".conda"):
        into.write_bytes(conda.zipped(stem, conda.tarred(others, links), conda.tarred(info)))
    else:
        into.write_bytes(bz2.compress(conda.tarred(others | info, links)))
    return into
