"""Forgeries of container images and folders: files before and after that only one rule of the proof rejects.

Files by name are a layout, or a folder of files; bytes are an archive, of which attributes are compared, too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tests.builders import container_images as build
from tests.laws.rooms import FIXTURES

import fatpack

Files = Mapping[str, bytes]
Pair = tuple[Files | bytes, Files | bytes]

PATH = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
LIBRARY = PATH.read_bytes()
SUMS, OTHER_SUM = "var/lib/dpkg/info/two.md5sums", f"{'0' * 32}  usr/bin/tool\n"
HISTORY = {"created": "2024-01-01T00:00:00Z", "created_by": "fatpack slim --for sm_90", "empty_layer": True}


@cache
def slimmed() -> bytes:
    """Return the library with less device code."""
    into = io.BytesIO()
    fatpack.slim(PATH, into, devices="sm_90")
    return into.getvalue()


def sums(library: bytes, other: str = OTHER_SUM) -> bytes:
    return f"{hashlib.md5(library).hexdigest()}  usr/lib/libtwo.so\n{other}".encode()


def ended(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a layer with the shortest end, which slimming keeps: tarfile's own depends on the size of the archive."""
    layer = build.layer(*members, is_cut=True)
    return layer + bytes(-len(layer) % 512 + 1024)


def base(database: bytes | None = None, *more: tuple[tarfile.TarInfo, bytes], motd: str = "etc/motd") -> bytes:
    listed = sums(LIBRARY) if database is None else database
    return ended(build.file(motd, b"welcome"), build.file(SUMS, listed), *more)


def middle(library: bytes = LIBRARY, *, mode: int = 0o755, size: int = 0, tool: bytes = b"#!/bin/sh\n") -> bytes:
    """Return a layer with a library, a program and a link, whose header may state a size, that means nothing."""
    link = build.link("usr/lib/libtwo.so.1", "libtwo.so")
    link[0].size = size
    return ended(link, build.file("usr/lib/libtwo.so", library, mode=mode), build.file("usr/bin/tool", tool))


LAYERS = (base(), middle())

Change = Callable[[Any], object]


def layout(
    layers: Sequence[bytes] = LAYERS,
    *,
    blobs: Sequence[bytes] | None = None,
    config: Change = len,
    manifest: Change = len,
    index: Change = len,
    lacks: Sequence[bytes] = (),
    more: Files | None = None,
) -> dict[str, bytes]:
    """Return the files of a layout without some; functions change its documents before their digests are taken."""
    image = build.Image(layers, "")
    image.blobs = list(image.blobs if blobs is None else blobs)
    image.config = _changed(image.config, config)
    files = image.layout(manifest=_changed(image.manifest(), manifest))
    files["index.json"] = _changed(files["index.json"], index)
    gone = {f"blobs/sha256/{build.digest(data)}" for data in lacks}
    return {name: data for name, data in files.items() if name not in gone} | dict(more or {})


def _changed(document: bytes, change: Change) -> bytes:
    value = json.loads(document)
    change(value)
    return json.dumps(value).encode()


def layout_and(**changes: Any) -> Pair:
    return layout(), layout(**changes)


def layers_and(number: int, layer: bytes) -> Pair:
    """Return an image, and one with another layer."""
    return layout(), layout([layer if at == number else each for at, each in enumerate(LAYERS)])


def slim_and(library: bytes | None = None, database: bytes | None = None, upper: bytes | None = None) -> Pair:
    """Return an image, and one with a slimmed library: what is given is as it should not be."""
    library = slimmed() if library is None else library
    listed = base(sums(library) if database is None else database)
    return layout(), layout([listed, middle(library) if upper is None else upper])


def saved(change: Change = len, *, more: Files | None = None, layers: Sequence[bytes] = LAYERS) -> dict[str, bytes]:
    """Return the files that docker saved before version 25; a function changes manifest.json."""
    files = build.Image(layers, "").saved() | dict(more or {})
    return {**files, "manifest.json": _changed(files["manifest.json"], change)}


def both(change: Change = len) -> dict[str, bytes]:
    """Return the files that docker saves since version 25; a function changes the image in manifest.json."""
    files = build.Image(LAYERS, "").both()
    return {**files, "manifest.json": _changed(files["manifest.json"], lambda images: change(images[0]))}


def _twice(entries: list[Any]) -> None:
    entries.append(dict(entries[0]))


