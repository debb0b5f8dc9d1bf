"""The results of ``slim`` as plain data and as text: a record for each file, and the totals.

The document is ``fatpack.slim/1``; ``schemas/slim.schema.json`` describes it.
"""

from __future__ import annotations

from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import arch_label
from fatpack.commands.slim.outcome import count_by_arch
from fatpack.commands.slim.result import SlimmedFile
from fatpack.errors import FatpackError, pluralize
from fatpack.exit_codes import error_message, exit_code
from fatpack.inputs.files import SEPARATOR
from fatpack.printable import format_size, printable, short_names
from fatpack.text.findings import finding_record
from fatpack.text.schemas import SLIM
from fatpack.text.style import PLAIN, colorize, table_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.commands.slim.keep_for_device import SlimImage, UnsupportedContainer
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import PackageLibrary, SlimOutcome, UnsupportedDevice
    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.commands.slim.result import ImageDigest
    from fatpack.commands.slim.used import UseRequest
    from fatpack.targets.devices import Device
    from fatpack.text.style import Style


# The device code of a slimmed package as a fragment of an SBOM: CycloneDX 1.6 in JSON.
#
# A component for the package, in it one for each library with device code, in those one for each image. There is no
# time and no serial number in it: the same package has the same text.


def sbom_fragment(name: str, libraries: Iterable[PackageLibrary]) -> dict[str, Any]:
    """Return the fragment for a package of a file name. It has the libraries whose digests were computed."""
    found = [_library(item.name, item.slimmed) for item in libraries if isinstance(item.slimmed, SlimmedFile)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "file", "bom-ref": name, "name": name}},
        "components": [item for item in found if item["components"]],
    }


def _library(name: str, made: SlimmedFile) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": made.digest}],
        "components": [_sbom_component(name, image) for image in made.images],
    }


def _sbom_component(library: str, image: ImageDigest) -> dict[str, Any]:
    facts = {"offload": image.offload, "arch": image.arch, "form": image.form, "size": str(image.size)}
    return {
        "type": "file",
        "bom-ref": f"{library}#{image.position}",
        "name": f"{image.arch} {image.form}",
        "hashes": [{"alg": "SHA-256", "content": image.digest}],
        "properties": [{"name": f"fatpack:{key}", "value": value} for key, value in facts.items() if value],
    }


#: files that are named of a device that is not served
_PATHS = 3


def slim_record(
    outcomes: Sequence[SlimOutcome],
    options: SlimOptions,
    code: int,
    unserved: Sequence[UnsupportedDevice] = (),
    *,
    is_written: bool,
) -> dict[str, Any]:
    """Return the document of a run; ``is_written`` says that files were written, and not only planned."""
    files = [_file(item, options.use) for item in outcomes]
    return {
        "schema": SLIM,
        "written": is_written,
        "devices": [_device(one) for one in options.devices],
        "unserved": [{"device": _device(one.device), "paths": list(one.paths)} for one in unserved],
        "files": files,
        "totals": {
            "files": len(files),
            "changed": sum(1 for item in files if item["mode"]),
            "before": sum(item["before"] for item in files),
            "after": sum(item["after"] for item in files),
            "kept": sum(len(item["kept"]) for item in files),
            "dropped": sum(len(item["dropped"]) for item in files),
        },
        "exit_code": code,
    }


def _device(one: Device) -> dict[str, str]:
    return {"vendor": one.vendor, "arch": one.arch, "given": one.spelling, "title": one.title}


