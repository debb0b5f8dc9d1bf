"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

import click

from fatpack.cli.options import Meter, force_option, quiet_option, same_directory_name, say, warn
from fatpack.errors import UsageError
from fatpack.io.sink import write_file, write_pieces
from fatpack.io.source import open_source
from fatpack.ops import edit
from fatpack.ops.pack import OFFLOAD_WORDS, open_images, pack, parse_image_option
from fatpack.report.text import count, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Source, View
    from fatpack.model import Piece
    from fatpack.ops.pack import ImageOption


@click.command()
@click.option(
    "--image",
    "images",
    multiple=True,
    required=True,
    metavar="file=F,triple=T[,arch=A][,kind=K][,key=value…]",
    help="An image and what it is for; repeatable. kind is cuda, hip, openmp or sycl; other keys are stored.",
)
@click.option("-o", "--output", metavar="FILE", help='Where to write; "-" is stdout. Default: see below.')
@click.option("--host", metavar="OBJECT", help="Put the container into a copy of this relocatable object.")
@click.option(
    "--format", "format_name", type=click.Choice(["offload-binary"]), default="offload-binary", help="Container format."
)
@click.option(
    "--container-version",
    "version",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="Version of the offload binary: 1 is read by LLVM 15 to 22; 2 and 3 need LLVM main of 2026.",
)
@click.option("--compress", is_flag=True, help="Compress the container (version 3).")
@click.option("--compression", type=click.Choice(["zlib", "zstd"]), help="How to compress. Default: zstd.")
@click.option("--compression-level", "level", type=int, help="Level of the compressor. Default: zstd 5, zlib 6.")
@force_option
@quiet_option
def command(
    images: tuple[str, ...],
    output: str | None,
    host: str | None,
    format_name: str,
    version: int,
    compress: bool,
    compression: str | None,
    level: int | None,
    force: bool,
    quiet: bool,
) -> int:
    """Pack device images into a container, or with --host straight into a copy of an object.

    The bytes equal those of llvm-offload-binary 22 for the same --image arguments. Without -o the output is named
    after the first image, STEM.offload, or after the host, STEM.offload.o, in the current directory.
    """
    options = [parse_image_option(text) for text in images]
    _warn_unknown_kinds(options, quiet=quiet)
    if (compression or level is not None) and not compress:
        raise UsageError("--compression and --compression-level need --compress")
    opened: list[Source] = []
    try:
        stored = list(open_images(options, opened))
        packed = pack(stored, version=version, compression=(compression or "zstd") if compress else None, level=level)
        warn(packed.findings, quiet=quiet)
        first = options[0].files[0]
        target = output or _default_name(first, host)
        pieces: list[Piece] = packed.pieces()
        total = sum(map(len, pieces))
        meter = Meter(total, f"packing into {target}", quiet=quiet)
        try:
            if host is None:
                inputs: list[View] = [image.data for image in stored]  # type: ignore[misc]
                size = _write(target, pieces, force=force, inputs=inputs, meter=meter)
            else:
                opened.append(open_source(host))
                size = _write_host(opened[-1].view(), pieces, target, force=force, meter=meter)
        finally:
            meter.finish()
    finally:
        for source in opened:
            source.close()
    if target != "-":
        say(f"wrote {target}: {count(len(stored), 'image')}, {size_words(size)}", quiet=quiet)
    return 0


def _default_name(first: str, host: str | None) -> str:
    """Return the documented name of an output that was not named."""
    if host is not None:
        return same_directory_name(host, ".offload.o") if host != "-" else "stdin.offload.o"
    return same_directory_name(first, ".offload") if first != "-" else "stdin.offload"


def _warn_unknown_kinds(options: Sequence[ImageOption], *, quiet: bool) -> None:
    for option in options:
        kind = option.get("kind")
        if kind and kind not in OFFLOAD_WORDS:
            known = ", ".join(OFFLOAD_WORDS)
            say(f"fatpack: warning: kind={kind} is no offload kind, stored as none; known are {known}", quiet=quiet)


def _write(target: str, pieces: list[Piece], *, force: bool, inputs: Sequence[View], meter: Meter) -> int:
    if target == "-":
        return write_pieces(1, pieces)
    return write_file(target, pieces, force=force, inputs=inputs, progress=meter)


def _write_host(host: View, pieces: list[Piece], target: str, *, force: bool, meter: Meter) -> int:
    edited = edit.embed(host, pieces)
    if target == "-":
        return write_pieces(1, edited)
    return edit.write_edited(host, edited, target, force=force, progress=meter)
