"""A PyTorch image, slimmed, unpacked by umoci, and run: ``python -m tools.bench.torch_image [--wheels DIR]``.

``docs/benchmarks.md`` has the figures. Needs root, umoci, unshare and 20 GB of space, without ``--root`` mmdebstrap
and a mirror of Debian 12, without ``--wheels`` an index of Python packages, of which it takes 3.9 GB. It

1. makes a Debian 12 with python3, and installs torch and the wheels that it needs into it,
2. imports torch there and computes on the processor,
3. lets umoci make an image of two layers of it, gzip like all of umoci's, and slims that,
4. lets fatpack prove the slimmed image, and umoci unpack it: umoci compares diff IDs,
5. imports torch in the unpacked files and compares what it computes there, bit for bit.

Times are processor times: the whole takes half an hour of a machine that has other work.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.measure import FATPACK, BenchError, need
from tools.bench.stack import seconds

#: torch and what importing it needs. triton compiles kernels, which takes a GPU.
WHEELS = (
    "torch==2.9.1",
    "nvidia-cublas-cu12==12.8.4.1",
    "nvidia-cuda-cupti-cu12==12.8.90",
    "nvidia-cuda-nvrtc-cu12==12.8.93",
    "nvidia-cuda-runtime-cu12==12.8.90",
    "nvidia-cudnn-cu12==9.10.2.21",
    "nvidia-cufft-cu12==11.3.3.83",
    "nvidia-cufile-cu12==1.13.1.3",
    "nvidia-curand-cu12==10.3.9.90",
    "nvidia-cusolver-cu12==11.7.3.90",
    "nvidia-cusparse-cu12==12.5.8.93",
    "nvidia-cusparselt-cu12==0.7.1",
    "nvidia-nccl-cu12==2.27.5",
    "nvidia-nvjitlink-cu12==12.8.93",
    "nvidia-nvshmem-cu12==3.3.20",
    "nvidia-nvtx-cu12==12.8.90",
    "filelock",
    "fsspec",
    "jinja2",
    "markupsafe",
    "mpmath",
    "networkx",
    "numpy",
    "sympy",
    "typing-extensions",
)

SITE = "usr/local/lib/python3.11/dist-packages"

#: Prints digests of results, and the size of the files that hold the CUDA libraries which the process has mapped.
PROGRAM = """
import hashlib, json, os
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
a = torch.rand(200, 200, dtype=torch.float64)
layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
results = {
    "inverse": torch.linalg.inv(a),
    "transform": torch.view_as_real(torch.fft.fft2(a)),
    "convolution": torch.nn.functional.conv2d(torch.rand(2, 3, 32, 32), torch.rand(8, 3, 5, 5)),
    "sorted": torch.sort(torch.rand(10000)).values,
    "half": torch.rand(64, 64).half() @ torch.rand(64, 64).half(),
    "transformer": layer(torch.rand(2, 16, 64)),
}
results["transformer"].sum().backward()
results["gradient"] = layer.linear1.weight.grad
error = (a @ results["inverse"] - torch.eye(200, dtype=torch.float64)).abs().max().item()
names = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
device = [name for name in names if "/nvidia/" in name or name.endswith("libtorch_cuda.so")]
digests = {k: hashlib.sha256(v.detach().contiguous().numpy().tobytes()).hexdigest() for k, v in results.items()}
print(json.dumps({
    "torch": torch.__version__, "cuda": torch.version.cuda, "error": error, "digests": digests,
    "libraries": len(device), "mapped": sum(os.path.getsize(name) for name in device),
}))
"""


def make_root(root: Path) -> None:
    """Make a Debian 12 with python3 in a folder, from the mirror that this machine uses."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources if path.is_file())
    mirror = re.search(r"https?://\S*/debian/?(?=\s|$)", text)
    if mirror is None:
        raise BenchError("the apt sources of this machine name no mirror of Debian")
    options = ["--quiet", "--mode=root", "--variant=minbase", "--include=python3"]
    words = [*options, "--aptopt=APT::Install-Recommends false", "bookworm", str(root), mirror[0]]
    subprocess.run([need("mmdebstrap"), *words], check=True)


