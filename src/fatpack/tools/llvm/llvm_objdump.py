"""``fatpack tool llvm-objdump --offloading``: lists offload images, and writes the entries of bundles, as LLVM does.

Source: behaviour of LLVM 22 and 23; ``llvm/tools/llvm-objdump/OffloadDump.cpp``. Command lines with any other option
are handed over. ``docs/tools/llvm-objdump.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.tools.llvm import command_line
from fatpack.tools.llvm.cl_tool import ToolError, exec_original, strerror
from fatpack.tools.llvm.object_files import llvm_images, read_bundles, read_objects
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.layout import OffloadBinaryEntry
    from fatpack.io.source import View
    from fatpack.tools.llvm.object_files import ObjectFile

#: image kind → word; what a version does not know is <none>
_WORDS = {1: "elf", 2: "llvm ir", 3: "cubin", 4: "fatbinary", 5: "ptx"}
_WORDS_23 = {**_WORDS, 6: "spir-v"}

_ARCH = "--arch-name="


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"{version_text('llvm-objdump', f'LLVM {version}')}\n")
        return 0
    try:
        words = [word for word in command_line.expand_response_files(arguments) if word]  # empty ones mean nothing
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    files = [word for word in words if word == "-" or not word.startswith("-")]
    options = [word for word in words if word != "-" and word.startswith("-")]
    if "--offloading" not in options or any(word != "--offloading" and not word.startswith(_ARCH) for word in options):
        return exec_original(
            program, "llvm-objdump", arguments, version, offered="--offloading, and --arch-name with it"
        )
    arch = next((word[len(_ARCH) :] for word in reversed(options) if word.startswith(_ARCH)), "")
    try:
        for path in files or ["a.out"]:
            _ObjdumpRun(program, version, arch).file(path)
    except ToolError as error:
        sys.stdout.flush()
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


class _ObjdumpRun:
    """One run over one file."""

    def __init__(self, program: str, llvm: str, arch: str) -> None:
        self._program = program
        self._llvm = llvm
        self._arch = arch
        self._words = _WORDS if llvm == "22" else _WORDS_23

    def file(self, path: str) -> None:
        """List what a file holds. Raises ToolError."""
        try:
            source = open_source(path)
        except OSError as error:
            raise ToolError(f"'{path}': {strerror(error)}") from error
        with source:
            for item in read_objects(source.view(), "<stdin>" if path == "-" else path):
                self._object(item)

    def _object(self, item: ObjectFile) -> None:
        if not item.host:
            self._binaries(item)
            return
        sys.stdout.write(f"\n{printable(item.shown)}:\tfile format {item.format.lower()}\n")
        if item.host not in ("elf", "coff", "pe"):
            sys.stdout.flush()
            only = "--offloading is currently only supported for COFF and ELF targets"
            sys.stderr.write(printable(f"{self._program}: warning: '{item.shown}': {only}") + "\n")
            return
        self._binaries(item)
        for number, found in enumerate(read_bundles(item)):
            for image in found.images:
                self._write(f"{item.file}.{number}.", image.attrs["id"], image.data)

    def _binaries(self, item: ObjectFile) -> None:
        prefix = "" if not item.host else "while extracting offloading files: "
        try:
            entries = list(_entries(item, self._llvm))
        except (FormatError, HostError, Unsupported) as error:
            raise ToolError(f"'{item.shown}': {prefix}{error}") from error
        except _llvm_error() as error:
            raise ToolError(f"'{item.shown}': {prefix}{error}") from error
        for number, (entry, data) in enumerate(entries):
            self._image(entry, data, str(number), "", limits.NESTING)

    def _image(self, entry: OffloadBinaryEntry, data: View, number: str, margin: str, depth: int) -> None:
        from fatpack.formats.offload_binary.layout import MAGIC, OFFLOAD_KINDS

        strings = {key: value.decode("utf-8", "surrogateescape") for key, value in entry.strings}
        rows = [
            ("kind", self._words.get(entry.image_kind, "<none>")),
            ("arch", strings.get(b"arch", "")),
            ("triple", strings.get(b"triple", "")),
            ("producer", OFFLOAD_KINDS.get(entry.offload_kind, "none")),
        ]
        nested: list[tuple[OffloadBinaryEntry, View]] = []
        if self._llvm != "22":
            rows.append(("image size", f"{len(data)} bytes"))
            if data.head(0, 4) == MAGIC and depth:
                nested = list(_in(data, "", self._llvm))
                rows.append(("nested images", str(len(nested))))
        sys.stdout.write(f"\n{margin}OFFLOADING IMAGE [{number}]:\n")
        for key, value in rows:
            sys.stdout.write(f"{margin}{key:<16}{printable(value)}\n")
        for inner, (inner_entry, inner_data) in enumerate(nested):
            self._image(inner_entry, inner_data, f"{number}.{inner}", f"{margin}  ", depth - 1)

    def _write(self, stem: str, bundle_id: str, data: View) -> None:
        # QUIRK(LLVM 22, 23): with --arch-name it leaves out what matches, and writes all else.
        if self._arch and self._arch not in bundle_id:
            return
        # A stored name must not choose a folder.
        name = stem + bundle_id.replace("/", "_").replace("\0", "_")
        try:
            write_file(name, [data], force=True)
        except OSError as error:
            raise ToolError(f"'{name}': {strerror(error)}") from error
        sys.stdout.write(f"Extracting offload bundle: {printable(name)}\n")


def _llvm_error() -> type[Exception]:
    """Return the exception class of LLVM's own messages. Called after an exception, because bundles do not load it."""
    from fatpack.formats.offload_binary.llvm_reader import LlvmError

    return LlvmError


def _entries(item: ObjectFile, llvm: str) -> Iterator[tuple[OffloadBinaryEntry, View]]:
    """Yield the entries of offload binaries of an object, and their images."""
    if item.host != "pe":
        yield from _in(item.view, item.shown, llvm)
        return
    # Linkers cut the name of the section and pad what is in it; LLVM finds nothing there.
    from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT, OffloadBinaryEntry
    from fatpack.scanner import FoundContainer, scan

    for found in scan(item.view):
        if isinstance(found, FoundContainer) and found.format == OFFLOAD_BINARY_FORMAT:
            yield from (
                (image.record, image.data)
                for image in found.container.images
                if isinstance(image.record, OffloadBinaryEntry)
            )


def _in(view: View, name: str, llvm: str) -> Iterator[tuple[OffloadBinaryEntry, View]]:
    for image, _ in llvm_images(view, name, llvm):
        from fatpack.formats.offload_binary.layout import OffloadBinaryEntry

        if isinstance(image.record, OffloadBinaryEntry):
            yield image.record, image.data
