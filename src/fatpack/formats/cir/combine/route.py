"""Which module goes to which requested target, with everything checked before anything is written.

The rules and sentences are those of ``cir-offload-merge -split`` (clang/tools/cir-offload-merge/cir-offload-merge.cpp),
which writes while it looks, so that a failure leaves files behind.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.cir import bundle_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.model import Container, Image


def assign_targets(
    container: Container,
    targets: Sequence[str],
    *,
    problem: Callable[[str], str] = bundle_id.refusal_reason,
    exact_first: bool = True,
) -> tuple[Image, ...]:
    """Return the image for each requested target. Modules that nobody asks for are passed over.

    ``problem(id)`` says what is wrong with an ID. With ``exact_first`` an ID that is spelled as requested beats all
    that merely fit; cir-offload-merge takes that for ambiguous. Raises UsageError in the tool's words.
    """
    _check(targets, problem)
    chosen: dict[str, Image] = {}
    seen: set[str] = set()
    stored = {image.attrs.get("id", "") for image in container.images}
    for image in container.images:
        spelling = image.attrs.get("id")
        if spelling is None:
            raise _problem(
                "nested module is missing 'cir.offload.bundle_id'", image, "select it by its position instead"
            )
        if spelling in seen:
            raise _problem(f"duplicate module bundle ID '{spelling}'", image)
        seen.add(spelling)
        if problem(spelling):
            raise _problem(f"invalid module bundle ID '{spelling}'", image, problem(spelling))
        if exact_first and spelling in targets:
            matching = [spelling]
        else:
            matching = [
                target
                for target in targets
                if not (exact_first and target in stored) and bundle_id.fits(spelling, target)
            ]
        if len(matching) > 1:
            raise _problem(f"module bundle ID '{spelling}' matches multiple requested targets", image)
        for target in matching:
            if target in chosen:
                raise _problem(f"multiple modules match target '{target}'", image)
            chosen[target] = image
    for target in targets:
        if target not in chosen:
            stored_as = ", ".join(sorted(seen)) or "none"
            raise UsageError(
                f"can't find module for target '{target}'",
                hint=f"the file has {stored_as}",
                chain=container.span.source,
            )
    return tuple(chosen[target] for target in targets)


def _check(targets: Sequence[str], problem: Callable[[str], str]) -> None:
    seen: set[str] = set()
    for target in targets:
        if target in seen:
            raise UsageError(f"duplicate target '{target}'")
        seen.add(target)
        wrong = problem(target)
        if wrong:
            raise UsageError(f"invalid target '{target}'", hint=wrong)


def _problem(text: str, image: Image, hint: str = "") -> UsageError:
    return UsageError(text, hint=hint, chain=image.span.source)
