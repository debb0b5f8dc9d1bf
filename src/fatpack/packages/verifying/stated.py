"""Files against what is stated of them: digests by name, and what of both is lacking."""

from __future__ import annotations

from fatpack.errors import FatpackError, FormatError, counted
from fatpack.findings import finding, unread
from fatpack.io.source import Span
from fatpack.model import Finding
from fatpack.packages.verifying import Compared
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fatpack.io.source import Source, View
    from fatpack.packages import Member

#: LIMIT: bytes of a list of files that is read. That of 100,000 files takes 30 MB.
MOST = 256 << 20

#: Names of algorithms that packages state digests of.
ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")

#: LIMIT: names that the finding for missing and for unlisted files shows.
_SHOWN = 5


class Stated(Record):
    """What is stated of a file: a digest in hexadecimal, by an algorithm of ``hashlib``, and its size, if that is."""

    algorithm: str
    digest: str
    size: int | None = None


def digest_of(source: Source, algorithm: str) -> str:
    """Return the digest of all bytes of a source, in hexadecimal."""
    import hashlib

    made = hashlib.new(algorithm, usedforsecurity=False)
    for piece in source.once(0, source.size):
        made.update(piece)
    return made.hexdigest()


def text_of(member: Member) -> bytes:
    """Return all bytes of a list of files. Raises FormatError for one that is too large, and for a damaged one."""
    from fatpack.errors import LimitExceeded

    with member.open() as source:
        if source.size > MOST:
            raise LimitExceeded(
                f"{member.name} has {counted(source.size, 'byte')}", field=member.name, expected=f"at most {MOST}"
            )
        source.check()
        return source.read(0, source.size)


def taken(item: Member, algorithm: str, who: str, view: View) -> Stated | Compared | Finding:
    """Return what is so of a file, or why nobody can tell: a finding for damage."""
    try:
        with item.open() as source:
            return Stated(algorithm, digest_of(source, algorithm), source.size)
    except FormatError as error:
        return finding(unread("FP1710", error), _span(view, item.name), error.describe(), error.hint)
    except FatpackError as error:
        return Compared(who, 1, error.problem)


def compared(
    items: Iterable[Member | Finding], stated: Mapping[str, Stated], who: str, view: View, *, unlisted: bool = True
) -> Iterator[Compared | Finding]:
    """Compare files with what ``who`` states of them: yield findings, and how many were compared.

    ``unlisted`` says that all files are to be listed. Findings of the walk are left to whoever reads the package.
    """
    count, silent, missing, strangers = 0, 0, dict.fromkeys(stated), list[str]()
    stranger_count = 0
    for item in items:
        if isinstance(item, Finding):
            continue
        said = stated.get(item.name)
        missing.pop(item.name, None)
        if said is None:
            stranger_count += 1
            strangers += [item.name] if len(strangers) < _SHOWN else []
        elif said.algorithm not in ALGORITHMS or not said.digest:
            silent += 1
        else:
            found = taken(item, said.algorithm, who, view)
            if isinstance(found, Stated):
                count += 1
                yield from _difference(item.name, said, found, who, view)
            else:
                yield found
    if count:
        yield Compared(who, count)
    if silent:
        yield Compared(who, silent, f"{who} has no digest of them, or one of a kind that is not known here")
    if stranger_count and not unlisted:
        yield Compared(who, stranger_count, f"{who} does not list them, and need not")
    yield from _lacking(list(missing), strangers, stranger_count if unlisted else 0, who, view)


def differences(
    found: Mapping[str, Stated], stated: Mapping[str, Stated], who: str, view: View
) -> Iterator[Compared | Finding]:
    """Compare what was taken before with what was stated later, as :func:`compared` does; all are to be listed."""
    both = [name for name in stated if name in found]
    for name in both:
        yield from _difference(name, stated[name], found[name], who, view)
    if both:
        yield Compared(who, len(both))
    strangers = [name for name in found if name not in stated]
    yield from _lacking([name for name in stated if name not in found], strangers[:_SHOWN], len(strangers), who, view)


def _difference(name: str, said: Stated, found: Stated, who: str, view: View) -> Iterator[Finding]:
    if said.digest.lower() != found.digest:
        text = f"{name} has another {said.algorithm} than {who} says"
        yield wrong("FP3603", view, text, name, expected=said.digest, found=found.digest)
    elif said.size is not None and said.size != found.size:
        text = f"{name} has {counted(found.size or 0, 'byte')}, and {who} says {said.size}"
        yield wrong("FP3603", view, text, name)


def _lacking(missing: list[str], strangers: list[str], count: int, who: str, view: View) -> Iterator[Finding]:
    for name in missing[:_SHOWN]:
        yield wrong("FP3604", view, f"{who} lists {name}, which is not in the package", name)
    if len(missing) > _SHOWN:
        yield wrong("FP3604", view, f"{who} lists {len(missing) - _SHOWN:,} files more that are not in the package", "")
    for name in strangers if count else ():
        yield wrong("FP3604", view, f"{name} is in the package, and {who} does not list it", name)
    if count > len(strangers):
        text = f"{count - len(strangers):,} files more are in the package, and {who} does not list them"
        yield wrong("FP3604", view, text, "")


def wrong(code: str, view: View, text: str, name: str, *, expected: str = "", found: str = "") -> Finding:
    """Return a finding about a file of a package, or about what is stated of it."""
    told = f"{text} (expected {expected}, found {found})" if expected else text
    return finding(code, _span(view, name), told, "get the package again")


def _span(view: View, name: str) -> Span:
    return Span(view.start, view.end, (*view.chain, name) if name else view.chain)
