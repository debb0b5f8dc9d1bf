"""The proof of container images: what slimming makes is proved, and whatever else is changed is found."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders import container_images as build
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES

from fatpack.errors import FormatError, Unsupported
from fatpack.main import main
from fatpack.proof.ledger import DifferenceLog
from fatpack.proof.packages.container_images import prove_image
from fatpack.proof.packages.image_layers import LayerComparison
from fatpack.proof.packages.verdict import PackageProofResult

LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
SUMS = f"{hashlib.md5(LIBRARY).hexdigest()}  usr/lib/libtwo.so\n{'0' * 32}  usr/bin/tool\n".encode()
BASE = build.layer(build.file("etc/motd", b"welcome"), build.file("var/lib/dpkg/info/two.md5sums", SUMS))
MIDDLE = build.layer(
    build.file("usr/lib/libtwo.so", LIBRARY, mode=0o755),
    build.file("usr/bin/tool", b"#!/bin/sh\n"),
    build.link("usr/lib/libtwo.so.1", "libtwo.so"),
)


class Slimmed:
    """An image before and after, whose parts a forger may change: all digests are made anew."""

    def __init__(self, tmp_path: Path, *more: bytes) -> None:
        self.old = build.Image([BASE, MIDDLE, *more], "").layout()
        before, after = tmp_path / "before.tar", tmp_path / "after.tar"
        before.write_bytes(build.archive(self.old))
        assert main(["slim", str(before), "--for", "sm_90", "-o", str(after), "-q"]) == 0
        new = build.read_files(after)
        self.index = json.loads(new["index.json"])
        self.manifest = json.loads(self.blob(new, self.index["manifests"][0]))
        self.config = json.loads(self.blob(new, self.manifest["config"]))
        self.layers = [self.blob(new, one) for one in self.manifest["layers"]]
        self.others: dict[str, bytes] = {"oci-layout": new["oci-layout"]}
        self.is_honest = True

    @staticmethod
    def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
        return files[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]

    def member(self, layer: int, number: int, change: Callable[[tarfile.TarInfo, bytes], bytes]) -> None:
        """Change a member of a layer."""
        members = build.members(self.layers[layer])
        info, data = members[number]
        data = change(info, data)
        info.size = len(data)
        members[number] = (info, data)
        self.layers[layer] = build.layer(*members)

    def files(self) -> dict[str, bytes]:
        """Return the image with digests and sizes as they are then."""
        blobs = dict(self.others)

        def put(data: bytes, descriptor: dict[str, Any]) -> None:
            descriptor["digest"], descriptor["size"] = f"sha256:{build.digest(data)}", len(data)
            blobs[f"blobs/sha256/{build.digest(data)}"] = data

        for layer, descriptor in zip(self.layers, self.manifest["layers"], strict=True):
            put(layer, descriptor)
        if self.is_honest:
            self.config["rootfs"]["diff_ids"] = [f"sha256:{build.digest(layer)}" for layer in self.layers]
        put(json.dumps(self.config).encode(), self.manifest["config"])
        put(json.dumps(self.manifest).encode(), self.index["manifests"][0])
        return {**blobs, "index.json": json.dumps(self.index).encode()}


def proof_of(old: dict[str, bytes], new: dict[str, bytes]) -> PackageProofResult:
    return prove_image(view_of(build.archive(old), "before"), view_of(build.archive(new), "after"))


def in_folder(tmp_path: Path, forged: Slimmed) -> PackageProofResult:
    before = build.write_folder(forged.old, tmp_path / "old")
    after = build.write_folder(forged.files(), tmp_path / "new")
    return prove_image(str(before), str(after))


def test_what_slimming_makes_is_proved(tmp_path: Path) -> None:
    verdict = in_folder(tmp_path, Slimmed(tmp_path))
    assert verdict.differences == ()
    assert verdict.is_proved
    assert verdict.described == ("var/lib/dpkg/info/two.md5sums",)
    assert [item.path for item in verdict.libraries] == ["layer 1: usr/lib/libtwo.so"]
    assert [layer.number for layer in verdict.layers] == [0, 1]
    assert verdict.same_count == 3


def other_content(forged: Slimmed) -> None:
    forged.member(0, 0, lambda _info, data: data[:-1] + b"E")


def other_mode(forged: Slimmed) -> None:
    def change(info: tarfile.TarInfo, data: bytes) -> bytes:
        info.mode = 0o4755
        return data

    forged.member(1, 1, change)


def other_time(forged: Slimmed) -> None:
    def change(info: tarfile.TarInfo, data: bytes) -> bytes:
        info.mtime += 1
        return data

    forged.member(1, 0, change)


def other_attribute(forged: Slimmed) -> None:
    def change(info: tarfile.TarInfo, data: bytes) -> bytes:
        info.pax_headers = {"SCHILY.xattr.security.capability": "all"}
        return data

    forged.member(1, 0, change)


def other_target(forged: Slimmed) -> None:
    def change(info: tarfile.TarInfo, data: bytes) -> bytes:
        info.linkname = "elsewhere.so"
        return data

    forged.member(1, 2, change)


def other_program(forged: Slimmed) -> None:
    def change(_info: tarfile.TarInfo, data: bytes) -> bytes:
        at = data.index(b"GCC: (")
        return data[:at] + b"X" + data[at + 1 :]

    forged.member(1, 0, change)


def one_more_file(forged: Slimmed) -> None:
    forged.layers[0] = build.layer(*build.members(forged.layers[0]), build.file("etc/cron.d/x", b"x"))


def one_file_less(forged: Slimmed) -> None:
    forged.layers[1] = build.layer(*build.members(forged.layers[1])[:-1])


def bytes_behind_the_end(forged: Slimmed) -> None:
    forged.layers[1] += b"x" * 512


def bytes_in_the_padding(forged: Slimmed) -> None:
    info, data = build.members(forged.layers[0])[0]
    at = forged.layers[0].index(data) + len(data)
    assert info.size % 512
    forged.layers[0] = forged.layers[0][:at] + b"x" + forged.layers[0][at + 1 :]


def stale_database(forged: Slimmed) -> None:
    forged.layers[0] = BASE


def other_row(forged: Slimmed) -> None:
    forged.member(0, 1, lambda _info, data: data.replace(b"0" * 32, b"1" * 32))


def wrong_digest_in_a_row(forged: Slimmed) -> None:
    forged.member(0, 1, lambda _info, data: b"f" * 32 + data[32:])


def one_row_less(forged: Slimmed) -> None:
    forged.member(0, 1, lambda _info, data: data.splitlines(keepends=True)[0])


def other_command(forged: Slimmed) -> None:
    forged.config["config"]["Env"] = ["A=<2>"]


def other_history(forged: Slimmed) -> None:
    forged.config["history"][0]["created_by"] = "FROM scratch"


def two_entries_of_history(forged: Slimmed) -> None:
    forged.config["history"].append(forged.config["history"][-1])


def history_that_counts(forged: Slimmed) -> None:
    forged.config["history"][-1]["empty_layer"] = False


def history_with_more(forged: Slimmed) -> None:
    forged.config["history"][-1]["author"] = "somebody"


def stale_diff_id(forged: Slimmed) -> None:
    forged.config["rootfs"]["diff_ids"][1] = f"sha256:{build.digest(MIDDLE)}"
    forged.is_honest = False


def other_layer_type(forged: Slimmed) -> None:
    forged.manifest["layers"][1]["mediaType"] += "+gzip"


def other_platform(forged: Slimmed) -> None:
    forged.index["manifests"][0]["platform"] = {"os": "plan9", "architecture": "mips"}


def other_name(forged: Slimmed) -> None:
    forged.index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "other"}


def one_layer_less(forged: Slimmed) -> None:
    del forged.layers[1], forged.manifest["layers"][1]


def annotated(forged: Slimmed) -> None:
    forged.manifest["annotations"] = {"a": "b"}


def one_file_more_in_the_layout(forged: Slimmed) -> None:
    forged.others["blobs/sha256/" + "a" * 64] = b"payload"


def other_layout(forged: Slimmed) -> None:
    forged.others["oci-layout"] = b'{"imageLayoutVersion":"2.0.0"}'


def lazy_table(forged: Slimmed) -> None:
    key = "io.github.containers.zstd-chunked.manifest-checksum"
    forged.manifest["layers"][1]["annotations"] = {key: "sha256:" + "e" * 64}


def other_base(forged: Slimmed) -> None:
    forged.manifest["annotations"] = {"org.opencontainers.image.base.name": "elsewhere/base"}


def other_base_in_the_index(forged: Slimmed) -> None:
    forged.index["manifests"][0]["annotations"]["org.opencontainers.image.base.name"] = "elsewhere/base"


def other_copy_of_a_layer(forged: Slimmed) -> None:
    forged.manifest["layers"][1]["data"] = "ZXZpbA=="


def other_copy_of_the_config(forged: Slimmed) -> None:
    forged.manifest["config"]["data"] = "e30="


def other_copy_of_the_manifest(forged: Slimmed) -> None:
    forged.index["manifests"][0]["data"] = "e30="


def one_more_manifest(forged: Slimmed) -> None:
    forged.index["manifests"].append({**forged.index["manifests"][0], "digest": f"sha256:{'0' * 64}"})


def other_kind_of_number(forged: Slimmed) -> None:
    forged.index["schemaVersion"] = 2.0


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (other_content, "layer 0: etc/motd: content"),
        (other_mode, "layer 1: usr/bin/tool: headers, without size and checksum"),
        (other_time, "layer 1: usr/lib/libtwo.so: headers, without size and checksum"),
        (other_attribute, "layer 1: usr/lib/libtwo.so: headers, without size and checksum"),
        (other_target, "layer 1: usr/lib/libtwo.so.1: headers, without size and checksum"),
        (other_program, "layer 1: usr/lib/libtwo.so: 1 difference"),
        (one_more_file, "layer 0: files"),
        (one_file_less, "layer 1: files"),
        (bytes_behind_the_end, "layer 1: bytes after the end of the archive"),
        (bytes_in_the_padding, "layer 0: etc/motd: padding"),
        (stale_database, "package database: var/lib/dpkg/info/two.md5sums: usr/lib/libtwo.so"),
        (other_row, "package database: var/lib/dpkg/info/two.md5sums: a row about no library that changed"),
        (wrong_digest_in_a_row, "package database: var/lib/dpkg/info/two.md5sums: usr/lib/libtwo.so"),
        (one_row_less, "package database: var/lib/dpkg/info/two.md5sums: rows"),
        (other_command, "all but history and diff IDs"),
        (other_history, ": history"),
        (two_entries_of_history, ": history"),
        (history_that_counts, ": new entry of the history"),
        (history_with_more, ": new entry of the history"),
        (stale_diff_id, "layer 1: diff ID"),
        (other_layer_type, ": layer 1"),
        (other_platform, "index.json: manifest"),
        (other_name, "index.json: manifest"),
        (one_layer_less, ": layers"),
        (annotated, "all but config and layers"),
        (one_file_more_in_the_layout, "a" * 64 + ": file"),
        (other_layout, "oci-layout"),
        (lazy_table, ": layer 1"),
        (other_base, "all but config and layers"),
        (other_base_in_the_index, "index.json: manifest"),
        (other_copy_of_a_layer, "copy in its descriptor"),
        (other_copy_of_the_config, "copy in its descriptor"),
        (other_copy_of_the_manifest, "copy in its descriptor"),
        (one_more_manifest, "index.json: manifest"),
        (other_kind_of_number, "index.json: all but manifests"),
    ],
)
def test_whatever_else_is_changed_is_found(tmp_path: Path, forge: Callable[[Slimmed], None], what: str) -> None:
    forged = Slimmed(tmp_path)
    forge(forged)
    verdict = in_folder(tmp_path, forged)
    assert not verdict.is_proved
    assert any(what in item.what for item in verdict.differences), verdict.differences


def test_a_wrong_digest_of_a_layer_is_found(tmp_path: Path) -> None:
    forged = Slimmed(tmp_path)
    files = forged.files()
    name = f"blobs/sha256/{build.digest(forged.layers[1])}"
    files[name] += bytes(512)
    after = build.write_folder(files, tmp_path / "new")
    verdict = prove_image(str(build.write_folder(forged.old, tmp_path / "old")), str(after))
    assert {f"{name}: size in its descriptor", f"{name}: digest"} <= {item.what for item in verdict.differences}


def test_a_missing_attestation_is_allowed_only_about_what_changed(tmp_path: Path) -> None:
    image = build.Image([BASE], "")
    signature = json.dumps({"layers": []}).encode()
    other = {"annotations": {"vnd.docker.reference.digest": f"sha256:{build.digest(image.manifest())}"}}
    with_one, without = image.layout((signature, other)), image.layout()
    verdict = proof_of(with_one, without)
    assert not verdict.is_proved
    assert "index.json: manifest" in [item.what for item in verdict.differences]


def test_attributes_of_the_archive_are_compared(tmp_path: Path) -> None:
    files = build.Image([BASE], "").saved()
    members = [build.file(name, data) for name, data in files.items()]
    members[0][0].mode = 0o600
    verdict = prove_image(view_of(build.archive(files)), view_of(build.layer(*members)))
    assert [item.what for item in verdict.differences] == ["attributes of files in the archive"]


def test_what_is_no_image_or_damaged_is_refused(tmp_path: Path) -> None:
    image = build.Image([BASE], "").layout()
    whole = build.archive(image)
    with pytest.raises(Unsupported, match="no container image"):
        proof_of(image, {"a": b"b"})
    with pytest.raises(FormatError):
        prove_image(view_of(whole), view_of(build.archive({**image, "index.json": b"{"})))
    image, cut = build.Image([MIDDLE], "").layout(), build.Image([MIDDLE[:5000]], "").layout()
    for pair in ((cut, image), (image, cut)):
        with pytest.raises(FormatError, match="the archive ends in a file"):
            proof_of(*pair)


def with_artifact(config: bytes, payload: bytes) -> dict[str, bytes]:
    """Return an image with a manifest beside it whose layer is no archive: an attestation, a chart."""
    image = build.Image([BASE], "")
    document = {"schemaVersion": 2, "config": image.descriptor(config, build.CONFIG)}
    document["layers"] = [image.descriptor(payload, "application/vnd.in-toto+json")]
    files = image.layout((json.dumps(document).encode(), {}))
    return files | {f"blobs/sha256/{build.digest(one)}": one for one in (config, payload)}


@pytest.mark.parametrize("config", [b"{}", json.dumps({"rootfs": {"diff_ids": ["sha256:" + "1" * 64]}}).encode()])
def test_what_is_no_layer_of_an_image_is_compared(config: bytes) -> None:
    verdict = proof_of(with_artifact(config, b"the builder"), with_artifact(config, b"the forgery"))
    assert not verdict.is_proved
    assert any(build.digest(b"the builder") in item.what for item in verdict.differences)


def test_what_follows_the_files_of_an_archive_is_compared() -> None:
    image = build.Image([BASE], "").saved()
    whole = build.archive(image)
    end = len(whole.rstrip(b"\0")) + 511 & ~511
    for forged in (whole + build.archive({"evil": b"x"}), whole[:end] + b"Z" * 512 + whole):
        verdict = prove_image(view_of(whole), view_of(forged))
        what = "global headers, and bytes after the end of the archive"
        assert [item.what for item in verdict.differences] == [what]


@pytest.mark.parametrize("which", [0, 1])
def test_a_layer_that_ends_in_a_file_is_found(which: int) -> None:
    """The shorter of two archives ends the comparison: nothing waits for more of it."""
    whole = build.layer(build.file("data", bytes(range(256)) * 20))
    layers = [whole, whole]
    layers[which] = whole[: 512 + 700]
    ledger = DifferenceLog()
    with pytest.raises(FormatError) if which == 0 else contextlib.nullcontext():
        LayerComparison("layer 0", *map(view_of, layers, ("before", "after")), ledger, []).compare()
    assert bool(ledger.count) == (which == 1)


def test_a_layer_that_begins_with_a_frame_to_skip_is_read() -> None:
    """As nydus and others write it, with a table of contents; LZ4 has such frames too, and layers are never LZ4."""
    whole = build.layer(build.file("data", b"content"))
    packed = b"\x5e\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip" + build.compressed(whole, "zstd")
    for after, count in ((whole, 0), (build.layer(build.file("data", b"Content")), 1)):
        ledger = DifferenceLog()
        LayerComparison("layer 0", view_of(packed, "before"), view_of(after, "after"), ledger, []).compare()
        assert ledger.count == count


def test_a_layer_without_files_stays_without_files(tmp_path: Path) -> None:
    """Its blocks of zeros have no magic number, and are an archive."""
    forged = Slimmed(tmp_path, bytes(10240))
    assert in_folder(tmp_path / "same", forged).is_proved
    diff_ids = [f"sha256:{build.digest(layer)}" for layer in forged.layers]
    forged.layers[2] = build.layer(build.file("usr/bin/evil", b"#!/bin/sh\n"))
    forged.config["rootfs"]["diff_ids"], forged.is_honest = diff_ids, False
    assert not in_folder(tmp_path / "more", forged).is_proved


def test_manifest_and_config_are_named_by_their_old_digests(tmp_path: Path) -> None:
    forged = Slimmed(tmp_path)
    manifest = Slimmed.blob(forged.old, json.loads(forged.old["index.json"])["manifests"][0])
    config = Slimmed.blob(forged.old, json.loads(manifest)["config"])
    annotated(forged)
    forged.config["author"] = "somebody"
    named = {item.what.partition(": all but ")[0] for item in in_folder(tmp_path, forged).differences}
    assert {f"manifest {build.digest(manifest)[:12]}", f"config {build.digest(config)[:12]}"} <= named


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_table_of_a_layer_may_go_with_its_digest_alone(tmp_path: Path, layer: int) -> None:
    """Lazy readers find the files of a layer by a table; a layer that changed has no such table."""
    forged = Slimmed(tmp_path, build.layer(build.file("etc/more", b"more")))
    key = "io.github.containers.zstd-chunked.manifest-checksum"
    index = json.loads(forged.old["index.json"])
    manifest = json.loads(Slimmed.blob(forged.old, index["manifests"][0]))
    manifest["layers"][layer]["annotations"] = {key: "sha256:" + "e" * 64}
    data = json.dumps(manifest).encode()
    del forged.old[f"blobs/sha256/{index['manifests'][0]['digest'].removeprefix('sha256:')}"]
    index["manifests"][0] |= {"digest": f"sha256:{build.digest(data)}", "size": len(data)}
    forged.old |= {f"blobs/sha256/{build.digest(data)}": data, "index.json": json.dumps(index).encode()}
    verdict = in_folder(tmp_path, forged)
    assert verdict.is_proved == (layer < 2), verdict.differences
    assert verdict.dropped == ((f"manifest {build.digest(data)[:12]}: annotation {key}",) if layer < 2 else ())


@pytest.mark.parametrize("method", ["gzip", "zstd"])
def test_a_compressed_archive_is_read_and_named(tmp_path: Path, method: str) -> None:
    forged = Slimmed(tmp_path)
    before, after = (
        view_of(build.compressed(build.archive(files), method), name)
        for files, name in ((forged.old, "before.tar"), (forged.files(), "after.tar"))
    )
    verdict = prove_image(before, after)
    assert verdict.is_proved
    assert (verdict.before.name, verdict.after.name) == ("before.tar", "after.tar")
    assert (verdict.before.size, verdict.after.size) == (len(before), len(after))
    forged.layers[1] = forged.layers[1][:3000]
    cut = build.compressed(build.archive(forged.files()), method)
    with pytest.raises(FormatError) as caught:
        prove_image(before, view_of(cut, "after.tar"))
    assert caught.value.chain[0] == "after.tar"


def test_extended_headers_of_the_archive_are_compared() -> None:
    image = build.Image([BASE], "").saved()
    members = [build.file(name, data, pax={"SCHILY.xattr.user.a": "b"}) for name, data in image.items()]
    verdict = prove_image(view_of(build.archive(image)), view_of(build.layer(*members)))
    assert [item.what for item in verdict.differences] == ["attributes of files in the archive"]


def test_sparse_files_in_the_archive_are_refused() -> None:
    image = build.Image([BASE], "").saved()
    members = [build.file(name, data) for name, data in image.items()]
    info, data = members[-1]
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(len(data))}
    members[-1] = build.file(info.name, b"1\n0\n0\n".ljust(512, b"\0") + data, pax=sparse)
    with pytest.raises(FormatError, match="describes itself wrongly"):
        prove_image(view_of(build.archive(image)), view_of(build.layer(*members)))


def test_a_file_that_only_the_new_image_has_is_found(tmp_path: Path) -> None:
    image = build.Image([BASE], "").saved()
    old = build.write_folder(image, tmp_path / "old")
    new = build.write_folder({**image, "index.json": b"{}"}, tmp_path / "new")
    assert [item.what for item in prove_image(str(old), str(new)).differences] == ["index.json: file"]


def test_sources_of_layers_that_name_nothing_are_compared() -> None:
    image = build.Image([BASE], "").both()
    saved = json.loads(image["manifest.json"])
    next(iter(saved[0]["LayerSources"].values()))["digest"] = "sha256:" + "e" * 64
    verdict = proof_of(image, {**image, "manifest.json": json.dumps(saved).encode()})
    assert [item.what for item in verdict.differences] == ["manifest.json: LayerSources: file that is not in the image"]


def test_sizes_in_layers_are_octal_digits() -> None:
    whole = bytearray(MIDDLE)
    whole[124:136] = b"0o%09o\0" % int(MIDDLE[124:135], 8)
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole[:512])
    with pytest.raises(FormatError, match="is no number"):
        proof_of(build.Image([MIDDLE], "").layout(), build.Image([bytes(whole)], "").layout())


@pytest.mark.parametrize("saved", [[1], [{"Config": "c", "Layers": [], "LayerSources": {"a": 1}}]])
def test_documents_of_wrong_types_are_refused(saved: list[Any]) -> None:
    files = {"manifest.json": json.dumps(saved).encode()}
    with pytest.raises(FormatError, match="describes itself wrongly"):
        proof_of(files, {"manifest.json": files["manifest.json"] + b" "})


def test_a_history_of_wrong_types_is_refused(tmp_path: Path) -> None:
    forged = Slimmed(tmp_path)
    forged.config["history"][-1] = "x"
    with pytest.raises(FormatError, match="describes itself wrongly"):
        in_folder(tmp_path, forged)


@pytest.mark.parametrize("document", [b"[1]", b'{"paths_data":{"paths":[1]}}', b'{"paths":[{"size_in_bytes":1e400}]}'])
def test_databases_of_wrong_types_are_compared_as_bytes(document: bytes) -> None:
    both = [
        build.Image([build.layer(build.file("conda-meta/x.json", data))], "").layout()
        for data in (document, document + b" ")
    ]
    verdict = proof_of(*both)
    assert any("that cannot be read" in item.what for item in verdict.differences)


def nested(depth: int, config: bytes = b"") -> dict[str, bytes]:
    """Return an image whose manifest is so many indexes below ``index.json``."""
    image = build.Image([BASE], "")
    image.config += config
    files = image.layout()
    entry = json.loads(files["index.json"])["manifests"][0]
    for _ in range(depth):
        document = json.dumps({"schemaVersion": 2, "mediaType": build.INDEX, "manifests": [entry]}).encode()
        entry = image.descriptor(document, build.INDEX)
        files[f"blobs/sha256/{build.digest(document)}"] = document
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    return files


@pytest.mark.parametrize("depth", range(7))
def test_indexes_in_indexes_are_compared_up_to_a_depth(depth: int) -> None:
    """A config that only has another blank is another file with the same meaning, and all above it follows."""
    old, new = nested(depth), nested(depth, b" ")
    if depth > 4:
        with pytest.raises(FormatError, match="less nesting"):
            proof_of(old, new)
        return
    verdict = proof_of(old, new)
    assert verdict.is_proved, verdict.differences
    top = json.loads(new["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")
    forged = {**new, f"blobs/sha256/{top}": new[f"blobs/sha256/{top}"] + b" "}
    assert not proof_of(old, forged).is_proved
