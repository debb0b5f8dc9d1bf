"""Proof that a container image is another one with less device code: documents, layers and all other files compared.

Images are read with Python's ``tarfile`` and ``json``. Documents may differ in digests and sizes of what changed, in
one entry of the history, and in what vouched for the old digests, which may be missing: that is listed.

How we know: OCI image-spec 1.1; moby, image/tarexport/load.go; BuildKit, attestation-storage.
"""

from __future__ import annotations

import itertools
import json
import os
import posixpath
import re
import tarfile
import tempfile

from fatpack import limits, magic_numbers
from fatpack.errors import BadValue, Unsupported
from fatpack.io.open import open_source
from fatpack.io.ranges import ViewFile
from fatpack.proof.ledger import DifferenceLog, ProvedFile, compare_views, file_digest
from fatpack.proof.packages import image_databases
from fatpack.proof.packages.image_layers import ComparedLayer, LayerComparison
from fatpack.proof.packages.verdict import PackageProofResult, ProvedLayer, proved_file, proved_same_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack
    from typing import Any, TypeAlias

    from fatpack.io.source import View
    from fatpack.proof.packages.image_databases import FileDigests
    from fatpack.proof.packages.verdict import ProvedLibrary

    Document: TypeAlias = dict[str, Any]

COMPARED = (
    "the number and the order of images, platforms and layers, and every document except digests and sizes",
    "every layer: its digest, its size and its diff ID, as the documents of the new image state them",
    "the order, headers, links and attributes of all files in every layer, except sizes of changed libraries",
    "the content of every file, byte for byte, except changed libraries and package databases",
    "every changed library, by a proof of its own",
    "every package database, except the rows of changed libraries, which have to follow",
    "all other files of the image, byte for byte",
)
NOT_COMPARED = (
    "the compression of layers that changed",
    "attestations and signatures that are missing, which are listed",
)

_INDEX, _SAVED, _LAYOUT = "index.json", "manifest.json", "oci-layout"

#: LIMIT: bytes of a document, files of an image, and nesting of indexes
_DOCUMENT, _FILES, _NESTING = 16 << 20, 100_000, 4

_HEX = re.compile(r"[0-9a-f]{64}")
_BASE = ("org.opencontainers.image.base.digest", "org.opencontainers.image.base.name")
_LAZY = re.compile(
    r"containerd\.io/snapshot/stargz/toc\.digest|io\.containers\.estargz\.uncompressed-size"
    r"|io\.(github\.containers|containers)\.zstd-chunked\..*"
)
_REFERENCE, _REF_NAME = "vnd.docker.reference.digest", "org.opencontainers.image.ref.name"
#: records of extended headers that follow from name, target and size
_NAMING = ("path", "linkpath", "size")
_COSIGN = re.compile(r"sha256-([0-9a-f]{64})\.(sig|att|sbom)")


