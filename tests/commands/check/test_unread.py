"""Files of kinds that are not read: all commands say how many there are, and `check` fails for those with code."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.packages import debian, rpm, tarred, zipped
from tests.builders.policy_files import container
from tests.conftest import Ran

from fatpack import check
from fatpack.errors import UsageError
from fatpack.scanner.unread_kinds import KINDS

Fatpack = Callable[..., Ran]

CUDA = container("80")

ENGINE = b"ftrt" + bytes(300)
CONTAINER = b"DXBC" + bytes(300)
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c" + bytes(26)
MIGRAPHX = b"\x86\xa7version\xb51.0\xb0migraphx_version\xa62.11.0" + bytes(300)
XCLBIN = b"xclbin2\0" + bytes(300)


def database(path: Path) -> bytes:
    """Return a database of SQLite without kernels."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE words (word TEXT)")
    connection.commit()
    connection.close()
    return path.read_bytes()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A library with a fat binary of CUDA, and a file of each of several kinds that are not read."""
    return {
        "lib/kernels.fatbin": CUDA,
        "lib/model.engine": ENGINE,
        "lib/other.engine": ENGINE,
        "lib/shader.cso": CONTAINER,
        "lib/data.7z": SEVEN_ZIP,
        "lib/words.db": database(tmp_path / "words.db"),
        "lib/readme.txt": b"words",
    }


SAID = (
    "not read: a DXContainer (304 B, device code), 2 TensorRT engines (608 B, device code), a 7z archive (32 B), "
    "a database of SQLite (8.19 kB)"
)


def write(folder: Path, kind: str, files: dict[str, bytes]) -> str:
    """Write files as a folder or a package, and return its name."""
    if kind == "folder":
        for name, data in files.items():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / name).write_bytes(data)
        return "tree"
    make: dict[str, Callable[[dict[str, bytes]], bytes]] = {
        "x-1-py3-none-any.whl": zipped,
        "x.tar.gz": lambda files: gzip.compress(tarred(files)),
        "x.deb": lambda files: debian({"control.tar": tarred({"./control": b""}), "data.tar": tarred(files)}),
        "x.rpm": rpm,
    }
    name = next(name for name in make if name.endswith(kind))
    (folder / name).write_bytes(make[name](files))
    return name


@pytest.mark.parametrize("kind", ["folder", "whl", "tar.gz", "deb", "rpm"])
def test_all_commands_say_what_was_not_read(kind: str, folder: Path, fatpack: Fatpack, files: dict[str, bytes]) -> None:
    name = write(folder, kind, files)
    assert SAID in fatpack("inspect", name).out.splitlines()[-1]
    checked = fatpack("check", name, "--require", "sm_80")
    assert checked.out.splitlines()[-1].endswith(SAID)
    assert checked.code == 4
    assert fatpack("report", name, "-o", "page.md").code in (0, 1, 4)
    assert SAID[1:] in (folder / "page.md").read_text()
    assert "TensorRT engines: this version does not read them" in fatpack("doctor", name).out
    assert SAID in fatpack("explain", name, "--device", "sm_80").err


def test_a_check_fails_for_kinds_that_may_have_device_code_unless_they_are_allowed(
    folder: Path, fatpack: Fatpack, files: dict[str, bytes]
) -> None:
    name = write(folder, "whl", files)
    codes = [line.split()[1] for line in fatpack("check", name, "--require", "sm_80").out.splitlines() if "FP" in line]
    assert codes == ["FP3340:"] * 4
    allowed = [word for kind in ("tensorrt", "directx", "7z") for word in ("--allow-unread", kind)]
    ran = fatpack("check", name, "--require", "sm_80", *allowed)
    assert ran.code == 0
    assert ran.out.count("note FP3341") == 4
    assert ran.out.splitlines()[-1].endswith(SAID)
    ran = fatpack("check", name, "--require", "sm_80", *allowed[:4])
    assert (ran.code, ran.out.count("FP3340")) == (4, 1)
    assert "data.7z: not read: a 7z archive; it may hold device code" in ran.out


def test_the_library_allows_kinds_too(folder: Path, files: dict[str, bytes]) -> None:
    path = folder / write(folder, "whl", files)
    checked = check(path, require="sm_80", allow_unread=["tensorrt", "directx", "7z"])
    assert checked
    counts = [(item.kind, item.files, item.size, item.carries) for item in checked.unlooked.not_read]
    assert counts == [
        ("directx", 1, 304, "device code"),
        ("tensorrt", 2, 608, "device code"),
        ("7z", 1, 32, "files"),
        ("sqlite", 1, len(files["lib/words.db"]), ""),
    ]
    with pytest.raises(UsageError, match="'sqlite' fails no check"):
        check(path, require="sm_80", allow_unread="sqlite")
    with pytest.raises(UsageError, match="'bogus' is no kind"):
        check(path, require="sm_80", allow_unread="bogus")


def test_the_kinds_may_stand_in_a_file_of_settings(folder: Path, fatpack: Fatpack, files: dict[str, bytes]) -> None:
    name = write(folder, "whl", files)
    (folder / "policy.toml").write_text('require = ["sm_80"]\nallow-unread = ["tensorrt", "directx", "7z"]\n')
    assert fatpack("check", name, "--config", "policy.toml").code == 0


def test_json_has_the_counts(folder: Path, fatpack: Fatpack, files: dict[str, bytes]) -> None:
    name = write(folder, "whl", files)
    (tree,) = json.loads(fatpack("inspect", "--json", name).out)["trees"]
    assert tree["not_read"][1] == {"kind": "tensorrt", "files": 2, "size": 608, "carries": "device code"}
    checked = json.loads(fatpack("check", "--json", name, "--require", "sm_80").out)["policy"]
    assert checked["not_looked_into"]["not_read"] == tree["not_read"]


def test_nothing_is_said_of_a_package_without_such_files(folder: Path, fatpack: Fatpack) -> None:
    name = write(folder, "whl", {"lib/kernels.fatbin": CUDA, "lib/numbers.npy": b"\x93NUMPY" + bytes(500)})
    for command in (["inspect", name], ["check", name, "--require", "sm_80"], ["explain", name, "--device", "sm_80"]):
        ran = fatpack(*command)
        assert "not read" not in ran.out + ran.err
    assert fatpack("check", name, "--require", "sm_80").code == 0


@pytest.mark.parametrize(("data", "kind"), [(MIGRAPHX, "migraphx"), (XCLBIN, "xclbin"), (ENGINE, "tensorrt")])
def test_stores_of_compiled_programs_are_known_by_their_first_bytes(
    data: bytes, kind: str, folder: Path, fatpack: Fatpack
) -> None:
    (folder / "model.bin").write_bytes(data)
    ran = fatpack("inspect", "model.bin")
    assert ran.code == 4
    assert KINDS[kind].one in ran.out
    assert "no device code found" not in ran.out
    assert fatpack("check", "model.bin", "--require", "gfx942", "--allow-unread", kind).code == 1
