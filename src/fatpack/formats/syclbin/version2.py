"""Reader of version 2: an offload binary whose entries have roles.

Roles, numbers and sizes have the same checks as in DPC++ (``SYCLBIN::readV2``), which refuses the whole file for any
fault. Here the images are listed, and such faults are reported.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary.layout import OffloadBinaryEntry, layouts_for_order, stored_header
from fatpack.formats.syclbin.layout import (
    AM_METADATA,
    GLOBAL_METADATA,
    IMAGE_KINDS,
    IR,
    NATIVE,
    PAYLOAD,
    ROLES,
    SYCLBIN_FORMAT,
    VERSION_2,
    AbstractModule,
    SyclbinContents,
    SyclbinEntry,
    SyclbinHeader,
    syclbin_errors,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Span, View
    from fatpack.model import Container, Image

#: Strings of an entry that are searched for its role: DPC++ writes five.
_MOST_STRINGS = 64
#: Bytes of a key that is compared, with its NUL, and of its value.
_LONGEST = 24

_LAYOUTS = layouts_for_order("little")


def detect_version2(view: View, at: int) -> bool:
    """Return whether an offload binary starts at ``at`` whose first entry has an image kind and a role of SYCLBIN.

    Reads a bounded number of bytes; the result is false for a compressed binary.
    """
    head = view.head(at, _LAYOUTS.header[3].size)
    version = int.from_bytes(head[4:8], "little")
    if version not in (2, 3) or len(head) < _LAYOUTS.header[version].size:
        return False
    _, _, _, place, count, *inflated = _LAYOUTS.header[version].struct.unpack_from(head)
    entry = view.head(at + place, _LAYOUTS.entry.size)
    if not count or any(inflated) or len(entry) < _LAYOUTS.entry.size:
        return False
    kind, _, _, strings_at, strings, _, _ = _LAYOUTS.entry.struct.unpack(entry)
    if kind not in IMAGE_KINDS:
        return False
    layout = _LAYOUTS.strings[version]
    table = view.head(at + strings_at, min(strings, _MOST_STRINGS) * layout.size)
    keys: dict[bytes, bytes] = {}
    for key_at, value_at, size in layout.struct.iter_unpack(table[: len(table) // layout.size * layout.size]):
        key = view.head(at + key_at, _LONGEST).partition(b"\0")[0]
        keys[key] = view.head(at + value_at, min(size, _LONGEST))
    # An image of SPIR-V may have any strings: with that kind, a SYCLBIN version is required too.
    return keys.get(b"role") in _STORED_ROLES and (kind == IMAGE_KINDS[0] or b"sycl_format_version" in keys)


_STORED_ROLES = tuple(role.encode() for role in ROLES)


def read_version2(view: View, at: int) -> tuple[SyclbinHeader, list[SyclbinEntry], SyclbinContents]:
    """Return the contents of the file at ``at``, its images in stored order.

    An unreadable image is reported and omitted. Raises the errors of reading the offload binary, and Unsupported for an
    unknown version of SYCLBIN.
    """
    try:
        outer = offload_binary.parse(view, at)
    except FormatError as error:
        error.format = SYCLBIN_FORMAT
        raise
    return _EntryReader(outer).result()


class _EntryReader:
    """Roles and numbers of the entries of one file."""

    def __init__(self, outer: Container) -> None:
        self._outer = outer
        self._body = stored_header(outer).body
        self.contents = SyclbinContents(self._body)
        self._faults = self.contents.faults
        self._global: View | None = None
        self._modules: dict[int, View] = {}
        self._entries: list[SyclbinEntry] = []

    def result(self) -> tuple[SyclbinHeader, list[SyclbinEntry], SyclbinContents]:
        for number, image in enumerate(self._outer.images):
            self._take(number, image)
        if self._global is None:
            self._note(self._outer.span, "no entry has the role global_metadata, and DPC++ refuses the file")
        numbers = {entry.module for entry in self._entries if entry.module is not None}
        last = max((*numbers, *self._modules), default=-1)
        missing = [number for number in range(last + 1) if number not in self._modules]
        if missing:
            text = f"no entry has the role am_metadata for am_index {missing[0]}, and DPC++ refuses the file"
            self._note(self._outer.span, text)
        state = None if self._global is None else self.contents.state(self._global)
        modules = tuple(AbstractModule(number, text) for number, text in sorted(self._modules.items()))
        return SyclbinHeader(self._body, self._global, state, modules, outer=self._outer), self._entries, self.contents

    def _take(self, number: int, image: Image) -> None:
        role, stored = image.attrs.get("role", ""), image.record
        name = f"entry[{number}]"
        kind = stored.image_kind if isinstance(stored, OffloadBinaryEntry) else 0
        version = image.attrs.get("sycl_format_version", "")
        if role == GLOBAL_METADATA and version not in ("", VERSION_2):
            hint = f"fatpack reads version {VERSION_2}"
            raise syclbin_errors.unsupported(image.data, 0, f"sycl_format_version {version!r}", hint)
        if kind not in IMAGE_KINDS or role not in ROLES:
            has = f"role {role!r}" if kind in IMAGE_KINDS else f"image kind {kind}"
            self._note(self._place(number), f"{name} has {has}, and DPC++ refuses the file")
            role = ""
        if role == GLOBAL_METADATA:
            if self._global is not None:
                self._note(self._place(number), f"{name} is global metadata, which another entry is too")
            else:
                self._global = image.data
            return
        module = self._number(number, image) if role else None
        if role == AM_METADATA:
            if module in self._modules:
                self._note(self._place(number), f"{name} is metadata of abstract module {module}, as another entry is")
            elif module is not None:
                self._modules[module] = image.data
            return
        self._add(number, image, role, module)

    def _add(self, number: int, image: Image, role: str, module: int | None) -> None:
        data, name = image.data, f"entry[{number}]"
        metadata = data.slice(0, 0)
        if role in (IR, NATIVE):
            size = PAYLOAD.read(data, 0)[0] if len(data) >= PAYLOAD.size else 0
            if PAYLOAD.size + size > len(data):
                problem = f"{size} bytes of metadata" if len(data) >= PAYLOAD.size else "no size of its metadata"
                error = syclbin_errors.value(
                    data, 0, f"{name} metadata_size", f"{problem} in an image of {len(data)} bytes"
                )
                self._faults.add_error("FP1801", error, data.span())
                return
            metadata = data.slice(PAYLOAD.size, size)
            data = data.slice(PAYLOAD.size + size, len(data) - PAYLOAD.size - size)
        self._entries.append(SyclbinEntry(role, module, metadata, data, number, image))

    def _number(self, number: int, image: Image) -> int | None:
        """Return the abstract module of an entry, None if it has no valid one."""
        text = image.attrs.get("am_index", "")
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) < len(self._outer.images):
            return int(text)
        self._note(self._place(number), f"entry[{number}] has am_index {text!r}, and DPC++ refuses the file")
        return None

    def _place(self, number: int) -> Span:
        header = stored_header(self._outer)
        size = layouts_for_order(header.order).entry.size
        return header.body.span(header.entry_offset + number * size, size)

    def _note(self, span: Span, text: str) -> None:
        self._faults.add_warning("FP1803", span, text)
