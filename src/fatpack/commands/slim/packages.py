"""Packages of any kind: rewritten, left unchanged, or refused."""

from __future__ import annotations

import os
import shlex

from fatpack.errors import FatpackError, Unsupported, UsageError, cli_or_api
from fatpack.inputs.files import Filter, SkipCounts, walk_input
from fatpack.scanner import FoundContainer, scan
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import ExitStack
    from typing import TypeVar

    from fatpack.commands.slim.conda import SlimmedConda
    from fatpack.commands.slim.options import NameChange
    from fatpack.commands.slim.outcome import Slimming
    from fatpack.commands.slim.store_files import StoreFiles
    from fatpack.commands.slim.wheels import SlimmedWheel
    from fatpack.io.source import View

    _Slim = TypeVar("_Slim", SlimmedWheel, SlimmedConda)


def is_package(view: View, path: str) -> bool:
    """Return whether a file is a package: slimmed with all that is in it, under a name of its own."""
    return path.endswith((".whl", ".conda")) or bool(detect_package(view))


def is_container_image(view: View, path: str) -> bool:
    """Return whether a file is the archive of a container image, which keeps its name and is slimmed layer by layer."""
    if path.endswith((".whl", ".conda", ".tar.bz2")) or detect_package(view) != "tar":
        return False
    from fatpack.commands.slim.image_files import is_image_archive

    return is_image_archive(view)


def slim_package(
    view: View, path: str, slimming: Slimming, naming: NameChange, stack: ExitStack, stores: StoreFiles | None = None
) -> SlimmedWheel | SlimmedConda | None:
    """Return a wheel or conda package with slimmed libraries; None for another package, which has no device code.

    The inflated files of the result stay open until ``stack`` closes them. ``stores`` decides which files of kernel
    stores a wheel loses as a whole.
    Raises Unsupported for a refused one with device code, UsageError for a name that does not fit the kind, and what
    slimming the package raises.
    """
    file_name = path.rpartition("/")[2]
    if file_name.endswith(".whl"):
        from fatpack.commands.slim.wheels import slim_wheel

        return _noted(slim_wheel(view, file_name, slimming, naming, stores), naming)
    if file_name.endswith(".conda") or (file_name.endswith(".tar.bz2") and _is_conda(view)):
        from fatpack.commands.slim.conda import slim_conda

        if naming.local_version:
            hint = f"{cli_or_api('--build-tag TAG', 'build_tag=…')} puts a word in front of its build string"
            raise UsageError(f"{file_name} is a conda package, and local versions are for wheels", hint=hint)
        tag = naming.build_tag or naming.default
        return _noted(slim_conda(view, file_name, slimming, tag, stack), naming)
    refuse_device_code(view, path)
    return None


def changed_name(path: str, naming: NameChange) -> str:
    """Return the name that a package gets if it changes, from its own alone; "" for one whose name says too little."""
    file_name = path.rpartition("/")[2]
    tag = naming.build_tag or naming.default
    suffix = next((end for end in (".conda", ".tar.bz2") if file_name.endswith(end)), "")
    if suffix:
        name, _, build = file_name.removesuffix(suffix).rpartition("-")
        return f"{name}-{tag}_{build}{suffix}" if name and tag else ""
    if not file_name.endswith(".whl"):
        return ""
    from fatpack.commands.slim.wheels import rename_wheel
    from fatpack.distributions.wheel_metadata import parse_wheel_name

    try:
        return rename_wheel(parse_wheel_name(file_name), naming).file_name
    except FatpackError:  # it is raised where the name is needed: a package that stays keeps its own
        return ""


def _noted(made: _Slim, naming: NameChange) -> _Slim:
    """Return a package with a note about its build tag, if that was chosen here."""
    if not (made.is_changed and naming.is_default):
        return made
    others = cli_or_api("--build-tag and --local-version give", "build_tag and local_version give")
    note = f"{made.name} has a build tag made of the options; {others} another name"
    return made.replace(notes=(*made.notes, note))


def _is_conda(view: View) -> bool:
    from fatpack.model import Finding
    from fatpack.packages import get_package

    members = get_package("tar").members(view)
    return any(not isinstance(item, Finding) and item.name == "info/index.json" for item in members)


#: kinds of packages whose checksums would have to follow → the way to a slimmed package
_WAYS = {
    "deb": (
        "its control.tar has md5sums of all files: unpack it with dpkg-deb -R, slim the folder, make DEBIAN/md5sums "
        "anew, and pack it with dpkg-deb -b; installed packages are slimmed in place: fatpack slim --environment DIR"
    ),
    "rpm": "its header has digests of all files, and mostly a signature: slim the libraries in %install",
}


def refuse_device_code(view: View, path: str) -> None:
    """Raise Unsupported for a package with device code of which no slimmed copy can be made."""
    for batch in walk_input(path, view, Filter(), SkipCounts(), []):
        for node in batch:
            for leaf in node.leaves(Filter(), SkipCounts()):
                if leaf.error is not None:
                    raise leaf.error
                if leaf.view is not None and any(isinstance(item, FoundContainer) for item in scan(leaf.view)):
                    inside = leaf.path.removeprefix(path).lstrip("!")
                    default = "unpack it and slim the folder, or slim the wheels and conda packages that are made of it"
                    hint = _WAYS.get(detect_package(view) or "", default)
                    if _is_of_image(path, inside):
                        hint = (
                            "it is a layer, or a part of a container image: slim the whole image, in an archive "
                            "with its manifest or in the folder with oci-layout and index.json"
                        )
                    problem = f"it has device code in {inside}, and such packages are not written"
                    if _is_wheel(view):
                        problem, hint = _words_for_wheel(view, inside)
                    raise Unsupported(problem, hint=hint, chain=(path,))


def _is_wheel(view: View) -> bool:
    """Return whether a file on a disk or from a stream is a wheel, by its members: a stream has no name."""
    if len(view.chain) != 1 or detect_package(view) != "zip":
        return False
    from fatpack.model import Finding
    from fatpack.packages import get_package

    members = get_package("zip").members(view)
    return any(not isinstance(item, Finding) and item.name.endswith(".dist-info/WHEEL") for item in members)


def _words_for_wheel(view: View, inside: str) -> tuple[str, str]:
    """Return the problem and the hint for a wheel in a folder, and for one without its file name."""
    path = view.chain[0]
    if not path.endswith(".whl"):
        hint = "save it as NAME-VERSION-….whl, and slim that file with -d DIR"
        return f"it is a wheel with device code in {inside}, and a wheel needs a file with its name", hint
    folder = shlex.quote(os.path.dirname(path) or os.curdir)
    hint = cli_or_api(
        f"fatpack slim {folder}/*.whl -d DIR, or fatpack slim --find-links {folder} -d DIR, which makes an index, too",
        "slim each wheel by its path",
    )
    return f"it is a wheel with device code in {inside}, and a folder's wheels are slimmed by their names", hint


def _is_of_image(path: str, inside: str) -> bool:
    """Return whether a file with device code in it is a container image or a layer, by names that image tools write.

    OCI layouts keep layers as ``blobs/sha256/DIGEST``, Docker's older archives as ``ID/layer.tar``.
    """
    return "blobs/sha256/" in f"{path}!{inside}" or "layer.tar!" in f"{path}!{inside}"
