"""CIR containers on the command line: every form into every other, IDs given late, what is mended, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.cir import HOST, SM_80, SM_90

from fatpack.formats.cir.vocabulary import FORMS
from fatpack.main import main

SAMPLES = Path(__file__).parents[1] / "fixtures" / "cir" / "samples"
IDS = f"{HOST},{SM_80},{SM_90}"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def fatpack(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, capsys.readouterr().err

    return fatpack


def test_every_form_becomes_every_other(run: Run, tmp_path: Path) -> None:
    sources = [("host_lex.mlir", HOST), ("device_alias_conflict.mlir", SM_80)]
    images = [f"--image=file={SAMPLES / name},id={spelling}" for name, spelling in sources]
    for form in FORMS:
        run("pack", "--format=cir", f"--form={form}", *images, "-o", form)
    for form in FORMS:
        for other in FORMS:
            assert run("convert", form, "--format=cir", f"--cir-form={other}", "-o", "made", "-fq") == (0, "")
            assert (tmp_path / "made").read_bytes() == (tmp_path / other).read_bytes()


def test_modules_without_ids_get_those_that_are_given(run: Run, tmp_path: Path) -> None:
    old = SAMPLES / "container_op_generic.mlir"
    assert run("convert", old, "--format=cir", "--cir-ids", IDS, "-o", "k.cir")[0] == 0
    assert run("tool", "cir-offload-merge", "-split", "-input=k.cir", f"-targets={SM_80}", "-output=d") == (0, "")
    assert "k0" in (tmp_path / "d").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--format=cir", "--cir-ids", f"{HOST},{SM_80}"], "2 bundle IDs for 3 modules"),
        (["--format=cir", "--cir-ids", f"{HOST},{SM_80},x"], "bundle ID 'x': it has 1 of the five parts"),
        (["--format=cir", "--cir-ids", f"{HOST},{SM_80},{SM_80}"], f"two modules have the bundle ID '{SM_80}'"),
        (["--format=cir", "--cir-ids", f"{SM_80},{SM_90},{SM_90}a"], "no host module for a CIR container"),
        (["--format=bundle", "--cir-ids", IDS], "--cir-ids is for --format=cir, not for bundle"),
    ],
)
def test_ids_that_do_not_fit_are_refused(run: Run, tmp_path: Path, arguments: list[str], problem: str) -> None:
    code, err = run("convert", SAMPLES / "container_op_generic.mlir", *arguments, "-o", "k.cir")
    assert code == 2
    assert problem in err
    assert not (tmp_path / "k.cir").exists()


def test_roles_of_another_form_are_mended_by_converting(run: Run, tmp_path: Path) -> None:
    """Strings as kinds are those of the first prototype; current clang refuses them in a container of today's form."""
    good = (SAMPLES / "container_attr_2026.cir").read_text()
    (tmp_path / "k.cir").write_text(good.replace("#cir.offload<host>", '"host"'))
    assert (
        "expects 'cir.offload.kind' offload kind attribute"
        in run("tool", "cir-offload-merge", "-split", "-input=k.cir", f"-targets={HOST}", "-output=h")[1]
    )
    assert run("convert", "k.cir", "--format=cir", "-o", "new.cir")[0] == 0
    assert "kind = #cir.offload<host>" in (tmp_path / "new.cir").read_text()
    assert main(["inspect", "new.cir"]) == 0


def test_bytecode_is_not_combined_whatever_else_is_wrong(run: Run) -> None:
    code, err = run("convert", SAMPLES / "container_op_v6.mlirbc", "--format=cir", "-o", "k.cir")
    assert code == 4
    assert "MLIR bytecode cannot be combined; convert it to text first: cir-opt in.cirbc -o in.cir" in err
