"""Comparison of device code: every container, every image, and every byte of its ranges."""

from __future__ import annotations

from bisect import bisect_left

from fatpack import magic_numbers
from fatpack.errors import LimitExceeded, format_hex
from fatpack.proof import containers
from fatpack.proof.containers.fatbin import HEADER_SIZE, fatbin_size, has_known_kind
from fatpack.proof.ledger import ChangedRange, ProvedContainer, ProvedImage, find_range, merge_ranges, subtract_ranges
from fatpack.proof.records import changed_containers, check_dangling_pointers, check_dangling_words, find_records
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.proof import ProgramPair
    from fatpack.proof.containers.model import ProofContainer, ProofImage
    from fatpack.proof.ledger import ContainerFate, DifferenceLog, Range
    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.records import MovedPair, RecordPointer, ZeroedImages


# One container in both files: its kept and dropped images.


def match_images(
    old: ProofContainer, new: ProofContainer | None, records: tuple[int, ...], ledger: DifferenceLog
) -> tuple[ProvedContainer, list[ProvedImage], list[ProvedImage]]:
    """Return a container with its state after the edit, and its kept and dropped images.

    Images keep their order. A new or changed image is a difference.
    """
    kept: list[ProvedImage] = []
    dropped: list[ProvedImage] = []
    at = 0
    places = _ImagePlaces(old.images)
    for image in () if new is None else new.images:
        found, recompressed = places.find(image, at)
        if found is None:
            address = None if new is None else new.start
            ledger.differ("image", address=address, expected="one of the container's images", found=image.title)
            continue
        dropped += [_proved_image(item, old) for item in old.images[at:found]]
        kept.append(_proved_image(old.images[found], old, recompressed=recompressed))
        at = found + 1
    dropped += [_proved_image(item, old) for item in old.images[at:]]
    if new is not None:
        heads = [f"{each.kind} {each.head.hex()}" for each in (old, new)]
        ledger.same("kind and head of a container", *heads, address=new.start)
    size = 0 if new is None else new.end - new.start
    fact = ProvedContainer(
        old.kind, old.start, old.end - old.start, new.start if new else None, size, _fate(old, new), records
    )
    return fact, kept, dropped


def _fate(old: ProofContainer, new: ProofContainer | None) -> ContainerFate:
    if new is None:
        return "dropped"
    if len(new.images) == len(old.images):
        return "kept" if new.start == old.start else "moved"
    return "reduced" if any(image.size for image in new.images) else "emptied"


class _ImagePlaces:
    """The positions of images in a container, by their stored bytes, or else by their decompressed bytes."""

    def __init__(self, images: Sequence[ProofImage]) -> None:
        self._images = images
        self._stored: dict[object, list[int]] = {}
        for number, image in enumerate(images):
            self._stored.setdefault((image.rest, image.size, image.digest), []).append(number)
        self._inflated: dict[object, list[int]] | None = None

    def find(self, image: ProofImage, at: int) -> tuple[int | None, bool]:
        """Return the number of an equal image, at least ``at``, and whether its compression differs."""
        found = _next(self._stored.get((image.rest, image.size, image.digest)), at)
        content = None if found is not None or image.content is None else image.content()
        if content is None:
            return found, False
        if self._inflated is None:
            self._inflated = {}
            for number, each in enumerate(self._images):
                self._inflated.setdefault(each.content() if each.content else None, []).append(number)
        return _next(self._inflated.get(content), at), True


def _next(numbers: list[int] | None, at: int) -> int | None:
    """Return the first of some ascending numbers that is not below ``at``."""
    place = bisect_left(numbers or (), at)
    return numbers[place] if numbers and place < len(numbers) else None


def _proved_image(image: ProofImage, container: ProofContainer, *, recompressed: bool = False) -> ProvedImage:
    return ProvedImage(image.title, container.start, image.size, image.digest, image.is_inflated, recompressed)


#: LIMIT: containers of a program without a record. Device links leave a few, static libraries none.
_MAX_UNREGISTERED = 1 << 16

#: Containers begin at a multiple of this.
_ALIGN = 8


