"""Compare what fatpack finds in a file with the known numbers.

``expected`` of an artefact has sections of its own (``file_type``, ``sections``, ``offload_binary``, …). ``COMPARERS``
maps each to a function; **a new module adds its line there, and its format to** ``SECTION_FORMATS`` **if missing**.
Parts that no module answers yet are counted by name. Numbers are named by their path,
``offload_binary/entries_by/kind=1 image=1 nvptx64-nvidia-cuda sm_80``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tools.corpus.digest import payload_digest, payload_line
from tools.corpus.find import BUNDLE_PREFIX, Opened

import fatpack
from fatpack import binary, formats
from fatpack.binary.elf.file import ElfFile
from fatpack.formats.clang_bundle.layout import CompressedBundle
from fatpack.formats.cuda_fatbin.layout import CudaEntry
from fatpack.formats.offload_binary.layout import OffloadBinaryEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fatpack.model import Container


@dataclass(slots=True)
class Comparison:
    """The result for one file. ``varies`` are patterns of paths whose numbers depend on the build machine."""

    varies: Mapping[str, str] = field(default_factory=dict)
    #: number of compared numbers
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    #: differences that the catalogue allows
    varied: list[str] = field(default_factory=list)
    #: parts of the expectation that no module answers
    unanswered: Counter[str] = field(default_factory=Counter)

    def number(self, path: str, expected: object, found: object) -> None:
        """Compare one value."""
        self.compared += 1
        if expected == found:
            return
        if any(fnmatchcase(path, pattern) for pattern in self.varies):
            self.varied.append(path)
        else:
            self.differences.append(f"{path}: expected {expected}, found {found}")

    def table(self, path: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Compare the values of two tables, and of the tables in them; a name that only one has is a difference."""
        for name in sorted({*expected, *found}):
            here = f"{path}/{name}"
            one, other = expected.get(name, 0), found.get(name, 0)
            if isinstance(one, dict) or isinstance(other, dict):
                self.table(here, one or {}, other or {})
            else:
                self.number(here, one, other)


#: ``file_type`` of the catalogue → host, and the format of a file without a host. Bitcode is identified by its magic.
FILE_TYPES = {
    "ar": ("archive", None),
    "pe": ("pe", None),
    "coff": ("coff", None),
    "bundle": ("raw", "clang-offload-bundle"),
    "fatbin": ("raw", "cuda-fatbin"),
    "offload_binary": ("raw", "llvm-offload-binary"),
    "other:4243c0de35140000": ("bitcode", None),
}

#: start of a section's name → format of the containers in it
SECTION_FORMATS = {
    ".llvm.offloading": "llvm-offload-binary",
    ".hip_fat": "clang-offload-bundle",
    ".nv_fatb": "cuda-fatbin",
    "__nv_rel": "cuda-fatbin",
}

#: names truncated by linkers, which the counter did not search for
CUT_NAMES = {"__CLANG_", "OFFLOAD_"}

#: hosts that the counter did not search
NOT_COUNTED = {"bitcode"}

#: name in ``raw_magic`` → format. The counter counts magics in the whole file, fatpack counts containers.
RAW_MAGICS = {
    "offload_binary": "llvm-offload-binary",
    "bundle": "clang-offload-bundle",
    "ccob": "clang-offload-bundle",
    "fatbin": "cuda-fatbin",
}


def _file_type(opened: Opened, expected: str, outcome: Comparison) -> None:
    if expected.startswith("elf"):
        found = opened.host
        if found == "elf":
            header = ElfFile(opened.file.view).header
            found = f"elf{32 * header.ident[4]} type={header.type} mach={header.machine}"
        outcome.number("file_type", expected, found)
        return
    host, format = FILE_TYPES.get(expected, (expected, None))
    if host != "raw" and host not in binary.MODULES:
        outcome.unanswered[f"file_type ({host})"] += 1
        return
    outcome.number("file_type", host, opened.host)
    if format is not None:
        outcome.number("file_type/format", format, opened.bare_format())


def _archive_members(opened: Opened, expected: int, outcome: Comparison) -> None:
    outcome.number("archive_members", expected, len(opened.members))


def _sections(opened: Opened, expected: Sequence[Mapping[str, Any]], outcome: Comparison) -> None:
    if opened.host in NOT_COUNTED or (expected and opened.host == "raw"):
        outcome.unanswered[f"sections ({opened.host})"] += 1
        return
    names = dict.fromkeys(row["name"] for row in expected)
    located = Counter(str(site.section) for site in opened.sites)
    outcome.table("located", {}, {name: count for name, count in located.items() if name not in {*names, *CUT_NAMES}})
    for name in names:
        rows = [row for row in expected if row["name"] == name]
        found = sorted((s for s in opened.sections if s.name == name), key=lambda section: section.offset)
        path = f"sections/{name}"
        if opened.hosts_without_table and name not in located:
            outcome.unanswered[f"sections without device code ({', '.join(opened.hosts_without_table)})"] += 1
            continue
        if "count" in rows[0]:
            # An archive: the sections of that name of all members together.
            outcome.number(f"{path}/count", rows[0]["count"], len(found))
            outcome.number(f"{path}/bytes", rows[0]["bytes"], sum(section.size for section in found))
            continue
        outcome.number(f"{path}/count", len(rows), len(found))
        for row, section in zip(sorted(rows, key=lambda row: int(row["offset"])), found, strict=False):
            outcome.number(f"{path}/offset", row["offset"], section.offset)
            outcome.number(f"{path}/size", row["size"], section.size)
        if "containers" in rows[0]:
            outcome.number(f"{path}/located", len(rows), located[name])
            _section_containers(opened, name, sum(row["containers"] for row in rows), outcome)


