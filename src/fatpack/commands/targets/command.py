"""``fatpack targets``: the names of GPU targets, explained."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import TARGET
from fatpack.command_line.shared_options import color_option, schema_option
from fatpack.command_line.terminal import write_text
from fatpack.errors import UsageError
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.commands.targets.run import Explanation
    from fatpack.commands.targets.tables import TargetTable
    from fatpack.targets.devices import Coverage

#: The version of what ``--json`` prints. Adding a key keeps it, removing or renaming one makes it 2.
SCHEMA = "fatpack.targets/1"

#: Columns of the terminal that all text output keeps within.
WIDTH = 100

_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


@click.command("targets", cls=Command, schema=SCHEMA)
@click.argument("names", type=TARGET, metavar="[NAME]...", nargs=-1)
@click.option("--runs-on", is_flag=True, help="Show for each NAME where images made for it run.")
@click.option("--boards", is_flag=True, help="List the names of boards, as sold, with architecture and source.")
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@color_option
def command(names: tuple[str, ...], *, runs_on: bool, boards: bool, as_json: bool) -> None:
    """Explain GPU names, or list all names.

    NAME is an architecture (sm_90a, compute_80), an AMD processor or target ID (gfx90a:xnack+), an Intel device or CPU
    (pvc, skylake-avx512), a compute capability (8.0), a triple (amdgcn-amd-amdhsa), or a board ('RTX 4090', MI300X).
    Names are case-sensitive, except board names.
    """
    from fatpack.commands.targets.run import explain_name
    from fatpack.commands.targets.tables import target_tables

    if runs_on and not names:
        raise UsageError("--runs-on needs a NAME", hint="for example: fatpack targets sm_90a --runs-on")
    if boards:
        if names or runs_on or as_json:
            raise UsageError(
                "--boards lists all names of boards, and takes no other argument", hint="fatpack targets --boards"
            )
        from fatpack.commands.targets.tables import board_tables as tables

        _print(map(_table, tables()))
        return
    # Everything is looked up before anything is printed: one unknown name leaves no half output.
    explanations = [explain_name(name) for name in names]
    if as_json:
        _print_json(explanations if names else _all_names())
    elif not names:
        _print(map(_table, target_tables()))
    else:
        lines = _coverage if runs_on else _explanation
        _print(map(lines, explanations))


def _print(blocks: Iterable[Iterable[str]]) -> None:
    """Print blocks of lines, with a blank line between them."""
    for number, lines in enumerate(blocks):
        write_text(lines if number == 0 else ("", *lines))


def _all_names() -> list[Explanation]:
    from fatpack.commands.targets.run import explain_name
    from fatpack.targets.vocabulary import load_vocabulary

    return [explain_name(name) for name in load_vocabulary().names()]


def _print_json(explanations: list[Explanation]) -> None:
    import json

    document = {"schema": SCHEMA, "targets": [_record(each) for each in explanations]}
    write_lines([json.dumps(document, indent=2)], sys.stdout)


def _record(explanation: Explanation) -> dict[str, object]:
    return {
        "name": explanation.name,
        "given": explanation.given,
        "vendor": explanation.vendor or None,
        "kind": explanation.kind,
        "values": dict(explanation.values),
        "runs_on": [
            {"form": part.form, "rule": part.rule, "names": list(part.names), "doubtful": list(part.doubtful)}
            for part in explanation.coverage
        ],
        "facts": [{"label": label, "text": text} for label, text in explanation.facts],
        "notes": list(explanation.notes),
        "sources": list(explanation.sources),
    }


def _table(section: TargetTable) -> Iterator[str]:
    """Yield a section as aligned columns; only the last column is wrapped, under itself."""
    rows = [section.columns, *section.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(section.columns) - 1)]
    yield _bold(section.title)
    for row in rows:
        fixed = "".join(f"{text:{width}}  " for text, width in zip(row, widths, strict=False))
        yield from _hanging(f"  {fixed}", row[-1])


def _explanation(explanation: Explanation) -> Iterator[str]:
    what = " ".join(part for part in (_VENDORS.get(explanation.vendor, ""), explanation.kind) if part)
    yield f"{_heading(explanation)}  ({what})"
    width = max(len(label) for label, _ in explanation.facts)
    for label, text in explanation.facts:
        yield from _hanging(f"  {label:{width}}  ", text)
    for note in explanation.notes:
        yield from _hanging("  note: ", note)
    for source in explanation.sources:
        yield from _hanging("  source: ", source)


def _coverage(explanation: Explanation) -> Iterator[str]:
    yield f"{_heading(explanation)} runs on"
    if not explanation.coverage:
        yield "  nothing in particular: the name is not a single target"
    width = max((len(_form(part)) for part in explanation.coverage), default=0)
    for part in explanation.coverage:
        margin = f"  {_form(part):{width}}  "
        yield from _hanging(margin, part.rule)
        if part.names:
            yield from _hanging(" " * len(margin), " ".join(part.names))
        if part.doubtful:
            yield from _hanging(" " * len(margin), f"doubtful: {' '.join(part.doubtful)}")


def _heading(explanation: Explanation) -> str:
    name = _bold(explanation.name)
    return name if explanation.given == explanation.name else f"{explanation.given} → {name}"


def _bold(text: str) -> str:
    """Return a text that a terminal shows bold."""
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text


def _form(part: Coverage) -> str:
    return {"ptx": "PTX"}.get(part.form, part.form)


def _hanging(margin: str, text: str) -> Iterator[str]:
    """Yield a text with a margin, wrapped under itself; words longer than the line are kept whole."""
    width = max(WIDTH - len(margin), 20)
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield margin + line
            margin, line = " " * len(margin), ""
        line = f"{line} {word}" if line else word
    yield (margin + line).rstrip()
