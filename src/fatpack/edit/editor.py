"""The editor of a host by its format, and writing of edited files, which are verified before they replace others."""

from __future__ import annotations

import os
import stat

from fatpack.edit import container_file
from fatpack.errors import HostError, UsageError, cli_or_api
from fatpack.io.atomic_write import MODE_OF_COPIES, file_mode, write_file
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fatpack.binary import Editor
    from fatpack.io.source import Piece, View
    from fatpack.io.write import Progress
    from fatpack.selectors.address import Address, Location

    #: raises HostError if the second view is not a sound edit of the first
    EditCheck = Callable[[View, View], None]


def locate_edit(host: View, address: Address, *contents: View, drop: str = "") -> Location:
    """Return the location of the host that an edit changes; both the command line and the library call this.

    ``drop`` names the architectures to remove, for advice.

    Raises NothingSelected for an empty host or empty ``contents``, UsageError for a package and for an address without
    a member.
    """
    from fatpack.selectors.address import find_location, refuse_package

    for view in (host, *contents):
        if not len(view):
            from fatpack.selectors.no_match import refuse_empty

            refuse_empty(view)
    # Wheels and conda packages have a command that writes them.
    slims = address.path.endswith((".whl", ".conda", ".tar.bz2"))
    arch = drop or "ARCH"
    command = cli_or_api(
        f"fatpack slim {address.file} --drop {arch} -d DIR", f"fatpack.slim({address.file!r}, folder, drop={arch!r})"
    )
    slim = f"slim alone writes packages: {command}; else "
    refuse_package(host, f"{slim if slims else ''}unpack it, edit the files in it, and pack it again")
    return find_location(host, address)


def editor_for(view: View) -> Editor:
    """Return the module that can edit these bytes. Raises HostError, with advice."""
    from fatpack import binary, images
    from fatpack.scanner import detect_host

    name = detect_host(view)
    if name == "raw":
        from fatpack.scanner.unsupported_files import unsupported_kind

        kind = unsupported_kind(view)
        problem = f"this is {kind}, which this version does not edit" if kind else "this is no object file"
        raise HostError(problem, hint="containers go into relocatable objects (.o)", chain=view.chain)
    if name == "archive":
        path = view.chain[-1] if view.chain else "libx.a"
        raise HostError(
            "an archive contains several objects, and one of them is edited at a time",
            hint=f"write {path}(MEMBER)",
            chain=view.chain,
        )
    room = binary.get_editor(name)
    if room is None:
        problem, hint = binary.edit_refusal(name)
        raise HostError(problem, hint=hint, chain=view.chain)
    form = images.identify_image(view).form if name == "elf" and images.is_device_elf(view) else ""
    if form in ("cubin", "code-object"):
        raise HostError(
            f"this is a device image ({form}), not a host file",
            hint="pack it into a container; the container goes into a host object",
            chain=view.chain,
        )
    return room


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
    check: EditCheck | None = None,
) -> int:
    """Write an edited host and return its size; the result is verified before it gets its name.

    Mode bits are kept, except setuid and setgid: they belong to the original file alone.

    ``check`` verifies the result, from the host and the result; :func:`verify_edited` by default. The host may be an
    archive. The host and the files of ``inputs`` are refused as output even with ``force`` (:func:`write_in_place`
    writes over the host).
    """
    from functools import partial

    return write_file(
        output,
        pieces,
        force=force,
        mode=None if (mode := file_mode(host)) is None else mode & MODE_OF_COPIES,
        inputs=[host, *inputs],
        verify=partial(check or verify_edited, host),
        progress=progress,
    )


def verify_edited(before: View, after: View, *, in_containers: bool = True) -> None:
    """Raise HostError unless ``after`` is a sound edit of ``before``, by the rules of the host's format.

    In a bare container every image afterwards must be one from before, unless ``in_containers`` is false and the caller
    checks this. In an archive every member must be unchanged, or a sound edit of itself.
    """
    from fatpack import binary
    from fatpack.scanner import detect_host

    name = detect_host(before)
    if name == "raw":
        if in_containers:
            container_file.verify_containers(before, after)
        return
    if name != "archive":
        room = editor_for(before)
        if binary.MODULES[name].verifies:
            room.verify(before, after)
        elif not container_file.has_same_bytes(after, before):
            problem = f"files of the kind {name} are not edited, and the result is another file"
            raise HostError(problem, hint="edit the objects, and link again", chain=after.chain)
        return
    from fatpack.binary import archive

    archive.verify(before, after)
    for old, new in zip(archive.locate(before), archive.locate(after), strict=True):
        if isinstance(old, Finding) or isinstance(new, Finding):
            raise HostError("the members of the rewritten archive cannot be read", chain=after.chain)
        if not container_file.has_same_bytes(new.data, old.data):
            verify_edited(old.data, new.data, in_containers=in_containers)


# Edits in place: metadata of the file stays the same, and a large file is not copied if it can grow.
#
# A new file replaces the old one by a rename, so other names of the old one (hard links) would keep the old bytes. That
# is refused without ``break_links``, also if the file could grow: other names mean other users.

#: Hosts of this size grow; a copy of a smaller one costs little, and has no dead bytes of old tables.
GROWS_FROM = 16 << 20


def can_grow(host: View) -> bool:
    """Return whether a host is so large that an edit in place does not copy it, if its format allows that."""
    return len(host) >= GROWS_FROM


class InPlaceResult(Record):
    """The result of an edit in place: the new size, and the number of added bytes; None for a file written anew."""

    size: int
    added: int | None


def write_in_place(
    host: View,
    pieces: Iterable[Piece],
    path: str,
    *,
    break_links: bool = False,
    progress: Progress | None = None,
    check: EditCheck | None = None,
) -> InPlaceResult:
    """Replace the file of ``host`` by the edited one, after verification; a failure leaves the old file.

    ``check`` verifies the result, as in :func:`write_edited`. Owner, group, permissions, access list, security label
    and other attributes stay. Raises UsageError for a file with several names unless ``break_links``, PermissionError
    for metadata that cannot be kept, and the errors of verification.
    """
    from fatpack.io.atomic_write import read_file_metadata

    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is not a regular file, so it cannot be edited in place", hint="-o FILE writes a copy")
    if status.st_nlink > 1 and not break_links:
        raise UsageError(
            f"{path} has {status.st_nlink} names (hard links), and an edit in place would detach this one",
            hint=cli_or_api(
                "--break-links does that; -o FILE writes a copy", "break_links=True does that; another output is a copy"
            ),
        )
    like = read_file_metadata(path)

    def verified(after: View) -> None:
        (check or verify_edited)(host, after)
        host.source.release_name()

    pieces = list(pieces)
    # Writing to a file removes its capabilities, and not every user who may write can restore them.
    if can_grow(host) and status.st_nlink == 1 and "security.capability" not in like.attributes:
        from fatpack.io.append_in_place import append_in_place, plan_append

        change = plan_append(host, pieces)
        if change is not None:
            grown = append_in_place(path, host, change, like=like, verify=verified, progress=progress)
            if grown is not None:
                return InPlaceResult(grown, grown - len(host))
    size = write_file(path, pieces, force=True, like=like, verify=verified, progress=progress)
    return InPlaceResult(size, None)
