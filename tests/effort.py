"""The number of examples of a run: a part by default, all if ``FATPACK_EXAMPLES`` is set, as in CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

#: Whether a run takes its time.
IS_FULL = "FATPACK_EXAMPLES" in os.environ

#: Examples that hypothesis draws of a property.
EXAMPLES = int(os.environ.get("FATPACK_EXAMPLES", "25"))


def some(cases: Sequence[T], share: int = 4) -> Sequence[T]:
    """Return one of ``share`` cases, all of them in a full run."""
    return cases if IS_FULL else cases[::share]
