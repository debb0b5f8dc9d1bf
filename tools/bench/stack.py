"""Slimming real wheels: ``python -m tools.bench.stack [--record] [--column COLUMN]... [NAME...]``.

``docs/benchmarks.md`` has the table.

Downloads the wheels of ``stack.txt`` with pip, one at a time, and removes each after it was measured. A figure is the
processor time of ``fatpack slim`` as a share of that of ``unzip`` and ``zip`` on the same wheel, which packing it anew
takes: processor time, because a run takes an hour, in which a machine has other work. ``--column`` measures that column
alone and keeps the others of a row. Wheels that are at hand are found through ``PIP_FIND_LINKS``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.measure import FATPACK, ROOT

HERE = Path(__file__).parent
LIST = HERE / "stack.txt"
RECORDED = ROOT / "docs" / "benchmarks" / "stack.json"

#: column → options of ``fatpack slim``
COLUMNS = {
    "sm_90": ("--for", "sm_90"),
    "sm_86,sm_90": ("--for", "sm_86,sm_90"),
    "RTX 4090": ("--for", "RTX 4090"),
    "sm_75": ("--for", "sm_75"),
    "sm_120": ("--for", "sm_120"),
    "--lossless": ("--lossless",),
    "gfx942": ("--for", "gfx942"),
    "gfx90a,gfx1100": ("--for", "gfx90a,gfx1100"),
}
CUDA = list(COLUMNS)[:6]
ROCM = list(COLUMNS)[6:]

#: Larger wheels are compressed anew only if ``--column`` asks for it: that takes an hour for all of them.
LARGEST_LOSSLESS = 150 * 10**6


def wanted() -> list[tuple[str, str, str, str]]:
    """Return the wheels of the list: distribution, version, platform for pip, and the kind of its devices."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    found = [line.split() for line in lines if line[:1].isalpha()]
    return [(name, version, platform, kind) for name, version, platform, kind in found]


def download(name: str, version: str, platform: str, folder: Path) -> Path:
    """Return the path of a wheel that pip downloads. Raises CalledProcessError if it cannot be had."""
    platforms = [platform]
    if platform == "linux":
        platforms = [f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 24, 17, 12, 5)]
        platforms += ["manylinux2014_x86_64", "manylinux1_x86_64"]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.12", f"--dest={folder}"]
    options += [f"--platform={each}" for each in platforms]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, f"{name}=={version}"], check=True)
    (path,) = folder.glob("*.whl")
    return path


def seconds(command: list[str], folder: Path, codes: tuple[int, ...] = (0,)) -> tuple[float, str, int]:
    """Return the processor time of a command in seconds, its output, and its exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in codes:
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, done.stdout, done.returncode


def repacked(wheel: Path, folder: Path) -> float:
    """Return the processor time of unpacking a wheel and packing it again."""
    files = folder / "files"
    used = seconds(["unzip", "-q", str(wheel), "-d", str(files)], folder)[0]
    used += seconds(["zip", "-q", "-r", str(folder / "again.zip"), "."], files)[0]
    shutil.rmtree(files)
    (folder / "again.zip").unlink()
    return used


def slimmed(wheel: Path, options: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Return what slimming a wheel gives: size, processor time, and the libraries that stay, with their reasons."""
    out = folder / "slim"
    command = [str(FATPACK), "slim", str(wheel), *options, "-d", str(out), "--json"]
    used, printed, code = seconds(command, folder, (0, 1))
    document = json.loads(printed)
    sizes = [path.stat().st_size for path in out.glob("*.whl")]
    stays = [
        {
            "library": each["path"].rpartition("!")[2],
            "size": each["before"],
            "reason": each["error"]["problem"].partition(": container ")[0],
            "advice": each["error"]["hint"],
        }
        for each in document["files"]
        if each["error"]
    ]
    if out.exists():
        shutil.rmtree(out)
    # Where nothing is to be removed nothing is written, and the wheel is as large as before.
    size = sizes[0] if sizes else wheel.stat().st_size
    date = datetime.date.today().isoformat()
    return {"size": size, "seconds": round(used, 2), "exit_code": code, "stays": stays, "date": date}


def measured(
    name: str, version: str, platform: str, kind: str, columns: list[str], earlier: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the figures of one wheel; if ``columns`` are given, others are those of an ``earlier`` row."""
    with tempfile.TemporaryDirectory(prefix="fatpack-stack-") as scratch:
        folder = Path(scratch)
        wheel = download(name, version, platform, folder)
        row: dict[str, Any] = {"name": name, "version": version, "platform": platform, "size": wheel.stat().st_size}
        kept = earlier is not None and columns and earlier["version"] == version
        row["repacked"] = earlier["repacked"] if kept and earlier is not None else round(repacked(wheel, folder), 2)
        row["results"] = dict(earlier["results"]) if kept and earlier is not None else {}
        for column in ROCM if kind == "rocm" else CUDA:
            if columns and column not in columns:
                continue
            if column == "--lossless" and row["size"] > LARGEST_LOSSLESS and not columns:
                continue
            row["results"][column] = slimmed(wheel, COLUMNS[column], folder)
        return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.stack", description="Slim real wheels.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="distributions of stack.txt; default: all")
    parser.add_argument("--column", action="append", choices=list(COLUMNS), default=[], help="only this; repeatable")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/benchmarks.md")
    asked = parser.parse_args()
    failed = False
    rows = {(row["name"], row["platform"]): row for row in read()}
    for name, version, platform, kind in wanted():
        if asked.names and name not in asked.names:
            continue
        try:
            row = measured(name, version, platform, kind, asked.column, rows.get((name, platform)))
        except (subprocess.CalledProcessError, RuntimeError) as error:
            print(f"{name} {version}: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        print(json.dumps(row), flush=True)
        rows[name, platform] = row
        if asked.record:
            order = [(each[0], each[2]) for each in wanted()]
            kept = [rows[key] for key in order if key in rows]
            lines = ",\n".join(f"  {json.dumps(each)}" for each in kept)
            RECORDED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return int(failed)


def read() -> list[dict[str, Any]]:
    """Return the recorded rows; empty if none was recorded yet."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else []


if __name__ == "__main__":
    sys.exit(main())
