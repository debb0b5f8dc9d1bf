"""The proof of wheels: what slimming makes is proved, and whatever else is changed is found."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES

from fatpack.cli import main
from fatpack.errors import BadValue
from fatpack.proof import wheels
from fatpack.proof.wheels import WheelVerdict

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
FILES = {
    "demo/__init__.py": b"value = 1\n",
    "demo/libtwo.so": (HOSTS / "libtwo.so").read_bytes(),
    "demo-1.5.data/data/libtwo.so": (HOSTS / "libtwo.so").read_bytes(),
}
INFO = "demo-1.5.dist-info"


def slimmed(tmp_path: Path, *naming: str) -> tuple[bytes, bytes]:
    """Return a wheel before and after."""
    old = tmp_path / "demo-1.5-py3-none-any.whl"
    old.write_bytes(build.wheel(FILES))
    assert main(["slim", str(old), "--for", "sm_90", *naming, "-d", str(tmp_path / "dist"), "-q"]) == 0
    (new,) = (tmp_path / "dist").iterdir()
    return old.read_bytes(), new.read_bytes()


def proof_of(before: bytes, after: bytes) -> WheelVerdict:
    return wheels.verify(view_of(before, "before"), view_of(after, "after"))


@pytest.mark.parametrize(
    ("naming", "described"), [(["--build-tag", "1"], "WHEEL"), (["--local-version", "sm90"], "METADATA")]
)
def test_what_slimming_makes_is_proved(tmp_path: Path, naming: list[str], described: str) -> None:
    verdict = proof_of(*slimmed(tmp_path, *naming))
    assert verdict.differences == ()
    assert verdict.is_proved
    assert [item.verdict.is_proved for item in verdict.libraries] == [True, True]
    assert [name.rpartition("/")[2] for name in verdict.described] == [described, "RECORD"]
    assert verdict.same_count == 2


def test_a_wheel_is_itself() -> None:
    data = build.wheel(FILES)
    verdict = proof_of(data, data)
    assert (verdict.is_proved, verdict.same_count, verdict.libraries) == (True, 6, ())


def files_of(data: bytes, tmp_path: Path) -> dict[str, bytes]:
    path = tmp_path / "new.zip"
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed_version(files: dict[str, bytes]) -> None:
    files[f"{INFO}/METADATA"] = files[f"{INFO}/METADATA"].replace(b"Version: 1.5", b"Version: 1.6", 1)


def changed_code(files: dict[str, bytes]) -> None:
    files["demo/__init__.py"] = b"value = 2\n"


def changed_library(files: dict[str, bytes]) -> None:
    data = bytearray(files["demo/libtwo.so"])
    at = data.index(b"GCC: (")  # in a section that is not loaded, and yet a part of the file
    data[at] ^= 1
    files["demo/libtwo.so"] = bytes(data)


def other_summary(files: dict[str, bytes]) -> None:
    files[f"{INFO}/METADATA"] = files[f"{INFO}/METADATA"].replace(b"a demo", b"another")


def other_tag(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] = files[f"{INFO}/WHEEL"].replace(b"py3-none-any", b"py2-none-any")


def missing_line(files: dict[str, bytes]) -> None:
    files[f"{INFO}/RECORD"] = b"".join(files[f"{INFO}/RECORD"].splitlines(keepends=True)[1:])


def broken_line(files: dict[str, bytes]) -> None:
    files[f"{INFO}/RECORD"] += b"a,b\n"


def one_more(files: dict[str, bytes]) -> None:
    files["demo/more.py"] = b""


def one_less(files: dict[str, bytes]) -> None:
    del files["demo/__init__.py"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (changed_version, "METADATA: version"),
        (changed_code, "demo/__init__.py: content"),
        (changed_library, "demo/libtwo.so: 1 differences"),
        (other_summary, "METADATA: lines that must not change"),
        (other_tag, "WHEEL: lines that must not change"),
        (missing_line, "RECORD: files"),
        (broken_line, "RECORD: a line"),
        (one_more, "number of files"),
        (one_less, "name of a file"),
    ],
)
def test_any_other_change_is_found(tmp_path: Path, change: object, what: str) -> None:
    before, after = slimmed(tmp_path, "--build-tag", "1")
    files = files_of(after, tmp_path)
    change(files)  # type: ignore[operator]
    verdict = proof_of(before, build.packed(files))
    assert not verdict.is_proved
    assert any(what in difference.what for difference in verdict.differences), verdict.differences


def test_what_is_no_wheel_is_refused() -> None:
    with pytest.raises(BadValue):
        proof_of(build.wheel(FILES), build.packed({"a": b""}))
    with pytest.raises(BadValue):
        proof_of(build.wheel(FILES), b"PK")
