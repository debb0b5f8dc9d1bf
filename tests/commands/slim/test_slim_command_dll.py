"""``fatpack slim`` on DLLs: they get smaller, are proved, and lose their signature only where that is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import linked_pe
from tests.builders.fatbin import of_words

import fatpack
from fatpack.main import main


def _image(**options: bytes) -> linked_pe.Image:
    return linked_pe.build([of_words("70 75 80 86 89 90"), of_words("70 75 80 86 90")], **options)


def test_a_signed_dll_is_slimmed_without_its_signature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "a.dll", tmp_path / "b.dll"
    before.write_bytes(_image(signature=b"certificates ...").data)
    command = ["slim", str(before), "--keep", "sm_90", "-o", str(after)]
    assert main(command) == 4
    assert "--drop-signature" in capsys.readouterr().err and not after.exists()
    assert main([*command, "--drop-signature"]) == 0
    assert b"certificates" not in after.read_bytes() and after.stat().st_size < before.stat().st_size - 512
    capsys.readouterr()
    assert main(["slim", "--verify", str(before), str(after)]) == 0
    assert "with less device code, and nothing else" in capsys.readouterr().out
    other = tmp_path / "c.dll"
    fatpack.slim(before, other, keep="sm_90", drop_signature=True)
    assert other.read_bytes() == after.read_bytes()


def test_a_proof_leaves_no_words_of_other_libraries_behind(tmp_path: Path) -> None:
    before, after = tmp_path / "a.dll", tmp_path / "b.dll"
    before.write_bytes(_image().data)
    fatpack.slim(before, after, keep="sm_90")
    command = [
        sys.executable,
        "-c",
        "from fatpack.main import main; main()",
        "slim",
        "--verify",
        str(before),
        str(after),
    ]
    done = subprocess.run(command, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_dll_that_loses_no_more_than_its_signature_has_zeros(tmp_path: Path) -> None:
    before = tmp_path / "a.dll"
    before.write_bytes(linked_pe.build([of_words("80 90")], signature=b"certificates ...").data)
    found = fatpack.slim(before, tmp_path / "b.dll", keep="sm_90", drop_signature=True)
    (note,) = [note for note in found.notes if "zeroed" in note]
    assert note.startswith("the freed bytes were zeroed: ")
    before.write_bytes(linked_pe.build([of_words("80 90")]).data)
    found = fatpack.slim(before, tmp_path / "c.dll", keep="sm_90")
    (note,) = [note for note in found.notes if "zeroed" in note]
    assert note.startswith("file size unchanged, the freed bytes were zeroed: ")
