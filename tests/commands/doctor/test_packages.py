"""Packages against what they state of their files: what their tools write is right, and a changed byte is told."""

from __future__ import annotations

import bz2
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.builders import conda, wheels
from tests.builders.packages import debian, rpm, tarred
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

import fatpack
from fatpack.commands.doctor.model import DoctorResult

FATBIN = (FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin").read_bytes()
FILES = {"usr/lib/x.fatbin": FATBIN, "usr/share/readme.md": b"text that nobody reads\n"}
OTHER = b"TEXT that nobody reads\n"


def _records(found: DoctorResult) -> int:
    return next(row.checked for row in found.verified if row.what == "records")


def _codes(found: DoctorResult) -> list[str]:
    return [item.code for item in found.findings]


def _deb(files: Mapping[str, bytes], listed: Mapping[str, bytes], sums: str = "") -> bytes:
    lines = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, data in listed.items())
    control = tarred({"./control": b"Package: demo\n", "./md5sums": (sums or lines).encode()})
    return debian({"control.tar": control, "data.tar": tarred({f"./{name}": data for name, data in files.items()})})


def _conda(files: Mapping[str, bytes], listed: Mapping[str, bytes]) -> bytes:
    paths = json.dumps({"paths": [conda.entry(name, data) for name, data in listed.items()], "paths_version": 1})
    info = conda.tarred({"info/paths.json": paths.encode(), "info/index.json": b"{}"})
    return conda.zipped("demo-1-0", conda.tarred(files), info)


def _old_conda(files: Mapping[str, bytes], listed: Mapping[str, bytes]) -> bytes:
    paths = json.dumps({"paths": [conda.entry(name, data) for name, data in listed.items()], "paths_version": 1})
    return bz2.compress(conda.tarred({**files, "info/index.json": b"{}", "info/paths.json": paths.encode()}))


KINDS: list[tuple[str, Callable[..., bytes]]] = [("x.deb", _deb), ("x.conda", _conda), ("x.tar.bz2", _old_conda)]


@pytest.mark.parametrize(("name", "made"), KINDS, ids=[name for name, _ in KINDS])
def test_a_changed_byte_in_a_file_that_no_image_is_in_is_reported(
    tmp_path: Path, name: str, made: Callable[..., bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(made(FILES, FILES))
    found = fatpack.doctor(path)
    assert (found.verdict, _records(found), found.images) == ("healthy", 2, 4)
    path.write_bytes(made({**FILES, "usr/share/readme.md": OTHER}, FILES))
    found = fatpack.doctor(path)
    assert _codes(found) == ["FP3603"]
    assert "readme.md" in found.findings[0].message
    assert (found.verdict, found.exit_code) == ("damaged", 3)


@pytest.mark.parametrize(("name", "made"), KINDS, ids=[name for name, _ in KINDS])
def test_files_that_are_listed_and_not_there(tmp_path: Path, name: str, made: Callable[..., bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(made(FILES, {**FILES, "usr/lost": b"1"}))
    found = fatpack.doctor(path)
    assert [item.message.split(" lists ")[1] for item in found.findings] == ["usr/lost, which is not in the package"]
    path.write_bytes(made({**FILES, "usr/more": b"1"}, FILES))
    found = fatpack.doctor(path)
    assert _codes(found) == ([] if name == "x.deb" else ["FP3604"])  # configuration files have no line there


@pytest.mark.parametrize("text", ["nothing\n", "0123  too/short\n", "\0\n"])
def test_a_line_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.deb").write_bytes(_deb(FILES, {}, text))
    assert _codes(fatpack.doctor(tmp_path / "x.deb")) == ["FP3604"]


@pytest.mark.parametrize("text", ["[]", "{", '{"paths": 1}', '{"paths": [1]}', '{"paths": [{}]}', "[" * 100_000])
def test_a_list_of_conda_that_is_none(tmp_path: Path, text: str) -> None:
    info = conda.tarred({"info/paths.json": text.encode()})
    (tmp_path / "x.conda").write_bytes(conda.zipped("demo-1-0", conda.tarred(FILES), info))
    found = fatpack.doctor(tmp_path / "x.conda")
    assert _codes(found) == ["FP3604"]
    assert "paths.json" in found.findings[0].message


def test_packages_that_state_nothing_say_so(tmp_path: Path) -> None:
    (tmp_path / "x.rpm").write_bytes(rpm(FILES))
    (tmp_path / "x.deb").write_bytes(debian({"control.tar": tarred({"./control": b""}), "data.tar": tarred(FILES)}))
    (tmp_path / "x.tar").write_bytes(tarred(FILES))
    why = {item.why for item in fatpack.doctor(tmp_path).not_verified}
    assert {"the package states none", "it has no digests of files", "control.tar has no md5sums"} <= why
    assert "no checksums of them: tar" in why


def test_the_cut_of_a_package_is_reported(tmp_path: Path) -> None:
    for name, made in KINDS:
        data = made(FILES, FILES)
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        found = fatpack.doctor(tmp_path / name)
        assert found.exit_code == 3
        assert {"FP1701", "FP1710"} & {*_codes(found)} or found.affected[0].error


SPEC = """
Name: demo
Version: 1
Release: 1
Summary: x
License: x
BuildArch: noarch
%description
x
%install
cp -r FOLDER/usr %{buildroot}
ln -s x.fatbin %{buildroot}/usr/lib/link
ln %{buildroot}/usr/lib/x.fatbin %{buildroot}/usr/lib/y.fatbin
%files
/usr
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    return tmp_path


@pytest.mark.reference
@pytest.mark.parametrize("payload", ["w6.gzdio", "w3.zstdio", "w.ufdio"])
def test_what_rpmbuild_writes_is_healthy_and_a_changed_byte_is_not(tree: Path, payload: str) -> None:
    tool("rpmbuild")
    (tree / "t.spec").write_text(SPEC.replace("FOLDER", str(tree / "in")))
    defines = [f"_topdir {tree}", f"_binary_payload {payload}", "_build_id_links none"]
    run("rpmbuild", "-bb", *(word for define in defines for word in ("--define", define)), "t.spec", cwd=tree)
    (path,) = (tree / "RPMS").rglob("*.rpm")
    found = fatpack.doctor(path)
    assert (found.verdict, found.images) == ("healthy", 4), [item.message for item in found.findings]
    assert _records(found) >= 3 + 2  # two headers' digests, the payload's, two files
    data = bytearray(path.read_bytes())
    at = data.find(b"demo", 200)  # its name, in the main header
    data[at] ^= 1
    path.write_bytes(data)
    found = fatpack.doctor(path)
    assert "FP3603" in _codes(found)
    assert any(item.message.startswith("header has another sha256") for item in found.findings)


@pytest.mark.reference
def test_what_dpkg_deb_writes_is_compared(tree: Path) -> None:
    (tree / "in/DEBIAN").mkdir()
    control = "Package: demo\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    (tree / "in/DEBIAN/control").write_text(control)
    sums = run("md5sum", *FILES, cwd=tree / "in").stdout
    (tree / "in/DEBIAN/md5sums").write_bytes(sums)
    run("dpkg-deb", "--build", "in", "x.deb", cwd=tree)
    found = fatpack.doctor(tree / "x.deb")
    assert (found.verdict, _records(found)) == ("healthy", 2)


def test_a_wheel_that_is_cut_lacks_no_record_besides(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.5-py3-none-any.whl"
    path.write_bytes(wheels.wheel({"demo/__init__.py": bytes(5000)})[:-100])
    found = fatpack.doctor(path)
    assert found.verdict == "damaged"
    assert {item.code for item in found.findings} == {"FP1701"}
