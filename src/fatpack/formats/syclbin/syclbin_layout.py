"""Byte layouts of SYCLBIN files, and the words in them.

Version 1 has tables of its own; offsets of metadata are relative to the metadata table, those of images to the table of
bytes behind it. Version 2 is an offload binary, whose images start with the size of their metadata.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SYCLBIN_FORMAT = "syclbin"
MAGIC = magic_numbers.SYCLBIN

#: What tables and the whole of version 1 are padded to.
ALIGN = 8

#: What an image is stored as: intermediate code, or code for one device.
IR, NATIVE = "ir", "native"

#: ``role`` of the entries of version 2 that hold metadata alone.
GLOBAL_METADATA, AM_METADATA = "global_metadata", "am_metadata"
ROLES = (GLOBAL_METADATA, AM_METADATA, IR, NATIVE)

#: ``sycl_format_version`` of the entries of version 2
VERSION_2 = "2"

#: ImageKind of the entries of version 2. QUIRK(DPC++ before LLVM took 6 for SPIR-V): 6.
IMAGE_KINDS = (7, 6)
#: OffloadKind that is written: SYCL
OFFLOAD_KIND = 8

#: Names of property sets, as DPC++'s PropertySetIO.h has them.
GLOBAL_SET = "SYCLBIN/global metadata"
IR_SET = "SYCLBIN/ir module metadata"
NATIVE_SET = "SYCLBIN/native device code image metadata"
KERNELS_SET = "SYCL/kernel names"

#: ``state`` of the global metadata → the member of ``sycl::bundle_state``
STATES = {0: "input", 1: "object", 2: "executable"}

#: ``type`` of an IR module → the form of its bytes. What stands for AMD's processors (2) no producer has written yet.
IR_FORMS = {0: "spirv", 1: "ptx"}
#: form → type, of IR modules that are written
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
        Field("global_offset", "u64", "GlobalMetadataOffset: where the global metadata is in the metadata table"),
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
        Field("offset", "u64", "RawIRBytesOffset: where the module is in the table of images"),
        Field("size", "u64", "RawIRBytesSize: bytes of the module"),
    ],
)

NATIVE_IMAGE = Layout(
    SYCLBIN_FORMAT,
    "native device code image header (v1)",
    [
        *_METADATA,
        Field("offset", "u64", "BinaryBytesOffset: where the image is in the table of images"),
        Field("size", "u64", "BinaryBytesSize: bytes of the image"),
    ],
)

PAYLOAD = Layout(
    SYCLBIN_FORMAT,
    "image of a role ir or native (v2)",
    [Field("metadata_size", "u64", "bytes of the property sets that follow; behind them is the image itself")],
)


def padded_size(size: int) -> int:
    """Return a size with its padding."""
    return size + -size % ALIGN
