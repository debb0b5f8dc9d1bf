"""The packages of a request: planned for all labels, proved together, and written."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager

from fatpack.commands.split.kinds import open_package
from fatpack.commands.split.labels import (
    LabelMap,
    device_name,
    drivers_for,
    options_for_rest,
)
from fatpack.commands.split.model import (
    ChangedDevice,
    DeviceFacts,
    LabelFacts,
    LibraryFacts,
    LostDevice,
    PackageFacts,
    ReleaseFacts,
    SplitRefused,
    SplitResult,
    VariantFacts,
    losses_in_words,
)
from fatpack.commands.split.plan import PlannedPackage
from fatpack.commands.split.serving import LibraryCode, ServingJudge, served_words
from fatpack.commands.split.variants import make_document, schema_named
from fatpack.concurrency.processes import map_in_processes
from fatpack.errors import UsageError, cli_or_api, pluralize
from fatpack.io.atomic_write import check_target, refuse_special_file, write_file
from fatpack.io.open import open_source
from fatpack.targets.installers.variant_providers import NULL_LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fatpack.commands.split.plan import PackageVariant, SplitPackage
    from fatpack.commands.split.request import SplitRequest
    from fatpack.targets.devices import Device

#: losses that a refusal names
_NAMED = 3

_FAT, _REST = "the fat package", "what is left for devices without a label, and the newest PTX"


def split_packages(request: SplitRequest, tell: Callable[[str], None]) -> SplitResult:
    """Split the packages of a request; return what became of them.

    Raises SplitRefused if there is no device code, or if a device would get less than of the fat package; UsageError,
    FormatError and HostError.
    """
    judge = ServingJudge()
    releases: dict[str, list[str]] = {}
    codes: dict[str, list[LibraryCode]] = {}
    firsts: dict[str, SplitPackage] = {}
    with ExitStack() as stack:
        opened: dict[str, SplitPackage] = {}
        for path in request.files:
            # Of several packages each is read twice: what all have decides, and not all fit on a disk inflated.
            own = stack if len(request.files) == 1 else stack.enter_context(ExitStack())
            package = open_package(own.enter_context(open_source(path, budget=request.budget)).view(), path, own)
            releases.setdefault(package.release, []).append(path)
            firsts.setdefault(package.release, package)
            codes[path] = [library.code for library in package.libraries]
            if len(request.files) == 1:
                opened[path] = package
            else:
                own.close()
        with _undone_on_failure(tell) as undo:
            return SplitResult(
                tuple(
                    _split_release(request, paths, codes, opened, firsts[release], judge, undo, tell)
                    for release, paths in releases.items()
                ),
                not request.dry_run,
            )


class _Written:
    """The files that a call makes, and the folder if it makes that; of files that it replaces only the number."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.folder = ""
        self.replaced = 0

    def add(self, path: str) -> None:
        """Note a file before it is written."""
        if os.path.lexists(path):
            self.replaced += 1
        else:
            self.paths.append(path)


@contextmanager
def _undone_on_failure(tell: Callable[[str], None]) -> Iterator[_Written]:
    """Give the list of what is written; if the block fails, new files are removed, for half a release misleads."""
    written = _Written()
    try:
        yield written
    except BaseException as error:
        # A file that another process made at the same time is not this call's.
        others = error.filename if isinstance(error, FileExistsError) else None
        gone = [path for path in written.paths if path != others and os.path.lexists(path)]
        for path in gone:
            os.unlink(path)
        if written.folder and not os.listdir(written.folder):
            os.rmdir(written.folder)
        if gone:
            tell(f"removed {pluralize(len(gone), 'new file')}: the release was incomplete")
        if written.replaced:
            tell(f"{pluralize(written.replaced, 'file')} may be new and the others old: split again, or remove them")
        raise


