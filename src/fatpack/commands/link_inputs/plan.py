"""A link line → what goes into which device link, and the files that the images become.

Every image that is linked becomes one file, whichever number of groups it is in. Files are named as extracted images
are; the number that is part of the name counts the images of the line, so that no two names are equal.
"""

from __future__ import annotations

import os

from fatpack import images
from fatpack.binary.symbols import link_symbols
from fatpack.commands.link_inputs.input_files import LinkImage, LinkInput, LinkInputFiles
from fatpack.errors import FormatError, Unsupported, UsageError, cli_or_api
from fatpack.io.output_names import image_name
from fatpack.model import arch_name
from fatpack.record import Record
from fatpack.targets.compatibility import VERSIONS, accepts_image, feature_count, joins_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import TypeAlias

    from fatpack.binary.symbols import LinkSymbol
    from fatpack.commands.link_inputs.link_line import LinkLine
    from fatpack.io.source import View
    from fatpack.io.write import Progress
    from fatpack.model import Finding, Target

    Key: TypeAlias = tuple[str, str]


# Grouping: images that are linked into one program for a device, as clang-linker-wrapper groups them.
#
# Objects, bitcode, offload binaries and whole archives make the groups. Images of other archives only join groups that
# are there already, or whose architecture is asked for (``--should-extract``); each that joins none stays where it is.

#: LIMIT: device links of one line; every image is compared with the target of each. The compilers know 200 targets.
MAX_GROUPS = 1000


class ImageGroup(Record):
    """One device link: the target that it makes a program for, and the images that go into it, in their order."""

    target: Target
    devices: tuple[LinkImage, ...]

    @property
    def offloads(self) -> tuple[str, ...]:
        """The programming models of its images: the program is registered once for each, ``none`` aside."""
        kinds = dict.fromkeys(each.image.target.offload for each in self.devices)
        return tuple(kind for kind in kinds if kind != "none")

    @property
    def refusal(self) -> str:
        """Why no device linker takes this group, "" if nothing is known against it."""
        if "sycl" in self.offloads and len(self.offloads) > 1:
            others = ", ".join(kind for kind in self.offloads if kind != "sycl")
            return f"images of SYCL and of {others} for one target: clang-linker-wrapper links no such mixture"
        return ""


class GroupBuilder:
    """Groups while they are made. Their keys are the triple and the architecture as they are spelled."""

    def __init__(self, llvm: str) -> None:
        self._llvm = llvm
        self._groups: dict[tuple[str, str], tuple[Target, list[LinkImage]]] = {}

    def add(self, device: LinkImage) -> None:
        """Add an image that is linked in any case."""
        target = device.image.target
        if self._llvm != "23":
            # Its own group comes last only if it is new.
            self.put(device, [_key(target), *self._others(target)])
        else:
            taking = [key for key, (other, _) in self._groups.items() if accepts_image(other, target)]
            self.put(device, taking or [_key(target)])

    def join(self, device: LinkImage, extract_archs: Collection[str]) -> bool:
        """Add an image of an archive to the groups that take it; return whether there is one."""
        target = device.image.target
        keys = [_key(target), *self._others(target)]
        chosen = [key for key in keys if key in self._groups or key[1] in extract_archs]
        self.put(device, chosen)
        return bool(chosen)

    def taking(self, device: LinkImage) -> list[Key]:
        """Return the keys of the groups that are there and can take an image, that of its own target first."""
        target = device.image.target
        return [key for key in (_key(target), *self._others(target)) if key in self._groups]

    def members(self) -> list[tuple[Key, list[LinkImage]]]:
        """Return each group by its key, with the images that are in it."""
        return [(key, devices) for key, (_, devices) in self._groups.items()]

    def _others(self, target: Target) -> list[tuple[str, str]]:
        return [key for key, (other, _) in self._groups.items() if joins_group(target, other, self._llvm)]

    def put(self, device: LinkImage, keys: Iterable[Key]) -> None:
        """Add an image to groups, which are made if they are not there. Raises UsageError for too many."""
        for key in keys:
            self._groups.setdefault(key, (device.image.target, []))[1].append(device)
        if len(self._groups) > MAX_GROUPS:
            raise UsageError(
                f"the images are for more than {MAX_GROUPS} targets", hint="link them in several steps, by target"
            )

    def made(self) -> list[ImageGroup]:
        """Return the groups, in the order of their first images."""
        return [ImageGroup(target, tuple(devices)) for target, devices in self._groups.values()]


def _key(target: Target) -> tuple[str, str]:
    return target.triple, target.arch


# All images of a link line → the groups, by the rules of a version of LLVM.
#
# LLVM 22 and 23 take images of archives for their targets, LLVM 19 and those before it by their symbols.


