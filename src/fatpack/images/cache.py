"""Facts of images that earlier commands read, kept in the folder of ``FATPACK_CACHE``: they need not be inflated again.

The key of an image is a SHA-256 of its stored bytes, of how they are inflated, of the place of the image in what they
inflate to, of all limits, and of fatpack's version and files. So an answer is the one that reading the image gives.
Images with a finding are not kept: reading them again finds it again, with its place in the file at hand.

=============  ========================================================================================================
kept           images that are inflated: entries of CUDA fat binaries, images in bundles and kpack archives. What is
               not compressed is read as ever: its SHA-256 takes longer than its tables.
not kept       images with contradictions, damage, or a limit that was reached; the bytes of images
charged        the inflated bytes that reading took are charged to the budget of the command as if it had read them
=============  ========================================================================================================

Commands with ``--no-cache`` ask the cache: ``inspect``, ``report``, ``check``, ``diff`` and ``explain``. The others
never do, among them ``doctor`` and all that edits, packs or proves.
"""

from __future__ import annotations

import json
import os
import zlib
from hashlib import sha256

import fatpack
from fatpack import images, limits
from fatpack.images.identification import ImageInfo
from fatpack.images.kernel import KernelInfo, KernelNeeds
from fatpack.io.cache_folder import CacheFolder
from fatpack.io.inflated import InflatedSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias, TypeVar

    from fatpack.io.source import View

    T = TypeVar("T")
    #: what a value becomes in JSON (None: it is not kept), and the value of it
    _Codec: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]

#: LIMIT: bytes of the facts of one image, as text.
_MOST_TEXT = 64 << 20


class CacheInEffect:
    """A context in which facts of images are kept in a folder."""

    def __init__(self, path: str) -> None:
        self._cache = ImageCache(CacheFolder(path))

    def __enter__(self) -> None:
        images.caches.append(self._cache)

    def __exit__(self, *_: object) -> None:
        images.caches.pop()


