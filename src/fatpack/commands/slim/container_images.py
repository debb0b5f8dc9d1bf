"""Slim a container image: return an image of the same kind with slimmed libraries in every layer.

::

    index ─► manifests ─► config, layers ─► each layer listed and slimmed once ─► package databases follow
          ◄── digests ◄── config, manifests ◄── layers written anew, the others keep their bytes

Documents keep unknown fields, and change only if what they name does. A file that vouches for a manifest that changed
(attestation, referrer, signature) is dropped and named, or refused.

How we know: OCI image-spec 1.1, manifest.md, config.md, image-index.md; moby, image/tarexport/load.go; BuildKit,
attestation-storage; cosign's ``sha256-DIGEST.sig``.
"""

from __future__ import annotations

import os
import re

from fatpack.commands.slim import image_databases
from fatpack.commands.slim.image_files import (
    DIGEST,
    INDEX,
    SAVED,
    FolderImage,
    TarImage,
    document_error,
    dump_document,
)
from fatpack.commands.slim.image_layers import LayerDatabase, LayerReader, Spool, write_layer
from fatpack.commands.slim.outcome import PackageLibrary
from fatpack.errors import BadValue, HostError, Unsupported, cli_or_api, pluralize
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeAlias

    from fatpack.commands.slim.image_databases import FileSystem
    from fatpack.commands.slim.image_files import NewImageFile
    from fatpack.commands.slim.image_layers import (
        LayerLibrary,
        LayerListing,
        MemberChange,
        NewLayer,
    )
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.outcome import Slimming
    from fatpack.io.source import Piece, View

    Document: TypeAlias = dict[str, Any]

#: LIMIT: layers of one image, and images
_LAYERS, _IMAGES = 1000, 1000

#: LIMIT: nesting of indexes
_NESTING = 4

#: media types of layers that are tar archives (OCI layer.md; Docker's image manifest V2.2)
_LAYER_TYPES = re.compile(
    r"application/vnd\.(oci\.image\.layer\.v1\.tar|docker\.image\.rootfs\.diff\.tar)([.+](gzip|zstd))?"
)
_CONFIG_TYPES = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)

#: annotations of layers for lazy pulling: tables of offsets in the old blob
_LAZY = re.compile(
    r"containerd\.io/snapshot/stargz/toc\.digest|io\.containers\.estargz\.uncompressed-size|"
    r"io\.(github\.containers|containers)\.zstd-chunked\..*"
)
#: annotations of manifests that name the base image
_BASE = ("org.opencontainers.image.base.digest", "org.opencontainers.image.base.name")

_REFERENCE = "vnd.docker.reference.digest"
_REF_NAME = "org.opencontainers.image.ref.name"
_COSIGN = re.compile(r"sha256-([0-9a-f]{64})\.(sig|att|sbom)")


class ImageOptions(Record):
    """Options for images: the command for the history, and the number of lowest layers that stay."""

    command: str = "fatpack slim"
    keep_layers: int = 0
    drop_signature: bool = False


def history_command(options: SlimOptions) -> str:
    """Return the command that makes an image, for its history: the options that choose images."""
    words = ["fatpack slim"]
    if options.devices:
        words.append(f"--for {','.join(device.arch for device in options.devices)}")
    words += [f"--{name} {','.join(found)}" for name in ("keep", "drop") if (found := getattr(options, name))]
    if options.keep_ptx is not None:
        words.append(f"--keep-ptx={options.keep_ptx}")
    if options.use is not None:
        words += [f"--used {profile.path.rpartition('/')[2]}" for profile in options.use.profiles]
        words += ["--drop-unused"] if options.use.drops_unused else []
    if options.drop_dead:
        words.append("--drop-dead")
    if options.lossless:
        words.append("--lossless")
    elif options.recompress is not None:
        words.append(f"--recompress={options.recompress}")
    return " ".join(words)


class LayerRow(Record):
    """A layer of an image for the report: its number from 0, the command that made it, its sizes, libraries changed."""

    number: int
    made_by: str
    before: int
    after: int
    changed: int


