"""Builds: the cost of stand-ins in the place of a compiler's tools, for one tiny unit and for a small project.

Units are compiled one after the other, as one process of ``make`` does, in turns with the originals and with stand-ins.
A build is the sum over its units of their least processor time in several runs. Compilers take 4 % more or less from
run to run, which is more than stand-ins take: so what these take is measured by itself, too.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.bench import project
from tools.bench.measure import FATPACK, Command, Figure, command, measure, need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

UNITS = 12
ROUNDS, BULK_ROUNDS = 10, 1

#: The highest ratio of a build with stand-ins to one without.
LIMIT = 1.02

#: The stand-ins in use. clang-linker-wrapper is not among them: it would pass every link on to the original.
STAND_INS = ("clang-offload-bundler", "llvm-offload-binary", "fatbinary")


@dataclass(frozen=True, slots=True)
class Client:
    """A compiler: its name, the ending of its sources, and the options that every unit gets."""

    name: str
    suffix: str
    options: Sequence[str]

    def words(self, place: Path) -> list[str]:
        """Return the command that looks for its tools in a folder first."""
        if self.name == "nvcc":
            return [str(place / "nvcc"), *self.options]
        return [need(self.name), f"-B{place}", *self.options]


CLIENTS = {
    "nvcc, 3 architectures": Client(
        "nvcc", "cu", ["-O3", "-c", *(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in (80, 90, 120))]
    ),
    "clang, HIP, 3 architectures": Client(
        "clang",
        "hip",
        ["-x", "hip", "-nogpulib", "-nogpuinc", "-O3", "-c", "--offload-arch=gfx90a,gfx942,gfx1100"],
    ),
}


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures of each compiler that is installed."""
    for name, client in CLIENTS.items():
        folder = scratch / client.suffix
        places = [place(folder / which, client, which) for which in ("theirs", "ours", "counted")]
        yield from _figures(f"{name}: one tiny unit", client, places, [project.tiny(folder / f"tiny.{client.suffix}")])
        sources = project.units(folder, UNITS, client.suffix)
        yield from _figures(f"{name}: {UNITS} units", client, places, sources)


def _figures(what: str, client: Client, places: Sequence[Path], sources: Sequence[Path]) -> Iterator[Figure]:
    is_tiny = len(sources) == 1
    theirs = ours = whole = 0.0
    for source in sources:
        builds = {place.name: build(client, place, source) for place in places}
        whole += measure({"counted": builds["counted"]}, 1, is_warm=True)["counted"].processor
        rounds = ROUNDS if is_tiny else BULK_ROUNDS
        samples = measure({name: builds[name] for name in ("theirs", "ours")}, rounds, is_warm=True)
        theirs += samples["theirs"].processor
        ours += samples["ours"].processor
    spent = calls(places[2])
    (places[2] / "calls").unlink()
    facts = f"{ours:.2f} s, {theirs:.2f} s"
    yield Figure(what, ours / theirs, "x original", None, facts)
    facts = f"{len(spent)} calls of {sum(spent) / len(spent) * 1e3:.0f} ms in {whole:.1f} s"
    most = whole / (whole - sum(spent))
    yield Figure(f"{what}: if the originals took no time", most, "x original", None if is_tiny else LIMIT, facts)


def calls(place: Path) -> list[float]:
    """Return the processor time of each call of a stand-in, in seconds.

    ``times`` of a shell prints that of the shell, ``0m0.001s 0m0.002s``, and on a second line that of its children.
    """
    lines = (place / "calls").read_text().splitlines()[1::2]
    return [sum(int(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", line)) for line in lines]


def place(folder: Path, client: Client, which: str) -> Path:
    """Make a folder that a compiler looks into first, as docs/how-to/put-in-place.md does.

    It has no tools (``theirs``), stand-ins (``ours``), or scripts that write what each call took (``counted``).
    """
    folder.mkdir(parents=True)
    for name in () if which == "theirs" else STAND_INS:
        path = folder / name
        if which == "ours":
            path.symlink_to(FATPACK)
        else:
            path.write_text(f'#!/bin/bash\n{FATPACK} tool {name} "$@"\ncode=$?\ntimes >> {folder}/calls\nexit $code\n')
            path.chmod(0o755)
    if client.name == "nvcc":
        _place_nvcc(folder)
    return folder


def _place_nvcc(folder: Path) -> None:
    """Link nvcc into a folder, with a profile by which it looks there first."""
    said = subprocess.run([need("nvcc"), "--dryrun", "-c", "-x", "cu", "/dev/null"], capture_output=True, text=True)
    top = re.findall(r"^#\$ _HERE_=(.*)/bin$", said.stderr, re.MULTILINE)[0]
    for name in ("nvcc", "crt"):
        (folder / name).symlink_to(f"{top}/bin/{name}")
    with open(f"{top}/bin/nvcc.profile") as file:
        profile = re.sub(r"(?m)^TOP .*", f"TOP = {top}", file.read())
    profile = re.sub(r"(?m)^PATH .*", f"PATH += $(_HERE_):{top}/nvvm/bin:{top}/bin:", profile)
    (folder / "nvcc.profile").write_text(profile)


def build(client: Client, place: Path, source: Path) -> Command:
    """Return the command that compiles a unit."""
    return command(*client.words(place), source, "-o", place / f"{source.stem}.o")
