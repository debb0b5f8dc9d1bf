"""Container images of a request: opened, slimmed, written and proved before they get their names."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from tempfile import mkdtemp

from fatpack import magic_numbers
from fatpack.codecs.compress import compress_stream
from fatpack.command_line.messages import CopyProgress
from fatpack.commands.slim.container_images import (
    ImageOptions,
    SlimmedImage,
    history_command,
    slim_image,
)
from fatpack.commands.slim.image_files import FolderImage, TarImage, check_folder_target
from fatpack.commands.slim.image_layers import Spool
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.packages.zip.writer import pack_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.commands.slim.options import Slimming, SlimOptions
    from fatpack.io.source import Piece, View


class ImageJob:
    """One image that is slimmed: opened by its path, and written to another. A context manager."""

    def __init__(self, path: str, slimming: Slimming, options: SlimOptions, *, keep_layers: int = 0) -> None:
        self._path = path
        self._slimming = slimming
        self._options = ImageOptions(history_command(options), keep_layers, options.drop_signature)
        self._stack = ExitStack()
        self.is_folder = os.path.isdir(path)

    def __enter__(self) -> ImageJob:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def slim(self) -> SlimmedImage:
        """Return the new image; its bytes can be read until the job is closed. Raises the errors of reading it."""
        stack = self._stack
        spool = stack.enter_context(Spool())
        self._image: FolderImage | TarImage
        if self.is_folder:
            self._image = FolderImage(self._path, stack)
        else:
            source = stack.enter_context(open_source(self._path))
            self._image = TarImage(source.view(), self._path, stack)
        self.made = slim_image(self._image, self._slimming, self._options, spool)
        return self.made

    @property
    def size(self) -> int:
        """The bytes of the image as it was."""
        if isinstance(self._image, TarImage):
            return os.path.getsize(self._path)
        return sum(map(len, self._image.files.values()))

    def write(
        self, target: str, *, force: bool, prove: Callable[[str | View], None], quiet: bool, inputs: Sequence[View] = ()
    ) -> int:
        """Write the image, and return its size; ``prove`` gets the path or the bytes before they get their name."""
        if self.is_folder:
            return self._write_folder(target, prove)
        pieces: Sequence[Piece] = self.made.pieces
        image = self._image
        assert isinstance(image, TarImage)
        if image.method and self.made.is_changed:
            packed = pack_content(_compressed(pieces, image.method), deflates=False)
            self._stack.callback(packed.stored.source.close)
            pieces = [packed.stored]
        elif not self.made.is_changed:
            source = self._stack.enter_context(open_source(self._path))
            pieces = [source.view()]
        meter = CopyProgress(sum(map(len, pieces)), f"writing {target}", quiet=quiet)
        try:
            return write_file(target, pieces, force=force, inputs=list(inputs), verify=prove, progress=meter)
        finally:
            meter.finish()

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
