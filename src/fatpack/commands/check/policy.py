"""What ``--require`` asks for: devices, PTX for later ones, images for one architecture alone.

::

    sm_80  8.0  'RTX 4090'  gfx942  gfx90a:xnack-  pvc     a device that every unit must serve
    sm_120+ptx  12.0+PTX                                   besides, PTX that devices of later generations can compile
    sm_120!  'RTX 4090!'  gfx942!                          machine code: nothing that is compiled when it is loaded
    compute_120                                            PTX that the device and all later ones can compile
    sm_90a  sm_100f                                        besides, an image for exactly that, somewhere
    @torch-2.9-cu128                                       all that a preset asks for

They are set apart by commas or semicolons, or by blanks (``7.5 8.0 9.0+PTX``, as ``TORCH_CUDA_ARCH_LIST`` of PyTorch),
if each word names a device or a preset: ``RTX 4090`` is one device.
"""

from __future__ import annotations

import fnmatch

from fatpack.errors import TargetError, UsageError
from fatpack.record import Record
from fatpack.targets.devices import parse_device
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.vocabulary import load_vocabulary, nearest_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.targets.devices import Device

#: LIMIT: presets that name presets
_DEEPEST = 8


class Requirement(Record):
    """A device that must be served; ``wants_ptx``: later ones too; ``exact``: an image for each of these.

    ``is_native`` asks for machine code: what a driver compiles when it loads it does not serve. ``text`` asks for PTX
    instead of the device: ``compute_120``.
    """

    device: Device
    wants_ptx: bool = False
    exact: tuple[str, ...] = ()
    is_native: bool = False
    text: str = ""

    @property
    def title(self) -> str:
        """The device as messages call it, or what it must be served by."""
        if self.text:
            return self.text
        return f"machine code for {self.device.words}" if self.is_native else self.device.words

    @property
    def words(self) -> str:
        """What is asked, as rules call it."""
        return f"{self.text or self.device.words}{'+ptx' if self.wants_ptx else ''}{'!' if self.is_native else ''}"


def parse_forbidden(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of architectures in some texts, with commas between. Raises UsageError for one that no name
    can match: it would forbid nothing, and nobody would know.
    """
    found = tuple(part.strip() for text in texts for part in text.split(","))
    known = load_vocabulary().names()
    for pattern in found:
        if not pattern:
            raise UsageError("forbidden architectures: a pattern is empty", hint="give patterns as sm_5*")
        if not any(fnmatch.fnmatchcase(name, pattern.partition(":")[0]) for name in known):
            near = nearest_names(pattern)
            hint = f"did you mean {', '.join(near)}?" if near else "names are as sm_90 and gfx90a, patterns as sm_5*"
            raise UsageError(f"no architecture that is known matches {pattern[:64]!r}", hint=hint)
    return found


def parse_requirements(texts: Iterable[str], presets: Mapping[str, Sequence[str]]) -> tuple[Requirement, ...]:
    """Return what some texts ask for, each device once. Raises UsageError and TargetError."""
    found: dict[str, Requirement] = {}
    for item in _items(texts, presets, ()):
        one = _requirement(item)
        key = one.text or one.device.arch
        before = found.get(key)
        if before is not None:
            one = before.replace(
                wants_ptx=before.wants_ptx or one.wants_ptx,
                exact=tuple(dict.fromkeys((*before.exact, *one.exact))),
                is_native=before.is_native or one.is_native,
            )
        found[key] = one
    return tuple(found.values())


def _items(texts: Iterable[str], presets: Mapping[str, Sequence[str]], within: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        for part in split_list(text):
            if not part.startswith("@"):
                yield part
                continue
            name = part[1:]
            if name in within or len(within) >= _DEEPEST:
                raise UsageError(f"preset @{name} names itself", hint="let presets name only others")
            if name not in presets:
                near = nearest_names(name, presets)
                hint = f"did you mean {' or '.join(f'@{each}' for each in near)}?" if near else ""
                known = ", ".join(f"@{each}" for each in presets)
                raise UsageError(f"no preset @{name}", hint=hint or f"presets are {known or 'none'}")
            yield from _items(presets[name], presets, (*within, name))


def split_list(text: str) -> list[str]:
    """Return the items of a list. Raises UsageError for an empty one."""
    parts = [part.strip() for part in text.replace(";", ",").split(",")]
    if any(not part for part in parts):
        raise UsageError(f"{text!r} has an empty item", hint="write sm_80,sm_90,sm_120+ptx")
    found: list[str] = []
    for part in parts:
        words = part.split()
        found += words if len(words) > 1 and not _is_item(part) and all(map(_is_item, words)) else [part]
    return found


def _is_item(word: str) -> bool:
    """Return whether a text is an item of a list by itself."""
    if word.startswith("@"):
        return " " not in word
    try:
        _requirement(word)
    except UsageError:  # compute_90!, gfx942+ptx: meant as an item, and refused as one
        return True
    except TargetError:
        return False
    return True


def _requirement(text: str) -> Requirement:
    is_native = "!" in (text[-1:], text.rpartition("+")[0][-1:])
    plain = "+".join(part.removesuffix("!") for part in text.rsplit("+", 1)) if is_native else text
    bare, plus, rest = plain.rpartition("+")
    wants_ptx = bool(plus) and rest.lower() == "ptx"
    name = (bare if wants_ptx else plain).strip()
    if name[:1].isdigit() and name[-1:] in ("a", "f") and "." in name:  # 9.0a, as PyTorch writes it
        name = f"sm_{name.replace('.', '', 1)}"
    arch = parse_nvidia(name)
    if arch is not None and arch.is_virtual:
        if wants_ptx or is_native:
            raise UsageError(
                f"{text}: {name} is PTX alone", hint=f"write {name}, or sm_{arch.number}{text[len(name) :]}"
            )
        return Requirement(parse_device(f"sm_{name[8:]}"), exact=(arch.name,) if arch.suffix else (), text=arch.name)
    found = parse_device(name)
    if wants_ptx and found.vendor != "nvidia":
        raise UsageError(f"{text}: only NVIDIA devices compile PTX", hint=f"write {name}")
    return Requirement(found, wants_ptx, (arch.name,) if arch is not None and arch.suffix else (), is_native)
