"""Files of AMD's kernel stores, which go as a whole from folders and wheels: each is for one target or family.

============  ==========================================  =====================================================
AKS2          an archive of AOTriton, or a zip of them    goes if another archive of its store serves a device
Tensile       a code file that its name has right, and    goes if other code of its library serves a device
              the tables of a target without code
kernel cache  a database of MIOpen or rocFFT              goes: the libraries compile what their caches lack
============  ==========================================  =====================================================

The libraries open such a file by the target in its name or path, so no device that takes another file misses it.
What goes in the end is known when all files of a folder or wheel were looked at
(:mod:`fatpack.commands.slim.store_files`).
"""

from __future__ import annotations

from fatpack.commands.slim.choose import choose_images
from fatpack.commands.slim.keep_for_device import arch_label, is_host
from fatpack.formats.aks2.layout import AKS2_FORMAT
from fatpack.formats.kernel_cache.layout import CACHE_FORMAT
from fatpack.model import Finding
from fatpack.packages.zip.content import open_content
from fatpack.packages.zip.directory import ZipDirectory
from fatpack.scanner import FoundContainer, scan
from fatpack.scanner.context import detect_package
from fatpack.tensile.library import library_folder, target_of_file
from fatpack.tensile.tables import CODE, EXTENSIONS, YAML, begins_as_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from fatpack.commands.slim.keep_for_device import ImageSelection
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.io.source import View

#: formats of containers that are files of their own
_FORMATS = (AKS2_FORMAT, CACHE_FORMAT)

#: file of a zip of AKS2 archives that has no code: docs/formats/aotriton-aks2.md
_SIGNATURE = "__signature__"


def choose_whole_file(
    view: View, items: Sequence[FoundContainer | Finding], options: SlimOptions
) -> ImageSelection | None:
    """Return the images of a file of a kernel store, of which all stay or all go; None for any other file.

    ``items`` are those of a scan. A file of which a part was not read, or that has both code that stays and code that
    goes, is no such file; neither is a code file of Tensile for another target than its name says.
    """
    name = view.chain[-1] if view.chain else view.source.name
    if library_folder(name) is not None and name.endswith(CODE):
        from fatpack.scanner.standalone_images import scan_with_standalone_images

        items = scan_with_standalone_images(view)
        arch = target_of_file(name)
        if not arch or any(label.partition(":")[0] != arch for label in _labels(items)):
            return None
    elif not all(isinstance(item, FoundContainer) and item.format in _FORMATS for item in items):
        return None
    if any(isinstance(item, Finding) or item.container.findings for item in items):
        return None
    selection = choose_images(items, options)
    kept = [row for row in selection.kept if not is_host(row.image)]
    return selection if bool(kept) != bool(selection.dropped) else None


def scan_archives(view: View, stack: ExitStack) -> list[FoundContainer | Finding]:
    """Return the containers in a zip of AKS2 archives; none for any other package. ``stack`` keeps their files open."""
    if detect_package(view) != "zip":
        return []
    entries = [entry for entry in ZipDirectory(view).entries() if not entry.is_folder]
    if not all(entry.name.endswith(".aks2") or entry.name == _SIGNATURE for entry in entries):
        return []
    found: list[FoundContainer | Finding] = []
    for entry in entries:
        if entry.name != _SIGNATURE:
            source = stack.enter_context(open_content(view, entry))
            source.budget = view.source.budget
            found += scan(source.view())
    return found


def _labels(items: Sequence[FoundContainer | Finding]) -> Iterator[str]:
    for item in items:
        if isinstance(item, FoundContainer):
            yield from (arch_label(image) for image in item.images if not is_host(image))


def is_table_name(path: str) -> bool:
    """Return whether a file has the name of a table of Tensile."""
    return path.endswith((*EXTENSIONS, YAML)) and library_folder(path) is not None


def is_table(path: str, view: View) -> bool:
    """Return whether a file is a table of Tensile, by its name and its beginning."""
    return is_table_name(path) and (path.endswith(YAML) or begins_as_table(view))
