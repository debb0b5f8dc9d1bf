"""Members of packages of kinds that are not read: the finding, the count and the violation name one kind."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from fatpack.main import main

MEMBERS = {
    "dmg": (b"\x11" * 3000 + b"koly".ljust(512, b"\0"), "a disk image of macOS"),
    "wasm": (b"\0asm\1\0\0\0" + bytes(64), "a WebAssembly module"),
    "xcoff": (b"\x01\xf7" + bytes(14) + (120).to_bytes(2, "big") + bytes(64), "an XCOFF file of AIX"),
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("kind", MEMBERS)
def test_finding_count_and_violation_agree(
    kind: str, method: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data, words = MEMBERS[kind]
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as package:
        package.writestr("a/member", data)
    assert main(["inspect", str(path)]) == 4
    out = capsys.readouterr().out
    assert f"FP1006 at 0x0: {words}" in out
    assert f"not read: {words} (" in out
    assert main(["check", "--require", "sm_80", str(path)]) == 4
    out = capsys.readouterr().out
    assert f"FP3340: a/member: not read: {words}" in out
    assert f"not read: {words} (" in out
    assert main(["check", "--require", "sm_80", "--allow-unread", kind, str(path)]) == 1
    out = capsys.readouterr().out
    assert ("FP3341" in out, "FP3340" in out, "FP3302" in out) == (True, False, True)
