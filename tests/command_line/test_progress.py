"""Long work says how far it is: on a terminal alone, in one line that is gone before anything else is written."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line.test_terminal import environment, on_terminal, piped

from fatpack.command_line import messages
from fatpack.command_line.messages import CopyProgress, RestTime, StatusLine, WaitStatus, print_stderr

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


#: Reading that waits after each container until a line with the rest time was seen.
READING = """
import atexit, sys, time
from fatpack.command_line import messages
from fatpack.concurrency.progress import ReadProgress
from fatpack.main import main
messages.StatusLine.PATIENCE = messages.StatusLine._PAUSE = messages.RestTime.PATIENCE = 0.01
seen = []
put = messages.StatusLine.show
messages.StatusLine.show = lambda line, text: (seen.append(text), put(line, text))
def slowly(function):
    def slow(progress, position):
        function(progress, position)
        end = time.monotonic() + {limit}
        while " left" not in "".join(seen) and time.monotonic() < end:
            time.sleep(0.01)
    return slow
ReadProgress.reach, ReadProgress.advance = slowly(ReadProgress.reach), slowly(ReadProgress.advance)
atexit.register(lambda: print("seen" if seen else "nothing seen"))
sys.exit(main())
"""


@pytest.fixture
def many(tmp_path: Path) -> str:
    """Return a file with many containers."""
    recorded = sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("v1*.fatbin"))
    (tmp_path / "many.fatbin").write_bytes(b"".join(path.read_bytes() for path in recorded))
    return str(tmp_path / "many.fatbin")


@pytest.mark.parametrize(
    "words", ["inspect --kernels", "inspect --rows csv", "doctor", "check --require sm_80", "report --markdown"]
)
def test_reading_says_how_many_bytes_of_how_many_and_how_long_the_rest_takes(words: str, many: str) -> None:
    arguments = [*words.split(), many]
    look = {"NO_COLOR": "1", "COLUMNS": "200"}
    shown = on_terminal(*arguments, program=READING.format(limit=30), **look)
    state = (
        r"\r[^\r]*: \d+ s, [\d.]+ k?B of [\d.]+ kB read, about \d+ s left|\r[^\r]*file, [^\r]* read, about \d+ s left"
    )
    assert re.search(state, shown), shown
    plain = [re.sub(r"\r[^\r\n]*\x1b\[K", "", text) for text in (shown, on_terminal(*arguments, **look))]
    assert plain[0] == plain[1] + "seen\n"


def test_of_several_files_the_rest_is_not_known(many: str) -> None:
    shown = on_terminal("inspect", "--kernels", many, many, program=READING.format(limit=0.1), NO_COLOR="1")
    assert "\rinspect: " in shown
    assert " read" not in shown


def test_json_for_another_program_comes_without_a_line(many: str) -> None:
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-c", READING.format(limit=0.05), "doctor", "--json", many]
    done = subprocess.run(arguments, env=environment(), stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    with pytest.raises(OSError):  # how Linux ends a terminal to which nobody has written
        os.read(ours, 1)
    os.close(ours)
    assert done.stdout.endswith("nothing seen\n")


def test_the_rest_is_by_the_rate_of_the_last_seconds() -> None:
    rest = RestTime(0.0)
    assert rest.text(100, 1000, 1.0) == ""  # too early
    assert rest.text(200, 1000, 2.0) == ", about 8 s left"
    assert [rest.text(200 + 10 * second, 1000, 2.0 + second) for second in range(1, 9)][-1] == ", about 1 min 12 s left"
    assert [rest.text(280, 1000, 10.0 + second) for second in range(1, 9)][-1] == ""  # nothing moves
    assert rest.text(10, 2000, 20.0) == ""  # other work
    assert rest.text(20, 2000, 21.0) == ", about 3 min 18 s left"


def test_a_copy_says_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    meter = CopyProgress(200, "writing x")
    for _ in range(4):
        meter(20)
    meter.finish()
    assert re.search(r"writing x  40 %, \d+ s, about \d+ s left", terminal.getvalue())


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
