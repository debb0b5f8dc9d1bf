"""What ``--help`` of a tool prints that reads its command line with LLVM's ``cl`` library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.tools.llvm.command_line import ClOption

#: Options that every tool has, in the order of the help.
_GENERIC = ("help", "help-list", "version")


def help_page(
    overview: str,
    usage: str,
    options: Sequence[ClOption],
    *,
    tool: str,
    as_list: bool,
    groups: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> str:
    """Return the help: options in groups, or all in one list, as ``--help-list`` and ``-h`` have it.

    ``groups`` are headings and names of options, no names for those that no other group has; by default there are two.
    """
    shown = [option for option in options if not option.is_hidden]
    column = max(len(_spelled(option)) for option in shown)
    lines = [f"OVERVIEW: {overview}", "", f"USAGE: {usage}", "", "OPTIONS:"]
    groups = groups or (("Generic Options", _GENERIC), (f"{tool} options", ()))
    if as_list:
        # QUIRK(LLVM cl): the list does not name the option that prints it.
        groups = (("", tuple(option.name for option in shown if option.name != "help-list")),)
    named = {name for _, names in groups for name in names}
    for heading, names in groups:
        group = [option for option in shown if option.name in (names or {option.name} - named)]
        lines += ["", f"{heading}:", ""] if heading else []
        for option in group:
            lines += _lines(option, column)
    return "\n".join([*lines, ""])


def _spelled(option: ClOption) -> str:
    separator = "" if not option.value else "=" if len(option.name) > 1 else " "
    return f"  {option.spelled}{separator}{option.value}"


def _lines(option: ClOption, column: int) -> Iterator[str]:
    first, *others = option.help.split("\n")
    yield f"{_spelled(option).ljust(column)} - {first}"
    for line in others:
        yield f"{'':{column}}   {line}"
    for name, text in option.choices:
        yield f"{f'    ={name}'.ljust(column)} -   {text}"