def _section_containers(opened: Opened, name: str, expected: int, outcome: Comparison) -> None:
    if name.startswith(BUNDLE_PREFIX):
        # The sections of the bundler's objects are images themselves, and the counter takes each for a container.
        found = sum(known == name for known, _ in opened.bundle_sections())
        outcome.number(f"sections/{name}/containers", expected, found)
        return
    format = next((known for start, known in SECTION_FORMATS.items() if name.startswith(start)), "unknown format")
    if format not in formats.MODULES:
        outcome.unanswered[f"sections/containers ({format})"] += 1
        return
    found = sum(item.section == name for item in opened.containers(format))
    outcome.number(f"sections/{name}/containers", expected, found)


def _offload_binary(opened: Opened, expected: Mapping[str, Any], outcome: Comparison) -> None:
    containers = opened.containers("llvm-offload-binary")
    entries_by: Counter[str] = Counter()
    string_keys: Counter[str] = Counter()
    lines = []
    for found in containers:
        for image in found.container.images:
            entry, target = image.record, image.target
            assert isinstance(entry, OffloadBinaryEntry)
            offload, kind = int(entry.offload_kind), int(entry.image_kind)
            entries_by[f"kind={offload} image={kind} {target.triple} {target.arch}"] += 1
            string_keys[",".join(key.decode("utf-8", "backslashreplace") for key, _ in entry.strings)] += 1
            lines.append(payload_line(f"{offload} {kind} {target.triple} {target.arch}", image.data))
    found_numbers = {
        "binaries": len(containers),
        "by_version": dict(Counter(str(found.container.version) for found in containers)),
        "entries": len(lines),
        "entries_by": dict(entries_by),
        "string_keys": dict(string_keys),
        "payload_digest": payload_digest(lines),
    }
    _part("offload_binary", expected, found_numbers, outcome)


def _bundles(opened: Opened, expected: Mapping[str, Any], outcome: Comparison) -> None:
    found = [item.container for item in opened.containers("clang-offload-bundle")]
    containers = [container for container in found if container.attrs["flavour"] not in IN_SECTIONS]
    images = [image for container in containers for image in container.images]
    sizes: Counter[str] = Counter()
    for image in images:
        sizes[image.attrs["id"]] += image.size
    compressed = [container.record for container in containers if isinstance(container.record, CompressedBundle)]
    found_numbers: dict[str, Any] = {
        "bundles": len(containers),
        "by_format": dict(Counter(map(_bundle_format, containers))),
        "entries": len(images),
        "entries_by_id": dict(Counter(image.attrs["id"] for image in images)),
        "bytes_by_id": dict(sizes),
        "empty_entries": sum(not image.size for image in images),
        "payload_digest": payload_digest(payload_line(image.attrs["id"], image.data) for image in images),
        "ccob": {
            "n": len(compressed),
            "stored": sum(
                container.span.size for container in containers if isinstance(container.record, CompressedBundle)
            ),
            "raw": sum(record.inflated_size for record in compressed),
        },
    }
    _part("bundles", expected, found_numbers, outcome)


#: hosts of a bundle: their sections are counted separately
IN_SECTIONS = ("object", "linked")


def _clang_bundle_sections(opened: Opened, expected: Mapping[str, Any], outcome: Comparison) -> None:
    sections = opened.bundle_sections()
    sizes: Counter[str] = Counter()
    for name, data in sections:
        sizes[name] += len(data)
    found_numbers = {
        "sections": len(sections),
        "by_name": dict(Counter(name for name, _ in sections)),
        "bytes_by_name": dict(sizes),
        "payload_digest": payload_digest(payload_line(name, data) for name, data in sections),
    }
    _part("clang_bundle_sections", expected, found_numbers, outcome)


#: form → the counter's name for the bytes of a SYCL image
CONTENTS = {"spirv": "spirv", "archive": "ar"}


def _sycl_images(opened: Opened, expected: Mapping[str, Any], outcome: Comparison) -> None:
    containers = opened.containers("clang-offload-bundle")
    images = [image for item in containers if item.container.attrs["flavour"] == "linked" for image in item.images]
    contents = [CONTENTS.get(image.form, image.form) for image in images]
    stored = [
        f"{image.compression}:{name}" if image.compression else name
        for image, name in zip(images, contents, strict=True)
    ]
    found_numbers = {
        "images": len(images),
        "by_content": dict(Counter(stored)),
        "stored_bytes": sum(image.stored_size or 0 for image in images),
        "raw_bytes": sum(image.size for image in images),
        "payload_digest": payload_digest(
            payload_line(name, image.data) for image, name in zip(images, contents, strict=True)
        ),
    }
    _part("sycl_images", expected, found_numbers, outcome)


