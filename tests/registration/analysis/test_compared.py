"""Names against images, architecture by architecture, and calls against entries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration
from tests.registration.analysis.test_programs import RUNTIME

import fatpack
from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source
from fatpack.main import main
from fatpack.registration.analysis.findings import missing_kernels

pytestmark = pytest.mark.reference

LINUX = "x86_64-linux-gnu"


def codes(path: Path) -> list[str]:
    with fatpack.open(path) as file:
        return sorted({item.code for item in file.findings})


def test_only_what_others_have_is_missing_somewhere() -> None:
    assert missing_kernels({"sm_80": {"a", "b"}, "sm_90": {"a"}}, {"a", "b", "c"}) == {"b": ["sm_90"]}
    assert missing_kernels({"sm_80": {"a", "b"}, "sm_90": {"a"}, "": {"b"}}, {"a", "b"}) == {}


def test_a_kernel_that_one_architecture_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guarded = registration.SOURCE.replace('extern "C" __global__ void plain', "GUARD").replace(
        "GUARD(int *p) { *p = counter; }",
        '#if !defined(__gfx1100__)\nextern "C" __global__ void plain(int *p) { *p = counter; }\n#endif\n',
    )
    source, image = tmp_path / "image.hip", tmp_path / "image.hipfb"
    source.write_text(guarded.replace("plain<<<a, a>>>(p);", ""))
    options = [*registration.OPTIONS["hip"], "--offload-arch=gfx1100", "--offload-device-only", "-O1", "-c"]
    reference.run("clang", *options, source, "-o", image)
    text = registration.host_ir(tmp_path, "hip", LINUX, "-O1", embedded=image)
    path = registration.compiled(tmp_path, text, LINUX, "unit")
    assert codes(path) == ["FP3054"]
    assert main(["inspect", "--runtime", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "images for gfx1100 lack, though others have them: plain" in shown
    assert [line.split() for line in shown.splitlines() if "missing" in line] == [["plain", "missing"]]


def test_kernels_of_images_that_nothing_registers(tmp_path: Path) -> None:
    more = registration.SOURCE + 'extern "C" __global__ void further(int *p) { *p = 9; }\n'
    image = registration.image(tmp_path, "cuda", more, "more")
    text = registration.host_ir(tmp_path, "cuda", LINUX, "-O1", embedded=image)
    path = registration.compiled(tmp_path, text, LINUX, "unit")
    with fatpack.open(path) as file:
        (found,) = file.findings
    assert (found.code, found.severity) == ("FP3052", "note")
    assert "further" in found.message


@pytest.mark.parametrize("model", registration.MODELS)
def test_units_of_two_models_linked_without_the_wrapper(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    text = registration.host_ir(tmp_path, model, LINUX, "-O1", "-fPIC", embedded=registration.image(tmp_path, model))
    registration.compiled(tmp_path, text, LINUX, "old")
    source = tmp_path / f"other.{model}"
    source.write_text(registration.SOURCE.replace("void launch", "void other_launch").replace(" plain", " further"))
    options = ["-fgpu-rdc", "--offload-new-driver", "--offload-host-only", f"--target={LINUX}", "-fPIC", "-O1"]
    reference.run("clang", *registration.OPTIONS[model], *options, "-c", source, "-o", tmp_path / "new.o")
    reference.run(
        "ld.lld", "-shared", "--eh-frame-hdr", "-z", "muldefs", "old.o", "new.o", "-o", "both.so", cwd=tmp_path
    )

    def found(name: str) -> set[str]:
        with open_source(str(tmp_path / name)) as opened:
            return {item["code"] for item in registration_record(opened.view())["findings"] if item["code"] > "FP3040"}

    assert "FP3047" in found("both.so")
    kind = f"--kind={model}"
    reference.run(
        "llvm-offload-wrapper", f"--triple={LINUX}", kind, "-o", "w.bc", f"image.{model}.fatbin", cwd=tmp_path
    )
    reference.run("llc", "-filetype=obj", "-relocation-model=pic", "w.bc", "-o", "w.o", cwd=tmp_path)
    inputs = ["old.o", "new.o", "w.o"]
    reference.run("ld.lld", "-shared", "--eh-frame-hdr", "-z", "muldefs", *inputs, "-o", "whole.so", cwd=tmp_path)
    assert "FP3047" not in found("whole.so")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("link", [["-static", "rt.o"], ["-shared", "librt.so"]], ids=["inside", "shared"])
@pytest.mark.parametrize(
    ("wrapper", "codes"),
    [
        ((), ["FP3049"]),
        (("--kind=openmp",), ["FP3049"]),
        (("--kind=cuda", "--as=19"), ["FP3049"]),
        (("--kind=cuda", "--as=22"), []),
    ],
    ids=["no wrapper", "a wrapper for another runtime", "a wrapper of another era", "whole"],
)
def test_entries_that_nothing_registers(
    tmp_path: Path, wrapper: tuple[str, ...], link: list[str], codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reference.package("capstone")
    more = ("atexit", "__tgt_register_lib", "__tgt_unregister_lib", "__cudaRegisterManagedVar")
    more += ("__cudaRegisterSurface", "__cudaRegisterTexture")
    runtime = RUNTIME + "".join(f"int {name}() {{ return 0; }}\n" for name in more)
    (tmp_path / "rt.c").write_text(runtime)
    (tmp_path / "unit.cu").write_text(
        "".join(line for line in registration.SOURCE.splitlines(True) if "<<<" not in line)
    )
    host = ["-fgpu-rdc", "--offload-new-driver", "--offload-host-only", f"--target={LINUX}", "-fPIC", "-O1", "-c"]
    reference.run("clang", "-fPIC", "-w", "-ffreestanding", "-c", "rt.c", "-o", "rt.o", cwd=tmp_path)
    reference.run("clang", *registration.OPTIONS["cuda"], *host, "unit.cu", "-o", "unit.o", cwd=tmp_path)
    reference.run("ld.lld", "-shared", "rt.o", "-o", "librt.so", cwd=tmp_path)
    inputs = ["unit.o"]
    if wrapper:
        image = tmp_path / "image.ptx"
        names = ("_Z5firstPi", "plain")
        entries = "".join(f".visible .entry {name}() {{ ret; }}\n" for name in names)
        image.write_text(f".version 8.0\n.target sm_80\n.address_size 64\n{entries}")
        assert main(["wrap", *wrapper, "-q", "-o", str(tmp_path / "w.o"), str(image)]) == 0
        inputs.append("w.o")
    reference.run("ld.lld", "--eh-frame-hdr", "-e", "0", *inputs, *link, "-o", "program", cwd=tmp_path)
    capsys.readouterr()
    if wrapper[:1] == ("--kind=cuda",):
        files = [str(tmp_path / name) for name in ("w.o", "program")]
        main(["inspect", "--runtime", *files[: 1 if codes else 2]])
        shown = capsys.readouterr().out
        assert shown.count("registers the offload entries of all objects") == (1 if codes else 2)
        assert "not read" not in shown
    assert main(["inspect", "--runtime", "--json", str(tmp_path / "program")]) == (1 if codes else 0)
    (record,) = json.loads(capsys.readouterr().out)["files"]
    assert sorted({item["code"] for item in record["findings"]}) == codes
    if not wrapper:
        (hint,) = {item["hint"] for item in record["findings"]}
        assert "a program does not show which archive that was: `fatpack link-inputs`" in hint
