"""The inputs of a device link: the images of a link line as files, grouped by target: ``link_inputs``."""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.library.arguments import as_path, check_type, issue_warnings, make_budget
from fatpack.model import Target
from fatpack.record import Record

__all__ = ["LinkGroup", "link_inputs"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class LinkGroup(Record):
    """One device link: what it makes a program for, and the files that go into it, in the order of the link line.

    ``target`` has the triple and the architecture as they are stored, and no programming model: ``offloads`` are those
    for which the program has to be registered. ``is_bitcode`` tells that all files are LLVM bitcode.
    """

    target: Target
    offloads: tuple[str, ...]
    paths: tuple[str, ...]
    is_bitcode: bool


def link_inputs(
    words: Sequence[str | os.PathLike[str]],
    directory: str | os.PathLike[str],
    *,
    llvm: str = "23",
    should_extract: Sequence[str] = (),
    sysroot: str | os.PathLike[str] = "",
    overwrite: bool = False,
    max_output: int | None = None,
) -> list[LinkGroup]:
    """Write the device images of a link line into a directory, and return which files are linked for which target.

    ``words`` are files, ``-L``, ``-l``, ``--whole-archive`` and ``--no-whole-archive`` as a linker takes them, in its
    order. ``llvm`` names the version of LLVM as whose clang-linker-wrapper images are grouped, ``should_extract`` are
    architectures whose images in archives are linked even if no object is for them. The directory gets one file for
    each image, and ``link-inputs.json``. Nothing is written if anything exists already, unless ``overwrite``;
    ``max_output`` is as for :func:`fatpack.extract`.

    Raises FormatError or Unsupported for a damaged file, since the program would lack kernels, UsageError for a word or
    a library that means nothing, OSError for a missing file. Unusual input gives a warning.
    """
    from fatpack.commands.link_inputs import link_line as lines
    from fatpack.commands.link_inputs.input_files import LinkInputFiles, is_bitcode
    from fatpack.commands.link_inputs.plan import plan_link, write_link_plan
    from fatpack.commands.link_inputs.text import manifest_bytes

    if isinstance(words, (str, bytes)) or not hasattr(words, "__iter__"):
        raise TypeError("words are several texts or paths in a list")
    for number, arch in enumerate(should_extract):
        check_type(f"should_extract[{number}]", arch, str, "a text")
    folder = as_path("directory", directory)
    if not folder:
        raise UsageError("the directory has no name", hint='"." is the current one')
    line = lines.parse_link_line([as_path("a word", word) for word in words])
    root = os.fspath(sysroot)
    budget = make_budget(max_output=max_output)
    with LinkInputFiles(line.replace(root=root) if root else line, budget) as opened:
        made = plan_link(line, opened, check_type("llvm", llvm, str, "a text"), should_extract)
        made.check()
        issue_warnings(item.text for item in made.findings if item.severity == "warning")
        paths = write_link_plan(
            made, folder, manifest_bytes(made), force=overwrite, inputs=opened.views, any_size=max_output is not None
        )
        by_device = {each.device.number: path for each, path in zip(made.files, paths[:-1], strict=True)}
        return [
            LinkGroup(
                Target(each.target.triple, each.target.arch),
                each.offloads,
                tuple(by_device[device.number] for device in each.devices),
                all(is_bitcode(device.image.data) for device in each.devices),
            )
            for each in made.groups
        ]
