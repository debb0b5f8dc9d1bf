"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

import os
from functools import partial

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr, print_warnings
from fatpack.command_line.param_types import FILE, IMAGE, INPUT, ChoiceType
from fatpack.command_line.shared_options import allow_any_output, check_output_name, force_option, writing_options
from fatpack.commands.pack.format_options import cir_forms, packing_from_options, packing_options
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.commands.pack.format_options import PackingOptions
    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Source, View
    from fatpack.model import Finding
    from fatpack.selectors.address import Location


def pack_file(
    images: Sequence[str],
    output: str | None,
    host: str | None,
    packing: Mapping[str, Any],
    *,
    dry_run: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Pack images as the options say, write the result, and return the exit code: 1 after warnings.

    Raises UsageError for options that exclude each other, FatpackError for inputs that cannot be packed, ``OSError``.
    """
    from fatpack.commands.pack.formats import write_packed
    from fatpack.commands.pack.request import PackRequest, no_images
    from fatpack.formats.offload_binary.image_option import parse_image_option

    allow_any_output(force)
    if not images:
        raise no_images()
    chosen = packing_from_options(packing, output)
    options = [_resolve_files(parse_image_option(text)) for text in images]
    opened: list[Source] = []
    try:
        open_host = None if host is None else partial(_open_host, host, opened)
        to_pack = PackRequest(_open_option_files(options, opened), chosen.options, open_host).read()
        lines = [f"note: {note}" for note in to_pack.notes] + [f"warning: {text}" for text in to_pack.mistakes]
        for text in lines:
            print_stderr(f"fatpack: {text}", quiet=quiet)
        packed = to_pack.pack()
        images_words = pluralize(len(to_pack.images) - packed.left_out, "image")
        print_warnings(map(_with_hint, packed.findings), quiet=quiet)
        for note in packed.notes:
            print_stderr(note, quiet=quiet)
        code = FINDINGS if to_pack.mistakes or any(item.severity != "note" for item in packed.findings) else FINE
        if dry_run:
            size = sum(map(len, packed.pieces))
            print_stderr(f"would write {images_words}, {format_size(size)}", quiet=quiet)
            return code
        check_output_name(output)
        packed, edited = to_pack.embed(packed)
        if edited is not None:
            _print_link_note(options, chosen, quiet=quiet)
        target = output or _default_name(options, None if to_pack.open_host is None else host, chosen.extension)
        inputs = [image.data for image in to_pack.images]
        size = write_packed(packed, target, doing="packing into", force=force, quiet=quiet, inputs=inputs, host=edited)
    finally:
        for source in opened:
            source.close()
    if target != "-":
        print_stderr(f"wrote {target}: {images_words}, {format_size(size)}", quiet=quiet)
    return code


def _resolve_files(option: ImageOption) -> ImageOption:
    """Return an option with the URLs among its files as what is opened, and without their secrets in its text."""
    from fatpack.io.open import resolve_url

    if "://" not in option.text:
        return option
    from fatpack.io.url import redact_message

    return option.replace(files=tuple(map(resolve_url, option.files)), text=redact_message(option.text))


def _open_option_files(options: Sequence[ImageOption], opened: list[Source]) -> Iterator[tuple[ImageOption, Source]]:
    """Yield each file of the options, opened, with its option; it is added to ``opened`` to be closed.

    Raises UsageError for an option without ``file``, ``OSError`` for a file that cannot be read.
    """
    from fatpack.formats.offload_binary.image_option import check_file_key
    from fatpack.io.open import open_source

    for option in options:
        check_file_key(option)
        for name in option.files:
            opened.append(open_source(name, may_close=True))
            yield option.replace(files=(name,)), opened[-1]


def _open_host(host: str, opened: list[Source]) -> tuple[View, Location]:
    """Open the file of a host, which may be a member of an archive; return the file, and the place of the object."""
    from fatpack.io.open import open_source
    from fatpack.selectors.address import find_location, parse_address, refuse_package

    address = parse_address(host)
    source = open_source(address.path)
    opened.append(source)
    refuse_package(source.view())
    return source.view(), find_location(source.view(), address)


def _with_hint(item: Finding) -> Finding:
    """Return a finding with what to do about it here, where images are given one by one."""
    if item.code != "FP1315":
        return item
    return item.replace(hint="add --image=file=/dev/null,id=host-x86_64-unknown-linux-gnu")


def _default_name(options: Sequence[ImageOption], host: str | None, extension: str) -> str:
    """Return the documented name of an output that was not named: after the host, or the first image."""
    from fatpack.io.output_names import file_stem
    from fatpack.selectors.address import parse_address

    if host is not None:
        address = parse_address(host)
        extension = "offload.a" if address.members else "offload.o"
        return f"{file_stem(address.path) if host != '-' else 'stdin'}.{extension}"
    names = [option.files[0] for option in options]
    # The host's image of a HIP bundle is /dev/null, which is no name for anything.
    first = next((name for name in names if name != os.devnull), names[0])
    return f"{file_stem(first)}.{extension}" if first != "-" else f"stdin.{extension}"


def _print_link_note(options: Sequence[ImageOption], chosen: PackingOptions, *, quiet: bool) -> None:
    """Say what of a host's new container does not come into programs."""
    from fatpack.edit.embed import embedding_note

    note = embedding_note(chosen.format)
    if chosen.name == "offload-binary" and not all(option.get("kind") for option in options):
        note = "clang-linker-wrapper puts no image without a kind into programs; add kind=cuda, hip, openmp or sycl"
    if note:
        print_stderr(f"fatpack: note: {note}", quiet=quiet)


@click.command("pack", cls=Command)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=IMAGE,
    metavar="file=F,triple=T[,arch=A][,kind=K][,key=value…]",
    help="An image and its target. kind: cuda, hip, openmp, sycl or host; in fat binaries elf, ptx, nvvm or tileir. "
    "Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help='Output file; "-" is stdout.',
)
@click.option(
    "--host",
    type=INPUT,
    metavar="OBJECT",
    help="Put the container into a copy of this object or archive (libx.a(m.o)).",
)
@packing_options
@click.option("--form", "short_form", type=ChoiceType(cir_forms), help="The same as --cir-form.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be packed.")
@force_option
@writing_options
def command(
    images: tuple[str, ...],
    output: str | None,
    host: str | None,
    short_form: str | None,
    dry_run: bool,
    force: bool,
    quiet: bool,
    **packing: Any,
) -> int:
    """Put images into a container, or with --host into a copy of an object.

    Without -o the output is named after the first image (STEM.offload, STEM.fatbin, ...) or after the host
    (STEM.offload.o), in the current directory. The exit code is 1 after a warning; the output is written all the same.
    """

    if short_form:
        packing["cir_form"] = short_form
    return pack_file(images, output, host, packing, dry_run=dry_run, force=force, quiet=quiet)
