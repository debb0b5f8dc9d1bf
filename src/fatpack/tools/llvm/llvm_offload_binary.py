"""``fatpack tool llvm-offload-binary`` (old name clang-offload-packager): packs and extracts as LLVM's tool does.

It follows LLVM 22 or 23. LLVM 23 packs all images into one binary of version 2, where LLVM 22 writes one binary of
version 1 for each. It also extracts differently: without an option every image, with a message for every file, an
image that is an offload binary is unpacked, an empty architecture leaves no dash in a name, and ``member=`` selects
the images of one member of an archive.

Differences, all listed in ``docs/tools/llvm-offload-binary.md``: containers of newer versions are read, a damaged file
does not crash, a stored name cannot leave the current directory, and outputs appear only when they are complete.
"""

from __future__ import annotations

import os
import sys

from fatpack import limits
from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary import llvm_reader
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, image_from, parse_image_option
from fatpack.formats.offload_binary.layout import EXTENSIONS, MAGIC, OffloadBinaryEntry
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.limits import output_budget
from fatpack.model import Container
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools.llvm import command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror
from fatpack.tools.llvm.object_files import llvm_images
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, Source, View
    from fatpack.model import Image


# The command line.

_OPTIONS = (
    command_line.ClOption("archive", "flag", "Write extracted files to a static archive"),
    command_line.ClOption("help", "flag", "Display available options (--help-hidden for more)"),
    command_line.ClOption("h", "flag", ""),
    command_line.ClOption("help-list", "flag", "Display list of available options (--help-list-hidden for more)"),
    command_line.ClOption(
        "image",
        "list",
        "List of key and value arguments. Required keywords are 'file' and 'triple'.",
        "<<key>=<value>,...>",
    ),
    command_line.ClOption("o", "string", "Write output to <file>.", "<file>"),
    command_line.ClOption("version", "flag", "Display the version of this program"),
)

_OVERVIEW = """\
A utility for bundling several object files into a single binary.
The output binary can then be embedded into the host section table
to create a fatbinary containing offloading code."""


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if program.rpartition("/")[2] == "clang-offload-packager":
        sys.stderr.write("warning: 'clang-offload-packager' is deprecated. Use 'llvm-offload-binary' instead.\n")
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse_cl(words, _OPTIONS, most_positional=1, program=program)
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    output, inputs = given.last("o"), given.positional
    if given.last("version"):
        sys.stdout.write(f"{version_text('llvm-offload-binary', f'LLVM {version}')}\n")
        return 0
    if any(given.last(name) for name in ("help", "h", "help-list")) or not (output or any(inputs)):
        return _print_help(as_list=not given.last("help"))
    try:
        images = [parse_image_option(text) for text in given.values.get("image", [])]
        if output and any(inputs):
            raise ToolError("Packaging to an output file and extracting from an input file are mutually exclusive.")
        if output:
            pack_images(output, images, version)
        else:
            ImageExtractor(program, inputs[0], version, archive=bool(given.last("archive"))).extract(images)
    except ToolError as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


def _print_help(*, as_list: bool) -> int:
    """Print what ``--help`` prints, in groups, or the shorter list that an empty command line gets."""
    from fatpack.tools.llvm.cl_tool import help_page

    usage = "llvm-offload-binary [options] Extract from <file>."
    options = [option for option in _OPTIONS if option.help]
    sys.stdout.write(help_page(_OVERVIEW, usage, options, tool="llvm-offload-binary", as_list=as_list))
    return 0


# Outputs: a file, or standard output for ``-``.


def write_output(name: str, pieces: Sequence[Piece]) -> None:
    """Write a file, whatever is there, or standard output."""
    if name != "-":
        write_file(name, pieces, force=True)
        return
    from fatpack.io.write import write_pieces

    sys.stdout.flush()
    write_pieces(1, pieces)


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
        """Write the images that the options ask for. Raises ToolError."""
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


# Packing: the files of all ``--image`` options become one file.


def pack_images(output: str, options: Sequence[ImageOption], llvm: str) -> None:
    """Write the images of the options to a file, or to standard output. Raises ToolError."""
    sources: list[Source] = []
    images: list[Image] = []
    try:
        for option in options:
            if not option.files:
                raise ToolError("'file' is a required image arguments")
            for name in option.files:
                sources.append(open_source(name, may_close=True))
                images.append(image_from(option, name, sources[-1].view()))
                sources[-1].release_buffers()
        pieces = _container(images, llvm)
        write_output(output, pieces)
    except OSError as error:
        raise ToolError(strerror(error)) from error
    finally:
        for source in sources:
            source.close()


def _container(images: Sequence[Image], llvm: str) -> list[Piece]:
    version, groups = (1, [(image,) for image in images]) if llvm == "22" else (2, [tuple(images)])
    pieces: list[Piece] = []
    for group in groups:
        pieces += offload_binary.write(Container(offload_binary.DOC.name, version, group, Span(0, 0)))
    return pieces
