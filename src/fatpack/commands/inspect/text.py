"""The text of ``inspect``: a tree of hosts, containers, images and kernels, made from the record that JSON shows too.

::

    host.o: ELF, 20.9 kB
      .llvm.offloading at 0x1d0: 3 × llvm-offload-binary v1, 3 images, 18.1 kB
        0.0  openmp  amdgcn-amd-amdhsa    gfx90a  bitcode  at 0x258   5.68 kB
        2.0  openmp  nvptx64-nvidia-cuda  sm_80   cubin    at 0x3300   5.7 kB  2 kernels: saxpy, dot
      warning FP1102 at 0x3300: …
"""

from __future__ import annotations

from itertools import islice

from fatpack.errors import pluralize
from fatpack.model import arch_name
from fatpack.printable import format_size, printable
from fatpack.record import Record
from fatpack.text.style import align_columns, column_lines, is_fat_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.inspect.listing import (
        AnyFile,
        AnyImage,
        ContainerRecord,
        ImageRecord,
        KernelFacts,
        MemberImageRecord,
        MemberNumbers,
        RegistrationCountsRecord,
        StandaloneImageRecord,
    )
    from fatpack.formats.described import EntryFacts, PlainPropertySets, StoredFacts
    from fatpack.registration.analysis.counts import RegistrationCounts
    from fatpack.text.findings import FindingRecord, UnlistedRecord


# The resources of kernels as a table: one line per kernel, and only the columns that have values.
#
# ::
#
#     registers  shared  local  params  constant  threads  barriers  code  kernel
#            12     512      0      20       372       64         1   640  _Z5scaleIdEvPT_S0_i
#             8       0      0      12       364        -         0   256  add_one
#
# Names come last, so that the numbers stay aligned however long a mangled name is. Sizes are exact, in bytes.

#: field → heading; for code objects the words of their own tools
_HEADINGS = {
    "registers": ("registers", "VGPRs"),
    "sgprs": ("SGPRs", "SGPRs"),
    "agprs": ("AGPRs", "AGPRs"),
    "vgpr_spills": ("VGPR spills", "VGPR spills"),
    "sgpr_spills": ("SGPR spills", "SGPR spills"),
    "shared": ("shared", "LDS"),
    "local": ("local", "scratch"),
    "params": ("params", "kernarg"),
    "constants": ("constant", "constant"),
    "max_threads": ("threads", "work-group"),
    "min_blocks": ("min. blocks", "min. blocks"),
    "cluster": ("cluster", "cluster"),
    "wavefront": ("wave", "wave"),
    "barriers": ("barriers", "barriers"),
    "size": ("code", "code"),
    "body": ("only", "only"),
}


#: fields whose cells are made of more than one number
_OF_SEVERAL = ("local", "constants", "max_threads", "cluster")


class KernelTable(Record):
    """The table for the kernels of an image, made before: it takes a fifth of the memory of what it shows."""

    text: str


def with_kernel_tables(container: ContainerRecord) -> ContainerRecord:
    """Return the record of a container for the text: tables replace the kernels' resources and names."""
    for image in container["images"]:
        if image.get("kernel_facts"):
            lines = kernel_table(image["kernel_facts"], image["form"], "")
            image |= {"kernels": [], "kernel_facts": KernelTable("\n".join(lines))}
        for inner in image["containers"]:
            with_kernel_tables(inner)
    return container


def kernel_table(kernels: KernelFacts, form: str, indent: str) -> Iterator[str]:
    """Yield the table for the kernels of one image, as its record holds them; nothing for no kernels."""
    if isinstance(kernels, KernelTable):
        yield from (indent + line for line in kernels.text.split("\n"))
        return
    if isinstance(kernels, dict):  # sizes of code by name, which only sums use
        return
    cells = {field: _column(kernels, field) for field in _HEADINGS}
    known = [field for field, column in cells.items() if column]
    names = [printable(kernel["name"]) for kernel in kernels]
    if not known:
        yield from (f"{indent}kernel {name}" for name in names)
        return
    heading = [_HEADINGS[field][form == "code-object"] for field in known]
    rows = [[*heading, "kernel"], *zip(*(cells[field] for field in known), names, strict=True)]
    yield from align_columns(rows, right=range(len(known)), indent=indent)


def _column(kernels: Sequence[Mapping[str, object]], field: str) -> list[str]:
    """Return the cells of a field, none if nothing is known of it: a library has a hundred thousand kernels."""
    if field in _OF_SEVERAL:
        column = [_cell(kernel, field) for kernel in kernels]
        return column if column.count("-") < len(column) else []
    values = [kernel[field] for kernel in kernels]
    if values.count(None) == len(values):
        return []
    return ["-" if value is None else str(value) for value in values]


