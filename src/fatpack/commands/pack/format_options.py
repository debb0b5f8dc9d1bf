"""Options of the commands that make containers: the format, and how it is laid out and compressed.

Which option is for which format follows from the formats' records of options: it sets a field of theirs.
"""

from __future__ import annotations

import click

from fatpack.command_line.command import FormatOption, option_group
from fatpack.command_line.param_types import TARGET, ChoiceType, CountType, SuggestionType
from fatpack.commands.pack.formats import FORMATS
from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fatpack.writer_options import Options


def _which_ptx() -> Iterable[str]:
    return ("none", "newest", "oldest", "all", *TARGET.words())


def _types() -> Iterable[str]:
    from fatpack.formats.clang_bundle.layout import TYPES

    return TYPES


def _modes() -> Iterable[str]:
    from fatpack.formats.cuda_fatbin.writer import MODES

    return MODES


def _producers() -> Iterable[str]:
    from fatpack.formats.cuda_fatbin.writer import PRODUCERS

    return PRODUCERS


def cir_forms() -> Iterable[str]:
    """Return the words of ``--cir-form``."""
    from fatpack.formats.cir.vocabulary import FORMS

    return FORMS


def _states() -> Iterable[str]:
    from fatpack.formats.syclbin.layout import STATES

    return STATES.values()


#: option that is not named after the field it sets → format and field
_FIELDS = {
    "container_version": ("offload-binary", "version"),
    "ccob_version": ("bundle", "version"),
    "cir_form": ("cir", "form"),
    "cir_ids": ("cir", "ids"),
    "kpack_group": ("kpack", "group"),
    "kpack_family": ("kpack", "family"),
    "syclbin_version": ("syclbin", "version"),
    "syclbin_state": ("syclbin", "state"),
}

#: option → how it is written, where that is not its name
_SPELLINGS = {"align": "--bundle-align", "level": "--compression-level"}


def _keys(name: str) -> dict[str, str]:
    """Return the options that set the fields of a format's record, with the fields."""
    renamed = {field: key for key, (format, field) in _FIELDS.items() if format == name}
    return {renamed.get(field, field): field for field in FORMATS[name].options._fields}


#: format → its options, with the fields that they set
_KEYS = {name: _keys(name) for name in FORMATS}

#: options of :data:`packing_options`, which a command with other options passes to :func:`packing_from_options`
PACKING_KEYS = ("format_name", "compress", *dict.fromkeys(key for keys in _KEYS.values() for key in keys))

#: options that state how --compress does it
_WITH_COMPRESS = {"compression", "level", "ccob_version"}


class PackingOptions(Record):
    """A format by its name in ``--format``, and the options of its container."""

    name: str
    options: Options

    @property
    def format(self) -> str:
        """The format's JSON name."""
        return FORMATS[self.name].json_name

    @property
    def extension(self) -> str:
        """The extension of an output that was not named."""
        return FORMATS[self.name].extension


