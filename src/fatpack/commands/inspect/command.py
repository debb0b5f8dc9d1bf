"""``fatpack inspect``: what is in a file, for people, for scripts, and byte by byte."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr
from fatpack.command_line.param_types import FILE, FILE_TARGET, INPUT, ChoiceListType, ChoiceType, OffsetType
from fatpack.command_line.shared_options import (
    cache_option,
    color_option,
    deep_option,
    exclude_option,
    force_option,
    jobs_option,
    limit_options,
    parse_position,
)
from fatpack.commands.inspect import KEYS
from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import FINE, error_message, exit_code
from fatpack.tabular import FORMATS, SUBJECTS
from fatpack.tabular import SCHEMA as ROWS
from fatpack.text.schemas import INSPECT as SCHEMA
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


#: option → heading of the group that it begins
_HEADINGS = {"as_json": "Options", "rows": "Rows", "digest": "Digests", "runtime": "Programs", "verbose": "Options"}


@click.command(
    "inspect",
    cls=Command,
    headings=_HEADINGS,
    further=("Rows", "Digests", "Programs"),
    schema=SCHEMA,
    schemas={
        "runtime": "fatpack.runtime/1",
        "by": "fatpack.sums/1",
        "used": "fatpack.used/1",
        "digest": "fatpack.digests/1",
    },
    row_schemas={"rows": "fatpack.rows/1", "in_toto": "fatpack.digest-statement/1"},
)
@click.argument("files", type=INPUT, metavar="FILE...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@click.option(
    "--schema",
    is_flag=True,
    help="Print the JSON schema of this output, and exit.",
)
@click.option("--bytes", "as_bytes", is_flag=True, help="Print an annotated hexdump of the whole file.")
@click.option("--at", type=OffsetType(), metavar="OFFSET", help="Explain the byte at this offset.")
@limit_options
@jobs_option
@cache_option
@deep_option
@click.option(
    "--arch",
    multiple=True,
    type=FILE_TARGET,
    metavar="PATTERN,…",
    help="Show only these: sm_90, compute_90 (PTX), 'sm_9*', '!sm_90'.",
)
@click.option("--image", metavar="N.M", help="Show only the image at this position: 0.2.")
@click.option("--kernels", is_flag=True, help="Show the registers, memory and threads of each kernel.")
@click.option(
    "--by",
    type=ChoiceListType(KEYS),
    multiple=True,
    help="Print one table of totals over all files, as --by arch,form,file.",
)
@click.option("--rows", type=ChoiceType(FORMATS), help=f"Write one flat record per image, {ROWS}.")
@click.option(
    "--rows-of",
    type=ChoiceType(SUBJECTS),
    default="images",
    help="With --rows: a row per image or per kernel.",
    show_default=True,
)
@click.option("--digests", is_flag=True, help="With --rows: add the SHA-256 of every image or kernel.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="With --rows: the output file. Default: stdout.")
@click.option(
    "--digest", is_flag=True, help="Print the canonical digest of each file's device code; -v: of each image."
)
@click.option("--in-toto", is_flag=True, help="With --digest: print a statement of in-toto.")
@force_option
@click.option("--runtime", is_flag=True, help="Show the kernels that programs register and launch.")
@click.option(
    "--used",
    multiple=True,
    type=FILE,
    metavar="PROFILE",
    help="Show the containers that a recorded run used. Repeatable.",
)
@click.option("--inflate", is_flag=True, help="Also decompress large containers.")
@click.option("--verify", is_flag=True, help="Also compare compressed bundles with their hashes.")
@exclude_option
@click.option("--one-program", is_flag=True, help="Warn if the architectures or forms of linked FILEs differ.")
@click.option("-v", "--verbose", count=True, help="Add addresses, attributes and all kernel names.")
@color_option
def command(
    files: tuple[str, ...],
    *,
    as_json: bool,
    as_bytes: bool,
    at: int | None,
    arch: tuple[str, ...],
    image: str | None,
    by: tuple[tuple[str, ...], ...],
    rows: str | None,
    rows_of: str,
    digests: bool,
    digest: bool,
    in_toto: bool,
    output: str | None,
    force: bool,
    runtime: bool,
    used: tuple[str, ...],
    exclude: tuple[str, ...],
    one_program: bool,
    verbose: int,
    **reading: bool,
) -> int:
    """Show the containers, images and kernels in files.

    FILE is a file, a folder, a package (wheel, zip, tar, deb, rpm), a pattern in quotes ('lib/**/*.so'), a URL, a
    member of an archive (libx.a(m.o)), a file in a package ('x.whl!libx.so'), or an address as -v prints it
    (lib.so#offset=0x1000&size=0x200).

    The first column is CONTAINER.IMAGE, as --image takes it; the last is the decompressed size. `fatpack doctor` reads
    every byte. The exit code is 1 for warnings and if no image matches, 3 for damage, 4 for an unsupported part.
    """
    from fatpack.commands.inspect.record import InspectOptions
    from fatpack.commands.inspect.run import show_files

    if not files:
        raise UsageError("no file given", hint="fatpack inspect FILE...")
    others = {"--json": as_json, "-v": verbose, "--by": by, "--one-program": one_program}
    others |= {"--arch": arch, "--image": image}
    others |= {f"--{name}": is_set for name, is_set in reading.items()}
    table = {"-o": output, "--digests": digests, "--rows-of": rows_of != "images", "--force": force}
    if not rows and any(table.values()):
        given = next(name for name, value in table.items() if value)
        raise UsageError(f"{given} is for rows alone", hint=f"add --rows {_format_of(output)}, or leave {given} out")
    if as_bytes or at is not None:
        _refuse("--bytes" if as_bytes else "--at", {**others, "--rows": rows})
        return max(_show_bytes(path, at) for path in files)
    _check_in_toto(in_toto, digest=digest, as_json=as_json)
    if digest:
        _refuse(
            "--digest",
            {"--rows": rows, "--runtime": runtime, "--used": used, **_without(others, "--json", "-v", "--deep")},
        )
        from fatpack.commands.inspect.digests import show_digests

        return show_digests(
            files, as_json=as_json, in_toto=in_toto, deep=reading["deep"], exclude=exclude, verbose=verbose
        )
    if runtime:
        _refuse("--runtime", {"--rows": rows, "--used": used, **_without(others, "--json")})
    elif used:
        _refuse("--used", {"--rows": rows, **_without(others, "--json", "--deep", "--inflate")})
    if runtime or used:
        return _show_programs(files, used, as_json=as_json, deep=reading["deep"], exclude=exclude)
    if by:
        _refuse("--by", {"--rows": rows, **_without(others, "--json", "--by", "--deep")})
        from fatpack.commands.inspect.run import show_totals

        keys = tuple(dict.fromkeys(key for each in by for key in each))
        return show_totals(files, keys, as_json=as_json, deep=reading["deep"], exclude=exclude)
    if rows:
        _refuse("--rows", _without(others, "--deep", "--kernels", "--inflate"))
        from fatpack.commands.inspect.rows import write_rows
        from fatpack.tabular.columns import RowOptions

        has_identity = digests and rows_of == "images"
        wanted = RowOptions(
            rows_of,
            digests,
            reading["kernels"],
            reading["inflate"],
            reading["deep"],
            dead=True,
            identity=has_identity,
        )
        return write_rows(files, wanted, rows, output, force=force, exclude=exclude)
    inflate = reading.pop("inflate") or reading["kernels"] or reading["verify"] or one_program
    if one_program:
        _refuse("--one-program", {"--arch": arch, "--image": image})
    if image is not None:
        _refuse("--image", {"--arch": arch})
    if arch:
        from fatpack.selectors.select import Selector

        arch = tuple(Selector(arch=arch).arch)
    position = None if image is None else parse_position(image)
    options = InspectOptions(**reading, inflate=inflate, arch=arch, position=position)
    return show_files(files, options, as_json=as_json, verbose=verbose, one_program=one_program, exclude=exclude)


def _check_in_toto(in_toto: bool, *, digest: bool, as_json: bool) -> None:
    """Raise UsageError for ``--in-toto`` without ``--digest``, or with ``--json``."""
    if in_toto and (not digest or as_json):
        raise UsageError(
            "--in-toto goes with --digest, and without --json", hint="fatpack inspect --digest --in-toto FILE"
        )


def _show_programs(
    files: tuple[str, ...], used: tuple[str, ...], *, as_json: bool, deep: bool, exclude: tuple[str, ...]
) -> int:
    """Show the kernels that programs register and launch; with ``used``, the kernels of a recorded run."""
    if used:
        from fatpack.commands.inspect.used import show_used

        return show_used(files, used, as_json=as_json, deep=deep, exclude=exclude)
    from fatpack.commands.inspect.registration import show_registration

    return show_registration(files, as_json=as_json, exclude=exclude)


def _refuse(option: str, others: Mapping[str, object]) -> None:
    """Raise UsageError if others are given that mean nothing with an option: they would be ignored silently."""
    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"{option} and {given[0]} exclude each other", hint="leave one out")


def _format_of(output: str | None) -> str:
    """Return the format of rows that the name of an output asks for, the first of all for any other name."""
    suffix = (output or "").rpartition(".")[2].lower()
    return suffix if suffix in FORMATS else FORMATS[0]


def _without(options: Mapping[str, object], *names: str) -> dict[str, object]:
    """Return options without those of some names."""
    return {name: options[name] for name in options if name not in names}


def _show_bytes(path: str, at: int | None) -> int:
    from fatpack.commands.inspect.bytes import annotated_hexdump, describe_offset
    from fatpack.selectors.address import open_argument

    try:
        source, view = open_argument(path)
        with source:
            write_lines(annotated_hexdump(view) if at is None else describe_offset(view, at), sys.stdout)
    except BrokenPipeError:
        raise
    except (FatpackError, OSError) as error:
        print_stderr(f"fatpack: error: {error_message(error)}")
        return exit_code(error)
    return FINE
