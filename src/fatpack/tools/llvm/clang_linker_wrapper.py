"""``fatpack tool clang-linker-wrapper --dry-run``: which images of a link line are linked for which target.

The lines of device links and of the host's link, by the rules of LLVM 22 or 23 (:mod:`fatpack.commands.link_inputs`).
Nothing is written and nothing called, so no toolchain of a vendor is needed. Command lines without ``--dry-run``, or
with options that concern the links themselves, are handed over. Its page below ``docs/tools`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.errors import FatpackError
from fatpack.printable import printable
from fatpack.tools.llvm.cl_tool import exec_original
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.link_inputs.plan import ImageGroup, LinkPlan

#: Options of the tool itself that are read here, and options that have a value after = or as the next word.
_DRY_RUN, _VALUES = "--dry-run", ("--linker-path", "--host-triple")

#: Options that concern the links: with one of them it is the original's command line.
_LINKING = (
    *("--compress", "--compression-level", "--cuda-path", "--device-compiler", "--device-linker", "--embed-bitcode"),
    *("--emit-fatbin-only", "--override-image", "--print-wrapped-module", "--relocatable", "--save-temps", "-mllvm"),
    *("--wrapper-jobs", "--wrapper-time-trace", "--wrapper-time-trace-granularity", "--wrapper-verbose"),
    *("--no-canonical-prefixes", "--help", "--help-hidden", "-v"),
)

#: In the order in which the images of a program are registered.
_KINDS = ("openmp", "cuda", "hip", "sycl")


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"{version_text('clang-linker-wrapper', f'LLVM {version}')}\n")
        return 0
    if _DRY_RUN not in arguments or any(word.partition("=")[0] in _LINKING for word in arguments):
        return exec_original(program, "clang-linker-wrapper", arguments, version, offered=f"{_DRY_RUN} alone")
    values, words = _divided(arguments)
    try:
        made = _plan(words, version)
    except OSError as error:
        return _fail(program, f"'{error.filename}': {error.strerror or error}")
    except FatpackError as error:
        return _fail(program, str(error))
    output = _output(words)
    sys.stderr.writelines(f"{printable(line)}\n" for line in _device_links(made, output))
    linker = values.get("--linker-path", "")
    if not linker:
        return _fail(program, "linker path missing, must pass 'linker-path'")
    sys.stderr.write(printable(f' "{linker}" {" ".join(_host_link(words, made, output))}') + "\n")
    return 0


def _fail(program: str, text: str) -> int:
    sys.stderr.write(printable(f"{program}: error: {text}") + "\n")
    return 1


def _divided(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of the tool's own options, and the words of the linker."""
    values: dict[str, str] = {}
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _VALUES:
            values[name] = value if equals else next(rest, "")
        elif word != _DRY_RUN:
            words.append(word)
    return values, words


def _plan(words: Sequence[str], version: str) -> LinkPlan:
    from fatpack.commands.link_inputs.input_files import LinkInputFiles
    from fatpack.commands.link_inputs.link_line import parse_link_line
    from fatpack.commands.link_inputs.plan import plan_link

    line = parse_link_line((), words)
    with LinkInputFiles(line) as opened:
        made = plan_link(line, opened, version)
        made.check()
        return made


def _output(words: Sequence[str]) -> str:
    places = [number for number, word in enumerate(words[:-1]) if word in ("-o", "--output")]
    return words[places[-1] + 1] if places else "a.out"


def _device_links(made: LinkPlan, output: str) -> Iterator[str]:
    """Yield the command of each device link: its target, and its images by the files and targets they come from."""
    stem = output.rpartition("/")[2]
    for group in made.groups:
        target = group.target
        arch = "" if target.arch == "generic" else target.arch
        name = ".".join(filter(None, (stem, target.triple.partition("-")[0], arch, "img")))
        option = "-mcpu" if target.triple.startswith("amdgcn") else "-march"
        words = [f"--target={target.triple}", *([f"{option}={arch}"] if arch else []), *_files(group, made)]
        yield f' "clang" --no-default-config -o {name} {" ".join(words)}'


def _files(group: ImageGroup, made: LinkPlan) -> Iterator[str]:
    for device in group.devices:
        target = device.image.target
        file = (device.member or made.inputs[device.input].path).rpartition("/")[2]
        stem = file.rpartition(".")[0] or file
        yield f"{stem}-{target.triple}-{target.arch}.o"


def _host_link(words: Sequence[str], made: LinkPlan, output: str) -> list[str]:
    """Return the words of the host's link, with the objects that register images after the output or at the end."""
    kinds = dict.fromkeys(kind for group in made.groups for kind in _KINDS if kind in group.offloads)
    words = list(_spelled_as_llvm_does(words))
    stem = output.rpartition("/")[2]
    wrappers = [f"{stem}.{kind}.image.wrapper.o" for kind in kinds]
    at = max((number + 2 for number, word in enumerate(words) if word in ("-o", "--output")), default=len(words))
    return [*words[:at], *wrappers, *words[at:]]


def _spelled_as_llvm_does(words: Sequence[str]) -> Iterator[str]:
    """Yield the words for the linker: -L and -l separate from their values, without the tool's own options."""
    for word in words:
        if word[:2] in ("-L", "-l") and len(word) > 2:
            yield from (word[:2], word[2:])
        elif not word.startswith("--should-extract="):
            yield word
