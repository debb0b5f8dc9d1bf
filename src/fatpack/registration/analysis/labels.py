"""Layouts of registration records, field by field, for ``--at``, ``--bytes`` and annotations.

Fields with pointers have the type of the host's word. In the file they are often zero, because relocations hold their
targets. Sources: ``crt/host_runtime.h`` of CUDA 13.0 and clang/lib/CodeGen/CGCUDANV.cpp for the wrapper;
llvm/include/llvm/Frontend/Offloading/Utility.h and OffloadWrapper.cpp (LLVM 14 to 23) for the others; intel/llvm's
ClangOffloadWrapper.cpp for the images of versions 1 and 2.
"""

from __future__ import annotations

from fatpack.errors import format_hex
from fatpack.layout import Field, Layout
from fatpack.registration.analysis import entries, model
from fatpack.registration.analysis.descriptors import WITH_MANIFEST, find_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.binary.memory import HostMemory
    from fatpack.model import Label

    LabelledPart = tuple[int, str, Layout]
    """The address of a record, its title, and its fields."""


FORMAT = "registration"

_MAGIC = "magic"

#: prefix of the meaning of fields with addresses (their type is the host's word), and prefixes of those with strings
_ADDRESS = "address of "
_STRINGS = tuple(f"{_ADDRESS}{what}" for what in ("the device's name", "the name of", "options"))


def _layout(name: str, word: int, *fields: tuple[str, str, str]) -> Layout:
    types = {"word": f"u{8 * word}"}
    shown = {_MAGIC: format_hex}
    rows = [Field(title, types.get(type, type), doc, shown.get(title)) for title, type, doc in fields]
    return Layout(FORMAT, name, rows)


def wrapper_layout(word: int) -> Layout:
    """Return the layout of a record that points to a container of CUDA or HIP."""
    return _layout(
        "wrapper",
        word,
        (_MAGIC, "u32", "0x466243b1 for CUDA, 0x48495046 for HIP"),
        ("version", "u32", "1; 2 if nvcc's device link wrote it"),
        ("container", "word", f"{_ADDRESS}the fat binary or bundle"),
        ("prelinked", "word", f"{_ADDRESS}a list of prelinked fat binaries in version 2, 0 in others"),
    )


def new_entry_layout(word: int) -> Layout:
    """Return the layout of an offload entry of LLVM 21 and newer."""
    return _layout(
        "offload entry",
        word,
        ("reserved", "u64", "0; older entries have an address here"),
        ("version", "u16", "1"),
        ("kind", "u16", "1 OpenMP, 2 CUDA, 4 HIP, 8 SYCL"),
        ("flags", "u32", "low three bits: 0 kernel or variable, 1 managed variable, 2 surface, 3 texture"),
        ("address", "word", f"{_ADDRESS}the kernel's stub or the variable on the host"),
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
        ("address", "word", f"{_ADDRESS}the kernel's stub or the variable on the host"),
        ("name", "word", f"{_ADDRESS}the device's name for it"),
        ("size", "word", "bytes of a variable, 0 for code"),
        ("flags", "i32", "low three bits: 0 kernel or variable, 1 managed variable, 2 surface, 3 texture"),
        ("data", "i32", "further data"),
    )


def openmp_descriptor_layout(word: int) -> Layout:
    """Return the layout of the descriptor for OpenMP's runtime (``__tgt_bin_desc``)."""
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "OpenMP descriptor",
        word,
        ("image_count", "u32", "number of images"),
        *padding,
        ("images", "word", f"{_ADDRESS}their records"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}the end of the last offload entry"),
    )


def openmp_image_layout(word: int) -> Layout:
    """Return the layout of the record of an OpenMP image (``__tgt_device_image``)."""
    return _layout(
        "OpenMP image",
        word,
        ("image_begin", "word", f"{_ADDRESS}its bytes; up to LLVM 17 of the container around it"),
        ("image_end", "word", f"{_ADDRESS}the end of its bytes"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}the end of the last offload entry"),
    )


def sycl_descriptor_layout(word: int) -> Layout:
    """Return the layout of the descriptor for SYCL's runtime (``__sycl.tgt_bin_desc``) up to LLVM 22."""
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "SYCL descriptor",
        word,
        ("version", "u16", "1"),
        ("image_count", "u16", "number of images"),
        *padding,
        ("images", "word", f"{_ADDRESS}their records"),
        ("entries_begin", "word", "0: each image has entries of its own"),
        ("entries_end", "word", "0"),
    )


