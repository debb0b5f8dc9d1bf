"""The options of fatbinary 13.0 and later, those that its help does not name included, and the help."""

from __future__ import annotations

from fatpack.tools.nvidia.command_line import NvidiaOption

_IMAGE, _FILE = "<image spec>,...", "<file name>"
_MODES = "[default,size,speed,balance,none]"

#: In the order of the help. Those without a text are not in it.
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

#: Where short names begin in the help.
HELP_WIDTH = 51
