"""Container images of a request: opened, slimmed, written and proved before they get their names."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from tempfile import mkdtemp

from fatpack import magic_numbers
from fatpack.codecs.compress import compress_stream
from fatpack.command_line.messages import CopyProgress, WaitStatus, print_stderr, warn_stale_temp_files
from fatpack.commands.slim.container_images import ImageOptions, history_command, render_layers, slim_image
from fatpack.commands.slim.image_files import FolderImage, TarImage, check_folder_target
from fatpack.commands.slim.image_layers import Spool
from fatpack.commands.slim.outcome import refuse_unmatched_patterns, why_unchanged
from fatpack.errors import HostError, UsageError
from fatpack.io.atomic_write import NewFolder, check_target, write_file
from fatpack.io.source import PiecesSource, View
from fatpack.io.write import write_pieces
from fatpack.packages.zip.packing import pack_content
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from fatpack.commands.slim.container_images import SlimmedImage
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import Slimming, SlimOutcome
    from fatpack.commands.slim.request import SlimRequest
    from fatpack.io.source import Piece

    class ImageProof(Protocol):
        """The proof of an image: its verdict, its certificate, and the lines for users."""

        is_proved: bool
        lines: Iterable[str]

        def text(self) -> list[bytes]: ...  # noqa: D102


class ImageJob:
    """One image that is slimmed: a layout in a folder by its path, or an archive that is open. A context manager."""

    def __init__(self, image: str | View, slimming: Slimming, options: SlimOptions, *, keep_layers: int = 0) -> None:
        self._before = image
        self._slimming = slimming
        self._options = ImageOptions(history_command(options), keep_layers, options.drop_signature)
        self._stack = ExitStack()

    def __enter__(self) -> ImageJob:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def slim(self) -> SlimmedImage:
        """Return the new image; its bytes can be read until the job is closed. Raises the errors of reading it."""
        stack = self._stack
        spool = stack.enter_context(Spool())
        before = self._before
        self._image: FolderImage | TarImage
        if isinstance(before, str):
            self._image = FolderImage(before, stack)
        else:
            self._image = TarImage(before, before.source.name, stack)
        self.made = slim_image(self._image, self._slimming, self._options, spool)
        return self.made

    @property
    def size(self) -> int:
        """The bytes of the image as it was."""
        return sum(map(len, self._image.files.values())) if isinstance(self._before, str) else len(self._before)

    def new_size(self) -> int:
        """The bytes of the new image, as an archive before it is compressed as a whole."""
        if isinstance(self._before, str):
            return sum(len(piece) for file in self.made.files for piece in file.pieces)
        return sum(map(len, self.made.pieces))

    def write(self, target: str, *, force: bool, prove: Callable[[str | View], None], quiet: bool) -> int:
        """Write the image, and return its size; ``prove`` gets the path or the bytes before they get their name."""
        if isinstance(self._before, str):
            return self._write_folder(target, prove)
        pieces = self._archive()
        meter = CopyProgress(sum(map(len, pieces)), f"writing {target}", quiet=quiet)
        try:
            return write_file(target, pieces, force=force, inputs=[self._before], verify=prove, progress=meter)
        finally:
            meter.finish()

    def _archive(self) -> Sequence[Piece]:
        """Return the bytes of the new archive, compressed as the old one was."""
        assert isinstance(self._before, View)
        assert isinstance(self._image, TarImage)
        if not self.made.is_changed:
            return [self._before]
        if not self._image.method:
            return self.made.pieces
        packed = pack_content(_compressed(self.made.pieces, self._image.method), deflates=False)
        self._stack.callback(packed.stored.source.close)
        return [packed.stored]

    def write_stream(self, prove: Callable[[str | View], None]) -> None:
        """Write the new archive to standard output, after the proof of its pieces."""
        if isinstance(self._before, str):
            raise UsageError(f"{self._before} is a folder", hint="-d DIR writes a new layout")
        pieces = self._archive()
        prove(PiecesSource(pieces, "stdout").view())
        write_pieces(1, pieces)

    def _write_folder(self, target: str, prove: Callable[[str | View], None]) -> int:
        check_folder_target(target)
        parent = os.path.dirname(os.path.abspath(target))
        os.makedirs(parent, exist_ok=True)
        made = mkdtemp(prefix=".fatpack.", suffix=".part", dir=parent)
        try:
            size = 0
            for file in self.made.files:
                path = os.path.join(made, file.name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                size += write_file(path, file.pieces)
            prove(made)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(made, 0o777 & ~mask)
            with suppress(FileNotFoundError):
                os.rmdir(target)
            os.rename(made, target)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        return size


def _compressed(pieces: Sequence[Piece], method: str) -> Iterator[Piece]:
    """Yield an archive compressed as a whole, as it was."""
    if method == "gzip":
        packed = pack_content(pieces, deflates=True)
        end = packed.crc.to_bytes(4, "little") + (packed.size & 0xFFFFFFFF).to_bytes(4, "little")
        yield magic_numbers.GZIP + b"\0\0\0\0\0\0\xff"
        yield packed.stored
        yield end
        packed.stored.source.close()
    else:
        yield from compress_stream(pieces, method, sum(map(len, pieces)), 3 if method == "zstd" else None)


def refuse_unproved(before: str | View, after: str | View) -> None:
    """Raise HostError unless an image is proved to be another with less device code."""
    from fatpack.proof import packages

    verdict = packages.prove_package(before, after)
    if not verdict.is_proved:
        raise HostError(
            f"the result is not proved to differ in device code alone: {verdict.differences[0].what}",
            hint="report this, with the image; slim the libraries in the build step until it is mended",
            chain=(before,) if isinstance(before, str) else before.chain,
        )


def slim_container_image(
    request: SlimRequest, image: str | View, slimming: Slimming, prove: Callable[[str | View, str | View], ImageProof]
) -> list[SlimOutcome]:
    """Slim an image, prove and write it, and return what became of the libraries in it.

    Raises UsageError where the result has no place, HostError if it is not proved, and what slimming it raises.
    """
    path = image if isinstance(image, str) else image.source.name
    target = _target(request, path)
    quiet = request.quiet
    if not request.dry_run:
        _refuse_existing(request, image, target)
    with ImageJob(image, slimming, request.options, keep_layers=request.keep_layers) as job:
        with WaitStatus(f"slimming {path}", quiet=quiet):
            made = job.slim()
        outcomes = [library.outcome.replace(path=f"{path}!{library.name}") for library in made.libraries]
        if len(request.files) == 1:
            refuse_unmatched_patterns(outcomes, request.options, (path,))
        for note in made.notes:
            print_stderr(f"fatpack: note: {path}: {note}", quiet=quiet)
        for line in render_layers(made):
            print_stderr(line, quiet=quiet)
        if not made.is_changed:
            print_stderr(f"{path}: unchanged: {why_unchanged(outcomes)}", quiet=quiet)
        if request.dry_run:
            sizes = f"{format_size(job.size)} → {format_size(job.new_size())}"
            print_stderr(f"would write {target or 'a new image'}: {sizes}", quiet=quiet)
        else:
            outcomes = [item.replace(output=target) for item in outcomes]
            _write(request, job, image, target, prove)
        return [item for item in outcomes if item.error is not None or item.has_device_code]


def _target(request: SlimRequest, path: str) -> str:
    """Return where an image goes. Raises UsageError for a place that is none for it."""
    is_folder = os.path.isdir(path)
    if request.to.in_place:
        hint = f"{'-d DIR' if is_folder else '-o FILE'} writes a new one"
        raise UsageError(f"{path} is a container image, and images are not changed in place", hint=hint)
    if request.directory is not None:
        is_whole = is_folder and len(request.files) == 1
        return request.directory if is_whole else os.path.join(request.directory, os.path.basename(path.rstrip("/")))
    if is_folder and request.to.output is not None:
        raise UsageError(f"{path} is a layout in a folder, and -o names a file", hint="-d DIR writes a new layout")
    return request.to.output or ""


def _refuse_existing(request: SlimRequest, image: str | View, target: str) -> None:
    """Raise what writing an image and its certificate would raise because they are there, before any work is done."""
    if request.certificate is not None:
        check_target(request.certificate, request.to.force, [])
    if isinstance(image, str):
        check_folder_target(target)
    elif target != "-":
        check_target(target, request.to.force, [image])


def _write(
    request: SlimRequest,
    job: ImageJob,
    image: str | View,
    target: str,
    prove: Callable[[str | View, str | View], ImageProof],
) -> None:
    proofs: list[ImageProof] = []
    _refuse_existing(request, image, target)  # again: files may have appeared meanwhile

    def proved(after: str | View) -> None:
        found = prove(image, after)
        proofs.append(found)
        if not found.is_proved:
            for line in found.lines:
                print_stderr(line)
            raise HostError(
                "the result is not proved to differ in device code alone, and was not written",
                hint="report this, with the image; slim the libraries in the build step until it is mended",
                chain=(target,),
            )

    if target == "-":
        job.write_stream(proved)
        return
    folder = os.path.dirname(target)
    with NewFolder(folder):
        warn_stale_temp_files(folder, quiet=request.quiet)
        size = job.write(target, force=request.to.force, prove=proved, quiet=request.quiet)
    print_stderr(f"wrote {target}: {format_size(job.size)} → {format_size(size)}", quiet=request.quiet)
    if request.certificate is not None and proofs:
        write_file(request.certificate, proofs[0].text(), force=request.to.force)
        for line in proofs[0].lines:
            print_stderr(line, quiet=request.quiet)
        print_stderr(f"wrote {request.certificate}", quiet=request.quiet)
