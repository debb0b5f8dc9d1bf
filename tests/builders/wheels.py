"""Wheels for tests, as the specification of the binary distribution format describes them."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping

METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.5\nSummary: a demo\n\nVersion: in the description\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n\n"


def digest(data: bytes, name: str = "sha256") -> str:
    return f"{name}={base64.urlsafe_b64encode(hashlib.new(name, data).digest()).rstrip(b'=').decode()}"


def files_of(
    files: Mapping[str, bytes], *, info: str = "demo-1.5.dist-info", metadata: bytes = METADATA, end: str = "\n"
) -> dict[str, bytes]:
    """Return all files of a wheel with these, RECORD last."""
    found = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": WHEEL}
    lines = [f"{_spelled(name)},{digest(data)},{len(data)}{end}" for name, data in found.items()]
    return {**found, f"{info}/RECORD": "".join([*lines, f"{info}/RECORD,,{end}"]).encode()}


def _spelled(name: str) -> str:
    return f'"{name}"' if "," in name else name


def packed(files: Mapping[str, bytes]) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return into.getvalue()


def wheel(files: Mapping[str, bytes]) -> bytes:
    return packed(files_of(files))


def hexadecimal(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
