"""Commands on the pages can be typed: their options are there and take such values; stand-ins print what pages show."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.command_lines import parsed
from tests.laws.rooms import FIXTURES
from tests.reference import tool

import fatpack
from fatpack.commands import COMMANDS, load_command
from fatpack.main import main
from fatpack.tools import find_stand_in

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: What ends a command in a shell's line.
_ENDS = frozenset({"|", ">", ">>", "2>", "&&", "||", ";", "<"})


def _typed(text: str) -> list[list[str]]:
    """Return the words of each command of fatpack in the blocks of a page."""
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        prompt = r"(?:\$ )?" if language in ("console", "sh") else r"\$ "
        for line in re.findall(rf"^{prompt}fatpack (.*)$", block.replace("\\\n", " "), re.MULTILINE):
            words = shlex.split(line, comments=True)
            found.append(words[: next((at for at, word in enumerate(words) if word in _ENDS), len(words))])
    return found


def _mentioned(text: str) -> list[list[str]]:
    """Return the words of each command of fatpack in the sentences of a page."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [words.split() for words in re.findall(r"`fatpack ([^`]*)`", prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_typed(page: Path) -> None:
    for name, *rest in _typed(page.read_text(encoding="utf-8")):
        if name == "tool" and not rest[0].startswith("-"):
            assert find_stand_in(rest[0]), rest
        else:
            parsed(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_mentions_are_there(page: Path) -> None:
    for name, *rest in _mentioned(page.read_text(encoding="utf-8")):
        if name.isupper() or name.startswith("-"):
            assert name in ("COMMAND", "NAME", "--help", "--version"), name
            continue
        assert name in COMMANDS, name
        stand_in = name == "tool" and rest and not rest[0].startswith("-")
        spellings = {spelling for option in load_command(name).options for spelling in option.opts}
        options = {word.partition("=")[0] for word in rest if word.startswith("--") and not stand_in}
        assert options <= {*spellings, "--help"}, (name, rest)


def test_options_that_a_message_mentions_are_there() -> None:
    paths = [path for kind in ("py", "toml") for path in (ROOT / "src").rglob(f"*.{kind}")]
    found = [
        (name, option)
        for path in paths
        for name, rest in re.findall(r"\bfatpack ([a-z-]+)( [^`\n;,()\"|]*)", path.read_text(encoding="utf-8"))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest)
        if name in COMMANDS and name != "tool"
    ]
    assert len(found) > 50
    for name, option in found:
        spellings = {word for each in load_command(name).options for word in each.opts}
        assert option in {*spellings, "--help"}, (name, option)


def test_commands_are_found_wherever_they_stand() -> None:
    text = "`fatpack doctor x.whl`\n```console\n$ fatpack check x.so --require sm_90 > out  # why\nfailed\n```\n"
    assert _typed(text) == [["check", "x.so", "--require", "sm_90"]]
    assert _mentioned(text) == [["doctor", "x.whl"]]


def _shown(page: str) -> list[tuple[str, str]]:
    """Return the commands of the page of a stand-in, each with what it prints there."""
    text = (ROOT / "docs" / "tools" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [item for block in blocks for item in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


@pytest.fixture
def hip_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``libkernels.so`` with one bundle, which has code for gfx90a."""
    monkeypatch.chdir(tmp_path)
    with fatpack.open(FIXTURES / "elf" / "clang-22-hip.o") as file:
        (image,) = file.images(arch="gfx90a")
        code = image.data.tobytes()
    images = [
        fatpack.ImageFile(b"", id="host-x86_64-unknown-linux-gnu-"),
        fatpack.ImageFile(code, id="hipv4-amdgcn-amd-amdhsa--gfx90a"),
    ]
    fatpack.pack(images, "k.bundle", options=fatpack.BundleOptions(align=4096))
    Path("k.s").write_text('.section .hip_fatbin,"a",@progbits\n.p2align 12\n.incbin "k.bundle"\n')
    subprocess.run([tool("gcc"), "-shared", "-nostdlib", "-o", "libkernels.so", "k.s"], check=True)


@pytest.mark.reference
@pytest.mark.parametrize("page", ["roc-obj-ls", "roc-obj-extract", "roc-obj"])
def test_the_commands_of_rocm_do_what_their_pages_show(
    hip_library: None, capfd: pytest.CaptureFixture[str], page: str
) -> None:
    if page == "roc-obj-extract":
        assert main(["tool", "roc-obj-ls", "libkernels.so"]) == 0
        place = re.search(r"offset=(\d+)&size=4624", capfd.readouterr().out)
        assert place
    *folders, (line, printed) = _shown(page)
    for command_line, _ in folders:
        subprocess.run(command_line, shell=True, check=True)
    if page == "roc-obj-extract":
        line = line.replace("offset=8192", place[0].partition("&")[0])
    assert main(shlex.split(line)[1:]) == 0
    out = capfd.readouterr().out
    masked = [re.sub(r"offset=\d+", "offset=N", text) for text in (out, printed)]
    assert masked[0] == masked[1] or (page == "roc-obj" and not printed)
    if page == "roc-obj-extract":
        (path,) = Path("out").iterdir()
        assert path.stat().st_size == 4624
    if page == "roc-obj":
        assert [path for path in Path("out").iterdir() if path.suffix == ".count"]


@pytest.mark.reference
def test_nvprune_does_what_its_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"
    shutil.copy(source, "kernels.o")
    subprocess.run([tool("ar"), "rc", "libkernels.a", "kernels.o"], check=True)
    results = []
    for line, printed in _shown("nvprune"):
        assert not printed
        assert main(shlex.split(line)[1:]) == 0, line
        with fatpack.open(line.rpartition(" ")[2]) as file:
            results.append({(image.target.arch, image.form) for image in file.images()})
    with fatpack.open("kernels.o") as file:
        before = {(image.target.arch, image.form) for image in file.images()}
    assert [result < before for result in results] == [True, True], (before, results)
