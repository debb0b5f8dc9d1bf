"""An edit in place keeps all metadata of a file, exposes no partial file, and only appends to a large one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.edit import editor
from fatpack.edit.editor import InPlaceResult, write_in_place
from fatpack.edit.embed import embed_container
from fatpack.errors import HostError, UsageError
from fatpack.io import append_in_place, atomic_write
from fatpack.io.atomic_write import read_file_metadata
from fatpack.io.file import FileSource
from fatpack.io.open import open_source
from fatpack.main import main

CONTAINER = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
OBJECT = (FIXTURES / "demo" / "host.o").read_bytes()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    path = tmp_path / "host.o"
    path.write_bytes(OBJECT)
    return path


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every host for a large one."""
    monkeypatch.setattr(editor, "GROWS_FROM", 0)


def edited(path: Path, *, only_growing: bool = False, break_links: bool = False) -> InPlaceResult:
    with open_source(path) as source:
        pieces = embed_container(source.view(), [CONTAINER], format="llvm-offload-binary", only_growing=only_growing)
        return write_in_place(source.view(), pieces, str(path), break_links=break_links)


def has_attributes(path: Path) -> bool:
    try:
        os.setxattr(path, "user.fatpack", b"kept")
    except OSError as error:
        assert error.errno == errno.ENOTSUP
        return False
    return True


@pytest.mark.parametrize("only_growing", [False, True])
def test_mode_owner_and_attributes_stay(host: Path, growing: None, only_growing: bool) -> None:
    if os.getuid() == 0:
        os.chown(host, 12345, 54321)
    host.chmod(0o4751)  # setuid: the kernel takes it away when the file is written to
    has_attributes(host)
    before = read_file_metadata(str(host))
    edit = edited(host, only_growing=only_growing)
    assert (edit.added is not None) is only_growing
    assert read_file_metadata(str(host)) == before
    assert host.stat().st_size == edit.size > len(OBJECT)


def test_an_access_list_stays_and_none_is_inherited(host: Path) -> None:
    """The folder gives new files an access list, which the file that is edited does not have, or another one."""
    # acl(5): version 2, then tag, permissions and id of each entry: owner, user 4711, group, mask, others.
    entries = [(1, 6, -1), (2, 6, 4711), (4, 4, -1), (0x10, 6, -1), (0x20, 0, -1)]
    packed = b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + (number & 0xFFFFFFFF).to_bytes(4, "little")
        for tag, rights, number in entries
    )
    try:
        os.setxattr(host.parent, "system.posix_acl_default", (2).to_bytes(4, "little") + packed)
    except OSError as error:
        pytest.skip(f"this file system has no access lists: {error.strerror}")
    host.chmod(0o640)
    edited(host)
    assert "system.posix_acl_access" not in read_file_metadata(str(host)).attributes
    assert stat.S_IMODE(host.stat().st_mode) == 0o640
    os.setxattr(host, "system.posix_acl_access", (2).to_bytes(4, "little") + packed)
    before = read_file_metadata(str(host))
    edited(host)
    assert read_file_metadata(str(host)) == before


@pytest.mark.parametrize(
    ("name", "value"), [("owner", 12345), ("group", 54321), ("attributes", {"user.fatpack": b"new"})]
)
def test_what_cannot_be_kept_stops_the_edit(
    host: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    real = read_file_metadata
    monkeypatch.setattr(
        atomic_write,
        "read_file_metadata",
        lambda file: real(file).replace(**{name: value}) if isinstance(file, str) else real(file),
    )
    monkeypatch.setattr(atomic_write.os, "chown", refuse)
    monkeypatch.setattr(atomic_write.os, "setxattr", refuse)
    with pytest.raises(PermissionError, match=r"cannot be kept.*nothing was changed, write a copy with -o") as caught:
        edited(host)
    assert caught.value.filename == str(host)
    assert host.read_bytes() == OBJECT
    assert os.listdir(host.parent) == ["host.o"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o000])
