"""The text of ``inspect --runtime``.

::

    libx.so: program, x86-64, read from its code
      registered: 2 kernels, 1 variable, by nvcc
      wrapper cuda v1 at 0x2f8 → 0x1200
      constructor at 0x2de0 (.init_array): __sti____cudaRegisterAll registers 0x3f58
      kernel cuda add_one at 0x11e9
"""

from __future__ import annotations

from fatpack.commands.inspect.units import has_registration, registration_words
from fatpack.errors import pluralize
from fatpack.registration.analysis.counts import WRAPPER
from fatpack.registration.analysis.findings import name_list
from fatpack.text.findings import finding_lines
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_WAYS = {
    "relocations": "read from its relocations",
    "code": "read from its code",
    "not read": "its code is not read",
    "other": "its code is not read",
    "lto": "LTO code: not looked at, compile it to see what it registers",
    "no capstone": "its code is read in part: pip install capstone for the rest",
}


def render_registration(record: dict[str, Any]) -> Iterator[str]:
    """Yield the lines for one file."""
    path = printable(record["path"])
    if not record["units"]:
        yield f"{path}: nothing that launches or registers device code"
    for unit in record["units"]:
        name = path if unit["member"] is None else f"{path}({printable(unit['member'])})"
        what = {True: "program", False: "object"}.get(unit.get("linked"), unit["host"])
        facts = [what, unit.get("machine", ""), _WAYS[unit["read"]]]
        yield f"{name}: {', '.join(fact for fact in facts if fact)}"
        if "called" in unit:
            yield from _unit_lines(unit, is_registered=has_registration(record["findings"]))
        if "likely" in unit:
            names = unit["likely"]
            shown = f": {name_list(names)}" if names else ""
            yield printable(
                f"  likely registered: {pluralize(len(names), 'kernel')} whose names stand in its data{shown}"
            )
    if record.get("verdict") in ("agrees", "not judged"):
        why = f": {record['why_not']}" if record["why_not"] else ""
        yield printable(f"  verdict: {record['verdict']}{why}")
    unlisted = record.get("unlisted_findings", ())
    yield from finding_lines(record["findings"], "  ", unlisted=unlisted, path=record["path"], verbose=1)


def _unit_lines(unit: dict[str, Any], *, is_registered: bool) -> Iterator[str]:
    total = {"kernels": unit["kernel_count"], "variables": unit["variable_count"], "by": unit["producer"]}
    is_of_link = total["by"] == WRAPPER and not total["kernels"]
    own = registration_words(total, is_registered=is_registered)
    yield f"  {f'registered: what the link brings, by {WRAPPER}' if is_of_link else own}"
    is_loop = unit["registers_entries"]
    if is_loop:
        yield "  registers the offload entries of all objects"
    elif unit["unread"]:
        yield f"  not read: what registers {pluralize(unit['unread'], 'more kernel')}"
    if unit["unfollowed"]:
        does = "launches or registers" if unit["unfollowed"] == 1 else "launch or register"
        yield f"  not followed: {pluralize(unit['unfollowed'], 'function')} that {does}"
    yield from (printable(f"  at the link {words}") for words in unit["awaited"])
    for each in unit["wrappers"]:
        target = each["symbol"] or (f"{each['target_offset']:#x}" if each["target_offset"] else f"{each['target']:#x}")
        yield printable(f"  wrapper {each['model']} v{each['version']} at {each['offset']:#x} → {target}")
    for each in unit["descriptors"]:
        images = pluralize(len(each["images"]), "image")
        yield printable(f"  descriptor {each['model']} at {each['offset'] or 0:#x}: {images}")
        for image in each["images"]:
            place = f" at {image['data_offset']:#x}" if image["data_offset"] else ""
            yield printable(f"    image {image['target'] or '-'}{place}, {pluralize(image['size'], 'byte')}")
    for each in unit["constructors"]:
        title = each["function"] or f"{each['address']:#x}"
        priority = "" if each["priority"] is None else f", priority {each['priority']}"
        leads = [f"{wrapper:#x}" if wrapper is not None else "unknown" for wrapper in each["registers"]]
        what = f" registers {', '.join(leads)}" if leads else ""
        place = f" at {each['offset']:#x}" if each["offset"] else ""
        yield printable(f"  constructor{place} ({each['section']}{priority}): {title}{what}")
    calls = {what: [each for each in unit[what] if each["name"] or not is_loop] for what in ("kernels", "variables")}
    for each in calls["kernels"]:
        handle = f" at {each['handle']:#x}" if each["handle"] is not None else ""
        yield printable(f"  kernel {each['model']} {each['name'] or '(name not read)'}{handle}")
    for each in calls["variables"]:
        yield printable(f"  variable {each['model']} {each['name'] or '(name not read)'}")
    for each in unit["entries"]:
        size = f", {pluralize(each['size'], 'byte')}" if each["size"] else ""
        flags = f", flags {each['flags']:#x}" if each["flags"] else ""
        name = each["name"] or "(name not read)"
        yield printable(f"  entry {each['kind']} {name} at {each['address']:#x}{size}{flags}")
    for each in unit["launches"]:
        yield printable(f"  launch {each['model']} of {each['handle']:#x} in {each['function'] or '?'}")
    yield from _lacking(unit.get("lacking", {}))


def _lacking(missing: dict[str, list[str]]) -> Iterator[str]:
    """Yield the table of the kernels that some architectures lack: what is registered, by what images have."""
    archs = sorted({arch for lacking in missing.values() for arch in lacking})
    if archs:
        rows = [["registered", *archs]]
        rows += [
            [name, *("missing" if arch in lacking else "yes" for arch in archs)] for name, lacking in missing.items()
        ]
        yield from map(printable, align_columns(rows, indent="  "))
