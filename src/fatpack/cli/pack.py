"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

from difflib import get_close_matches

import click

from fatpack.cli.options import Meter, force_option, quiet_option, say, warn
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, parse_image_option
from fatpack.io.names import stem
from fatpack.io.sink import write_file, write_pieces
from fatpack.io.source import open_source
from fatpack.ops import edit
from fatpack.ops.pack import open_images, pack
from fatpack.report.text import count, size_words
from fatpack.target import is_amdgpu, is_nvptx, nearest_names, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Source, View
    from fatpack.model import Piece

#: Keys with a meaning of their own; a key that is nearly one of them is probably a slip.
_KEYS = ("file", "triple", "arch", "kind", "feature")


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
    if (compression or level is not None) and not compress:
        raise UsageError("--compression and --compression-level need --compress")
    opened: list[Source] = []
    try:
        stored = list(open_images(options, opened))
        for doubt in (doubt for option in options for doubt in doubts(option)):
            say(f"fatpack: warning: {doubt}", quiet=quiet)
        packed = pack(stored, version=version, compression=(compression or "zstd") if compress else None, level=level)
        warn(packed.findings, quiet=quiet)
        first = options[0].files[0]
        if output == "":
            raise UsageError("the output has no name", hint='name it with -o; "-" is stdout')
        target = _default_name(first, host) if output is None else output
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
        return stem(host) + ".offload.o" if host != "-" else "stdin.offload.o"
    return stem(first) + ".offload" if first != "-" else "stdin.offload"


def doubts(option: ImageOption) -> Iterator[str]:
    """Yield what looks like a slip in an option; containers may hold any key and any name, so nothing is refused."""
    kind, arch, triple = option.get("kind"), option.get("arch") or "", option.get("triple") or ""
    if kind and kind not in OFFLOAD_WORDS:
        yield f"kind={kind} is no offload kind, stored as none; known are {', '.join(OFFLOAD_WORDS)}"
    if not triple:
        yield f"--image={option.text} has no triple; tools will not know which device it is for"
    if (is_nvptx(triple) and not parse_nvidia(arch)) or (is_amdgpu(triple) and not arch.startswith("gfx")):
        near = nearest_names(arch) if arch not in ("", "generic", "amdgcnspirv") else ()
        if near:
            yield f"arch={arch} is unknown; did you mean {', '.join(near)}?"
    for key, _ in option.pairs:
        if key not in _KEYS and (meant := get_close_matches(key, _KEYS, n=1, cutoff=0.8)):
            yield f"{key}= is stored as a key of its own; did you mean {meant[0]}=?"


def _write(target: str, pieces: list[Piece], *, force: bool, inputs: Sequence[View], meter: Meter) -> int:
    if target == "-":
        return write_pieces(1, pieces)
    return write_file(target, pieces, force=force, inputs=inputs, progress=meter)


def _write_host(host: View, pieces: list[Piece], target: str, *, force: bool, meter: Meter) -> int:
    edited = edit.embed(host, pieces)
    if target == "-":
        return write_pieces(1, edited)
    return edit.write_edited(host, edited, target, force=force, progress=meter)
