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
from fatpack.concurrency.progress import ReadProgress, ReadState, read_state

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
messages.RestTime.STEPS = 1
seen = []
put = messages.StatusLine.show
messages.StatusLine.show = lambda line, text: (seen.append(text), put(line, text))
def slowly(function):
    def slow(progress, count):
        function(progress, count)
        end = time.monotonic() + {limit}
        while " left" not in "".join(seen) and time.monotonic() < end:
            time.sleep(0.01)
    return slow
ReadProgress.reach = slowly(ReadProgress.reach)
atexit.register(lambda: print("seen" if seen else "nothing seen"))
sys.exit(main())
"""


@pytest.fixture
def many(tmp_path: Path) -> str:
    """Return a file with many containers that cost the same."""
    recorded = min((FIXTURES / "cuda_fatbin" / "recorded").glob("v1*.fatbin"))
    (tmp_path / "many.fatbin").write_bytes(12 * recorded.read_bytes())
    return str(tmp_path / "many.fatbin")


@pytest.mark.parametrize(
    "words", ["inspect --kernels", "inspect --rows csv", "doctor", "check --require sm_80", "report --markdown"]
)
def test_reading_says_how_many_bytes_of_how_many_and_how_long_the_rest_takes(words: str, many: str) -> None:
    arguments = [*words.split(), many]
    look = {"NO_COLOR": "1", "COLUMNS": "200"}
    shown = on_terminal(*arguments, program=READING.format(limit=2), **look)
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
    assert [rest.text(50 * second, 1000, float(second)) for second in range(3)] == ["", "", ""]  # too early
    assert [rest.text(50 * second, 1000, float(second)) for second in (3, 4)] == [
        ", about 17 s left",
        ", about 16 s left",
    ]
    # It takes half the time now.
    assert [rest.text(200 + 100 * second, 1000, 4.0 + second) for second in range(1, 7)][-1] == ", about 2 s left"
    assert rest.text(900, 1000, 10.0) == ", about 1 s left"
    assert rest.text(1000, 1000, 11.0) == ""  # all is done, and what follows is not known


def test_the_rest_is_less_while_it_is_waited_for_and_nothing_is_said_if_nothing_moves() -> None:
    rest = RestTime(0.0)
    said = [rest.text(100 * min(second, 4), 1000, float(second)) for second in range(11)]
    assert said[4:10] == [f", about {count} s left" for count in (6, 5, 4, 3, 2, 1)]
    assert said[10] == ""


def test_the_rest_is_never_more_than_by_the_rate_of_all_that_was_done() -> None:
    rest = RestTime(0.0)
    assert rest.text(0, 1000, 0.0) == rest.text(800, 1000, 1.0) == ""
    assert [rest.text(800 + second, 1000, 1.0 + second) for second in range(1, 20)][-1] == ", about 4 s left"


def test_the_rest_is_not_known_before_a_twentieth_is_done_in_some_steps() -> None:
    rest = RestTime(0.0)
    said = [rest.text(10 * second, 1000, float(second)) for second in range(7)]
    assert [bool(text) for text in said] == [False] * 5 + [True, True]
    rest = RestTime(0.0)
    assert not any(rest.text(400 * (second // 4), 1000, float(second)) for second in range(11))


def test_what_was_done_before_the_rest_is_even_says_nothing_of_it() -> None:
    rest = RestTime(0.0)
    assert not any(rest.text(second, 1000, float(second), is_even=False) for second in range(100))
    said = [rest.text(100 + 100 * second, 1000, 100.0 + second) for second in range(5)]
    assert said == ["", "", "", ", about 6 s left", ", about 5 s left"]


def test_other_work_begins_anew() -> None:
    rest = RestTime(0.0)
    for second in range(10):
        rest.text(100 * second, 1000, float(second))
    assert [rest.text(100 * second, 2000, 20.0 + second) for second in range(5)] == [
        "",
        "",
        "",
        ", about 17 s left",
        ", about 16 s left",
    ]


def test_a_file_is_read_by_the_costs_of_its_containers_and_the_rest_is_known_with_the_last_of_them() -> None:
    assert read_state() is None
    with ReadProgress(1000) as file:
        for cost in [5] * 19:
            file.expect(cost)
        assert read_state() == ReadState(0, 1000, is_even=False)
        file.expect(5)
        file.is_whole = True
        assert read_state() == ReadState(0, 1000, is_even=True)
        file.reach(5)
        file.reach(4)
        assert read_state() == ReadState(250, 1000, is_even=True)
    with ReadProgress(1000, [1] * 10 + [90]) as file:
        file.reach(10)
        assert read_state() == ReadState(100, 1000, is_even=False)
        file.reach(11)
        assert read_state() == ReadState(1000, 1000, is_even=True)
    with ReadProgress(None), ReadProgress(1000, [1, 2]):
        assert read_state() is None


def test_a_file_among_others_is_as_much_of_them_as_its_bytes() -> None:
    with ReadProgress(1000, [50, 800, 150]) as files:
        files.reach(1)
        assert read_state() == ReadState(50, 1000, is_even=False)
        with ReadProgress(800, [1] * 8) as file:
            file.reach(4)
            assert read_state() == ReadState(450, 1000, is_even=False)  # the last file is a large step
            file.reach(8)
        assert read_state() == ReadState(850, 1000, is_even=False)  # the rest of the file needs time, too
        files.reach(2)
        with ReadProgress(600, [1] * 8) as file:  # one of several in the last, which is a package
            file.reach(4)
            assert read_state() == ReadState(850, 1000, is_even=False)
    with ReadProgress(1000, [800, *[20] * 10]) as files, ReadProgress(800, [1] * 8):
        assert read_state() == ReadState(0, 1000, is_even=True)


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
