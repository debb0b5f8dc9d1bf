"""``fatpack tool clang-offload-extract``: writes the images of a linked program that its ``.tgtimg`` leads to.

Options, order of checks and sentences are those of DPC++'s source,
``clang/tools/clang-offload-extract/ClangOffloadExtract.cpp`` of intel/llvm. ``docs/tools/clang-offload-extract.md``
lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.errors import FatpackError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View

_STEM = "target.bin"

_TOOL = cl_tool.ClTool(
    "clang-offload-extract",
    "DPC++",
    "Write all target images of a linked program to files of their own",
    "[options] <input file>",
    (
        *cl_tool.GENERIC,
        command_line.ClOption("output", "string", "Older name of --stem", "<string>"),
        command_line.ClOption("stem", "string", f"Outputs are STEM.0, STEM.1, …; {_STEM} by default", "<string>"),
    ),
    most=1,
    groups=(("Generic Options", cl_tool.GENERIC_NAMES), ("Utility-specific options", ())),
)

_ONLY_64 = "only 64-bit ELF or COFF inputs are supported"


class _ExtractError(Exception):
    """An error, and what its second line says."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.advice = advice


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    given = cl_tool.parse_or_help(_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    path = given.positional[0] if given.positional else "a.out"
    stem = given.last("stem") or given.last("output") or _STEM
    try:
        try:
            source = open_source(path)
        except OSError as error:
            raise _ExtractError(strerror(error), f"Input File: '{path}'") from error
        with source:
            _extract(program, path, source.view(), stem)
    except _ExtractError as error:
        sys.stdout.flush()
        # As the original lays it out: ten columns for the word, and as many before the second line.
        sys.stderr.write(f"{'error':<10}{printable(str(error))}\n{'':10}{printable(error.advice)}\n")
        return 1
    return 0


def _extract(program: str, path: str, view: View, stem: str) -> None:
    from fatpack import binary
    from fatpack.registration.sycl_images import read_stored_images

    advice = f"Input File: '{path}'"
    host = binary.detect_host(view)
    if host is None:
        raise _ExtractError("The file was not recognized as a valid object file", advice)
    if host not in ("elf", "coff", "pe") or not _has_64_bits(view, host):
        raise _ExtractError(_ONLY_64, advice)
    try:
        found = read_stored_images(view, host)
    except FatpackError as error:
        raise _ExtractError(str(error), advice) from error
    if found is None:
        sys.stderr.write(printable(f"{program}: warning: '{path}' has no .tgtimg: no image was written") + "\n")
        return
    images, findings = found
    wrong = [finding for finding in findings if finding.severity in ("error", "warning")]
    if wrong:
        raise _ExtractError(f"{wrong[0].text} (at {wrong[0].span.start:#x}); nothing was written", advice)
    for number, data in enumerate(images):
        name = f"{stem}.{number}"
        sys.stdout.write(f'Saving target image to "{printable(name)}"\n')
        try:
            write_file(name, [data], force=True)
        except OSError as error:
            text, instead = f"'{name}': {strerror(error)}", "Specify a different Output File ('--stem' option)"
            raise _ExtractError(text, instead) from error


def _has_64_bits(view: View, host: str) -> bool:
    if host == "elf":
        return view.head(4, 2) == b"\2\1"
    from fatpack.binary.coff.layout import read_machine

    return read_machine(view, host) in (0x8664, 0xAA64, 0xA641)
