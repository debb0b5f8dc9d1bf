"""The stand-in for nvprune next to the original of CUDA 12.4: messages, exit codes, and what is written, to the byte.

Files are made by hand and by nvcc. What the two differ in on purpose is left out here; ``docs/tools/nvprune.md`` lists
it, and ``test_nvprune.py`` tests it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import reference
from tests.builders import archive, fatbin
from tests.builders.elf import ALLOC, Elf
from tests.conftest import Ran

pytestmark = pytest.mark.reference

Fatpack = Callable[..., Ran]

#: architectures that the original knows
NUMBERS = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90)
ACCELERATED = 0x100011

#: What tells apart the help and the version of the two.
TALK = ("Usage  : ", "nvprune: ")


class Maker:
    """Makes files by hand."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def entry(self) -> bytes:
        sm = self.rng.choice(NUMBERS)
        flags = ACCELERATED if sm == 90 and self.rng.random() < 0.3 else 0x11
        identifier = self.rng.choice((b"", b"a.cu"))
        if self.rng.random() < 0.5:
            return fatbin.entry(fatbin.cubin(sm), sm=sm, flags=flags, identifier=identifier)
        return fatbin.entry(fatbin.ptx(target=f"sm_{sm}"), fatbin.PTX, sm=sm, flags=flags, identifier=identifier)

    def fatbins(self) -> bytes:
        count = self.rng.choice((1, 1, 2, 3))
        return b"".join(fatbin.fatbin(*(self.entry() for _ in range(self.rng.randint(0, 9)))) for _ in range(count))

    def object(self) -> bytes:
        elf = Elf()
        elf.add(".text", b"\xc3")
        names = ([".nv_fatbin"], ["__nv_relfatbin"], [".nv_fatbin"], [".other"])
        for name in self.rng.choice(names):
            elf.add(name, self.fatbins(), flags=ALLOC, align=8)
        elf.add(".data", b"data" * self.rng.randint(0, 9), align=8)
        return elf.build()

    def archive(self) -> bytes:
        names = [f"{number}.o/".encode() for number in range(self.rng.randint(0, 3))]
        return archive.GNU + b"".join(archive.member(name, self.object()) for name in names)


def neutral(text: str) -> str:
    return next((start for start in TALK if start in text), text)


