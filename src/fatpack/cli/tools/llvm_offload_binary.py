"""``fatpack tool llvm-offload-binary`` (old name clang-offload-packager): packs and extracts as LLVM 22's tool does.

Differences, all listed in ``docs/tools.md``: containers of version 2 and 3 are read, a damaged file does not crash,
a stored name cannot leave the current directory, and outputs appear only when complete.
"""

from __future__ import annotations

import os
import sys

from fatpack.cli.tools import llvm_command_line as command_line
from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary import llvm_reader
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, image_from, parse_image_option
from fatpack.formats.offload_binary.layout import EXTENSIONS, MAGIC
from fatpack.formats.offload_binary.stored import Entry
from fatpack.io.sink import write_file
from fatpack.io.sources.opening import open_source
from fatpack.model import Container, Span
from fatpack.report.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, Source, View
    from fatpack.model import Image

_OPTIONS = (
    command_line.Option("archive", "flag", "Write extracted files to a static archive"),
    command_line.Option("help", "flag", "Display available options (--help-hidden for more)"),
    command_line.Option("h", "flag", ""),
    command_line.Option("help-list", "flag", "Display list of available options (--help-list-hidden for more)"),
    command_line.Option(
        "image",
        "list",
        "List of key and value arguments. Required keywords are 'file' and 'triple'.",
        "<<key>=<value>,...>",
    ),
    command_line.Option("o", "string", "Write output to <file>.", "<file>"),
    command_line.Option("version", "flag", "Display the version of this program"),
)

_OVERVIEW = """\
OVERVIEW: A utility for bundling several object files into a single binary.
The output binary can then be embedded into the host section table
to create a fatbinary containing offloading code.

USAGE: llvm-offload-binary [options] Extract from <file>.

OPTIONS:
"""


class _Failure(Exception):
    """An error with LLVM's words; printed as ``<program>: error: <text>``, exit code 1."""


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if program.rpartition("/")[2] == "clang-offload-packager":
        sys.stderr.write("warning: 'clang-offload-packager' is deprecated. Use 'llvm-offload-binary' instead.\n")
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse(words, _OPTIONS, most_positional=1, program=program)
    except command_line.CommandLineError as error:
        return command_line.report(error.lines, program)
    output, inputs = given.last("o"), given.positional
    if given.last("version"):
        return _print_version(version)
    if any(given.last(name) for name in ("help", "h", "help-list")) or not (output or any(inputs)):
        return _print_help(as_list=not given.last("help"))
    try:
        images = [parse_image_option(text) for text in given.values.get("image", [])]
        if output and any(inputs):
            raise _Failure("Packaging to an output file and extracting from an input file are mutually exclusive.")
        if output:
            _pack(output, images)
        else:
            _extract(program, inputs[0], images, archive=bool(given.last("archive")))
    except _Failure as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


def _print_version(version: str) -> int:
    from fatpack import __version__

    sys.stdout.write(f"fatpack {__version__}, standing in for llvm-offload-binary of LLVM {version}\n")
    return 0


def _print_help(*, as_list: bool) -> int:
    """Print what ``--help`` prints, in groups, or the shorter list that an empty command line gets."""
    sys.stdout.write(_OVERVIEW)
    generic = {"help", "help-list", "version"}
    if as_list:
        groups = {"": [option for option in _OPTIONS if option.help and option.name != "help-list"]}
    else:
        groups = {
            "\nGeneric Options:\n\n": [option for option in _OPTIONS if option.name in generic],
            "\nllvm-offload-binary options:\n\n": [
                option for option in _OPTIONS if option.help and option.name not in generic
            ],
        }
    for heading, options in groups.items():
        sys.stdout.write(heading)
        for option in options:
            separator = "" if not option.value else "=" if len(option.name) > 1 else " "
            sys.stdout.write(f"  {(option.spelled + separator + option.value).ljust(27)} - {option.help}\n")
    return 0


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _pack(output: str, options: Sequence[ImageOption]) -> None:
    sources: list[Source] = []
    pieces: list[Piece] = []
    try:
        for option in options:
            if not option.files:
                raise _Failure("'file' is a required image arguments")
            for name in option.files:
                sources.append(open_source(name, resting=True))
                image = image_from(option, name, sources[-1].view())
                pieces += offload_binary.write(Container(offload_binary.DOC.name, 1, (image,), Span(0, 0)))
                sources[-1].rest()
        write_file(output, pieces, force=True) if output != "-" else _to_stdout(pieces)
    except OSError as error:
        raise _Failure(_reason(error)) from error
    finally:
        for source in sources:
            source.close()


