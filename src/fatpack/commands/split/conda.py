"""Conda packages of labels: the fat package with slimmed libraries, and dependencies that say for which devices.

The label comes in front of the build string (``sm90_h12_0``). In ``info/`` change ``index.json`` (the build, its
number, ``depends``) and ``paths.json`` (digests and sizes). Files that are not slimmed keep their bytes; the archives
are compressed anew, for each is one stream.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import ExitStack, closing

from fatpack.commands.slim.conda import rename_conda
from fatpack.commands.slim.outcome import HEAD_SIZE, may_hold_device_code
from fatpack.commands.split.conda_ranges import PRIORITY, labels_taken, map_conda_labels, table_of_admitted
from fatpack.commands.split.labels import LabelMap
from fatpack.commands.split.plan import PackageFile, PackageVariant
from fatpack.commands.split.serving import read_library
from fatpack.concurrency.processes import map_in_processes
from fatpack.distributions.conda_packages import (
    INDEX,
    SUFFIXES,
    CondaContents,
    check_paths,
    read_document,
    update_paths,
)
from fatpack.errors import UsageError, cli_or_api
from fatpack.io.open import open_source
from fatpack.packages.zip.packing import Packing
from fatpack.targets.installers.conda import (
    CUDA_ARCH,
    METAPACKAGE,
    CondaPackage,
    UnreadableSpec,
    admitted_devices,
    read_conda_index,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fatpack.commands.split.labels import Driver
    from fatpack.commands.split.request import SplitRequest
    from fatpack.commands.split.serving import LibraryCode, ServingJudge
    from fatpack.distributions.conda_packages import JsonDocument, TarEdit
    from fatpack.io.source import Piece, View
    from fatpack.packages.zip.packing import PackedFile, StoredBlocks, StoredContent
    from fatpack.targets.devices import Device

#: a dependency that says on which devices a package is installed
_ABOUT_DEVICES = re.compile(rf"(?:{METAPACKAGE}|{CUDA_ARCH})(?![\w.-])")


#: LIMIT: what edits may add to the files that describe a package, and compressing to an archive, beside a 64th of it
_SLACK = 1 << 20


class FatConda:
    """A conda package for all devices, open: its files stay inflated until the stack closes them.

    Raises UsageError for a name that is not the package's, FormatError where ``paths.json`` and the libraries disagree.
    """

    kind = "conda"
    #: solvers read ``index.json`` alone: no file lists the labels of a release
    index = ""

    def __init__(self, view: View, path: str, stack: ExitStack) -> None:
        self.path, self.view = path, view
        self.name = os.path.basename(path)
        self._contents = CondaContents(view, self.name, stack)
        _, info = self._contents.edits()
        document = read_document(info, INDEX)
        self.build = build_of(document)
        rename_conda(document, self.name, "label")
        about = ", ".join(spec.text for spec in self.build.asks)
        self.release = f"{self.build.name}-{self.build.version} for {self.build.subdir or 'any platform'}"
        self.release += f", {about}" if about else ""
        self.libraries = self._read()
        self._digests = check_paths(self._contents.files, info, [library.name for library in self.libraries])

    def _read(self) -> Sequence[PackageFile]:
        found = []
        tar = self._contents.files
        for number, (name, file) in enumerate(tar.files.items()):
            if name.startswith("info/") or not file.size:
                continue
            view = tar.content(file).view()
            if not may_hold_device_code(name, view.head(0, HEAD_SIZE)):
                continue
            code = read_library(view, name)
            if code.units:
                found.append(PackageFile(number, name, view, file.size, code))
        return found

    def map_labels(
        self, packages: Sequence[Sequence[LibraryCode]], request: SplitRequest, judge: ServingJudge
    ) -> LabelMap:
        """Return the labels of a release with this package. Raises UsageError for options that are for wheels."""
        if request.null != "fat":
            option = cli_or_api(f"--null {request.null}", f"null={request.null!r}")
            hint = "leave it out: of conda packages the fat one is for all others"
            raise UsageError(f"{option} is for wheels: {self.path} is a conda package", hint=hint)
        if request.insisted:
            option = cli_or_api("--insist", "insist=")
            hint = "leave it out: the range of a label has only devices that are served"
            raise UsageError(f"{option} is for wheels: {self.path} is a conda package", hint=hint)
        return map_conda_labels(packages, request.by, judge, self.build, request.depend_on)

    def pack(self, library: PackageFile, pieces: Sequence[Piece], known: StoredBlocks) -> Packing:
        """Return the new content of a library: the archive is compressed as a whole."""
        return Packing(pieces, deflates=False)

    def variants(
        self, labels: LabelMap, contents: Mapping[str, Mapping[int, PackedFile]], schema: str, stack: ExitStack
    ) -> dict[str, PackageVariant]:
        """Return the packages of labels, with new contents of some libraries.

        Their archives are compressed side by side, each on one core: one archive on all cores takes more memory, and
        more time in total.
        """
        plain = {id(tar): len(tar.plain) for tar in (self._contents.files, self._contents.info)}
        room = sum(size + (size >> 6) + _SLACK for size in plain.values())
        scratch = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        os.ftruncate(scratch.fileno(), len(contents) * room)
        view = stack.enter_context(open_source(scratch, name="archives")).view()

        def store(numbered: tuple[int, str]) -> list[StoredContent]:
            number, label = numbered
            stored: list[StoredContent] = []

            def pack(edit: TarEdit, deflates: bool) -> PackedFile:
                at = stored[-1].end if stored else number * room
                packing = Packing(edit.pieces(on_all_cores=False), deflates=deflates)
                stored.append(packing.store(scratch.fileno(), at, (number + 1) * room))
                return stored[-1].packed(view)

            self._variant(label, labels, contents[label], pack)
            return stored

        with closing(map_in_processes(list(enumerate(contents)), store, lambda _: max(plain.values()))) as shared:
            stored = {one[1]: store(one) if made is None else made.value for one, made in shared}
        found = {}
        for label, archives in stored.items():
            packed = iter([one.packed(view) for one in archives])
            found[label] = self._variant(label, labels, contents[label], lambda *_, packed=packed: next(packed))
        return found

    def _variant(
        self, label: str, labels: LabelMap, contents: Mapping[int, PackedFile], pack: Callable[..., PackedFile]
    ) -> PackageVariant:
        files, info = self._contents.edits()
        names = {library.number: library.name for library in self.libraries}
        for number, content in contents.items():
            files.put(names[number], [content.stored], content.digest)
        document = read_document(info, INDEX)
        specs = next(one.values for one in labels.labels if one.name == label)
        document.values["depends"] = self._depends(document.values.get("depends", []), specs)
        document.values["build_number"] = self.build.build_number + PRIORITY
        name = rename_conda(document, self.name, label)
        info.put(INDEX, [document.written()])
        update_paths(files, info, self._digests)
        written = self._contents.written(name, files, info, pack)
        return PackageVariant(name, written.pieces, written.verify)

    def _depends(self, depends: Sequence[str], specs: Sequence[str]) -> list[str]:
        """Return dependencies for the devices of a label: those for others go if they follow from the label's."""
        new = read_conda_index({"depends": list(specs), "subdir": self.build.subdir})
        follows = _is_within(new, self.build)
        kept = [spec for spec in depends if not (follows and _ABOUT_DEVICES.match(spec))]
        return [*kept, *specs]

    def shares_release(self, name: str) -> bool:
        """Return whether solvers may take a file of this name for a build of the same name and version."""
        end = next((end for end in SUFFIXES if name.endswith(end)), "")
        return bool(end) and name.removesuffix(end).rpartition("-")[0] == f"{self.build.name}-{self.build.version}"

    def find_written(self, folder: str) -> WrittenCondas:
        """Return the packages of labels of this one in a folder."""
        return WrittenCondas(self, folder)