def _bundle_format(container: Container) -> str:
    """Return the counter's name of a bundle's form: ``plain``, ``ccob-v3-zstd``."""
    if container.attrs["flavour"] == "binary":
        return "plain"
    return f"ccob-v{container.version}-{container.attrs.get('compression', '')}"


#: form of an image, without that of relocatable PTX → the counter's name of its kind
CUDA_KINDS = {"cubin": "elf", "ptx": "ptx", "ltoir": "ltoir"}


def _cuda(opened: Opened, expected: Mapping[str, Any], outcome: Comparison) -> None:
    containers = opened.containers("cuda-fatbin")
    numbers: dict[str, Counter[str]] = {name: Counter() for name in _CUDA_COUNTS}
    lines = []
    for found in containers:
        numbers["fatbins_by_section"][found.section or "raw"] += 1
        for image in found.container.images:
            entry = image.record
            assert isinstance(entry, CudaEntry)
            kind = CUDA_KINDS.get(image.form, "other")
            label = f"{kind} {image.target.arch}"
            numbers["by_kind"][kind] += 1
            numbers["by_compression"][image.compression or "none"] += 1
            numbers["entries_by_kind_arch"][label] += 1
            numbers["stored_bytes_by_kind_arch"][label] += len(entry.stored)
            if "obfuscated" not in image.attrs:
                numbers["raw_bytes_by_kind"][kind] += image.size
                lines.append(payload_line(label, image.data))
    found_numbers: dict[str, Any] = {
        "fatbins": len(containers),
        "empty_fatbins": sum(not found.container.images for found in containers),
        "entries": sum(len(found.container.images) for found in containers),
        "payload_digest": payload_digest(lines),
        **{name: dict(counter) for name, counter in numbers.items()},
    }
    _part("cuda", expected, found_numbers, outcome)


#: kinds of facts about the fat binaries of a file that are counted by name
_CUDA_COUNTS = (
    "by_kind",
    "by_compression",
    "entries_by_kind_arch",
    "stored_bytes_by_kind_arch",
    "raw_bytes_by_kind",
    "fatbins_by_section",
)


def _part(name: str, expected: Mapping[str, Any], found: Mapping[str, Any], outcome: Comparison) -> None:
    """Compare the expected numbers of one part; parts that were not counted are unanswered."""
    outcome.unanswered.update(f"{name}/{key}" for key in expected if key not in found)
    known = [key for key in expected if key in found]
    outcome.table(name, {key: expected[key] for key in known}, {key: found[key] for key in known})


def _raw_magic(opened: Opened, expected: Mapping[str, int], outcome: Comparison) -> None:
    for format in dict.fromkeys(RAW_MAGICS.values()):
        count = sum(expected.get(name, 0) for name, known in RAW_MAGICS.items() if known == format)
        if format in formats.MODULES:
            found = opened.containers(format, nested=True)
            with_magic = [item for item in found if item.container.attrs.get("flavour") not in IN_SECTIONS]
            known = len(with_magic)
            outcome.number(f"raw_magic/{format}", count, known if known >= count else opened.anywhere(format))
        elif count:
            outcome.unanswered[f"raw_magic ({format})"] += 1
    outcome.unanswered.update(f"raw_magic/{name}" for name in expected if name not in RAW_MAGICS)


#: section of ``expected`` → its comparer
COMPARERS: Mapping[str, Callable[[Opened, Any, Comparison], None]] = {
    "file_type": _file_type,
    "archive_members": _archive_members,
    "sections": _sections,
    "offload_binary": _offload_binary,
    "bundles": _bundles,
    "cuda": _cuda,
    "clang_bundle_sections": _clang_bundle_sections,
    "sycl_images": _sycl_images,
    "raw_magic": _raw_magic,
}

#: sections of ``expected`` that are words for people
REMARKS = {"note"}


def compare(path: Path, expected: Mapping[str, Any], varies: Mapping[str, str] | None = None) -> Comparison:
    """Return the comparison of one file; damage that fatpack reports in a real file is a difference as well."""
    outcome = Comparison(varies or {})
    try:
        with fatpack.open(path) as file:
            opened = Opened(file)
            for name, value in expected.items():
                if name in COMPARERS:
                    COMPARERS[name](opened, value, outcome)
                elif name not in REMARKS:
                    outcome.unanswered[name] += 1
            for finding in file.findings:
                if finding.severity == "error":
                    outcome.differences.append(f"finding {finding.code} at {finding.span.start:#x}: {finding.message}")
    except (fatpack.FatpackError, OSError) as error:
        outcome.differences.append(f"{type(error).__name__}: {error}")
    return outcome
