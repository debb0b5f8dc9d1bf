"""Proof that a package, image or folder is another one with less device code, by Python's readers of archives."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import BadValue, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.proof.packages.verdict import PackageProofResult


def prove_package(before: View | str, after: View | str) -> PackageProofResult:
    """Return whether ``after`` is the package ``before`` with the same or less device code, and otherwise unchanged.

    Of two files with the same bytes nothing more is read. Others are decompressed completely, in windows; libraries go
    to unnamed temporary files. Folders are given by paths, and may be container images. Raises Unsupported unless both
    are wheels, images, folders, or conda packages of one form, FormatError for a damaged one, and the errors of proofs
    of libraries.
    """
    if isinstance(before, str) or isinstance(after, str):
        from fatpack.proof.packages import folders

        paths = [path for path in (before, after) if isinstance(path, str)]
        if any(map(folders.is_plain_folder, paths)):
            return folders.prove_folder(
                *(path if isinstance(path, str) else path.source.name for path in (before, after))
            )
    if isinstance(before, str) or isinstance(after, str) or (_may_be_image(before) and _may_be_image(after)):
        from fatpack.proof.packages import container_images

        return container_images.prove_image(before, after)
    form, other = _form(before), _form(after)
    if form != other:
        raise Unsupported("one of them is a .conda, and the other a .tar.bz2", chain=after.chain)
    is_wheel = False
    if form == "zip":
        from fatpack.proof.packages import wheels

        is_wheel = not wheels.has_inner_archives(before)
    from fatpack.proof.packages.verdict import proved_file, proved_same_bytes

    files = proved_file(before), proved_file(after)
    if files[0].digest == files[1].digest:
        return proved_same_bytes("wheel" if is_wheel else "conda", *files)
    if is_wheel:
        return wheels.prove_wheel(before, after)
    from fatpack.proof.packages import conda

    return conda.prove_conda(before, after)


def _may_be_image(view: View) -> bool:
    """Return whether bytes are a tar archive, or compressed as archives of images are."""
    head = view.head(0, magic_numbers.TAR_AT + len(magic_numbers.TAR))
    return head.startswith((magic_numbers.GZIP, magic_numbers.ZSTD)) or head.endswith(magic_numbers.TAR)


def _form(view: View) -> str:
    head = view.head(0, 4)
    if head.startswith(magic_numbers.BZIP2):
        return "bzip2"
    if head.startswith((magic_numbers.ZIP, magic_numbers.ZIP_END)):
        return "zip"
    name = view.chain[-1] if view.chain else view.source.name
    if name.endswith((".whl", ".conda")):
        raise BadValue(
            "it is no zip archive, as its name says",
            format="zip",
            field="signature",
            expected=magic_numbers.ZIP.hex(),
            found=head.hex() or "nothing",
            chain=view.chain,
        )
    raise Unsupported(
        "of packages only wheels, conda packages and container images are proved",
        hint="unpack both, and prove the libraries in them",
    )
