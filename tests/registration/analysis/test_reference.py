"""Objects of clang and nvcc, whole and with one thing broken: exactly the finding that belongs to the damage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration

import fatpack
from fatpack.io.open import open_source
from fatpack.registration.analysis import objects
from fatpack.scanner.context import detect_host

pytestmark = pytest.mark.reference

#: what compilers are told, by how hard they try
LEVELS = [("-O0",), ("-O1",), ("-O2", "-fPIC"), ("-Os", "-ffunction-sections")]
FEW = [("cuda", "x86_64-linux-gnu"), ("hip", "aarch64-linux-gnu"), ("cuda", "x86_64-pc-windows-msvc")]
ALL = [(model, target) for model in registration.MODELS for target in registration.TARGETS]


def codes(path: Path) -> list[str]:
    with fatpack.open(path) as file:
        return sorted({item.code for item in file.findings})


def registered(path: Path) -> set[str]:
    with open_source(str(path)) as source:
        view = source.view()
        return set(objects.object_evidence(objects.read_object(view, detect_host(view))).kernels)


def check(folder: Path, model: str, target: str, level: tuple[str, ...]) -> None:
    level = tuple(option for option in level if "windows" not in target or option != "-fPIC")
    embedded = registration.image(folder, model)
    text = registration.host_ir(folder, model, target, *level, embedded=embedded)
    whole = registration.compiled(folder, text, target, "whole", *level)
    assert codes(whole) == []
    assert registered(whole) == registration.KERNELS
    broken = {**registration.BROKEN, **(registration.BROKEN_PLAIN if level[0] == "-O0" else {})}
    for name, (edit, code) in broken.items():
        found = codes(registration.compiled(folder, edit(text), target, "broken", *level))
        if name == "no constructor" and level[0] != "-O0":
            # The optimiser may drop all that only a constructor used: the rest launches, and registers nothing.
            assert found in (["FP3043"], ["FP3041"]), name
        elif name in ("bad magic", "null pointer"):
            assert any(re.fullmatch(code, each) for each in found), name
            assert not any(each.startswith("FP304") for each in found), name
        else:
            assert found == [code], name
    other = registration.image(folder, model, registration.OTHER, "other")
    text = registration.host_ir(folder, model, target, *level, embedded=other)
    assert codes(registration.compiled(folder, text, target, "stale", *level)) == ["FP3046"]
    if model == "cuda":
        text = registration.host_ir(folder, model, target, *level)
        assert codes(registration.compiled(folder, text, target, "alone", *level)) == ["FP3041"]


@pytest.mark.parametrize(("model", "target"), FEW)
def test_what_is_broken_is_found_and_what_is_whole_is_silent(tmp_path: Path, model: str, target: str) -> None:
    check(tmp_path, model, target, LEVELS[0])


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
@pytest.mark.parametrize(("model", "target"), ALL)
def test_every_model_target_and_level(tmp_path: Path, model: str, target: str, level: tuple[str, ...]) -> None:
    check(tmp_path, model, target, level)


@pytest.mark.parametrize("options", [("-fgpu-rdc",), ("-fgpu-rdc", "--no-offload-new-driver"), ()], ids=" ".join)
@pytest.mark.parametrize("model", registration.MODELS)
def test_relocatable_device_code_lacks_nothing(tmp_path: Path, model: str, options: tuple[str, ...]) -> None:
    source = tmp_path / "unit.cu"
    source.write_text(registration.SOURCE)
    output = tmp_path / "unit.o"
    if model == "cuda":
        reference.tool("ptxas")
    reference.run("clang", *registration.OPTIONS[model], "-O1", *options, "-c", source, "-o", output)
    assert codes(output) == []
