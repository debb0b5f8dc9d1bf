"""Slimmed container images, read by others: umoci unpacks and compares diff IDs, skopeo copies, buildah mounts, and
podman loads and mounts, as ``docker load`` does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import container_images as build
from tests.laws.rooms import FIXTURES
from tests.reference import tool

from fatpack.main import main

pytestmark = pytest.mark.reference

LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()


def layers() -> list[bytes]:
    """Return layers with a setuid library, a hard link, a link, a whiteout, and the cut end that umoci writes."""
    return [
        build.layer(
            build.folder("usr"),
            build.folder("usr/lib"),
            build.link("lib", "usr/lib"),
            build.file("usr/lib/libtwo.so", LIBRARY, mode=0o4755),
            build.link("usr/lib/libtwo.so.1", "usr/lib/libtwo.so", is_hard=True),
            build.file("usr/lib/libgone.so", LIBRARY),
            build.file("usr/lib/notes", b"text"),
        ),
        build.layer(build.file("usr/lib/.wh.libgone.so", b"")),
        build.layer(build.file("opt.so", LIBRARY, mode=0o700), is_cut=True),
    ]


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool(words[0]), *words[1:]], capture_output=True, text=True, check=False)


def unpacked(layout: Path, into: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return the files that umoci makes of an image: permissions, links, bytes."""
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    done = ran("umoci", "unpack", *rootless, "--image", f"{layout}:app", str(into))
    assert done.returncode == 0, done.stderr
    found = {}
    for path in sorted((into / "rootfs").rglob("*")):
        status = path.lstat()
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(into / "rootfs"))] = (status.st_mode, status.st_nlink, path.read_bytes())
    return found


@pytest.mark.parametrize("method", ["gzip", ""])
def test_umoci_unpacks_the_same_tree_with_smaller_libraries(tmp_path: Path, method: str) -> None:
    before = build.write_folder(build.Image(layers(), method).layout(), tmp_path / "before")
    after = tmp_path / "after"
    assert main(["slim", str(before), "--for", "sm_90", "-d", str(after), "-q"]) == 0
    old, new = unpacked(before, tmp_path / "old"), unpacked(after, tmp_path / "new")
    assert {name: facts[:2] for name, facts in old.items()} == {name: facts[:2] for name, facts in new.items()}
    changed = [name for name in old if old[name] != new[name]]
    assert changed == ["opt.so", "usr/lib/libtwo.so", "usr/lib/libtwo.so.1"]
    assert all(len(new[name][2]) < len(LIBRARY) for name in changed)
    assert new["usr/lib/libtwo.so"][1] == 2


def test_umoci_sees_what_a_stale_diff_id_is(tmp_path: Path) -> None:
    """The judge can fail: a config that keeps its diff IDs is refused, which skopeo does not do."""
    image = build.Image(layers())
    image.blobs[2] = build.compressed(build.layer(build.file("opt.so", b"other")), "gzip")
    layout = build.write_folder(image.layout(), tmp_path / "layout")
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    assert ran("umoci", "unpack", *rootless, "--image", f"{layout}:app", str(tmp_path / "out")).returncode != 0


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive", "oci"])
def test_skopeo_copies_what_was_slimmed(tmp_path: Path, form: str) -> None:
    layout = build.write_folder(build.Image(layers()).layout(), tmp_path / "layout")
    source, after, back = (tmp_path / name for name in ("source", "after", "back"))
    tag = ":app:1" if form == "docker-archive" else ":app"
    done = ran("skopeo", "--insecure-policy", "copy", "-q", f"oci:{layout}:app", f"{form}:{source}{tag}")
    assert done.returncode == 0, done.stderr
    to = ["-d" if form == "oci" else "-o", str(after)]
    assert main(["slim", str(source), "--for", "sm_90", *to, "-q"]) == 0
    done = ran("skopeo", "--insecure-policy", "copy", "-q", f"{form}:{after}{tag}", f"oci:{back}:app")
    assert done.returncode == 0, done.stderr
    shown = json.loads(ran("skopeo", "inspect", "--config", f"{form}:{after}{tag}").stdout)
    assert shown["history"][-1]["created_by"] == "fatpack slim --for sm_90"
    new = unpacked(back, tmp_path / "new")
    assert len(new["usr/lib/libtwo.so"][2]) < len(LIBRARY)
    assert new["usr/lib/notes"][2] == b"text"


