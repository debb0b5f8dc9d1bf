"""Types of parameters for click: how a text is read, what help calls it, and the words that shells offer on TAB."""

from __future__ import annotations

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from click.shell_completion import CompletionItem

    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.scanner.results import FoundImage

    Type = click.ParamType[Any]
else:
    Type = click.ParamType  # click 8.1 has no brackets here


#: LIMIT: seconds in which files are read for TAB; the user waits for it.
_PATIENCE = 0.5

#: LIMIT: bytes that are decompressed for TAB.
_MOST_INFLATED = 64 << 20

#: LIMIT: files of a command line that are read for TAB.
_MOST_FILES = 8

#: Characters of names that are offered. A name with any other is not: a file must not decide what a shell runs.
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+-")


class StringType(Type):
    """Any text, and the base of all types here."""

    name = "text"

    @property
    def metavar(self) -> str:
        """The word of help for a value, for an option that has none of its own."""
        return self.name.upper()

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        """Return the word of help for the value of an option; an argument has its name. Click 8.1 passes no context."""
        return None if isinstance(param, click.Argument) else self.metavar

    def value(self, text: str) -> object:
        """Return the value that a text is read as. Raises ValueError, which says what is wrong."""
        return text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return the value that a text is read as; click reports what is wrong with it."""
        try:
            return self.value(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def offered(self, text: str, typed: Typed) -> Iterable[CompletionItem[str]]:
        """Return the words that begin with a text, as whole words."""
        return ()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the words that a shell offers for a value that was begun."""
        return list(self.offered(incomplete, Typed.of(ctx)))


class Typed:
    """Values of a command line in front of the cursor, by the names of parameters, and the files among them."""

    def __init__(self, values: Mapping[str, Sequence[str]], files: Sequence[str]) -> None:
        self.values, self.files = values, files

    @classmethod
    def of(cls, ctx: click.Context) -> Typed:
        """Return the values that a context has.

        Where an option waits for its value, click leaves the words of arguments in ``args``.
        """
        values: dict[str, Sequence[str]] = {}
        files: list[str] = []
        for param in ctx.command.params:
            given = ctx.params.get(param.name or "")
            texts = [each for each in (given if isinstance(given, tuple) else (given,)) if isinstance(each, str)]
            if isinstance(param, click.Argument) and not texts and ctx.args:
                texts = list(ctx.args)
            if texts:
                values[param.name or ""] = texts
            if isinstance(param, click.Argument) and isinstance(param.type, FileType):
                files += texts
        return cls(values, list(dict.fromkeys(files)))

    def held(self, what: str) -> Iterable[str] | None:
        """Return what the files hold: every ``arch``, for example; None if that cannot be told."""
        if not what or not self.files:
            return None
        return values_in_files(what, self.files)


class FileType(StringType):
    """A ``file`` or ``dir``, which shells complete. It may be missing: opening it reports that."""

    def __init__(self, name: str) -> None:
        self.name = name

    def offered(self, text: str, typed: Typed) -> Iterable[CompletionItem[str]]:
        """Leave it to the shell."""
        return [_item(text, self.name)]


class InputType(FileType):
    """A file that is read, or a URL; messages print URLs without secrets."""

    def value(self, text: str) -> str:
        """Return a path as it is, and a URL as what ``open_source`` takes. Raises UsageError for another URL."""
        if "://" not in text:
            return text
        from fatpack.io.open import resolve_url

        return resolve_url(text)


class SuggestionType(StringType):
    """One of some words, or several with commas between them. Any other word is taken too.

    ``held`` is the property of images in the files of the command line whose values are offered, as ``arch``; with
    ``beside`` the other words are offered too. ``given`` returns the words where they depend on the values in front of
    the cursor. ``marked`` are words that begin with a mark, by the mark: they are looked up only after it was typed.
    ``accepted`` selects the values of files that the option takes.
    """

    def __init__(
        self,
        words: Callable[[], Iterable[str]],
        held: str = "",
        *,
        beside: bool = False,
        given: Callable[[Mapping[str, Sequence[str]]], Iterable[str]] | None = None,
        marked: Mapping[str, Callable[[], Iterable[str]]] | None = None,
        accepted: Callable[[Iterable[str]], Iterable[str]] | None = None,
    ) -> None:
        self.words, self.held, self.beside = words, held, beside
        self.accepted = accepted
        self.given, self.marked = given, marked or {}

    def offered(self, text: str, typed: Typed) -> Iterator[CompletionItem[str]]:
        """Yield words for the last of the words with commas between them."""
        before, comma, last = text.rpartition(",")
        before += comma
        if self.held and not self.beside and last.startswith("!"):
            before, last = f"{before}!", last[1:]
        words = self.marked[last[0]]() if last[:1] in self.marked else self._known(typed)
        for word in words:
            if word.startswith(last):
                yield _item(before + word)

    def _known(self, typed: Typed) -> Iterable[str]:
        """Return the words that files hold, that depend on other values, or that are known."""
        found = typed.held(self.held)
        if found is not None and not self.beside:
            return found
        if found is not None and self.accepted:
            found = self.accepted(found)
        known = self.given(typed.values) if self.given else self.words()
        return known if found is None else dict.fromkeys((*found, *known))


