"""``fatpack slim`` of wheels, sdists and folders: what is written, under which name, and what is said."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.builders import conda
from tests.builders import wheels as build
from tests.builders.fatbin import of_words
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack import proof
from fatpack.io.source import View
from fatpack.main import main
from fatpack.proof.ledger import ProofResult
from fatpack.testing.helpers import make_view
from fatpack.text.schemas import schema_text

NAME = "demo-1.5-py3-none-any.whl"
FILES = {
    "demo/__init__.py": b"",
    "demo/a.fatbin": of_words("80 90"),
    "demo/b.so": of_words("90"),
    "demo/c.bin": b"text",
}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(build.wheel(FILES))
    return path


def archs(path: str) -> list[str]:
    package, _, inside = path.partition("!")
    with library.open(package, member=inside) as file:
        return [image.target.arch for found in file.containers for image in found.images]


def test_a_wheel_comes_out_under_another_name(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = wheel.parent / "dist"
    assert main(["slim", str(wheel), "--for", "sm_90", "--build-tag", "1sm90", "-d", str(out)]) == 0
    new = out / "demo-1.5-1sm90-py3-none-any.whl"
    assert [path.name for path in out.iterdir()] == [new.name]
    assert archs(f"{new}!demo/a.fatbin") == ["sm_90"]
    printed = capsys.readouterr()
    head, row, rest, total = printed.out.splitlines()
    assert head.split("  ")[0] == "file" and "in a wheel" in head
    assert row.startswith("demo/a.fatbin ")
    assert rest == "demo/b.so: unchanged: nothing to remove"
    assert total.startswith("1 file of 2 slimmed: ")
    assert f"wrote {new}" in printed.err


def refuse_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let slimming of any file fail."""

    def plan(*_: object, **_named: object) -> None:
        raise AssertionError("work was done before the output was refused")

    for module in ("run", "request"):
        monkeypatch.setattr(f"fatpack.commands.slim.{module}.plan_with_digests", plan)
    monkeypatch.setattr("fatpack.commands.slim.run.plan_slim", plan)
    monkeypatch.setattr("fatpack.commands.slim.plan.plan_slim", plan)


