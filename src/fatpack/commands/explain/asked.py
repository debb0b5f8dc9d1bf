"""What a user typed → what is asked. Raises UsageError and TargetError for what is none."""

from __future__ import annotations

import re

from fatpack.commands.explain.run import ExplainQuery
from fatpack.errors import UsageError, cli_or_api
from fatpack.targets.local_devices import parse_devices as devices_of
from fatpack.targets.selection.choice_settings import RuntimeSettings, with_variables
from fatpack.targets.selection.settings import driver_cuda, parse_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_query(
    devices: Iterable[str],
    *,
    driver: str | float | None = None,
    cuda: str | float | None = None,
    rocm: str | float | None = None,
    variables: Iterable[str] = (),
    kernel: str = "",
) -> ExplainQuery:
    """Return the question; ``driver`` is a driver's number, ``cuda`` its CUDA version, and both is one too many."""
    driver, cuda, rocm = _text("driver", driver), _text("cuda", cuda), _text("rocm", rocm)
    if driver and cuda:
        raise UsageError(
            f"{cli_or_api('--driver', 'driver=')} and {cli_or_api('--cuda', 'cuda=')} both say which driver it is",
            hint="give one of them",
        )
    found = driver_cuda(driver.removeprefix("r").removeprefix("R")) if driver else parse_version(cuda) if cuda else None
    settings = RuntimeSettings(found, parse_version(rocm, "version of ROCm") if rocm else None)
    try:
        re.compile(kernel)
    except re.error as error:
        raise UsageError(f"{kernel[:80]!r} is no regular expression: {error}") from error
    named = devices_of(devices)
    if not named:
        example = cli_or_api("--device 'RTX 4090'", "device='RTX 4090'")
        raise UsageError(cli_or_api("no device was named", "device names none"), hint=f"name one: {example}")
    words = f"CUDA {found[0]}.{found[1]}" if found else ""
    return ExplainQuery(named, with_variables(settings, variables), kernel, words, rocm or "")


def _text(name: str, value: object) -> str | None:
    """Return a version as text: 12.2 and 535 are numbers in Python. Raises TypeError for what is no version."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise TypeError(f"{name} must be a version, as a text or a number, got {type(value).__name__}")
