"""Whether a file is what its name says: a container, a device image or a package."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import pluralize
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Finding

#: how names of files end that hold device code, and nothing else
_DEVICE = (".fatbin", ".cubin", ".hipfb", ".hsaco", ".kpack", ".syclbin")
#: how names of packages end
_ARCHIVES = (".whl", ".conda", ".zip")
_PACKAGES = (*_ARCHIVES, ".deb", ".rpm", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")

#: bytes of the record that ends a zip archive, and of a comment behind it
_END, _COMMENT = 22, 0xFFFF


def extension_problem(view: View, path: str, *, has_device_code: bool) -> Finding | None:
    """Return what is wrong with a file that is no package, given its name and whether device code is in it."""
    name = path.lower()
    if name.endswith(_PACKAGES):
        if name.endswith(_ARCHIVES) and _ends_as_zip(view):
            text = "something is before the archive: other readers open it all the same; no file in it is read here"
            return finding("FP3607", view.span(), text, "get it again, or cut them off")
        text = f"its name says that it is a package, and its {pluralize(len(view), 'byte')} are none"
    elif name.endswith(_DEVICE) and not has_device_code:
        text = f"its name says that device code is in it, and in its {pluralize(len(view), 'byte')} is none"
    else:
        return None
    return finding("FP3607", view.span(), text, "get it again, or give it another name")


def _ends_as_zip(view: View) -> bool:
    size = min(len(view), _END + _COMMENT)
    return magic_numbers.ZIP_END in view.head(len(view) - size, size)