def _cell(kernel: Mapping[str, object], field: str) -> str:
    value = kernel[field]
    if field == "local" and kernel["has_dynamic_stack"]:
        return "dynamic" if value is None else f"{value}+"
    if field == "max_threads" and kernel["required_threads"]:
        value = kernel["required_threads"]
    if value is None or value == {}:
        return "-"
    if isinstance(value, list):
        return "x".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(str(size) if bank == "0" else f"[{bank}] {size}" for bank, size in value.items())
    return str(value)


# The kernels that the host of a CIR container launches, and the device modules that have them, as a table of stubs.
#
# ::
#
#     launched              sm_80  sm_90
#     _Z5scalePff           yes    missing


def launch_table(container: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the table of stubs and device modules; nothing if the host launches nothing."""
    from fatpack.tabular.cir_launches import cir_launches

    wanted, devices = cir_launches(container)
    if not wanted or not devices:
        return
    rows: list[Sequence[str]] = [["launched", *map(printable, devices)]]
    for kernel in wanted:
        rows.append([printable(kernel), *(_presence(kernel, kernels) for kernels in devices.values())])
    yield from align_columns(rows, indent=indent)


def _presence(kernel: str, kernels: set[str] | None) -> str:
    if kernels is None:
        return "not decodable"
    return "yes" if kernel in kernels else "missing"


# The containers of a file as its text shows them: grouped by the place they share, and each image a row of words.
#
# A library has thousands of containers, and a hostile file a hundred thousand: of each there is no more here than what
# is printed of it.

#: Kernel names shown on an image's line without ``-v``, and characters of each. Mangled names reach some thousands.
_KERNELS_SHOWN = 3
_NAME_SHOWN = 60


class NestedRows:
    """Lines below the row of an image: facts from its record, and the containers in it."""

    __slots__ = ("image", "places", "said")

    def __init__(self) -> None:
        #: the record, its position, and whether it is in a fat object; the container's facts about the image
        self.image: tuple[ImageRecord, str, bool] | None = None
        self.said: EntryFacts = {}
        self.places: ListingRows | None = None


class ContainerRows:
    """Containers of one format that follow each other in one place of a file."""

    __slots__ = (
        "below",
        "count",
        "first",
        "flavour",
        "format",
        "is_inflated",
        "key",
        "member",
        "numbers",
        "offset",
        "packed",
        "prefix",
        "records",
        "rows",
        "said",
        "section",
        "size",
        "symbol_count",
        "version",
    )

    def __init__(self, key: tuple[Any, ...], prefix: str, first: int) -> None:
        self.key = key
        self.numbers, self.member, self.section, _, self.format, self.version = key
        self.prefix = prefix
        #: the number of the first container
        self.first = first
        self.offset: int | None = None
        self.flavour = ""
        self.count = self.size = self.symbol_count = 0
        #: methods of compression
        self.packed: set[str] = set()
        self.is_inflated = True
        #: the records of the containers, where more is shown of them
        self.records: list[ContainerRecord] = []
        self.rows: list[Sequence[str]] = []
        #: what each container says of itself in words, instead of a row for each of its images
        self.said: list[tuple[str, int]] = []
        #: number of a row → the lines below it
        self.below: dict[int, NestedRows] = {}

    def add(
        self, offset: int | None, size: int, attrs: Mapping[str, str], *, is_inflated: bool, symbol_count: int
    ) -> None:
        """Add a container; its images follow."""
        if not self.count:
            self.offset, self.flavour = offset, attrs.get("flavour", "")
        self.count += 1
        self.size += size
        self.symbol_count += symbol_count
        if attrs and "compression" in attrs:
            self.packed.add(attrs["compression"])
        if not is_inflated:
            self.is_inflated = False

    def add_image(
        self,
        number: int,
        index: int,
        offload: str,
        triple: str,
        arch: str,
        form: str,
        offset: int | None,
        compression: str | None,
        size: int,
        kernels: str,
    ) -> str:
        """Add an image of the container with a number, and return its position."""
        position = f"{self.prefix}{number}.{index}"
        row = (
            position,
            offload if offload != "none" else "-",
            triple or "-",
            arch or "-",
            form,
            f"at {offset:#x}" if offset is not None else compression or "-",
            _size_words(size),
            kernels,
        )
        if not "".join(row).isprintable():
            row = tuple(map(printable, row))  # type: ignore[assignment]
        self.rows.append(row)
        return position

    def count_images(self) -> int:
        """Return the number of images, also of the images without a row of their own."""
        return len(self.rows) + sum(images for _, images in self.said)

    def below_last(self) -> NestedRows:
        """Return the lines below the last image."""
        return self.below.setdefault(len(self.rows) - 1, NestedRows())


class ListingRows:
    """The containers of a file, or of an image in one, in their order; positions in them start with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.places: list[ContainerRows] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, *key: Any) -> tuple[ContainerRows, int]:
        """Return the place of the next container, and its number.

        The key are the numbers and the name of its member, the name and the number of its section, format and version.
        """
        number = self._count
        self._count = number + 1
        places = self.places
        if not places or places[-1].key != key:
            places.append(ContainerRows(key, self.prefix, number))
        return places[-1], number

    def skip(self) -> None:
        """Count a container of which nothing is shown: those after it keep their positions."""
        self._count += 1

    def repeated(self) -> set[str]:
        """Return the names that several members have."""
        return find_repeated_names((place.member, place.numbers) for place in self.places)


