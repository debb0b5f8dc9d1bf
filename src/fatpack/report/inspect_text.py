"""The text of ``inspect``: a tree of hosts, containers, images and kernels, made from the record that JSON shows too.

::

    host.o: ELF, 20.9 kB
      .llvm.offloading at 0x1d0: 3 × llvm-offload-binary v1, 3 images, 18.1 kB
        0.0  openmp  amdgcn-amd-amdhsa    gfx90a  bitcode  at 0x258   5.68 kB
        2.0  openmp  nvptx64-nvidia-cuda  sm_80   cubin    at 0x3300   5.7 kB  2 kernels: saxpy, dot
      warning FP1102 at 0x3300: …
"""

from __future__ import annotations

from fatpack.errors import counted
from fatpack.report.text import columns, is_fat_object, printable, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
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

#: Kernel names shown on an image's line without ``-v``, and characters of each. Mangled names reach some thousands.
_KERNELS_SHOWN = 3
_NAME_SHOWN = 60

#: Sections named in the line that says which were not searched.
_SECTIONS_SHOWN = 4


def render(record: dict[str, Any], *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines for one file. ``verbose`` 1 adds addresses, attributes and all kernels.

    A record with facts about kernels shows them as tables, instead of their names.
    """
    path = printable(record["path"])
    if record.get("error"):
        yield f"{path}: cannot be read"
        return
    containers, image = record["containers"], record["image"]
    kind = _HOSTS.get(record["host"], record["host"]) or record.get("kind", "")
    if not containers and record["format"]:
        kind = f"{record['format']}, {_why_empty(record['findings'])}"
    facts = [kind] if kind else []
    if image:
        facts = [" ".join(word for word in (image["form"], image["arch"]) if word)]
        facts += [image["detail"]] if image["detail"] else []
    elif not containers and not kind:
        facts.append("unknown format" if record["size"] else "the file is empty")
    yield f"{path}: {', '.join([*facts, size_words(record['size'])])}"
    if image:
        yield from _module_lines(image, "  ")
        yield from _kernel_lines(image, "  ", verbose)
    if containers:
        yield from _places(containers, "  ", record["path"], verbose)
    members = record.get("member_images", [])
    yield from _member_lines(members, record["path"], verbose)
    if not containers and not members and not image and not record["format"] and not _may_hide(record["findings"]):
        yield "  no device code found"
    if verbose or record.get("found_outside"):
        yield from (f"  {line}" for line in not_searched(record))
    if record["findings"]:
        from fatpack.report.finding_text import finding_lines

        unlisted = record.get("unlisted_findings", ())
        yield from finding_lines(record["findings"], "  ", unlisted=unlisted, path=record["path"], verbose=verbose)


def _module_lines(image: dict[str, Any], indent: str) -> Iterator[str]:
    """Yield a line for each module of a CIR file: its name, role, target and bundle ID, as far as it states them."""
    for module in image.get("stored", {}).get("modules", ()):
        name = f"@{module['name']}" if module["name"] else "without a name"
        stated = [module["role"], module["triple"], module["arch"], module["id"]]
        yield printable(indent + ", ".join([f"module {name}", *filter(None, stated)]))


def not_searched(record: dict[str, Any]) -> Iterator[str]:
    """Yield the line that says which sections were not searched for containers, the largest first."""
    rows = record.get("not_searched", ())
    if rows:
        names = ", ".join(printable(row["section"]) for row in rows[:_SECTIONS_SHOWN])
        more = f" and {len(rows) - _SECTIONS_SHOWN} more" if len(rows) > _SECTIONS_SHOWN else ""
        size = size_words(sum(row["size"] for row in rows))
        yield f"not searched for containers: {names}{more} ({size}); --deep searches them"


def _member_lines(members: Sequence[dict[str, Any]], path: str, verbose: int) -> Iterator[str]:
    """Yield a line for each member of an archive that is an image itself."""
    repeated = _repeated(members)
    rows = []
    for item in members:
        at = f"at {item['offset']:#x}" if item["offset"] is not None else "-"
        kernels = "" if verbose or item.get("kernel_facts") else _kernel_words(item["kernels"])
        name, size = _title(item, repeated), size_words(item["size"])
        cells = [f"{name}:", item["triple"] or "-", item["arch"] or "-", item["form"], at, size, kernels]
        rows.append([printable(cell) for cell in cells])
    for line, item in zip(columns(rows, right=(5,), indent="  "), members, strict=True):
        yield line
        if verbose and item["detail"]:
            yield printable(f"    {item['detail']}")
        if verbose and item["offset"] is not None:
            yield f"    {_address(path, item)}"
        if verbose or item.get("kernel_facts"):
            yield from _kernel_lines(item, "    ", verbose)


def _why_empty(findings: Sequence[dict[str, Any]]) -> str:
    """Return why a bare container shows nothing: damage, a limit, or a format that this version does not read."""
    codes = {item["code"] for item in findings if item["severity"] == "error"}
    if not codes:
        return "not read by this version"
    return "not read because of a limit" if codes == {"FP1005"} else "damaged"


def _may_hide(findings: Sequence[dict[str, Any]]) -> bool:
    """Return whether device code may be there all the same: in what is damaged, or not read by this version."""
    return any(item["severity"] == "error" or item["code"] == "FP1006" for item in findings)


def _places(
    containers: Sequence[dict[str, Any]], indent: str, path: str, verbose: int, prefix: str = ""
) -> Iterator[str]:
    """Yield the lines of containers, grouped by the place they share."""
    repeated = _repeated(containers)
    start = 0
    while start < len(containers):
        first = containers[start]
        place, end = _place(first), start + 1
        while end < len(containers) and _place(containers[end]) == place:
            end += 1
        group = containers[start:end]
        yield f"{indent}{_heading(group, repeated)}"
        if verbose:
            yield from _symbol_lines(group, indent + "  ")
            yield from _unit_lines(group, start, indent + "  ", prefix)
        yield from _group(group, start, indent + "  ", path, verbose, prefix)
        if first["format"] == "cir-offload-container":
            from fatpack.report.launches import launch_table

            yield from launch_table(first, indent + "  ")
        start = end


def _place(container: dict[str, Any]) -> tuple[Any, ...]:
    member, section, number = container["member"], container["section"], container["section_index"]
    return (*_numbers(container), member, section, number, container["format"], container["version"])


def _numbers(container: dict[str, Any]) -> tuple[int, ...]:
    return tuple(container.get("member_numbers", ()))


def _repeated(containers: Sequence[dict[str, Any]]) -> set[str]:
    """Return the names that several members have."""
    first: dict[str, tuple[int, ...]] = {}
    members = [(container["member"], _numbers(container)) for container in containers if container["member"]]
    return {member for member, numbers in members if first.setdefault(member, numbers) != numbers}


def _title(item: dict[str, Any], repeated: Collection[str]) -> str:
    """Return the name of a member, with its number where others have it too, as it has to be addressed then."""
    name: str = item["member"] or ""
    return f"{name} {''.join(f'(#{number})' for number in _numbers(item))}" if name in repeated else name


def _heading(group: Sequence[dict[str, Any]], repeated: Collection[str]) -> str:
    first = group[0]
    place = printable(" → ".join(name for name in (_title(first, repeated), first["section"]) if name))
    at = f" at {first['offset']:#x}" if first["offset"] is not None else ""
    size = sum(container["size"] for container in group)
    total = sum(len(container["images"]) for container in group)
    name = f"{first['format']} v{first['version']}" if first["version"] else first["format"]
    if is_fat_object(first):
        name += " (fat object)"
    elif first["attrs"].get("flavour") == "linked":
        name += " (linked images)"
    what = f"{len(group)} × {name}" if len(group) > 1 else name
    packed = {container["attrs"].get("compression") for container in group} - {None}
    compressed = f", {'/'.join(sorted(packed))}" if packed else ""
    if any(not container.get("is_inflated", True) for container in group):
        compressed += " (--inflate looks inside)"
    defined = sum(len(names) for names in _symbols(group).values())
    symbols = f", {counted(defined, 'device symbol')}" if defined else ""
    inside = f"{what}, {counted(total, 'image')}{compressed}, {size_words(size)}{symbols}"
    return f"{place}{at}: {inside}" if place else f"{inside}{at}"


def _symbols(group: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the symbols that device code defines, by target, where a bundler noted them."""
    found: dict[str, list[str]] = {}
    for container in group:
        for id, names in container["stored"].get("symbols", {}).items():
            found.setdefault(id, []).extend(names)
    return found


def _symbol_lines(group: Sequence[dict[str, Any]], indent: str) -> Iterator[str]:
    for id, names in _symbols(group).items():
        yield from (printable(f"{indent}{id} defines {name}") for name in names)


def _unit_lines(group: Sequence[dict[str, Any]], start: int, indent: str, prefix: str) -> Iterator[str]:
    """Yield a line for each container whose host names the unit of code it is from, or those it was linked from."""
    for number, container in enumerate(group, start):
        for key in ("module_id", "linked_module_ids"):
            if key in container["attrs"]:
                yield printable(f"{indent}{prefix}{number} {key} = {container['attrs'][key]}")


def _group(
    group: Sequence[dict[str, Any]], start: int, indent: str, path: str, verbose: int, prefix: str
) -> Iterator[str]:
    rows, below = [], []
    for number, container in enumerate(group, start):
        for image in container["images"]:
            position = f"{prefix}{number}.{image['index']}"
            rows.append(_row(position, image, verbose, "unknown" if container.get("is_inflated", True) else "-"))
            # In a fat object what stands for the host is a marker: the image is the object without the others.
            is_marker = is_fat_object(container) and image["stored_form"] == "object"
            below.append((position, image, is_marker))
    for line, (position, image, is_marker) in zip(columns(rows, right=(6,), indent=indent), below, strict=True):
        yield line
        deeper = indent + "    "
        if verbose:
            yield from _details(image, deeper, path, position, is_marker)
        if verbose or image.get("kernel_facts"):
            yield from _kernel_lines(image, deeper, verbose)
        if image["containers"]:
            yield from _places(image["containers"], deeper, path, verbose, f"{position}/")


def _row(position: str, image: dict[str, Any], verbose: int, no_form: str) -> list[str]:
    form = image["form"] or no_form
    offload = image["offload"] if image["offload"] != "none" else "-"
    at = f"at {image['offset']:#x}" if image["offset"] is not None else image["compression"] or "-"
    kernels = "" if verbose or image.get("kernel_facts") else _kernel_words(image["kernels"])
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
    return cells if "".join(cells).isprintable() else [printable(cell) for cell in cells]


def _kernel_words(kernels: Sequence[str]) -> str:
    if not kernels:
        return ""
    shown = ", ".join(
        name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…" for name in kernels[:_KERNELS_SHOWN]
    )
    more = len(kernels) - _KERNELS_SHOWN
    return f"{counted(len(kernels), 'kernel')}: {shown}{f', … {more} more' if more > 0 else ''}"


def _kernel_lines(image: dict[str, Any], indent: str, verbose: int) -> Iterator[str]:
    """Yield the lines about the kernels of an image: their table, or all names, or some of them on one line."""
    if verbose:
        yield from (printable(f"{indent}made by {tool}") for tool in image.get("made_by", ()))
    if image.get("kernel_facts"):
        from fatpack.report.kernel_text import kernel_table

        yield from kernel_table(image["kernel_facts"], image["form"], indent)
    elif verbose:
        yield from (printable(f"{indent}kernel {name}") for name in image["kernels"])
    elif image["kernels"]:
        yield printable(indent + _kernel_words(image["kernels"]))


def _address(path: str, item: dict[str, Any]) -> str:
    from fatpack.ops.choose.address import format_range

    return format_range(path, item["offset"], item["size"])


def _details(image: dict[str, Any], indent: str, path: str, position: str, is_marker: bool) -> Iterator[str]:
    """Yield the lines about one image: what it is, how to get it, its attributes.

    What is not in the file as such has no address; outermost images can be taken by their position then.
    """
    if image["detail"]:
        own = image["claims"]["arch"]
        target = f", for {own}" if own and own != image["arch"] else ""
        yield printable(f"{indent}{image['detail']}{target}")
    if image["offset"] is not None and image["compression"] is None and not is_marker:
        yield f"{indent}{_address(path, image)}"
    elif "/" not in position:
        container, _, index = position.partition(".")
        yield f"{indent}extract with --container {container} --index {index}"
    for key, value in image["attrs"].items():
        yield printable(f"{indent}{key} = {value}")
