"""Device code of a PE image laid down again: its bytes, the pointers to it, and what becomes of freed bytes."""

from __future__ import annotations

from fatpack.binary.new_file import PieceList
from fatpack.binary.pe.checksum import compute_checksum
from fatpack.binary.pe.cuts import CannotShrinkPe, find_cuts, find_signature, header_patches
from fatpack.binary.pe.references import check_exports, check_relocations, pointer_patches, symbol_patches
from fatpack.binary.pe.shrinker import CERTIFICATES, CHECKSUM, LinkedPeImage
from fatpack.binary.shrink import AUTO, SHRINK, ZERO, ShrinkResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.binary.pe.cuts import PeCut
    from fatpack.binary.pe.shrinker import ChangedPeSection
    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest
    from fatpack.io.source import Piece, View


def shrink_pe(view: View, change: ShrinkRequest, *, mode: ShrinkMode = AUTO) -> ShrinkResult:
    """Return an image with new contents of loaded sections, as pieces.

    ``mode`` "shrink" takes freed bytes out of the file by whole units of FileAlignment and raises HostError where it
    cannot, "zero" leaves them as zeros, "auto" shrinks what it can; ``why`` of the answer then says what it could not.
    An image with a checksum is read once, for the new one. A signed image loses its signature if the change says so.

    Addresses in ``change`` include the image's base. Raises HostError for a change that would break the file,
    FormatError for a damaged one, UsageError for an index that is no section's.
    """
    image = LinkedPeImage(view)
    changed = image.changed(change.contents)
    unsigned = find_signature(image, drop=change.drop_signature)
    check_relocations(image, changed)
    check_exports(image, change.moves)
    patches = {
        **dict(pointer_patches(image, changed, change.pointers)),
        **dict(symbol_patches(image, changed, change.moves)),
    }
    found: list[PeCut] = []
    why = ""
    if mode != ZERO:
        try:
            found, headers, why = _planned(image, changed)
            patches |= headers
        except CannotShrinkPe as reason:
            if mode == SHRINK:
                hint = "mode zero leaves zeros where the device code was"
                raise image.refusal(f"the file cannot shrink: {reason}", hint) from None
            why = str(reason)
    entry = image.directory_at(CERTIFICATES)
    if unsigned[0] < unsigned[1] and entry is not None:
        patches[entry] = bytes(8)
    pieces = _laid(image, changed, found, patches, unsigned)
    gone = [(cut.start, cut.size) for cut in found]
    gone += [(unsigned[0], unsigned[1] - unsigned[0])] if unsigned[0] < unsigned[1] else []
    return ShrinkResult(pieces, SHRINK if found else ZERO, gone, why)


def _planned(image: LinkedPeImage, changed: Sequence[ChangedPeSection]) -> tuple[list[PeCut], dict[int, bytes], str]:
    """Return what is cut, the numbers in headers that change by it, and why nothing is. Raises Whole."""
    found = find_cuts(image, changed)
    if not found:
        return [], {}, f"no section loses as much as FileAlignment, {image.file_align} bytes"
    return found, dict(header_patches(image, found)), ""


def _laid(
    image: LinkedPeImage,
    changed: Sequence[ChangedPeSection],
    found: Sequence[PeCut],
    patches: Mapping[int, bytes],
    unsigned: tuple[int, int],
) -> list[Piece]:
    """Return the new file. Raises HostError where two changes meet."""
    place = image.optional_offset + CHECKSUM
    if not image.checksum:
        return _assembled(image, changed, found, patches, unsigned)
    number = compute_checksum(_assembled(image, changed, found, {**patches, place: bytes(4)}, unsigned))
    return _assembled(image, changed, found, {**patches, place: number.to_bytes(4, "little")}, unsigned)


def _assembled(
    image: LinkedPeImage,
    changed: Sequence[ChangedPeSection],
    found: Sequence[PeCut],
    patches: Mapping[int, bytes],
    unsigned: tuple[int, int],
) -> list[Piece]:
    cut = {each.changed.section.number: each.size for each in found}
    replaced: list[tuple[int, int, Sequence[Piece], int]] = [
        (at, at + len(data), [data], len(data)) for at, data in patches.items()
    ]
    for each in changed:
        stored = each.section.raw_size - cut.get(each.section.number, 0)
        replaced.append((each.section.raw_offset, each.end, each.pieces, stored))
    if unsigned[0] < unsigned[1]:
        replaced.append((*unsigned, [], 0))
    new = PieceList(image.view)
    at = 0
    for start, end, pieces, size in sorted(replaced, key=lambda each: each[:2]):
        if start < at:
            raise image.refusal(f"two changes meet at {image.at(start)}", "use a file as the linker wrote it")
        new.copy(at, start - at)
        stop = new.at + size
        new.put(pieces)
        new.fill(stop)
        at = end
    new.copy(at, len(image.view) - at)
    return new.finished()