class ImageContents:
    """The files of an image, in a folder or an archive; ``facts`` are attributes of members of an archive."""

    def __init__(self, image: View | str, stack: ExitStack) -> None:
        self.files: dict[str, View] = {}
        self.links: dict[str, str] = {}
        self.facts: list[tuple[str, tuple[object, ...]]] = []
        self.end: tuple[object, ...] = ()
        if isinstance(image, str):
            self.chain: tuple[str, ...] = (image,)
            self._read_folder(image, stack)
        else:
            self.chain = image.chain
            self._read_archive(_inflated(image, stack))

    def _read_folder(self, path: str, stack: ExitStack) -> None:
        for folder, _, names in os.walk(path):
            for name in names:
                file = os.path.join(folder, name)
                if os.path.islink(file) or len(self.files) > _FILES:
                    raise self.wrong(name, "files alone, and not too many", "others")
                source = stack.enter_context(open_source(file, may_close=True))
                self.files[os.path.relpath(file, path)] = source.view()

    def _read_archive(self, view: View) -> None:
        try:
            with tarfile.open(fileobj=ViewFile(view), mode="r:") as archive:
                for info in archive:
                    name = posixpath.normpath(info.name)
                    if len(self.facts) > _FILES:
                        raise self.wrong(name, "fewer files", "more")
                    if info.issparse():  # readers see other bytes than those that lie there
                        raise self.wrong(name, "a file without holes", "a sparse one")
                    records = sorted(item for item in info.pax_headers.items() if item[0] not in _NAMING)
                    facts = (info.mode, info.uid, info.gid, info.mtime, info.type, info.uname, info.gname, *records)
                    self.facts.append((name, facts))
                    if info.issym() or info.islnk():
                        folder = posixpath.dirname(name) if info.issym() else ""
                        self.links[name] = posixpath.normpath(posixpath.join(folder, info.linkname))
                    elif info.isreg():
                        if name in self.files:
                            raise self.wrong(name, "one file of this name", "two")
                        self.files[name] = view.slice(info.offset_data, info.size)
                self.end = (*sorted(archive.pax_headers.items()), _digest_of_end(view, archive.offset))
        except (tarfile.TarError, ValueError, OverflowError) as error:
            raise BadValue(str(error), format="tar", hint="get the image again", chain=self.chain) from error

    def wrong(self, what: str, expected: str, found: str) -> BadValue:
        """Return the error about a part of the image."""
        return BadValue(
            "the image describes itself wrongly",
            format="image",
            field=what,
            expected=expected,
            found=found,
            hint="get the image again",
            chain=self.chain,
        )

    def resolve(self, name: str) -> str:
        """Return the name of the file that a name leads to."""
        name = posixpath.normpath(name)
        for _ in range(8):
            name = self.links.get(name, name)
        return name

    def document(self, name: str) -> Any:
        """Return a JSON document. Raises BadValue."""
        view = self.files.get(name)
        if view is None or len(view) > _DOCUMENT:
            raise self.wrong(name, f"a document of at most {_DOCUMENT} bytes", "none" if view is None else "more")

        def pairs(found: list[tuple[str, Any]]) -> Document:
            if len(dict(found)) != len(found):
                raise ValueError("a key is there twice")
            return dict(found)

        try:
            # 2.0 is no 2 for most readers, and text is UTF-8 for all
            text = view.tobytes().decode()
            return json.loads(text, object_pairs_hook=pairs, parse_float=lambda number: ("float", float(number)))
        except (ValueError, RecursionError) as error:
            raise self.wrong(name, "JSON", str(error)) from error

    def summary(self, view: View | str) -> ProvedFile:
        """Return name, size and digest: of a folder the digest of its index, which names everything else."""
        if not isinstance(view, str):
            return proved_file(view)
        index = self.files.get(_INDEX)
        digest = "" if index is None else file_digest(index)
        return ProvedFile(view, sum(map(len, self.files.values())), digest)


def _digest_of_end(view: View, at: int) -> str:
    """Return the digest of what follows the last file of an archive, "" for zeros alone."""
    size = len(view)
    while at < size:
        if any(view.read(at, min(limits.CHUNK, size - at))):
            return file_digest(view.slice(at, size - at))
        at += limits.CHUNK
    return ""


def _inflated(view: View, stack: ExitStack) -> View:
    """Return an archive as it is inflated, in a temporary file if it is compressed."""
    head = view.head(0, 4)
    if not head.startswith((magic_numbers.GZIP, magic_numbers.ZSTD)):
        return view
    import gzip
    import zlib

    import zstandard

    reader: Any
    if head.startswith(magic_numbers.GZIP):
        reader = gzip.GzipFile(fileobj=ViewFile(view), mode="rb")
    else:
        decompressor = zstandard.ZstdDecompressor(max_window_size=limits.WINDOW)
        reader = decompressor.stream_reader(ViewFile(view), read_across_frames=True)  # type: ignore[arg-type]
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # closed by the stack
    try:
        while block := reader.read(limits.CHUNK):
            if not view.source.charge(view.start, file.tell() + len(block)):
                raise Unsupported("the archive inflates to more than allowed", hint=limits.inflated_hint())
            file.write(block)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise BadValue(str(error), format="image", hint="get the image again", chain=view.chain) from error
    file.flush()
    return stack.enter_context(open_source(file, name=view.chain[-1] if view.chain else "")).view()


