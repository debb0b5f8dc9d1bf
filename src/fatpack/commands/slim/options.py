"""The options of slimming: what to keep, what to drop, how to write it, and how a changed package is called."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeAlias

    from fatpack.commands.slim.budget import SizeRequest
    from fatpack.commands.slim.policy import PlanReader, PlanWriter
    from fatpack.commands.slim.used import UseRequest
    from fatpack.io.source import View
    from fatpack.literals import KeepPtx, Recompression, SlimMode
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector
    from fatpack.targets.devices import Device

    StoreRule: TypeAlias = Literal["drop", "keep", "edit"]


#: LIMIT: characters of a default build tag; file names have room for 255 bytes in all
_LONGEST = 60


class NameChange(Record):
    """The name of a changed package differs from the old one by a build tag, a local version (wheels only), or both.

    Without both it is a build tag made of ``default``, which names the devices, or the patterns and the compression.
    """

    build_tag: str = ""
    local_version: str = ""
    default: str = ""

    @property
    def is_default(self) -> bool:
        """True if the build tag is made of the options, because none was given."""
        return bool(self.default) and not (self.build_tag or self.local_version)

    def for_options(self, options: SlimOptions) -> NameChange:
        """Return the same with a default tag: ``sm86.sm90`` for devices, ``keepsm90`` and ``nosm50`` for patterns."""
        archs = (device.arch.replace(":", "").replace("-", "off").replace("+", "on") for device in options.devices)
        words = dict.fromkeys(arch.replace("_", "") for arch in archs)
        for option, patterns in (("keep", options.keep), ("no", options.drop)):
            words.update({f"{option}{_of_tag(pattern)}": None for pattern in patterns if _of_tag(pattern)})
        if options.keep_ptx is not None:
            words[f"{'no' if options.keep_ptx == 'none' else options.keep_ptx}ptx"] = None
        if options.mode != "auto":
            words[options.mode] = None
        if options.drop_signature:
            words["unsigned"] = None
        switches = (("empty", "allow_empty"), ("lossless", "lossless"), ("nodead", "drop_dead"))
        words.update({word: None for word, field in switches if getattr(options, field)})
        if options.size is not None:
            words[f"max{options.size.max_size}{'noptx' if options.size.drops_ptx else ''}"] = None
        if options.use is not None:
            digests = "".join(sorted(profile.digest for profile in options.use.profiles))
            words[f"used{_of_text(digests)}{'' if options.use.widens else 'only'}"] = None
            if options.use.drops_unused:
                words["dropunused"] = None
        if options.recompress is not None:
            words[f"{options.recompress}{'' if options.level is None else options.level}"] = None
        if options.exceptions:
            from hashlib import sha256

            words[f"but{sha256(repr(options.exceptions).encode()).hexdigest()[:6]}"] = None
        name = ".".join(filter(None, words))
        if len(name) > _LONGEST:
            name = f"slim{_of_text(name)}"
        return self.replace(default=name)


def _of_text(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:8]


def _of_tag(pattern: str) -> str:
    """Return a pattern as a part of a build tag: letters and digits, x and any for the wildcards ? and *."""
    plain = pattern.replace("?", "x").replace("*", "any")
    return "".join(letter for letter in plain if letter.isascii() and letter.isalnum())


#: which PTX to keep, and which SPIR-V beside images for devices
PTX_MODES = ("none", "newest", "all")

#: methods of compression that stored images may be given; ``none`` is for CUDA alone, ``zlib`` for HIP
METHODS = ("zstd", "lz4", "zlib", "none")

MODES = ("auto", "shrink", "zero")


class LibraryException(Record):
    """Options for the libraries whose name or path a ``pattern`` matches; those without rules change nothing."""

    pattern: str
    options: SlimOptions

    def matches(self, path: str) -> bool:
        """Return whether the pattern is for a library: without ``/`` by its name, else by the end of its path."""
        from fnmatch import fnmatchcase

        if "/" not in self.pattern:
            return fnmatchcase(path.rpartition("/")[2], self.pattern)
        return fnmatchcase(path, self.pattern) or fnmatchcase(path, f"*/{self.pattern}")


class SlimOptions(Record):
    """The devices or architectures to keep or drop. By default nothing is dropped.

    ``devices`` are those that must be served: of every container what their runtimes would take stays. ``keep`` and
    ``drop`` are patterns of architectures (``sm_9*``, ``gfx90a``, ``compute_80`` for PTX): what ``drop`` names goes in
    any case, what ``keep`` names stays beside what devices need, and alone it says what stays. ``selector`` names
    images that go, and ``goes`` is asked about each. ``keep_ptx`` is ``none``, ``newest`` or ``all``; PTX that alone
    serves a device stays. None is ``newest`` where devices or ``keep`` are given, else ``all``.

    ``allow_empty`` lets containers lose all device code. ``recompress`` is the method by which images are compressed
    anew, None for as they are, at a ``level`` (None: what the format's own tool takes). ``mode`` says how linked files
    lose bytes: ``shrink`` takes them out of the file, ``zero`` overwrites them, ``auto`` does the first where it can.
    ``drop_signature`` takes the signature out of a signed PE image, which any edit makes invalid.
    ``use`` names the kernels that ran, by profiles: containers without any of them lose images. ``size`` is the size to
    reach, and ``removed`` are the keys of images that go for it, with which no device loses its code.
    ``drop_dead`` removes images that no device would take of their container (:mod:`fatpack.tabular.dead`).
    ``lossless`` keeps every other image, and stores images anew that ``recompress`` makes smaller; ``compressed`` gets
    the number of images that are compressed, and of all. ``exceptions`` are options for some libraries, ``plan``
    records the result of each library, or compares it with the planned one. ``stores`` says what becomes of files of
    kernel stores that are for other devices (:mod:`fatpack.commands.slim.whole_files`): ``drop`` leaves them out of
    folders and wheels, ``keep`` keeps them where no file is left out, and ``edit`` treats them as any other file.
    """

    devices: tuple[Device, ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    selector: Selector | None = None
    goes: Callable[[FoundContainer, FoundImage], bool] | None = None
    keep_ptx: KeepPtx | None = None
    allow_empty: bool = False
    recompress: Recompression | None = None
    level: int | None = None
    mode: SlimMode = "auto"
    drop_signature: bool = False
    lossless: bool = False
    drop_dead: bool = False
    use: UseRequest | None = None
    size: SizeRequest | None = None
    removed: frozenset[object] = frozenset()
    compressed: Callable[[int, int], None] | None = None
    exceptions: tuple[LibraryException, ...] = ()
    plan: PlanWriter | PlanReader | None = None
    stores: StoreRule = "edit"

    if not TYPE_CHECKING:  # type checkers take the signature from the fields

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Take the fields; raise UsageError for a word that is none of those above."""
            super().__init__(*args, **kwargs)
            for name, known in (("keep_ptx", PTX_MODES), ("recompress", METHODS), ("mode", MODES)):
                value = getattr(self, name)
                if value not in known and not (value is None and name != "mode"):
                    raise UsageError(f"{name} {value!r}", hint=f"choose from {', '.join(known)}")

    def for_library(self, view: View) -> SlimOptions:
        """Return the options for a library: those of the first exception whose pattern is its name or path."""
        options = self
        if self.exceptions:
            from fatpack.inputs.files import SEPARATOR

            path = (view.chain[-1] if view.chain else view.source.name).rpartition(SEPARATOR)[2]
            exception = next((one for one in self.exceptions if one.matches(path)), None)
            if exception is not None:
                options = exception.options.replace(use=self.use, compressed=self.compressed, stores=self.stores)
        return options if self.plan is None else self.plan.choose(view, options)

    def for_many_files(self, stores: StoreRule) -> SlimOptions:
        """Return the options for a package or folder, in which devices or patterns choose among files of stores."""
        is_named = bool(self.devices or self.keep or self.drop)
        return self.replace(stores=stores if is_named and self.use is None and self.size is None else "edit")

    @property
    def drops(self) -> bool:
        """True if images may be dropped."""
        named = self.devices or self.keep or self.drop or self.selector or self.goes or self.use or self.size
        return bool(named or self.drop_dead or self.keep_ptx not in (None, "all"))

    @property
    def ptx(self) -> str:
        """The PTX to keep: ``none``, ``newest`` or ``all``."""
        return self.keep_ptx or ("newest" if self.devices or self.keep else "all")
