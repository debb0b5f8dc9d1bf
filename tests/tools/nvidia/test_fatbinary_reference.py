"""The stand-in for fatbinary next to the original, and in its place when clang compiles.

Messages are compared with those of CUDA 13.0, and everything else with any CUDA 13; what 13.0 does not know with 13.5.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran
from tests.formats.cuda_fatbin.test_reference import version
from tests.laws.rooms import FIXTURES

from fatpack.tools.versions import CUDA

pytestmark = pytest.mark.reference

Fatpack = Callable[..., Ran]
FILES = ("fatbinary.out", "fatbinary.c")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in (*(FIXTURES / "cuda" / "cubin").iterdir(), *(FIXTURES / "cuda" / "ptx").iterdir()):
        shutil.copy(path, tmp_path)
    Path("empty").write_bytes(b"")
    Path("more").write_text('-g "--ident=a b"')
    return tmp_path


class Outcome:
    """The output of a run of either tool, without the parts in which versions of the original differ."""

    def __init__(self, folder: Path, ran: Ran, is_13_0: bool) -> None:
        self.code = ran.code
        self.out = "help" if "Usage" in ran.out else "version" if ran.out else ""
        self.messages = ran.err if is_13_0 else ""
        self.files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
        if not is_13_0 and "fatbinary.c" in self.files:
            # Later versions undefine the macros behind the wrapper.
            more = b"#undef __CUDAFATBINDATASECTION\n#undef __CUDAFATBINSECTION\n"
            self.files["fatbinary.c"] = self.files["fatbinary.c"].replace(more, b"")
        for name in FILES:
            (folder / name).unlink(missing_ok=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.code} {self.out} {self.messages!r} { {name: len(data) for name, data in self.files.items()} }"


def _image(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.45:
        arch, name = rng.choice(
            [
                ("90", "k1.cuda13.0.sm_90.cubin"),
                ("80", "k1.cuda13.0.sm_80.cubin"),
                ("100f", "k1.cuda13.0.sm_100f.cubin"),
                ("52", "tiny.cuda11.2.sm_52.cubin"),
                ("100a", "tiny.cuda12.9.sm_100a.cubin"),
                ("", "k1.cuda13.0.sm_90.cubin"),
            ]
        )
        return f"kind=elf,sm={arch},file={name}"
    if kind < 0.8:
        arch = rng.choice(["80", "90a", "100f", "75", "999", "90b", " 90"])
        return f"kind=ptx,sm={arch},file=k1.compute_{rng.choice(['80', '90a', '100f'])}.ptx"
    words = ["kind=elf", "kind=ptx", "kind=foo", "sm=90", "file=k1.cuda13.0.sm_90.cubin", "file=none", "file=empty"]
    words += ["x=1", "kind", "", '"kind=elf"', "sm= 90 "]
    return ",".join(rng.choice(words) for _ in range(rng.randint(1, 4)))


def _option(rng: random.Random) -> list[str]:
    if rng.random() < 0.45:
        option, value = rng.choice(["--image3", "-image3"]), _image(rng)
        return [f"{option}={value}"] if rng.random() < 0.7 else [option, value]
    modes = ["default", "size", "balance", "none", "x"]
    choices = [
        ["-64"],
        ["-g"],
        ["-c"],
        ["--device-c"],
        ["-link"],
        ["--no-asm"],
        ["-compress-all"],
        ["--compress=false"],
    ]
    choices += [["--compress", "maybe"], [f"--compress-mode={rng.choice(modes)}"], ["-cicc-cmdline", "-ftz=1"]]
    choices += [[f"--ident={rng.choice(['a', 'long/name.cu', '', '12345678', 'a b'])}"], ["-ident", "u"]]
    choices += [[f"--cmdline={rng.choice(['', '-O1', '  --compile-only  '])}"], ["-fatbin", "fatbinary.c"]]
    choices += [["--embedded-fatbin=fatbinary.c"], ["-create", "fatbinary.out"], ["-h"], ["-V"], ["a"], ["--bogus"]]
    choices += [["-32"], ["-optf", rng.choice(["more", "none"])], ["--create"], ["-64=1"]]
    choices += [["--image2=" + rng.choice(["kind=index,file=more", "kind=elf,file=more", "sm=1", "kind=reloc"])]]
    choices += [["-elf", "k1.cuda13.0.sm_90.cubin"], ["-ptx", "k1.compute_80.ptx"], ["-arch", "90"]]
    choices += [["-host", rng.choice(["linux", "windows", "mac", "x"])], ["-dir", "."]]
    return rng.choice(choices)


@pytest.mark.parametrize("seed", range(8))
def test_generated_command_lines_do_what_the_original_does(folder: Path, fatpack: Fatpack, seed: int) -> None:
    is_13_0 = version() == (13, 0)
    rng = random.Random(seed)
    written = 0
    for _ in range(25):
        arguments = [] if rng.random() < 0.1 else ["--create=fatbinary.out"]
        for _ in range(rng.randint(0, 5)):
            arguments += _option(rng)
        done = reference.run("fatbinary", *arguments, cwd=folder, check=False)
        streams = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        theirs = Outcome(folder, Ran(done.returncode, *streams), is_13_0)
        ours = Outcome(folder, fatpack("tool", "fatbinary", *arguments), is_13_0)
        assert ours == theirs, arguments
        written += bool(theirs.files)
    assert written > 3


#: what only one of the versions knows, or does in another way
_OF_VERSIONS = [
    ["--concat"],
    ["--id-suffix=_a"],
    ["--tileir-cmdline=-O1"],
    ["--image3=kind=tileir,sm=100,file=tile"],
    ["--image2=kind=tileir,file=tile"],
    ["--image3=kind=elf,sm=90,file=magic"],
    ["--image3=kind=ptx,sm=80,file=none"],
]


@pytest.mark.parametrize("seed", range(8))
def test_the_version_that_is_named_is_followed_to_the_byte(folder: Path, fatpack: Fatpack, seed: int) -> None:
    """Every byte and message of either version: what it undefines, how fast it compresses, what it checks first."""
    followed = ".".join(map(str, version()))
    if followed not in CUDA.known:
        pytest.skip(f"no stand-in follows fatbinary {followed}")
    Path("tile").write_bytes(TILE_IR)
    Path("magic").write_bytes(b"\x7fELF")
    # With --compress-mode=speed 13.0 uses another version of LZ4 than Python.
    own = [*_OF_VERSIONS, *([["--compress-mode=speed"]] if followed != "13.0" else [])]
    rng = random.Random(seed)
    written = 0
    for _ in range(25):
        arguments = ["--create=fatbinary.out"]
        for _ in range(rng.randint(0, 5)):
            arguments += rng.choice(own) if rng.random() < 0.15 else _option(rng)
        if "--concat" in arguments and any("90b" in word or word.startswith(("-elf", "-ptx")) for word in arguments):
            continue  # the original crashes, or leaves the image out
        done = reference.run("fatbinary", *arguments, cwd=folder, check=False)
        theirs = _left_behind(folder, Ran(done.returncode, "", done.stderr.decode(errors="replace")))
        ours = _left_behind(folder, fatpack("tool", f"--as={followed}", "fatbinary", *arguments))
        assert ours == theirs, arguments
        written += bool(theirs[2])
    assert written > 3


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("options", [[], ["-no-asm"], ["-c", "-link"]])
def test_c_files_of_every_number_of_words_are_equal(
    folder: Path, fatpack: Fatpack, count: int, options: Sequence[str]
) -> None:
    Path("x.ptx").write_text(".version 7.1 " + "z" * (8 * count))
    arguments = ["--embedded-fatbin=fatbinary.c", "--compress=false", "--image3=kind=ptx,sm=80,file=x.ptx", *options]
    reference.run("fatbinary", *arguments, cwd=folder)
    theirs = Outcome(folder, Ran(0, "", ""), False)
    assert Outcome(folder, fatpack("tool", "fatbinary", *arguments), False) == theirs


TILE_IR = b"\x7fTileIR\0\x0d\x02\x01\x00\x05\x06" + bytes(range(50))
PTX, PTX_90A = (f"--image3=kind=ptx,sm={arch},file=k1.compute_{arch}.ptx" for arch in ("80", "90a"))
CUBIN, FINALIZABLE = (f"--image3=kind=elf,sm={arch},file=k1.cuda13.0.sm_{arch}.cubin" for arch in ("90", "100f"))
TILE, TILE_100F = "--image2=kind=tileir,file=tile", "--image3=kind=tileir,sm=100f,file=tile"


def _left_behind(folder: Path, ran: Ran) -> tuple[int, str, dict[str, bytes]]:
    """Return the exit code, the messages and the files to the last byte, which are removed."""
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    for name in files:
        (folder / name).unlink()
    return ran.code, ran.err, files


def _agree(folder: Path, fatpack: Fatpack, arguments: Sequence[str]) -> dict[str, bytes]:
    """Run both tools, and return the files that each wrote."""
    if version() < (13, 5):
        pytest.skip("these options are compared with fatbinary 13.5")
    arguments = ["--create=fatbinary.out", "--embedded-fatbin=fatbinary.c", *arguments]
    done = reference.run("fatbinary", *arguments, cwd=folder, check=False)
    theirs = _left_behind(folder, Ran(done.returncode, done.stdout.decode(), done.stderr.decode()))
    assert _left_behind(folder, fatpack("tool", "fatbinary", *arguments)) == theirs
    return theirs[2]


@pytest.mark.parametrize("images", [[PTX], [PTX, CUBIN, PTX_90A], [CUBIN, CUBIN, FINALIZABLE, TILE, FINALIZABLE]])
@pytest.mark.parametrize("options", [[], ["-g", "--ident=u"], ["-c", "--cmdline=-O1"], ["--compress-mode=size"]])
def test_groups_are_those_of_the_original(
    folder: Path, fatpack: Fatpack, images: Sequence[str], options: Sequence[str]
) -> None:
    Path("tile").write_bytes(TILE_IR)
    assert len(_agree(folder, fatpack, ["--concat", *images, *options])) == 2


@pytest.mark.parametrize("options", [[], ["-no-asm"], ["-c"], ["-c", "-link", "-no-asm"], ["-concat"]])
@pytest.mark.parametrize("suffix", ["_1f", "", 'a b%d"é', "x\udcff"])
def test_a_suffix_is_where_the_original_has_it(
    folder: Path, fatpack: Fatpack, suffix: str, options: Sequence[str]
) -> None:
    files = _agree(folder, fatpack, [f"--id-suffix={suffix}", PTX, PTX_90A, *options])
    assert f"fatbinData{suffix}".encode("utf-8", "surrogateescape") in files["fatbinary.c"]


@pytest.mark.parametrize(
    "image", [TILE, TILE_100F, *(TILE_100F.replace("100f", arch) for arch in ("", "00", "a", "9"))]
)
@pytest.mark.parametrize(
    "options", [[], ["--tileir-cmdline= -O3  ", "--cmdline=-O1", PTX], ["--compress=false", "-32"]]
)
def test_tile_ir_is_stored_as_by_the_original(
    folder: Path, fatpack: Fatpack, image: str, options: Sequence[str]
) -> None:
    Path("tile").write_bytes(TILE_IR)
    files = _agree(folder, fatpack, [image, *options])
    assert (b"-O3" in files["fatbinary.out"]) == ("--tileir-cmdline= -O3  " in options)


@pytest.mark.parametrize("arch", ["", " ", "a", "f", "0a", " a", "+a", "+", "+90a", "aa", " 90", "90 "])
def test_architectures_are_read_as_by_the_original(folder: Path, fatpack: Fatpack, arch: str) -> None:
    _agree(folder, fatpack, ["--id-suffix=x", f"--image3=kind=ptx,sm={arch},file=k1.compute_80.ptx"])
    _agree(folder, fatpack, ["--id-suffix=x", "-ptx=k1.compute_80.ptx", f"-arch={arch}"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-concat", "--compress=false"],
        ["-concat", "--compress-mode=none", "-32", "-64", "--image3=kind=foo"],
        ["-concat", "--compress-mode=x"],
        ["-concat=1"],
        ["-concat", "--image3=kind=elf,sm=90,file=empty"],
        ["-concat", "--image3=kind=elf,sm=90,file=k1.compute_80.ptx", "--image3=kind=foo"],
        ["-concat", "-elf=k1.compute_80.ptx"],
        ["-concat", "-elf=magic", "-arch=90"],
        ["-concat", "--image3=kind=ptx,sm=80,file=empty", "--image3=kind=elf,sm=90,file=magic"],
        ["-concat", "--image3=kind=elf,sm=90,file=magic", "--image2=kind=tileir,file=none"],
        ["-concat", "--image2=kind=index,file=empty", "--image3=kind=elf,sm=90,file=magic"],
        ["-concat", "--image3=kind=elf,sm=80,file=k1.cuda13.0.sm_90.cubin"],
        ["-concat", "--image3=kind=ptx,sm=80,file=empty"],
        ["-id-suffix"],
        ["--id-suffix=a", "--id-suffix=b"],
        ["--tileir-cmdline=a", "--tileir-cmdline=b"],
        ["--image2=kind=tileir,file=empty"],
        ["--image2=kind=tileir,file=k1.compute_80.ptx"],
        ["--image2=kind=tileir,file=short"],
        ["--image2=kind=tileir"],
        ["--image3=kind=tileir,file=tile"],
        ["--image3=kind=tileir,sm=x,file=tile"],
        ["--image3=kind=tileir,sm=100,file=none"],
    ],
)
def test_messages_about_later_options_are_the_originals(
    folder: Path, fatpack: Fatpack, arguments: Sequence[str]
) -> None:
    Path("tile").write_bytes(TILE_IR)
    Path("short").write_bytes(TILE_IR[:13])
    Path("magic").write_bytes(b"\x7fELF")
    _agree(folder, fatpack, arguments)


_LAUNCHER = """#!{python}
import sys