def install(root: Path, wheels: Path | None) -> None:
    """Install torch and what it needs into the folder of a Debian."""
    options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--python-version=3.11"]
    options += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 24, 17, 12, 5)]
    options += ["--platform=manylinux2014_x86_64", f"--target={root / SITE}"]
    if wheels is not None:
        options += ["--no-index", f"--find-links={wheels}"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *WHEELS], check=True)


def computed(root: Path) -> dict[str, Any]:
    """Return what the program prints whose root is a folder; it sees the processes of this machine, as torch asks there
    for the processor."""
    script = 'mount --rbind /proc "$0/proc" && exec chroot "$0" /usr/bin/python3 -W ignore -c "$1"'
    words = [need("unshare"), "--mount", "sh", "-c", script, str(root), PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{root}: torch does not run: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def image_of(root: Path, layout: Path, folder: Path) -> float:
    """Write an image of two layers with umoci, the installed packages in the upper one, and remove the folder of files.

    Returns umoci's processor time in seconds.
    """
    upper = folder / "upper"
    shutil.move(root / SITE, upper)
    name, used = f"{layout}:app", 0.0
    for words in (
        ["init", "--layout", str(layout)],
        ["new", "--image", name],
        ["insert", "--image", name, str(root), "/"],
        ["insert", "--image", name, str(upper), f"/{SITE}"],
    ):
        used += seconds([need("umoci"), *words], folder)[0]
        if words[0] == "insert":
            shutil.rmtree(words[-2])
    # Each insertion leaves the manifest and the config before it.
    used += seconds([need("umoci"), "gc", "--layout", str(layout)], folder)[0]
    return used


def stored(layout: Path) -> int:
    """Return the size of all blobs of an image in bytes."""
    return sum(path.stat().st_size for path in (layout / "blobs").rglob("*") if path.is_file())


def measured(wheels: Path | None, base: Path | None, device: str, folder: Path) -> dict[str, Any]:
    """Return the figures of an image. Raises BenchError if a step fails or a result differs."""
    root, layout, after, bundle = (folder / name for name in ("root", "layout", "slim", "bundle"))
    if base is None:
        make_root(root)
    else:
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
    install(root, wheels)
    said("installed")
    expected = computed(root)
    said(f"computed: {json.dumps(expected)}")
    image_of(root, layout, folder)
    said(f"image of {stored(layout)} bytes made by umoci")
    slim = [str(FATPACK), "slim", str(layout), "--for", device]
    # 1: a library stays as it is because it has nothing for the device.
    used, printed, code = seconds([*slim, "-d", str(after)], folder, (0, 1))
    said(f"slimmed to {stored(after)} bytes, exit code {code}:\n{printed}")
    proof, verdict, _ = seconds([str(FATPACK), "slim", "--verify", str(layout), str(after)], folder)
    said(verdict)
    sizes = stored(layout), stored(after)
    shutil.rmtree(layout)
    unpacking = seconds([need("umoci"), "unpack", "--image", f"{after}:app", str(bundle)], folder)[0]
    found = computed(bundle / "rootfs")
    said(f"computed: {json.dumps(found)}")
    if found["digests"] != expected["digests"]:
        raise BenchError("torch computes something else in the slimmed image")
    if found["libraries"] != expected["libraries"] or found["mapped"] >= expected["mapped"]:
        raise BenchError("torch has other libraries mapped, or they are not smaller")
    return {
        "device": device,
        "layers": sizes,
        "libraries": found["libraries"],
        "mapped": (expected["mapped"], found["mapped"]),
        "exit_code": code,
        "seconds": {"slim": round(used), "verify": round(proof), "umoci unpack": round(unpacking)},
    }


def said(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.torch_image", description="Slim and run a PyTorch image."
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="wheels that are at hand; default: an index")
    parser.add_argument("--root", type=Path, metavar="DIR", help="a Debian 12 with python3; default: one is made")
    parser.add_argument("--for", dest="device", default="sm_90", metavar="DEVICE", help="default: sm_90")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where files are made; default: a temporary folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fatpack-image-", dir=asked.scratch) as scratch:
        try:
            row = measured(asked.wheels, asked.root, asked.device, Path(scratch))
        except (BenchError, RuntimeError, subprocess.CalledProcessError) as error:
            said(f"not measured: {error}")
            return 1
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
