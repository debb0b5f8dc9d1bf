"""The proof of conda packages: what slimming makes is proved, and whatever else is changed is found."""

from __future__ import annotations

import bz2
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard
from tests.builders import conda as build
from tests.builders import wheels
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES

from fatpack.errors import BadValue, LimitExceeded, Unsupported
from fatpack.main import main
from fatpack.proof import packages
from fatpack.proof.packages import conda
from fatpack.proof.packages.verdict import PackageProofResult
from fatpack.text.schemas import schema_text

LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
FILES = {"lib/libtwo.so.1": LIBRARY, "site-packages/a.py": b"value = 1\n", "lib/plain.so": b"plain"}
LINKS = {"lib/libtwo.so": "libtwo.so.1"}
STEM = "demo-1.5-h12_0"

Change = Callable[[dict[str, bytes]], None]


def info() -> dict[str, bytes]:
    paths = [build.entry(name, data) for name, data in FILES.items()]
    paths.append(build.entry("lib/libtwo.so", LIBRARY, "softlink"))
    index = {"build": "h12_0", "build_number": 0, "name": "demo", "version": "1.5"}
    return {
        "info/index.json": json.dumps(index).encode(),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}, indent=2).encode(),
        "info/about.json": b"{}",
    }


def package(suffix: str, files: dict[str, bytes], stem: str = STEM, links: dict[str, str] = LINKS) -> bytes:
    """Return a package of all its files, with those that describe it."""
    if suffix == ".tar.bz2":
        return bz2.compress(build.tarred(files, links))
    describing = {name: data for name, data in files.items() if name.startswith("info/")}
    others = {name: data for name, data in files.items() if name not in describing}
    return build.zipped(stem, build.tarred(others, links), build.tarred(describing))


def files_of(suffix: str, data: bytes) -> dict[str, bytes]:
    tars = [bz2.decompress(data)] if suffix == ".tar.bz2" else []
    if not tars:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            inner = [archive.read(name) for name in archive.namelist() if name.endswith(".zst")]
            tars = [zstandard.ZstdDecompressor().decompressobj().decompress(one) for one in reversed(inner)]
    found = {}
    for tar in tars:
        with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
            for member in opened.getmembers():
                if member.isreg():
                    found[member.name] = opened.extractfile(member).read()  # type: ignore[union-attr]
    return found


