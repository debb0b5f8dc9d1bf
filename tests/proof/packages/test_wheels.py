"""The proof of wheels: what slimming makes is proved, and whatever else is changed is found."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES
from tests.proof.packages.forgeries import with_last

from fatpack.distributions import wheel_metadata
from fatpack.errors import BadValue, LimitExceeded
from fatpack.main import main
from fatpack.proof import packages
from fatpack.proof.ledger import DifferenceLog
from fatpack.proof.packages import wheels
from fatpack.proof.packages.verdict import PackageProofResult

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


def proof_of(before: bytes, after: bytes) -> PackageProofResult:
    return wheels.prove_wheel(view_of(before, "before"), view_of(after, "after"))


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


def other_ends(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] = files[f"{INFO}/WHEEL"].replace(b"\n", b"\r\n")


def other_end_of_version(files: dict[str, bytes]) -> None:
    files[f"{INFO}/METADATA"] = files[f"{INFO}/METADATA"].replace(b"Version: 1.5\n", b"Version: 1.5\r\n")


def no_end(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] = files[f"{INFO}/WHEEL"].replace(b"\nTag:", b"\x0bTag:")


def two_builds(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] = files[f"{INFO}/WHEEL"].replace(b"\nBuild: 1", b"\nBuild: 1\nbuild: 2")


def build_in_the_text(files: dict[str, bytes]) -> None:
    files[f"{INFO}/WHEEL"] += b"build: 2\n"


def second_line(files: dict[str, bytes]) -> None:
    lines = files[f"{INFO}/RECORD"]
    files[f"{INFO}/RECORD"] = b"demo/__init__.py,sha256=no,1\n" + lines


def other_size(files: dict[str, bytes]) -> None:
    lines = files[f"{INFO}/RECORD"]
    files[f"{INFO}/RECORD"] = lines.replace(f"{INFO}/RECORD,,".encode(), f"{INFO}/RECORD,,7".encode())


def no_digest(files: dict[str, bytes]) -> None:
    lines = files[f"{INFO}/RECORD"].splitlines(keepends=True)
    files[f"{INFO}/RECORD"] = b"demo/__init__.py,,11\n" + b"".join(lines[1:])


def digest_by_nothing(files: dict[str, bytes]) -> None:
    files[f"{INFO}/RECORD"] = files[f"{INFO}/RECORD"].replace(b",sha256=", b",=", 1)


def one_more(files: dict[str, bytes]) -> None:
    files["demo/more.py"] = b""


def one_less(files: dict[str, bytes]) -> None:
    del files["demo/__init__.py"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (changed_version, "METADATA: version"),
        (changed_code, "demo/__init__.py: content"),
        (changed_library, "demo/libtwo.so: 1 difference"),
        (other_summary, "METADATA: lines that must not change"),
        (other_tag, "WHEEL: lines that must not change"),
        (missing_line, "RECORD: files"),
        (broken_line, "RECORD: a line"),
        (other_ends, "WHEEL: lines that must not change"),
        (other_end_of_version, "METADATA: lines that must not change"),
        (no_end, "WHEEL: lines that must not change"),
        (two_builds, "WHEEL: lines that must not change"),
        (build_in_the_text, "WHEEL: lines that must not change"),
        (second_line, "RECORD: demo/__init__.py: lines"),
        (other_size, "RECORD: demo-1.5.dist-info/RECORD: size"),
        (no_digest, "RECORD: demo/__init__.py: size"),
        (digest_by_nothing, "RECORD: demo/__init__.py: digest"),
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


# Variant wheels: one file more, and a label that ends the name.

#: an extra field that no reader knows
EXTRA = b"\x99\x99\4\0evil"

NAME = "demo-1.5-py3-none-any"
VARIANT = f"{INFO}/variant.json"


def split(tmp_path: Path) -> tuple[bytes, bytes]:
    """Return a wheel, and that of the label sm90 which was made of it."""
    old = tmp_path / f"{NAME}.whl"
    old.write_bytes(build.wheel(FILES))
    assert main(["split", str(old), "--by", "sm_90", "-d", str(tmp_path / "dist"), "-q"]) == 0
    return old.read_bytes(), (tmp_path / "dist" / f"{NAME}-sm90.whl").read_bytes()


def proof_of_variant(before: bytes, after: bytes, name: str = f"{NAME}-sm90.whl") -> PackageProofResult:
    return wheels.prove_wheel(view_of(before, f"{NAME}.whl"), view_of(after, name))


def test_a_variant_wheel_is_proved(tmp_path: Path) -> None:
    before, after = split(tmp_path)
    verdict = proof_of_variant(before, after)
    assert verdict.differences == ()
    assert [name.rpartition("/")[2] for name in verdict.described] == ["variant.json", "RECORD"]
    assert proof_of(after, after).is_proved
    assert not proof_of(after, before).is_proved, "a variant wheel without its description is another one"


@pytest.mark.parametrize("name", [f"{NAME}-sm80.whl", f"{NAME}.whl", f"{NAME}-null.whl"])
def test_the_label_ends_the_name(tmp_path: Path, name: str) -> None:
    verdict = proof_of_variant(*split(tmp_path), name)
    assert [one.what for one in verdict.differences] == [f"{VARIANT}: label"]


def repacked_variant(files: dict[str, bytes], text: bytes, *, at_end: bool = True) -> bytes:
    """Return a variant wheel with another description, and a RECORD that is right about it."""
    new = {name: data for name, data in files.items() if name != VARIANT}
    lines = [line for line in new[f"{INFO}/RECORD"].decode().splitlines(keepends=True) if VARIANT not in line]
    new[f"{INFO}/RECORD"] = "".join([*lines, f"{VARIANT},{build.digest(text)},{len(text)}\n"]).encode()
    return build.packed({**new, VARIANT: text} if at_end else {VARIANT: text, **new})


GOOD = b"""{"$schema": "x", "default-priorities": {}, "providers": {}, "variants": {"sm90": {"a": {"b": ["c"]}}}}"""


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text, ""),
        (lambda text: text.replace(b"{", b"", 1), "variant.json: text"),
        (lambda text: b"[]", "variant.json: fields"),
        (lambda text: text.replace(b'"$schema": "x", ', b""), "variant.json: fields"),
        (lambda text: text.replace(b'{"$schema"', b'{"code": 1, "$schema"'), "variant.json: fields"),
        (
            lambda text: text.replace(b'{"sm90": {', b'{"sm80": {"a": {"b": ["c"]}}, "sm90": {'),
            "variant.json: variants",
        ),
        (lambda text: text.replace(b'"sm90"', b'"SM90"'), "variant.json: variants"),
        (lambda text: text.replace(b'"sm90"', b'"morethansixteen90"'), "variant.json: variants"),
        (lambda text: text.replace(b'{"a": {"b": ["c"]}}', b"{}"), "variant.json: properties"),
        (lambda text: text.replace(b'"sm90"', b'"null"'), "variant.json: properties"),
        (lambda text: text.replace(b'"sm90"', b'"sm80"'), "variant.json: label"),
        (lambda text: text.replace(b'"providers": {}', b'"providers": {}, "providers": {}'), "variant.json: text"),
    ],
)
def test_a_wrong_description_is_a_difference(tmp_path: Path, change: Callable[[bytes], bytes], what: str) -> None:
    before, after = split(tmp_path)
    text = change(GOOD)
    assert text != GOOD or not what
    verdict = proof_of_variant(before, repacked_variant(files_of(after, tmp_path), text))
    found = {one.what for one in verdict.differences}
    assert (f"{INFO}/{what}" in found) if what else not found


def test_what_is_added_besides_is_a_difference(tmp_path: Path) -> None:
    before, after = split(tmp_path)
    files = files_of(after, tmp_path)
    moved = proof_of_variant(before, repacked_variant(files, GOOD, at_end=False))
    assert any("name of a file" in one.what for one in moved.differences)
    more = proof_of_variant(before, build.packed({"evil.py": b"1", **files}))
    assert not more.is_proved
    last = proof_of_variant(before, build.packed({**files, "demo/evil.py": b"1"}))
    assert [
        (one.what.partition(":")[0], one.expected, one.found) for one in last.differences if "number" in one.what
    ] == [("number of files", "none", "demo/evil.py")]
    unlisted = {**files, f"{INFO}/RECORD": b"".join(files[f"{INFO}/RECORD"].splitlines(keepends=True)[:-1])}
    assert any("RECORD: demo-1.5" in one.what for one in proof_of_variant(before, build.packed(unlisted)).differences)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: with_last(data, comment=b"evil"), "entry of the directory"),
        (lambda data: with_last(data, extra=EXTRA), "entry of the directory"),
        (lambda data: with_last(data, gap=b"evil"), "bytes after"),
        (lambda data: with_last(data, mode=0o100755), "external_attr"),
    ],
)
def test_nothing_hides_around_what_was_added(tmp_path: Path, change: Callable[[bytes], bytes], what: str) -> None:
    before, after = split(tmp_path)
    assert with_last(after) == after
    verdict = proof_of_variant(before, change(after))
    assert not verdict.is_proved
    assert any("variant.json" in one.what and what in one.what for one in verdict.differences), verdict.differences


def test_a_name_that_is_there_twice_is_a_difference() -> None:
    data = build.wheel(FILES)
    name = b"demo/__init__.py"
    assert proof_of(data, data).is_proved
    odd = build.wheel({**FILES, "demo/__abcd__.py": b"2\n"}).replace(b"demo/__abcd__.py", name)
    assert any("entries" in item.what for item in proof_of(odd, odd).differences)


def test_a_wheel_with_names_as_condas_is_proved_as_a_wheel() -> None:
    data = build.wheel({**FILES, "pkg-data/__init__.py": b"", "pkg-data.tar.zst": b"no archive"})
    assert packages.prove_package(view_of(data, "before"), view_of(data, "after")).kind == "wheel"


@pytest.mark.parametrize("wheel", [build.WHEEL, b"Wheel-Version: 1.0\r\nTag: py3-none-any", b"Build: 0\n", b""])
def test_the_build_tag_that_slimming_writes_is_proved(wheel: bytes) -> None:
    ledger = DifferenceLog()
    after = wheel_metadata.with_header_value(wheel, "Build", "1sm", after="Tag")
    wheels.compare_wheel("WHEEL", wheel.decode(), after.decode(), ledger)
    assert ledger.differences == []


def test_a_description_is_read_whole_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = build.wheel(FILES)
    monkeypatch.setattr(wheels, "_TEXT", 300)
    with pytest.raises(LimitExceeded, match="dist-info/RECORD"):
        proof_of(data, data)


def test_a_description_that_is_too_large_is_named_with_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = split(tmp_path)
    with zipfile.ZipFile(io.BytesIO(after)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    most = max(len(data) for name, data in files.items() if name.startswith(INFO))
    monkeypatch.setattr(wheels, "_TEXT", most)
    with pytest.raises(LimitExceeded, match=VARIANT) as caught:
        proof_of_variant(before, repacked_variant(files, GOOD + b" " * most))
    assert caught.value.chain == (f"{NAME}-sm90.whl",)


def test_what_is_no_wheel_is_refused() -> None:
    for names, found in ((["a"], "none"), (["b.dist-info/a", "a.dist-info/a"], "a.dist-info, b.dist-info")):
        with pytest.raises(BadValue) as caught:
            proof_of(build.wheel(FILES), build.packed(dict.fromkeys(names, b"")))
        assert caught.value.found == found
    with pytest.raises(BadValue):
        proof_of(build.wheel(FILES), b"PK")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("WHEEL", b"Build: 1\n", b"Build: 1\rRoot-Is-Purelib: true\n"),
        ("METADATA", b"\nVersion: 1.5\n", b"\nVersion:\r\r1.5\n"),
    ],
)
def test_a_carriage_return_hides_no_header(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    old, new = slimmed(tmp_path, "--build-tag", "1")
    with zipfile.ZipFile(io.BytesIO(new)) as archive:
        files = {one: archive.read(one) for one in archive.namelist()}
    assert files[f"{INFO}/{name}"].count(before) == 1
    files[f"{INFO}/{name}"] = files[f"{INFO}/{name}"].replace(before, after)
    lines = [f"{one},{build.digest(data)},{len(data)}\n" for one, data in files.items() if not one.endswith("/RECORD")]
    files[f"{INFO}/RECORD"] = "".join([*lines, f"{INFO}/RECORD,,\n"]).encode()
    verdict = proof_of(old, build.packed(files))
    assert any(name in item.what for item in verdict.differences)