def build_of(document: JsonDocument) -> CondaPackage:
    """Return a package as solvers know it, by its ``index.json``. Raises BadValue."""
    try:
        return read_conda_index(document.values)
    except UnreadableSpec as error:
        raise document.wrong("description", "what solvers can read", str(error)) from None


class WrittenCondaLabels(LabelMap):
    """The labels of packages that were written; the path of each of ``builds`` is its label, "" for the fat one."""

    builds: tuple[CondaPackage, ...] = ()

    def taken(self, device: Device, driver: Driver) -> tuple[str, ...]:
        """Return the labels that solvers take for a device alone in its machine; none if they install nothing."""
        return labels_taken(self.builds, device, driver)


class WrittenCondas:
    """The packages of labels of a fat package in a folder: ``files`` are their labels and paths."""

    def __init__(self, fat: FatConda, folder: str) -> None:
        self._fat = fat
        self.problems: list[str] = []
        suffix = next(end for end in SUFFIXES if fat.name.endswith(end))
        stem = re.escape(f"{fat.build.name}-{fat.build.version}-")
        pattern = re.compile(f"{stem}([0-9a-z._]{{1,16}})_{re.escape(fat.build.build + suffix)}")
        found = ((name, pattern.fullmatch(name)) for name in sorted(os.listdir(folder)))
        self.files = [(match[1], os.path.join(folder, name)) for name, match in found if match is not None]

    def read(
        self, view: View, label: str, names: Sequence[str], problems: list[str]
    ) -> tuple[list[LibraryCode], bytes]:
        """Return the libraries of a package and its ``index.json``, and note what solvers would do wrong with it."""
        with ExitStack() as stack:
            contents = CondaContents(view, os.path.basename(view.chain[-1]), stack)
            document = read_document(contents.edits()[1], INDEX)
            build, fat = build_of(document), self._fat.build
            name = os.path.basename(view.chain[-1])
            described = f"{build.name}-{build.version}-{build.build}"
            if not any(name == described + end for end in SUFFIXES):
                problems.append(f"{INDEX}: it describes {described}, and the file name is {name}")
            if not _is_within(build, fat):
                problems.append(f"{INDEX}: it is installed on devices that may not have the fat package")
            if build.build_number <= fat.build_number:
                problems.append(
                    f"{INDEX}: build_number {build.build_number} is not above {fat.build_number}, so that the fat "
                    "package is as good to solvers"
                )
            tar = contents.files
            codes = [read_library(tar.content(tar.files[name]).view(), name) for name in names if name in tar.files]
            return codes, json.dumps(document.values).encode()

    def labels(self, codes: Sequence[LibraryCode], described: Mapping[str, bytes]) -> LabelMap:
        """Return the labels by which solvers choose, ``described`` the packages that were read by their labels."""
        builds = [read_conda_index(json.loads(data), label) for label, data in described.items() if data]
        table = table_of_admitted(self._fat.build)
        return WrittenCondaLabels((), (), table, False, (self._fat.build.replace(path=""), *builds))


def _is_within(build: CondaPackage, other: CondaPackage) -> bool:
    """Return whether all devices that may have a build may have another one, too."""
    own, others = admitted_devices(build), admitted_devices(other)
    return set(own.capabilities) <= set(others.capabilities) and (others.is_open or not own.is_open)