def _file(item: SlimOutcome, use: UseRequest | None = None) -> dict[str, Any]:
    plan, error = item.plan, item.error
    refused = error.containers if isinstance(error, SlimRefused) else ()
    found: dict[str, Any] = {
        "path": item.path,
        "output": item.output or None,
        "before": item.before,
        "after": item.after,
        "mode": plan.mode if plan else "",
        "kept": [_image_record(row) for row in plan.kept] if plan else [],
        "dropped": [_image_record(row) for row in plan.dropped] if plan else [],
        "kept_by_arch": count_by_arch(plan.kept) if plan else {},
        "dropped_by_arch": count_by_arch(plan.dropped) if plan else {},
        "cuts": [{"offset": offset, "size": size} for offset, size in plan.cuts] if plan else [],
        "notes": list(plan.notes) if plan else [],
        "refused": [_refused(one) for one in refused],
        "findings": [finding_record(one) for one in (*plan.damaged, *plan.unread)] if plan else [],
        "error": None,
    }
    if item.deflated is not None:
        found["deflated"] = {"before": item.deflated[0], "after": item.deflated[1]}
    if plan is not None and plan.use is not None:
        from fatpack.commands.slim.used import use_record

        found["use"] = use_record(plan.use, use)
    if error is not None:
        hint = error.hint if isinstance(error, FatpackError) else ""
        found["error"] = {
            "message": error_message(error), "problem": _problem(error), "hint": hint, "exit_code": exit_code(error),
        }  # fmt: skip
    return found


def _image_record(row: SlimImage) -> dict[str, Any]:
    image = row.image
    return {
        "container": row.number,
        "index": row.index,
        "arch": arch_label(image),
        "form": image.form,
        "offload": image.target.offload,
        "size": image.size,
        "stored_size": image.stored_size,
    }


def _refused(one: UnsupportedContainer) -> dict[str, Any]:
    return {
        "container": one.number,
        "offset": one.found.container.span.start,
        "section": one.found.section,
        "device": one.device or None,
        "kernels": list(one.kernels),
        "kernel_count": one.kernel_count,
    }


def render_slim(
    outcomes: Sequence[SlimOutcome],
    unserved: Sequence[UnsupportedDevice] = (),
    devices: Sequence[Device] = (),
    style: Style = PLAIN,
    use: UseRequest | None = None,
) -> Iterator[str]:
    """Yield a table of the files that change, what stayed as it is and why, the sum of all, and what is not served.

    Devices that were named by what they are sold as come first, each with the architecture that it was taken for.
    """
    yield from (printable(f"{one.spelling} = {one.arch}") for one in devices if one.title and one.spelling)
    outcomes = _within(outcomes)
    changed = [item for item in outcomes if item.plan is not None and item.plan.is_changed]
    slimmed = [item for item in changed if item.plan is not None and item.plan.mode != "remove"]
    if slimmed:
        has_deflated = any(item.deflated for item in slimmed)
        head = ["file", "before", "after", "saved", *(["in a wheel"] if has_deflated else []), "kept", "dropped"]
        rows = [head, *(_row(item, has_deflated=has_deflated) for item in slimmed)]
        yield from table_lines(rows, style, right=(1, 2, 3), names=(0,), role=lambda row, _: "" if row else "heading")
    yield from colorize(_below(outcomes, len(changed), unserved, use), style)


def _below(
    outcomes: Sequence[SlimOutcome], slimmed: int, unserved: Sequence[UnsupportedDevice], use: UseRequest | None
) -> Iterator[str]:
    """Yield the lines below the table: unchanged files with the reason, the sum, and devices that are not served."""
    yield from _what_stayed(outcomes)
    yield from _left_out(outcomes)
    yield from _ptx_notes([item.plan for item in outcomes if item.plan is not None and item.plan.is_changed])
    # The errors of single files were printed with their hints already.
    hints: dict[str, list[str]] = {}
    for item in outcomes:
        if isinstance(item.error, FatpackError) and item.error.hint and not item.is_told:
            hints.setdefault(item.error.hint, []).append(item.path)
    for hint, paths in hints.items():
        more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        about = f" for {', '.join(short_names(paths[:_PATHS]))}{more}" if len(outcomes) > 1 else ""
        yield printable(f"hint{about}: {hint}")
    if len(outcomes) > 1:
        before, after = (sum(getattr(item, name) for item in outcomes) for name in ("before", "after"))
        yield (
            f"{pluralize(slimmed, 'file')} of {len(outcomes)} slimmed: "
            f"{format_size(before)} → {format_size(after)}{_saved(before, after)}"
        )

    if use is not None:
        from fatpack.commands.slim.used import use_lines

        yield from map(printable, use_lines(outcomes, use))
    yield from unsupported_device_lines(unserved)


