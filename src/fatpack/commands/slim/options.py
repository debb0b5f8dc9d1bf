"""The outcome for each file, its numbers, and the options of slimming."""

from __future__ import annotations

from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import arch_label, is_host, matches_pattern
from fatpack.errors import FatpackError, FormatError, HostError, Unsupported, UsageError, cli_or_api
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED, exit_code, worst_exit_code
from fatpack.io.open import PATTERN_CHARACTERS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol, TypeAlias

    from fatpack.commands.slim.budget import SizeRequest
    from fatpack.commands.slim.keep_for_device import SlimImage
    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.commands.slim.policy import PlanReader, PlanWriter
    from fatpack.commands.slim.used import UseRequest
    from fatpack.io.source import Piece, View
    from fatpack.literals import KeepPtx, Recompression, SlimMode
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector
    from fatpack.targets.devices import Device

    class SlimmedMember(Protocol):
        """The new content of a file: its bytes, ``is_changed``, and more facts.

        ``verify`` raises HostError unless a file is what this makes of the one before.
        """

        @property
        def pieces(self) -> Sequence[Piece]: ...  # noqa: D102
        @property
        def is_changed(self) -> bool: ...  # noqa: D102
        def verify(self, before: View, after: View) -> None: ...  # noqa: D102

    #: returns what a file becomes (``fatpack.commands.slim.plan.plan_slim`` with options); its pieces are read while it
    #: is open
    Slimming: TypeAlias = Callable[[View], SlimmedMember]


# The files of a package that slimming looks at, what it makes of each, and what that saves in the package.


class PackageLibrary(Record):
    """A file of a package that was looked at.

    ``before`` and ``after`` are its size in bytes, ``stored_before`` and ``stored_after`` those that it takes in the
    package, compressed, None where files are compressed together. ``slimmed`` is what was made of it, whose pieces
    cannot be read any more; None where it stays because of an ``error``.
    """

    name: str
    before: int
    after: int
    stored_before: int | None
    stored_after: int | None
    slimmed: SlimmedMember | None
    error: FatpackError | OSError | None = None

    @property
    def is_changed(self) -> bool:
        """True if the file changed."""
        return self.slimmed is not None and self.slimmed.is_changed

    @property
    def outcome(self) -> SlimOutcome:
        """The outcome of the file, under its name in the package."""
        plan: SlimPlan | None = getattr(self.slimmed, "plan", None)
        return SlimOutcome(self.name, self.before, self.after, "", plan, self.error)


def try_to_slim(slimming: Slimming, view: View) -> SlimmedMember | FatpackError:
    """Return the plan for a file, or the reason why it stays as it is.

    A file stays if it is damaged, if its host is not edited, or if a device that it serves would lose its code.
    Raises the errors that concern all files, such as impossible options.
    """
    try:
        return slimming(view)
    except (FormatError, HostError, SlimRefused, Unsupported) as error:
        return error


def refuse_all(slimming: Slimming) -> Slimming:
    """Return a slimming of files by which one file that cannot be slimmed refuses all: the option ``--strict``."""

    def strict(view: View) -> SlimmedMember:
        outcome = try_to_slim(slimming, view)
        if isinstance(outcome, FatpackError):
            raise StrictRefusal(outcome)
        return outcome

    return strict


class StrictRefusal(FatpackError):
    """One file of several cannot be slimmed, and ``--strict`` refuses all of them."""

    def __init__(self, error: FatpackError) -> None:
        without = cli_or_api("without --strict", "without strict=True")
        super().__init__(
            getattr(error, "problem", str(error)),
            hint=f"{without} this file stays as it is, and the others are slimmed",
            chain=error.chain,
        )
        self.exit_code = exit_code(error)


def may_hold_device_code(name: str) -> bool:
    """Return whether a file may hold device code, by its name: what describes an installed wheel holds none."""
    from fatpack.inputs.walk import is_skipped

    return ".dist-info/" not in name and not is_skipped(name)


# The name of a changed package: two different files never share a name.

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
        if options.allow_empty:
            words["empty"] = None
        if options.lossless:
            words["lossless"] = None
        if options.size is not None:
            words[f"max{options.size.max_size}"] = None
        if options.use is not None:
            digests = "".join(sorted(profile.digest for profile in options.use.profiles))
            words[f"used{_of_text(digests)}"] = None
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


