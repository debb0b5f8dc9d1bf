"""Intel's SYCL runtime runs real libraries on the processor after they were edited: dpctl 0.21 with its OpenCL device.

The libraries have SPIR-V in linked files, compiled by the device's compiler when a kernel is first used. An environment
of its own has them (``.ci/run`` makes it).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
from tests import reference

import fatpack

pytestmark = [pytest.mark.reference, pytest.mark.slow]

ENVIRONMENT = Path(os.environ.get("FATPACK_REFERENCE_SYCL") or Path(__file__).parents[2] / ".reference/sycl")

#: Computes with real and with complex numbers; prints a digest of each result, or the name of an error.
PROGRAM = """
import hashlib, json, warnings
warnings.simplefilter("ignore")
import dpctl.tensor as tensor
x = tensor.linspace(0, 10, 1000, dtype="f4", device="cpu")
told = {}
for name, work in {
    "real": lambda: tensor.sqrt(x) * 2 + tensor.sin(x),
    "complex": lambda: tensor.sin(tensor.astype(x, "c8")),
}.items():
    try:
        told[name] = hashlib.sha256(tensor.asnumpy(work()).tobytes()).hexdigest()
    except RuntimeError as error:
        told[name] = str(error)
print(json.dumps(told))
"""


class Overlay:
    """A copy of dpctl, of whose libraries some are replaced; the others are links to the installed ones."""

    def __init__(self, folder: Path) -> None:
        if not (ENVIRONMENT / "bin/python").exists():
            reference.missing("dpctl (the environment .reference/sycl)")
        (package,) = ENVIRONMENT.glob("lib/python*/site-packages/dpctl")
        self.folder = folder
        shutil.copytree(package, folder / "dpctl", copy_function=os.link)
        (self.library,) = (folder / "dpctl/tensor").glob("_tensor_elementwise_impl*.so")
        (self.installed,) = (package / "tensor").glob("_tensor_elementwise_impl*.so")

    def put(self, library: Path) -> None:
        """Put an edited library into the place of the installed one."""
        self.library.unlink()
        shutil.copy(library, self.library)

    def run(self) -> dict[str, str]:
        """Return the digests, or errors, of the program."""
        libraries = ENVIRONMENT / "lib"
        variables = {"LD_LIBRARY_PATH": str(libraries), "OCL_ICD_FILENAMES": str(libraries / "libintelocl.so")}
        done = subprocess.run(
            [ENVIRONMENT / "bin/python", "-c", PROGRAM],
            env={**os.environ, **variables, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, str] = json.loads(done.stdout)
        return told


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    """Return a copy of dpctl that nothing has changed."""
    return Overlay(tmp_path / "overlay")


def test_a_slimmed_library_computes_the_same(overlay: Overlay, tmp_path: Path) -> None:
    """SPIR-V stays for a device that compiles it, and the file keeps its bytes; what is not used may go as zeros."""
    whole = overlay.run()
    slimmed, without = tmp_path / "slimmed.so", tmp_path / "without.so"
    fatpack.slim(overlay.installed, slimmed, devices="pvc")
    overlay.put(slimmed)
    assert overlay.run() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.remove(overlay.installed, without, fatpack.Selector(kernel="complex"), allow_empty=True)
    overlay.put(without)
    told = overlay.run()
    assert told["real"] == whole["real"]
    assert "UR_RESULT_ERROR_INVALID_BINARY" in told["complex"]


def test_extracted_spirv_put_back_computes_the_same(overlay: Overlay, tmp_path: Path) -> None:
    """Images are taken out, the library is emptied of them, and the same bytes at the same places are the library."""
    whole = overlay.run()
    emptied = tmp_path / "emptied.so"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.remove(overlay.installed, emptied, fatpack.Selector(kernel="complex"), allow_empty=True)
    content = bytearray(emptied.read_bytes())
    with fatpack.open(overlay.installed) as file:
        images = file.images(fatpack.Selector(kernel="complex"))
        assert len(images) > 100
        for image in images:
            at = image.data.offset(0)
            content[at : at + len(image.data)] = image.data.tobytes()
    overlay.put(tmp_path / "emptied.so")
    assert overlay.run()["complex"] != whole["complex"]
    back = tmp_path / "back.so"
    back.write_bytes(content)
    assert back.read_bytes() == overlay.installed.read_bytes()
    overlay.put(back)
    assert overlay.run() == whole


def test_extracted_spirv_is_a_program(overlay: Overlay, tmp_path: Path) -> None:
    """OpenCL's compiler takes SPIR-V that was taken out, one of a hundred modules, with the kernels that we name."""
    with fatpack.open(overlay.installed) as file:
        modules = [image.data.tobytes() for image in file.images()[::100]]
    named = [[row.kernel for row in fatpack.rows(module, of="kernels") if row.kernel] for module in modules]
    for number, module in enumerate(modules):
        (tmp_path / f"{number}.spv").write_bytes(module)
    (tmp_path / "names.json").write_text(json.dumps(named))
    program = """
import json, sys, warnings
warnings.simplefilter("ignore")
import dpctl, dpctl.program
queue = dpctl.SyclQueue("opencl:cpu")
folder = sys.argv[1]
for number, names in enumerate(json.load(open(folder + "/names.json"))):
    made = dpctl.program.create_program_from_spirv(queue, open(f"{folder}/{number}.spv", "rb").read())
    assert names and all(made.has_sycl_kernel(name) for name in names), (number, names)
    assert not made.has_sycl_kernel("no_kernel_of_this_name")
print("compiled")
"""
    libraries = ENVIRONMENT / "lib"
    variables = {"LD_LIBRARY_PATH": str(libraries), "OCL_ICD_FILENAMES": str(libraries / "libintelocl.so")}
    command = [ENVIRONMENT / "bin/python", "-c", program, tmp_path]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300)
    assert done.stdout == "compiled\n", done.stderr
