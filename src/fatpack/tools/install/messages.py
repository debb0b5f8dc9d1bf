"""Messages and exit codes of ``fatpack tool --install``, ``--uninstall`` and ``--which``."""

from __future__ import annotations

import os
import shlex
import sys

from fatpack.command_line.terminal import get_style, write_text
from fatpack.errors import UsageError
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.text.style import align_columns
from fatpack.tools import TOOLS, find_stand_in, name_hint
from fatpack.tools.failures import is_command, is_script
from fatpack.tools.install import links

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from fatpack.tools.install.links import PlacedStandIn


# The program that a name runs: on PATH, for clang and for nvcc, as each of these reports it.

#: LIMIT: seconds that a compiler has to say where it looks.
_PATIENCE = 10


class CalledProgram(Record):
    """The program that one client calls by a name; ``path`` is empty where there is none."""

    client: str
    path: str

    @property
    def is_fatpack(self) -> bool:
        """True for a stand-in: placed by ``--install``, or a script that calls ``fatpack tool``."""
        return self.state == "fatpack"

    @property
    def state(self) -> str:
        """``fatpack``, ``original``, ``broken`` for a link to a fatpack that is gone; "" where there is nothing."""
        if not self.path:
            return ""
        if is_command(self.path):
            return "fatpack" if os.path.exists(self.path) else "broken"
        return "fatpack" if is_script(self.path) else "original"

    @property
    def leads_to(self) -> str:
        """The target of a stand-in that is a link; "" for all others."""
        return os.readlink(self.path) if os.path.islink(self.path) and is_command(self.path) else ""


class ToolCallers:
    """The programs that call tools by name: clang, nvcc and the shell. Each compiler prints its search folders once."""

    def __init__(self) -> None:
        import shutil

        self._which = shutil.which
        self.clang = self._which("clang") or next(filter(None, map(self._which, _CLANGS)), None)
        self.nvcc = self._which("nvcc")
        self._nvcc_path = self._asked_nvcc() if self.nvcc else ""

    @property
    def names(self) -> list[str]:
        """The programs that a build may call, as :class:`CalledProgram` names them."""
        return ["PATH", *([os.path.basename(self.clang)] if self.clang else []), *(["nvcc"] if self.nvcc else [])]

    def found(self, name: str) -> Iterator[CalledProgram]:
        """Yield what PATH finds, then what clang calls, and nvcc where the name is of NVIDIA."""
        yield CalledProgram("PATH", self._on_path(name))
        if self.clang:
            said = _output([self.clang, f"-print-prog-name={name}"]).strip()
            yield CalledProgram(os.path.basename(self.clang), said if os.path.dirname(said) else "")
        if self.nvcc and _is_nvidias(name):
            yield CalledProgram("nvcc", self._which(name, path=self._nvcc_path) or "")

    def _on_path(self, name: str) -> str:
        """Return the path of a program on PATH; a broken link counts as the program that it names."""
        found = self._which(name) or ""
        for folder in os.get_exec_path():
            path = os.path.join(folder, name)
            if path == found:
                break
            if is_command(path) and not os.path.exists(path):
                return path
        return found

    def _asked_nvcc(self) -> str:
        """Return the PATH that nvcc gives to what it calls: its profile puts folders of its own in front."""
        said = _output([self.nvcc or "", "--dryrun", "-c", "-x", "cu", os.devnull], of_stderr=True)
        lines = [line.removeprefix("#$ PATH=") for line in said.splitlines() if line.startswith("#$ PATH=")]
        return lines[-1] if lines else os.environ.get("PATH", "")


#: Names of clang in distributions that have none without a version: the newest first.
_CLANGS = [f"clang-{version}" for version in range(29, 17, -1)]


def _is_nvidias(name: str) -> bool:
    tool = find_stand_in(name)
    return tool is not None and TOOLS[tool[0]].startswith("nvidia.")


def _output(command: Sequence[str], *, of_stderr: bool = False) -> str:
    """Return what a program prints; nothing if it cannot be run."""
    import subprocess

    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr if of_stderr else done.stdout


#: columns of text if the width of the terminal is not known
_WIDTH = 100