class SlimmedImage(Record):
    """An image with slimmed libraries. ``files`` are those of a layout in a folder, ``pieces`` are a new archive.

    ``libraries`` are the files that were looked at, with the number of their layer in front; ``layers`` are those of
    all images; ``effective`` and ``shadowed`` are the bytes saved in libraries that the images show, and in those that
    later layers replace or remove; ``ids`` are old and new image IDs.
    """

    is_changed: bool
    files: Sequence[NewImageFile]
    pieces: Sequence[Piece]
    libraries: tuple[PackageLibrary, ...]
    notes: tuple[str, ...]
    layers: tuple[LayerRow, ...]
    effective: int
    shadowed: int
    ids: tuple[tuple[str, str], ...]


class _Layer:
    """A layer in the store: its file, and the changed layer."""

    def __init__(self, name: str, view: View, diff_id: str, *, is_fixed: bool) -> None:
        self.name = name
        self.view = view
        self.diff_id = diff_id
        self.is_fixed = is_fixed
        self.number = 0
        self.listing: LayerListing | None = None
        self.new: NewLayer | None = None


class _Image:
    """An image: its configuration and its layers, in order; ``title`` for messages."""

    def __init__(self, config_name: str, config: Document, layers: list[_Layer], title: str) -> None:
        self.config_name = config_name
        self.config = config
        self.layers = layers
        self.title = title


def slim_image(image: FolderImage | TarImage, slimming: Slimming, options: ImageOptions, spool: Spool) -> SlimmedImage:
    """Return an image in which ``slimming`` was applied to every linked library of every layer.

    The new bytes are in the spool. Raises FormatError for damage, HostError for a signature that would be wrong,
    Unsupported for kinds of images that are not written, and what ``slimming`` raises.
    """
    return _ImageWork(image, slimming, options, spool).result()


