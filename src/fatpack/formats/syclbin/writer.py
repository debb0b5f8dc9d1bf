"""What is written, whatever the version: images with role, abstract module and metadata, and the texts of modules."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import UsageError
from fatpack.formats.syclbin.properties import write_property_set
from fatpack.formats.syclbin.stored import NewModules, SyclbinEntry, SyclbinHeader
from fatpack.formats.syclbin.syclbin_layout import GLOBAL_SET, IR, IR_SET, IR_TYPES, NATIVE, NATIVE_SET, STATES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image

#: What a file is that states nothing: the default of ``clang -fsyclbin``.
STATE = "executable"


class SyclbinPart(Record):
    """An image to write: its role, its abstract module (None: of no module), and the text of its metadata."""

    image: Image
    role: str
    module: int | None
    metadata: Piece


def global_metadata(stored: SyclbinHeader | None, state: str | None) -> Piece:
    """Return the global metadata of a file in a state; what was read stays as it is while that is the same.

    Raises UsageError for a state that there is not.
    """
    numbers = {word: number for number, word in STATES.items()}
    state = state or (None if stored else STATE)
    number = numbers.get(state or "")
    if number is None and state is not None:
        if not (state.isascii() and state.isdigit() and len(state) < 10):
            raise UsageError(f"state {state!r} of a SYCLBIN file", hint=f"choose from {', '.join(numbers)}")
        number = int(state)
    if stored is not None and stored.global_metadata is not None and number == stored.state:
        return stored.global_metadata
    return write_property_set(GLOBAL_SET, [("state", number)] if number is not None else [])


def make_parts(images: Sequence[Image], first: int = 0, *, keeps_alone: bool = False) -> list[SyclbinPart]:
    """Return images with role and module, in the order of their modules; those of none come last.

    An image that names no module makes one of its own, numbered from ``first`` at least; with ``keeps_alone`` one that
    was read from a file in which it has none stays so. Raises UsageError for a role or a module that there is not.
    """
    found: list[SyclbinPart] = []
    numbers = [_number(image) for image in images]
    following = max((first - 1, *(number for number in numbers if number is not None))) + 1
    for image, number in zip(images, numbers, strict=True):
        entry = image.record if isinstance(image.record, SyclbinEntry) else None
        role = image.attrs.get("role") or (NATIVE if image.target.arch else IR)
        if role not in (IR, NATIVE):
            raise UsageError(f"role {role!r} of an image in a SYCLBIN file", hint=f"choose {IR} or {NATIVE}")
        module = number
        if module is None and not (keeps_alone and entry is not None):
            module, following = following, following + 1
        metadata = entry.metadata if entry is not None and entry.role == role else _metadata(image, role)
        found.append(SyclbinPart(image, role, module, metadata))
    return sorted(found, key=lambda part: (following if part.module is None else part.module, part.role != IR))


def _number(image: Image) -> int | None:
    text = image.attrs.get("am_index")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < limits.IMAGES):
        raise UsageError(f"am_index {text!r} of an image in a SYCLBIN file", hint="number abstract modules from 0 on")
    return int(text)


def ir_type(image: Image) -> int:
    """Return the number of the type of an IR module: what its attributes say, or else its form."""
    text = image.attrs.get("ir_type", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else IR_TYPES.get(image.form, 0)


def _metadata(image: Image, role: str) -> bytes:
    target = image.target
    if role == NATIVE:
        return write_property_set(NATIVE_SET, [("arch", target.arch), ("target", target.triple)])
    if target.arch:
        raise UsageError(
            f"an IR module in a SYCLBIN file is for no architecture, and this is for {target.arch}",
            hint="leave the architecture out, or store it as native code",
        )
    return write_property_set(IR_SET, [("type", ir_type(image)), ("target", target.triple)])


def module_texts(container: Container, parts: Sequence[SyclbinPart]) -> list[Piece]:
    """Return the texts of all abstract modules, by their numbers; those that nobody gave are empty."""
    record = container.record
    known: Mapping[int, Piece] = {}
    if isinstance(record, SyclbinHeader):
        known = {module.number: module.metadata for module in record.modules}
    elif isinstance(record, NewModules):
        known = record.metadata
    last = max((*known, *(part.module for part in parts if part.module is not None)), default=-1)
    return [known.get(number, b"") for number in range(last + 1)]


def group_by_module(parts: Sequence[SyclbinPart]) -> dict[int | None, list[SyclbinPart]]:
    """Return parts by their modules, in order."""
    groups: dict[int | None, list[SyclbinPart]] = {}
    for part in parts:
        groups.setdefault(part.module, []).append(part)
    return groups
