"""A conda channel in a folder, for builds that reach no other: this interpreter, and packages of PyPI's wheels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email import message_from_string
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from tests import reference

#: Parts of the standard library that no build needs.
LEFT_OUT = shutil.ignore_patterns("__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "config-*")

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def make(folder: Path, wanted: Iterable[str], names: Mapping[str, str]) -> Path:
    """Make a channel with python and what a list of requirements needs, all of it; return its folder.

    ``names`` are those that packages have in conda-forge where PyPI's differ.
    """
    channel, wheels = folder / "channel", folder / "wheels"
    for platform in ("noarch", "linux-64"):
        (channel / platform).mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", str(wheels), *wanted]
    subprocess.run(pip, check=True, capture_output=True)
    _python(channel, folder / "python")
    for wheel in sorted(wheels.iterdir()):
        name, version = wheel.name.split("-")[:2]
        files = folder / name
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(files / "site-packages")
        name = name.replace("_", "-").lower()
        _package(channel, names.get(name, name), version, files, "noarch", ["python", *_needed(files)])
    for platform in ("noarch", "linux-64"):
        _index(channel / platform)
    return channel


def _needed(files: Path) -> Iterator[str]:
    """Yield the names of the packages that an unpacked wheel needs here."""
    (metadata,) = files.glob("site-packages/*.dist-info/METADATA")
    for text in message_from_string(metadata.read_text(encoding="utf-8")).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name.lower()


def _python(channel: Path, files: Path) -> None:
    """Package this interpreter: its folder may be anywhere, for it finds its library beside itself."""
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, files / "lib" / library.name, ignore=LEFT_OUT)
    (files / "bin").mkdir()
    program = files / "bin" / f"python{VERSION}"
    shutil.copy(os.path.realpath(sys.executable), program)
    for name in ("python", "python3"):
        (files / "bin" / name).symlink_to(program.name)
    version = ".".join(map(str, sys.version_info[:3]))
    _package(channel, "python", version, files, "linux-64", [])


def _package(channel: Path, name: str, version: str, files: Path, platform: str, depends: list[str]) -> None:
    rattler_build = reference.package("rattler_build")
    rattler_build.assemble_package(
        name,
        version,
        platform,
        "0",
        channel / platform,
        files_dir=files,
        depends=depends,
        noarch="python" if platform == "noarch" else None,
        compression_level=1,
        detect_prefix=False,
    )


def _index(folder: Path) -> None:
    """Write what solvers read of a platform."""
    handling = reference.package("conda_package_handling.api")
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.conda")):
        opened = folder / "opened"
        handling.extract(str(path), str(opened), components="info")
        data = path.read_bytes()
        more = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "md5": hashlib.md5(data).hexdigest()}
        found[path.name] = json.loads((opened / "info/index.json").read_text()) | more
        shutil.rmtree(opened)
    text = json.dumps({"info": {"subdir": folder.name}, "packages": {}, "packages.conda": found})
    (folder / "repodata.json").write_text(text, encoding="utf-8")
