"""Stand-ins where compilers look for them, as docs/how-to/put-in-place.md places them, and a log of who was called."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests import reference

#: The command that stand-ins are links to: it writes down by which name it was called.
_COMMAND = """#!{python}
import sys

with open({log!r}, "a") as log:
    log.write(sys.argv[0].rpartition("/")[2] + "\\n")
sys.path[:] = {path!r}
from fatpack.main import main

sys.exit(main())
"""


class StandIns:
    """A folder ``stand-ins``: empty, until stand-ins are installed there."""

    def __init__(self, top: Path) -> None:
        self.folder = top / "stand-ins"
        self.folder.mkdir()
        self._log = top / "calls"
        self._command = top / "bin" / "fatpack"
        self._command.parent.mkdir()
        self._command.write_text(_COMMAND.format(python=sys.executable, log=str(self._log), path=sys.path))
        self._command.chmod(0o755)

    def install(self, names: Iterable[str] = ()) -> None:
        """Place the stand-ins that are named, or all of them."""
        run(self._command, "tool", "--install", self.folder, *names)
        self._log.unlink()

    def calls(self) -> Counter[str]:
        """Return how often stand-ins were called by their names since the last time."""
        names = Counter(self._log.read_text().splitlines()) if self._log.exists() else Counter()
        self._log.unlink(missing_ok=True)
        return names


def run(*command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a command that must succeed."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def nvcc(version: str) -> Path:
    """Return an nvcc: that on PATH, or that of the reference environment; skip or fail the running test without it."""
    for path in (Path("/usr/local/bin/nvcc"), Path(reference.tool("cuobjdump")).resolve().with_name("nvcc")):
        if path.exists() and version == _release(path):
            return path
    path = Path(reference.tool("nvcc"))
    return path if version == _release(path) else Path(reference.missing(f"nvcc of CUDA {version}"))


def _release(path: Path) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"release (\d+\.\d+)", said)[0]


def home(nvcc: Path) -> Path:
    """Return the folder of the toolkit that an nvcc belongs to; scripts in front of it are looked through."""
    said = subprocess.run([nvcc, "--dryrun", "-c", "-x", "cu", os.devnull], capture_output=True, text=True, check=True)
    (here,) = re.findall(r"^#\$ _HERE_=(.*)$", said.stderr, re.MULTILINE)
    return Path(here).parent


def placed(nvcc: Path, folder: Path) -> Path:
    """Return a link to nvcc in a folder, with a profile by which it looks there first."""
    top = home(nvcc)
    for name in ("nvcc", "crt"):
        (folder / name).symlink_to(top / "bin" / name)
    profile = (top / "bin" / "nvcc.profile").read_text()
    profile = re.sub(r"(?m)^TOP .*", f"TOP = {top}", profile)
    profile = re.sub(r"(?m)^PATH .*", f"PATH += $(_HERE_):{top}/nvvm/bin:{top}/bin:", profile)
    (folder / "nvcc.profile").write_text(profile)
    return folder / "nvcc"
