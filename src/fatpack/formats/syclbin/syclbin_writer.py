"""Model → bytes for SYCLBIN files, as DPC++'s ``SYCLBIN::write`` of either version lays them out."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.syclbin.stored import SyclbinHeader
from fatpack.formats.syclbin.writer import global_metadata, make_parts, module_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import Piece
    from fatpack.model import Container
    from fatpack.options import SyclbinOptions


def write(container: Container, options: SyclbinOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one file; images are passed on as they are, without reading them.

    ``container.version`` is 1 or 2, and ``attrs["state"]`` the state of the file, where ``options`` state no other. The
    abstract module of an image is its ``attrs["am_index"]``; one without makes a module of its own. An image with an
    architecture is native code, any other an IR module, unless ``attrs["role"]`` says otherwise. Raises UsageError for
    what the format cannot say; Unsupported for images of a file that share their bytes.
    """
    stored = container.record if isinstance(container.record, SyclbinHeader) else None
    if container.version not in (1, 2):
        raise UsageError(f"SYCLBIN of version {container.version}", hint="choose 1 or 2")
    state = options.state if options is not None else None
    text = global_metadata(stored, state or container.attrs.get("state"))
    if container.version == 2 and stored is not None and stored.outer is not None:
        from fatpack.formats.syclbin.write_entries import rewrite_version2

        return rewrite_version2(container, stored, stored.outer, text)
    parts = make_parts(container.images, keeps_alone=container.version == 1 and stored is not None)
    modules = module_texts(container, parts)
    if container.version == 2:
        from fatpack.formats.syclbin.write_entries import write_version2

        return write_version2(parts, modules, text)
    from fatpack.formats.syclbin.write_tables import write_version1

    return iter(write_version1(parts, modules, text, stored))
