"""``fatpack extract``: images, containers or byte ranges → files."""

from __future__ import annotations

from fatpack.cli.extracting import Request, extract_range, make_plan, report_problems, run
from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import DIRECTORY, FILE, INPUT
from fatpack.cli.options import (
    deep_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
    selector_options,
)
from fatpack.io.sources.opening import open_source
from fatpack.ops.choose.address import find, named_bytes, parse_address
from fatpack.ops.choose.presence import refuse_empty
from fatpack.ops.verify import Verification
from fatpack.scanner import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@takes(
    argument("file", INPUT),
    *selector_options,
    option("-o", "--output", type=FILE, help='Write the one selected image here; "-" is stdout.'),
    option("-d", "--directory", type=DIRECTORY, help="Write the images here. Default: the current directory."),
    option("--containers", is_flag=True, help="Write whole containers as stored, instead of their images."),
    option("--archive", is_flag=True, help="Write one archive with all selected images; name it with -o."),
    option("--allow-missing", is_flag=True, help="Succeed if nothing matches; with -o, write an empty file."),
    option("--dry-run", is_flag=True, help="Only print what would be written; exit code 1 if nothing matches."),
    max_inflated_option,
    max_output_option,
    deep_option,
    limit_option,
    force_option,
    quiet_option,
)
def command(**options: Any) -> int:
    """Extract device images from any supported file, and print what was written.

    FILE is an object, a library, a container, "-", a URL, a member of an archive (libx.a(m.o)), or an address as
    `inspect -v` prints it (lib.so#offset=0x1000&size=0x200). Files are named STEM-TRIPLE-ARCH.NUMBER.EXTENSION;
    unsafe characters become _. If any output exists already, nothing is written, unless --force is given.
    """
    request = Request.of(options)
    address = parse_address(request.file, ranges=True)
    with open_source(address.path) as source:
        place = find(source.view(), address)
        if address.offset is not None:
            return extract_range(request, named_bytes(place.view, address))
        if not request.allow_missing:
            refuse_empty(source.view())
        items = tuple(scan(place.view, deep=request.deep))
        report_problems(request, items)
        # Checking everything takes all cores: it starts before the plan, which looks at one image after the other.
        with Verification(items if request.is_everything else ()) as checks:
            plan = make_plan(request, items, place.name.strip("<>"))
            return run(request, plan, source.view(), checks)
