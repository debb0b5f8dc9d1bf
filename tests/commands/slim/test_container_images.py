"""Container images with slimmed libraries: layers, documents, package databases, and what vouches for old digests."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders import container_images as build
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.slim import image_layers
from fatpack.errors import HostError
from fatpack.io.source import View
from fatpack.main import main

LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
SITE = "usr/lib/python3/dist-packages"
XATTR = {"SCHILY.xattr.user.demo": "value", "mtime": "1700000000.25"}


def record(*names: str) -> bytes:
    value = base64.urlsafe_b64encode(hashlib.sha256(LIBRARY).digest()).rstrip(b"=").decode()
    rows = [f"{name},sha256={value},{len(LIBRARY)}" for name in names]
    return "\n".join([*rows, "demo/__init__.py,sha256=abc,3", "demo-1.dist-info/RECORD,,", ""]).encode()


def layers() -> list[bytes]:
    """Return four layers: a base with links, a wheel, one of its libraries again, and a whiteout."""
    md5 = hashlib.md5(LIBRARY).hexdigest()
    sums = f"{md5}  lib/libtwo.so\n{md5}  usr/lib/libtwo.so.1\n{'0' * 32}  usr/bin/tool\n".encode()
    return [
        build.layer(
            build.link("lib", "usr/lib"),
            build.file("./usr/lib/libtwo.so", LIBRARY, mode=0o4755, pax=XATTR),
            build.link("usr/lib/libtwo.so.1", "usr/lib/libtwo.so", is_hard=True),
            build.file("var/lib/dpkg/info/two.md5sums", sums),
            build.file("usr/bin/tool", b"#!/bin/sh\n", mode=0o755),
        ),
        build.layer(
            build.file(f"{SITE}/demo/__init__.py", b"a=1"),
            build.file(f"{SITE}/demo/a.so", LIBRARY),
            build.file(f"{SITE}/demo/b.so", LIBRARY),
            build.file(f"{SITE}/demo-1.dist-info/RECORD", record("demo/a.so", "demo/b.so", "../../libtwo.so")),
        ),
        build.layer(build.file(f"{SITE}/demo/a.so", LIBRARY, mode=0o700), is_cut=True),
        build.layer(build.file(f"{SITE}/demo/.wh.b.so", b"")),
    ]


def slimmed(tmp_path: Path, files: dict[str, bytes], *options: str, is_folder: bool = False) -> dict[str, bytes]:
    """Return the files of the slimmed image, which fatpack's proof accepts."""
    if is_folder:
        before, after = build.write_folder(files, tmp_path / "before"), tmp_path / "after"
        assert main(["slim", str(before), "--for", "sm_90", *options, "-d", str(after), "-q"]) == 0
    else:
        before, after = tmp_path / "before.tar", tmp_path / "after.tar"
        before.write_bytes(build.archive(files))
        assert main(["slim", str(before), "--for", "sm_90", *options, "-o", str(after), "-q"]) == 0
    assert main(["slim", "--verify", str(before), str(after), "-q"]) == 0
    return build.read_files(after)


@pytest.mark.parametrize("method", ["gzip", "zstd", ""])
@pytest.mark.parametrize("form", ["folder", "layout", "both", "saved"])
def test_everything_follows(tmp_path: Path, form: str, method: str) -> None:
    image = build.Image(layers(), method)
    files = {"folder": image.layout, "layout": image.layout, "both": image.both, "saved": image.saved}[form]()
    new = slimmed(tmp_path, files, is_folder=form == "folder")
    after = build.checked_layers(new)
    assert after[3] == image.layers[3]
    assert len(after[0]) < len(image.layers[0])
    for old, now in zip(image.layers, after, strict=True):
        for (was, before), (info, data) in zip(build.members(old), build.members(now), strict=True):
            kept = ("name", "mode", "mtime", "type", "linkname", "uid", "gid")
            assert [getattr(was, key) for key in kept] == [getattr(info, key) for key in kept]
            assert was.pax_headers == info.pax_headers
            if info.name.endswith(".so") and info.isreg():
                assert len(data) < len(LIBRARY)
            elif not info.name.endswith(("RECORD", ".md5sums")):
                assert data == before
    library = build.members(after[0])[1][1]
    assert build.members(after[0])[1][0].mode == 0o4755
    md5 = hashlib.md5(library).hexdigest()
    sums = build.members(after[0])[3][1].decode().splitlines()
    assert sums == [f"{md5}  lib/libtwo.so", f"{md5}  usr/lib/libtwo.so.1", f"{'0' * 32}  usr/bin/tool"]
    rows = {row[0]: row for row in csv.reader(io.StringIO(build.members(after[1])[3][1].decode()))}
    value = base64.urlsafe_b64encode(hashlib.sha256(library).digest()).rstrip(b"=").decode()
    assert rows["demo/a.so"] == ["demo/a.so", f"sha256={value}", str(len(library))]
    assert rows["../../libtwo.so"][1] == f"sha256={value}"
    # The library that a later layer removes is slimmed, and was there when the database was written.
    assert rows["demo/b.so"][1] == f"sha256={value}"
    assert rows["demo/__init__.py"] == ["demo/__init__.py", "sha256=abc", "3"]
    assert len(after[2]) % 512 == len(build.members(after[2])[0][1]) % 512