def _without_diff_ids(document: Any) -> None:
    document["rootfs"]["diff_ids"].pop()


def _sources(image: Any) -> list[Any]:
    return list(image["LayerSources"].values())


def _packed(level: int) -> bytes:
    return gzip.compress(LAYERS[0], level, mtime=0)


def _two_names_of_a_layer() -> Pair:
    """A layer that is there twice becomes two; each of them is whole."""
    first, second = _packed(1), _packed(9)
    three = [LAYERS[0]] * 3
    return layout(three, blobs=[first, first, second]), layout(three, blobs=[first, second, second])


def _two_names_of_a_manifest() -> Pair:
    manifest = build.Image(LAYERS, "").manifest()

    def named(ends: Sequence[bytes]) -> dict[str, bytes]:
        """Return a layout with a manifest for each name; some have blanks at the end."""
        blobs = [manifest + end for end in ends]
        entries = [
            {"digest": f"sha256:{build.digest(blob)}", "size": len(blob), "annotations": {"name": str(number)}}
            for number, blob in enumerate(blobs)
        ]
        more = {f"blobs/sha256/{build.digest(blob)}": blob for blob in blobs}
        return layout(index=lambda index: index.update(manifests=entries), lacks=[manifest], more=more)

    return named([b" ", b" ", b"\n"]), named([b"  ", b"\n\n", b"\n\n"])


def _lost_manifest() -> Pair:
    manifest = _changed(build.Image(LAYERS, "").manifest(), lambda one: one.update(annotations={"a": "b"}))
    return layout(), layout(manifest=lambda one: one.update(annotations={"a": "b"}), lacks=[manifest])


def _entry_of_none() -> Pair:
    """What an index names is not in the image, and becomes something else that is not in it."""

    def named(digit: str) -> dict[str, bytes]:
        entry = {"digest": f"sha256:{digit * 64}", "size": 1}
        return layout(index=lambda index: index["manifests"].append(entry))

    return named("1"), named("2")


def _layer_of_none() -> Pair:
    def named(digit: str) -> dict[str, bytes]:
        digest = f"sha256:{digit * 64}"
        return layout(manifest=lambda one: one["layers"][0].update(digest=digest), lacks=[LAYERS[0]])

    return named("1"), named("2")


def _config_of_none() -> Pair:
    config = build.Image(LAYERS, "").config

    def named(digit: str) -> dict[str, bytes]:
        digest = f"sha256:{digit * 64}"
        return layout(manifest=lambda one: one["config"].update(digest=digest), lacks=[config])

    return named("1"), named("2")


def _other_digest() -> Pair:
    """The header of gzip has another time: the layer is the same, and no digest fits."""
    first, second = _packed(9), gzip.compress(LAYERS[0], 9, mtime=1)
    before = layout([LAYERS[0]], blobs=[first])
    return before, {**before, f"blobs/sha256/{build.digest(first)}": second}


def _diff_id_of_none() -> Pair:
    """A layer is not in the image, so that nothing can be compared with the diff ID."""
    digest = f"sha256:{'1' * 64}"
    return (
        layout(lacks=[LAYERS[0]]),
        layout(lacks=[LAYERS[0]], config=lambda one: one["rootfs"]["diff_ids"].__setitem__(0, digest)),
    )


def _artifact(payload: bytes) -> dict[str, bytes]:
    """Return an image with a manifest beside it whose layer is no archive: an attestation, a chart."""
    image = build.Image(LAYERS, "")
    config = b"{}"
    document = {"schemaVersion": 2, "config": image.descriptor(config, build.CONFIG)}
    document["layers"] = [image.descriptor(payload, "application/vnd.in-toto+json")]
    files = image.layout((json.dumps(document).encode(), {}))
    return files | {f"blobs/sha256/{build.digest(one)}": one for one in (config, payload)}


def _named_config(name: str, document: bytes | None) -> dict[str, bytes]:
    """Return saved files with another config under a name, or with none."""
    config = f"{build.digest(build.Image(LAYERS, '').config)}.json"
    files = saved(lambda images: images[0].update(Config=name))
    return {each: data for each, data in files.items() if each != config} | ({name: document} if document else {})


def _with_history() -> bytes:
    return _changed(build.Image(LAYERS, "").config, lambda one: one["history"].append(HISTORY))


