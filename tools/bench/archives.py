"""Listing and editing an archive of 3,000 objects with device code, against llvm-objdump and ``cp``."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import FIXTURES, Figure, Sample, command, fatpack, measure, memory, milliseconds, need, peer

from fatpack import ImageFile, pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 8
COUNT = 3000

#: Microseconds per member above llvm-objdump's time, and the highest ratio of editing to copy and listing.
PER_MEMBER, PER_COPY = 60, 1.3

#: A function that only this member defines, so that the archive has a table of as many symbols.
_NAME = b"f00000"

_SOURCE = """
.globl f00000
.type f00000,@function
f00000: ret
.size f00000,.-f00000
.section {section}
.balign 8
.incbin "{content}"
.section .note.GNU-stack,"",@progbits
"""

_OFFLOADING = f'.llvm.offloading,"e",@{inputs.OFFLOADING}'


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    two = _two_cubins(scratch)
    single = _archive(scratch, _OFFLOADING, inputs.ONE_CONTAINER)
    yield from _listing("an image each", single, PER_MEMBER)
    archive = _archive(scratch, _OFFLOADING, two / "two.bin")
    yield from _listing("two cubins each", archive, None)
    yield from _removing(archive, scratch / "out.a")
    archive = _archive(scratch, '.nv_fatbin,"a"', two / "two.fatbin")
    yield from _listing("two cubins each in fat binaries", archive, None)


def _two_cubins(folder: Path) -> Path:
    """Write containers of two cubins, for sm_80 and sm_90, and return their folder."""
    cubins = [(arch, FIXTURES / "cuda" / "cubin" / f"k1.cuda13.0.{arch}.cubin") for arch in ("sm_80", "sm_90")]
    files = [ImageFile(file, triple="nvptx64-nvidia-cuda", arch=arch, offload="cuda") for arch, file in cubins]
    pack(files, folder / "two.bin")
    pack(files, folder / "two.fatbin", format="fatbin")
    return folder


def _archive(folder: Path, section: str, content: Path) -> Path:
    """Return an archive of objects that have ``content`` in a section, and a symbol of their own each."""
    source, made, members = folder / "member.s", folder / "member.o", folder / "members"
    source.write_text(_SOURCE.format(section=section, content=content))
    subprocess.run([need("as"), source, "-o", made], check=True)
    members.mkdir(exist_ok=True)
    names = [f"member{number:05}.o" for number in range(COUNT)]
    for number, name in enumerate(names):
        (members / name).write_bytes(made.read_bytes().replace(_NAME, b"f%05d" % number))
    archive = folder / "library.a"
    archive.unlink(missing_ok=True)
    subprocess.run([need("ar"), "qcs", archive, *names], check=True, cwd=members)
    return archive


def _listing(what: str, archive: Path, limit: float | None) -> Iterator[Figure]:
    commands = {"fatpack": fatpack("inspect", archive)}
    objdump = peer("llvm-objdump")
    if objdump:
        commands["llvm"] = command(objdump, "--offloading", archive)
    samples = measure(commands, ROUNDS)
    ours, theirs = samples["fatpack"], samples.get("llvm") or Sample(0, 0, 0)
    name = f"list {COUNT} members, {what}"
    facts = f"{milliseconds(ours)}, llvm-objdump --offloading {milliseconds(theirs)}"
    over = (ours.seconds - theirs.seconds) / COUNT * 1e6
    yield Figure(name, over, "us a member over llvm-objdump", limit, facts)
    yield memory(f"{name}: peak", ours)


def _removing(archive: Path, out: Path) -> Iterator[Figure]:
    samples = measure(
        {
            "list": fatpack("inspect", archive),
            "cp": command("cp", archive, out, outputs=[out], is_bulk=True),
            "fatpack": fatpack("remove", "-q", archive, "--arch=sm_80", "-o", out, outputs=[out], is_bulk=True),
        },
        ROUNDS,
    )
    ours, listed, copy = samples["fatpack"], samples["list"], samples["cp"]
    name = f"remove one arch from {COUNT} members"
    facts = f"{milliseconds(ours)}, of them listing {milliseconds(listed)}; cp {milliseconds(copy)}"
    yield Figure(name, (ours.seconds - listed.seconds) / copy.seconds, "x cp + listing", PER_COPY, facts)
    yield memory(f"{name}: peak", ours)
