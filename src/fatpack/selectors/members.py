"""The member of an archive that an address names: by its name, by the occurrence of that name, or by its number."""

from __future__ import annotations

from fatpack import binary
from fatpack.errors import UsageError
from fatpack.model import Finding
from fatpack.scanner import detect_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import View

#: Names that an error lists
_NAMED = 5


def find_member(view: View, text: str) -> tuple[CodeSection, str]:
    """Return the member that an address names first, and what is left of the address."""
    title = view.chain[-1] if view.chain else "the input"
    host = detect_host(view)
    if host == "raw" or not binary.MODULES[host].has_members:
        raise UsageError(f"{title} is no archive: it has no member {text}")
    sites: list[CodeSection] = []
    findings: list[Finding] = []
    for item in binary.get_host(host).locate(view):
        if isinstance(item, Finding):
            findings.append(item)
        else:
            sites.append(item)
    for name, rest in _readings(text):
        site = _named(sites, name, title)
        if site is not None:
            return site, rest
    present = [site.member or "" for site in sites[:_NAMED]]
    more = [f"… {len(sites) - _NAMED} more"] if len(sites) > _NAMED else []
    hint = f"present are {', '.join([*present, *more])}" if sites else "it has no members"
    raise UsageError(f"{title} has no member {text}", hint="; ".join([hint, *(item.message for item in findings[:1])]))


def path_candidates(text: str) -> Iterator[str]:
    """Yield what may be the path in front of a member in parentheses, longest first."""
    at = text.rfind("(")
    while at > 0:
        yield text[:at]
        at = text.rfind("(", 0, at)


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name of the member, rest of the address): names may hold parentheses, so the longest comes first."""
    yield text, ""
    at = text.rfind(")(")
    while at >= 0:
        yield text[:at], text[at + 2 :]
        at = text.rfind(")(", 0, at)
    if text.endswith(")"):
        for start in path_candidates(text):
            yield start, text[len(start) + 1 : -1]


def _named(sites: Sequence[CodeSection], name: str, title: str) -> CodeSection | None:
    """Return the one member that a name, with or without its occurrence, or a number stands for, if there is one."""
    same = [site for site in sites if site.member == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise _ambiguous(same, name, title)
    base, colon, digits = name.rpartition(":")
    same = [site for site in sites if colon and site.member == base]
    if same and digits.isascii() and digits.isdigit():
        if not 1 <= _count(digits) <= len(same):
            raise UsageError(f"{title} has {len(same)} of the name {base}", hint=f"they are {base}:1 to :{len(same)}")
        return same[_count(digits) - 1]
    if name.startswith("#") and name[1:].isascii() and name[1:].isdigit():
        return next((site for site in sites if site.index == _count(name[1:])), None)
    return None


def _count(digits: str) -> int:
    """Return a number, or for one of more digits than any count has (Python refuses thousands) its first 20 digits."""
    return int(digits.lstrip("0")[:20] or "0")


def _ambiguous(same: Sequence[CodeSection], name: str, title: str) -> UsageError:
    choices = [f"({name}:{place}) or (#{site.index}), {len(site.data)} bytes" for place, site in enumerate(same, 1)]
    more = [f"… {len(choices) - _NAMED} more"] if len(choices) > _NAMED else []
    return UsageError(
        f"{title} has {len(same)} members of the name {name}", hint="write " + "; ".join([*choices[:_NAMED], *more])
    )
