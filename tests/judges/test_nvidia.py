"""NVIDIA's nvJitLink reads what fatpack writes and chooses as ``explain`` says; nvFatbin writes the same bytes.

nvJitLink chooses one entry of a fat binary for ``-arch``, without a driver. A GPU is what its name with ``a`` stands
for where there is one: sm_90a is compute capability 9.0, and -arch=sm_90 is code that later devices are to run too.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import random
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests import reference
from tests.effort import IS_FULL
from tests.judges.nvidia import CUBIN, OBJECT, PTX, Entry, JitLink, Linked, compile_entry, kernels_in, nvfatbin

import fatpack

pytestmark = pytest.mark.reference

#: Images of which the sets are made.
ARCHS = ("75", "80", "86", "89", "90", "90a", "100", "100a", "100f", "103", "110", "120")

#: Every architecture that nvJitLink takes as -arch.
EVERY = "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f".split()

#: Cubins that nvJitLink takes although no driver is known to: Orin's refuses those of other parts (error 209), and its
#: own run nowhere else; of 8.8 there is no report. The table of docs/testing.md has these rows.
TEGRA = {("sm_80", "87"), ("sm_80", "88"), ("sm_86", "87"), ("sm_86", "88"), ("sm_87", "88"), ("sm_87", "89")}
TEGRA.add(("sm_88", "89"))

#: Device → the option that stands for it.
DEVICES = {
    "sm_75": "sm_75",
    "sm_80": "sm_80",
    "sm_86": "sm_86",
    "sm_89": "sm_89",
    "sm_90": "sm_90a",
    "sm_100": "sm_100a",
    "sm_103": "sm_103a",
    "sm_110": "sm_110a",
    "sm_120": "sm_120a",
    "sm_121": "sm_121a",
}


@pytest.fixture(scope="module")
def nvjitlink() -> JitLink:
    """Return the loaded library."""
    return JitLink()


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    """Return an image for each architecture and form, by label."""
    folder = tmp_path_factory.mktemp("entries")
    made = [compile_entry(folder, form, arch) for form in ("cubin", "ptx") for arch in ARCHS]
    return {entry.label: entry for entry in made}


def pack(images: list[Entry], options: fatpack.FatbinOptions | None = None) -> bytes:
    """Return the fat binary that fatpack makes."""
    output = io.BytesIO()
    files = [fatpack.ImageFile(image.data, arch=image.label, name=f"image.{image.form}") for image in images]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.pack(files, output, format="fatbin", options=options)
    return output.getvalue()


def explained(data: bytes, devices: Iterable[str] = DEVICES) -> dict[str, tuple[list[str], list[str], bool]]:
    """Return for each device the image that ``explain`` says is taken, those that may be, and if that is certain."""
    found = {}
    for device in fatpack.explain(data, device=list(devices)).to_dict()["devices"]:
        (unit,) = device["units"]
        roles: dict[str, list[str]] = {"taken": [], "may": []}
        for image in unit["images"]:
            if image["role"]:
                roles[image["role"]].append(image["name"])
        found[device["device"]] = (roles["taken"], roles["may"], unit["is_certain"])
    return found


def test_the_choice_is_the_one_of_explain(nvjitlink: JitLink, entries: dict[str, Entry]) -> None:
    """Sets of one to four images: where ``explain`` is certain both take the same, else it names what is taken."""
    chosen = random.Random(20).sample
    open_questions = 0
    pairs = [list(pair) for pair in itertools.combinations(entries, 2)][:: 1 if IS_FULL else 8]
    sets = pairs + [chosen(list(entries), 1 + number % 4) for number in range(200 if IS_FULL else 12)]
    for labels in sets:
        data = pack([entries[label] for label in labels])
        for device, (taken, may, is_certain) in explained(data).items():
            linked = nvjitlink.link(data, f"-arch={DEVICES[device]}")
            told = kernels_in(linked)
            if is_certain:
                assert told == taken, (labels, device, linked.error)
            else:
                assert told and set(told) <= {*taken, *may}, (labels, device, linked.error)
                open_questions += told != taken
    assert open_questions


@pytest.mark.parametrize("form", ["cubin", "ptx"])
def test_every_arch_and_image(nvjitlink: JitLink, tmp_path: Path, form: str) -> None:
    """An image alone is taken for -arch where ``explain`` says that the device runs it: all differences are known."""
    differs = set()
    for arch in EVERY:
        entry = compile_entry(tmp_path, form, arch)
        data = pack([entry])
        told = explained(data, [f"sm_{each}" for each in EVERY if each.isdigit()])
        for option in EVERY:
            taken = kernels_in(nvjitlink.link(data, f"-arch=sm_{option}"))
            images, _, is_certain = told[f"sm_{option.rstrip('af')}"]
            assert taken in ([], [entry.label])
            if taken != images or not is_certain:
                differs.add((entry.label, option))
    # What only one device runs is not taken for code that others are to run too.
    common = {(label, option) for label, option in differs if label.endswith("a") and not option.endswith("a")}
    assert {(label.partition("_")[2][:-1], option.rstrip("f")) for label, option in common} == {
        (arch[:-1], arch[:-1]) for arch in EVERY if arch.endswith("a")
    }
    assert differs - common == (TEGRA if form == "cubin" else set())


def test_tegra_differs(nvjitlink: JitLink, entries: dict[str, Entry]) -> None:
    """nvJitLink takes a cubin for sm_86 on sm_87; Orin's driver does not (error 209), so ``explain`` stays in doubt."""
    data = pack([entries["sm_86"], entries["compute_80"]])
    assert kernels_in(nvjitlink.link(data, "-arch=sm_87")) == ["sm_86"]
    (device,) = fatpack.explain(data, device="sm_87").to_dict()["devices"]
    (unit,) = device["units"]
    assert (unit["outcome"], unit["is_certain"]) == ("compiles", False)


