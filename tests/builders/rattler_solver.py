"""Rattler's solver over a channel in a folder, for machines with any GPUs: what conda's clients would install."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import reference

#: Compute capabilities for which the channel has the metapackage, as conda-forge has it for each.
METAPACKAGES = "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.8 8.9 9.0 10.0 10.3 10.7 11.0 12.0 12.1 13.0".split()


def metapackages() -> dict[str, dict[str, Any]]:
    """Return ``cuda-arch`` for each capability: it can be installed where ``__cuda_arch`` is at least that."""
    rows = {}
    for version in METAPACKAGES:
        row = {"name": "cuda-arch", "version": version, "build": "h0_0", "build_number": 0, "subdir": "noarch"}
        depends = [f"__cuda_arch >={version}"]
        rows[f"cuda-arch-{version}-h0_0.conda"] = {**row, "noarch": "generic", "depends": depends}
    return rows


def channel(folder: Path, packages: Mapping[str, Mapping[str, Any]], subdir: str = "linux-64") -> Path:
    """Write what solvers read of a channel: packages as their ``index.json`` describes them, by file name."""
    for platform, rows in (("noarch", metapackages()), (subdir, packages)):
        (folder / platform).mkdir(parents=True, exist_ok=True)
        found = {name: {"subdir": platform, "sha256": "0" * 64, "size": 1, **row} for name, row in rows.items()}
        data = {
            "info": {"subdir": platform},
            "packages": {name: row for name, row in found.items() if name.endswith(".tar.bz2")},
            "packages.conda": {name: row for name, row in found.items() if name.endswith(".conda")},
        }
        (folder / platform / "repodata.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def virtual_packages(capability: str | None, cuda: str | None = "13.0") -> list[Any]:
    """Return what rattler detects of a machine with these overrides, "" for absent ones."""
    rattler = reference.package("rattler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONDA_OVERRIDE_CUDA", cuda or "")
        patch.setenv("CONDA_OVERRIDE_CUDA_ARCH", capability or "")
        found: list[Any] = rattler.VirtualPackage.detect(overrides=rattler.VirtualPackageOverrides.from_env())
    return found


def solve(folder: Path, specs: Iterable[str], machine: list[Any], subdir: str = "linux-64") -> dict[str, str] | None:
    """Return the build of each package that is installed, by name; None where the solver finds nothing."""
    rattler = reference.package("rattler")
    source = rattler.Channel(folder.as_uri())
    data = [
        rattler.SparseRepoData(source, platform, folder / platform / "repodata.json") for platform in (subdir, "noarch")
    ]
    try:
        rows = asyncio.run(rattler.solve_with_sparse_repodata(list(specs), data, virtual_packages=machine))
    except reference.package("rattler.exceptions").SolverError:
        return None
    return {row.name.normalized: str(row.build) for row in rows}
