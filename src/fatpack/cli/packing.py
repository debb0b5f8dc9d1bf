"""Options of the commands that make containers: the format, and how it is laid out and compressed."""

from __future__ import annotations

import click

from fatpack.errors import UsageError
from fatpack.formats.cir.words import FORMS as CIR_FORMS
from fatpack.formats.cuda_fatbin.writing.styles import DEFAULT_PRODUCER, MODES, PRODUCERS
from fatpack.ops.pack import bundle
from fatpack.ops.pack.formats import FORMATS, PackOptions
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Command = TypeVar("Command", bound=Callable[..., Any])

#: option → formats for which it means something
_ONLY_FOR = {
    "container_version": ("--container-version", ("offload-binary",)),
    "type": ("--type", ("bundle",)),
    "align": ("--bundle-align", ("bundle",)),
    "ccob_version": ("--ccob-version", ("bundle",)),
    "cir_form": ("--cir-form", ("cir",)),
    "cir_ids": ("--cir-ids", ("cir",)),
    "compress_mode": ("--compress-mode", ("fatbin",)),
    "producer": ("--producer", ("fatbin",)),
    "compress_all": ("--compress-all", ("fatbin",)),
    "concat": ("--concat", ("fatbin",)),
    "minify_ptx": ("--minify-ptx", ("fatbin",)),
    "include_ptx": ("--include-ptx", ("fatbin",)),
}

#: what is said about fat binaries only
_FATBIN = ("compress_mode", "producer", "compress_all", "concat", "minify_ptx", "include_ptx")


#: what a command that has other options too takes out of them for :func:`chosen_packing`
PACKING_KEYS = ("format_name", "compress", "compression", "level", *_ONLY_FOR)


class Packing(Record):
    """What the options say: the format's name in ``--format`` and in JSON, and how its container is made."""

    name: str
    format: str
    options: PackOptions

    @property
    def extension(self) -> str:
        """The extension of an output that was not named."""
        return {"offload-binary": "offload"}.get(self.name, self.name)


def packing_options(command: Command) -> Command:
    """Add --format and what belongs to it; the command takes them as ``**packing`` for :func:`chosen_packing`."""
    options = (
        click.option(
            "--format",
            "format_name",
            type=click.Choice(list(FORMATS)),
            default="offload-binary",
            show_default=True,
            help="Container format.",
        ),
        click.option(
            "--container-version",
            type=click.IntRange(1, 3),
            help="Version of the offload binary: 1 (default) as in LLVM 22, 2 as in LLVM 23, 3 for a later one.",
        ),
        click.option(
            "--type",
            type=click.Choice(list(bundle.TYPES)),
            help="What the images of a bundle are (default bc): text gives a text bundle, o with a host object a fat "
            "object.",
        ),
        click.option(
            "--bundle-align",
            "align",
            type=click.IntRange(1, (1 << 32) - 1),
            metavar="N",
            help="Alignment of images in a bundle, in bytes.",
        ),
        click.option("--compress", is_flag=True, help="Compress the container (offload binary version 3, bundle)."),
        click.option("--compression", type=click.Choice(["zlib", "zstd"]), help="How to compress. Default: zstd."),
        click.option(
            "--compression-level",
            "level",
            type=int,
            help="Level of the compressor. Default: zstd 5 (bundles 3), zlib 6.",
        ),
        click.option(
            "--ccob-version",
            type=click.IntRange(1, 3),
            help="Version of the compressed bundle (default 3; 2 for LLVM 19).",
        ),
        click.option(
            "--compress-mode",
            type=click.Choice(MODES),
            help="How images of a fat binary are compressed; none: not at all, size: cubins too.",
        ),
        click.option(
            "--producer",
            type=click.Choice(PRODUCERS),
            help=f"Version of CUDA whose way of compression a fat binary has. Default: {DEFAULT_PRODUCER}.",
        ),
        click.option("--compress-all", is_flag=True, default=None, help="Compress the cubins of a fat binary too."),
        click.option(
            "--concat", is_flag=True, default=None, help="Compress images of a fat binary as one (producer 13.5)."
        ),
        click.option(
            "--minify-ptx",
            is_flag=True,
            default=None,
            help="Take comments and blanks out of PTX, as fatbinary does. Default: the text as it is.",
        ),
        click.option(
            "--include-ptx",
            metavar="none|newest|oldest|all|ARCH,…",
            help="Which PTX goes into a fat binary. Default: all.",
        ),
        click.option(
            "--cir-form", type=click.Choice(list(CIR_FORMS)), help="Form of a CIR container (default attribute)."
        ),
        click.option(
            "--cir-ids",
            metavar="ID,…",
            help="Bundle IDs of the modules of a CIR container, in their order. Default: those that they have.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def chosen_packing(packing: dict[str, Any]) -> Packing:
    """Return what the options say. Raises UsageError for an option that means nothing for the format."""
    name = packing["format_name"]
    if name == "cir" and packing["compress"]:
        raise UsageError("CIR containers are text, and are not compressed", hint="leave out --compress")
    for key, (option, formats) in _ONLY_FOR.items():
        if packing[key] is not None and name not in formats:
            raise UsageError(f"{option} is for --format={' or '.join(formats)}, not for {name}")
    compress, compression, level = packing["compress"], packing["compression"], packing["level"]
    if (compression or level is not None or packing["ccob_version"] is not None) and not compress:
        raise UsageError("--compression, --compression-level and --ccob-version need --compress")
    options = PackOptions(compression=(compression or "zstd") if compress else None, level=level)
    if name == "fatbin":
        if compress:
            raise UsageError("--compress is not for fatbin", hint="use --compress-mode, --compress-all")
        from fatpack.ops.pack.fatbin import FatbinOptions

        given = {key: packing[key] for key in _FATBIN if packing[key] is not None}
        options = PackOptions(fatbin=FatbinOptions(**given))
    elif name == "bundle":
        options = options.replace(type=packing["type"], align=packing["align"], version=packing["ccob_version"])
    elif name == "cir":
        ids = packing["cir_ids"]
        options = options.replace(form=packing["cir_form"], ids=None if ids is None else ids.split(","))
    else:
        options = options.replace(version=packing["container_version"])
    return Packing(name, FORMATS[name], options)