def test_nobody_can_open_the_new_file_who_could_not_open_the_old_one(
    host: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Looked at before and after every system call that could change it."""
    host.chmod(mode)
    seen: set[int] = set()

    def look() -> None:
        seen.update(stat.S_IMODE(path.stat().st_mode) for path in host.parent.iterdir())

    def watched(name: str) -> None:
        real: Callable[..., object] = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            look()
            try:
                return real(*arguments, **options)
            finally:
                monkeypatch.undo()
                look()
                watch()

        monkeypatch.setattr(os, name, call)

    def watch() -> None:
        for name in ("open", "write", "chmod", "fchmod", "chown", "fsync", "replace", "copy_file_range", "close"):
            watched(name)

    if os.getuid() and not mode & 0o400:
        pytest.skip("only root can read this file")
    old = os.umask(0)
    try:
        watch()
        edited(host)
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert seen
    assert all(not other & ~mode for other in seen), [oct(other) for other in seen]


def test_other_names_are_reported_and_kept_on_request(host: Path, growing: None) -> None:
    other = host.parent / "other.o"
    os.link(host, other)
    for only_growing in (False, True):
        with pytest.raises(UsageError, match=r"has 2 names \(hard links\)"):
            edited(host, only_growing=only_growing)
        assert host.read_bytes() == other.read_bytes() == OBJECT
    edit = edited(host, only_growing=True, break_links=True)
    assert edit.added is None
    assert other.read_bytes() == OBJECT
    assert other.stat().st_nlink == host.stat().st_nlink == 1
    assert CONTAINER in host.read_bytes()


def test_the_command_line_says_what_it_does(
    host: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = host.parent / "c.bin"
    content.write_bytes(CONTAINER)
    os.link(host, host.parent / "other.o")
    command = ["embed", str(host), str(content)]
    assert main([*command, "--in-place"]) == 2
    assert "--break-links does that; -o FILE writes a copy" in capfd.readouterr().err
    assert main([*command, "--break-links", "-o", "x"]) == 2
    assert "--break-links goes with --in-place" in capfd.readouterr().err
    assert main([*command, "--in-place", "--break-links"]) == 0
    assert capfd.readouterr().err.endswith("B, rewritten as a whole\n")
    monkeypatch.setattr(editor, "GROWS_FROM", 0)
    before = host.stat()
    assert main([*command, "--in-place"]) == 0
    assert "were added" in capfd.readouterr().err
    assert host.stat().st_ino == before.st_ino
    assert main(["inspect", str(host)]) == 0


def test_a_program_with_capabilities_is_written_anew(
    host: Path, growing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = read_file_metadata(str(host))
    given: list[object] = []
    monkeypatch.setattr(
        atomic_write,
        "read_file_metadata",
        lambda _: real.replace(attributes={"security.capability": b"\1"} if not given else {}),
    )
    monkeypatch.setattr(atomic_write, "apply_metadata", lambda _fd, like, _path: given.append(like.attributes))
    assert edited(host, only_growing=True).added is None
    assert given == [{"security.capability": b"\1"}]


def test_a_pipe_is_not_edited_in_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open_source(OBJECT) as source, pytest.raises(UsageError, match="not a regular file"):
        write_in_place(source.view(), [source.view()], str(tmp_path / "pipe"))


def test_a_large_host_costs_its_payload(tmp_path: Path) -> None:
    """64 MB of text before the tables: besides the payload only tables are written."""
    path = tmp_path / "large.o"
    source = tmp_path / "large.s"
    source.write_text(".zero 0x4000000\n")
    if subprocess.run(["gcc", "-c", "-o", path, source]).returncode:
        pytest.skip("no gcc")
    size = path.stat().st_size
    assert size > editor.GROWS_FROM
    edit = edited(path, only_growing=True)
    assert edit.added is not None
    assert edit.added < len(CONTAINER) + 4096
    assert path.stat().st_size == size + edit.added


class Disk:
    """The operations that reach the disk: the writes of a process to one file, in order, and the syncs between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, old: bytes) -> None:
        self.old = old
        self.steps: list[tuple[int, bytes] | int | None] = []
        self.position = 0
        for name in ("write", "pwrite", "lseek", "fsync", "ftruncate"):
            monkeypatch.setattr(os, name, self._recorder(getattr(os, name), name))
        monkeypatch.delattr(os, "copy_file_range", raising=False)

    def _recorder(self, real: Callable[..., int], name: str) -> Callable[..., int]:
        def call(fd: int, *arguments: object) -> int:
            result = real(fd, *arguments)
            if name == "lseek" and arguments[1] == os.SEEK_SET:
                self.position = result
            elif name == "write":
                self.steps.append((self.position, bytes(arguments[0])[:result]))  # type: ignore[arg-type]
                self.position += result
            elif name == "pwrite":
                self.steps.append((arguments[1], bytes(arguments[0])[:result]))  # type: ignore[arg-type]
            elif name == "ftruncate":
                self.steps.append(arguments[0])  # type: ignore[arg-type]
            elif name == "fsync":
                self.steps.append(None)
            return result

        return call

    def states(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the file as every cut leaves it, with whether the last write before it changed old bytes."""
        data = bytearray(self.old)
        yield bytes(data), False
        for step in self.steps:
            if isinstance(step, int):
                del data[step:]
                yield bytes(data), False
            elif step is not None:
                at, part = step
                is_patch = at < len(self.old)
                # A patch lies in one sector and is there or not; of new bytes any part may be.
                for size in [len(part)] if is_patch else sorted({1, len(part) // 2, len(part)}):
                    data[at:] = data[at:].ljust(0, b"\0") if at <= len(data) else b""
                    data[at : at + size] = part[:size]
                    yield bytes(data), is_patch


def test_whatever_cuts_it_the_file_is_the_old_or_the_new_one(
    host: Path, growing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, OBJECT)
    edited(host, only_growing=True)
    monkeypatch.undo()
    new = host.read_bytes()
    patches = [number for number, step in enumerate(disk.steps) if isinstance(step, tuple) and step[0] < len(OBJECT)]
    (patch,) = patches
    at, part = disk.steps[patch]  # type: ignore[misc]
    assert at // 512 == (at + len(part) - 1) // 512  # in one sector
    # All that is new is on the disk before the header leads there, and the header before the command says so.
    assert disk.steps[patch - 1] is None
    assert disk.steps[-1] is None
    assert len([step for step in disk.steps[:patch] if step is not None]) >= 1
    is_new, cuts = False, 0
    for state, is_patch in disk.states():
        is_new = is_new or is_patch
        cuts += 1
        if is_new:
            assert state == new
        else:
            assert state.startswith(OBJECT)
            assert readable_as_before(state)
    assert is_new
    assert cuts > 4


def readable_as_before(state: bytes) -> bool:
    """Return whether a reader sees the sections of the old object."""
    from fatpack.binary import elf

    views = [open_source(data).view() for data in (OBJECT, state)]
    old, new = ([(start, end, name) for start, end, name, _ in elf.sections(view)] for view in views)
    return old == new


@pytest.mark.parametrize(
    ("name", "number"), [("write", 0), ("write", 1), ("pwrite", 0), ("fsync", 0), ("fsync", 1), ("chmod", 0)]
)
def test_a_failure_while_growing_takes_the_file_back(
    host: Path, growing: None, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    real = getattr(os, name)
    left = [number]

    def fail(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        edited(host, only_growing=True)
    assert caught.value.filename == str(host)
    monkeypatch.undo()
    assert host.read_bytes() == OBJECT


def test_what_is_taken_back_was_read_before_it_was_replaced(
    host: Path, growing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the patch is on the disk, a page that is no longer in memory has the new header."""
    with open_source(host) as source:
        pieces = list(embed_container(source.view(), [CONTAINER], format="llvm-offload-binary", only_growing=True))
        change = append_in_place.plan_append(source.view(), pieces)
        assert change is not None

        def fail(_fd: int, _like: object, _path: str) -> None:
            assert isinstance(source, FileSource)
            source._pages.clear()
            assert host.read_bytes()[change.at :].startswith(change.patch)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(atomic_write, "apply_metadata", fail)
        with pytest.raises(OSError, match="Input/output error"):
            write_in_place(source.view(), pieces, str(host))
    assert host.read_bytes() == OBJECT


def test_what_verification_refuses_is_taken_back(host: Path, growing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise HostError("no good")

    monkeypatch.setattr(editor, "verify_edited", refuse)
    with pytest.raises(HostError, match="no good"):
        edited(host, only_growing=True)
    assert host.read_bytes() == OBJECT


def test_only_what_grows_by_one_small_patch_grows() -> None:
    view = open_source(OBJECT).view()
    end = len(view)
    assert append_in_place.plan_append(view, [b"12", view.slice(2, end - 2), b"more"]) == append_in_place.AppendPlan(
        0, b"\x7fE", b"12", (b"more",)
    )
    assert append_in_place.plan_append(view, [view.slice(0, end - 1), b"12"]) is None  # the patch reaches over the end
    assert append_in_place.plan_append(view, [b"12", view.slice(2, end - 2)]) is None  # nothing is added
    assert append_in_place.plan_append(view, [view.slice(0, end), b"more"]) is None  # nothing leads to it
    assert append_in_place.plan_append(view, [b"1", view.slice(1, 9), b"2", view.slice(11, end - 11), b"more"]) is None
    assert append_in_place.plan_append(view, [view.slice(0, 511), b"12", view.slice(513, end - 513), b"more"]) is None
    assert append_in_place.plan_append(view, [b"12", view.slice(3, end - 3), b"more"]) is None  # the rest moves
    assert atomic_write.TEMPORARY == (".fatpack.", ".part")
