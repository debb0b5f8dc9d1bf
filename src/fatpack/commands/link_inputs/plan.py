"""A link line → what goes into which device link, and the files that the images become.

Every image that is linked becomes one file, whichever number of groups it is in. Files are named as extracted images
are; the number that is part of the name counts the images of the line, so that no two names are equal.
"""

from __future__ import annotations

import os

from fatpack import images
from fatpack.commands.link_inputs.grouping import group_images
from fatpack.commands.link_inputs.input_files import LinkImage, LinkInput, LinkInputFiles
from fatpack.errors import FormatError, Unsupported, UsageError, cli_or_api
from fatpack.io.names import image_name
from fatpack.record import Record
from fatpack.targets.link_groups import VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.commands.link_inputs.groups import ImageGroup
    from fatpack.commands.link_inputs.link_line import LinkLine
    from fatpack.io.source import View
    from fatpack.io.write import Progress
    from fatpack.model import Finding

#: What the description of the groups is called in the folder of the images.
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
    """What goes into which device link: ``files`` by the order of the line, and the groups with the names of theirs.

    ``left`` are images in archives that no group takes. ``llvm`` is the version whose rules were followed.
    """

    llvm: str
    inputs: tuple[LinkInput, ...]
    files: tuple[LinkFile, ...]
    groups: tuple[ImageGroup, ...]
    left: tuple[LinkImage, ...]
    passed_by: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Finding]:
        """What is damaged: the images of that place are missing."""
        return [item for item in self.findings if item.severity == "error"]

    def check(self) -> None:
        """Raise FormatError or Unsupported if something is damaged: a link without those images would lack kernels."""
        for item in self.errors:
            if item.code == "FP1008":
                raise Unsupported(item.message, hint=item.hint, chain=item.span.source)
            raise FormatError(item.message, offset=item.span.start, hint=item.hint, chain=item.span.source)


def plan_link(
    line: LinkLine, opened: LinkInputFiles, llvm: str = VERSIONS[-1], asked: Collection[str] = ()
) -> LinkPlan:
    """Return what of the inputs of a line goes into which device link, by the rules of a version of LLVM.

    Raises UsageError for a version whose rules are not known.
    """
    if llvm not in VERSIONS:
        raise UsageError(f"no rules of LLVM {llvm} are known here", hint=f"choose from {', '.join(VERSIONS)}")
    if llvm == "19" and asked:
        raise UsageError(
            "LLVM 19 links images of archives by their symbols, not because an architecture is asked for",
            hint=f"leave out {cli_or_api('--should-extract', 'should_extract')}, or follow the rules of LLVM 22 or 23",
        )
    groups, left = group_images(opened.devices, llvm, frozenset((*asked, *line.asked)))
    linked = {id(device) for each in groups for device in each.devices}
    files = [
        LinkFile(_name(device, opened.inputs[device.input].path, number), device)
        for number, device in enumerate(opened.devices)
        if id(device) in linked
    ]
    return LinkPlan(
        llvm=llvm,
        inputs=tuple(opened.inputs),
        files=tuple(files),
        groups=tuple(groups),
        left=tuple(left),
        passed_by=line.passed_by,
        findings=tuple(opened.findings),
    )


def _name(device: LinkImage, path: str, number: int) -> str:
    target = device.image.target
    extension = images.EXTENSIONS.get(device.form, "bin")
    return image_name(device.member or path, target.triple, target.arch, number, extension)


def write_link_plan(
    made: LinkPlan,
    directory: str,
    manifest: bytes,
    *,
    force: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Write the images and, when all are there, the manifest; return the paths in order, that of the manifest last.

    Raises UsageError if any of them exists already and ``force`` is not given, or for a directory that is none.
    """
    from fatpack.edit.extract import OutputFile, check_paths, write_plan
    from fatpack.io.atomic_write import write_file

    extracts = [
        OutputFile(each.name, (each.data,), f"image for {each.device.image.target.canonical}") for each in made.files
    ]
    whole = [*extracts, OutputFile(MANIFEST, (manifest,), "manifest")]
    check_paths(whole, directory, inputs, force=force)
    paths = write_plan(extracts, directory, force=force, inputs=inputs, progress=progress) if extracts else []
    path = os.path.join(directory, MANIFEST)
    if not extracts:
        os.makedirs(directory, exist_ok=True)
    try:
        write_file(path, [manifest], force=force, inputs=inputs)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists", hint=cli_or_api("--force to overwrite", "force=True overwrites it")
        ) from error
    return [*paths, path]
