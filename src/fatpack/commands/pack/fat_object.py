"""Fat objects: a host object whose sections hold the images of a bundle, and the images that make one."""

from __future__ import annotations

from fatpack import binary, images
from fatpack.commands.pack.image_keys import image_with_id
from fatpack.commands.pack.packed import PackedContainers
from fatpack.errors import HostError, UsageError, cli_or_api
from fatpack.formats.clang_bundle.bundle_id import find_id_conflicts, parse_id, stored_id
from fatpack.formats.clang_bundle.layout import MAGIC
from fatpack.io.atomic_write import file_mode
from fatpack.scanner import FoundContainer, detect_host, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View
    from fatpack.model import Finding, Image

#: What precedes the ID in the name of a section of a fat object.
SECTION_PREFIX = MAGIC.decode()

#: host room → the rest of the triple that its objects are taken to be for
_SYSTEMS = {"elf": "unknown-linux-gnu", "coff": "pc-windows-msvc"}


def check_ids(spellings: Sequence[str]) -> None:
    """Raise UsageError for target IDs that exclude each other, and for two hosts."""
    for conflict in find_id_conflicts(spellings):
        raise UsageError(conflict.message)
    found = [spelling for spelling in spellings if parse_id(spelling).kind == "host"]
    if len(found) > 1:
        raise UsageError(f"{len(found)} images for a host: {', '.join(found)}", hint="a bundle has one host at most")


def host_object(stored: Sequence[Image]) -> View | None:
    """Return the image of the host if it is an object file that can hold the others as sections."""
    for image in stored:
        if image.target.offload == "host":
            view = image.data
            return view if detect_host(view) in ("elf", "coff") else None
    return None


def fat_object(stored: Sequence[Image], host: View, findings: Sequence[Finding] = ()) -> PackedContainers:
    """Return a copy of a host object with a section per image, byte for byte as clang-offload-bundler 22 makes it."""
    additions = []
    for image in stored:
        name = SECTION_PREFIX + image.attrs["id"]
        # The object itself is the host's image, and one NUL byte stands for it.
        additions.append((name, [b"\0"] if image.target.offload == "host" else [image.data]))
    pieces = binary.get_objcopy(detect_host(host)).add_sections(host, additions)
    return PackedContainers(
        tuple(pieces), tuple(findings), False, file_mode(host), lambda after: _verify_fat_object(after, stored)
    )


def host_entry(stored: Sequence[Image], host: View) -> Image:
    """Return a host object as the host's image of a bundle, under the ID that its machine has on Linux or Windows.

    Raises UsageError if there is a host's image already.
    """
    if any(image.target.offload == "host" for image in stored):
        host_option = cli_or_api("--host", "host=…")
        raise UsageError(f"two hosts: {host_option}, and an image for a host", hint="leave out one of them")
    triple = images.identify_image(host).triple
    if detect_host(host) not in ("elf", "coff") or not triple:
        entry = cli_or_api("--image=file=F,id=host-TRIPLE", 'ImageFile(F, id="host-TRIPLE")')
        hint = f"give it as {entry}"
        raise HostError("this is no object whose machine is known", hint=hint, chain=host.chain)
    spelling = stored_id(f"host-{triple.split('-')[0]}-{_SYSTEMS[detect_host(host)]}")
    return image_with_id(spelling, parse_id(spelling).target, host)


def _verify_fat_object(after: View, stored: Sequence[Image]) -> None:
    """Raise HostError unless a fat object holds exactly these images."""
    expected = [(image.attrs["id"], 1 if image.target.offload == "host" else image.size) for image in stored]
    for item in scan(after):
        if isinstance(item, FoundContainer) and item.container.is_fat_object:
            found = [(image.attrs["id"], image.size) for image in item.images]
            if found[-len(expected) :] == expected:
                return
    raise HostError("the fat object does not hold what was put into it", chain=after.chain)
