"""Files that a slimmed wheel or folder lacks: the proof takes kernel stores, and rejects each other loss."""

from __future__ import annotations

import io
import lzma
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.builders import amd_stores as stores
from tests.builders import wheels as build
from tests.builders.amd_stores import hsaco
from tests.laws.rooms import FIXTURES
from tests.proof.packages.forgeries import with_gap

from fatpack.main import main

ARCHIVE = stores.aks2([(stores.KEY, hsaco("gfx1100")), (b"none", b"")])
HOST = (FIXTURES / "cuda_fatbin/hosts/libtwo.so").read_bytes()
TABLE = stores.TABLE.format(arch="gfx1100")
OTHERS = {"demo/__init__.py": b"value = 1\n"}


def zip_of(files: Mapping[str, bytes]) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return into.getvalue()


def database(change: str) -> bytes:
    """Return a database of MIOpen that a statement changed."""
    made = sqlite3.connect(":memory:")
    made.deserialize(stores.kdb([stores.row("a.o", "", hsaco("gfx1100"))]))
    made.executescript(change)
    data: bytes = made.serialize()
    made.close()
    return data


def with_total(change: int) -> bytes:
    total = struct.unpack_from("<I", ARCHIVE, 4)[0]
    return ARCHIVE[:4] + struct.pack("<I", total + change) + ARCHIVE[8:]


def with_entry(offset: int, size: int | None = None, *, count: int = 1, more: bytes = b"") -> bytes:
    """Return an archive whose only entry has another offset and size, and ``more`` behind it."""
    image = hsaco("gfx1100")
    directory = struct.pack("<5I", 0, 0, offset, len(image) if size is None else size, 2) + b"k\0" + more
    head = struct.pack("<3I", len(directory) + len(image), count, len(directory))
    return b"AKS2" + head + lzma.compress(directory + image)


#: files that went, and whether the proof takes that
FILES: dict[str, tuple[str, bytes, bool]] = {
    "archive": ("a/k.aks2", ARCHIVE, True),
    "archive under another name": ("a/k.bin", ARCHIVE, True),
    "zip of archives": ("a/amd-gfx1100.zip", zip_of({"k.aks2": ARCHIVE, "__signature__": b"x"}), True),
    "cache of MIOpen": ("a/gfx1100_48.kdb", stores.kdb([stores.row("a.o", "", hsaco("gfx1100"), packed=True)]), True),
    "cache of rocFFT": ("a/x.db", stores.rocfft([("a", "gfx1100", hsaco("gfx1100"))]), True),
    "code of Tensile": (f"a/{TABLE}.co", hsaco("gfx1100"), True),
    "module of Python": ("a/module.py", b"value = 2\n", False),
    "library of the processor": ("a/lib.so", HOST, False),
    "code object of any name": ("a/kernels.hsaco", hsaco("gfx1100"), False),
    "library under a name of Tensile's": (f"a/{TABLE}.co", HOST, False),
    "archive with a library": ("a/k.aks2", stores.aks2([(b"k", hsaco("gfx1100")), (b"l", HOST)]), False),
    "archive that is cut": ("a/k.aks2", ARCHIVE[:-30], False),
    "archive with bytes behind it": ("a/k.aks2", ARCHIVE + b"secret", False),
    "archive with too small a total": ("a/k.aks2", with_total(-1), False),
    "archive with too large a total": ("a/k.aks2", with_total(1), False),
    "archive with bytes behind its images": ("a/k.aks2", with_entry(0, 64), False),
    "archive of one entry": ("a/k.aks2", with_entry(0), True),
    "archive with a cut entry": ("a/k.aks2", with_entry(0, count=2, more=bytes(10)), False),
    "archive with an entry too few": ("a/k.aks2", with_entry(0, count=2), False),
    "archive with an image outside": ("a/k.aks2", with_entry(0, 1 << 30), False),
    "archive with a wrong count": ("a/k.aks2", stores.aks2([(b"k", hsaco("gfx1100"))], count=2), False),
    "zip with a module": ("a/amd-gfx1100.zip", zip_of({"k.aks2": ARCHIVE, "m.py": b"x"}), False),
    "zip with a library": ("a/amd-gfx1100.zip", zip_of({"k.aks2": HOST}), False),
    "database with another table": ("a/x.kdb", database("CREATE TABLE users (name TEXT)"), False),
    "database with a view": ("a/x.kdb", database("CREATE VIEW v AS SELECT 1"), False),
    "database with text for code": ("a/x.kdb", database("UPDATE kern_db SET kernel_blob = 'text'"), False),
    "database with a library": ("a/x.kdb", stores.kdb([stores.row("a.o", "", HOST)]), False),
    "database of something else": ("a/x.db", stores.database("CREATE TABLE t (a)", "", []), False),
    "database that is cut": ("a/x.kdb", stores.kdb([stores.row("a.o", "", hsaco("gfx1100"))])[:5000], False),
}  # fmt: skip


