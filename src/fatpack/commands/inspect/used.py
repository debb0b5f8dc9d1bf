"""``inspect --used PROFILE``: kernels of a recorded run that are in files, and the bytes of the containers around them.

::

    libkernels.so: 1 of 2 containers used, 16.6 kB of 18.1 kB (92 %), 1 of 5 kernels
      container  images   stored  kernels  used  names
      0               5  16.6 kB        3     1  add_one
      1               4  1.54 kB        2     0
    1 kernel name: 1 mangled, 0 unmatched

Profiles and their names are read as for ``slim --used``, by the same functions. A container is used if a kernel of it
ran; ``slim`` keeps more than those, by its rules K1 to K7, which ask about the program and not about the run.
"""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import get_style
from fatpack.commands.inspect.record import InspectOptions
from fatpack.commands.inspect.run import ArgumentFiles, InspectTrees, print_error, problem_lines
from fatpack.commands.inspect.totals import stored_images
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, worst_exit_code
from fatpack.printable import format_size, printable
from fatpack.record import Record
from fatpack.selectors.kernel_names import KernelNameIndex, best_forms, form_counts, match_names, name_lines
from fatpack.selectors.profiles import read_profiles
from fatpack.text.style import PLAIN, table_lines, write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.inspect.listing import ContainerRecord
    from fatpack.selectors.kernel_names import NameForm
    from fatpack.selectors.profiles import Profile
    from fatpack.text.style import Style

SCHEMA = "fatpack.used/1"

#: names of kernels that a row of the text shows
_SHOWN = 2


class ContainerUse(Record):
    """A container of a file: its ``number`` of ``images``, their ``stored`` bytes, and its kernels, each once.

    ``used`` are those that a profile names. ``number`` is None for an image that is a file or a member by itself.
    """

    number: int | None
    member: str
    images: int
    stored: int
    kernels: tuple[str, ...]
    used: tuple[str, ...] = ()


class FileUse(Record):
    """The containers of one file, and the names that mean kernels of it, each with the form by which."""

    path: str
    containers: tuple[ContainerUse, ...]
    forms: Mapping[str, NameForm]
    widened: tuple[str, ...]

    def sums(self) -> dict[str, int]:
        """Return counts of containers, bytes and distinct kernels, each in all and used."""
        used = [one for one in self.containers if one.used]
        return {
            "containers": len(self.containers),
            "used_containers": len(used),
            "stored_size": sum(one.stored for one in self.containers),
            "used_stored_size": sum(one.stored for one in used),
            "kernels": len({name for one in self.containers for name in one.kernels}),
            "used_kernels": len({name for one in used for name in one.used}),
        }


def summarize_container(container: ContainerRecord) -> ContainerUse:
    """Return what is kept of the record of a container: a large library names its kernels for each architecture."""
    images = list(stored_images([container]))
    kernels = dict.fromkeys(name for image, _ in images for name in image["kernels"])
    stored = sum(size for _, size in images)
    return ContainerUse(0, container["member"] or "", len(images), stored, tuple(kernels))


def show_used(
    files: Sequence[str],
    profiles: Sequence[str],
    *,
    as_json: bool = False,
    deep: bool = False,
    exclude: tuple[str, ...] = (),
) -> int:
    """Print which containers of files hold kernels that profiles name, and return the exit code as ``inspect`` does.

    It is 1 as well if no name is a kernel of any file. Raises UsageError for a profile without kernels, FormatError for
    a damaged one, ``OSError``, and Unsupported if names need a demangler and none is installed.
    """
    found = _UseOfFiles(read_profiles(profiles), InspectOptions(deep=deep, code_sizes=True), exclude)
    found.add(files)
    if as_json:
        from fatpack.text.json import json_pieces

        sys.stdout.writelines(json_pieces(found.record()))
        sys.stdout.write("\n")
    else:
        write_lines(found.lines(get_style()), sys.stdout)
    found.end()
    return found.code