def _to_stdout(pieces: Sequence[Piece]) -> None:
    from fatpack.io.sink import write_pieces

    sys.stdout.flush()
    write_pieces(1, pieces)


def _extract(program: str, path: str, options: Sequence[ImageOption], *, archive: bool) -> None:
    try:
        source = open_source(path)
    except OSError as error:
        raise _Failure(f"'{path}': {_reason(error)}") from error
    with source:
        stored = list(_images(source.view()))
        for option in options:
            if archive and not option.files:
                raise _Failure("Image must have a 'file' argument.")
            chosen = [image for image in stored if _matches(image, option)]
            try:
                _write(program, path, option, chosen, archive=archive)
            except OSError as error:
                raise _Failure(_reason(error)) from error


def _images(view: View) -> Iterator[Image]:
    try:
        yield from llvm_images(view)
    except llvm_reader.LlvmError as error:
        raise _Failure(str(error)) from error
    except (FormatError, Unsupported, HostError, UsageError) as error:
        raise _Failure(str(error)) from error


def llvm_images(view: View) -> Iterator[Image]:
    """Yield the images LLVM's extractor would find: in offload sections, in members, in a bare container."""
    from fatpack import hosts
    from fatpack.model import Finding
    from fatpack.scanner.kind import host_of

    host = host_of(view)
    if host == "raw":
        if view.head(0, 4) == MAGIC:
            yield from llvm_reader.read_all(view)
        return
    for site in hosts.room(host).locate(view):
        if isinstance(site, Finding) or site.expects == "records":
            continue
        if site.expects == "member":
            yield from llvm_images(site.data)
        elif site.section is None or site.section.startswith(".llvm.offloading") or _is_llvm(site.data):
            yield from llvm_reader.read_all(site.data)


def _is_llvm(data: View) -> bool:
    return data.head(0, 4) == MAGIC


def _matches(image: Image, option: ImageOption) -> bool:
    """Return whether every key of the option equals the stored one; absent is empty, and kinds compare as numbers."""
    entry = image.record
    assert isinstance(entry, Entry)
    stored = {
        key.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape") for key, value in entry.strings
    }
    for key, value in option.pairs:
        if key == "kind":
            if entry.offload_kind != OFFLOAD_WORDS.get(value, 0):
                return False
        elif key != "file" and stored.get(key, "") != value:
            # QUIRK(LLVM 22): the empty option `--image=` holds one empty key with an empty value and matches all.
            return False
    return True


def _write(program: str, path: str, option: ImageOption, chosen: Sequence[Image], *, archive: bool) -> None:
    name = ",".join(option.files)  # QUIRK(LLVM 22): a repeated `file` is joined with commas when extracting
    if archive:
        if chosen:
            _write_archive(name, os.fsencode("<stdin>" if path == "-" else path), chosen)
        return
    if option.files:
        if len(chosen) > 1:
            sys.stderr.write(f"{program}: warning: Multiple inputs match to a single file, '{name}'\n")
        if chosen:
            write_file(name, [chosen[-1].data], force=True)
        return
    for index, image in enumerate(chosen):
        entry = image.record
        assert isinstance(entry, Entry)
        stem = path.rpartition("/")[2]
        stem = stem.rpartition(".")[0] if "." in stem else stem
        extension = EXTENSIONS.get(entry.image_kind, "")
        made = f"{stem}-{image.target.triple}-{image.target.arch}.{index}.{extension}"
        # The original writes to whatever path the stored strings spell; a stored name must not choose a folder.
        write_file(made.replace("/", "_").replace("\0", "_"), [image.data], force=True)


def _write_archive(output: str, name: bytes, images: Sequence[Image]) -> None:
    """Write an archive whose members all have the input's name, as it was given."""
    from fatpack.hosts import archive

    members = [(name, image.data) for image in images]
    try:
        pieces = archive.build(members)
    except (FormatError, Unsupported) as error:
        raise _Failure(str(error)) from error
    write_file(output, pieces, force=True)