class Both:
    """Runs both tools in one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> None:
        self.folder = folder
        self._fatpack = fatpack
        monkeypatch.chdir(folder)

    def agree(self, *arguments: str) -> bytes | None:
        """Compare what both do; return what they wrote to ``out``."""
        done = reference.run("nvprune", *arguments, cwd=self.folder, check=False)
        theirs = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        written = self._taken()
        ours = self._fatpack("tool", "nvprune", *arguments)
        assert neutral(ours.out) == neutral(theirs.out), arguments
        assert ours.err == theirs.err, arguments
        assert ours.code == theirs.code, arguments
        assert self._taken() == written, arguments
        return written

    def _taken(self) -> bytes | None:
        out = self.folder / "out"
        data = out.read_bytes() if out.exists() else None
        out.unlink(missing_ok=True)
        return data


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Both:
    return Both(tmp_path, monkeypatch, fatpack)


def _code(rng: random.Random) -> str:
    return f"{rng.choice(('sm', 'sm', 'compute'))}_{rng.choice(('90a', *map(str, NUMBERS)))}"


def _targets(rng: random.Random) -> Iterator[str]:
    """Yield options that say what stays."""
    if rng.random() < 0.4:
        yield from rng.choice(((f"-arch={_code(rng)}",), ("--arch", _code(rng))))
        return
    for _ in range(rng.choice((1, 1, 2))):
        codes = [_code(rng) for _ in range(rng.choice((1, 2, 3)))]
        values = (f"code={codes[0]}", f"arch=compute_80,code={codes[0]}", f"code=[{','.join(codes)}],arch=compute_80")
        values += (f'code="{",".join(codes)}"', f"code=[[{codes[0]}],{codes[-1]}]")
        yield from (rng.choice(("-gencode", "--generate-code")), rng.choice(values))


def _odd(rng: random.Random) -> Sequence[str]:
    odd = (["-h"], ["-V"], ["--bogus"], ["-v=1"], ["-optf", "none"], ["-arch"], ["-arch", "sm_80"], ["-o", "out"])
    odd += (["-gencode", "arch=compute_80"], ["-gencode", "bogus=1"], ["-gencode", "code=sm_80,code=sm_80"])
    odd += (["-gencode", "sm_80"], ["-gencode", "code=[sm_80"], ["-gencode", 'code="sm_80'], ["-gencode", ""])
    odd += (["-tool-name", "other"], ["-o", "none/out"], ["none"], ["-no-relocatable-elf=x"], ["-"], ["--"])
    return rng.choice(odd)


@pytest.mark.sweep(12)
@pytest.mark.parametrize("make", [Maker.object, Maker.archive], ids=lambda make: str(make.__name__))
@pytest.mark.parametrize("seed", range(16))
def test_what_is_asked_for_stays(both: Both, make: Callable[[Maker], bytes], seed: int) -> None:
    rng = random.Random(seed)
    (both.folder / "in").write_bytes(make(Maker(seed)))
    written = 0
    for _ in range(12):
        words = [*_targets(rng), *(["-no-relocatable-elf"] if rng.random() < 0.3 else [])]
        words += ["-v"] if rng.random() < 0.5 else []
        written += both.agree("in", *words, "-o", "out") is not None
    assert written


@pytest.mark.sweep(6)
@pytest.mark.parametrize("number", NUMBERS)
def test_what_may_run_stays_with_ipc(both: Both, number: int) -> None:
    (both.folder / "in").write_bytes(Maker(number).object())
    for code in (f"sm_{number}", f"compute_{number}"):
        if number != 90:  # of sm_90 the original leaves sm_90a out
            both.agree("in", f"-arch={code}", "-ipc", "-o=out")
            both.agree("in", "-gencode", f"arch=compute_{number},code={code}", "-ipc", "-v", "-o=out")
    assert both.agree("in", "-arch=sm_90a", "-ipc", "-o=out")


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(12))
def test_odd_command_lines_do_what_the_original_does(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    (both.folder / "in").write_bytes(Maker(seed).object())
    for _ in range(25):
        words = [*(_targets(rng) if rng.random() < 0.6 else ()), *_odd(rng), *(_odd(rng) if rng.random() < 0.3 else ())]
        words += rng.choice((["-o", "out"], ["-o=out"], []))
        paths = rng.choice((["in"], ["in"], ["in"], ["in", "in"], [], ["none"]))
        both.agree(*(words + paths if rng.random() < 0.5 else paths + words))


@pytest.mark.parametrize("text", ["-arch sm_80", '-gencode "code=[sm_80,sm_90]"\n-v', "-optf more", "", '"', "-h"])
def test_options_files_are_read_alike(both: Both, text: str) -> None:
    (both.folder / "in").write_bytes(Maker(1).object())
    (both.folder / "options").write_text(text)
    (both.folder / "more").write_text("-arch=compute_80")
    both.agree("-optf", "options", "in", "-o", "out")


def test_what_it_cannot_prune_ends_both(both: Both) -> None:
    (both.folder / "thin.a").write_bytes(b"!<thin>\n")
    (both.folder / "plain.o").write_bytes(Elf().build())
    for name in ("thin.a", "plain.o", "none"):
        both.agree(name, "-arch=sm_80", "-o", "out")


NVCC = ("-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
SOURCE = "__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(0); }\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", [("-c",), ("-dc",), ("-c", "-Xfatbin=-compress-all", "-g"), ("-lib",)], ids=" ".join)
def test_what_nvcc_makes_is_pruned_to_the_same_bytes(both: Both, how: Sequence[str]) -> None:
    (both.folder / "k.cu").write_text(SOURCE)
    reference.run("nvcc", *how, *NVCC, "k.cu", "-o", "in", cwd=both.folder)
    for words in (["-arch=sm_80"], ["-arch=compute_90"], ["-gencode", "code=[sm_90,compute_80]"], ["-arch=sm_75"]):
        for more in ([], ["-v"], ["-no-relocatable-elf"], ["-ipc"]):
            assert both.agree("in", *words, *more, "-o", "out")
