"""Results and messages of slimmed files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from tests.laws.rooms import FIXTURES

from fatpack.commands.slim.outcome import arch_sort_key
from fatpack.main import main
from fatpack.text.schemas import schema_text


def test_architectures_are_in_the_order_of_their_numbers() -> None:
    archs = ["sm_75", "sm_90", "sm_90a", "sm_100"]
    assert sorted(archs[1::2] + archs[::2], key=arch_sort_key) == archs
    archs = ["gfx9-generic", "gfx900", "gfx90a", "gfx90a:xnack+", "gfx90c", "gfx942", "gfx1010", "gfx1250", "spir64"]
    assert sorted(archs[1::2] + archs[::2], key=arch_sort_key) == archs


REFUSED = FIXTURES / "cuda_fatbin" / "hosts" / "librel.so"


@pytest.mark.parametrize("advice", [("--allow-empty",), ("--keep", "sm_90")])
def test_what_a_refusal_tells_to_type_slims_the_file(
    advice: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of its containers were the input of a device link, whose result alone is loaded."""
    out = tmp_path / "out.so"
    words = ["slim", str(REFUSED), "--for", "sm_120", "--drop-ptx", "-o", str(out)]
    assert main(words) == 1
    assert not out.exists()
    said = capsys.readouterr().err
    assert "nothing in the file runs on sm_120: 1 container has sm_80, sm_90" in said
    assert " ".join(advice) in said
    assert "whose kernels fail on sm_120 as it is" in said
    main([*words, *advice])  # the exit code stays 1: nothing in the file is for the device
    assert out.read_bytes() != REFUSED.read_bytes()


def test_the_advice_names_the_files_that_it_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "libs"
    folder.mkdir()
    for name in ("libone.so", "libtwo.so", "libthree.so", "libfour.so"):
        shutil.copy(REFUSED, folder / name)
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so", folder / "libfine.so")
    words = ["slim", str(folder), "--for", "sm_120", "--drop-ptx", "-d", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    errors = [file["error"] for file in document["files"] if file["error"]]
    assert {error["hint"].partition(" ")[0] for error in errors} == {"--allow-empty"}
    assert all(error["message"].endswith(f"{error['problem']}; {error['hint']}") for error in errors)
    assert main([*words, "--force"]) == 1
    (hint,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hint")]
    assert hint.startswith("hint for libfour.so, libone.so, libthree.so and 1 more: --allow-empty")
