"""The options of stand-ins, for shells: what each takes by itself, or hands over, and what their values may be.

``offered.list`` has a line for each name. `make docs` writes it from the tables of options in ``docs/tools``.
"""

from __future__ import annotations

import os

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import (
    BUNDLE_ID,
    DIRECTORY,
    FILE,
    HOST_TRIPLE,
    IMAGE,
    KERNEL,
    TRIPLE,
    ChoiceType,
    PairsType,
    SuggestionType,
    Typed,
    after,
)
from fatpack.errors import UsageError
from fatpack.tools import TOOLS, run_stand_in, versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from fatpack.command_line.param_types import StringType


def _types() -> Iterable[str]:
    from fatpack.formats.clang_bundle.layout import TYPES

    return TYPES


def _offloads() -> Iterable[str]:
    from fatpack.commands.wrap.registration import KINDS

    return KINDS


def _dpcpp_offloads() -> Iterable[str]:
    from fatpack.commands.wrap.dpcpp_images import DPCPP_KINDS

    return DPCPP_KINDS


def _dpcpp_formats() -> Iterable[str]:
    from fatpack.commands.wrap.dpcpp_images import FORMATS

    return FORMATS


def _fatbinary_kinds() -> Iterable[str]:
    from fatpack.tools.nvidia.fatbinary.options import FORMS

    return FORMS


def _fatbinary_modes() -> Iterable[str]:
    from fatpack.formats.cuda_fatbin.writer import MODES

    return MODES


def _named(*beginnings: str) -> Iterable[str]:
    """Return names of targets that begin so."""
    from fatpack.targets import all_names

    return (name for name in all_names() if name.startswith(beginnings))


_SM = SuggestionType(lambda: _named("sm_"), held="arch")
_CODE = SuggestionType(lambda: _named("sm_", "compute_"), held="arch")
_VIRTUAL = SuggestionType(lambda: _named("compute_"))
_NUMBER = SuggestionType(lambda: (name.removeprefix("sm_") for name in _named("sm_")))

#: stand-in → option without dashes → what its value may be; of other options it is a file, or what only the user knows
VALUES: dict[str, dict[str, StringType]] = {
    "clang-offload-bundler": {"type": ChoiceType(_types), "targets": BUNDLE_ID},
    "cir-offload-merge": {"targets": BUNDLE_ID},
    "llvm-offload-binary": {"image": IMAGE},
    "clang-offload-packager": {"image": IMAGE},
    "llvm-offload-wrapper": {"kind": ChoiceType(_offloads), "triple": HOST_TRIPLE},
    "clang-offload-wrapper": {
        "kind": ChoiceType(_dpcpp_offloads),
        "format": ChoiceType(_dpcpp_formats),
        "host": HOST_TRIPLE,
        "target": TRIPLE,
    },
    "clang-linker-wrapper": {"host-triple": HOST_TRIPLE},
    "llvm-readobj": {"elf-output-style": ChoiceType(("LLVM", "JSON", "GNU"))},
    "clang-offload-deps": {"targets": BUNDLE_ID},
    "cuobjdump": {"gpu-architecture": _SM, "arch": _SM, "function": KERNEL, "fun": KERNEL},
    "fatbinary": {
        "compress": ChoiceType(("true", "false")),
        "compress-mode": ChoiceType(_fatbinary_modes),
        "image2": PairsType({"kind": ChoiceType(("reloc", "index", "tileir")), "file": FILE}),
        "image3": PairsType({"kind": ChoiceType(_fatbinary_kinds), "sm": _NUMBER, "file": FILE}),
    },
    "nvprune": {
        "arch": _CODE,
        "generate-code": PairsType({"arch": _VIRTUAL, "code": _CODE}),
        "gencode": PairsType({"arch": _VIRTUAL, "code": _CODE}),
    },
    "roc-obj": {"target-id": BUNDLE_ID, "t": BUNDLE_ID},
}