class DeviceCodeComparison(Record):
    """The results of the comparison of device code that the other comparisons need.

    ``ranges`` held device code, ``words`` may differ in the records and their relocations; both are in order. ``moves``
    maps the old address of a moved or resized container to its old size, and its new address and size. ``gone`` are the
    old places of changed containers.
    """

    ranges: Sequence[Range]
    words: Sequence[Range]
    changed: tuple[ChangedRange, ...]
    moves: Mapping[int, tuple[int, int, int]]
    containers: tuple[ProvedContainer, ...]
    kept: tuple[ProvedImage, ...]
    dropped: tuple[ProvedImage, ...]
    erased: Sequence[Range] = ()
    gone: Sequence[Range] = ()

    def with_described(self, described: ZeroedImages) -> DeviceCodeComparison:
        """Return the same with images that records describe one by one; ``erased`` are images that are zeros now."""
        changed = [ChangedRange(start, end, "image of a record, zeros now") for start, end in described.ranges]
        return self.replace(
            changed=(*self.changed, *changed),
            kept=(*self.kept, *described.kept),
            dropped=(*self.dropped, *described.dropped),
            erased=described.ranges,
        )


class _ContainerReader:
    """Reads the containers of one file once each."""

    def __init__(self, memory: ProgramMemory, ranges: Sequence[Range]) -> None:
        self.memory = memory
        self.ranges = ranges
        self._known: dict[int, ProofContainer | None] = {}

    def at(self, address: int) -> ProofContainer | None:
        """Return the container at an address, None if none can be read there."""
        if address not in self._known:
            where = find_range(address, self.ranges)
            loaded = self.memory.loaded_range(address)
            end = where[1] if where else loaded.end if loaded else address
            self._known[address] = containers.read_container(self.memory, address, end)
        return self._known[address]

    def others(self, excluded: Sequence[Range]) -> list[ProofContainer]:
        """Return the containers of the ranges outside ``excluded``, in order."""
        found = []
        for start, end in subtract_ranges(self.ranges, excluded):
            at = self.memory.first_byte(start, end)
            while at < end:
                at += -at % _ALIGN
                container = containers.read_container(self.memory, at, end) if at < end else None
                if container is None:
                    break  # other bytes follow, which must be unchanged
                found.append(container)
                if len(found) > _MAX_UNREGISTERED:
                    raise LimitExceeded(
                        f"more than {_MAX_UNREGISTERED} containers without a record",
                        expected=f"at most {_MAX_UNREGISTERED}",
                        chain=self.memory.view.chain,
                    )
                at = self.memory.first_byte(container.end, end)
        return found


def _changed_in_data(before: ProgramMemory, after: ProgramMemory, excluded: Sequence[Range]) -> dict[int, MovedPair]:
    """Return the fat binaries in a program's own data that have another header now, by address: before and after.

    ``excluded`` are code, and device code that is compared apart. Each is at the address where it was, and of a known
    kind; any other is data, which must be unchanged. What lies in a fat binary with the same header is no container:
    its bytes must be unchanged, too.
    """
    found: dict[int, MovedPair] = {}
    for loaded in before.loaded_ranges:
        for start, end in subtract_ranges([(loaded.start, loaded.filled)], excluded):
            part = before.view.slice(loaded.at + start - loaded.start, end - start)
            at = part.find(magic_numbers.FATBIN)
            while at >= 0:
                address, stop = start + at, start + at + max(fatbin_size(part.head(at, HEADER_SIZE)), 4)
                is_place = address % _ALIGN == 0 and HEADER_SIZE <= stop - address <= end - address
                if is_place and before.read(address, HEADER_SIZE) != after.read(address, HEADER_SIZE):
                    old = containers.read_container(before, address, stop)
                    new = containers.read_container(after, address, stop)
                    if old is not None and new is not None and all(map(has_known_kind, old.images)):
                        found[address] = old, new
                if len(found) > _MAX_UNREGISTERED:
                    raise LimitExceeded(
                        f"more than {_MAX_UNREGISTERED} containers in data changed",
                        expected=f"at most {_MAX_UNREGISTERED}",
                        chain=before.view.chain,
                    )
                at = part.find(magic_numbers.FATBIN, stop - start if is_place else at + 4)
    return found