def group_images(
    devices: Sequence[LinkImage], llvm: str, extract_archs: Collection[str] = ()
) -> tuple[list[ImageGroup], list[LinkImage]]:
    """Return the groups in the order in which clang-linker-wrapper links them, and the images that are in none.

    ``extract_archs`` are architectures of which images in archives are taken even if nothing else is for them.
    """
    ordered = [each for each in devices if not each.is_lazy]
    if llvm == "23":
        ordered.sort(key=lambda each: -feature_count(each.image.target))
    groups = GroupBuilder(llvm)
    for each in ordered:
        groups.add(each)
    lazy = [each for each in devices if each.is_lazy]
    if llvm == "19":
        unlinked = join_needed(lazy, groups)
    else:
        unlinked = [each for each in lazy if not groups.join(each, extract_archs)]
    return groups.made(), unlinked


# Selecting the images in archives that a link needs, by symbols: the rule of clang-linker-wrapper 19 and before.
#
# An image joins a group if it defines a symbol that the group wants and no weak reference is satisfied without, or one
# that the group does not know and programs can look up: a kernel, a variable of the host. Each that joins may bring
# wants of its own, so those before it are asked again. Which comes first is the order of the link line.
#
# QUIRK(clang-linker-wrapper 19): what a group knows of a symbol is what it saw of it first: definitions are not noted,
# and a want stays one when it is satisfied.
# QUIRK(clang-linker-wrapper 19): an image that the last of several groups does not need is asked again whenever another
# one joined, and joins the others again; here it joins each once.
#
# Source: ``getDeviceInput`` in ClangLinkerWrapper.cpp, LLVM 19, and the tool itself on generated link lines.

#: states of a symbol in a group
_WANTED, _WEAK = 1, 2


def join_needed(lazy: Sequence[LinkImage], groups: GroupBuilder) -> list[LinkImage]:
    """Add the images of archives that groups need, and return the others.

    Raises FormatError for damaged tables of symbols, Unsupported for bitcode that has none.
    """
    return _LazyImageJoin(lazy, groups).run()


class _LazyImageJoin:
    """Images of archives while they join: each is asked again only if a group wants something more that it defines."""

    def __init__(self, lazy: Sequence[LinkImage], groups: GroupBuilder) -> None:
        self._lazy = lazy
        self._groups = groups
        self._symbols = [_symbols(each) for each in lazy]
        self._known: dict[Key, dict[bytes, int]] = {}
        for key, members in groups.members():
            self._known[key] = {}
            for device in members:
                self._learn(key, _symbols(device))
        self._keys = [groups.taking(each) for each in lazy]
        self._joined: list[set[Key]] = [set() for _ in lazy]
        self._definers: dict[bytes, list[int]] = {}
        for number, symbols in enumerate(self._symbols):
            for symbol in symbols:
                if symbol.is_defined:
                    self._definers.setdefault(symbol.name, []).append(number)

    def run(self) -> list[LinkImage]:
        from heapq import heapify, heappop, heappush

        waiting = [number for number, keys in enumerate(self._keys) if keys]
        heapify(waiting)
        is_waiting = set(waiting)
        next_round: set[int] = set()  # numbers up to the one that is asked
        while waiting:
            number = heappop(waiting)
            is_waiting.discard(number)
            is_last_joined = False
            again: set[int] = set()
            for key in self._keys[number]:
                is_last_joined = key in self._joined[number] or self._is_needed(number, key)
                if is_last_joined and key not in self._joined[number]:
                    self._joined[number].add(key)
                    self._groups.put(self._lazy[number], [key])
                    for name in self._learn(key, self._symbols[number]):
                        # Those after this one are asked in this round, those before it when the next one starts.
                        for other in self._definers.get(name, ()):
                            (again if other > number else next_round).add(other)
            if is_last_joined:
                again |= next_round
                next_round = set()
            for other in again - is_waiting:
                if len(self._joined[other]) < len(self._keys[other]):
                    heappush(waiting, other)
                    is_waiting.add(other)
        return [device for device, joined in zip(self._lazy, self._joined, strict=True) if not joined]

    def _is_needed(self, number: int, key: Key) -> bool:
        known = self._known[key]
        is_launched = self._lazy[number].image.target.offload != "none"
        for symbol in self._symbols[number]:
            if not symbol.is_defined:
                continue
            before = known.get(symbol.name)
            if before == _WANTED or (is_launched and symbol.is_visible and before is None):
                return True
        return False

    def _learn(self, key: Key, symbols: Sequence[LinkSymbol]) -> list[bytes]:
        """Take note of what an image wants; return the names that are wanted now and were not before."""
        known, new = self._known[key], dict[bytes, int]()
        for symbol in symbols:
            if symbol.name in known:
                continue
            if symbol.is_weak:
                new[symbol.name] = _WEAK
            elif not symbol.is_defined:
                new[symbol.name] = _WANTED
        known.update(new)
        return [name for name, what in new.items() if what == _WANTED]