def is_image(contents: ImageContents) -> bool:
    """Return whether an archive or a folder is an image: it has the documents of one."""
    return (_LAYOUT in contents.files and _INDEX in contents.files) or _SAVED in contents.files


def prove_image(before: View | str, after: View | str) -> PackageProofResult:
    """Return whether ``after`` is the image ``before`` with less device code; layouts in folders are given by paths.

    Decompresses all layers that differ, in windows; libraries go to unnamed temporary files. Raises Unsupported for
    what is no image, FormatError for a damaged one, and the errors of proofs of libraries.
    """
    from contextlib import ExitStack

    with ExitStack() as stack:
        old, new = ImageContents(before, stack), ImageContents(after, stack)
        for one in (old, new):
            if not is_image(one):
                hint = "docker save, skopeo copy and buildah push write images"
                raise Unsupported("it is no container image", hint=hint, chain=one.chain)
        files = old.summary(before), new.summary(after)
        if not isinstance(before, str) and files[0].digest == files[1].digest:
            return proved_same_bytes("image", *files)
        work = _ImageComparison(old, new)
        work.compare()
        ledger = work.ledger
        return PackageProofResult(
            "image",
            *files,
            not ledger.count,
            tuple(ledger.differences),
            ledger.count,
            work.same_count,
            tuple(work.libraries),
            tuple(work.described),
            COMPARED,
            NOT_COMPARED,
            tuple(work.layers),
            tuple(work.dropped),
        )