def compare_device_code(
    pair: ProgramPair, sections: Sequence[Range], moved: Sequence[Range], code: Sequence[Range] = ()
) -> DeviceCodeComparison:
    """Compare the device code of two files.

    ``sections`` are the ranges of the first file's sections of device code, ``moved`` the ranges in them that the
    second file uses for moved tables, and ``code`` those of its instructions. Raises LimitExceeded if device code
    exceeds the limits on decompression.
    """
    before, after, resolve, ledger = pair.before, pair.after, pair.resolve, pair.ledger
    old_pointers = find_records(before, sections, resolve)
    old = _ContainerReader(before, sections)
    registered = _registered_containers(old, old_pointers)
    ranges = merge_ranges([*sections, *((item.start, item.end) for item in registered.values())])
    new_pointers = resolve(after, registered.keys())
    new = _ContainerReader(after, ranges)
    pairs, records = _pairs(registered, new_pointers, new, ledger)

    unregistered = old.others(merge_ranges((item.start, item.end) for item, _ in pairs.values()))
    registered_ranges = merge_ranges((item.start, item.end) for _, item in pairs.values() if item is not None)
    matched = _match_in_order(unregistered, new.others(registered_ranges))
    check_dangling_words(
        before, ranges, [*matched.values(), *(pairs.values() if before.is_fixed else ())], registered.keys(), ledger
    )
    in_data = _changed_in_data(before, after, merge_ranges([*ranges, *code]))
    ranges = merge_ranges([*ranges, *((old_one.start, old_one.end) for old_one, _ in in_data.values())])
    if before.is_fixed:
        check_dangling_words(before, ranges, [*in_data.values()], registered.keys(), ledger)
    pairs |= matched | in_data
    gone = changed_containers(pairs.values())
    check_dangling_pointers(before, gone, registered.keys(), ranges, pair.find_pointers, ledger)
    _check_overlaps([item for _, item in pairs.values() if item is not None], ledger)

    facts, kept, dropped, moves = [], [], [], {}
    for start, (container, new_container) in sorted(pairs.items()):
        fact, kept_images, dropped_images = match_images(container, new_container, records.get(start, ()), ledger)
        facts.append(fact)
        kept += kept_images
        dropped += dropped_images
        if new_container is not None and start not in in_data:
            moves[start] = (container.end - start, new_container.start, new_container.end - new_container.start)
    _check_between_containers(before, after, ranges, pairs, moved, ledger)
    words = _changed_words(before, after, registered, old_pointers, new_pointers, ledger)
    changed = [ChangedRange(start, end, "device code") for start, end in ranges]
    changed += [ChangedRange(start, end, "pointer to device code") for start, end in words]
    return DeviceCodeComparison(
        ranges, words, tuple(changed), moves, tuple(facts), tuple(kept), tuple(dropped), gone=gone
    )


def _registered_containers(
    reader: _ContainerReader, pointers: Mapping[int, RecordPointer]
) -> dict[int, ProofContainer]:
    """Return the containers to which pointers lead, by the address of the pointer."""
    found = {}
    for place, pointer in pointers.items():
        container = None if pointer.value is None else reader.at(pointer.value)
        if container is not None:
            found[place] = container
    return found


def _pairs(
    registered: Mapping[int, ProofContainer],
    new_pointers: Mapping[int, RecordPointer],
    new: _ContainerReader,
    ledger: DifferenceLog,
) -> tuple[dict[int, MovedPair], dict[int, tuple[int, ...]]]:
    """Return each registered container before and after, and its records, both by its old address."""
    pairs: dict[int, MovedPair] = {}
    records: dict[int, list[int]] = {}
    for place, container in registered.items():
        value = new_pointers[place].value
        new_container = None if value is None or not find_range(value, new.ranges) else new.at(value)
        earlier = pairs.get(container.start, (container, None))[1]
        if new_container is None:
            found = "no pointer" if value is None else format_hex(value)
            expected = f"the address of the {container.kind} that was at {format_hex(container.start)}"
            ledger.differ("pointer of a record", address=place, expected=expected, found=found)
        elif earlier is not None and earlier.start != new_container.start:
            ledger.differ("pointer to a container", address=place, expected=earlier.start, found=new_container.start)
        pairs[container.start] = container, new_container or earlier
        records.setdefault(container.start, []).append(place)
    return pairs, {start: tuple(places) for start, places in records.items()}


