"""``fatpack help``, groups and examples: what people read who do not know a command yet."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from fatpack.command_line.command import ELSEWHERE, FormatOption, OptionOnPage, SharedOption
from fatpack.command_line.examples import EXAMPLES
from fatpack.command_line.shared_options import LIMITS
from fatpack.commands import COMMANDS, GROUPS, MAIN, SYNONYMS, load_command
from fatpack.main.completion import LINES, SCRIPTS

Fatpack = Callable[..., Ran]
FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_help_is_what_the_option_prints(fatpack: Fatpack) -> None:
    assert fatpack("help").out == fatpack("--help").out == fatpack("-h").out
    for name in COMMANDS:
        if name != "tool":
            assert fatpack("help", name).out == fatpack(name, "--help").out


def test_the_overview_is_one_screen(fatpack: Fatpack) -> None:
    lines = fatpack("--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    start = lines.index("Commands:") + 1
    assert [line.split()[0] for line in lines[start : start + len(MAIN)]] == list(MAIN)
    assert {"fatpack help commands", "fatpack help options"} <= {line[2:24].strip() for line in lines}


def test_a_page_has_every_command_in_its_group(fatpack: Fatpack) -> None:
    lines = fatpack("help", "commands").out.splitlines()
    starts = [lines.index(f"{title}:") for title in GROUPS]
    assert starts == sorted(starts)
    for (title, names), start, end in zip(GROUPS.items(), starts, [*starts[1:], len(lines)], strict=True):
        shown = [line.split()[0] for line in lines[start + 1 : end] if line[:3].strip()]
        assert shown == list(names), title
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(COMMANDS) + 2 * len(GROUPS) - 1, "a command takes more than its line"


def test_the_page_of_shared_options_names_the_commands_with_a_cache(fatpack: Fatpack) -> None:
    """``doctor`` and others read everything anew each time, and do not know ``--no-cache``."""
    have = sorted(
        name for name in COMMANDS if any("--no-cache" in option.opts for option in load_command(name).options)
    )
    assert have == ["check", "diff", "explain", "inspect", "report"]
    said = " ".join(fatpack("help", "options").out.split())
    assert f"{', '.join(have[:-1])} and {have[-1]} left in the folder of FATPACK_CACHE." in said


@pytest.mark.parametrize("kind", [SharedOption, FormatOption])
def test_shared_options_are_explained_in_one_place(kind: type[OptionOnPage], fatpack: Fatpack) -> None:
    page = fatpack("help", kind.page).out
    for name in COMMANDS:
        shown = fatpack("help", name).out
        for option in load_command(name).options:
            if not isinstance(option, kind):
                continue
            spelling = max(option.opts, key=len)
            assert f"  {spelling}" in page or f", {spelling}" in page
            own, _, named = shown.partition(f"{kind.title}, see 'fatpack help {kind.page}':\n")
            assert spelling in named.split(), (name, spelling)
            assert option.help is None or " ".join(option.help.split()) not in " ".join(own.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((word, "inspect") for word in ("info", "ls", "dump")),
        ("verify", "doctor"),
        *((word, "slim") for word in ("strip", "shrink")),
        *((word, "pack") for word in ("merge", "link")),
    ],
)
def test_words_of_other_tools_lead_to_commands(typed: str, meant: str, fatpack: Fatpack) -> None:
    ran = fatpack(typed, "x")
    assert (ran.code, ran.out) == (2, "")
    assert f"no command {typed!r}; did you mean {meant}?" in ran.err


def test_synonyms_are_no_commands() -> None:
    assert not SYNONYMS.keys() & COMMANDS.keys()
    assert set(SYNONYMS.values()) <= COMMANDS.keys()


def test_help_lists_the_limits_with_their_numbers(fatpack: Fatpack) -> None:
    shown = fatpack("help", "limits")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split() for line in shown.out.splitlines()]
    assert [row[0] for row in rows[4:]] == list(LIMITS)
    assert ["nesting", "8", "levels"] in [row[:3] for row in rows]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_sends_to_a_page_that_is_not_installed(name: str, fatpack: Fatpack) -> None:
    assert "docs/" not in fatpack("help", name).out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_come_before_options(name: str, fatpack: Fatpack) -> None:
    shown = fatpack("help", name).out.partition("\nExamples:\n")[2].partition("\n\nOptions:\n")[0].splitlines()
    assert shown[::2] == [f"  fatpack {words}" for words, _ in EXAMPLES[name]]


def test_a_stand_in_tells_of_itself(fatpack: Fatpack) -> None:
    assert fatpack("help", "tool", "llvm-offload-binary").out == fatpack("tool", "llvm-offload-binary", "--help").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inspct"], "no command 'inspct'; did you mean inspect?"),
        (["zzz"], "no command 'zzz'; fatpack help commands lists all commands"),
        (["inspect", "pack"], "2 names given, one was expected; fatpack help inspect"),
    ],
)
def test_what_is_no_command_is_one_line(words: list[str], said: str, fatpack: Fatpack) -> None:
    ran = fatpack("help", *words)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert said in ran.err


def test_a_file_in_place_of_a_command_gets_a_hint_to_inspect(folder: Path, fatpack: Fatpack) -> None:
    (folder / "my lib.so").write_bytes(b"")
    for words in (["my lib.so"], ["help", "my lib.so"]):
        ran = fatpack(*words)
        assert ran.code == 2
        assert "no command 'my lib.so'; fatpack inspect 'my lib.so' shows what is in it" in ran.err
    assert "fatpack --version prints it" in fatpack("version").err


def test_examples_that_need_one_file_run(folder: Path, fatpack: Fatpack) -> None:
    (folder / "libx.so").write_bytes((FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes())
    ran = 0
    for name in ("inspect", "targets", "help"):
        for words, _ in EXAMPLES[name]:
            if ".whl" not in words:
                assert fatpack(*shlex.split(words)).code == 0, words
                ran += 1
    assert ran > 3


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("convert", "x", "--to=bundle"), "--format"),
        (("extract", "x", "--outdir", "d"), "--directory"),
        (("pack", "--output-dir", "d"), "--output"),
        (("extract", "x", "--gpu-architecture=sm_80"), "--arch"),
        (("slim", "x", "--target", "sm_80"), "--for"),
        (("slim", "x", "--arch", "sm_80"), "--for"),
        (("slim", "x", "--device", "sm_80"), "--for"),
        (("slim", "x", "--devices", "sm_80"), "--for"),
        (("slim", "x", "--gpu", "sm_80"), "--for"),
        (("explain", "x", "--gpu", "sm_80"), "--device"),
    ],
    ids=" ".join,
)
def test_options_of_other_tools_suggest_the_equivalent(fatpack: Fatpack, words: tuple[str, ...], meant: str) -> None:
    ran = fatpack(*words)
    option = next(word for word in words if word.startswith("--")).partition("=")[0]
    assert ran.code == 2
    assert f"'{option}'" in ran.err
    assert f"Did you mean '{meant}'?" in ran.err


def test_options_of_other_tools_are_unknown() -> None:
    for name in COMMANDS:
        spellings = {spelling for option in load_command(name).options for spelling in option.opts}
        assert not {word for word in ELSEWHERE if word in spellings}, name


def test_completion_without_a_shell_says_what_to_type(fatpack: Fatpack) -> None:
    ran = fatpack("completion")
    assert (ran.code, ran.out) == (2, "")
    documented = (FIXTURES.parents[1] / "docs" / "cli.md").read_text(encoding="utf-8").replace("\\|", "|")
    assert LINES.keys() == SCRIPTS.keys()
    for shell, (file, line) in LINES.items():
        assert line in documented
        assert f"\n  {shell:<5} {file:<27} {line}\n" in ran.err
    assert "2 shells named, one was expected; fatpack completion zsh" in fatpack("completion", "zsh", "bash").err


def test_many_options_are_under_headings(fatpack: Fatpack) -> None:
    page = fatpack("help", "slim", "all").out
    headings = [line for line in page.splitlines() if line[-1:] == ":" and line[0] != " "]
    assert headings[:3] == ["Examples:", "Options:", "Libraries and containers:"]
    assert page.index("Result:") < page.index("Proof:") < page.index("--certificate FILE")


@pytest.mark.parametrize("name", [name for name in COMMANDS if load_command(name).further])
def test_further_options_are_named_in_the_help_and_explained_in_the_whole_help(name: str, fatpack: Fatpack) -> None:
    shown, whole = fatpack("help", name).out, fatpack("help", name, "all").out
    _, _, named = shown.partition(f"More options, see 'fatpack help {name} all':\n")
    heading, further = "", 0
    for option in load_command(name).options:
        heading = load_command(name).headings.get(option.name or "", heading)
        if heading in load_command(name).further and not isinstance(option, OptionOnPage):
            further += 1
            assert max(option.opts, key=len) in named.split()
            assert " ".join((option.help or "").split()) not in " ".join(shown.split())
            assert " ".join((option.help or "").split()) in " ".join(whole.split())
    assert further
