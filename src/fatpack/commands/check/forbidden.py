"""No image is for an architecture of ``--forbid``."""

from __future__ import annotations

import fnmatch
import shlex

from fatpack.commands.check.given import make_violation
from fatpack.commands.check.rule_context import row_arch_label
from fatpack.errors import cli_or_api, pluralize
from fatpack.inputs.files import SEPARATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.commands.check.given import RuleContext
    from fatpack.commands.check.model import Violation
    from fatpack.commands.check.rule_context import FileImageSets
    from fatpack.tabular.columns import AnyRow

#: how the names of packages end that are slimmed as they are, and the tag that makes another name of one
_TAGS = {".whl": "1slim", ".conda": "slim", ".tar.bz2": "slim"}


def forbidden_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield the libraries with forbidden images, pattern by pattern."""
    found = {pattern: [(item, _archs(item, pattern)) for item in given.found] for pattern in given.policy.forbid}
    #: the file that slim takes, a package for all files in it → what is to go
    dropped: dict[str, dict[str, None]] = {}
    for item, archs in (pair for pairs in found.values() for pair in pairs):
        dropped.setdefault(_outermost(item), {}).update(dict.fromkeys(archs))
    for pattern, pairs in found.items():
        for item, archs in pairs:
            if archs:
                names = ", ".join(dict.fromkeys(archs))
                text = f"has {names}, which {pattern} forbids ({pluralize(len(archs), 'image')})"
                path = _outermost(item)
                yield make_violation(
                    "FP3306", item.last.path, pattern, text, _advice(path, item.last.path, dropped[path])
                )


def _archs(item: FileImageSets, pattern: str) -> list[str]:
    return [arch for unit in item.units for row in unit.images for arch in _matching(row, pattern)]


def _outermost(item: FileImageSets) -> str:
    return item.last.path.partition(SEPARATOR)[0]


def _advice(outermost: str, path: str, archs: Iterable[str]) -> str:
    """Return the command or call that takes architectures out of a file, or out of the package around it."""
    tag = next((tag for end, tag in _TAGS.items() if outermost.lower().endswith(end)), "")
    if outermost != path and not tag:
        return "take it out before it is packed: fatpack slim FILE --drop PATTERN -d slim"
    dropped = ",".join(filter(None, archs))
    named = outermost != path
    return cli_or_api(
        f"fatpack slim {shlex.quote(outermost)} --drop {shlex.quote(dropped)}"
        f"{f' --build-tag {tag}' if named else ''} -d slim",
        f"fatpack.slim({outermost!r}, OUTPUT, drop={dropped!r}{f', build_tag={tag!r}' if named else ''})",
    )


def _matching(row: AnyRow, pattern: str) -> list[str]:
    names = (row.arch or "", row_arch_label(row), row.processor or "")
    return [row_arch_label(row)] if any(name and fnmatch.fnmatchcase(name, pattern) for name in names) else []
