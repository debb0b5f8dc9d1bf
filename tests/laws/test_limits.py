"""fatpack reads the files that it writes, however small; and no command writes far more than its input explains.

A ratio is no limit: zeros shrink to a thousandth and more. The total of decompressed and written bytes is one.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import fatbin
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack import BundleOptions, FatbinOptions, OffloadBinaryOptions, Options, limits
from fatpack.errors import LimitExceeded, UsageError
from fatpack.limits import Budget
from fatpack.main import main

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # images that are something else than they say

IDS = [f"hip-amdgcn-amd-amdhsa--{arch}" for arch in ("gfx906", "gfx90a", "gfx942")]

#: every format that has a compressed form, with every method
OPTIONS: dict[str, Options] = {
    "offload-binary": OffloadBinaryOptions(),
    "offload-binary zlib": OffloadBinaryOptions(version=3, compression="zlib"),
    "offload-binary zstd": OffloadBinaryOptions(version=3, compression="zstd"),
    "bundle": BundleOptions(),
    **{
        f"bundle {method} {version}": BundleOptions(compression=method, version=version)
        for method in ("zlib", "zstd")
        for version in (1, 2, 3)
    },
    "fatbin": FatbinOptions(compress_mode="none"),
    **{f"fatbin {producer}": FatbinOptions(producer=producer, compress_all=True) for producer in ("13.0", "13.5")},
    "fatbin concat": FatbinOptions(producer="13.5", compress_all=True, concat=True),
    "fatbin speed": FatbinOptions(compress_mode="speed", compress_all=True),
}
each_way = pytest.mark.parametrize("way", OPTIONS)

#: More than is kept in memory, and than any proportion that was ever a limit allows.
LARGE = 40 << 20

#: LIMIT: memory of a command for any input: windows of zstd and of fatpack, and the interpreter.
MEMORY = 200 << 20


def sparse(path: Path, size: int, options: Options) -> Path:
    """Make a file of zeros that takes no room on the disk; for a fat binary they are the code of a cubin."""
    if isinstance(options, FatbinOptions):
        path.write_bytes(fatbin.cubin(80, code=bytes(size)))
    else:
        path.touch()
        os.truncate(path, size)
    return path


def packed(source: Path, output: Path, options: Options) -> None:
    items = [
        library.ImageFile(source, triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
        if not isinstance(options, FatbinOptions)
        else library.ImageFile(source, arch="sm_80", attrs={"kind": "elf", "check": "no"})
    ]
    library.pack(items, output, options=options)


def run(*arguments: str | Path) -> tuple[int, str, int]:
    """Run a command by itself; return its exit code, its output, and its peak memory."""
    program = (
        "import sys\nfrom fatpack.main import main\ncode = main(sys.argv[1:])\n"
        "words = open('/proc/self/status').read().split()\n"
        "sys.stderr.write('\\n' + words[words.index('VmHWM:') + 1])\nsys.exit(code)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, check=False)
    said, _, memory = ran.stderr.decode().rpartition("\n")
    return ran.returncode, ran.stdout.decode() + said, int(memory) << 10


def check(way: str, size: int, folder: Path) -> None:
    """Pack zeros, and do with the result all that one does, in bounded memory."""
    options = OPTIONS[way]
    source, output = sparse(folder / "image", size, options), folder / "packed"
    packed(source, output, options)
    commands: list[list[str | Path]] = [
        ["inspect", output],
        ["inspect", "--inflate", output],
        ["inspect", "--verify", output],
        ["extract", output, "-o", folder / "out", "--force", "-q"],
    ]
    for command in commands:
        code, said, memory = run(*command)
        assert (code, "error FP" in said, "damaged" in said) == (0, False, False), said
        assert memory < MEMORY, f"{command}: {memory >> 20} MB"
    with (folder / "out").open("rb") as one, source.open("rb") as other:
        while block := one.read(1 << 20):
            assert block == other.read(len(block))
        assert not other.read(1)


@pytest.mark.sweep(4)
@each_way
def test_what_is_packed_is_listed_and_comes_out_again(way: str, tmp_path: Path) -> None:
    check(way, LARGE, tmp_path)


#: Ways that meet a limit of a gigabyte differently: others differ in headers alone, and each takes half a minute.
LARGEST = ("offload-binary zstd", "bundle zlib 3", "bundle zstd 2", "fatbin 13.5")


@pytest.mark.slow
@pytest.mark.parametrize("way", LARGEST)
def test_what_is_packed_of_a_gigabyte_and_more_comes_out_again(way: str, tmp_path: Path) -> None:
    check(way, 1200 << 20, tmp_path)


@pytest.mark.parametrize("way", ["bundle zstd 3", "offload-binary zlib", "fatbin 13.0"])
def test_what_is_embedded_replaced_and_converted_is_listed(way: str, tmp_path: Path) -> None:
    options, host = OPTIONS[way], FIXTURES / "demo" / "host.o"
    packed(sparse(tmp_path / "image", LARGE, options), tmp_path / "packed", options)
    library.embed(host, tmp_path / "packed", tmp_path / "fat.o")
    library.replace(tmp_path / "fat.o", tmp_path / "packed", tmp_path / "other.o")
    library.convert(tmp_path / "fat.o", tmp_path / "converted", options=options)
    for name in ("fat.o", "other.o", "converted"):
        with library.open(tmp_path / name) as file:
            assert file.findings == file.verify() == ()
            (image,) = file.images()
            assert image.size >= LARGE


def bomb(count: int, size: int) -> bytes:
    """Return an archive of bundles, of one image of zeros each."""
    plain = BundleOptions(compression="zstd", align=1)
    member = io.BytesIO()
    library.pack([library.ImageFile(bytes(size), name="x", id=IDS[0])], member, options=plain)
    name = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n"
    data = member.getvalue()
    one = name % (b"a.o/", 0, 0, 0, b"644", len(data)) + data + b"\n" * (len(data) % 2)
    return b"!<arch>\n" + one * count


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Many small bundles, none of them worth a word, that come to 64 MB; a command may write 16 here."""
    monkeypatch.setattr(limits, "OUTPUT", 16 << 20)
    monkeypatch.chdir(tmp_path)
    Path("many.a").write_bytes(bomb(64, 1 << 20))
    return tmp_path


