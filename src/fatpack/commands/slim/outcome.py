"""The outcome of each file and of each library in it, requests that a run could not fulfil, and its exit code."""

from __future__ import annotations

import os

from fatpack import magic_numbers
from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import arch_label, is_host, matches_pattern
from fatpack.errors import FatpackError, FormatError, HostError, Unsupported, cli_or_api
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED, exit_code, worst_exit_code
from fatpack.io.open import PATTERN_CHARACTERS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol, TypeAlias

    from fatpack.commands.slim.keep_for_device import SlimImage
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.io.source import Piece, View
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


def why_unchanged(outcomes: Sequence[SlimOutcome]) -> str:
    """Return the reason why no file of a package changed; ``outcomes`` are those of its libraries."""
    if any(item.error is not None or item.has_device_code for item in outcomes):
        return "nothing to remove"
    return "it holds no device code"


def without_pieces(made: SlimmedMember) -> SlimmedMember:
    """Return the same without the bytes, once they are written: images that were compressed anew are in memory."""
    plan: SlimPlan | None = getattr(made, "plan", None)
    if plan is None:
        return made
    rest: SlimmedMember = made.replace(plan=plan.replace(pieces=()))  # type: ignore[attr-defined]
    return rest


def is_for_size_alone(made: SlimmedMember) -> bool:
    """Return whether a file changes for its size alone: every image stays."""
    plan: SlimPlan | None = getattr(made, "plan", None)
    return plan is not None and plan.is_lossless


def goes_whole(made: SlimmedMember) -> bool:
    """Return whether a file may go as a whole."""
    plan: SlimPlan | None = getattr(made, "plan", None)
    return plan is not None and plan.mode == "remove"


def left_as_it_is(made: SlimmedMember, reason: str) -> SlimmedMember:
    """Return the outcome for a file that stays after all, with a note of the reason."""
    plan: SlimPlan | None = getattr(made, "plan", None)
    if plan is None:
        return made
    stays = plan.replace(pieces=(), mode="", cuts=(), notes=(f"stays as it is: {reason}",))
    left: SlimmedMember = made.replace(plan=stays)  # type: ignore[attr-defined]
    return left


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


#: first bytes of files in which device code is slimmed: linked files, archives of objects, and containers
STARTS = (
    magic_numbers.ELF,
    magic_numbers.DOS,
    magic_numbers.ARCHIVE,
    magic_numbers.FATBIN,
    magic_numbers.OFFLOAD_BINARY,
    magic_numbers.BUNDLE,
    magic_numbers.COMPRESSED_BUNDLE,
    magic_numbers.KPACK,
    magic_numbers.SYCLBIN,
)


def may_hold_device_code(name: str, head: bytes = b"") -> bool:
    """Return whether a file may hold device code, by its name and ``head``, its first bytes if they are known.

    What describes an installed wheel holds none. A library may be named as a text is: ``libx.so.txt``.
    """
    from fatpack.inputs.walk import is_skipped

    return ".dist-info/" not in name and (not is_skipped(name) or head.startswith(STARTS))


#: how many bytes :func:`may_hold_device_code` needs
HEAD_SIZE = max(map(len, STARTS))


def file_may_hold_device_code(name: str, path: str) -> bool:
    """Return whether a file with bytes may hold device code, by its name in a folder and its first bytes.

    Raises ``OSError`` for one that cannot be read.
    """
    from fatpack.inputs.walk import is_skipped

    if not os.path.getsize(path):
        return False
    if not is_skipped(name):
        return may_hold_device_code(name, b"")
    with open(path, "rb", buffering=0) as file:
        return may_hold_device_code(name, file.read(HEAD_SIZE))


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
        if plan is None:
            return False
        return bool(plan.kept or plan.dropped or plan.damaged or plan.unread or plan.is_image or plan.mode)


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
    if not options.keep and not options.drop:
        return ()
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