def _match_in_order(old: Sequence[ProofContainer], new: Sequence[ProofContainer]) -> dict[int, MovedPair]:
    """Return the containers without a record before and after, by old address: matched by images and order.

    An additional container in the new file remains unmatched, and its bytes are a difference then.
    """
    pairs: dict[int, MovedPair] = {container.start: (container, None) for container in old}
    contents = [{(image.rest, image.digest) for image in container.images} for container in old]
    at = 0
    for container in new:
        images = {(image.rest, image.digest) for image in container.images}
        while at < len(old) and not (container.kind == old[at].kind and images <= contents[at]):
            at += 1
        if at == len(old):
            break
        pairs[old[at].start] = old[at], container
        at += 1
    return pairs


def _check_overlaps(found: Sequence[ProofContainer], ledger: DifferenceLog) -> None:
    last = None
    for container in sorted(found, key=lambda item: item.start):
        if last is not None and container.start < last.end:
            ledger.differ("containers overlap", address=container.start, expected=f"from {format_hex(last.end)} on")
        last = container


def _check_between_containers(
    before: ProgramMemory,
    after: ProgramMemory,
    ranges: Sequence[Range],
    pairs: Mapping[int, MovedPair],
    moved: Sequence[Range],
    ledger: DifferenceLog,
) -> None:
    """Check the bytes of device code's ranges outside containers: bytes that were outside stay, others are zero."""
    old = merge_ranges((item.start, item.end) for item, _ in pairs.values())
    new = merge_ranges([*((item.start, item.end) for _, item in pairs.values() if item is not None), *moved])
    for start, end in subtract_ranges(ranges, new):
        for low, high in subtract_ranges([(start, end)], old):
            _same_or_zero(before, after, low, high, ledger)
        for low, high in _common((start, end), old):
            at = after.first_byte(low, high)
            if at < high:
                ledger.differ("bytes that are in no container", address=at, expected="zeros")
    for low, high in subtract_ranges(_newly_covered(new, ranges), old):
        if any(any(data) for _, data in before.windows(low, high)) and not _is_same(before, after, low, high):
            ledger.differ("bytes beside containers are overwritten", address=low, expected="what was there")


def _common(part: Range, ranges: Sequence[Range]) -> list[Range]:
    return subtract_ranges([part], subtract_ranges([part], ranges))


def _newly_covered(new: Sequence[Range], ranges: Sequence[Range]) -> list[Range]:
    return [item for part in ranges for item in _common(part, new)]


def _is_same(before: ProgramMemory, after: ProgramMemory, start: int, end: int) -> bool:
    return all(after.read(address, len(data)) == data for address, data in before.windows(start, end))


def _same_or_zero(before: ProgramMemory, after: ProgramMemory, start: int, end: int, ledger: DifferenceLog) -> None:
    """Check bytes that were outside containers: they are unchanged, except that zeros may be removed."""
    for low, high, loaded in before.parts(start, end):
        if loaded is None:
            continue
        at = before.first_byte(low, high)
        if at == high:
            at = after.first_byte(low, high)
            if at < high:
                ledger.differ("bytes between containers", address=at, expected="zeros")
        elif not _is_same(before, after, low, high):
            ledger.differ("bytes between containers", address=at, expected="what was there")


def _changed_words(
    before: ProgramMemory,
    after: ProgramMemory,
    registered: Mapping[int, ProofContainer],
    old_pointers: Mapping[int, RecordPointer],
    new_pointers: Mapping[int, RecordPointer],
    ledger: DifferenceLog,
) -> list[Range]:
    """Return the words that may differ: those in place, and addends of relocations; their values are checked.

    All else of the tables of relocations is compared as memory, so the same relocations are in both files.
    """
    words = []
    for place in registered:
        old, new = old_pointers[place], new_pointers[place]
        words.append((place, place + before.word))
        if old.addend is None:
            continue
        words.append((old.addend[0], old.addend[0] + old.addend[1]))
        # The word in place is overwritten when the program is loaded: it is unchanged, or equals the pointer's value.
        allowed = {old.in_place, None if new.value is None else new.value + before.base}
        if new.in_place not in allowed:
            ledger.differ("word in place of a pointer", address=place, expected=old.in_place, found=new.in_place)
    return merge_ranges(words)