class _UseOfFiles(ArgumentFiles):
    """The use of all files that arguments name."""

    def __init__(self, profiles: tuple[Profile, ...], options: InspectOptions, exclude: tuple[str, ...]) -> None:
        super().__init__(InspectTrees(options, "record", keep=summarize_container), exclude)
        self._profiles = profiles
        self.files: list[FileUse] = []

    def add(self, paths: Iterable[str]) -> None:
        """Add the containers of files, and of all files in trees."""
        for item in self.read(paths):
            if isinstance(item, dict):
                error, record = item["error"]["message"] if item.get("error") else "", item
            else:
                error, record = item.error, item.content
            if error:
                print_error(error)
            else:
                self._add_record(record)

    def _add_record(self, record: Any) -> None:
        for line in problem_lines(record["path"], record):
            print_stderr(line.rstrip("\n"))
        containers = [one.replace(number=number) for number, one in enumerate(record["containers"])]
        alone = [*record.get("member_images", ()), *([record["image"]] if record["image"] else ())]
        for image in alone:
            size = image.get("size", record["size"]) or 0
            containers.append(ContainerUse(None, image.get("member") or "", 1, size, tuple(image["kernels"])))
        if not containers:
            return
        matches = match_names(self._profiles, KernelNameIndex(name for one in containers for name in one.kernels))
        used = tuple(
            one.replace(used=tuple(name for name in one.kernels if name in matches.kernels)) for one in containers
        )
        self.files.append(FileUse(record["path"], used, matches.forms, matches.widened))

    def end(self) -> None:
        """Say what is no part of the table: skipped files, patterns without effect, and that nothing matches."""
        super().end()
        if not any(one.forms for one in self.files):
            names = ", ".join(printable(one.path) for one in self._profiles)
            what = f"no name in {names} is a kernel of the input" if self.files else "no device code found"
            print_stderr(f"fatpack: {what}")
            self.code = worst_exit_code((self.code, FINDINGS))

    def lines(self, style: Style) -> Iterator[str]:
        """Yield the text: a table for each file, sums over several, and how names were matched."""
        for file in self.files:
            yield from _file_lines(file, style)
        if len(self.files) > 1:
            yield f"{len(self.files)} files: {_sum_words(self._sums())}"
        if self.files:
            widened = tuple({name: None for one in self.files for name in one.widened})
            yield from name_lines(self._profiles, best_forms(one.forms for one in self.files), widened)

    def _sums(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for file in self.files:
            for key, count in file.sums().items():
                sums[key] = sums.get(key, 0) + count
        return sums

    def record(self) -> dict[str, object]:
        """Return the same as plain data."""
        forms = best_forms(one.forms for one in self.files)
        return {
            "schema": SCHEMA,
            "profiles": [one.record() for one in self._profiles],
            "matched": form_counts(forms),
            "unmatched": list({name: None for one in self._profiles for name in one.names if name not in forms}),
            "files": [
                {
                    "path": file.path,
                    **file.sums(),
                    "parts": [
                        {
                            "container": one.number,
                            "member": one.member or None,
                            "images": one.images,
                            "stored_size": one.stored,
                            "kernels": len(one.kernels),
                            "used": list(one.used),
                        }
                        for one in file.containers
                    ],
                }
                for file in self.files
            ],
        }


def _file_lines(file: FileUse, style: Style = PLAIN) -> Iterator[str]:
    yield style.painted(f"{printable(file.path)}: {_sum_words(file.sums())}", "heading")
    has_members = any(one.member for one in file.containers)
    rows = [["container", *(["member"] if has_members else []), "images", "stored", "kernels", "used", "names"]]
    for one in file.containers:
        more = f" and {len(one.used) - _SHOWN} more" if len(one.used) > _SHOWN else ""
        names = ", ".join(map(printable, one.used[:_SHOWN])) + more
        member = [printable(one.member)] if has_members else []
        number = "-" if one.number is None else str(one.number)
        counts = [str(one.images), format_size(one.stored), str(len(one.kernels)), str(len(one.used))]
        rows.append([number, *member, *counts, names])
    first = 2 if has_members else 1
    role = lambda row, _: "heading" if not row else ""  # noqa: E731
    right = range(first, first + 4)
    yield from table_lines(rows, style, right=right, indent="  ", names=[first + 4, *range(1, first)], role=role)


def _sum_words(sums: Mapping[str, int]) -> str:
    stored = sums["stored_size"]
    share = f" ({sums['used_stored_size'] * 100 // stored} %)" if stored else ""
    return (
        f"{sums['used_containers']} of {pluralize(sums['containers'], 'container')} used, "
        f"{format_size(sums['used_stored_size'])} of {format_size(stored)}{share}, "
        f"{sums['used_kernels']} of {pluralize(sums['kernels'], 'kernel')}"
    )
