"""Editing hosts: put containers in, exchange them, write the result. Every result is verified before it is kept.

What is edited inside an archive is carried out to the archive by ``ops.address``; taking images out is ``ops.removal``.
"""

from __future__ import annotations

import os

from fatpack import formats, hosts, images
from fatpack.errors import HostError
from fatpack.hosts import archive
from fatpack.io.sink import file_mode, write_file
from fatpack.model import Finding
from fatpack.ops.edit import bare
from fatpack.scanner import host_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.hosts import Editor
    from fatpack.io.sink import Progress
    from fatpack.io.source import View
    from fatpack.model import Piece


def editor(view: View) -> Editor:
    """Return the host room that can edit these bytes. Raises HostError, with what would work instead."""
    name = host_of(view)
    if name == "raw":
        raise HostError("this is no object file", hint="containers go into relocatable objects (.o)", chain=view.chain)
    if name == "archive":
        path = view.chain[-1] if view.chain else "libx.a"
        raise HostError(
            "an archive holds many objects, and one of them is edited at a time",
            hint=f"write {path}(MEMBER)",
            chain=view.chain,
        )
    room = hosts.room(name)
    if not hasattr(room, "embed"):
        raise HostError(
            f"{room.DOC.title} cannot be edited",
            hint="edit the objects before they are linked",
            chain=view.chain,
        )
    form = images.recognise(view).form
    if form in ("cubin", "code-object"):
        raise HostError(
            f"this is a device image itself ({form}), no host",
            hint="pack it into a container; the container goes into a host object",
            chain=view.chain,
        )
    return room  # type: ignore[return-value]  # it has the whole door


#: format → the section in which compilers put it
SECTIONS = {
    "llvm-offload-binary": ".llvm.offloading",
    "clang-offload-bundle": ".hip_fatbin",
    "cuda-fatbin": ".nv_fatbin",
}

#: format → the runtime that loads it from programs, if their code registers it
_RUNTIMES = {"clang-offload-bundle": "HIP", "cuda-fatbin": "CUDA"}


def embedding_note(format: str | None) -> str:
    """Return what to know about a container of this format that was embedded; "" for nothing.

    Offload binaries are found and registered by clang-linker-wrapper, whatever put them there.
    """
    if format not in _RUNTIMES:
        return ""
    return (
        f"{SECTIONS[format]} is for tools to read: linkers drop it, and no code registers it, so the "
        f"{_RUNTIMES[format]} runtime will not find it in a program; embed an offload binary for clang-linker-wrapper"
    )


def embed(host: View, content: Sequence[Piece], *, format: str | None = None) -> Iterable[Piece]:
    """Return the pieces of the host with a section of device code added; ``format`` is that of the content.

    The section is the one in which compilers put that format, and linkers drop it: it is for tools to find. Raises
    HostError, FormatError.
    """
    return editor(host).embed(host, content, name=SECTIONS.get(format or "", SECTIONS["llvm-offload-binary"]))


def replace(host: View, content: View, *, section: str | None = None, force: bool = False) -> Iterable[Piece]:
    """Return the pieces of the host with the content of one section of device code exchanged.

    ``section`` is its name, or its number where several have one name; without it the host must have exactly one.
    The new content must be a container of the format that is there now, unless ``force``: code refers to what a
    section holds. Raises HostError otherwise.
    """
    room = editor(host)
    sites = [site for site in room.locate(host) if not isinstance(site, Finding) and site.index is not None]
    sites = [site for site in sites if site.expects != "table"]
    chosen = [site for site in sites if section in (None, site.section, str(site.index))]
    if len(chosen) != 1:
        present = ", ".join(f"{site.index} {site.section}" for site in sites) or "none"
        wanted = f"{len(chosen)} sections {section!r}" if section else f"{len(chosen)} sections of device code"
        raise HostError(f"{wanted}, exactly one is needed", hint=f"present, for --section: {present}", chain=host.chain)
    (site,) = chosen
    old, new = (formats.sniff(view.head(0, 24)) for view in (site.data, content))
    if old != new and not force:
        form = images.recognise(content).form if new is None else ""
        if old and form:
            raise HostError(
                f"{site.section} holds {old}, the new content is one image, of the form {form}",
                hint="pack a container of it, with the images that are to stay; extract gives those",
                chain=host.chain,
            )
        raise HostError(
            f"{site.section} holds {old or 'no container we know'}, the new content is {new or 'none that we know'}",
            hint="only a container of the same format is put in its place; --force does it all the same",
            chain=host.chain,
        )
    assert site.index is not None
    return room.replace(host, site.index, [content])


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    in_place: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
) -> int:
    """Write an edited host and return its size; mode bits are kept, and the result is verified before it is named.

    The host may be an archive. ``in_place`` writes over the host itself, in one step after verification; without it the
    host is refused as output whatever else is allowed, and so are the files of ``inputs``, what goes into the host.
    """
    return write_file(
        output,
        pieces,
        force=force or in_place,
        mode=file_mode(host),
        inputs=[] if in_place else [host, *inputs],
        verify=lambda after: verify(host, after),
        progress=progress,
    )


def verify(before: View, after: View) -> None:
    """Raise HostError unless ``after`` is a sound edit of ``before``: by the host's own rules.

    Of a bare container, every image afterwards must be one from before. Of an archive, every member must be as it was,
    to the byte, or a sound edit of itself.
    """
    name = host_of(before)
    if name == "raw":
        bare.verify(before, after)
        return
    if name != "archive":
        editor(before).verify(before, after)
        return
    archive.verify(before, after)
    for old, new in zip(archive.locate(before), archive.locate(after), strict=True):
        if isinstance(old, Finding) or isinstance(new, Finding):
            raise HostError("the members of the rewritten archive cannot be read", chain=after.chain)
        if not bare.is_same(old.data, new.data):
            verify(old.data, new.data)