def config_of(files: dict[str, bytes]) -> Any:
    manifest = json.loads(files["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")
    config = json.loads(files[f"blobs/sha256/{manifest}"])["config"]["digest"].removeprefix("sha256:")
    return json.loads(files[f"blobs/sha256/{config}"])


def test_the_config_gets_one_entry_of_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = build.Image(layers())
    first = slimmed(tmp_path, image.layout())
    config, old = config_of(first), json.loads(image.config)
    entry = {"created": "2024-01-01T00:00:00Z", "created_by": "fatpack slim --for sm_90", "empty_layer": True}
    assert config["history"] == [*old["history"], entry]
    assert {**config, "history": 0, "rootfs": 0} == {**old, "history": 0, "rootfs": 0}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    other = tmp_path / "other.tar"
    assert main(["slim", str(tmp_path / "before.tar"), "--for", "sm_90", "-o", str(other), "-q"]) == 0
    assert config_of(build.read_files(other))["history"][-1]["created"] == "1970-01-02T00:00:00Z"


def test_one_input_gives_one_output(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(build.archive(build.Image(layers(), "zstd").layout()))
    outputs = [tmp_path / name for name in ("one.tar", "two.tar")]
    for output in outputs:
        assert main(["slim", str(path), "--for", "sm_90", "-o", str(output), "-q"]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_compressed_archives_stay_compressed(tmp_path: Path) -> None:
    path, after = tmp_path / "image.tar.gz", tmp_path / "new.tar.gz"
    path.write_bytes(build.compressed(build.archive(build.Image(layers()).saved()), "gzip"))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after), "-q"]) == 0
    assert after.read_bytes().startswith(b"\x1f\x8b")
    assert len(build.checked_layers(build.read_files(after))) == 4
    assert main(["slim", "--verify", str(path), str(after), "-q"]) == 0


def test_layers_of_the_base_stay(tmp_path: Path) -> None:
    image = build.Image(layers())
    new = slimmed(tmp_path, image.layout(), "--keep-layers", "1")
    after = build.checked_layers(new)
    assert after[0] == image.layers[0]
    assert len(after[1]) < len(image.layers[1])
    assert f"blobs/sha256/{build.digest(image.blobs[0])}" in new


def test_an_image_without_device_code_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = build.Image([build.layer(build.file("etc/motd", b"welcome"))]).layout()
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(files))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after)]) == 0
    assert after.read_bytes() == path.read_bytes()
    assert "image.tar: unchanged: it holds no device code" in capsys.readouterr().err


def vouched(image: build.Image) -> dict[str, bytes]:
    """Return a layout with an attestation and a referrer of the image, and one of another image."""
    about = f"sha256:{build.digest(image.manifest())}"
    empty = image.descriptor(b"{}", "application/vnd.oci.empty.v1+json")
    attested = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": about}
    attestation = json.dumps({"schemaVersion": 2, "config": empty, "layers": [], "kind": 1}).encode()
    sbom = json.dumps({"schemaVersion": 2, "config": empty, "layers": [], "subject": {"digest": about}}).encode()
    other = json.dumps({"schemaVersion": 2, "config": empty, "layers": [], "subject": {"digest": f"sha256:{'1' * 64}"}})
    platform = {"architecture": "unknown", "os": "unknown"}
    return image.layout(
        (attestation, {"annotations": attested, "platform": platform}),
        (sbom, {"artifactType": "application/spdx+json"}),
        (other.encode(), {"artifactType": "application/spdx+json"}),
    )


