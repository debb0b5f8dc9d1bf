"""Releases of wheels with variants, and the wheel that uv takes of each for a forced device and driver."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import reference
from tests.builders import wheels

#: The keys that all wheels of a release and its index share, as uv 0.13.9 and variantlib 0.2.2 read them.
SHARED: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
    "default-priorities": {"namespace": ["nvidia"]},
    "providers": {
        "nvidia": {
            "requires": ["nvidia-variant-provider>=0.0.1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        }
    },
}

#: label → namespace → feature → values
Variants = Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]


def document(variants: Variants, shared: Mapping[str, Any] = SHARED) -> bytes:
    """Return ``variant.json`` of a wheel or the index file of a release."""
    return json.dumps({**shared, "variants": variants}, indent=1).encode()


def wheel(
    name: str,
    label: str | None,
    variants: Variants,
    files: Mapping[str, bytes] | None = None,
    shared: Mapping[str, Any] = SHARED,
) -> bytes:
    """Return a wheel of version 1.0: with a label, also its ``variant.json``."""
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n".encode()
    own = {} if label is None else {f"{info}/variant.json": document({label: variants.get(label, {})}, shared)}
    return wheels.packed(wheels.files_of({**(files or {}), **own}, info=info, metadata=metadata))


def file_name(name: str, label: str | None) -> str:
    return f"{name}-1.0-py3-none-any{'' if label is None else f'-{label}'}.whl"


def write_release(
    folder: Path,
    name: str,
    variants: Variants,
    *,
    shared: Mapping[str, Any] = SHARED,
    files: Mapping[str | None, Mapping[str, bytes]] | None = None,
    has_null: bool = True,
    has_plain: bool = True,
) -> None:
    """Write the wheels of a release and its index file; ``files`` are those of each label, None for the plain wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {**variants, **({"null": {}} if has_null else {})}
    for label in [*told, *([None] if has_plain else [])]:
        data = wheel(name, label, told, (files or {}).get(label), shared)
        (folder / file_name(name, label)).write_bytes(data)
    (folder / f"{name}-1.0-variants.json").write_bytes(document(told, shared))


def uv_choices(folder: Path, names: Sequence[str], capability: str | None, driver: str | None) -> dict[str, str | None]:
    """Return the label that uv takes of each release, None for the wheel without one; nothing is installed."""
    found = dict(
        re.findall(
            r"Selecting: ([\w-]+)==1\.0 \[compatible\] \((\S+)\.whl\)", uv_log(folder, names, capability, driver)
        )
    )
    ends = {name: found[name].removeprefix(f"{name}-1.0-py3-none-any").removeprefix("-") for name in names}
    return {name: label or None for name, label in ends.items()}


def uv_log(folder: Path, names: Sequence[str], capability: str | None, driver: str | None) -> str:
    """Return what uv says when it resolves releases for a forced device and driver; nothing is installed."""
    forced = {
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": capability,
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": driver,
    }
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "NV_VARIANT"))}
    environment |= {key: value for key, value in forced.items() if value is not None}
    command = [reference.variant_tool("uv"), "pip", "install", "--preview-features", "wheel-variants", "--no-index"]
    command += ["--no-cache", "--no-config", "--no-deps", "--dry-run", "--verbose", "--target", str(folder / "into")]
    command += ["--python", reference.variant_tool("python"), "--find-links", str(folder), *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300).stderr
