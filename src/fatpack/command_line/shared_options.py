"""Options that several commands share, so that a flag means the same everywhere."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

import click

from fatpack import limits
from fatpack.command_line.command import ScopedOption, SharedOption, option_group
from fatpack.command_line.param_types import (
    BUNDLE_ID,
    FILE,
    FILE_TARGET,
    FORM,
    KERNEL,
    OFFLOAD,
    TRIPLE,
    ChoiceType,
    CountType,
    SizeType,
    SuggestionType,
)
from fatpack.errors import UsageError
from fatpack.limits import current_budget, raised_budget
from fatpack.printable import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from fatpack.selectors.select import Selector


# ``--limit NAME=NUMBER`` and ``FATPACK_LIMITS``: for one command, more than usual for a file that is trusted.

#: name of a limit on the command line → what it bounds; the numbers and their reasons are in ``fatpack.limits``
LIMITS = {
    "inflated": "bytes that one command inflates in all",
    "output": "bytes that one command writes, if that is more than 100 times as much as it was given",
    "window": "bytes that inflating a package may keep to look back on",
    "nesting": "levels of containers inside images inside containers",
    "containers": "containers of a file",
    "images": "images of a container",
    "string-ratio": "bytes of names and other strings, as a multiple of what holds them",
    "string-table": "bytes of one table of symbol names",
    "bundle-id": "bytes of one bundle ID",
    "bundle-entries": "entries of one bundle",
    "attributes": "attributes of one module of a CIR container",
    "sections": "sections of an ELF file",
    "image-sections": "sections of a device image",
    "image-section-size": "bytes of one section of a device image that are read as a whole",
    "kernels": "kernels, or functions, of an image that are described",
    "ptx-header": "bytes from a kernel's name to its body in PTX",
    "ptx-name": "bytes of a kernel's name in PTX",
    "filler": "bytes of padding and uninitialised data in an object that is written anew",
    "kpack-toc": "bytes of the table of contents of a kpack archive",
    "property-sets": "bytes of the property sets of one module of a SYCLBIN file",
    "copies": "times that an object may grow because its sections overlap",
}


class LimitsInEffect:
    """Limits that hold while a ``with`` block runs; those from before hold again after it."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take texts of the form ``NAME=NUMBER``, where a number may have a unit as sizes have. Raises UsageError."""
        self._wanted = dict(map(_parsed, texts))
        self._before: dict[str, int] = {}

    def __enter__(self) -> Self:
        for name, number in self._wanted.items():
            self._before[name] = getattr(limits, name)
            setattr(limits, name, number)
        return self

    def __exit__(self, *_: object) -> None:
        for name, number in self._before.items():
            setattr(limits, name, number)


def current_limit(name: str) -> int:
    """Return the current value of a limit."""
    number: int = getattr(limits, _constant(name))
    return number


def _constant(name: str) -> str:
    """Return the name of the constant of ``fatpack.limits``."""
    return name.upper().replace("-", "_")


def _parsed(text: str) -> tuple[str, int]:
    """Return the constant of ``fatpack.limits`` and the number that a text asks for."""
    name, equals, value = text.partition("=")
    if name not in LIMITS:
        raise UsageError(f"no limit {name!r}", hint=f"limits are {', '.join(LIMITS)}")
    try:
        number = parse_size(value)
    except ValueError:
        problem = f"{value!r} is no number" if equals else "a number is missing"
        raise UsageError(f"limit {name}: {problem}", hint=f"as in {name}=100000 or {name}=8G") from None
    return _constant(name), number