def test_what_vouches_for_the_old_digest_is_dropped_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**vouched(build.Image(layers())), "blobs/sha256/" + "ab" * 32: b"nothing names this"}
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(files))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after)]) == 0
    shown = capsys.readouterr().err
    assert "dropped: attestation" in shown
    assert "dropped: referrer" in shown
    assert "1111" not in shown
    new = build.read_files(after)
    assert len(json.loads(new["index.json"])["manifests"]) == 2
    assert "blobs/sha256/" + "ab" * 32 in new
    assert len(new) == len(files) - 2
    assert main(["slim", "--verify", str(path), str(after)]) == 0
    assert "missing, as it was about the old digests: index.json: sha256:" in capsys.readouterr().out


def test_a_signature_is_refused_or_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = build.Image(layers())
    name = f"sha256-{build.digest(image.manifest())}.sig"
    signature = json.dumps({"schemaVersion": 2, "layers": [], "signed": 1}).encode()
    files = image.layout((signature, {"annotations": {"org.opencontainers.image.ref.name": name}}))
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(files))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after), "-q"]) != 0
    assert f"the image is signed ({name})" in capsys.readouterr().err
    assert not after.exists()
    new = slimmed(tmp_path, files, "--drop-signature")
    assert len(json.loads(new["index.json"])["manifests"]) == 1


def test_tables_for_lazy_pulling_go(tmp_path: Path) -> None:
    table = build.file("stargz.index.json", b"{}")
    image = build.Image([build.layer(build.file("usr/lib/libtwo.so", LIBRARY), table)])
    manifest = json.loads(image.manifest())
    manifest["layers"][0]["annotations"] = {"containerd.io/snapshot/stargz/toc.digest": "sha256:1", "mine": "stays"}
    new = slimmed(tmp_path, image.layout(manifest=json.dumps(manifest).encode()))
    (layer,) = build.checked_layers(new)
    assert [info.name for info, _ in build.members(layer)] == ["usr/lib/libtwo.so"]
    blob = json.loads(new["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")
    assert json.loads(new[f"blobs/sha256/{blob}"])["layers"][0]["annotations"] == {"mine": "stays"}


def test_records_of_conda_and_apk_follow(tmp_path: Path) -> None:
    sha, sha1 = hashlib.sha256(LIBRARY).hexdigest(), base64.b64encode(hashlib.sha1(LIBRARY).digest()).decode()
    paths = [{"_path": "lib/libtwo.so", "path_type": "hardlink", "sha256": sha, "size_in_bytes": len(LIBRARY)}]
    meta = json.dumps({"name": "two", "paths_data": {"paths": paths, "paths_version": 1}}, indent=2).encode()
    cache = json.dumps({"paths": paths, "paths_version": 1}, indent=2).encode()
    installed = f"P:two\nF:opt/conda/lib\nR:libtwo.so\nZ:Q1{sha1}\n\n".encode()
    image = build.Image(
        [
            build.layer(
                build.file("opt/conda/conda-meta/two-1-0.json", meta),
                build.file("opt/conda/pkgs/two-1-0/info/paths.json", cache),
                build.link("opt/conda/pkgs/two-1-0/lib/libtwo.so", "opt/conda/lib/libtwo.so", is_hard=True),
                build.file("lib/apk/db/installed", installed),
            ),
            build.layer(build.file("opt/conda/lib/libtwo.so", LIBRARY)),
        ]
    )
    new = slimmed(tmp_path, image.layout())
    after = build.checked_layers(new)
    library = build.members(after[1])[0][1]
    found = build.members(after[0])
    entry = json.loads(found[0][1])["paths_data"]["paths"][0]
    assert entry["sha256"] == sha
    assert (entry["sha256_in_prefix"], entry["size_in_bytes"]) == (hashlib.sha256(library).hexdigest(), len(library))
    assert f"Z:Q1{base64.b64encode(hashlib.sha1(library).digest()).decode()}\n" in found[3][1].decode()


def test_a_row_that_was_wrong_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sums = f"{'0' * 32}  usr/lib/libtwo.so\n".encode()
    members = [build.file("var/lib/dpkg/info/two.md5sums", sums), build.file("usr/lib/libtwo.so", LIBRARY)]
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(build.Image([build.layer(*members)]).layout()))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after)]) == 0
    assert "two.md5sums had another digest for usr/lib/libtwo.so, and keeps it" in capsys.readouterr().err
    (layer,) = build.checked_layers(build.read_files(after))
    assert build.members(layer)[0][1] == sums


