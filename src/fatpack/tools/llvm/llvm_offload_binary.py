"""Extracting: the images of a file that an ``--image`` option asks for, or all of them.

LLVM 23 differs from LLVM 22: without an option it extracts every image, it names every file that it writes, an image
that is an offload binary itself is taken apart, an empty architecture leaves no dash in a name, and ``member=`` asks
for the images of one member of an archive.
"""

from __future__ import annotations

import os
import sys

from fatpack import limits
from fatpack.budget import output_budget
from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.formats.offload_binary import llvm_reader
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS
from fatpack.formats.offload_binary.layout import EXTENSIONS, MAGIC
from fatpack.formats.offload_binary.stored import OffloadBinaryEntry
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.record import Record
from fatpack.tools.llvm.failure import ToolError, strerror
from fatpack.tools.llvm.stored_images import llvm_images
from fatpack.tools.llvm.writing import write_output
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View
    from fatpack.model import Image


class _StoredImage(Record):
    """An image, its entry, and the name of the file it lies in: the innermost member of archives, or the input."""

    image: Image
    entry: OffloadBinaryEntry
    file: str


class ImageExtractor:
    """One run over one file; ``path`` is as it was typed."""

    def __init__(self, program: str, path: str, llvm: str, *, archive: bool) -> None:
        self._program = program
        self._path = path
        self._llvm = llvm
        self._archive = archive
        self._name = "<stdin>" if path == "-" else path

    def extract(self, options: Sequence[ImageOption]) -> None:
        """Write the images that the options ask for. Raises Failure."""
        try:
            source = open_source(self._path)
        except OSError as error:
            raise ToolError(f"'{self._path}': {strerror(error)}") from error
        with source:
            stored = list(self._stored(source.view()))
            try:
                if not options and self._llvm == "23":
                    self._write_each(stored)
                for option in options:
                    self._write([item for item in stored if self._matches(item, option)], option)
            except OSError as error:
                raise ToolError(strerror(error)) from error

    def _stored(self, view: View) -> Iterator[_StoredImage]:
        try:
            for image, file in llvm_images(view, self._name, self._llvm):
                if isinstance(image.record, OffloadBinaryEntry):
                    yield _StoredImage(image, image.record, file)
        except llvm_reader.LlvmError as error:
            raise ToolError(str(error)) from error
        except (FormatError, Unsupported, HostError, UsageError) as error:
            raise ToolError(str(error)) from error

    def _matches(self, item: _StoredImage, option: ImageOption) -> bool:
        """Return whether every key of an option equals the stored one; absent is empty, kinds compare as numbers."""
        stored = {
            key.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
            for key, value in item.entry.strings
        }
        for key, value in option.pairs:
            if key == "kind":
                if item.entry.offload_kind != OFFLOAD_WORDS.get(value, 0):
                    return False
            elif key == "member" and self._llvm == "23":
                if item.file.rpartition("/")[2] != value:
                    return False
            elif key != "file" and stored.get(key, "") != value:
                # QUIRK(LLVM 22): the empty option `--image=` holds one empty key with an empty value and matches all.
                return False
        return True

    def _write(self, chosen: Sequence[_StoredImage], option: ImageOption) -> None:
        name = ",".join(option.files)  # QUIRK(LLVM 22): a repeated `file` is joined with commas when extracting
        if not chosen:
            return
        if self._archive:
            if not option.files:
                raise ToolError("Image must have a 'file' argument.")
            _write_archive(name, chosen)
        elif option.files:
            if len(chosen) > 1:
                sys.stderr.write(f"{self._program}: warning: Multiple inputs match to a single file, '{name}'\n")
            write_output(name, [chosen[-1].image.data])
        else:
            self._write_each(chosen)

    def _write_each(self, chosen: Sequence[_StoredImage]) -> None:
        """Write every image into a file of its own, named after the input, its target and its number."""
        stem = self._path.rpartition("/")[2]
        stem = stem.rpartition(".")[0] if "." in stem else stem
        number = 0
        output_budget().check_output(sum(len(item.image.data) for item in chosen))
        for item in chosen:
            for leaf in self._leaves(item, limits.NESTING):
                target, extension = leaf.image.target, EXTENSIONS.get(leaf.entry.image_kind, "")
                arch = f"-{target.arch}" if target.arch or self._llvm == "22" else ""
                # The original writes to whatever path the stored strings spell; a stored name must not choose a folder.
                made = f"{stem}-{target.triple}{arch}.{number}.{extension}".replace("/", "_").replace("\0", "_")
                write_file(made, [leaf.image.data], force=True)
                number += 1
                if self._llvm == "23":
                    sys.stdout.write(f"Extracted: {printable(made)}\n")

    def _leaves(self, item: _StoredImage, depth: int) -> Iterator[_StoredImage]:
        """Yield an image, or the images in it where LLVM 23 finds it to be an offload binary."""
        data = item.image.data
        if self._llvm == "22" or data.head(0, 4) != MAGIC:
            yield item
            return
        if not depth:
            raise ToolError(f"offload binaries are nested more than {limits.NESTING} deep")
        for inner in list(self._stored(data)):
            yield from self._leaves(inner, depth - 1)


def _write_archive(output: str, chosen: Sequence[_StoredImage]) -> None:
    """Write an archive whose members have the names of the files that they lay in."""
    from fatpack.binary import archive

    members = [(os.fsencode(item.file), item.image.data) for item in chosen]
    try:
        pieces = archive.build_archive(members)
    except (FormatError, Unsupported) as error:
        raise ToolError(str(error)) from error
    write_file(output, pieces, force=True)
