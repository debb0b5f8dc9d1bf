"""A demonstration on real input: pack images of several architectures, embed, inspect, extract, compare.

Each step prints a command as a user types it, then its output. ``make demo`` runs it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FATPACK = Path(sys.executable).with_name("fatpack")
CUBINS = ROOT / "tests" / "fixtures" / "cuda" / "cubin"
PTX = ROOT / "tests" / "fixtures" / "cuda" / "ptx"
HOST = ROOT / "tests" / "fixtures" / "demo" / "host.o"

#: file in the demo's folder → (original, arch)
IMAGES = {
    "k1.sm_80.cubin": (CUBINS / "k1.cuda13.0.sm_80.cubin", "sm_80"),
    "k1.sm_90.cubin": (CUBINS / "k1.cuda13.0.sm_90.cubin", "sm_90"),
    "k1.sm_100f.cubin": (CUBINS / "k1.cuda13.0.sm_100f.cubin", "sm_100f"),
    "k1.ptx": (PTX / "k1.compute_80.ptx", "sm_80"),
}


def run(*words: str) -> str:
    """Show and run one command; return its output."""
    print(f"$ fatpack {' '.join(map(shlex.quote, words))}", flush=True)
    done = subprocess.run([FATPACK, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, flush=True)
    if done.returncode:
        sys.exit(f"demo: exit code {done.returncode}")
    return done.stdout


def main() -> None:
    folder = Path(sys.argv[1]) / "demo-out" if sys.argv[1:] else ROOT / "demo-out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    for name, (original, _) in IMAGES.items():
        shutil.copy(original, name)
    shutil.copy(HOST, "host.o")

    print("nvcc made device images from one small source. Pack them into a host object that gcc made:\n")
    options = [
        f"--image=file={name},triple=nvptx64-nvidia-cuda,arch={arch},kind=cuda" for name, (_, arch) in IMAGES.items()
    ]
    run("pack", *options, "--host=host.o", "-o", "fat.o")
    print("List what is inside, without a vendor toolkit:\n")
    run("inspect", "fat.o")
    print("Write one container to a file, and ask what its byte at 0x20 is:\n")
    run("extract", "fat.o", "--containers", "--container", "0", "-o", "first.bin")
    run("inspect", "first.bin", "--at", "0x20")
    print("Extract all images:\n")
    written = run("extract", "fat.o", "-d", "images")
    print("Ask which devices run the sm_100f image:\n")
    run("targets", "sm_100f")

    paths = [line.split("  ")[0] for line in written.splitlines()]
    for path, name in zip(paths, IMAGES, strict=True):
        same = Path(path).read_bytes() == Path(name).read_bytes()
        print(f"{path}: {'identical to' if same else 'DIFFERS FROM'} {name}")
        if not same:
            sys.exit(1)
    print(f"\nAll these files are in {os.path.relpath(folder, ROOT)}/.")


if __name__ == "__main__":
    main()
