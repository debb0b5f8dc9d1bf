"""The text of ``inspect``: a tree of hosts, containers, images and kernels, made from the record that JSON shows too.

::

    host.o: ELF, 20.9 kB
      .llvm.offloading at 0x1d0: 3 × llvm-offload-binary v1, 3 images, 18.1 kB
        0.0  openmp  amdgcn-amd-amdhsa    gfx90a  bitcode  at 0x258   5.68 kB
        2.0  openmp  nvptx64-nvidia-cuda  sm_80   cubin    at 0x3300   5.7 kB  2 kernels: saxpy, dot
      warning FP1102 at 0x3300: …
"""

from __future__ import annotations

from fatpack.report.text import columns, count, printable, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: host → how the first line calls it
_HOSTS = {
    "raw": "",
    "elf": "ELF",
    "coff": "COFF object",
    "pe": "PE image",
    "archive": "archive",
    "bitcode": "LLVM bitcode",
}

#: Kernel names shown on an image's line without ``-v``.
_KERNELS_SHOWN = 3


def render(record: dict[str, Any], *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines for one file. ``verbose`` 1 adds addresses, attributes and all kernels."""
    path = printable(record["path"])
    if record.get("error"):
        yield f"{path}: cannot be read"
        return
    containers, image = record["containers"], record["image"]
    kind = _HOSTS.get(record["host"], record["host"])
    if not containers and record["format"]:
        kind = f"{record['format']}, {_why_empty(record['findings'])}"
    facts = [kind] if kind else []
    if image:
        facts = [" ".join(word for word in (image["form"], image["arch"]) if word)]
        facts += [image["detail"]] if image["detail"] else []
    elif not containers and not kind:
        facts.append("no file we know")
    yield f"{path}: {', '.join([*facts, size_words(record['size'])])}"
    if image and image["kernels"]:
        yield from _kernel_lines(image["kernels"], "  ", verbose)
    if containers:
        yield from _places(containers, "  ", record["path"], verbose)
    elif not image and not record["format"] and not _may_hide(record["findings"]):
        yield "  no device code found"
    yield from finding_lines(record["findings"], "  ")


def _why_empty(findings: Sequence[dict[str, Any]]) -> str:
    """Return why a bare container shows nothing: it is damaged, or of a format this version does not read."""
    return "damaged" if any(item["severity"] == "error" for item in findings) else "not read by this version"


def _may_hide(findings: Sequence[dict[str, Any]]) -> bool:
    """Return whether device code may be there all the same: in what is damaged, or not read by this version."""
    return any(item["severity"] == "error" or item["code"] == "FP1006" for item in findings)


def finding_lines(findings: Sequence[dict[str, Any]], indent: str) -> Iterator[str]:
    """Yield one line per finding: severity, code, place, message, hint."""
    for item in findings:
        place = f" at {item['offset']:#x}" if item["offset"] is not None else ""
        where = " → ".join(item["where"][1:])
        text = f"{item['severity']} {item['code']}{place}{f' ({where})' if where else ''}: {item['message']}"
        yield indent + printable(f"{text}; {item['hint']}" if item["hint"] else text)


def _places(
    containers: Sequence[dict[str, Any]], indent: str, path: str, verbose: int, prefix: str = ""
) -> Iterator[str]:
    """Yield the lines of containers, grouped by the place they share."""
    start = 0
    while start < len(containers):
        first = containers[start]
        end = start
        while end < len(containers) and _place(containers[end]) == _place(first):
            end += 1
        group = containers[start:end]
        yield f"{indent}{_heading(group)}"
        yield from _group(group, start, indent + "  ", path, verbose, prefix)
        start = end


def _place(container: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(container[key] for key in ("member", "section", "section_index", "format", "version"))


def _heading(group: Sequence[dict[str, Any]]) -> str:
    first = group[0]
    place = printable(" → ".join(name for name in (first["member"], first["section"]) if name))
    at = f" at {first['offset']:#x}" if first["offset"] is not None else ""
    size = sum(container["size"] for container in group)
    total = sum(len(container["images"]) for container in group)
    name = f"{first['format']} v{first['version']}" if first["version"] else first["format"]
    what = f"{len(group)} × {name}" if len(group) > 1 else name
    packed = {container["attrs"].get("compression") for container in group} - {None}
    compressed = f", {'/'.join(sorted(packed))}" if packed else ""
    inside = f"{what}, {count(total, 'image')}{compressed}, {size_words(size)}"
    return f"{place}{at}: {inside}" if place else f"{inside}{at}"


def _group(
    group: Sequence[dict[str, Any]], start: int, indent: str, path: str, verbose: int, prefix: str
) -> Iterator[str]:
    rows, below = [], []
    for number, container in enumerate(group, start):
        for image in container["images"]:
            position = f"{prefix}{number}.{image['index']}"
            rows.append(_row(position, image, verbose))
            below.append((position, image))
    for line, (position, image) in zip(columns(rows, right=(6,), indent=indent), below, strict=True):
        yield line
        deeper = indent + "    "
        if verbose:
            yield from _details(image, deeper, path)
        if verbose and image["kernels"]:
            yield from _kernel_lines(image["kernels"], deeper, verbose)
        if image["containers"]:
            yield from _places(image["containers"], deeper, path, verbose, f"{position}/")


def _row(position: str, image: dict[str, Any], verbose: int) -> list[str]:
    form = image["form"] or "unknown"
    offload = image["offload"] if image["offload"] != "none" else "-"
    at = f"at {image['offset']:#x}" if image["offset"] is not None else image["compression"] or "-"
    kernels = "" if verbose else _kernel_words(image["kernels"])
    cells = [
        position,
        offload,
        image["triple"] or "-",
        image["arch"] or "-",
        form,
        at,
        size_words(image["size"]),
        kernels,
    ]
    return [printable(cell) for cell in cells]


def _kernel_words(kernels: Sequence[str]) -> str:
    if not kernels:
        return ""
    shown = ", ".join(kernels[:_KERNELS_SHOWN])
    more = len(kernels) - _KERNELS_SHOWN
    return f"{count(len(kernels), 'kernel')}: {shown}{f', … {more} more' if more > 0 else ''}"


def _kernel_lines(kernels: Sequence[str], indent: str, verbose: int) -> Iterator[str]:
    if verbose:
        yield from (printable(f"{indent}kernel {name}") for name in kernels)
    else:
        yield printable(indent + _kernel_words(kernels))


def _details(image: dict[str, Any], indent: str, path: str) -> Iterator[str]:
    if image["detail"]:
        yield printable(f"{indent}{image['detail']}")
    if image["offset"] is not None and image["stored_size"] is not None:
        yield printable(f"{indent}{path}#offset={image['offset']:#x}&size={image['stored_size']:#x}")
    for key, value in image["attrs"].items():
        yield printable(f"{indent}{key} = {value}")
