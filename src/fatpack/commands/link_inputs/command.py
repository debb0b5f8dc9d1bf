"""``fatpack link-inputs``: which device images a link line brings into which device link."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import CopyProgress, print_findings, print_stderr, print_warnings
from fatpack.command_line.param_types import DIRECTORY, FILE, TARGET, ChoiceType
from fatpack.command_line.shared_options import allow_any_output, force_option, schema_option, writing_options
from fatpack.command_line.terminal import write_text
from fatpack.commands.link_inputs.text import SCHEMA
from fatpack.errors import UsageError, pluralize
from fatpack.exit_codes import FINDINGS, FINE, exit_code_for_findings, worst_exit_code
from fatpack.printable import printable
from fatpack.targets.compatibility import VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.commands.link_inputs.input_files import LinkInputFiles
    from fatpack.commands.link_inputs.plan import LinkPlan


#: The option that links images of archives that no object requires
_ADVICE = "; --whole-archive in front of an archive links all of its images"


class PositionalOption(click.Option):
    """An option whose place among the files counts, as a linker's: it becomes a word of the last argument."""


class LinkInputs(Command):
    """The command, with the options whose place counts kept among the files."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments after the files and the options among them were put after a ``--``."""
        return super().parse_args(ctx, self._arranged(args))

    def _arranged(self, words: list[str]) -> list[str]:
        """Return the other options, ``--``, and the files with the options among them in their order.

        These are written as their first spelling, with the value as the next word. After a ``--`` nothing is changed.
        """
        options = {spelling: option for option in self.options for spelling in option.opts}
        before: list[str] = []
        line: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                line += ["--", *rest]
            elif word[:1] != "-" or word == "-":
                line.append(word)
            else:
                *flags, (spelling, attached) = _uses(word, options)
                option = options.get(spelling)
                value = attached
                if option is not None and not _is_flag(option) and attached is None:
                    value = next(rest, None)
                    if value is None:
                        return words  # click reports the missing value
                if not isinstance(option, PositionalOption) or (attached is not None and _is_flag(option)):
                    before += [word] if value is attached else [word, value or ""]
                else:
                    before += [flag for flag, _ in flags]
                    line += [option.opts[0]] if value is None else [option.opts[0], value]
        return [*before, "--", *line]


def _uses(word: str, options: Mapping[str, click.Option]) -> Iterator[tuple[str, str | None]]:
    """Yield the options in a word, each with the value that the word has for it: ``--a=x``, ``-ox``, ``-vv``."""
    if word.startswith("--"):
        spelling, equals, text = word.partition("=")
        yield spelling, text if equals else None
        return
    for at, letter in enumerate(word[1:], 2):
        spelling = f"-{letter}"
        if spelling in options and not _is_flag(options[spelling]):
            yield spelling, word[at:] or None
            return
        yield spelling, None


def _is_flag(option: click.Option) -> bool:
    return option.is_flag or option.count