def test_objects_and_packages_stay_and_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = (FIXTURES / "cuda_fatbin" / "hosts" / "k1.rdc.o").read_bytes()
    members = [
        build.file("opt/k1.o", kernel),
        build.file("root/.cache/demo.whl", b"PK" + bytes(99)),
        build.file("usr/lib/libtwo.so", LIBRARY),
        build.file("sysroot/ostree/repo/objects/ab/cd.file", LIBRARY),
    ]
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(build.Image([build.layer(*members)]).saved()))
    assert main(["slim", str(path), "--drop", "sm_5*,sm_6*,sm_7*,sm_8*", "-o", str(after), "--allow-empty"]) in (0, 1)
    shown = capsys.readouterr().err
    assert "layer 0: packages in the layer are not opened: 1 file, 101 B" in shown
    assert "layer 0: 1 file with device code, 43.7 kB, not changed: in a folder that is named by a digest" in shown
    (layer,) = build.checked_layers(build.read_files(after))
    assert [data for _, data in build.members(layer)][:2] == [kernel, b"PK" + bytes(99)]
    assert build.members(layer)[3][1] == LIBRARY


def broken(name: str) -> dict[str, bytes]:
    image = build.Image(layers())
    files = image.layout()
    if name == "diff ID":
        config = json.loads(image.config)
        config["rootfs"]["diff_ids"][1] = f"sha256:{'2' * 64}"
        image.config = json.dumps(config).encode()
        return image.layout()
    if name == "digest":
        key = f"blobs/sha256/{build.digest(image.blobs[1])}"
        files[key] = build.compressed(image.layers[1], "gzip")[:-1] + b"\1"
    elif name == "size":
        key = f"blobs/sha256/{build.digest(image.blobs[1])}"
        files[key] += b"\0"
    elif name == "twice":
        files["index.json"] = files["index.json"][:-1] + b',"manifests":[]}'
    elif name == "cut":
        image.layers[1] = image.layers[1][:9000]
        image.__init__(image.layers)  # type: ignore[misc]
        return image.layout()
    return files


@pytest.mark.parametrize("name", ["diff ID", "digest", "size", "twice", "cut"])
def test_damage_is_an_error_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(broken(name)))
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after), "-q"]) == 3
    assert not after.exists()