DOORS = {
    "directory": ["extract", "many.a", "-d", "out"],
    "archive": ["extract", "many.a", "--archive", "-o", "out"],
    "dry run": ["extract", "many.a", "-d", "out", "--dry-run"],
    "convert": ["convert", "many.a", "--format=bundle", "-o", "out"],
    "bundler": [
        *("tool", "clang-offload-bundler", "-unbundle", "-type=a", "-input=many.a", "-output=out"),
        f"-targets={IDS[0]}",
    ],
}


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("door", DOORS)
def test_bombs_by_addition_stop_at_every_door(door: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = DOORS[door]
    assert main(command) == (1 if "tool" in command else 2)  # a stand-in fails with the code of its original
    said = capfd.readouterr().err
    assert "100 times the" in said
    assert "would be written" in said
    assert os.listdir() == ["many.a"]
    if "tool" in command:
        assert "FATPACK_LIMITS='output=" in said
        return
    assert "use --force or --max-output=" in said
    assert main([*command, "--max-output=1G"]) == 0
    assert main([*command, "--force"]) == 0


#: commands that make one file of others: their inputs, and their outputs
EDITS = {
    "pack": ["pack", "--image=file=k.bc,triple=t", "-o", "out"],
    "embed": ["embed", "host.o", "k.offload", "-o", "out"],
    "replace": ["replace", "fat.o", "k.offload", "-o", "out"],
    "remove": ["remove", "two.offload", "--arch=sm_80", "-o", "out"],
    "normalize": ["normalize", "two.offload", "-o", "out"],
}


@pytest.mark.parametrize("name", EDITS)
def test_what_edits_write_is_bounded_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.bc").write_bytes(b"BC\xc0\xde" + bytes(60))
    library.pack([library.ImageFile("k.bc", "t", "sm_90")], "k.offload")
    both = [library.ImageFile("k.bc", "t", arch) for arch in ("sm_80", "sm_90")]
    library.pack(both, "two.offload")
    Path("host.o").write_bytes((FIXTURES / "demo" / "host.o").read_bytes())
    library.embed("host.o", "k.offload", "fat.o")
    before = sorted(os.listdir())
    assert main([*EDITS[name], "--max-output=10"]) == 2
    assert "more than the 10 bytes that may be" in capfd.readouterr().err
    assert sorted(os.listdir()) == before
    assert main([*EDITS[name], "--max-output=1M"]) == 0


@pytest.mark.usefixtures("many")
def test_a_disk_without_room_is_reported_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    full = os.statvfs_result((4096, 4096, 10, 5, 3, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert main(["extract", "many.a", "-d", "new/out", "--max-output=1G"]) == 5
    said = capfd.readouterr().err
    assert f"{64 << 20} bytes would be written" in said
    assert f"has room for {3 * 4096}" in said
    assert os.listdir() == ["many.a"]


@pytest.mark.usefixtures("many")
def test_the_library_stops_too() -> None:
    with pytest.raises(UsageError, match="100 times the"):
        library.extract("many.a", "out")
    with pytest.raises(UsageError, match="more than the 1000 bytes that may be"):
        library.extract("many.a", "out", max_output=1000)
    with pytest.raises(UsageError, match="100 times the"):
        library.convert("many.a", io.BytesIO(), format="bundle")
    assert os.listdir() == ["many.a"]
    assert len(library.extract("many.a", "out", max_output=1 << 30)) == 64
    assert len(library.extract("many.a", "out", overwrite=True, max_output=1 << 30)) == 64


def test_an_archive_of_images_that_share_their_bytes_is_refused(tmp_path: Path) -> None:
    from tests.test_hostile import shared

    (tmp_path / "shared.bin").write_bytes(shared(bytes(200_000), 20))
    code, said, _ = run("extract", tmp_path / "shared.bin", "--archive", "-o", tmp_path / "out")
    assert (code, "share bytes" in said) == (2, True)
    assert not (tmp_path / "out").exists()


def test_what_was_given_decides_and_not_its_name(tmp_path: Path) -> None:
    budget = Budget()
    budget.opened("a", 1 << 30)
    budget.opened("a", 1 << 30)
    assert budget.writable == 100 << 30
    budget.write(budget.writable)
    with pytest.raises(UsageError, match="would be written"):
        budget.write(1)
    budget.give_back(1)
    budget.write(1)


def test_an_account_that_is_empty_is_a_limit_and_no_damage(tmp_path: Path) -> None:
    data = bomb(3, 1 << 20)
    with library.open(data, max_inflated=5 << 19) as file:
        first, second, third = file.images()
        for image in (first, second, first, second):
            assert image.size == len(image.data.tobytes())
        with pytest.raises(LimitExceeded, match="max_inflated="):
            third.data.tobytes()
