"""``fatpack tool roc-obj-ls``: lists the code objects of HIP's programs as URIs, as roc-obj-ls of ROCm 5 to 7 does."""

from __future__ import annotations

import sys

from fatpack.printable import printable
from fatpack.tools.amd import code_objects
from fatpack.tools.amd.code_objects import print_stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """\
Usage: roc-obj-ls [-v|h] executable...
List the code objects in programs, libraries and objects as URIs, which roc-obj-extract takes.
-v \tPrint the names of the columns, and an empty line after each bundle
-h \tShow this help
"""

#: what Perl's die exits with where the system says nothing better
_DIED = 255


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0, 1, 255, or the number of the system's error for a file."""
    options, paths = code_objects.parse_options(arguments, "vhd")
    if code_objects.print_if_asked(options, "roc-obj-ls", _HELP):
        return 0
    number = 1
    code = 0
    for path in paths:
        number, failed = _list(path, number, is_verbose="v" in options)
        code = code or (1 if failed == 1 else 0)
        if failed > 1:
            return failed
    return code


def _list(path: str, number: int, *, is_verbose: bool) -> tuple[int, int]:
    """List a file whose first bundle gets a number; return the next number and an exit code."""
    from fatpack.errors import FatpackError
    from fatpack.io.open import open_source
    from fatpack.tools.amd.code_objects import HipBundle, encode_path, list_bundles

    code = 0
    is_found = False
    try:
        # A file called "-" is one; standard input is not read.
        with open_source("./-" if path == "-" else path) as source:
            for item in list_bundles(source.view()):
                is_found = True
                if not isinstance(item, HipBundle):
                    print_stderr(f"Error: {item.code} at {item.span.start:#x}: {item.text}")
                    code = 1
                elif item.is_compressed:
                    print_stderr(
                        f"Error: {path}: the bundle at {item.at:#x} is compressed, so its code objects have no place "
                        f"in the file: fatpack inspect lists them, fatpack extract -d DIR writes them"
                    )
                    code = 1
                else:
                    lines = [f"{'Bundle#':<8}{'Entry ID:':<40}{'URI:':>35}"] if is_verbose else []
                    for name, at, size in item.entries:
                        line = f"{number:<8}{name:<40}{'file://':>35}{encode_path(path)}#offset={at}&size={size}"
                        lines.append(printable(line))
                    sys.stdout.write("\n".join([*lines, "", ""] if is_verbose else [*lines, ""]))
                    number += 1
    except OSError as error:
        if error.filename is None:
            raise  # standard output takes no more
        print_stderr(f"Error: failed to open file: {path}")
        return number, error.errno or _DIED
    except FatpackError as error:
        print_stderr(f"Error: {error}")
        return number, _DIED
    if not is_found:
        print_stderr("Error: No kernel section found")
        return number, _DIED
    return number, code
