"""Images of archives that clang-linker-wrapper 19 takes by symbols, over generated archives and link lines."""

from __future__ import annotations

import random
import re
import subprocess
import warnings
from pathlib import Path

import pytest
from tests.builders.link_lines import AMD, HOST
from tests.reference import llvm_tool, run

import fatpack
from fatpack.commands.link_inputs.input_files import LinkInputFiles
from fatpack.commands.link_inputs.link_line import parse_link_line
from fatpack.commands.link_inputs.plan import plan_link

pytestmark = pytest.mark.slow

NAMES = [f"f{number}" for number in range(7)]
HIDDEN, SEEN = (f'__attribute__((visibility("{kind}")))' for kind in ("hidden", "default"))
WEAK = "__attribute__((weak))"
#: targets of which no two are compatible, and of which some are
APART, TOGETHER = ("gfx90a", "gfx908"), ("gfx90a", "gfx90a:xnack+", "gfx908")
_COMMAND = re.compile(r' "[^"]*clang(?:-\d+)?" --no-default-config -o .*?--target=(\S+) -mcpu=(\S+) (.*)')


def _source(chance: random.Random) -> str:
    """Return functions that are visible, hidden or weak, and call others that may be nowhere."""
    defined = chance.sample(NAMES, chance.randint(1, 2))
    lines, calls = [], []
    for name in chance.sample(sorted(set(NAMES) - set(defined)), chance.randint(0, 2)):
        weak = chance.random() < 0.3
        lines.append(f"extern int {name}(void){f' {WEAK}' if weak else ''};")
        calls.append(f"({name} ? {name}() : 0)" if weak else f"{name}()")
    for name in defined:
        kind = chance.choice([SEEN, *[HIDDEN] * 5, f"{HIDDEN} {WEAK}", f"{SEEN} {WEAK}"])
        lines.append(f"{kind} int {name}(void) {{ return {' + '.join(['1', *calls])}; }}")
    return "\n".join(lines)


@pytest.fixture(scope="module", params=[APART, TOGETHER], ids=["apart", "together"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a folder of objects o0.o, … with an image each, and archives of some of them."""
    clang = llvm_tool("clang", "19")
    path, chance = tmp_path_factory.mktemp("needed"), random.Random(3)
    for number in range(24):
        source, image = path / f"o{number}.c", path / f"o{number}.image"
        source.write_text(_source(chance))
        form = ["-emit-llvm"] if number % 4 == 3 else []
        subprocess.run(
            [clang, f"--target={AMD}", "-mcpu=gfx90a", "-nogpulib", "-O1", *form, "-c", source, "-o", image], check=True
        )
        arch, offload = chance.choice([*request.param, APART[0]]), chance.choice(["openmp", "openmp", "none"])
        made = fatpack.ImageFile(image, triple=AMD, arch=arch, offload=offload)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it is compiled for does not matter
            fatpack.pack([made], path / f"o{number}.o", host=HOST, overwrite=True)
    for number in range(8):
        members = [path / f"o{chance.randrange(6, 24)}.o" for _ in range(chance.randint(1, 5))]
        run("llvm-ar", "rcs", path / f"l{number}.a", *dict.fromkeys(members))
    return path


def _line(chance: random.Random) -> list[str]:
    words = [f"o{chance.randrange(24)}.o" for _ in range(chance.randint(1, 2))]
    words += [f"l{number}.a" for number in chance.sample(range(8), chance.randint(1, 4))]
    chance.shuffle(words)
    if chance.random() < 0.2:
        words.insert(chance.randrange(len(words)), "--whole-archive")
    return words


#: of a group: its architecture, whether it has bitcode, and its objects
Link = tuple[str, bool, list[str]]


def _upstream(folder: Path, words: list[str]) -> list[Link] | None:
    """Return the groups of the tool, None where it fails: it links bitcode itself, in which names clash."""
    options = ["--dry-run", "--save-temps", "--linker-path=/bin/true", "--host-triple=x86_64-linux-gnu", "-o", "out"]
    done = subprocess.run(
        [llvm_tool("clang-linker-wrapper", "19"), *options, *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        assert "multiply defined" in done.stderr or "duplicate symbol" in done.stderr, (words, done.stderr)
        return None
    return [
        (arch, " out.amdgcn" in f" {rest}", re.findall(rf"(?<= )(o\d+|)-{AMD}", f" {rest}"))
        for _, arch, rest in _COMMAND.findall(done.stderr)
    ]


def _ours(words: list[str]) -> list[Link]:
    line = parse_link_line(words)
    with LinkInputFiles(line) as opened:
        made = plan_link(line, opened, "19")
        links = []
        for each in made.groups:
            stems = [
                Path(device.member or made.inputs[device.input].path).stem
                for device in each.devices
                if device.form != "bitcode"
            ]
            has_bitcode = any(device.form == "bitcode" for device in each.devices)
            links.append((each.target.arch, has_bitcode, stems))
        return links


def _is_alike(ours: Link, theirs: Link) -> bool:
    """Return whether groups are alike. The tool does not name what it copies for a group, and copies it repeatedly."""
    if ours[:2] != theirs[:2] or "" not in theirs[2]:
        return ours == theirs
    rest = iter(ours[2])
    return all(stem in rest for stem in filter(None, theirs[2])) and len(ours[2]) > sum(map(bool, theirs[2]))


def _agree(folder: Path, seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    chance = random.Random(seed)
    lazily = failed = 0
    for _ in range(count):
        words = _line(chance)
        expected = _upstream(folder, words)
        if expected is None:
            failed += 1
            continue
        found = _ours(words)
        assert len(found) == len(expected), words
        assert all(map(_is_alike, found, expected)), (words, found, expected)
        lazily += sum(len(files) for *_, files in found) > sum(word.endswith(".o") for word in words)
    assert failed < count // 2
    assert lazily > count // 5, "hardly any line needed a member of an archive: the comparison says nothing"


@pytest.mark.parametrize("seed", [1, 2])
def test_many_lines_give_the_groups_of_clang_linker_wrapper_19(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _agree(folder, seed, 80, monkeypatch)
