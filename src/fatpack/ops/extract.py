"""Extracting: selected images, whole containers or plain byte ranges → files.

A stored name never decides where anything is written: file names are made from the input's own name, triple and arch
with everything but harmless characters replaced. All names are checked before the first byte is written.
"""

from __future__ import annotations

import errno
import os

from fatpack import images
from fatpack.errors import UsageError
from fatpack.io import limits
from fatpack.io.names import image_name, safe_word, stem
from fatpack.io.sink import write_file
from fatpack.ops.select import describe, positions, select
from fatpack.record import Record
from fatpack.scan import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.sink import Progress
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.ops.select import Selector


class Extract(Record):
    """One thing to write: its proposed file name, its bytes, and a phrase that says what it is."""

    name: str
    data: View
    what: str


def plan_images(items: Sequence[Found | Finding], selector: Selector, source: str) -> list[Extract]:
    """Return what to write for the selected images, named ``<stem>-<triple>-<arch>.<number>.<extension>``.

    The number counts all images of the file, so that it does not depend on the selection. An image that only wraps
    containers is listed like any other; those inside it come right after it.
    """
    numbers = {position: number for number, (position, _, _) in enumerate(positions(items))}
    plan = []
    for position, found, image in select(items, selector):
        target = image.image.target
        where = found.member or source
        extension = images.EXTENSIONS.get(image.form, "bin" if not image.form else image.form)
        name = image_name(where, target.triple, target.arch, numbers[position], extension)
        plan.append(Extract(name, image.image.data, describe(position, image)))  # type: ignore[arg-type]
    return plan


def plan_containers(items: Sequence[Found | Finding], selector: Selector, source: str) -> list[Extract]:
    """Return what to write for whole containers, as stored, that hold at least one selected image (or are empty)."""
    plan = []
    containers = [item for item in items if isinstance(item, Found)]
    for number, found in enumerate(containers):
        if selector.container is not None and number != selector.container:
            continue
        if not selector.replace(container=None).is_empty() and not any(
            True for _ in select([found], selector.replace(container=None))
        ):
            continue
        name = f"{safe_word(stem(found.member or source)) or 'container'}.{number}.{found.container.format}"
        plan.append(Extract(name, found.view, f"{number} {found.container.format} v{found.container.version}"))
    return plan


def write_plan(
    plan: Sequence[Extract], directory: str, *, force: bool = False, progress: Progress | None = None
) -> list[str]:
    """Write everything into ``directory`` (made if missing); return the paths in order.

    Nothing is written if any file exists already and ``force`` is not given, or if two would get one name.
    """
    if "\0" in directory:
        raise UsageError("a path cannot contain a NUL character")
    paths = [os.path.join(directory, item.name) for item in plan]
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise UsageError(f"two images would be written to {path}", hint="extract them one by one with -o")
        seen.add(path)
    total = sum(len(item.data) for item in plan)
    present = {id(item.data.source): item.data.source.size for item in plan}
    if not force and total > 2 * sum(present.values()) + limits.CHUNK:
        raise UsageError(
            f"the images share bytes: {total} bytes would be written", hint="select what you need, or --force"
        )
    if not force:
        existing = [path for path in paths if os.path.lexists(path)]
        if existing:
            verb = f"and {len(existing) - 1} more exist" if len(existing) > 1 else "exists"
            hint = "give another directory with -d, or --force to overwrite"
            raise UsageError(f"{existing[0]} {verb}", hint=hint)
    if directory:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        os.makedirs(directory, exist_ok=True)
    for path, item in zip(paths, plan, strict=True):
        write_file(path, [item.data], force=force, progress=progress)
    return paths


def parse_address(text: str) -> tuple[str, int, int | None] | None:
    """Return (path, offset, size) of an address such as ``lib.so#offset=0x1000&size=512``, None if it is a plain path.

    Numbers are decimal, ``0x`` hexadecimal or ``0`` octal as in ROCm code object addresses; ``file://`` in front and
    percent-encoding in the path are understood then. A file of exactly that name is always taken as a path.
    """
    path, mark, query = text.partition("#")
    if not mark:
        path, mark, query = text.partition("?")
    if not mark or not query.startswith("offset=") or os.path.lexists(text):
        return None
    values: dict[str, int] = {}
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if key not in ("offset", "size"):
            raise UsageError(f"address {text!r}: unknown part {part!r}", hint="write PATH#offset=N&size=N")
        if key in values:
            raise UsageError(f"address {text!r}: {key} is given twice", hint="write PATH#offset=N&size=N")
        values[key] = _number(text, value)
    if path.startswith("file://"):
        from urllib.parse import unquote

        path = unquote(path[len("file://") :])
    return path, values["offset"], values.get("size")


def _number(text: str, value: str) -> int:
    if not (value.isascii() and value.isalnum()):
        value = ""
    base = 16 if value[:2].lower() == "0x" else 8 if value[:1] == "0" and len(value) > 1 else 10
    try:
        number = int(value, base)
    except ValueError:
        number = -1
    if number < 0:
        raise UsageError(f"address {text!r}: {value!r} is no number", hint="write PATH#offset=N&size=N")
    return number