def _split_release(
    request: SplitRequest,
    paths: Sequence[str],
    codes: Mapping[str, Sequence[LibraryCode]],
    opened: Mapping[str, SplitPackage],
    first: SplitPackage,
    judge: ServingJudge,
    undo: _Written,
    tell: Callable[[str], None],
) -> ReleaseFacts:
    own = [codes[path] for path in paths]
    if not any(own):
        raise SplitRefused("it holds no device code, so there is nothing to split", chain=paths)
    labels = first.map_labels(own, request, judge)
    if not labels.labels:
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in labels.refused) or "no code for NVIDIA or AMD"
        raise SplitRefused(f"no label is left: {reasons}", hint="the fat package serves all that it can", chain=paths)
    document = b""
    if first.index and not request.dry_run:
        document = make_document(labels.variants, labels.vendors, schema_named(request.schema))
        _check_index(request, first.index, document)
    made = []
    for path in paths:
        with ExitStack() as stack:
            package = opened.get(path)
            if package is None:
                package = open_package(
                    stack.enter_context(open_source(path, budget=request.budget)).view(), path, stack
                )
            made.append(_split_package(request, package, labels, judge, stack, undo, tell))
    if document:
        _write_index(request, first.index, document, undo, tell)
    facts = tuple(
        LabelFacts(one.name, tuple(map(device_name, one.devices)), one.properties, one.notes) for one in labels.labels
    )
    schema = request.schema if first.index else ""
    return ReleaseFacts(first.release, first.index, schema, facts, labels.refused, tuple(made), first.kind)


def _split_package(
    request: SplitRequest,
    package: SplitPackage,
    labels: LabelMap,
    judge: ServingJudge,
    stack: ExitStack,
    undo: _Written,
    tell: Callable[[str], None],
) -> PackageFacts:
    codes = [library.code for library in package.libraries]
    options = {
        label.name: labels.options_for(label, codes, judge)
        for label in labels.labels
        if any(judge.serves(code, device) for code in codes for device in label.devices)
    }
    rule = {}
    own = labels.replace(labels=tuple(label for label in labels.labels if label.name in options))
    notes = [f"{label.name}: nothing in it is for this label" for label in labels.labels if label.name not in options]
    rest = options_for_rest(own, codes, judge) if request.null == "rest" else None
    if rest is not None:
        options[NULL_LABEL] = rest
        rule[NULL_LABEL] = _REST
    planned = PlannedPackage(package, options, stack, request.planned)
    contents = {label: planned.contents(label) for label in options}
    if labels.has_null and rest is None:
        contents[NULL_LABEL] = {}
        rule[NULL_LABEL] = _FAT
    variants = package.variants(labels, contents, request.schema, stack)
    found = {label: [one.code for one in libraries] for label, libraries in planned.libraries.items()}
    lost = list(find_losses(codes, found, own, judge))
    if lost:
        words = losses_in_words(lost)
        named = "; ".join(words[:_NAMED])
        more = f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        fat = cli_or_api("--null fat", "null='fat'")
        hint = f"{fat} keeps the fat package for all others" if rest else "report this, with the package"
        raise SplitRefused(f"a device would get less than today: {named}{more}", hint=hint, chain=package.view.chain)
    if not request.dry_run:
        _write(request, package, variants, undo, tell)
    sizes = {"": len(package.view), **{label: one.size for label, one in variants.items()}}
    installed = sum(len(library.view) for library in package.libraries)
    return PackageFacts(
        package.path,
        len(package.view),
        installed,
        tuple(
            VariantFacts(
                label,
                one.name,
                "" if request.dry_run else os.path.join(request.directory or "", one.name),
                one.size,
                sum(library.after for library in planned.libraries.get(label, ())) or installed,
                tuple(
                    LibraryFacts(each.name, each.before, each.after, each.kept, each.dropped, each.notes)
                    for each in planned.libraries.get(label, ())
                ),
                rule.get(label, ""),
            )
            for label, one in variants.items()
        ),
        tuple(_device_facts(device, codes, found, own, sizes, judge) for device in labels.devices),
        tuple(notes),
    )


def _write(
    request: SplitRequest,
    package: SplitPackage,
    variants: Mapping[str, PackageVariant],
    undo: _Written,
    tell: Callable[[str], None],
) -> None:
    """Write the packages of all labels side by side, and the fat one beside them for installers without labels."""
    folder = request.directory
    assert folder is not None
    if not os.path.isdir(folder):
        os.makedirs(folder)
        undo.folder = folder
    targets = {os.path.join(folder, one.name): one for one in variants.values()}
    fat = os.path.join(folder, package.name)
    is_there = os.path.exists(fat) and os.path.samefile(fat, package.path)
    names = list(targets) if is_there else [*targets, fat]
    for target in names:
        refuse_special_file(target)
        check_target(target, request.force, [package.view])
    for target in names:
        undo.add(target)

    def write(target: str) -> int:
        made = targets[target]
        return write_file(target, made.pieces, force=request.force, inputs=[package.view], verify=made.verify)

    with closing(map_in_processes(targets, write, lambda target: targets[target].size)) as written:
        for target, done in written:
            size = write(target) if done is None else done.value
            tell(f"wrote {target}: {size} bytes")
    if not is_there:
        write_file(fat, [package.view], force=request.force, inputs=[package.view])
        tell(f"copied {fat}: for installers without labels")


