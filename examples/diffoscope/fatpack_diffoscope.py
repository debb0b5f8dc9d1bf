#!/usr/bin/env python3
"""diffoscope with a comparator for files with GPU code: ``fatpack_diffoscope.py [OPTIONS OF DIFFOSCOPE] OLD NEW``.

It runs in the Python of diffoscope, and calls ``fatpack`` on PATH (``FATPACK`` names another one). Where a file has
containers of device code, diffoscope gets the listing of kernels with their digests, and each image as a file to
compare: cubins are ELF files for its own comparator.

diffoscope has no plug-ins: it imports the comparators that a table of its own names, in which this module enters one.
Tried with diffoscope 240 (Debian 12) and 332 (PyPI).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, ClassVar

from diffoscope.comparators import ComparatorManager
from diffoscope.comparators.elf import ElfFile
from diffoscope.comparators.utils.archive import Archive
from diffoscope.comparators.utils.command import Command
from diffoscope.comparators.utils.file import File
from diffoscope.difference import Difference
from diffoscope.main import main
from diffoscope.tempfiles import get_temporary_directory

FATPACK = os.environ.get("FATPACK", "fatpack")


class Listing(Command):
    """The images and kernels of a file as text, and the canonical digest of each image."""

    def cmdline(self) -> list[str]:
        """Return the command: names of files differ in each run, and so the text has none."""
        script = '"$0" inspect --digest -v "$1" | sed "s|  $1$||"; "$0" inspect --kernels "$1" | sed "s|$1|FILE|g"'
        return ["sh", "-c", script, FATPACK, self.path]


class Images(Archive):
    """The images of a file, each as a member."""

    def open_archive(self) -> dict[str, str]:
        """Extract all images; return their paths by their names without that of the file."""
        self.folder = get_temporary_directory("fatpack")
        subprocess.run([FATPACK, "extract", self.source.path, "-d", self.folder.name, "-q"], check=False)
        stem = os.path.basename(self.source.path).partition(".")[0]
        names = sorted(os.listdir(self.folder.name))
        return {name.removeprefix(stem).lstrip(".-"): os.path.join(self.folder.name, name) for name in names}

    def close_archive(self) -> None:
        """Remove what was extracted."""
        self.folder.cleanup()

    def get_member_names(self) -> list[str]:
        """Return the names of the images."""
        return list(self.archive)

    def extract(self, member_name: str, dest_dir: str) -> str:
        """Return the path of an image."""
        return self.archive[member_name]


def has_containers(path: str) -> bool:
    """Return whether fatpack finds a container of device code in a file."""
    done = subprocess.run([FATPACK, "inspect", "--json", path], capture_output=True, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return False
    return any(file.get("containers") for file in document.get("files", [document]))


class DeviceCode(File):
    """A container of device code that is a file of its own."""

    DESCRIPTION = "containers of GPU code"
    CONTAINER_CLASSES: ClassVar = [Images]

    @classmethod
    def recognizes(cls, file: File) -> bool:
        """Return whether a file is one."""
        return os.path.isfile(file.path) and not ElfFile.recognizes(file) and has_containers(file.path)

    def compare_details(self, other: File, source: str | None = None) -> list[Difference]:
        """Return the difference of the listings."""
        return [Difference.from_operation(Listing, self.path, other.path)]


class ElfWithDeviceCode(ElfFile):
    """An object, a program or a library with device code."""

    DESCRIPTION = "ELF files with GPU code"
    CONTAINER_CLASSES: ClassVar = [Images, *ElfFile.CONTAINER_CLASSES]

    @classmethod
    def recognizes(cls, file: File) -> bool:
        """Return whether a file is one."""
        return ElfFile.recognizes(file) and has_containers(file.path)

    def compare_details(self, other: File, source: str | None = None) -> list[Difference]:
        """Return the difference of the listings, and those that diffoscope finds in any ELF file."""
        own = Difference.from_operation(Listing, self.path, other.path)
        return [own, *super().compare_details(other, source)]


if __name__ == "__main__":
    sys.modules["diffoscope.comparators.fatpack_device_code"] = sys.modules[__name__]
    own = tuple((f"fatpack_device_code.{name}",) for name in ("DeviceCode", "ElfWithDeviceCode"))
    ComparatorManager.COMPARATORS = (*own, *ComparatorManager.COMPARATORS)
    main()
