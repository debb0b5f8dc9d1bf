"""What a value may be: how help calls it, how its text is read, and the words that a shell offers for it on TAB."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Text:
    """Any text, and what all kinds of values have in common."""

    #: What help and messages call a value.
    name = "text"

    @property
    def metavar(self) -> str:
        """How help writes a value of an option that says nothing else."""
        return self.name.upper()

    def value(self, text: str) -> object:
        """Return what a text stands for. Raises ValueError, which says what is wrong."""
        return text


class FileName(Text):
    """A ``file`` or ``dir``, completed by the shell. Whether it is there is seen, and said, by who opens it."""

    def __init__(self, name: str) -> None:
        self.name = name


class InputName(FileName):
    """A file that is read: also a URL, of which messages print what holds no secrets."""

    def value(self, text: str) -> str:
        """Return a path as it is, and a URL as what ``open_source`` takes. Raises UsageError for another URL."""
        if "://" not in text:
            return text
        from fatpack.io.sources.opening import located

        return located(text)


class Words(Text):
    """One of some words, or several with commas between them. Any other word is taken too.

    Of an argument that takes many words, ``then`` is the kind of those behind the first; ``options`` are the options
    of what the first one names, and ``value_of`` says what the value of one of these may be. ``held`` says what of the
    images in the files of the command is meant: then a shell offers what these hold, and with ``beside`` the other
    words too. ``given`` are the words in the place of ``words`` where they depend on what was typed in front: values by
    the names of options and arguments. ``marked`` are words that begin with a mark, by it: they are looked up where it
    was typed. ``accepted`` leaves those of the words that files hold that are taken.
    """

    def __init__(
        self,
        words: Callable[[], Iterable[str]],
        then: Text | None = None,
        held: str = "",
        *,
        beside: bool = False,
        given: Callable[[Mapping[str, Sequence[str]]], Iterable[str]] | None = None,
        options: Callable[[str], Iterable[str]] | None = None,
        value_of: Callable[[str, str], Text | None] | None = None,
        marked: Mapping[str, Callable[[], Iterable[str]]] | None = None,
        accepted: Callable[[Iterable[str]], Iterable[str]] | None = None,
    ) -> None:
        self.accepted = accepted
        self.words, self.then, self.held, self.beside = words, then, held, beside
        self.given, self.options, self.value_of, self.marked = given, options, value_of, marked or {}


class Several(Words):
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


class Pairs(Text):
    """Several ``key=value`` with commas between them; ``keys`` are those that shells offer, with what each may be."""

    def __init__(self, keys: Mapping[str, Text]) -> None:
        self.keys = keys


class Choice(Text):
    """One of some words, and no other; a function of them is called where they are asked for."""

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


class Number(Text):
    """A whole number, with a lowest and a highest one where they are given."""

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        self.low, self.high = low, high
        self.name = "integer range" if self.range else "integer"

    @property
    def range(self) -> str:
        """The numbers that are taken, as help has them; empty if all are."""
        if self.low is None:
            return "" if self.high is None else f"x<={self.high}"
        return f"x>={self.low}" if self.high is None else f"{self.low}<=x<={self.high}"

    def value(self, text: str) -> int:
        """Return the number. Raises ValueError for a text that is none, and for one outside of the range."""
        number = int(text)
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            raise ValueError(f"{text} is not in the range {self.range}.")
        return number


class Offset(Text):
    """A position in a file: 0x1a40 or 6720."""

    def value(self, text: str) -> int:
        """Return the position. Raises ValueError for a text that is no number."""
        try:
            return int(text, 0)
        except ValueError:
            raise ValueError(f"{text!r} is no number; write 0x1a40 or 6720") from None


class Size(Text):
    """A number of bytes above zero, as :func:`fatpack.words.sizes.size_of` reads it: 1048576, 800MiB, 850MB or 1G."""

    def value(self, text: str) -> int:
        """Return the number of bytes. Raises ValueError for a text that is no size."""
        from fatpack.words.sizes import size_of

        size = size_of(text)
        if not size:
            raise ValueError(f"{text!r} is no size above zero")
        return size


def _targets() -> Iterable[str]:
    from fatpack.target import listed_names

    return listed_names()


def _devices() -> Iterable[str]:
    from fatpack.target import listed_devices

    return listed_devices()


def _required() -> Iterable[str]:
    """Return what ``check --require`` takes: devices, and PTX."""
    return (*_devices(), *(name for name in _targets() if name.startswith("compute_")))


def _of(known: Callable[[], Iterable[str]]) -> Callable[[Iterable[str]], Iterable[str]]:
    """Return what leaves those of some target IDs whose processors are known."""

    def left(words: Iterable[str]) -> Iterable[str]:
        names = frozenset(known())
        return [word for word in words if word.partition(":")[0] in names]

    return left


def _triples() -> Iterable[str]:
    """Return the triples of devices that compilers write, those of LLVM 22 and before."""
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


TEXT = Text()
FILE = FileName("file")
INPUT = InputName("file")
DIRECTORY = FileName("dir")
#: A device, or what it is called as a target: what files hold comes first, and others are asked for too.
TARGET = Words(_targets, held="arch", beside=True)
#: The same where it must be a device, and none that only images are made for.
ONLY_DEVICE = Words(_devices, held="arch", beside=True, accepted=_of(_devices))
#: The same where the machine can be asked.
DEVICE = Words(lambda: ("this-machine", *_devices()), held="arch", beside=True, accepted=_of(_devices))
#: What a policy requires; the words that begin with a mark are added where it is declared.
REQUIRED = Words(_required, held="arch", beside=True, accepted=_of(_required))
#: A target of images that are there, and not of a device.
HELD_TARGET = Words(_targets, held="arch")
TRIPLE = Words(_triples, held="triple")
KERNEL = Words(lambda: (), held="kernel")
BUNDLE_ID = Words(lambda: (), held="id")
HOST_TRIPLE = Words(lambda: ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"))
IMAGE = Pairs(
    {
        "file": FILE,
        "triple": TRIPLE,
        "arch": HELD_TARGET,
        "kind": Words(lambda: ("cuda", "hip", "openmp", "sycl", "host", "elf", "ptx", "nvvm", "tileir")),
        "id": TEXT,
    }
)
FORM = Words(_forms, held="form")
OFFLOAD = Words(lambda: ("cuda", "hip", "openmp", "sycl", "host"), held="offload")
