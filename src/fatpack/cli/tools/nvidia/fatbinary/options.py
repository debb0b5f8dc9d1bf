"""The options of fatbinary 13.0 and later, those that its help does not name included, and the help."""

from __future__ import annotations

from fatpack.cli.tools.nvidia.command_line import Option

_IMAGE, _FILE = "<image spec>,...", "<file name>"
_MODES = "[default,size,speed,balance,none]"

#: In the order of the help. Those without a text are not in it.
OPTIONS = (
    Option("32", "32", "flag", "Device addresses have 32 bits."),
    Option("64", "64", "flag", "Device addresses have 64 bits. Default."),
    Option("cmdline", "cmdline", "string", "Options for ptxas, stored with every PTX image.", "<options>"),
    Option("cicc-cmdline", "cicc-cmdline", "string", "Options for cicc, stored with every NVVM image.", "<options>"),
    Option("compress", "compress", "boolean", "Compress all but cubins. Default: true.", "[true,false]"),
    Option("compress-all", "compress-all", "flag", "Compress cubins too."),
    Option("compress-mode", "compress-mode", "string", "How to compress; size compresses cubins too.", _MODES),
    Option("concat", "concat", "flag", "Compress the images of a kind as one, as of CUDA 13.4."),
    Option("create", "create", "string", "Write the fat binary to this file.", _FILE),
    Option("debug", "g", "flag", "The images are of a debug compile."),
    Option("device-c", "c", "flag", "The code is relocatable: all is compressed, and for __nv_relfatbin."),
    Option("embedded-fatbin", "fatbin", "string", "Write a C file that defines the fat binary and its wrapper.", _FILE),
    Option("help", "h", "flag", "Print this help."),
    Option("ident", "ident", "string", "Identifier that is stored with every image.", "<identifier name>"),
    Option("image2", "image2", "pairs", "An image that names its own architectures.", _IMAGE, ("kind", "file")),
    Option(
        "image3",
        "image3",
        "pairs",
        "An image: kind=elf|ptx|nvvm|tileir,sm=NN[a|f],file=F.",
        _IMAGE,
        ("kind", "sm", "file"),
    ),
    Option("link", "link", "flag", "The code is linked: the wrapper in the C file says so."),
    Option("no-asm", "no-asm", "flag", "Write an array into the C file in place of assembly."),
    Option("options-file", "optf", "list", "Read more options from these files.", "<file>,..."),
    Option(
        "tileir-cmdline", "tileir-cmdline", "string", "Options for tileiras, stored with Tile IR images.", "<options>"
    ),
    Option("version", "V", "flag", "Print the version."),
    Option("elf", "elf", "string", is_deprecated=True),
    Option("ptx", "ptx", "string", is_deprecated=True),
    Option("arch", "arch", "string", is_deprecated=True),
    Option("cuda", "cuda", "flag", is_deprecated=True),
    Option("opencl", "opencl", "flag", is_deprecated=True),
    Option("host", "host", "string", is_deprecated=True),
    Option("key", "k", "string", is_deprecated=True),
    Option("export-dir", "dir", "string", is_deprecated=True),
    Option("id-suffix", "id-suffix", "string"),
    Option("okey", "ok", "number"),
    Option("compress-algorithm", "compress-algo", "number"),
    Option("compress-level", "compress-level", "number"),
    Option("tracing", "tracing", "flag"),
    Option("useLegacy", "useLegacy", "flag"),
    Option("reorder-obfuscation", "reorder-obfuscation", "flag"),
    Option("tool-name", "tool-name", "string"),
)

#: Options of the original that change its bytes in ways that are not known, or that have no use.
REFUSED = ("okey", "compress-algorithm", "compress-level")

#: Options that 13.0 does not know: a command line with one of them is answered as fatbinary 13.5 does.
LATER = ("concat", "id-suffix", "tileir-cmdline")

#: Where short names begin in the help.
HELP_WIDTH = 51