def _what_stayed(outcomes: Sequence[SlimOutcome]) -> Iterator[str]:
    """Yield a line for each remark on a file, and one for all files of a kind of which there may be hundreds."""
    images = [item for item in outcomes if item.plan is not None and item.plan.is_image]
    stores = [item for item in outcomes if item.plan is not None and item.plan.is_store]
    refused: dict[str, list[SlimOutcome]] = {}
    for item in outcomes:
        if isinstance(item.error, SlimRefused) and not item.error.containers and not item.is_told:
            refused.setdefault(_problem(item.error), []).append(item)
    several = {id(item) for kind in (images, stores, *refused.values()) if len(kind) > 1 for item in kind}
    for item in outcomes:
        if id(item) not in several and (item.plan is None or item.plan.mode != "remove"):
            yield from _remarks(item)
    for problem, alike in refused.items():
        if len(alike) > 1:
            size = format_size(sum(item.before for item in alike))
            yield printable(f"{alike[0].path} and {len(alike) - 1} more: stay as they are ({size}): {problem}")
    if len(stores) > 1:
        yield (
            f"{len(stores)} files of kernel stores stay ({format_size(sum(item.before for item in stores))}): "
            f"{_archs_of_files(stores)}"
        )
    if len(images) > 1:
        yield (
            f"{len(images)} files are device images themselves ({format_size(sum(item.before for item in images))}): "
            "slim takes images out of files, and no whole files; fatpack inspect names their targets"
        )


def _left_out(outcomes: Iterable[SlimOutcome]) -> Iterator[str]:
    """Yield a line for the files of kernel stores that go, by what they are for, and one for tables of them."""
    sizes: dict[str, list[int]] = {}
    for item in outcomes:
        if item.plan is not None and item.plan.mode == "remove":
            archs = ", ".join(dict.fromkeys(arch_label(row.image) for row in item.plan.dropped))
            sizes.setdefault(archs, []).append(item.before)
    for archs in sorted(sizes, key=lambda archs: (not archs, archs)):
        what = f"{pluralize(len(sizes[archs]), 'file')} for {archs}"
        if not archs:
            what = f"{pluralize(len(sizes[archs]), 'table')} of Tensile without code"
        yield printable(f"left out: {what} ({format_size(sum(sizes[archs]))})")


def _archs_of_files(outcomes: Sequence[SlimOutcome]) -> str:
    """Return what files are for: each architecture with the number of files that have it."""
    counts: dict[str, int] = {}
    for item in outcomes:
        assert item.plan is not None
        for arch in count_by_arch(item.plan.kept):
            counts[arch] = counts.get(arch, 0) + 1
    return printable(
        ", ".join(f"{arch or 'no target'} in {pluralize(count, 'file')}" for arch, count in counts.items())
    )


def quiet_lines(outcomes: Iterable[SlimOutcome], unserved: Sequence[UnsupportedDevice]) -> Iterator[str]:
    """Yield an error for each file that stays with one that was not printed, and a warning for each device."""
    for item in outcomes:
        if item.error is None or item.is_told:
            continue
        error = item.error
        hint = f"; {error.hint}" if isinstance(error, FatpackError) and error.hint else ""
        yield printable(f"error: {item.path}: stays as it is: {_problem(error)}{hint}")
    yield from (f"warning: {line}" for line in unsupported_device_lines(unserved))


def _problem(error: FatpackError | OSError) -> str:
    return error.problem if isinstance(error, FatpackError) else error.strerror or str(error)


