"""Which program stands behind a name: on PATH, for clang and for nvcc, each as it says itself."""

from __future__ import annotations

import os

from fatpack.record import Record
from fatpack.tools import TOOLS, find_stand_in
from fatpack.tools.ours import is_command, is_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: LIMIT: seconds that a compiler has to say where it looks.
_PATIENCE = 10


class CalledProgram(Record):
    """The program that one client calls by a name; ``path`` is empty where there is none."""

    client: str
    path: str

    @property
    def is_fatpack(self) -> bool:
        """Whether it is a stand-in: placed by ``--install``, or a script that calls ``fatpack tool``."""
        return self.state == "fatpack"

    @property
    def state(self) -> str:
        """``fatpack``, ``original``, ``broken`` for a link to a fatpack that is gone; "" where there is nothing."""
        if not self.path:
            return ""
        if is_command(self.path):
            return "fatpack" if os.path.exists(self.path) else "broken"
        return "fatpack" if is_script(self.path) else "original"

    @property
    def leads_to(self) -> str:
        """Where a stand-in that is a link leads; "" for all else."""
        return os.readlink(self.path) if os.path.islink(self.path) and is_command(self.path) else ""


class ToolCallers:
    """Who calls stand-ins here. The compilers that PATH finds are asked once where they look first."""

    def __init__(self) -> None:
        import shutil

        self._which = shutil.which
        self.clang = self._which("clang") or next(filter(None, map(self._which, _CLANGS)), None)
        self.nvcc = self._which("nvcc")
        self._nvcc_path = self._asked_nvcc() if self.nvcc else ""

    @property
    def names(self) -> list[str]:
        """Who is asked, as :class:`Found` calls them."""
        return ["PATH", *([os.path.basename(self.clang)] if self.clang else []), *(["nvcc"] if self.nvcc else [])]

    def found(self, name: str) -> Iterator[CalledProgram]:
        """Yield what PATH finds, then what clang calls, and nvcc where the name is of NVIDIA."""
        yield CalledProgram("PATH", self._on_path(name))
        if self.clang:
            said = _output([self.clang, f"-print-prog-name={name}"]).strip()
            yield CalledProgram(os.path.basename(self.clang), said if os.path.dirname(said) else "")
        if self.nvcc and _is_nvidias(name):
            yield CalledProgram("nvcc", self._which(name, path=self._nvcc_path) or "")

    def _on_path(self, name: str) -> str:
        """Return what PATH finds; a link that leads to nothing comes first where it would, if it led somewhere."""
        found = self._which(name) or ""
        for folder in os.get_exec_path():
            path = os.path.join(folder, name)
            if path == found:
                break
            if is_command(path) and not os.path.exists(path):
                return path
        return found

    def _asked_nvcc(self) -> str:
        """Return the PATH that nvcc gives to what it calls: its profile puts folders of its own in front."""
        said = _output([self.nvcc or "", "--dryrun", "-c", "-x", "cu", os.devnull], of_stderr=True)
        lines = [line.removeprefix("#$ PATH=") for line in said.splitlines() if line.startswith("#$ PATH=")]
        return lines[-1] if lines else os.environ.get("PATH", "")


#: What distributions call clang where there is none without a version: the newest first.
_CLANGS = [f"clang-{version}" for version in range(29, 17, -1)]


def _is_nvidias(name: str) -> bool:
    tool = find_stand_in(name)
    return tool is not None and TOOLS[tool[0]].startswith("nvidia.")


def _output(command: Sequence[str], *, of_stderr: bool = False) -> str:
    """Return what a program prints; nothing if it cannot be run."""
    import subprocess

    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr if of_stderr else done.stdout
