"""A Debian in a folder, in which packages are built and installed and tests run: ``tools/reference/get_debian.sh``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests import reference

ROOT = Path(__file__).parents[2]


class Debian:
    """A Debian in a folder, of which commands see a work folder."""

    def __init__(self, work: Path, suite: str = "trixie") -> None:
        """Enter the folder of a suite; skip or fail the running test where it is missing, or the user is not root."""
        given = os.environ.get(f"FATPACK_REFERENCE_{suite.upper()}")
        self.root = Path(given or ROOT / ".reference" / suite / "root")
        if not (self.root / "usr/bin/python3").exists() or os.geteuid():
            reference.missing(f"Debian's {suite} (tools/reference/get_debian.sh), entered as root,")
        self.work = work

    def __call__(self, command: str) -> str:
        """Run a command with the work folder as its own; return its output."""
        steps = ['mount -t proc proc "$1/proc"', 'mount --rbind /sys "$1/sys"', 'mount --bind "$2" "$1/mnt"']
        mounts = " && ".join([*steps, 'exec chroot "$1" sh -ec "$3"'])
        script = (
            f"cd /mnt; export DEBFULLNAME=Somebody DEBEMAIL=somebody@debian.org SOURCE_DATE_EPOCH=1700000000; {command}"
        )
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", mounts, "sh", self.root, self.work, script],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
