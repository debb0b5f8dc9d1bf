"""Numbers for people, as pictures and pages write them."""

from __future__ import annotations

from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.commands.report.model import ByteCounts, KernelCoverage, RunsOn


def format_count(number: int, noun: str) -> str:
    """Return ``1 image``, ``2,787 images``, ``3 libraries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def format_sizes(bytes: ByteCounts) -> str:
    """Return what a sum of bytes is, stored (where that is known) and inflated."""
    stored = "" if bytes.stored is None else f"{format_size(bytes.stored)} stored, "
    return f"{stored}{format_size(bytes.inflated)} inflated"


#: vendor → how it is written
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def format_runs_on(item: KernelCoverage) -> str:
    """Return the devices that all kernels of a library run on, as one line."""
    return f"Runs on: {'; '.join(_of_vendor(answer) for answer in item.runs_on) or 'no known device'}"


def _of_vendor(answer: RunsOn) -> str:
    vendor = _VENDORS.get(answer.vendor, answer.vendor)
    if answer.is_every:
        return f"every known {vendor} device" + (", compiled when it is loaded" if answer.compiled else "")
    parts = [_listed(answer.ready)] if answer.ready else []
    if answer.compiled:
        parts.append(f"{_listed(answer.compiled)} (compiled when it is loaded)")
    if not parts:
        parts.append(f"no known {vendor} device with all kernels")
    if answer.partly:
        parts.append(f"with some of the kernels only: {_listed(answer.partly)}")
    if answer.unknown:
        parts.append(f"not certain: {_listed(answer.unknown)}")
    return "; ".join(parts)


def _listed(archs: Iterable[str]) -> str:
    return ", ".join(shorten_name(arch, 60) for arch in archs)


def common_directory(paths: Iterable[str]) -> str:
    """Return what all paths begin with, up to the last name: they are shown without it. Of one path, its folder."""
    shared: str | None = None
    for path in paths:
        at = max(path.rfind(mark) for mark in "/!\\") + 1
        folder = path[:at]
        shared = folder if shared is None else _common(shared, folder)
    return shared or ""


def _common(one: str, other: str) -> str:
    end = 0
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            break
        if left in "/!\\":
            end = at + 1
    return one[:end]


#: LIMIT: characters of a name that a title shows; a template's name may have thousands, a hostile one a million.
_LONGEST = 600


def shorten_name(text: str, most: int = _LONGEST) -> str:
    """Return a name without its middle if it is very long, with the number of its characters."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]}…{text[-most // 5 :]} ({len(text):,} characters)"


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
