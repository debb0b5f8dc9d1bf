"""PTX has one name in every listing, table, report and file name: ``compute_80``, never that of machine code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main
from fatpack.model import arch_name

#: a cubin for sm_80 and PTX for sm_80
FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
LABELS = ["sm_80", "compute_80"]


@pytest.mark.parametrize(
    ("arch", "form", "name"),
    [
        ("sm_80", "ptx", "compute_80"),
        ("sm_90a", "relocatable-ptx", "compute_90a"),
        ("sm_80,sm_90", "ptx", "compute_80,compute_90"),
        ("compute_90", "ptx", "compute_90"),
        ("sm_80", "cubin", "sm_80"),
        ("sm_80", "bitcode", "sm_80"),
        ("gfx90a:xnack+", "code-object", "gfx90a:xnack+"),
        ("", "ptx", ""),
    ],
)
def test_the_name_of_an_architecture(arch: str, form: str, name: str) -> None:
    assert arch_name(arch, form) == name


def test_the_library_names_it_alike(tmp_path: Path) -> None:
    with fatpack.open(FATBIN) as file:
        assert [image.label for image in file] == LABELS
        assert ["compute_80" in repr(image) for image in file] == [False, True]
        page = file._repr_html_()
        assert page.count("compute_80") == 1
        for label, image in zip(LABELS, file, strict=True):
            assert image in file.images(arch=label)
    rows = fatpack.rows(FATBIN)
    assert [(row.label, row.arch) for row in rows if row.row == "image"] == [(label, "sm_80") for label in LABELS]
    kernels = fatpack.rows(FATBIN, of="kernels")
    assert list(dict.fromkeys(row.label for row in kernels if row.row == "kernel")) == LABELS
    names = [path.name for path in fatpack.extract(FATBIN, tmp_path / "images")]
    assert [name.partition("cuda-")[2] for name in names] == ["sm_80.0.cubin", "compute_80.1.ptx"]
    result = fatpack.write_report(FATBIN, tmp_path / "report.html")
    assert sorted(arch.label for arch in result.archs) == sorted(LABELS)
    output = tmp_path / "slim.fatbin"
    assert dict(fatpack.slim(FATBIN, output, drop="compute_80").dropped) == {"compute_80": 1}


def test_the_commands_name_it_alike(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        main([*arguments, str(FATBIN)])
        return capsys.readouterr().out

    lines = [line.split() for line in said("inspect").splitlines()]
    assert [words for words in lines if "cubin" in words or "ptx" in words] != []
    assert [
        next(word for word in words if word.endswith("_80")) for words in lines if {"cubin", "ptx"} & set(words)
    ] == LABELS
    table = said("inspect", "--by", "arch")
    assert all(label in table for label in LABELS)
    sums = json.loads(said("inspect", "--by", "arch", "--json"))
    assert sorted(row["arch"] for row in sums["rows"]) == sorted(LABELS)
    rows = [json.loads(line) for line in said("inspect", "--rows", "jsonl").splitlines()]
    assert [row["label"] for row in rows if row["row"] == "image"] == LABELS