class _ImageComparison:
    """Two images that are compared."""

    def __init__(self, old: ImageContents, new: ImageContents) -> None:
        self._old, self._new = old, new
        self.ledger = DifferenceLog()
        self.libraries: list[ProvedLibrary] = []
        self.layers: list[ProvedLayer] = []
        self.described: list[str] = []
        self.dropped: list[str] = []
        self.same_count = 0
        #: file before → file after, of everything that documents name
        self._pairs: dict[str, str] = {}
        self._lost: set[str] = set()
        #: documents before that were compared value by value
        self._documents: set[str] = set()
        self._compared: dict[tuple[str, str], ComparedLayer | None] = {}
        self._stacks: list[list[tuple[str, str]]] = []

    def compare(self) -> None:
        """Compare everything."""
        if _INDEX in self._old.files:
            self._pairs[_INDEX] = _INDEX
            self._index(_INDEX, _INDEX, 0)
        if _SAVED in self._old.files:
            self._saved()
        self._other_files()
        self._databases()

    # Documents.

    def _document(self, image: ImageContents, name: str) -> Document:
        found = image.document(name)
        if not isinstance(found, dict):
            raise image.wrong(name, "an object", type(found).__name__)
        return found

    def _blob(self, image: ImageContents, descriptor: object) -> str:
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        if not isinstance(digest, str) or re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None:
            raise image.wrong("digest", "sha256 and 64 digits", str(digest)[:100])
        return f"blobs/sha256/{digest.removeprefix('sha256:')}"

    def _list(self, image: ImageContents, document: Document, key: str) -> list[Document]:
        found = document.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise image.wrong(key, "a list of objects", type(found).__name__)
        return found

    def _pair(self, old: str, new: str) -> None:
        if self._pairs.setdefault(old, new) != new:
            self.ledger.differ(f"{old}: new name", expected=self._pairs[old], found=new)

    def _stated(self, descriptor: Document, name: str) -> None:
        """Compare a file of the new image with size and digest of the descriptor that names it."""
        view = self._new.files.get(name)
        if view is None:
            self.ledger.differ(f"{name}: file", expected="one", found="none")
            return
        self.ledger.same(f"{name}: size in its descriptor", len(view), descriptor.get("size"))
        self.ledger.same(f"{name}: digest", name.rpartition("/")[2], file_digest(view))

    def _data(self, old: Document, new: Document, name: str) -> None:
        """Compare the copy of a file in its descriptor: one that changed has none, one that did not has the same."""
        is_same = old.get("digest") == new.get("digest")
        if "data" in new:
            self.ledger.same(f"{name}: copy in its descriptor", old.get("data") if is_same else "none", new["data"])

    def _index(self, old_name: str, new_name: str, depth: int) -> None:
        if depth > _NESTING:
            raise self._new.wrong(new_name, "less nesting", "more")
        old, new = self._document(self._old, old_name), self._document(self._new, new_name)
        self._documents.add(old_name)
        title = "index.json" if not depth else f"index {old_name[-64:][:12]}"
        self.ledger.same(f"{title}: all but manifests", {**old, "manifests": 0}, {**new, "manifests": 0})
        entries = self._list(self._new, new, "manifests")
        left = list(entries)
        missing: list[Document] = []
        before = self._list(self._old, old, "manifests")
        known = {str(entry.get("digest")) for entry in before}
        for entry in before:
            # One that did not change has its digest; one that did has a digest that is not among the old ones.
            is_new = bool(left) and str(left[0].get("digest")) not in known
            if left and (entry == left[0] or (is_new and _bare(entry, left[0]) == _bare(left[0], left[0]))):
                self._entry(entry, left.pop(0), depth)
            else:
                missing.append(entry)
        for entry in left:
            self.ledger.differ(f"{title}: manifest", expected="none", found=entry.get("digest"))
        for entry in missing:
            self._missing(title, entry)

    def _entry(self, old: Document, new: Document, depth: int) -> None:
        names = self._blob(self._old, old), self._blob(self._new, new)
        if names[0] not in self._old.files:
            self.ledger.same(f"{names[0]}: digest of a file that is not in the image", names[0], names[1])
            return
        if names[0] in self._pairs:
            self.ledger.same(f"{names[0]}: new name", self._pairs[names[0]], names[1])
            return
        self._pair(*names)
        self._data(old, new, names[1])
        self._stated(new, names[1])
        if names[1] not in self._new.files:
            return
        document = self._document(self._old, names[0])
        if "manifests" in document:
            self._index(*names, depth + 1)
        else:
            self._manifest(*names)

    def _missing(self, title: str, entry: Document) -> None:
        """Record a difference unless a missing entry vouched for a manifest that changed."""
        name = self._blob(self._old, entry)
        annotations = entry.get("annotations")
        annotations = annotations if isinstance(annotations, dict) else {}
        about = str(annotations.get(_REFERENCE, ""))
        cosign = _COSIGN.fullmatch(str(annotations.get(_REF_NAME, "")))
        if cosign is not None:
            about = cosign[1]
        elif not about and name in self._old.files:
            subject = self._document(self._old, name).get("subject")
            about = str(subject.get("digest", "")) if isinstance(subject, dict) else ""
        subject_name = f"blobs/sha256/{about.removeprefix('sha256:')}"
        if self._pairs.get(subject_name, subject_name) == subject_name:
            self.ledger.differ(f"{title}: manifest", expected=entry.get("digest"), found="none")
            return
        self.dropped.append(f"{title}: {entry.get('digest')}, about {about.removeprefix('sha256:')}")
        self._lose(name)

    def _lose(self, name: str) -> None:
        self._lost.add(name)
        if name not in self._old.files:
            return
        document = self._document(self._old, name)
        config = document.get("config")
        for descriptor in [*self._list(self._old, document, "layers"), *([config] if isinstance(config, dict) else [])]:
            self._lost.add(self._blob(self._old, descriptor))

    def _manifest(self, old_name: str, new_name: str) -> None:
        old, new = self._document(self._old, old_name), self._document(self._new, new_name)
        self._documents.add(old_name)
        layers = self._list(self._old, old, "layers"), self._list(self._new, new, "layers")
        title = f"manifest {old_name[-64:][:12]}"
        bare = [{**one, "config": 0, "layers": 0} for one in (old, new)]
        if old_name != new_name:
            self._without(bare[0], bare[1], title, _is_base)
        self.ledger.same(f"{title}: all but config and layers", *bare)
        if not self.ledger.same(f"{title}: layers", len(layers[0]), len(layers[1])):
            return
        names: list[tuple[str, str]] = []
        for was, now in zip(*layers, strict=True):
            pair = self._blob(self._old, was), self._blob(self._new, now)
            both = [{**one, "digest": 0, "size": 0, "data": 0} for one in (was, now)]
            if pair[0] != pair[1]:
                self._without(both[0], both[1], title, _is_lazy)
            self.ledger.same(f"{title}: layer {len(names)}", *both)
            self._data(was, now, pair[1])
            if pair[0] in self._old.files:
                self._pair(*pair)
                self._stated(now, pair[1])
            else:
                self.ledger.same(f"{title}: layer that is not in the image", *pair)
            names.append(pair)
        configs = old.get("config"), new.get("config")
        if isinstance(configs[0], dict) and isinstance(configs[1], dict):
            both = [{**one, "digest": 0, "size": 0, "data": 0} for one in configs if one is not None]
            self.ledger.same(f"{title}: config", *both)
            self._data(configs[0], configs[1], self._blob(self._new, configs[1]))
            self._config(self._blob(self._old, configs[0]), self._blob(self._new, configs[1]), names)
            if self._blob(self._old, configs[0]) in self._old.files:
                self._stated(configs[1], self._blob(self._new, configs[1]))
        else:
            self.ledger.same(f"{title}: config", *configs)

    def _without(self, old: Document, new: Document, title: str, may_go: Any) -> None:
        """Take annotations out of the old one that may be missing and are, and note them. No other may be new."""
        annotations, left = old.get("annotations"), new.get("annotations", {})
        if isinstance(annotations, dict) and isinstance(left, dict):
            gone = [key for key in annotations if may_go(key) and key not in left]
            self.dropped += [f"{title}: annotation {key}" for key in gone]
            old["annotations"] = {key: value for key, value in annotations.items() if key not in gone}
            if gone and not old["annotations"]:
                del old["annotations"]

    def _config(self, old_name: str, new_name: str, layers: Sequence[tuple[str, str]]) -> None:
        if old_name not in self._old.files:
            self.ledger.same(f"{old_name}: config that is not in the image", old_name, new_name)
            return
        self._pair(old_name, new_name)
        if new_name not in self._new.files:
            self.ledger.differ(f"{new_name}: file", expected="one", found="none")
            return
        stated = _HEX.search(new_name)
        if stated is not None:
            self.ledger.same(f"{new_name}: digest", stated[0], file_digest(self._new.files[new_name]))
        old, new = self._document(self._old, old_name), self._document(self._new, new_name)
        self._documents.add(old_name)
        title = f"config {posixpath.basename(old_name)[:12]}"
        histories = old.pop("history", []), new.pop("history", [])
        roots = old.pop("rootfs", {}), new.pop("rootfs", {})
        self.ledger.same(f"{title}: all but history and diff IDs", old, new)
        diff_ids = [root.pop("diff_ids", None) if isinstance(root, dict) else None for root in roots]
        self.ledger.same(f"{title}: rootfs", *roots)
        if isinstance(histories[1], list) and histories[1][:-1] == histories[0] and histories[0] != histories[1]:
            entry = histories[1][-1]
            if not isinstance(entry, dict):
                raise self._new.wrong(f"{new_name}: history", "objects", type(entry).__name__)
            expected = {"created": entry.get("created"), "created_by": entry.get("created_by"), "empty_layer": True}
            self.ledger.same(f"{title}: new entry of the history", {**expected, **entry}, expected)
        else:
            self.ledger.same(f"{title}: history", *histories)
        if not all(isinstance(one, list) and len(one) == len(layers) for one in diff_ids):
            # Manifests of attestations have configs without layers.
            self.ledger.same(f"{title}: diff IDs", *diff_ids)
            return
        assert isinstance(diff_ids[0], list)
        assert isinstance(diff_ids[1], list)
        for number, names in enumerate(layers):
            self._layer(number, names, (str(diff_ids[0][number]), str(diff_ids[1][number])))
        self._stacks.append(list(layers))

    def _saved(self) -> None:
        """Compare the document of docker archives."""
        old, new = (image.document(_SAVED) for image in (self._old, self._new))
        self._pairs[_SAVED] = _SAVED
        if not self.ledger.same("manifest.json: images", _length(old), _length(new)) or not isinstance(old, list):
            return
        for was, now in zip(old, new, strict=True):
            for image, one in ((self._old, was), (self._new, now)):
                if not isinstance(one, dict):
                    raise image.wrong(_SAVED, "objects", type(one).__name__)
            bare = [{**one, "Config": 0, "Layers": 0, "LayerSources": 0} for one in (was, now)]
            self.ledger.same("manifest.json: all but names", *bare)
            layers = was.get("Layers"), now.get("Layers")
            if not self.ledger.same("manifest.json: layers", _length(layers[0]), _length(layers[1])):
                continue
            names = [
                (self._old.resolve(str(first)), self._new.resolve(str(second)))
                for first, second in zip(*layers, strict=True)
            ]
            for first, second in names:
                self._pair(first, second)
                stated = _HEX.fullmatch(posixpath.basename(second).removesuffix(".tar"))
                if second not in self._new.files:
                    self.ledger.differ(f"{second}: file", expected="one", found="none")
                elif stated is not None and first != second:
                    self.ledger.same(f"{second}: digest", stated[0], file_digest(self._new.files[second]))
            self._sources(was.get("LayerSources"), now.get("LayerSources"))
            config = self._old.resolve(str(was.get("Config"))), self._new.resolve(str(now.get("Config")))
            self._config(*config, names)

    def _sources(self, old: Any, new: Any) -> None:
        if not isinstance(old, dict) or not isinstance(new, dict):
            self.ledger.same("manifest.json: LayerSources", old, new)
            return
        self.ledger.same("manifest.json: number of LayerSources", len(old), len(new))
        for (_, was), (key, now) in zip(old.items(), new.items(), strict=False):
            for image, one in ((self._old, was), (self._new, now)):
                if not isinstance(one, dict):
                    raise image.wrong("LayerSources", "objects", type(one).__name__)
            both = [{**one, "digest": 0, "size": 0, "data": 0} for one in (was, now)]
            self.ledger.same("manifest.json: LayerSources", *both)
            self._data(was, now, "manifest.json: LayerSources")
            name = self._blob(self._new, now)
            if name not in self._new.files:
                self.ledger.same("manifest.json: LayerSources: file that is not in the image", was, now)
            else:
                self._stated(now, name)
                diff_ids = {one.diff_ids[1] for one in self._compared.values() if one is not None}
                is_known = str(key).removeprefix("sha256:") in diff_ids or key in old
                self.ledger.same(f"manifest.json: LayerSources: {key}: a diff ID", is_known or not diff_ids, True)

    # Layers.

    def _layer(self, number: int, names: tuple[str, str], stated: tuple[str, str]) -> None:
        views = self._old.files.get(names[0]), self._new.files.get(names[1])
        if views[0] is None or views[1] is None or not _is_archive(views[0]):
            self.ledger.same(f"layer {number}: diff ID", *stated)
            return
        if names not in self._compared:
            title = f"layer {number}"
            found = LayerComparison(title, views[0], views[1], self.ledger, self.libraries).compare()
            self._compared[names] = found
            self.same_count += found.same_count
            digests = file_digest(views[0]), file_digest(views[1])
            sizes = len(views[0]), len(views[1])
            self.layers.append(ProvedLayer(number, digests, sizes, found.diff_ids))
        compared = self._compared[names]
        assert compared is not None
        self.ledger.same(f"layer {number}: diff ID", f"sha256:{compared.diff_ids[1]}", stated[1])

    def _databases(self) -> None:
        """Compare the package databases of all layers with the libraries that changed."""
        changed = self._changed_libraries()
        for names, layer in self._compared.items():
            for database in layer.databases if layer is not None else ():
                shown = self._shown(names, database.path)
                if database.before != database.after:
                    self.described.append(database.path)
                image_databases.compare_database(
                    "package database", database.path, database.before, database.after, changed, shown, self.ledger
                )

    def _changed_libraries(self) -> dict[tuple[str, bytes], FileDigests]:
        """Return what libraries became, by their name or that of a link to them, hard or symbolic, and a digest."""
        changed: dict[tuple[str, bytes], FileDigests] = {}
        for layer in self._compared.values():
            if layer is None:
                continue
            for library, path in itertools.product(layer.changed, layer.paths):
                name = path.rpartition("/")[2]
                if name.partition(".")[0] == library.path.rpartition("/")[2].partition(".")[0]:
                    for algorithm in image_databases.HASHES:
                        changed.setdefault((name, getattr(library.before, algorithm)), library.after)
        return changed

    def _shown(self, names: tuple[str, str], database: str) -> Mapping[str, FileDigests]:
        """Return libraries by the paths at which an image shows them, if it shows this database of a layer, too."""
        for stack in self._stacks:
            if names not in stack:
                continue
            shown: dict[str, FileDigests] = {}
            is_shown = False
            for pair in stack:
                layer = self._compared.get(pair)
                if layer is None:
                    continue
                for path in [*shown, *([database] if is_shown else [])]:
                    if _is_covered(path, layer):
                        shown.pop(path, None)
                        is_shown = is_shown and path != database
                shown.update({library.path: library.before for library in layer.changed})
                is_shown = is_shown or pair == names
            if is_shown:
                return shown
        return {}

    # All other files.

    def _other_files(self) -> None:
        renamed = dict(self._pairs)
        compared = {_INDEX, _SAVED, *(first for first, _ in self._compared)}
        for name, view in self._old.files.items():
            if name in renamed:
                if renamed[name] == name and name not in compared and name in self._new.files:
                    compare_views(name, view, self._new.files[name], self.ledger)
            elif name not in self._lost or name in self._new.files:
                renamed[name] = name
                other = self._new.files.get(name)
                if other is None:
                    self.ledger.differ(f"{name}: file", expected="one", found="none")
                else:
                    compare_views(name, view, other, self.ledger)
        for name, other_name in self._pairs.items():
            is_compared = (name, other_name) in self._compared or name in self._documents
            if name != other_name and not is_compared and name in self._old.files and other_name in self._new.files:
                # what is no layer of an image: statements of attestations, files of artifacts
                compare_views(name, self._old.files[name], self._new.files[other_name], self.ledger)
        for name in self._new.files.keys() - set(renamed.values()):
            self.ledger.differ(f"{name}: file", expected="none", found="one")
        old = [(renamed.get(name, name), facts) for name, facts in self._old.facts if name not in self._gone(renamed)]
        self.ledger.same("attributes of files in the archive", old, self._new.facts)
        self.ledger.same("global headers, and bytes after the end of the archive", self._old.end, self._new.end)
        for name, target in self._old.links.items():
            self.ledger.same(f"{name}: link", renamed.get(target, target), self._new.links.get(name))

    def _gone(self, renamed: Mapping[str, str]) -> set[str]:
        return self._lost - set(renamed)


