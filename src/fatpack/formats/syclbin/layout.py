"""Byte layouts of SYCLBIN files, and the parts that both versions have: global metadata, modules and images."""

from __future__ import annotations

from fatpack import limits, magic_numbers
from fatpack.errors import pluralize
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector
from fatpack.formats.syclbin.properties import read_properties, value_text
from fatpack.layout import Field, Layout
from fatpack.model import Image, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fatpack.io.source import View
    from fatpack.model import Container

    ImageFacts = Mapping[tuple[str, str], int | bytes]


# Stored data of a SYCLBIN file beyond the common model, kept so that a rewrite loses nothing.


class AbstractModule(Record):
    """An abstract module, which binds images that share properties: its number, and the text of its property sets."""

    number: int
    metadata: View


class SyclbinHeader(Record):
    """The fields of a file apart from its images; kept in ``Container.record`` for lossless rewriting.

    ``body`` is the whole file, ``state`` the number of its state as stored, None if it has none. ``is_padded`` is true
    if a file of version 1 is padded to a multiple of eight, as its writers do; ``padding`` are the bytes in the middle
    of its header, which writers do not set. ``outer`` is a file of version 2 as an offload binary.
    """

    body: View
    global_metadata: View | None
    state: int | None
    modules: tuple[AbstractModule, ...] = ()
    is_padded: bool = True
    padding: int = 0
    outer: Container | None = None


class NewModules(Record):
    """Property sets of new abstract modules, by their numbers."""

    metadata: Mapping[int, bytes]


class SyclbinEntry(Record):
    """An image as stored: its role, its abstract module (None if no module names it) and its property sets.

    ``at`` is the position of its header in a file of version 1, or the number of its entry in one of version 2;
    ``outer`` is its entry in the offload binary.
    """

    role: str
    module: int | None
    metadata: View
    data: View
    at: int = 0
    outer: Image | None = None


# Byte layouts of SYCLBIN files, and the words in them.
#
# Version 1 has tables of its own; offsets of metadata are relative to the metadata table, those of images to the table
# of bytes after it. Version 2 is an offload binary, whose images start with the size of their metadata.

SYCLBIN_FORMAT = "syclbin"
MAGIC = magic_numbers.SYCLBIN

#: Alignment of tables and of the whole file of version 1.
ALIGN = 8

#: The role of an image: intermediate code, or code for one device.
IR, NATIVE = "ir", "native"

#: ``role`` of the entries of version 2 with only metadata.
GLOBAL_METADATA, AM_METADATA = "global_metadata", "am_metadata"
ROLES = (GLOBAL_METADATA, AM_METADATA, IR, NATIVE)

#: ``sycl_format_version`` of the entries of version 2
VERSION_2 = "2"

#: ImageKind of the entries of version 2. QUIRK(DPC++ before LLVM used 6 for SPIR-V): 6.
IMAGE_KINDS = (7, 6)
#: OffloadKind that is written: SYCL
OFFLOAD_KIND = 8

#: Names of property sets, from DPC++'s PropertySetIO.h.
GLOBAL_SET = "SYCLBIN/global metadata"
IR_SET = "SYCLBIN/ir module metadata"
NATIVE_SET = "SYCLBIN/native device code image metadata"
KERNELS_SET = "SYCL/kernel names"

#: ``state`` of the global metadata → the member of ``sycl::bundle_state``
STATES = {0: "input", 1: "object", 2: "executable"}

#: ``type`` of an IR module → the form of its bytes. No producer has written the type for AMD's processors (2) yet.
IR_FORMS = {0: "spirv", 1: "ptx"}
#: form → type, for IR modules to write
IR_TYPES = {form: number for number, form in IR_FORMS.items()}


def _named(names: Mapping[int, str]) -> Callable[[int], str]:
    return lambda value: f"{value} ({names.get(value, 'unknown')})"


HEADER = Layout(
    SYCLBIN_FORMAT,
    "header (v1)",
    [
        Field("magic", "u32", "Magic: 0x53594249, in a file the letters IBYS", lambda value: f"{value:#x}"),
        Field("version", "u32", "Version: 1"),
        Field("abstract_count", "u32", "AbstractModuleCount: number of abstract modules"),
        Field("ir_count", "u32", "IRModuleCount: number of IR modules"),
        Field("native_count", "u32", "NativeDeviceCodeImageCount: number of native device code images"),
        Field("padding", "u32", "padding of the C structure; writers leave whatever was in memory"),
        Field("metadata_size", "u64", "MetadataByteTableSize: bytes of the metadata table, without its padding"),
        Field("binary_size", "u64", "BinaryByteTableSize: bytes of the table of images"),
        Field("global_offset", "u64", "GlobalMetadataOffset: offset of the global metadata in the metadata table"),
        Field("global_size", "u64", "GlobalMetadataSize: bytes of the global metadata"),
    ],
)

_METADATA = [
    Field("metadata_offset", "u64", "MetadataOffset: where its property sets are in the metadata table"),
    Field("metadata_size", "u64", "MetadataSize: bytes of its property sets"),
]

ABSTRACT = Layout(
    SYCLBIN_FORMAT,
    "abstract module header (v1)",
    [
        *_METADATA,
        Field("ir_count", "u32", "IRModuleCount: number of its IR modules"),
        Field("first_ir", "u32", "IRModuleOffset: number of the first of them in the array of IR modules"),
        Field("native_count", "u32", "NativeDeviceCodeImageCount: number of its native images"),
        Field("first_native", "u32", "NativeDeviceCodeImageOffset: number of the first of them in their array"),
    ],
)