def sycl_image_layout(word: int, version: int) -> Layout:
    """Return the layout of the record of a SYCL image (``__sycl.tgt_device_image``)."""
    manifest = (
        ("manifest_begin", "word", f"{_ADDRESS}the manifest"),
        ("manifest_end", "word", f"{_ADDRESS}the end of the manifest"),
    )
    padding = (("padding", "u32", "0"),) if word == 8 else ()
    return _layout(
        "SYCL image",
        word,
        ("version", "u16", "3; 1 or 2 by older DPC++"),
        ("kind", "u8", "8 SYCL; 4 by DPC++"),
        ("format", "u8", "format of the bytes; 0 if unknown"),
        *padding,
        ("target", "word", f"{_ADDRESS}the name of the target"),
        ("compile_options", "word", f"{_ADDRESS}options to compile with"),
        ("link_options", "word", f"{_ADDRESS}options to link with"),
        *(manifest if WITH_MANIFEST.get(version) else ()),
        ("image_begin", "word", f"{_ADDRESS}its bytes"),
        ("image_end", "word", f"{_ADDRESS}the end of its bytes"),
        ("entries_begin", "word", f"{_ADDRESS}the first offload entry"),
        ("entries_end", "word", f"{_ADDRESS}the end of the last offload entry"),
        ("properties_begin", "word", f"{_ADDRESS}the first set of properties"),
        ("properties_end", "word", f"{_ADDRESS}the end of the last set of properties"),
    )


def constructor_layout(word: int) -> Layout:
    """Return the layout of a pointer to a function that runs before main."""
    return _layout("constructor", word, ("function", "word", f"{_ADDRESS}a function that runs before main"))


def is_address(doc: str) -> bool:
    """Return whether a field with this meaning holds an address."""
    return doc.startswith(_ADDRESS)


def is_string(doc: str) -> bool:
    """Return whether a field with this meaning holds the address of a string."""
    return doc.startswith(_STRINGS)


# Annotations of the bytes of registration: records, descriptors, offload entries, pointers to constructors.
#
# The value of a pointer is its value at run time, with the symbol or section at that address: the file often has zeros.

#: prefixes of the names of sections with pointers to constructors
_CONSTRUCTORS = (".init_array", ".ctors", ".CRT")


def label_records(file: HostMemory) -> Iterator[Label]:
    """Yield the labels of all records in a host file, in the order of their bytes, without overlaps."""
    names = {each.address: each.name for each in file.symbols if each.name}
    reached = 0
    for place, title, fields in sorted(_placed(file), key=lambda part: part[0]):
        if place < reached or place + fields.size > len(file.view):
            continue
        reached = place + fields.size
        yield from _labels(file, place, title, fields, names)


def _placed(file: HostMemory) -> Iterator[LabelledPart]:
    """Yield the records that have bytes in the file, with their places."""
    for address, title, fields in _parts(file):
        place = file.place(address)
        if place:
            yield place, title, fields


def _parts(file: HostMemory) -> Iterator[LabelledPart]:
    word = file.word
    wrapper, constructor = wrapper_layout(word), constructor_layout(word)
    sycl: dict[int, Layout] = {}
    for number, record in enumerate(model.find_wrappers(file)):
        yield record.at, f"record[{number}]", wrapper
    tables = list(entries.find_entry_tables(file))
    new, old = new_entry_layout(word), old_entry_layout(word)
    for number, entry in enumerate(entry for table in tables for entry in table.entries):
        yield entry.at, f"entry[{number}]", new if entry.layout in entries.NEW else old
    for number, descriptor in enumerate(find_descriptors(file, tables)):
        is_openmp = descriptor.model == "openmp"
        yield (
            descriptor.at,
            f"descriptor[{number}]",
            openmp_descriptor_layout(word) if is_openmp else sycl_descriptor_layout(word),
        )
        for index, image in enumerate(descriptor.images):
            fields = openmp_image_layout(word) if is_openmp else sycl.get(image.version)
            if fields is None:
                fields = sycl[image.version] = sycl_image_layout(word, image.version)
            yield image.at, f"descriptor[{number}].image[{index}]", fields
    # In PE images any word that points to a function may be a constructor: only those in known sections are labelled.
    running = (each for each in file.constructors() if each.section.startswith(_CONSTRUCTORS))
    for number, each in enumerate(running):
        yield each.place, f"constructor[{number}]", constructor


def _labels(file: HostMemory, place: int, title: str, fields: Layout, names: Mapping[int, str]) -> Iterator[Label]:
    view = file.view
    for label in fields.labels(view, place, title):
        if not is_address(label.doc):
            yield label
            continue
        address = file.address_of(label.span.start - view.start)
        target = file.pointer_at(address) if address is not None else None
        if target is not None:
            yield label.replace(value=_words(file, target, names, is_string=is_string(label.doc)))
        else:
            yield label


def _words(file: HostMemory, target: int, names: Mapping[int, str], *, is_string: bool) -> str:
    """Return the text for an address: the string or name there, and its place in the file."""
    if not target:
        return "0"
    text = file.string_at(target) if is_string else ""
    name = file.undefined.get(target) or names.get(target, "")
    place = file.place(target)
    where = f"offset {file.view.offset(place):#x}" if place else ""
    function = file.function_at(target)
    if not name and function is not None and function.start == target:
        name = function.name
    words = ", ".join(word for word in (f'"{text}"' if text else name, where) if word)
    shown = f"{target:#x}" if file.is_linked else ""
    return f"{shown}: {words}" if shown and words else words or shown
