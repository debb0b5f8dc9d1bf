"""The stand-in for cuobjdump next to the original: output, messages, exit codes and the files that are extracted.

Files are made by hand and by fatbinary and nvcc. What the two differ in on purpose is left out here;
``docs/tools/cuobjdump.md`` lists it, and ``test_cuobjdump.py`` tests it.
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
from tests.formats.cuda_fatbin.test_reference import version
from tests.laws.rooms import FIXTURES

pytestmark = pytest.mark.reference

Fatpack = Callable[..., Ran]

#: Cubins that give different names to what is in them; two with the same names overwrite each other in the original.
CUBINS = {
    name: next(FIXTURES.rglob(name))
    for name in (
        "k1.cuda13.0.sm_75.cubin",
        "k1.cuda13.0.sm_80.cubin",
        "k1.cuda13.0.sm_86.cubin",
        "k1.cuda13.0.sm_90a.cubin",
        "k1.cuda13.0.sm_100f.cubin",
        "k1.cuda13.0.sm_120a.cubin",
        "dev.cuda13.0.rdc.sm_90.cubin",
        "tiny.cuda11.2.sm_52.cubin",
        "tiny.cuda11.8.sm_80.cubin",
        "tiny.cuda12.4.sm_90a.cubin",
        "tiny.cuda12.9.sm_100a.cubin",
    )
}
PTX = sorted((FIXTURES / "cuda" / "ptx").iterdir())
IDENTIFIERS = ("", "", "a.cu", "dir/b.cu", "x y/z.cu", ".hidden", "a.b.c", "/abs/x.ptx", 'q"x', " lead", "..", "é.cu")
KINDS = (0, 3, 4, 0x10, fatbin.LTOIR, fatbin.INDEX, fatbin.RELOCATABLE_PTX, fatbin.TILE_IR, 0x200)
FLAGS = (0x11, 0x11, 0x10, 0x1, 0x21, 0x41, 0x31, 0x13, 0x100011, 0x200011, 0x300011)

#: What tells apart the help and the version of the two.
TALK = ("Usage  : ", "cuobjdump: ")


def sm_of(name: str) -> int:
    return int(name.rpartition("sm_")[2].removesuffix(".cubin").rstrip("af"))


class Maker:
    """Makes files by hand that no two images in a file share a name of."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cubins = list(CUBINS.values())
        self.rng.shuffle(self.cubins)
        self.count = 0

    def entry(self) -> bytes:
        rng = self.rng
        self.count += 1
        stem = rng.choice(IDENTIFIERS)
        folder, slash, name = stem.rpartition("/")
        identifier = f"{folder}{slash}{self.count}{name}".encode() if stem else b""
        flags, code = rng.choice(FLAGS), (rng.randint(0, 9), rng.randint(0, 9))
        kind = rng.choices((fatbin.ELF, fatbin.PTX, rng.choice(KINDS)), (5, 3, 1))[0]
        if kind in (fatbin.ELF, 0x10) and self.cubins:
            path = self.cubins.pop()
            image = path.read_bytes()
            return fatbin.entry(image, kind, sm=sm_of(path.name), flags=flags, identifier=identifier, code=code)
        kind = fatbin.PTX if kind in (fatbin.ELF, 0x10) else kind
        is_text = kind in (fatbin.PTX, fatbin.RELOCATABLE_PTX)
        image = rng.choice(PTX).read_bytes() + b"\0" if is_text else rng.randbytes(64)
        options, sm = rng.choice((b"", b"-O3 -v")), rng.choice((75, 80, 90, 103, 999))
        return fatbin.entry(image, kind, sm=sm, flags=flags, identifier=identifier, code=code, options=options)

    def fatbins(self) -> bytes:
        count = self.rng.choice((1, 1, 2))
        return b"".join(fatbin.fatbin(*(self.entry() for _ in range(self.rng.randint(0, 3)))) for _ in range(count))

    def object(self) -> bytes:
        elf = Elf()
        elf.add(".text", b"\xc3")
        names = self.rng.choice(([".nv_fatbin"], ["__nv_relfatbin"], ["__nv_relfatbin", ".nv_fatbin"], [".other"]))
        for name in names:
            elf.add(name, self.fatbins(), flags=ALLOC, align=8)
        return elf.build()

    def archive(self) -> bytes:
        names = [f"{number}.o/".encode() for number in range(self.rng.randint(0, 3))]
        return archive.GNU + b"".join(archive.member(name, self.object()) for name in names)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def neutral(text: str) -> str:
    return next((start for start in TALK if start in text), text)


