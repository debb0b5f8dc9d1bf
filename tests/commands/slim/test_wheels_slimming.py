"""Wheels with slimmed libraries: what installers and checkers say of them, and what is refused."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.builders.packages import view_of
from tests.reference import package

from fatpack.commands.slim import wheels
from fatpack.commands.slim.options import NameChange, SlimOptions
from fatpack.commands.slim.wheels import SlimmedWheel, slim_wheel
from fatpack.distributions import wheel_metadata
from fatpack.errors import BadValue, FormatError, HostError, Unsupported, UsageError
from fatpack.io.source import PiecesSource, View
from fatpack.record import Record
from fatpack.targets.devices import Device

NAME = "demo-1.5-py3-none-any.whl"
FILES = {
    "demo/__init__.py": b"value = 1\n",
    "demo/lib,a.so": b"\x7fELF" + bytes(5000),
    "demo/libb.so": b"\x7fELF" + b"plain" * 300,
    "demo-1.5.data/scripts/demo-tool.so": b"\x7fELF" + bytes(700),
}
BUILD, LOCAL = NameChange(build_tag="1sm90"), NameChange(local_version="sm90")


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


def slimmed(data: bytes, naming: NameChange, name: str = NAME) -> tuple[SlimmedWheel, bytes]:
    result = slim_wheel(view_of(data, name), name, shorter, naming)
    made = PiecesSource(result.pieces, result.name)
    result.verify(made.view())
    return result, made.read(0, made.size)


def content_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def check_record(files: dict[str, bytes], info: str) -> None:
    rows = list(csv.reader(io.StringIO(files[f"{info}/RECORD"].decode())))
    assert [path for path, _, _ in rows] == list(files)
    for path, stated, size in rows[:-1]:
        assert (stated, int(size)) == (build.digest(files[path]), len(files[path]))


@pytest.mark.parametrize(
    ("naming", "name", "stem"),
    [
        (BUILD, "demo-1.5-1sm90-py3-none-any.whl", "demo-1.5"),
        (LOCAL, "demo-1.5+sm90-py3-none-any.whl", "demo-1.5+sm90"),
        (NameChange("2", "SM_90"), "demo-1.5+sm.90-2-py3-none-any.whl", "demo-1.5+sm.90"),
    ],
)
def test_names_record_and_metadata_are_in_step(naming: NameChange, name: str, stem: str) -> None:
    result, data = slimmed(build.wheel(FILES), naming)
    files = content_of(data)
    assert result.name == name
    info = f"{stem}.dist-info"
    check_record(files, info)
    version = stem.partition("-")[2]
    assert files[f"{info}/METADATA"] == build.METADATA.replace(b"Version: 1.5", b"Version: " + version.encode())
    tag = f"Build: {naming.build_tag}\n".encode() if naming.build_tag else b""
    assert files[f"{info}/WHEEL"] == build.WHEEL.replace(b"any\n", b"any\n" + tag)
    assert files["demo/lib,a.so"] == b"\x7fELF"
    assert files["demo/libb.so"] == FILES["demo/libb.so"]
    assert files[f"{stem}.data/scripts/demo-tool.so"] == b"\x7fELF"
    assert slimmed(build.wheel(FILES), naming)[1] == data


def test_only_the_lines_that_must_change_do() -> None:
    files = build.files_of(FILES, end="\r\n")
    path = "demo-1.5.dist-info/RECORD"
    files[path] = files[path].replace(b"demo/libb.so,", b'"demo/libb.so",')
    _, data = slimmed(build.packed(files), BUILD)
    before, after = (text.splitlines(keepends=True) for text in (files[path], content_of(data)[path]))
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    assert [line.partition(b",sha256")[0] for line in changed] == [
        b'"demo/lib,a.so"',
        b"demo-1.5.data/scripts/demo-tool.so",
        b"demo-1.5.dist-info/WHEEL",
    ]
    assert all(line.endswith(b"\r\n") for line in after)


def test_what_each_library_gains_is_reported() -> None:
    result, data = slimmed(build.wheel(FILES), BUILD)
    assert [(lib.name, lib.before, lib.after, lib.is_changed) for lib in result.libraries] == [
        ("demo/lib,a.so", 5004, 4, True),
        ("demo/libb.so", 1504, 1504, False),
        ("demo-1.5.data/scripts/demo-tool.so", 704, 4, True),
    ]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert [archive.getinfo(lib.name).compress_size for lib in result.libraries] == [
            lib.stored_after for lib in result.libraries
        ]


def test_a_wheel_in_which_nothing_changes_is_the_same_to_the_byte_and_needs_no_name() -> None:
    data = build.wheel({"demo/__init__.py": b"", "demo/libb.so": FILES["demo/libb.so"]})
    result, same = slimmed(data, NameChange())
    assert same == data
    assert (result.name, result.is_changed) == (NAME, False)


def test_a_changed_wheel_needs_another_name() -> None:
    with pytest.raises(UsageError, match=r"needs another name.*build_tag='1slim'.*local_version='slim'"):
        slimmed(build.wheel(FILES), NameChange())


@pytest.mark.parametrize(("old", "new"), [("", "-1sm86.sm90"), ("-2", "-3sm86.sm90"), ("-2rc1", "-3sm86.sm90")])
def test_a_tag_that_nobody_gave_names_the_devices_and_wins(old: str, new: str) -> None:
    devices = Device("nvidia", "sm_86"), Device("nvidia", "sm_90"), Device("nvidia", "sm_86")
    naming = NameChange().for_options(SlimOptions(devices=devices))
    name = wheel_metadata.parse_wheel_name(f"demo-1.5{old}-py3-none-any.whl")
    assert wheels.rename_wheel(name, naming).file_name == f"demo-1.5{new}-py3-none-any.whl"
    amd = NameChange().for_options(SlimOptions(devices=(Device("amd", "gfx90a:xnack+"),)))
    assert wheels.rename_wheel(name.replace(build_tag=""), amd).build_tag == "1gfx90axnackon"


def test_the_build_tag_must_be_another_one() -> None:
    with pytest.raises(UsageError, match="has the build tag 1sm90 already"):
        slimmed(build.wheel(FILES), BUILD, "demo-1.5-1sm90-py3-none-any.whl")


def test_a_build_that_installers_pass_over_is_reported() -> None:
    result, _ = slimmed(build.wheel(FILES), BUILD, "demo-1.5-3-py3-none-any.whl")
    assert result.name == "demo-1.5-1sm90-py3-none-any.whl"
    assert result.notes == ("installers prefer the build 3 to 1sm90 where they see both",)


def test_a_variant_that_is_slimmed_still_declares_what_it_had() -> None:
    result, _ = slimmed(build.wheel(FILES), BUILD, "demo-1.5-py3-none-any-sm80.whl")
    assert result.name == "demo-1.5-1sm90-py3-none-any-sm80.whl"
    assert result.notes == (
        "this is the variant sm80 of a wheel, and its variant.json declares the devices that it had: "
        "fatpack check --metadata compares, and fatpack split makes variants",
    )


@pytest.mark.parametrize(
    "naming", [NameChange(build_tag="sm90"), NameChange(build_tag="1-2"), NameChange(local_version="sm 90")]
)
def test_what_is_no_tag_or_label_is_refused(naming: NameChange) -> None:
    with pytest.raises(UsageError, match="for example"):
        slimmed(build.wheel(FILES), naming)


def test_a_local_version_goes_behind_one_that_is_there() -> None:
    files = build.files_of(
        FILES, info="demo-1.5+cu130.dist-info", metadata=build.METADATA.replace(b"1.5", b"1.5+cu130")
    )
    result, data = slimmed(build.packed(files), LOCAL, "demo-1.5+cu130-py3-none-any.whl")
    assert result.name == "demo-1.5+cu130.sm90-py3-none-any.whl"
    assert "demo-1.5+cu130.sm90.dist-info/RECORD" in content_of(data)


@pytest.mark.parametrize("name", ["RECORD.jws", "RECORD.p7s"])
def test_signed_wheels_are_refused(name: str) -> None:
    files = build.files_of(FILES) | {f"demo-1.5.dist-info/{name}": b"{}"}
    with pytest.raises(HostError, match=f"signed .*{name}"):
        slimmed(build.packed(files), BUILD)


@pytest.mark.parametrize(
    ("path", "data", "field"),
    [
        ("demo/__init__.py", b"value = 2\n", "sha256"),
        ("demo/libb.so", b"\x7fELF", "size"),
        ("demo/lib,a.so", b"\x7fELF" + bytes(5001), "size"),
    ],
)
def test_a_record_that_is_wrong_already_is_refused(path: str, data: bytes, field: str) -> None:
    files = build.files_of(FILES) | {path: data}
    whole = build.packed(files)
    with pytest.raises(BadValue, match="RECORD has another value") as caught:
        slimmed(whole, BUILD)
    assert caught.value.field == f"{path}: {field}"
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        assert caught.value.offset == archive.getinfo(path).header_offset


def test_a_wrong_record_is_reported_where_nothing_changes() -> None:
    files = build.files_of({"demo/libb.so": FILES["demo/libb.so"]}) | {"demo/libb.so": b"\x7fELF other"}
    result, _ = slimmed(build.packed(files), NameChange())
    assert len(result.notes) == 1
    assert "RECORD has another value" in result.notes[0]


def test_a_file_that_record_lists_and_that_is_not_there_is_refused() -> None:
    files = build.files_of(FILES)
    del files["demo/__init__.py"]
    with pytest.raises(BadValue, match="a file that it lists is not there"):
        slimmed(build.packed(files), BUILD)


def test_a_file_that_record_lists_twice_is_refused_whatever_the_first_line_says() -> None:
    files = build.files_of(FILES)
    name = next(name for name in files if name.endswith("RECORD"))
    files[name] = b"demo/__init__.py,sha256=no,1\n" + files[name]
    with pytest.raises(BadValue, match="it lists a file twice") as caught:
        slimmed(build.packed(files), BUILD)
    assert caught.value.field == "RECORD: demo/__init__.py"


def test_a_library_that_record_does_not_list_is_reported() -> None:
    files = build.files_of(FILES) | {"demo/more.so": b"\x7fELF" + bytes(9)}
    result, _ = slimmed(build.packed(files), BUILD)
    assert result.notes == ("RECORD does not list demo/more.so, neither before nor after",)


@pytest.mark.parametrize("line", [b"\xff,,\n", b"a,b\n", b'"a,b,c\n', b"a,sha256=x,many\n"])
def test_a_line_that_is_none_is_named_with_its_offset(line: bytes) -> None:
    files = build.files_of(FILES)
    path = "demo-1.5.dist-info/RECORD"
    at = len(files[path])
    files[path] += line
    with pytest.raises(BadValue, match="a line is not path, digest and size") as caught:
        slimmed(build.packed(files), BUILD)
    assert caught.value.offset == at


def test_two_files_of_one_name_are_refused() -> None:
    data = build.wheel({"demo/a.so": FILES["demo/lib,a.so"], "demo/b.so": FILES["demo/lib,a.so"]})
    with pytest.raises(BadValue, match="RECORD does not say which of them it means"):
        slimmed(data.replace(b"demo/b.so", b"demo/a.so"), BUILD)


def test_the_name_of_another_wheel_is_refused() -> None:
    with pytest.raises(BadValue, match="has the name of another wheel"):
        slimmed(build.wheel(FILES), BUILD, "demo-1.6-py3-none-any.whl")


@pytest.mark.parametrize("name", ["demo.whl", "demo-1.5.zip", "demo-one-py3-none-any.whl"])
def test_what_is_no_name_of_a_wheel_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a wheel"):
        slimmed(build.wheel(FILES), BUILD, name)


def test_a_version_of_wheels_that_is_not_known_is_refused() -> None:
    files = build.files_of(FILES)
    path = "demo-1.5.dist-info/WHEEL"
    files[path] = files[path].replace(b"Wheel-Version: 1.0", b"Wheel-Version: 2.0")
    with pytest.raises(Unsupported, match=r"wheels of version 2\.0"):
        slimmed(build.packed(files), BUILD)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.utils", None)
    with pytest.raises(Unsupported, match=r"pip install packaging"):
        slimmed(build.wheel(FILES), BUILD)


def test_sboms_that_may_be_out_of_date_are_reported() -> None:
    result, _ = slimmed(build.wheel({**FILES, "demo-1.5.dist-info/sboms/a.cdx.json": b"{}"}), BUILD)
    assert any("SBOMs" in note for note in result.notes)


def test_the_proof_refuses_another_record() -> None:
    result, data = slimmed(build.wheel(FILES), BUILD)
    with pytest.raises(HostError):
        result.verify(view_of(data.replace(b"demo-1.5.dist-info/RECORD", b"demo-1.5.dist-info/RECORX")))


@pytest.mark.reference
def test_tools_for_wheels_take_it(tmp_path: Path) -> None:
    result, data = slimmed(build.wheel(FILES), BUILD)
    file = tmp_path / result.name
    file.write_bytes(data)
    run = [sys.executable, "-m"]
    package("check_wheel_contents")
    done = subprocess.run([*run, "check_wheel_contents", "--no-config", file], capture_output=True, text=True)
    # W002: libraries that stand for slimmed ones are equal; W004: no module is called lib,a.
    assert {line.split(": ")[1] for line in done.stdout.splitlines() if ": W" in line} <= {"W002", "W004"}
    subprocess.run([*run, "wheel", "unpack", "-d", tmp_path / "unpacked", file], check=True, capture_output=True)
    target = tmp_path / "target"
    subprocess.run(
        [*run, "pip", "install", "-q", "--no-index", "--no-deps", "--target", target, file],
        check=True,
        capture_output=True,
        env={"PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert (target / "demo" / "lib,a.so").read_bytes() == b"\x7fELF"
    version = result.name.split("-")[1]
    assert (target / f"demo-{version}.dist-info" / "METADATA").read_text().splitlines()[2] == f"Version: {version}"


def test_any_damaged_byte_gives_a_sound_wheel_or_a_precise_error() -> None:
    data = build.wheel({"demo/liba.so": b"\x7fELF" + bytes(40)})
    kept = refused = 0
    for at in range(0, len(data), 3):
        try:
            slimmed(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :], BUILD)
            kept += 1
        except (FormatError, HostError, Unsupported):
            refused += 1
    assert kept > 10
    assert refused > 100


def test_a_variant_keeps_its_label() -> None:
    name = wheel_metadata.parse_wheel_name("demo-1.5-py3-none-any-sm90.whl")
    assert name.label == "sm90"
    new = wheels.rename_wheel(name, NameChange(build_tag="1slim"))
    assert new.file_name == "demo-1.5-1slim-py3-none-any-sm90.whl"
    with pytest.raises(UsageError, match="the label 'SM90' has other characters than a to z"):
        wheel_metadata.parse_wheel_name("demo-1.5-py3-none-any-SM90.whl")
