"""``fatpack tool fatbinary``: writes fat binaries, and C files that embed them, as fatbinary of CUDA 13.0 or 13.5 does.

nvcc and clang call it. ``options`` has the table of options and the checks of every image. Bytes, messages, their
order and exit codes are the original's: those of the version that ``--as`` or ``FATPACK_CUDA`` names; without either
those of 13.0, and of 13.5 for command lines that 13.0 does not know. ``docs/tools/fatbinary.md`` lists every
difference.
"""

from __future__ import annotations

import errno
import sys

from fatpack.tools.nvidia import command_line
from fatpack.tools.nvidia.fatbinary.options import HELP_WIDTH, LATER, OPTIONS, REFUSED
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import TypeIs

    from fatpack.io.source import Piece, Source
    from fatpack.literals import CompressMode
    from fatpack.tools.nvidia.command_line import NvidiaArguments

_MODES = ("default", "size", "speed", "balance", "none")
_HOSTS = ("linux", "mac", "windows")

_CONTRADICTION = (
    "Option '--concat' requires compression to be enabled; it is incompatible with '--compress=false' and "
    "'--compress-mode=none'"
)

#: Errors of writing to an open file.
_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# The C file of ``--embedded-fatbin``. nvcc includes it after ``fatbinary_section.h`` of the toolkit.

#: Numbers in a row, and rows that are written at a time.
_ROW, _ROWS = 4, 2048

_START = """\
#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS
#include "fatbinary_section.h"
#endif
#define __CUDAFATBINSECTION  ".nvFatBinSegment%s"
#define __CUDAFATBINDATASECTION  "%s"
"""

_ASSEMBLY = """\
asm(
".section %s, \\"a\\"\\n"
".align 8\\n"
"fatbinData%s:\\n"
"""

_ASSEMBLY_END = """\
".text\\n");
#ifdef __cplusplus
extern "C" {
#endif
extern const unsigned long long fatbinData%s[%d];
#ifdef __cplusplus
}
#endif
"""

_ARRAY = """\
#ifdef __cplusplus
extern "C" {
#endif

static const unsigned long long fatbinData%s[] __attribute__ ((section (__CUDAFATBINDATASECTION)))= {"""

_ARRAY_END = """
};

#ifdef __cplusplus
}
#endif

"""

_NAME = """\
#undef __FATIDNAME_CORE
#undef __FATIDNAME
#define __FATIDNAME_CORE(x) __fatbinwrap##x
#define __FATIDNAME(x) __FATIDNAME_CORE(x)
extern const __fatBinC_Wrapper_t __FATIDNAME(__NV_MODULE_ID)"""

_WRAPPER = """\
#ifdef __cplusplus
extern "C" {
#endif
%s __attribute__ ((aligned (8))) __attribute__ ((section (__CUDAFATBINSECTION)))= 
\t{ 0x466243b1, %d, fatbinData%s, %s };
%s#ifdef __cplusplus
}
#endif
"""  # noqa: W291


#: Several in one file, with suffixes that tell them apart, need their own. How we know: fatbinary 13.5.
_UNDEFINED = """\
#undef __CUDAFATBINDATASECTION
#undef __CUDAFATBINSECTION
"""


def main(program: str, arguments: Sequence[str], version: str = "") -> int:
    """Run the tool as of a version of CUDA, "" for the least that knows the options; return its exit code: 0 or 1."""
    name = program.rpartition("/")[2]
    options = [option for option in OPTIONS if version != "13.0" or option.name not in LATER]
    try:
        given = command_line.parse_nvidia_options(
            arguments, options, lambda text: command_line.print_message(name, "warning", text)
        )
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    name = given.last("tool-name") or name
    # QUIRK(fatbinary 13): the deprecated export-dir does nothing but ask for the help.
    asks_for_help = bool(given.last("help") or given.positional or "export-dir" in given.values or not arguments)
    if asks_for_help or given.last("version"):
        if given.last("version") and not given.last("help"):
            followed = version or "13.0"
            sys.stdout.write(f"{name}: {version_text('fatbinary', f'CUDA {followed}')}\n")
        else:
            from fatpack.tools.nvidia.command_line import help_page

            sys.stdout.write(help_page(f"{name} [options]", options, HELP_WIDTH))
        return 0
    return _run(name, given, is_later=version == "13.5" or (not version and _is_later(given)))


def _run(name: str, given: NvidiaArguments, *, is_later: bool) -> int:
    from fatpack.tools.nvidia.fatbinary.options import FatbinaryFatal, NvFatbinError

    opened: list[Source] = []
    try:
        _write(given, _pack(given, opened, is_later=is_later), undefines=is_later)
    except FatbinaryFatal as error:
        command_line.print_message(name, "fatal", str(error))
    except NvFatbinError as error:
        sys.stderr.write("\n")
        command_line.print_stderr(f"nvFatbin error: {error}")
    else:
        return 0
    finally:
        for source in opened:
            source.close()
    return 1


def _is_mode(word: str) -> TypeIs[CompressMode]:
    return word in _MODES


