"""``fatpack tool llvm-readobj --offloading``: lists the entries of the bundles that HIP registers, as LLVM does.

Source: behaviour of LLVM 22 and 23; ``object::OffloadBundleFatBin`` in ``llvm/lib/Object/OffloadBundle.cpp``. Command
lines with any option but ``--elf-output-style`` and ``--pretty-print`` beside it are handed over.
``docs/tools/llvm-readobj.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.tools.llvm import command_line
from fatpack.tools.llvm.cl_tool import ToolError, exec_original, strerror
from fatpack.tools.llvm.object_files import read_bundles, read_objects
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.tools.llvm.object_files import ObjectFile

_STYLE = "--elf-output-style"
_STYLES = ("LLVM", "JSON")
_TAKEN = ("--offloading", "--pretty-print")

_OFFERED = f"--offloading, with {_STYLE}=LLVM|JSON and --pretty-print"


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"{version_text('llvm-readobj', f'LLVM {version}')}\n")
        return 0
    files: list[str] = []
    options: list[str] = []
    style = "LLVM"
    try:
        words = iter([word for word in command_line.expand_response_files(arguments) if word])  # empty: no meaning
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    for word in words:
        if word == "-" or not word.startswith("-"):
            files.append(word)
        elif word == _STYLE or word.startswith(f"{_STYLE}="):
            style = next(words, "") if word == _STYLE else word.partition("=")[2]
        else:
            options.append(word)
    if "--offloading" not in options or any(word not in _TAKEN for word in options) or style not in _STYLES:
        return exec_original(program, "llvm-readobj", arguments, version, offered=_OFFERED)
    listing = _ReadobjRun()
    try:
        if not files:
            sys.stderr.write(printable(f"{program}: error: no input files specified") + "\n")
            return 1
        for path in files:
            _file(path, listing)
    except ToolError as error:
        listing.print(style, "--pretty-print" in options)
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    listing.print(style, "--pretty-print" in options)
    return 0


class _ReadobjRun:
    """Prints objects: facts, and the entries of bundles by ID and URI."""

    def __init__(self) -> None:
        self.objects: list[tuple[dict[str, str], list[tuple[str, str]]]] = []

    def print(self, style: str, is_pretty: bool) -> None:
        """Print everything, and leave nothing unwritten before a message."""
        sys.stdout.writelines(_json(self, is_pretty) if style == "JSON" else _text(self))
        sys.stdout.flush()


def _text(listing: _ReadobjRun) -> Iterator[str]:
    # QUIRK(LLVM 22, 23): the entries of all objects come first, and say themselves of which they are.
    for _, entries in listing.objects:
        for bundle_id, uri in entries:
            yield f"{printable(bundle_id)}\t{printable(uri)}\n"
    for facts, _ in listing.objects:
        yield "\n"
        for key, value in facts.items():
            yield f"{key}: {printable(value)}\n"


def _json(listing: _ReadobjRun, is_pretty: bool) -> Iterator[str]:
    """Yield the document: as LLVM lays it out, with the entries in it, where LLVM prints them as text before it."""
    import json

    documents: list[dict[str, object]] = []
    for facts, entries in listing.objects:
        document: dict[str, object] = {"FileSummary": facts}
        if entries:
            document["Offloading"] = [{"ID": bundle_id, "URI": uri} for bundle_id, uri in entries]
        documents.append(document)
    yield json.dumps(documents, indent=2 if is_pretty else None, separators=None if is_pretty else (",", ":"))


def _file(path: str, listing: _ReadobjRun) -> None:
    try:
        source = open_source(path)
    except OSError as error:
        raise ToolError(f"'{path}': {strerror(error)}") from error
    with source:
        name = "<stdin>" if path == "-" else path
        for item in read_objects(source.view(), name):
            if not item.host:
                raise ToolError(f"'{item.shown}': an offload binary, which llvm-objdump --offloading lists")
            entries: list[tuple[str, str]] = []
            listing.objects.append((_facts(item), entries))
            if item.host in ("elf", "coff", "pe"):
                entries += _entries(item)


def _facts(item: ObjectFile) -> dict[str, str]:
    facts = {"File": item.shown, "Format": item.format, "Arch": item.arch, "AddressSize": f"{item.bits}bit"}
    if item.host == "elf":
        from fatpack.binary.elf.file import ElfFile
        from fatpack.binary.elf.segments import shared_object_name
        from fatpack.errors import FormatError

        try:
            facts["LoadName"] = shared_object_name(ElfFile(item.view, sections=False)) or "<Not found>"
        except FormatError as error:
            raise ToolError(f"'{item.shown}': {error}") from error
    return facts


def _entries(item: ObjectFile) -> Iterator[tuple[str, str]]:
    """Yield ID and URI of each entry: where it is in the object, or in what a compressed bundle holds."""
    for found in read_bundles(item):
        for image in found.container.images:
            is_inside = image.data.source is item.view.source
            at = image.data.offset(0) - (item.view.offset(0) if is_inside else 0)
            yield image.attrs["id"], f"file://{item.file}#offset={at}&size={len(image.data)}"