@pytest.mark.parametrize("producer", ["12.8", "13.0", "13.5"])
@pytest.mark.parametrize("mode", ["default", "speed", "balance", "size", "none"])
@pytest.mark.parametrize("compress_all", [False, True], ids=["texts", "all"])
def test_every_compression_is_read(
    nvjitlink: JitLink, entries: dict[str, Entry], producer: str, mode: str, *, compress_all: bool
) -> None:
    """The linked cubin is the same as that of the image alone."""
    options = fatpack.FatbinOptions(producer=producer, compress_mode=mode, compress_all=compress_all)  # type: ignore[arg-type]
    data = pack([entries[label] for label in ("sm_80", "sm_90", "compute_90", "sm_100f")], options)
    for arch, label in (("sm_86", "sm_80"), ("sm_90", "sm_90"), ("sm_103f", "sm_100f"), ("sm_120", "compute_90")):
        alone = nvjitlink.link(entries[label].data, f"-arch={arch}", kind=PTX if "compute" in label else CUBIN)
        assert without_names(nvjitlink.link(data, f"-arch={arch}")) == without_names(alone), (arch, label)


def without_names(linked: Linked) -> tuple[list[str], int]:
    """Return the kernels and the size of a linked cubin: names of inputs are in it as symbols."""
    assert linked.cubin, linked.error
    return kernels_in(linked), len(linked.cubin)


def test_groups_are_read(nvjitlink: JitLink, entries: dict[str, Entry]) -> None:
    """Entries that are compressed as one: each is chosen."""
    labels = ["sm_80", "sm_90", "sm_100", "sm_120", "compute_90"]
    data = pack([entries[label] for label in labels], fatpack.FatbinOptions(producer="13.5", concat=True))
    assert [kernels_in(nvjitlink.link(data, f"-arch={label}")) for label in labels[:4]] == [[n] for n in labels[:4]]


def test_what_edits_write_is_read(nvjitlink: JitLink, entries: dict[str, Entry], tmp_path: Path) -> None:
    """slim, convert and replace, of a container that pack made; what is gone is gone for NVIDIA's reader too."""
    whole = tmp_path / "whole.fatbin"
    whole.write_bytes(pack([entries[label] for label in ("sm_75", "sm_80", "sm_90", "compute_90")]))
    slimmed = tmp_path / "slim.fatbin"
    fatpack.slim(whole, slimmed, devices="sm_86", keep_ptx="none")
    assert kernels_in(nvjitlink.link(slimmed.read_bytes(), "-arch=sm_86")) == ["sm_80"]
    assert "3" in nvjitlink.link(slimmed.read_bytes(), "-arch=sm_90").error
    bundle, back = tmp_path / "whole.bundle", tmp_path / "back.fatbin"
    fatpack.convert(whole, bundle, format="offload-binary")
    fatpack.convert(bundle, back, format="fatbin")
    for arch, label in (("sm_75", "sm_75"), ("sm_89", "sm_80"), ("sm_90", "sm_90"), ("sm_120", "compute_90")):
        assert kernels_in(nvjitlink.link(back.read_bytes(), f"-arch={arch}")) == [label]