@pytest.fixture(params=[".conda", ".tar.bz2"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def both(suffix: str, tmp_path: Path) -> tuple[Path, Path]:
    """Return a package before and after."""
    old = tmp_path / f"{STEM}{suffix}"
    old.write_bytes(package(suffix, info() | FILES))
    assert main(["slim", str(old), "--for", "sm_90", "--build-tag", "sm90", "-d", str(tmp_path / "dist"), "-q"]) == 0
    return old, tmp_path / "dist" / f"demo-1.5-sm90_h12_0{suffix}"


def proof_of(before: bytes, after: bytes) -> PackageProofResult:
    return packages.prove_package(view_of(before, "before"), view_of(after, "after"))


def test_what_slimming_makes_is_proved(both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    old, new = both
    verdict = proof_of(old.read_bytes(), new.read_bytes())
    assert (verdict.differences, verdict.is_proved, verdict.kind) == ((), True, "conda")
    assert [(item.path, item.verdict.is_proved) for item in verdict.libraries] == [("lib/libtwo.so.1", True)]
    assert (verdict.described, verdict.same_count) == (("info/index.json", "info/paths.json"), 3)
    proof = old.with_name("proof.json")
    assert main(["slim", "--verify", str(old), str(new), "--certificate", str(proof)]) == 0
    assert "3 files unchanged, 1 library proved" in capsys.readouterr().out
    jsonschema.validate(json.loads(proof.read_text()), json.loads(schema_text("package-certificate")))


def test_a_certificate_is_made_with_a_package(both: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = both
    first, second, out = tmp_path / "1.json", tmp_path / "2.json", tmp_path / "out"
    options = ["--for", "sm_90", "--build-tag", "sm90", "-d", str(out), "-q"]
    assert main(["slim", str(old), *options, "--certificate", str(first)]) == 0
    assert main(["slim", "--verify", str(old), str(out / new.name), "--certificate", str(second), "-q"]) == 0
    assert first.read_bytes() == second.read_bytes()


def test_a_package_is_itself(suffix: str) -> None:
    data = package(suffix, info() | FILES)
    verdict = proof_of(data, data)
    assert (verdict.is_proved, verdict.same_count, verdict.libraries) == (True, 0, ())
    verdict = proof_of(data, package(suffix, info() | FILES | {"lib/plain.so": b"other"}))
    assert (verdict.is_proved, verdict.same_count, verdict.libraries) == (False, 5, ())


def changed_code(files: dict[str, bytes]) -> None:
    files["site-packages/a.py"] = b"value = 2\n"


def changed_library(files: dict[str, bytes]) -> None:
    data = bytearray(files["lib/libtwo.so.1"])
    data[data.index(b"GCC: (")] ^= 1
    files["lib/libtwo.so.1"] = bytes(data)


def edited(name: str, edit: Callable[[Any], None]) -> Change:
    def change(files: dict[str, bytes]) -> None:
        document = json.loads(files[name])
        edit(document)
        files[name] = json.dumps(document).encode()

    return change


def edited_path(at: int, **facts: object) -> Change:
    return edited("info/paths.json", lambda document: document["paths"][at].update(facts))


def twice(files: dict[str, bytes]) -> None:
    files["info/index.json"] = files["info/index.json"].replace(b'"build"', b'"build": "x", "build"', 1)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (changed_code, "site-packages/a.py: content"),
        (changed_library, "lib/libtwo.so.1: 1 difference"),
        (changed_library, "info/paths.json: lib/libtwo.so.1"),
        (edited("info/index.json", lambda index: index.update(license="other")), "index.json: all but the build"),
        (edited("info/index.json", lambda index: index.update(depends=["evil"])), "index.json: depends, but for"),
        (edited("info/index.json", lambda index: index.update(depends=["cuda-arches"])), "depends, but for"),
        (edited("info/index.json", lambda index: index.update(depends=7)), "index.json: depends, but for"),
        (edited("info/index.json", lambda index: index.update(build_number=-1)), "index.json: build_number"),
        (edited("info/index.json", lambda index: index.update(build_number=True)), "index.json: build_number"),
        (edited("info/index.json", lambda index: index.update(build="other_0")), "index.json: build"),
        (edited("info/paths.json", lambda paths: paths.update(paths_version=2)), "paths.json: all but the paths"),
        (edited("info/paths.json", lambda paths: paths["paths"].pop()), "paths.json: paths"),
        (edited_path(0, sha256="0" * 64), "paths.json: lib/libtwo.so.1"),
        (edited_path(0, size_in_bytes=7), "paths.json: lib/libtwo.so.1"),
        (edited_path(0, no_link=True), "lib/libtwo.so.1: all but digest and size"),
        (edited_path(1, sha256="0" * 64), "paths.json: site-packages/a.py"),
        (edited_path(3, sha256="0" * 64), "paths.json: lib/libtwo.so"),
        (lambda files: files.pop("info/about.json"), "number of files"),
        (lambda files: files.update({"info/more": b""}), "number of files"),
        (lambda files: files.pop("lib/plain.so"), "name of a file"),
    ],
)
def test_any_other_change_is_found(both: tuple[Path, Path], suffix: str, change: Change, what: str) -> None:
    old, new = (path.read_bytes() for path in both)
    files = files_of(suffix, new)
    rebuilt = package(suffix, files, "demo-1.5-sm90_h12_0")
    assert proof_of(old, rebuilt).is_proved
    change(files)
    verdict = proof_of(old, package(suffix, files, "demo-1.5-sm90_h12_0"))
    assert not verdict.is_proved
    found = [difference.what for difference in verdict.differences]
    if what == "number of files" and suffix == ".tar.bz2":
        what = "name of a file"  # others follow
    assert any(what in one for one in found), found


def test_a_package_may_be_for_fewer_devices_and_have_a_higher_build_number(suffix: str) -> None:
    for depends, others, is_proved in (
        (None, ["cuda-arch >=9.0,<10.0", "__cuda_arch <10.0"], True),
        (["libgcc", "cuda-arch >=7.5", "b"], ["libgcc", "b", "cuda-arch >=9.0"], True),
        (["libgcc", "cuda-arch >=7.5"], ["libgcc"], False),
        (["libgcc", "b"], ["b", "libgcc", "cuda-arch >=9.0"], False),
    ):
        old, new = info(), info()
        if depends is not None:
            edited("info/index.json", lambda index, to=depends: index.update(depends=to))(old)  # type: ignore[misc]
        edited("info/index.json", lambda index, to=others: index.update(depends=to, build_number=100))(new)  # type: ignore[misc]
        verdict = proof_of(package(suffix, old | FILES), package(suffix, new | FILES))
        assert verdict.is_proved == is_proved, verdict.differences


def test_headers_links_and_names_of_archives_are_compared(suffix: str) -> None:
    old = package(suffix, info() | FILES)
    verdict = proof_of(old, package(suffix, info() | FILES, links={"lib/libtwo.so": "/etc/passwd"}))
    assert [item.what for item in verdict.differences] == ["lib/libtwo.so: linkname"]
    if suffix == ".conda":
        verdict = proof_of(old, package(suffix, info() | FILES, stem="demo-1.5-other"))
        assert [item.what for item in verdict.differences] == ["name of an archive"] * 2


def test_a_name_that_is_there_twice_is_a_difference() -> None:
    """The first of two is unpacked over by the second; a proof that compared the second alone would pass."""
    for name in ("info/paths.json", "info/index.json", "site-packages/a.py"):
        data = bz2.compress(build.tarred(info() | FILES, LINKS))
        into = io.BytesIO(bz2.decompress(data))
        with tarfile.open(fileobj=into, mode="a") as archive:
            stored = (info() | FILES)[name]
            member = tarfile.TarInfo(name)
            member.size = len(stored)
            archive.addfile(member, io.BytesIO(stored))
        odd, again = bz2.compress(into.getvalue()), bz2.compress(into.getvalue(), 5)
        assert [item.what for item in proof_of(data, data).differences] == []
        assert f"{name}: entries" in [item.what for item in proof_of(odd, again).differences]


def test_what_is_damaged_or_another_form_is_refused(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = package(suffix, info() | FILES)
    other = package(".conda" if suffix == ".tar.bz2" else ".tar.bz2", info() | FILES)
    with pytest.raises(Unsupported, match=r"other a \.tar\.bz2"):
        proof_of(data, other)
    with pytest.raises(Unsupported, match="only wheels, conda packages and container images"):
        proof_of(data, b"\x1f\x8b\x08")
    with pytest.raises(BadValue):
        proof_of(data, data[: len(data) // 2])
    bad = info()
    twice(bad)
    with pytest.raises(BadValue, match="describes itself wrongly"):
        proof_of(data, package(suffix, bad | FILES))
    with pytest.raises(BadValue, match="describes itself wrongly"):
        proof_of(data, package(suffix, bad | {"info/index.json": b"[]"} | FILES))
    monkeypatch.setattr(conda, "_TEXT", 100)
    with pytest.raises(LimitExceeded, match=r"paths\.json"):
        proof_of(data, package(suffix, info() | FILES | {"new.txt": b""}))


def test_an_archive_that_ends_in_a_file_is_damaged(suffix: str) -> None:
    data = package(suffix, info() | FILES)
    whole = build.tarred(FILES if suffix == ".conda" else info() | FILES, LINKS)
    cut = whole[: whole.index(LIBRARY[:1024]) + len(LIBRARY) // 2]
    other = build.zipped(STEM, cut, build.tarred(info())) if suffix == ".conda" else bz2.compress(cut)
    with pytest.raises(BadValue, match="unexpected end of data"):
        proof_of(data, other)


def test_files_with_the_same_bytes_are_reported_at_once(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = package(suffix, info() | FILES)
    monkeypatch.setattr(conda, "prove_conda", None)
    for name in ("a", "b"):
        (tmp_path / f"{name}{suffix}").write_bytes(data)
    proof = tmp_path / "proof.json"
    assert (
        main(["slim", "--verify", *(str(tmp_path / f"{name}{suffix}") for name in "ab"), "--certificate", str(proof)])
        == 0
    )
    assert "byte for byte; nothing in them was read" in capsys.readouterr().out
    jsonschema.validate(json.loads(proof.read_text()), json.loads(schema_text("package-certificate")))


def test_damage_anywhere_ends_in_a_verdict_or_an_error(suffix: str) -> None:
    data = package(suffix, info() | FILES)
    for at in range(0, len(data), len(data) // 60):
        for other in (data[:at], data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]):
            try:
                assert not proof_of(data, other).is_proved or suffix == ".conda"
            except (BadValue, Unsupported, LimitExceeded):
                continue


def test_a_wheel_is_no_conda_package() -> None:
    wheel = wheels.wheel({"demo/__init__.py": b""})
    assert proof_of(wheel, wheel).kind == "wheel"


def test_bytes_behind_the_end_of_an_archive_are_refused() -> None:
    tar = build.tarred({**FILES, **info()}, LINKS)
    end = len(tar.rstrip(b"\0")) + 511 & ~511
    old = bz2.compress(tar)
    for forged in (tar + build.tarred({"evil": b"x"}), tar[:end] + b"Z" * 512 + build.tarred({"evil": b"x"})):
        with pytest.raises(BadValue, match="bytes follow the end"):
            conda.prove_conda(view_of(old), view_of(bz2.compress(forged)))
