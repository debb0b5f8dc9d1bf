"""Limits can be raised by those who trust a file: every message says with which option, and the option does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.fatbin import cubin, entry, fatbin
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.command_line.shared_options import LIMITS

Fatpack = Callable[..., Ran]
SOURCES = sorted((Path(__file__).parents[2] / "src" / "fatpack").rglob("*.py"))
BUNDLE = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"


@pytest.fixture
def two_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bundles have two entries; the one of the tests has three."""
    monkeypatch.setattr(limits, "BUNDLE_ENTRIES", 2)


def test_every_limit_of_the_option_is_one() -> None:
    for name in LIMITS:
        assert getattr(limits, name.upper().replace("-", "_")) > 0


def test_every_limit_that_a_message_names_can_be_raised() -> None:
    named = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert "raise fatpack." not in text, f"{path}: a hint names a constant; use limits.advice()"
        for call in re.findall(r"limits\.advice\(([^)]*)\)", text):
            named |= set(re.findall(r'"([A-Z_]+)"', call))
    assert len(named) > 10
    assert {name.lower().replace("_", "-") for name in named} <= set(LIMITS)


@pytest.mark.usefixtures("two_entries")
@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_limit_is_raised_for_one_command(fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    ran = fatpack("inspect", BUNDLE)
    assert ran.code == 3
    assert "error FP1005" in ran.out
    assert "if you trust the file, use --limit bundle-entries=N" in ran.out
    if how == "option":
        ran = fatpack("inspect", BUNDLE, "--limit", "bundle-entries=1K", "--limit", "images=5")
    else:
        monkeypatch.setenv("FATPACK_LIMITS", "bundle-entries=3 images=5")
        ran = fatpack("inspect", BUNDLE)
    assert (ran.code, "3 images" in ran.out) == (0, True)
    assert (limits.BUNDLE_ENTRIES, limits.IMAGES) == (2, 100_000)


@pytest.mark.usefixtures("two_entries")
@pytest.mark.parametrize("command", ["extract", "convert", "remove"])
def test_commands_that_read_take_the_option(fatpack: Fatpack, folder: Path, command: str) -> None:
    options = ["--arch", "gfx90a", "-o", "x", *(["--format=bundle"] if command == "convert" else [])]
    assert fatpack(command, BUNDLE, *options).code != 0
    assert fatpack(command, BUNDLE, *options, "-f", "--limit", "bundle-entries=3").code == 0


@pytest.mark.usefixtures("two_entries")
def test_stand_ins_take_limits_from_the_environment(fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATPACK_LIMITS", "bundle-entries=3")
    ran = fatpack("tool", "clang-offload-bundler", "-list", "-type=bc", f"-input={BUNDLE}")
    assert (ran.code, len(ran.out.split())) == (0, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bogus=3", "no limit 'bogus'; limits are inflated, "),
        ("images", "limit images: a number is missing; as in images=100000 or images=8G"),
        ("images=-1", "'-1' is no number"),
        ("images=1X", "'1X' is no number"),
        ("images=" + "9" * 5000, "is no number"),
    ],
)
def test_what_is_no_limit_is_refused(
    fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    ran = fatpack("inspect", BUNDLE, "--limit", text)
    assert (ran.code, problem in ran.err) == (2, True)
    monkeypatch.setenv("FATPACK_LIMITS", text)
    ran = fatpack("inspect", BUNDLE)
    assert (ran.code, problem in ran.err) == (2, True)


@pytest.mark.parametrize(("number", "words"), [(1, "more than 1 entry;"), (2, "more than 2 entries;")])
def test_one_is_no_plural(fatpack: Fatpack, folder: Path, number: int, words: str) -> None:
    (folder / "x").write_bytes(fatbin(*[entry(cubin(80))] * 3))
    assert words in fatpack("inspect", "--limit", f"images={number}", "x").out