def _pack(given: NvidiaArguments, opened: list[Source], *, is_later: bool) -> list[Piece]:
    from fatpack.errors import FatpackError
    from fatpack.formats import cuda_fatbin
    from fatpack.io.source import Span
    from fatpack.model import Container
    from fatpack.tools.nvidia.fatbinary.options import FatbinaryFatal, NvFatbinError, read_images
    from fatpack.writer_options import FatbinOptions

    for option in REFUSED:
        if option in given.values:
            raise FatbinaryFatal(f"the option '{option}' is not among those that fatpack knows")
    mode = given.last("compress-mode") if "compress-mode" in given.values else "default"
    if given.last("concat") and (mode == "none" or given.last("compress") == "false"):
        raise FatbinaryFatal(_CONTRADICTION)
    host = given.last("host") if "host" in given.values else "linux"
    is_contradictory = any(given.last(one) and given.last(other) for one, other in (("32", "64"), ("cuda", "opencl")))
    if is_contradictory or not _is_mode(mode) or host not in _HOSTS:
        raise NvFatbinError("unknown option")
    options = FatbinOptions(
        producer="13.5" if is_later else None,
        compress_mode="none" if given.last("compress") == "false" else mode,
        compress_all=bool(given.last("compress-all") or given.last("device-c")),
        concat=is_later and bool(given.last("concat")),
        minify_ptx=True,
    )
    images = tuple(read_images(given, opened, is_later=is_later))
    try:
        return list(cuda_fatbin.write(Container(cuda_fatbin.DOC.name, 1, images, Span(0, 0)), options))
    except OSError as error:
        raise FatbinaryFatal(f"Could not read file '{error.filename or ''}'") from error
    except FatpackError as error:
        raise NvFatbinError(str(error)) from error


def _is_later(given: NvidiaArguments) -> bool:
    """Return whether the command line has something that fatbinary 13.0 does not know."""
    images = (*given.pairs.get("image2", ()), *given.pairs.get("image3", ()))
    return any(option in given.values for option in LATER) or any(pairs.get("kind") == "tileir" for pairs in images)


def _write(given: NvidiaArguments, pieces: list[Piece], *, undefines: bool) -> None:
    from fatpack.errors import UsageError
    from fatpack.io.atomic_write import OutputBatch
    from fatpack.tools.nvidia.fatbinary.options import FatbinaryFatal

    with OutputBatch() as batch:
        for option in ("create", "embedded-fatbin"):
            if option not in given.values:
                continue
            path = given.last(option)
            content = pieces
            if option == "embedded-fatbin":
                content = _c_file(  # type: ignore[assignment]
                    pieces,
                    relocatable=bool(given.last("device-c")),
                    linked=bool(given.last("link")),
                    as_array=bool(given.last("no-asm")),
                    suffix=given.last("id-suffix"),
                    undefines=undefines,
                )
            try:
                batch.add("./-" if path == "-" else path, content)
            except UsageError:
                raise FatbinaryFatal(f"Could not open output file '{path}'") from None
            except OSError as error:
                raise _not_written(error, path) from error
        try:
            batch.publish()
        except OSError as error:
            raise _not_written(error, error.filename or "") from error


def _not_written(error: OSError, path: str) -> Exception:
    from fatpack.tools.nvidia.fatbinary.options import FatbinaryFatal

    what = "write" if error.errno in _WRITING else "open output"
    return FatbinaryFatal(f"Could not {what} file '{path}'")


def _c_file(
    pieces: Sequence[Piece],
    *,
    relocatable: bool,
    linked: bool,
    as_array: bool,
    suffix: str = "",
    undefines: bool = False,
) -> Iterator[bytes]:
    """Yield the C file for a fat binary. ``relocatable`` code has a section and a wrapper of its own.

    ``suffix`` goes to the names of the definitions, the wrapper of relocatable code excepted, and to that of the
    wrapper's section. ``undefines`` takes the macros back after the wrapper, as later versions do.
    """
    section = "__nv_relfatbin" if relocatable else ".nv_fatbin"
    yield _encoded(_START % (suffix, section))
    if as_array:
        yield _encoded(_ARRAY % suffix)
        yield from _numbers(pieces, "0x%016xull,0x%016xull,0x%016xull,0x%016xull,\n", "0x%016xull", ",", "")
        yield _ARRAY_END.encode()
    else:
        yield _encoded(_ASSEMBLY % (section, suffix))
        row = '".quad 0x%016x,0x%016x,0x%016x,0x%016x\\n"\n'
        yield from _numbers(pieces, row, "0x%016x", ", ", '".quad %s\\n"\n')
        yield _encoded(_ASSEMBLY_END % (suffix, sum(map(len, pieces)) // 8))
    name = _NAME if relocatable else f"static const __fatBinC_Wrapper_t __fatDeviceText{suffix}"
    version, more = (2, "(void**)__cudaPrelinkedFatbins") if linked else (1, "0")
    yield _encoded(_WRAPPER % (name, version, suffix, more, _UNDEFINED if undefines else ""))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _numbers(pieces: Sequence[Piece], row: str, number: str, separator: str, last: str) -> Iterator[bytes]:
    """Yield the bytes as numbers of 64 bits, in rows; the last row, if it is shorter, looks different."""
    import struct

    from fatpack.io.source import piece_parts

    size = 8 * _ROW * _ROWS
    buffer = bytearray()
    for part in piece_parts(pieces):
        buffer += part
        whole = len(buffer) - len(buffer) % (8 * _ROW)
        for at in range(0, whole, size):
            values = struct.unpack_from(f"<{min(size, whole - at) // 8}Q", buffer, at)
            yield ((row * (len(values) // _ROW)) % values).encode()
        del buffer[:whole]
    if buffer:
        values = struct.unpack(f"<{len(buffer) // 8}Q", buffer)
        text = separator.join(number % value for value in values)
        yield (last % text if last else text).encode()