class ImageCache:
    """Facts of images by the stored bytes of these."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder = folder
        self._fatpack = _files_of_fatpack()
        #: the image that was asked for last, its key and its records
        self._latest: tuple[tuple[InflatedSource, int, int] | None, bytes, dict[bytes, bytes]] = (None, b"", {})

    def recall(self, what: str, question: str, view: View, read: Callable[[], T]) -> T:
        """Return what ``read`` returns for an image: kept from before, or read and kept.

        ``what`` is a key of :data:`_CODECS`, ``question`` what of it was asked. Raises the errors of ``read``.
        """
        source = view.source
        if not isinstance(source, InflatedSource):
            return read()
        place = source, view.start, view.end
        latest = self._latest  # another thread may ask for another image
        if latest[0] != place:
            stored = source.stored_digest()
            if stored is None:
                return read()
            key = self._key(stored, view)
            self._latest = latest = place, key, self._folder.read(key)
        _, key, records = latest
        name = f"{what} {question}".encode("utf-8", "surrogateescape")
        pack, unpack = _CODECS[what]
        answer: T
        if name in records:
            try:
                taken, kept = _parsed(records[name])
                answer = unpack(kept)
                if _charge(source, taken):
                    return answer
            except ValueError:
                self._folder.forget(key)
                records.clear()
        answer = read()
        packed, drawn = pack(answer), _drawn(source)
        if packed is not None and drawn is not None:
            body = zlib.compress(json.dumps([drawn, packed], separators=(",", ":")).encode(), 1)
            records[name] = body
            self._folder.add(key, name, body)
        return answer

    def _key(self, stored: bytes, view: View) -> bytes:
        words = f"{self._fatpack} {limits.current_limits()} {view.start} {view.end} ".encode()
        return sha256(words + stored).digest()


def _files_of_fatpack() -> str:
    """Return a text that is another one for each version of fatpack, and for each change of its files."""
    stamps = [fatpack.__version__]
    for path in fatpack.__path__:
        stamps.extend(sorted(_stamps(path)))
    return sha256("\n".join(stamps).encode("utf-8", "surrogateescape")).hexdigest()


def _stamps(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _stamps(entry.path)
    except NotADirectoryError:
        return  # imported from an archive, whose version says all


def _drawn(source: InflatedSource) -> int | None:
    """Return the bytes that were charged for inflating a source; None if they cannot be told."""
    stored = source.stored
    if stored is None:
        return None
    drawn = stored.source.charged(stored.start)
    return drawn if drawn or source.size <= limits.INFLATED_AT_ONCE else None


def _charge(source: InflatedSource, drawn: int) -> bool:
    stored = source.stored
    return stored is not None and stored.source.charge(stored.start, drawn)


# The form of facts in records: JSON, because a file may say anything.


class _NotKept(ValueError):
    """A record that has another form than the one that is written: that of another program, or forged."""


def _parsed(body: bytes) -> tuple[int, Any]:
    """Return the two parts of a record. Raises _NotKept."""
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(body, _MOST_TEXT)
        if inflating.unconsumed_tail:
            raise _NotKept
        drawn, kept = json.loads(text)
    except (zlib.error, TypeError, RecursionError):
        raise _NotKept from None
    if type(drawn) is not int or drawn < 0:
        raise _NotKept
    return drawn, kept


def _checked(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise _NotKept
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple([_checked(item, str) for item in _checked(value, list)])


def _same(value: Any) -> Any:
    return value


_NONE = type(None)


def _packed_info(info: ImageInfo) -> list[Any]:
    return list(info._values())


def _info(kept: Any) -> ImageInfo:
    form, arch, triple, size, detail, container = _of_length(kept, 6)
    for text in (form, arch, triple, detail, container):
        _checked(text, str)
    return ImageInfo(form, arch, triple, _checked(size, int, _NONE), detail, container)


def _of_length(value: Any, count: int) -> list[Any]:
    if type(value) is not list or len(value) != count:
        raise _NotKept
    return value


#: fields of a kernel that are no number: the types of their values in a record; all may be None, except the name
_FIELDS = KernelNeeds._fields
_TYPES: dict[str, type] = {
    "name": str,
    "has_dynamic_stack": bool,
    "body": str,
    "constants": str,
    "required_threads": list,
    "cluster": list,
}
_BANKS = _FIELDS.index("constants")


def _packed_facts(facts: KernelInfo) -> list[Any] | None:
    """Return the kernels as columns, None for one without values: 150,000 kernels have 20 fields, mostly unused."""
    if facts.contradictions:
        return None
    rows: list[tuple[Any, ...]] = [kernel._values() for kernel in facts.kernels]
    rows = [(*row[:_BANKS], _banks_text(row[_BANKS]), *row[_BANKS + 1 :]) for row in rows]
    columns = [None if all(value is None for value in column) else column for column in zip(*rows, strict=True)]
    return [len(rows), columns, facts.made_by]


def _facts(kept: Any) -> KernelInfo:
    count, columns, made_by = _of_length(kept, 3)
    if not columns and count == 0:
        return KernelInfo((), _texts(made_by))
    named = zip(_FIELDS, _of_length(columns, len(_FIELDS)), strict=True)
    rows = zip(*[_column(name, column, _checked(count, int)) for name, column in named], strict=True)
    return KernelInfo(tuple([KernelNeeds(*row) for row in rows]), _texts(made_by))


def _column(name: str, column: Any, count: int) -> list[Any]:
    if column is None and name != "name":
        return [None] * count
    values = _of_length(column, count)
    kind = _TYPES.get(name, int)
    if not set(map(type, values)) <= ({kind} if name == "name" else {kind, _NONE}):
        raise _NotKept
    if name == "constants":
        banks = {text: _banks(text) for text in set(values)}
        return [banks[text] for text in values]
    if kind is list:
        return [None if value is None else tuple([_checked(size, int) for size in value]) for value in values]
    return values


def _banks_text(banks: tuple[tuple[int, int], ...] | None) -> str | None:
    """Return numbers and sizes of constant banks as one text: the kernels of a unit mostly have the same."""
    return None if banks is None else " ".join([f"{bank} {size}" for bank, size in banks])


def _banks(text: str | None) -> tuple[tuple[int, int], ...] | None:
    if text is None:
        return None
    numbers = [int(word) for word in text.split(" ")] if text else []
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _pairs(value: Any, *kinds: type) -> dict[str, Any]:
    """Return a dictionary with texts as keys, and values of some types."""
    if set(map(type, _checked(value, dict).values())) <= set(kinds):
        found: dict[str, Any] = value
        return found
    raise _NotKept


def _packed_functions(found: tuple[dict[str, bytes], list[bytes]]) -> list[Any]:
    digests, rest = found
    return [{name: digest.hex() for name, digest in digests.items()}, [part.hex() for part in rest]]


def _functions(kept: Any) -> tuple[dict[str, bytes], list[bytes]]:
    digests, rest = _of_length(kept, 2)
    by_name = {name: bytes.fromhex(digest) for name, digest in _pairs(digests, str).items()}
    return by_name, [bytes.fromhex(part) for part in _texts(rest)]


def _codes(kept: Any) -> tuple[dict[str, str], str | None]:
    codes, data = _of_length(kept, 2)
    return _pairs(codes, str), _checked(data, str, _NONE)


#: what is kept of an image → its two forms
_CODECS: dict[str, _Codec] = {
    "info": (_packed_info, _info),
    "names": (_same, _texts),
    "facts": (_packed_facts, _facts),
    "sizes": (_same, lambda kept: _pairs(kept, int, _NONE)),
    "codes": (list, _codes),
    "functions": (_packed_functions, _functions),
    "sha256": (_same, lambda kept: _checked(kept, str)),
    "digest": (lambda found: [found], lambda kept: _checked(*_of_length(kept, 1), str, _NONE)),
    "traces": (_same, _texts),
}