def test_skopeo_takes_layers_of_zstd(tmp_path: Path) -> None:
    """umoci 0.4.7 unpacks no zstd, and Docker's manifests have none: skopeo compares the digests."""
    before = build.write_folder(build.Image(layers(), "zstd").layout(), tmp_path / "before")
    after = tmp_path / "after"
    assert main(["slim", str(before), "--for", "sm_90", "-d", str(after), "-q"]) == 0
    done = ran("skopeo", "--insecure-policy", "copy", "-q", f"oci:{after}:app", f"dir:{tmp_path / 'copy'}")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="buildah needs root, or user namespaces that the machine grants")
@pytest.mark.parametrize("method", ["gzip", "zstd"])
def test_buildah_mounts_what_was_slimmed(tmp_path: Path, method: str) -> None:
    before = build.write_folder(build.Image(layers(), method).layout(), tmp_path / "before")
    after, policy = tmp_path / "after", tmp_path / "policy.json"
    assert main(["slim", str(before), "--for", "sm_90", "-d", str(after), "-q"]) == 0
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    store = ["--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    try:
        made = ran("buildah", *store, "from", "--signature-policy", str(policy), f"oci:{after}:app")
        assert made.returncode == 0, made.stderr
        mounted = ran("buildah", *store, "mount", made.stdout.strip())
        assert mounted.returncode == 0, mounted.stderr
        assert len((Path(mounted.stdout.strip()) / "usr/lib/libtwo.so").read_bytes()) < len(LIBRARY)
    finally:
        ran("buildah", *store, "rm", "--all")
        shutil.rmtree(tmp_path / "root", ignore_errors=True)


@pytest.fixture
def short_folder() -> Iterator[str]:
    """A folder with a short path: podman refuses a ``--runroot`` of more than 50 characters."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="podman needs root, or user namespaces that the machine grants")
@pytest.mark.parametrize("form", ["saved", "both"])
def test_podman_loads_what_docker_saved_and_was_slimmed(tmp_path: Path, short_folder: str, form: str) -> None:
    image = build.Image(layers(), "" if form == "saved" else "gzip")
    before, after = tmp_path / "before.tar", tmp_path / "after.tar"
    before.write_bytes(build.archive(getattr(image, form)()))
    assert main(["slim", str(before), "--for", "sm_90", "-o", str(after), "-q"]) == 0
    store = ["--root", str(tmp_path / "root"), "--runroot", short_folder, "--storage-driver", "vfs"]
    policy = tmp_path / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    try:
        loaded = ran("podman", *store, "load", "--quiet", "--signature-policy", str(policy), "-i", str(after))
        assert loaded.returncode == 0, loaded.stderr
        name = loaded.stdout.partition(": ")[2].strip()
        (shown,) = json.loads(ran("podman", *store, "inspect", "--type", "image", name).stdout)
        assert len(shown["RootFS"]["Layers"]) == 3
        mounted = ran("podman", *store, "image", "mount", name)
        assert mounted.returncode == 0, mounted.stderr
        root = Path(mounted.stdout.strip())
        assert len((root / "usr/lib/libtwo.so").read_bytes()) < len(LIBRARY)
        assert len((root / "opt.so").read_bytes()) < len(LIBRARY)
        assert not (root / "usr/lib/libgone.so").exists()
    finally:
        ran("podman", *store, "image", "unmount", "--all")
        shutil.rmtree(tmp_path / "root", ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="podman needs root, or user namespaces that the machine grants")
def test_podman_sees_a_stale_diff_id_in_an_archive_of_plain_layers(tmp_path: Path, short_folder: str) -> None:
    """The judge can fail: it compares the layers of such an archive with the config."""
    image = build.Image(layers(), "")
    image.layers[2] = build.layer(build.file("opt.so", b"other"))
    archive, policy = tmp_path / "stale.tar", tmp_path / "policy.json"
    archive.write_bytes(build.archive(image.saved()))
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    store = ["--root", str(tmp_path / "root"), "--runroot", short_folder, "--storage-driver", "vfs"]
    loaded = ran("podman", *store, "load", "--quiet", "--signature-policy", str(policy), "-i", str(archive))
    assert loaded.returncode != 0
    assert "Digest did not match" in loaded.stderr