def _symbols(device: LinkImage) -> list[LinkSymbol]:
    found = link_symbols(device.image.data)
    return [] if found is None else list(found)


#: The file name of the groups' description in the folder of the images.
MANIFEST = "link-inputs.json"


class LinkFile(Record):
    """An image that is linked: the name of its file, and where it comes from."""

    name: str
    device: LinkImage

    @property
    def data(self) -> View:
        """The bytes of the image."""
        return self.device.image.data


class LinkPlan(Record):
    """The device links: ``files`` in the order of the link line, and the groups with the names of their files.

    ``unlinked`` are images in archives that no group takes. ``llvm`` is the version whose rules were followed.
    ``ignored_words`` are words of the link line without a meaning for device code.
    """

    llvm: str
    inputs: tuple[LinkInput, ...]
    files: tuple[LinkFile, ...]
    groups: tuple[ImageGroup, ...]
    unlinked: tuple[LinkImage, ...]
    ignored_words: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Finding]:
        """The damage: the images there are missing."""
        return [item for item in self.findings if item.severity == "error"]

    def check(self) -> None:
        """Raise FormatError or Unsupported if something is damaged: a link without those images would lack kernels."""
        for item in self.errors:
            if item.code == "FP1008":
                raise Unsupported(item.message, hint=item.hint, chain=item.span.source)
            raise FormatError(item.message, offset=item.span.start, hint=item.hint, chain=item.span.source)


def plan_link(
    line: LinkLine, opened: LinkInputFiles, llvm: str = VERSIONS[-1], extract_archs: Collection[str] = ()
) -> LinkPlan:
    """Return what of the inputs of a line goes into which device link, by the rules of a version of LLVM.

    Raises UsageError for a version whose rules are not known.
    """
    if llvm not in VERSIONS:
        raise UsageError(f"no rules of LLVM {llvm} are known here", hint=f"choose from {', '.join(VERSIONS)}")
    if llvm == "19" and extract_archs:
        raise UsageError(
            "LLVM 19 links images of archives by their symbols, not because an architecture is asked for",
            hint=f"leave out {cli_or_api('--should-extract', 'should_extract')}, or follow the rules of LLVM 22 or 23",
        )
    groups, unlinked = group_images(opened.devices, llvm, frozenset((*extract_archs, *line.extract_archs)))
    linked = {device.number for each in groups for device in each.devices}
    files = [
        LinkFile(_name(device, opened.inputs[device.input].path, device.number), device)
        for device in opened.devices
        if device.number in linked
    ]
    return LinkPlan(
        llvm=llvm,
        inputs=tuple(opened.inputs),
        files=tuple(files),
        groups=tuple(groups),
        unlinked=tuple(unlinked),
        ignored_words=line.ignored_words,
        findings=tuple(opened.findings),
    )


def _name(device: LinkImage, path: str, number: int) -> str:
    target = device.image.target
    extension = images.EXTENSIONS.get(device.form, "bin")
    return image_name(device.member or path, target.triple, arch_name(target.arch, device.form), number, extension)


def write_link_plan(
    made: LinkPlan,
    directory: str,
    manifest: bytes,
    *,
    force: bool = False,
    any_size: bool | None = None,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Write the images and, when all are there, the manifest; return the paths in order, that of the manifest last.

    Raises UsageError if any of them exists already and ``force`` is not given, or for a directory that is none.
    ``any_size`` is that of :func:`fatpack.edit.extract.check_paths`.
    """
    from fatpack.edit.extract import OutputFile, check_paths, write_plan
    from fatpack.io.atomic_write import write_file

    extracts = [
        OutputFile(each.name, (each.data,), f"image for {each.device.image.target.canonical}") for each in made.files
    ]
    whole = [*extracts, OutputFile(MANIFEST, (manifest,), "manifest")]
    check_paths(whole, directory, inputs, force=force, any_size=any_size)
    paths = []
    if extracts:
        paths = write_plan(extracts, directory, force=force, any_size=any_size, inputs=inputs, progress=progress)
    path = os.path.join(directory, MANIFEST)
    if not extracts:
        os.makedirs(directory, exist_ok=True)
    try:
        write_file(path, [manifest], force=force, inputs=inputs)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists", hint=cli_or_api("--force to overwrite", "overwrite=True overwrites it")
        ) from error
    return [*paths, path]
