"""Errors for a selection without images: the message lists the values that exist for the condition."""

from __future__ import annotations

from fatpack.errors import FormatError, Unsupported, UsageError, truncate_words
from fatpack.model import Finding, arch_name
from fatpack.selectors.select import PATTERNS, Selector, id_choices, select_images, with_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.scanner import FoundContainer, FoundImage

#: number of values that are listed; the others are counted
_SHOWN = 12

#: condition → the noun for its values; containers and images are positions, which are counted
_KEYS = {
    "arch": "architectures",
    "triple": "triples",
    "offload": "offload models",
    "form": "forms",
    "container": "containers",
    "index": "images",
    "kernel": "kernels",
    "id": "bundle IDs",
}


#: forms with kernels whose names are not read
_NAMELESS = frozenset(("bitcode", "ltoir", "llvm-ir", "assembly"))

#: findings of inputs that were not read, so that there may be more images
_UNSEEN = ("FP1006", "FP1008", "FP2104", "FP2105", "FP2106")


class NothingSelected(UsageError):
    """The file is intact, but none of its images is selected; the message lists what it has."""

    exit_code = 1


#: The message of every command for a file without bytes.
EMPTY = "the file is empty"


def refuse_empty(file: View) -> None:
    """Raise NothingSelected for a file without bytes."""
    if not len(file):
        raise NothingSelected(EMPTY, chain=file.chain)


def nothing_selected(
    host: View, items: Sequence[FoundContainer | Finding], selector: Selector, verb: str, nested: Sequence[str] = ()
) -> NothingSelected:
    """Return the error for an edit of no image; ``nested`` are the positions of images inside others that match."""
    if nested:
        return NothingSelected(
            f"image {nested[0]} is inside another image",
            hint="extract the image around it and edit that",
            chain=host.chain,
        )
    asked = f" that matches {selector.describe()}" if not selector.is_empty() else ""
    hint = "; ".join(
        filter(None, [available_values(items, selector), *(item.message for item in unread_findings(items)[:1])])
    )
    return NothingSelected(f"no image to {verb}{asked}", hint=hint, chain=host.chain)


def unread_findings(items: Iterable[FoundContainer | Finding]) -> list[Finding]:
    """Return the findings that images may not have been read, without errors."""
    return [item for item in items if isinstance(item, Finding) and item.code in _UNSEEN]


def available_values(items: Sequence[FoundContainer | Finding], selector: Selector) -> str:
    """Return the values that images have for the condition that none fulfils; "" if there are no images.

    Conditions are applied one after the other. If each can be fulfilled, but not by one image, the values of the first
    condition that leaves no image are listed.
    """
    left = [(position, image) for position, _, image in with_positions(items)]
    if not left:
        return ""
    key, before, left = _unfulfilled(items, selector, left)
    if not key:
        return f"{_KEYS['arch']} present: {_listed(_values('arch', left))}"
    nameless = sorted({image.form for _, image in left} & _NAMELESS) if key == "kernel" else []
    but = f" (kernels in {' and '.join(nameless)} have no names here)" if nameless else ""
    return _present_words(key, before, selector, _values(key, left), but)


def _present_words(key: str, before: Selector, selector: Selector, values: Iterable[str], but: str = "") -> str:
    context = "" if before.is_empty() else f" with {before.describe()}"
    hints = [right for right in map(right_spelling, selector.arch) if right] if key == "arch" else []
    meant_words = f"; did you mean {', '.join(hints)}?" if hints else ""
    return f"{_KEYS[key]} present{context}: {_listed(values)}{but}{meant_words}"


def _unfulfilled(
    items: Sequence[FoundContainer | Finding], selector: Selector, left: list[tuple[str, FoundImage]]
) -> tuple[str, Selector, list[tuple[str, FoundImage]]]:
    """Return the first condition that leaves none of the images, "" if each leaves some, and those before it.

    The last is what the conditions before it leave.
    """
    before = Selector()
    for key in _KEYS:
        value = getattr(selector, key)
        if value in ((), None):
            continue
        tried = before.replace(**{key: value, "hip_openmp": selector.hip_openmp and key == "id"})
        meant = {position for position, _, _ in select_images(items, tried)}
        if not meant:
            return key, before, left
        before = tried
        left = [(position, image) for position, image in left if position in meant]
    return "", before, left


class PresentValues:
    """Values that the images of many files have for the condition that none fulfils, as of :func:`available_values`.

    Positions and kernels are left out: the first differ from file to file, the others are too many.
    """

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._found: dict[str, tuple[Selector, dict[str, None]]] = {}

    def add(self, items: Sequence[FoundContainer | Finding]) -> None:
        """Add a file of which nothing is selected."""
        left = [(position, image) for position, _, image in with_positions(items)]
        if left:
            key, before, left = _unfulfilled(items, self._selector, left)
            if key not in ("", "container", "index", "kernel"):
                self._found.setdefault(key, (before, {}))[1].update(dict.fromkeys(_values(key, left)))

    def words(self) -> str:
        """Return the values in words, of the last condition that a file got to; "" if there are none."""
        for key in reversed(_KEYS):
            if key in self._found:
                before, values = self._found[key]
                return _present_words(key, before, self._selector, values)
        return ""