def _check_index(request: SplitRequest, name: str, document: bytes) -> bool:
    """Return whether the index is there already. Raises UsageError for another one, or what is no regular file."""
    assert request.directory is not None
    target = os.path.join(request.directory, name)
    refuse_special_file(target)
    if os.path.exists(target) and not request.force:
        with open(target, "rb") as file:
            if file.read(len(document) + 1) == document:
                return True
        force = cli_or_api("--force", "overwrite=True")
        hint = f"split all packages of the release in one call, or {force} replaces the file"
        raise UsageError(f"{target} has other labels, and a release has one map of labels", hint=hint)
    return False


def _write_index(
    request: SplitRequest, name: str, document: bytes, undo: _Written, tell: Callable[[str], None]
) -> None:
    assert request.directory is not None
    if _check_index(request, name, document):
        return
    target = os.path.join(request.directory, name)
    undo.add(target)
    write_file(target, [document], force=request.force)
    tell(f"wrote {target}")


# All packages together: what an installer takes for each device, and if it runs there as the fat package does.


def find_losses(
    codes: Sequence[LibraryCode], found: Mapping[str, Sequence[LibraryCode]], labels: LabelMap, judge: ServingJudge
) -> Iterator[LostDevice]:
    """Yield the devices that get less of the package that an installer takes than of the fat one.

    ``codes`` are the libraries of the fat package, ``found`` those of each label, in the same order; a label that it
    lacks has the fat ones. Every device of the table is asked about with every driver that finds it.
    """
    for device, driver, label, before, after in _taken_libraries(codes, found, labels):
        was, now = (judge.served(code, device, driver) for code in (before, after))
        if now.is_less_than(was):
            words = served_words([was]), served_words([now])
            yield LostDevice(device_name(device), _version(driver), label, before.name, *words)


def find_changes(
    codes: Sequence[LibraryCode], found: Mapping[str, Sequence[LibraryCode]], labels: LabelMap, judge: ServingJudge
) -> Iterator[ChangedDevice]:
    """Yield the devices that get no less than of the fat package, of other images; the arguments are those of
    :func:`find_losses`.
    """
    for device, driver, label, before, after in _taken_libraries(codes, found, labels):
        if before is after or judge.served(after, device, driver).is_less_than(judge.served(before, device, driver)):
            continue
        was, now = (judge.taken(code, device, driver) for code in (before, after))
        if was != now:
            words = (
                ", ".join(name if count == 1 else f"{count} {name}" for name, count in sorted(one.items()))
                for one in (was, now)
            )
            yield ChangedDevice(device_name(device), _version(driver), label, before.name, *words)


def _taken_libraries(
    codes: Sequence[LibraryCode], found: Mapping[str, Sequence[LibraryCode]], labels: LabelMap
) -> Iterator[tuple[Device, tuple[int, int] | None, str, LibraryCode, LibraryCode]]:
    """Yield each device with each driver, the label that an installer takes, and each library before and after."""
    for device in labels.devices:
        for driver in drivers_for(device):
            for label in labels.taken(device, driver):
                for before, after in zip(codes, found.get(label, codes), strict=True):
                    yield device, driver, label, before, after


def _version(driver: tuple[int, int] | None) -> str:
    return "" if driver is None else f"{driver[0]}.{driver[1]}"


def _device_facts(
    device: Device,
    codes: Sequence[LibraryCode],
    found: Mapping[str, Sequence[LibraryCode]],
    labels: LabelMap,
    sizes: Mapping[str, int],
    judge: ServingJudge,
) -> DeviceFacts:
    """Return what a device gets, with the newest driver, and from which driver on."""
    drivers = drivers_for(device)
    by_driver = [next(iter(labels.taken(device, driver)), "") for driver in drivers]
    label = by_driver[-1]
    first = by_driver.index(label)
    driver = drivers[first]
    places = [at for at, code in enumerate(codes) if code.is_for(device.vendor)]
    then, today = (
        [judge.served(one[at], device, drivers[-1]) for at in places] for one in (found.get(label, codes), codes)
    )
    return DeviceFacts(
        device_name(device),
        device.vendor,
        served_words(today),
        label,
        served_words(then),
        sizes[label],
        _version(driver) if first else "",
        by_driver[0] if first else "",
    )