def _is_covered(path: str, layer: ComparedLayer) -> bool:
    """Return whether a layer replaces or removes a path of lower layers."""
    parts = path.split("/")
    if path in layer.paths:
        return True
    for end in range(len(parts)):
        folder = "/".join(parts[:end])
        slash = f"{folder}/" if folder else ""
        if f"{slash}.wh.{parts[end]}" in layer.paths or f"{slash}.wh..wh..opq" in layer.paths:
            return True
    return False


def _is_archive(view: View) -> bool:
    head = view.head(0, 512)
    if head.startswith((magic_numbers.GZIP, magic_numbers.ZSTD)) or head[1:4] == magic_numbers.SKIPPABLE:
        return True
    return head[magic_numbers.TAR_AT :].startswith(magic_numbers.TAR) or (len(head) == 512 and not head.strip(b"\0"))


def _is_base(key: str) -> bool:
    return key in _BASE


def _is_lazy(key: str) -> bool:
    return _LAZY.fullmatch(key) is not None


def _length(value: Any) -> object:
    return len(value) if isinstance(value, list) else type(value).__name__


def _bare(entry: Document, new: Document) -> Document:
    """Return an entry of an index without digest, size and the annotations that may be missing and are in ``new``."""
    bare = {key: value for key, value in entry.items() if key not in ("digest", "size", "data")}
    annotations = entry.get("annotations")
    if isinstance(annotations, dict):
        left = new.get("annotations")
        left = left if isinstance(left, dict) else {}
        found = {key: value for key, value in annotations.items() if key not in _BASE or key in left}
        bare["annotations"] = found
        if annotations and not found:
            del bare["annotations"]
    return bare
