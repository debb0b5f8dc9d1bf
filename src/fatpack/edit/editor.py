"""Who can edit a host, and how the result is verified and written. Nothing that was edited is kept unverified."""

from __future__ import annotations

import os

from fatpack import binary, images
from fatpack.binary import archive
from fatpack.edit import container_file
from fatpack.errors import HostError
from fatpack.io.atomic_write import MODE_OF_COPIES, file_mode, write_file
from fatpack.model import Finding
from fatpack.scanner import detect_host
from fatpack.scanner.unsupported_files import unsupported_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fatpack.binary import Editor
    from fatpack.io.source import Piece, View
    from fatpack.io.write import Progress

    #: raises HostError where the second is no sound edit of the first
    EditCheck = Callable[[View, View], None]


def editor_for(view: View) -> Editor:
    """Return the host room that can edit these bytes. Raises HostError, with what would work instead."""
    name = detect_host(view)
    if name == "raw":
        kind = unsupported_kind(view)
        problem = f"this is {kind}, which this version does not edit" if kind else "this is no object file"
        raise HostError(problem, hint="containers go into relocatable objects (.o)", chain=view.chain)
    if name == "archive":
        path = view.chain[-1] if view.chain else "libx.a"
        raise HostError(
            "an archive holds many objects, and one of them is edited at a time",
            hint=f"write {path}(MEMBER)",
            chain=view.chain,
        )
    room = binary.get_editor(name)
    if room is None:
        problem, hint = binary.edit_refusal(name)
        raise HostError(problem, hint=hint, chain=view.chain)
    form = images.identify_image(view).form
    if form in ("cubin", "code-object"):
        raise HostError(
            f"this is a device image itself ({form}), no host",
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
    """Write an edited host and return its size; the result is verified before it is named.

    Mode bits are kept, but not those that lend rights (setuid, setgid): they are for the file that was given them.

    ``check`` is what verifies it, with the host and the result; :func:`verify` by default. The host may be an archive.
    It is refused as output whatever else is allowed (``ops.edit.in_place`` writes over it), and so are the files of
    ``inputs``, what goes into the host.
    """
    return write_file(
        output,
        pieces,
        force=force,
        mode=None if (mode := file_mode(host)) is None else mode & MODE_OF_COPIES,
        inputs=[host, *inputs],
        verify=lambda after: (check or verify_edited)(host, after),
        progress=progress,
    )


def verify_edited(before: View, after: View, *, in_containers: bool = True) -> None:
    """Raise HostError unless ``after`` is a sound edit of ``before``: by the host's own rules.

    Of a bare container, every image afterwards must be one from before; without ``in_containers`` that is for the
    caller to check. Of an archive, every member must be as it was, to the byte, or a sound edit of itself.
    """
    name = detect_host(before)
    if name == "raw":
        if in_containers:
            container_file.verify_containers(before, after)
        return
    if name != "archive":
        room = editor_for(before)
        if binary.MODULES[name].verifies:
            room.verify(before, after)
        elif not container_file.has_same_bytes(before, after):
            problem = f"files of the kind {name} are not edited, and the result is another file"
            raise HostError(problem, hint="edit the objects, and link again", chain=after.chain)
        return
    archive.verify(before, after)
    for old, new in zip(archive.locate(before), archive.locate(after), strict=True):
        if isinstance(old, Finding) or isinstance(new, Finding):
            raise HostError("the members of the rewritten archive cannot be read", chain=after.chain)
        if not container_file.has_same_bytes(old.data, new.data):
            verify_edited(old.data, new.data, in_containers=in_containers)
