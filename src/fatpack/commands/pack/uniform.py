"""Whether the parts of one program are built alike: for the same architectures, in the same forms.

A program fails on a GPU that not all of its parts are for: kernels are missing, or the device link fails. With PTX in
some parts only, it starts on later GPUs and fails in the middle.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

DIFFERENCE_HINT = "build all parts of a program for the same architectures"


def arch_differences(parts: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield every part, by name, that has other labels than the first, and a sentence that says which."""
    first = next(iter(parts), "")
    for name, labels in parts.items():
        missing = sorted(set(parts[first]) - set(labels))
        more = sorted(set(labels) - set(parts[first]))
        differing = [f"lacks {', '.join(missing)}"] if missing else []
        differing += [f"has {', '.join(more)} besides"] if more else []
        if differing:
            yield name, f"{name!r} {' and '.join(differing)}, compared with {first!r}"
