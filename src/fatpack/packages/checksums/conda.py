"""Conda packages: their files against ``info/paths.json``, in one tar archive or in the two of a ``.conda``.

How we know: CEP 34 (contents of conda packages): for each path its kind, SHA-256 and size. Files below ``info/`` are
not listed. CEP 35 (file formats): ``.conda`` is a zip archive of ``pkg-*.tar.zst`` and ``info-*.tar.zst``.
"""

from __future__ import annotations

from fatpack.errors import BadValue
from fatpack.model import Finding
from fatpack.packages import PackageMember, get_package
from fatpack.packages.checksums import StatedFile, compare_files, compare_measured, measure_file, read_file_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.packages.checksums import ChecksumResult

_PATHS, _PATHS_JSON = "info/paths.json", "paths.json"

#: suffix of conda packages that are one tar archive; any other archive would have to be read whole to find the list
_ENDING = ".tar.bz2"


def has_checksums(view: View) -> bool:
    """Return whether this is a conda package: a zip archive of its two parts, or a tar archive with its suffix."""
    if get_package("zip").detect(view):
        names = [item.name for item in get_package("zip").members(view) if isinstance(item, PackageMember)]
        return len(names) <= 8 and any(map(_is_info, names)) and any(map(_is_content, names))
    return str(view.source.name).endswith(_ENDING)


def _is_info(name: str) -> bool:
    return name.startswith("info-") and name.endswith(".tar.zst")


def _is_content(name: str) -> bool:
    return name.startswith("pkg-") and name.endswith(".tar.zst")


def verify(view: View) -> Iterator[ChecksumResult | Finding]:
    """Yield findings about the files, and the counts."""
    if not get_package("zip").detect(view):
        yield from _of_one(view)
        return
    members = [item for item in get_package("zip").members(view) if isinstance(item, PackageMember)]
    info, content = (next(item for item in members if test(item.name)) for test in (_is_info, _is_content))
    stated: dict[str, StatedFile] = {}
    with info.open() as source:
        for item in get_package("tar").members(source.view()):
            if isinstance(item, PackageMember) and item.name == _PATHS:
                stated = _stated(read_file_list(item), view)
    with content.open() as source:
        yield from compare_files(get_package("tar").members(source.view()), stated, _PATHS_JSON, view)


def _of_one(view: View) -> Iterator[ChecksumResult | Finding]:
    """Compare the files of a tar archive, whose list may precede or follow them."""
    stated: dict[str, StatedFile] | None = None
    found: dict[str, StatedFile] = {}
    for item in get_package("tar").members(view):
        if isinstance(item, Finding):
            continue
        if item.name == _PATHS:
            stated = _stated(read_file_list(item), view)
        elif not item.name.startswith("info/"):
            result = measure_file(item, "sha256", _PATHS_JSON, view)
            if isinstance(result, StatedFile):
                found[item.name] = result
            else:
                yield result
    if stated is not None:
        yield from compare_measured(found, stated, _PATHS_JSON, view)


def _stated(data: bytes, view: View) -> dict[str, StatedFile]:
    """Return the statements about regular files. Raises BadValue."""
    import json

    try:
        values = json.loads(data)
        rows = values["paths"]
        return {
            str(row["_path"]): StatedFile("sha256", str(row.get("sha256", "")), row.get("size_in_bytes"))
            for row in rows
            if row.get("path_type", "hardlink") == "hardlink"
        }
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadValue(
            "the list of files cannot be read",
            format="conda",
            field=_PATHS,
            expected="a JSON object with a list paths of objects with _path",
            found=f"{type(error).__name__}: {error}",
            hint="get the package again",
            chain=view.chain,
        ) from error