@click.command("link-inputs", cls=LinkInputs, schema=SCHEMA)
@click.argument("words", type=FILE, metavar="FILE...", nargs=-1)
@click.option(
    "-L",
    "folder",
    cls=PositionalOption,
    expose_value=False,
    type=DIRECTORY,
    help="A folder of libraries; =DIR is below --sysroot.",
)
@click.option(
    "-l",
    "library",
    cls=PositionalOption,
    expose_value=False,
    metavar="NAME",
    help="libNAME.so or libNAME.a; -l:FILE is FILE.",
)
@click.option(
    "--whole-archive",
    cls=PositionalOption,
    expose_value=False,
    is_flag=True,
    help="Link all of the archives that follow.",
)
@click.option(
    "--no-whole-archive",
    cls=PositionalOption,
    expose_value=False,
    is_flag=True,
    help="Of the archives that follow, link only images for targets of objects.",
)
@click.option("--sysroot", type=DIRECTORY, metavar="DIR", help="The folder that = in -L means.")
@click.option(
    "--should-extract",
    multiple=True,
    type=TARGET,
    metavar="ARCH",
    help="Link images of archives for ARCH even if no object is for it. Repeatable.",
)
@click.option(
    "--llvm", type=ChoiceType(VERSIONS), default=VERSIONS[-1], help="Group images as this LLVM does.", show_default=True
)
@click.option("--directory", "-d", type=DIRECTORY, metavar="DIR", help="Write the images and link-inputs.json here.")
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@writing_options
@force_option
@click.option("-v", "--verbose", count=True, help="Show the files of each group, and inputs that are not linked.")
def command(
    words: tuple[str, ...],
    *,
    sysroot: str | None,
    should_extract: tuple[str, ...],
    llvm: str,
    directory: str | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Collect the device images of a link line, grouped as clang-linker-wrapper does before the device link.

    Give files and libraries as to a linker, in its order; after -- a linker's whole command line may follow. Of an
    archive only the images for targets of other inputs are linked, unless --whole-archive is given. If anything is
    damaged, nothing is written.
    """
    from fatpack.commands.link_inputs import link_line as lines
    from fatpack.commands.link_inputs.input_files import LinkInputFiles
    from fatpack.commands.link_inputs.plan import plan_link
    from fatpack.commands.link_inputs.text import link_record, render_link_inputs

    own, linker = _split(words)
    line = lines.parse_link_line(own, linker)
    line = line.replace(root=sysroot or line.root)
    if not line.words:
        raise UsageError("no files to link", hint="name objects and archives as for a linker")
    if directory == "":
        raise UsageError("the directory has no name", hint='"." is the current one')
    allow_any_output(force)
    with LinkInputFiles(line) as opened:
        made = plan_link(line, opened, llvm, should_extract)
        code = worst_exit_code((_tell(made, quiet=quiet), FINE if made.groups else FINDINGS))
        if directory is not None and not made.errors:
            _write(made, directory, opened, force=force, quiet=quiet)
        elif made.errors:
            print_stderr(
                "fatpack: nothing was written: the program would lack what is damaged", quiet=directory is None
            )
        if as_json:
            from fatpack.text.json import json_pieces

            sys.stdout.writelines(json_pieces({**link_record(made), "exit_code": code}))
            sys.stdout.write("\n")
        elif not quiet:
            write_text(render_link_inputs(made, verbose=verbose), verbose=verbose)
    return code


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the command, and those of a linker after ``--``."""
    if "--" not in words:
        return words, ()
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _tell(made: LinkPlan, *, quiet: bool) -> int:
    """Print what is wrong with the files and the groups; return the exit code for it."""
    for path in dict.fromkeys(item.span.source[0] if item.span.source else "" for item in made.errors):
        print_findings(path, [item for item in made.errors if item.span.source[:1] == (path,)])
    print_warnings((item for item in made.findings if item.severity != "error"), quiet=quiet)
    for each in made.groups:
        if each.refusal:
            print_stderr(f"fatpack: warning: {each.target.canonical}: {each.refusal}", quiet=quiet)
    if not made.groups:
        print_stderr(f"fatpack: no device image is linked{_ADVICE if made.unlinked else ''}", quiet=quiet)
    refused = any(each.refusal for each in made.groups)
    return worst_exit_code(
        (exit_code_for_findings((item.severity, item.code) for item in made.findings), FINDINGS if refused else FINE)
    )


def _write(made: LinkPlan, directory: str, opened: LinkInputFiles, *, force: bool, quiet: bool) -> None:
    from fatpack.commands.link_inputs.plan import write_link_plan
    from fatpack.commands.link_inputs.text import manifest_bytes

    manifest = manifest_bytes(made)
    meter = CopyProgress(sum(each.device.image.size for each in made.files), "extracting", quiet=quiet)
    try:
        paths = write_link_plan(made, directory, manifest, force=force, inputs=opened.views, progress=meter)
    finally:
        meter.finish()
    print_stderr(printable(f"wrote {pluralize(len(paths) - 1, 'image')} and {paths[-1]}"), quiet=quiet)
