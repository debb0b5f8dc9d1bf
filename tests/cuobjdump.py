"""The output of cuobjdump for a file, and the files that it extracts, to compare with fatpack."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests import reference

import fatpack
from fatpack import images
from fatpack.io.source import BytesSource
from fatpack.model import Image

#: sections in the order in which cuobjdump reads them, with ``-all``
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")

_CODES = {"cubin": "elf", "ptx": "ptx", "ltoir": "nvvm", "tileir": "tile ir", "": "index"}
_OPTIONS = {"ptx": "ptxasOptions", "ltoir": "nvvmOptions", "tileir": "tileIROptions"}

#: form → what ``-lelf`` and ``-lptx`` call it, and the extension of its files
_LISTED = {"cubin": "ELF", "ptx": "PTX"}


def device_images(path: Path) -> list[Image]:
    """Return the images of all fat binaries of a file, in cuobjdump's order, with their bytes."""
    with fatpack.open(path) as file:
        assert [item for item in file.findings if item.severity != "note"] == []
        found = [item for item in file.containers if item.container.format == "cuda-fatbin"]
        # Every member of an archive is read on its own.
        members = list(dict.fromkeys(item.member for item in found))
        order = {name: number for number, name in enumerate(_SECTIONS)}
        found.sort(key=lambda item: (members.index(item.member), order.get(item.section or "", 0)))
        return [
            image if image.attrs.get("obfuscated") else image.replace(data=BytesSource(image.data.tobytes()).view())
            for item in found
            for image in item.container.images
        ]


def dumped(path: Path) -> list[dict[str, str]]:
    """Return what cuobjdump says of every image, as a table with its heading as ``code``."""
    rows: list[dict[str, str]] = []
    text = reference.run("cuobjdump", "-all", path).stdout.decode("utf-8", "surrogateescape")
    for line in text.replace("\n\t", "\n").splitlines():  # members of a group are indented
        if line.startswith("Fatbin "):
            rows.append({"code": line.removeprefix("Fatbin ").removesuffix(" code:")})
        elif " = " in line:
            key, _, value = line.partition(" = ")
            rows[-1][key] = value
        elif line in ("compressed", "has debug info"):
            rows[-1][line] = "yes"
    # QUIRK(cuobjdump 13): empty options are shown, unless the entry was written by CUDA 11.
    kept = [{key: value for key, value in row.items() if value or "Options" not in key} for row in rows]
    return [row for row in kept if row["code"] != "concatenated entry"]


def facts(item: Image) -> dict[str, str]:
    """Return what cuobjdump should say of an image."""
    relocatable = "relocatable " if item.attrs.get("kind") == "relocatable-ptx" else ""
    row = {"code": relocatable + _CODES[item.form], "arch": item.target.arch}
    row["host"] = item.attrs.get("host", "linux")
    row["compile_size"] = "64bit" if item.target.triple.startswith("nvptx64") else "32bit"
    row |= {"compressed": "yes"} if item.compression and item.stored_size is not None else {}
    row |= {"has debug info": "yes"} if "debug" in item.attrs else {}
    row |= {"identifier": item.attrs["identifier"]} if "identifier" in item.attrs else {}
    row |= {_OPTIONS[item.form]: item.attrs["options"]} if "options" in item.attrs else {}
    return row


def files(stem: str, found: Sequence[Image]) -> list[tuple[str, bytes]]:
    """Return the name that cuobjdump gives to every cubin and PTX of a file, in order, and its bytes.

    ``a`` of a cubin is what the cubin says, and ``f`` is never named; of PTX it is what the entry says.
    """
    counts = Counter[str]()
    rows = []
    for item in found:
        if item.form not in _LISTED:
            continue
        counts[item.form] += 1
        own = images.identify_image(item.data).arch.removesuffix("f")  # type: ignore[arg-type]
        arch = own if item.form == "cubin" else item.target.arch
        words = (re.sub(r"\.[^.]*$", "", word.rpartition("/")[2]) for word in item.attrs.get("identifier", "").split())
        name = "-".join(filter(None, words)) if "identifier" in item.attrs else f"{stem}.{counts[item.form]}"
        rows.append((f"{name}.{arch}.{item.form}", item.data.tobytes()))
    return rows


def check_resources(path: Path, found: Sequence[Image]) -> int:
    """Check that what the kernels of a file's linked cubins need is what ``-res-usage`` says; return their number."""
    text = reference.run("cuobjdump", "-all", "-res-usage", path).stdout.decode()
    blocks = text.split("Fatbin elf code:\n")[1:]
    count = 0
    for block, item in zip(blocks, (item for item in found if item.form == "cubin"), strict=True):
        usage = {
            name: {key: int(number) for key, number in re.findall(r"(\S+):(\d+)", row)}
            for name, row in re.findall(r" Function (\S+):\n +(.*)", block)
        }
        for kernel in images.kernel_facts(item.data, "cubin"):  # type: ignore[arg-type]
            want = usage[kernel.name]
            numbers = (want["REG"], want["SHARED"], want["STACK"] + want["LOCAL"], {0: want["CONSTANT[0]"]})
            assert (kernel.registers, kernel.shared, kernel.local, dict(kernel.constants or ())) == numbers, kernel.name
            count += 1
    return count


def check(path: Path, folder: Path) -> list[Image]:
    """Check that cuobjdump says the same of every entry, lists it under its name, and extracts the same bytes.

    ``folder`` is for what it extracts. Returns the images.
    """
    found = device_images(path)
    rows = [{key: row[key] for key in row if key != "code version"} for row in dumped(path)]
    assert rows == [facts(item) for item in found]
    expected = files(path.name.rpartition(".")[0], found)
    listing = reference.run("cuobjdump", "-all", "-lelf", "-lptx", path).stdout.decode("utf-8", "surrogateescape")
    listed = re.findall(r"^(ELF|PTX) file +(\d+): (.*)$", listing, re.MULTILINE)
    assert [name for _, _, name in listed] == [name for name, _ in expected]
    for kind in _LISTED.values():
        assert [int(number) for word, number, _ in listed if word == kind] == [
            number for number, _ in enumerate((word for word, _, _ in listed if word == kind), 1)
        ]
    folder.mkdir(parents=True)
    for option, extension in (("-xelf", ".cubin"), ("-xptx", ".ptx")):
        if any(name.endswith(extension) for name, _ in expected):
            reference.run("cuobjdump", "-all", option, "all", path, cwd=folder)
    # Of entries with one identifier and architecture the last one stays.
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == dict(expected)
    return found
