"""A module of LLVM IR that registers images with DPC++'s runtimes: globals and functions in the original's order.

Descriptors have DPC++'s layout: records of SYCL's images are those of version 2, with pointers to a manifest. Source:
``clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp`` of intel/llvm at 02bb9ec032e1; its test,
``clang/test/Driver/clang-offload-wrapper.c`` at 09c32095f881, is held by
``tests/tools/llvm/test_clang_offload_wrapper_dpcpp.py``.
"""

from __future__ import annotations

from fatpack.commands.wrap.dpcpp_images import DPCPP_KINDS, FORMATS
from fatpack.commands.wrap.ir import functions
from fatpack.commands.wrap.ir.text import ModuleText, element_pointer, global_name, quote_bytes
from fatpack.commands.wrap.objects import contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.wrap.dpcpp_images import DpcppImage
    from fatpack.commands.wrap.run import WrapHost
    from fatpack.io.source import Piece, View

_SYCL = "sycl"

#: The kind of offloading, and the versions, in the records of SYCL.
_KIND, _IMAGE_VERSION, _DESCRIPTOR_VERSION = 4, 2, 1

_ENTRY, _PROPERTY = "%__tgt_offload_entry", "%_pi_device_binary_property_struct"
_SET = "%_pi_device_binary_property_set_struct"
_ENTRY_TYPE = f"{_ENTRY} = type {{ ptr, ptr, i64, i32, i32 }}"
_PROPERTY_TYPES = (f"{_SET} = type {{ ptr, ptr, ptr }}", f"{_PROPERTY} = type {{ ptr, ptr, i32, i64 }}")

_IMAGE, _DESCRIPTOR = "%__tgt_device_image", "%__tgt_bin_desc"
_IMAGE_FIELDS = {False: "ptr, ptr, ptr, ptr", True: "i16, i8, i8, " + ", ".join(["ptr"] * 11)}
_DESCRIPTOR_FIELDS = {False: "i32, ptr, ptr, ptr", True: "i16, i16, ptr, ptr, ptr"}

#: The entries that compilers write for OpenMP, and what the linker makes of them.
_ENTRIES_SECTION = "omp_offloading_entries"
_START, _STOP = f"@__start_{_ENTRIES_SECTION}", f"@__stop_{_ENTRIES_SECTION}"

#: The prefix of an image's section name: a kind and a target follow.
_SECTION = "__CLANG_OFFLOAD_BUNDLE__"

#: The section with the addresses and sizes of all images of a linked program.
_PLACES = ".tgtimg"

_NULL = "ptr null"


def dpcpp_module(
    images: Sequence[DpcppImage], host: WrapHost, descriptor: str | None, *, has_functions: bool
) -> tuple[tuple[Piece, ...], tuple[str | DpcppImage, ...]]:
    """Return the text of the module, and the images and names that were added to it, in their order."""
    made = _Module(host, images)
    descriptors: dict[str, str] = {}
    for kind in DPCPP_KINDS:
        pack = [image for image in images if image.kind == kind]
        if pack:
            descriptors[kind] = made.descriptor(kind, pack, descriptor, has_places=has_functions)
    made.places()
    if has_functions and descriptors:
        made.registered(descriptors)
    return made.text.finished(), tuple(made.added)


