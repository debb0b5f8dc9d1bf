"""The columns of rows: two records define their types, the table ``MEANING`` describes them.

The page ``docs/rows.md``, the JSON schema and the Arrow schema are generated from this module. Columns may be added
within a version, never renamed or removed.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.tabular import SCHEMA, SUBJECTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeAlias

    from fatpack.images.kernel import KernelNeeds
    from fatpack.io.source import Source, View
    from fatpack.model import Image
    from fatpack.scanner import FoundImage

    AnyRow: TypeAlias = "ImageRow | KernelRow"


class Row(Record):
    """The columns that all rows have; :data:`MEANING` describes them. None means that there is no value."""

    row: str
    path: str
    file_size: int | None = None
    host: str | None = None
    chain: tuple[str, ...] = ()
    position: str | None = None
    container: int | None = None
    image: int | None = None
    container_format: str | None = None
    container_version: int | None = None
    section: str | None = None
    section_index: int | None = None
    member: str | None = None
    offset: int | None = None
    offload: str | None = None
    triple: str | None = None
    arch: str | None = None
    label: str | None = None
    processor: str | None = None
    features: tuple[str, ...] = ()
    form: str | None = None
    findings: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int | None = None
    count: int | None = None
    searched: str | None = None
    not_searched: int | None = None
    messages: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data: column → text, number, boolean, list of texts, or None."""
        values = zip(type(self)._fields, self._values(), strict=True)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    def values(self) -> tuple[Any, ...]:
        """Return the values of the columns, in their order."""
        return self._values()


class ImageRow(Row):
    """The row of an image, or of a file (``row`` is ``file``) that ends the rows of its images."""

    stored_form: str | None = None
    stored_size: int | None = None
    size: int | None = None
    compression: str | None = None
    containers: int | None = None
    sha256: str | None = None
    kernel_count: int | None = None
    registers_max: int | None = None
    data_sha256: str | None = None
    stored_kind: str | None = None
    ptx_version: str | None = None
    binary: str | None = None
    has_kernel: bool | None = None
    container_size: int | None = None
    claimed: str | None = None
    code_object: int | None = None
    cuda_runtime: int | None = None
    module: str | None = None
    dead: str | None = None
    unread_kind: str | None = None
    system: str | None = None
    function: str | None = None
    digest: str | None = None
    build: tuple[str, ...] = ()


class KernelRow(Row):
    """The row of a kernel, or of a file (``row`` is ``file``) that ends the rows of its kernels."""

    kernel: str | None = None
    kernel_index: int | None = None
    registers: int | None = None
    sgprs: int | None = None
    agprs: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    shared: int | None = None
    local: int | None = None
    has_dynamic_stack: bool | None = None
    params: int | None = None
    constants: str | None = None
    max_threads: int | None = None
    required_threads: str | None = None
    min_blocks: int | None = None
    cluster: str | None = None
    wavefront: int | None = None
    barriers: int | None = None
    code_size: int | None = None
    body: str | None = None
    code_sha256: str | None = None


#: kind of rows → their record, and the value of the column ``row``
TABLES: Mapping[str, tuple[type[ImageRow] | type[KernelRow], str]] = dict(
    zip(SUBJECTS, ((ImageRow, "image"), (KernelRow, "kernel")), strict=True)
)

