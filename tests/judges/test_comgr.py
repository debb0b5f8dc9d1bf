"""AMD's comgr, the library by which HIP's runtime reads bundles, looks up entries as ``explain`` says.

Source of the interface: amd_comgr.h. Debian's comgr 5.2 answers one question a call and is of LLVM 15.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import random
import warnings
from pathlib import Path

import pytest
from tests import reference
from tests.effort import IS_FULL

import fatpack

pytestmark = pytest.mark.reference

#: ``AMD_COMGR_DATA_KIND_FATBIN``
_FATBIN = 0x10

#: processor → the features that it has
FEATURES = {"gfx906": ("sramecc", "xnack"), "gfx90a": ("sramecc", "xnack"), "gfx1030": (), "gfx1011": ("xnack",)}


class _Data(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64)]


class _CodeObject(ctypes.Structure):
    _fields_ = [("isa", ctypes.c_char_p), ("size", ctypes.c_size_t), ("offset", ctypes.c_uint64)]


class Comgr:
    """The library; looks an ID up in a bundle."""

    def __init__(self) -> None:
        path = Path("/usr/lib/x86_64-linux-gnu/libamd_comgr.so.2")
        if not path.exists():
            reference.missing("libamd_comgr.so.2")
        self._library = ctypes.CDLL(str(path))

    def lookup(self, bundle: bytes, target_id: str) -> tuple[int, int] | None:
        """Return offset and size of the entry for a device, None if there is none. ``target_id`` as gfx90a:xnack-."""
        data = _Data()
        assert self._library.amd_comgr_create_data(ctypes.c_int(_FATBIN), ctypes.byref(data)) == 0
        try:
            assert self._library.amd_comgr_set_data(data, ctypes.c_size_t(len(bundle)), bundle) == 0
            found = _CodeObject(f"amdgcn-amd-amdhsa--{target_id}".encode(), 0, 0)
            assert self._library.amd_comgr_lookup_code_object(data, ctypes.byref(found), ctypes.c_size_t(1)) == 0
            return (found.offset, found.size) if found.size else None
        finally:
            self._library.amd_comgr_release_data(data)


def states(processor: str, signs: str) -> list[str]:
    """Return target IDs: the processor with each feature in each state; an empty sign leaves the feature out."""
    return [
        processor
        + "".join(f":{name}{sign}" for name, sign in zip(FEATURES[processor], combination, strict=True) if sign)
        for combination in itertools.product(*([signs.split(",")] * len(FEATURES[processor])))
    ]


@pytest.fixture(scope="module")
def code_objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return a linked code object for each target ID, made by clang."""
    folder = tmp_path_factory.mktemp("code-objects")
    source = folder / "kernel.c"
    source.write_text("__attribute__((device)) int x;\n__attribute__((amdgpu_kernel)) void kernel(void) {}\n")
    found = {}
    for target_id in (name for processor in FEATURES for name in states(processor, ",+,-")):
        path = folder / "out.hsaco"
        reference.run(
            "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={target_id}", "-nogpulib", "-O1", source, "-o", path
        )
        found[target_id] = path.read_bytes()
    return found


def draw_ids(draw: random.Random, count: int) -> list[str]:
    """Return IDs of a bundle: those of a processor state the same features, else clang-offload-bundler refuses them."""
    allowed = []
    for processor, features in FEATURES.items():
        stated = [name for name in features if draw.random() < 0.5]
        allowed += [name for name in states(processor, ",+,-") if [part[:-1] for part in name.split(":")[1:]] == stated]
    return draw.sample(allowed, min(count, len(allowed)))


def test_every_lookup_is_that_of_explain(code_objects: dict[str, bytes]) -> None:
    """Bundles of one to six entries, asked for every state of every processor."""
    comgr, draw = Comgr(), random.Random(7)
    found = missing = 0
    for number in range(60 if IS_FULL else 12):
        ids = draw_ids(draw, 1 + number % 6)
        output = io.BytesIO()
        images = [
            fatpack.ImageFile(b"", name="host", id="host-x86_64-unknown-linux-gnu-"),
            *(fatpack.ImageFile(code_objects[name], name="x.o", id=f"hipv4-amdgcn-amd-amdhsa--{name}") for name in ids),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fatpack.pack(images, output, format="bundle", options=fatpack.BundleOptions(type="o", align=4096))
        bundle = output.getvalue()
        devices = [state for processor in FEATURES for state in states(processor, "+,-")]
        offsets = {f"{image.container}.{image.image}": image.offset for image in fatpack.rows(bundle) if image.form}
        for device in fatpack.explain(bundle, device=devices).to_dict()["devices"]:
            (unit,) = device["units"]
            ours = [offsets[image["position"]] for image in unit["images"] if image["role"] == "taken"]
            theirs = comgr.lookup(bundle, device["device"])
            assert ours == ([theirs[0]] if theirs else []), (ids, device["device"])
            found, missing = found + bool(theirs), missing + (theirs is None)
    assert found and missing
