"""The options of stand-ins, for shells: what each takes by itself, or hands over, and what their values may be.

``offered.list`` has a line for each name. `make docs` writes it from the tables of options in ``docs/tools``.
"""

from __future__ import annotations

import os

from fatpack.command_line.param_types import (
    BUNDLE_ID,
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from click.shell_completion import CompletionItem

    from fatpack.command_line.param_types import StringType


def _types() -> Iterable[str]:
    from fatpack.formats.clang_bundle.layout import TYPES

    return TYPES


def _offloads() -> Iterable[str]:
    from fatpack.commands.wrap.registration import KINDS

    return KINDS


def _dpcpp_offloads() -> Iterable[str]:
    from fatpack.commands.wrap.dpcpp import DPCPP_KINDS

    return DPCPP_KINDS


def _dpcpp_formats() -> Iterable[str]:
    from fatpack.commands.wrap.dpcpp import FORMATS

    return FORMATS


def _fatbinary_kinds() -> Iterable[str]:
    from fatpack.tools.nvidia.fatbinary.options import FORMS

    return FORMS


def _fatbinary_modes() -> Iterable[str]:
    from fatpack.formats.cuda_fatbin.styles import MODES

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
