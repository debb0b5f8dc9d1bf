"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

import os

from fatpack.cli.grammar.declared import option, takes
from fatpack.cli.grammar.kinds import FILE, IMAGE, INPUT, Choice
from fatpack.cli.messages import Meter, say, tell_abandoned, warn
from fatpack.cli.options import (
    allow_any_output,
    check_name,
    color_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
)
from fatpack.cli.packing import chosen_packing, packing_options
from fatpack.errors import UsageError, counted
from fatpack.formats.cir.words import FORMS as CIR_FORMS
from fatpack.formats.offload_binary.image_option import parse_image_option
from fatpack.io.names import stem
from fatpack.io.sink import write_file
from fatpack.io.sources.opening import located, open_source
from fatpack.io.writing import write_pieces
from fatpack.ops.choose.address import find, parse_address, refuse_package
from fatpack.ops.edit.editor import write_edited
from fatpack.ops.edit.embed import embed, embedding_note
from fatpack.ops.pack.bundles.fat_object import host_entry
from fatpack.ops.pack.formats import open_images, pack_as
from fatpack.ops.pack.slips import slips
from fatpack.options import BundleOptions
from fatpack.words.sizes import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from fatpack.cli.packing import Packing
    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, Source, View
    from fatpack.model import Finding
    from fatpack.ops.choose.address import Place
    from fatpack.ops.pack.packed import Packed


@takes(
    option(
        "--image",
        name="images",
        multiple=True,
        type=IMAGE,
        metavar="file=F,triple=T[,arch=A][,kind=K][,key=value…]",
        help="An image and what it is for; repeatable. kind: cuda, hip, openmp or sycl; in bundles also host. "
        "Bundles and CIR containers also take id=BUNDLE-ID instead of triple, arch and kind. Offload binaries "
        "store any other key. Fat binaries need only file; there kind is elf, ptx, nvvm or tileir, they store "
        "ident, cmdline, debug=yes and host, and check=no packs a file whose contents contradict the other "
        "keys.",
    ),
    option(
        "-o",
        "--output",
        type=FILE,
        metavar="FILE",
        help='Where to write; "-" is stdout. Default: named after the first image, or after the host.',
    ),
    option(
        "--host",
        type=INPUT,
        metavar="OBJECT",
        help="Put the container into a copy of this object, or of an archive: libx.a(m.o).",
    ),
    *packing_options,
    option("--form", name="short_form", type=Choice(list(CIR_FORMS)), help="The same as --cir-form."),
    option(
        "--dry-run", is_flag=True, help="Write nothing; print what would be packed, and what is renamed in CIR modules."
    ),
    force_option,
    max_inflated_option,
    max_output_option,
    limit_option,
    color_option,
    quiet_option,
)
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
    """Pack device images into a container, or with --host into a copy of an object.

    For the same arguments the bytes are those of llvm-offload-binary 22 (23 with --container-version=2),
    clang-offload-bundler 22 (--format=bundle) and fatbinary 13 (--format=fatbin).

    Without -o the output goes into the current directory: STEM.offload, STEM.bundle, STEM.fatbin, STEM.cir, STEM.kpack
    or STEM.syclbin, where STEM is the name of the first image; with --host STEM.offload.o (.a for an archive), where
    STEM is the name of the host.
    """
    allow_any_output(force)
    if not images:
        hint = "name images with --image=file=PATH,triple=TRIPLE,arch=ARCH,kind=KIND"
        raise UsageError("there is nothing to pack", hint=hint)
    chosen = chosen_packing(packing | ({"cir_form": short_form} if short_form else {}))
    options = [_located(parse_image_option(text)) for text in images]
    opened: list[Source] = []
    try:
        stored = list(open_images(chosen.name, options, opened))
        if host is not None and isinstance(chosen.options, BundleOptions) and chosen.options.type == "o":
            stored.append(host_entry(stored, _open_host(host, opened)[1].view))
            host = None
        for slip in slips(options if chosen.name == "offload-binary" else [], stored):
            say(f"fatpack: warning: {slip}", quiet=quiet)
        packed = pack_as(stored, chosen.options)
        images_words = counted(len(stored) - packed.left_out, "image")
        warn(map(_with_hint, packed.findings), quiet=quiet)
        for note in packed.notes:
            say(note, quiet=quiet)
        if dry_run:
            size = sum(map(len, packed.pieces))
            say(f"would write {images_words}, {size_words(size)}", quiet=quiet)
            return 0
        check_name(output)
        target = _default_name(options, host, chosen.extension) if output is None else output
        if target != "-":
            tell_abandoned(os.path.dirname(target), quiet=quiet)
        meter = Meter(sum(map(len, packed.pieces)), f"packing into {target}", quiet=quiet)
        try:
            inputs = [image.data for image in stored]
            if host is None:
                size = _write(target, packed, force=force, inputs=inputs, meter=meter)
            else:
                whole, place = _open_host(host, opened)
                edited = place.around(embed(place.view, packed.pieces, format=chosen.format))
                _tell_what_links(options, chosen, quiet=quiet)
                size = _write_host(whole, edited, target, force=force, inputs=inputs, meter=meter)
        finally:
            meter.finish()
    finally:
        for source in opened:
            source.close()
    if target != "-":
        say(f"wrote {target}: {images_words}, {size_words(size)}", quiet=quiet)
    return 0


