"""The stand-in against llvm-offload-binary 22 and 23: same bytes, same messages, same exit codes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.effort import some
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run, tool

from fatpack.main import main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece

NAME = "llvm-offload-binary"
VERSIONS = ["22", "23"]
FOUR = FIXTURES / "offload_binary" / "llvm-22-four.bin"

#: Keys that collide in LLVM's hash map or share tails, the ones clang uses, and odd ones.
KEYS = ["triple", "arch", "feature", "symbols", "kind", "name", "language", "foo", "bar", "", "a", "rch", "march", "ch"]
KEYS += [
    "compile-opts",
    "link-opts",
    "version",
    "k" * 17,
    "k" * 33,
    "k" * 64,
    "k" * 65,
    "q" * 128,
    "z" * 200,
    "é",
    "x y",
    "link",
    "opts",
    "s",
]
VALUES = ["", "sm_80", "sm_90a", "gfx90a:xnack+", "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa", "+a", "arch", "=", "a=b"]
VALUES += ["é", "0", "80", "m_80", "x" * 40, "cuda", "hip", "openmp", "sycl", "bogus"]
FILES = [
    "a.o",
    "b.bc",
    "c.cubin",
    "d.fatbin",
    "e.s",
    "f.ptx",
    "g.spv",
    "noext",
    "h.O",
    "i.",
    ".hid",
    "j.tar.o",
    "bitcode.o",
    "empty.o",
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    source = random.Random(1)
    for name in FILES:
        (folder / name).write_bytes(source.randbytes(source.randrange(1, 40)))
    (folder / "bitcode.o").write_bytes(b"BC\xc0\xde" + bytes(9))
    (folder / "empty.o").write_bytes(b"")
    return folder


def random_image(source: random.Random, version: str = "22") -> str:
    """Return an option with random keys. LLVM 23 stores freed memory for a key that comes twice: it gets none."""
    parts = [f"file={source.choice(FILES)}"]
    keys = [source.choice(KEYS) for _ in range(source.randrange(9))]
    for key in keys if version == "22" else dict.fromkeys(keys):
        parts.append(source.choice([f"{key}={source.choice(VALUES)}", f"{key}={source.choice(VALUES)}", key]))
    source.shuffle(parts)
    return "--image=" + ",".join(parts)


def _same_bytes(count: int, seed: int, inputs: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.chdir(inputs)
    source, real = random.Random(seed), llvm_tool(NAME, version)
    for number in range(count):
        options = [random_image(source, version) for _ in range(source.randrange(1, 4))]
        subprocess.run([real, "-o", "theirs.bin", *options], check=True)
        assert main(["tool", f"--as={version}", NAME, "-o", "ours.bin", *options]) == 0
        assert Path("ours.bin").read_bytes() == Path("theirs.bin").read_bytes(), (number, options)


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
def test_packing_gives_the_same_bytes_as_llvm(inputs: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _same_bytes(len(some(range(150))), 20, inputs, monkeypatch, version)


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_packing_gives_the_same_bytes_over_thousands_of_command_lines(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    _same_bytes(3000, 21, inputs, monkeypatch, version)


@pytest.mark.reference
@pytest.mark.parametrize(("version", "container"), [("22", "1"), ("23", "2")])
def test_fatpack_pack_with_the_same_arguments_gives_the_same_bytes(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str, container: str
) -> None:
    monkeypatch.chdir(inputs)
    source, real = random.Random(22), llvm_tool(NAME, version)
    for _ in some(range(100)):
        options = [random_image(source, version) for _ in range(source.randrange(1, 4))]
        subprocess.run([real, "-o", "theirs.bin", *options], check=True)
        arguments = ["pack", f"--container-version={container}", "-f", "-q", "-o", "ours.bin", *options]
        assert main(arguments) in (0, 1)
        assert Path("ours.bin").read_bytes() == Path("theirs.bin").read_bytes(), options


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
def test_sixty_keys_in_one_image_grow_the_table_alike(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.chdir(inputs)
    option = "--image=file=a.o," + ",".join(f"key{number}=value{number}" for number in range(60))
    subprocess.run([llvm_tool(NAME, version), "-o", "theirs.bin", option], check=True)
    assert main(["tool", f"--as={version}", NAME, "-o", "ours.bin", option]) == 0
    assert Path("ours.bin").read_bytes() == Path("theirs.bin").read_bytes()


#: Command lines whose whole behaviour is compared: exit code, both streams, and every file left behind.
BEHAVIOURS = [
    [],
    ["--help-list"],
    ["--archive=foo"],
    ["--archive=true", "-o", "x", "--image=file=a.o"],
    ["-archive", "-archive", "-o", "x", "--image=file=a.o"],
    ["-o", "x", "-o", "y", "--image=file=a.o"],
    ["-o=x", "-image=file=a.o"],
    ["-ox", "--image=file=a.o"],
    ["-o", "x", "-image", "file=a.o"],
    ["--o", "x", "--image=file=a.o"],
    ["-o"],
    ["--image"],
    ["--image=", "-o", "x"],
    ["-o", "x", "--image=file=a.o", "--"],
    ["--", "pkg.bin"],
    ["-o", "x", "--image=arch=sm_80"],
    ["-o", "x", "--image=file=missing.o"],
    ["-o", "x", "--image=file=."],
    ["-o", "nowhere/x", "--image=file=a.o"],
    ["-o", "", "--image=file=a.o"],
    ["-o", "x"],
    ["-o", "x", "pkg.bin"],
    ["-o", "x", "--image=file=a.o", "pkg.bin"],
    ["-o", "x", "--image=file=a.o", "--foo"],
    ["-foo=1", "--imag=file=a.o"],
    ["one", "two"],
    ["@response"],
    ["@missing"],
    ["pkg.bin"],
    ["pkg.bin", "--image="],
    ["pkg.bin", "--image=kind=cuda"],
    ["pkg.bin", "--image=kind=cuda", "--image=kind=hip"],
    ["pkg.bin", "--image=kind=bogus"],
    ["pkg.bin", "--image=triple="],
    ["pkg.bin", "--image=arch=gfx90a"],
    ["pkg.bin", "--image=arch=gfx90a:xnack+"],
    ["pkg.bin", "--image=note=a,note=b"],
    ["pkg.bin", "--image=file=out"],
    ["pkg.bin", "--image=file=out,kind=hip"],
    ["pkg.bin", "--image=file=-,arch=sm_80"],
    ["pkg.bin", "--archive", "--image=file=-,arch=sm_80"],
    ["pkg.bin", "--image=file=p,file=q,kind=hip"],
    ["pkg.bin", "--image=file=nowhere/p,kind=hip"],
    ["pkg.bin", "--image=file=out,arch=none"],
    ["pkg.bin", "--archive"],
    ["pkg.bin", "--archive", "--image=kind=cuda"],
    ["pkg.bin", "--archive", "--image=file=lib.a,arch=sm_80"],
    ["pkg.bin", "--archive", "--image=file=lib.a,triple=nvptx64-nvidia-cuda"],
    ["./long-directory-name/pkg.bin", "--archive", "--image=file=lib.a,kind=cuda"],
    ["missing.bin", "--image="],
    [".", "--image="],
    ["a.o", "--image="],
    ["empty.o", "--image="],
    ["cut.bin", "--image="],
    ["zeros.bin", "--image="],
    ["rubbish.bin", "--image="],
    ["dotted.name.bin", "--image=arch=sm_70"],
    ["pkg.bin", "--image=member=pkg.bin,arch=sm_80"],
    ["./long-directory-name/pkg.bin", "--image=member=pkg.bin,arch=sm_80"],
    ["pkg.bin", "--image=member="],
    ["lib.a"],
    ["lib.a", "--image="],
    ["lib.a", "--image=member=two.o"],
    ["lib.a", "--image=member=lib.a"],
    ["lib.a", "--image=member=two.o,file=out"],
    ["lib.a", "--archive"],
    ["lib.a", "--archive", "--image=kind=cuda"],
    ["lib.a", "--archive", "--image=kind=nothing"],
    ["lib.a", "--archive", "--image=file=out.a"],
    ["lib.a", "--archive", "--image=file=out.a,member=two.o"],
    ["./long-directory-name/../lib.a", "--archive", "--image=file=out.a,kind=cuda"],
    ["outer.a", "--archive", "--image=file=out.a"],
    ["nested.bin"],
    ["nested.bin", "--image=triple=outer"],
    ["nested.bin", "--image=triple=outer,file=out"],
    ["nested.bin", "--archive", "--image=file=out.a"],
    ["bad-nested.bin"],
]


def _folder(path: Path, inputs: Path) -> Path:
    shutil.copytree(inputs, path)
    packed = FOUR.read_bytes()
    (path / "pkg.bin").write_bytes(packed)
    (path / "dotted.name.bin").write_bytes(packed)
    (path / "long-directory-name").mkdir()
    (path / "long-directory-name" / "pkg.bin").write_bytes(packed)
    (path / "cut.bin").write_bytes(packed[:-8])
    (path / "zeros.bin").write_bytes(packed + bytes(8))
    (path / "rubbish.bin").write_bytes(packed + b"rubbish!" * 10)
    from fatpack.binary import archive
    from fatpack.io.source import BytesSource

    hip = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"
    members = [(b"one.o", packed), (b"two.o", hip.read_bytes()), (b"no-code.o", b"text"), (b"odd name", packed)]
    inner = b"".join(_bytes(archive.build_archive([(name, BytesSource(data).view()) for name, data in members])))
    (path / "lib.a").write_bytes(inner)
    outer = archive.build_archive([(b"lib.a", BytesSource(inner).view()), (b"one.o", BytesSource(packed).view())])
    (path / "outer.a").write_bytes(b"".join(_bytes(outer)))
    _nest(path / "nested.bin", path / "pkg.bin")
    _nest(path / "bad-nested.bin", path / "cut.bin")
    (path / "response").write_text("-o \"x y\" --image='file=a.o',triple=t\n")
    return path


def _bytes(pieces: Sequence[Piece]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece if isinstance(piece, bytes) else bytes(piece) if isinstance(piece, bytearray) else piece.tobytes()


def _nest(output: Path, inner: Path) -> None:
    """Write an offload binary of version 1 whose first image is one itself."""
    images = [f"--image=file={inner},triple=outer,kind=openmp", f"--image=file={inner.parent / 'a.o'},triple=t"]
    assert main(["tool", NAME, "-o", str(output), *images]) == 0


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sweep(3)
@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", BEHAVIOURS, ids=lambda arguments: " ".join(arguments) or "nothing")
def test_the_whole_behaviour_is_that_of_llvm(
    version: str,
    arguments: list[str],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    theirs, ours = _folder(tmp_path / "theirs", inputs), _folder(tmp_path / "ours", inputs)
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *arguments], cwd=theirs, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    monkeypatch.chdir(ours)
    code = main(["tool", f"--as={version}", real, *arguments])
    streams = capfd.readouterr()
    assert (code, streams.err, streams.out) == (done.returncode, done.stderr, done.stdout)
    assert _files(ours) == _files(theirs)


#: response files, one for each rule of LLVM's tokenizer
RESPONSES = [
    b"-o out '--image=file=a.o,triple=t\\'",
    b'-o out "--image=file=a\\.o,triple=t"',
    b"-o out '--image=file=a\\.o,triple=t'",
    b'-o out "--image=file=a.o,triple=t x',
    b"-o out --image=file=a.o,triple='x\\'y'",
    b'-o out --image=file=a.o,triple="x\\ny"',
    b"-o out --image=file=a.o,triple=x\\",
    b'-o out "" --image=file=a.o,triple=t',
    b"-o out\\\n --image=file=a.o,triple=t",
    b"-o out --image=file=a.o,triple=t # comment",
    b"-o out --image=file=a.o,triple=\xff",
    b"-o\0out --image=file=a.o,triple=t",
    b"\xef\xbb\xbf-o out --image=file=a.o,triple=t",
    "\ufeff-o out --image=file=a.o,triple=t".encode("utf-16-le"),
    b"-o out @response",
    b"-o out @nowhere --image=file=a.o",
    b"",
]


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("at", range(len(RESPONSES)))
def test_response_files_are_split_as_llvm_does(
    version: str,
    at: int,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    theirs, ours = _folder(tmp_path / "theirs", inputs), _folder(tmp_path / "ours", inputs)
    for folder in (theirs, ours):
        (folder / "words").write_bytes(RESPONSES[at])
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, "@words"], cwd=theirs, capture_output=True)
    monkeypatch.chdir(ours)
    code = main(["tool", f"--as={version}", real, "@words"])
    streams = capfd.readouterr()
    assert (code, streams.err, streams.out) == (done.returncode, done.stderr.decode(), done.stdout.decode())
    assert _files(ours) == _files(theirs)


@pytest.mark.parametrize("name", ["llvm-offload-binary", "llvm-objdump", "llvm-readobj", "clang-offload-wrapper"])
def test_a_response_file_that_names_itself_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """LLVM says the same, and crashes."""
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("@two @two")
    Path("two").write_text("--offloading @one @one")
    assert main(["tool", name, "@one"]) == 1
    assert capsys.readouterr().err == f"{name}: recursive expansion of: '{tmp_path / 'one'}'\n"


def test_a_response_file_may_be_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.o").write_bytes(b"image")
    reading, writing = os.pipe()
    os.write(writing, b"-o out --image=file=a.o,triple=t")
    os.close(writing)
    assert main(["tool", NAME, f"@/dev/fd/{reading}"]) == 0
    os.close(reading)
    assert Path("out").exists()


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name",
    ["macho/llvm-22-offload-i386.o", "universal/llvm-22-two.o"],
)
def test_llvm_finds_nothing_in_mach_o(
    version: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real, arguments = llvm_tool(NAME, version), [str(FIXTURES / name), "--image=file=x"]
    done = subprocess.run([real, *arguments], cwd=tmp_path, capture_output=True, text=True)
    monkeypatch.chdir(tmp_path)
    code = main(["tool", f"--as={version}", real, *arguments])
    assert (code, capfd.readouterr().err) == (done.returncode, done.stderr)
    assert _files(tmp_path) == {}


@pytest.mark.reference
def test_the_old_name_warns_and_works(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(inputs)
    done = run("clang-offload-packager", "-o", "theirs.bin", "--image=file=a.o")
    assert main(["tool", "clang-offload-packager", "-o", "ours.bin", "--image=file=a.o"]) == 0
    assert capfd.readouterr().err == done.stderr.decode()
    assert Path("ours.bin").read_bytes() == Path("theirs.bin").read_bytes()


@pytest.mark.reference
@pytest.mark.parametrize(("version", "packed"), [("22", FOUR), ("23", FOUR), ("23", FOUR.with_name("fatpack-v2.bin"))])
def test_every_truncation_gets_llvms_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], version: str, packed: Path
) -> None:
    """Of a cut file LLVM reads what it checks; where both see the damage they use the same words."""
    monkeypatch.chdir(tmp_path)
    real, data = llvm_tool(NAME, version), packed.read_bytes()
    for size in some(range(0, len(data), 5)):
        Path("cut.bin").write_bytes(data[:size])
        done = subprocess.run([real, "cut.bin", "--image=arch=none"], capture_output=True, text=True)
        code = main(["tool", f"--as={version}", real, "cut.bin", "--image=arch=none"])
        assert (code, capfd.readouterr().err) == (done.returncode, done.stderr), size


@pytest.mark.reference
@pytest.mark.parametrize(
    ("version", "name", "newer"),
    [("22", "llvm-22-one", (2, 3)), ("23", "llvm-22-one", (2, 3)), ("23", "fatpack-v2", (1, 3))],
)
def test_damaged_headers_get_llvms_verdict_where_it_survives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    version: str,
    name: str,
    newer: tuple[int, int],
) -> None:
    monkeypatch.chdir(tmp_path)
    real, data = llvm_tool(NAME, version), (FIXTURES / "offload_binary" / f"{name}.bin").read_bytes()
    checked = 0
    for at in range(0x20 if name == "llvm-22-one" else 0x48):
        for value in some((0, 1, 0x7F, 0xFF)[at % 4 :] + (0, 1, 0x7F, 0xFF)[: at % 4]):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            Path("bad.bin").write_bytes(damaged)
            done = subprocess.run([real, "bad.bin", "--image=arch=none"], capture_output=True, text=True)
            if done.returncode < 0 or int.from_bytes(damaged[4:8], "little") in newer:
                continue  # LLVM crashed, or the version is another one, which has other fields or is unknown to it
            code = main(["tool", f"--as={version}", real, "bad.bin", "--image=arch=none"])
            error = capfd.readouterr().err
            if done.returncode:
                assert (code, error) == (done.returncode, done.stderr), (hex(at), value)
                checked += 1
            elif code:
                # LLVM did not look; we refuse in our own words, with an offset.
                assert "llvm-offload-binary at 0x" in error, (hex(at), value)
    assert checked > len(some(range(60)))


@pytest.mark.reference
def test_yaml2obj_writes_what_we_write(tmp_path: Path) -> None:
    """Arbitrary key order, kinds and flags: yaml2obj 22 stores them as given."""
    from fatpack.formats import offload_binary
    from fatpack.formats.offload_binary import OffloadBinaryEntry
    from fatpack.io.source import Span
    from fatpack.model import Container
    from fatpack.testing.helpers import join_pieces, make_image

    source = random.Random(5)
    for number in range(60):
        keys = source.sample([key for key in KEYS if key.isidentifier()], source.randrange(6))
        strings = tuple((key.encode(), source.choice(["", "v1", "sm_80", "80"]).encode()) for key in keys)
        entry = OffloadBinaryEntry(
            source.randrange(6), source.choice([0, 1, 2, 4, 8]), source.choice([0, 1, 0xDEAD]), strings
        )
        content = source.randbytes(source.randrange(20))
        text = "--- !Offload\nMembers:\n"
        text += f"  - ImageKind: {entry.image_kind:#06x}\n    OffloadKind: {entry.offload_kind:#06x}\n"
        text += f"    Flags: {entry.flags}\n"
        if strings:
            text += "    String:\n"
        for key, value in strings:
            text += f"      - Key: '{key.decode()}'\n        Value: '{value.decode()}'\n"
        text += f"    Content: '{content.hex()}'\n"
        (tmp_path / "x.yaml").write_text(text)
        done = run("yaml2obj", tmp_path / "x.yaml", "-o", tmp_path / "x.bin")
        assert not done.stderr
        ours = join_pieces(offload_binary.write(Container("", 1, (make_image(content, record=entry),), Span(0, 0))))
        assert ours == (tmp_path / "x.bin").read_bytes(), (number, text)


def test_stored_names_cannot_leave_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.o").write_bytes(b"x")
    assert main(["tool", NAME, "-o", "evil.bin", "--image=file=a.o,triple=/../../t,arch=../x"]) == 0
    assert main(["tool", NAME, "evil.bin", "--image="]) == 0
    assert sorted(os.listdir()) == ["a.o", "evil-_.._.._t-.._x.0.o", "evil.bin"]


def test_versions_2_and_3_are_extracted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("fatpack-v2", "fatpack-v3", "fatpack-v3-zstd"):
        assert main(["tool", NAME, str(FIXTURES / "offload_binary" / f"{name}.bin"), "--image=arch=sm_80"]) == 0
        assert Path(f"{name}-nvptx64-nvidia-cuda-sm_80.0.cubin").read_bytes() == b"worldworld"


@pytest.mark.reference
def test_an_archive_of_images_has_the_table_of_symbols_that_llvm_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cubins = sorted((FIXTURES / "cuda" / "cubin").glob("*.cubin"))[:3]
    files = [*cubins, FIXTURES / "bitcode" / "clang-22.bc", FIXTURES / "coff" / "clang-22-x86_64.obj", __file__]
    run(NAME, "-o", "pkg.bin", *(f"--image=file={path},triple=t" for path in files))
    run(NAME, "pkg.bin", "--archive", "--image=file=theirs.a")
    assert main(["tool", NAME, "pkg.bin", "--archive", "--image=file=ours.a"]) == 0
    assert Path("ours.a").read_bytes() == Path("theirs.a").read_bytes()
    assert b"add_one in pkg.bin" in run("llvm-nm", "--print-armap", "ours.a", check=False).stdout


@pytest.mark.reference
def test_an_image_whose_symbols_are_damaged_gives_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.o").write_bytes((FIXTURES / "coff" / "clang-22-x86_64.obj").read_bytes()[:60])
    run(NAME, "-o", "pkg.bin", "--image=file=cut.o,triple=t")
    arguments = ["pkg.bin", "--archive", "--image=file=x.a"]
    assert subprocess.run([tool(NAME), *arguments], check=False).returncode == 1
    assert main(["tool", NAME, *arguments]) == 1
    assert capfd.readouterr().err.count("error: ") == 2
    assert not Path("x.a").exists()
