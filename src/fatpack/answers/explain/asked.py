"""What a user typed → what is asked. Raises UsageError and TargetError for what is none."""

from __future__ import annotations

import re

from fatpack.answers.explain.explain import Question
from fatpack.errors import UsageError, in_both
from fatpack.target.choice.drivers import cuda_of, version
from fatpack.target.choice.settings import Settings, with_variables
from fatpack.target.machine import devices as devices_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def question(
    devices: Iterable[str],
    *,
    driver: str | None = None,
    cuda: str | None = None,
    rocm: str | None = None,
    variables: Iterable[str] = (),
    kernel: str = "",
) -> Question:
    """Return the question; ``driver`` is a driver's number, ``cuda`` its CUDA version, and both is one too many."""
    if driver and cuda:
        raise UsageError(
            f"{in_both('--driver', 'driver=')} and {in_both('--cuda', 'cuda=')} both say which driver it is",
            hint="give one of them",
        )
    found = cuda_of(driver) if driver else version(cuda) if cuda else None
    settings = Settings(found, version(rocm, "version of ROCm") if rocm else None)
    try:
        re.compile(kernel)
    except re.error as error:
        raise UsageError(f"{kernel[:80]!r} is no regular expression: {error}") from error
    named = devices_of(devices)
    words = f"CUDA {found[0]}.{found[1]}" if found else ""
    return Question(named, with_variables(settings, variables), kernel, words, rocm or "")