class _Module:
    """The module under way: globals for each kind, then what runs."""

    def __init__(self, host: WrapHost, images: Sequence[DpcppImage]) -> None:
        self.text = ModuleText(host, "offload.wrapper.object")
        self.added: list[str | DpcppImage] = []
        self._places: list[str] = []
        self._has_bounds = False
        # Two layouts have the same name: LLVM puts a number after the second one.
        layouts = list(
            dict.fromkeys(kind == _SYCL for kind in DPCPP_KINDS if any(image.kind == kind for image in images))
        )
        self._image = {is_sycl: _IMAGE if not at else f"{_IMAGE}.{2 * at - 2}" for at, is_sycl in enumerate(layouts)}
        self._described = {
            is_sycl: _DESCRIPTOR if not at else f"{_DESCRIPTOR}.{2 * at - 1}" for at, is_sycl in enumerate(layouts)
        }
        types = [_ENTRY_TYPE, *_PROPERTY_TYPES]
        for is_sycl in layouts:
            types.append(f"{self._image[is_sycl]} = type {{ {_IMAGE_FIELDS[is_sycl]} }}")
            types.append(f"{self._described[is_sycl]} = type {{ {_DESCRIPTOR_FIELDS[is_sycl]} }}")
        self.text.types(*types)

    def descriptor(self, kind: str, images: Sequence[DpcppImage], called: str | None, *, has_places: bool) -> str:
        """Add the images of a kind and their descriptor, and return what it is called."""
        is_sycl, stem = kind == _SYCL, f".{kind}_offloading."
        bounds = f"{_NULL}, {_NULL}"
        if not is_sycl:
            self._bounds()
            bounds = f"ptr {_START}, ptr {_STOP}"
        records = []
        for number, image in enumerate(images):
            records.append(f"{self._image[is_sycl]} {{ {self._record(image, stem, number, bounds)} }}")
            if has_places:
                self._place(image.content, stem, number)
        table, count = self._fresh(f"{stem}device_images"), len(images)
        values = f"[{count} x {self._image[is_sycl]}] [{', '.join(records)}]"
        self.text.line(f"{table} = internal unnamed_addr constant {values}")
        symbol = self._fresh(stem + ("descriptor" if called is None else called))
        linkage = "internal constant" if called is None else "constant"
        head = f"i16 {_DESCRIPTOR_VERSION}, i16 {count}" if is_sycl else f"i32 {count}"
        self.text.line(f"{symbol} = {linkage} {self._described[is_sycl]} {{ {head}, ptr {table}, {bounds} }}")
        return symbol

    def places(self) -> None:
        """Keep the places of images in objects, where nothing refers to them."""
        if self._places:
            listed = ", ".join(f"ptr {symbol}" for symbol in self._places)
            section = 'section "llvm.metadata"'
            self.text.line(f"@llvm.used = appending global [{len(self._places)} x ptr] [{listed}], {section}")

    def registered(self, descriptors: dict[str, str]) -> None:
        """Add the functions that register all descriptors at the start of a program, and take them back at its end."""
        for verb, when in (("reg", "ctors"), ("unreg", "dtors")):
            self.text.runs(when, 1, *(f"{kind}.descriptor_{verb}" for kind in descriptors))
        self.text.line(functions.dpcpp_functions(descriptors, self.text.code))

    def _record(self, image: DpcppImage, stem: str, number: int, bounds: str) -> str:
        """Add all that an image has, and return the fields of its record; only those of SYCL point to all of it."""
        self.added.append(image)
        strings = (("target", image.target), ("opts.compile", image.compile_options), ("opts.link", image.link_options))
        pointers = [f"ptr {self._string(f'{stem}{word}.{number}', text)}" for word, text in strings]
        manifest = (_NULL, _NULL)
        if image.manifest is not None:
            manifest = self._data(f"{stem}{number}.manifest", [image.manifest])
        sets = self._sets(image)
        data = self._data(f"{stem}{number}.data", [image.content], _section(image))
        if image.kind != _SYCL:
            return ", ".join((*data, bounds))
        entries = self._entries(image.entries)
        head = f"i16 {_IMAGE_VERSION}, i8 {_KIND}, i8 {FORMATS.index(image.format)}"
        return ", ".join((head, *pointers, *manifest, *data, *entries, *sets))

    def _place(self, content: View, stem: str, number: int) -> None:
        """Add the place and size of an image to the table in which tools look for it."""
        symbol = global_name(self.text.fresh(f"{stem}{number}.info"))
        pair = f"[i64 ptrtoint (ptr {global_name(f'{stem}{number}.data')} to i64), i64 {len(content)}]"
        section = f'section "{_PLACES}", align 16'
        self.text.line(f"{symbol} = internal local_unnamed_addr constant [2 x i64] {pair}, {section}")
        self._places.append(symbol)

    def _bounds(self) -> None:
        """Add the bounds of all entries of a program, once."""
        if self._has_bounds:
            return
        self._has_bounds = True
        empty = f"[0 x {_ENTRY}] zeroinitializer"
        if self.text.host.file == "coff":
            # Linkers of COFF make no bounds: they sort sections by the text after the $.
            for symbol, suffix in ((_START, contents.COFF_START), (_STOP, contents.COFF_STOP)):
                self.text.line(f'{symbol} = weak_odr hidden constant {empty}, section "{_ENTRIES_SECTION}{suffix}"')
        else:
            self.text.line(f"{_START} = external hidden constant {_ENTRY}")
            self.text.line(f"{_STOP} = external hidden constant {_ENTRY}")
            # Without a section of that name the linker would make no bounds.
            dummy = "@__dummy.omp_offloading.entry"
            self.text.line(f'{dummy} = hidden constant {empty}, section "{_ENTRIES_SECTION}"')
        self.added += [_START[1:], _STOP[1:]]

    def _sets(self, image: DpcppImage) -> tuple[str, str]:
        if not image.property_sets:
            return _NULL, _NULL
        records = []
        for set_name, values in image.property_sets.items():
            begin, end = self._table([self._property(*item) for item in values.items()], _PROPERTY)
            called = self._string("SYCL_PropSetName", set_name)
            records.append(f"{_SET} {{ ptr {called}, {begin}, {end} }}")
        return self._table(records, _SET)

    def _property(self, key: str, value: int | bytes) -> str:
        """Add a property's name and bytes, and return its record: a number is stored in the field of the size."""
        called = self._string("prop", key)
        if isinstance(value, int):
            return f"{_PROPERTY} {{ ptr {called}, {_NULL}, i32 1, i64 {value} }}"
        begin, _ = self._data("prop_val", [value])
        return f"{_PROPERTY} {{ ptr {called}, {begin}, i32 2, i64 {len(value)} }}"

    def _entries(self, names: Sequence[str] | None) -> tuple[str, str]:
        if names is None:
            return _NULL, _NULL
        records = [
            f"{_ENTRY} {{ {_NULL}, ptr {self._string('__sycl_offload_entry_name', text)}, i64 0, i32 0, i32 0 }}"
            for text in names
        ]
        return self._array("__sycl_offload_entries_arr", records, _ENTRY)

    def _table(self, records: Sequence[str], element: str) -> tuple[str, str]:
        return self._array("__sycl_offload_prop_sets_arr", records, element) if records else (_NULL, _NULL)

    def _array(self, stem: str, records: Sequence[str], element: str) -> tuple[str, str]:
        """Add an array of records, and return pointers to its begin and end."""
        symbol = self._fresh(stem)
        values = f"[{', '.join(records)}]" if records else "zeroinitializer"
        self.text.line(f"{symbol} = internal constant [{len(records)} x {element}] {values}")
        return f"ptr {symbol}", element_pointer(len(records), symbol, len(records), element)

    def _data(self, stem: str, pieces: Sequence[Piece], section: str = "") -> tuple[str, str]:
        """Add bytes, and return pointers to their begin and end."""
        symbol = self.text.fresh(stem)
        size = sum(map(len, pieces))
        self.text.data(symbol, pieces, size, section, "unnamed_addr ")
        self.added.append(symbol)
        return f"ptr {global_name(symbol)}", element_pointer(size, global_name(symbol), size)

    def _string(self, stem: str, text: str) -> str:
        symbol = self.text.fresh(stem)
        self.text.text(symbol, text)
        self.added.append(symbol)
        return global_name(symbol)

    def _fresh(self, stem: str) -> str:
        """Return the name of a global that is added next."""
        symbol = self.text.fresh(stem)
        self.added.append(symbol)
        return global_name(symbol)


def _section(image: DpcppImage) -> str:
    if not image.target:
        return ""
    called = f"{_SECTION}{image.kind}-{image.target}"
    return f'section "{quote_bytes(called.encode("utf-8", "surrogateescape"))}"'
