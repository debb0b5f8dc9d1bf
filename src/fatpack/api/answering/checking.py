"""Whether files keep to a policy: ``check``."""

from __future__ import annotations

import os

from fatpack.answers.policy import check as checking
from fatpack.answers.policy import config as configs
from fatpack.answers.policy import limits
from fatpack.answers.policy.outcome import Checked
from fatpack.answers.policy.requirements import forbidden, requirements
from fatpack.api.arguments import budget_of, paths_of, patterns_of
from fatpack.api.arguments import check as checked_argument
from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

__all__ = ["Checked", "check"]


def check(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    require: str | Sequence[str] = (),
    forbid: str | Sequence[str] = (),
    max_size: int | str | None = None,
    max_growth: str = "",
    against: str | os.PathLike[str] = "",
    uniform: bool = False,
    registered: bool = False,
    metadata: bool = False,
    per: Literal["unit", "library"] = "unit",
    config: str | os.PathLike[str] | None = None,
    exclude: Sequence[str] = (),
    deep: bool = False,
    names_kernels: bool = False,
    max_inflated: int | None = None,
) -> Checked:
    """Return whether files, folders, patterns, packages and URLs keep to a policy; it is true if they do.

    The arguments are the options of ``fatpack check``: ``require`` are devices (``sm_80``, ``sm_120+ptx``, ``gfx942``,
    ``RTX 4090``) and presets (``@torch-2.9``), in one text or several; ``forbid`` are patterns of architectures.
    ``max_size`` is in bytes, or a text as ``850MB``. ``config`` is a TOML file whose settings hold where no argument
    says else; no pyproject.toml is looked for. ``names_kernels`` reads the kernels of large libraries too.

    Nothing is raised for a file: what cannot be read is a violation, and ``exit_code`` is 3. Raises UsageError for a
    policy that asks for nothing, or cannot be meant, and TargetError for a device that nobody knows.
    """
    names = paths_of("paths", paths)
    file = configs.named(os.fspath(config)) if config is not None else None
    own = file.values if file is not None else {}
    size = max_size if max_size is not None else own.get("max-size")
    policy = checking.Policy(
        require=requirements(_texts("require", require) or own.get("require", ()), configs.presets(file)),
        forbid=forbidden(_texts("forbid", forbid) or own.get("forbid", ())),
        max_size=limits.size_of(size) if isinstance(size, str) else size,
        max_growth=max_growth or own.get("max-growth", ""),
        against=os.fspath(against) or own.get("against", ""),
        uniform=uniform or bool(own.get("uniform")),
        registered=registered or bool(own.get("registered")),
        metadata=metadata or bool(own.get("metadata")),
        per=per if per != "unit" else own.get("per", "unit"),
        exclude=patterns_of(exclude) or tuple(own.get("exclude", ())),
        deep=deep,
        names_kernels=names_kernels,
    )
    if not policy.rules:
        raise UsageError(
            "the policy asks for nothing", hint="give require, forbid, max_size, uniform, registered or metadata"
        )
    if bool(policy.max_growth) != bool(policy.against):
        raise UsageError("max_growth and against go together")
    if policy.per not in ("unit", "library"):
        raise UsageError(f"per is {policy.per!r}", hint="unit or library")
    source = "" if file is None else file.path
    return checking.check(names, policy, budget=budget_of(max_inflated), config=source)


def _texts(argument: str, value: str | Sequence[str]) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(value)
    return tuple(checked_argument(argument, text, str, "a text, or several in a list") for text in texts)
