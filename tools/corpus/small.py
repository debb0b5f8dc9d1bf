"""Build the files of the list ``local_small`` from the sources in ``small_src/``.

The known numbers are those of clang 22.1 and CUDA 13.0; other versions give others. LLVM is searched in ``LLVM_BIN``,
in Debian's folder, and on PATH; CUDA in ``CUDA_HOME``, in ``/usr/local``, and by ``nvcc`` on PATH.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SOURCES = Path(__file__).with_name("small_src")


class NotBuilt(Exception):
    """The files cannot be built here; the message says what is missing."""


def build(cache: Path, names: Iterable[str]) -> Path:
    """Return the folder of the built files, from the cache if the sources are the same. Raises NotBuilt."""
    folder = cache.absolute() / "small"
    out, stamp = folder / "out", folder / "stamp"
    sources = _sources_digest()
    if stamp.exists() and stamp.read_text() == sources and all((out / name).exists() for name in names):
        return out
    environment = {**os.environ, "LLVM_BIN": _find_llvm(), "CUDA": _find_cuda()}
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCES, folder)
    done = subprocess.run([str(folder / "build.sh")], env=environment, capture_output=True, text=True)
    if done.returncode:
        problem = (done.stderr or done.stdout).strip().splitlines()
        raise NotBuilt(f"build.sh failed: {problem[0] if problem else done.returncode}; see {out / 'stderr.txt'}")
    stamp.write_text(sources)
    return out


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _version(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return ""


def _find_llvm() -> str:
    folders = [os.environ.get("LLVM_BIN", ""), "/usr/lib/llvm-22/bin", str(Path(shutil.which("clang") or "").parent)]
    for folder in folders:
        if folder and "clang version 22." in _version([os.path.join(folder, "clang"), "--version"]):
            return folder
    raise NotBuilt("clang 22 was not found (set LLVM_BIN)")


def _find_cuda() -> str:
    roots = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda-13.0", "/usr/local/cuda"]
    roots.append(str(Path(shutil.which("nvcc") or "").resolve().parent.parent))
    for root in roots:
        if root and "release 13.0" in _version([os.path.join(root, "bin", "nvcc"), "--version"]):
            return root
    raise NotBuilt("CUDA 13.0 was not found (set CUDA_HOME)")