def _named_layer(name: str, data: bytes | None = LAYERS[0]) -> dict[str, bytes]:
    files = saved(lambda images: images[0]["Layers"].__setitem__(0, name))
    first = next(iter(files))
    return {each: data for each, data in files.items() if each != first} | ({name: data} if data else {})


def _linked(target: str) -> bytes:
    """Return an archive as skopeo writes it: a layer has another name, which no document uses."""
    members = [build.file(name, data) for name, data in saved().items()]
    return build.layer(*members, build.link("old/layer.tar", f"../{target}"))


def _archive(*, mode: int = 0o644, end: bytes = b"") -> bytes:
    members = [build.file(name, data) for name, data in saved().items()]
    members[0][0].mode = mode
    return build.layer(*members) + end


def _cut(library: bytes, *, padding: bool) -> bytes:
    """Return a layer without end that ends after the padding of its last file, or before it."""
    layer = build.layer(build.file("etc/motd", b"welcome"), build.file("usr/lib/libtwo.so", library), is_cut=True)
    return layer + bytes(-len(layer) % 512 if padding else 0)


def _in_padding() -> bytes:
    layer, library = bytearray(middle(slimmed())), slimmed()
    layer[layer.index(library) + len(library)] = 1
    return bytes(layer)


def _record(digest: bytes, other: bytes = b"") -> dict[str, bytes]:
    line = b"demo/libtwo.so,sha256=%s,%d\n" % (digest, len(LIBRARY))
    return {"demo-1.dist-info/RECORD": line + other, "demo/libtwo.so": LIBRARY}


def _config(change: Change) -> Pair:
    return layout_and(config=change)


