"""Putting containers into hosts, and exchanging the containers of a section.

:mod:`fatpack.selectors.address` writes an edited member to its archive; :mod:`fatpack.commands.slim.remove` removes
images.
"""

from __future__ import annotations

from fatpack.binary.section_names import CUDA_FATBIN, HIP_FATBIN, OFFLOADING
from fatpack.errors import FormatError, HostError, UsageError, cli_or_api
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import detect_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.io.source import Piece, View

#: format → the section in which compilers put it
SECTIONS = {
    "llvm-offload-binary": OFFLOADING,
    "clang-offload-bundle": HIP_FATBIN,
    "cuda-fatbin": CUDA_FATBIN,
}

#: format → the runtime that loads it from programs, if their code registers it
_RUNTIMES = {"clang-offload-bundle": "HIP", "cuda-fatbin": "CUDA"}


def _where_it_belongs(format: str) -> str:
    """Return advice for a format that no compiler puts into a section; "" for other formats."""
    if format == "rocm-kpack":
        convert = cli_or_api("fatpack convert --format=bundle", 'fatpack.convert(…, format="bundle")')
        return f"the HIP runtime reads it beside the library; {convert} makes a bundle for a section"
    if format == "cir-offload-container":
        # clang-linker-wrapper refuses the whole object if .llvm.offloading holds anything but offload binaries.
        return "no section is made for it; compile its modules (cir-offload-merge -split), and pack the results"
    return "a SYCL program loads it at run time, from a path of its own" if format == "syclbin" else ""


_ONE_IMAGE = "one image, of the form "


def embedding_note(format: str | None) -> str:
    """Return a note on an embedded container of this format; "" for none.

    clang-linker-wrapper finds and registers offload binaries, whichever tool put them there.
    """
    if format not in _RUNTIMES:
        return ""
    return (
        f"{SECTIONS[format]} is for tools to read: linkers drop it, and no code registers it, so the "
        f"{_RUNTIMES[format]} runtime will not find it in a program; embed an offload binary for clang-linker-wrapper"
    )


def embed_container(
    host: View, content: Sequence[Piece], *, format: str | None = None, only_growing: bool = False
) -> Iterable[Piece]:
    """Return the pieces of the host with a section of device code added; ``format`` is that of the content.

    The section is the one in which compilers put that format, and linkers drop it: it is for tools to find.
    ``only_growing`` keeps all bytes of the host, if its format allows that: the file can then be edited in place
    without a copy. Raises HostError, FormatError.
    """
    from fatpack import binary
    from fatpack.edit.editor import editor_for

    hint = _where_it_belongs(format or "")
    if hint:
        raise HostError(f"a {format} is a file of its own, and not a section of an object", hint=hint)
    room, name = editor_for(host), SECTIONS.get(format or "", SECTIONS["llvm-offload-binary"])
    grower = binary.get_grower(detect_host(host)) if only_growing else None
    return room.embed(host, content, name=name) if grower is None else grower.grow(host, content, name=name)


class EmbeddedContainer(Record):
    """The pieces of a host with a container added, and the container's format, None if it is unknown."""

    pieces: Iterable[Piece]
    format: str | None

    @property
    def note(self) -> str:
        """A note on the container in the host, "" for none."""
        return embedding_note(self.format)


def embed_file(
    host: View, content: View, *, accept_damage: bool = False, only_growing: bool = False
) -> EmbeddedContainer:
    """Return a host with a finished container added; both the command line and the library call this.

    Raises UsageError for content of an unknown format unless ``accept_damage``, and what :func:`embed_container` does.
    """
    from fatpack import formats

    format = formats.format_at(content)
    if format is None and not accept_damage:
        pack_first = f"pack it first, or {cli_or_api('--force', 'accept_damage=True')} to embed it anyway"
        is_swapped = formats.format_by_magic(host.head(0, 24)) is not None
        hint = "the host comes first" if is_swapped else pack_first
        raise UsageError("unknown container format", hint=hint, chain=content.chain)
    return EmbeddedContainer(embed_container(host, [content], format=format, only_growing=only_growing), format)


def refuse_damage(content: View) -> None:
    """Raise FormatError for a container that is damaged, in its tables or in its images; it is read to its last byte.

    Bytes that are no container, and bare images, are not checked.
    """
    for item in container_damage(content):
        raise FormatError(
            item.message,
            offset=item.span.start,
            hint="nothing was written; accept_damage=True embeds it unchanged",
            chain=item.span.source or content.chain,
        )


def container_damage(content: View) -> list[Finding]:
    """Return findings about the damage in a container; none for bytes that are no container."""
    from fatpack import formats
    from fatpack.edit.verify import container_damage_list

    return container_damage_list(content) if formats.format_by_magic(content.head(0, 24)) else []


def refuse_section_of_images(section: str | None, has_selector: bool) -> None:
    """Raise UsageError for a section with a selector of images; both the command line and the library call this."""
    if section is not None and has_selector:
        hint = cli_or_api("--container N", "Selector(container=N)")
        raise UsageError(
            f"{cli_or_api('--section', 'section')} and a selector exclude each other",
            hint=f"{hint} selects one of several containers",
        )


def replace_container(
    host: View, content: View, *, section: str | None = None, accept_mismatch: bool = False
) -> Iterable[Piece]:
    """Return the pieces of the host with new content for one section of device code.

    ``section`` is its name, or its number if several have one name; without it the host must have exactly one. The new
    content must be a container of the present format, or an image of the present form, unless ``accept_mismatch``: code
    refers to the content of a section. Raises HostError otherwise.
    """
    from fatpack import binary, formats
    from fatpack.edit.editor import editor_for

    room = editor_for(host)
    sites = [site for site in room.locate(host) if not isinstance(site, Finding) and site.index is not None]
    sites = [site for site in sites if site.content != binary.TABLE]
    chosen = [site for site in sites if section in (None, site.section, str(site.index))]
    if len(chosen) != 1:
        named = f" with the name or number {section}" if section else ""
        problem = f"{len(chosen) or 'no'} section{'s' if len(chosen) > 1 else ''} of device code{named}"
        present = ", ".join(f"{site.index} ({site.section})" for site in sites)
        hint = "embed puts a container into an object without one"
        if sites:
            hint = f"name one with {cli_or_api('--section', 'section=…')}: {present}"
        raise HostError(problem, hint=hint, chain=host.chain)
    (site,) = chosen
    # The reason that a host cannot be edited comes first: neither other content nor --force would help.
    pieces = room.replace(host, site.number, [content])
    old, new = _content(site.data), _content(content)
    if old != new and not accept_mismatch:
        hint = f"give content of the same format, or {cli_or_api('--force', 'accept_mismatch=True')}"
        if formats.format_by_magic(site.data.head(0, 24)) and new.startswith(_ONE_IMAGE):
            hint = "pack a container of it, with the images to keep; extract gives those"
        raise HostError(f"{site.section} holds {old}, the new content is {new}", hint=hint, chain=host.chain)
    return pieces


def _content(view: View) -> str:
    """Return the content's format or form in words."""
    from fatpack import formats, images

    name = formats.format_at(view)
    form = "" if name else images.identify_image(view).form
    return name or (_ONE_IMAGE + form if form else "of an unknown format")
