"""File names of wheels and of the index files of their variants, in parts.

::

    demo-1.5-1slim-cp312-cp312-linux_x86_64-sm90.whl
    name ver build  python abi  platform     label
    demo-1.5-variants.json

Sources: PyPA, "Binary distribution format"; PEP 825 (draft) for labels and index files. Five, six or seven parts: of
six the third is a build tag if it begins with a digit, as no Python tag does; else the last one is a label.
"""

from __future__ import annotations

import os
import re

from fatpack.record import Record

#: The characters of a label, and the most that it may have. uv 0.13.9 takes longer ones.
LABEL = re.compile(r"[0-9a-z._]+")
LONGEST_LABEL = 16

#: the end of the name of an index file
INDEX_END = "-variants.json"


class WheelName(Record):
    """A wheel's file name in its parts, spelled as they are there.

    ``tags`` are those of Python, ABI and platform. ``build_tag`` and ``label`` are "" where there is none.
    """

    distribution: str
    version: str
    build_tag: str
    tags: str
    label: str = ""

    @property
    def file_name(self) -> str:
        """The file name."""
        parts = (self.distribution, self.version, self.build_tag, self.tags, self.label)
        return "-".join(filter(None, parts)) + ".whl"

    @property
    def release(self) -> tuple[str, str]:
        """The project and the version, as wheels of one release share them: name normalized, version as spelled."""
        return normalize_project(self.distribution), self.version

    @property
    def platform(self) -> str:
        """The tag of the platform: ``linux_x86_64``, several are separated by points."""
        return self.tags.rpartition("-")[2]


def split_wheel_name(path: str) -> WheelName | None:
    """Return the parts of a wheel's file name, at the end of a path; None for a name that no wheel has.

    What the parts say is not looked at: a label may have characters that are not allowed (:data:`LABEL`).
    """
    name = os.path.basename(path)
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or not 5 <= len(parts) <= 7 or not all(parts):
        return None
    distribution, version, *rest = parts
    build_tag = rest.pop(0) if len(rest) > 3 and rest[0][0] in "0123456789" else ""
    if not 3 <= len(rest) <= 4:
        return None
    return WheelName(distribution, version, build_tag, "-".join(rest[:3]), rest[3] if len(rest) == 4 else "")


def normalize_project(name: str) -> str:
    """Return the name of a project as names are compared (PyPA, "Names and normalization")."""
    return re.sub("[-_.]+", "-", name).lower()


def indexed_release(path: str) -> tuple[str, str] | None:
    """Return project and version of an index file of variants, at the end of a path; None for another file."""
    name = os.path.basename(path)
    distribution, dash, version = name.removesuffix(INDEX_END).partition("-")
    if not name.endswith(INDEX_END) or not (distribution and dash and version) or "-" in version:
        return None
    return normalize_project(distribution), version