def test_a_device_link_takes_edited_objects(nvjitlink: JitLink, entries: dict[str, Entry], tmp_path: Path) -> None:
    """An object of nvcc -rdc=true with one cubin replaced, or removed, is an input of a device link."""
    source, host = tmp_path / "kernel.cu", tmp_path / "host.o"
    source.write_text('extern "C" __global__ void only_sm_1(int *p) { *p = 1; }\n')
    codes = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90")]
    reference.run("nvcc", "-rdc=true", *codes, "-c", source, "-o", host)
    assert kernels_in(nvjitlink.link(host.read_bytes(), "-arch=sm_90", kind=OBJECT)) == ["sm_1"]
    replaced, removed = tmp_path / "replaced.o", tmp_path / "removed.o"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.replace(host, entries["sm_90"].data, replaced, selector=fatpack.Selector(arch="sm_90"))
    assert kernels_in(nvjitlink.link(replaced.read_bytes(), "-arch=sm_90", kind=OBJECT)) == ["sm_90"]
    assert kernels_in(nvjitlink.link(replaced.read_bytes(), "-arch=sm_80", kind=OBJECT)) == ["sm_1"]
    fatpack.remove(replaced, removed, fatpack.Selector(arch="sm_90"))
    assert kernels_in(nvjitlink.link(removed.read_bytes(), "-arch=sm_80", kind=OBJECT)) == ["sm_1"]
    assert nvjitlink.link(removed.read_bytes(), "-arch=sm_90", kind=OBJECT).error


#: nvFatbin's option → ours. PTX is minified by nvFatbin, as by fatbinary.
WRITERS = {
    "": {},
    "-compress=false": {"compress_mode": "none"},
    "-compress-mode=none": {"compress_mode": "none"},
    "-compress-mode=default": {"compress_mode": "default"},
    "-compress-mode=size": {"compress_mode": "size"},
    "-compress-mode=speed": {"compress_mode": "speed"},
    "-compress-mode=balance": {"compress_mode": "balance"},
    "-compress-all": {"compress_all": True},
    "-concat": {"concat": True},
}


@pytest.mark.parametrize("option", WRITERS)
def test_nvfatbin_writes_the_same_bytes(entries: dict[str, Entry], option: str) -> None:
    """For random lists of images; in a group of those of which two go into one."""
    draw = random.Random(5)
    for number in range(40 if IS_FULL else 6):
        labels = draw.sample(list(entries), 1 + number % 5)
        if option == "-concat":
            labels = [*draw.sample(["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"], 2), "compute_80", "compute_90"]
        images = [entries[label] for label in labels]
        options = fatpack.FatbinOptions(producer="13.5", minify_ptx=True, **WRITERS[option])  # type: ignore[arg-type]
        theirs = nvfatbin(images, *filter(None, [option]))
        assert pack(images, options) == theirs, [image.label for image in images]


def test_small_groups_differ(entries: dict[str, Entry]) -> None:
    """An image that is alone in its kind: nvFatbin makes a group of it, fatbinary and fatpack do not."""
    images = [entries["sm_80"], entries["sm_90"], entries["compute_90"]]
    theirs = nvfatbin(images, "-concat")
    ours = pack(images, fatpack.FatbinOptions(producer="13.5", minify_ptx=True, concat=True))
    assert ours != theirs
    for data in (ours, theirs):
        found = {(row.form, row.arch): row.sha256 for row in fatpack.rows(data, digests=True) if row.form}
        assert sorted(found) == [("cubin", "sm_80"), ("cubin", "sm_90"), ("ptx", "sm_90")]
        for label in ("sm_80", "sm_90"):
            assert found["cubin", label] == hashlib.sha256(entries[label].data).hexdigest()