def unsupported_device_lines(unserved: Sequence[UnsupportedDevice]) -> Iterator[str]:
    """Yield a line for each requested device that no image is for."""
    for one in unserved:
        shown = ", ".join(one.paths[:_PATHS])
        more = f" and {pluralize(len(one.paths) - _PATHS, 'other file')}" if len(one.paths) > _PATHS else ""
        where = f"nothing in {shown}{more} is for it" if one.paths else "no file has code for devices of its vendor"
        yield printable(f"{one.device.words} has no code to run, and had none before: {where}")


def _within(outcomes: Sequence[SlimOutcome]) -> Sequence[SlimOutcome]:
    """Return the outcomes by their paths in the package, if there is one and all are in it."""
    packages = {item.path.partition(SEPARATOR)[0] if SEPARATOR in item.path else "" for item in outcomes}
    if len(packages) != 1 or packages == {""}:
        return outcomes
    return [item.replace(path=item.path.partition(SEPARATOR)[2]) for item in outcomes]


def _row(item: SlimOutcome, *, has_deflated: bool) -> list[str]:
    plan = item.plan
    assert plan is not None
    deflated = item.deflated or (0, 0)
    wheel = [f"{format_size(deflated[0])} → {format_size(deflated[1])}"] if has_deflated else []
    return [
        printable(item.path),
        format_size(item.before),
        format_size(item.after),
        f"{_percent(item.before, item.after)} %"
        if item.after < item.before
        else "zeros"
        if plan.mode == "zero"
        else "-",
        *wheel,
        printable(_archs(count_by_arch(plan.kept))),
        printable(_archs(count_by_arch(plan.dropped))),
    ]


def _saved(before: int, after: int) -> str:
    return f", {_percent(before, after)} % less" if after < before else ""


def _percent(before: int, after: int) -> int:
    return round(100 * (before - after) / before) if before else 0


def _archs(counts: dict[str, int]) -> str:
    return " ".join(name if number == 1 else f"{name}×{number}" for name, number in counts.items()) or "-"


def _remarks(item: SlimOutcome) -> Iterator[str]:
    if item.error is not None:
        words = _problem(item.error)
        size = f" ({format_size(item.before)})" if item.before else ""
        message = f"{item.path}: not slimmed"
        yield printable(message if item.is_told else f"{item.path}: stays as it is{size}: {words}")
        return
    assert item.plan is not None
    if not item.plan.is_changed:
        yield printable(f"{item.path}: unchanged: {'; '.join(item.plan.notes) or 'nothing to remove'}")
        return
    yield from (printable(f"{item.path}: {note}") for note in item.plan.notes)


def _ptx_notes(plans: Sequence[SlimPlan]) -> Iterator[str]:
    """Yield lines that say what PTX stays in the slimmed files, what it costs there, and which option removes it.

    Without devices the options name what stays.
    """
    # Of containers that a run did not use, PTX stays for the devices themselves: their use says so.
    plans = [plan for plan in plans if plan.needed and plan.use is None]
    texts = [(row, plan) for plan in plans for row in plan.kept if row.image.form == "ptx"]
    relocatable = [row for row, _ in texts if _is_relocatable(row)]
    needed = [row for row, plan in texts if id(row.image) in plan.needed and not _is_relocatable(row)]
    later = [row for row, plan in texts if id(row.image) not in plan.needed and not _is_relocatable(row)]
    if needed:
        yield f"PTX that a device compiles stays: {_cost(needed)}"
    if later:
        yield f"PTX for later devices stays: {_cost(later)}; --drop-ptx removes it"
    if relocatable:
        names = ",".join(count_by_arch(relocatable))
        yield f"relocatable PTX, which no device takes, stays: {_cost(relocatable)}; --drop {names} removes it"


def _is_relocatable(row: SlimImage) -> bool:
    return row.image.as_stored.attrs.get("kind") == "relocatable-ptx"


def _cost(rows: Sequence[SlimImage]) -> str:
    """Return the architectures of some images, and the bytes that they have in the file."""
    size = sum(row.image.size if row.image.stored_size is None else row.image.stored_size for row in rows)
    return f"{_archs(count_by_arch(rows))} ({format_size(size)})"
