"""A registration as a module of LLVM IR: globals, constructors and functions in the order in which LLVM has them.

What ``llvm-as`` makes of the text is what ``llvm-offload-wrapper`` and clang-linker-wrapper of LLVM 22 and 23 write,
except the name of the module: ``llvm-dis`` prints the same of both.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.section_names import OFFLOADING, OFFLOADING_RELOCATABLE
from fatpack.commands.wrap.ir import functions
from fatpack.commands.wrap.ir.text import ENTRY_TYPE, ModuleText, element_pointer, global_name
from fatpack.commands.wrap.objects import contents
from fatpack.commands.wrap.registration import KINDS, FatbinRegistration, OpenmpDescriptor, SyclBinary, entry_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.wrap.registration import EntryLayout, Registration, SyclDescriptor
    from fatpack.commands.wrap.run import WrapHost
    from fatpack.io.source import Piece

_ENTRY_TYPE = f"{ENTRY_TYPE} = type {{ i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }}"
_OLD_ENTRY_TYPE = f"{ENTRY_TYPE} = type {{ ptr, ptr, i64, i32, i32 }}"
_FATBIN_TYPE = "%fatbin_wrapper = type { i32, i32, ptr, ptr }"
_OPENMP_TYPES = (
    "%__tgt_device_image = type { ptr, ptr, ptr, ptr }",
    "%__tgt_bin_desc = type { i32, ptr, ptr, ptr }",
)
_SYCL_TYPES = (
    "%__sycl.tgt_device_image = type { i16, i8, i8, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }",
    "%__sycl.tgt_bin_desc = type { i16, i16, ptr, ptr, ptr }",
)

#: Mach-O: segments and sections of fat binaries and of their wrappers.
_MACH_O_FATBINS = {
    "cuda": ("__NV_CUDA,__nv_fatbin", "__NV_CUDA,__fatbin"),
    "hip": ("__HIP,__hip_fatbin", "__HIP,__fatbin"),
}


def registration_module(registration: Registration, host: WrapHost, llvm: int) -> tuple[Piece, ...]:
    """Return the text of the module that an LLVM of a version makes of a registration."""
    made = ModuleText(host, "offload.wrapper.module")
    if isinstance(registration, FatbinRegistration):
        _fatbin(registration, made, llvm)
    elif isinstance(registration, OpenmpDescriptor):
        _openmp(registration, made)
    elif isinstance(registration, SyclBinary):
        content = registration.content
        made.data(".sycl_offloading.binary", content.pieces, content.size, f'section "{OFFLOADING}"', "unnamed_addr ")
        argument = f"ptr @.sycl_offloading.binary, i64 {content.size}"
        _sycl_run(made, argument, "ptr, i64")
    else:
        _sycl_images(registration, made)
    return made.finished()


def _fatbin(registration: FatbinRegistration, made: ModuleText, llvm: int) -> None:
    runtime, content = registration.runtime, registration.content
    image, wrapper = contents.FATBIN_NAMES[runtime].image, contents.FATBIN_NAMES[runtime].wrapper
    if made.host.file == "mach-o":
        image, wrapper = _MACH_O_FATBINS[runtime]
    magic = int.from_bytes(magic_numbers.CUDA_WRAPPER if runtime == "cuda" else magic_numbers.HIP_WRAPPER, "little")
    entries = registration.entries
    made.types(_entry_type(entries), _FATBIN_TYPE)
    made.bounds(entries)
    made.data(".fatbin_image", content.pieces, content.size, f'section "{image}"')
    unsanitized = "no_sanitize_address, no_sanitize_hwaddress, " if llvm >= 23 else ""
    made.line(
        f"@.fatbin_wrapper = internal constant %fatbin_wrapper {{ i32 {magic}, i32 1, ptr @.fatbin_image, ptr null }}, "
        f'section "{wrapper}", {unsanitized}align 8'
    )
    made.line(f"@.{runtime}.binary_handle = internal global ptr null")
    made.runs("ctors", 101, f".{runtime}.fatbin_reg")
    made.line(functions.fatbin_functions(runtime, entries, *made.bounds_of(entries), made.code))


def _entry_type(entries: EntryLayout) -> str:
    return _ENTRY_TYPE if "kind" in entries.fields else _OLD_ENTRY_TYPE


def _openmp(registration: OpenmpDescriptor, made: ModuleText) -> None:
    section = OFFLOADING_RELOCATABLE if registration.is_relocatable else OFFLOADING
    made.types(_entry_type(registration.entries), *_OPENMP_TYPES)
    start, stop = made.bounds(registration.entries)
    bounds = f"ptr {start}, ptr {stop}"
    records = []
    for content in registration.contents:
        symbol = made.fresh(".omp_offloading.device_image")
        made.data(symbol, content.pieces, content.size, f'section "{section}", align 8', "unnamed_addr ")
        for begin, end in content.images:
            places = (
                f"{element_pointer(content.size, f'@{symbol}', begin)}, "
                f"{element_pointer(content.size, f'@{symbol}', end)}"
            )
            records.append(f"%__tgt_device_image {{ {places}, {bounds} }}")
    made.line(
        f"@.omp_offloading.device_images = internal unnamed_addr constant [{len(records)} x %__tgt_device_image] "
        f"[{', '.join(records)}]"
    )
    made.line(
        f"@.omp_offloading.descriptor = internal constant %__tgt_bin_desc {{ i32 {len(records)}, "
        f"ptr @.omp_offloading.device_images, {bounds} }}"
    )
    made.runs("ctors", 101, ".omp_offloading.descriptor_reg")
    made.line(functions.openmp_functions(made.code))


def _sycl_images(registration: SyclDescriptor, made: ModuleText) -> None:
    has_entries = any(image.kernels for image in registration.images)
    has_images = bool(registration.images)
    made.types(*([_ENTRY_TYPE] if has_images else []), *_SYCL_TYPES)
    records: list[str] = []
    names: list[str] = []
    for number, image in enumerate(registration.images):
        strings = ((f"target.{number}", image.triple), (f"opts.compile.{number}", ""), (f"opts.link.{number}", ""))
        for word, text in strings:
            made.text(f".sycl_offloading.{word}", text)
        content = image.content
        made.data(
            f".sycl_offloading.{number}.data",
            content.pieces,
            content.size,
            f'section "{OFFLOADING}"',
            "unnamed_addr ",
        )
        entries = []
        for kernel in image.kernels:
            names.append(made.fresh(".offloading.entry_name"))
            entries.append(_sycl_entry(made, names[-1], kernel))
        array_name = f"@{made.fresh('.sycl_offloading.entries_arr')}"
        values = f"[{', '.join(entries)}]" if entries else "zeroinitializer"
        made.line(f"{array_name} = internal constant [{len(entries)} x {ENTRY_TYPE}] {values}")
        data = f"@.sycl_offloading.{number}.data"
        parts = (
            f"i16 3, i8 {KINDS['sycl']}, i8 {image.image_kind}",
            *(f"ptr @.sycl_offloading.{word}" for word, _ in strings),
            f"ptr {data}, {element_pointer(content.size, data, content.size)}",
            f"ptr {array_name}, {element_pointer(len(entries), array_name, len(entries), ENTRY_TYPE)}",
            "ptr null, ptr null",
        )
        records.append(f"%__sycl.tgt_device_image {{ {', '.join(parts)} }}")
    values = f"[{', '.join(records)}]" if records else "zeroinitializer"
    made.line(
        f"@.sycl_offloading.device_images = internal unnamed_addr constant [{len(records)} x %__sycl.tgt_device_image] "
        f"{values}"
    )
    made.line(
        f"@.sycl_offloading.descriptor = internal constant %__sycl.tgt_bin_desc {{ i16 1, i16 {len(records)}, "
        "ptr @.sycl_offloading.device_images, ptr null, ptr null }"
    )
    _sycl_run(made, "ptr @.sycl_offloading.descriptor", "ptr")
    if has_entries:
        made.line(f"\n!llvm.offloading.symbols = !{{{', '.join(f'!{number}' for number in range(len(names)))}}}\n")
        for number, symbol in enumerate(names):
            made.line(f"!{number} = !{{ptr @{symbol}}}")


def _sycl_entry(made: ModuleText, symbol: str, kernel: str) -> str:
    """Add the name of a kernel and its entry; return the entry's value."""
    made.text(symbol, kernel, f', section "{contents.ENTRY_NAMES}", align 1')
    value = f"{{ i64 0, i16 1, i16 {KINDS['sycl']}, i32 0, ptr null, ptr @{symbol}, i64 0, i64 0, ptr null }}"
    entry = made.fresh(f".offloading.entry.{kernel}")
    section = entry_layout("sycl", 22).section + (contents.COFF_ENTRIES if made.host.file == "coff" else "")
    made.line(f'{global_name(entry)} = weak constant {ENTRY_TYPE} {value}, section "{section}", align 8')
    return f"{ENTRY_TYPE} {value}"


def _sycl_run(made: ModuleText, argument: str, types: str) -> None:
    made.runs("ctors", 1, "sycl.descriptor_reg")
    made.runs("dtors", 1, "sycl.descriptor_unreg")
    made.line(functions.sycl_functions(argument, types, made.code))