class Both:
    """Runs both tools in empty folders."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> None:
        self.folder = folder
        self._fatpack = fatpack
        self._monkeypatch = monkeypatch

    def agree(self, *arguments: str) -> dict[str, bytes]:
        """Compare what both do; return the files that they wrote."""
        with self._in("theirs") as folder:
            done = reference.run("cuobjdump", *arguments, cwd=folder, check=False)
            streams = (stream.decode(errors="surrogateescape") for stream in (done.stdout, done.stderr))
            theirs, their_files = Ran(done.returncode, *streams), files_of(folder)
        with self._in("ours") as folder:
            ours, our_files = self._fatpack("tool", "cuobjdump", *arguments), files_of(folder)
        for stream in ("out", "err"):
            text = neutral(getattr(ours, stream)).replace("/ours", "/theirs")
            assert text == neutral(getattr(theirs, stream)), arguments
        assert ours.code == theirs.code, arguments
        assert our_files == their_files, arguments
        return our_files

    def _in(self, name: str) -> _Folder:
        return _Folder(self.folder / name, self._monkeypatch)


class _Folder:
    """An empty current directory, removed in the end."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._monkeypatch = path, monkeypatch

    def __enter__(self) -> Path:
        self._path.mkdir()
        self._monkeypatch.chdir(self._path)
        return self._path

    def __exit__(self, *_: object) -> None:
        self._monkeypatch.chdir(self._path.parent)
        for path in self._path.iterdir():
            path.unlink()
        self._path.rmdir()


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Both:
    return Both(tmp_path, monkeypatch, fatpack)


#: every list, every dump, everything extracted
ALL: Sequence[Sequence[str]] = (
    ("-lelf", "-lptx", "-ltext", "-all"),
    ("-ltext",),
    ("-ptx", "-symbols", "-res-usage", "-all"),
    ("-xelf", "all", "-xptx", "all", "-all"),
    ("-xtext", "all"),
)


def _words(rng: random.Random) -> Iterator[str]:
    """Yield an option, with its value."""
    flags = ("list-elf", "lelf", "list-ptx", "lptx", "list-text", "ltext", "all-fatbin", "all", "dump-ptx", "ptx")
    flags += ("dump-elf-symbols", "symbols", "dump-resource-usage", "res-usage", "sort-functions", "sort")
    names = ("all", "sm_80", "sm_9", "cubin", "1", "", "zzz", "all,sm_80", "a,b", '"a,b"', " all ", "scale", '"a')
    archs = ("sm_80", "sm_90", "sm_90a", "sm_100f", "sm_75", "sm_121a", "sm_103", "90", "", "compute_90", "sm_")
    functions = ("add_one", "_Z5scaleIfEvPT_S0_i", "add_one,_Z5scaleIfEvPT_S0_i", "none", "", "add")
    valued = {"extract-elf": names, "xelf": names, "extract-ptx": names, "xptx": names, "extract-text": names}
    valued |= {"gpu-architecture": archs, "arch": archs, "function": functions, "fun": functions, "xtext": names}
    odd = (["-h"], ["-V"], ["--bogus"], ["-lelf=1"], ["--extract-elf"], ["-optf", "none"], ["-"], ["--"], ["-list-elf"])
    kind = rng.random()
    if kind < 0.55:
        flag = rng.choice(flags)
        yield f"--{flag}" if "-" in flag and flag != "res-usage" else f"-{flag}"
    elif kind < 0.92:
        option = rng.choice(list(valued))
        value = rng.choice(valued[option])
        spelled = f"--{option}" if "-" in option or option == "function" else f"-{option}"
        yield from (f"{spelled}={value}",) if rng.random() < 0.5 else (spelled, value)
    elif kind < 0.96:
        yield from ("-findex", rng.choice(("0", "1", "-1", "x", "", "0x1")))
    else:
        yield from rng.choice(odd)