#: --format and what belongs to it; a command takes them as ``**packing`` for :func:`packing_from_options`.
packing_options = option_group(
    click.option(
        "--format",
        "format_name",
        type=ChoiceType(list(FORMATS)),
        help="Container format. Default: from the suffix of -o (.fatbin, .bundle, .cir, .kpack, .syclbin), else "
        "offload-binary.",
    ),
    click.option(
        "--container-version",
        type=CountType(1, 3),
        cls=FormatOption,
        help="Version of an offload binary: 1 (LLVM 22, default), 2 (LLVM 23) or 3.",
    ),
    click.option(
        "--type",
        type=ChoiceType(_types),
        cls=FormatOption,
        help="File type of the images in a bundle (default bc); o with --host makes a fat object.",
    ),
    click.option(
        "--bundle-align",
        "align",
        type=CountType(1, (1 << 32) - 1),
        metavar="N",
        cls=FormatOption,
        help="Alignment of images in a bundle, in bytes.",
    ),
    click.option(
        "--compress",
        is_flag=True,
        cls=FormatOption,
        help="Compress a bundle, a kpack archive, or an offload binary of version 3.",
    ),
    click.option(
        "--compression",
        type=ChoiceType(["zlib", "zstd"]),
        cls=FormatOption,
        help="With --compress: the method. Default: zstd.",
    ),
    click.option(
        "--compression-level",
        "level",
        type=click.INT,
        cls=FormatOption,
        help="With --compress: the level. Default: zstd 5 (bundles and kpack 3), zlib 6.",
    ),
    click.option(
        "--ccob-version",
        type=CountType(1, 3),
        cls=FormatOption,
        help="Version of a compressed bundle. Default: 3; LLVM 19 reads 2.",
    ),
    click.option(
        "--compress-mode",
        type=ChoiceType(_modes),
        cls=FormatOption,
        help="Compression of a fat binary, as of fatbinary; size also compresses cubins.",
    ),
    click.option(
        "--producer",
        type=ChoiceType(_producers),
        cls=FormatOption,
        help="Compress a fat binary as fatbinary of this CUDA version. Default: 13.0.",
    ),
    click.option("--compress-all", is_flag=True, cls=FormatOption, help="Also compress the cubins of a fat binary."),
    click.option(
        "--concat", is_flag=True, cls=FormatOption, help="Compress the images of a fat binary as one (--producer=13.5)."
    ),
    click.option(
        "--minify-ptx",
        is_flag=True,
        cls=FormatOption,
        help="Strip comments and blanks from PTX, as fatbinary does. Default: PTX unchanged.",
    ),
    click.option(
        "--include-ptx",
        type=SuggestionType(_which_ptx),
        metavar="none|newest|oldest|all|ARCH,…",
        cls=FormatOption,
        help="Which PTX goes into a fat binary. Default: all.",
    ),
    click.option(
        "--cir-form", type=ChoiceType(cir_forms), cls=FormatOption, help="Form of a CIR container (default attribute)."
    ),
    click.option(
        "--cir-ids",
        metavar="ID,…",
        cls=FormatOption,
        help="Bundle IDs of the modules of a CIR container, in their order. Default: their own.",
    ),
    click.option(
        "--kpack-group", metavar="NAME", cls=FormatOption, help="Name of the packages that a kpack archive belongs to."
    ),
    click.option(
        "--kpack-family",
        metavar="NAME",
        cls=FormatOption,
        help="Family of the architectures in a kpack archive, such as gfx94X.",
    ),
    click.option(
        "--syclbin-version",
        type=CountType(1, 2),
        cls=FormatOption,
        help="Version of a SYCLBIN file. Default: 2; DPC++ of before 2026 reads 1.",
    ),
    click.option(
        "--syclbin-state",
        type=ChoiceType(_states),
        cls=FormatOption,
        help="State of the kernel bundle in a SYCLBIN file. Default: executable.",
    ),
)


def _of_suffix(output: str | None) -> str:
    """Return the format whose files have the suffix of an output, offload binaries for any other."""
    suffix = (output or "").rpartition(".")[2].lower()
    return next((name for name, row in FORMATS.items() if row.extension == suffix), "offload-binary")


def packing_from_options(packing: Mapping[str, Any], output: str | None = None) -> PackingOptions:
    """Return what the options say; where they name no format, that of the output's suffix.

    Raises UsageError for an option that means nothing for the format.
    """
    name, compress = packing["format_name"] or _of_suffix(output), packing["compress"]
    if compress and "compression" not in _KEYS[name]:
        if name == "cir":
            raise UsageError("CIR containers are text, and are not compressed", hint="leave out --compress")
        if name == "syclbin":
            raise UsageError("SYCLBIN files are not compressed", hint="leave out --compress")
        raise UsageError(f"--compress is not for {name}", hint="use --compress-mode, --compress-all")
    fields = _KEYS[name]
    values = {key: packing[key] for keys in _KEYS.values() for key in keys}
    given = {key: value for key, value in values.items() if value is not None and value is not False}
    for key in given:
        if key not in fields:
            option = _SPELLINGS.get(key, f"--{key.replace('_', '-')}")
            formats = " or ".join(format for format, keys in _KEYS.items() if key in keys)
            raise UsageError(f"{option} is for --format={formats}, not for {name}")
    if not compress and given.keys() & _WITH_COMPRESS:
        raise UsageError("--compression, --compression-level and --ccob-version need --compress")
    if given.get("concat") and given.get("producer") != "13.5":
        raise UsageError("groups of entries are written since CUDA 13.4", hint="add --producer=13.5")
    if compress and name == "offload-binary" and given.get("container_version") != 3:
        raise UsageError("only container version 3 can be compressed", hint="add --container-version=3")
    if compress:
        given.setdefault("compression", "zstd")
    if "cir_ids" in given:
        given["cir_ids"] = given["cir_ids"].split(",")
    return PackingOptions(name, FORMATS[name].options(**{fields[key]: value for key, value in given.items()}))