class _ImageWork:
    """The state of an image that is slimmed."""

    def __init__(self, image: FolderImage | TarImage, slimming: Slimming, options: ImageOptions, spool: Spool) -> None:
        self._image = image
        self._slimming = slimming
        self._options = options
        self._spool = spool
        self._layers: dict[str, _Layer] = {}
        self._images: list[_Image] = []
        self._configs: dict[str, Document] = {}
        #: file → the document that it holds; nested indexes and manifests are read once
        self._documents: dict[str, Any] = {}
        self._notes: list[str] = []
        self._libraries: list[PackageLibrary] = []
        #: old digest → new digest, in hexadecimal digits; file → its new content
        self._renames: dict[str, str] = {}
        self._contents: dict[str, Sequence[Piece]] = {}
        self._dropped: set[str] = set()

    def result(self) -> SlimmedImage:
        """Return the new image."""
        self._read_documents()
        for number, layer in enumerate(self._layers.values()):
            layer.number = number
            self._read_layer(layer)
        changes = self._database_changes()
        for layer in self._layers.values():
            self._write_layer(layer, changes.get(layer.name, []))
        if any(layer.new is not None for layer in self._layers.values()):
            self._write_documents()
        return self._made()

    # Reading the documents.

    def _read_documents(self) -> None:
        image = self._image
        if image.has(INDEX):
            self._documents[INDEX] = self._document(INDEX)
            self._read_index(INDEX, 0)
        if image.has(SAVED):
            self._documents[SAVED] = image.document(SAVED)
            self._read_saved()
        if not self._images:
            hint = "skopeo copy writes images as oci-archive:FILE, docker-archive:FILE and oci:FOLDER"
            raise Unsupported("it names no image", hint=hint, chain=image.chain)

    def _document(self, name: str) -> Document:
        found = self._image.document(name)
        if not isinstance(found, dict):
            raise self._wrong(name, "content", "an object", type(found).__name__)
        return found

    def _wrong(self, name: str, field: str, expected: str, found: object) -> BadValue:
        return document_error(name, field, expected, str(found), self._image.chain)

    def _blob(self, descriptor: object, title: str) -> str:
        """Return the file that a descriptor names."""
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        if not isinstance(digest, str):
            raise self._wrong(title, "digest", "a descriptor with a digest", digest)
        algorithm, _, value = digest.partition(":")
        if algorithm != "sha256":
            raise Unsupported(f"{title}: digests by {algorithm} are not written", chain=self._image.chain)
        if DIGEST.fullmatch(value) is None:
            raise self._wrong(title, "digest", "64 hexadecimal digits", value)
        return f"blobs/sha256/{value}"

    def _entries(self, document: Document, name: str, key: str) -> list[Document]:
        found = document.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._wrong(name, key, "a list of descriptors", type(found).__name__)
        return found

    def _read_index(self, name: str, depth: int) -> None:
        if depth > _NESTING:
            raise self._wrong(name, "manifests", f"at most {_NESTING} indexes in each other", "more")
        for entry in self._entries(self._documents[name], name, "manifests"):
            blob = self._blob(entry, name)
            if blob in self._documents:
                continue
            if not self._image.has(blob):
                self._notes.append(f"{blob} is not in the image, and its entry in the index stays")
                continue
            document = self._checked(blob, entry, name)
            self._documents[blob] = document
            if entry.get("mediaType") in _INDEX_TYPES or "manifests" in document:
                self._read_index(blob, depth + 1)
            elif self._is_image(entry, document):
                self._read_manifest(blob, document, self._title(entry, blob))

    def _checked(self, blob: str, descriptor: Document, name: str) -> Document:
        """Return a document after comparing its size and digest with its descriptor."""
        import hashlib

        view = self._image.view(blob)
        if descriptor.get("size") != len(view):
            raise self._wrong(name, f"size of {blob}", str(descriptor.get("size")), len(view))
        document = self._document(blob)
        found = hashlib.sha256(view.tobytes(), usedforsecurity=False).hexdigest()
        if not blob.endswith(found):
            raise self._wrong(blob, "digest", blob.rpartition("/")[2], found)
        return document

    def _title(self, entry: Document, blob: str) -> str:
        annotations = entry.get("annotations")
        name = annotations.get(_REF_NAME) if isinstance(annotations, dict) else None
        return str(name) if name else blob.rpartition("/")[2][:12]

    def _is_image(self, entry: Document, document: Document) -> bool:
        annotations = entry.get("annotations")
        if isinstance(annotations, dict) and "vnd.docker.reference.type" in annotations:
            return False
        if "subject" in document or "artifactType" in document:
            return False
        config = document.get("config")
        return isinstance(config, dict) and config.get("mediaType") in _CONFIG_TYPES

    def _read_manifest(self, blob: str, document: Document, title: str) -> None:
        config = document["config"]
        name = self._blob(config, blob)
        self._configs[name] = self._checked(name, config, blob)
        diff_ids = self._diff_ids(name)
        descriptors = self._entries(document, blob, "layers")
        if len(descriptors) != len(diff_ids):
            raise self._wrong(name, "rootfs.diff_ids", f"{len(descriptors)}, one for each layer", len(diff_ids))
        layers: list[_Layer] = []
        for descriptor, diff_id in zip(descriptors, diff_ids, strict=True):
            file = self._blob(descriptor, blob)
            media = str(descriptor.get("mediaType", ""))
            if _LAYER_TYPES.fullmatch(media) is None or not self._image.has(file):
                reason = f"of type {media}" if self._image.has(file) else "not in the image"
                self._notes.append(f"layer {file.rpartition('/')[2][:12]} stays: it is {reason}")
                continue
            if descriptor.get("size") != len(self._image.view(file)):
                size = len(self._image.view(file))
                raise self._wrong(blob, f"size of {file}", str(descriptor.get("size")), size)
            layers.append(self._layer(file, diff_id, len(layers)))
        self._add_image(_Image(name, self._configs[name], layers, title))

    def _diff_ids(self, name: str) -> list[str]:
        rootfs = self._configs[name].get("rootfs")
        found = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self._wrong(name, "rootfs.diff_ids", "a list of digests", type(found).__name__)
        if len(found) > _LAYERS:
            raise self._wrong(name, "rootfs.diff_ids", f"at most {_LAYERS}", len(found))
        return [str(one).removeprefix("sha256:") for one in found]

    def _layer(self, file: str, diff_id: str, number: int) -> _Layer:
        file = self._image.resolve(file)
        found = self._layers.get(file)
        is_fixed = number < self._options.keep_layers
        if found is None:
            found = self._layers[file] = _Layer(file, self._image.view(file), diff_id, is_fixed=is_fixed)
        elif found.diff_id != diff_id:
            raise self._wrong(file, "diff ID", found.diff_id, diff_id)
        found.is_fixed = found.is_fixed or is_fixed
        return found

    def _add_image(self, image: _Image) -> None:
        if all(one.config_name != image.config_name for one in self._images):
            self._images.append(image)
        if len(self._images) > _IMAGES:
            raise self._wrong(INDEX, "images", f"at most {_IMAGES}", "more")

    def _read_saved(self) -> None:
        entries = self._documents[SAVED]
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise self._wrong(SAVED, "content", "a list of images", type(entries).__name__)
        for entry in entries:
            name, layers = entry.get("Config"), entry.get("Layers")
            if not isinstance(name, str) or not isinstance(layers, list) or not all(isinstance(x, str) for x in layers):
                raise self._wrong(SAVED, "Config and Layers", "a name, and a list of names", repr(entry)[:100])
            name = self._image.resolve(name)
            if name not in self._configs:
                self._configs[name] = self._document(name)
            diff_ids = self._diff_ids(name)
            if len(diff_ids) != len(layers):
                raise self._wrong(name, "rootfs.diff_ids", f"{len(layers)}, one for each layer", len(diff_ids))
            found = [
                self._layer(file, diff_id, at) for at, (file, diff_id) in enumerate(zip(layers, diff_ids, strict=True))
            ]
            tags = entry.get("RepoTags")
            title = str(tags[0]) if isinstance(tags, list) and tags else name[:12]
            self._add_image(_Image(name, self._configs[name], found, title))

    # Layers.

    def _read_layer(self, layer: _Layer) -> None:
        changes = not layer.is_fixed
        spool, slimming = self._spool, self._slimming
        try:
            view = layer.view.named(layer.name) if isinstance(self._image, TarImage) else layer.view
            reader = LayerReader(view, spool, slimming, image_databases.is_database, changes=changes)
            listing = reader.read()
        except Unsupported as error:
            self._libraries.append(
                PackageLibrary(layer.name, len(layer.view), len(layer.view), None, None, None, error)
            )
            return
        stated = layer.name.rpartition("/")[2]
        if DIGEST.fullmatch(stated) and listing.digest != stated:
            raise self._wrong(layer.name, "digest", stated, listing.digest)
        if listing.diff_id != layer.diff_id:
            raise self._wrong(layer.name, "diff ID", layer.diff_id, listing.diff_id)
        layer.listing = listing
        title = f"layer {layer.number}"
        self._notes += [f"{title}: {note}" for note in listing.notes]
        for library in listing.libraries:
            self._libraries.append(library.replace(name=f"{title}: {library.name}"))

    def _database_changes(self) -> dict[str, list[MemberChange]]:
        """Return the changes of package databases, by the files of their layers."""
        found: dict[int, tuple[_Layer, LayerDatabase, dict[str, list[LayerLibrary]]]] = {}
        for image in self._images:
            files = image_databases.FileSystem()
            for layer in image.layers:
                if layer.listing is None:
                    continue
                files.add(layer.listing.members)
                for member in layer.listing.members:
                    if isinstance(member.subject, LayerDatabase):
                        key = id(member.subject)
                        found.setdefault(key, (layer, member.subject, {}))
                        self._add_rows(files, member.subject, found[key][2])
            for database in files.databases():
                if id(database) in found:
                    self._add_rows(files, database, found[id(database)][2])
        changes: dict[str, list[MemberChange]] = {}
        for layer, database, libraries in found.values():
            if not libraries:
                continue
            data, wrong = image_databases.rewrite_database(database, libraries)
            for path in wrong:
                self._notes.append(f"layer {layer.number}: {database.name} had another digest for {path}, and keeps it")
            if data != image_databases.database_bytes(database):
                changes.setdefault(layer.name, []).append(database.change.replace(content=self._spool.add([data])))
        return changes

    def _add_rows(self, files: FileSystem, database: LayerDatabase, into: dict[str, list[LayerLibrary]]) -> None:
        try:
            for path, library in image_databases.find_libraries(database, files):
                known = into.setdefault(path, [])
                if all(one is not library for one in known):
                    known.append(library)
        except image_databases.DAMAGE:
            note = f"{database.name} is damaged, and stays as it is"
            if note not in self._notes:
                self._notes.append(note)

    def _write_layer(self, layer: _Layer, databases: Sequence[MemberChange]) -> None:
        if layer.listing is None:
            return
        changes = [*(library.change for library in layer.listing.changed), *databases]
        if not changes:
            return
        if layer.listing.contents_table is not None:
            changes.append(layer.listing.contents_table)
            self._notes.append(
                f"layer {layer.number}: its table of contents (eStargz) is dropped: it cannot be pulled lazily"
            )
        layer.new = write_layer(layer.view, layer.listing, changes, self._spool)
        self._renames[layer.listing.digest] = layer.new.digest
        self._renames[layer.listing.diff_id] = layer.new.diff_id
        self._contents[layer.name] = [layer.new.blob]

    # Writing the documents.

    def _write_documents(self) -> None:
        changed = {name for image in self._images for name in [image.config_name] if self._is_config_changed(image)}
        for name in changed:
            self._write_config(name)
        if INDEX in self._documents:
            self._write_index(INDEX)
        if SAVED in self._documents:
            self._contents[SAVED] = [dump_document([self._saved_entry(one) for one in self._documents[SAVED]])]
            if not self._image.has(INDEX):
                return
        self._drop_orphans()

    def _is_config_changed(self, image: _Image) -> bool:
        return any(layer.new is not None for layer in image.layers)

    def _put(self, name: str, document: Any) -> None:
        """Exchange a document, and remember its new digest."""
        import hashlib

        data = dump_document(document)
        new = hashlib.sha256(data, usedforsecurity=False).hexdigest()
        old = DIGEST.search(name)
        if old is not None:
            self._renames[old[0]] = new
        self._contents[name] = [data]

    def _write_config(self, name: str) -> None:
        config = self._configs[name]
        rootfs = config["rootfs"]
        rootfs["diff_ids"] = [self._renamed(one) for one in rootfs["diff_ids"]]
        history = config.get("history")
        if isinstance(history, list) and all(isinstance(one, dict) for one in history):
            filled = sum(1 for one in history if one.get("empty_layer") is not True)
            if filled == len(rootfs["diff_ids"]):
                history.append(self._history_entry(config))
        self._put(name, config)

    def _history_entry(self, config: Document) -> Document:
        created = config.get("created")
        epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
        if epoch.isdigit():
            import datetime

            created = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {"created": created} if isinstance(created, str) else {}
        return {**entry, "created_by": self._options.command, "empty_layer": True}

    def _renamed(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return DIGEST.sub(lambda match: self._renames.get(match[0], match[0]), text)

    def _describe(self, descriptor: Document, name: str) -> bool:
        """Bring a descriptor in step with the file that it names; return whether it changed."""
        if name not in self._contents:
            return False
        descriptor["digest"] = self._renamed(descriptor["digest"])
        descriptor["size"] = sum(map(len, self._contents[name]))
        if "data" in descriptor:  # a copy of the content, in base64
            del descriptor["data"]
        return True

    def _write_manifest(self, name: str) -> None:
        document = self._documents[name]
        is_changed = self._describe(document["config"], self._blob(document["config"], name))
        for descriptor in document.get("layers", []):
            if self._describe(descriptor, self._blob(descriptor, name)):
                is_changed = True
                self._drop_annotations(descriptor, name, lambda key: _LAZY.fullmatch(key) is not None)
        if is_changed:
            if not self._options.keep_layers:
                self._drop_annotations(document, name, lambda key: key in _BASE)
            self._put(name, document)

    def _drop_annotations(self, owner: Document, name: str, goes: Any) -> None:
        annotations = owner.get("annotations")
        for key in [key for key in annotations if goes(key)] if isinstance(annotations, dict) else []:
            assert isinstance(annotations, dict)
            del annotations[key]
            self._notes.append(f"dropped: annotation {key} of {name.rpartition('/')[2][:12]}")
            if not annotations:
                del owner["annotations"]

    def _write_index(self, name: str) -> None:
        document = self._documents[name]
        entries = document.get("manifests", [])
        is_changed = False
        # Manifests first: attestations and signatures of them may come before them in the index.
        for entry in entries:
            blob = self._blob(entry, name)
            child = self._documents.get(blob)
            if isinstance(child, dict) and blob not in self._contents:
                if "manifests" in child:
                    self._write_index(blob)
                elif self._is_image(entry, child):
                    self._write_manifest(blob)
        kept = []
        for entry in entries:
            if self._is_dropped(entry, self._blob(entry, name)):
                is_changed = True
                continue
            if self._describe(entry, self._blob(entry, name)):
                is_changed = True
                self._drop_annotations(entry, name, lambda key: key in _BASE and not self._options.keep_layers)
            kept.append(entry)
        if is_changed:
            document["manifests"] = kept
            self._put(name, document)

    def _is_dropped(self, entry: Document, blob: str) -> bool:
        """Return whether an entry of an index attests a changed manifest. Raises HostError for a signature."""
        annotations = entry.get("annotations")
        annotations = annotations if isinstance(annotations, dict) else {}
        child = self._documents.get(blob)
        subject = child.get("subject") if isinstance(child, dict) else None
        cosign = _COSIGN.fullmatch(str(annotations.get(_REF_NAME, "")))
        if cosign is not None:
            if cosign[1] not in self._renames:
                return False
            if not self._options.drop_signature:
                raise HostError(
                    f"the image is signed ({annotations[_REF_NAME]}), and a change makes that invalid",
                    hint=f"{cli_or_api('--drop-signature', 'drop_signature=True')} drops it; sign the new image again",
                    chain=self._image.chain,
                )
            self._notes.append(f"dropped: {annotations[_REF_NAME]}, about the old digest")
            return True
        about = annotations.get(_REFERENCE)
        kind = "attestation"
        if about is None and isinstance(subject, dict):
            about, kind = subject.get("digest"), str(child.get("artifactType", "referrer")) if child else "referrer"
        if str(about).removeprefix("sha256:") not in self._renames:
            return False
        self._notes.append(f"dropped: {kind} {blob.rpartition('/')[2][:12]}, about the old digest")
        return True

    def _saved_entry(self, entry: Document) -> Document:
        new = dict(entry)
        new["Config"] = self._renamed(entry["Config"])
        new["Layers"] = [self._renamed(one) for one in entry["Layers"]]
        sources = entry.get("LayerSources")
        if isinstance(sources, dict):
            new["LayerSources"] = {self._renamed(key): self._source(value) for key, value in sources.items()}
        return new

    def _source(self, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("digest"), str):
            value = dict(value)
            self._describe(value, self._blob(value, SAVED))
        return value

    def _drop_orphans(self) -> None:
        """Find the files that only dropped entries name."""
        old = self._image.document(INDEX) if self._image.has(INDEX) else {}
        before, after = self._reach(old), self._reach(self._documents[INDEX], is_new=True)
        self._dropped = before - after

    def _reach(self, index: Document, *, is_new: bool = False) -> set[str]:
        """Return the old names of the files that an index leads to."""
        back = {new: old for old, new in self._renames.items()} if is_new else {}
        found: set[str] = set()
        left = [index]
        while left:
            document = left.pop()
            config = document.get("config")
            descriptors = [*document.get("manifests", []), *document.get("layers", [])]
            for descriptor in [*descriptors, *([config] if isinstance(config, dict) else [])]:
                name = self._blob(descriptor, INDEX)
                digest = name.rpartition("/")[2]
                name = f"blobs/sha256/{back.get(digest, digest)}"
                if name in found:
                    continue
                found.add(name)
                if name in self._documents and self._image.has(name):
                    left.append(self._documents[name] if is_new else self._image.document(name))
        return found

    # The result.

    def _made(self) -> SlimmedImage:
        is_changed = bool(self._contents)
        effective, shadowed = self._savings()
        if is_changed and any(map(image_databases.is_fixed_database, self._paths())):
            self._notes.append(
                "rpm's database has signed digests and stays: rpm -V will name the libraries that changed"
            )
        files: Sequence[NewImageFile] = ()
        pieces: Sequence[Piece] = ()
        if isinstance(self._image, FolderImage):
            files = tuple(self._image.rewritten(self._contents, self._renames, self._dropped))
        else:
            pieces = self._image.rewritten(self._contents, self._renames, self._dropped)
        ids = tuple(
            (old[0], self._renames.get(old[0], old[0]))
            for image in self._images
            if (old := DIGEST.search(image.config_name)) is not None
        )
        return SlimmedImage(
            is_changed,
            files,
            pieces,
            tuple(self._libraries),
            tuple(dict.fromkeys(self._notes)),
            tuple(self._rows()),
            effective,
            shadowed,
            ids,
        )

    def _paths(self) -> Iterator[str]:
        for layer in self._layers.values():
            if layer.listing is not None:
                yield from (member.path for member in layer.listing.members)

    def _savings(self) -> tuple[int, int]:
        """Return the bytes saved in libraries that an image shows, and in others."""
        shown: set[int] = set()
        for image in self._images:
            files = image_databases.FileSystem()
            for layer in image.layers:
                if layer.listing is not None:
                    files.add(layer.listing.members)
            shown.update(id(library) for library in files.libraries())
        sums = [0, 0]
        for layer in self._layers.values():
            for library in layer.listing.changed if layer.listing is not None else []:
                sums[id(library) not in shown] += library.before.size - library.after.size
        return sums[0], sums[1]

    def _rows(self) -> Iterator[LayerRow]:
        told: set[str] = set()
        for image in self._images:
            history = image.config.get("history")
            history = history if isinstance(history, list) else []
            made_by = [
                str(one.get("created_by", ""))
                for one in history
                if isinstance(one, dict) and not one.get("empty_layer")
            ]
            for number, layer in enumerate(image.layers):
                if layer.name in told:
                    continue
                told.add(layer.name)
                after = len(layer.view) if layer.new is None else len(layer.new.blob)
                changed = len(layer.listing.changed) if layer.listing is not None else 0
                command = made_by[number] if number < len(made_by) else ""
                yield LayerRow(layer.number, command, len(layer.view), after, changed)


def render_layers(made: SlimmedImage) -> Iterator[str]:
    """Yield a line for each layer, the bytes saved, and the old and new image ID."""
    from fatpack.printable import format_size, printable

    for row in made.layers:
        sizes = format_size(row.before)
        if row.after != row.before or row.changed:
            sizes = f"{sizes} → {format_size(row.after)}, {pluralize(row.changed, 'library')} changed"
        command = f" ({printable(row.made_by[:60])})" if row.made_by else ""
        yield f"layer {row.number}: {sizes}{command}"
    if made.shadowed:
        yield (
            f"saved {format_size(made.effective)} in libraries that the image shows, and {format_size(made.shadowed)} "
            "in libraries that later layers replace or remove"
        )
    for old, new in made.ids:
        if old != new:
            yield f"image ID {old[:12]} → {new[:12]}"
