"""What the bytes of registration are: records, descriptors, offload entries, pointers to constructors, field by field.

Values of pointers are what they hold when the program runs, with the symbol or section that lies there: in the file
there is often nothing in their place.
"""

from __future__ import annotations

from fatpack.registration.analysis import entries, labels, wrappers
from fatpack.registration.analysis.descriptors import find_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.binary.memory import HostMemory
    from fatpack.layout import Layout
    from fatpack.model import Label

    LabelledPart = tuple[int, str, Layout]
    """The address of a record, what it is called, and its fields."""


#: what sections of pointers to constructors start with
_CONSTRUCTORS = (".init_array", ".ctors", ".CRT")


def label_records(file: HostMemory) -> Iterator[Label]:
    """Yield the labels of all records in a host file, in the order of their bytes, none over another."""
    names = {each.address: each.name for each in file.symbols if each.name}
    reached = 0
    for place, title, fields in sorted(_placed(file), key=lambda part: part[0]):
        if place < reached or place + fields.size > len(file.view):
            continue
        reached = place + fields.size
        yield from _labels(file, place, title, fields, names)


def _placed(file: HostMemory) -> Iterator[LabelledPart]:
    """Yield the records at the places in the file where they lie."""
    for address, title, fields in _parts(file):
        place = file.place(address)
        if place:
            yield place, title, fields


def _parts(file: HostMemory) -> Iterator[LabelledPart]:
    word = file.word
    wrapper, constructor = labels.wrapper_layout(word), labels.constructor_layout(word)
    sycl: dict[int, Layout] = {}
    for number, record in enumerate(wrappers.find_wrappers(file)):
        yield record.at, f"record[{number}]", wrapper
    tables = list(entries.find_entry_tables(file))
    new, old = labels.new_entry_layout(word), labels.old_entry_layout(word)
    for number, entry in enumerate(entry for table in tables for entry in table.entries):
        yield entry.at, f"entry[{number}]", new if entry.layout in entries.NEW else old
    for number, descriptor in enumerate(find_descriptors(file, tables)):
        is_openmp = descriptor.model == "openmp"
        yield (
            descriptor.at,
            f"descriptor[{number}]",
            labels.openmp_descriptor_layout(word) if is_openmp else labels.sycl_descriptor_layout(word),
        )
        for index, image in enumerate(descriptor.images):
            fields = labels.openmp_image_layout(word) if is_openmp else sycl.get(image.version)
            if fields is None:
                fields = sycl[image.version] = labels.sycl_image_layout(word, image.version)
            yield image.at, f"descriptor[{number}].image[{index}]", fields
    # In PE images any word that leads to a function may be one: those are not called so here.
    running = (each for each in file.constructors() if each.section.startswith(_CONSTRUCTORS))
    for number, each in enumerate(running):
        yield each.place, f"constructor[{number}]", constructor


def _labels(file: HostMemory, place: int, title: str, fields: Layout, names: Mapping[int, str]) -> Iterator[Label]:
    view = file.view
    for label in fields.labels(view, place, title):
        if not labels.is_address(label.doc):
            yield label
            continue
        address = file.address_of(label.span.start - view.start)
        target = file.pointer_at(address) if address is not None else None
        if target is not None:
            yield label.replace(value=_words(file, target, names, is_string=labels.is_string(label.doc)))
        else:
            yield label


def _words(file: HostMemory, target: int, names: Mapping[int, str], *, is_string: bool) -> str:
    """Return what lies at an address: a string or a name, and the place in the file."""
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
