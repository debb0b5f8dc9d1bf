"""Container images for tests: layers as tar archives, and the documents around them, as image tools write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file(
    name: str, data: bytes, *, mode: int = 0o644, pax: Mapping[str, str] | None = None
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, 1_700_000_000
    info.pax_headers = dict(pax or {})
    return info, data


def link(name: str, target: str, *, is_hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.LNKTYPE if is_hard else tarfile.SYMTYPE, target
    return info, b""


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info, b""


def layer(*members: tuple[tarfile.TarInfo, bytes], is_cut: bool = False) -> bytes:
    """Return a tar archive; one that ``is_cut`` ends after the last byte of the last file, as umoci's do."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
        end = archive.offset
    data = into.getvalue()
    if is_cut:
        return data[: end - -members[-1][0].size % 512]
    return data


def compressed(data: bytes, method: str) -> bytes:
    if method == "gzip":
        return gzip.compress(data, 6, mtime=0)
    return zstandard.ZstdCompressor().compress(data) if method == "zstd" else data


class Image:
    """An image in the making: its files by name."""

    def __init__(self, layers: Sequence[bytes], method: str = "gzip", **config: Any) -> None:
        self.layers = list(layers)
        self.blobs = [compressed(data, method) for data in layers]
        self.media = LAYER + (f"+{method}" if method else "")
        self.config = json.dumps(
            {
                "created": "2024-01-01T00:00:00Z",
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["A=<1>"], "Labels": {"number": "1.50"}},
                "weight": 1.50,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(data)}" for data in layers]},
                "history": [{"created_by": f"RUN step {number}"} for number in range(len(layers))],
                **config,
            }
        ).encode()

    def descriptor(self, data: bytes, media: str, **more: Any) -> dict[str, Any]:
        return {"mediaType": media, "digest": f"sha256:{digest(data)}", "size": len(data), **more}

    def manifest(self, **more: Any) -> bytes:
        layers = [self.descriptor(blob, self.media) for blob in self.blobs]
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self.descriptor(self.config, CONFIG)}
        return json.dumps({**document, "layers": layers, **more}).encode()

    def layout(self, *others: tuple[bytes, Mapping[str, Any]], manifest: bytes | None = None) -> dict[str, bytes]:
        """Return the files of an OCI layout; ``others`` are documents with entries in the index."""
        main = self.manifest() if manifest is None else manifest
        entries = [
            self.descriptor(main, MANIFEST, annotations={"org.opencontainers.image.ref.name": "app"}),
            *(self.descriptor(data, MANIFEST, **more) for data, more in others),
        ]
        blobs = [*self.blobs, self.config, main, *(data for data, _ in others)]
        return {
            "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
            **{f"blobs/sha256/{digest(blob)}": blob for blob in blobs},
            "index.json": json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode(),
        }

    def saved(self) -> dict[str, bytes]:
        """Return the files of an archive as docker save before version 25 wrote it."""
        names = [f"{number:064x}/layer.tar" for number in range(len(self.layers))]
        config = f"{digest(self.config)}.json"
        entry = {"Config": config, "RepoTags": ["app:1"], "Layers": names}
        return {
            **dict(zip(names, self.layers, strict=True)),
            config: self.config,
            "manifest.json": json.dumps([entry]).encode(),
        }

    def both(self) -> dict[str, bytes]:
        """Return the files of an archive as docker save of version 25 writes it: a layout, and a manifest.json."""
        files = self.layout()
        names = [f"blobs/sha256/{digest(blob)}" for blob in self.blobs]
        sources = {
            f"sha256:{digest(data)}": self.descriptor(blob, self.media)
            for data, blob in zip(self.layers, self.blobs, strict=True)
        }
        entry = {
            "Config": f"blobs/sha256/{digest(self.config)}",
            "RepoTags": ["app:1"],
            "Layers": names,
            "LayerSources": sources,
        }
        return {**files, "manifest.json": json.dumps([entry]).encode()}


def archive(files: Mapping[str, bytes]) -> bytes:
    return layer(*(file(name, data) for name, data in files.items()))


def write_folder(files: Mapping[str, bytes], folder: Path) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def read_files(path: Path) -> dict[str, bytes]:
    """Return the files of a layout in a folder, or of an archive."""
    if path.is_dir():
        return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}
    with tarfile.open(path) as opened:
        return {info.name: opened.extractfile(info).read() for info in opened if info.isreg()}  # type: ignore[union-attr]


def inflated(blob: bytes) -> bytes:
    if blob.startswith(b"\x1f\x8b"):
        return gzip.decompress(blob)
    if blob.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(blob)
    return blob


def checked_layers(files: Mapping[str, bytes], number: int = 0) -> list[bytes]:
    """Return the layers of an image as tar archives; every digest, size and diff ID on the way is compared."""
    if "index.json" in files:
        entry = json.loads(files["index.json"])["manifests"][number]
        manifest = json.loads(_named(files, entry))
        config = json.loads(_named(files, manifest["config"]))
        layers = [inflated(_named(files, one)) for one in manifest["layers"]]
    else:
        saved = json.loads(files["manifest.json"])[number]
        assert saved["Config"] == f"{digest(files[saved['Config']])}.json"
        config = json.loads(files[saved["Config"]])
        layers = [files[name] for name in saved["Layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest(data)}" for data in layers]
    return layers


def _named(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    data = files[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
    assert (f"sha256:{digest(data)}", len(data)) == (descriptor["digest"], descriptor["size"])
    return data


def members(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the members of a layer with their bytes; an end that is cut is mended first."""
    whole = data + bytes(-len(data) % 512 + 1024)
    with tarfile.open(fileobj=io.BytesIO(whole)) as opened:
        return [(info, opened.extractfile(info).read() if info.isreg() else b"") for info in opened]  # type: ignore[union-attr]
