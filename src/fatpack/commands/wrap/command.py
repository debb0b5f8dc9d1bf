"""``fatpack wrap``: device images → an object that registers them when it is linked, made without a compiler."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr, print_warnings
from fatpack.command_line.param_types import FILE, HOST_TRIPLE, IMAGE, INPUT, ChoiceType
from fatpack.command_line.shared_options import allow_any_output, check_output_name, force_option, writing_options
from fatpack.commands.wrap.registration import DEFAULT_HOST, DEFAULT_VERSION, EMITS, KINDS, VERSIONS
from fatpack.errors import UsageError, pluralize
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.wrap.inputs import WrapInput
    from fatpack.io.source import Source


@click.command("wrap", cls=Command)
@click.argument("files", type=INPUT, metavar="IMAGE|CONTAINER...", nargs=-1)
@click.option("--kind", type=ChoiceType(list(KINDS)), help="The runtime that gets the images (required).")
@click.option(
    "--image",
    "images",
    multiple=True,
    type=IMAGE,
    metavar="file=F,triple=T[,arch=A][,key=value…]",
    help="An image and its target, as for `fatpack pack`. Repeatable.",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help='Output file; "-" is stdout. Default: STEM.wrapper.o.')
@click.option(
    "--host-triple",
    type=HOST_TRIPLE,
    metavar="TRIPLE",
    default=DEFAULT_HOST,
    help="The host: ELF for x86-64 or AArch64, COFF for x86-64.",
    show_default=True,
)
@click.option(
    "--emit",
    type=ChoiceType(list(EMITS)),
    default="obj",
    help="Write an object, or LLVM IR for any host.",
    show_default=True,
)
@click.option(
    "--as",
    "llvm",
    type=ChoiceType(list(map(str, VERSIONS))),
    default=str(DEFAULT_VERSION),
    help="Version of the clang that compiled the host objects: 19 (up to 20), 22 (21 and 22) or 23 (later).",
    show_default=True,
)
@click.option(
    "--relocatable",
    is_flag=True,
    help="For OpenMP: the object goes into a link with -r.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be registered.")
@force_option
@writing_options
def command(
    files: tuple[str, ...],
    kind: str | None,
    images: tuple[str, ...],
    output: str | None,
    host_triple: str,
    emit: str,
    llvm: str,
    relocatable: bool,
    dry_run: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Make an object that registers images when it is linked, as clang-linker-wrapper does, without a compiler.

    The arguments are images (cubins, PTX, code objects, SPIR-V, ...) or the container that the runtime takes: a CUDA
    fat binary, a HIP bundle, offload binaries for OpenMP and SYCL.
    """
    from fatpack.commands.pack.formats import write_packed
    from fatpack.commands.wrap.run import WrapRequest, wrap_files
    from fatpack.io.output_names import file_stem

    allow_any_output(force)
    check_output_name(output)
    if kind is None:
        raise UsageError("say which runtime gets the images", hint=f"--kind={'|'.join(KINDS)}")
    opened: list[Source] = []
    try:
        inputs = _open_inputs(files, images, opened)
        wrapped = wrap_files(WrapRequest(kind, inputs, host_triple, emit, int(llvm), relocatable))
        print_warnings(wrapped.packed.findings, quiet=quiet)
        words = pluralize(wrapped.image_count, "image")
        if dry_run:
            size = sum(map(len, wrapped.packed.pieces))
            print_stderr(f"would register {words} with {kind}, {format_size(size)}", quiet=quiet)
            return 0
        target = output or f"{file_stem(inputs[0].name) if inputs[0].name != '-' else 'stdin'}.wrapper.{EMITS[emit]}"
        views = [item.view for item in inputs]
        size = write_packed(wrapped.packed, target, doing="wrapping into", force=force, quiet=quiet, inputs=views)
    finally:
        for source in opened:
            source.close()
    if target != "-":
        print_stderr(f"wrote {target}: registers {words} with {kind}, {format_size(size)}", quiet=quiet)
    return 0


def _open_inputs(files: Sequence[str], images: Sequence[str], opened: list[Source]) -> list[WrapInput]:
    """Return all that is given, in its order: files first."""
    from fatpack.commands.wrap.inputs import WrapInput
    from fatpack.formats.offload_binary.image_option import check_file_key, parse_image_option
    from fatpack.io.open import open_source, resolve_url

    given = []
    for name in files:
        opened.append(open_source(name, may_close=True))
        given.append(WrapInput(name, opened[-1].view()))
    for text in images:
        stated = parse_image_option(text)
        check_file_key(stated)
        for name in stated.files:
            opened.append(open_source(resolve_url(name), may_close=True))
            given.append(WrapInput(name, opened[-1].view(), stated))
    return given