def needs_new_name(path: str) -> bool:
    """Return whether a file is a wheel or conda package by its name: if it changes it gets another one."""
    return path.endswith((".whl", ".conda", ".tar.bz2"))


class SlimOutcome(Record):
    """A file that was named or met: ``before`` and ``after`` are its sizes in bytes.

    ``output`` is the file that was written, "" for none. ``plan`` is None for one that failed, and ``error`` says why;
    ``is_told`` if that was printed already.
    ``deflated`` are both sizes as they would be inside a wheel, None if they were not requested.
    """

    path: str
    before: int
    after: int
    output: str = ""
    plan: SlimPlan | None = None
    error: FatpackError | OSError | None = None
    deflated: tuple[int, int] | None = None
    is_told: bool = False

    @property
    def has_device_code(self) -> bool:
        """True if the file has device code, or a part that was not read."""
        plan = self.plan
        return plan is not None and bool(plan.kept or plan.dropped or plan.damaged or plan.unread)


class UnsupportedDevice(Record):
    """A requested device that no image of a run is for: it was not served before, either.

    ``paths`` are the files that have code for devices of its vendor, none where no file has.
    """

    device: Device
    paths: tuple[str, ...]


def find_unsupported_devices(
    outcomes: Sequence[SlimOutcome], devices: Sequence[Device]
) -> tuple[UnsupportedDevice, ...]:
    """Return the devices that no file of a run has anything for.

    None are returned where a file failed or is damaged, which may hold what serves them, and where no file has device
    code.
    """
    plans = [(item.path, item.plan) for item in outcomes if item.plan is not None]
    if len(plans) < len(outcomes) or any(plan.damaged for _, plan in plans) or not any(p.vendors for _, p in plans):
        return ()
    found = []
    for device in devices:
        about = [(path, plan) for path, plan in plans if device.vendor in plan.vendors]
        if all(device in plan.unserved for _, plan in about):
            found.append(UnsupportedDevice(device, tuple(path for path, _ in about)))
    return tuple(found)


class UnmatchedPattern(Record):
    """A pattern of ``option`` (keep or drop) that matches no image of a run; ``archs`` are the architectures there."""

    option: str
    pattern: str
    archs: tuple[str, ...]

    @property
    def words(self) -> str:
        """The problem in words."""
        option = cli_or_api(f"--{self.option} {self.pattern}", f"{self.option}={self.pattern!r}")
        return f"{option} matches no image: the input has {', '.join(self.archs)}"

    @property
    def hint(self) -> str:
        """The way out. Another architecture is advised only for a wrong spelling: sm_90 is no advice for sm_50."""
        from fatpack.selectors.no_match import right_spelling

        # Letters that are taken for digits: sm_8O, sm_l20.
        digits = self.pattern.translate({ord("O"): "0", ord("o"): "0", ord("l"): "1", ord("I"): "1"})
        right = right_spelling(self.pattern) or (digits if digits in self.archs else "")
        return f"did you mean {right}?" if right else "name architectures that it has, or leave the option out"


def find_unmatched_patterns(outcomes: Sequence[SlimOutcome], options: SlimOptions) -> tuple[UnmatchedPattern, ...]:
    """Return the patterns that match no image of any file of a run.

    A pattern with a wildcard may match nothing if another pattern of its option matches: ``sm_5*,sm_6*`` is a wish for
    a range. None are returned if a file failed or is damaged, which may hold what they match, and if no file has
    device code.
    """
    plans = [item.plan for item in outcomes if item.plan is not None]
    images = [row.image for plan in plans for row in (*plan.kept, *plan.dropped) if not is_host(row.image)]
    if len(plans) < len(outcomes) or any(plan.damaged for plan in plans) or not images:
        return ()
    # One image for each label: patterns are compared with labels and forms alone.
    alike = list({(arch_label(image), image.form, image.target.arch): image for image in images}.values())
    archs = tuple(sorted({arch_label(image) for image in alike}, key=arch_sort_key))
    found = []
    for option, patterns in (("keep", options.keep), ("drop", options.drop)):
        unmatched = [one for one in patterns if not any(matches_pattern(image, (one,)) for image in alike)]
        for pattern in unmatched:
            if len(unmatched) == len(patterns) or not any(char in pattern for char in PATTERN_CHARACTERS):
                found.append(UnmatchedPattern(option, pattern, archs))
    return tuple(found)