#: NVIDIA's names without their underline, with a hyphen or a blank, or in capitals; the number alone; AMD's with an
#: underline, or in capitals. No compiler stores these spellings.
_MISSPELLED = (
    r"(?i)(?P<sm>sm|compute|lto)[-_ ]?(?P<number>\d+[af]?)|(?P<alone>\d{2,3}[af]?)|(?P<major>\d{1,2})\.(?P<minor>\d)"
    r"|gfx[-_ ]?(?P<gfx>[0-9a-f]+)"
)


def right_spelling(pattern: str) -> str:
    """Return the architecture that a misspelled pattern most likely means: ``sm_80`` for ``sm80``; "" for any other."""
    import re

    name, mark = pattern.removeprefix("!"), pattern[: pattern.startswith("!")]
    stem, star = name.rstrip("*?"), name[len(name.rstrip("*?")) :]
    match = re.fullmatch(_MISSPELLED, stem)
    if match is None:
        return ""
    if match["gfx"]:
        right = f"gfx{match['gfx'].lower()}"
    elif match["sm"]:
        right = f"{match['sm'].lower()}_{match['number'].lower()}"
    else:
        right = f"sm_{(match['alone'] or match['major'] + match['minor']).lower()}"
    return "" if right == stem else f"{mark}{right}{star}"


def spelling_hints(selector: Selector) -> list[str]:
    """Return a hint for each architecture of a selector that is spelled as no file has it: ``did you mean sm_80?``."""
    pairs = ((pattern, right_spelling(pattern)) for pattern in selector.arch)
    return [f"no image has the architecture {pattern}: did you mean {right}?" for pattern, right in pairs if right]


def unmatched_patterns(items: Sequence[FoundContainer | Finding], selector: Selector) -> list[str]:
    """Return the patterns that match no image while others do, in words: possibly typing errors."""
    texts = []
    for key in PATTERNS:
        patterns = [pattern for pattern in getattr(selector, key) if not pattern.startswith("!")]
        if len(patterns) < 2:
            continue
        images = [image for _, _, image in with_positions(items)]
        idle = [
            pattern for pattern in patterns if not any(Selector(**{key: pattern}).matches(image) for image in images)
        ]
        if len(idle) < len(patterns):
            texts += [f"--{key}={pattern} matches nothing{_did_you_mean(key, pattern)}" for pattern in idle]
    return texts


def _did_you_mean(key: str, pattern: str) -> str:
    right = right_spelling(pattern) if key == "arch" else ""
    return f"; did you mean {right}?" if right else ""


def missing_ids_reason(items: Sequence[FoundContainer | Finding], selector: Selector, ids: Sequence[str]) -> str:
    """Return the reason that no image serves bundle IDs, as words after them: other conditions, or the existing IDs."""
    from fatpack.selectors.bundle_id_match import no_match_reason

    alone = Selector(id=tuple(ids), hip_openmp=selector.hip_openmp)
    there = {choice.request for choice in id_choices(items, alone)}
    others = selector.replace(id=(), hip_openmp=False)
    if there:
        names = " and ".join(request for request in ids if request in there)
        return f" ({names} {'is' if len(there) == 1 else 'are'} there, but {others.describe()} excludes it)"
    return no_match_reason(ids, [image for _, _, image in with_positions(items)])


def _values(key: str, rows: Iterable[tuple[str, FoundImage]]) -> Iterator[str]:
    """Yield the values of a condition that would have selected images, in their order."""
    from fatpack.targets.triple import as_llvm22

    for position, image in rows:
        target = image.target
        if key in ("container", "index"):
            # Images inside images are not selected by position.
            if "/" not in position:
                container, _, index = position.partition(".")
                yield container if key == "container" else index
        elif key == "kernel":
            yield from _kernels(image)
        elif key == "form":
            yield image.form or "unknown"
        elif key == "id":
            from fatpack.selectors.bundle_id_match import image_id

            yield from filter(None, [image_id(image.as_stored)])
        else:
            arch = arch_name(as_llvm22(target.triple, target.arch)[1], image.form)
            yield {"arch": arch, "triple": target.triple, "offload": target.offload}[key] or f"(no {key})"


def _kernels(image: FoundImage) -> Iterator[str]:
    try:
        yield from image.kernel_names
    except (FormatError, Unsupported):
        return


def _listed(values: Iterable[str]) -> str:
    """Return the different values in words: the first ones, and the number of the others."""
    known = list(dict.fromkeys(values))
    if not known:
        return "none"
    if len(known) > _SHOWN and all(value.isdigit() for value in known):
        return f"{known[0]} to {known[-1]}"
    more = [f"… {len(known) - _SHOWN} more"] if len(known) > _SHOWN else []
    return ", ".join([*map(truncate_words, known[:_SHOWN]), *more])
