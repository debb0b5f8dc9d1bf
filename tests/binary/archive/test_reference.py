"""Archives made by llvm-ar and GNU ar, before and after our changes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.reference import run, tool

from fatpack.binary import CodeSection, archive
from fatpack.errors import HostError
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.scanner import scan
from fatpack.testing.helpers import join_pieces

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.reference

SOURCES = {
    "a.o": "int a(void) { return 1; }",
    "a_name_longer_than_sixteen.o": "int b(void) { return 2; } int b2;",
    "c.o": "static int c; int *d(void) { return &c; }",
}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    for name, text in SOURCES.items():
        command = [tool("clang"), "-c", "-O1", "--target=x86_64-linux-gnu", "-x", "c", "-", "-o", str(folder / name)]
        subprocess.run(command, input=text.encode(), check=True, cwd=folder)
    return folder


def make(folder: Path, archiver: str, *options: str, members: tuple[str, ...] = tuple(SOURCES)) -> Path:
    path = folder / "lib.a"
    path.unlink(missing_ok=True)
    run(archiver, *options, path, *members, cwd=folder)
    return path


FLAVOURS = [
    ("llvm-ar", "rcs", "--format=gnu"),
    ("llvm-ar", "rcs", "--format=bsd"),
    ("llvm-ar", "rcs", "--format=darwin"),
    ("llvm-ar", "rcs", "--format=coff"),
    ("llvm-ar", "rcS", "--format=gnu"),
    ("ar", "rcsD"),
    ("ar", "rcsU"),
    ("ar", "rcsDT"),
    ("llvm-ar", "rcs", "--thin"),
]


@pytest.mark.parametrize("flavour", FLAVOURS, ids=" ".join)
def test_members_are_those_that_the_archiver_lists_and_extracts(objects: Path, flavour: tuple[str, ...]) -> None:
    path = make(objects, *flavour)
    names = run(flavour[0], "t", path, cwd=objects).stdout.decode().split()
    with open_source(path) as source:
        items = list(archive.locate(source.view()))
        sites = [site for site in items if isinstance(site, CodeSection)]
        assert len(sites) == len(items)
        assert [site.member for site in sites] == [Path(name).name for name in names] == list(SOURCES)
        for site in sites:
            assert site.data.tobytes() == (objects / str(site.member)).read_bytes()


def test_members_of_a_flattened_regular_archive_are_found_through_gnu_ars_thin_one(objects: Path) -> None:
    inner = make(objects, "ar", "rcsD").rename(objects / "inner.a")
    (objects / "thin.a").unlink(missing_ok=True)
    run("ar", "rcsDT", "thin.a", inner.name, cwd=objects)
    with open_source(objects / "thin.a") as source:
        sites = [site for site in archive.locate(source.view()) if isinstance(site, CodeSection)]
        assert [site.member for site in sites] == [f"inner.a({name})" for name in SOURCES]
        assert [site.data.tobytes() for site in sites] == [(objects / name).read_bytes() for name in SOURCES]


# llvm-ar pads every member of a Darwin archive to a multiple of 8, fatpack only Mach-O files: a tail of padding would
# be rubbish after an ELF file. So Darwin archives are compared for files that need no padding.
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("flavour", "grow"),
    [
        pytest.param(flavour, grow, id=f"{' '.join(flavour)} {grow}")
        for flavour in FLAVOURS[:6]
        for grow in ((0, 8) if "--format=darwin" in flavour else (0, 1, 6, 8, 4097))
    ],
)
def test_a_rewritten_archive_is_what_the_archiver_makes_of_the_changed_members(
    objects: Path, flavour: tuple[str, ...], grow: int
) -> None:
    path = make(objects, *flavour)
    names = list(SOURCES)
    changed = {number: (objects / names[number]).read_bytes() + bytes((number + 1) * grow) for number in (0, 1)}
    with open_source(path) as source:
        ours = join_pieces(list(archive.rewrite(source.view(), {number: [data] for number, data in changed.items()})))
    other = objects / "changed"
    other.mkdir(exist_ok=True)
    for number, name in enumerate(SOURCES):
        (other / name).write_bytes(changed.get(number) or (objects / name).read_bytes())
    assert ours == make(other, *flavour).read_bytes()


@pytest.mark.parametrize(("archiver", "ranlib"), [("llvm-ar", "llvm-ranlib"), ("ar", "ranlib")])
def test_ranlib_finds_nothing_to_repair_after_rewriting(objects: Path, archiver: str, ranlib: str) -> None:
    path = make(objects, archiver, "rcsD")
    with open_source(path) as source:
        ours = join_pieces(list(archive.rewrite(source.view(), {0: [(objects / "a.o").read_bytes(), bytes(2001)]})))
    path.write_bytes(ours)
    run(ranlib, "-D", path)
    assert path.read_bytes() == ours


def test_the_linker_finds_symbols_through_the_rewritten_table(objects: Path) -> None:
    path = make(objects, "llvm-ar", "rcs")
    with open_source(path) as source:
        ours = join_pieces(list(archive.rewrite(source.view(), {0: [(objects / "a.o").read_bytes(), bytes(2001)]})))
    path.write_bytes(ours)
    run("ld.lld", "-u", "d", "-u", "a", "--entry=a", "-o", "out", path, cwd=objects)
    symbols = {line.split()[-1] for line in run("llvm-nm", "out", cwd=objects).stdout.splitlines()}
    assert symbols == {b"a", b"c", b"d"}


@pytest.mark.parametrize("kind", ["gnu", "darwin"])
def test_64_bit_symbol_tables_are_rewritten_as_llvm_ar_writes_them(
    objects: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYM64_THRESHOLD", "4")  # llvm-ar's own switch for tests: 64 bits from 16 bytes on
    path = make(objects, "llvm-ar", "rcs", f"--format={kind}")
    assert (b"/SYM64/" if kind == "gnu" else b"__.SYMDEF_64") in path.read_bytes()[:200]
    longer = (objects / "a.o").read_bytes() + bytes(800)
    with open_source(path) as source:
        ours = join_pieces(list(archive.rewrite(source.view(), {0: [longer]})))
    other = objects / "changed64"
    other.mkdir(exist_ok=True)
    for name in SOURCES:
        (other / name).write_bytes(longer if name == "a.o" else (objects / name).read_bytes())
    assert ours == make(other, "llvm-ar", "rcs", f"--format={kind}").read_bytes()


def test_import_libraries_are_listed_and_hold_nothing_to_report(objects: Path) -> None:
    (objects / "names.def").write_text("LIBRARY x.dll\nEXPORTS\n  one\n  two DATA\n")
    path = objects / "import.lib"
    run("llvm-lib", "/machine:x64", "/def:names.def", f"/out:{path}", cwd=objects)
    with open_source(path) as source:
        sites = [site for site in archive.locate(source.view()) if isinstance(site, CodeSection)]
        assert sum(site.data.head(0, 4) == b"\0\0\xff\xff" for site in sites) == 2
        assert [item for item in scan(source.view()) if isinstance(item, Finding)] == []
        assert join_pieces(list(archive.rewrite(source.view(), {}))) == path.read_bytes()


def test_libraries_for_arm64ec_are_read_and_not_rewritten(objects: Path) -> None:
    command = [tool("clang"), "-c", "--target=arm64ec-windows-msvc", "-x", "c", "-", "-o", str(objects / "ec.obj")]
    subprocess.run(command, input=b"int f(void) { return 1; }", check=True)
    run("llvm-lib", "/machine:arm64ec", "/out:ec.lib", "ec.obj", cwd=objects)
    with open_source(objects / "ec.lib") as source:
        (site,) = archive.locate(source.view())
        assert isinstance(site, CodeSection)
        assert site.data.tobytes() == (objects / "ec.obj").read_bytes()
        with pytest.raises(HostError, match="ECSYMBOLS"):
            archive.rewrite(source.view(), {})
