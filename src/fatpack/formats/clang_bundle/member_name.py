"""Names of members when a heterogeneous archive is taken apart: one archive per target, an image per member."""

from __future__ import annotations

from fatpack.formats.clang_bundle.bundle_id import parse_id


def member_name(member: str, spelling: str) -> str:
    """Return what clang-offload-bundler 22 calls the image of an ID: ``f-hip-amdgcn-amd-amdhsa--gfx906f.bc``.

    QUIRK(LLVM 13-22): the stem comes twice, without a dash before the second. Colons become underscores.
    """
    stem, extension = _split(member)
    arch = parse_id(spelling).arch
    extension = ".bc" if "gfx" in arch else ".cubin" if "sm_" in arch else extension
    return f"{stem}-{spelling}{stem}{extension}".replace(":", "_")


def member_stem(name: str, spelling: str) -> str:
    """Return the stem of the member that an image of an ID came from, for a name of any kind; never fails."""
    stem, _ = _split(name)
    first, found, second = stem.partition(f"-{spelling}".replace(":", "_"))
    return first if found and first == second else stem


def _split(member: str) -> tuple[str, str]:
    """Return the stem and the extension with its dot, "" if there is none; folders are left out."""
    name = member.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return (name, "") if not dot or name in (".", "..") else (stem, dot + extension)