def member_numbers(item: ContainerRecord | MemberImageRecord) -> tuple[int, ...]:
    """Return the numbers that lead to the member which the record of a container, or of an image, is of."""
    return tuple(item.get("member_numbers", ()))


def find_repeated_names(members: Iterable[tuple[str | None, tuple[int, ...]]]) -> set[str]:
    """Return the names that several members have."""
    first: dict[str, tuple[int, ...]] = {}
    return {member for member, numbers in members if member and first.setdefault(member, numbers) != numbers}


def member_title(member: str | None, numbers: tuple[int, ...], repeated: Collection[str]) -> str:
    """Return the name of a member, with its number where others have it too, as it has to be addressed then."""
    name = member or ""
    return f"{name} {''.join(f'(#{number})' for number in numbers)}" if name in repeated else name


#: size → words: most images of a library have one of a few sizes, or so it seems to the reader of three digits
_WORDS: dict[int, str] = {}
_MOST_WORDS = 4096


def _size_words(size: int) -> str:
    words = _WORDS.get(size)
    if words is None:
        if len(_WORDS) >= _MOST_WORDS:
            _WORDS.clear()
        words = _WORDS[size] = format_size(size)
    return words


def kernel_summary(kernels: Sequence[str]) -> str:
    """Return how many kernels an image has and the names of the first, "" for none."""
    if not kernels:
        return ""
    shown = ", ".join(
        name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…" for name in kernels[:_KERNELS_SHOWN]
    )
    more = len(kernels) - _KERNELS_SHOWN
    return f"{pluralize(len(kernels), 'kernel')}: {shown}{f', … {more} more' if more > 0 else ''}"


#: host → how the first line calls it
_HOSTS = {
    "raw": "",
    "elf": "ELF",
    "coff": "COFF object",
    "pe": "PE image",
    "archive": "archive",
    "bitcode": "LLVM bitcode",
    "macho": "Mach-O",
    "universal": "universal Mach-O",
}

#: Sections named in the line that says which were not searched.
_SECTIONS_SHOWN = 4