#: outcome → its words
_DONE = {"made": "made", "changed": "led elsewhere before", "kept": "there already", "removed": ""}

#: state of a name → its word in a table; none for a name that is not found
_WORDS = {"fatpack": "fatpack", "original": "original", "broken": "broken", "": "-"}


class _ReportOnStop:
    """While files are changed: if the user stops it, a message says what was done."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt) and str(error):
            _say([f"fatpack: {printable(str(error))}"])


def install_and_report(folder: str, names: Sequence[str]) -> int:
    """Place stand-ins in a folder, and say how programs come to call them."""
    target = links.fatpack_program()
    with _ReportOnStop():
        placed = links.place_stand_ins(folder, names, target)
    what = "copies of" if os.name == "nt" else "links to"
    write_text([f"{_count(placed)} in {printable(folder)}: {what} {printable(target)}", *_listed(placed)], verbose=1)
    _say(_next_steps(folder, [os.path.basename(each.path) for each in placed]))
    return 0


def uninstall_and_report(folder: str, names: Sequence[str]) -> int:
    """Remove stand-ins from a folder; exit code 1 if there are none."""
    with _ReportOnStop():
        removed = links.remove_stand_ins(folder, names)
    if not removed:
        _say([f"no stand-ins in {printable(folder)}: nothing was removed"])
        return 1
    write_text([f"{_count(removed)} removed from {printable(folder)}", *_listed(removed)], verbose=1)
    return 0


def report_callers(names: Sequence[str], *, verbose: int = 0) -> int:
    """Tell which program each name means, and for whom; exit code 1 if one that is named is not fatpack on PATH.

    Without names, and unless it is ``verbose``, it lists the names of which some lead to fatpack.
    """

    for name in names:
        if find_stand_in(name) is None:
            raise UsageError(f"no stand-in for {name!r}", hint=name_hint(name))
    clients = ToolCallers()
    found = {name: list(clients.found(name)) for name in names or TOOLS}
    ours = [name for name, each in found.items() if each[0].is_fatpack]
    if not names:
        write_text(_headline(found, clients))
    if names or verbose:
        rows = [
            [name if number == 0 else "", *_row(one)] for name, each in found.items() for number, one in enumerate(each)
        ]
        write_text(align_columns(rows), verbose=1)
    else:
        write_text(_table(found, clients))
    return 1 if names and len(ours) < len(found) else 0


def _headline(found: dict[str, list[CalledProgram]], clients: ToolCallers) -> Iterator[str]:
    """Yield how many names lead to fatpack, for each that looks for them, and where the stand-ins are."""
    ours = [one for each in found.values() for one in each if one.is_fatpack]
    if not ours:
        yield f"of {len(found)} names, none leads to fatpack: not by {_joined(clients.names, 'or')}"
        return
    counts = [(sum(one.client == client for one in ours), client) for client in clients.names]
    said = [f"{client} finds fatpack for {count or 'none'}" for count, client in counts]
    yield f"of {len(found)} names, {_joined(said, 'and')}"
    for folder in dict.fromkeys(os.path.dirname(one.path) for one in ours):
        yield f"  in {printable(folder)}"


def _table(found: dict[str, list[CalledProgram]], clients: ToolCallers) -> Iterator[str]:
    """Yield which tool each caller now finds by the names of stand-ins; then what other callers find."""
    rows = [["name", *clients.names]]
    for name, each in found.items():
        if any(one.state in ("fatpack", "broken") for one in each):
            states = {one.client: _WORDS[one.state] for one in each}
            rows.append([name, *(states.get(client, "") for client in clients.names)])
    if len(rows) > 1:
        yield from align_columns(rows, indent="  ")
    others = len(found) - len(rows) + 1
    originals = sum(
        any(one.state == "original" for one in each) and not any(one.state in ("fatpack", "broken") for one in each)
        for each in found.values()
    )
    if others:
        what = "others: " if len(rows) > 1 else ""
        yield f"{what}originals are found for {originals}, nothing for {others - originals}; -v shows where"
    if len(rows) == 1:
        yield "fatpack tool --install stand-ins    makes them in a folder, and says how programs come to call them"
    if any(one.state == "broken" for each in found.values() for one in each):
        yield "broken: the link leads to a fatpack that is gone; fatpack tool --install mends it"


def _row(one: CalledProgram) -> list[str]:
    leads = f"{printable(one.path)} → {printable(one.leads_to)}" if one.leads_to else printable(one.path)
    return [one.client, _WORDS[one.state] if one.state else "nothing", leads]


def _next_steps(folder: str, names: Sequence[str]) -> Iterator[str]:
    """Yield what to type so that the stand-ins of a folder are called."""
    place = os.path.abspath(folder)
    tools = [tool[0] for name in names if (tool := find_stand_in(name.removesuffix(".exe")))]
    yield "now let programs call them:"
    rows = []
    if any(TOOLS[tool].startswith("llvm.") for tool in tools) or "fatbinary" in tools:
        rows.append(["clang, hipcc", f"clang -B {_quoted(place)} …"])
    if "fatbinary" in tools:
        rows += [["nvcc" * (not at), line] for at, line in enumerate(_nvcc_lines(place))]
    is_first = os.path.realpath(place) in map(os.path.realpath, os.get_exec_path()[:1])
    rows.append(["by PATH", "reached already: the folder is the first of PATH" if is_first else _path_line(place)])
    rows.append(["what is called", f"fatpack tool --which {names[0] if len(names) == 1 else ''}".rstrip()])
    yield from align_columns([[printable(cell) for cell in row] for row in rows], indent="  ")


#: Commands that make a link to nvcc in the folder of the stand-ins: nvcc reads its profile in the folder in which it
#: was called. The page about stand-ins has the same lines.
NVCC = (
    r"cuda=$(nvcc --dryrun -c -x cu /dev/null 2>&1 | sed -n 's|^#$ _HERE_=\(.*\)/bin$|\1|p')",
    'ln -s "$cuda/bin/nvcc" "$cuda/bin/crt" {place}/',
    "sed -e \"s|^TOP .*|TOP = $cuda|\" -e 's|^PATH .*|PATH += $(_HERE_):$(TOP)/nvvm/bin:$(TOP)/bin:|' \\",
    '    "$cuda/bin/nvcc.profile" > {place}/nvcc.profile',
)


def _nvcc_lines(place: str) -> Iterator[str]:
    """Yield how nvcc comes to call the stand-ins of a folder: by a link to it in there, with a profile."""
    if os.name == "nt":
        yield "looks in its own folder first, and calls the original there"
        return
    yield f"looks in its own folder first: call it as {_quoted(f'{place}/nvcc')}, which these lines make:"
    yield from (line.replace("{place}", _quoted(place)) for line in NVCC)


def _path_line(place: str) -> str:
    """Return what puts a folder in front of PATH, as the user's shell has it."""
    if os.name == "nt":
        return f"set PATH={place};%PATH%"
    if os.path.basename(os.environ.get("SHELL", "")) == "fish":
        return f"fish_add_path --path {_quoted(place)}"
    return f"export PATH={_quoted(place)}:$PATH"


def _quoted(place: str) -> str:
    return f'"{place}"' if os.name == "nt" and " " in place else place if os.name == "nt" else shlex.quote(place)


def _listed(placed: Sequence[PlacedStandIn]) -> Iterator[str]:
    """Yield the names by what was done with them, wrapped."""
    from textwrap import wrap

    for done, words in _DONE.items():
        names = [printable(os.path.basename(each.path)) for each in placed if each.done == done]
        if names:
            margin = f"  {words}: " if words else "  "
            width = get_style().width or _WIDTH
            yield from wrap(
                " ".join(names), width, initial_indent=margin, subsequent_indent="    ", break_on_hyphens=False
            )


def _say(lines: Iterable[str]) -> None:
    sys.stdout.flush()
    sys.stderr.writelines(f"{line}\n" for line in lines)


def _count(placed: Sequence[PlacedStandIn]) -> str:
    return f"{len(placed)} stand-in{'' if len(placed) == 1 else 's'}"


def _joined(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