class ChoiceListType(SuggestionType):
    """One of a few words, or several with commas between them, and no other."""

    def __init__(self, words: Iterable[str]) -> None:
        self._taken = tuple(words)
        super().__init__(lambda: self._taken)

    @property
    def metavar(self) -> str:
        """The words, as help has them."""
        return f"{'|'.join(self._taken)},…"

    def value(self, text: str) -> tuple[str, ...]:
        """Return the words. Raises ValueError for any other."""
        words = tuple(text.split(","))
        for word in words:
            if word not in self._taken:
                raise ValueError(f"{word!r} is not one of {', '.join(map(repr, self._taken))}.")
        return words


class PairsType(StringType):
    """Several ``key=value`` with commas between them; shells complete ``keys``, each with its type."""

    def __init__(self, keys: Mapping[str, StringType]) -> None:
        self.keys = keys

    def offered(self, text: str, typed: Typed) -> Iterator[CompletionItem[str]]:
        """Yield the keys that are not there yet, or values of the last one."""
        before, comma, last = text.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals:
            used = {each.partition("=")[0] for each in before.split(",")}
            for each in self.keys:
                if each.startswith(key) and each not in used:
                    yield _item(f"{before}{comma}{each}=")
        elif key in self.keys:
            for item in self.keys[key].offered(value, typed):
                yield after(f"{before}{comma}{key}=", item)


