"""Long work says how far it is: on a terminal alone, in one line that is gone before anything else is written."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

import pytest
from tests.command_line.test_terminal import on_terminal, piped

from fatpack.command_line import messages
from fatpack.command_line.messages import CopyProgress, StatusLine, WaitStatus, print_stderr

FIXTURES = Path(__file__).parents[1] / "fixtures"
FAT = str(FIXTURES / "elf" / "clang-22-hip.o")

#: Work that takes as long as it takes until the line was seen, which is at once.
SLOW = """
import atexit, sys, time
from fatpack.command_line import messages
from fatpack.commands.inspect import run
from fatpack.main import main
messages.StatusLine.PATIENCE = 0.01
seen = []
put = messages.StatusLine.show
messages.StatusLine.show = lambda line, text: (seen.append(text), put(line, text))
record = run.FileInspection.record
def slow(*arguments, **more):
    end = time.monotonic() + {limit}
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    return record(*arguments, **more)
run.FileInspection.record = slow
# The process of a command ends without its caller; what is registered for the end is done before.
atexit.register(lambda: print("seen" if seen else "nothing seen"))
sys.exit(main())
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal that is stderr now, without a clock of its own; a second passes with each look at the time."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(messages, "_set_clock", lambda seconds, handler: True)
    now = iter(range(1_000_000))
    monkeypatch.setattr(messages.time, "monotonic", lambda: float(next(now)))
    return stream


@pytest.mark.parametrize("arguments", [["inspect", FAT], ["inspect", "--by", "arch", FAT]], ids=["plain", "by"])
def test_a_long_command_shows_its_time_and_leaves_nothing(arguments: list[str]) -> None:
    shown = on_terminal(*arguments, program=SLOW.format(limit=60), NO_COLOR="1")
    line, *rest = shown.split("\r\x1b[K")
    assert line.startswith("\rinspect: 0 s")
    assert "".join(rest) == piped(*arguments) + "seen\n"


def test_nothing_is_shown_without_a_terminal() -> None:
    text = piped("inspect", FAT, program=SLOW.format(limit=0.3))
    assert text == piped("inspect", FAT) + "nothing seen\n"


def test_the_innermost_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with WaitStatus("convert"):
        messages._tick()
        meter = CopyProgress(200, "writing x")
        meter(50)
        messages._tick()
        meter.finish()
        messages._tick()
    states = [text.removesuffix("\x1b[K") for text in terminal.getvalue().split("\r") if text != "\x1b[K"]
    assert [state.split(",")[0].split(":")[0] for state in states if state] == [
        "convert",
        "writing x  25 %",
        "writing x  25 %",
        "convert",
    ]
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert StatusLine._watched == []


def test_a_message_finds_the_line_gone_and_none_comes_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with WaitStatus("slim"):
        messages._tick()
        monkeypatch.setattr(messages, "printable", lambda text: (messages._tick(), text)[1])
        print_stderr("fatpack: note: x")
    assert "\r\x1b[Kfatpack: note: x\n" in terminal.getvalue()
    assert "slim" not in terminal.getvalue().partition("note: x")[2]


def test_half_a_line_of_output_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, stdout = terminal_of(monkeypatch), Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    with WaitStatus("inspect"):
        sys.stdout.write("half ")
        before = terminal.getvalue()
        messages._tick()
        assert terminal.getvalue() == before
        sys.stdout.writelines(["a ", "line\n"])
        messages._tick()
        messages._tick()
        assert "inspect: " in terminal.getvalue()
    assert sys.stdout is stdout
    assert stdout.getvalue() == "half a line\n"


def test_quiet_commands_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with WaitStatus("convert", quiet=True):
        messages._tick()
    assert terminal.getvalue() == ""


def test_the_clock_of_a_program_that_calls_us_is_left_alone() -> None:
    handler = lambda *_: None  # noqa: E731
    before = signal.signal(signal.SIGALRM, handler)
    try:
        assert not messages._set_clock(10, messages._tick)
        assert signal.getsignal(signal.SIGALRM) is handler
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_clock_stops() -> None:
    assert messages._set_clock(100, messages._tick)
    assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(100)
    assert messages._set_clock(0, None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
