"""The containers of a file as its text shows them: grouped by the place they share, and each image a row of words.

A library has thousands of containers, and a hostile file a hundred thousand: of each there is no more here than what is
printed of it.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import format_size
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

#: Kernel names shown on an image's line without ``-v``, and characters of each. Mangled names reach some thousands.
_KERNELS_SHOWN = 3
_NAME_SHOWN = 60


class NestedRows:
    """What stands below the row of an image: lines about it, from its record, and the containers in it."""

    __slots__ = ("image", "places", "said")

    def __init__(self) -> None:
        #: the record, its position, and whether it is in a fat object; what the container has said of the image
        self.image: tuple[dict[str, Any], str, bool] | None = None
        self.said: dict[str, Any] = {}
        self.places: ListingRows | None = None


class ContainerRows:
    """Containers of one format that follow each other in one place of a file."""

    __slots__ = (
        "below",
        "count",
        "first",
        "flavour",
        "format",
        "is_inflated",
        "key",
        "member",
        "numbers",
        "offset",
        "packed",
        "prefix",
        "records",
        "rows",
        "section",
        "size",
        "symbol_count",
        "version",
    )

    def __init__(self, key: tuple[Any, ...], prefix: str, first: int) -> None:
        self.key = key
        self.numbers, self.member, self.section, _, self.format, self.version = key
        self.prefix = prefix
        #: the number of the first container
        self.first = first
        self.offset: int | None = None
        self.flavour = ""
        self.count = self.size = self.symbol_count = 0
        #: methods of compression
        self.packed: set[str] = set()
        self.is_inflated = True
        #: the records of the containers, where more is shown of them
        self.records: list[dict[str, Any]] = []
        self.rows: list[Sequence[str]] = []
        #: number of a row → what stands below it
        self.below: dict[int, NestedRows] = {}

    def add(
        self, offset: int | None, size: int, attrs: Mapping[str, str], *, is_inflated: bool, symbol_count: int
    ) -> None:
        """Add a container; its images follow."""
        if not self.count:
            self.offset, self.flavour = offset, attrs.get("flavour", "")
        self.count += 1
        self.size += size
        self.symbol_count += symbol_count
        if attrs and "compression" in attrs:
            self.packed.add(attrs["compression"])
        if not is_inflated:
            self.is_inflated = False

    def add_image(
        self,
        number: int,
        index: int,
        offload: str,
        triple: str,
        arch: str,
        form: str,
        offset: int | None,
        compression: str | None,
        size: int,
        kernels: str,
    ) -> str:
        """Add an image of the container with a number, and return its position."""
        position = f"{self.prefix}{number}.{index}"
        row = (
            position,
            offload if offload != "none" else "-",
            triple or "-",
            arch or "-",
            form,
            f"at {offset:#x}" if offset is not None else compression or "-",
            _size_words(size),
            kernels,
        )
        if not "".join(row).isprintable():
            row = tuple(map(printable, row))  # type: ignore[assignment]
        self.rows.append(row)
        return position

    def below_last(self) -> NestedRows:
        """Return what stands below the last image."""
        return self.below.setdefault(len(self.rows) - 1, NestedRows())


class ListingRows:
    """The containers of a file, or of an image in one, in their order; positions in them start with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.places: list[ContainerRows] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, *key: Any) -> tuple[ContainerRows, int]:
        """Return the place of the next container, and its number.

        The key are the numbers and the name of its member, the name and the number of its section, format and version.
        """
        number = self._count
        self._count = number + 1
        if not self.places or self.places[-1].key != key:
            self.places.append(ContainerRows(key, self.prefix, number))
        return self.places[-1], number

    def repeated(self) -> set[str]:
        """Return the names that several members have."""
        return find_repeated_names((place.member, place.numbers) for place in self.places)


def member_numbers(item: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers that lead to the member which the record of a container, or of an image, is of."""
    return tuple(item.get("member_numbers", ()))


def find_repeated_names(members: Iterable[tuple[str | None, tuple[int, ...]]]) -> set[str]:
    """Return the names that several members have."""
    first: dict[str, tuple[int, ...]] = {}
    return {member for member, numbers in members if member and first.setdefault(member, numbers) != numbers}


def member_title(member: str | None, numbers: tuple[int, ...], repeated: Collection[str]) -> str:
    """Return the name of a member, with its number where others have it too, as it has to be addressed then."""
    name = member or ""
    return f"{name} {''.join(f'(#{number})' for number in numbers)}" if name in repeated else name


#: size → words: most images of a library have one of a few sizes, or so it seems to the reader of three digits
_WORDS: dict[int, str] = {}
_MOST_WORDS = 4096


def _size_words(size: int) -> str:
    words = _WORDS.get(size)
    if words is None:
        if len(_WORDS) >= _MOST_WORDS:
            _WORDS.clear()
        words = _WORDS[size] = format_size(size)
    return words


def kernel_summary(kernels: Sequence[str]) -> str:
    """Return how many kernels an image has and the names of the first, "" for none."""
    if not kernels:
        return ""
    shown = ", ".join(
        name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…" for name in kernels[:_KERNELS_SHOWN]
    )
    more = len(kernels) - _KERNELS_SHOWN
    return f"{pluralize(len(kernels), 'kernel')}: {shown}{f', … {more} more' if more > 0 else ''}"
