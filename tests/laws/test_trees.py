"""Every command shows the same of each file in a package as of the unpacked file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.builders import packages as build
from tests.builders.archive import member as archive_member
from tests.conftest import Ran, fatpack, folder
from tests.laws.rooms import FIXTURES

from fatpack import magic_numbers
from fatpack.concurrency import processes
from fatpack.text.schemas import schema_text

__all__ = ["fatpack", "folder"]  # fixtures

Fatpack = Callable[..., Ran]

FAT = (FIXTURES / "elf" / "clang-22-openmp-gfx90a.o").read_bytes()
SINGLE = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()
HIP = (FIXTURES / "elf" / "clang-22-hip.o").read_bytes()

#: In the order in which a folder is walked: the files of a folder, then its folders.
FILES = {
    "a.cubin": (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin").read_bytes(),
    "readme.md": b"no code",
    "lib/bundle.bin": (FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").read_bytes(),
    "lib/cut.o": FAT[:500],
    "lib/data": b"no code",
    "lib/host.o": (FIXTURES / "demo" / "host.o").read_bytes(),
    "lib/libx.a": magic_numbers.ARCHIVE + archive_member(b"m.o/", HIP) + archive_member(b"n.o/", FAT),
    "lib/odd name!1.o": SINGLE,
    "lib/deep/fat.o": FAT,
    "lib/deep/single.o": SINGLE,
}

Files = build.Files


def deb(files: Files) -> bytes:
    data = build.COMPRESSORS["xz"](build.tarred(files))
    control = build.COMPRESSORS["gzip"](build.tarred({"control": b"Package: x\n"}))
    members = ((b"debian-binary", b"2.0\n"), (b"control.tar.gz", control), (b"data.tar.xz", data))
    return magic_numbers.ARCHIVE + b"".join(archive_member(name, content) for name, content in members)


def conda(files: Files) -> bytes:
    inner = build.COMPRESSORS["zstd"](build.tarred(files))
    return build.zipped({"metadata.json": b"{}", "pkg-x.tar.zst": inner}, zipfile.ZIP_STORED)


def saved_image(files: Files) -> bytes:
    layer = build.COMPRESSORS["gzip"](build.tarred(files))
    return build.tarred({"oci-layout": b"{}", "index.json": b"{}", "blobs/sha256/abc": layer})


#: way of packing → name of the package, how to pack, and what leads to the files in it
WAYS: dict[str, tuple[str, Callable[[Files], bytes], str]] = {
    "wheel": ("x.whl", build.zipped, ""),
    "stored wheel": ("x.whl", lambda files: build.zipped(files, zipfile.ZIP_STORED), ""),
    "tar": ("x.tar", build.tarred, ""),
    **{
        f"tar {name}": (f"x.tar{build.SUFFIXES[name]}", lambda files, pack=pack: pack(build.tarred(files)), "")  # type: ignore[misc]
        for name, pack in build.COMPRESSORS.items()
    },
    "conda": ("x.conda", conda, "pkg-x.tar.zst!"),
    "saved image": ("image.tar", saved_image, "blobs/sha256/abc!"),
    "deb": ("x.deb", deb, "data.tar.xz!"),
    "rpm": ("x.rpm", build.rpm, ""),
    "rpm gzip": ("y.rpm", lambda files: build.rpm(files, build.COMPRESSORS["gzip"]), ""),
}
each_way = pytest.mark.parametrize("way", WAYS)

OPTIONS: list[list[str]] = [
    [],
    ["-v"],
    ["-v", "--inflate"],
    ["--kernels", "--verify"],
    ["--json"],
    ["--json", "--kernels", "--inflate"],
    ["--by=arch", "--by=file", "--json"],
    ["--by=kernel"],
    ["--rows=jsonl"],
    ["--rows=jsonl", "--rows-of=kernels"],
    ["--rows=csv", "--digests", "--kernels"],
    ["--one-program"],
    ["--exclude=deep"],
    ["--exclude=lib/*.o", "--json"],
]


@pytest.fixture
def tree(folder: Path) -> Path:
    for name, content in FILES.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def packed(way: str, files: Files = FILES) -> tuple[str, str]:
    """Write the package; return its name, and the prefix of the names of the files in it."""
    name, pack, inside = WAYS[way]
    Path(name).write_bytes(pack(files))
    return name, f"{name}!{inside}"


def plain(text: str, prefix: str) -> list[str]:
    """Return the output without names of files, and without counts, which only packages have."""
    text = text.replace(f"file://{prefix}", "file://@").replace(prefix, "@").replace("%21", "!")
    text = re.sub(r"(fatpack extract) '(@[^']*)'", r"\1 \2", text)
    lines = [line for line in text.splitlines() if not re.match(r"\S+: \d+ files?, ", line)]
    if lines[:1] == ["{"] and ' "trees": [' in lines:
        document = json.loads(text)
        return [json.dumps(item, sort_keys=True) for item in document["files"]]
    if text.startswith('{"'):
        rows = [json.loads(line) for line in lines]
        return [line for line, row in zip(lines, rows, strict=True) if row["path"].startswith("@")]
    return [line for line in lines if not re.match(r"file,[^@]", line)]


@pytest.mark.sweep(3)
@each_way
def test_what_is_shown_of_a_package_is_what_is_shown_of_its_files(way: str, tree: Path, fatpack: Fatpack) -> None:
    name, prefix = packed(way)
    for options in OPTIONS:
        unpacked, ran = fatpack("inspect", *options, "tree"), fatpack("inspect", *options, name)
        assert plain(ran.out, prefix) == plain(unpacked.out, "tree/"), options
        assert plain(ran.err, prefix) == plain(unpacked.err, "tree/"), options
        assert ran.code == unpacked.code


@pytest.mark.sweep(3)
@each_way
def test_what_is_extracted_of_a_package_is_what_is_extracted_of_its_files(
    way: str, tree: Path, fatpack: Fatpack
) -> None:
    name, prefix = packed(way)
    around = prefix.removeprefix(f"{name}!").replace("!", "/")
    for options in ([], ["--arch=sm_90"], ["--containers"]):
        one, other = f"one{len(options)}{options}", f"other{options}"
        expected, ran = fatpack("extract", *options, "tree", "-d", one), fatpack("extract", *options, name, "-d", other)
        assert (expected.code, ran.code) == (3, 3)
        files = contents(Path(one))
        assert contents(Path(other) / around) == files
        assert len(contents(Path(other))) == len(files) > 2


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@each_way
def test_every_address_that_is_printed_leads_back(way: str, tree: Path, fatpack: Fatpack) -> None:
    name, prefix = packed(way)
    printed = [line.strip() for line in fatpack("inspect", "-v", name).out.splitlines() if "#offset=0x" in line]
    unpacked = [line.strip() for line in fatpack("inspect", "-v", "tree").out.splitlines() if "#offset=0x" in line]
    assert len(printed) == len(unpacked) > 5
    for address, original in zip(printed, unpacked, strict=True):
        assert fatpack("extract", address, "-o", "got", "-f").code == 0
        assert fatpack("extract", original, "-o", "expected", "-f").code == 0
        assert Path("got").read_bytes() == Path("expected").read_bytes()
        assert fatpack("inspect", address).out.startswith(f"{address}: ")
    for file in FILES:
        for options in ([], ["--bytes"], ["--at=0"], ["--json", "--kernels"]):
            ran, expected = (fatpack("inspect", *options, path) for path in (f"{prefix}{file}", f"tree/{file}"))
            assert ran.out.replace(prefix, "tree/") == expected.out
            assert ran.code == expected.code
    ran, expected = (fatpack("inspect", f"{path}lib/libx.a(n.o)") for path in (prefix, "tree/"))
    assert ran.out.replace(prefix, "tree/") == expected.out
    assert "gfx90a" in ran.out


@each_way
def test_workers_change_nothing(way: str, tree: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = packed(way)
    given = [*OPTIONS[:2], ["--json"], ["--by=arch"], ["--rows=jsonl"]]
    alone = [fatpack("inspect", *options, name, "tree") for options in given]
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(processes, "core_count", lambda: 3)
    assert [fatpack("inspect", *options, name, "tree") for options in given] == alone


@each_way
def test_packages_in_folders_are_looked_into(way: str, tree: Path, fatpack: Fatpack) -> None:
    name, prefix = packed(way)
    Path("dist").mkdir()
    Path(name).rename(f"dist/{name}")
    ran, expected = fatpack("inspect", "-v", "dist"), fatpack("inspect", "-v", "tree")
    assert plain(ran.out, f"dist/{prefix}") == plain(expected.out, "tree/")


HOSTILE = ["../up.o", "/abs/x.o", "a/../../b.o", "a/b/../../../../c.o", "..", "C:\\d.o", "-n/e.o", ".h/f.o", "a\nb/g.o"]


@pytest.mark.parametrize("way", ["wheel", "tar"])
def test_nothing_is_written_outside_the_output(way: str, folder: Path, fatpack: Fatpack) -> None:
    name, _ = packed(way, dict.fromkeys(HOSTILE, SINGLE))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    ran = fatpack("extract", name, "-d", "sub/out")
    assert ran.code in (0, 1, 3)
    made = set(folder.rglob("*")) - before.keys()
    assert made
    assert all(str(path).startswith(str(folder / "sub")) for path in made)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not any(path.exists() for path in (folder.parent / "up.o", Path("/abs")))
    written = [path for path in made if path.is_file()]
    listed = json.loads(fatpack("inspect", "--json", name).out)["files"]
    assert len(written) == 3 * sum(bool(item["containers"]) for item in listed)
    assert all(re.fullmatch(r"[A-Za-z0-9._+=@-]+", part) for path in written for part in path.relative_to(folder).parts)


def test_a_damaged_member_hides_no_other(folder: Path, fatpack: Fatpack) -> None:
    names = ["a.o", "b.o", "c.o"]
    Path("x.whl").write_bytes(build.zipped(dict.fromkeys(names, SINGLE)))
    whole = fatpack("inspect", "x.whl").out
    data = bytearray(Path("x.whl").read_bytes())
    with zipfile.ZipFile("x.whl") as archive:
        at = archive.getinfo("b.o").header_offset
    data[at + 100 : at + 4000] = bytes(3900)
    Path("x.whl").write_bytes(data)
    ran = fatpack("inspect", "x.whl")
    assert ran.code == 3
    assert "x.whl: zip at 0x" in ran.err
    assert "file b.o: the deflate data is damaged" in ran.err
    for name in ("a.o", "c.o"):
        (block,) = re.findall(rf"^x.whl!{name}:.*\n(?:  .*\n)*", whole, re.MULTILINE)
        assert block in ran.out


def test_the_same_package_is_shown_in_the_same_order(tree: Path, fatpack: Fatpack) -> None:
    name, _ = packed("wheel")
    assert len({fatpack("inspect", "-v", name).out for _ in range(3)}) == 1
    paths = [item["path"] for item in json.loads(fatpack("inspect", "--json", name).out)["files"]]
    stored = [f"x.whl!{file}" for file in FILES]
    assert paths == [path for path in stored if path in paths]
    assert len(paths) == 7


def test_two_files_of_one_name_are_both_shown_and_extracted(folder: Path, fatpack: Fatpack) -> None:
    data = build.tarred({"a/x.o": SINGLE})
    end = data.rstrip(b"\0")
    size = (len(end) + 511) // 512 * 512
    Path("x.tar").write_bytes(data[:size] + build.tarred({"a/x.o": FAT}))
    assert fatpack("inspect", "x.tar").out.count("x.tar!a/x.o: ELF") == 2
    assert fatpack("extract", "x.tar", "-d", "out").code in (0, 1)
    assert len(contents(Path("out"))) == 4
    ran = fatpack("extract", "x.tar!a/x.o", "-d", "one")
    assert (ran.code, "write !#0; !#1" in ran.err) == (2, True)
    assert fatpack("extract", "x.tar!#1", "-d", "one").code == 0
    assert contents(Path("one")).keys() == {"x-amdgcn-amd-amdhsa-gfx90a.0.bc"}


def test_packages_are_not_edited(tree: Path, fatpack: Fatpack) -> None:
    packed("wheel")
    for command in (["embed"], ["replace"]):
        for host in ("x.whl", "x.whl!lib/host.o"):
            ran = fatpack(*command, host, "pkg.bin", "-o", "y")
            assert (ran.code, "packages are only read" in ran.err) == (2, True), ran.err
    for host in ("x.whl", "x.whl!lib/deep/fat.o"):
        ran = fatpack("remove", host, "--arch", "gfx90a", "-o", "y")
        assert (ran.code, "packages are only read" in ran.err) == (2, True), ran.err
    assert (
        "slim alone writes packages: fatpack slim x.whl --drop gfx90a -d DIR; "
        in fatpack("remove", "x.whl", "--arch", "gfx90a", "-o", "y").err
    )
    assert "say where to write; -d DIR for a package" in fatpack("slim", "x.whl", "--drop", "gfx90a").err
    assert not os.path.exists("y")


def test_what_is_converted_of_a_package_is_what_is_converted_of_its_file(tree: Path, fatpack: Fatpack) -> None:
    packed("wheel")
    for name in ("x.whl!lib/deep/fat.o", "tree/lib/deep/fat.o"):
        ran = fatpack("convert", name, "--format=bundle", "--lossy", "-f")
        assert ran.code == 0, ran.err
        Path("fat.bundle").rename(name.partition("/")[0].replace(".", "_").replace("!", "_") + ".bundle")
    assert Path("x_whl_lib.bundle").read_bytes() == Path("tree.bundle").read_bytes()
    ran = fatpack("convert", "x.whl", "--format=bundle")
    assert (ran.code, "x.whl is a package of files" in ran.err) == (2, True)


def test_packages_nest_to_a_limit(folder: Path, fatpack: Fatpack) -> None:
    data, path = SINGLE, "x.o"
    for number in range(12):
        data = build.zipped({path: data})
        path = f"{number}.zip"
    Path("nested.zip").write_bytes(data)
    ran = fatpack("inspect", "nested.zip")
    assert ran.code == 3
    assert "FP1004" in ran.out
    assert fatpack("inspect", "nested.zip", "--limit=nesting=20").out.count("x.o: ELF") == 1


@pytest.mark.parametrize("least", [0, processes.MIN_BYTES_FOR_WORKERS])
def test_what_is_wrong_with_a_package_is_reported_of_the_package(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", least)
    monkeypatch.setattr(processes, "core_count", lambda: 3)
    Path("h.whl").write_bytes(build.zipped({"../up.o": SINGLE, "a.o": SINGLE}))
    Path("s.o.zst").write_bytes(build.COMPRESSORS["zstd"](SINGLE) + b"garbage behind")
    Path("folder").mkdir()
    Path("folder/s.o.zst").write_bytes(Path("s.o.zst").read_bytes())
    Path("folder/h.whl").write_bytes(Path("h.whl").read_bytes())
    assert fatpack("inspect", "folder").out.count("FP17") == 2
    for name, code in (("h.whl", "FP1702"), ("s.o.zst", "FP1706")):
        ran = fatpack("inspect", name)
        assert ran.code == 1
        assert re.search(
            rf"^{name}: (Zip archive|Compressed file), [1-9].*\n  warning {code} at 0x", ran.out, re.MULTILINE
        )
        document = json.loads(fatpack("inspect", "--json", name).out)
        jsonschema.validate(document, json.loads(schema_text("inspect")))
        assert document["files"][-1]["path"] == name
        assert code in document["files"][-1]["findings"][0]["code"]
        assert code in fatpack("inspect", "--by=arch", name).err
        rows = [json.loads(line) for line in fatpack("inspect", "--rows=jsonl", name).out.splitlines()]
        assert [row["findings"] for row in rows if row["path"] == name] == [[code]]
        ran = fatpack("extract", name, "-d", f"out-{name}")
        assert (ran.code, code in ran.err) == (0, True)


@pytest.mark.parametrize("least", [0, processes.MIN_BYTES_FOR_WORKERS])
def test_what_is_wrong_with_a_package_is_counted_where_there_is_much(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", least)
    monkeypatch.setattr(processes, "core_count", lambda: 3)
    monkeypatch.setattr("fatpack.limits.FINDINGS", 5)
    Path("h.whl").write_bytes(build.zipped({f"../{number}.o": SINGLE for number in range(30)}))
    document = json.loads(fatpack("inspect", "--json", "h.whl").out)
    findings = document["files"][-1]["findings"]
    assert [item["code"] for item in findings] == ["FP1702"] * 6
    assert [item["count"] for item in document["files"][-1]["unlisted_findings"]] == [24]
    assert "FP1702: h.whl: 27 more" in fatpack("extract", "h.whl", "-d", "out").err


def test_a_folder_with_the_layout_of_an_image_is_looked_into(tree: Path, fatpack: Fatpack) -> None:
    layer = Path("oci/blobs/sha256/abc")
    layer.parent.mkdir(parents=True)
    layer.write_bytes(build.COMPRESSORS["gzip"](build.tarred(FILES)))
    Path("oci/oci-layout").write_text("{}")
    ran, expected = fatpack("inspect", "oci"), fatpack("inspect", "tree")
    assert plain(ran.out, "oci/blobs/sha256/abc!") == plain(expected.out, "tree/")


def test_plain_files_load_nothing_for_packages(folder: Path) -> None:
    program = "import sys; from fatpack.main import main; main(['inspect', 'pkg.bin', 'host.o']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "fatpack.scanner" in loaded
    assert not [name for name in loaded if name.startswith("fatpack.packages")]
