"""The tested functions and their rules. Each returns a short description of its run.

Files that take the same path have the same description: a new description means that a file reached new code.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tools.fuzz import seeds
from tools.fuzz.mutate import Field

from fatpack import binary, formats, images, packages, rows
from fatpack.binary.shrink import NewSectionContent, ShrinkRequest
from fatpack.commands.inspect.bytes import file_labels
from fatpack.commands.inspect.record import InspectOptions, make_file_record
from fatpack.commands.normalize.request import plan_normalize
from fatpack.commands.slim.remove import remove_images
from fatpack.edit.editor import verify_edited
from fatpack.edit.embed import embed_container, replace_container
from fatpack.errors import FatpackError, FormatError, HostError, Unsupported
from fatpack.images import ImageInfo, sidecar, tile_ir
from fatpack.images.kernel import KernelNeeds
from fatpack.io.source import BytesSource, View
from fatpack.limits import Budget
from fatpack.model import Finding, Label
from fatpack.scanner import bare_images, detect_host
from fatpack.selectors.select import Selector

_NO_WORDS = re.compile(r"[^A-Za-z ]+")


class Failure(Exception):
    """A rule is broken."""


def _view(data: bytes) -> View:
    return BytesSource(data, "fuzz").view()


def _joined(pieces: Iterable[object]) -> bytes:
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in pieces)  # type: ignore[call-overload]


def _words(error: FatpackError) -> str:
    """Return an error without the parts that differ from file to file."""
    field = error.field if isinstance(error, FormatError) else ""
    return f"{type(error).__name__} {_NO_WORDS.sub('', field)} {_NO_WORDS.sub(' ', error.problem)[:60]}"


def _check_cover(labels: Iterable[Label], start: int, end: int) -> int:
    """Raise Failure unless labels cover a range once and in order; return the number of different names."""
    reached, kinds = start, set()
    for label in labels:
        if label.span.start != reached or label.span.end <= reached:
            raise Failure(
                f"label {label.name} covers {label.span.start:#x}-{label.span.end:#x}, and {reached:#x} was reached"
            )
        reached = label.span.end
        kinds.add(_NO_WORDS.sub("", label.name))
    if reached != end:
        raise Failure(f"labels reach {reached:#x}, not {end:#x}")
    return len(kinds)


def _fields(labels: Iterable[Label]) -> list[Field]:
    return [
        Field(label.span.start, label.span.size) for label in labels if label.kind == "field" and label.span.size <= 8
    ]


def file_fields(data: bytes) -> list[Field]:
    """Return the numbers of any file that a host or a format knows."""
    try:
        return _fields(file_labels(_view(data)))
    except FatpackError:
        return []


def inspect_file(data: bytes) -> str:
    """Open, list and describe a file with all its contents."""
    record = make_file_record(_view(data), InspectOptions(kernels=True))
    codes = sorted({item["code"] for item in record["findings"]})
    found = [f"{item['format']}{len(item['images']).bit_length()}" for item in record["containers"][:3]]
    return " ".join([record["host"] or "", *found, *codes])


def rows_of_file(data: bytes) -> str:
    """Make rows of a file's images and kernels; nothing is raised, and the file's own row is the last."""
    words = []
    for of in ("images", "kernels"):
        made = [row.to_dict() for row in rows(data, of=of, digests=True, kernels=True, deep=True)]
        kinds = [row["row"] for row in made]
        if kinds[-1:] != ["file"] or kinds.count("file") != 1:
            raise Failure(f"the rows are {kinds[-3:]}")
        json.dumps(made, allow_nan=False)
        words += [str(len(made).bit_length()), *sorted(set(kinds)), _NO_WORDS.sub(" ", str(made[-1]["error"]))[:60]]
        words += sorted({code for row in made for code in row["findings"]})
    return " ".join(words)


def read_image(data: bytes) -> str:
    """Read a file as an image: its form, its kernels, and their resources."""
    view = _view(data)
    recognised = images.identify_image(view)
    words = [recognised.form, recognised.arch]
    readers: tuple[Callable[[View, str], object], ...] = (images.kernels, images.facts)
    for read in readers:
        try:
            words.append(str(bool(read(view, recognised.form))))
        except (FormatError, Unsupported) as error:
            words.append(_words(error))
    return " ".join(words)


def read_tile_ir(data: bytes) -> str:
    """Read a file as Tile IR: its end, its kernels; an error has an offset, and a truncated module has no end."""
    view = _view(data)
    size = tile_ir.extent(view)
    if size is not None and tile_ir.extent(view.slice(0, size)) != size:
        raise Failure(f"the module ends at {size}, but has no end if it is truncated there")
    try:
        found = images.facts(view, "tileir")
    except (FormatError, Unsupported) as error:
        if isinstance(error, FormatError) and error.offset is None:
            raise Failure(f"an error without an offset: {error!r}") from error
        return f"{size is None} {_words(error)}"
    return f"{size is None} {len(found.kernels)} {len(found.made_by)}"


def read_sidecar(data: bytes) -> str:
    """Read a file as the metadata beside an image, and compare it with images of several kinds."""
    try:
        claimed = sidecar.read_sidecar(data)
    except FormatError as error:
        return _words(error)
    if claimed is None:
        return "nothing"
    words = [claimed.producer, str(bool(claimed.arch)), str(bool(claimed.threads))]
    for recognised in (
        ImageInfo("cubin", "sm_90a", "nvptx64-nvidia-cuda"),
        ImageInfo("code-object", "gfx942", "amdgcn"),
    ):
        found = [*sidecar.target_problems(claimed, recognised)]
        found += sidecar.kernel_problems(claimed, recognised, (KernelNeeds("sum_kernel", shared=8, max_threads=64),))
        words += [code for code, _ in found]
    return " ".join(words)


def search_all(data: bytes) -> str:
    """Search a file for images outside containers: each is inside, complete, and not found in itself."""
    view, reached, forms = _view(data), 0, []
    for item in bare_images.find_bare_images(view, [(0, len(view))]):
        if isinstance(item, Finding):
            forms.append(item.code)
            continue
        _, stored = item
        if not reached <= stored.start < stored.end <= len(view):
            raise Failure(f"an image at {stored.start} to {stored.end}, after {reached}")
        reached = stored.end
        alone = _view(stored.tobytes())
        if any(True for _ in bare_images.find_bare_images(alone, [(0, len(alone))])):
            raise Failure(f"the image at {stored.start} is found in itself")
        forms.append(images.identify_image(alone).form)
    return " ".join(forms[:6])


def format_room(name: str) -> Callable[[bytes], str]:
    """Return a function that tests the interface of a format: labels cover all bytes, and rewriting changes nothing."""

    def run(data: bytes) -> str:
        room, view = formats.get_format(name), _view(data)
        if not room.detect(view, 0):
            return "not detected"
        claimed = room.extent(view, 0)
        try:
            container = room.parse(view, 0)
        except (FormatError, Unsupported) as error:
            if isinstance(error, FormatError) and (error.offset is None or error.format != name):
                raise Failure(f"an error without an offset: {error!r}") from error
            return f"{claimed is None} {_words(error)}"
        kinds = _check_cover(room.labels(view, container), container.span.start, container.span.end)
        room.describe(container)
        codes = sorted({item.code for item in container.findings})
        damage = ""
        for image in container.images[:8]:
            try:
                if len(image.data.tobytes()) != image.size:
                    raise Failure(f"an image of {image.size} bytes has {len(image.data.tobytes())}")
            except (FormatError, Unsupported) as error:
                damage = _words(error)
        is_sound = all(item.severity == "note" for item in container.findings)
        how = _written(name, container) if is_sound else "not sound"
        return " ".join([how, str(kinds), str(len(container.images)), damage, *codes])

    return run


def _written(name: str, container: object) -> str:
    """Write a parsed container, parse and write the result: the same bytes must come out. Return a description."""
    room = formats.get_format(name)
    try:
        once = _joined(room.write(container))  # type: ignore[arg-type]
    except FatpackError as error:
        return _words(error)
    view = _view(once)
    if not room.detect(view, 0):
        raise Failure("the written container is not detected")
    again = room.parse(view, 0)
    twice = _joined(room.write(again))
    if twice != once:
        raise Failure("the written container differs when it is read and written again")
    return "written"


def format_fields(name: str) -> Callable[[bytes], list[Field]]:
    """Return a function that finds the numbers of a container of a format."""

    def fields(data: bytes) -> list[Field]:
        room, view = formats.get_format(name), _view(data)
        try:
            return _fields(room.labels(view, room.parse(view, 0)))
        except FatpackError:
            return []

    return fields


def host_room(name: str) -> Callable[[bytes], str]:
    """Return a function that tests the interface of a host, except editing."""

    def run(data: bytes) -> str:
        room, view = binary.get_host(name), _view(data)
        if not room.detect(view):
            return "not detected"
        words = []
        try:
            for item in room.locate(view):
                if isinstance(item, Finding):
                    words.append(item.code)
                elif item.data.end > item.data.source.size:
                    raise Failure(f"{item} extends beyond the end")
            kinds = _check_cover(room.labels(view), 0, len(data))
        except FormatError as error:
            return f"{sorted(set(words))} {_words(error)}"
        binary.sections(name, view)
        return f"{sorted(set(words))} {kinds}"

    return run


#: LIMIT: bytes that one file may make the target of packages decompress.
_INFLATED = 4 << 20


def read_package(data: bytes) -> str:
    """List the files in each kind of package, and read them: sizes hold, and a second reading gives the same."""
    words = []
    for name in packages.MODULES:
        view = _view(data)
        view.source.budget = Budget(inflated=_INFLATED)
        room = packages.get_package(name)
        if room.detect(view):
            words.append(f"is {name}")
        numbers = []
        for item in room.members(view):
            if isinstance(item, Finding):
                words.append(f"{name} {item.code}")
                continue
            numbers.append(item.number)
            words += [f"{name} {found.code}" for found in item.findings]
            try:
                words.append(f"{name} {_content(item)}")
            except FatpackError as error:
                words.append(f"{name} {_words(error)}")
        if numbers != list(range(len(numbers))):
            raise Failure(f"members of {name} are numbered {numbers[:9]}")
    return " ".join(sorted(set(words)))


def _content(member: packages.PackageMember) -> str:
    with member.open() as source:
        first = source.beginning(64)
        size = source.size
        if member.size not in (None, size):
            raise Failure(f"{member} has {size} bytes")
        if size > _INFLATED:
            return "sparse"
        whole = source.read(0, size)
        if len(whole) != size or whole[:64] != first or source.read(size // 2, size // 4) != _quarter(whole):
            raise Failure(f"{member} is not the same when it is read twice")
        return " ".join(["read", *(item.code for item in source.findings)])


def _quarter(data: bytes) -> bytes:
    return data[len(data) // 2 : len(data) // 2 + len(data) // 4]


_CONTAINER = (seeds.FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()


def edit_file(edit: Callable[[View], Iterable[object]]) -> Callable[[bytes], str]:
    """Return a function that edits a file; the result must be sound: an unsound result is a failure, not an answer."""

    def run(data: bytes) -> str:
        view = _view(data)
        host = detect_host(view)
        try:
            after = _joined(edit(view))
        except FatpackError as error:
            return f"{host} {_words(error)}"
        verify_edited(view, _view(after))
        return f"{host} {len(after) > len(data)}"

    return run


def remove_file(data: bytes) -> str:
    """Remove all device code; the result must pass the check of its format, as the command applies it."""
    view = _view(data)
    host = detect_host(view)
    try:
        removal = remove_images(view, Selector())
        after = _joined(removal.pieces)
    except FatpackError as error:
        return f"{host} {_words(error)}"
    removal.check(view, _view(after))
    return f"{host} {len(after) > len(data)}"


def normalize_file(data: bytes) -> str:
    """Normalize a file; the result must pass the check that the command applies, and nothing in it is changed again."""
    view = _view(data)
    try:
        plan = plan_normalize(view)
    except FatpackError as error:
        return _words(error)
    plan.check(view, _view(_joined(plan.pieces)))
    return f"{len(plan.result.fields)} {plan.result.verdict}"


def with_another(view: View) -> Iterable[object]:
    """Add a container."""
    return embed_container(view, [_CONTAINER], format="llvm-offload-binary")


def with_other(view: View) -> Iterable[object]:
    """Replace the container."""
    return replace_container(view, _view(_CONTAINER), accept_mismatch=True)


def relay_file(data: bytes) -> str:
    """Remove device code from a linked file; the result has the announced size, and can be edited again."""
    view = _view(data)
    host = detect_host(view)
    shrinker = binary.get_shrinker(host) if host in binary.MODULES else None
    if shrinker is None:
        return f"{host} none"
    try:
        sites = [site for site in binary.get_host(host).locate(view) if not isinstance(site, Finding)]
        contents = [
            NewSectionContent(site.index, [site.data.slice(0, min(len(site.data) // 4, 64))])
            for site in sites
            if site.index is not None and site.content != binary.TABLE
        ]
        done = shrinker.shrink(view, ShrinkRequest(contents, [], {}))
    except FatpackError as error:
        return f"{host} {_words(error)}"
    after = _joined(done.pieces)
    if len(after) != len(data) - sum(size for _, size in done.cuts):
        raise AssertionError(f"{len(after)} bytes are left of {len(data)} without {done.cuts}")
    again = shrinker.shrink(_view(after), ShrinkRequest(contents, [], {}), mode="zero")
    if len(_joined(again.pieces)) != len(after):
        raise AssertionError("an edit without a cut changed the size")
    return f"{host} {done.mode} {len(done.cuts)} {_words(HostError(done.why))}"


def fresh_folder(data: bytes) -> None:
    """Enter a folder with only a file ``in`` with these bytes: in memory if possible."""
    global _folder  # noqa: PLW0603  (the current folder is global to the process too)
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        os.chdir(_folder.name)
    for name in os.listdir("."):
        os.unlink(name)
    Path("in").write_bytes(data)


_folder: tempfile.TemporaryDirectory[str] | None = None


def run_tool(name: str, *command_lines: list[str]) -> Callable[[bytes], str]:
    """Return a function that runs command lines of a stand-in, for which the file is called ``in``."""

    def run(data: bytes) -> str:
        from fatpack.tools import run_stand_in

        fresh_folder(data)
        codes = []
        for arguments in command_lines:
            with redirect_stdout(_stream()), redirect_stderr(_stream()) as errors:
                try:
                    codes.append(str(run_stand_in([name, *arguments])))
                except FatpackError as error:
                    codes.append(_words(error))
                except OSError as error:  # a name in the file that no file can have
                    codes.append(str(error.errno))
            errors.seek(0)
            codes.append(_NO_WORDS.sub(" ", errors.read())[:60])
        return " ".join([*codes, str(len(os.listdir(".")))])

    return run


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