#: column → what it means
MEANING = {
    "row": "`image`, `kernel` or `file`. Each file ends with one row `file`, also if nothing is in it",
    "path": "the file, as it was named; in a survey its absolute path",
    "file_size": "bytes of the file",
    "host": "what kind of file it is to fatpack: `elf`, `archive`, …; `raw`: a container itself, or nothing known",
    "chain": "the names inside the file that lead to the image, outermost first: members, sections, containers",
    "position": "where `inspect` lists the image: `2.0` is image 0 of container 2, `2.0/0.1` lies inside that image",
    "container": "the number of the container, from 0, in the file or in the image around it",
    "image": "the number of the image in its container, from 0",
    "container_format": "`llvm-offload-binary`, `clang-offload-bundle`, `cuda-fatbin`, `cir-offload-container`, "
    "`rocm-kpack`, `aotriton-aks2`, `rocm-kernel-cache`, `syclbin`; nothing for an image in no container",
    "container_version": "the format's version, as its producer numbers it",
    "section": "the section of the host that holds the container",
    "section_index": "its number in the host",
    "member": "the member of an archive that holds it",
    "offset": "where the stored bytes start in the file; nothing for what lies inside something compressed",
    "offload": "the programming model: `cuda`, `hip`, `openmp`, `sycl`, `host`, `none`",
    "triple": "the target triple as stored",
    "arch": "the architecture as stored, with features: `sm_90a`, `gfx90a:xnack+`",
    "label": "the architecture as patterns name it: as `arch`, and `compute_90` for PTX, so that grouping by it keeps "
    "PTX and machine code apart",
    "processor": "the architecture without features",
    "features": "the features, each with its sign: `xnack+`",
    "form": "what the bytes are: `cubin`, `ptx`, `code-object`, `bitcode`, …; as stored where they were not read",
    "findings": "codes of findings ([findings.md](findings.md)), each once: of the image; on a row `file`, those that "
    "no other row has",
    "messages": "what these findings say, with offset and place: `FP1401 at 0x18: entry[0].padded_size: …`; of many "
    "with one code the first three, and how many more there are",
    "error": "of a file: why it could not be read, or not to its end",
    "exit_code": "of a file: what `fatpack inspect` exits with for what was read of it",
    "count": "of a file: how many rows of images (or kernels) come before this one",
    "searched": "of a file: `everything`, or `places`: only where device code is kept",
    "not_searched": "of a file: bytes in which no container was looked for",
    "stored_form": "what the container says the bytes are",
    "stored_size": "bytes of the file that the image takes; nothing where a whole container is compressed",
    "size": "bytes after decompression, as stated by the container where they were not read",
    "compression": "`zlib`, `zstd`, `lz4`, or nothing",
    "containers": "how many containers lie inside the image; their images have rows of their own",
    "sha256": "SHA-256 of the bytes after decompression, in hexadecimal; with digests alone",
    "kernel_count": "how many kernels the image has; with kernels alone, and only for forms that show them",
    "registers_max": "the most registers of a thread that one of them takes; with kernels alone",
    "stored_kind": "what a CUDA fat binary calls the entry where its form does not say it: `relocatable-ptx`, …",
    "ptx_version": "of PTX in a CUDA fat binary: its version as the entry states it, `8.7`",
    "binary": "of an image in a kpack archive: the program or library that asks for it, and its number",
    "data_sha256": "SHA-256 of the variables that its functions share, with their initial values; with digests where "
    "rows of kernels follow",
    "has_kernel": "whether one of its kernels is meant by the pattern that was asked for (`fatpack explain --kernel`); "
    "nothing without one, and for forms that show no kernels",
    "container_size": "bytes of the file that its container takes; nothing where that lies inside something compressed",
    "claimed": "the architecture that the bytes name themselves where that is not the stored one (FP1102)",
    "code_object": "of a code object that was recognised: its version",
    "cuda_runtime": "of an ELF file with CUDA fat binaries: the major version of the CUDA runtime library it loads, "
    "13 of `libcudart.so.13`",
    "module": "of an image in a SYCLBIN file: the number of its abstract module",
    "dead": "why it can never run: `beaten` (each device takes another image of its container), `covered` (PTX that no "
    "driver compiles), `no-device`, `linker` (for linkers, in a linked file); nothing for all others "
    "([dead code](dead-code.md))",
    "unread_kind": "of a file in a format that is known and not read: its kind, a name of `check --allow-unread`",
    "system": "of a function of a Metal library: the system and the version that it needs, `macOS 14.0`",
    "function": "of a function of a Metal library: its name in the list",
    "digest": "the canonical digest of its code, `fp1:sha256:…`: builds of one source at other times and places have "
    "the same ([digest.md](design/digest.md)); with digests alone",
    "build": "what its build left in it beside the code, each as `what: value`: `tool`, `options`, `temporary name`, "
    "`source`, `time of a source`, `unit name`, `debug information`; with digests alone",
    "kernel": "the kernel's name as stored (mangled)",
    "kernel_index": "its number in the image, from 0",
    "registers": "registers of a thread; of AMD's processors, vector registers",
    "sgprs": "scalar registers (AMD)",
    "agprs": "accumulation registers (AMD)",
    "vgpr_spills": "vector registers spilled (AMD)",
    "sgpr_spills": "scalar registers spilled (AMD)",
    "shared": "bytes of static shared memory (LDS) of a block",
    "local": "bytes of local memory (scratch) of a thread",
    "has_dynamic_stack": "whether `local` is not all that a thread may take",
    "params": "bytes of parameters",
    "constants": "bytes of constant banks: `0:352,3:16`",
    "max_threads": "the most threads of a block",
    "required_threads": "the threads of a block that it must have: `32x4x1`",
    "min_blocks": "the fewest blocks of a multiprocessor (PTX)",
    "cluster": "the blocks of a cluster that it must have: `2x1x1`",
    "wavefront": "threads of a wavefront (AMD)",
    "barriers": "barriers of a block",
    "code_size": "bytes of its machine code",
    "body": "`returns`, `traps`, `loops` or (SPIR-V) `unreachable` where its code certainly does nothing else; nothing "
    "for all other kernels",
    "code_sha256": "SHA-256 of what it does: its code, what it calls and what it needs, without lines and times, so "
    "that the same code has it in any build; with digests alone, for cubins, PTX and code objects",
}