def option_spellings(program: str) -> Sequence[str]:
    """Return the options of a stand-in, as they are spelled; none for another name."""
    from fatpack.tools import find_stand_in

    tool = find_stand_in(program)
    with open(os.path.join(os.path.dirname(__file__), "offered.list"), encoding="utf-8") as file:
        for line in file:
            name, *options = line.split()
            if tool is not None and name == tool[0]:
                return options
    return ()


def option_value_kind(program: str, option: str) -> StringType | None:
    """Return what the value of a stand-in's option may be; None where nothing is known of it."""
    from fatpack.tools import find_stand_in

    tool = find_stand_in(program)
    return VALUES.get(tool[0], {}).get(option.lstrip("-")) if tool else None


def completions(words: Sequence[str], current: str) -> Iterator[CompletionItem[str]]:
    """Yield the options of a stand-in, their values, or files, after its name and its arguments."""
    from click.shell_completion import CompletionItem

    program, *given = words
    files = [word.partition("=")[2] if word.startswith("-") else word for word in given]
    typed = Typed({}, list(filter(None, files)))
    option, equals, text = current.partition("=")
    if current.startswith("-") and equals:
        yield from (
            after(f"{option}=", item) for item in (option_value_kind(program, option) or FILE).offered(text, typed)
        )
    elif current.startswith("-"):
        yield from (CompletionItem(each) for each in option_spellings(program) if each.startswith(current))
    else:
        kind = option_value_kind(program, given[-1]) if given and given[-1].startswith("-") else None
        yield from (kind or FILE).offered(current, typed)


# ``fatpack tool``, for help, completion, and stand-ins in their places: ``fatpack.main.main`` runs them.


def _versions() -> Iterable[str]:
    """Return all versions that some stand-in follows."""
    return dict.fromkeys(version for each in versions.FOLLOWED.values() for version in each.known)


def _names(given: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Return the names that may follow the options: installed stand-ins, or stand-ins that follow a version."""
    if "uninstall" in given:
        from fatpack.tools.install.links import list_placed

        return list_placed(given["uninstall"][-1])
    if "version" in given:
        return [name for name, each in versions.FOLLOWED.items() if given["version"][-1] in each.known]
    if "install" not in given:
        return TOOLS
    with_versions = (f"{name}-{version}" for name, each in versions.FOLLOWED.items() for version in each.known)
    return [*TOOLS, *with_versions]


@click.command(
    "tool",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.option(
    "--as", "version", type=SuggestionType(_versions), metavar="VERSION", help="Follow this version of the original."
)
@click.option("--install", type=DIRECTORY, metavar="DIR", help="Place the stand-ins, or those named, in this folder.")
@click.option(
    "--uninstall", type=DIRECTORY, metavar="DIR", help="Remove the stand-ins, or those named, from this folder."
)
@click.option("--which", is_flag=True, help="Show the programs that the names start now, for PATH, clang and nvcc.")
@click.option("-v", "--verbose", count=True, help="With --which: show all names, with their files.")
@click.argument(
    "words",
    type=SuggestionType(lambda: TOOLS, given=_names),
    metavar="NAME [ARGS]...",
    nargs=-1,
)
def command(
    version: str | None,
    install: str | None,
    uninstall: str | None,
    which: bool,
    verbose: int,
    words: tuple[str, ...],
) -> int:
    """Run as a drop-in replacement for cuobjdump, clang-offload-bundler, fatbinary, ...

    `fatpack tool` lists the names; a name may end in a version: llvm-offload-binary-23. --install places links named
    after the tools, so that compilers and build systems call them. Only files of fatpack are overwritten.
    """
    if not (which or install is not None or uninstall is not None):
        return run_stand_in([*(["--as", version] if version else []), *words])
    if which + (install is not None) + (uninstall is not None) > 1:
        raise UsageError("--install, --uninstall and --which exclude each other")
    if version:
        raise UsageError("--as has no meaning here", hint=f"name the version: llvm-offload-binary-{version}")
    from fatpack.tools.install import messages

    if install is not None:
        return messages.install_and_report(install, words)
    return (
        messages.report_callers(words, verbose=verbose)
        if uninstall is None
        else messages.uninstall_and_report(uninstall, words)
    )
