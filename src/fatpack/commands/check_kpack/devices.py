"""Which devices are asked about: those that somebody names, or those for which there are archives.

A device reports every feature that its processor has, and what nobody says about a feature holds for both of its
settings. So a name stands for a device with each setting of the features that archives or code objects tell apart;
what nothing tells apart changes no answer.
"""

from __future__ import annotations

from itertools import product

from fatpack.targets.target_id import feature_signs
from fatpack.targets.vocabulary import check_target_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.check_kpack.facts import KpackArchive

#: LIMIT: features of a processor that are told apart: processors have two.
_MOST_FEATURES = 4


def resolve_devices(names: Sequence[str], archives: Iterable[KpackArchive]) -> tuple[str, ...]:
    """Return the devices that target IDs stand for. Raises TargetError for a name that is none."""
    told_apart = _told_apart(archives)
    found: dict[str, None] = {}
    for name in names:
        target = check_target_id(name)
        fixed = feature_signs(str(target))
        for device in _settings(target.processor, {*told_apart.get(target.processor, ()), *fixed}, fixed):
            found[device] = None
    return tuple(found)


def devices_in_archives(archives: Sequence[KpackArchive]) -> tuple[str, ...]:
    """Return the devices for which there are archives, each of which one of them lists."""
    told_apart = _told_apart(archives)
    listed: dict[str, list[dict[str, str]]] = {}
    for archive in archives:
        for arch in (*archive.archs, *(arch for _, arch in archive.objects)):
            rows = listed.setdefault(arch.partition(":")[0], [])
            if feature_signs(arch) not in rows:
                rows.append(feature_signs(arch))
    found = []
    for processor in sorted(filter(None, listed), key=_in_order):
        for device in _settings(processor, told_apart.get(processor, ()), {}):
            has = feature_signs(device)
            if any(
                all(has[feature] == sign for feature, sign in row.items() if feature in has)
                for row in listed[processor]
            ):
                found.append(device)
    return tuple(found)


def _told_apart(archives: Iterable[KpackArchive]) -> dict[str, dict[str, None]]:
    """Return processor → features of which a name in an archive, or the header of a code object, states the setting."""
    found: dict[str, dict[str, None]] = {}
    for archive in archives:
        names = {
            *archive.archs,
            *(arch for _, arch in archive.objects),
            *(item.claims for item in archive.objects.values()),
        }
        for name in sorted(names):
            found.setdefault(name.partition(":")[0], {}).update(dict.fromkeys(feature_signs(name)))
    return found


def _settings(processor: str, features: Iterable[str], fixed: dict[str, str]) -> Iterator[str]:
    """Yield a processor with every setting of some features, off first; those that are fixed have one."""
    ordered = sorted(features)[:_MOST_FEATURES]
    for chosen in product(*(fixed.get(feature, "-+") for feature in ordered)):
        yield ":".join((processor, *(f"{feature}{sign}" for feature, sign in zip(ordered, chosen, strict=True))))


def _in_order(name: str) -> tuple[int, str]:
    """Sort gfx906 in front of gfx1100."""
    return len(name), name