#: The selectors; a command takes them as ``**selectors`` for :func:`selector_from_options`.
selector_options = option_group(
    click.option(
        "--arch",
        multiple=True,
        type=FILE_TARGET,
        metavar="PATTERN,…",
        help="Architecture: sm_90, compute_90 (PTX), 'sm_9*', '!sm_90' (any other).",
    ),
    click.option("--triple", multiple=True, type=TRIPLE, metavar="PATTERN,…", help="Target triple."),
    click.option(
        "--offload", multiple=True, type=OFFLOAD, metavar="PATTERN,…", help="Offload model: cuda, hip, openmp, sycl."
    ),
    click.option(
        "--form", multiple=True, type=FORM, metavar="PATTERN,…", help="What the image is: cubin, ptx, bitcode, …"
    ),
    click.option("--kernel", type=KERNEL, metavar="REGEX", help="Images with a kernel whose name matches."),
    click.option(
        "--image",
        "position",
        metavar="N.M",
        help="The image at this position, as inspect prints it: 0.2.",
    ),
    click.option("--container", type=CountType(0), metavar="N", help="The N-th container, from 0."),
    click.option("--index", type=CountType(0), metavar="M", help="The M-th image of its container, from 0."),
    click.option(
        "--id",
        multiple=True,
        type=BUNDLE_ID,
        metavar="BUNDLE-ID",
        help="Select by bundle ID; falls back to a compatible image.",
    ),
    click.option("--hip-openmp", is_flag=True, help="With --id: treat HIP and OpenMP IDs as equal."),
)


def selector_from_options(selectors: dict[str, Any]) -> Selector:
    """Return the selector that the shared options describe."""
    from fatpack.selectors.select import Selector

    position = selectors.pop("position", None)
    if position is not None:
        if selectors["container"] is not None or selectors["index"] is not None:
            raise UsageError("--image and --container or --index say the same", hint="leave one out")
        selectors["container"], selectors["index"] = parse_position(position)
    return Selector(**selectors)


def parse_position(text: str) -> tuple[int, int]:
    """Return the container and the image in it of a position: (0, 2) for ``0.2``. Raises UsageError."""
    container, dot, index = text.partition(".")
    if "/" in text:
        outer = text.partition("/")[0]
        hint = f"--image {outer} means the image around it: extract that, and then from its file"
        raise UsageError(f"--image {text[:40]!r} is inside another image", hint=hint)
    if not (dot and all(part.isascii() and part.isdecimal() and len(part) < 10 for part in (container, index))):
        raise UsageError(f"--image {text[:40]!r} is no position", hint="as inspect prints it: --image 0.2")
    return int(container), int(index)


def _limits() -> Iterable[str]:
    return (f"{name}=" for name in LIMITS)


def _inflated(size: int) -> AbstractContextManager[object]:
    """Return what bounds the bytes that a command inflates."""
    return raised_budget(inflated=size)


def _written(size: int) -> AbstractContextManager[object]:
    """Return what bounds the bytes that a command writes."""
    return raised_budget(output=size)


def _waiting(seconds: int) -> AbstractContextManager[object]:
    """Return what bounds the seconds in which a command waits for servers."""
    return raised_budget(seconds=seconds)


def _coloured(choice: str) -> AbstractContextManager[object]:
    """Return what decides on colour while a command runs."""
    from fatpack.command_line.terminal import ColourChoice

    return ColourChoice(choice)


def _shared_out(count: int) -> AbstractContextManager[object]:
    """Return what bounds the processes, and the threads, that share the work of a command."""
    from fatpack.concurrency.threads import JobsInEffect

    return JobsInEffect(count)


def _kept(is_off: bool) -> AbstractContextManager[object]:
    """Return what keeps facts of images in the folder of ``FATPACK_CACHE`` while a command runs."""
    path = None
    if not is_off and os.environ.get("FATPACK_CACHE"):  # most have none, and need not load what finds it
        from fatpack.io.cache_folder import folder_from_environment

        path = folder_from_environment()
    if path is None:
        return nullcontext()
    from fatpack.images.cache import CacheInEffect

    return CacheInEffect(path)


def allow_any_output(force: bool) -> None:
    """Lift the output limit with --force, unless --max-output sets it."""
    if force and current_budget().output is None:
        current_budget().output = sys.maxsize


