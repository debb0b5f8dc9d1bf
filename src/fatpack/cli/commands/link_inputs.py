"""``fatpack link-inputs``: which device images a link line brings into which device link."""

from __future__ import annotations

import sys

from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import DIRECTORY, FILE, TARGET, Choice
from fatpack.cli.messages import Meter, say, warn
from fatpack.cli.options import (
    allow_any_output,
    color_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
    schema_option,
)
from fatpack.cli.reporting import report
from fatpack.cli.terminal import write_text
from fatpack.errors import UsageError, counted
from fatpack.outcomes import FINDINGS, FINE, code_of, worst
from fatpack.report.link_inputs.records import SCHEMA
from fatpack.target.link_groups import VERSIONS
from fatpack.words.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fatpack.ops.link_inputs.plan import LinkPlan


#: What links images of archives that no object asks for
_ADVICE = "; --whole-archive in front of an archive links all of its images"


@takes(
    argument("words", FILE, metavar="FILE...", is_many=True),
    option("-L", name="folder", is_placed=True, type=DIRECTORY, help="A folder of libraries; =DIR is below --sysroot."),
    option("-l", name="library", is_placed=True, metavar="NAME", help="libNAME.so or libNAME.a; -l:FILE is FILE."),
    option("--whole-archive", is_placed=True, is_flag=True, help="Link all of the archives that follow."),
    option(
        "--no-whole-archive",
        is_placed=True,
        is_flag=True,
        help="Of those that follow, only images for targets of objects.",
    ),
    option("--sysroot", type=DIRECTORY, metavar="DIR", help="The folder that = in -L stands for."),
    option(
        "--should-extract",
        multiple=True,
        type=TARGET,
        metavar="ARCH",
        help="Link images of archives for ARCH even if no object is for it. Repeatable.",
    ),
    option(
        "--llvm",
        type=Choice(VERSIONS),
        default=VERSIONS[-1],
        help="Group images as this LLVM does.",
    ),
    option("--directory", "-d", type=DIRECTORY, metavar="DIR", help="Write the images and link-inputs.json here."),
    option("--json", name="as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}."),
    schema_option,
    max_inflated_option,
    max_output_option,
    limit_option,
    color_option,
    force_option,
    quiet_option,
    option("-v", "--verbose", count=True, help="Show the files of each group, and inputs that are not linked."),
    schema=SCHEMA,
)
def command(
    words: tuple[str, ...],
    *,
    sysroot: str | None,
    should_extract: tuple[str, ...],
    llvm: str,
    directory: str | None,
    as_json: bool,
    schema: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Collect the device images of a link line, and group them as clang-linker-wrapper does before the device link.

    Files and libraries are given as to a linker, in its order. The images of objects, bitcode and offload binaries are
    linked. Of an archive only the images for a target that one of these has are linked, or all of them where
    --whole-archive stands before it. Shared libraries have linked theirs. Libraries that no -L has are looked for in
    the system's folders, below --sysroot if that is given. With -d every image becomes a file, and link-inputs.json
    says which files are linked for which target.

    Behind -- a linker's whole command line can stand: options that say nothing of device code, and files that are not
    there, are ignored, as clang-linker-wrapper does. A library (-l) that is not found is an error, as it is there. If
    anything is damaged, nothing is written: the program would lack kernels.
    """
    if schema:
        from fatpack.report.schemas import text

        sys.stdout.write(text("link-inputs"))
        return FINE
    from fatpack.ops.link_inputs import words as lines
    from fatpack.ops.link_inputs.inputs import Inputs
    from fatpack.ops.link_inputs.plan import plan
    from fatpack.report.link_inputs.records import record
    from fatpack.report.link_inputs.texts import render

    own, linker = _split(words)
    line = lines.read(own, linker)
    line = line.replace(root=sysroot or line.root)
    if not line.words:
        raise UsageError("no files to link", hint="name objects and archives as for a linker")
    if directory == "":
        raise UsageError("the directory has no name", hint='"." is the current one')
    allow_any_output(force)
    with Inputs(line) as opened:
        made = plan(line, opened, llvm, should_extract)
        document = record(made)
        code = worst((_tell(made, quiet=quiet), FINE if made.groups else FINDINGS))
        if directory is not None and not made.errors:
            _write(made, document, directory, opened, force=force, quiet=quiet)
        elif made.errors:
            say("fatpack: nothing was written: the program would lack what is damaged", quiet=directory is None)
        if as_json:
            from fatpack.report.json_text import json_pieces

            sys.stdout.writelines(json_pieces({**document, "exit_code": code}))
            sys.stdout.write("\n")
        elif not quiet:
            write_text(render(document, verbose=verbose), verbose=verbose)
    return code


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the command, and those of a linker behind ``--``."""
    if "--" not in words:
        return words, ()
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _tell(made: LinkPlan, *, quiet: bool) -> int:
    """Print what is wrong with the files and the groups; return the exit code for it."""
    for path in dict.fromkeys(item.span.source[0] if item.span.source else "" for item in made.errors):
        report(path, [item for item in made.errors if item.span.source[:1] == (path,)])
    warn((item for item in made.findings if item.severity != "error"), quiet=quiet)
    for each in made.groups:
        if each.refusal:
            say(f"fatpack: warning: {each.target.canonical}: {each.refusal}", quiet=quiet)
    if not made.groups:
        say(f"fatpack: no device image is linked{_ADVICE if made.left else ''}", quiet=quiet)
    refused = any(each.refusal for each in made.groups)
    return worst((code_of((item.severity, item.code) for item in made.findings), FINDINGS if refused else FINE))


def _write(
    made: LinkPlan, document: Mapping[str, Any], directory: str, opened: Any, *, force: bool, quiet: bool
) -> None:
    from fatpack.ops.link_inputs.plan import write
    from fatpack.report.json_text import json_pieces

    manifest = "".join((*json_pieces(document), "\n")).encode()
    meter = Meter(sum(each.device.image.size for each in made.files), "extracting", quiet=quiet)
    try:
        paths = write(made, directory, manifest, force=force, inputs=opened.views, progress=meter)
    finally:
        meter.finish()
    say(printable(f"wrote {counted(len(paths) - 1, 'image')} and {paths[-1]}"), quiet=quiet)