def refuse_unmatched_patterns(outcomes: Sequence[SlimOutcome], options: SlimOptions, chain: Sequence[str]) -> None:
    """Raise NothingSelected for a pattern that matches no image, before a file is written."""
    unmatched = find_unmatched_patterns(outcomes, options)
    if options.use is not None:
        from fatpack.commands.slim.used import refuse_unused

        refuse_unused(outcomes, options.use, chain)
    if unmatched:
        from fatpack.selectors.no_match import NothingSelected

        raise NothingSelected(unmatched[0].words, hint=unmatched[0].hint, chain=chain)


def exit_code_for(outcomes: Sequence[SlimOutcome], options: SlimOptions) -> int:
    """Return the exit code of a run: 0 if every request was fulfilled."""
    damaged = any(item.plan is not None and item.plan.damaged for item in outcomes)
    codes = [FINE, *(exit_code(item.error) for item in outcomes if item.error), *([MALFORMED] if damaged else [])]
    if (
        find_unsupported_devices(outcomes, options.devices)
        or find_unmatched_patterns(outcomes, options)
        or any(item.plan is not None and item.plan.not_removed for item in outcomes)
    ):
        codes.append(FINDINGS)
    if options.use is not None:
        from fatpack.commands.slim.used import count_lost

        if count_lost(outcomes) != (options.use.accepted or 0):
            codes.append(FINDINGS)
    return worst_exit_code(codes)


def count_by_arch(rows: Iterable[SlimImage]) -> dict[str, int]:
    """Return how many images there are for each architecture, as patterns name it; hosts are not counted."""
    from collections import Counter

    counts = Counter(arch_label(row.image) for row in rows if not is_host(row.image))
    return {name: counts[name] for name in sorted(counts, key=arch_sort_key)}


#: the number of an architecture: gfx90c has hexadecimal digits, sm_90a a letter after decimal ones
_NUMBER = r"gfx([0-9a-f]+)|[a-z]+_(\d+)"


def arch_sort_key(name: str) -> tuple[str, int, str]:
    """Return what architectures are sorted by: sm_90 comes before sm_100, gfx90c before gfx942."""
    import re

    match = re.match(_NUMBER, name)
    if match is None:
        return name, 0, name
    digits, base = (match[1], 16) if match[1] else (match[2], 10)
    return name[: match.start(match.lastindex or 0)], int(digits, base), name


def deflated_size(pieces: Sequence[Piece]) -> int:
    """Return how many bytes pieces take in a wheel: deflated as ``zip`` does it. Reads all of them."""
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    size = 0
    for piece in pieces:
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read_once():
            size += len(packer.compress(part))
    return size + len(packer.flush())


# The options of slimming: the devices to serve, or the architectures to drop, and the way to write the result.

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
    ``lossless`` keeps every image, and stores those anew that ``recompress`` makes smaller; ``compressed`` is told how
    many images of how many are compressed. ``exceptions`` are options for some libraries, ``plan`` takes down what
    becomes of each library, or compares it with what was planned.
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
    use: UseRequest | None = None
    size: SizeRequest | None = None
    removed: frozenset[object] = frozenset()
    compressed: Callable[[int, int], None] | None = None
    exceptions: tuple[LibraryException, ...] = ()
    plan: PlanWriter | PlanReader | None = None

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
                options = exception.options.replace(use=self.use, compressed=self.compressed)
        return options if self.plan is None else self.plan.choose(view, options)

    @property
    def drops(self) -> bool:
        """True if images may be dropped."""
        named = self.devices or self.keep or self.drop or self.selector or self.goes or self.use or self.size
        return bool(named or self.keep_ptx not in (None, "all"))

    @property
    def ptx(self) -> str:
        """The PTX to keep: ``none``, ``newest`` or ``all``."""
        return self.keep_ptx or ("newest" if self.devices or self.keep else "all")