FORGERIES: dict[str, Callable[[], Pair]] = {
    # what documents name
    "a layer with two new names": _two_names_of_a_layer,
    "a manifest with two new names": _two_names_of_a_manifest,
    "a manifest that is missing": _lost_manifest,
    "another manifest that is in no image": _entry_of_none,
    "another layer that is in no image": _layer_of_none,
    "another config that is in no image": _config_of_none,
    "a size": lambda: layout_and(manifest=lambda one: one["layers"][0].update(size=1)),
    "a digest": _other_digest,
    "a copy in a descriptor": lambda: layout_and(manifest=lambda one: one["layers"][0].update(data="ZXZpbA==")),
    # indexes and manifests
    "a number of the index": lambda: layout_and(index=lambda index: index.update(schemaVersion=2.0)),
    "one manifest more": lambda: layout_and(index=lambda index: _twice(index["manifests"])),
    "one manifest less": lambda: (layout(index=lambda index: _twice(index["manifests"])), layout()),
    "an annotation of the manifest": lambda: layout_and(manifest=lambda one: one.update(annotations={"a": "b"})),
    "one layer less": lambda: (
        layout([LAYERS[0], LAYERS[0]]),
        layout([LAYERS[0], LAYERS[0]], manifest=lambda one: one["layers"].pop()),
    ),
    "the type of a layer": lambda: layout_and(manifest=lambda one: one["layers"][0].update(mediaType="other")),
    "the type of the config": lambda: layout_and(manifest=lambda one: one["config"].update(mediaType="other")),
    "a config where none was": lambda: (
        layout(manifest=lambda one: one.update(config=None)),
        layout(manifest=lambda one: one.update(config=7)),
    ),
    # configs
    "the environment": lambda: _config(lambda one: one["config"].update(Env=["A=<2>"])),
    "the type of the root": lambda: _config(lambda one: one["rootfs"].update(type="other")),
    "an earlier entry of the history": lambda: _config(lambda one: one["history"][0].update(created_by="evil")),
    "a new entry of the history that says more": lambda: _config(
        lambda one: one["history"].append({**HISTORY, "author": "evil"})
    ),
    "a diff ID less": lambda: _config(_without_diff_ids),
    "a stale diff ID": lambda: _config(lambda one: one["rootfs"]["diff_ids"].reverse()),
    "another diff ID of a layer that is in no image": _diff_id_of_none,
    # manifest.json
    "one saved image less": lambda: (saved(_twice), saved()),
    "the tags of a saved image": lambda: (saved(), saved(lambda images: images[0].update(RepoTags=["evil:1"]))),
    "one saved layer less": lambda: (
        saved(lambda images: images[0].update(Layers=[images[0]["Layers"][0]] * 2), layers=[LAYERS[0]] * 2),
        saved(lambda images: images[0].update(Layers=[images[0]["Layers"][0]]), layers=[LAYERS[0]] * 2),
    ),
    "a saved layer that is missing": lambda: (saved(), _named_layer("none/layer.tar", None)),
    "the digest of a saved layer": lambda: (saved(), _named_layer(f"{'1' * 64}.tar")),
    "a saved config that is missing": lambda: (saved(), _named_config("none.json", None)),
    "the digest of a saved config": lambda: (saved(), _named_config(f"{'1' * 64}.json", _with_history())),
    "sources of layers where none were": lambda: (both(lambda image: image.pop("LayerSources")), both()),
    "one source of a layer more": lambda: (
        both(),
        both(lambda image: image["LayerSources"].update(evil=_sources(image)[0])),
    ),
    "the type of a source of a layer": lambda: (
        both(),
        both(lambda image: _sources(image)[0].update(mediaType="other")),
    ),
    "a source of a layer that is in no image": lambda: (
        both(),
        both(lambda image: _sources(image)[0].update(digest=f"sha256:{'e' * 64}")),
    ),
    "a source of no layer": lambda: (
        both(),
        both(lambda image: image.update(LayerSources=dict(zip("ab", _sources(image), strict=True)))),
    ),
    # other files
    "a saved layer that is no archive": lambda: (
        saved(layers=[b"a statement", LAYERS[1]]),
        saved(layers=[b"a statement", LAYERS[1]], more={f"{0:064x}/layer.tar": b"a forgery"}),
    ),
    "the statement of an attestation": lambda: (_artifact(b"the builder"), _artifact(b"the forgery")),
    "a file less": lambda: (layout(more={"blobs/sha256/more": b"1"}), layout()),
    "a file more": lambda: (layout(), layout(more={"blobs/sha256/more": b"1"})),
    "another content of a file": lambda: layout_and(more={"oci-layout": b'{"imageLayoutVersion":"2.0.0"}'}),
    "the rights of a file in the archive": lambda: (_archive(), _archive(mode=0o600)),
    "bytes after the archive": lambda: (_archive(), _archive(end=b"Z" * 512)),
    "a link in the archive": lambda: (_linked(f"{0:064x}/layer.tar"), _linked(f"{1:064x}/layer.tar")),
    # layers
    "the name of a file in a layer": lambda: layers_and(0, base(motd="etc/more")),
    "one file more in a layer": lambda: layers_and(0, base(None, build.file("etc/more", b"evil"))),
    "an end where none was": lambda: (
        layout([_cut(LIBRARY, padding=True)]),
        layout([_cut(LIBRARY, padding=True) + bytes(1024)]),
    ),
    "bytes after the end of a layer": lambda: layers_and(0, LAYERS[0] + b"x" * 512),
    "the rights of a file in a layer": lambda: layers_and(1, middle(mode=0o4755)),
    "the size of a link in a layer": lambda: layers_and(1, middle(size=5)),
    "bytes in the padding of a layer": lambda: layers_and(0, LAYERS[0].replace(b"welcome\0", b"welcomeX", 1)),
    "the content of a file in a layer": lambda: layers_and(1, middle(tool=b"#!/bin/SH\n")),
    "the padding of a slimmed library is missing": lambda: (
        layout([_cut(LIBRARY, padding=True)]),
        layout([_cut(slimmed(), padding=False)]),
    ),
    "bytes in the padding of a slimmed library": lambda: slim_and(upper=_in_padding()),
    "another library": lambda: slim_and(library=LIBRARY.replace(b"GCC: (", b"GCC; (", 1)),
    # package databases
    "a database that cannot be read": lambda: (
        layout([base(b"x" * 32 + b"  usr/bin/tool\n")]),
        layout([base(b"y" * 32 + b"  usr/bin/tool\n")]),
    ),
    "a row less": lambda: slim_and(database=sums(slimmed(), "")),
    "a row that did not follow": lambda: slim_and(database=sums(LIBRARY)),
    "a row about another file": lambda: slim_and(database=sums(slimmed(), OTHER_SUM.replace("0", "1"))),
    "a wrong digest in a row": lambda: slim_and(database=sums(b"")),
    # folders
    "a file more in a folder": lambda: ({"a": b"1"}, {"a": b"1", "b": b"2"}),
    "a database that is too large": lambda: (_record(b"e"), _record(b"e", b"x,,\n" * 300)),
}
