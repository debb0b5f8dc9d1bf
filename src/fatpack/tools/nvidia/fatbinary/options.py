"""The options of fatbinary (``OPTIONS``), and the images of a command line with what it checks and stores of each."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.elf.layout import CUDA
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin.new_entry import ptx_version
from fatpack.io.open import open_source
from fatpack.model import Image, Target
from fatpack.tools.nvidia.command_line import NvidiaOption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from fatpack.io.source import Source, View
    from fatpack.tools.nvidia.command_line import NvidiaArguments

    #: keyword, architecture, path and content
    _File = tuple[str, str | None, str, View]


# The options of fatbinary 13.0 and later, also options that its help does not name, and the help.

_IMAGE, _FILE = "<image spec>,...", "<file name>"
_MODES = "[default,size,speed,balance,none]"

#: In the order of the help. Options without a text are not in it.
OPTIONS = (
    NvidiaOption("32", "32", "flag", "Device addresses have 32 bits."),
    NvidiaOption("64", "64", "flag", "Device addresses have 64 bits. Default."),
    NvidiaOption("cmdline", "cmdline", "string", "Options for ptxas, stored with every PTX image.", "<options>"),
    NvidiaOption(
        "cicc-cmdline", "cicc-cmdline", "string", "Options for cicc, stored with every NVVM image.", "<options>"
    ),
    NvidiaOption("compress", "compress", "boolean", "Compress all but cubins. Default: true.", "[true,false]"),
    NvidiaOption("compress-all", "compress-all", "flag", "Compress cubins too."),
    NvidiaOption("compress-mode", "compress-mode", "string", "How to compress; size compresses cubins too.", _MODES),
    NvidiaOption("concat", "concat", "flag", "Compress the images of a kind as one, as of CUDA 13.4."),
    NvidiaOption("create", "create", "string", "Write the fat binary to this file.", _FILE),
    NvidiaOption("debug", "g", "flag", "The images are of a debug compile."),
    NvidiaOption("device-c", "c", "flag", "The code is relocatable: all is compressed, and for __nv_relfatbin."),
    NvidiaOption(
        "embedded-fatbin", "fatbin", "string", "Write a C file that defines the fat binary and its wrapper.", _FILE
    ),
    NvidiaOption("help", "h", "flag", "Print this help."),
    NvidiaOption("ident", "ident", "string", "Identifier that is stored with every image.", "<identifier name>"),
    NvidiaOption("image2", "image2", "pairs", "An image that names its own architectures.", _IMAGE, ("kind", "file")),
    NvidiaOption(
        "image3",
        "image3",
        "pairs",
        "An image: kind=elf|ptx|nvvm|tileir,sm=NN[a|f],file=F.",
        _IMAGE,
        ("kind", "sm", "file"),
    ),
    NvidiaOption("link", "link", "flag", "The code is linked: the wrapper in the C file says so."),
    NvidiaOption("no-asm", "no-asm", "flag", "Write an array into the C file in place of assembly."),
    NvidiaOption("options-file", "optf", "list", "Read more options from these files.", "<file>,..."),
    NvidiaOption(
        "tileir-cmdline", "tileir-cmdline", "string", "Options for tileiras, stored with Tile IR images.", "<options>"
    ),
    NvidiaOption("version", "V", "flag", "Print the version."),
    NvidiaOption("elf", "elf", "string", is_deprecated=True),
    NvidiaOption("ptx", "ptx", "string", is_deprecated=True),
    NvidiaOption("arch", "arch", "string", is_deprecated=True),
    NvidiaOption("cuda", "cuda", "flag", is_deprecated=True),
    NvidiaOption("opencl", "opencl", "flag", is_deprecated=True),
    NvidiaOption("host", "host", "string", is_deprecated=True),
    NvidiaOption("key", "k", "string", is_deprecated=True),
    NvidiaOption("export-dir", "dir", "string", is_deprecated=True),
    NvidiaOption("id-suffix", "id-suffix", "string"),
    NvidiaOption("okey", "ok", "number"),
    NvidiaOption("compress-algorithm", "compress-algo", "number"),
    NvidiaOption("compress-level", "compress-level", "number"),
    NvidiaOption("tracing", "tracing", "flag"),
    NvidiaOption("useLegacy", "useLegacy", "flag"),
    NvidiaOption("reorder-obfuscation", "reorder-obfuscation", "flag"),
    NvidiaOption("tool-name", "tool-name", "string"),
)

#: Options of the original that change its bytes in ways that are not known, or that have no use.
REFUSED = ("okey", "compress-algorithm", "compress-level")

#: Options that 13.0 does not know: a command line with one of them is answered as fatbinary 13.5 does.
LATER = ("concat", "id-suffix", "tileir-cmdline")

#: The column of short names in the help.
HELP_WIDTH = 51


#: kind of an image in --image3 → form of its bytes
FORMS = {"elf": "cubin", "ptx": "ptx", "nvvm": "ltoir", "tileir": "tileir"}

#: The architecture of Tile IR that says none: that of --image2.
_TILE_IR_ARCH = "80"

#: Shorter Tile IR is refused.
_TILE_IR_LEAST = 14

_OLD_OSABI, _NEW_OSABI = 0x33, 0x41

#: Architectures are numbers up to this.
_MOST = (1 << 31) - 1


class FatbinaryFatal(Exception):
    """An error of the tool itself: ``fatbinary fatal   : …``."""


class NvFatbinError(Exception):
    """An error of the library that fatbinary calls: ``nvFatbin error: …``."""


def read_images(given: NvidiaArguments, opened: list[Source], *, is_later: bool) -> Iterator[Image]:
    """Yield the images in the order in which fatbinary stores them; files are appended to ``opened``.

    Raises FatbinaryFatal and NvFatbinError for the first error: 13.0 checks one image after the other, and later
    versions open all files first.
    """
    width = "nvptx-nvidia-cuda" if given.last("32") else "nvptx64-nvidia-cuda"
    attrs = {key: value for key, value in (("identifier", given.last("ident")), ("host", given.last("host"))) if value}
    if given.last("debug"):
        attrs["debug"] = "yes"
    options = {"ptx": given.last("cmdline"), "nvvm": given.last("cicc-cmdline"), "tileir": given.last("tileir-cmdline")}
    named = _named(given, knows_tile_ir=is_later)
    files = ((kind, arch, path, _open(path, opened)) for kind, arch, path in named)
    is_grouped = bool(given.last("concat"))
    for kind, arch, _, data in _opened_first(files, is_grouped=is_grouped) if is_later else files:
        more = {"options": options[kind]} if options.get(kind) else {}
        if kind == "index":
            raise NvFatbinError("invalid index input")
        if arch is None:
            raise NvFatbinError("input contained null pointer")
        number = _architecture(arch)
        if kind == "tileir" and not number.rstrip("af").strip("0"):
            number = _TILE_IR_ARCH + number.lstrip("0")
        target = Target(width, f"sm_{number}", "cuda")
        _check(kind, data, target)
        yield Image(target, FORMS[kind], data, len(data), len(data), data.span(), attrs=attrs | more)
        data.source.release_buffers()


def _opened_first(files: Iterable[_File], *, is_grouped: bool) -> Iterator[_File]:
    """Yield the files, when all of them are there and, for groups, every cubin is ELF."""
    collected = list(files)
    for kind, _, path, data in collected if is_grouped else ():
        if kind == "elf" and read_quick_header(data, data.head(0, 64)) is None:
            raise FatbinaryFatal(f"File '{path}' is not valid elf")
    yield from collected


def _named(given: NvidiaArguments, *, knows_tile_ir: bool) -> Iterator[tuple[str, str | None, str]]:
    """Yield keyword, architecture and path of every image, each when those before it are done."""
    unknown = set() if knows_tile_ir else {"tileir"}
    for pairs in given.pairs.get("image3", ()):
        if "kind" in pairs and "sm" not in pairs:
            raise FatbinaryFatal("Missing sm in image3")
        yield _kind(pairs, FORMS.keys() - unknown), pairs["sm"], pairs["file"]
    for pairs in given.pairs.get("image2", ()):
        yield _kind(pairs, {"reloc", "index", "tileir"} - unknown), "0", pairs["file"]
    # QUIRK(fatbinary 13): of -elf and -ptx, one image is stored, and none beside --image2.
    for kind in () if given.pairs.get("image2") else ("elf", "ptx"):
        if kind in given.values:
            yield kind, given.last("arch") if "arch" in given.values else None, given.last(kind)
            break


def _kind(pairs: Mapping[str, str], known: Container[str]) -> str:
    if "kind" in pairs and "file" not in pairs:
        raise FatbinaryFatal("Missing file in image")
    # QUIRK(fatbinary 13): the error about a missing kind comes first, the error about an unknown kind last.
    if pairs.get("kind") not in known:
        raise FatbinaryFatal("Missing or unknown kind in image3")
    return pairs["kind"]


def _open(path: str, opened: list[Source]) -> View:
    try:
        # "-" is a file's name here.
        source = open_source("./-" if path == "-" else path, may_close=True)
    except (OSError, UsageError):
        raise FatbinaryFatal(f"Could not open input file '{path}'") from None
    opened.append(source)
    return source.view()


def _architecture(text: str) -> str:
    """Return an architecture as C's strtol would read its number, with its variant; number 0 may be left out."""
    if text in ("", "a", "f"):
        return f"0{text}"
    digits = text.lstrip(" \t\n\r\v\f").removeprefix("+")
    variant = digits[-1:] if digits[-1:] in ("a", "f") else ""
    digits = digits.removesuffix(variant)
    if not digits.isascii() or not digits.isdigit() or int(digits) > _MOST:
        raise NvFatbinError("invalid architecture")
    return f"{int(digits)}{variant}"


