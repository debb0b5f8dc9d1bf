"""``fatpack extract``: images, containers or byte ranges → files."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import DIRECTORY, FILE, INPUT
from fatpack.command_line.shared_options import (
    deep_option,
    exclude_option,
    force_option,
    selector_options,
    writing_options,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@click.command("extract", cls=Command)
@click.argument("file", type=INPUT)
@selector_options
@click.option("-o", "--output", type=FILE, help='Write the one selected image here; "-" is stdout.')
@click.option("-d", "--directory", type=DIRECTORY, help="Write the images here. Default: the current directory.")
@click.option("--containers", is_flag=True, help="Write whole containers instead of images: STEM.NUMBER.EXTENSION.")
@exclude_option
@click.option("--archive", is_flag=True, help="Write all selected images into one archive, named by -o.")
@click.option("--allow-missing", is_flag=True, help="Succeed if nothing matches; with -o, write an empty file.")
@click.option("--dry-run", is_flag=True, help="Only print what would be written; exit code 1 if nothing matches.")
@writing_options
@deep_option
@force_option
def command(**options: Any) -> int:
    """Write the images in FILE to files of their own.

    FILE is a file, a folder, a package, a pattern in quotes, a URL, a member of an archive (libx.a(m.o)), a file in a
    package (x.whl!libx.so), or an address as `inspect -v` prints it (lib.so#offset=0x1000&size=0x200).

    Files are named STEM-TRIPLE-ARCH.NUMBER.EXTENSION; NUMBER is the position of the image in `inspect`, from 0.
    """
    from fatpack.commands.extract.run import (
        ExtractRequest,
        extract_range,
        plan_extract,
        report_checksum_problems,
        report_problems,
        run_extract,
    )
    from fatpack.edit.verify import Verification
    from fatpack.io.open import is_tree
    from fatpack.scanner.context import detect_package
    from fatpack.scanner.standalone_images import scan_with_standalone_images
    from fatpack.selectors.address import find_location, named_bytes, open_file, outermost_view, parse_address
    from fatpack.selectors.no_match import refuse_empty

    exclude = options.pop("exclude")
    request = ExtractRequest.of(options)
    if is_tree(request.file):
        from fatpack.commands.extract.trees import extract_all

        return extract_all(request, exclude)
    source, address = open_file(parse_address(request.file, ranges=True, packages=True))
    with source:
        if address.offset is None and not address.members and detect_package(source.view()):
            from fatpack.commands.extract.trees import extract_all

            return extract_all(request, exclude, source.view())
        place = find_location(source.view(), address)
        if address.offset is not None:
            source.check()
            return extract_range(request, named_bytes(place.view, address), outermost_view(source))
        if not request.allow_missing:
            refuse_empty(source.view())
        items = scan_with_standalone_images(place.view, deep=request.deep)
        # Checking everything takes all cores: it starts before the plan, which looks at one image after the other.
        with Verification(items if request.is_everything else ()) as checks:
            plan = plan_extract(request, items, place.name.strip("<>"))
            if plan.extracts:
                report_checksum_problems(request, items, source)
            else:
                report_problems(request, items)
            return run_extract(request, plan, outermost_view(source), checks)[0]