#: annotation → the type of the column in words, and in JSON's schema language
_TYPES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "str": ("text", {"type": "string"}),
    "int": ("integer", {"type": "integer"}),
    "bool": ("boolean", {"type": "boolean"}),
    "tuple[str, ...]": ("list of texts", {"type": "array", "items": {"type": "string"}}),
}


def list_columns(kind: type[Row]) -> list[tuple[str, str, bool]]:
    """Return (column, annotation without None, whether it may be None) of a kind of rows, in order."""
    annotations = {name: text for base in reversed(kind.__mro__) for name, text in _annotations(base).items()}
    return [
        (name, annotations[name].removesuffix(" | None"), annotations[name].endswith(" | None"))
        for name in kind._fields
    ]


def _annotations(kind: type) -> dict[str, str]:
    found: dict[str, str] = vars(kind).get("__annotations__", {})
    return found


def describe_columns(kind: type[Row]) -> list[list[str]]:
    """Return the columns of a kind of rows as a table for people: name, type, meaning."""
    return [[f"`{name}`", _TYPES[annotation][0], MEANING[name]] for name, annotation, _ in list_columns(kind)]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of one line of ``--rows jsonl``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "description": "One line of `fatpack inspect --rows jsonl`, or of `fatpack survey --format jsonl`.",
        "oneOf": [_object_schema(kind, word) for kind, word in TABLES.values()],
    }


def _object_schema(kind: type[Row], word: str) -> dict[str, Any]:
    properties = {}
    for name, annotation, may_be_none in list_columns(kind):
        schema = dict(_TYPES[annotation][1])
        if may_be_none:
            schema["type"] = [schema["type"], "null"]
        properties[name] = {**schema, "description": MEANING[name]}
    properties["row"] = {"enum": [word, "file"], "description": MEANING["row"]}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


#: LIMIT: messages of findings with one code in a row: one wrong number can cause a million findings
_SHOWN = 3


class FindingSummary:
    """Findings by code: the messages of the first ones of each code, and the number of the others."""

    __slots__ = ("_by_code", "_path")

    def __init__(self, path: str, findings: Iterable[Finding] = ()) -> None:
        self._path = path
        self._by_code: dict[str, tuple[dict[str, None], int]] = {}
        for item in findings:
            self.add(item)

    def add(self, item: Finding) -> None:
        """Add a finding."""
        from fatpack.findings import format_finding

        texts, count = self._by_code.setdefault(item.code, ({}, 0))
        if len(texts) < _SHOWN:
            texts[format_finding(item, self._path)] = None
        self._by_code[item.code] = texts, count + item.count

    def update(self, other: FindingSummary) -> None:
        """Add the findings of another row."""
        for code, (texts, count) in other._by_code.items():
            own, before = self._by_code.setdefault(code, ({}, 0))
            own.update(dict.fromkeys([*texts][: _SHOWN - len(own)]))
            self._by_code[code] = own, before + count

    @property
    def codes(self) -> tuple[str, ...]:
        """Each code once."""
        return tuple(self._by_code)

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages with offset and section; of many with one code the first ones, and the number of the others."""
        return tuple(text for code in self._by_code for text in self._words(code))

    def _words(self, code: str) -> Iterable[str]:
        texts, count = self._by_code[code]
        yield from texts
        if count > len(texts) and len(texts) == _SHOWN:
            yield f"{code}: {count - len(texts)} more"


def read_image_kernels(view: View, form: str, record: object) -> tuple[tuple[KernelNeeds, ...], tuple[str, ...]]:
    """Return the kernels of an image, and messages about contradictions in it."""
    from fatpack import images
    from fatpack.scanner.results import NAMED_BY_CONTAINERS, kernel_names

    if form in NAMED_BY_CONTAINERS:
        from fatpack.images.kernel import KernelNeeds

        return tuple(map(KernelNeeds, kernel_names(view, form, record))), ()
    facts = images.facts(view, form)
    return facts.kernels, facts.contradictions


#: fields of kernels that are columns of the same name and value
_SAME = tuple(
    "registers sgprs agprs vgpr_spills sgpr_spills shared local has_dynamic_stack params max_threads min_blocks "
    "wavefront barriers body".split()
)


#: columns that only rows of kernels have, after those of all rows
KERNEL_COLUMNS = KernelRow._fields[len(Row._fields) :]


def kernel_columns(kernel: KernelNeeds) -> dict[str, Any]:
    """Return the columns of a kernel."""
    columns = {name: getattr(kernel, name) for name in _SAME}
    for name in ("required_threads", "cluster"):
        sizes = getattr(kernel, name)
        columns[name] = "x".join(map(str, sizes)) if sizes else None
    if kernel.constants is not None:
        columns["constants"] = ",".join(f"{bank}:{size}" for bank, size in kernel.constants)
    return {**columns, "kernel": kernel.name, "code_size": kernel.size}


def has_kernel(kernels: Iterable[KernelNeeds], form: str, pattern: str) -> bool | None:
    """Return whether the name of a kernel matches a pattern; None for forms without a table of kernels."""
    from re import search

    from fatpack import images

    if not kernels and form not in images.WITH_KERNELS:
        return None
    return any(search(pattern, kernel.name) for kernel in kernels)


class RowOptions(Record):
    """The kind of rows (``of``: ``images`` or ``kernels``), and how much is read for them.

    ``digests``: fill ``sha256`` of images and ``code_sha256`` of kernels. Reads every image completely.
    ``kernels``: fill ``kernel_count`` and ``registers_max``. Reads every image completely, as rows of kernels do.
    ``each_kernel``: the row of an image is followed by the rows of its kernels, which ``count`` does not count.
    ``inflate``: decompress images to identify them.
    ``compares_heads``: check the first bytes of each image against its container's metadata. Decompresses containers
    that are compressed as a whole.
    ``deep``: search everything. ``thorough``: search all of a file in which nothing was found.
    ``positions``: the positions of the images that get rows, None for all; "" means images outside containers.
    ``kernel``: a regular expression; ``has_kernel`` is true for images with a kernel of a matching name.
    ``digest_sizes``: the sizes of the images that get ``sha256``, None for all.
    ``dead``: fill ``dead``, which reads nothing.
    ``identity``: fill ``digest`` and ``build`` of images. Reads every image completely, and its kernels.
    """

    of: str = "images"
    digests: bool = False
    kernels: bool = False
    inflate: bool = False
    deep: bool = False
    thorough: bool = False
    each_kernel: bool = False
    positions: frozenset[str] | None = None
    kernel: str = ""
    compares_heads: bool = False
    digest_sizes: frozenset[int] | None = None
    dead: bool = False
    identity: bool = False

    @property
    def reads_kernels(self) -> bool:
        """True if the kernels of images are read."""
        return self.kernels or self.each_kernel or bool(self.kernel) or self.of == "kernels"

    @property
    def reads_images(self) -> bool:
        """True if images are read, not only their containers' metadata."""
        return self.inflate or self.reads_content

    @property
    def reads_content(self) -> bool:
        """True if the bytes of identified images are read."""
        return self.digests or self.identity or self.reads_kernels