with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
sys.path[:] = {path!r}
from fatpack.main import main

sys.exit(main(["tool", *sys.argv]))
"""

_SOURCE = """
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__, void *);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__global__ void kernel(int *data) { *data = 1; }
"""


def _toolkit(folder: Path, *, original: bool) -> Path:
    """Make what clang takes for a CUDA toolkit; without the original, fatbinary writes down how it is called."""
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include" / "cuda.h").write_text("#define CUDA_VERSION 12080\n")
    (folder / "bin" / "ptxas").symlink_to(reference.tool("ptxas"))
    fatbinary = folder / "bin" / "fatbinary"
    if original:
        fatbinary.symlink_to(reference.tool("fatbinary"))
    else:
        fatbinary.write_text(_LAUNCHER.format(log=str(folder / "log"), python=sys.executable, path=sys.path))
        fatbinary.chmod(0o755)
    return folder


def test_clang_makes_the_same_object_with_the_stand_in(folder: Path) -> None:
    Path("x.cu").write_text(_SOURCE)
    always = ["-c", "-x", "cuda", "-nocudainc", "-nocudalib", "--no-cuda-version-check", "--no-offload-new-driver"]
    always += ["--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90", "x.cu", "-o", "x.o"]
    objects = []
    for name in ("theirs", "ours"):
        toolkit = _toolkit(folder / name, original=name == "theirs")
        reference.run("clang", *always, f"--cuda-path={toolkit}", cwd=folder)
        objects.append(Path("x.o").read_bytes())
    assert objects[0] == objects[1]
    assert (folder / "ours" / "log").read_text().count("--image3=") == 4