@pytest.mark.parametrize("seed", range(8))
def test_generated_command_lines_do_what_the_original_does(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    inputs = {"a.fatbin": Maker.fatbins, "b.o": Maker.object, "lib.c.so": Maker.object, "d.a": Maker.archive}
    for number, (name, make) in enumerate(inputs.items()):
        (both.folder / name).write_bytes(make(Maker(seed * 4 + number)))
    names = [*inputs, *inputs, rng.choice(list(CUBINS))]
    (both.folder / names[-1]).write_bytes(CUBINS[names[-1]].read_bytes())
    written = 0
    for _ in range(30):
        words = [word for _ in range(rng.randint(0, 3)) for word in _words(rng)]
        path = f"../{rng.choice(names)}"
        paths = rng.choice(([path],) * 12 + ([], [path, path], ["none"]))
        written += len(both.agree(*(words + paths if rng.random() < 0.5 else paths + words)))
    assert written


@pytest.mark.parametrize("seed", range(100, 116))
@pytest.mark.parametrize("make", [Maker.fatbins, Maker.object, Maker.archive], ids=lambda make: str(make.__name__))
def test_every_way_to_list_dump_and_extract_is_the_same(both: Both, make: Callable[[Maker], bytes], seed: int) -> None:
    (both.folder / "a.x").write_bytes(make(Maker(seed)))
    for options in ALL:
        both.agree(*options, "../a.x")


@pytest.mark.parametrize("name", CUBINS)
def test_cubins_are_dumped_alike(both: Both, name: str) -> None:
    (both.folder / name).write_bytes(CUBINS[name].read_bytes())
    for options in (*ALL, ("-res-usage", "-sort"), ("-arch", "sm_90a", "-lelf"), ("-arch=sm_80", "-symbols")):
        both.agree(*options, f"../{name}")


#: options of -sass that choose functions
CHOSEN = ("-fun add_one", "-fun nope,add_one -sort", "-fun _Z5scaleIfEvPT_S0_i,add_one -res-usage", "-findex 9")


@pytest.mark.sweep(16)
@pytest.mark.parametrize("options", ["", "-sort", "-symbols -res-usage -ptx", "-arch sm_90", "-lelf", *CHOSEN])
@pytest.mark.parametrize("name", [*list(CUBINS)[:6], "single.o", "v135_concat_tiny.fatbin"])
def test_code_is_disassembled_alike(both: Both, name: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVDISASM_PATH", str(Path(reference.tool("nvdisasm")).parent))
    (both.folder / name).write_bytes(next(FIXTURES.rglob(name)).read_bytes())
    both.agree("-sass", *options.split(), f"../{name}")


def test_every_symbol_is_one_for_findex(both: Both) -> None:
    name = "dev.cuda13.0.rdc.sm_90.cubin"
    (both.folder / name).write_bytes(CUBINS[name].read_bytes())
    for index in range(40):
        both.agree("-res-usage", "-findex", str(index), f"../{name}")


#: options of fatbinary
MODES = (
    "",
    "-compress=false",
    "-compress-all",
    "-compress-all -compress-mode=speed",
    "-compress-all -compress-mode=balance",
    "-compress-mode=size",
    "-c",
    "-g",
    "-ident=a/b.cu -cmdline=-O1",
    "-concat",
    "-concat -compress-all",
)


@pytest.mark.parametrize("options", MODES)
def test_what_fatbinary_writes_is_read_alike(both: Both, options: str) -> None:
    if "-concat" in options and version() < (13, 4):
        pytest.skip("fatbinary writes groups since 13.4")
    names = list(CUBINS)[1:9:2]
    images = [f"--image3=kind=elf,sm={name.split('sm_')[1][:-6]},file={CUBINS[name]}" for name in names]
    images += [f"--image3=kind=ptx,sm=90,file={PTX[0]}", f"--image3=kind=ptx,sm=100f,file={PTX[1]}"]
    if "-ident" in options:
        images = images[::2]
    reference.run("fatbinary", f"--create={both.folder / 'a.fatbin'}", *options.split(), *images)
    for more in (*ALL, ("-lelf", "-arch", "sm_90"), ("-xptx", "sm_9", "-xelf", "sm_8,sm_5")):
        both.agree(*more, "../a.fatbin")


@pytest.mark.parametrize(
    "text",
    [
        "-lelf ../a.fatbin",
        '"-lelf"\n-lptx\t../a.fatbin',
        "-xelf=all -arch sm_80 ../a.fatbin",
        "-optf ../more",
        "",
        '"',
        "-h",
    ],
)
def test_options_files_are_read_alike(both: Both, text: str) -> None:
    (both.folder / "a.fatbin").write_bytes(fatbin.fatbin(fatbin.entry(CUBINS["k1.cuda13.0.sm_80.cubin"].read_bytes())))
    (both.folder / "options").write_text(text)
    (both.folder / "more").write_text("--list-elf ../a.fatbin")
    both.agree("-optf", "../options")
    both.agree("--options-file=../options,../none", "-ltext")
    both.agree("--options-file", "../options", "../a.fatbin")


@pytest.mark.parametrize("path", ["", "none", "../none", "/none/x", "-", "--", "-x"])
def test_files_that_are_none(both: Both, path: str) -> None:
    both.agree("-lelf", path)


@pytest.mark.parametrize("name", ["noext", ".hid", "a.b.c", "libx.so.2", "-x.o", "é", 'q"', "a,b=c.fatbin", "x" * 200])
def test_names_of_files_are_split_alike(both: Both, name: str) -> None:
    (both.folder / name).write_bytes(fatbin.fatbin(fatbin.entry(CUBINS["k1.cuda13.0.sm_80.cubin"].read_bytes())))
    for options in ALL:
        both.agree(*options, f"../{name}")
    both.agree("-lelf", str(both.folder / name))


@pytest.mark.parametrize(
    "data", [b"", b"abc", bytes(15), bytes(100), fatbin.fatbin()[:12], b"!<arch>\n", b"text " * 50], ids=repr
)
def test_what_is_no_host_is_refused_alike(both: Both, data: bytes) -> None:
    (both.folder / "x").write_bytes(data)
    for options in ALL:
        both.agree(*options, "../x")


@pytest.mark.parametrize(
    "name", ["macho/clang-22-cuda-arm64.o", "macho/lld-22-cuda-x86_64.dylib", "universal/llvm-22-two.o"]
)
def test_nothing_is_found_in_mach_o(both: Both, name: str) -> None:
    (both.folder / "x").write_bytes((FIXTURES / name).read_bytes())
    for options in ALL:
        both.agree(*options, "../x")


def test_a_file_that_cannot_be_written_ends_both(both: Both) -> None:
    long = fatbin.entry(PTX[0].read_bytes() + b"\0", fatbin.PTX, identifier=b"x" * 300, options=b"")
    cubin = fatbin.entry(CUBINS["k1.cuda13.0.sm_80.cubin"].read_bytes(), identifier=b"y" * 300)
    short = fatbin.entry(PTX[0].read_bytes() + b"\0", fatbin.PTX, identifier=b"short", options=b"")
    (both.folder / "x").write_bytes(fatbin.fatbin(short, cubin, long))
    assert list(both.agree("-xelf=all", "-xptx=short", "../x")) == ["short.sm_80.ptx"]


#: what nvcc compiles for
CODE = ("-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90a,code=sm_90a")
LTO = ("-gencode=arch=compute_80,code=[sm_80,lto_80]", "-gencode=arch=compute_90,code=sm_90")

#: output → how nvcc makes it, the sources being in the folder
NVCC = {
    "single.o": ("-c", "-lineinfo", "-Xcompiler=-fPIC", *CODE, "single.cu"),
    "k1.o": ("-dc", "-Xfatbin=-compress-all", *CODE, "k1.cu"),
    "lto.o": ("-dc", *LTO, "main.cu"),
    "dlink.o": ("-dlink", *CODE, "k1.o"),
    "lib.a": ("-lib", "k1.o", "single.o", "dlink.o", "lto.o"),
    "libsingle.so": ("-shared", "-cudart=none", "single.o"),
}


@pytest.mark.slow
def test_what_nvcc_makes_is_read_alike(both: Both) -> None:
    for name in ("single.cu", "k1.cu", "main.cu"):
        (both.folder / name).write_bytes((FIXTURES / "cuda" / "src" / name).read_bytes())
    for name, arguments in NVCC.items():
        reference.run("nvcc", *arguments, "-o", name, cwd=both.folder)
        for options in (*ALL, ("-lelf",), ("-arch=sm_80", "-lelf", "-lptx"), ("-ptx", "-arch", "sm_90a")):
            if name != "lib.a" or "-xtext" not in options:  # functions of several members have one name
                both.agree(*options, f"../{name}")
