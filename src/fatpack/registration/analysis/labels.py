"""The records by which programs register device code, as tables: for ``--at``, ``--bytes`` and those who read them.

Fields that are pointers have the type of the host's words; what they hold in the file is often nothing: relocations
say where they lead. Sources: ``crt/host_runtime.h`` of CUDA 13.0 and clang/lib/CodeGen/CGCUDANV.cpp for the wrapper;
llvm/include/llvm/Frontend/Offloading/Utility.h and OffloadWrapper.cpp (LLVM 14 to 23) for the others; intel/llvm's
ClangOffloadWrapper.cpp for the images of versions 1 and 2.
"""

from __future__ import annotations

from fatpack.errors import format_hex
from fatpack.layout import Field, Layout
from fatpack.registration.analysis.descriptors import WITH_MANIFEST

FORMAT = "registration"

_MAGIC = "magic"

#: what the meaning of fields with addresses in them starts with: their type is the host's word; and of those of strings
_ADDRESS = "address of "
_STRINGS = tuple(f"{_ADDRESS}{what}" for what in ("the device's name", "the name of", "options"))


def _layout(name: str, word: int, *fields: tuple[str, str, str]) -> Layout:
    types = {"word": f"u{8 * word}"}
    shown = {_MAGIC: format_hex}
    rows = [Field(title, types.get(type, type), doc, shown.get(title)) for title, type, doc in fields]
    return Layout(FORMAT, name, rows)


def wrapper_layout(word: int) -> Layout:
    """Return the layout of a record that leads to a container of CUDA or HIP."""
    return _layout(
        "wrapper",
        word,
        (_MAGIC, "u32", "0x466243b1 for CUDA, 0x48495046 for HIP"),
        ("version", "u32", "1; 2 for what nvcc's device link has made"),
        ("container", "word", f"{_ADDRESS}the fat binary or bundle"),
        ("prelinked", "word", f"{_ADDRESS}a list of prelinked fat binaries in version 2, 0 in others"),
    )


def new_entry_layout(word: int) -> Layout:
    """Return the layout of an offload entry of LLVM 21 and newer."""
    return _layout(
        "offload entry",
        word,
        ("reserved", "u64", "0, which tells it from older entries"),
        ("version", "u16", "1"),
        ("kind", "u16", "1 OpenMP, 2 CUDA, 4 HIP, 8 SYCL"),
        ("flags", "u32", "low three bits: 0 kernel or variable, 1 managed variable, 2 surface, 3 texture"),
        ("address", "word", f"{_ADDRESS}what stands for it on the host"),
        ("name", "word", f"{_ADDRESS}the device's name for it"),
        ("size", "u64", "bytes of a variable, 0 for code"),
        ("data", "u64", "further data: the alignment of a managed variable"),
        ("aux", "word", f"{_ADDRESS}the pointer variable of a managed variable"),
    )


def old_entry_layout(word: int) -> Layout:
    """Return the layout of an offload entry of LLVM 20 and older."""
    return _layout(
        "offload entry",
        word,
        ("address", "word", f"{_ADDRESS}what stands for it on the host"),
        ("name", "word", f"{_ADDRESS}the device's name for it"),
        ("size", "word", "bytes of a variable, 0 for code"),
        ("flags", "i32", "low three bits: 0 kernel or variable, 1 managed variable, 2 surface, 3 texture"),
        ("data", "i32", "further data"),
    )


def openmp_descriptor_layout(word: int) -> Layout:
    """Return the layout of what OpenMP's runtime is given (``__tgt_bin_desc``)."""
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "OpenMP descriptor",
        word,
        ("image_count", "u32", "how many images there are"),
        *padding,
        ("images", "word", f"{_ADDRESS}their records"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}what stands behind the last one"),
    )


def openmp_image_layout(word: int) -> Layout:
    """Return the layout of an image that OpenMP's runtime is given (``__tgt_device_image``)."""
    return _layout(
        "OpenMP image",
        word,
        ("image_begin", "word", f"{_ADDRESS}its bytes; up to LLVM 17 of the container around it"),
        ("image_end", "word", f"{_ADDRESS}what stands behind them"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}what stands behind the last one"),
    )


def sycl_descriptor_layout(word: int) -> Layout:
    """Return the layout of what SYCL's runtime is given (``__sycl.tgt_bin_desc``) up to LLVM 22."""
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "SYCL descriptor",
        word,
        ("version", "u16", "1"),
        ("image_count", "u16", "how many images there are"),
        *padding,
        ("images", "word", f"{_ADDRESS}their records"),
        ("entries_begin", "word", "0: each image has entries of its own"),
        ("entries_end", "word", "0"),
    )


def sycl_image_layout(word: int, version: int) -> Layout:
    """Return the layout of an image that SYCL's runtime is given (``__sycl.tgt_device_image``)."""
    manifest = (
        ("manifest_begin", "word", f"{_ADDRESS}the manifest"),
        ("manifest_end", "word", f"{_ADDRESS}what stands behind it"),
    )
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "SYCL image",
        word,
        ("version", "u16", "3; 1 or 2 by older DPC++"),
        ("kind", "u8", "8 SYCL; 4 by DPC++"),
        ("format", "u8", "what the bytes are, as far as it is said"),
        *padding,
        ("target", "word", f"{_ADDRESS}the name of the target"),
        ("compile_options", "word", f"{_ADDRESS}options to compile with"),
        ("link_options", "word", f"{_ADDRESS}options to link with"),
        *(manifest if WITH_MANIFEST.get(version) else ()),
        ("image_begin", "word", f"{_ADDRESS}its bytes"),
        ("image_end", "word", f"{_ADDRESS}what stands behind them"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}what stands behind the last one"),
        ("properties_begin", "word", f"{_ADDRESS}the first set of properties"),
        ("properties_end", "word", f"{_ADDRESS}what stands behind the last one"),
    )


def constructor_layout(word: int) -> Layout:
    """Return the layout of what says that a function runs before main."""
    return _layout("constructor", word, ("function", "word", f"{_ADDRESS}a function that runs before main"))


def is_address(doc: str) -> bool:
    """Return whether a field with this meaning holds an address."""
    return doc.startswith(_ADDRESS)


def is_string(doc: str) -> bool:
    """Return whether a field with this meaning holds the address of a string."""
    return doc.startswith(_STRINGS)
