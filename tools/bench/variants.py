"""Wheels split and offered to uv: ``python -m tools.bench.variants [--record] WHEEL...``.

``docs/benchmarks.md`` has the table.

Each wheel is split by family and put into a simple index on this machine. For 20 devices and 4 drivers uv says which
wheel it takes, which has to be the one of the table that ``split`` prints; each wheel that was taken is installed once,
and ``explain`` says of the installation that it runs as the fat wheel does. pip has to take the fat wheel, and
variantlib to read every wheel and to make the same index file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tools.bench.measure import ROOT

import fatpack
from fatpack.commands.split.model import PackageFacts, SplitResult
from fatpack.packages.wheel_names import WheelName, split_wheel_name
from fatpack.targets.devices import parse_device
from fatpack.targets.selection.drivers import parse_version
from fatpack.targets.selection.select_image import first_cuda_for_device

RECORDED = ROOT / "docs" / "benchmarks" / "variants.json"

#: what has uv, variantlib and a Python
TOOLS = ROOT / ".reference" / "variants" / "bin"

#: every device that NVIDIA's provider may list and that has a CUDA driver, and drivers before, among and after them
DEVICES = (
    *("5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0"),
    *("10.0", "10.3", "10.7", "11.0", "12.0", "12.1"),
)
DRIVERS = ("11.8", "12.2", "12.8", "13.0")

#: what a question gets: the wheel of the table or not, and if it runs as the fat one does
COUNTS = ("questions", "agree", "served", "lost")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _project(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("-")[0]).lower()


@contextmanager
def index_of(folder: Path, project: str) -> Iterator[str]:
    """Serve the files of a folder as a simple index; give its address. Metadata is beside the wheels (PEP 658)."""
    with tempfile.TemporaryDirectory(prefix="fatpack-index-") as scratch:
        page = Path(scratch) / "simple" / project
        page.mkdir(parents=True)
        links = []
        for path in sorted(folder.iterdir()):
            (page / path.name).symlink_to(path.resolve())
            marked = ""
            if path.suffix == ".whl":
                with zipfile.ZipFile(path) as archive:
                    found = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
                    (page / f"{path.name}.metadata").write_bytes(archive.read(found))
                marked = ' data-core-metadata="true"'
            links.append(f'<a href="{path.name}"{marked}>{path.name}</a>\n')
        (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=scratch))
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _environment(device: str | None, driver: str | None) -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_", "NV_VARIANT"))}
    forced = {"SM_ARCH": device, "CUDA_DRIVER_VERSION": driver}
    return found | {f"NV_VARIANT_PROVIDER_FORCE_{name}": value for name, value in forced.items() if value is not None}


def _ran(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return done


def uv_takes(
    source: Sequence[str], project: str, device: str | None, driver: str | None, into: Path, *options: str
) -> str:
    """Return the label of the wheel that uv takes, "" for the wheel without one.

    ``source`` are the options that say from where, ``device`` and ``driver`` what it finds: None for no such thing.
    With ``--dry-run`` among the ``options`` nothing is installed. Raises RuntimeError if uv takes none.
    """
    command = [str(TOOLS / "uv"), "pip", "install", "--preview-features", "wheel-variants", "-v", "--no-cache"]
    command += ["--no-config", "--no-deps", *source, "--python", str(TOOLS / "python"), "--target", str(into)]
    done = _ran([*command, *options, project], _environment(device, driver))
    found = re.search(r"Selecting: \S+ \[compatible\] \((\S+)\.whl\)", done.stderr)
    if found is None:
        raise RuntimeError(f"uv takes nothing: {done.stderr[-2000:]}")
    parts = found[1].split("-")
    return parts[-1] if len(parts) == 6 else ""


def label_of_table(package: PackageFacts, device: str, driver: str) -> str:
    """Return the label that a device gets with a driver, by what ``split`` returned."""
    (row,) = (one for one in package.devices if one.device == device)
    is_older = bool(row.driver) and parse_version(driver) < parse_version(row.driver)
    return row.otherwise if is_older else row.label


def agrees_with_variantlib(folder: Path, labels: Iterable[str], index: str) -> bool:
    """Return whether variantlib reads the wheel of every label, and makes the same index file of them."""
    tool = str(TOOLS / "variantlib")
    ours = json.loads((folder / index).read_bytes())
    for label in labels:
        (path,) = folder.glob(f"*-{label}.whl")
        text = _ran([tool, "analyze-wheel", "-i", str(path)], os.environ).stdout
        properties = ours["variants"][label].items()
        lines = [f"{n} :: {f} :: {v}" for n, features in properties for f, values in features.items() for v in values]
        if f"Variant: `{label}`" not in text or not all(line in text for line in lines):
            return False
    with tempfile.TemporaryDirectory(prefix="fatpack-variants-") as scratch:
        for path in folder.glob("*.whl"):
            (Path(scratch) / path.name).symlink_to(path.resolve())
        _ran([tool, "generate-index-json", "-d", scratch], os.environ)
        made = json.loads((Path(scratch) / index).read_bytes())
    return bool({**made, "$schema": ours["$schema"]} == ours)


def pip_takes_the_fat_wheel(address: str, project: str, name: WheelName, into: Path) -> bool:
    """Return whether pip takes the wheel without label."""
    command = [str(TOOLS / "python"), "-m", "pip", "download", "--isolated", "--no-deps", "--no-cache-dir", "-q"]
    command += ["--index-url", address, "--dest", str(into), *_like(name, "pip"), project]
    _ran(command, _environment(None, None))
    (found,) = into.iterdir()
    return found.name == name.file_name


def _like(name: WheelName, tool: str) -> list[str]:
    """Return the options by which a tool takes a wheel for another Python than its own."""
    digits = re.search(r"cp3(\d+)", name.file_name)
    version = f"3.{digits[1]}" if digits else "3.12"
    if tool == "uv":
        return ["--python-version", version, "--python-platform", "x86_64-manylinux_2_28"]
    platforms = [word for part in name.file_name.removesuffix(".whl").split("-")[4:] for word in part.split(".")]
    return ["--only-binary=:all:", f"--python-version={version}", *(f"--platform={one}" for one in platforms)]


def _is_found(device: str, driver: str) -> bool:
    """Return whether a driver of a CUDA version finds a device."""
    first = first_cuda_for_device(parse_device(device))
    return first is None or first <= parse_version(driver)


def _runs(path: Path, devices: Sequence[str], driver: str) -> dict[str, tuple[int, int]]:
    """Return how many units run on each device, and how many may."""
    if not devices:
        return {}
    answers = fatpack.explain(path, list(devices), cuda=driver).devices
    return {device: (one.runs, one.unknown) for device, one in zip(devices, answers, strict=True)}


def measured(wheel: Path, devices: Sequence[str] = DEVICES, drivers: Sequence[str] = DRIVERS) -> dict[str, Any]:
    """Return what the installers did with a wheel that was split. Raises RuntimeError where one fails."""
    name = split_wheel_name(wheel.name)
    assert name is not None
    with tempfile.TemporaryDirectory(prefix="fatpack-variants-") as scratch:
        folder = Path(scratch)
        out = folder / "out"
        result: SplitResult = fatpack.split(wheel, out)
        (release,) = result.releases
        (package,) = release.packages
        row: dict[str, Any] = {"wheel": wheel.name, "size": package.size}
        row["labels"] = {one.label: one.size for one in package.variants}
        row |= dict.fromkeys(COUNTS, 0)
        project = _project(wheel.name)
        installed: dict[str, Path] = {}
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "fat")
        with index_of(out, project) as address:
            source, like = ["--index-url", address], _like(name, "uv")
            asked = [(device, driver) for device in devices for driver in drivers]
            row["questions"] = len(asked)
            taken: dict[tuple[str, str], str] = {}
            for device, driver in asked:
                taken[device, driver] = label = uv_takes(
                    source, project, device, driver, folder / "none", "--dry-run", *like
                )
                if label not in installed:
                    installed[label] = folder / f"into-{label}"
                    uv_takes(source, project, device, driver, installed[label], *like)
        for driver in drivers:
            # No driver finds a device that is newer: the table says nothing of it, and nothing runs.
            known = [device for device in devices if _is_found(device, driver)]
            row["agree"] += sum(taken[device, driver] in row["labels"] for device in devices if device not in known)
            row["agree"] += sum(taken[device, driver] == label_of_table(package, device, driver) for device in known)
            before = _runs(folder / "fat", known, driver)
            row["served"] += sum(counts > (0, 0) for counts in before.values())
            for label, path in installed.items():
                now = _runs(path, [device for device in known if taken[device, driver] == label], driver)
                row["lost"] += sum(
                    runs < before[device][0] or runs + unknown < sum(before[device])
                    for device, (runs, unknown) in now.items()
                )
        with index_of(out, project) as address:
            row["pip"] = pip_takes_the_fat_wheel(address, project, name, folder / "pip")
        row["variantlib"] = agrees_with_variantlib(out, row["labels"], release.index)
        row["proved"] = fatpack.verify_split(wheel, out).is_proved
    return row


def is_as_expected(row: Mapping[str, Any]) -> bool:
    """Return whether all installers did what the table says, and no device lost anything."""
    return row["questions"] == row["agree"] and not row["lost"] and row["pip"] and row["variantlib"] and row["proved"]


def versions() -> dict[str, str]:
    """Return the versions of the installers."""
    code = "import importlib.metadata as m; print(*(m.version(n) for n in ('uv', 'variantlib', 'pip')))"
    found = _ran([str(TOOLS / "python"), "-c", code], os.environ).stdout.split()
    return dict(zip(("uv", "variantlib", "pip"), found, strict=True))


def read() -> dict[str, Any]:
    """Return what was recorded last: the date, the versions of the installers, and a row for each wheel."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8"))) if RECORDED.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.variants", description="Offer split wheels to uv.")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument("--record", action="store_true", help="keep the rows for the documents")
    asked = parser.parse_args()
    rows = {row["wheel"]: row for row in read().get("rows", [])}
    failed = False
    for wheel in asked.wheels:
        row = measured(wheel)
        print(json.dumps(row), flush=True)
        failed |= not is_as_expected(row)
        rows[wheel.name] = row
        if asked.record:
            document = {"date": date.today().isoformat(), "versions": versions(), "rows": list(rows.values())}
            RECORDED.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