#: Forms of entries in CUDA fat binaries whose headers have no further columns.
_PLAIN = ("cubin", "ltoir", "tileir")


def container_columns(image: Image, container_format: str) -> dict[str, Any]:
    """Return the columns with metadata of the container about an image, except its target and sizes.

    Most images of a library have none; then attributes that are computed on access are not accessed.
    """
    if container_format == "cuda-fatbin" and image.form in _PLAIN:
        return {}
    if container_format == "metal-library":
        from fatpack.formats.metallib.reader import needed_system

        return {"system": needed_system(image) or None, "function": image.attrs["name"]}
    return {
        "stored_kind": image.attrs.get("kind"),
        "ptx_version": _ptx_version(image),
        "binary": image.attrs.get("binary"),
        "module": image.attrs.get("am_index") if container_format == "syclbin" else None,
    }


def _ptx_version(image: Image) -> str | None:
    """Return the version of PTX in the header of its entry in a fat binary; None for other images."""
    head = getattr(image.record, "head", None) if image.form == "ptx" else None
    return None if head is None else f"{head.code_major}.{head.code_minor}"


def image_columns(found: FoundImage, holder: Source) -> dict[str, Any]:
    """Return the columns from the image itself, except those of its container; ``holder`` is the container's source."""
    from fatpack.images import NOT_INFLATED

    recognised = found.info
    if recognised.form == "code-object":
        version = recognised.detail.rpartition("code object v")[2].partition(",")[0]
        columns: dict[str, Any] = {"code_object": int(version) if version.isdigit() else None}
    else:
        columns = {}
    if any(item.code == "FP1102" for item in found.findings):
        if recognised is NOT_INFLATED:  # only its first bytes were compared
            from fatpack.images import peek

            recognised = peek.identify_by_head(found.as_stored, holder)
        columns["claimed"] = recognised.arch or None
    return columns


def cuda_runtime(view: View) -> int | None:
    """Return the major version of the CUDA runtime library that an ELF file loads; None if none, or damaged."""
    from fatpack.binary.elf.file import ElfFile
    from fatpack.binary.elf.segments import needed_libraries

    try:
        names = needed_libraries(ElfFile(view, sections=False))
    except FormatError:  # the scan has the finding
        return None
    for name in names:
        library, _, version = name.partition(".so.")
        major = version.partition(".")[0]
        if library == "libcudart" and major.isascii() and major.isdigit() and len(major) < 4:
            return int(major)
    return None