def _check(kind: str, data: View, target: Target) -> None:
    if not len(data):
        raise NvFatbinError("empty input")
    if kind == "reloc":
        if data.head(0, 4) == magic_numbers.ELF or data.head(0, 8) == magic_numbers.ARCHIVE:
            raise FatbinaryFatal("taking relocatable PTX out of objects is not offered by fatpack")
        raise NvFatbinError("internal error")
    if kind == "elf":
        _check_cubin(data, target)
    elif kind == "ptx":
        try:
            ptx_version(data.tobytes().partition(b"\0")[0])
        except UsageError:
            raise NvFatbinError("could not find ptx version") from None
    elif kind == "tileir":
        if data.head(0, len(magic_numbers.TILE_IR)) != magic_numbers.TILE_IR or len(data) < _TILE_IR_LEAST:
            raise NvFatbinError("internal error")
    elif len(data) < 8:
        raise NvFatbinError("invalid NVVM input")


def _check_cubin(data: View, target: Target) -> None:
    """Check the word size and the number of the architecture. The variant is what the command line says."""
    head = data.head(0, 64)
    is_64_bit = target.triple.startswith("nvptx64")
    # QUIRK(fatbinary 13): whatever is not of 64 bits passes for 32.
    if (head[4:5] == b"\2") != is_64_bit:
        raise NvFatbinError("fatbinary elf mismatch: elf size doesn't match user-specified size")
    at = 48 if is_64_bit else 36
    flags = int.from_bytes(head[at : at + 4], "little")
    number = {_OLD_OSABI: flags & 0xFF, _NEW_OSABI: flags >> 8 & 0xFFFF}.get(head[7] if len(head) > 7 else 0)
    is_cubin = head[:4] == magic_numbers.ELF and int.from_bytes(head[18:20], "little") == CUDA
    if not is_cubin or number != int(target.arch.removeprefix("sm_").rstrip("af")):
        raise NvFatbinError("fatbinary elf mismatch: elf arch does not match user-specified arch")
