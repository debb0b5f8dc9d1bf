"""uv, variantlib and pip judge split wheels: what they take for a device is what the table says, and it runs there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests import reference
from tests.builders import releases
from tests.builders.releases import NAME

import fatpack
from fatpack.commands.split.model import PackageFacts
from fatpack.main import main
from fatpack.targets.devices import parse_device
from fatpack.targets.installers.variant_documents import NEWEST_SCHEMA, SCHEMAS
from fatpack.targets.selection.drivers import parse_version
from fatpack.targets.selection.select_image import first_cuda_for_device

#: The versions with which everything about variants was tried.
PINNED = {"uv": "0.13.9", "variantlib": "0.2.2"}

#: What to do when one of them changes.
ADVICE = (
    "Both drafts move. Run the tests of this folder and of tests/targets/installers with the new version; compare the "
    "address of the schema that variantlib writes, and the documents that both refuse, with SCHEMAS and the rules in "
    "targets/installers/variant_documents.py; add a schema version there if there is a new one, and make it "
    "NEWEST_SCHEMA once uv reads it. Then change the versions here, in .ci/run, in SCHEMAS and in the documents."
)

DEVICES = ("7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
DRIVERS = ("11.8", "12.2", "12.8", "13.0")

#: A real wheel, if it is at hand: the folder of ``FATPACK_WHEELS`` has it.
REAL = "bitsandbytes-0.48.2-py3-none-manylinux_2_24_x86_64.whl"


def test_the_versions_are_those_with_which_it_was_tried() -> None:
    python = reference.variant_tool("python")
    code = "import importlib.metadata as m; print(*(m.version(n) for n in ('uv', 'variantlib')))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(PINNED, found, strict=True)) == PINNED, ADVICE
    for version in PINNED.values():
        assert any(version in schema.readers for schema in SCHEMAS.values()), ADVICE


def test_the_newest_schema_is_known_to_variantlib() -> None:
    """variantlib 0.2.2 writes the address from before the PEP was split; the version is the same."""
    code = "from variantlib.constants import VARIANT_INFO_SCHEMA_URL as u; print(u)"
    python = reference.variant_tool("python")
    address = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert address == "https://variants-schema.wheelnext.dev/v0.2.0.json", ADVICE
    assert SCHEMAS[NEWEST_SCHEMA].address.endswith("/v0.2.0.json"), ADVICE


def uv_label(folder: Path, project: str, device: str | None, driver: str | None) -> str:
    """Return the label of the wheel that uv takes from an index or folder, "" for the wheel without one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "NV_VARIANT"))}
    if device is not None:
        environment["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = device
    if driver is not None:
        environment["NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"] = driver
    command = [
        reference.variant_tool("uv"),
        "pip",
        "install",
        "--preview-features",
        "wheel-variants",
        "--dry-run",
        "-v",
    ]
    command += ["--no-cache", "--no-config", "--no-deps", "--no-index", "--find-links", str(folder)]
    command += ["--python", reference.variant_tool("python"), "--target", str(folder / "into"), project]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    found = re.search(r"Selecting: \S+ \[compatible\] \((\S+)\.whl\)", done.stderr)
    assert found is not None, done.stderr
    parts = found[1].split("-")
    return parts[-1] if len(parts) == 6 else ""


def wanted(package: PackageFacts, device: str, driver: str) -> str:
    """Return the label that the table says."""
    (row,) = (one for one in package.devices if one.device == device)
    is_older = row.driver and tuple(map(int, driver.split("."))) < tuple(map(int, row.driver.split(".")))
    return row.otherwise if is_older else row.label


def check_variantlib(folder: Path, labels: Iterable[str], index: str) -> None:
    """variantlib reads each wheel, and makes the same index file of them."""
    tool = reference.variant_tool("variantlib")
    ours = json.loads((folder / index).read_bytes())
    for label in labels:
        (path,) = folder.glob(f"*-{label}.whl")
        done = subprocess.run([tool, "analyze-wheel", "-i", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"Variant: `{label}`" in done.stdout
        for vendor, features in ours["variants"][label].items():
            for feature, values in features.items():
                assert all(f"{vendor} :: {feature} :: {value}" in done.stdout for value in values)
    done = subprocess.run([tool, "generate-index-json", "-d", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = json.loads((folder / index).read_bytes())
    assert {**theirs, "$schema": ours["$schema"]} == ours


@pytest.mark.slow
@pytest.mark.parametrize(
    "containers",
    [("75 80 86 89 90 100 120 p120",), ("80 90 p80@8.4", "80 zstd"), ("80 90a 100a", "75 86 p75")],
    ids=["all", "floors", "tied"],
)
@pytest.mark.parametrize("by", ["family", "device"])
def test_uv_takes_what_the_table_says_and_it_runs(containers: tuple[str, ...], by: str, tmp_path: Path) -> None:
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel(*containers, toolkit=12))
    (release,) = fatpack.split(fat, out, by=by).releases
    (package,) = release.packages
    for device in DEVICES:
        for driver in DRIVERS:
            label = uv_label(out, "demo", device, driver)
            first = fatpack.explain(fat, device, cuda=driver)
            known = first_cuda_for_device(parse_device(device))
            if known is not None and known > parse_version(driver):
                continue  # the driver does not find the device
            assert label == wanted(package, device, driver), (device, driver)
            taken = out / f"{NAME}-{label}.whl"
            now = fatpack.explain(taken, device, cuda=driver)
            assert now.devices[0].runs >= first.devices[0].runs, (device, driver, label)
    check_variantlib(out, [one.label for one in package.variants], release.index)


@pytest.mark.slow
def test_a_machine_without_gpu_gets_null(tmp_path: Path) -> None:
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel("80 90"))
    fatpack.split(fat, out)
    assert uv_label(out, "demo", None, None) == "null"
    (out / f"{NAME}-null.whl").unlink()
    assert uv_label(out, "demo", None, None) == ""


@pytest.mark.slow
def test_the_old_schema_is_read_and_chooses_nothing(tmp_path: Path) -> None:
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel("80 90"))
    fatpack.split(fat, out, schema_version="0.1.1")
    assert uv_label(out, "demo", "9.0", "13.0") == "null"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_pip_gets_the_fat_wheel_and_uv_a_thin_one_from_an_index(tmp_path: Path) -> None:
    """A simple index with all files of the folder, on this machine: the example of the page, with a server."""
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel("80 90 p80"))
    assert main(["split", str(fat), "-d", str(out), "-q"]) == 0
    site = tmp_path / "site" / "simple" / "demo"
    site.mkdir(parents=True)
    for path in out.iterdir():
        path.rename(site / path.name)
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in sorted(site.iterdir()))
    (site / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "site")))
    thread = Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/simple"
    forced = {"NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))} | forced
    python, uv = reference.variant_tool("python"), reference.variant_tool("uv")
    try:
        command = [
            python,
            "-m",
            "pip",
            "install",
            "--isolated",
            "--no-deps",
            "--no-cache-dir",
            "-q",
            "--index-url",
            address,
        ]
        subprocess.run([*command, "--target", str(tmp_path / "pip"), "demo"], env=environment, check=True, timeout=300)
        command = [
            uv,
            "pip",
            "install",
            "--preview-features",
            "wheel-variants",
            "--no-cache",
            "--no-config",
            "--no-deps",
        ]
        command += ["--index-url", address, "--python", python, "--target", str(tmp_path / "uv"), "demo"]
        subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True)
        plain = [uv, "pip", "install", "--no-cache", "--no-config", "--no-deps", "--index-url", address]
        plain += ["--python", python, "--target", str(tmp_path / "plain"), "demo"]
        subprocess.run(plain, env=environment, check=True, timeout=300, capture_output=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    def archs(name: str) -> set[str | None]:
        return {row.label for row in fatpack.rows(tmp_path / name / "demo" / "libdemo.so") if row.row == "image"}

    assert archs("pip") == archs("plain") == {"sm_80", "sm_90", "compute_80"}
    assert archs("uv") == {"sm_90"}
    assert not (tmp_path / "pip" / "demo-1.5.dist-info" / "variant.json").exists()
    assert (tmp_path / "uv" / "demo-1.5.dist-info" / "variant.json").exists()


@pytest.mark.slow
def test_a_real_wheel_is_taken_as_the_table_says(tmp_path: Path) -> None:
    folder = os.environ.get("FATPACK_WHEELS")
    path = Path(folder or ".") / REAL
    if not folder or not path.is_file():
        pytest.skip(f"FATPACK_WHEELS names no folder with {REAL}")
    out = tmp_path / "out"
    (release,) = fatpack.split(path, out).releases
    (package,) = release.packages
    assert [one.label for one in release.labels] == ["sm60", "sm70", "sm80", "sm90", "sm100", "sm120"]
    for device in ("7.5", "8.6", "9.0", "10.3", "11.0", "12.1"):
        for driver in ("12.9", "13.0"):
            assert uv_label(out, "bitsandbytes", device, driver) == wanted(package, device, driver)
    assert fatpack.verify_split(path, out).is_proved
    check_variantlib(out, [one.label for one in package.variants], release.index)