max_inflated_option = click.option(
    "--max-inflated",
    cls=ScopedOption,
    type=SizeType(),
    during=_inflated,
    metavar="SIZE",
    help="Stop after decompressing this many bytes, as 128G. Default: 64G.",
)
max_output_option = click.option(
    "--max-output",
    cls=ScopedOption,
    type=SizeType(),
    during=_written,
    metavar="SIZE",
    help="Stop after writing this many bytes. Default: 1G, or 100 times the input if that is more.",
)
timeout_option = click.option(
    "--timeout",
    cls=ScopedOption,
    type=CountType(1),
    during=_waiting,
    metavar="SECONDS",
    help="Of URLs: stop after waiting this long for servers, all requests together. Default: 600.",
)
schema_option = click.option(
    "--schema", cls=SharedOption, is_flag=True, help="Print the JSON schema of the output of --json, and exit."
)
deep_option = click.option(
    "--deep",
    cls=SharedOption,
    is_flag=True,
    help="Also search the host program's code, and the data of objects (slow).",
)
exclude_option = click.option(
    "--exclude",
    cls=SharedOption,
    multiple=True,
    metavar="PATTERN",
    help="In folders and packages, skip files with this name (or, with a /, this path). Repeatable.",
)
limit_option = click.option(
    "--limit",
    cls=ScopedOption,
    multiple=True,
    type=SuggestionType(_limits),
    during=LimitsInEffect,
    metavar="NAME=NUMBER",
    help="Raise a safety limit (see `fatpack help limits`). Repeatable.",
)
jobs_option = click.option(
    "--jobs",
    "-j",
    cls=ScopedOption,
    type=CountType(1),
    during=_shared_out,
    metavar="N",
    help="Share the work among N processes or threads. Default: one for each core.",
)
cache_option = click.option(
    "--no-cache",
    cls=ScopedOption,
    is_flag=True,
    during=_kept,
    help="Read every image, whatever check, diff, explain, inspect and report left in the folder of FATPACK_CACHE.",
)
#: For commands that print text for people: the renderer gets ``fatpack.command_line.terminal.get_style()``.
color_option = click.option(
    "--color",
    cls=ScopedOption,
    type=ChoiceType(("auto", "always", "never")),
    during=_coloured,
    metavar="WHEN",
    help="Colour: auto (on a terminal), always or never. Without it NO_COLOR and FORCE_COLOR count.",
)
#: An output that already exists is refused without this, and one that is out of proportion (:func:`allow_any_output`).
force_option = click.option(
    "--force",
    "-f",
    cls=SharedOption,
    is_flag=True,
    help="Overwrite existing files, and lift the output-size limit.",
)
quiet_option = click.option("--quiet", "-q", cls=SharedOption, is_flag=True, help="Print only errors.")

#: The limits on what a command reads.
limit_options = option_group(max_inflated_option, timeout_option, limit_option)

#: Options of the commands that write files: on how many cores, what they may inflate and write, and what they print.
writing_options = option_group(jobs_option, max_output_option, limit_options, color_option, quiet_option)

#: Options of the commands that read files, folders and packages: what is searched, on how many cores, and what they may
#: inflate.
reading_options = option_group(deep_option, exclude_option, jobs_option, limit_options, color_option)

_SHARED = option_group(
    force_option,
    quiet_option,
    color_option,
    exclude_option,
    deep_option,
    schema_option,
    jobs_option,
    cache_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    timeout_option,
)


def shared() -> list[click.Option]:
    """Return the options that ``fatpack help options`` explains."""
    return [each for each in click.command()(_SHARED(lambda: None)).params if isinstance(each, click.Option)]


#: -o, --in-place, --break-links and --force; what they say is a ``Destination`` of :mod:`fatpack.command_line.edit_io`.
output_options = option_group(
    click.option("-o", "--output", type=FILE, help='Where to write the edited file; "-" is stdout.'),
    click.option("--in-place", is_flag=True, help="Change the file itself."),
    click.option("--break-links", is_flag=True, help="With --in-place: other hard links keep the old file."),
    force_option,
)


def check_output_name(output: str | None) -> None:
    """Raise UsageError for an output whose name is empty, as a script's unset variable makes it, or a URL."""
    if output == "":
        raise UsageError("the output has no name", hint='name it with -o; "-" is stdout')
    if output is not None and "://" in output:
        from fatpack.io.url import REMOTE, find_scheme, redact_url

        if find_scheme(output) in REMOTE:
            raise UsageError(
                f"{redact_url(output)}: URLs are read, and not written", hint="write a file, and upload it"
            )