def render_inspect(record: AnyFile, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines for one file. ``verbose`` 1 adds addresses, attributes and all kernels.

    A record with facts about kernels shows them as tables, instead of their names. Instead of the records of containers
    it may have their :class:`~fatpack.commands.inspect.text.ListingRows`: what the text without ``verbose`` needs of
    them.
    """
    path = printable(record["path"])
    if record.get("error"):
        yield f"{path}: cannot be read"
        return
    containers, image = record["containers"], record["image"]
    kind = _HOSTS.get(record["host"] or "", record["host"]) or record.get("kind", "")
    if not containers and record["format"]:
        kind = f"{record['format']}, {_why_empty(record['findings'])}"
    elif record.get("manifest"):
        kind = printable(f"manifest of kpack archives, {record['manifest']['component'] or 'without a component'}")
    facts = [kind] if kind else []
    if image:
        facts = [" ".join(word for word in (image["form"], arch_name(image["arch"], image["form"])) if word)]
        facts += [image["detail"]] if image["detail"] else []
    elif not containers and not kind and "left_out" not in record:
        facts.append(_unknown(path) if record["size"] else "the file is empty")
    yield f"{path}: {', '.join([*facts, format_size(record['size'] or 0)])}"
    if image:
        yield from _module_lines(image, "  ")
        yield from _metadata_lines(image, "  ")
        yield from _kernel_lines(image, "  ", verbose)
    members = record.get("member_images", [])
    if containers:
        shown = containers
        places = shown if isinstance(shown, ListingRows) else _places(shown, verbose, is_filtered="left_out" in record)
        yield from _arch_table(places, members, "  ")
        yield from _place_lines(places, "  ", record["path"], verbose)
    yield from _host_lines(record, "  ")
    yield from _member_lines(members, record["path"], verbose)
    is_known = bool(containers or members or image or record["format"] or record.get("package"))
    is_known = is_known or bool(record.get("kpack") or record.get("manifest"))
    left_out = record.get("left_out")
    if left_out and left_out["images"]:
        is_known = True
        names = ", ".join(map(printable, left_out["architectures"]))
        why = f", of other architectures: {names}" if names else ""
        yield f"  {pluralize(left_out['images'], 'image')} not shown{why}"
    if not is_known and not _may_hide(record["findings"]):
        yield "  no device code found"
    if verbose or record.get("found_outside"):
        yield from (f"  {line}" for line in not_searched_lines(record))
    if record["findings"]:
        from fatpack.text.findings import finding_lines

        unlisted = record.get("unlisted_findings", ())
        yield from finding_lines(record["findings"], "  ", unlisted=unlisted, path=record["path"], verbose=verbose)


def _host_lines(record: AnyFile, indent: str) -> Iterator[str]:
    """Yield the lines about the file around device code: where that was moved, and what is registered of it."""
    if record.get("kpack"):
        from fatpack.commands.inspect import kpack

        yield from kpack.marker_lines(record["kpack"], indent)
    if record.get("manifest"):
        from fatpack.commands.inspect import kpack

        yield from kpack.manifest_lines(record["manifest"], indent)
    if record.get("registration"):
        found = (*record["findings"], *record.get("unlisted_findings", ()))
        yield from registration_lines(record["registration"], indent, is_registered=has_registration(found))


def _unknown(path: str) -> str:
    from fatpack.packages.wheel_names import indexed_release

    is_index = indexed_release(path) is not None
    return "an index file of variants, whose wheels have the code" if is_index else "unknown format"


def _module_lines(image: StandaloneImageRecord, indent: str) -> Iterator[str]:
    """Yield a line for each module of a CIR file: its name, role, target and bundle ID, if it states them."""
    for module in image.get("stored", {}).get("modules", ()):
        name = f"@{module['name']}" if module["name"] else "without a name"
        stated = [module["role"], module["triple"], module["arch"], module["id"]]
        yield printable(indent + ", ".join([f"module {name}", *filter(None, stated)]))


def _metadata_lines(image: StandaloneImageRecord, indent: str) -> Iterator[str]:
    """Yield a line for the metadata that a compiler wrote beside an image."""
    stated = image.get("metadata")
    if stated:
        words = [
            stated.get("arch", ""),
            f"kernel {stated['kernel']}" if "kernel" in stated else "",
            f"{stated['threads']} threads" if "threads" in stated else "",
            f"{stated['shared']} bytes of shared memory" if "shared" in stated else "",
        ]
        what = ", ".join(word for word in words if word)
        yield printable(f"{indent}{stated['file']} ({stated['producer']}): {what or 'no target'}")


def not_searched_lines(record: AnyFile) -> Iterator[str]:
    """Yield the line that says which sections were not searched for containers, the largest first."""
    rows = record.get("not_searched", ())
    if rows:
        names = ", ".join(printable(row["section"]) for row in rows[:_SECTIONS_SHOWN])
        more = f" and {len(rows) - _SECTIONS_SHOWN} more" if len(rows) > _SECTIONS_SHOWN else ""
        size = format_size(sum(row["size"] for row in rows))
        yield f"not searched for containers: {names}{more} ({size}); --deep searches them"


def _member_lines(members: Sequence[MemberImageRecord], path: str, verbose: int) -> Iterator[str]:
    """Yield a line for each member of an archive that is an image itself."""
    repeated = find_repeated_names((item["member"], member_numbers(item)) for item in members)
    rows = []
    for item in members:
        at = f"at {item['offset']:#x}" if item["offset"] is not None else "-"
        kernels = "" if verbose or item.get("kernel_facts") else kernel_summary(item["kernels"])
        name, size = member_title(item["member"], member_numbers(item), repeated), format_size(item["size"])
        arch = arch_name(item["arch"], item["form"]) or "-"
        cells = [f"{name}:", item["triple"] or "-", arch, item["form"], at, size, kernels]
        rows.append([printable(cell) for cell in cells])
    for line, item in zip(align_columns(rows, right=(5,), indent="  "), members, strict=True):
        yield line
        if verbose and item["detail"]:
            yield printable(f"    {item['detail']}")
        if verbose and item["offset"] is not None:
            from fatpack.selectors.address import format_range

            yield f"    {format_range(path, item['offset'], item['size'])}"
        if verbose or item.get("kernel_facts"):
            yield from _kernel_lines(item, "    ", verbose)


def _why_empty(findings: Sequence[FindingRecord]) -> str:
    """Return why a bare container shows nothing: damage, a limit, or a format that this version does not read."""
    codes = {item["code"] for item in findings if item["severity"] == "error"}
    if not codes:
        return "not read by this version"
    return "not read because of a limit" if codes == {"FP1005"} else "damaged"


#: findings of device code that is not read, or not yet compiled for a device
_HIDING = ("FP1006", "FP2701")


def _may_hide(findings: Sequence[FindingRecord]) -> bool:
    """Return whether device code may be there all the same: in what is damaged, or not read by this version."""
    return any(item["severity"] == "error" or item["code"] in _HIDING for item in findings)


def _places(
    containers: Sequence[ContainerRecord], verbose: int, prefix: str = "", *, is_filtered: bool = False
) -> ListingRows:
    """Return the containers of a record by the place they share, with a row for each image.

    If images are filtered, containers that keep none are not shown.
    """
    places = ListingRows(prefix)
    for container in containers:
        if is_filtered and not container["images"]:
            places.skip()
        else:
            add_container_record(places, container, verbose, is_filtered=is_filtered)
    return places


#: A listing of more images than this begins with a table of their architectures and forms, of so many rows.
_IMAGES_WITHOUT_TABLE = 40
_TABLE_ROWS = 40


def _arch_table(places: ListingRows, members: Sequence[MemberImageRecord], indent: str) -> Iterator[str]:
    """Yield a table of the architectures and forms of many images; nothing for few.

    As in the totals of ``--by``, images that hold others and images for the host are not counted.
    """
    counts: dict[tuple[str, str], int] = {}
    _count_images(places, counts)
    for item in members:
        key = arch_name(item["arch"], item["form"]) or item["triple"] or "-", item["form"]
        counts[key] = counts.get(key, 0) + 1
    if sum(counts.values()) <= _IMAGES_WITHOUT_TABLE:
        return
    rows = [["images", "arch", "form"]]
    rows += [[str(count), printable(arch), form] for (arch, form), count in islice(counts.items(), _TABLE_ROWS)]
    yield from align_columns(rows, right=(0,), indent=indent)
    if len(counts) > _TABLE_ROWS:
        yield f"{indent}and {len(counts) - _TABLE_ROWS} more pairs of architecture and form; --by arch lists all"


def _count_images(places: ListingRows, counts: dict[tuple[str, str], int]) -> None:
    for place in places.places:
        for number, (_, offload, triple, arch, form, *_rest) in enumerate(place.rows):
            below = place.below.get(number)
            if below is not None and below.places is not None:
                _count_images(below.places, counts)
            elif offload != "host":
                key = arch if arch != "-" else triple, form
                counts[key] = counts.get(key, 0) + 1


def add_container_record(
    places: ListingRows, container: ContainerRecord, verbose: int = 0, *, is_filtered: bool = False
) -> None:
    """Add a container to others, from its record."""
    place, number = places.of(
        member_numbers(container),
        container["member"],
        container["section"],
        container["section_index"],
        container["format"],
        container["version"],
    )
    attrs, is_inflated = container["attrs"], container.get("is_inflated", True)
    symbols = sum(map(len, container["stored"].get("symbols", {}).values()))
    place.add(container["offset"], container["size"], attrs, is_inflated=is_inflated, symbol_count=symbols)
    if container["format"] == "cir-offload-container" or verbose:
        place.records.append(container)
    if container["format"] == METAL:
        kernels = verbose or any(image.get("kernel_facts") for image in container["images"])
        place.said.append((metal_words(attrs, container["stored"]), 0 if kernels else len(container["images"])))
        if not kernels:
            return
    folded: list[tuple[str, int]] = []
    no_form = "unknown" if is_inflated else "-"
    for image in container["images"]:
        if not (verbose or is_filtered or image.get("kernel_facts")) and is_folded(container["format"], image["attrs"]):
            folded.append((arch_name(image["arch"], image["form"] or ""), image["size"]))
            continue
        has_lines = verbose or image.get("kernel_facts")
        position = place.add_image(
            number,
            image["index"],
            image["offload"],
            image["triple"],
            arch_name(image["arch"], image["form"] or ""),
            image["form"] or no_form,
            image["offset"],
            image["compression"],
            image["size"],
            "" if has_lines else kernel_summary(image["kernels"]),
        )
        if has_lines:
            place.below_last().image = image, position, is_fat_object(container)
            if verbose and container["attrs"].get("flavour") == "linked":
                place.below_last().said = container["stored"]["entries"][image["index"]]
        if image["containers"]:
            place.below_last().places = _places(image["containers"], verbose, f"{position}/", is_filtered=is_filtered)
    if container["format"] == GCC:
        place.said.append((gcc_words(attrs, container["stored"], folded), len(folded)))


#: the format of which one text is the program's own, and the others are of GCC's libraries
GCC = "gcc-offload"


def gcc_words(attrs: Mapping[str, str], stored: Mapping[str, Any], folded: Sequence[tuple[str, int]]) -> str:
    """Return what a record of GCC's offloading says; ``folded``: architecture and size of texts that have no line."""
    version = "of a version that was not read" if attrs["version"] == "unknown" else f"version {attrs['version']}"
    needs = f", requires {', '.join(stored['requires'])}" if stored["requires"] else ""
    counts = f"{pluralize(int(attrs['functions']), 'function')} and {pluralize(int(attrs['variables']), 'variable')}"
    words = f"{attrs['model']} for {attrs['device']}, {version}, record at {stored['record']}: {counts}{needs}"
    if not folded:
        return words
    archs, size = ", ".join(dict.fromkeys(arch for arch, _ in folded)), format_size(sum(size for _, size in folded))
    return f"{words}; and {pluralize(len(folded), 'PTX text')} of GCC's libraries: {archs}, {size} (-v lists them)"


def is_folded(format: str, attrs: Mapping[str, str]) -> bool:
    """Return whether an image is a text of GCC's libraries, of which there are two dozen in each program."""
    return format == GCC and attrs.get("role") == "library"


#: the format whose containers have tens of thousands of images: a line says of them what differs between libraries
METAL = "metal-library"


def metal_words(attrs: Mapping[str, str], stored: StoredFacts) -> str:
    """Return what a Metal library says of itself: its system, its functions, their versions, its names."""
    needs = f", needs {attrs['platform']} {attrs['needs']}" if "needs" in attrs else ""
    kind = "Metal library" if attrs["kind"] == "executable" else f"Metal {attrs['kind']}"
    counts = [pluralize(count, kind) for kind, count in stored["types"].items()]
    functions = f"{', '.join(counts)}" if counts else "no function"
    counted = (("AIR", stored["air"]), ("Metal", stored["metal"]))
    versions = [_versions(name, versions) for name, versions in counted if versions]
    names = [
        f"{word} {attrs[key]}" for word, key in (("UUID", "uuid"), ("install name", "install_name")) if key in attrs
    ]
    links = [f"links {', '.join(stored['linked'])}"] if stored["linked"] else []
    first = f"{kind} {attrs['format']}, {attrs['platform']}{needs}: {functions}"
    return "; ".join([first, ", ".join(versions), *names, *links] if versions else [first, *names, *links])


def _versions(name: str, counts: Mapping[str, int]) -> str:
    if len(counts) == 1:
        return f"{name} {next(iter(counts))}"
    return f"{name} {', '.join(f'{version} ({count})' for version, count in counts.items())}"


def _place_lines(places: ListingRows, indent: str, path: str, verbose: int) -> Iterator[str]:
    """Yield the lines of containers, grouped by the place they share."""
    repeated = places.repeated()
    for place in places.places:
        yield f"{indent}{_heading(place, repeated)}"
        if verbose:
            yield from _symbol_lines(place.records, indent + "  ")
            yield from _unit_lines(place, indent + "  ", places.prefix)
            yield from _property_lines(place.records, indent + "  ")
        for words, _ in place.said:
            yield printable(f"{indent}  {words}")
        yield from _image_lines(place, indent + "  ", path, verbose)
        if place.format == "cir-offload-container":
            yield from launch_table(place.records[0], indent + "  ")


def _heading(place: ContainerRows, repeated: Collection[str]) -> str:
    where = printable(
        " → ".join(name for name in (member_title(place.member, place.numbers, repeated), place.section) if name)
    )
    at = f" at {place.offset:#x}" if place.offset is not None else ""
    name = f"{place.format} v{place.version}" if place.version else place.format
    name += _FLAVOURS.get(place.flavour, "")
    what = f"{place.count} × {name}" if place.count > 1 else name
    compressed = f", {'/'.join(sorted(place.packed))}" if place.packed else ""
    if not place.is_inflated:
        compressed += " (--inflate looks inside)"
    symbols = f", {pluralize(place.symbol_count, 'device symbol')}" if place.symbol_count else ""
    inside = f"{what}, {pluralize(place.count_images(), 'image')}{compressed}, {format_size(place.size)}{symbols}"
    return f"{where}{at}: {inside}" if where else f"{inside}{at}"


#: flavour of a bundle → how the heading of a place calls it
_FLAVOURS = {"object": " (fat object)", "linked": " (linked images)"}


def _symbol_lines(containers: Sequence[ContainerRecord], indent: str) -> Iterator[str]:
    """Yield the symbols that device code defines, by target, where a bundler noted them."""
    found: dict[str, list[str]] = {}
    for container in containers:
        for id, names in container["stored"].get("symbols", {}).items():
            found.setdefault(id, []).extend(names)
    for id, names in found.items():
        yield from (printable(f"{indent}{id} defines {name}") for name in names)


def _unit_lines(place: ContainerRows, indent: str, prefix: str) -> Iterator[str]:
    """Yield a line for each container whose host names the unit of code it is from, or those it was linked from."""
    for number, container in enumerate(place.records, place.first):
        for key in ("module_id", "linked_module_ids"):
            if key in container["attrs"]:
                yield printable(f"{indent}{prefix}{number} {key} = {container['attrs'][key]}")


def _property_lines(containers: Sequence[ContainerRecord], indent: str) -> Iterator[str]:
    """Yield the property sets of SYCLBIN files and of their abstract modules, a line for each property."""
    for container in containers:
        if container["format"] != "syclbin":
            continue
        stored = container["stored"]
        modules = ((f"module {module['am_index']} ", module["properties"]) for module in stored["modules"])
        for where, sets in (("", stored["properties"]), *modules):
            yield from _set_lines(sets, indent + where)


def _set_lines(sets: PlainPropertySets, indent: str) -> Iterator[str]:
    """Yield a line for each property of some sets."""
    for name, properties in sets.items():
        for key, value in properties.items():
            shown = f"0x{value['hex']}" if isinstance(value, dict) else value
            yield printable(f"{indent}[{name}] {key} = {shown}")


def _linked_lines(said: EntryFacts, indent: str) -> Iterator[str]:
    """Yield what the records of a program say of an image: its property sets."""
    yield from _set_lines(said.get("properties", {}), indent)
    if "properties_unread" in said:
        yield printable(f"{indent}properties not read: {said['properties_unread']}")


def _image_lines(place: ContainerRows, indent: str, path: str, verbose: int) -> Iterator[str]:
    deeper = indent + "    "
    for number, line in enumerate(column_lines(place.rows, right=(6,), indent=indent)):
        yield line
        below = place.below.get(number)
        if below is None:
            continue
        if below.image is not None:
            image, position, is_of_fat_object = below.image
            # In a fat object the host's entry is a marker: its image is the object without the other entries.
            is_marker = is_of_fat_object and image["stored_form"] == "object"
            if verbose:
                yield from _details(image, deeper, path, position, is_marker)
                yield from _linked_lines(below.said, deeper)
            yield from _kernel_lines(image, deeper, verbose)
        if below.places is not None:
            yield from _place_lines(below.places, deeper, path, verbose)


def _kernel_lines(image: AnyImage, indent: str, verbose: int) -> Iterator[str]:
    """Yield the lines about the kernels of an image: their table, or all names, or some of them on one line."""
    if verbose:
        yield from (printable(f"{indent}made by {tool}") for tool in image.get("made_by", ()))
    if image.get("kernel_facts"):
        yield from kernel_table(image["kernel_facts"], image["form"], indent)
    elif verbose:
        yield from (printable(f"{indent}kernel {name}") for name in image["kernels"])
    elif image["kernels"]:
        yield printable(indent + kernel_summary(image["kernels"]))


def _taken_with(path: str, position: str) -> str:
    """Return the command that takes an image by its position, or its options where the path cannot be typed."""
    if not path.isprintable() or path == "<stdin>":
        return f"extract with {position}"
    from shlex import quote

    return f"fatpack extract {quote(f'./{path}' if path.startswith('-') else path)} {position}"


def _details(image: ImageRecord, indent: str, path: str, position: str, is_marker: bool) -> Iterator[str]:
    """Yield the lines about one image: what it is, how to get it, its attributes.

    What is not in the file as such has no address; outermost images can be taken by their position then.
    """
    if image["detail"]:
        own = image["claims"]["arch"]
        target = f", for {own}" if own and own != image["arch"] else ""
        yield printable(f"{indent}{image['detail']}{target}")
    if image["offset"] is not None and image["compression"] is None and not is_marker:
        from fatpack.selectors.address import format_range

        yield f"{indent}{format_range(path, image['offset'], image['size'])}"
    elif "/" not in position:
        container, _, index = position.partition(".")
        yield f"{indent}{_taken_with(path, f'--container {container} --index {index}')}"
    for key, value in image["attrs"].items():
        yield printable(f"{indent}{key} = {value}")


# The numbers of registered kernels in objects and programs: the lines of ``inspect``, and plain data.
#
# ::
#
#     registered: 12 kernels, 2 variables, by clang ≥ 21 entries
#     845 records of CUDA register containers; --runtime follows the code
#     a.o: registered: 3 kernels, by nvcc calls

#: findings that say: there are offload entries, and nothing registers them
_UNREGISTERED = ("FP3049",)

#: how the makers of units are called whose tables others hand to a runtime
_ENTRIES = "entries"

#: Members of an archive with a line each; of more, members registered alike share one.
_SHOWN = 4

#: what is called as its makers call it
_TITLES = {"cuda": "CUDA", "hip": "HIP", "openmp": "OpenMP", "sycl": "SYCL"}


def unit_records(units: Iterable[RegistrationCounts]) -> list[RegistrationCountsRecord]:
    """Return what units register as plain data."""
    return list(map(_unit_record, units))


def _unit_record(unit: RegistrationCounts) -> RegistrationCountsRecord:
    numbers: MemberNumbers = {"member_numbers": list(unit.numbers)} if unit.numbers else {}
    return {
        "member": unit.member,
        **numbers,
        "models": list(unit.models),
        "kernels": unit.kernels,
        "variables": unit.variables,
        "records": unit.records,
        "by": unit.by,
    }


def has_registration(findings: Iterable[FindingRecord | UnlistedRecord]) -> bool:
    """Return false if a finding of the file says that its records are not registered."""
    return not any(item["code"] in _UNREGISTERED for item in findings)


def registration_lines(
    records: Sequence[RegistrationCountsRecord], indent: str, *, is_registered: bool = True
) -> Iterator[str]:
    """Yield a line for each unit, or of many units one for each group made alike.

    Without ``is_registered`` there are entries for a runtime, and nothing that hands them over.
    """
    if len(records) <= _SHOWN:
        for record in records:
            name = f"{record['member']}: " if record["member"] else ""
            yield printable(f"{indent}{name}{registration_words(record, is_registered=is_registered)}")
        return
    groups: dict[tuple[str, bool], list[RegistrationCountsRecord]] = {}
    for record in records:
        groups.setdefault((record["by"], record["kernels"] is None), []).append(record)
    for (by, is_counted), group in groups.items():
        total: RegistrationCountsRecord = {
            "member": None,
            "models": list(dict.fromkeys(model for record in group for model in record["models"])),
            "kernels": None if is_counted else sum(record["kernels"] or 0 for record in group),
            "variables": None if is_counted else sum(record["variables"] or 0 for record in group),
            "records": sum(record["records"] for record in group),
            "by": by,
        }
        yield f"{indent}{registration_words(total, is_registered=is_registered)}, in {pluralize(len(group), 'member')}"


def registration_words(record: RegistrationCountsRecord, *, is_registered: bool = True) -> str:
    """Return the names that a unit registers, or declares without a registration."""
    from fatpack.registration.analysis.counts import CALLS

    if record["kernels"] is None:
        models = " and ".join(_TITLES[model] for model in record["models"])
        if record["by"] != CALLS:
            return f"registered: {pluralize(record['records'], 'record')} of {models}, by {record['by']}"
        verb = "registers" if record["records"] == 1 else "register"
        return f"{pluralize(record['records'], 'record')} of {models} {verb} containers; --runtime follows the code"
    parts = [pluralize(record["kernels"], "kernel")]
    if record["variables"]:
        parts.append(pluralize(record["variables"], "variable"))
    if record["by"]:
        parts.append(f"by {record['by']}")
    if not is_registered and record["by"].endswith(_ENTRIES):
        return f"declared, but not registered: {', '.join(parts)}"
    return f"registered: {', '.join(parts)}"