IR_MODULE = Layout(
    SYCLBIN_FORMAT,
    "IR module header (v1)",
    [
        *_METADATA,
        Field("offset", "u64", "RawIRBytesOffset: offset of the module in the table of images"),
        Field("size", "u64", "RawIRBytesSize: bytes of the module"),
    ],
)

NATIVE_IMAGE = Layout(
    SYCLBIN_FORMAT,
    "native device code image header (v1)",
    [
        *_METADATA,
        Field("offset", "u64", "BinaryBytesOffset: offset of the image in the table of images"),
        Field("size", "u64", "BinaryBytesSize: bytes of the image"),
    ],
)

PAYLOAD = Layout(
    SYCLBIN_FORMAT,
    "image of a role ir or native (v2)",
    [Field("metadata_size", "u64", "bytes of the property sets that follow; the image itself follows these")],
)


def padded_size(size: int) -> int:
    """Return a size rounded up to the alignment."""
    return size + -size % ALIGN


# Damage inside a SYCLBIN file: the errors for its fields.

__all__ = ["syclbin_errors"]

syclbin_errors = ErrorFactory(SYCLBIN_FORMAT)


#: The properties that describe an image.
_OWN = {
    (GLOBAL_SET, "state"),
    (IR_SET, "type"),
    (IR_SET, "target"),
    (NATIVE_SET, "arch"),
    (NATIVE_SET, "target"),
}


class SyclbinContents:
    """Collects the parts of a file while it is read, with their findings."""

    def __init__(self, body: View) -> None:
        """Start empty. Texts may share their bytes, so the total that is read of them is limited."""
        self.faults = FindingCollector()
        self._body = body
        self._text_budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(body))
        self._known: dict[tuple[int, int], ImageFacts] = {}

    def facts(self, text: View, field: str) -> ImageFacts:
        """Return the properties of a text that describe an image or file; invalid lines become findings.

        Raises LimitExceeded if a text, or the total of all, is too long.
        """
        place = text.start, text.end
        known = self._known.get(place)
        if known is None:
            if len(text) > limits.PROPERTY_SETS:
                problem, most = pluralize(len(text), "byte"), f"at most {limits.PROPERTY_SETS}"
                raise syclbin_errors.limit(text, 0, field, problem, most, limits.advice("PROPERTY_SETS"))
            self._text_budget -= len(text)
            if self._text_budget < 0:
                problem = "the property sets share their bytes, and are many times the size of the file"
                raise syclbin_errors.limit(text, 0, field, problem, hint=limits.advice("STRING_RATIO"))

            def wrong(at: int, size: int, problem: str) -> None:
                self.faults.add_warning("FP1802", text.span(at, size), f"{field}: {problem}", field=field)

            properties = read_properties(text.tobytes(), wrong)
            known = {(item.set, item.name): item.value for item in properties if (item.set, item.name) in _OWN}
            self._known[place] = known
        return known

    def state(self, text: View) -> int | None:
        """Return the number of the state in global metadata, None if it has none."""
        state = self.facts(text, "global metadata").get((GLOBAL_SET, "state"))
        if not isinstance(state, int):
            self.faults.add_warning("FP1803", text.span(), "the global metadata states no state, which DPC++ asks for")
            return None
        if state not in STATES:
            known = ", ".join(f"{number} ({name})" for number, name in STATES.items())
            self.faults.add_warning("FP1803", text.span(), f"state {state}, where DPC++ knows {known}")
        return state

    def image(self, entry: SyclbinEntry, field: str) -> Image:
        """Return the image of an entry, with the facts of its metadata and of its offload binary."""
        facts = self.facts(entry.metadata, f"metadata of {field}")
        own = IR_SET if entry.role == IR else NATIVE_SET
        triple, arch = (value_text(facts.get((own, name), b"")) for name in ("target", "arch"))
        kind = facts.get((IR_SET, "type"))
        attrs, offload, outer = {"role": entry.role}, "sycl", entry.outer
        if entry.module is not None:
            attrs["am_index"] = str(entry.module)
        if entry.role == IR and isinstance(kind, int):
            attrs["ir_type"] = str(kind)
        if outer is not None:
            self._compare(entry, outer, field, {"triple": triple, "arch": arch, "ir_type": attrs.get("ir_type", "")})
            offload = outer.target.offload
            triple, arch = triple or outer.target.triple, arch or outer.target.arch
            attrs = {**attrs, **{key: text for key, text in outer.attrs.items() if key != "sycl_format_version"}}
        return Image(
            target=Target(triple, arch, offload),
            form=IR_FORMS.get(kind, "") if entry.role == IR and isinstance(kind, int) else "",
            data=entry.data,
            size=len(entry.data),
            stored_size=outer.stored_size and len(entry.data) if outer is not None else len(entry.data),
            span=entry.data.span(),
            compression=outer.compression if outer is not None else None,
            attrs=attrs,
            record=entry,
        )

    def _compare(self, entry: SyclbinEntry, outer: Image, field: str, stated: Mapping[str, str]) -> None:
        """Report differences between the metadata and the strings that the offload binary has for other tools."""
        shown = {"triple": outer.target.triple, "arch": outer.target.arch, "ir_type": outer.attrs.get("ir_type", "")}
        for key, text in stated.items():
            if shown[key] and text and shown[key] != text:
                problem = f"{key} is {text!r} in the metadata, which DPC++ reads, and {shown[key]!r} in the entry"
                self.faults.add_warning("FP1805", entry.metadata.span(), f"{field}: {problem}", field=field)


def bundle_state(header: SyclbinHeader) -> str:
    """Return the state of a file as a member of ``sycl::bundle_state``, or its number; "" if it has none."""
    return "" if header.state is None else STATES.get(header.state, str(header.state))