class ChoiceType(StringType):
    """One of some words, and no other; a function that returns the words is called when they are needed."""

    name = "choice"

    def __init__(self, words: Iterable[str] | Callable[[], Iterable[str]]) -> None:
        self._words = words if callable(words) else tuple(words)

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in the order of help."""
        return tuple(self._words() if callable(self._words) else self._words)

    @property
    def metavar(self) -> str:
        """The words, as help has them."""
        return f"[{'|'.join(self.words)}]"

    def value(self, text: str) -> str:
        """Return a word of the choice. Raises ValueError for any other."""
        if text not in self.words:
            raise ValueError(f"{text!r} is not one of {', '.join(map(repr, self.words))}.")
        return text

    def offered(self, text: str, typed: Typed) -> Iterable[CompletionItem[str]]:
        """Return the words."""
        return [_item(word) for word in self.words if word.startswith(text)]


class OffsetType(StringType):
    """A position in a file: 0x1a40 or 6720."""

    def value(self, text: str) -> int:
        """Return the position. Raises ValueError for a text that is no number."""
        try:
            return int(text, 0)
        except ValueError:
            raise ValueError(f"{text!r} is no number; write 0x1a40 or 6720") from None


class CountType(StringType):
    """A whole number of at least ``least`` and at most ``most``, which may be open: 4."""

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def value(self, text: str) -> int:
        """Return the number. Raises ValueError for a text that is no number, or one that is out of range."""
        wanted = f"of {self._least} or more" if self._most is None else f"from {self._least} to {self._most}"
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < self._least or (self._most is not None and number > self._most):
            raise ValueError(f"{text!r} is no whole number {wanted}")
        return number


class SizeType(StringType):
    """A number of bytes above zero, as :func:`fatpack.printable.parse_size` reads it: 1048576, 800MiB, 850MB or 1G."""

    def value(self, text: str) -> int:
        """Return the number of bytes. Raises ValueError for a text that is no size."""
        from fatpack.printable import parse_size

        size = parse_size(text)
        if not size:
            raise ValueError(f"{text!r} is no size above zero")
        return size


def after(before: str, item: CompletionItem[str]) -> CompletionItem[str]:
    """Return an answer for the end of a word as one for the whole word.

    The name of a file stays as it was typed, for the shell to complete; what is in front of it goes into ``help``.
    """
    if item.type == "plain":
        return _item(before + item.value)
    return _item(item.value, item.type, before + (item.help or ""))


def _item(value: str, kind: str = "plain", help: str = "") -> CompletionItem[str]:
    from click.shell_completion import CompletionItem

    return CompletionItem(value, kind, help)


def values_in_files(key: str, files: Sequence[str], patience: float = _PATIENCE) -> list[str] | None:
    """Return every ``arch``, ``triple``, ``offload``, ``form``, ``kernel`` or bundle ``id`` in files, sorted.

    None if a file cannot be read, contains none, or takes longer than ``patience`` seconds. Words that name no file,
    such as an output that does not exist yet, are skipped.
    """
    files = [word for word in files[:_MOST_FILES] if _may_be_file(word)]
    if not files:
        return None  # before anything is loaded that reads files
    from time import monotonic

    from fatpack.errors import FatpackError
    from fatpack.limits import raised_budget

    deadline = monotonic() + patience
    words: set[str] = set()
    try:
        with raised_budget(inflated=_MOST_INFLATED):
            for word in files:
                for found in _values_per_image(word, key):
                    words.update(found)
                    if monotonic() > deadline:
                        return None
    except (FatpackError, OSError, MemoryError):
        return None
    return sorted(word for word in words if word and _HARMLESS.issuperset(word)) or None


def _path(word: str) -> str:
    """Return the path of a word; shells pass ``~`` and ``$HOME`` as they were typed."""
    import os

    path = os.path.expanduser(word)
    return path if "$" not in path or os.path.exists(path) else os.path.expandvars(path)


def _may_be_file(word: str) -> bool:
    """Return whether a word may be the path of a file, or the address of a member of one."""
    import os

    whole = _path(word)
    return any(os.path.isfile(part) for part in (whole, *(whole.partition(mark)[0] for mark in "(!#")))


def _values_per_image(word: str, key: str) -> Iterator[tuple[str, ...]]:
    """Yield the values for each image of a file, or of a member that an address names; only regular files are read."""
    import os
    import stat

    from fatpack.scanner import scan
    from fatpack.scanner.results import FoundContainer
    from fatpack.scanner.standalone_images import standalone_image
    from fatpack.selectors.address import find_location, open_file, parse_address

    address = parse_address(_path(word), ranges=True, packages=True)
    if "://" in word or not stat.S_ISREG(os.stat(address.path).st_mode):
        return
    source, address = open_file(address)
    with source:
        view = find_location(source.view(), address).view
        alone = standalone_image(view)
        if alone is not None:
            yield _standalone_values(view, alone, key)
            return
        for item in scan(view, checks_registration=False):
            if isinstance(item, FoundContainer):
                yield from (_image_values(image, key) for image in item.images)


def _standalone_values(view: View, image: ImageInfo, key: str) -> tuple[str, ...]:
    """Return the values for an image that is a file of its own, from its own header."""
    from fatpack.scanner.results import kernel_names

    if key == "kernel":
        return kernel_names(view, image.form)
    return (str(getattr(image, key, "")),)


def _image_values(image: FoundImage, key: str) -> tuple[str, ...]:
    """Return the values for an image of a container."""
    if key == "kernel":
        return image.kernel_names
    if key == "id":
        from fatpack.selectors.bundle_id_match import image_id

        return (image_id(image.as_stored),)
    return (image.form if key == "form" else str(getattr(image.target, key) or ""),)


def _targets() -> Iterable[str]:
    from fatpack.targets import all_names

    return all_names()


def _devices() -> Iterable[str]:
    from fatpack.targets import device_arch_names

    return device_arch_names()


def _required() -> Iterable[str]:
    """Return the words of ``check --require``: devices, and PTX."""
    return (*_devices(), *(name for name in _targets() if name.startswith("compute_")))


def _with_known_processors(known: Callable[[], Iterable[str]]) -> Callable[[Iterable[str]], Iterable[str]]:
    """Return a filter that keeps the target IDs whose processors are known."""

    def keep(words: Iterable[str]) -> Iterable[str]:
        names = frozenset(known())
        return [word for word in words if word.partition(":")[0] in names]

    return keep


def _triples() -> Iterable[str]:
    """Return the triples of devices that compilers write, up to LLVM 22."""
    return (
        "nvptx64-nvidia-cuda",
        "amdgcn-amd-amdhsa",
        "spirv64-amd-amdhsa",
        "spirv64-unknown-unknown",
        "spir64-unknown-unknown",
    )


def _forms() -> Iterable[str]:
    from fatpack.images import EXTENSIONS

    return filter(None, EXTENSIONS)


STRING = StringType()
FILE = FileType("file")
INPUT = InputType("file")
DIRECTORY = FileType("dir")
#: A device, or its name as a target: the architectures of the files come first, and others are offered too.
TARGET = SuggestionType(_targets, held="arch", beside=True)
#: A device, but no name that only images are compiled for.
ONLY_DEVICE = SuggestionType(_devices, held="arch", beside=True, accepted=_with_known_processors(_devices))
#: The same, or the GPU of this machine.
DEVICE = SuggestionType(
    lambda: ("this-machine", *_devices()), held="arch", beside=True, accepted=_with_known_processors(_devices)
)
#: A requirement of a policy; words that begin with a mark are added where the option is declared.
REQUIRED = SuggestionType(_required, held="arch", beside=True, accepted=_with_known_processors(_required))
#: A target of images that are there, and not of a device.
FILE_TARGET = SuggestionType(_targets, held="arch")
TRIPLE = SuggestionType(_triples, held="triple")
KERNEL = SuggestionType(lambda: (), held="kernel")
BUNDLE_ID = SuggestionType(lambda: (), held="id")
HOST_TRIPLE = SuggestionType(
    lambda: ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc")
)
IMAGE = PairsType(
    {
        "file": FILE,
        "triple": TRIPLE,
        "arch": FILE_TARGET,
        "kind": SuggestionType(lambda: ("cuda", "hip", "openmp", "sycl", "host", "elf", "ptx", "nvvm", "tileir")),
        "id": STRING,
    }
)
FORM = SuggestionType(_forms, held="form")
OFFLOAD = SuggestionType(lambda: ("cuda", "hip", "openmp", "sycl", "host"), held="offload")
