"""Many files from Python: folders, patterns and packages."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

FAT = (FIXTURES / "elf" / "clang-22-openmp-gfx90a.o").read_bytes()
SINGLE = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()
FILES = {"a.o": FAT, "cut.o": FAT[:500], "x.py": b"", "lib/data": b"", "lib/single.o": SINGLE}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    Path("x.whl").write_bytes(build.zipped(FILES))
    Path("x.tar.xz").write_bytes(build.COMPRESSORS["xz"](build.tarred(FILES)))
    return tmp_path


def facts(file: fatpack.File) -> tuple[object, ...]:
    images = [(image.target.arch, image.form, image.span.start, image.data.tobytes()) for image in file.images()]
    return file.size, file.host, [item.code for item in file.findings], images


@pytest.mark.parametrize("data", ["tree", "x.whl", "x.tar.xz", Path("tree"), Path("x.whl"), "bytes", "file"])
def test_files_gives_every_file_as_open_does(data: object, tree: Path) -> None:
    prefix = {"tree": "tree/", "x.whl": "x.whl!", "x.tar.xz": "x.tar.xz!"}.get(str(data), "")
    if data == "bytes":
        data, prefix = Path("x.whl").read_bytes(), "!"
    if data == "file":
        data, prefix = io.BytesIO(Path("x.whl").read_bytes()), "!"
    found = fatpack.files(data)  # type: ignore[arg-type]
    seen = {}
    for file in found:
        seen[file.path] = facts(file)
    assert list(seen) == [prefix + name for name in FILES if name != "x.py"]
    for name, content in FILES.items():
        if name not in ("x.py", "cut.o"):
            with fatpack.open(content) as alone:
                assert seen[prefix + name] == facts(alone)
    assert (found.passed, found.excluded, found.unread, found.findings, found.unmatched) == (1, 0, [], [], [])


def test_several_inputs_and_what_is_left_out(tree: Path) -> None:
    found = fatpack.files(["tree/**/*.o", FAT, "x.whl", "*.none"], exclude=["cut.o", "lib"], deep=True)
    assert [file.path for file in found] == ["tree/a.o", "", "x.whl!a.o", "x.whl!x.py"]
    assert (found.excluded, found.unmatched) == (2 + 3, ["*.none"])
    with pytest.raises(FileNotFoundError):
        list(fatpack.files("none"))
    with pytest.raises(TypeError, match="several patterns"):
        fatpack.files("tree", exclude="x")


def test_what_cannot_be_read_is_reported_and_hides_nothing(tree: Path) -> None:
    data = bytearray(Path("x.whl").read_bytes())
    data[40:400] = bytes(360)
    found = fatpack.files(bytes(data))
    assert [file.path for file in found] == ["!cut.o", "!lib/data", "!lib/single.o"]
    (error,) = found.unread
    assert isinstance(error, fatpack.FormatError)
    with pytest.raises(fatpack.FormatError):
        list(fatpack.scan(bytes(data)))


@pytest.mark.parametrize("name", ["tree", "x.whl", "x.tar.xz", "tree/**/*.o"])
def test_scan_and_rows_go_through_all_files(name: str, tree: Path) -> None:
    items = list(fatpack.scan(name))
    found = [item for item in items if isinstance(item, fatpack.Container)]
    assert [item.view.chain[0].replace("!", "/").rpartition("/")[2] for item in found] == ["a.o", "single.o"]
    assert [item.code for item in items if isinstance(item, fatpack.Finding)] == ["FP1001"]
    rows = list(fatpack.rows(name, digests=True))
    expected = [row.sha256 for data in (FAT, SINGLE) for row in fatpack.rows(data, digests=True) if row.row == "image"]
    assert [row.sha256 for row in rows if row.row == "image"] == expected
    if name.startswith("x."):
        assert (rows[-1].path, rows[-1].host, rows[-1].count) == (name, name[2:5].replace("whl", "zip"), 0)


def test_a_file_in_a_package_is_opened_by_its_name(tree: Path) -> None:
    for data in ("x.whl", "x.tar.xz", Path("x.whl").read_bytes()):
        with fatpack.open(data, member="lib/single.o") as file:
            assert file.images()[0].data.tobytes() == fatpack.open(SINGLE).images()[0].data.tobytes()
            assert file.path.endswith("!lib/single.o")
    with pytest.raises(fatpack.UsageError, match=r"has no file none; present are a\.o, cut\.o"):
        fatpack.open("x.whl", member="none")
    with pytest.raises(fatpack.UsageError, match=r"has no file single\.o; did you mean lib/single\.o\?"):
        fatpack.open("x.whl", member="single.o")


def test_one_file_is_asked_for_where_several_make_no_sense(tree: Path) -> None:
    for name in ("tree", "x.whl"):
        with pytest.raises(fatpack.UsageError, match=rf"write: for file in fatpack\.files\('{name}'\): …"):
            fatpack.open(name)
    with pytest.raises(fatpack.UsageError, match=r"or fatpack\.open\('x\.whl', member='the file in it'\)"):
        fatpack.open("x.whl")
    with pytest.raises(fatpack.UsageError, match=r"the file is a package of many files"):
        fatpack.open(Path("x.whl").read_bytes())
    with pytest.raises(fatpack.UsageError, match="packages are only read"):
        fatpack.remove("x.whl", "y")
    with pytest.raises(fatpack.UsageError, match="no file matches"):
        list(fatpack.scan("*.none"))


@pytest.mark.parametrize("name", ["tree", "x.whl", "x.tar.xz"])
def test_extract_writes_the_images_of_every_file_as_the_command_does(name: str, tree: Path) -> None:
    paths = fatpack.extract(name, "out")
    assert main(["extract", name, "-d", "command", "-q"]) == 3  # cut.o is damaged
    assert [path.parent.name for path in paths] == ["out", "lib", "lib", "lib"]
    written = {str(path.relative_to("command")): path.read_bytes() for path in Path("command").rglob("*.*[!r]")}
    assert {str(path.relative_to("out")): path.read_bytes() for path in paths} == written
    assert all(isinstance(path, Path) for path in paths)
    assert (paths.unreadable, paths.unread) == ((), ())
    with pytest.raises(fatpack.UsageError, match=r"exists; give another one, or overwrite=True"):
        fatpack.extract(name, "out")
    assert fatpack.extract(name, "out", overwrite=True) == paths
    (only,) = fatpack.extract(name, "one", arch="gfx90a")
    assert only.read_bytes() == paths[0].read_bytes()
    assert fatpack.extract(name, "none", exclude=["*.o"]) == ()
    with pytest.raises(fatpack.UsageError, match="max_output="):
        fatpack.extract(name, "little", max_output=1000)
    assert not Path("little").exists()