@pytest.mark.parametrize("name", [NAME, "demo-1.5-py_0.conda", "a.fatbin"])
def test_an_output_that_is_there_is_refused_before_any_work(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / name, tmp_path / "out"
    made = {
        ".whl": build.wheel(FILES),
        ".conda": conda.package(FILES, "demo", "1.5", "py_0"),
        "tbin": of_words("80 90"),
    }
    path.write_bytes(next(data for end, data in made.items() if name.endswith(end)))
    assert main(["slim", str(path), "--for", "sm_90", "-d", str(out)]) == 0
    (written,) = out.iterdir()
    refuse_work(monkeypatch)
    capsys.readouterr()
    for to in (["-d", str(out)], ["-o", str(written)]):
        assert main(["slim", str(path), "--for", "sm_90", *to]) == 2
        assert "File exists" in capsys.readouterr().err
    (tmp_path / "proof.json").touch()
    assert main(["slim", str(path), "--for", "sm_90", "-d", "new", "--certificate", str(tmp_path / "proof.json")]) == 2
    assert "File exists" in capsys.readouterr().err
    with pytest.raises(FileExistsError):
        library.slim(path, written if name == "a.fatbin" else out, devices="sm_90")


@pytest.mark.parametrize("name", [NAME, "demo-1.5-py_0.conda", "a.fatbin"])
def test_a_folder_that_was_made_for_nothing_goes_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, there = tmp_path / name, tmp_path / "there"
    made = {
        ".whl": build.wheel(FILES),
        ".conda": conda.package(FILES, "demo", "1.5", "py_0"),
        "tbin": of_words("80 90"),
    }
    path.write_bytes(next(data for end, data in made.items() if name.endswith(end)))
    there.mkdir()

    def stop(*_: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ("commands.slim.run.write_file", "commands.slim.request.write_file", "edit.editor.write_file"):
        monkeypatch.setattr(f"fatpack.{place}", stop)
    for folder in (tmp_path / "new" / "inner", there):
        assert main(["slim", str(path), "--for", "sm_90", "-d", str(folder)]) == 5
        if name != "a.fatbin":
            with pytest.raises(OSError, match="No space"):
                library.slim(path, folder, devices="sm_90")
        assert sorted(found.name for found in tmp_path.iterdir()) == sorted([name, "there"])


def test_json_gives_addresses_and_sizes_in_the_wheel(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(wheel), "--for", "sm_90", "--build-tag", "1", "--dry-run", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["files"]
    assert first["path"] == f"{wheel}!demo/a.fatbin"
    assert first["deflated"]["after"] < first["deflated"]["before"]
    assert second["deflated"]["after"] == second["deflated"]["before"]
    assert sorted(path.name for path in wheel.parent.iterdir()) == [NAME]


def test_a_changed_wheel_has_a_name_of_its_own_whatever_was_asked_for(wheel: Path) -> None:
    with_lz4 = (FIXTURES / "cuda_fatbin/hand_lz4frame_flag4000.fatbin").read_bytes()
    larger = wheel.parent / "larger" / wheel.name
    larger.parent.mkdir()
    larger.write_bytes(build.wheel({"demo/a.fatbin": with_lz4}))
    for options, tag in (
        (["--drop", "sm_80"], "1nosm80"),
        (["--drop", "sm_8*", "--keep-ptx=none"], "1nosm8any.noptx"),
        (["--keep", "sm_9*"], "1keepsm9any"),
        (["--for", "sm_90", "--recompress", "zstd", "--level", "3"], "1sm90.zstd3"),
        (["--for", "sm_90", "--allow-empty"], "1sm90.empty"),
        (["--lossless"], "1lossless.zstd"),
        (["--lossless", "--level", "3"], "1lossless.zstd3"),
        (["--lossless", "--driver", "525"], "1lossless.lz4"),
    ):
        path = str(larger if "--lossless" in options else wheel)
        assert main(["slim", path, *options, "--dry-run"]) == 0
        assert main(["slim", path, *options, "-d", str(wheel.parent / tag)]) == 0
        assert [made.name for made in (wheel.parent / tag).iterdir()] == [f"demo-1.5-{tag}-py3-none-any.whl"]


def test_a_wheel_for_devices_is_called_after_them(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = wheel.parent / "dist"
    assert main(["slim", str(wheel), "--for", "sm_90", "-d", str(out)]) == 0
    said = capsys.readouterr().err
    (made,) = out.iterdir()
    assert made.name == "demo-1.5-1sm90-py3-none-any.whl"
    assert f"{made.name} has a build tag made of the options; --build-tag and --local-version give" in said
    with zipfile.ZipFile(made) as files:
        assert b"Build: 1sm90" in files.read("demo-1.5.dist-info/WHEEL")


def test_an_output_has_the_name_that_installers_go_by(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--for", "sm_90", "--local-version", "sm90", "-q"]
    assert main(["slim", str(wheel), *options, "-o", str(wheel.parent / "x.whl")]) == 2
    assert "becomes demo-1.5+sm90-py3-none-any.whl" in capsys.readouterr().err
    target = wheel.parent / "demo-1.5+sm90-py3-none-any.whl"
    assert main(["slim", str(wheel), *options, "-o", str(target)]) == 0
    assert archs(f"{target}!demo/a.fatbin") == ["sm_90"]


def test_packages_are_not_changed_in_place(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(wheel), "--for", "sm_90", "--build-tag", "1", "--in-place"]) == 2
    assert "gets another name" in capsys.readouterr().err


def test_a_wheel_without_device_code_is_copied_and_reported_to_be_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / NAME
    path.write_bytes(build.wheel({"demo/__init__.py": b""}))
    assert main(["slim", str(path), "--for", "sm_90", "-d", str(tmp_path / "dist")]) == 0
    assert (tmp_path / "dist" / NAME).read_bytes() == path.read_bytes()
    assert "unchanged" in capsys.readouterr().err


def test_the_copy_of_a_package_without_changes_is_called_a_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "demo-1.5-py3-none-any.whl"
    plain.write_bytes(build.wheel({"demo/a.py": b"1\n"}))
    assert main(["slim", str(plain), "--for", "sm_90", "-d", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert "unchanged: it holds no device code" in said
    assert f"copied {tmp_path / 'out' / plain.name}: unchanged, " in said
    assert "wrote" not in said


def test_an_sdist_is_copied_unless_it_has_device_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data, code in (("plain", b"text", 0), ("with", of_words("80 90"), 4)):
        path = tmp_path / f"{name}-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("demo-1.0/a.bin")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        assert main(["slim", str(path), "--for", "sm_90", "-d", str(tmp_path / "dist")]) == code
        copy = tmp_path / "dist" / path.name
        assert copy.exists() == (code == 0)
        assert code or copy.read_bytes() == path.read_bytes()
    said = capsys.readouterr().err
    assert "plain-1.0.tar.gz: unchanged: it holds no device code" in said
    assert "has device code in demo-1.0/a.bin" in said


def test_a_library_that_would_lose_all_stays_and_strict_refuses_the_wheel(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = wheel.parent / "dist"
    command = ["slim", str(wheel), "--drop", "sm_90", "-d", str(out)]
    assert main([*command, "--strict"]) == 1
    said = capsys.readouterr().err
    assert "demo/b.so" in said
    assert "without --strict this file stays as it is" in said
    assert not out.exists()
    assert main(command) == 1
    (made,) = out.iterdir()
    assert archs(f"{made}!demo/a.fatbin") == ["sm_80"]
    assert archs(f"{made}!demo/b.so") == ["sm_90"]
    assert "demo/b.so: stays as it is (" in capsys.readouterr().out


def test_patterns_that_match_nothing_are_errors_before_a_file_is_written(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = wheel.parent / "dist"
    for pattern, advice in (
        ("sm_8O", "did you mean sm_80?"),
        ("sm90", "did you mean sm_90?"),
        ("sm_50", "; name architectures that it has"),
    ):
        assert main(["slim", str(wheel), "--drop", f"sm_80,{pattern}", "-d", str(out)]) == 1
        said = capsys.readouterr().err
        assert f"--drop {pattern} matches no image: the input has sm_80, sm_90" in said
        assert advice in said
        assert not out.exists()
    # A range of architectures, some of which are not there, is what people write.
    assert main(["slim", str(wheel), "--drop", "sm_5*,sm_80", "-d", str(out)]) == 0


def test_a_library_that_cannot_be_slimmed_stays_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(of_words("80 90"))
    data[8:12] = b"\xff\xff\xff\xff"  # the size of its area
    path = tmp_path / NAME
    path.write_bytes(build.wheel({**FILES, "demo/damaged.fatbin": bytes(data)}))
    code = main(["slim", str(path), "--for", "sm_90", "--build-tag", "1", "-d", str(tmp_path / "dist")])
    assert code == 3
    assert (tmp_path / "dist" / "demo-1.5-1-py3-none-any.whl").exists()
    assert "demo/damaged.fatbin: " in capsys.readouterr().out


def test_the_sbom_lists_what_is_in_the_wheel_then(wheel: Path) -> None:
    out, listed = wheel.parent / "dist", wheel.parent / "sbom.json"
    options = ["--for", "sm_90", "--build-tag", "1", "-d", str(out), "--sbom", str(listed), "-q"]
    assert main(["slim", str(wheel), *options]) == 0
    document = json.loads(listed.read_text())
    new = out / "demo-1.5-1-py3-none-any.whl"
    assert document["metadata"]["component"]["name"] == new.name
    with zipfile.ZipFile(new) as archive:
        for item in document["components"]:
            data = archive.read(item["name"])
            assert item["hashes"] == [{"alg": "SHA-256", "content": build.hexadecimal(data)}]
    assert [item["name"] for item in document["components"]] == ["demo/a.fatbin", "demo/b.so"]
    images = [image for item in document["components"] for image in item["components"]]
    assert [image["name"] for image in images] == ["sm_90 cubin"] * 2
    with library.open(str(new), member="demo/a.fatbin") as file:
        data = file.containers[0].images[0].data.tobytes()
    assert images[0]["hashes"][0]["content"] == build.hexadecimal(data)


def test_an_sbom_is_written_or_refused(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(wheel), "--for", "sm_90", "--build-tag", "1", "--sbom", "s", "--dry-run"]) == 2
    assert "--sbom writes a file, and --dry-run writes none" in capsys.readouterr().err


def test_a_folder_is_copied_whole(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    out = wheel.parent / "new"
    assert main(["slim", str(site), "--for", "sm_90", "-d", str(out)]) == 0
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == sorted(
        path.relative_to(site) for path in site.rglob("*")
    )
    assert archs(str(out / "demo" / "a.fatbin")) == ["sm_90"]
    assert main(["slim", str(site), "--for", "sm_90", "--in-place", "-q"]) == 0
    assert {path.name: path.read_bytes() for path in site.rglob("*") if path.is_file()} == {
        path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


HOSTS = FIXTURES / "cuda_fatbin" / "hosts"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(build.wheel({"demo/__init__.py": b"", "demo/libtwo.so": (HOSTS / "libtwo.so").read_bytes()}))
    return path


def test_a_certificate_says_what_was_proved_of_a_wheel(linked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = linked.parent / "1.json", linked.parent / "2.json"
    options = ["--for", "sm_90", "--build-tag", "1", "-d", str(linked.parent / "dist")]
    assert main(["slim", str(linked), *options, "--certificate", str(first)]) == 0
    assert "with less device code, and nothing else" in capsys.readouterr().err
    (new,) = (linked.parent / "dist").iterdir()
    assert main(["slim", "--verify", str(linked), str(new), "--certificate", str(second), "--json"]) == 0
    assert capsys.readouterr().out == first.read_text() == second.read_text()
    document = json.loads(first.read_text())
    jsonschema.validate(document, json.loads(schema_text("package-certificate")))
    jsonschema.validate(document["libraries"][0]["certificate"], json.loads(schema_text("certificate")))
    assert document["after"]["sha256"] == build.hexadecimal(new.read_bytes())
    assert document["described"] == ["demo-1.5.dist-info/WHEEL", "demo-1.5.dist-info/RECORD"]


def test_a_wheel_that_is_another_one_is_not_proved(linked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = linked.with_name("demo-1.5-2-py3-none-any.whl")
    other.write_bytes(build.wheel({"demo/__init__.py": b"more", "demo/libtwo.so": (HOSTS / "libtwo.so").read_bytes()}))
    assert main(["slim", "--verify", str(linked), str(other)]) == 1
    assert "demo/__init__.py: content" in capsys.readouterr().out


def test_a_library_is_proved_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, proof = tmp_path / "lib.so", tmp_path / "proof.json"
    options = ["--for", "sm_90", "-o", str(out), "--certificate", str(proof), "-q"]
    assert main(["slim", str(HOSTS / "libtwo.so"), *options]) == 0
    assert json.loads(proof.read_text())["proved"]
    assert main(["slim", "--verify", str(HOSTS / "libtwo.so"), str(out)]) == 0
    assert "images kept" in capsys.readouterr().out


@pytest.mark.parametrize("is_package", [True, False])
def test_files_that_are_swapped_are_reported_to_be(
    linked: Path, tmp_path: Path, *, is_package: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before, more = (linked, ["--build-tag", "1"]) if is_package else (HOSTS / "libtwo.so", [])
    assert main(["slim", str(before), "--for", "sm_90", "-d", str(tmp_path / "new"), "-q", *more]) == 0
    [after] = (tmp_path / "new").iterdir()
    assert main(["slim", "--verify", str(before), str(after)]) == 0
    capsys.readouterr()
    assert main(["slim", "--verify", str(after), str(before)]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("AFTER is larger than BEFORE")
    assert "are the two files the wrong way round?" in printed.out
    assert printed.err == ""
    if is_package:
        last = printed.out.splitlines()[-1]
        assert last.endswith(" unchanged, 0 libraries proved: 0 images kept, 0 dropped; 1 library not proved")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--verify"], "--verify takes two files"),
        (["--verify", "x.so", "-o", "y"], "writes no file"),
        (["--verify", "x.so", "--for", "sm_90"], "--for does nothing with --verify"),
        (["--verify", "x.so", "--in-place"], "--in-place does nothing"),
        (["--verify", "x.so", "--dry-run"], "--dry-run does nothing"),
        (["--verify", "x.so", "--sbom", "s"], "--sbom does nothing"),
        (["--verify", "x.so", "-d", "y"], "--directory does nothing"),
        (["--verify", "x.so", "--recompress", "zstd"], "--recompress does nothing"),
        (["--verify", "x.so", "--level", "0"], "--level does nothing"),
        (["--verify", "x.so", "--mode", "zero"], "--mode does nothing"),
        (["--for", "sm_90", "-o", "-", "--certificate", "c"], "about two files"),
    ],
)
def test_proofs_that_are_asked_for_wrongly(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slim", str(HOSTS / "libtwo.so"), *options]) == 2
    assert said in capsys.readouterr().err


def test_what_is_not_proved_is_not_written(
    linked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prove, e_flags = proof.prove, 48

    def with_other_flags(before: View, after: View) -> ProofResult:
        data = after.tobytes()
        return prove(before, make_view(data[:e_flags] + b"\1" + data[e_flags + 1 :]))

    monkeypatch.setattr(proof, "prove", with_other_flags)
    out, certificate = linked.parent / "lib.so", linked.parent / "c.json"
    out.write_bytes(b"an older one")
    options = ["--for", "sm_90", "--certificate", str(certificate)]
    assert main(["slim", str(HOSTS / "libtwo.so"), *options, "-o", str(out), "-f"]) == 4
    said = capsys.readouterr().err
    assert "file header" in said and "is not proved to differ in device code alone" in said
    assert main(["slim", str(linked), *options, "--build-tag", "1", "-d", str(linked.parent / "dist"), "-q"]) == 4
    assert (out.read_bytes(), certificate.exists()) == (b"an older one", False)
    assert not (linked.parent / "dist").exists()


def test_what_cannot_be_proved_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, certificate = tmp_path / "x.o", tmp_path / "c.json"
    options = ["--for", "sm_90", "--certificate", str(certificate)]
    assert main(["slim", str(HOSTS / "single.o"), *options, "-o", str(out)]) == 4
    assert "is not linked" in capsys.readouterr().err
    assert main(["slim", str(HOSTS / "libtwo.so"), *options, "-o", str(certificate)]) == 2
    assert "is the output itself" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    certificate.write_bytes(b"another one")
    assert main(["slim", str(HOSTS / "libtwo.so"), *options, "-o", str(out)]) != 0
    assert not out.exists()


def test_a_file_is_proved_before_it_is_changed_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, certificate, copy = tmp_path / "lib.so", tmp_path / "c.json", tmp_path / "old.so"
    old = (HOSTS / "libtwo.so").read_bytes()
    path.write_bytes(old)
    copy.write_bytes(old)
    options = ["--for", "sm_90", "--in-place"]
    assert main(["slim", str(path), *options, "--certificate", str(certificate)]) == 0
    assert "with less device code, and nothing else" in capsys.readouterr().err
    document = json.loads(certificate.read_text())
    digests = [build.hexadecimal(data) for data in (old, path.read_bytes())]
    assert [document[key]["sha256"] for key in ("before", "after")] == digests
    assert main(["slim", "--verify", str(copy), str(path)]) == 0
    # Again nothing changes, and the certificate says that of one file.
    assert main(["slim", str(path), *options, "--certificate", str(certificate), "-f", "-q"]) == 0
    document = json.loads(certificate.read_text())
    assert (document["proved"], document["before"]["sha256"]) == (True, document["after"]["sha256"])
    certificate.unlink()
    path.write_bytes(old)
    assert main(["slim", str(path), *options]) == 0
    assert "with less device code, and nothing else" in capsys.readouterr().err
    prove = proof.prove
    monkeypatch.setattr(proof, "prove", lambda before, _: prove(before, make_view(old[:48] + b"\1" + old[49:])))
    for more in ([], ["--certificate", str(certificate)]):
        path.write_bytes(old)
        assert main(["slim", str(path), *options, *more]) == 4
        assert "with -o FILE it is written unproved" in capsys.readouterr().err
        assert (path.read_bytes() == old, certificate.exists()) == (True, False)


def test_a_certificate_goes_when_a_file_is_not_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, certificate = tmp_path / "lib.so", tmp_path / "c.json"
    path.write_bytes((HOSTS / "libtwo.so").read_bytes())
    rename = os.replace

    def no_space(source: str, target: str, **more: int) -> None:
        if os.fspath(target).endswith("lib.so"):
            raise OSError(28, "No space left on device")
        rename(source, target, **more)

    monkeypatch.setattr(os, "replace", no_space)
    assert main(["slim", str(path), "--for", "sm_90", "--in-place", "--certificate", str(certificate), "-q"]) != 0
    assert path.read_bytes() == (HOSTS / "libtwo.so").read_bytes()
    assert not certificate.exists()


def test_a_pattern_may_match_in_one_of_several_wheels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, paths = tmp_path / "dist", []
    for tag, words in (("cp311", "50 90"), ("cp312", "80 90")):
        path = tmp_path / f"demo-1.5-{tag}-none-any.whl"
        path.write_bytes(build.wheel({"demo/a.fatbin": of_words(words)}))
        paths.append(str(path))
    assert main(["slim", *paths, "--drop", "sm_50", "-d", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "demo-1.5-1nosm50-cp311-none-any.whl",
        "demo-1.5-cp312-none-any.whl",
    ]
    capsys.readouterr()
    assert main(["slim", *paths, "--drop", "sm_70", "-d", str(tmp_path / "other")]) == 1
    assert "--drop sm_70 matches no image" in capsys.readouterr().err


def test_layers_of_container_images_are_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w:gz") as archive:
        info = tarfile.TarInfo("usr/lib/a.fatbin")
        info.size = len(of_words("80 90"))
        archive.addfile(info, io.BytesIO(of_words("80 90")))
    blob = tmp_path / "image" / "blobs" / "sha256" / "0123"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(layer.getvalue())
    # Without its documents it is no image, and a folder with a layer in it is one like any other.
    assert main(["slim", str(tmp_path / "image"), "--for", "sm_90", "-d", str(tmp_path / "out")]) == 4
    shown = capsys.readouterr().out
    assert "blobs/sha256/0123: stays as it is" in shown
    assert "it has device code in usr/lib/a.fatbin, and such packages are not written" in shown
    assert "hint: it is a layer, or a part of a container image: slim the whole image" in shown
    saved = tmp_path / "image.tar"
    with tarfile.open(saved, "w") as archive:
        archive.add(tmp_path / "image", arcname=".")
    assert main(["slim", str(saved), "--for", "sm_90", "-d", str(tmp_path / "other")]) == 4
    assert "image.tar: it has device code in blobs/sha256/0123!usr/lib/a.fatbin" in capsys.readouterr().err
    (tmp_path / "image" / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    assert main(["slim", str(tmp_path / "image"), "--for", "sm_90", "-d", str(tmp_path / "third")]) == 4
    assert "it names no image; skopeo copy writes images as" in capsys.readouterr().err


def test_a_folder_of_wheels_says_how_wheels_are_slimmed(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = wheel.parent / "wf"
    folder.mkdir()
    wheel.rename(folder / wheel.name)
    assert main(["slim", str(folder), "--for", "sm_90", "-d", str(wheel.parent / "out")]) == 4
    shown = capsys.readouterr().out
    assert f"fatpack slim {folder}/*.whl -d DIR, or fatpack slim --find-links {folder} -d DIR" in shown
    assert "not written" not in shown


def test_a_wheel_without_its_name_says_that_it_needs_one(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = wheel.rename(wheel.with_name("download"))
    assert main(["slim", str(other), "--for", "sm_90", "-d", str(wheel.parent / "out")]) == 4
    assert "a wheel needs a file with its name; save it as NAME-VERSION-" in capsys.readouterr().err


def test_errors_of_libraries_are_printed_with_quiet(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(wheel), "--drop", "sm_90", "-d", str(wheel.parent / "out"), "-q"]) == 1
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("fatpack: error: ") and "demo/b.so: stays as it is: " in line
    assert shown.out == ""


@pytest.mark.parametrize(
    ("file", "said"),
    [("pyvenv.cfg", "--environment "), ("conda-meta", "--environment "), ("oci-layout", "-d DIR writes a new layout")],
)
def test_a_folder_without_an_output_names_its_own_way(
    tmp_path: Path, file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_bytes(b"")
    assert main(["slim", str(tmp_path), "--for", "sm_90"]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_container_is_to_be_compared_with_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "libtwo.so"
    options = ["--drop", "sm_7*,sm_90a,compute_75", "--allow-empty", "-o", str(out), "-q"]
    assert main(["slim", str(HOSTS / "libtwo.so"), *options]) == 0
    assert main(["check", str(out), "--require", "sm_90"]) == 1
    shown = capsys.readouterr().out
    assert "what to do: compare with the original, which may never have had code for it" in shown