def verify(before: Path, after: Path) -> int:
    return main(["slim", "--verify", str(before), str(after)])


def wheel(path: Path, files: Mapping[str, bytes], change: Callable[[bytes], bytes] = lambda data: data) -> Path:
    made = build.files_of(files)
    record = "demo-1.5.dist-info/RECORD"
    path.mkdir()
    path = path / "demo-1.5-py3-none-any.whl"
    path.write_bytes(build.packed({**made, record: change(made[record])}))
    return path


def folder(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in build.files_of(files).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    (path / "a").mkdir(exist_ok=True)
    return path


@pytest.mark.parametrize("make", [wheel, folder])
@pytest.mark.parametrize("what", FILES)
def test_a_file_that_went_was_device_code_alone(what: str, make: Callable[..., Path], tmp_path: Path) -> None:
    name, data, is_taken = FILES[what]
    before, after = make(tmp_path / "before", {**OTHERS, name: data}), make(tmp_path / "after", OTHERS)
    assert verify(before, after) == (0 if is_taken else 1)


@pytest.mark.parametrize("more", [-1, 5])
def test_an_image_that_is_not_as_long_as_stated_is_told_with_both_sizes(
    more: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = hsaco("gfx1100")
    size = len(image) + more
    directory = struct.pack("<5I", 0, 0, 0, size, 2) + b"k\0"
    head = b"AKS2" + struct.pack("<3I", len(directory) + size, 1, len(directory))
    before = wheel(tmp_path / "before", {**OTHERS, "a/k.aks2": head + lzma.compress(directory + image)})
    assert verify(before, wheel(tmp_path / "after", OTHERS)) == 1
    assert f"{len(image)} bytes of images where its header says {size}" in capsys.readouterr().out


#: files of a library of Tensile for two targets; the code and the tables that went
_TWO = {f"lib/{TABLE}.co": hsaco("gfx1100"), f"lib/{TABLE}-xnack-.co": hsaco("gfx1100"), f"lib/{TABLE}.dat": b"\x80"}


@pytest.mark.parametrize("make", [wheel, folder])
@pytest.mark.parametrize(
    ("gone", "is_taken"),
    [
        (set(_TWO), True),
        ({f"lib/{TABLE}.co"}, True),
        ({f"lib/{TABLE}.dat"}, False),
        ({f"lib/{TABLE}.co", f"lib/{TABLE}.dat"}, False),
    ],
)
def test_a_table_goes_after_all_code_of_its_target(
    gone: set[str], is_taken: bool, make: Callable[..., Path], tmp_path: Path
) -> None:
    files = {**OTHERS, **_TWO, "lib/keep.txt": b""}
    before = make(tmp_path / "before", files)
    after = make(tmp_path / "after", {name: data for name, data in files.items() if name not in gone})
    assert verify(before, after) == (0 if is_taken else 1)


@pytest.mark.parametrize("make", [wheel, folder])
def test_a_parent_for_several_targets_does_not_go(make: Callable[..., Path], tmp_path: Path) -> None:
    code, parent = "lib/TensileLibrary.co", "lib/TensileLibrary.dat"
    files = {**OTHERS, code: hsaco("gfx1100"), parent: b"\x80", "lib/keep.txt": b""}
    before = make(tmp_path / "before", files)
    after = make(tmp_path / "after", {name: data for name, data in files.items() if name not in (code, parent)})
    assert verify(before, after) == 1


def test_record_must_not_list_a_file_that_went_and_must_list_all_others(tmp_path: Path) -> None:
    files = {**OTHERS, "a/k.aks2": ARCHIVE}
    before = wheel(tmp_path / "before", files)
    line = f"a/k.aks2,{build.digest(ARCHIVE)},{len(ARCHIVE)}\n".encode()
    assert verify(before, wheel(tmp_path / "listed", OTHERS, lambda record: line + record)) == 1
    assert verify(before, wheel(tmp_path / "short", OTHERS, lambda record: record.split(b"\n", 1)[1])) == 1
    assert verify(before, wheel(tmp_path / "right", OTHERS)) == 0


def test_record_in_a_folder_must_not_list_a_file_that_went(tmp_path: Path) -> None:
    before = folder(tmp_path / "before", {**OTHERS, "a/k.aks2": ARCHIVE})
    after = folder(tmp_path / "after", {**OTHERS, "a/k.aks2": ARCHIVE})
    (after / "a/k.aks2").unlink()
    assert verify(before, after) == 1


@pytest.mark.parametrize("where", ["before it", "after it"])
def test_bytes_beside_a_file_that_went_are_not_lost_with_it(where: str, tmp_path: Path) -> None:
    data = build.packed(build.files_of({**OTHERS, "a/k.aks2": ARCHIVE}))
    before = tmp_path / "demo-1.5-py3-none-any.whl"
    before.write_bytes(with_gap(data, "a/k.aks2", is_after=where == "after it"))
    assert verify(before, wheel(tmp_path / "after", OTHERS)) == 1