def test_places_that_are_none_for_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build.write_folder(build.Image(layers()).layout(), tmp_path / "layout")
    path = tmp_path / "image.tar"
    path.write_bytes(build.archive(build.read_files(folder)))
    assert main(["slim", str(folder), "--for", "sm_90", "--in-place"]) == 2
    assert "images are not changed in place; -d DIR writes a new one" in capsys.readouterr().err
    assert main(["slim", str(path), "--for", "sm_90", "--in-place"]) == 2
    assert "images are not changed in place; -o FILE writes a new one" in capsys.readouterr().err
    assert main(["slim", str(folder), "--for", "sm_90", "-d", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    library = tmp_path / "libtwo.so"
    library.write_bytes(LIBRARY)
    assert main(["slim", str(library), "--for", "sm_90", "-o", str(tmp_path / "new.so"), "--keep-layers", "1"]) == 2
    assert "--keep-layers is about container images" in capsys.readouterr().err


def test_a_place_that_is_taken_is_refused_before_an_image_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build.write_folder(build.Image(layers()).layout(), tmp_path / "layout")
    path, taken = tmp_path / "image.tar", tmp_path / "taken"
    path.write_bytes(build.archive(build.read_files(folder)))
    taken.touch()

    def slim(*_: object) -> None:
        raise AssertionError("work was done before the output was refused")

    monkeypatch.setattr("fatpack.commands.slim.image_run.slim_image", slim)
    for options in (["-o", str(taken)], ["-o", "new", "--certificate", str(taken)]):
        assert main(["slim", str(path), "--for", "sm_90", *options]) == 2
        assert "File exists" in capsys.readouterr().err
    with pytest.raises(FileExistsError):
        fatpack.slim(path, taken, devices="sm_90")
    assert main(["slim", str(folder), "--for", "sm_90", "-d", str(tmp_path)]) == 2
    with pytest.raises(fatpack.UsageError, match="is not empty"):
        fatpack.slim(folder, tmp_path, devices="sm_90")


def test_certificates_of_images_have_their_layers(tmp_path: Path) -> None:
    path, after, certificate = (tmp_path / name for name in ("image.tar", "new.tar", "certificate.json"))
    path.write_bytes(build.archive(build.Image(layers()).layout()))
    to = ["-o", str(after), "--certificate", str(certificate)]
    assert main(["slim", str(path), "--for", "sm_90", *to, "-q"]) == 0
    document = json.loads(certificate.read_text())
    assert (document["kind"], document["proved"], len(document["layers"])) == ("image", True, 4)
    assert document["layers"][3]["before"] == document["layers"][3]["after"]
    assert document["libraries"][0]["path"] == "layer 0: usr/lib/libtwo.so"


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build.write_folder(build.Image(layers()).layout(), tmp_path / "layout")
    assert main(["slim", str(folder), "--for", "sm_90", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "would write a new image" in shown.err
    assert "layer 1: usr/lib/python3/dist-packages/demo/a.so" in shown.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_library_slims_images(tmp_path: Path, *, is_folder: bool) -> None:
    files = build.Image(layers()).layout()
    before, after = tmp_path / "before", tmp_path / "after"
    if is_folder:
        build.write_folder(files, before)
    else:
        before.write_bytes(build.archive(files))
    result = fatpack.slim(before, after, devices="sm_90")
    assert (result.mode, result.path, result.exit_code) == ("edit", str(after), 0)
    assert result.before > result.after
    assert result.dropped == {"sm_75": 4, "sm_80": 4}
    assert len(build.checked_layers(build.read_files(after))) == 4
    with pytest.raises(fatpack.FatpackError, match=r"no image|--drop|drop="):
        fatpack.slim(before, tmp_path / "other", drop="sm_99")
    assert not (tmp_path / "other").exists()


def test_one_layer_of_several_images_is_slimmed_once(tmp_path: Path) -> None:
    """Two images of a nested index share a layer, and their databases mean the same library."""
    shared = build.layer(build.file("usr/lib/libtwo.so", LIBRARY))
    sums = f"{hashlib.md5(LIBRARY).hexdigest()}  usr/lib/libtwo.so\n".encode()
    one = build.Image([shared, build.layer(build.file("var/lib/dpkg/info/two.md5sums", sums))])
    two = build.Image([shared, build.layer(build.file("etc/motd", b"two"))], os="other")
    files = {**one.layout(), **two.layout()}
    entries = [
        one.descriptor(image.manifest(), build.MANIFEST, platform={"os": name})
        for name, image in (("a", one), ("b", two))
    ]
    inner = json.dumps({"schemaVersion": 2, "mediaType": build.INDEX, "manifests": entries}).encode()
    files[f"blobs/sha256/{build.digest(inner)}"] = inner
    top = {"schemaVersion": 2, "manifests": [one.descriptor(inner, build.INDEX)]}
    new = slimmed(tmp_path, {**files, "index.json": json.dumps(top).encode()})
    index = json.loads(new["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")
    inside = {**new, "index.json": new[f"blobs/sha256/{index}"]}
    first, second = build.checked_layers(inside), build.checked_layers(inside, 1)
    assert first[0] == second[0] != shared
    library = build.members(first[0])[0][1]
    assert build.members(first[1])[0][1] == f"{hashlib.md5(library).hexdigest()}  usr/lib/libtwo.so\n".encode()
    assert second[1] == two.layers[1]


def test_a_library_that_is_not_proved_stays_and_the_others_are_slimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse_one(before: View, _after: View) -> None:
        if before.source.name.endswith("b.so"):
            raise HostError("the result is not proved")

    path, after = tmp_path / "image.tar", tmp_path / "new.tar"
    path.write_bytes(build.archive(build.Image(layers()).layout()))
    monkeypatch.setattr(image_layers, "prove_slimmed", refuse_one)
    assert main(["slim", str(path), "--for", "sm_90", "-o", str(after)]) == 4
    assert "demo/b.so: stays as it is (43.7 kB): the result is not proved" in capsys.readouterr().out
    found = build.members(build.checked_layers(build.read_files(after))[1])
    assert (found[2][1], len(found[1][1]) < len(LIBRARY)) == (LIBRARY, True)


def test_packages_of_systems_are_refused_with_their_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = build.layer(build.file("./usr/lib/libtwo.so", LIBRARY))
    path = tmp_path / "two.deb"
    path.write_bytes(ar({"debian-binary": b"2.0\n", "control.tar": build.layer(), "data.tar": data}))
    assert main(["slim", str(path), "--for", "sm_90", "-d", str(tmp_path / "out")]) == 4
    assert "its control.tar has md5sums of all files: unpack it with dpkg-deb -R" in capsys.readouterr().err


def ar(files: dict[str, bytes]) -> bytes:
    out = b"!<arch>\n"
    for name, data in files.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out