def _located(option: ImageOption) -> ImageOption:
    """Return an option with the URLs among its files as what is opened, and without their secrets in its text."""
    if "://" not in option.text:
        return option
    from fatpack.io.sources.url import redacted

    return option.replace(files=tuple(map(located, option.files)), text=redacted(option.text))


def _open_host(host: str, opened: list[Source]) -> tuple[View, Place]:
    """Open the file of a host, which may be a member of an archive; return the file, and the place of the object."""
    address = parse_address(host)
    source = open_source(address.path)
    opened.append(source)
    refuse_package(source.view())
    return source.view(), find(source.view(), address)


def _with_hint(item: Finding) -> Finding:
    """Return a finding with what to do about it here, where images are given one by one."""
    if item.code != "FP1315":
        return item
    return item.replace(hint="add --image=file=/dev/null,id=host-x86_64-unknown-linux-gnu")


def _default_name(options: Sequence[ImageOption], host: str | None, extension: str) -> str:
    """Return the documented name of an output that was not named: after the host, or the first image."""
    if host is not None:
        address = parse_address(host)
        extension = "offload.a" if address.members else "offload.o"
        return f"{stem(address.path) if host != '-' else 'stdin'}.{extension}"
    names = [option.files[0] for option in options]
    # The host's image of a HIP bundle is /dev/null, which is no name for anything.
    first = next((name for name in names if name != os.devnull), names[0])
    return f"{stem(first)}.{extension}" if first != "-" else f"stdin.{extension}"


def _tell_what_links(options: Sequence[ImageOption], chosen: Packing, *, quiet: bool) -> None:
    """Say what of a host's new container does not come into programs."""
    note = embedding_note(chosen.format)
    if chosen.name == "offload-binary" and not all(option.get("kind") for option in options):
        note = "clang-linker-wrapper puts no image without a kind into programs; add kind=cuda, hip, openmp or sycl"
    if note:
        say(f"fatpack: note: {note}", quiet=quiet)


def _write(target: str, packed: Packed, *, force: bool, inputs: Sequence[View], meter: Meter) -> int:
    if target == "-":
        return write_pieces(1, packed.pieces)
    return write_file(
        target, packed.pieces, force=force, inputs=inputs, verify=packed.verify, mode=packed.mode, progress=meter
    )


def _write_host(
    host: View, edited: Iterable[Piece], target: str, *, force: bool, inputs: Sequence[View], meter: Meter
) -> int:
    if target == "-":
        return write_pieces(1, edited)
    return write_edited(host, edited, target, force=force, inputs=inputs, progress=meter)
