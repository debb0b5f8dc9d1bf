"""Conda packages with slimmed libraries: what conda's own reader says of them, and what is refused."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.builders import conda as build
from tests.builders.packages import view_of
from tests.reference import package

from fatpack.commands.slim.conda import SlimmedConda, slim_conda
from fatpack.errors import BadValue, HostError, UsageError
from fatpack.io.source import PiecesSource, View
from fatpack.record import Record

STEM, NEW = "demo-1.5-h12_0", "demo-1.5-sm90_h12_0"
LIBRARY = b"\x7fELF" + b"code" * 20 + bytes(90_000)
FILES = {"lib/libdemo.so.1": LIBRARY, "lib/other.so": b"\x7fELF" + b"plain", "site-packages/a.py": b"value = 1\n"}


def entry(name: str, data: bytes, kind: str = "hardlink") -> dict[str, Any]:
    prefix = {"file_mode": "binary", "prefix_placeholder": "/placeholder"} if name == "lib/libdemo.so.1" else {}
    return build.entry(name, data, kind) | prefix


def info_files() -> dict[str, bytes]:
    paths = [entry(name, data) for name, data in FILES.items()]
    paths.append(entry("lib/libdemo.so", LIBRARY, "softlink"))
    index = {"arch": "x86_64", "build": "h12_0", "build_number": 0, "name": "demo", "version": "1.5"}
    return {
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}, indent=2).encode(),
        "info/index.json": json.dumps(index, separators=(",", ":")).encode() + b"\n",
        "info/about.json": b"{}",
    }


def package_of(suffix: str, files: dict[str, bytes], info: dict[str, bytes]) -> bytes:
    links = {"lib/libdemo.so": "libdemo.so.1"} if "lib/libdemo.so.1" in files else {}
    if suffix == ".tar.bz2":
        return bz2.compress(build.tarred({**info, **files}, links))
    return build.zipped(STEM, build.tarred(files, links), build.tarred(info))


#: what the packages of a test hold open
OPENED = ExitStack()


@pytest.fixture(autouse=True)
def closed_in_the_end() -> Iterator[None]:
    with OPENED:
        yield


class Shorter(Record):
    """Replaces a slimmed library in these tests."""

    pieces: list[bytes]
    is_changed: bool

    def verify(self, before: View, after: View) -> None:
        assert before.tobytes().rstrip(b"\0") == after.tobytes()


def shorter(view: View) -> Shorter:
    """Take the zeros at the end of a file away."""
    data = view.tobytes()
    return Shorter([data[:2], data[2:].rstrip(b"\0")], data.endswith(b"\0"))


def slimmed(data: bytes, suffix: str, build_tag: str = "sm90", stem: str = STEM) -> tuple[SlimmedConda, bytes]:
    name = stem + suffix
    result = slim_conda(view_of(data, name), name, shorter, build_tag, OPENED)
    made = PiecesSource(result.pieces, result.name)
    result.verify(made.view())
    return result, made.read(0, made.size)


def content_of(suffix: str, data: bytes, stem: str) -> dict[str, bytes]:
    tars = [bz2.decompress(data)] if suffix == ".tar.bz2" else []
    if not tars:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.namelist() == ["metadata.json", f"pkg-{stem}.tar.zst", f"info-{stem}.tar.zst"]
            names = archive.namelist()[1:]
            tars = [zstandard.ZstdDecompressor().decompressobj().decompress(archive.read(name)) for name in names]
    found = {}
    for tar in tars:
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            for info in opened.getmembers():
                if info.isreg():
                    assert info.mtime == 1_600_000_000
                    found[info.name] = opened.extractfile(info).read()  # type: ignore[union-attr]
    return found


@pytest.fixture(params=[".conda", ".tar.bz2"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_paths_build_string_and_names_are_in_step(suffix: str) -> None:
    data = package_of(suffix, FILES, info_files())
    result, made = slimmed(data, suffix)
    assert result.name == NEW + suffix
    files = content_of(suffix, made, NEW)
    new = LIBRARY.rstrip(b"\0")
    assert files["lib/libdemo.so.1"] == new
    assert {name: files[name] for name in FILES if name != "lib/libdemo.so.1"} == {
        name: data for name, data in FILES.items() if name != "lib/libdemo.so.1"
    }
    old = info_files()
    paths = json.loads(old["info/paths.json"])
    for changed in (paths["paths"][0], paths["paths"][3]):  # the library, and the link that leads to it
        changed |= {"sha256": hashlib.sha256(new).hexdigest(), "size_in_bytes": len(new)}
    assert files["info/paths.json"] == json.dumps(paths, indent=2).encode()
    assert files["info/index.json"] == old["info/index.json"].replace(b'"h12_0"', b'"sm90_h12_0"')
    assert files["info/about.json"] == b"{}"
    assert slimmed(data, suffix)[1] == made
    assert [(item.name, item.before, item.after) for item in result.libraries] == [
        ("lib/libdemo.so.1", len(LIBRARY), len(new)),
        ("lib/other.so", 9, 9),
    ]


def test_a_package_in_which_nothing_changes_is_the_same_to_the_byte(suffix: str) -> None:
    files = {"lib/other.so": FILES["lib/other.so"]}
    data = package_of(suffix, files, info_files())
    result, same = slimmed(data, suffix, "")
    assert (result.is_changed, result.name, same) == (False, STEM + suffix, data)


def test_a_changed_package_needs_another_name(suffix: str) -> None:
    with pytest.raises(UsageError, match=r"needs another name.*build_tag='slim'"):
        slimmed(package_of(suffix, FILES, info_files()), suffix, "")


def test_what_is_no_build_string_is_refused(suffix: str) -> None:
    with pytest.raises(UsageError, match="for example sm90"):
        slimmed(package_of(suffix, FILES, info_files()), suffix, "sm-90")


def test_the_name_of_another_package_is_refused(suffix: str) -> None:
    with pytest.raises(UsageError, match=f"again: {STEM}.conda"):
        slimmed(package_of(suffix, FILES, info_files()), suffix, stem="demo-1.6-h12_0")


@pytest.mark.parametrize(("field", "value"), [("sha256", "0" * 64), ("size_in_bytes", 7)])
def test_a_library_that_is_not_what_the_package_says_is_refused(suffix: str, field: str, value: object) -> None:
    info = info_files()
    paths = json.loads(info["info/paths.json"])
    paths["paths"][0][field] = value
    info["info/paths.json"] = json.dumps(paths).encode()
    with pytest.raises(BadValue, match="describes itself wrongly") as caught:
        slimmed(package_of(suffix, FILES, info), suffix)
    assert caught.value.field == f"info/paths.json: lib/libdemo.so.1: {field}"


@pytest.mark.parametrize("text", [b"", b"[]", b'{"paths": 1}', b"[" * 100_000])
def test_paths_that_are_none_are_named(suffix: str, text: bytes) -> None:
    with pytest.raises(BadValue, match=r"info/paths\.json"):
        slimmed(package_of(suffix, FILES, info_files() | {"info/paths.json": text}), suffix)


def test_a_package_without_its_description_is_refused(suffix: str) -> None:
    info = info_files()
    del info["info/index.json"]
    with pytest.raises(BadValue, match="does not describe itself"):
        slimmed(package_of(suffix, FILES, info), suffix)


def test_a_zip_archive_that_is_no_package_is_refused() -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("pkg-demo.tar.zst", b"")
    with pytest.raises(BadValue, match="no conda package"):
        slimmed(into.getvalue(), ".conda")


def test_the_proof_refuses_another_package(suffix: str) -> None:
    data = package_of(suffix, FILES, info_files())
    result, _ = slimmed(data, suffix)
    with pytest.raises(HostError):
        result.verify(view_of(data))


@pytest.mark.reference
def test_condas_own_reader_takes_it(suffix: str, tmp_path: Path) -> None:
    result, made = slimmed(package_of(suffix, FILES, info_files()), suffix)
    file = tmp_path / result.name
    file.write_bytes(made)
    handling = package("conda_package_handling.api")
    handling.extract(str(file), str(tmp_path / "out"))
    assert (tmp_path / "out" / "lib" / "libdemo.so").read_bytes() == LIBRARY.rstrip(b"\0")
    assert json.loads((tmp_path / "out" / "info" / "index.json").read_text())["build"] == "sm90_h12_0"
    subprocess.run(["test", "-L", tmp_path / "out" / "lib" / "libdemo.so"], check=True)


def test_what_was_inflated_is_let_go(suffix: str) -> None:
    with ExitStack() as stack:
        name = STEM + suffix
        result = slim_conda(view_of(package_of(suffix, FILES, info_files()), name), name, shorter, "sm90", stack)
        assert result.written is not None
        plains = [edit.tar.plain.source for edit in result.written.tars]
        assert not any(source.is_closed for source in plains)  # type: ignore[attr-defined]
    assert all(source.is_closed for source in plains)  # type: ignore[attr-defined]
